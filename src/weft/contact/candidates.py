"""Lists of candidates: the pairs of features that the broad phase finds, what is known of each, and which of them are chosen.

Chosen candidates (contacts, or later collisions) are bits of 64-bit masks. One word is a batch: the candidates that one CPU
thread tests at a time, or a single candidate of a CUDA thread (see `ExecutionPlan`).
"""

# mypy: disable-error-code="empty-body"

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact.execution_plan import WORD, ExecutionPlan
from weft.geometry.stencil import Kind
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

_native = NativeHeader(__file__, "candidates.h")

# distance that is noted of pairs that are not to be tested, in m: farther than anything moves
IGNORED_DISTANCE = wp.constant(wp.float64(1e30))
# candidates that are worth a CPU thread
CANDIDATES_A_THREAD = 256


@wp.func
def bit(k: int) -> wp.uint64:
    """The mask bit of candidate k of a batch."""
    return wp.uint64(1) << wp.uint64(k)


@wp.func_native(_native.body("count_bits"))
def count_bits(mask: wp.uint64) -> int:
    """How many bits are set."""
    ...


@wp.func
def candidates_in(begin: int, batch: int, pairs: wp.array[wp.vec2i]) -> int:
    """How many candidates a batch has: the last one may be shorter."""
    return wp.min(batch, pairs.shape[0] - begin)


@wp.func
def mask_of_thread(mask: wp.uint64, thread: int, threads: int):
    """The bits of a mask that belong to one of several threads that share it, and how many bits are set before them."""
    width = WORD // threads
    own = mask
    before = int(0)
    if threads > 1:
        before = count_bits(mask & (bit(width * thread) - wp.uint64(1)))
        own = mask & ((bit(width) - wp.uint64(1)) << wp.uint64(width * thread))
    return own, before


@wp.func
def place_in_order(order: wp.array[int], place: int) -> int:
    """The place of a chosen candidate in `order`, or where that is empty the one that it has."""
    result = place
    if order.shape[0] > 0:
        result = order[place]
    return result


@wp.kernel
def list_chosen(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    listed: wp.array[wp.vec2i],
):
    """Copy the chosen pairs to a list."""
    item = first + wp.tid()
    left = chosen[item]
    place = places[item]
    while left != wp.uint64(0):
        listed[place] = pairs[item * batch + lowest_bit(left)]
        left &= left - wp.uint64(1)
        place += 1


@wp.kernel
def ignore_marked(
    first: int,
    pairs: wp.array[wp.vec2i],
    marked: wp.array[int],
    other_marked: wp.array[int],
    distances: wp.array[wp.float64],
):
    """Ignore the pairs of marked features: an escaped vertex has its pairs in a list of its own."""
    i = first + wp.tid()
    pair = pairs[i]
    if marked[pair[0]] + other_marked[pair[1]] != 0:
        distances[i] = IGNORED_DISTANCE


class CandidateList:
    """Candidates of one kind, and buffers for what is known of them, which are kept between steps."""

    def __init__(self, kind: Kind, device: wp.Device, plan: ExecutionPlan) -> None:
        self.kind, self.device, self.plan = kind, device, plan
        self.count = self.batches = 0
        self.pairs = wp.empty(0, dtype=wp.vec2i, device=device)
        """vec2i: vertex and triangle, or two edges"""
        self.batch, self.prefiltered = plan.batch, False
        self.tested = False
        """whether these pairs were there in the first collision test of the step"""
        self._distances, self._times = Buffer(wp.float64, device), Buffer(wp.float64, device)
        self._clearances = Buffer(wp.int8, device)
        self._chosen, self._counts, self._places = Buffer(wp.uint64, device), Buffer(int, device), Buffer(int, device)
        self._listed, self._left = Buffer(wp.vec2i, device), Buffer(int, device)
        self._left_count = wp.zeros(1, dtype=int, device=device)
        self._no_order = wp.empty(0, dtype=int, device=device)
        self.order = self._no_order
        """the places of the chosen candidates, where they differ from those of the list"""

    def assign(self, pairs: wp.array) -> None:
        """Take a new list of candidates."""
        if pairs is self.pairs and len(pairs) == 0:
            return
        count = self.count = len(pairs)
        self.pairs, self.order, self.tested = pairs, self._no_order, False
        self.batch, self.prefiltered = self.plan.batch_of(count), self.plan.prefilters(count)
        self.batches = -(-count // self.batch)
        for buffer in (self._distances, self._times, self._clearances):
            buffer.at_least(count)
        for buffer in (self._chosen, self._counts, self._places):
            buffer.at_least(self.batches)

    @property
    def distances(self) -> wp.array:
        """float64: distance at the start of the step, or a lower bound of it where the pair is far apart, in m"""
        return self._distances.array

    @property
    def clearances(self) -> wp.array:
        """int8: what was left of the distance at least in the first collision test, in units (see `motion_bounds`)"""
        return self._clearances.array

    @property
    def times(self) -> wp.array:
        """float64: when a chosen pair collides, from 0 to 1"""
        return self._times.array

    @property
    def chosen(self) -> wp.array:
        """uint64 a batch: mask of the chosen candidates"""
        return self._chosen.array

    @property
    def counts(self) -> wp.array:
        """int a batch: how many of its candidates are chosen"""
        return self._counts.array

    @property
    def places(self) -> wp.array:
        """int a batch: how many candidates of the batches before it are chosen"""
        return self._places.array

    @property
    def scanned(self) -> tuple[wp.array, wp.array, int]:
        """Counts and places, for an exclusive scan over all batches."""
        return self.counts, self.places, self.batches

    @property
    def grain(self) -> int:
        """How many batches are worth a CPU thread."""
        return max(1, CANDIDATES_A_THREAD // self.batch)

    def run(self, kernel: wp.Kernel, inputs: list[Any], *, threads: int = 1) -> None:
        """Launch a kernel over all batches, with some threads for each."""
        launch(kernel, threads * self.batches, inputs, device=self.device, grain=self.grain)

    def left_buffers(self) -> list[wp.array]:
        """A list for the candidates that a prefilter leaves, and their number, which is 0 now."""
        self._left_count.zero_()
        return [self._left.at_least(self.count), self._left_count]

    def sort_chosen(self, count: int) -> None:
        """Order the few chosen candidates by pair: their order in the list depends on the device."""
        listed = self._listed.at_least(count)
        self.run(list_chosen, [self.batch, self.pairs, self.chosen, self.places, listed])
        one, other = listed.numpy()[:count].reshape(-1, 2).T
        ranks = np.empty(count, np.int32)
        ranks[np.lexsort((other, one))] = np.arange(count, dtype=np.int32)
        self.order = wp.array(ranks, dtype=int, device=self.device)
