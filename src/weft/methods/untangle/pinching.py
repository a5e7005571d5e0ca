"""Which cloth vertices are pinched, and between which surfaces (Baraff, Witkin and Kass 2003, section 4.4).

A vertex is pinched where it is inside two colliders, unless both push it to the same side: the way out of one leads into the
other. It is pinched, too, where it touches two colliders, or two portions of one, that face each other. That two sides of a
finger are near each other and face away from each other is no pinch. For one collider, the analysis of its own mesh finds
the regions in which it has passed through itself, from the positions alone; tiny ones do not count. Two portions that do
not intersect, but both touch a vertex from opposite sides, pinch it as well.
"""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser, Analysis
from weft.analysis.attraction import has_item
from weft.analysis.crossing import query_around
from weft.analysis.pair_tests import CrossingMesh
from weft.geometry.stencil import nearest_point_triangle
from weft.methods.untangle.flypaper import SurfacePoints
from weft.methods.untangle.solid_surfaces import NearestPoints, SolidSurfaces
from weft.runtime import launch
from weft.runtime.buffers import Buffer, read
from weft.runtime.compaction import exclusive_scans
from weft.world import World

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# cosine of the angle between two normals below which two surfaces face each other: a little more than a right angle
FACING = wp.constant(wp.float64(-0.1))
# the same for a vertex inside both: only where both push it to about the same side, as at a joint at which two limbs overlap
# whatever their pose, does the way out of one lead out of the other, too
ALIKE = wp.constant(wp.float64(0.7))
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# fraction of the thickness by which a vertex may be farther away and still touches
TOUCH_TOLERANCE = 0.01
# regions of a collider with fewer vertices are blemishes of its mesh and do not pinch
LEAST_REGION = 3


@wp.struct
class Near:
    """The nearest points of all colliders, and which of them touch."""

    points: NearestPoints
    touch: wp.array[wp.float64]
    """metres; the distance at which a vertex touches a surface"""
    depth: wp.float64
    """metres; how deep inside a surface a vertex may be that the surface pinches"""


@wp.struct
class SelfCrossings:
    """The paths on which a collider passes through itself, and the regions that its triangles are in."""

    paths: int
    """how many paths pinch"""
    kept: wp.array[int]
    """1 for each path that pinches"""
    offsets: wp.array[int]
    colours: wp.array[int]
    """the regions of each triangle"""


@wp.struct
class Opposite:
    """A point of a triangle on the other side of a vertex; the triangle is -1 if there is none."""

    face: int
    weights: wp.vec3d


@wp.func
def touches(collider: int, i: int, near: Near) -> bool:
    """Whether a vertex touches the surface of a collider, or is inside it, down to the depth."""
    gap = near.points.gaps[collider, i]
    return near.points.face[collider, i] >= 0 and gap < near.touch[i] and gap > -near.depth


