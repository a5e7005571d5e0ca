"""The search of a step: one list of candidates, the contacts among them, and the collisions that remain.

The broad phase encloses the expected motion of the step in boxes with a margin and lists all pairs that overlap. As long
as every vertex ends within that margin, the list holds every pair that can collide. A vertex that ends elsewhere has
*escaped*: its pairs are searched again, in a list of its own.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.broad_phase.patch_search import WAVES, PatchSearch
from weft.contact import ccd_tests, contact_tests, feature_bounds, prefilter
from weft.contact.execution_plan import ExecutionPlan
from weft.contact.feature_bounds import Cones
from weft.contact.lists import CandidateList, ContactList, ignore_marked
from weft.contact.step_surface import StepSurface
from weft.geometry.stencil import Kind
from weft.mesh.topology import Csr, make_csr
from weft.runtime import launch
from weft.runtime.buffers import read
from weft.runtime.compaction import exclusive_scans
from weft.runtime.graph_cache import GraphCache

# margin of the boxes around expected paths, in m, and at most as a fraction of the thickness. With a larger one fewer
# vertices escape, but every patch overlaps more others; thin cloth has small triangles, so its margin is smaller
MARGIN = 6e-4
MARGIN_FRACTION = 0.625
# tolerances of contact are written for cloth of this thickness, in m
USUAL_LENGTH = 1e-3
# contacts are usually looked for this much beyond the thickness, as a fraction of it
USUAL_REACH = 0.1
# CUDA threads that share the contacts of one word of prefiltered candidates
FILL_THREADS = 8


class KindKernels(NamedTuple):
    """The kernels for candidates of one kind."""

    measure: wp.Kernel
    collide: wp.Kernel
    prefilter: wp.Kernel
    measure_left: wp.Kernel
    collide_left: wp.Kernel


KERNELS = {
    Kind.POINT_TRIANGLE: KindKernels(
        contact_tests.measure_vertex_triangle,
        ccd_tests.collide_vertex_triangle,
        prefilter.prefilter_vertex_triangle,
        prefilter.measure_left_vertex_triangle,
        prefilter.collide_left_vertex_triangle,
    ),
    Kind.EDGE_EDGE: KindKernels(
        contact_tests.measure_edge_edge,
        ccd_tests.collide_edge_edge,
        prefilter.prefilter_edge_edge,
        prefilter.measure_left_edge_edge,
        prefilter.collide_left_edge_edge,
    ),
}


class StepSearch:
    """Finds the contacts and collisions of a step; all arrays of vertices cover all bodies."""

    def __init__(
        self,
        broad_phase: PatchSearch,
        thickness: wp.array,
        rest_shape: wp.array,
        largest_thickness: float,
        *,
        finest_length: float,
        stitches: np.ndarray | None = None,
        sewn: np.ndarray | None = None,
        plan: ExecutionPlan | None = None,
    ) -> None:
        """`finest_length` (m) is what tolerances follow (see `length_scale`).

        `stitches` (k, m) are vertices that are held at one place, in each row; features that share them are no contacts.
        `sewn` (k, m): the first vertex of each row is sewn to the others; such features are not tested at all. Without it
        these are the stitches.
        """
        surface = broad_phase.surface
        self.broad_phase = broad_phase
        self.device = surface.device
        self.plan = plan or ExecutionPlan.for_device(self.device)
        self._graphs = GraphCache(self.device)

        def zeros(count: int, dtype: Any) -> wp.array:
            return wp.zeros(count, dtype=dtype, device=self.device)

        # vertices that escaped at first, and those that escaped later; where they went
        self._escaped = [zeros(surface.vertex_count, int) for _ in range(WAVES)]
        self._wave = 0
        self._new_escapes = zeros(1, int)
        self._escapes_in_last_step = False
        self._expected, self._reached = (zeros(surface.vertex_count, wp.vec3d) for _ in range(2))
        self._escaped_faces, self._escaped_edges = zeros(surface.face_count, int), zeros(surface.edge_count, int)
        self._any_tested = False
        """whether the step had a collision test already"""
        counts = (surface.vertex_count, surface.face_count, surface.edge_count)
        self._vertex_motion, self._face_motion, self._edge_motion = (zeros(count, wp.vec4d) for count in counts)
        self._motion: dict[Kind, Any] = {kind: feature_bounds.PairMotion() for kind in Kind}
        of_points, of_edges = self._motion[Kind.POINT_TRIANGLE], self._motion[Kind.EDGE_EDGE]
        of_points.balls, of_points.other_balls = self._vertex_motion, self._face_motion
        of_edges.balls = of_edges.other_balls = self._edge_motion

        joined = stitches if sewn is None else sewn
        self.surface = self._step_surface(thickness, rest_shape, stitches, joined, finest_length)
        self._largest_thickness = largest_thickness
        self._set_reach(USUAL_REACH * largest_thickness)
        self.leave_alone: Callable[[CandidateList], None] | None = None
        """called with each list after it is measured: ignores the pairs that may pass through each other"""
        self._no_pairs = wp.empty(0, dtype=wp.vec2i, device=self.device)
        self.candidates, *self.escaped_candidates = [
            [CandidateList(kind, self.device, self.plan) for kind in Kind] for _ in range(1 + WAVES)
        ]

    def _step_surface(
        self,
        thickness: wp.array,
        rest_shape: wp.array,
        stitches: np.ndarray | None,
        joined: np.ndarray | None,
        finest_length: float,
    ) -> Any:
        """The struct that the tests read."""
        result: Any = StepSurface()
        surface = self.broad_phase.surface
        cones = Cones.of(surface)
        result.rest_shape, result.thickness = rest_shape, thickness
        result.tolerance_scale = wp.float64(length_scale(finest_length))
        result.faces, result.edges, result.face_edges = surface.faces, surface.edges, surface.face_edges
        result.owned, result.vertex_body = surface.owned, surface.vertex_body
        result.wings = cones.wings
        result.neighbour_offsets, result.neighbours = cones.neighbour_offsets, cones.neighbours
        result.any_sewn = int(stitches is not None and len(stitches) > 0)
        result.sewn_group = wp.array(sewn_groups(surface.vertex_count, stitches), dtype=int, device=self.device)
        partners = sewn_partners(surface.vertex_count, joined)
        result.sewn_offsets = wp.array(partners.offsets, dtype=int, device=self.device)
        result.sewn_partners = wp.array(partners.items, dtype=int, device=self.device)
        return result

    def find_contacts(self, x: wp.array, end: wp.array, contacts: ContactList, *, reach: float = USUAL_REACH) -> int:
        """Replace the list by the contacts of a step from x to the expected `end`; gives their number.

        `reach` is how far beyond the thickness they are looked for, as a fraction of the largest thickness.
        """
        contacts.clear()
        self._set_reach(reach * self._largest_thickness)
        self.list_candidates(x, end)
        counts = exclusive_scans(*(candidates.scanned for candidates in self.candidates))
        contacts.grow(sum(counts))
        base = 0
        for candidates, count in zip(self.candidates, counts, strict=True):
            if count:
                threads = FILL_THREADS if candidates.prefiltered else 1
                inputs = [int(candidates.kind), candidates.batch, threads, candidates.pairs, self.surface]
                inputs += [candidates.chosen, candidates.places, base, contacts.arrays]
                candidates.run(contact_tests.fill_contacts, inputs, threads=threads)
                base += count
        return contacts.count

    def list_candidates(self, x: wp.array, end: wp.array) -> None:
        """List the candidates of the expected motion from x to `end`, and measure them."""
        self._graphs.run(lambda: self._expect(x, end), "expect", x, end)
        self._wave = 0
        self._any_tested = False
        self._set_motion(x, end)
        self.broad_phase.update(x, end, self.margin)
        for candidates, pairs in zip(self.candidates, self.broad_phase.feature_pairs(), strict=True):
            self._measure(candidates, pairs)
        for lists in self.escaped_candidates:
            for candidates in lists:
                candidates.assign(self._no_pairs)

    def find_collisions(self, x: wp.array, end: wp.array, contacts: ContactList) -> int:
        """Append every pair that would collide on the way from x to `end` to the list; gives their number."""
        self._graphs.run(lambda: self._begin_test(x, end), "test", x, end, self.margin, self._wave)
        self._set_motion(x, end)
        # with a deferred check, escapes are seen together with the collisions, which then have to be found again; that is
        # rare unless there were escapes in the first test of the step before
        first = not self._any_tested
        checked = not self.plan.defer_escape_check or (first and self._escapes_in_last_step)
        escapes = checked and bool(read((self._new_escapes, 0, 1))[0][0])
        if escapes:
            self._search_escaped(x, end)
        lists = [one for same_kind in zip(self.candidates, *self.escaped_candidates, strict=True) for one in same_kind]
        *counts, seen = self._collide(lists)
        if seen and not checked:
            escapes = True
            self._search_escaped(x, end)
            *counts, _ = self._collide(lists)
        if first:
            self._escapes_in_last_step = escapes
        self._any_tested = True
        base, found = contacts.count, sum(counts)
        if found:
            contacts.grow(base + found)
        for candidates, count in zip(lists, counts, strict=True):
            if count:
                if candidates not in self.candidates:
                    candidates.sort_chosen(count)
                inputs = [int(candidates.kind), candidates.batch, candidates.pairs, self.surface, candidates.distances]
                inputs += [candidates.chosen, candidates.places, candidates.order, candidates.times]
                candidates.run(ccd_tests.fill_collisions, [*inputs, base, contacts.arrays])
                base += count
        return found

    def _set_reach(self, reach: float) -> None:
        """Look for contacts so much farther away than the thickness, in m."""
        margin = min(MARGIN, MARGIN_FRACTION * self._largest_thickness)
        self.margin = self._largest_thickness + max(margin, reach)
        self.surface.reach = wp.float64(reach)
        self.surface.detection_distance = wp.float64(self._largest_thickness + reach)

    @property
    def _slack(self) -> float:
        """How far a vertex may end outside the box of its expected path: two of them still find each other."""
        return 0.5 * (self.margin - float(self.surface.tolerance_scale) * ccd_tests.COLLISION_DISTANCE)

    def _expect(self, x: wp.array, end: wp.array) -> None:
        """Begin a step: no vertex has escaped from the expected motion yet."""
        wp.copy(self._expected, end)
        wp.copy(self._reached, end)
        for flags in self._escaped:
            flags.zero_()
        self._enclose_motion(x, end)

    def _mark_escaped(self, x: wp.array, end: wp.array) -> None:
        """Flag the escaped vertices, and in `_new_escapes` whether there are others than before."""
        self._new_escapes.zero_()
        inputs = [x, self._expected, self._reached, end, self.broad_phase.boxes.frame, self._slack]
        inputs += [self._escaped[self._wave], self._new_escapes]
        launch(feature_bounds.mark_escaped, len(x), inputs, device=self.device)

    def _begin_test(self, x: wp.array, end: wp.array) -> None:
        """Bound another motion than the expected one: escaped vertices, balls of displacements."""
        self._mark_escaped(x, end)
        self._enclose_motion(x, end)

    def _enclose_motion(self, x: wp.array, end: wp.array) -> None:
        """Balls around the displacements of all vertices, triangles and edges."""
        self._run(feature_bounds.enclose_vertices, [x, end, self._vertex_motion])
        self._run(feature_bounds.enclose_faces, [x, end, self.surface.faces, self._face_motion])
        self._run(feature_bounds.enclose_edges, [x, end, self.surface.edges, self._edge_motion])

    def _search_escaped(self, x: wp.array, end: wp.array) -> None:
        """List the candidates of escaped vertices anew, and ignore them in the lists that there are."""
        wave = self._wave
        vertices, faces, edges = self._escaped[wave], self._escaped_faces, self._escaped_edges
        self.broad_phase.enlarge_boxes(x, end, vertices, wave=wave)
        self._run(feature_bounds.mark_faces, [self.surface.faces, vertices, faces])
        self._run(feature_bounds.mark_edges, [self.surface.edges, vertices, edges])
        for lists in (self.candidates, *self.escaped_candidates[:wave]):
            for candidates, marked in zip(lists, ((vertices, faces), (edges, edges)), strict=True):
                inputs = [candidates.pairs, *marked, candidates.distances]
                launch(ignore_marked, candidates.count, inputs, device=self.device)
        found = self.broad_phase.escaped_pairs(wave=wave)
        for candidates, pairs in zip(self.escaped_candidates[wave], found, strict=True):
            self._measure(candidates, pairs)
        self._wave = WAVES - 1

    def _measure(self, candidates: CandidateList, pairs: wp.array) -> None:
        """Take a list of candidates, measure their distances and choose the contacts."""
        candidates.assign(pairs)
        kernels, motion, distances = KERNELS[candidates.kind], self._motion[candidates.kind], candidates.distances
        if candidates.prefiltered:
            light, heavy = [self.surface, motion.balls, motion.other_balls, distances], [self.surface, distances]
            prefilter.run_prefiltered(candidates, kernels.prefilter, light, kernels.measure_left, heavy)
        else:
            inputs = [candidates.batch, candidates.pairs, self.surface, motion.balls, motion.other_balls, distances]
            candidates.run(kernels.measure, [*inputs, candidates.chosen, candidates.counts])
        if self.leave_alone is not None:
            self.leave_alone(candidates)

    def _collide(self, lists: list[CandidateList]) -> list[int]:
        """Choose the candidates that collide; gives how many of each list do, and whether there are new escapes."""
        for candidates in lists:
            kernels, motion = KERNELS[candidates.kind], self._motion[candidates.kind]
            distances, times = candidates.distances, candidates.times
            if candidates.prefiltered:
                light = [motion, self.surface.tolerance_scale, distances]
                heavy = [self.surface, distances, times]
                prefilter.run_prefiltered(
                    candidates, prefilter.prefilter_collisions, light, kernels.collide_left, heavy
                )
            else:
                inputs = [candidates.batch, candidates.pairs, self.surface, motion, distances]
                inputs += [times, candidates.chosen, candidates.counts]
                candidates.run(kernels.collide, inputs)
        return exclusive_scans(*(candidates.scanned for candidates in lists), extra=self._new_escapes)

    def _set_motion(self, x: wp.array, end: wp.array) -> None:
        # a struct that does not change is not packed again
        if self.surface.x is not x:
            self.surface.x = x
        if self.surface.end is not end:
            self.surface.end = end

    def _run(self, kernel: wp.Kernel, inputs: list[Any]) -> None:
        """Launch over all vertices, triangles or edges: as many items as the last array has."""
        launch(kernel, len(inputs[-1]), inputs, device=self.device)


def length_scale(finest_length: float) -> float:
    """How much finer than for cloth of 1 mm the tolerances of contact must be, at most 1.

    They are in proportion to the least of thickness and half an edge, so that cloth of any size is kept free in the same
    way.
    """
    return min(1.0, finest_length / USUAL_LENGTH)


def sewn_groups(vertex_count: int, stitches: np.ndarray | None) -> np.ndarray:
    """A number for each vertex, the same for vertices that stitches join."""
    if stitches is None or len(stitches) == 0:
        return np.arange(vertex_count, dtype=np.int32)
    first, other = np.repeat(stitches[:, 0], stitches.shape[1] - 1), stitches[:, 1:].ravel()
    graph = coo_array((np.ones(len(first)), (first, other)), shape=(vertex_count, vertex_count))
    return connected_components(graph, directed=False)[1].astype(np.int32)


def sewn_partners(vertex_count: int, stitches: np.ndarray | None) -> Csr:
    """For each vertex those that it is sewn to: the first of a row to all others of it."""
    if stitches is None or len(stitches) == 0:
        return Csr(np.zeros(vertex_count + 1, np.int32), np.zeros(0, np.int32))
    first, other = np.repeat(stitches[:, 0], stitches.shape[1] - 1), stitches[:, 1:].ravel()
    rows, items = np.concatenate([first, other]), np.concatenate([other, first])
    return make_csr(rows.astype(np.int32), items.astype(np.int32), vertex_count, vertex_count)
