"""Which cloth vertices are pinched, and between which surfaces (Baraff, Witkin and Kass 2003, section 4.4).

A vertex is pinched where it is in, or touches, two surfaces that face each other: of two colliders, or two portions of
one collider that intersect there. That a finger's two sides are near each other and face away is no pinch: for one
collider the analysis of its own mesh tells, by the regions in which it has passed through itself. Overlaps that it has
in the first frame already are part of its shape and do not count, nor do tiny ones. Portions that have not met, but
leave no room for the cloth between them, pinch it as well.
"""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser
from weft.analysis.crossing_kernels import Crossing
from weft.analysis.result import Analysis
from weft.mesh.topology import Csr
from weft.response.attraction_kernels import has_item, nearest_weights, query_around
from weft.response.flypaper import SurfacePoints
from weft.response.solid_surfaces import SolidSurfaces
from weft.world import World, launch

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

ZERO = wp.constant(wp.float64(0.0))
# part of the thickness by which a vertex may be farther away and still touches
SLACK = 0.01
# cosine of the angle between two normals below which surfaces face each other: a little more than a right angle
FACING = -0.1
OPPOSED = wp.constant(wp.float64(FACING))
# regions of a collider with fewer vertices are blemishes
LEAST_REGION = 3
# rings by which the overlaps of the first frame are widened, and the part of a path that must lie in them to be one
RINGS, PERMANENT = 2, 0.8


@wp.kernel
def find_opposite(
    first: int,
    mesh: Crossing,
    points: wp.array[wp.vec3d],
    queries: wp.array[wp.vec2i],
    normals: wp.array[wp.vec3d],
    touch: wp.array[wp.float64],
    colour_offsets: wp.array[int],
    colours: wp.array[int],
    reach: wp.float64,
    found_face: wp.array[int],
    found_weights: wp.array[wp.vec3d],
):
    """For (point, region): the nearest triangle of the other region of its path that faces it and has it inside."""
    i = first + wp.tid()
    p = points[queries[i][0]]
    partner = queries[i][1] ^ 1
    n = normals[queries[i][0]]
    best = int(-1)
    best_distance = reach
    best_weights = wp.vec3d()
    f = int(0)
    query = query_around(mesh, p, reach)
    while wp.bvh_query_next(query, f):
        if has_item(colour_offsets, colours, f, partner):
            face = mesh.faces[f]
            a = mesh.x[face[0]]
            b = mesh.x[face[1]]
            c = mesh.x[face[2]]
            w = nearest_weights(p, a, b, c)
            r = p - (w[0] * a + w[1] * b + w[2] * c)
            distance = wp.length(r)
            across = wp.normalize(wp.cross(b - a, c - a))
            near = wp.dot(across, n) < OPPOSED and (wp.dot(across, r) < ZERO or distance < touch[queries[i][0]])
            # equal distances: the lower triangle, whatever the order of the tree
            if near and (distance < best_distance or (distance == best_distance and f < best)):
                best = f
                best_distance = distance
                best_weights = w
    found_face[i] = best
    found_weights[i] = best_weights


@wp.kernel
def find_squeezing(
    first: int,
    mesh: Crossing,
    points: wp.array[wp.vec3d],
    normals: wp.array[wp.vec3d],
    touch: wp.array[wp.float64],
    found_face: wp.array[int],
    found_weights: wp.array[wp.vec3d],
):
    """For each point that touches a surface: the nearest triangle that faces it from the other side and touches it too.

    The point must be outside of it: what lies behind is the far side of something thin.
    """
    i = first + wp.tid()
    p = points[i]
    n = normals[i]
    best = int(-1)
    best_distance = touch[i]
    best_weights = wp.vec3d()
    f = int(0)
    query = query_around(mesh, p, touch[i])
    while wp.bvh_query_next(query, f):
        face = mesh.faces[f]
        a = mesh.x[face[0]]
        b = mesh.x[face[1]]
        c = mesh.x[face[2]]
        w = nearest_weights(p, a, b, c)
        r = p - (w[0] * a + w[1] * b + w[2] * c)
        distance = wp.length(r)
        across = wp.normalize(wp.cross(b - a, c - a))
        facing = wp.dot(across, n) < OPPOSED and wp.dot(across, r) > ZERO
        # equal distances: the lower triangle, whatever the order of the tree
        if facing and (distance < best_distance or (distance == best_distance and f < best)):
            best = f
            best_distance = distance
            best_weights = w
    found_face[i] = best
    found_weights[i] = best_weights


