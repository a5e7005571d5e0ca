"""Kernels whose threads wait for each other: many dependent passes in one launch.

A sweep of Gauss-Seidel goes colour by colour, and most colours of contacts are small: a launch for each costs more than
the work. Here one launch has as many threads as the card holds at once, they share each colour, and `meet` lets none go
on before all are there. On the CPU such a kernel runs with one thread: plain compiled serial code in the same order.

Such kernels take `first`, `threads`, `arrivals`; thread t takes the items t, t + threads, t + 2 threads...
"""

from collections.abc import Sequence
from typing import Any

import warp as wp

from weft.world.launch import launch, launch_blocks

# threads a block: what one block can do needs no meeting of all
BLOCK = 512


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    __syncthreads();
    if (gridDim.x > 1) {
        if (threadIdx.x == 0) {
            // the first block turns the top bit once the others have arrived, whatever was in the counter before
            unsigned* counter = (unsigned*)arrivals.data;
            unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1u;
            __threadfence();
            unsigned old = atomicAdd(counter, add);
            while (((old ^ *(volatile unsigned*)counter) & 0x80000000u) == 0) {}
            __threadfence();
        }
        __syncthreads();
    }
#endif
"""
)
def meet(arrivals: wp.array[int]):
    """Wait until all threads are here; what they wrote before is seen by all."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
"""
)
def meet_in_block():
    """Wait until all threads of the block are here."""
    ...


@wp.func
def meet_between(arrivals: wp.array[int], size: int, following: int):
    """Wait between two colours of so many items: where the first block does both alone, only within blocks."""
    if size <= BLOCK and following > 0 and following <= BLOCK:
        meet_in_block()
    else:
        meet(arrivals)


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
def take_number(counters: wp.array[int], index: int) -> int:  # type: ignore[empty-body]
    """Count one more, and give how many there were before: each number once, in any order."""
    ...


class Together:
    """Launches such kernels; holds the counter of those who arrive."""

    def __init__(self, device: wp.DeviceLike) -> None:
        self.device = wp.get_device(device)
        self._arrivals = wp.zeros(1, dtype=int, device=self.device)
        self._given: dict[wp.Kernel, tuple[Any, tuple[Any, ...]]] = {}

    def launch(self, kernel: wp.Kernel, items: int, inputs: Sequence[Any]) -> None:
        """Run a kernel over passes of at most so many items; `inputs` are its arguments after `arrivals`.

        The same tuple again means the same arguments, as for `launch`.
        """
        if items <= 0:
            return
        # one block on each multiprocessor at most, so that all of them run at once
        blocks = 1 if self.device.is_cpu else min(self.device.sm_count, -(-items // BLOCK))
        threads = 1 if self.device.is_cpu else blocks * BLOCK
        known, given = self._given.get(kernel, (None, ()))
        if known is not inputs or given[0] != threads:
            given = (threads, self._arrivals, *inputs)
            self._given[kernel] = (inputs if isinstance(inputs, tuple) else None), given
        if self.device.is_cpu:
            launch(kernel, 1, given, device=self.device)
        else:
            launch_blocks(kernel, blocks, BLOCK, given, device=self.device)
