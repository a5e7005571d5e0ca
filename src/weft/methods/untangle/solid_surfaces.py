"""The nearest point of each collider to each cloth vertex, its distance, and the side of the surface.

Trees over the triangles (float32) find the nearest triangle; for vertices that may touch, all triangles that are equally near
are compared again. The point, its distance and its side are computed in float64. The side is given by the normal of the
triangle, or on an edge or a vertex by the angle-weighted mean of the normals around it (Baerentzen and Aanaes 2005), which is
right for every closed surface. A vertex whose nearest point is on the border of an open surface is never behind it.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import warp as wp

from weft.geometry.stencil import nearest_point_triangle, relative_position, triangle_weights
from weft.mesh import TriMesh
from weft.runtime import launch
from weft.world import World

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# metres; a shorter vector from the surface to a vertex is rounding error and gives no direction
LEAST_DIRECTED = wp.constant(wp.float64(1.0e-9))
# thicknesses; vertices nearer than this may touch in a step, so that the exact nearest triangle matters
TOUCHING = 2.0
# metres; distances that differ by less are equal
EQUAL_DISTANCES = wp.constant(wp.float64(1.0e-14))
# error of float32 boxes, as a fraction of the coordinates
ROUNDING = wp.constant(wp.float64(1.0e-6))


@wp.struct
class Solids:
    """The triangles of all colliders and their adjacency; triangles are counted from the first one of the first collider."""

    first_vertex: wp.array[int]
    """the first vertex of each collider in the world"""
    first_face: wp.array[int]
    meshes: wp.array[wp.uint64]
    faces: wp.array[wp.vec3i]
    """three vertices of the world each"""
    across: wp.array[wp.vec3i]
    """the triangle across each edge, edge k from corner k to k + 1; -1 at a border"""
    fan_offsets: wp.array[int]
    fans: wp.array[int]
    """the triangles around each vertex of the colliders"""
    fan_open: wp.array[int]
    """1 for a vertex on a border"""
    vertex_base: int
    """the first vertex of the first collider in the world"""


@wp.struct
class NearestPoints:
    """The nearest point of each collider to each cloth vertex; all arrays are (collider, cloth vertex)."""

    face: wp.array2d[int]
    """triangle, counted from the first one of the first collider; -1 where nothing is in reach"""
    weights: wp.array2d[wp.vec3d]
    """barycentric coordinates of the nearest point"""
    normals: wp.array2d[wp.vec3d]
    """unit vector from the nearest point outwards, through the vertex"""
    gaps: wp.array2d[wp.float64]
    """metres; distance, negative inside"""


@wp.func
def face_normal(faces: wp.array[wp.vec3i], face: int, x: wp.array[wp.vec3d]) -> wp.vec3d:
    """Unit normal of a triangle; zero if it has no area."""
    f = faces[face]
    n = wp.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]])
    length = wp.length(n)
    if length == ZERO:
        return wp.vec3d()
    return n / length


@wp.func
def corner_angle(faces: wp.array[wp.vec3i], face: int, vertex: int, x: wp.array[wp.vec3d]) -> wp.float64:
    """The angle of a triangle at one of its vertices."""
    f = faces[face]
    a = f[1]
    b = f[2]
    if f[1] == vertex:
        a = f[2]
        b = f[0]
    if f[2] == vertex:
        a = f[0]
        b = f[1]
    u = x[a] - x[vertex]
    v = x[b] - x[vertex]
    return wp.atan2(wp.length(wp.cross(u, v)), wp.dot(u, v))


@wp.func
def side_normal(solids: Solids, face: int, w: wp.vec3d, x: wp.array[wp.vec3d]) -> wp.vec4d:
    """The outward direction at a point of a triangle, which tells inside from outside; the fourth number is 1 on a border."""
    f = solids.faces[face]
    n = face_normal(solids.faces, face, x)
    border = ZERO
    corner = int(-1)
    edge = int(-1)
    for k in range(3):
        if w[k] == ONE:
            corner = k
        if w[(k + 2) % 3] == ZERO:
            edge = k
    if corner >= 0:
        vertex = f[corner]
        own = vertex - solids.vertex_base
        n = wp.vec3d()
        for k in range(solids.fan_offsets[own], solids.fan_offsets[own + 1]):
            other = solids.fans[k]
            n += corner_angle(solids.faces, other, vertex, x) * face_normal(solids.faces, other, x)
        if solids.fan_open[own] == 1:
            border = ONE
    elif edge >= 0:
        across = solids.across[face]
        if across[edge] >= 0:
            n += face_normal(solids.faces, across[edge], x)
        else:
            border = ONE
    return wp.vec4d(n[0], n[1], n[2], border)


@wp.func
def distance_to(faces: wp.array[wp.vec3i], face: int, p: wp.vec3d, x: wp.array[wp.vec3d]) -> wp.float64:
    """Distance of a point from a triangle."""
    f = faces[face]
    w = triangle_weights(p, x[f[0]], x[f[1]], x[f[2]])
    return wp.length(relative_position(w, p, x[f[0]], x[f[1]], x[f[2]]))


@wp.func
def first_of_the_nearest(
    solids: Solids, collider: int, found: int, within: wp.float64, p: wp.vec3d, x: wp.array[wp.vec3d]
) -> int:
    """The triangle of a collider that is nearest to a point; of equally near ones, the one with the lowest index.

    `found` is the nearest triangle by the float32 tree. Near an edge several triangles are equally near, and which of them is
    chosen matters if they turn differently. If it is farther away than `within`, it is returned unchanged.
    """
    least = distance_to(solids.faces, found, p, x)
    nearest = int(found)
    if least > within:
        return nearest
    size = least + ROUNDING * (ONE + wp.length(p))
    reach = wp.vec3(float(size), float(size), float(size))
    middle = wp.vec3(float(p[0]), float(p[1]), float(p[2]))
    query = wp.mesh_query_aabb(solids.meshes[collider], middle - reach, middle + reach)
    face = int(0)
    while wp.mesh_query_aabb_next(query, face):
        other = solids.first_face[collider] + face
        distance = distance_to(solids.faces, other, p, x)
        if distance < least - EQUAL_DISTANCES or (distance <= least + EQUAL_DISTANCES and other < nearest):
            nearest = other
        least = wp.min(least, distance)
    return nearest


@wp.kernel
def find_nearest(
    first: int,
    solids: Solids,
    collider: int,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    reach: wp.float64,
    time: wp.float64,
    within: wp.float64,
    nearest: NearestPoints,
):
    """The point of one collider nearest to each cloth vertex, within `reach` plus the way that it moves in `time`."""
    i = first + wp.tid()
    nearest.face[collider, i] = -1
    if inverse_mass[i] == ZERO:
        return
    p = x[i]
    radius = reach + time * wp.length(v[i])
    query = wp.mesh_query_point_no_sign(
        solids.meshes[collider], wp.vec3(float(p[0]), float(p[1]), float(p[2])), float(radius)
    )
    if not query.result:  # type: ignore[attr-defined]
        return
    found = solids.first_face[collider] + query.face  # type: ignore[attr-defined]
    face = first_of_the_nearest(solids, collider, found, within, p, x)
    f = solids.faces[face]
    w = nearest_point_triangle(p, x[f[0]], x[f[1]], x[f[2]])
    r = p - (w[0] * x[f[0]] + w[1] * x[f[1]] + w[2] * x[f[2]])
    side = side_normal(solids, face, w, x)
    out = wp.vec3d(side[0], side[1], side[2])
    distance = wp.length(r)
    inside = wp.dot(r, out) < ZERO
    if inside and side[3] == ONE:
        return
    if inside:
        distance = -distance
    n = wp.normalize(out)
    if wp.abs(distance) > LEAST_DIRECTED:
        n = r / distance
    nearest.face[collider, i] = face
    nearest.weights[collider, i] = w
    nearest.normals[collider, i] = n
    nearest.gaps[collider, i] = distance


class SolidSurfaces:
    """Finds the nearest points of all colliders of a world; the results are in `nearest`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.device = world.device
        bodies = [body for body in world.bodies if body.kind == "collider"]
        self.names = [body.name for body in bodies]
        self.count = len(bodies)
        self._vertices = [body.vertices for body in bodies]
        base = world.cloth_face_count
        self.faces = world.faces[base:]

        own = [
            TriMesh(world.rest_positions[body.vertices], world.faces[body.faces] - body.vertices.start)
            for body in bodies
        ]
        solids = self.solids = Solids()

        def upload(values: np.ndarray, dtype: object = int) -> wp.array:
            return wp.array(values, dtype=dtype, device=self.device)

        solids.first_vertex = upload(np.array([body.vertices.start for body in bodies], np.int32))
        solids.first_face = upload(np.array([body.faces.start - base for body in bodies], np.int32))
        solids.faces = upload(self.faces, wp.vec3i)
        solids.vertex_base = world.cloth_vertex_count
        solids.across = upload(np.concatenate([np.zeros((0, 3), np.int32), *_across(own)]), wp.vec3i)
        offsets, fans, borders = _fans(own)
        solids.fan_offsets, solids.fans, solids.fan_open = upload(offsets), upload(fans), upload(borders)
        self._meshes = [wp.Mesh(upload(mesh.vertices, wp.vec3), upload(mesh.faces.ravel())) for mesh in own]
        solids.meshes = wp.array([mesh.id for mesh in self._meshes], dtype=wp.uint64, device=self.device)
        self.face_body = upload(
            np.repeat(np.arange(self.count), [body.faces.stop - body.faces.start for body in bodies]).astype(np.int32)
        )

        shape = (self.count, world.cloth_vertex_count)
        nearest: Any = NearestPoints()
        nearest.face = wp.full(shape, -1, dtype=int, device=self.device)
        nearest.weights, nearest.normals = (wp.zeros(shape, dtype=wp.vec3d, device=self.device) for _ in range(2))
        nearest.gaps = wp.zeros(shape, dtype=wp.float64, device=self.device)
        self.nearest = nearest

    def find(self, x: wp.array, v: wp.array, *, reach: float, time: float = 0.0) -> None:
        """Search from x, up to `reach` metres plus the distance that each vertex moves with its velocity in `time` seconds.

        Vertices without inverse mass are left out.
        """
        within = TOUCHING * self.world.largest_thickness
        inputs = [self.world.inverse_mass, x, v, reach, time, within, self.nearest]
        for collider, (mesh, vertices) in enumerate(zip(self._meshes, self._vertices, strict=True)):
            launch(round_positions, len(mesh.points), [vertices.start, x, mesh.points], device=self.device)
            mesh.refit()
            count = self.world.cloth_vertex_count
            launch(find_nearest, count, [self.solids, collider, *inputs], device=self.device, grain=128)


