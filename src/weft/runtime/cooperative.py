"""Cooperative kernels: many dependent passes in one launch, with barriers of all threads between them.

A Gauss-Seidel sweep goes colour by colour, and most colours of contacts are small: a launch for each colour would cost more
than its work. A cooperative kernel is one launch for all of them. On CUDA it has at most one block a multiprocessor, so that
all blocks are resident and may wait for each other; on the CPU it has one thread a core, or one thread where there is little
work. `grid_barrier` lets no thread go on before all have arrived.

Small launches on GPUs of compute capability 9.0 or later run as one thread block cluster, whose barrier does not go
through global memory; `clusterable` marks kernels that can be launched either way.

A cooperative kernel takes `first`, `threads` (how many there are) and `arrivals` (the memory of the barrier) before its own
arguments.

Thread t runs the items from `partition_begin` to `partition_end` in steps of `partition_step`: on CUDA with a grid stride,
so that neighbouring threads read neighbouring memory; on the CPU one contiguous range a thread. A pass of few items is run
by the first block, or by the first thread of the CPU, alone: then no grid barrier is needed between two such passes.
"""

# mypy: disable-error-code="empty-body"

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from weft.runtime.launch import launch_blocks, launch_threads, report_waits, threads_now
from weft.runtime.native import NativeHeader
from weft.runtime.thread_pool import CLOCK_BASE, LONG_WAIT, SPINS_BEFORE_YIELD, clock_address, yield_address

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


# threads a block of kernels that need more registers a thread than blocks of `BLOCK` leave them
SMALL_BLOCK = 256
# items of a pass that are worth another block: fewer a block means more multiprocessors and a longer barrier
ITEMS_PER_BLOCK = 128
# blocks of a cluster: the largest size that Hopper allows
CLUSTER_BLOCKS = 16
# items of a pass up to which a cluster is faster than more multiprocessors are
MAX_CLUSTER_ITEMS = CLUSTER_BLOCKS * ITEMS_PER_BLOCK
# the first compute capability (times ten) that has clusters
CLUSTER_ARCH = 90
# items of all passes together from which on several threads of the CPU are faster than one, barriers included
MIN_PARALLEL_ITEMS = 2048

_native_cooperative = NativeHeader(__file__, "cooperative.h")

# C++ that defines `sync_grid()`, for native CUDA code that has `arrivals` and passes several barriers
SYNC_GRID = _native_cooperative.body("sync_grid", CLUSTER_ARCH=CLUSTER_ARCH)


@wp.func_native(
    _native_cooperative.body(
        "grid_barrier",
        CLUSTER_ARCH=CLUSTER_ARCH,
        SPINS_BEFORE_YIELD=SPINS_BEFORE_YIELD,
        CLOCK_BASE=CLOCK_BASE,
        LONG_WAIT=LONG_WAIT,
    )
)
def grid_barrier(arrivals: wp.array[int]):
    """A barrier of all threads of the launch: what any thread wrote before it is visible to all after it."""
    ...


@wp.func_native(_native_cooperative.body("block_barrier"))
def block_barrier(times: int):
    """So many barriers of the threads of a block, one after another; nothing on the CPU, where a thread is a block."""
    ...


@wp.func_native(_native_cooperative.body("arrive_between", CLUSTER_ARCH=CLUSTER_ARCH, ONE_BLOCK_ITEMS=ONE_BLOCK_ITEMS))
def arrive_between(arrivals: wp.array[int], now: bool, size: int, following: int) -> int:
    """The first half of `barrier_between` on CUDA, if `now`; returns a ticket for `wait_between`. What a thread does between
    the halves overlaps with the waiting."""
    ...


@wp.func_native(_native_cooperative.body("wait_on_gpu", CLUSTER_ARCH=CLUSTER_ARCH, ONE_BLOCK_ITEMS=ONE_BLOCK_ITEMS))
def wait_on_gpu(arrivals: wp.array[int], now: bool, size: int, following: int, ticket: int):
    """The second half of `barrier_between` on CUDA."""
    ...


@wp.func_native(_native_cooperative.body("on_gpu"))
def on_gpu() -> bool:
    """Whether this runs on CUDA."""
    ...


@wp.func
def barrier_between(arrivals: wp.array[int], size: int, following: int):
    """A barrier between a pass of `size` items and one of `following` items.

    Where the first block, or the first thread of the CPU, runs both passes alone, a barrier of that block is enough.
    """
    if on_gpu():
        if size <= ONE_BLOCK_ITEMS and following > 0 and following <= ONE_BLOCK_ITEMS:
            block_barrier(1)
        else:
            grid_barrier(arrivals)
    elif size > ONE_THREAD_ITEMS or following <= 0 or following > ONE_THREAD_ITEMS:
        grid_barrier(arrivals)


