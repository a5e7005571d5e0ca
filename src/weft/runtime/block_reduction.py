"""Sums over the threads of a block of a card, in an order that is always the same, and the largest; elsewhere a thread
is alone."""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.runtime.cooperative import BLOCK

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    __shared__ double parts[{BLOCK // 32}];
    for (int far = 16; far > 0; far /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, far);
    if ((threadIdx.x & 31) == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0;
    for (int k = 0; k < {BLOCK // 32}; ++k)
        value += parts[k];
    __syncthreads();
#endif
    return value;
    """
)
def total(value: wp.float64) -> wp.float64:
    """The sum of what all threads of the block give."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    __shared__ double parts[{BLOCK // 32}];
    for (int far = 16; far > 0; far /= 2)
        value = max(value, __shfl_xor_sync(0xffffffffu, value, far));
    if ((threadIdx.x & 31) == 0)
        parts[threadIdx.x / 32] = value;
    __syncthreads();
    for (int k = 0; k < {BLOCK // 32}; ++k)
        value = max(value, parts[k]);
    __syncthreads();
#endif
    return value;
    """
)
def largest(value: wp.float64) -> wp.float64:
    """The largest of what all threads of the block give."""
    ...


@wp.func
def total_vector(value: wp.vec3d) -> wp.vec3d:
    """The same for a vector."""
    return wp.vec3d(total(value[0]), total(value[1]), total(value[2]))
