// Exclusive prefix sums: by one thread, and the two passes of one over the blocks of a grid, each by one block.

// [serial_scan] int serial_scan(array<int> values, array<int> offsets, int count): returns the total
int offset = 0;
for (int i = 0; i < count; ++i) {
    const int value = values.data[i];
    offsets.data[i] = offset;
    offset += value;
}
return offset;

// [block_sum_of_range] int block_sum_of_range(int begin, int end, array<int> values)
#if defined(__CUDA_ARCH__)
__shared__ int of_warps[$BLOCK / $WARP];
int sum = 0;
for (int i = begin + threadIdx.x; i < end; i += $BLOCK)
    sum += values.data[i];
for (int offset = $WARP / 2; offset > 0; offset /= 2)
    sum += __shfl_xor_sync(0xffffffffu, sum, offset);
if ((threadIdx.x & ($WARP - 1)) == 0)
    of_warps[threadIdx.x / $WARP] = sum;
__syncthreads();
sum = 0;
for (int k = 0; k < $BLOCK / $WARP; ++k)
    sum += of_warps[k];
__syncthreads();
return sum;
#else
return 0;
#endif

// [block_scan_of_range] void block_scan_of_range(int begin, int end, int start, array<int> values, array<int> offsets)
#if defined(__CUDA_ARCH__)
__shared__ int of_warps[$BLOCK / $WARP];
const int lane = threadIdx.x & ($WARP - 1);
for (; begin < end; begin += $BLOCK) {
    const int i = begin + threadIdx.x, value = i < end ? values.data[i] : 0;
    // the inclusive sum within the warp
    int sum = value;
    for (int distance = 1; distance < $WARP; distance *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, distance);
        sum += lane >= distance ? other : 0;
    }
    if (lane == $WARP - 1)
        of_warps[threadIdx.x / $WARP] = sum;
    __syncthreads();
    // and what the warps before it hold
    int offset = start + sum - value;
    for (int k = 0; k < $BLOCK / $WARP; ++k) {
        offset += k < threadIdx.x / $WARP ? of_warps[k] : 0;
        start += of_warps[k];
    }
    if (i < end)
        offsets.data[i] = offset;
    __syncthreads();
}
#endif
