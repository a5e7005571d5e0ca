// Reductions over the lanes of a warp, over a block, and from all blocks (or all threads of the CPU) into global memory. A
// block reduces each of its warps with shuffles, then the results of the warps through shared memory. On the CPU a thread is
// its own only lane and its own block.

// [lanes] int lanes()
#if defined(__CUDA_ARCH__)
return $WARP;
#else
return 1;
#endif

// [lane_sum] double lane_sum(double value)
#if defined(__CUDA_ARCH__)
for (int offset = $WARP / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
#endif
return value;

// [lane_max] double lane_max(double value)
#if defined(__CUDA_ARCH__)
for (int offset = $WARP / 2; offset > 0; offset /= 2)
    value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
#endif
return value;

// [sync_lanes] void sync_lanes()
#if defined(__CUDA_ARCH__)
__syncwarp();
#endif

// [sum_of_warps] defines of_warps[k], the sum of `value` over warp k of the block
__shared__ decltype(value) of_warps[$BLOCK / $WARP];
for (int offset = $WARP / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(0xffffffffu, value, offset);
if ((threadIdx.x & ($WARP - 1)) == 0)
    of_warps[threadIdx.x / $WARP] = value;
__syncthreads();

// [block_sum] double block_sum(double value)
#if defined(__CUDA_ARCH__)
// [include sum_of_warps]
value = 0.0;
for (int k = 0; k < $BLOCK / $WARP; ++k)
    value += of_warps[k];
__syncthreads();
#endif
return value;

// [block_max] double block_max(double value)
#if defined(__CUDA_ARCH__)
__shared__ double of_warps[$BLOCK / $WARP];
for (int offset = $WARP / 2; offset > 0; offset /= 2)
    value = max(value, __shfl_xor_sync(0xffffffffu, value, offset));
if ((threadIdx.x & ($WARP - 1)) == 0)
    of_warps[threadIdx.x / $WARP] = value;
__syncthreads();
for (int k = 0; k < $BLOCK / $WARP; ++k)
    value = max(value, of_warps[k]);
__syncthreads();
#endif
return value;

// [reduce_sum] void reduce_sum(array<int> counts, int index, int value)
#if defined(__CUDA_ARCH__)
// [include sum_of_warps]
if (threadIdx.x == 0) {
    value = 0;
    for (int k = 0; k < $BLOCK / $WARP; ++k)
        value += of_warps[k];
    if (value != 0)
        atomicAdd(counts.data + index, value);
}
__syncthreads();
#else
if (value != 0)
    __atomic_fetch_add(counts.data + index, value, __ATOMIC_RELAXED);
#endif

// [reduce_max] void reduce_max(array<double> maxima, int index, double value)
// NaN counts as larger than every number, so that it is not lost
#define WEFT_LARGER(a, b) ((a) > (b) || (a) != (a))
#if defined(__CUDA_ARCH__)
__shared__ double of_warps[$BLOCK / $WARP];
for (int offset = $WARP / 2; offset > 0; offset /= 2) {
    const double other = __shfl_xor_sync(0xffffffffu, value, offset);
    value = WEFT_LARGER(other, value) ? other : value;
}
if ((threadIdx.x & ($WARP - 1)) == 0)
    of_warps[threadIdx.x / $WARP] = value;
__syncthreads();
if (threadIdx.x == 0) {
    for (int k = 0; k < $BLOCK / $WARP; ++k)
        value = WEFT_LARGER(of_warps[k], value) ? of_warps[k] : value;
    // CUDA has no atomic maximum of doubles: compare and swap the bits
    unsigned long long* target = (unsigned long long*)(maxima.data + index);
    unsigned long long known = *(volatile unsigned long long*)target;
    while (!isnan(__longlong_as_double(known)) && WEFT_LARGER(value, __longlong_as_double(known))) {
        const unsigned long long seen = atomicCAS(target, known, (unsigned long long)__double_as_longlong(value));
        if (seen == known)
            break;
        known = seen;
    }
}
__syncthreads();
#else
double known;
__atomic_load(maxima.data + index, &known, __ATOMIC_RELAXED);
while (known == known && WEFT_LARGER(value, known)) {
    if (__atomic_compare_exchange(maxima.data + index, &known, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        break;
}
#endif
#undef WEFT_LARGER
