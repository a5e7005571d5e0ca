"""Counts and maxima over all threads of a launch (see `cooperative`): each block, or thread of a CPU, adds its own.

Neither depends on the order in which they come: integers are added, and of numbers the largest stays.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.runtime.cooperative import BLOCK

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    __shared__ int parts[{BLOCK // 32}];
    for (int far = 16; far > 0; far /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, far);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {{
        value = 0;
        for (int k = 0; k < {BLOCK // 32}; ++k)
            value += parts[k];
        if (value != 0) atomicAdd(counts.data + index, value);
    }}
    __syncthreads();
#else
    if (value != 0) __atomic_fetch_add(counts.data + index, value, __ATOMIC_RELAXED);
#endif
    """
)
def add_to(counts: wp.array[int], index: int, value: int):
    """Add what all threads give to a count; on a card all threads of a block call it."""
    ...


@wp.func_native(
    f"""
    // not a number is larger than all numbers, so that it is not lost
    #define WEFT_LARGER(a, b) ((a) > (b) || (a) != (a))
#if defined(__CUDA_ARCH__)
    __shared__ double parts[{BLOCK // 32}];
    for (int far = 16; far > 0; far /= 2) {{
        const double other = __shfl_xor_sync(0xffffffffu, value, far);
        value = WEFT_LARGER(other, value) ? other : value;
    }}
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {{
        for (int k = 0; k < {BLOCK // 32}; ++k)
            value = WEFT_LARGER(parts[k], value) ? parts[k] : value;
        unsigned long long* place = (unsigned long long*)(largest.data + index);
        unsigned long long known = *(volatile unsigned long long*)place;
        while (!isnan(__longlong_as_double(known)) && WEFT_LARGER(value, __longlong_as_double(known))) {{
            const unsigned long long seen = atomicCAS(place, known, (unsigned long long)__double_as_longlong(value));
            if (seen == known) break;
            known = seen;
        }}
    }}
    __syncthreads();
#else
    double known;
    __atomic_load(largest.data + index, &known, __ATOMIC_RELAXED);
    while (known == known && WEFT_LARGER(value, known)) {{
        if (__atomic_compare_exchange(largest.data + index, &known, &value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            break;
    }}
#endif
    #undef WEFT_LARGER
    """
)
def raise_to(largest: wp.array[wp.float64], index: int, value: wp.float64):
    """Let a number be at least what any thread gives, as `add_to`."""
    ...
