"""Contacts from the candidates that a broad phase lists: on CUDA, of vertices with vertices, and with any broad phase.

Candidates pass a cheap test, then the full one; then contacts are counted, placed by a prefix sum and written, so that they
stand in the order of the candidates.

On CUDA the search can also be launched without waiting for the length of any list, as if all lists had the room that they took
before: kernels read lengths from device memory and note where there was no room. So a whole step can be one CUDA graph.
"""

# mypy: disable-error-code="arg-type, assignment, empty-body"

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.broad_phase.list_kernels import ListSums, overflows
from weft.broad_phase.patch_search import CapturableSearch
from weft.broad_phase.trees import Bvh
from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.methods.predictive.contacts import (
    ALIGNED,
    DISPLACEMENT_RATIO,
    EDGE_EDGE,
    END,
    FIRST,
    POINT_POINT,
    POINT_TRIANGLE,
    SECOND,
    SHARP,
    STRAIGHT,
    SearchSurface,
    StepContactArrays,
    StepContacts,
    make_edge_edge,
    make_pair,
    make_point_point,
    make_point_triangle,
    write_contact,
)
from weft.methods.predictive.state import fill
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scan, scan_total
from weft.runtime.graph_cache import fork_join
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
# candidates an item: few, so that many threads of a GPU share them
FEW = wp.constant(4)
# bits a candidate: a vertex makes a contact with each corner of a triangle
BITS = wp.constant(3)
# items of a kernel that are worth a thread of the CPU
GRAIN = 64
# squared tangent of 60 degrees, a little more: beyond that angle from its normal a triangle makes no contact
STEEP = 3.01
# what a step on CUDA reports in device memory: whether a list had no room, and how many contacts there are; then half-spaces,
# how many of both pushed in the last sweep, how many fractions the step is to be divided into, and whether a contact was much
# nearer than its thickness after the substeps
NO_ROOM, FOUND, HALF_SPACES, PUSHED, FRACTIONS, DEEP = (wp.constant(k) for k in range(6))
REPORTED = wp.constant(6)

_native = NativeHeader(__file__, "list_search.h")


@wp.struct
class FeatureMotion:
    """Positions, and displacements of all features over the step, of which the last number is a radius."""

    places: wp.array[wp.vec4d]
    vertex_ways: wp.array[wp.vec4d]
    edge_ways: wp.array[wp.vec4d]
    face_ways: wp.array[wp.vec4d]


@wp.func_native(PACKED_VERTEX + _native.body("may_touch_triangle", STEEP=STEEP))
def may_touch_triangle(pair: wp.vec2i, reach: wp.float64, surface: SearchSurface, motion: FeatureMotion) -> bool:
    """Whether a vertex and a triangle may make a contact."""
    ...


@wp.func_native(
    PACKED_VERTEX
    + _native.body(
        "may_touch_edge",
        STRAIGHT=STRAIGHT,
        DISPLACEMENT_RATIO=DISPLACEMENT_RATIO,
        SHARP=SHARP,
        FIRST=FIRST,
        SECOND=SECOND,
        END=END,
    )
)
def may_touch_edge(pair: wp.vec2i, reach: wp.float64, surface: SearchSurface, motion: FeatureMotion) -> bool:
    """Whether two edges may make a contact."""
    ...


@wp.func_native(_native.body("fold"))
def fold(wings: wp.vec2i, faces: wp.array[wp.vec3i], x: wp.array[wp.vec3d]) -> wp.float64:
    """Cosine of the angle between two triangles; 0 if one has no area."""
    ...


@wp.kernel
def measure_vertices(first: int, surface: SearchSurface, motion: FeatureMotion):
    """Position and displacement of each vertex."""
    i = first + wp.tid()
    x = surface.x[i]
    way = surface.end[i] - x
    motion.places[i] = wp.vec4d(x[0], x[1], x[2], ZERO)
    motion.vertex_ways[i] = wp.vec4d(way[0], way[1], way[2], ZERO)


@wp.kernel
def measure_edges(first: int, surface: SearchSurface, motion: FeatureMotion):
    """A ball around the displacements of the ends of each edge, and the edge's marks."""
    i = first + wp.tid()
    e = surface.edges[i]
    mark = int(0)
    if surface.first_edge[e[0]] == i:
        mark = FIRST
    if surface.first_edge[e[1]] == i:
        mark += SECOND
    wings = surface.edge_faces[i]
    if wings[1] < 0 or fold(wings, surface.faces, surface.x) < ALIGNED:
        mark += SHARP
    surface.marks[i] = mark
    a = motion.vertex_ways[e[0]]
    b = motion.vertex_ways[e[1]]
    mean = HALF * (a + b)
    mean[3] = wp.length(HALF * (a - b))
    motion.edge_ways[i] = mean