@wp.kernel
def round_positions(first: int, start: int, x: wp.array[wp.vec3d], points: wp.array[wp.vec3]):
    """Positions in float32 for the trees."""
    i = first + wp.tid()
    p = x[start + i]
    points[i] = wp.vec3(float(p[0]), float(p[1]), float(p[2]))


def _across(meshes: list[TriMesh]) -> Iterator[np.ndarray]:
    """For each mesh: the triangle across each edge of each triangle, counted over all meshes; -1 at a border."""
    first = 0
    for mesh in meshes:
        around = mesh.edge_faces[mesh.face_edges]
        own = np.arange(len(mesh.faces))[:, None]
        other = np.where(around[:, :, 0] == own, around[:, :, 1], around[:, :, 0])
        yield np.where(other >= 0, other + first, -1).astype(np.int32)
        first += len(mesh.faces)


def _fans(meshes: list[TriMesh]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The triangles around each vertex, as offsets and entries, and which vertices are on a border; over all meshes."""
    none = np.zeros(0, np.int32)
    counts, entries, borders = [np.zeros(1, np.int32)], [none], [none]
    first = 0
    for mesh in meshes:
        counts.append(np.diff(mesh.vertex_faces.offsets))
        entries.append(mesh.vertex_faces.items + first)
        border = np.zeros(len(mesh.vertices), np.int32)
        border[mesh.edges[mesh.edge_faces[:, 1] < 0]] = 1
        borders.append(border)
        first += len(mesh.faces)
    return np.cumsum(np.concatenate(counts)), np.concatenate(entries), np.concatenate(borders)
