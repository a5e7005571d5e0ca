"""Repulsion of cloth from cloth, by springs that act for one step (see `weft.dynamics.implicit.step_springs`).

Pairs of a vertex and a triangle, and of two edges, that are nearer than the thickness, or will be within the
step, are pushed apart. The colours of the analysis exclude pairs that have passed through each other, and pairs at folds and
at paths that enclose nothing (see `weft.analysis.attraction`).
"""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.analyser import Analysis
from weft.analysis.attraction import (
    colour_table,
    edge_edge_kinds,
    vertex_triangle_kinds,
)
from weft.contact.contact import pair_thickness
from weft.contact.feature_bounds import Cones
from weft.contact.step_surface import StepSurface, nearest_of_edges, nearest_on_surface
from weft.dynamics.implicit.step_springs import CORNERS, StepSprings
from weft.geometry.stencil import Kind, nearest_weights, pair_vertices, relative_position, stencil_normal
from weft.methods.base import exact_broad_phase
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scan
from weft.world import Surface, World
from weft.world.surface import Rings

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
# stiffness of repulsion, in reduced masses over the step squared: soft, so that layers that rest on each other do not jump
REPEL_STRENGTH = wp.constant(wp.float64(20.0))
# stiffness of repulsion where the distance has become 0, in units of the stretch stiffness of the cloth; it decreases with
# the square of the missing distance. Larger withstands more pressure between layers, and makes the solve harder
REPEL_STIFFNESS = 1.0
# fraction of the missing distance that a step restores. Cloth keeps the speed of its separation: all of the distance at once
# would throw layers that collided
REPEL_FRACTION = wp.constant(wp.float64(0.2))
# m/s; the fastest separation
REPEL_SPEED = wp.constant(wp.float64(0.5))
# metres; the distance that layers keep next to a seam that joins them: that at which collisions are stopped
LEAST_DISTANCE = wp.constant(wp.float64(2.4e-4))
# a weight below this is that of the far end of an edge whose other end is nearest
NO_WEIGHT = wp.constant(wp.float64(1.0e-6))
# rings of neighbours around a path without repulsion, which would hold the path in place
PATH_RINGS = 1
# metres; the distance from a vertex to a seam where there is none. Infinity times a weight of 0 would be NaN
FAR = 1.0e3
# pairs of one thread's range
PAIRS_PER_RANGE = 256


@wp.struct
class SpringColumns:
    """The arrays of `StepSprings` as kernels write them; entries of vertices and weights for each of CORNERS corners."""

    vertices: wp.array[int]
    weights: wp.array[wp.float64]
    normals: wp.array[wp.vec3d]
    rest: wp.array[wp.float64]
    speed: wp.array[wp.float64]
    strength: wp.array[wp.float64]
    stiffness: wp.array[wp.float64]
    friction: wp.array[wp.float64]


def spring_columns(springs: StepSprings) -> Any:
    """The arrays of these springs, valid until the springs grow."""
    arrays: Any = SpringColumns()
    (
        arrays.vertices,
        arrays.weights,
        arrays.normals,
        arrays.rest,
        arrays.speed,
        arrays.strength,
        arrays.stiffness,
        arrays.friction,
    ) = springs.columns
    return arrays


@wp.struct
class ClothPairs:
    """The mesh of all cloths, and what decides how far apart a pair is kept."""

    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    thickness: wp.array[wp.float64]
    rest: wp.array[wp.vec3d]
    piece: wp.array[int]
    """the connected piece of mesh that a vertex is in; the rest shape gives distances within a piece only"""
    sewn_offsets: wp.array[int]
    sewn: wp.array[int]
    """for each vertex the vertices that a stitch joins it to"""
    to_seam: wp.array[wp.float64]
    """metres; distance of a vertex from the nearest seam at rest"""
    vertex_body: wp.array[int]
    friction: wp.array2d[wp.float64]
    """kinetic coefficient of two bodies"""


@wp.func
def is_sewn(kind: int, q: wp.vec4i, cloth: ClothPairs) -> bool:
    """Does a stitch join the two features of a stencil?"""
    split = 2
    if kind == 0:
        split = 1
    for a in range(split):
        for k in range(cloth.sewn_offsets[q[a]], cloth.sewn_offsets[q[a] + 1]):
            for b in range(split, 4):
                if cloth.sewn[k] == q[b]:
                    return True
    return False


