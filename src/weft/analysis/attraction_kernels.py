# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know, and which evaluates both sides of `and`
# ruff: noqa: SIM110
"""The kernels behind `attraction`."""

import warp as wp

from weft.analysis.crossing_kernels import Crossing
from weft.geometry.proximity import nearest_point_triangle

wp.set_module_options({"enable_backward": False})

REPEL = wp.constant(wp.int8(0))
ATTRACT = wp.constant(wp.int8(1))
NEITHER = wp.constant(wp.int8(2))


@wp.struct
class Colours:
    """Rows of regions for vertices and triangles, and for vertices the paths beside them that do not divide.

    Region r belongs to path r // 2; its partner is r ^ 1. `single`: 1 where the path is one curve, its region red.
    """

    vertex_offsets: wp.array[int]
    vertex_items: wp.array[int]
    face_offsets: wp.array[int]
    face_items: wp.array[int]
    loose_offsets: wp.array[int]
    loose_items: wp.array[int]
    single: wp.array[int]


@wp.func
def has_item(offsets: wp.array[int], items: wp.array[int], row: int, item: int) -> bool:
    """Whether a row of a list holds an item."""
    for k in range(offsets[row], offsets[row + 1]):
        if items[k] == item:
            return True
    return False


@wp.func
def shares_red(c: Colours, one: int, other: int) -> bool:
    """Are two vertices inside the red region of the same path?"""
    for k in range(c.vertex_offsets[one], c.vertex_offsets[one + 1]):
        region = c.vertex_items[k]
        if c.single[region // 2] == 1:
            if has_item(c.vertex_offsets, c.vertex_items, other, region):
                return True
            if has_item(c.vertex_offsets, c.vertex_items, other, region ^ 1):
                return True
    return False


@wp.func
def shares_loose(c: Colours, one: int, other: int) -> bool:
    """Are two vertices beside the same path that does not divide?"""
    for k in range(c.loose_offsets[one], c.loose_offsets[one + 1]):
        if has_item(c.loose_offsets, c.loose_items, other, c.loose_items[k]):
            return True
    return False


@wp.kernel
def classify_vertex_triangle(
    first: int, c: Colours, faces: wp.array[wp.vec3i], pairs: wp.array[wp.vec2i], kinds: wp.array[wp.int8]
):
    """Whether vertex and triangle of each pair attract each other, repel, or neither."""
    i = first + wp.tid()
    p = pairs[i][0]
    f = pairs[i][1]
    kind = wp.int8(REPEL)
    for k in range(3):
        if shares_red(c, p, faces[f][k]) or shares_loose(c, p, faces[f][k]):
            kind = NEITHER
    for k in range(c.vertex_offsets[p], c.vertex_offsets[p + 1]):
        region = c.vertex_items[k]
        if c.single[region // 2] == 0:
            if has_item(c.face_offsets, c.face_items, f, region ^ 1):
                kind = ATTRACT
    kinds[i] = kind


@wp.kernel
def classify_edge_edge(
    first: int, c: Colours, edges: wp.array[wp.vec2i], pairs: wp.array[wp.vec2i], kinds: wp.array[wp.int8]
):
    """The same for two edges."""
    i = first + wp.tid()
    one = edges[pairs[i][0]]
    other = edges[pairs[i][1]]
    kind = wp.int8(REPEL)
    for j in range(2):
        for k in range(2):
            if shares_red(c, one[j], other[k]) or shares_loose(c, one[j], other[k]):
                kind = NEITHER
    # both ends of one edge inside a region, both ends of the other inside its partner
    for k in range(c.vertex_offsets[one[0]], c.vertex_offsets[one[0] + 1]):
        region = c.vertex_items[k]
        if c.single[region // 2] == 0:
            if has_item(c.vertex_offsets, c.vertex_items, one[1], region):
                if has_item(c.vertex_offsets, c.vertex_items, other[0], region ^ 1):
                    if has_item(c.vertex_offsets, c.vertex_items, other[1], region ^ 1):
                        kind = ATTRACT
    kinds[i] = kind


@wp.func
def query_around(mesh: Crossing, p: wp.vec3d, radius: wp.float64):
    """Triangles whose boxes come within the radius; the boxes of the tree are padded already."""
    centre = mesh.scale * (p - mesh.centre)
    half = mesh.scale * radius
    side = wp.vec3d(half, half, half)
    return wp.bvh_query_aabb(mesh.tree, wp.vec3(centre - side), wp.vec3(centre + side))


@wp.kernel
def find_partner(
    first: int,
    mesh: Crossing,
    vertices: wp.array[int],
    regions: wp.array[int],
    colour_offsets: wp.array[int],
    colours: wp.array[int],
    length: wp.float64,
    reach: wp.float64,
    found_face: wp.array[int],
    found_weights: wp.array[wp.vec3d],
):
    """The nearest triangle of the partner region, in boxes that grow until it is certain."""
    i = first + wp.tid()
    v = vertices[i]
    partner = regions[i] ^ 1
    p = mesh.x[v]
    best = int(-1)
    best_distance = reach
    best_weights = wp.vec3d()
    radius = wp.min(length, reach)
    searching = bool(True)
    while searching:
        f = int(0)
        query = query_around(mesh, p, radius)
        while wp.bvh_query_next(query, f):
            face = mesh.faces[f]
            if face[0] != v and face[1] != v and face[2] != v:
                if has_item(colour_offsets, colours, f, partner):
                    a = mesh.x[face[0]]
                    b = mesh.x[face[1]]
                    c = mesh.x[face[2]]
                    w = nearest_point_triangle(p, a, b, c)
                    distance = wp.length(w[0] * a + w[1] * b + w[2] * c - p)
                    # equal distances: the lower triangle, whatever the order of the tree
                    if distance < best_distance or (distance == best_distance and f < best):
                        best = f
                        best_distance = distance
                        best_weights = w
        if best_distance <= radius or radius >= reach:
            searching = False
        radius = wp.min(wp.float64(2.0) * radius, reach)
    found_face[i] = best
    found_weights[i] = best_weights
