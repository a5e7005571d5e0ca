"""The lists of a step: candidates, and the contacts and collisions among them as stencils in device arrays.

Candidates are the pairs of features that the broad phase finds, what is known of each, and which of them are chosen.

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
from weft.runtime.buffers import Buffer, LaunchBound
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})


@wp.struct
class ContactArrays:
    """The arrays of a `ContactList` for kernels; its properties say what they hold."""

    vertices: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    normals: wp.array[wp.vec3d]
    gaps: wp.array[wp.float64]
    thickness: wp.array[wp.float64]
    least_speeds: wp.array[wp.float64]
    friction: wp.array[wp.vec2d]
    normal_impulses: wp.array[wp.float64]
    tangential_impulses: wp.array[wp.vec3d]
    least_impulses: wp.array[wp.float64]
    kept_distances: wp.array[wp.float64]
    gains: wp.array[wp.vec4d]
    corrections: wp.array[wp.vec3d]


GEOMETRY = ("vertices", "weights", "normals", "gaps", "thickness")
IMPULSES = ("least_speeds", "friction", "normal_impulses", "tangential_impulses", "least_impulses")


@wp.kernel
def _write_size(first: int, count: int, size: wp.array[int]):
    i = first + wp.tid()
    size[i] = count


class ContactList:
    """Contacts and collisions of a step as stencils in device arrays that grow; the first `count` entries are in use.

    The search fills in the geometry (four vertices, weights, normal, gap, thickness), `set_repulsion` what each entry
    asks for, and the sweeps the impulses.
    """

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self.count = 0
        self._launch_bound = LaunchBound(device)
        self.size = wp.zeros(1, dtype=int, device=device)
        """`count` for kernels"""
        geometry = (wp.vec4i, wp.vec4d, wp.vec3d, wp.float64, wp.float64)
        self._geometry = [Buffer(dtype, device) for dtype in geometry]
        # the other half of a double buffer, into which contacts are reordered
        self._reordered = [Buffer(dtype, device) for dtype in geometry]
        self._is_reordered = False
        self._impulses = [Buffer(dtype, device) for dtype in (wp.float64, wp.vec2d, wp.float64, wp.vec3d, wp.float64)]
        self._kept_distances, self._gains = Buffer(wp.float64, device), Buffer(wp.vec4d, device)
        self._corrections = Buffer(wp.vec3d, device)
        self._structs: dict[bool, tuple[list[wp.array], Any]] = {}

    @property
    def vertices(self) -> wp.array:
        """vec4i: point and triangle corners, or the ends of two edges"""
        return self._geometry[0].array

    @property
    def weights(self) -> wp.array:
        """vec4d, sum zero"""
        return self._geometry[1].array

    @property
    def normals(self) -> wp.array:
        """vec3d, from the second side to the first"""
        return self._geometry[2].array

    @property
    def gaps(self) -> wp.array:
        """float64: gap along the normal at the start of the step, in m"""
        return self._geometry[3].array

    @property
    def thickness(self) -> wp.array:
        """float64: the gap that is wanted at the end of the step, in m"""
        return self._geometry[4].array

    @property
    def geometry(self) -> list[wp.array]:
        """Vertices, weights, normals, gaps, thickness."""
        return [buffer.array for buffer in self._geometry]

    @property
    def least_speeds(self) -> wp.array:
        """float64: the least relative normal velocity that the contact accepts, in m/s"""
        return self._impulses[0].array

    @property
    def friction(self) -> wp.array:
        """vec2d: static and kinetic coefficient"""
        return self._impulses[1].array

    @property
    def normal_impulses(self) -> wp.array:
        """float64: accumulated, not negative"""
        return self._impulses[2].array

    @property
    def tangential_impulses(self) -> wp.array:
        """vec3d: accumulated"""
        return self._impulses[3].array

    @property
    def least_impulses(self) -> wp.array:
        """float64: the normal impulse that the substeps gave, which later sweeps do not take back"""
        return self._impulses[4].array

    @property
    def kept_distances(self) -> wp.array:
        """float64: the gap that a contact keeps in the substeps of position-based dynamics, in m"""
        return self._kept_distances.array

    @property
    def gains(self) -> wp.array:
        """vec4d: the move of each vertex along the normal that moves the sides apart by one; of reordered contacts"""
        return self._gains.array

    @property
    def corrections(self) -> wp.array:
        """vec3d: sum of the corrections of the relative position in the substeps, in m"""
        return self._corrections.array

    @property
    def launch_bound(self) -> int:
        """Items of launches whose kernels read `size`: on CUDA this seldom changes, so that graphs can be reused."""
        return self._launch_bound.for_count(self.count)

    def clear(self) -> None:
        """No contacts. New ones are always written to the same half of the double buffer, for the sake of CUDA graphs."""
        self.count = 0
        if self._is_reordered:
            self._swap()

    def grow(self, count: int) -> None:
        """Make room for `count` contacts; those in use stay."""
        bound = self._launch_bound.for_count(count)
        for buffer in (*self._geometry, *self._impulses, self._kept_distances, self._corrections):
            buffer.at_least(bound, keep=self.count)
        self.count = count
        launch(_write_size, 1, [count, self.size], device=self.device)

    @property
    def arrays(self) -> Any:
        """All arrays as a struct; the same object as long as they are the same."""
        return self._struct(self._geometry, self._is_reordered)

    def reordered_arrays(self) -> Any:
        """The struct of the other half of the double buffer, with room for all contacts: `reorder_contacts` writes into it."""
        for buffer in (*self._reordered, self._gains):
            buffer.at_least(self.launch_bound)
        return self._struct(self._reordered, not self._is_reordered)

    def _struct(self, geometry: list[Buffer], half: bool) -> Any:
        buffers = (*geometry, *self._impulses, self._kept_distances, self._gains, self._corrections)
        columns = [buffer.array for buffer in buffers]
        known, result = self._structs.get(half, ([], None))
        if len(known) != len(columns) or any(one is not other for one, other in zip(known, columns, strict=True)):
            result = ContactArrays()
            names = (*GEOMETRY, *IMPULSES, "kept_distances", "gains", "corrections")
            for name, column in zip(names, columns, strict=True):
                setattr(result, name, column)
            self._structs[half] = columns, result
        return result

    def take_reordered(self) -> None:
        """Use what was reordered; impulses are not set yet."""
        self._swap()

    def _swap(self) -> None:
        self._is_reordered = not self._is_reordered
        for one, other in zip(self._geometry, self._reordered, strict=True):
            one.array, other.array = other.array, one.array


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
        self._distances, self._times = Buffer(wp.float64, device), Buffer(wp.float64, device)
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
        self.pairs, self.order = pairs, self._no_order
        self.batch, self.prefiltered = self.plan.batch_of(count), self.plan.prefilters(count)
        self.batches = -(-count // self.batch)
        for buffer in (self._distances, self._times):
            buffer.at_least(count)
        for buffer in (self._chosen, self._counts, self._places):
            buffer.at_least(self.batches)

    @property
    def distances(self) -> wp.array:
        """float64: distance at the start of the step, or a lower bound of it where the pair is far apart, in m"""
        return self._distances.array

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
