"""Cloth against cloth in an implicit step: what comes too near is pushed apart, unless it has passed through.

Pairs of a vertex and a triangle, and of two edges, that are nearer than the thickness or would be at the end of the
step become links (see `dynamics.step_springs`). The colours of the analysis decide which do not: what lies on the wrong side
is attracted instead, and around folds and open paths neither holds (see `attraction`).
"""

from typing import Any

import numpy as np
import warp as wp

from weft.analysis.analyser import Analysis
from weft.analysis.attraction import colour_table, edge_edge_kinds, vertex_triangle_kinds
from weft.contact.contact import pair_thickness
from weft.dynamics.implicit.step_springs import CORNERS, StepSprings
from weft.geometry.proximity import relative_position
from weft.geometry.stencil import Kind, nearest_weights, pair_vertices, stencil_normal
from weft.methods.base import exact_broad_phase
from weft.methods.untangle.pulling import crossing_vertices
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scan
from weft.world import Surface, World
from weft.world.rings import Rings

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
# how stiff pushing apart is, in reduced masses over the step squared
STRENGTH = wp.constant(wp.float64(20.0))
# and where nothing of the distance is left, in units of the stretch stiffness of the cloth: layers that only lie on each
# other are pushed apart softly, or they would jump
STIFF = 1.0
# the fastest way apart, m/s
PACE = wp.constant(wp.float64(0.5))
# layers that a seam joins are kept this far apart all the same, m: as far as collisions are stopped
LEAST = wp.constant(wp.float64(2.4e-4))
# rings of neighbours around a path in which nothing is pushed apart: it would hold the path where it is
RINGS = 1
# how far a vertex is from a seam that is not there, m; infinite, it would have no sum
FAR = 1.0e3
# pairs worth a thread of their own
GRAIN = 256


@wp.struct
class Sheets:
    """What tells a pair that counts from one that does not."""

    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    thickness: wp.array[wp.float64]
    rest: wp.array[wp.vec3d]
    piece: wp.array[int]
    """vertices that hang together; distances at rest mean something within a piece"""
    sewn_offsets: wp.array[int]
    sewn: wp.array[int]
    """for each vertex those that a stitch joins it to"""
    to_seam: wp.array[wp.float64]
    """how far a vertex is from a seam at rest"""


@wp.func
def is_sewn(kind: int, q: wp.vec4i, sheets: Sheets) -> bool:
    """Does a stitch join the two sides?"""
    split = 2
    if kind == 0:
        split = 1
    for a in range(split):
        for k in range(sheets.sewn_offsets[q[a]], sheets.sewn_offsets[q[a] + 1]):
            for b in range(split, 4):
                if sheets.sewn[k] == q[b]:
                    return True
    return False


@wp.func
def kept_distance(q: wp.vec4i, w: wp.vec4d, sheets: Sheets) -> wp.float64:
    """How far apart a pair is kept: its thickness, but no more than half of its distance at rest, over seams too."""
    distance = pair_thickness(q, w, sheets.thickness)
    if sheets.piece[q[0]] == sheets.piece[q[3]]:
        rest = sheets.rest
        distance = wp.min(
            distance, HALF * wp.length(relative_position(w, rest[q[0]], rest[q[1]], rest[q[2]], rest[q[3]]))
        )
    # layers that a seam joins meet in it
    around = ZERO
    for k in range(4):
        around += wp.abs(w[k]) * sheets.to_seam[q[k]]
    return wp.min(distance, wp.max(HALF * around, LEAST))


