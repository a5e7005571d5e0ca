"""The search of a step: one list of candidates, the contacts among them, and the collisions that remain."""

from typing import Any

import numpy as np
import warp as wp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.broad_phase.patch_search import WAVES, PatchSearch
from weft.contact import ccd_tests as impact
from weft.contact import contact_tests as approach
from weft.contact import displacement_bounds as moves
from weft.contact import escaped_vertices as stray_kernels
from weft.contact import prefilter as prefilter
from weft.contact.candidates import Candidates
from weft.contact.cones import Cones
from weft.contact.impulses import ContactList
from weft.runtime import launch
from weft.runtime.compaction import exclusive_scans
from weft.runtime.graph_cache import GraphCache
from weft.runtime.readback import read

wp.set_module_options({"enable_backward": False})

# extra room around the expected paths, in m, and at most as a part of the thickness: thin cloth is fine, and with much room
# every part of it is near many others
SLACK = 6e-4
SLACK_PART = 0.625
# tolerances of contact are written for cloth of this thickness, in m
USUAL_LENGTH = 1e-3
# contacts are usually looked for this much beyond the thickness, in parts of it
REACH = 0.1
# items that are worth a thread of their own
GRAIN = 256
# threads of a card for the contacts of a batch of candidates
PARTS = 8


