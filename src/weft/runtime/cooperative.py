"""Kernels whose threads wait for each other: many dependent passes in one launch.

A sweep of Gauss-Seidel goes colour by colour, and most colours of contacts are small: a launch for each costs more than
the work. Here one launch has as many threads as the card holds at once, they share each colour, and `grid_barrier` lets none go
on before all are there. On the CPU it has a thread for each core, or one where there is little to do.

Where passes are small, the blocks of such a launch are a cluster (Hopper and later), whose barrier does not go through
memory: `shared` makes a kernel that can be launched either way.

Such kernels take `first`, `threads`, `arrivals`; how threads share a pass is said in `weft.runtime.partition`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from weft.runtime.launch import get_threads, launch_blocks, launch_threads
from weft.runtime.partition import ALONE, BLOCK, FEW
from weft.runtime.thread_pool import PATIENCE, resting

# threads a block where each has a part and its threads need many registers
SMALL_BLOCK = 256
# items that are worth a block
SHARE = 128
# blocks of a cluster, items up to which it is faster than more multiprocessors are, and the first cards that have clusters
CLUSTER = 16
CLUSTERED = CLUSTER * SHARE
CLUSTER_ARCH = 90
# items of all passes together from which on the threads of the CPU share them
WORTH_SHARING = 2048


# what the first thread of a block does when it arrives at a meeting of all blocks, and while it waits for the others. The
# first block turns the top bit of the counter once the others have arrived, whatever was in it before
_ARRIVE = """
    const unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
    asm volatile("atom.add.release.gpu.u32 %0, [%1], %2;" : "=r"(old) : "l"(arrivals.data), "r"(add) : "memory");
"""
# blocks of the cluster, 1 where there is none; all threads of a cluster arrive and wait
_IN_CLUSTER = """
    unsigned in_cluster = 1;
    #if __CUDA_ARCH__ >= 900
    asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(in_cluster));
    #endif
"""
_ARRIVE_IN_CLUSTER = """
    #if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.arrive.release;" : : : "memory");
    #endif
"""
_AWAIT_IN_CLUSTER = """
    #if __CUDA_ARCH__ >= 900
    asm volatile("barrier.cluster.wait.acquire;" : : : "memory");
    #endif
"""
_AWAIT = """
    unsigned now_there;
    do {
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now_there) : "l"(arrivals.data) : "memory");
    } while (((old ^ now_there) & 0x80000000u) == 0);
"""


# the same for all threads of a card, as C++: for functions that synchronise on their way, and have `arrivals`
GRID_BARRIER = f"""
    const auto meet_all = [&]() {{
        {_IN_CLUSTER}
        if (in_cluster > 1) {{
            {_ARRIVE_IN_CLUSTER}
            {_AWAIT_IN_CLUSTER}
            return;
        }}
        __syncthreads();
        if (gridDim.x > 1) {{
            if (threadIdx.x == 0) {{
                unsigned old;
                {_ARRIVE}
                {_AWAIT}
            }}
            __syncthreads();
        }}
    }};
"""


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    {GRID_BARRIER}
    meet_all();
#else
    // arrivals: those who came, how many there are, and the system's way to rest for a moment
    const unsigned all = (unsigned)arrivals.data[1];
    if (all > 1) {{
        unsigned* counter = (unsigned*)arrivals.data;
        const unsigned old = __atomic_fetch_add(counter, 1u, __ATOMIC_ACQ_REL);
        const unsigned goal = old - old % all + all;
        int waited = 0;
        while ((int)(__atomic_load_n(counter, __ATOMIC_ACQUIRE) - goal) < 0) {{
#if defined(__x86_64__)
            __builtin_ia32_pause();
#endif
            if (++waited > {PATIENCE}) {{
                waited = 0;
                typedef wp::int32 rest();
                (*(rest**)(arrivals.data + 2))();
            }}
        }}
    }}
#endif
"""
)
def grid_barrier(arrivals: wp.array[int]):
    """Wait until all threads are here; what they wrote before is seen by all."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    for (int k = 0; k < times; ++k)
        __syncthreads();
#endif
"""
)
def block_barrier(times: int):
    """Wait until all threads of the block are here, so many times."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    unsigned old = 0;
    if (now) {{
        const bool alone = size <= {FEW} && following > 0 && following <= {FEW};
        {_IN_CLUSTER}
        if (in_cluster > 1 && !alone) {{
            {_ARRIVE_IN_CLUSTER}
            return 0;
        }}
        __syncthreads();
        if (!alone && gridDim.x > 1 && threadIdx.x == 0) {{
            {_ARRIVE}
        }}
    }}
    return (int)old;
#else
    return 0;
#endif
"""
)
def arrive(arrivals: wp.array[int], now: bool, size: int, following: int) -> int:  # type: ignore[empty-body]
    """The first half of `barrier_between` on CUDA, if `now`: what a thread does until `await_others`, it does while others are
    on their way."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    const bool alone = size <= {FEW} && following > 0 && following <= {FEW};
    if (now && !alone && gridDim.x > 1) {{
        {_IN_CLUSTER}
        if (in_cluster > 1) {{
            {_AWAIT_IN_CLUSTER}
            return;
        }}
        if (threadIdx.x == 0) {{
            const unsigned old = (unsigned)ticket;
            {_AWAIT}
        }}
        __syncthreads();
    }}
#endif
"""
)
def await_on_gpu(arrivals: wp.array[int], now: bool, size: int, following: int, ticket: int):
    """The second half there, given what the first half gave."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return true;
#else
    return false;
#endif
"""
)
def on_gpu() -> bool:  # type: ignore[empty-body]
    """Whether this runs in blocks of threads."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    return {BLOCK};
#else
    return 1;
#endif
"""
)
def block_size() -> int:  # type: ignore[empty-body]
    """How many threads are a block: on the CPU each is one."""
    ...


