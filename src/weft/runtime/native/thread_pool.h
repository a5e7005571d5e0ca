// The threads of the CPU, scheduled without Python: one thread posts a job, leads it, and the helpers work on its ranges.

// [run_role] void run_role(array<int64> memory, int role): post a job (0), lead it (1), or help (2 and more)
#if !defined(__CUDA_ARCH__)
typedef void kernel_entry(wp::launch_bounds_t<1>*, void*);
typedef wp::int32 yield();
typedef wp::int32 clock(wp::int64*, wp::int32);
wp::int64* board = memory.data;
wp::int64* job = board + $JOB;
const wp::int64 &ranges = job[0], &items = job[1], &argument_bytes = job[4], &one_range_each = job[5], &threads = job[6];

auto pause = [&](wp::int64& spins) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    // a helper that the leader waits for may need the leader's core
    if (++spins % $SPINS_BEFORE_YIELD == 0 && role == 1)
        ((yield*)board[$YIELD])();
};

// take ranges of the job until none is left
auto work = [&]() {
    // the arguments, whose first one is the first item of this thread's range
    alignas(16) char arguments[$MAX_ARGUMENT_BYTES];
    const char* packed = (const char*)job[3];
    for (wp::int64 k = 0; k < argument_bytes; ++k)
        arguments[k] = packed[k];
    wp::launch_bounds_t<1> bounds;
    bounds.coord_mult = 1;
    while (true) {
        const wp::int64 range = __atomic_fetch_add(board + $NEXT_RANGE, 1, __ATOMIC_RELAXED);
        if (range >= ranges)
            break;
        const wp::int64 first = items * range / ranges;
        const wp::int64 count = items * (range + 1) / ranges - first;
        bounds.shape[0] = (wp::uint32)count;
        bounds.size = (size_t)count;
        *(wp::int32*)arguments = (wp::int32)first;
        ((kernel_entry*)job[2])(&bounds, arguments);
        if (one_range_each)
            break;
    }
};

if (role == 0) {
    // post the job, and note which helpers sleep and have to be woken
    board[$NEXT_RANGE] = 0;
    __atomic_store_n(board + $OPEN, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(board + $GENERATION, 1, __ATOMIC_SEQ_CST);
    wp::int64 sleepers = 0;
    for (wp::int64 k = 1; k < threads; ++k)
        if (__atomic_exchange_n(board + $AWAKE + k, 1, __ATOMIC_SEQ_CST) == 0)
            sleepers |= (wp::int64)1 << (k - 1);
    board[$SLEEPERS] = sleepers;
} else if (role == 1) {
    // work on the job with the helpers, and close it when all ranges are done
    wp::int64 spins = 0, began[2] = {0, 0}, ended[2] = {0, 0};
    work();
    ((clock*)board[$CLOCK])(began, $CLOCK_BASE);
    while (one_range_each && __atomic_load_n(board + $NEXT_RANGE, __ATOMIC_ACQUIRE) < ranges)
        pause(spins);
    __atomic_store_n(board + $OPEN, 0, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(board + $ACTIVE, __ATOMIC_SEQ_CST) != 0)
        pause(spins);
    ((clock*)board[$CLOCK])(ended, $CLOCK_BASE);
    const wp::int64 waited = (ended[0] - began[0]) * 1000000000 + ended[1] - began[1];
    board[$WAITED] = waited > $LONG_WAIT ? waited : 0;
} else {
    // help with every job until none has come for a while
    const wp::int64 number = role - 1;
    wp::int64* seen = board + $AWAKE + $MAX_HELPERS + 1 + number;
    wp::int64 spins = 0;
    while (true) {
        const wp::int64 generation = __atomic_load_n(board + $GENERATION, __ATOMIC_SEQ_CST);
        if (generation != *seen) {
            *seen = generation;
            spins = 0;
            __atomic_fetch_add(board + $ACTIVE, 1, __ATOMIC_SEQ_CST);
            // a job that is closed is not touched: the next one may be about to be written over it
            const bool open = __atomic_load_n(board + $OPEN, __ATOMIC_SEQ_CST) != 0;
            if (open && __atomic_load_n(board + $GENERATION, __ATOMIC_SEQ_CST) == generation && number < threads)
                work();
            __atomic_fetch_sub(board + $ACTIVE, 1, __ATOMIC_SEQ_CST);
        } else if (spins > $SPINS_BEFORE_SLEEP) {
            // sleep, unless a job was posted meanwhile
            __atomic_exchange_n(board + $AWAKE + number, 0, __ATOMIC_SEQ_CST);
            if (__atomic_load_n(board + $GENERATION, __ATOMIC_SEQ_CST) == *seen)
                return;
            __atomic_exchange_n(board + $AWAKE + number, 1, __ATOMIC_SEQ_CST);
        } else {
            pause(spins);
        }
    }
}
#endif
