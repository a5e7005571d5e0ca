"""Run a kernel over a range: one launch on CUDA, all cores on the CPU.

Warp runs a CPU kernel on the calling thread. Here every kernel takes `first: int` as its first parameter and starts
with `i = first + wp.tid()`, so that a launch can be cut into disjoint ranges of items for the threads of a pool. Each item
is computed by the same code whichever thread runs it, so the number of threads never changes a result.

`wp.launch` packs all arguments on every call, which takes longer than a small kernel. Here the launch of each kernel is
recorded once, and only the arguments that changed are packed again.

Both rely on how Warp's recorded launches look inside. Versions in which nobody has tested that are used through Warp's
public interface instead, which is slower and has one thread (`warp_version.py`).
"""

import ctypes
import os
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from operator import is_
from time import perf_counter
from typing import Any

import warp as wp

from weft.errors import WeftError
from weft.runtime.compiling import announced, choose_cache
from weft.runtime.graph_cache import launch_fused
from weft.runtime.thread_pool import MAX_HELPERS, PackedKernel, ThreadLimit, ThreadPool
from weft.runtime.warp_version import PublicKernel, launches_are_known

# ranges a thread gets on average: more even out items of different cost better, each costs an atomic addition and a call
RANGES_A_THREAD = 4
_NUMBERS = frozenset({int, float})
# types of arguments that have not changed if they are the same object
_IMMUTABLE = frozenset({wp.array, int, float, bool})
# printed by Warp's native code on every machine without an NVIDIA driver; weft's default is the CPU
_NO_DRIVER = "Could not find or load the NVIDIA CUDA driver"


def _start_warp() -> None:
    """Initialise Warp without its greeting and without the warning that there is no NVIDIA driver."""
    wp.config.log_level = max(wp.config.log_level, wp.LOG_WARNING)
    choose_cache()
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as printed:
        os.dup2(printed.fileno(), 2)
        try:
            wp.init()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            printed.seek(0)
            for line in printed.read().decode(errors="replace").splitlines():
                if _NO_DRIVER not in line:
                    print(line, file=sys.stderr)


_start_warp()


class _Command:
    """A recorded launch of a kernel on a device."""

    def __init__(
        self, kernel: wp.Kernel, inputs: Sequence[Any], device: wp.Device, dim: int = 1, block: int | None = None
    ) -> None:
        self.dim = dim
        with announced(kernel.module, device, block):
            self.recorded: wp.Launch = wp.launch(
                kernel, dim=dim, inputs=[0, *inputs], device=device, record_cmd=True, block_dim=block
            )
        self._known = launches_are_known()
        self.packed: PackedKernel | PublicKernel | None = None
        if device.is_cpu:
            self.packed = PackedKernel(self.recorded) if self._known else PublicKernel(self.recorded)
        self._inputs = list(inputs)
        self._tuple = inputs if isinstance(inputs, tuple) else None
        # vectors may have changed though they are the same object, and so may structs: CUDA launches read them where they
        # are, but the CPU has a packed copy
        mutable = [index for index, value in enumerate(inputs) if type(value) not in _IMMUTABLE]
        self._structs = [index for index in mutable if hasattr(type(inputs[index]), "__ctype__")]
        self._vectors = [index for index in mutable if index not in self._structs]

    def update(self, inputs: Sequence[Any]) -> None:
        """Pack the arguments that are not those of the last launch."""
        if inputs is self._tuple:
            return
        known = self._inputs
        if len(inputs) != len(known):
            raise TypeError(f"kernel takes {len(known)} inputs besides `first`, got {len(inputs)}")
        changed = [index for index, same in enumerate(map(is_, inputs, known)) if not same]
        for index in (*changed, *self._vectors):
            value, old = inputs[index], known[index]
            known[index] = value
            kind = type(value)
            if not self._known:
                self.recorded.set_param_at_index(index + 1, value)
            elif kind in _NUMBERS and type(old) is kind:
                if old != value:
                    self._set(index, type(self.recorded.params[index + 2])(value))
            elif type(old) is kind is wp.array and old.dtype is value.dtype and old.ndim == value.ndim:
                self._set(index, value.__ctype__())
            else:
                self.recorded.set_param_at_index(index + 1, value)
                if self.packed is not None:
                    self.packed.repack(index + 1)
        for index in self._structs:
            if not self._known:
                self.recorded.set_param_at_index(index + 1, inputs[index])
            elif self.packed is not None:
                self.packed.repack(index + 1)
        self._tuple = inputs if isinstance(inputs, tuple) else None

    def resize(self, dim: int) -> None:
        """Launch so many items from now on; weft's kernels have one dimension, and need none of Warp's checks for more."""
        self.dim = dim
        if not self._known:
            self.recorded.set_dim(dim)
            return
        bounds: Any = self.recorded.bounds
        bounds.shape[0] = bounds.size = dim

    def _set(self, index: int, packed: Any) -> None:
        """Set an argument of the same type as before without Warp's checks, which take longer than a launch."""
        # the bounds of the launch and `first` come before it
        self.recorded.params[index + 2] = packed
        if self.packed is not None:
            self.packed.repack(index + 1)
        else:
            self.recorded.params_addr[index + 2] = ctypes.c_void_p(ctypes.addressof(packed))


