"""Sums and maxima over the lanes of a warp, over a block, and over all threads of a launch.

- Warp lanes. A kernel whose items are sums over dozens of terms is launched with `lanes_on(device)` threads an item: thread
  i is lane `i % lanes()` of item `i // lanes()`, runs every `lanes()`-th term, and `lane_sum` gives the sum to all lanes. On
  the CPU a thread runs an item alone, in order.
- Block. `block_sum` and `block_max` reduce over the `BLOCK` threads of a cooperative kernel; on the CPU they return the value.
- Launch. `reduce_sum` and `reduce_max` add the result of every block, or thread of the CPU, to an array.

Floating-point sums have a fixed order, and only integers and maxima go through atomics: results are the same bytes every time.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.runtime.native import NativeHeader
from weft.runtime.partition import BLOCK, WARP

wp.set_module_options({"enable_backward": False})

# threads that a large GPU keeps resident at once (an H200: 132 multiprocessors of 2048 threads)
RESIDENT_THREADS = 2**18

_native = NativeHeader(__file__, "reduction.h")


@wp.func_native(_native.body("lanes", WARP=WARP))
def lanes() -> int:
    """How many threads share an item: a warp on CUDA, 1 on the CPU."""
    ...


@wp.func_native(_native.body("lane_sum", WARP=WARP))
def lane_sum(value: wp.float64) -> wp.float64:
    """The sum of `value` over the lanes of an item, in all lanes."""
    ...


@wp.func_native(_native.body("lane_max", WARP=WARP))
def lane_max(value: wp.float64) -> wp.float64:
    """The maximum of `value` over the lanes of an item, in all lanes."""
    ...


@wp.func_native(_native.body("sync_lanes"))
def sync_lanes():
    """A barrier of the lanes of an item: what a lane wrote before it is visible to the others after it."""
    ...


@wp.func
def lane_sum_vector(value: wp.vec3d) -> wp.vec3d:
    """`lane_sum` of a vector."""
    return wp.vec3d(lane_sum(value[0]), lane_sum(value[1]), lane_sum(value[2]))


@wp.func
def lane_sum_matrix(value: wp.mat33d) -> wp.mat33d:
    """`lane_sum` of a matrix."""
    total = wp.mat33d()
    for i in range(3):
        for j in range(3):
            total[i, j] = lane_sum(value[i, j])
    return total


@wp.func_native(_native.body("block_sum", BLOCK=BLOCK, WARP=WARP))
def block_sum(value: wp.float64) -> wp.float64:
    """The sum of `value` over all threads of the block, in all of them."""
    ...


@wp.func
def block_sum_vector(value: wp.vec3d) -> wp.vec3d:
    """`block_sum` of a vector."""
    return wp.vec3d(block_sum(value[0]), block_sum(value[1]), block_sum(value[2]))


@wp.func_native(_native.body("block_max", BLOCK=BLOCK, WARP=WARP))
def block_max(value: wp.float64) -> wp.float64:
    """The maximum of `value` over all threads of the block, in all of them."""
    ...


@wp.func_native(_native.body("reduce_sum", BLOCK=BLOCK, WARP=WARP))
def reduce_sum(counts: wp.array[int], index: int, value: int):
    """Add the sum of `value` over all threads to counts[index]; on CUDA all threads of a block must call it."""
    ...


@wp.func_native(_native.body("reduce_max", BLOCK=BLOCK, WARP=WARP))
def reduce_max(maxima: wp.array[wp.float64], index: int, value: wp.float64):
    """Raise maxima[index] to the largest `value` of all threads, NaN counting as the largest; otherwise as `reduce_sum`."""
    ...


def lanes_on(device: wp.DeviceLike) -> int:
    """What `lanes()` is in kernels on a device."""
    return 1 if wp.get_device(device).is_cpu else WARP


def threads_per_item(device: wp.DeviceLike, items: int, most: int) -> int:
    """How many threads, up to `most`, each of so many items can have while a GPU runs all of them at once; 1 on the CPU."""
    return 1 if wp.get_device(device).is_cpu else min(max(RESIDENT_THREADS // max(items, 1), 1), most)