@wp.func
def barrier_between(arrivals: wp.array[int], size: int, following: int):
    """Wait between two passes of so many items; not all of them, where the first block or thread does both alone."""
    if on_gpu():
        if size <= FEW and following > 0 and following <= FEW:
            block_barrier(1)
        else:
            grid_barrier(arrivals)
    elif size > ALONE or following <= 0 or following > ALONE:
        grid_barrier(arrivals)


@wp.func
def await_others(arrivals: wp.array[int], now: bool, size: int, following: int, ticket: int):
    """The second half of a meeting, given what `arrive` gave; all of it on the CPU."""
    if on_gpu():
        await_on_gpu(arrivals, now, size, following, ticket)
    elif now:
        barrier_between(arrivals, size, following)


@wp.func
def barrier_arrive(arrivals: wp.array[int]) -> int:
    """The first half of `grid_barrier` on CUDA: what is loaded until the second half is on its way while threads wait."""
    return arrive(arrivals, True, BLOCK * BLOCK, 0)


@wp.func
def barrier_wait(arrivals: wp.array[int], ticket: int):
    """The second half, given what the first half gave; all of it on the CPU."""
    await_others(arrivals, True, BLOCK * BLOCK, 0, ticket)


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    // those of a warp that add to the same counter do it at once
    unsigned active = __activemask();
    unsigned peers = __match_any_sync(active, index);
    int lane = threadIdx.x & 31;
    int leader = __ffs(peers) - 1;
    int base = 0;
    if (lane == leader) base = atomicAdd(counters.data + index, __popc(peers));
    base = __shfl_sync(peers, base, leader);
    return base + __popc(peers & ((1u << lane) - 1u));
#else
    return counters.data[index]++;
#endif
"""
)
def take_ticket(counters: wp.array[int], index: int) -> int:  # type: ignore[empty-body]
    """Count one more, and give how many there were before: each number once, in any order."""
    ...


_in_clusters: dict[wp.Kernel, wp.Kernel] = {}


def shared(kernel: wp.Kernel) -> wp.Kernel:
    """Let a kernel of blocks of `BLOCK` threads run as a cluster too; a module of its own holds what only a card needs."""
    module = wp.get_module(kernel.module.name.replace("weft.", "weft.clusters.", 1))
    module.options.update(kernel.module.options)
    options = {**kernel.options, "cluster_dim": CLUSTER}
    _in_clusters[kernel] = wp.Kernel(kernel.func, key=kernel.key, module=module, options=options)
    return kernel


class CooperativeLauncher:
    """Launches such kernels; holds the counter of those who arrive."""

    def __init__(self, device: wp.DeviceLike) -> None:
        self.device = wp.get_device(device)
        # on the CPU also the number of threads, and what they call while they wait for long
        self._arrivals = wp.zeros(4, dtype=int, device=self.device)
        self._given: dict[wp.Kernel, tuple[Any, tuple[Any, ...]]] = {}
        if self.device.is_cpu:
            self._counter = self._arrivals.numpy()
            self._counter[2:].view(np.int64)[0] = resting()

    def launch(self, kernel: wp.Kernel, items: int, inputs: Sequence[Any], *, work: int | None = None) -> None:
        """Run a kernel over passes of at most so many items; `inputs` are its arguments after `arrivals`.

        `work` is the number of items in all passes together. The same tuple again means the same arguments, as for
        `launch`.
        """
        if items <= 0:
            return
        if self.device.is_cpu:
            threads = get_threads() if (work or items) >= WORTH_SHARING else 1
            self._counter[:2] = 0, threads
            launch_threads(kernel, threads, self._take(kernel, threads, inputs))
            return
        threads = self.threads_for(items)
        if threads == CLUSTER * BLOCK:
            kernel = _in_clusters.get(kernel, kernel)
        launch_blocks(kernel, threads // BLOCK, BLOCK, self._take(kernel, threads, inputs), device=self.device)

    def launch_each(self, kernel: wp.Kernel, blocks: int, inputs: Sequence[Any]) -> None:
        """Run a kernel with so many blocks of `SMALL_BLOCK` threads, each with its own part; on the CPU by one thread."""
        if self.device.is_cpu:
            self._counter[:2] = 0, 1
            launch_threads(kernel, 1, self._take(kernel, 1, inputs))
            return
        if blocks == CLUSTER and self.device.arch >= CLUSTER_ARCH:
            kernel = _in_clusters.get(kernel, kernel)
        given = self._take(kernel, blocks * SMALL_BLOCK, inputs)
        launch_blocks(kernel, blocks, SMALL_BLOCK, given, device=self.device)

    def threads_for(self, items: int) -> int:
        """Threads for passes of at most so many items on CUDA.

        One block on each multiprocessor at most, so that all of them run at once, and more of them than items need: each
        has its own way to the memory. Few different numbers, so that launches of about as many items are the same.
        """
        needed = -(-items // SHARE)
        if SHARE < items <= CLUSTERED and self.device.arch >= CLUSTER_ARCH:
            return CLUSTER * BLOCK
        return 0 if needed <= 0 else BLOCK * min(int(self.device.sm_count), 1 << (needed - 1).bit_length())

    def _take(self, kernel: wp.Kernel, threads: int, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """All inputs of a kernel, as the same tuple where they are the same."""
        known, given = self._given.get(kernel, (None, ()))
        if known is not inputs or given[0] != threads:
            given = (threads, self._arrivals, *inputs)
            self._given[kernel] = (inputs if isinstance(inputs, tuple) else None), given
        return given
