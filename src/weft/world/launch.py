"""Run a kernel over a range: one launch on CUDA, all cores on the CPU.

Warp runs a CPU kernel on the calling thread. Here every kernel takes `first: int` as its first parameter and starts
with `i = first + wp.tid()`, so that a launch can be cut into disjoint ranges which a persistent pool of threads works
off; ctypes lets go of the GIL inside a kernel. Each item is computed by the same code whichever thread takes it, so
the number of threads never changes a result.
"""

import _thread
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import warp as wp

from weft.world.start import start_warp

start_warp()

# ranges a thread gets on average: enough to even out items of different cost, few enough to stay cheap
RANGES_A_THREAD = 4
# calls from which on recording them as a graph pays
WORTH_RECORDING = 4


class _Worker:
    """A thread that sleeps on a lock until it is given a job."""

    def __init__(self, number: int) -> None:
        self.go = _thread.allocate_lock()
        self.done = _thread.allocate_lock()
        self.go.acquire()
        self.done.acquire()
        self.job: Any = None
        self.failure: BaseException | None = None
        threading.Thread(target=self._serve, name=f"weft-{number}", daemon=True).start()

    def _serve(self) -> None:
        while True:
            self.go.acquire()
            try:
                self.job()
            except BaseException as failure:  # handed to the caller of launch
                self.failure = failure
            self.done.release()


class _Command:
    """A kernel recorded once a thread; only arguments that changed since the last launch are packed again."""

    def __init__(
        self,
        kernel: wp.Kernel,
        inputs: Sequence[Any],
        threads: int,
        device: wp.DeviceLike = "cpu",
        block: int | None = None,
    ) -> None:
        self.inputs = list(inputs)
        self.dim = 1
        self._same = inputs if isinstance(inputs, tuple) else None
        self.recorded = [
            wp.launch(kernel, dim=1, inputs=[0, *inputs], device=device, record_cmd=True, block_dim=block)
            for _ in range(threads)
        ]

    def update(self, inputs: Sequence[Any]) -> None:
        if inputs is self._same:
            return
        if len(inputs) != len(self.inputs):
            raise TypeError(f"kernel takes {len(self.inputs)} inputs besides `first`, got {len(inputs)}")
        for index, value in enumerate(inputs):
            old = self.inputs[index]
            # a struct is mutable, so identity says nothing about its content
            if (old is value and isinstance(value, wp.array | int | float)) or (
                type(old) is type(value) and isinstance(value, int | float) and old == value
            ):
                continue
            self.inputs[index] = value
            # another array of the same kind needs none of Warp's checks, which take longer than a launch
            alike = type(old) is type(value) is wp.array and old.dtype is value.dtype and old.ndim == value.ndim
            for command in self.recorded:
                if alike and old.device is value.device:
                    command.set_param_at_index_from_ctype(index + 1, value.__ctype__())
                else:
                    command.set_param_at_index(index + 1, value)
        self._same = inputs if isinstance(inputs, tuple) else None


