"""The threads of the CPU: they take parts of a kernel's items without going through Python.

Waking a thread that sleeps takes 50 microseconds, and a second time as long where it waits for Python's lock: more than
most kernels run. So the helpers wait inside compiled code, for a tenth of a millisecond after the last job, and only then
lie down to sleep. A job is told on a board of numbers; whoever is free takes its next range, so that nobody waits for a
helper who comes late. Threads that have to meet (`together.py`) take one item each.
"""

import _thread
import ctypes
import sys
import threading
from functools import cache
from typing import Any

import warp as wp

wp.set_module_options({"enable_backward": False})

# what is on the board, each group in a cache line of its own
NEXT, ACTIVE, GENERATION, OPEN = 0, 8, 16, 17
JOB = 24
"""ranges, items, address of the kernel, address and bytes of its arguments, whether each thread takes one range, threads"""
REST, SLEEPERS, AWAKE = 40, 41, 48
# how often a thread looks whether others have come before it rests, and before a helper without work lies down
PATIENCE = 2000
BEDTIME = 4000
# helpers at most: as many as there are bits for sleepers
MOST_HELPERS = 62
# bytes of arguments at most
MOST_ARGUMENTS = 8192


@wp.func_native(
    f"""
#if !defined(__CUDA_ARCH__)
    typedef void kernel_entry(wp::launch_bounds_t<1>*, void*);
    typedef wp::int32 rest();
    wp::int64* board = given.data;
    wp::int64* job = board + {JOB};
    auto pause = [&](wp::int64& waited) {{
    #if defined(__x86_64__)
        __builtin_ia32_pause();
    #endif
        // a helper that is waited for may need the core: who waits awake for long keeps it from running
        if (++waited % {PATIENCE} == 0 && role == 1) (*(rest**)(board + {REST}))();
    }};
    auto work = [&]() {{
        // the arguments, with a first item of this thread's own
        alignas(16) char arguments[{MOST_ARGUMENTS}];
        const char* packed = (const char*)job[3];
        for (wp::int64 k = 0; k < job[4]; ++k) arguments[k] = packed[k];
        wp::launch_bounds_t<1> bounds;
        bounds.coord_mult = 1;
        while (true) {{
            const wp::int64 range = __atomic_fetch_add(board + {NEXT}, 1, __ATOMIC_RELAXED);
            if (range >= job[0]) break;
            const wp::int64 first = job[1] * range / job[0];
            const wp::int64 count = job[1] * (range + 1) / job[0] - first;
            bounds.shape[0] = (wp::uint32)count;
            bounds.size = (size_t)count;
            *(wp::int32*)arguments = (wp::int32)first;
            ((kernel_entry*)job[2])(&bounds, arguments);
            if (job[5]) break;
        }}
    }};

    if (role == 0) {{
        // post the job, and note who has to be woken
        board[{NEXT}] = 0;
        __atomic_store_n(board + {OPEN}, 1, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(board + {GENERATION}, 1, __ATOMIC_SEQ_CST);
        wp::int64 sleepers = 0;
        for (wp::int64 k = 1; k < job[6]; ++k)
            if (__atomic_exchange_n(board + {AWAKE} + k, 1, __ATOMIC_SEQ_CST) == 0) sleepers |= (wp::int64)1 << (k - 1);
        board[{SLEEPERS}] = sleepers;
    }} else if (role == 1) {{
        // do it with the others, and take it down when all of it is done
        wp::int64 waited = 0;
        work();
        while (job[5] && __atomic_load_n(board + {NEXT}, __ATOMIC_ACQUIRE) < job[0]) pause(waited);
        __atomic_store_n(board + {OPEN}, 0, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(board + {ACTIVE}, __ATOMIC_SEQ_CST) != 0) pause(waited);
    }} else {{
        // help with every job until none has come for a while
        const wp::int64 number = role - 1;
        wp::int64* seen = board + {AWAKE} + {MOST_HELPERS} + 1 + number;
        wp::int64 waited = 0;
        while (true) {{
            const wp::int64 generation = __atomic_load_n(board + {GENERATION}, __ATOMIC_SEQ_CST);
            if (generation != *seen) {{
                *seen = generation;
                waited = 0;
                __atomic_fetch_add(board + {ACTIVE}, 1, __ATOMIC_SEQ_CST);
                // once it is down, the next one may be about to be written
                const bool there = __atomic_load_n(board + {OPEN}, __ATOMIC_SEQ_CST) != 0;
                if (there && __atomic_load_n(board + {GENERATION}, __ATOMIC_SEQ_CST) == generation && number < job[6]) work();
                __atomic_fetch_sub(board + {ACTIVE}, 1, __ATOMIC_SEQ_CST);
            }} else if (waited > {BEDTIME}) {{
                __atomic_exchange_n(board + {AWAKE} + number, 0, __ATOMIC_SEQ_CST);
                if (__atomic_load_n(board + {GENERATION}, __ATOMIC_SEQ_CST) == *seen) return;
                __atomic_exchange_n(board + {AWAKE} + number, 1, __ATOMIC_SEQ_CST);
            }} else {{
                pause(waited);
            }}
        }}
    }}
#endif
"""
)
def play(given: wp.array[wp.int64], role: int):
    """Post a job (role 0), lead it (1), or help (2 and on)."""
    ...


