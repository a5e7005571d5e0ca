"""How the threads of a cooperative kernel divide the items of a pass between them (see `weft.runtime.cooperative`).

Thread t runs the items from `partition_begin` to `partition_end` in steps of `partition_step`: on CUDA with a grid stride,
so that neighbouring threads read neighbouring memory; on the CPU one contiguous range a thread. A pass of few items is run
by the first block, or by the first thread of the CPU, alone: then no grid barrier is needed between two such passes.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# threads of a warp on every CUDA device
WARP = 32
# threads a block of a cooperative kernel: one block a multiprocessor; more threads leave fewer registers for each
BLOCK = 512
# items of a pass up to which one block alone is faster on CUDA than all blocks and a grid barrier
ONE_BLOCK_ITEMS = BLOCK
# items of a pass up to which one thread of the CPU alone is faster than all threads and a barrier
ONE_THREAD_ITEMS = 160

_native = NativeHeader(__file__, "partition.h")


@wp.func_native(_native.body("interleaved_thread", BLOCK=BLOCK, WARP=WARP))
def interleaved_thread(t: int, threads: int) -> int:
    """Another number for thread t, such that the first few numbers are spread over all blocks; on the CPU t itself."""
    ...


@wp.func_native(
    _native.body(
        "partition_begin",
        BLOCK=BLOCK,
        WARP=WARP,
        ONE_BLOCK_ITEMS=ONE_BLOCK_ITEMS,
        ONE_THREAD_ITEMS=ONE_THREAD_ITEMS,
    )
)
def partition_begin(t: int, threads: int, count: int) -> int:
    """The first of `count` items that thread t runs, or `count` if it runs none."""
    ...


@wp.func_native(_native.body("partition_end", ONE_THREAD_ITEMS=ONE_THREAD_ITEMS))
def partition_end(t: int, threads: int, count: int) -> int:
    """The end of the items of thread t."""
    ...


@wp.func_native(_native.body("partition_step", BLOCK=BLOCK, ONE_BLOCK_ITEMS=ONE_BLOCK_ITEMS))
def partition_step(threads: int, count: int) -> int:
    """The distance from one item of a thread to its next: the grid stride on CUDA, 1 on the CPU."""
    ...


@wp.func_native(_native.body("partition_rounds", ONE_BLOCK_ITEMS=ONE_BLOCK_ITEMS, ONE_THREAD_ITEMS=ONE_THREAD_ITEMS))
def partition_rounds(threads: int, count: int) -> int:
    """The largest number of items of a thread: loops with a barrier inside must have as many rounds in all threads."""
    ...
