// Bodies of the native functions of list_kernels.py.

// [copy_slots] one of `lanes` threads copies its share of `count` entries
const auto* from = slots.data + start;
auto* to = found.data + place;
if (lanes == 1)
    // a plain loop, which the compiler turns into a block copy
    for (int k = 0; k < count; ++k)
        to[k] = from[k];
else
    for (int k = lane; k < count; k += lanes)
        to[k] = from[k];

// [count_below] how many of `count` entries are smaller than `entry`
const int* slot = slots.data + start;
int below = 0, k = 0;
#if defined(__CUDA_ARCH__)
// four with one load, where the address is aligned for it
if (((size_t)slot & 15) == 0)
    for (; k + 4 <= count; k += 4) {
        const int4 four = *(const int4*)(slot + k);
        below += (four.x < entry) + (four.y < entry) + (four.z < entry) + (four.w < entry);
    }
#endif
for (; k < count; ++k)
    below += slot[k] < entry;
return below;