@wp.kernel
def play_role(first: int, given: wp.array[wp.int64]):
    """One item: the role is its number."""
    play(given, first + wp.tid())


def resting() -> int:
    """The address of the system's function by which a thread that waits lets others run.

    It returns at once where nobody else wants the core. To sleep instead, for microseconds, makes a sweep over many small
    colours four times slower: whoever is waited for has then just gone to sleep.
    """
    library = ctypes.CDLL("kernel32" if sys.platform == "win32" else None)
    rest = library.SwitchToThread if sys.platform == "win32" else library.sched_yield
    return ctypes.cast(rest, ctypes.c_void_p).value or 0


@cache
def _packed(types: tuple[type, ...]) -> type[ctypes.Structure]:
    """A structure of such fields: one for all launches alike, since a class is a thing that only the collector frees."""
    return type("Packed", (ctypes.Structure,), {"_fields_": [(f"a{k}", kind) for k, kind in enumerate(types)]})


class Arguments:
    """The arguments of a kernel as its compiled code takes them."""

    def __init__(self, recorded: wp.Launch) -> None:
        self.recorded = recorded
        packed = recorded.params[1:]
        kind = _packed(tuple(type(part) for part in packed))
        self.packed: Any = kind(*packed)
        self.bytes = ctypes.sizeof(kind)
        if self.bytes > MOST_ARGUMENTS:
            raise ValueError(
                f"kernel {recorded.kernel.key} takes {self.bytes} bytes of arguments: at most {MOST_ARGUMENTS}"
            )
        self.bounds: Any = recorded.bounds
        self.entry: Any = recorded.hooks.forward
        self.address = ctypes.addressof(self.packed)
        self.entry_address = ctypes.cast(self.entry, ctypes.c_void_p).value or 0
        self._by_reference = ctypes.byref(self.bounds), ctypes.byref(self.packed)
        self._first = self._count = -1

    def take(self, index: int) -> None:
        """Take over an argument that was packed anew."""
        setattr(self.packed, f"a{index}", self.recorded.params[index + 1])

    def call(self, first: int, count: int) -> None:
        """Run some items on this thread."""
        if first != self._first or count != self._count:
            self._first, self._count = first, count
            self.packed.a0 = first
            self.bounds.shape[0] = self.bounds.size = count
        self.entry(*self._by_reference)


class ThreadPool:
    """Helpers, each with a lock on which it sleeps; one job at a time."""

    def __init__(self) -> None:
        self._given = wp.zeros(AWAKE + 2 * (MOST_HELPERS + 1), dtype=wp.int64, device="cpu")
        self._board = self._given.numpy()
        self._board[REST] = resting()
        self._beds: list[Any] = []
        self._post, self._lead = self._role(), self._role()

    def _role(self) -> Arguments:
        return Arguments(wp.launch(play_role, dim=1, inputs=[0, self._given], device="cpu", record_cmd=True))

    def run(self, kernel: Arguments, items: int, ranges: int, threads: int, *, each: bool = False) -> None:
        """Run all items in so many ranges; `each`: every thread takes one, all at the same time."""
        while len(self._beds) < threads - 1:
            self._hire()
        self._board[JOB : JOB + 7] = ranges, items, kernel.entry_address, kernel.address, kernel.bytes, each, threads
        self._post.call(0, 1)
        sleepers = int(self._board[SLEEPERS])
        while sleepers:
            bed = self._beds[sleepers.bit_length() - 1]
            sleepers &= ~(1 << (sleepers.bit_length() - 1))
            if bed.locked():
                bed.release()
        self._lead.call(1, 1)

    def _hire(self) -> None:
        bed, number = _thread.allocate_lock(), len(self._beds) + 1
        bed.acquire()
        self._beds.append(bed)
        role = self._role()

        def serve() -> None:
            while True:
                bed.acquire()
                role.call(number + 1, 1)

        threading.Thread(target=serve, name=f"weft-{number}", daemon=True).start()