@wp.kernel
def find_touched(first: int, vertices: int, near: Near, touched: wp.array[int]):
    """Mark the colliders that some vertex touches."""
    number = first + wp.tid()
    if touches(number // vertices, number % vertices, near):
        # all threads write the same value
        touched[number // vertices] = 1


@wp.kernel
def find_between(first: int, vertices: int, colliders: int, near: Near, chosen: wp.array[int]):
    """Mark each collider (with 1) that a vertex touches, if two of the colliders that it touches pinch it."""
    number = first + wp.tid()
    collider = number // vertices
    i = number % vertices
    chosen[number] = 0
    if touches(collider, i, near):
        for a in range(colliders):
            for b in range(a):
                if touches(a, i, near) and touches(b, i, near):
                    facing = FACING
                    if near.points.gaps[a, i] < ZERO and near.points.gaps[b, i] < ZERO:
                        facing = ALIKE
                    if wp.dot(near.points.normals[a, i], near.points.normals[b, i]) < facing:
                        chosen[number] = 1


@wp.kernel
def compact_between(
    first: int,
    vertices: int,
    near: Near,
    chosen: wp.array[int],
    places: wp.array[int],
    found: wp.array[wp.vec3i],
    weights: wp.array[wp.vec3d],
):
    """Compact the marked vertices: vertex and triangle, and the point on the triangle."""
    number = first + wp.tid()
    if chosen[number] == 1:
        collider = number // vertices
        i = number % vertices
        found[places[number]] = wp.vec3i(i, near.points.face[collider, i], -1)
        weights[places[number]] = near.points.weights[collider, i]


@wp.func
def opposite_in(
    region: int,
    p: wp.vec3d,
    n: wp.vec3d,
    touch: wp.float64,
    reach: wp.float64,
    mesh: CrossingMesh,
    crossings: SelfCrossings,
) -> Opposite:
    """The nearest triangle of a region within `reach` that faces the normal n at p, and has p behind it or touches it."""
    best = Opposite()
    best.face = -1
    best_distance = reach
    f = int(0)
    query = query_around(mesh, p, reach)
    while wp.bvh_query_next(query, f):
        if has_item(crossings.offsets, crossings.colours, f, region):
            face = mesh.faces[f]
            a = mesh.x[face[0]]
            b = mesh.x[face[1]]
            c = mesh.x[face[2]]
            w = nearest_point_triangle(p, a, b, c)
            r = p - (w[0] * a + w[1] * b + w[2] * c)
            distance = wp.length(r)
            across = wp.normalize(wp.cross(b - a, c - a))
            near = wp.dot(across, n) < FACING and (wp.dot(across, r) < ZERO or distance < touch)
            # equal distances: the triangle of lower index, so that the order of the tree does not matter
            if near and (distance < best_distance or (distance == best_distance and f < best.face)):
                best.face = f
                best.weights = w
                best_distance = distance
    return best


@wp.func
def opposite_outside(p: wp.vec3d, n: wp.vec3d, touch: wp.float64, mesh: CrossingMesh) -> Opposite:
    """The nearest triangle that faces the normal n at p and that p touches from outside.

    A triangle that has p behind it is the far side of something thin, and does not count.
    """
    best = Opposite()
    best.face = -1
    best_distance = touch
    f = int(0)
    query = query_around(mesh, p, touch)
    while wp.bvh_query_next(query, f):
        face = mesh.faces[f]
        a = mesh.x[face[0]]
        b = mesh.x[face[1]]
        c = mesh.x[face[2]]
        w = nearest_point_triangle(p, a, b, c)
        r = p - (w[0] * a + w[1] * b + w[2] * c)
        distance = wp.length(r)
        across = wp.normalize(wp.cross(b - a, c - a))
        facing = wp.dot(across, n) < FACING and wp.dot(across, r) > ZERO
        # equal distances: the triangle of lower index, so that the order of the tree does not matter
        if facing and (distance < best_distance or (distance == best_distance and f < best.face)):
            best.face = f
            best.weights = w
            best_distance = distance
    return best


@wp.kernel
def find_within(
    first: int,
    collider: int,
    first_face: int,
    near: Near,
    x: wp.array[wp.vec3d],
    mesh: CrossingMesh,
    crossings: SelfCrossings,
    chosen: wp.array[int],
    faces: wp.array[int],
    weights: wp.array[wp.vec3d],
):
    """Mark the vertices (with 1) that two portions of a collider pinch: two regions in which the collider passes through
    itself, or two portions that the vertex touches from opposite sides."""
    i = first + wp.tid()
    chosen[i] = 0
    if touches(collider, i, near):
        n = near.points.normals[collider, i]
        found = Opposite()
        found.face = -1
        if crossings.paths > 0:
            f = near.points.face[collider, i] - first_face
            # the first of its regions with an opposite triangle
            for k in range(crossings.offsets[f], crossings.offsets[f + 1]):
                region = crossings.colours[k]
                if found.face < 0 and crossings.kept[region // 2] == 1:
                    found = opposite_in(region ^ 1, x[i], n, near.touch[i], near.depth, mesh, crossings)
        if found.face < 0:
            found = opposite_outside(x[i], n, near.touch[i], mesh)
        if found.face >= 0:
            chosen[i] = 1
            faces[i] = found.face
            weights[i] = found.weights


@wp.kernel
def compact_within(
    first: int,
    collider: int,
    near: Near,
    chosen: wp.array[int],
    places: wp.array[int],
    faces: wp.array[int],
    weights: wp.array[wp.vec3d],
    found: wp.array[wp.vec3i],
    found_weights: wp.array[wp.vec3d],
):
    """Compact the marked vertices: vertex, triangle and opposite triangle of the collider, and the points on both."""
    i = first + wp.tid()
    if chosen[i] == 1:
        place = places[i]
        found[place] = wp.vec3i(i, near.points.face[collider, i], faces[i])
        found_weights[2 * place] = near.points.weights[collider, i]
        found_weights[2 * place + 1] = weights[i]


class SelfPinch:
    """Finds where one collider passes through itself."""

    def __init__(self, world: World, number: int) -> None:
        body = world.bodies[len(world.cloths) + number]
        self.device = world.device
        self.vertices = body.vertices
        self.first_face = body.faces.start - world.cloth_face_count
        faces = world.faces[body.faces] - body.vertices.start
        self.analyser = Analyser(faces, body.vertices.stop - body.vertices.start, device=world.device)
        # a collider that moves rigidly passes through itself in one way: which triangles are in which region stays the same
        self._bends = any(
            not p.still and p.pose is None and p.vertices[0] in range(body.vertices.start, body.vertices.stop)
            for p in world.kinematics.prescriptions
            if len(p.vertices)
        )
        self._rigid: Any = None

    def update(self, x: wp.array) -> list[Any]:
        """The collider's mesh with a tree of its triangles, and its `SelfCrossings`, at positions x of the whole world."""
        own = x[self.vertices.start : self.vertices.stop]
        crossings = self._crossings(own) if self._rigid is None else self._rigid
        if not self._bends:
            self._rigid = crossings
        finder = self.analyser.finder
        finder.build_tree(own)
        return [finder.mesh, crossings]

    def _crossings(self, own: wp.array) -> Any:
        """The `SelfCrossings` at positions of the collider's own vertices."""
        analysis = self.analyser.analyse_in_place(own)
        kept = np.zeros(0, bool) if analysis is None else self._choose(analysis)
        crossings: Any = SelfCrossings()
        if analysis is not None and kept.any():
            crossings.paths = int(kept.sum())
            crossings.kept, crossings.offsets, crossings.colours = (
                wp.array(values, dtype=int, device=self.device)
                for values in (kept.astype(np.int32), analysis.face_colours.offsets, analysis.face_colours.items)
            )
        return crossings

    def _choose(self, analysis: Analysis) -> Bools:
        """(paths,) which paths pinch: all but the smallest.

        The larger region counts: the other may be small, as for a hand in a torso of large triangles.
        """
        sizes = np.diff(analysis.region_vertices.offsets)
        found = np.where(analysis.single, sizes[::2] + sizes[1::2], np.maximum(sizes[::2], sizes[1::2])) >= LEAST_REGION
        return np.asarray(found)


class PinchFinder:
    """Finds the pinched vertices of a world, for each step anew."""

    def __init__(self, world: World, surfaces: SolidSurfaces, *, depth: float) -> None:
        """`depth`: metres; how far a vertex may be inside a surface that pinches it."""
        self.world, self.device = world, world.device
        self.surfaces = surfaces
        count = self.count = world.cloth_vertex_count
        self._own = [SelfPinch(world, number) for number in range(surfaces.count)]
        near: Any = Near()
        self._near = near
        near.points = surfaces.nearest
        touch = 0.5 * (1.0 + TOUCH_TOLERANCE) * (world.thickness.numpy()[:count] + world.scene.thickness)
        near.touch, near.depth = wp.array(touch, dtype=wp.float64, device=self.device), wp.float64(depth)
        pairs = max(1, surfaces.count) * count
        self._touched = wp.zeros(max(1, surfaces.count), dtype=int, device=self.device)
        self._chosen, self._places = (wp.zeros(pairs, dtype=int, device=self.device) for _ in range(2))
        self._faces = wp.zeros(count, dtype=int, device=self.device)
        self._weights = wp.zeros(count, dtype=wp.vec3d, device=self.device)
        self._found, self._found_weights = Buffer(wp.vec3i, self.device), Buffer(wp.vec3d, self.device)

    def find(self, x: wp.array) -> SurfacePoints:
        """The pinched vertices at positions x, after `SolidSurfaces.find` at x with the depth as reach."""
        colliders = self.surfaces.count
        vertices: list[np.ndarray] = [np.zeros(0, np.int32)]
        faces: list[np.ndarray] = [np.zeros(0, np.int32)]
        weights = [np.zeros((0, 3))]
        self._touched.zero_()
        inputs: list[Any] = [self.count, self._near, self._touched]
        launch(find_touched, colliders * self.count, inputs, device=self.device)
        touched = read((self._touched, 0, colliders))[0].copy() if colliders else np.zeros(0, np.int32)

        # between colliders: all that touch the vertex, if any two of them face each other
        if touched.sum() > 1:
            found, points = self._between()
            vertices.append(found[:, 0])
            faces.append(found[:, 1])
            weights.append(points)

        # between two portions of one collider
        for number in np.flatnonzero(touched):
            found, points = self._within(int(number), x)
            if not len(found):
                continue
            held, face, opposite = found.T
            new = ~np.isin(held, np.concatenate(vertices))
            vertices += [held[new], held]
            faces += [face[new], opposite + self._own[number].first_face]
            weights += [points[::2][new], points[1::2]]
        faces_of_world = np.concatenate(faces) + self.world.cloth_face_count
        return _points(np.concatenate(vertices), faces_of_world, np.concatenate(weights))

    def _between(self) -> tuple[Ints, Floats]:
        """(k, 3) vertex, triangle, -1 for vertices pinched between colliders, and (k, 3) the points of these triangles."""
        pairs, chosen, places = self.surfaces.count * self.count, self._chosen, self._places
        inputs: list[Any] = [self.count, self.surfaces.count, self._near, chosen]
        launch(find_between, pairs, inputs, device=self.device)
        count = exclusive_scans((chosen, places, pairs))[0]
        found, weights = self._found.at_least(count), self._found_weights.at_least(count)
        if count:
            inputs = [self.count, self._near, chosen, places, found, weights]
            launch(compact_between, pairs, inputs, device=self.device)
        return found[:count].numpy().reshape(-1, 3), weights[:count].numpy().reshape(-1, 3)

    def _within(self, number: int, x: wp.array) -> tuple[Ints, Floats]:
        """(k, 3) vertex, triangle, opposite triangle of vertices that one collider pinches, and (2 k, 3) both points."""
        own, chosen, places = self._own[number], self._chosen, self._places
        inputs: list[Any] = [number, own.first_face, self._near, x, *own.update(x), chosen, self._faces, self._weights]
        launch(find_within, self.count, inputs, device=self.device, grain=64)
        count = exclusive_scans((chosen, places, self.count))[0]
        found, weights = self._found.at_least(count), self._found_weights.at_least(2 * count)
        if count:
            inputs = [number, self._near, chosen, places, self._faces, self._weights, found, weights]
            launch(compact_within, self.count, inputs, device=self.device)
        return found[:count].numpy().reshape(-1, 3), weights[: 2 * count].numpy().reshape(-1, 3)


def _points(vertices: Ints, faces: Ints, weights: Floats) -> SurfacePoints:
    """The points sorted by vertex."""
    order = np.argsort(vertices, kind="stable")
    held, sizes = np.unique(vertices, return_counts=True)
    return SurfacePoints(held, np.concatenate([[0], np.cumsum(sizes)]), faces[order], weights[order])
