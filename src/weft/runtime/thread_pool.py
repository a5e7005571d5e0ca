"""A pool of CPU threads that run the items of a kernel without going through Python.

Waking a sleeping thread takes 50 microseconds, and as long again where it waits for Python's lock: more than most kernels
run. So helper threads wait inside compiled code: they spin for about a tenth of a millisecond after the last job, and only
then sleep on a lock. The thread that launches a kernel writes a job into an array of integers that all threads read (the
board); every thread takes the next range of its items until none is left, so that nobody waits for a helper that wakes late.
The threads of a cooperative kernel take one item each.
"""

import _thread
import ctypes
import sys
import threading
from functools import cache
from time import perf_counter
from typing import Any

import warp as wp

from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# Indices into the board; what different threads write at the same time is in different cache lines of 8 integers.
# The next range to take, the number of helpers at work, the number of jobs so far, whether the job is open for helpers
NEXT_RANGE, ACTIVE, GENERATION, OPEN = 0, 8, 16, 17
# the job: ranges, items, address of the kernel, address and bytes of its arguments, whether each thread takes exactly one
# range, threads
JOB = 24
# the addresses of the system's yield and clock functions, a bit mask of helpers to wake, how long the leader waited for the
# others at the end of its last job (ns, 0 if less than `LONG_WAIT`), and for each helper whether it is awake (one word a
# helper, from 1 on) and then the last job that it saw
YIELD, CLOCK, SLEEPERS, WAITED, AWAKE = 40, 41, 42, 43, 48

# spins after which a thread that others may be waiting for lets the system run another one: about 50 microseconds. Less
# calls the system often, more lets the awaited thread wait for a core
SPINS_BEFORE_YIELD = 2000
# spins without a job after which a helper sleeps: about a tenth of a millisecond, twice what waking it costs
SPINS_BEFORE_SLEEP = 4000
# nanoseconds from which on a wait counts as one for a thread that does not run, because another process has its core: less
# than the time slice that such a process gets (some milliseconds), more than threads wait for others with a little more work
LONG_WAIT = 500_000
# the second argument of C11's timespec_get: TIME_UTC
CLOCK_BASE = 1
# helpers at most: as many as there are bits for sleepers
MAX_HELPERS = 62
# bytes of a kernel's arguments at most, which each thread copies to its stack
MAX_ARGUMENT_BYTES = 8192

# seconds of threaded jobs over which waits are averaged: a few time slices of other processes
MEMORY = 0.02
# seconds for which fewer threads are used before one more is tried; doubled while that fails
MIN_PAUSE, MAX_PAUSE = 0.1, 2.0
# the same in times of what the failed trial took: trials may cost a twentieth of the time in all
PAUSE_PER_TRIAL = 20.0

_native = NativeHeader(__file__, "thread_pool.h")


@wp.func_native(
    _native.body(
        "run_role",
        JOB=JOB,
        NEXT_RANGE=NEXT_RANGE,
        ACTIVE=ACTIVE,
        GENERATION=GENERATION,
        OPEN=OPEN,
        YIELD=YIELD,
        CLOCK=CLOCK,
        CLOCK_BASE=CLOCK_BASE,
        WAITED=WAITED,
        LONG_WAIT=LONG_WAIT,
        SLEEPERS=SLEEPERS,
        AWAKE=AWAKE,
        SPINS_BEFORE_YIELD=SPINS_BEFORE_YIELD,
        SPINS_BEFORE_SLEEP=SPINS_BEFORE_SLEEP,
        MAX_HELPERS=MAX_HELPERS,
        MAX_ARGUMENT_BYTES=MAX_ARGUMENT_BYTES,
    )
)
def run_role(memory: wp.array[wp.int64], role: int):
    """Post the job on the board `memory` (role 0), lead it (1), or help with jobs (2 and more)."""
    ...


@wp.kernel
def run_role_kernel(first: int, memory: wp.array[wp.int64]):
    """Launched with one item, whose number is the role."""
    run_role(memory, first + wp.tid())


def yield_address() -> int:
    """The address of the system's function by which a waiting thread lets others run.

    It returns at once where no other thread wants the core. To sleep for microseconds instead makes a sweep over many small
    colours four times slower: the thread that others wait for has then just gone to sleep.
    """
    library = ctypes.CDLL("kernel32" if sys.platform == "win32" else None)
    function = library.SwitchToThread if sys.platform == "win32" else library.sched_yield
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def clock_address() -> int:
    """The address of C11's timespec_get, which writes seconds and nanoseconds."""
    library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
    function = library._timespec64_get if sys.platform == "win32" else library.timespec_get
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@cache
def _packed(types: tuple[type, ...]) -> type[ctypes.Structure]:
    """A structure with fields of such types, cached: a class for each launch would be freed by the garbage collector only."""
    return type("Packed", (ctypes.Structure,), {"_fields_": [(f"a{k}", kind) for k, kind in enumerate(types)]})


