"""Which vertices and triangles are near each other, and the gaps that they are to keep."""

import warp as wp

from weft.analysis.crossing import query_around
from weft.analysis.pair_tests import CrossingMesh
from weft.geometry.stencil import nearest_point_triangle

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


@wp.func
def is_neighbour(offsets: wp.array[int], items: wp.array[int], v: int, face: wp.vec3i) -> bool:
    """Does the triangle have the vertex, or a neighbour of it, as a corner?"""
    for k in range(3):
        if face[k] == v:
            return True
    for j in range(offsets[v], offsets[v + 1]):
        for k in range(3):
            if face[k] == items[j]:
                return True
    return False


@wp.func
def is_near(
    mesh: CrossingMesh, offsets: wp.array[int], items: wp.array[int], v: int, f: int, radius: wp.float64
) -> bool:
    """Whether a triangle that does not touch the vertex or its neighbours is nearer to it than the radius."""
    face = mesh.faces[f]
    if is_neighbour(offsets, items, v, face):
        return False
    p = mesh.x[v]
    a = mesh.x[face[0]]
    b = mesh.x[face[1]]
    c = mesh.x[face[2]]
    w = nearest_point_triangle(p, a, b, c)
    return wp.length(w[0] * a + w[1] * b + w[2] * c - p) < radius


@wp.kernel
def count_near(
    first: int,
    mesh: CrossingMesh,
    neighbour_offsets: wp.array[int],
    neighbours: wp.array[int],
    radius: wp.float64,
    counts: wp.array[int],
):
    """Count the triangles near each vertex (see `is_near`)."""
    v = first + wp.tid()
    found = int(0)
    f = int(0)
    query = query_around(mesh, mesh.x[v], radius)
    while wp.bvh_query_next(query, f):
        if is_near(mesh, neighbour_offsets, neighbours, v, f, radius):
            found += 1
    counts[v] = found


@wp.kernel
def fill_near(
    first: int,
    mesh: CrossingMesh,
    neighbour_offsets: wp.array[int],
    neighbours: wp.array[int],
    radius: wp.float64,
    chosen: wp.array[int],
    starts: wp.array[wp.int64],
    found: wp.array[wp.vec2i],
):
    """List the pairs (vertex, triangle) of vertices that have triangles near them."""
    i = first + wp.tid()
    v = chosen[i]
    slot = starts[i]
    f = int(0)
    query = query_around(mesh, mesh.x[v], radius)
    while wp.bvh_query_next(query, f):
        if is_near(mesh, neighbour_offsets, neighbours, v, f, radius):
            found[slot] = wp.vec2i(v, f)
            slot += wp.int64(1)


@wp.struct
class Gaps:
    """Pairs of vertices and triangles that are near, and the gaps that they are to keep."""

    pairs: wp.array[wp.vec2i]
    weights: wp.array[wp.vec3d]
    """barycentric coordinates of the nearest point of the triangle"""
    normals: wp.array[wp.vec3d]
    """unit vector from there to the vertex"""
    gaps: wp.array[wp.float64]
    """metres"""


@wp.kernel
def measure_gaps(first: int, mesh: CrossingMesh, least: wp.array[wp.float64], most: wp.float64, near: Gaps):
    """For each pair (vertex, triangle): the nearest point, the direction from it to the vertex, and the gap to be kept.

    That is the current gap, but at most `most`, and at least the largest `least` of the four vertices.
    """
    i = first + wp.tid()
    v = near.pairs[i][0]
    face = mesh.faces[near.pairs[i][1]]
    p = mesh.x[v]
    a = mesh.x[face[0]]
    b = mesh.x[face[1]]
    c = mesh.x[face[2]]
    w = nearest_point_triangle(p, a, b, c)
    offset = p - (w[0] * a + w[1] * b + w[2] * c)
    gap = wp.length(offset)
    normal = wp.normalize(wp.cross(b - a, c - a))
    if gap > ZERO:
        normal = offset / gap
    floor = wp.max(wp.max(least[v], least[face[0]]), wp.max(least[face[1]], least[face[2]]))
    near.weights[i] = w
    near.normals[i] = normal
    near.gaps[i] = wp.max(wp.min(gap, most), floor)
