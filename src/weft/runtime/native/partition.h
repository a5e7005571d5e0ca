// How the threads of a cooperative kernel divide the items of a pass: on CUDA with a grid stride, on the CPU in contiguous
// ranges. Passes of few items are run by the first block, or by the first thread of the CPU, alone.

// [return_interleaved] the number of thread t if consecutive warps are taken from consecutive blocks, so that every
// multiprocessor gets its fraction of a pass that is smaller than the grid
return ((t % $BLOCK) / $WARP * (threads / $BLOCK) + t / $BLOCK) * $WARP + t % $WARP;

// [interleaved_thread] int interleaved_thread(int t, int threads)
#if defined(__CUDA_ARCH__)
// [include return_interleaved]
#else
return t;
#endif

// [partition_begin] int partition_begin(int t, int threads, int count)
#if defined(__CUDA_ARCH__)
if (count <= $ONE_BLOCK_ITEMS)
    return t < $BLOCK ? t : count;
// [include return_interleaved]
#else
if (count <= $ONE_THREAD_ITEMS)
    return t == 0 ? 0 : count;
return (int)((wp::int64)count * t / threads);
#endif

// [partition_end] int partition_end(int t, int threads, int count)
#if defined(__CUDA_ARCH__)
return count;
#else
if (count <= $ONE_THREAD_ITEMS)
    return count;
return (int)((wp::int64)count * (t + 1) / threads);
#endif

// [partition_step] int partition_step(int threads, int count)
#if defined(__CUDA_ARCH__)
return count <= $ONE_BLOCK_ITEMS ? $BLOCK : threads;
#else
return 1;
#endif

// [partition_rounds] int partition_rounds(int threads, int count)
#if defined(__CUDA_ARCH__)
return count <= $ONE_BLOCK_ITEMS ? 1 : (count + threads - 1) / threads;
#else
return count <= $ONE_THREAD_ITEMS ? count : (count + threads - 1) / threads;
#endif
