"""A step of `predictive` with its rehearsal and its search as one launch, on one thread of a CPU."""

# mypy: disable-error-code="arg-type, assignment"

from typing import Any

import warp as wp

from weft.methods.predictive_arrays import Numbers
from weft.methods.predictive_in_order import advance_in_order
from weft.methods.predictive_kernels import take_state
from weft.response.predictive_candidates import unturn
from weft.response.predictive_contacts import Contacts
from weft.response.predictive_passes import FOUND, NOWHERE, SHORT, search_together
from weft.response.predictive_quick import QuickSearch
from weft.world.chain import Chain

wp.set_module_options({"enable_backward": False})

# chains that are kept: of whole steps, and of steps in parts
MOST_CHAINS = 4
# why it may end before the step is done: cloth moves far, or there was no room for what was found
IN_PARTS = wp.constant(1)
NO_ROOM = wp.constant(2)


@wp.kernel
def begin_rehearsal(first: int, times: int, settings: wp.array[Numbers], usual: wp.array[int]):
    """So many times fewer substeps, and no contacts."""
    i = first + wp.tid()
    usual[i] = settings[i].substeps
    settings[i].contacts = 0
    settings[i].rehearsal = 1
    settings[i].substeps = (usual[i] + times - 1) / times


@wp.kernel
def end_rehearsal(first: int, settings: wp.array[Numbers], usual: wp.array[int]):
    """As it was before."""
    i = first + wp.tid()
    settings[i].rehearsal = 0
    settings[i].substeps = usual[i]


@wp.kernel
def judge_haste(first: int, haste: wp.array[wp.float64], limits: wp.array[wp.float64], stop: wp.array[int]):
    """Stop where the step should have parts."""
    i = first + wp.tid()
    if haste[i] > limits[i]:
        stop[i] = IN_PARTS


@wp.kernel
def take_contacts(first: int, told: wp.array[int], room: int, settings: wp.array[Numbers], stop: wp.array[int]):
    """Solve what was found; stop where there was no room for it."""
    i = first + wp.tid()
    settings[i].contacts = told[FOUND]
    if told[FOUND] > room or told[SHORT] != 0 or told[NOWHERE] != 0:
        stop[i] = NO_ROOM


class AtOnce:
    """The chains of all kernels of such steps; one is made anew where arrays are others than before."""

    def __init__(self, settings: wp.array, rehearsal: int, end: wp.array, end_v: wp.array) -> None:
        self._settings, self._rehearsal, self._end, self._end_v = settings, rehearsal, end, end_v
        self._usual, self._stop = (wp.zeros(1, dtype=int, device="cpu") for _ in range(2))
        self._limits = wp.zeros(1, dtype=wp.float64, device="cpu")
        self._limit_view = self._limits.numpy()
        self._chains: dict[int, tuple[tuple[Any, ...], Chain]] = {}
        self._chain: Chain | None = None

    def run(
        self,
        state: tuple[wp.array, wp.array],
        turning: tuple[Any, ...],
        search: tuple[Any, ...],
        rehearsed: tuple[Any, ...],
        solved: tuple[Any, ...],
        contacts: Contacts,
        quick: QuickSearch,
        *,
        farthest: float,
    ) -> int:
        """A step from a state; the other tuples are what its kernels take. Gives why it ended early, or 0.

        Where the mean vertex moves by more than `farthest` it does.
        """
        given = (*state, turning, search, rehearsed, solved)
        known, self._chain = self._chains.get(id(solved), ((), None))
        if self._chain is None or any(a is not b for a, b in zip(given, known, strict=True)):
            settings, stop, count = self._settings, self._stop, turning[0]
            self._chain = Chain(
                stop,
                (take_state, count, (*state, self._end, self._end_v)),
                (begin_rehearsal, 1, (self._rehearsal, settings, self._usual)),
                (advance_in_order, 1, rehearsed),
                (end_rehearsal, 1, (settings, self._usual)),
                (unturn, 1, turning),
                (judge_haste, 1, (turning[-1], self._limits, stop)),
                (search_together, 1, (1, quick.alone, *search)),
                (take_contacts, 1, (quick.told, len(contacts.arrays[0]), settings, stop)),
                (advance_in_order, 1, solved),
            )
            if len(self._chains) >= MOST_CHAINS:
                self._chains.clear()
            self._chains[id(solved)] = given, self._chain
        return self.again(farthest)

    def again(self, farthest: float) -> int:
        """The same with all arrays as before, which needs no look at them."""
        assert self._chain is not None
        self._limit_view[0] = farthest
        return self._chain.run()
