# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know
"""Kernels of the static untangler: who is near whom, and lengths and gaps restored one after another."""

import warp as wp

from weft.analysis.crossing import CrossingMesh, query_around
from weft.geometry.proximity import nearest_point_triangle

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))


@wp.func
def is_neighbour(offsets: wp.array[int], items: wp.array[int], v: int, face: wp.vec3i) -> bool:
    """Does the triangle have the vertex or a vertex next to it?"""
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
    """Whether a triangle that is no neighbour of a vertex comes within the radius."""
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
    """How many such triangles each vertex has."""
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
    """These triangles, for the vertices that have any."""
    i = first + wp.tid()
    v = chosen[i]
    slot = starts[i]
    f = int(0)
    query = query_around(mesh, mesh.x[v], radius)
    while wp.bvh_query_next(query, f):
        if is_near(mesh, neighbour_offsets, neighbours, v, f, radius):
            found[slot] = wp.vec2i(v, f)
            slot += wp.int64(1)


@wp.kernel
def measure_gaps(
    first: int,
    pairs: wp.array[wp.vec2i],
    mesh: CrossingMesh,
    least: wp.array[wp.float64],
    most: wp.float64,
    weights: wp.array[wp.vec3d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
):
    """For each vertex and triangle: the nearest point, the direction from it to the vertex, and the gap to be kept.

    That is the gap as it is, up to `most`, and at least the larger `least` of the pair's vertices.
    """
    i = first + wp.tid()
    v = pairs[i][0]
    face = mesh.faces[pairs[i][1]]
    p = mesh.x[v]
    a = mesh.x[face[0]]
    b = mesh.x[face[1]]
    c = mesh.x[face[2]]
    w = nearest_point_triangle(p, a, b, c)
    way = p - (w[0] * a + w[1] * b + w[2] * c)
    gap = wp.length(way)
    normal = wp.normalize(wp.cross(b - a, c - a))
    if gap > ZERO:
        normal = way / gap
    floor = wp.max(wp.max(least[v], least[face[0]]), wp.max(least[face[1]], least[face[2]]))
    weights[i] = w
    normals[i] = normal
    gaps[i] = wp.max(wp.min(gap, most), floor)


@wp.kernel
def relax(
    first: int,
    sweeps: int,
    edges: wp.array[wp.vec2i],
    lengths: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    stitches: wp.array[wp.vec3i],
    stitch_weights: wp.array[wp.float64],
    stitch_offsets: wp.array[wp.vec3d],
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    weights: wp.array[wp.vec3d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
):
    """Sweeps over edges that want their lengths, stitches that hold, and pairs that keep their gaps, one after
    another; launched with one item."""
    start = first + wp.tid()
    for _sweep in range(sweeps):
        for k in range(start, edges.shape[0]):
            a = edges[k][0]
            b = edges[k][1]
            way = x[b] - x[a]
            length = wp.length(way)
            if length > ZERO:
                move = (HALF * stiffness[k] * (length - lengths[k]) / length) * way
                x[a] = x[a] + move
                x[b] = x[b] - move
        for k in range(start, pairs.shape[0]):
            v = pairs[k][0]
            face = faces[pairs[k][1]]
            w = weights[k]
            n = normals[k]
            gap = wp.dot(n, x[v] - w[0] * x[face[0]] - w[1] * x[face[1]] - w[2] * x[face[2]])
            if gap < gaps[k]:
                share = (gaps[k] - gap) / (ONE + wp.dot(w, w))
                x[v] = x[v] + share * n
                for j in range(3):
                    x[face[j]] = x[face[j]] - (w[j] * share) * n
        for k in range(start, stitches.shape[0]):
            s = stitches[k]
            t = stitch_weights[k]
            off = (x[s[0]] - (ONE - t) * x[s[1]] - t * x[s[2]] - stitch_offsets[k]) / (
                ONE + (ONE - t) * (ONE - t) + t * t
            )
            x[s[0]] = x[s[0]] - off
            x[s[1]] = x[s[1]] + (ONE - t) * off
            x[s[2]] = x[s[2]] + t * off
