// [report_change] the largest change of a sweep: on CUDA one number for all threads, on the CPU one a thread
#if defined(__CUDA_ARCH__)
for (int far = 16; far > 0; far /= 2)
    value = fmax(value, __shfl_xor_sync(0xffffffffu, value, far));
// doubles that are not negative compare like their bits
if ((threadIdx.x & 31) == 0 && value > 0.0)
    atomicMax((unsigned long long*)(changes.data + place), (unsigned long long)__double_as_longlong(value));
#else
changes.data[place] = value;
#endif