class _CpuLauncher:
    """The thread pool of the CPU, and the recorded launches of every kernel that ran on it."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.threads = _default_threads()
        self.commands: dict[wp.Kernel, _Command] = {}
        self.limit = ThreadLimit()
        self._thread_pool: ThreadPool | None = None

    def launch(self, kernel: wp.Kernel, dim: int, inputs: Sequence[Any], grain: int) -> None:
        """Run all items, with at least `grain` of them a thread."""
        with self.guard:
            packed = self._pack(kernel, inputs)
            threads = min(self.limit.apply(self.threads), max(1, dim // grain))
            if threads == 1 or isinstance(packed, PublicKernel):
                packed.call(0, dim)
            else:
                ranges = min(threads * RANGES_A_THREAD, max(threads, dim // grain))
                start = perf_counter()
                waited = self._pool().run(packed, dim, ranges, threads)
                # helpers that are done before the leader do not say how long they wait: as long as it, say
                self.limit.report(threads, perf_counter() - start, (threads - 1) * waited)

    def run_each(self, kernel: wp.Kernel, threads: int, inputs: Sequence[Any]) -> float:
        """Run one item on each of so many threads, all at the same time; returns the seconds that it took."""
        with self.guard:
            packed = self._pack(kernel, inputs)
            start = perf_counter()
            if isinstance(packed, PublicKernel) or threads == 1:
                packed.call(0, threads)
            else:
                self._pool().run(packed, threads, threads, threads, each=True)
            return perf_counter() - start

    def _pack(self, kernel: wp.Kernel, inputs: Sequence[Any]) -> PackedKernel | PublicKernel:
        command = self.commands.get(kernel)
        if command is None:
            # the first launch may compile
            with _compiling:
                command = self.commands[kernel] = _Command(kernel, inputs, wp.get_device("cpu"))
        else:
            command.update(inputs)
        assert command.packed is not None
        return command.packed

    def _pool(self) -> ThreadPool:
        if self._thread_pool is None:
            self._thread_pool = ThreadPool()
        return self._thread_pool


def _default_threads() -> int:
    if not launches_are_known():
        return 1
    wanted = os.environ.get("WEFT_THREADS", "").strip()
    if wanted:
        if not wanted.isdigit():
            raise WeftError(f"WEFT_THREADS is {wanted!r}: it says how many threads to use, 1 or more")
        return min(max(1, int(wanted)), MAX_HELPERS + 1)
    # the cores that this process may use, where the system can say so (Linux)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, MAX_HELPERS + 1)


class _CudaLauncher:
    """The recorded launches of every kernel that ran on a CUDA device."""

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self.commands: dict[wp.Kernel, _Command] = {}

    def launch(self, kernel: wp.Kernel, dim: int, inputs: Sequence[Any], block: int | None = None) -> None:
        launch_fused()
        command = self.commands.get(kernel)
        if command is None:
            command = self.commands[kernel] = _Command(kernel, inputs, self.device, dim, block)
        else:
            command.update(inputs)
        if command.dim != dim:
            command.resize(dim)
        command.recorded.launch()


_cpu = _CpuLauncher()
_compiling = threading.RLock()
# the launcher of a Python thread that has its own
_of_thread = threading.local()
_cuda: dict[str, _CudaLauncher] = {}


def _after_fork() -> None:
    # threads do not survive a fork; the child starts its own pool
    global _cpu, _compiling
    _cpu, _compiling = _CpuLauncher(), threading.RLock()
    _of_thread.__dict__.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _launcher() -> _CpuLauncher:
    """The launcher of the CPU that this Python thread uses."""
    return getattr(_of_thread, "launcher", None) or _cpu


@contextmanager
def own_threads(threads: int) -> Iterator[None]:
    """In the block this Python thread runs CPU kernels on so many threads of its own, beside other Python threads."""
    if not hasattr(_of_thread, "own"):
        _of_thread.own = _CpuLauncher()
    before = getattr(_of_thread, "launcher", None)
    _of_thread.launcher = _of_thread.own
    _of_thread.own.threads = threads
    try:
        yield
    finally:
        _of_thread.launcher = before


def set_threads(threads: int) -> None:
    """Use this many threads for CPU kernels from now on."""
    if threads < 1:
        raise WeftError(f"threads must be at least 1, not {threads}")
    _cpu.threads = min(threads, MAX_HELPERS + 1) if launches_are_known() else 1


def get_threads() -> int:
    """How many threads CPU kernels use."""
    return _cpu.threads


def threads_now() -> int:
    """How many threads a CPU kernel should use now: fewer than `get_threads` while other processes have the cores."""
    launcher = _launcher()
    return launcher.limit.apply(launcher.threads)


def launch(
    kernel: wp.Kernel, dim: int, inputs: Sequence[Any], *, device: wp.DeviceLike = "cpu", grain: int = 1024
) -> None:
    """Run `kernel` for `dim` items; `inputs` are its arguments after `first`.

    `grain` is the least number of items worth a thread of its own: the default suits kernels whose items cost nanoseconds;
    those whose items cost microseconds want less (64, say). If `inputs` is the same tuple as in the last launch of the
    kernel, its items are taken to be unchanged, structs included, and not compared: that halves the cost of a small launch.
    """
    if dim <= 0:
        return
    target = wp.get_device(device)
    if target.is_cpu:
        _launcher().launch(kernel, dim, inputs, grain)
    else:
        _cuda_launcher(target).launch(kernel, dim, inputs)


def launch_threads(kernel: wp.Kernel, threads: int, inputs: Sequence[Any]) -> float:
    """Run a kernel on the CPU with one item for each of so many threads, which may wait for each other; returns seconds."""
    return _launcher().run_each(kernel, threads, inputs)


def report_waits(threads: int, seconds: float, waited: float) -> None:
    """Say for how long all threads of a launch waited for others together, so that `threads_now` can follow."""
    _launcher().limit.report(threads, seconds, waited)


def launch_blocks(kernel: wp.Kernel, blocks: int, block: int, inputs: Sequence[Any], *, device: wp.DeviceLike) -> None:
    """Run a kernel on CUDA with so many blocks of so many threads; all launches of a kernel must have the same block size."""
    _cuda_launcher(wp.get_device(device)).launch(kernel, blocks * block, inputs, block)


def _cuda_launcher(device: wp.Device) -> _CudaLauncher:
    if device.alias not in _cuda:
        _cuda[device.alias] = _CudaLauncher(device)
    return _cuda[device.alias]
