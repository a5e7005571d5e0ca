"""Run a kernel over a range: one launch on CUDA, all cores on the CPU.

Warp runs a CPU kernel on the calling thread. Here every kernel takes `first: int` as its first parameter and starts
with `i = first + wp.tid()`, so that a launch can be cut into disjoint ranges which the threads of a crew work off. Each
item is computed by the same code whichever thread takes it, so the number of threads never changes a result.
"""

import ctypes
import os
import threading
from collections.abc import Sequence
from operator import is_
from typing import Any

import warp as wp

from weft.errors import WeftError
from weft.runtime.graph_cache import GraphCache, launch_fused
from weft.runtime.start import start_warp
from weft.runtime.thread_pool import MAX_HELPERS, PackedKernel, ThreadPool

start_warp()

# ranges a thread gets on average: enough to even out items of different cost, few enough to stay cheap
RANGES_A_THREAD = 4
_NUMBERS = frozenset({int, float})
# arguments that are the same as before if they are the same object
_PLAIN = frozenset({wp.array, int, float})


class _Command:
    """A recorded kernel; only arguments that changed since the last launch are packed again."""

    def __init__(
        self,
        kernel: wp.Kernel,
        inputs: Sequence[Any],
        device: wp.DeviceLike = "cpu",
        dim: int = 1,
        block: int | None = None,
    ) -> None:
        self.inputs = list(inputs)
        self.dim = dim
        self._same = inputs if isinstance(inputs, tuple) else None
        self.recorded: wp.Launch = wp.launch(
            kernel, dim=dim, inputs=[0, *inputs], device=device, record_cmd=True, block_dim=block
        )
        self.arguments = PackedKernel(self.recorded) if wp.get_device(device).is_cpu else None

    def update(self, inputs: Sequence[Any]) -> None:
        if inputs is self._same:
            return
        if len(inputs) != len(self.inputs):
            raise TypeError(f"kernel takes {len(self.inputs)} inputs besides `first`, got {len(inputs)}")
        for index, value in enumerate(inputs):
            old = self.inputs[index]
            # a struct is mutable, so identity says nothing about its content
            kind = type(value)
            if old is value and kind in _PLAIN:
                continue
            if kind in _NUMBERS and type(old) is kind and old == value:
                continue
            self.inputs[index] = value
            # another array of the same kind needs none of Warp's checks, which take longer than a launch
            alike = type(old) is kind is wp.array and old.dtype is value.dtype and old.ndim == value.ndim
            if alike and old.device is value.device:
                self.recorded.set_param_at_index_from_ctype(index + 1, value.__ctype__())
            else:
                self.recorded.set_param_at_index(index + 1, value)
            if self.arguments is not None:
                self.arguments.repack(index + 1)
        self._same = inputs if isinstance(inputs, tuple) else None


class _CardCommand(_Command):
    """The same on a card, where a step is a hundred launches of two dozen arguments, most of which are those of before."""

    def __init__(
        self, kernel: wp.Kernel, inputs: Sequence[Any], device: wp.DeviceLike, dim: int, block: int | None
    ) -> None:
        super().__init__(kernel, inputs, device, dim, block)
        # a struct is handed to the card itself, but vectors may have changed
        self._loose = [
            index
            for index, value in enumerate(inputs)
            if type(value) not in _PLAIN and not hasattr(type(value), "__ctype__")
        ]

    def update(self, inputs: Sequence[Any]) -> None:
        if inputs is self._same:
            return
        known, recorded = self.inputs, self.recorded
        if len(inputs) != len(known):
            raise TypeError(f"kernel takes {len(known)} inputs besides `first`, got {len(inputs)}")
        changed = [index for index, same in enumerate(map(is_, inputs, known)) if not same]
        for index in (*changed, *self._loose):
            value, old = inputs[index], known[index]
            known[index] = value
            kind = type(value)
            # after the bounds of the launch comes `first`
            place = index + 2
            if kind in _NUMBERS and type(old) is kind:
                if old != value:
                    self._set(place, type(recorded.params[place])(value))
            elif type(old) is kind is wp.array and old.dtype is value.dtype and old.ndim == value.ndim:
                self._set(place, value.__ctype__())
            else:
                recorded.set_param_at_index(index + 1, value)
        self._same = inputs if isinstance(inputs, tuple) else None

    def resize(self, dim: int) -> None:
        """Have so many items from now on: our kernels have one dimension, and need none of Warp's checks for more."""
        self.dim = dim
        bounds: Any = self.recorded.bounds
        bounds.shape[0] = bounds.size = dim

    def _set(self, place: int, packed: Any) -> None:
        """Take an argument that needs none of Warp's checks, which take longer than a launch."""
        self.recorded.params[place] = packed
        self.recorded.params_addr[place] = ctypes.c_void_p(ctypes.addressof(packed))