class _Pool:
    """The threads of the CPU and the recorded commands of every kernel that ran on it."""

    def __init__(self) -> None:
        self.guard = threading.RLock()
        self.threads = _default_threads()
        self.workers: list[_Worker] = []
        self.commands: dict[wp.Kernel, _Command] = {}

    def resize(self, threads: int) -> None:
        with self.guard:
            self.threads = threads
            self.commands.clear()

    def launch(self, kernel: wp.Kernel, dim: int, inputs: Sequence[Any], grain: int) -> None:
        with self.guard:
            command = self._command(kernel, inputs, 1)
            threads = min(self.threads, max(1, dim // grain))
            if threads == 1:
                _run_range(command.recorded[0], 0, dim)
            else:
                self._share(command, dim, threads, grain)

    def run_each(self, kernel: wp.Kernel, threads: int, inputs: Sequence[Any]) -> None:
        """One item for each of so many threads, at the same time."""
        with self.guard:
            command = self._command(kernel, inputs, threads)
            if threads == 1:
                _run_range(command.recorded[0], 0, 1)
            else:
                self._with_helpers(threads, lambda number: _run_range(command.recorded[number], number, 1))

    def _command(self, kernel: wp.Kernel, inputs: Sequence[Any], threads: int) -> _Command:
        command = self.commands.get(kernel)
        if command is None or len(command.recorded) < threads:
            command = self.commands[kernel] = _Command(kernel, inputs, max(threads, self.threads))
        else:
            command.update(inputs)
        return command

    def _share(self, command: _Command, dim: int, threads: int, grain: int) -> None:
        ranges = min(threads * RANGES_A_THREAD, max(threads, dim // grain))
        ticket = count()  # next() is atomic under the GIL

        def work(thread: int) -> None:
            while (k := next(ticket)) < ranges:
                first, last = dim * k // ranges, dim * (k + 1) // ranges
                _run_range(command.recorded[thread], first, last - first)

        self._with_helpers(threads, work)

    def _with_helpers(self, threads: int, work: Callable[[int], None]) -> None:
        """Call `work` on so many threads with their numbers; the caller is the first of them."""
        while len(self.workers) < threads - 1:
            self.workers.append(_Worker(len(self.workers) + 1))
        helpers = self.workers[: threads - 1]
        for number, worker in enumerate(helpers, start=1):
            worker.job = lambda number=number: work(number)
            worker.go.release()
        try:
            work(0)
        finally:
            for worker in helpers:
                worker.done.acquire()
        for worker in helpers:
            failure, worker.failure = worker.failure, None
            if failure is not None:
                raise failure


def _run_range(command: wp.Launch, first: int, size: int) -> None:
    command.set_param_at_index(0, first)
    command.set_dim(size)
    command.launch()


def _default_threads() -> int:
    wanted = os.environ.get("WEFT_THREADS", "")
    if wanted.isdigit():
        return max(1, int(wanted))
    # the cores that this process may use, where the system can say so (Linux)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Card:
    """The recorded commands of every kernel that ran on a CUDA device: packing arguments costs more than a launch."""

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self.commands: dict[wp.Kernel, _Command] = {}

    def launch(self, kernel: wp.Kernel, dim: int, inputs: Sequence[Any], block: int | None = None) -> None:
        command = self.commands.get(kernel)
        if command is None:
            command = self.commands[kernel] = _Command(kernel, inputs, 1, self.device, block)
        else:
            command.update(inputs)
        recorded = command.recorded[0]
        if command.dim != dim:
            command.dim = dim
            recorded.set_dim(dim)
        recorded.launch()


_pool = _Pool()
_cards: dict[str, _Card] = {}
# the last graphs; the results of a step are read before so many others are made
_graphs: deque[Any] = deque(maxlen=16)


def _after_fork() -> None:
    # threads do not survive a fork; the child starts its own pool
    global _pool
    _pool = _Pool()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def set_threads(threads: int) -> None:
    """Use this many threads for CPU kernels from now on."""
    if threads < 1:
        raise ValueError(f"threads must be at least 1, got {threads}")
    _pool.resize(threads)


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


def repeat(times: int, run: Callable[[], None], *, device: wp.DeviceLike = "cpu") -> None:
    """Call `run` so many times. It may launch kernels and nothing else, with the same arguments each time.

    On CUDA the second call is recorded as a graph and replayed for the others: that costs a fraction of the launches.
    """
    target = wp.get_device(device)
    if target.is_cpu or times < WORTH_RECORDING:
        for _ in range(times):
            run()
        return
    # modules are loaded by a first call, which cannot be recorded
    run()
    with wp.ScopedCapture(device=target, force_module_load=False) as capture:
        run()
    for _ in range(times - 1):
        wp.capture_launch(capture.graph)
    # a graph must outlive its replays, which go on after this returns
    _graphs.append(capture.graph)