@wp.func
def wait_between(arrivals: wp.array[int], now: bool, size: int, following: int, ticket: int):
    """The second half of `barrier_between`, given the ticket of `arrive_between`; the whole barrier on the CPU."""
    if on_gpu():
        wait_on_gpu(arrivals, now, size, following, ticket)
    elif now:
        barrier_between(arrivals, size, following)


@wp.func_native(_native_cooperative.body("take_ticket", WARP=WARP))
def take_ticket(counters: wp.array[int], index: int) -> int:
    """Add one to a counter and return what it was before: every number once, in any order. Not for several CPU threads."""
    ...


_cluster_kernels: dict[wp.Kernel, wp.Kernel] = {}


def clusterable(kernel: wp.Kernel) -> wp.Kernel:
    """Decorate a cooperative kernel with blocks of `BLOCK` threads that may be launched as a cluster too.

    The variant is compiled into a module `weft.clusters...`, which a machine without such a GPU never loads.
    """
    module = wp.get_module(kernel.module.name.replace("weft.", "weft.clusters.", 1))
    module.options.update(kernel.module.options)
    options = {**kernel.options, "cluster_dim": CLUSTER_BLOCKS}
    _cluster_kernels[kernel] = wp.Kernel(kernel.func, key=kernel.key, module=module, options=options)
    return kernel


class CooperativeLauncher:
    """Launches cooperative kernels on a device; holds the memory of their barrier."""

    def __init__(self, device: wp.DeviceLike) -> None:
        self.device = wp.get_device(device)
        self._arrivals = wp.zeros(8, dtype=int, device=self.device)
        self._known: dict[wp.Kernel, tuple[Any, tuple[Any, ...]]] = {}
        if self.device.is_cpu:
            # see native/cooperative.h
            self._barrier = self._arrivals.numpy()
            self._system = self._barrier[2:].view(np.int64)
            self._system[:2] = yield_address(), clock_address()

    def launch(
        self,
        kernel: wp.Kernel,
        items: int,
        inputs: Sequence[Any],
        *,
        work: int | None = None,
        threads: int | None = None,
    ) -> None:
        """Run a kernel over passes of at most `items` items; `inputs` are its arguments after `arrivals`.

        `work` is the number of items in all passes together. As for `launch`, the same tuple again means the same
        arguments. A caller whose inputs depend on the number of CPU `threads` says how many, from `threads_now()`.
        """
        if items <= 0:
            return
        if self.device.is_cpu:
            if threads is None:
                threads = threads_now() if (work or items) >= MIN_PARALLEL_ITEMS else 1
            self._barrier[:2] = 0, threads
            self._system[2] = 0
            seconds = launch_threads(kernel, threads, self._all_inputs(kernel, threads, inputs))
            if threads > 1:
                report_waits(threads, seconds, 1e-9 * float(self._system[2]))
            return
        threads = self.threads_for(items)
        if threads == CLUSTER_BLOCKS * BLOCK:
            kernel = _cluster_kernels.get(kernel, kernel)
        launch_blocks(kernel, threads // BLOCK, BLOCK, self._all_inputs(kernel, threads, inputs), device=self.device)

    def launch_each(self, kernel: wp.Kernel, blocks: int, inputs: Sequence[Any]) -> None:
        """Run a kernel with so many blocks of `SMALL_BLOCK` threads, each of which has a partition of the data of its own; on
        the CPU with one thread."""
        if self.device.is_cpu:
            self._barrier[:2] = 0, 1
            launch_threads(kernel, 1, self._all_inputs(kernel, 1, inputs))
            return
        if blocks == CLUSTER_BLOCKS and self.device.arch >= CLUSTER_ARCH:
            kernel = _cluster_kernels.get(kernel, kernel)
        given = self._all_inputs(kernel, blocks * SMALL_BLOCK, inputs)
        launch_blocks(kernel, blocks, SMALL_BLOCK, given, device=self.device)

    def threads_for(self, items: int) -> int:
        """How many threads run passes of at most `items` items on CUDA.

        At most one block a multiprocessor, so that all are resident; a power of two of blocks or all multiprocessors, so
        that launches of about as many items are the same and can be replayed as a CUDA graph.
        """
        needed = -(-items // ITEMS_PER_BLOCK)
        if ITEMS_PER_BLOCK < items <= MAX_CLUSTER_ITEMS and self.device.arch >= CLUSTER_ARCH:
            return CLUSTER_BLOCKS * BLOCK
        return 0 if needed <= 0 else BLOCK * min(int(self.device.sm_count), 1 << (needed - 1).bit_length())

    def _all_inputs(self, kernel: wp.Kernel, threads: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """All arguments of a kernel after `first`, as the same tuple as before where they are the same."""
        known, given = self._known.get(kernel, (None, ()))
        if known is not inputs or given[0] != threads:
            given = (threads, self._arrivals, *inputs)
            self._known[kernel] = (inputs if isinstance(inputs, tuple) else None), given
        return given