class _Pool:
    """The threads of the CPU and the recorded commands of every kernel that ran on it."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.threads = _default_threads()
        self.commands: dict[wp.Kernel, _Command] = {}
        self._thread_pool: ThreadPool | None = None

    def launch(self, kernel: wp.Kernel, dim: int, inputs: Sequence[Any], grain: int) -> None:
        """Run all items; `grain` of them are worth a thread."""
        with self.guard:
            arguments = self._pack(kernel, inputs)
            threads = min(self.threads, max(1, dim // grain))
            if threads == 1:
                arguments.call(0, dim)
            else:
                ranges = min(threads * RANGES_A_THREAD, max(threads, dim // grain))
                self._hired().run(arguments, dim, ranges, threads)

    def run_each(self, kernel: wp.Kernel, threads: int, inputs: Sequence[Any]) -> None:
        """One item for each of so many threads, at the same time."""
        with self.guard:
            arguments = self._pack(kernel, inputs)
            if threads == 1:
                arguments.call(0, 1)
            else:
                self._hired().run(arguments, threads, threads, threads, each=True)

    def _pack(self, kernel: wp.Kernel, inputs: Sequence[Any]) -> PackedKernel:
        command = self.commands.get(kernel)
        if command is None:
            command = self.commands[kernel] = _Command(kernel, inputs)
        else:
            command.update(inputs)
        assert command.arguments is not None
        return command.arguments

    def _hired(self) -> ThreadPool:
        if self._thread_pool is None:
            self._thread_pool = ThreadPool()
        return self._thread_pool


def _default_threads() -> int:
    wanted = os.environ.get("WEFT_THREADS", "").strip()
    if wanted:
        if not wanted.isdigit():
            raise WeftError(f"WEFT_THREADS is {wanted!r}: it says how many threads to use, 1 or more")
        return min(max(1, int(wanted)), MAX_HELPERS + 1)
    # the cores that this process may use, where the system can say so (Linux)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_HELPERS + 1)


class _Card:
    """The recorded commands of every kernel that ran on a CUDA device: packing arguments costs more than a launch."""

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self.commands: dict[wp.Kernel, _CardCommand] = {}

    def launch(self, kernel: wp.Kernel, dim: int, inputs: Sequence[Any], block: int | None = None) -> None:
        if GraphCache._fused:
            launch_fused()
        command = self.commands.get(kernel)
        if command is None:
            command = self.commands[kernel] = _CardCommand(kernel, inputs, self.device, dim, block)
        else:
            command.update(inputs)
        if command.dim != dim:
            command.resize(dim)
        command.recorded.launch()


_pool = _Pool()
_cards: dict[str, _Card] = {}


def _after_fork() -> None:
    # threads do not survive a fork; the child starts its own pool
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def set_threads(threads: int) -> None:
    """Use this many threads for CPU kernels from now on."""
    if threads < 1:
        raise WeftError(f"threads must be at least 1, not {threads}")
    _pool.threads = min(threads, MAX_HELPERS + 1)


def get_threads() -> int:
    """How many threads CPU kernels use."""
    return _pool.threads


def launch(
    kernel: wp.Kernel, dim: int, inputs: Sequence[Any], *, device: wp.DeviceLike = "cpu", grain: int = 1024
) -> None:
    """Run `kernel` for `dim` items; `inputs` are its arguments after `first`.

    `grain` is the least number of items worth a thread of its own: leave it for light kernels, give less (64, say)
    to kernels whose items cost microseconds. The same tuple again means the same arguments, structs in it
    included, and is not looked through: that halves the cost of a small launch.
    """
    if dim <= 0:
        return
    target = wp.get_device(device)
    if target.is_cpu:
        _pool.launch(kernel, dim, inputs, grain)
    else:
        _card(target).launch(kernel, dim, inputs)


def launch_threads(kernel: wp.Kernel, threads: int, inputs: Sequence[Any]) -> None:
    """Run a kernel on the CPU with one item for each of so many threads, which may wait for each other."""
    _pool.run_each(kernel, threads, inputs)


def launch_blocks(kernel: wp.Kernel, blocks: int, block: int, inputs: Sequence[Any], *, device: wp.DeviceLike) -> None:
    """Run a kernel on CUDA with so many blocks of so many threads; a kernel always has blocks of one size."""
    _card(wp.get_device(device)).launch(kernel, blocks * block, inputs, block)


def _card(device: wp.Device) -> _Card:
    if device.alias not in _cards:
        _cards[device.alias] = _Card(device)
    return _cards[device.alias]
