"""The search of a step: one list of candidates, the contacts among them, and the collisions that remain."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.detection import approach, impact, moves, sifting
from weft.detection.batches import batch_size
from weft.detection.boxes import lowest_bit
from weft.detection.cones import Cones
from weft.detection.patch_search import WAVES, PatchSearch
from weft.detection.stencil_rows import StencilRows
from weft.world import launch
from weft.world.buffers import Buffer
from weft.world.choosing import count_each
from weft.world.reading import read
from weft.world.replay import Replay

wp.set_module_options({"enable_backward": False})

# extra room around the expected paths, in m, and at most as a part of the thickness: thin cloth is fine, and with much room
# every part of it is near many others
SLACK = 6e-4
SLACK_PART = 0.625
# contacts are usually looked for this much beyond the thickness, in parts of it
REACH = 0.1
# items that are worth a thread of their own
GRAIN = 256


@wp.kernel
def mark_strays(
    first: int,
    x: wp.array[wp.vec3d],
    expected: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    frame: wp.array[wp.vec3d],
    slack: wp.float64,
    tested: wp.array[wp.vec3d],
    turned: wp.array[int],
    strayed: wp.array[int],
    fresh: wp.array[int],
):
    """Whether a vertex ends outside the box in which it was looked for by more than the slack, in the moving frame.

    Notes as well how far it has turned from where it ended in the first test of the step.
    """
    i = first + wp.tid()
    turned[i] = impact.units_turned(wp.length(end[i] - tested[i]))
    a = x[i]
    b = expected[i] - frame[1]
    c = reached[i] - frame[1]
    d = end[i] - frame[1]
    for axis in range(3):
        low = wp.min(wp.min(a[axis], b[axis]), c[axis]) - slack
        high = wp.max(wp.max(a[axis], b[axis]), c[axis]) + slack
        if d[axis] < low or d[axis] > high:
            strayed[i] = 1
            # whoever writes writes the same
            fresh[0] = 1
    if strayed[i] == 1:
        reached[i] = end[i]


@wp.kernel
def mark_faces(first: int, faces: wp.array[wp.vec3i], strayed: wp.array[int], marked: wp.array[int]):
    """Whether a triangle has a stray among its corners."""
    i = first + wp.tid()
    f = faces[i]
    marked[i] = strayed[f[0]] + strayed[f[1]] + strayed[f[2]]


@wp.kernel
def mark_edges(first: int, edges: wp.array[wp.vec2i], strayed: wp.array[int], marked: wp.array[int]):
    """Whether an edge has a stray among its ends."""
    i = first + wp.tid()
    e = edges[i]
    marked[i] = strayed[e[0]] + strayed[e[1]]


@wp.kernel
def turn_faces(first: int, faces: wp.array[wp.vec3i], turned: wp.array[int], of_faces: wp.array[int]):
    """How far the corner of a triangle that has turned most has turned."""
    i = first + wp.tid()
    f = faces[i]
    of_faces[i] = wp.max(wp.max(turned[f[0]], turned[f[1]]), turned[f[2]])


@wp.kernel
def turn_edges(first: int, edges: wp.array[wp.vec2i], turned: wp.array[int], of_edges: wp.array[int]):
    """The same of an edge's ends."""
    i = first + wp.tid()
    e = edges[i]
    of_edges[i] = wp.max(turned[e[0]], turned[e[1]])


@wp.kernel
def forget(
    first: int,
    pairs: wp.array[wp.vec2i],
    marked: wp.array[int],
    marked_too: wp.array[int],
    near: wp.array[wp.float64],
):
    """Pairs with a stray are listed elsewhere."""
    i = first + wp.tid()
    pair = pairs[i]
    if marked[pair[0]] + marked_too[pair[1]] != 0:
        near[i] = approach.NEVER


@wp.kernel
def list_hits(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    hits: wp.array[wp.vec2i],
):
    """The chosen candidates."""
    item = first + wp.tid()
    left = chosen[item]
    place = places[item]
    while left != wp.uint64(0):
        hits[place] = pairs[item * batch + lowest_bit(left)]
        left &= left - wp.uint64(1)
        place += 1


