"""Kernels that come one after another on one thread of a CPU, without going back to Python between them.

After a kernel that goes through megabytes nothing of Python is left in the caches: a launch that takes three microseconds
otherwise takes sixty then.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import warp as wp

from weft.world.crew import Arguments

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    """
#if !defined(__CUDA_ARCH__)
    typedef void kernel_entry(void*, void*);
    const wp::int64* command = commands.data;
    for (int k = 0; k < count && *stop.data == 0; ++k, command += 3)
        ((kernel_entry*)command[0])((void*)command[1], (void*)command[2]);
#endif
"""
)
def play_in_order(commands: wp.array[wp.int64], count: int, stop: wp.array[int]):
    """Run so many kernels; whoever of them writes to `stop` is the last."""
    ...


@wp.kernel
def play_chain(first: int, commands: wp.array[wp.int64], count: int, stop: wp.array[int]):
    """One item."""
    if first + wp.tid() == 0:
        play_in_order(commands, count, stop)


class Chain:
    """Kernels with their items and inputs, which stay the same; `stop` is what ends the chain early."""

    def __init__(self, stop: wp.array, *commands: tuple[wp.Kernel, int, Sequence[Any]]) -> None:
        self._stop = stop
        self._stopped = stop.numpy()
        self._parts = []
        addresses: list[int] = []
        for kernel, items, inputs in commands:
            part = _record(kernel, inputs)
            part.bounds.shape[0] = part.bounds.size = items
            self._parts.append(part)
            addresses += [part.entry_address, ctypes.addressof(part.bounds), part.address]
        self._commands = wp.array(addresses, dtype=wp.int64, device="cpu")
        self._all = _record(play_chain, [self._commands, len(commands), stop])

    def run(self) -> int:
        """Launch them; gives what was written to `stop`."""
        self._stopped[0] = 0
        self._all.call(0, 1)
        return int(self._stopped[0])


def _record(kernel: wp.Kernel, inputs: Sequence[Any]) -> Arguments:
    return Arguments(wp.launch(kernel, dim=1, inputs=[0, *inputs], device="cpu", record_cmd=True))