@wp.kernel
def measure_faces(first: int, surface: SearchSurface, motion: FeatureMotion):
    """A ball around the displacements of the corners of each triangle."""
    i = first + wp.tid()
    f = surface.faces[i]
    a = motion.vertex_ways[f[0]]
    b = motion.vertex_ways[f[1]]
    c = motion.vertex_ways[f[2]]
    mean = (a + b + c) / wp.float64(3.0)
    mean[3] = wp.sqrt(wp.max(wp.length_sq(a - mean), wp.max(wp.length_sq(b - mean), wp.length_sq(c - mean))))
    motion.face_ways[i] = mean


@wp.func
def test_candidate(kind: int, pair: wp.vec2i, reach: wp.float64, surface: SearchSurface, motion: FeatureMotion) -> int:
    """Which contacts a candidate makes: a bit, or one for each corner of the triangle that a vertex may touch."""
    bits = int(0)
    if kind == POINT_TRIANGLE:
        if may_touch_triangle(pair, reach, surface, motion):
            if make_point_triangle(pair, surface)[0] != ZERO:
                bits = 1
    elif kind == EDGE_EDGE:
        if may_touch_edge(pair, reach, surface, motion):
            if make_edge_edge(pair, surface)[0] != ZERO:
                bits = 1
    else:
        f = surface.faces[pair[1]]
        for k in range(3):
            if pair[0] < f[k] and (surface.owned[pair[1]] >> k) & 1 != 0:
                if make_point_point(pair[0], f[k], surface)[0] != ZERO:
                    bits = bits | (1 << k)
    return bits


@wp.kernel
def choose(
    first: int,
    kind: int,
    offset: int,
    pairs: wp.array[wp.vec2i],
    number: int,
    lengths: wp.array[int],
    reach: wp.float64,
    surface: SearchSurface,
    motion: FeatureMotion,
    chosen: wp.array[int],
    counts: wp.array[int],
):
    """Which contacts the candidates of an item make, and how many; items of this kind begin at the offset.

    The list has lengths[number] candidates.
    """
    item = first + wp.tid()
    bits = int(0)
    for k in range(wp.min(lengths[number] - item * FEW, FEW)):
        bits = bits | (test_candidate(kind, pairs[item * FEW + k], reach, surface, motion) << (BITS * k))
    chosen[offset + item] = bits
    count = int(0)
    while bits != 0:
        bits = bits & (bits - 1)
        count += 1
    counts[offset + item] = count


@wp.kernel
def write_chosen(
    first: int,
    kind: int,
    offset: int,
    pairs: wp.array[wp.vec2i],
    chosen: wp.array[int],
    places: wp.array[int],
    surface: SearchSurface,
    contacts: StepContactArrays,
):
    """The contacts of an item, from its place on, as far as there is room."""
    item = first + wp.tid()
    left = wp.uint64(chosen[offset + item])
    place = places[offset + item]
    while left != wp.uint64(0):
        bit = lowest_bit(left)
        left = left & (left - wp.uint64(1))
        pair = pairs[item * FEW + bit / BITS]
        if kind == POINT_POINT:
            pair = wp.vec2i(pair[0], surface.faces[pair[1]][bit % BITS])
        if place < contacts.kinds.shape[0]:
            write_contact(place, kind, pair, make_pair(kind, pair, surface), surface, contacts)
        place += 1


@wp.kernel
def take_lengths(
    first: int,
    triangle_sums: wp.array[ListSums],
    triangle_room: int,
    edge_sums: wp.array[ListSums],
    edge_room: int,
    lengths: wp.array[int],
):
    """How many candidates were listed; none where a list had no room for all. One item."""
    i = first + wp.tid()
    lengths[i] = 0
    lengths[i + 1] = 0
    if overflows(triangle_sums, triangle_room) == 0:
        lengths[i] = int(triangle_sums[triangle_sums.shape[0] - 1][0])
    if overflows(edge_sums, edge_room) == 0:
        lengths[i + 1] = int(edge_sums[edge_sums.shape[0] - 1][0])


@wp.kernel
def report_search(
    first: int,
    patch_sums: wp.array[ListSums],
    patch_room: int,
    triangle_sums: wp.array[ListSums],
    triangle_room: int,
    edge_sums: wp.array[ListSums],
    edge_room: int,
    too_far: wp.array[int],
    items: int,
    counts: wp.array[int],
    places: wp.array[int],
    room: int,
    reported: wp.array[int],
):
    """How many contacts there are, and whether there was room for them and for all lists before. One item."""
    i = first + wp.tid()
    found = scan_total(counts, places, items)
    full = overflows(patch_sums, patch_room)
    full += overflows(triangle_sums, triangle_room) + overflows(edge_sums, edge_room)
    if found > room:
        full += 1
    reported[i + NO_ROOM] = full + too_far[i]
    reported[i + FOUND] = found