class StepSearch:
    """Finds what a step must reckon with; all arrays of vertices cover all bodies."""

    def __init__(
        self,
        broad_phase: PatchSearch,
        thickness: wp.array,
        rest: wp.array,
        largest_thickness: float,
        *,
        finest_length: float,
        stitches: np.ndarray | None = None,
    ) -> None:
        """`finest_length` (m) is what tolerances follow; `stitches` (k, m) are vertices sewn together, row by row: what
        shares them is not looked at.
        """
        surface = broad_phase.surface
        self.broad_phase = broad_phase
        self.device = surface.device
        cones = Cones.of(surface)
        self._fresh = wp.zeros(1, dtype=int, device=self.device)
        # escaped that were listed together, and those that came later
        self._escaped = [wp.zeros(surface.vertex_count, dtype=int, device=self.device) for _ in range(WAVES)]
        self._wave = 0
        # where vertices ended in the first test of a motion in this step, if there was one, and what has turned since
        self._tested = wp.zeros(surface.vertex_count, dtype=wp.vec3d, device=self.device)
        self._any_tested = False
        self._escapes_came = False
        self._turned = wp.zeros(surface.vertex_count, dtype=int, device=self.device)
        self._faces_turned = wp.zeros(surface.face_count, dtype=int, device=self.device)
        self._edges_turned = wp.zeros(surface.edge_count, dtype=int, device=self.device)
        self._faces_escaped = wp.zeros(surface.face_count, dtype=int, device=self.device)
        self._edges_escaped = wp.zeros(surface.edge_count, dtype=int, device=self.device)
        self._expected = wp.zeros(surface.vertex_count, dtype=wp.vec3d, device=self.device)
        self._reached = wp.zeros_like(self._expected)
        self._none = wp.empty(0, dtype=wp.vec2i, device=self.device)
        sheet: Any = approach.Sheet()
        sheet.rest, sheet.thickness = rest, thickness
        sheet.scale = wp.float64(length_scale(finest_length))
        sheet.faces, sheet.edges, sheet.face_edges = surface.faces, surface.edges, surface.face_edges
        sheet.owned, sheet.vertex_body = surface.owned, surface.vertex_body
        sheet.wings, sheet.neighbour_offsets, sheet.neighbours = cones.wings, cones.neighbour_offsets, cones.neighbours
        sheet.sewn = int(stitches is not None and len(stitches) > 0)
        sheet.sewn_to = wp.array(sewn_groups(surface.vertex_count, stitches), dtype=int, device=self.device)
        sheet.vertex_moves = wp.zeros(surface.vertex_count, dtype=wp.vec4d, device=self.device)
        sheet.face_moves = wp.zeros(surface.face_count, dtype=wp.vec4d, device=self.device)
        sheet.edge_moves = wp.zeros(surface.edge_count, dtype=wp.vec4d, device=self.device)
        self.sheet = sheet
        self._largest_thickness = largest_thickness
        self._set_reach(REACH * largest_thickness)
        self._graphs = GraphCache(self.device)
        triangles = (
            approach.measure_vertex_triangle,
            approach.fill_vertex_triangle,
            impact.collide_vertex_triangle,
            impact.fill_triangle_hits,
            prefilter.prefilter_vertex_triangle,
            prefilter.look_at_vertex_triangle,
            prefilter.test_vertex_triangle,
        )
        edges = (
            approach.measure_edge_edge,
            approach.fill_edge_edge,
            impact.collide_edge_edge,
            impact.fill_edge_hits,
            prefilter.prefilter_edge_edge,
            prefilter.look_at_edge_edge,
            prefilter.test_edge_edge,
        )
        self.vertex_triangle, self.edge_edge = Candidates(self.device, triangles), Candidates(self.device, edges)
        self._kinds = (self.vertex_triangle, self.edge_edge)
        self.escaped_kinds = [
            (Candidates(self.device, triangles), Candidates(self.device, edges)) for _ in range(WAVES)
        ]

    def find_contacts(self, x: wp.array, end: wp.array, rows: ContactList, *, reach: float = REACH) -> int:
        """Replace the rows by the contacts of a step from x to the expected `end`; gives their number.

        They are looked for as far beyond the thickness as the `reach` says, in parts of the thickness.
        """
        rows.clear()
        self._set_reach(reach * self._largest_thickness)
        self.look(x, end)
        counts = exclusive_scans(*((kind.counts, kind.places, kind.batches) for kind in self._kinds))
        rows.grow(sum(counts))
        place = 0
        for kind, count in zip(self._kinds, counts, strict=True):
            parts = PARTS if kind.prefiltered else 1
            inputs = [kind.batch, parts, kind.pairs, self.sheet, kind.chosen, kind.places]
            if count:
                inputs += [place, *rows.geometry]
                launch(kind.fill, parts * kind.batches, inputs, device=self.device, grain=_grain(kind))
                place += count
        return rows.count

    def _set_reach(self, reach: float) -> None:
        """Look for contacts so much farther away than the thickness."""
        self.margin = self._largest_thickness + max(min(SLACK, SLACK_PART * self._largest_thickness), reach)
        self.sheet.reach = wp.float64(reach)
        self.sheet.largest = wp.float64(self._largest_thickness + reach)

    def look(self, x: wp.array, end: wp.array) -> None:
        """List the candidates of a motion from x to `end`, and measure them."""
        self._graphs.run(lambda: self._expect(x, end), "expect", x, end)
        self._wave = 0
        self._any_tested = False
        self._take_motion(x, end)
        self.broad_phase.update(x, end, self.margin)
        for kind, pairs in zip(self._kinds, self.broad_phase.feature_pairs(), strict=True):
            self._measure(kind, pairs)
        for kinds in self.escaped_kinds:
            for kind in kinds:
                kind.take(self._none)

    def _expect(self, x: wp.array, end: wp.array) -> None:
        """No vertex has escaped yet from the boxes around the motion to the expected end."""
        wp.copy(self._expected, end)
        wp.copy(self._reached, end)
        for flags in self._escaped:
            flags.zero_()
        self._enclose_moves(x, end)

    def find_escaped(self, x: wp.array, end: wp.array) -> bool:
        """Note the vertices that leave the boxes in which they were looked for; False if no others do than before.

        Then the candidates hold every pair that can collide on the way from x to `end`.
        """
        self._mark_escaped(x, end)
        return int(read((self._fresh, 0, 1))[0][0]) == 1

    @property
    def _slack(self) -> float:
        """How far a vertex may end outside its box."""
        return 0.5 * (self.margin - float(self.sheet.scale) * impact.LARGEST_LEAST_DISTANCE)

    def _mark_escaped(self, x: wp.array, end: wp.array) -> None:
        """Flag the escaped, and in `_fresh` whether there are others than before."""
        self._fresh.zero_()
        inputs = [x, self._expected, self._reached, end, self.broad_phase.boxes.frame, self._slack]
        inputs += [self._tested, self._turned, self._escaped[self._wave], self._fresh]
        launch(stray_kernels.mark_escaped, len(x), inputs, device=self.device)

    def _begin_test(self, x: wp.array, end: wp.array) -> None:
        """Flag the escaped of another motion than the expected one and what turned since the first test, and enclose it."""
        if not self._any_tested:
            wp.copy(self._tested, end)
        self._mark_escaped(x, end)
        self._enclose_moves(x, end)
        self._run(stray_kernels.turn_faces, [self.sheet.faces, self._turned, self._faces_turned])
        self._run(stray_kernels.turn_edges, [self.sheet.edges, self._turned, self._edges_turned])

    def find_collisions(self, x: wp.array, end: wp.array, rows: ContactList) -> int:
        """Add to the rows every pair that would meet on the way from x to `end`; gives their number."""
        self._graphs.run(lambda: self._begin_test(x, end), "test", x, end, self.margin, self._wave, self._any_tested)
        self._take_motion(x, end)
        # a look at memory of the host costs nothing; on CUDA escaped are rare enough to see them with the result, unless there
        # were some in the first test of the step before
        first = not self._any_tested
        looked = self.device.is_cpu or (first and self._escapes_came)
        fresh = looked and bool(read((self._fresh, 0, 1))[0][0])
        if fresh:
            self._look_for_escaped(x, end)
        kinds = [kind for same in zip(self._kinds, *self.escaped_kinds, strict=True) for kind in same]
        *counts, seen = self._collide(kinds)
        if seen and not looked:
            fresh = True
            self._look_for_escaped(x, end)
            *counts, _ = self._collide(kinds)
        if first:
            self._escapes_came = fresh
        self._any_tested = True
        place, found = rows.count, sum(counts)
        if found:
            rows.grow(place + found)
        for kind, count in zip(kinds, counts, strict=True):
            if count and kind not in self._kinds:
                kind.sort_chosen(count)
            inputs = [kind.pairs, self.sheet, kind.near, kind.chosen, kind.places, kind.order, kind.time]
            if count:
                self._run_batches(kind, kind.fill_hits, [*inputs, place, *rows.geometry])
                place += count
        return found

    def _collide(self, kinds: list[Candidates]) -> list[int]:
        """Choose the candidates that meet; gives how many of each kind, and whether there are fresh escaped."""
        for kind in kinds:
            # lists that came later have no answer to go back to
            again = int(kind.tested and self._any_tested)
            kind.tested |= not self._any_tested
            flags = (self._turned, self._faces_turned) if kind.of_vertices else (self._edges_turned,) * 2
            if kind.prefiltered:
                sheet = self.sheet
                ways = (sheet.vertex_moves, sheet.face_moves) if kind.of_vertices else (sheet.edge_moves,) * 2
                given = [*ways, sheet.scale, kind.near, again, *flags, kind.left]
                then = [sheet, kind.near, again, kind.left, kind.time]
                kind.prefilter_first(prefilter.prefilter_for_test, given, kind.test, then)
                continue
            inputs = [kind.pairs, self.sheet, kind.near, again, *flags]
            self._run_batches(kind, kind.collide, [*inputs, kind.left, kind.time, kind.chosen, kind.counts])
        return exclusive_scans(*((kind.counts, kind.places, kind.batches) for kind in kinds), extra=self._fresh)

    def _look_for_escaped(self, x: wp.array, end: wp.array) -> None:
        """List the candidates of vertices that go elsewhere than expected anew, and leave out what was listed."""
        wave = self._wave
        faces, edges, vertices = self._faces_escaped, self._edges_escaped, self._escaped[wave]
        self.broad_phase.enlarge_boxes(x, end, vertices, wave=wave)
        self._run(stray_kernels.mark_faces, [self.sheet.faces, vertices, faces])
        self._run(stray_kernels.mark_edges, [self.sheet.edges, vertices, edges])
        for kinds in (self._kinds, *self.escaped_kinds[:wave]):
            for kind, marked in zip(kinds, ((vertices, faces), (edges, edges)), strict=True):
                launch(stray_kernels.forget, kind.count, [kind.pairs, *marked, kind.near], device=self.device)
        for kind, pairs in zip(self.escaped_kinds[wave], self.broad_phase.escaped_pairs(wave=wave), strict=True):
            self._measure(kind, pairs)
        self._wave = WAVES - 1

    def _measure(self, kind: Candidates, pairs: wp.array) -> None:
        kind.take(pairs)
        if kind.prefiltered:
            kind.prefilter_first(kind.sift, [self.sheet, kind.near], kind.look_at, [self.sheet, kind.near])
        else:
            self._run_batches(kind, kind.measure, [kind.pairs, self.sheet, kind.near, kind.chosen, kind.counts])

    def _run_batches(self, kind: Candidates, kernel: wp.Kernel, inputs: list[Any]) -> None:
        """Launch a kernel over the batches of candidates."""
        launch(kernel, kind.batches, [kind.batch, *inputs], device=self.device, grain=_grain(kind))

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


def _grain(kind: Candidates) -> int:
    """How many batches are worth a thread."""
    return max(1, GRAIN // kind.batch)


def length_scale(finest_length: float) -> float:
    """How much finer than cloth of 1 mm the tolerances of contact must be, at most 1: they are in proportion to the least
    of thickness and half an edge, so that cloth of any size is kept free in the same way."""
    return min(1.0, finest_length / USUAL_LENGTH)


def sewn_groups(vertex_count: int, stitches: np.ndarray | None) -> np.ndarray:
    """A number a vertex, the same for vertices that stitches join."""
    if stitches is None or len(stitches) == 0:
        return np.arange(vertex_count, dtype=np.int32)
    first, other = np.repeat(stitches[:, 0], stitches.shape[1] - 1), stitches[:, 1:].ravel()
    graph = coo_array((np.ones(len(first)), (first, other)), shape=(vertex_count, vertex_count))
    return connected_components(graph, directed=False)[1].astype(np.int32)