@wp.func
def kept_distance(q: wp.vec4i, w: wp.vec4d, cloth: ClothPairs) -> wp.float64:
    """The distance that a pair keeps: its thickness, but at most half of its distance at rest, also across seams."""
    distance = pair_thickness(q, w, cloth.thickness)
    if cloth.piece[q[0]] == cloth.piece[q[3]]:
        rest = cloth.rest
        distance = wp.min(
            distance, HALF * wp.length(relative_position(w, rest[q[0]], rest[q[1]], rest[q[2]], rest[q[3]]))
        )
    # layers that a seam joins come together at it
    around = ZERO
    for k in range(4):
        around += wp.abs(w[k]) * cloth.to_seam[q[k]]
    return wp.min(distance, wp.max(HALF * around, LEAST_DISTANCE))


@wp.kernel
def choose_near(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    kinds: wp.array[wp.int8],
    coloured: int,
    tangled: wp.array[wp.int8],
    cloth: ClothPairs,
    around: StepSurface,
    v: wp.array[wp.vec3d],
    h: wp.float64,
    reach: wp.float64,
    chosen: wp.array[int],
):
    """Mark the pairs (with 1) that are too near, or may be within the step h. `coloured`: 1 if there is an analysis.

    `reach`, metres: how much nearer than by their velocities pairs may come, as by gravity.

    A pair whose direction leans towards a neighbour, which is nearer, is no contact of the surface: pushed along slanted
    directions two layers would be stretched, and thrown.
    """
    i = first + wp.tid()
    chosen[i] = 0
    if coloured == 1:
        if kinds[i] != wp.int8(0):
            return
    q = pair_vertices(kind, pairs[i], cloth.faces, cloth.edges)
    if coloured == 1:
        for k in range(4):
            if tangled[q[k]] == wp.int8(1):
                return
    x = around.x
    w = nearest_weights(kind, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
    r = relative_position(w, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
    u = relative_position(w, v[q[0]], v[q[1]], v[q[2]], v[q[3]])
    # the least distance of the two points during the step
    motion = h * u
    square = wp.dot(motion, motion)
    time = ZERO
    if square > ZERO:
        time = wp.clamp(-wp.dot(r, motion) / square, ZERO, ONE)
    if wp.length(r + time * motion) < kept_distance(q, w, cloth) + reach:
        n = stencil_normal(kind, r, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
        nearest = bool(False)
        if kind == 0:
            nearest = nearest_on_surface(around, pairs[i][1], w, n)
        else:
            # where an end of an edge is nearest, its vertex and a triangle at the other edge are the contact
            inner = wp.min(wp.min(w[0], w[1]), wp.min(-w[2], -w[3]))
            nearest = inner > NO_WEIGHT and nearest_of_edges(around, pairs[i], n)
        if nearest and not is_sewn(kind, q, cloth):
            chosen[i] = 1


@wp.kernel
def push_apart(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    cloth: ClothPairs,
    x: wp.array[wp.vec3d],
    stiff: wp.float64,
    h: wp.float64,
    base: int,
    chosen: wp.array[int],
    places: wp.array[int],
    springs: SpringColumns,
):
    """Write a spring that pushes apart each chosen pair, from number `base` on. `stiff`: N/m, at distance 0."""
    i = first + wp.tid()
    if chosen[i] == 1:
        s = base + places[i]
        q = pair_vertices(kind, pairs[i], cloth.faces, cloth.edges)
        w = nearest_weights(kind, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
        r = relative_position(w, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
        for k in range(4):
            springs.vertices[CORNERS * s + k] = q[k]
            springs.weights[CORNERS * s + k] = w[k]
        springs.vertices[CORNERS * s + 4] = q[0]
        springs.weights[CORNERS * s + 4] = ZERO
        springs.normals[s] = stencil_normal(kind, r, x[q[0]], x[q[1]], x[q[2]], x[q[3]])
        springs.rest[s] = kept_distance(q, w, cloth)
        lack = wp.max(springs.rest[s] - wp.dot(springs.normals[s], r), ZERO)
        missing = lack / springs.rest[s]
        springs.speed[s] = wp.min(REPEL_FRACTION * lack / h, REPEL_SPEED)
        springs.strength[s] = REPEL_STRENGTH
        springs.stiffness[s] = stiff * wp.min(missing * missing, ONE)
        springs.friction[s] = cloth.friction[cloth.vertex_body[q[0]], cloth.vertex_body[q[3]]]


@wp.kernel
def extrapolate(first: int, x: wp.array[wp.vec3d], v: wp.array[wp.vec3d], h: wp.float64, expected: wp.array[wp.vec3d]):
    """Positions after a time h at constant velocity."""
    i = first + wp.tid()
    expected[i] = x[i] + h * v[i]


class ClothContact:
    """Finds the pairs of cloth that are too near, and adds springs that push them apart."""

    def __init__(self, world: World) -> None:
        device = self.device = world.device
        self.world = world
        self.surface = Surface.from_arrays(world.cloth_vertex_count, world.cloth_faces, device=device)
        self.broad_phase = exact_broad_phase(world, self.surface, "untangle")
        self._stiffest = max((cloth.material.mean("stretch") for cloth in world.cloths), default=0.0)
        cloth: Any = ClothPairs()
        cloth.faces, cloth.edges, cloth.thickness = self.surface.faces, self.surface.edges, world.thickness
        cloth.rest = world.rest_shape
        cloth.vertex_body, cloth.friction = world.surface.vertex_body, world.friction_kinetic
        edges = self.surface.edges.numpy().reshape(-1, 2)
        pieces = connected(world.cloth_vertex_count, edges)
        cloth.piece = wp.array(pieces, dtype=int, device=device)
        sewn = stitched(world)
        cloth.sewn_offsets = wp.array(sewn.indptr, dtype=int, device=device)
        cloth.sewn = wp.array(sewn.indices, dtype=int, device=device)
        cloth.to_seam = wp.array(distance_to_seams(world, self.surface), dtype=wp.float64, device=device)
        self._cloth = cloth
        around: Any = StepSurface()
        around.faces, around.edges = self.surface.faces, self.surface.edges
        around.face_edges, around.owned = self.surface.face_edges, self.surface.owned
        cones = Cones.of(self.surface)
        around.wings, around.neighbour_offsets, around.neighbours = (
            cones.wings,
            cones.neighbour_offsets,
            cones.neighbours,
        )
        self._around = around
        self._expected = wp.zeros(world.cloth_vertex_count, dtype=wp.vec3d, device=device)
        self._kinds = Buffer(wp.int8, device)
        self.rings = Rings(edges, world.cloth_vertex_count, device)
        self._tangled = self.rings.no_marks()
        self._chosen, self._places = [Buffer(int, device) for _ in Kind], [Buffer(int, device) for _ in Kind]

    def repel(self, x: wp.array, v: wp.array, h: float, analysis: Analysis | None, springs: StepSprings) -> int:
        """Add springs for the pairs that come too near in a step h from x with velocities v; gives their number.

        Without an analysis all such pairs are pushed apart.
        """
        world, surface = self.world, self.surface
        launch(extrapolate, len(self._expected), [x, v, h, self._expected], device=self.device)
        gravity = float(np.linalg.norm(world.scene.forces.gravity))
        reach = min(gravity * h * h, world.largest_thickness)
        self.broad_phase.update(x[: len(self._expected)], self._expected, world.largest_thickness + reach)
        table = None
        if analysis is not None and len(analysis):
            table = colour_table(analysis, self.device)
            self.rings.mark(analysis.crossing_vertices(), PATH_RINGS, self._tangled)
        self._around.x = x
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
            inputs = [int(kind), pairs, kinds, int(table is not None), self._tangled, self._cloth, self._around]
            inputs += [v, h, reach, chosen]
            launch(choose_near, count, inputs, device=self.device, grain=PAIRS_PER_RANGE)
            found = exclusive_scan(chosen, places)
            if found:
                first = springs.grow(found)
                inputs = [int(kind), pairs, self._cloth, x]
                inputs += [REPEL_STIFFNESS * self._stiffest, h, first, chosen, places, spring_columns(springs)]
                launch(push_apart, count, inputs, device=self.device, grain=PAIRS_PER_RANGE)
                total += found
        return total


def connected(count: int, pairs: np.ndarray) -> np.ndarray:
    """(count,) the connected component of each vertex in the graph of these pairs."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    return connected_components(graph, directed=False)[1].astype(np.int32)


def stitched(world: World) -> Any:
    """Sparse (n, n) matrix: which vertices a stitch joins directly."""
    from scipy.sparse import coo_array

    count = world.cloth_vertex_count
    a, b, c = world.seams.vertices.reshape(-1, 3).T
    one, other = np.concatenate([a, a, b, c]), np.concatenate([b, c, a, a])
    return coo_array((np.ones(len(one)), (one, other)), shape=(count, count)).tocsr()


def distance_to_seams(world: World, surface: Surface) -> np.ndarray:
    """(n,) metres; the distance of each vertex from the nearest sewn vertex, along edges at rest; at most FAR."""
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