@wp.kernel
def choose_near(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    kinds: wp.array[wp.int8],
    coloured: int,
    tangled: wp.array[wp.int8],
    sheets: Sheets,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    h: wp.float64,
    chosen: wp.array[int],
):
    """1 where a pair is too near, or would be within the step."""
    i = first + wp.tid()
    chosen[i] = 0
    if coloured == 1:
        if kinds[i] != wp.int8(0):
            return
    q = pair_vertices(kind, pairs[i], sheets.faces, sheets.edges)
    if coloured == 1:
        for k in range(4):
            if tangled[q[k]] == wp.int8(1):
                return
    w = nearest_weights(kind, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
    r = relative_position(w, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
    u = relative_position(w, v[q[0]], v[q[1]], v[q[2]], v[q[3]])
    # the nearest that the two points come on their way
    way = h * u
    square = wp.dot(way, way)
    part = ZERO
    if square > ZERO:
        part = wp.clamp(-wp.dot(r, way) / square, ZERO, ONE)
    if wp.length(r + part * way) < kept_distance(q, w, sheets):
        if not is_sewn(kind, q, sheets):
            chosen[i] = 1


@wp.kernel
def push_apart(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    sheets: Sheets,
    vertex_body: wp.array[int],
    mu: wp.array2d[wp.float64],
    x: wp.array[wp.vec3d],
    stiff: wp.float64,
    base: int,
    chosen: wp.array[int],
    places: wp.array[int],
    vertices: wp.array[int],
    weights: wp.array[wp.float64],
    normals: wp.array[wp.vec3d],
    rest: wp.array[wp.float64],
    speed: wp.array[wp.float64],
    strength: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    friction: wp.array[wp.float64],
):
    """A link that pushes a chosen pair apart."""
    i = first + wp.tid()
    if chosen[i] == 1:
        row = base + places[i]
        q = pair_vertices(kind, pairs[i], sheets.faces, sheets.edges)
        w = nearest_weights(kind, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
        r = relative_position(w, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
        for k in range(4):
            vertices[CORNERS * row + k] = q[k]
            weights[CORNERS * row + k] = w[k]
        vertices[CORNERS * row + 4] = q[0]
        weights[CORNERS * row + 4] = ZERO
        normals[row] = stencil_normal(kind, r, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
        rest[row] = kept_distance(q, w, sheets)
        speed[row] = PACE
        strength[row] = STRENGTH
        lack = wp.max(ONE - wp.dot(normals[row], r) / rest[row], ZERO)
        stiffness[row] = stiff * wp.min(lack * lack, ONE)
        friction[row] = mu[vertex_body[q[0]], vertex_body[q[3]]]


class ClothContact:
    """Finds the pairs of cloth that are too near, and links them."""

    def __init__(self, world: World) -> None:
        device = self.device = world.device
        self.world = world
        self.surface = Surface.from_arrays(world.cloth_vertex_count, world.cloth_faces, device=device)
        self.broad_phase = exact_broad_phase(world, self.surface, "untangle")
        self._stiffest = max((part.material.stretch for part in world.cloths), default=0.0)
        sheets: Any = Sheets()
        sheets.faces, sheets.edges, sheets.thickness = self.surface.faces, self.surface.edges, world.thickness
        sheets.rest = world.rest_shape
        edges = self.surface.edges.numpy().reshape(-1, 2)
        pieces = connected(world.cloth_vertex_count, edges)
        sheets.piece = wp.array(pieces, dtype=int, device=device)
        sewn = stitched(world)
        sheets.sewn_offsets = wp.array(sewn.indptr, dtype=int, device=device)
        sheets.sewn = wp.array(sewn.indices, dtype=int, device=device)
        sheets.to_seam = wp.array(distance_to_seams(world, self.surface), dtype=wp.float64, device=device)
        self._sheets = sheets
        self._expected = wp.zeros(world.cloth_vertex_count, dtype=wp.vec3d, device=device)
        self._kinds = Buffer(wp.int8, device)
        self.rings = Rings(edges, world.cloth_vertex_count, device)
        self._tangled = self.rings.no_marks()
        self._chosen, self._places = [Buffer(int, device) for _ in Kind], [Buffer(int, device) for _ in Kind]

    def link(self, x: wp.array, v: wp.array, h: float, analysis: Analysis | None, links: StepSprings) -> int:
        """Add links for the pairs that are too near in a step h from x with velocities v; gives their number.

        Without an analysis all are pushed apart.
        """
        world, surface = self.world, self.surface
        launch(expect, len(self._expected), [x, v, h, self._expected], device=self.device)
        self.broad_phase.update(x[: len(self._expected)], self._expected, world.largest_thickness)
        table = None
        if analysis is not None and len(analysis):
            table = colour_table(analysis, self.device)
            self.rings.mark(crossing_vertices(analysis), RINGS, self._tangled)
        total = 0
        for kind, pairs in zip(Kind, self.broad_phase.feature_pairs(), strict=True):
            count = len(pairs)
            kinds = self._kinds.at_least(count)
            if table is not None and kind == Kind.POINT_TRIANGLE:
                vertex_triangle_kinds(table, surface.faces, pairs, kinds)
            elif table is not None:
                edge_edge_kinds(table, surface.edges, pairs, kinds)
            chosen = self._chosen[kind].at_least(count)[:count]
            places = self._places[kind].at_least(count)[:count]
            inputs = [int(kind), pairs, kinds, int(table is not None), self._tangled, self._sheets, x, v, h, chosen]
            launch(choose_near, count, inputs, device=self.device, grain=GRAIN)
            found = exclusive_scan(chosen, places)
            if found:
                first = links.grow(found)
                inputs = [int(kind), pairs, self._sheets, world.surface.vertex_body, world.friction_kinetic, x]
                inputs += [STIFF * self._stiffest, first, chosen, places, *links.columns]
                launch(push_apart, count, inputs, device=self.device, grain=GRAIN)
                total += found
        return total


@wp.kernel
def expect(first: int, x: wp.array[wp.vec3d], v: wp.array[wp.vec3d], h: wp.float64, expected: wp.array[wp.vec3d]):
    """Where a vertex would be after h."""
    i = first + wp.tid()
    expected[i] = x[i] + h * v[i]


def connected(count: int, pairs: np.ndarray) -> np.ndarray:
    """A number a vertex, the same for vertices that pairs join."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)[1].astype(np.int32)


def stitched(world: World) -> Any:
    """Sparse (n, n): which vertices a stitch joins directly."""
    from scipy.sparse import coo_array

    count = world.cloth_vertex_count
    a, b, c = world.seams.vertices.reshape(-1, 3).T
    one, other = np.concatenate([a, a, b, c]), np.concatenate([b, c, a, a])
    return coo_array((np.ones(len(one)), (one, other)), shape=(count, count)).tocsr()


def distance_to_seams(world: World, surface: Surface) -> np.ndarray:
    """(n,) how far each vertex is from the nearest vertex that is sewn to something, along edges at rest."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import dijkstra

    count = world.cloth_vertex_count
    sewn = np.unique(world.seams.vertices)
    if not len(sewn):
        return np.full(count, FAR)
    edges, rest = surface.edges.numpy().reshape(-1, 2), world.rest_shape.numpy()
    lengths = np.linalg.norm(rest[edges[:, 0]] - rest[edges[:, 1]], axis=1)
    graph = coo_array((lengths, (edges[:, 0], edges[:, 1])), shape=(count, count)).tocsr()
    found: np.ndarray = np.minimum(dijkstra(graph, directed=False, indices=sewn, min_only=True), FAR)
    return found