class SearchRoom(NamedTuple):
    """Room for a search without waiting, and the arrays on which its launches depend."""

    ahead: CapturableSearch
    items: int
    given: tuple[Any, ...]


class ListSearch:
    """Contacts of a surface from lists of candidates; buffers are kept between steps."""

    def __init__(self, surface: Any, device: wp.Device) -> None:
        self.surface, self.device = surface, device
        sizes = (len(surface.first_edge), len(surface.first_edge), len(surface.edges), len(surface.faces))
        arrays = [wp.zeros(size, dtype=wp.vec4d, device=device) for size in sizes]
        names = FeatureMotion.vars  # type: ignore[attr-defined]
        self.motion = fill(FeatureMotion, **dict(zip(names, arrays, strict=True)))
        self.reported = wp.zeros(int(REPORTED), dtype=int, device=device)
        """what a step on CUDA reports"""
        self._lengths = wp.zeros(2, dtype=int, device=device)
        self._chosen, self._counts, self._places = (Buffer(int, device) for _ in range(3))

    def measure(self) -> None:
        """Positions and displacements of all features."""
        inputs = [self.surface, self.motion]
        self._launch(measure_vertices, len(self.motion.places), inputs)
        self._launch(measure_edges, len(self.motion.edge_ways), inputs)
        self._launch(measure_faces, len(self.motion.face_ways), inputs)

    def find(self, lists: Sequence[tuple[int, wp.array]], reach: float, contacts: StepContacts) -> int:
        """Replace the contacts by those of candidates, given by kind; gives their number."""
        self._lengths.assign([len(pairs) for _, pairs in lists] + [0] * (2 - len(lists)))
        sizes = [-(-len(pairs) // int(FEW)) for _, pairs in lists]
        items = sum(sizes)
        for buffer in (self._chosen, self._counts, self._places):
            buffer.at_least(items)
        self._choose(lists, sizes, reach)
        found = exclusive_scan(self._counts.array, self._places.array, items) if items else 0
        contacts.grow(found)
        if found:
            self._write(lists, sizes, contacts)
        return found

    def make_room(self, broad_phase: Bvh) -> SearchRoom | None:
        """Room for a search as large as the last one; None where there was none."""
        ahead = broad_phase.capturable_search()
        if ahead is None:
            return None
        items = sum(-(-len(lists.found) // int(FEW)) for lists in ahead.lists[1:])
        buffers = [buffer.at_least(items) for buffer in (self._chosen, self._counts, self._places)]
        return SearchRoom(ahead, items, (*ahead.given, *buffers))

    def find_ahead(self, room: SearchRoom, too_far: wp.array, reach: float, contacts: StepContacts) -> None:
        """Launch the search for the contacts of candidates that are being listed; `reported` says what was found."""
        patches, triangles, edges = room.ahead.lists
        lists = [(int(POINT_TRIANGLE), triangles.found), (int(EDGE_EDGE), edges.found)]
        sizes = [-(-len(pairs) // int(FEW)) for _, pairs in lists]
        sums = [triangles.sums[0], len(triangles.found), edges.sums[0], len(edges.found)]
        self._launch(take_lengths, 1, [*sums, self._lengths])
        self._choose(lists, sizes, reach)
        counts, places = self._counts.array, self._places.array
        wp.utils.array_scan(counts[: room.items], places[: room.items], inclusive=False)
        self._write(lists, sizes, contacts)
        inputs = [patches.sums[0], room.ahead.overlap_room, *sums, too_far, room.items, counts, places, contacts.room]
        self._launch(report_search, 1, [*inputs, self.reported])

    def _choose(self, lists: Sequence[tuple[int, wp.array]], sizes: list[int], reach: float) -> None:
        tail = [reach, self.surface, self.motion, self._chosen.array, self._counts.array]
        works = [
            (sizes[k], [kind, sum(sizes[:k]), pairs, k, self._lengths, *tail]) for k, (kind, pairs) in enumerate(lists)
        ]
        self._launch_all(choose, works)

    def _write(self, lists: Sequence[tuple[int, wp.array]], sizes: list[int], contacts: StepContacts) -> None:
        tail = [self._chosen.array, self._places.array, self.surface, contacts.arrays]
        works = [(sizes[k], [kind, sum(sizes[:k]), pairs, *tail]) for k, (kind, pairs) in enumerate(lists)]
        self._launch_all(write_chosen, works)

    def _launch_all(self, kernel: wp.Kernel, works: list[tuple[int, list[Any]]]) -> None:
        fork_join(self.device, *(partial(self._launch, kernel, count, inputs) for count, inputs in works))

    def _launch(self, kernel: wp.Kernel, count: int, inputs: list[Any]) -> None:
        launch(kernel, count, inputs, device=self.device, grain=GRAIN)