class _Kind:
    """Buffers for one kind of candidates."""

    def __init__(self, device: wp.Device, kernels: tuple[wp.Kernel, ...]) -> None:
        self.measure, self.fill, self.collide, self.fill_hits, self.sift, self.look_at, self.test = kernels
        self.device = device
        self.of_vertices = self.fill is approach.fill_vertex_triangle
        self.pairs = wp.empty(0, dtype=wp.vec2i, device=device)
        self.batches = 0
        self.tested = False
        """whether these pairs were there in the first test of the step"""
        self._near, self._time = Buffer(wp.float64, device), Buffer(wp.float64, device)
        self._chosen, self._counts, self._places = Buffer(wp.uint64, device), Buffer(int, device), Buffer(int, device)
        self.near, self.time = self._near.array, self._time.array
        self._left = Buffer(wp.int8, device)
        self.left = self._left.array
        self.batch = batch_size(device, 0)
        self.chosen = self._chosen.array
        """which candidates of each batch are chosen"""
        self.counts = self.places = self._none = wp.empty(0, dtype=int, device=device)
        """how many of each batch are, and how many of those before it"""
        self.order = self._none
        """the places of the chosen ones where they are not those of the list"""
        self._hits = Buffer(wp.vec2i, device)
        self._worth = Buffer(int, device)
        self._number = wp.zeros(1, dtype=int, device=device)

    @property
    def sifted(self) -> bool:
        """Whether it is first looked who is worth a closer look."""
        return self.batch > 1 and self.device.is_cuda

    def take(self, pairs: wp.array) -> None:
        """A new list of candidates."""
        if pairs is self.pairs and len(pairs) == 0:
            return
        self.pairs = pairs
        self.tested = False
        count = len(pairs)
        self.near, self.time = self._near.at_least(count), self._time.at_least(count)
        self.left = self._left.at_least(count)
        self.order = self._none
        self.batch = batch_size(self.device, count)
        self.batches = -(-count // self.batch)
        self.chosen = self._chosen.at_least(self.batches)
        self.counts = self._counts.at_least(self.batches)[: self.batches]
        self.places = self._places.at_least(self.batches)[: self.batches]

    def sift_first(self, sift: wp.Kernel, given: list[Any], look: wp.Kernel, then: list[Any]) -> None:
        """Choose in two goes: who is worth a closer look, given what these kernels take besides, and who is chosen."""
        device, count = self.device, len(self.pairs)
        self._number.zero_()
        rest = [self.chosen, self._worth.at_least(count), self._number]
        launch(sift, count, [self.pairs, *given, *rest], device=device)
        launch(look, sifting.THREADS, [self.pairs, *then, *rest], device=device)
        launch(sifting.count_chosen_bits, self.batches, [self.chosen, self.counts], device=device)

    def sort_chosen(self, count: int) -> None:
        """Order the few chosen ones of a list by pair: its own order depends on the patches, which devices differ in."""
        device = self.device
        hits = self._hits.at_least(count)
        launch(list_hits, self.batches, [self.batch, self.pairs, self.chosen, self.places, hits], device=device)
        one, other = hits.numpy()[:count].reshape(-1, 2).T
        ranks = np.empty(count, np.int32)
        ranks[np.lexsort((other, one))] = np.arange(count, dtype=np.int32)
        self.order = wp.array(ranks, dtype=int, device=device)


class StepSearch:
    """Finds what a step must reckon with; all arrays of vertices cover all bodies."""

    def __init__(
        self,
        broad_phase: PatchSearch,
        thickness: wp.array,
        rest: wp.array,
        largest_thickness: float,
        *,
        stitches: np.ndarray | None = None,
    ) -> None:
        """`stitches` (k, m) are vertices sewn together, row by row: what shares them is not looked at."""
        surface = broad_phase.surface
        self.broad_phase = broad_phase
        self.device = surface.device
        cones = Cones.of(surface)
        self._fresh = wp.zeros(1, dtype=int, device=self.device)
        # strays that were listed together, and those that came later
        self._strayed = [wp.zeros(surface.vertex_count, dtype=int, device=self.device) for _ in range(WAVES)]
        self._wave = 0
        # where vertices ended in the first test of a motion in this step, if there was one, and what has turned since
        self._tested = wp.zeros(surface.vertex_count, dtype=wp.vec3d, device=self.device)
        self._any_tested = False
        self._strays_came = False
        self._turned = wp.zeros(surface.vertex_count, dtype=int, device=self.device)
        self._faces_turned = wp.zeros(surface.face_count, dtype=int, device=self.device)
        self._edges_turned = wp.zeros(surface.edge_count, dtype=int, device=self.device)
        self._faces_strayed = wp.zeros(surface.face_count, dtype=int, device=self.device)
        self._edges_strayed = wp.zeros(surface.edge_count, dtype=int, device=self.device)
        self._expected = wp.zeros(surface.vertex_count, dtype=wp.vec3d, device=self.device)
        self._reached = wp.zeros_like(self._expected)
        self._none = wp.empty(0, dtype=wp.vec2i, device=self.device)
        sheet: Any = approach.Sheet()
        sheet.rest, sheet.thickness = rest, thickness
        sheet.faces, sheet.edges, sheet.face_edges = surface.faces, surface.edges, surface.face_edges
        sheet.owned, sheet.vertex_body = surface.owned, surface.vertex_body
        sheet.wings, sheet.neighbour_offsets, sheet.neighbours = cones.wings, cones.neighbour_offsets, cones.neighbours
        sheet.sewn = int(stitches is not None and len(stitches) > 0)
        sheet.sewn_to = wp.array(_sewn_groups(surface.vertex_count, stitches), dtype=int, device=self.device)
        sheet.vertex_moves = wp.zeros(surface.vertex_count, dtype=wp.vec4d, device=self.device)
        sheet.face_moves = wp.zeros(surface.face_count, dtype=wp.vec4d, device=self.device)
        sheet.edge_moves = wp.zeros(surface.edge_count, dtype=wp.vec4d, device=self.device)
        self.sheet = sheet
        self._largest_thickness = largest_thickness
        self._set_reach(REACH * largest_thickness)
        self._replay = Replay(self.device)
        triangles = (
            approach.measure_vertex_triangle,
            approach.fill_vertex_triangle,
            impact.collide_vertex_triangle,
            impact.fill_triangle_hits,
            sifting.sift_vertex_triangle,
            sifting.look_at_vertex_triangle,
            sifting.test_vertex_triangle,
        )
        edges = (
            approach.measure_edge_edge,
            approach.fill_edge_edge,
            impact.collide_edge_edge,
            impact.fill_edge_hits,
            sifting.sift_edge_edge,
            sifting.look_at_edge_edge,
            sifting.test_edge_edge,
        )
        self.vertex_triangle, self.edge_edge = _Kind(self.device, triangles), _Kind(self.device, edges)
        self._kinds = (self.vertex_triangle, self.edge_edge)
        self.stray_kinds = [(_Kind(self.device, triangles), _Kind(self.device, edges)) for _ in range(WAVES)]

    def find_contacts(self, x: wp.array, end: wp.array, rows: StencilRows, *, reach: float = REACH) -> int:
        """Replace the rows by the contacts of a step from x to the expected `end`; gives their number.

        They are looked for as far beyond the thickness as the `reach` says, in parts of the thickness.
        """
        rows.clear()
        self._set_reach(reach * self._largest_thickness)
        self.look(x, end)
        for kind, count in zip(self._kinds, self._count(self._kinds), strict=True):
            inputs = [kind.pairs, self.sheet, kind.chosen, kind.places, kind.order]
            self._append(kind, count, kind.fill, inputs, rows)
        return rows.count

    def _set_reach(self, reach: float) -> None:
        """Look for contacts so much farther away than the thickness."""
        self.margin = self._largest_thickness + max(min(SLACK, SLACK_PART * self._largest_thickness), reach)
        self.sheet.reach = wp.float64(reach)
        self.sheet.largest = wp.float64(self._largest_thickness + reach)

    def look(self, x: wp.array, end: wp.array) -> None:
        """List the candidates of a motion from x to `end`, and measure them."""
        self._replay.run(lambda: self._expect(x, end), "expect", x, end)
        self._wave = 0
        self._any_tested = False
        self._take_motion(x, end)
        self.broad_phase.update(x, end, self.margin)
        for kind, pairs in zip(self._kinds, self.broad_phase.feature_pairs(), strict=True):
            self._measure(kind, pairs)
        for kinds in self.stray_kinds:
            for kind in kinds:
                kind.take(self._none)

    def _expect(self, x: wp.array, end: wp.array) -> None:
        """Nobody strays yet from the motion to the expected end."""
        wp.copy(self._expected, end)
        wp.copy(self._reached, end)
        for flags in self._strayed:
            flags.zero_()
        self._enclose_moves(x, end)

    def find_strays(self, x: wp.array, end: wp.array) -> bool:
        """Note the vertices that leave the boxes in which they were looked for; False if no others do than before.

        Then the candidates hold every pair that can collide on the way from x to `end`.
        """
        self._mark_strays(x, end)
        return int(read((self._fresh, 0, 1))[0][0]) == 1

    def _mark_strays(self, x: wp.array, end: wp.array) -> None:
        """Flag the strays, and in `_fresh` whether there are others than before."""
        self._fresh.zero_()
        slack = 0.5 * (self.margin - impact.LARGEST_LEAST_DISTANCE)
        inputs = [x, self._expected, self._reached, end, self.broad_phase.boxes.frame, slack]
        inputs += [self._tested, self._turned, self._strayed[self._wave], self._fresh]
        launch(mark_strays, len(x), inputs, device=self.device)

    def _begin_test(self, x: wp.array, end: wp.array) -> None:
        """Flag the strays of another motion than the expected one and what turned since the first test, and enclose it."""
        if not self._any_tested:
            wp.copy(self._tested, end)
        self._mark_strays(x, end)
        self._enclose_moves(x, end)
        self._run(turn_faces, [self.sheet.faces, self._turned, self._faces_turned])
        self._run(turn_edges, [self.sheet.edges, self._turned, self._edges_turned])

    def find_collisions(self, x: wp.array, end: wp.array, rows: StencilRows) -> int:
        """Add to the rows every pair that would meet on the way from x to `end`; gives their number."""
        self._replay.run(lambda: self._begin_test(x, end), "test", x, end, self.margin, self._wave, self._any_tested)
        self._take_motion(x, end)
        # a look at memory of the host costs nothing; on CUDA strays are rare enough to see them with the result, unless there
        # were some in the first test of the step before
        first = not self._any_tested
        looked = self.device.is_cpu or (first and self._strays_came)
        fresh = looked and bool(read((self._fresh, 0, 1))[0][0])
        if fresh:
            self._look_for_strays(x, end)
        kinds = [kind for same in zip(self._kinds, *self.stray_kinds, strict=True) for kind in same]
        *counts, seen = self._collide(kinds)
        if seen and not looked:
            fresh = True
            self._look_for_strays(x, end)
            *counts, _ = self._collide(kinds)
        if first:
            self._strays_came = fresh
        self._any_tested = True
        found = rows.count
        for kind, count in zip(kinds, counts, strict=True):
            if count and kind not in self._kinds:
                kind.sort_chosen(count)
            inputs = [kind.pairs, self.sheet, kind.near, kind.chosen, kind.places, kind.order, kind.time]
            self._append(kind, count, kind.fill_hits, inputs, rows)
        return rows.count - found

    def _collide(self, kinds: list[_Kind]) -> list[int]:
        """Which candidates meet; gives how many of each kind, and whether there are fresh strays."""
        for kind in kinds:
            # lists that came later have no answer to go back to
            again = int(kind.tested and self._any_tested)
            kind.tested |= not self._any_tested
            flags = (self._turned, self._faces_turned) if kind.of_vertices else (self._edges_turned,) * 2
            if kind.sifted:
                sheet = self.sheet
                ways = (sheet.vertex_moves, sheet.face_moves) if kind.of_vertices else (sheet.edge_moves,) * 2
                given = [*ways, kind.near, again, *flags, kind.left]
                then = [sheet, kind.near, again, kind.left, kind.time]
                kind.sift_first(sifting.sift_for_test, given, kind.test, then)
                continue
            inputs = [kind.pairs, self.sheet, kind.near, again, *flags, kind.left, kind.time, kind.chosen, kind.counts]
            self._run_batches(kind, kind.collide, inputs)
        return self._count(kinds, also=self._fresh)

    def _count(self, kinds: Sequence[_Kind], also: wp.array | None = None) -> list[int]:
        """Places of the chosen candidates among all chosen ones of their kind, and their numbers."""
        return count_each(*((kind.counts, kind.places) for kind in kinds), also=also)

    def _look_for_strays(self, x: wp.array, end: wp.array) -> None:
        """List the candidates of vertices that go elsewhere than expected anew, and leave out what was listed."""
        wave = self._wave
        faces, edges, vertices = self._faces_strayed, self._edges_strayed, self._strayed[wave]
        self.broad_phase.grow(x, end, vertices, wave=wave)
        self._run(mark_faces, [self.sheet.faces, vertices, faces])
        self._run(mark_edges, [self.sheet.edges, vertices, edges])
        for kinds in (self._kinds, *self.stray_kinds[:wave]):
            for kind, marked in zip(kinds, ((vertices, faces), (edges, edges)), strict=True):
                launch(forget, len(kind.pairs), [kind.pairs, *marked, kind.near], device=self.device)
        for kind, pairs in zip(self.stray_kinds[wave], self.broad_phase.stray_pairs(wave=wave), strict=True):
            self._measure(kind, pairs)
        self._wave = WAVES - 1

    def _measure(self, kind: _Kind, pairs: wp.array) -> None:
        kind.take(pairs)
        if kind.sifted:
            kind.sift_first(kind.sift, [self.sheet, kind.near], kind.look_at, [self.sheet, kind.near])
            return
        self._run_batches(kind, kind.measure, [pairs, self.sheet, kind.near, kind.chosen, kind.counts])

    def _run_batches(self, kind: _Kind, kernel: wp.Kernel, inputs: list[Any]) -> None:
        """Launch a kernel over the batches of candidates."""
        grain = max(1, GRAIN // kind.batch)
        launch(kernel, kind.batches, [kind.batch, *inputs], device=self.device, grain=grain)

    def _append(self, kind: _Kind, count: int, fill: wp.Kernel, inputs: list[Any], rows: StencilRows) -> None:
        if count:
            base = rows.count
            rows.grow(base + count)
            self._run_batches(kind, fill, [*inputs, base, *rows.geometry])

    def _take_motion(self, x: wp.array, end: wp.array) -> None:
        """What the candidates are measured on."""
        if self.sheet.x is not x:
            self.sheet.x = x
        if self.sheet.end is not end:
            self.sheet.end = end

    def _enclose_moves(self, x: wp.array, end: wp.array) -> None:
        """Balls around the displacements of all vertices, triangles and edges."""
        sheet = self.sheet
        self._run(moves.take_vertex_moves, [x, end, sheet.vertex_moves])
        self._run(moves.enclose_face_moves, [x, end, sheet.faces, sheet.face_moves])
        self._run(moves.enclose_edge_moves, [x, end, sheet.edges, sheet.edge_moves])

    def _run(self, kernel: wp.Kernel, inputs: list[Any]) -> None:
        """Launch over all triangles or edges: as many items as the last array has."""
        launch(kernel, len(inputs[-1]), inputs, device=self.device)


def _sewn_groups(vertex_count: int, stitches: np.ndarray | None) -> np.ndarray:
    """A number a vertex, the same for vertices that stitches join."""
    if stitches is None or len(stitches) == 0:
        return np.arange(vertex_count, dtype=np.int32)
    first, other = np.repeat(stitches[:, 0], stitches.shape[1] - 1), stitches[:, 1:].ravel()
    graph = coo_array((np.ones(len(first)), (first, other)), shape=(vertex_count, vertex_count))
    return connected_components(graph, directed=False)[1].astype(np.int32)