class PackedKernel:
    """A kernel's compiled CPU code and its arguments, packed into one structure as that code takes them."""

    def __init__(self, recorded: wp.Launch) -> None:
        self.recorded = recorded
        packed = recorded.params[1:]
        kind = _packed(tuple(type(argument) for argument in packed))
        self.packed: Any = kind(*packed)
        self.bytes = ctypes.sizeof(kind)
        if self.bytes > MAX_ARGUMENT_BYTES:
            raise ValueError(
                f"kernel {recorded.kernel.key} takes {self.bytes} bytes of arguments: at most {MAX_ARGUMENT_BYTES}"
            )
        self.bounds: Any = recorded.bounds
        self.entry: Any = recorded.hooks.forward
        self.address = ctypes.addressof(self.packed)
        self.entry_address = ctypes.cast(self.entry, ctypes.c_void_p).value or 0
        self._by_reference = ctypes.byref(self.bounds), ctypes.byref(self.packed)
        self._first = self._count = -1

    def repack(self, index: int) -> None:
        """Take over an argument that changed in the recorded launch."""
        setattr(self.packed, f"a{index}", self.recorded.params[index + 1])

    def call(self, first: int, count: int) -> None:
        """Run items `first` to `first + count` on this thread."""
        if first != self._first or count != self._count:
            self._first, self._count = first, count
            self.packed.a0 = first
            self.bounds.shape[0] = self.bounds.size = count
        self.entry(*self._by_reference)


class ThreadPool:
    """Helper threads, each with a lock on which it sleeps; one job at a time."""

    def __init__(self) -> None:
        self._memory = wp.zeros(AWAKE + 2 * (MAX_HELPERS + 1), dtype=wp.int64, device="cpu")
        self._board = self._memory.numpy()
        self._board[YIELD], self._board[CLOCK] = yield_address(), clock_address()
        self._wake_locks: list[Any] = []
        self._post, self._lead = self._pack_role(), self._pack_role()

    def _pack_role(self) -> PackedKernel:
        return PackedKernel(wp.launch(run_role_kernel, dim=1, inputs=[0, self._memory], device="cpu", record_cmd=True))

    def run(self, kernel: PackedKernel, items: int, ranges: int, threads: int, *, each: bool = False) -> float:
        """Run all items in so many ranges; `each`: every thread takes exactly one range, all at the same time.

        Returns for how many seconds this thread waited for the others at the end, 0 if it was not long.
        """
        while len(self._wake_locks) < threads - 1:
            self._add_helper()
        self._board[JOB : JOB + 7] = ranges, items, kernel.entry_address, kernel.address, kernel.bytes, each, threads
        self._post.call(0, 1)
        sleepers = int(self._board[SLEEPERS])
        while sleepers:
            lock = self._wake_locks[sleepers.bit_length() - 1]
            sleepers &= ~(1 << (sleepers.bit_length() - 1))
            if lock.locked():
                lock.release()
        self._lead.call(1, 1)
        return 1e-9 * float(self._board[WAITED])

    def _add_helper(self) -> None:
        lock, number = _thread.allocate_lock(), len(self._wake_locks) + 1
        lock.acquire()
        self._wake_locks.append(lock)
        role = self._pack_role()

        def serve() -> None:
            while True:
                lock.acquire()
                role.call(number + 1, 1)

        threading.Thread(target=serve, name=f"weft-{number}", daemon=True).start()


class ThreadLimit:
    """How many threads pay off while other processes want the cores too.

    A thread that loses its core to another process for a time slice keeps all others waiting at the next barrier: with one of
    two cores taken, a frame of `robust` took 4 to 9 times as long on two threads as on one. While one of n threads does not
    run for P seconds, the n - 1 others wait W = (n - 1) P seconds in all, and of the n T seconds that n threads have in the
    time T of a job only n T - W - P are work. If n - 1 threads would do that work in less than T, one thread less is
    used from then on, and one more tried again after a pause.
    """

    def __init__(self) -> None:
        self._limit = MAX_HELPERS + 1
        self._time = self._waited = self._trial = 0.0
        self._try_again, self._pause = 0.0, MIN_PAUSE

    def apply(self, threads: int) -> int:
        """How many of so many threads to use now."""
        if threads <= self._limit:
            return threads
        if perf_counter() > self._try_again:
            self._limit += 1
            self._time = self._waited = self._trial = 0.0
            self._try_again = perf_counter() + self._pause
        return min(threads, self._limit)

    def report(self, threads: int, seconds: float, waited: float) -> None:
        """Take into account a job of so many threads, and how long all of them waited for others together."""
        self._trial += seconds
        keep = max(0.0, 1.0 - seconds / MEMORY)
        self._time, self._waited = keep * self._time + seconds, keep * self._waited + waited
        if self._time < 0.5 * MEMORY:
            return
        # n T - W - P < (n - 1) T
        if threads * self._waited > (threads - 1) * self._time:
            self._limit = threads - 1
            self._try_again = perf_counter() + max(self._pause, PAUSE_PER_TRIAL * min(self._trial, MAX_PAUSE))
            self._time = self._waited = 0.0
            self._pause = min(2.0 * self._pause, MAX_PAUSE)
        elif perf_counter() > self._try_again:
            self._pause, self._trial = MIN_PAUSE, 0.0