class SelfPinch:
    """Where one collider has passed through itself, step by step."""

    def __init__(self, world: World, number: int, start: Floats) -> None:
        """`start`: all positions of the world in the first frame."""
        body = world.bodies[len(world.cloths) + number]
        self.device = world.device
        self.vertices, self.first_face = body.vertices, body.faces.start
        faces = world.faces[body.faces] - body.vertices.start
        self.analyser = Analyser(faces, body.vertices.stop - body.vertices.start, device=world.device)
        self._permanent = np.zeros(self.analyser.topology.vertex_count, dtype=bool)
        first = self.analyser.analyse(start[self.vertices])
        self._permanent[_crossing_vertices(first)] = True
        for row in range(len(first.region_vertices.offsets) - 1):
            self._permanent[_row(first.region_vertices, row)] = True
        edges = self.analyser.topology.edges
        for _ in range(RINGS):
            touched = self._permanent[edges].any(axis=1)
            self._permanent[edges[touched]] = True
        self._x: Floats = start[self.vertices]
        self._analysis, self._kept = first, self._choose(first)

    def analyse(self, x: Floats) -> bool:
        """Look at the collider with all positions of the world here; True where it pinches somewhere."""
        own = x[self.vertices]
        if not np.array_equal(own, self._x):
            self._x = own.copy()
            self._analysis = self.analyser.analyse(own)
            self._kept = self._choose(self._analysis)
        return bool(self._kept.any())

    def find(
        self, points: Floats, faces: Ints, normals: Floats, touch: Floats, depth: float
    ) -> tuple[Ints, Ints, Floats]:
        """Of points near the triangles `faces` of this collider, those that are pinched: which, between which, where."""
        analysis = self._analysis
        colours = analysis.face_colours
        counts = np.diff(colours.offsets)[faces]
        point = np.repeat(np.arange(len(faces), dtype=np.int32), counts)
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        region = colours.items[colours.offsets[faces[point]] + place]
        kept = self._kept[region // 2]
        queries = np.column_stack([point[kept], region[kept]]).astype(np.int32)
        count = len(queries)
        found, weights = (
            wp.empty(count, dtype=int, device=self.device),
            wp.empty(count, dtype=wp.vec3d, device=self.device),
        )
        if count:
            finder = self.analyser.finder
            finder.grow_tree(analysis.positions)

            def upload(values: Any, dtype: Any) -> wp.array:
                return wp.array(values, dtype=dtype, device=self.device)

            inputs = [finder.mesh, upload(points, wp.vec3d), upload(queries, wp.vec2i), upload(normals, wp.vec3d)]
            inputs += [upload(touch, wp.float64), upload(colours.offsets, int), upload(colours.items, int)]
            launch(find_opposite, count, [*inputs, wp.float64(depth), found, weights], device=self.device, grain=16)
        hit = found.numpy() >= 0
        # one opposite portion for each point: that of its first region
        which, first = np.unique(queries[hit, 0], return_index=True)
        return which, found.numpy()[hit][first], weights.numpy().reshape(-1, 3)[hit][first]

    def find_squeezed(self, points: Floats, normals: Floats, touch: Floats) -> tuple[Ints, Ints, Floats]:
        """Of points that touch this collider, those that another portion touches from the other side."""
        finder, count = self.analyser.finder, len(points)
        finder.grow_tree(self._x)
        face = wp.empty(count, dtype=int, device=self.device)
        weights = wp.empty(count, dtype=wp.vec3d, device=self.device)
        inputs = [wp.array(values, dtype=wp.vec3d, device=self.device) for values in (points, normals)]
        inputs += [wp.array(touch, dtype=wp.float64, device=self.device), face, weights]
        launch(find_squeezing, count, [finder.mesh, *inputs], device=self.device, grain=64)
        which = np.flatnonzero(face.numpy() >= 0).astype(np.int32)
        return which, face.numpy()[which], weights.numpy().reshape(-1, 3)[which]

    def _choose(self, analysis: Analysis) -> Bools:
        """Which paths pinch: not those that were there from the start, and not the smallest.

        One side may well be small: a hand in a torso of large triangles.
        """
        sizes = np.diff(analysis.region_vertices.offsets)
        kept = np.where(analysis.single, sizes[::2] + sizes[1::2], np.maximum(sizes[::2], sizes[1::2])) >= LEAST_REGION
        for path in np.flatnonzero(kept):
            nodes = slice(analysis.path_offsets[path], analysis.path_offsets[path + 1])
            kept[path] = self._permanent[analysis.rows[nodes, :2]].mean() < PERMANENT
        return kept


class PinchFinder:
    """Finds the pinched vertices of a world; nothing is remembered from step to step."""

    def __init__(self, world: World, surfaces: SolidSurfaces, *, depth: float) -> None:
        """`depth`: how far a vertex may be inside a surface that pinches it, m."""
        self.world = world
        self.surfaces = surfaces
        self.depth = depth
        start = world.initial_state().positions()
        self._own = [SelfPinch(world, number, start) for number in range(surfaces.count)]
        self._touch = (
            0.5 * (1.0 + SLACK) * (world.thickness.numpy()[: world.cloth_vertex_count] + world.scene.thickness)
        )

    def find(self, x: Floats) -> SurfacePoints:
        """The pinched vertices at positions x, for which the surfaces have been searched to the depth already."""
        surfaces = self.surfaces
        face, gaps = surfaces.face.numpy(), surfaces.gaps.numpy()
        count = self.world.cloth_vertex_count
        near = (face >= 0) & (gaps < self._touch) & (gaps > -self.depth)
        vertices: list[np.ndarray] = [np.zeros(0, np.int32)]
        faces: list[np.ndarray] = [np.zeros(0, np.int32)]
        weights = [np.zeros((0, 3))]

        # between two colliders: all that touch it, if some of them face each other
        if surfaces.count > 1:
            several = np.flatnonzero(near.sum(axis=0) > 1)
            normals = np.where(near[:, several, None], surfaces.normals.numpy()[:, several], 0.0)
            facing = np.einsum("avk,bvk->vab", normals, normals).min(axis=(1, 2)) < FACING
            for number in range(surfaces.count):
                held = several[facing & near[number, several]]
                vertices.append(held)
                faces.append(face[number, held])
                weights.append(surfaces.weights.numpy()[number, held])

        # between two portions of one
        for number, own in enumerate(self._own):
            touching = np.flatnonzero(near[number])
            if not len(touching):
                continue
            normals = surfaces.normals.numpy()[number, touching]
            first = own.first_face - self.world.cloth_face_count
            pinches, where = own.analyse(x), x[touching]
            which, opposite, places = own.find_squeezed(where, normals, self._touch[touching])
            if pinches:
                deep = own.find(where, face[number, touching] - first, normals, self._touch[touching], self.depth)
                new = ~np.isin(which, deep[0])
                which = np.concatenate([deep[0], which[new]])
                opposite = np.concatenate([deep[1], opposite[new]])
                places = np.concatenate([deep[2], places[new]])
            held = touching[which]
            new = ~np.isin(held, np.concatenate(vertices))
            vertices += [held[new], held]
            faces += [face[number, held[new]], opposite + first]
            weights += [surfaces.weights.numpy()[number, held[new]], places]
        return _points(
            np.concatenate(vertices),
            np.concatenate(faces) + self.world.cloth_face_count,
            np.concatenate(weights),
            count,
        )


def _points(vertices: Ints, faces: Ints, weights: Floats, count: int) -> SurfacePoints:
    """Points listed by vertex."""
    order = np.argsort(vertices, kind="stable")
    held, sizes = np.unique(vertices, return_counts=True)
    return SurfacePoints(held, np.concatenate([[0], np.cumsum(sizes)]), faces[order], weights[order])


def _crossing_vertices(analysis: Analysis) -> Ints:
    return np.unique(np.concatenate([analysis.rows[:, :2].ravel(), analysis.topology.faces[analysis.face].ravel()]))


def _row(rows: Csr, number: int) -> Ints:
    return rows.items[rows.offsets[number] : rows.offsets[number + 1]]
