"""Kernels that come one after another on one thread of a CPU, without going back to Python between them.

After a kernel that goes through megabytes nothing of Python is left in the caches: a launch that takes three microseconds
otherwise takes sixty then.
"""

import ctypes
from collections.abc import Sequence
from typing import Any

import warp as wp

from weft.runtime.thread_pool import Arguments

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    """
#if !defined(__CUDA_ARCH__)
    typedef void kernel_entry(void*, void*);
    int* flag = stop.data;
    *flag = 0;
    for (const wp::int64* command = commands.data; command[0] != 0;) {
        ((kernel_entry*)command[0])((void*)command[1], (void*)command[2]);
        command += 3;
        if (*flag > 0)
            break;
        if (*flag < 0) {
            command = commands.data + 3 * starts.data[-*flag];
            *flag = 0;
        }
    }
#endif
"""
)
def play_in_order(commands: wp.array[wp.int64], starts: wp.array[int], stop: wp.array[int]):
    """Run kernels up to a command of zeros; one that writes to `stop` is the last, or says with which section to go on."""
    ...


@wp.kernel
def play_commands(first: int, commands: wp.array[wp.int64], starts: wp.array[int], stop: wp.array[int]):
    """One item."""
    if first + wp.tid() == 0:
        play_in_order(commands, starts, stop)


Command = tuple[wp.Kernel, int, Sequence[Any]]
"""a kernel, its items, its inputs after `first`"""


class CommandList:
    """Sections of kernels with their items and inputs, which stay the same; the first section is run.

    `stop` is one number on the CPU. A kernel that writes more than 0 to it ends the chain; one that writes -k goes on
    with section k instead of what comes after it. The same command may stand in many places.
    """

    def __init__(self, stop: wp.array, *sections: Sequence[Command]) -> None:
        self.stopped = memoryview(stop.numpy())
        self._parts: dict[int, tuple[Command, Arguments]] = {}
        addresses: list[int] = []
        starts: list[int] = []
        for section in sections:
            starts.append(len(addresses) // 3)
            for command in section:
                part = self._record(command)
                addresses += [part.entry_address, ctypes.addressof(part.bounds), part.address]
            addresses += [0, 0, 0]
        self._tables = wp.array(addresses, dtype=wp.int64, device="cpu"), wp.array(starts, dtype=int, device="cpu")
        self.all = _pack(play_commands, [*self._tables, stop])

    def run(self) -> int:
        """Launch them; gives what ended them early, or 0."""
        self.all.call(0, 1)
        return self.stopped[0]

    def _record(self, command: Command) -> Arguments:
        # by identity; the command is kept, so that no other can have its number
        if id(command) not in self._parts:
            kernel, items, inputs = command
            part = _pack(kernel, inputs)
            part.bounds.shape[0] = part.bounds.size = items
            self._parts[id(command)] = command, part
        return self._parts[id(command)][1]


def _pack(kernel: wp.Kernel, inputs: Sequence[Any]) -> Arguments:
    return Arguments(wp.launch(kernel, dim=1, inputs=[0, *inputs], device="cpu", record_cmd=True))
