"""Kernels that find what is pinched: between colliders, or between portions of one."""

import warp as wp

from weft.analysis.attraction import has_item
from weft.analysis.crossing import CrossingMesh, query_around
from weft.geometry.proximity import nearest_point_triangle

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# cosine of the angle between two normals below which surfaces face each other: a little more than a right angle
FACING = wp.constant(wp.float64(-0.1))


@wp.struct
class Near:
    """The nearest points of all colliders, by collider and cloth vertex (see `solid_surfaces`)."""

    face: wp.array2d[int]
    weights: wp.array2d[wp.vec3d]
    normals: wp.array2d[wp.vec3d]
    gaps: wp.array2d[wp.float64]
    touch: wp.array[wp.float64]
    """how near a vertex is that touches"""
    depth: wp.float64
    """how deep inside a surface a vertex may be that it pinches"""


@wp.struct
class Opposite:
    """A point of a triangle on the other side of a vertex; no triangle: -1."""

    face: int
    weights: wp.vec3d


@wp.func
def touches(collider: int, i: int, near: Near) -> bool:
    """Whether a vertex is at, or in, a collider's surface."""
    gap = near.gaps[collider, i]
    return near.face[collider, i] >= 0 and gap < near.touch[i] and gap > -near.depth


@wp.kernel
def find_touched(first: int, vertices: int, near: Near, touched: wp.array[int]):
    """Mark the colliders that some vertex touches."""
    number = first + wp.tid()
    if touches(number // vertices, number % vertices, near):
        # whoever writes writes the same
        touched[number // vertices] = 1


@wp.kernel
def find_between(first: int, vertices: int, colliders: int, near: Near, chosen: wp.array[int]):
    """1 for each collider that a vertex touches, if some of those it touches face each other."""
    number = first + wp.tid()
    collider = number // vertices
    i = number % vertices
    chosen[number] = 0
    if touches(collider, i, near):
        for a in range(colliders):
            for b in range(a):
                if touches(a, i, near) and touches(b, i, near):
                    if wp.dot(near.normals[a, i], near.normals[b, i]) < FACING:
                        chosen[number] = 1


@wp.kernel
def take_between(
    first: int,
    vertices: int,
    near: Near,
    chosen: wp.array[int],
    places: wp.array[int],
    rows: wp.array[wp.vec3i],
    weights: wp.array[wp.vec3d],
):
    """What was chosen: vertex and triangle, and the point on it."""
    number = first + wp.tid()
    if chosen[number] == 1:
        collider = number // vertices
        i = number % vertices
        rows[places[number]] = wp.vec3i(i, near.face[collider, i], -1)
        weights[places[number]] = near.weights[collider, i]


@wp.func
def opposite_in(
    region: int,
    p: wp.vec3d,
    n: wp.vec3d,
    touch: wp.float64,
    reach: wp.float64,
    mesh: CrossingMesh,
    offsets: wp.array[int],
    colours: wp.array[int],
) -> Opposite:
    """The nearest triangle of a region that faces a point and has it inside, or touches it."""
    best = Opposite()
    best.face = -1
    best_distance = reach
    f = int(0)
    query = query_around(mesh, p, reach)
    while wp.bvh_query_next(query, f):
        if has_item(offsets, colours, f, region):
            face = mesh.faces[f]
            a = mesh.x[face[0]]
            b = mesh.x[face[1]]
            c = mesh.x[face[2]]
            w = nearest_point_triangle(p, a, b, c)
            r = p - (w[0] * a + w[1] * b + w[2] * c)
            distance = wp.length(r)
            across = wp.normalize(wp.cross(b - a, c - a))
            near = wp.dot(across, n) < FACING and (wp.dot(across, r) < ZERO or distance < touch)
            # equal distances: the lower triangle, whatever the order of the tree
            if near and (distance < best_distance or (distance == best_distance and f < best.face)):
                best.face = f
                best.weights = w
                best_distance = distance
    return best


@wp.func
def squeezing(p: wp.vec3d, n: wp.vec3d, touch: wp.float64, mesh: CrossingMesh) -> Opposite:
    """The nearest triangle that faces a point which touches a surface from the other side, and touches it too.

    The point must be outside of it: what lies behind is the far side of something thin.
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
        # equal distances: the lower triangle, whatever the order of the tree
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
    paths: int,
    kept: wp.array[int],
    offsets: wp.array[int],
    colours: wp.array[int],
    chosen: wp.array[int],
    faces: wp.array[int],
    weights: wp.array[wp.vec3d],
):
    """1 where two portions of a collider pinch a vertex: those of a path on which it passes through itself, or two that leave
    no room for the cloth."""
    i = first + wp.tid()
    chosen[i] = 0
    if touches(collider, i, near):
        n = near.normals[collider, i]
        found = Opposite()
        found.face = -1
        if paths > 0:
            f = near.face[collider, i] - first_face
            # the first of its regions that has one
            for k in range(offsets[f], offsets[f + 1]):
                if found.face < 0 and kept[colours[k] // 2] == 1:
                    found = opposite_in(colours[k] ^ 1, x[i], n, near.touch[i], near.depth, mesh, offsets, colours)
        if found.face < 0:
            found = squeezing(x[i], n, near.touch[i], mesh)
        if found.face >= 0:
            chosen[i] = 1
            faces[i] = found.face
            weights[i] = found.weights


@wp.kernel
def take_within(
    first: int,
    collider: int,
    near: Near,
    chosen: wp.array[int],
    places: wp.array[int],
    faces: wp.array[int],
    weights: wp.array[wp.vec3d],
    rows: wp.array[wp.vec3i],
    row_weights: wp.array[wp.vec3d],
):
    """What was chosen: vertex, triangle and opposite triangle of the collider, and the points on both."""
    i = first + wp.tid()
    if chosen[i] == 1:
        place = places[i]
        rows[place] = wp.vec3i(i, near.face[collider, i], faces[i])
        row_weights[2 * place] = near.weights[collider, i]
        row_weights[2 * place + 1] = weights[i]
