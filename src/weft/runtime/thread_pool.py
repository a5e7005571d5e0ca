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
# the address of the yield function, a bit mask of helpers to wake, and for each helper whether it is awake (one word a
# helper, from 1 on) and then the last job that it saw
YIELD, SLEEPERS, AWAKE = 40, 41, 48

# spins after which a thread that others may be waiting for lets the system run another one: about 50 microseconds. Less
# calls the system often, more lets the awaited thread wait for a core
SPINS_BEFORE_YIELD = 2000
# spins without a job after which a helper sleeps: about a tenth of a millisecond, twice what waking it costs
SPINS_BEFORE_SLEEP = 4000
# helpers at most: as many as there are bits for sleepers
MAX_HELPERS = 62
# bytes of a kernel's arguments at most, which each thread copies to its stack
MAX_ARGUMENT_BYTES = 8192

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
        self._board[YIELD] = yield_address()
        self._wake_locks: list[Any] = []
        self._post, self._lead = self._pack_role(), self._pack_role()

    def _pack_role(self) -> PackedKernel:
        return PackedKernel(wp.launch(run_role_kernel, dim=1, inputs=[0, self._memory], device="cpu", record_cmd=True))

    def run(self, kernel: PackedKernel, items: int, ranges: int, threads: int, *, each: bool = False) -> None:
        """Run all items in so many ranges; `each`: every thread takes exactly one range, all at the same time."""
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
