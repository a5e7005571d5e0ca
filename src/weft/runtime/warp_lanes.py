"""Items that are worth several threads of a card: a warp shares one, and adds up what its threads found.

A kernel over items of dozens of parts is launched with `lanes_on(device)` threads an item. Thread i is lane `i % lanes()` of
item `i // lanes()`, and takes the parts from its lane on in steps of `lanes()`. On the CPU a thread does an item alone,
in order. A warp adds up in an order of its own that is always the same.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

wp.set_module_options({"enable_backward": False})

WARP = 32
# threads that a card runs at once
AT_ONCE = 2**18


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    return {WARP};
#else
    return 1;
#endif
    """
)
def lanes() -> int:
    """How many threads share an item."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    for (int far = 16; far > 0; far /= 2)
        value += __shfl_xor_sync(0xffffffffu, value, far);
#endif
    return value;
    """
)
def lane_total(value: wp.float64) -> wp.float64:
    """The sum of what the threads of an item give, for each of them."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    for (int far = 16; far > 0; far /= 2)
        value = max(value, __shfl_xor_sync(0xffffffffu, value, far));
#endif
    return value;
    """
)
def lane_max(value: wp.float64) -> wp.float64:
    """The largest of what the threads of an item give, for each of them."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    __syncwarp();
#endif
    """
)
def sync_lanes():
    """Wait until all threads of an item are here; what they wrote before is seen by all of them."""
    ...


@wp.func
def lane_total_vector(value: wp.vec3d) -> wp.vec3d:
    """The same as `lane_total` for a vector."""
    return wp.vec3d(lane_total(value[0]), lane_total(value[1]), lane_total(value[2]))


@wp.func
def lane_total_matrix(value: wp.mat33d) -> wp.mat33d:
    """The same as `lane_total` for a matrix."""
    total = wp.mat33d()
    for i in range(3):
        for j in range(3):
            total[i, j] = lane_total(value[i, j])
    return total


def lanes_on(device: wp.DeviceLike) -> int:
    """How many threads share an item on a device."""
    return 1 if wp.get_device(device).is_cpu else WARP


def threads_to_spare(device: wp.DeviceLike, count: int, most: int) -> int:
    """How many threads each of so many may have, so that a card runs all of them at once: 1 to `most`, on the CPU 1."""
    return 1 if wp.get_device(device).is_cpu else min(max(AT_ONCE // max(count, 1), 1), most)
