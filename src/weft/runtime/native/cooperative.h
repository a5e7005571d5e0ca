// Barriers of cooperative kernels: on CUDA between all blocks of a grid or of a cluster, on the CPU between the threads of
// the pool. `arrivals` is the barrier's memory: arrivals[0] is an arrival counter. On the CPU arrivals[1] is the number of
// threads, and from arrivals[2] on come three 64-bit integers: the addresses of the system's yield and clock functions, and
// the nanoseconds of all long waits of all threads.

// [arrive_at_grid] the first thread of a block announces its arrival; `old` becomes the counter before it. The first
// block adds what flips the top bit once all others have added one, whatever the counter was before
const unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(arrivals.data), "r"(add) : "memory");

// [wait_for_grid] the first thread of a block spins until the top bit of the counter differs from `old`
unsigned counter;
do {
    asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(counter) : "l"(arrivals.data) : "memory");
} while (((old ^ counter) & 0x80000000u) == 0);

// [cluster_size] blocks of the cluster of this block, 1 where there are no clusters
unsigned cluster_size = 1;
#if __CUDA_ARCH__ >= 10 * $CLUSTER_ARCH
asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(cluster_size));
#endif

// [arrive_at_cluster] all threads of the cluster
#if __CUDA_ARCH__ >= 10 * $CLUSTER_ARCH
asm volatile("barrier.cluster.arrive.release;" : : : "memory");
#endif

// [wait_for_cluster] all threads of the cluster
#if __CUDA_ARCH__ >= 10 * $CLUSTER_ARCH
asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
#endif

// [sync_grid] defines sync_grid() for CUDA code that has `arrivals`: a barrier of all threads of the launch
const auto sync_grid = [&]() {
    // [include cluster_size]
    if (cluster_size > 1) {
        // [include arrive_at_cluster]
        // [include wait_for_cluster]
        return;
    }
    __syncthreads();
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) {
            unsigned old;
            // [include arrive_at_grid]
            // [include wait_for_grid]
        }
        __syncthreads();
    }
};

// [grid_barrier] void grid_barrier(array<int> arrivals)
#if defined(__CUDA_ARCH__)
// [include sync_grid]
sync_grid();
#else
const unsigned threads = (unsigned)arrivals.data[1];
if (threads > 1) {
    unsigned* counter = (unsigned*)arrivals.data;
    const unsigned old = __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
    const unsigned goal = old - old % threads + threads;
    typedef wp::int32 yield();
    typedef wp::int32 clock(wp::int64*, wp::int32);
    wp::int64* system = (wp::int64*)(arrivals.data + 2);
    wp::int64 began[2] = {0, 0}, ended[2] = {0, 0};
    bool yielded = false;
    int spins = 0;
    while ((int)(__atomic_load_n(counter, __ATOMIC_ACQUIRE) - goal) < 0) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (++spins > $SPINS_BEFORE_YIELD) {
            spins = 0;
            if (!yielded)
                ((clock*)system[1])(began, $CLOCK_BASE);
            yielded = true;
            ((yield*)system[0])();
        }
    }
    if (yielded) {
        ((clock*)system[1])(ended, $CLOCK_BASE);
        const wp::int64 waited = (ended[0] - began[0]) * 1000000000 + ended[1] - began[1];
        if (waited > $LONG_WAIT)
            __atomic_fetch_add(system + 2, waited, __ATOMIC_RELAXED);
    }
}
#endif

// [block_barrier] void block_barrier(int times)
#if defined(__CUDA_ARCH__)
for (int k = 0; k < times; ++k)
    __syncthreads();
#endif

// [arrive_between] int arrive_between(array<int> arrivals, bool now, int size, int following): the first half of a barrier between two
// passes of so many items; returns what the second half needs
#if defined(__CUDA_ARCH__)
unsigned old = 0;
if (now) {
    // the first block runs both passes alone
    const bool one_block = size <= $ONE_BLOCK_ITEMS && following > 0 && following <= $ONE_BLOCK_ITEMS;
    // [include cluster_size]
    if (cluster_size > 1 && !one_block) {
        // [include arrive_at_cluster]
        return 0;
    }
    __syncthreads();
    if (!one_block && gridDim.x > 1 && threadIdx.x == 0) {
        // [include arrive_at_grid]
    }
}
return (int)old;
#else
return 0;
#endif

// [wait_on_gpu] void wait_on_gpu(array<int> arrivals, bool now, int size, int following, int ticket)
#if defined(__CUDA_ARCH__)
const bool one_block = size <= $ONE_BLOCK_ITEMS && following > 0 && following <= $ONE_BLOCK_ITEMS;
if (now && !one_block && gridDim.x > 1) {
    // [include cluster_size]
    if (cluster_size > 1) {
        // [include wait_for_cluster]
        return;
    }
    if (threadIdx.x == 0) {
        const unsigned old = (unsigned)ticket;
        // [include wait_for_grid]
    }
    __syncthreads();
}
#endif

// [on_gpu] bool on_gpu()
#if defined(__CUDA_ARCH__)
return true;
#else
return false;
#endif

// [take_ticket] int take_ticket(array<int> counters, int index): atomically add one, return the value before
#if defined(__CUDA_ARCH__)
// the threads of a warp that add to the same counter share one atomic addition
unsigned active = __activemask();
unsigned peers = __match_any_sync(active, index);
int lane = threadIdx.x & ($WARP - 1);
int leader = __ffs(peers) - 1;
int base = 0;
if (lane == leader)
    base = atomicAdd(counters.data + index, __popc(peers));
base = __shfl_sync(peers, base, leader);
return base + __popc(peers & ((1u << lane) - 1u));
#else
return counters.data[index]++;
#endif
