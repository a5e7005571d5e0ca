# mypy: disable-error-code="arg-type"
"""Balls around the displacements of vertices, edges and triangles in a step: how far two of them can near each other."""

import warp as wp

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
THIRD = wp.constant(wp.float64(1.0 / 3.0))


@wp.func
def ball_of_three(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec4d:
    """Centre and radius of a ball around three points."""
    m = THIRD * (a + b + c)
    radius = wp.sqrt(wp.max(wp.max(wp.length_sq(a - m), wp.length_sq(b - m)), wp.length_sq(c - m)))
    return wp.vec4d(m[0], m[1], m[2], radius)


@wp.func
def ball_of_two(a: wp.vec3d, b: wp.vec3d) -> wp.vec4d:
    """Centre and radius of a ball around two points."""
    m = HALF * (a + b)
    return wp.vec4d(m[0], m[1], m[2], HALF * wp.length(b - a))


@wp.kernel
def take_vertex_moves(first: int, x: wp.array[wp.vec3d], end: wp.array[wp.vec3d], moves: wp.array[wp.vec4d]):
    """The displacement of each vertex, as a ball without a radius."""
    i = first + wp.tid()
    move = end[i] - x[i]
    moves[i] = wp.vec4d(move[0], move[1], move[2], ZERO)


@wp.kernel
def enclose_face_moves(
    first: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    moves: wp.array[wp.vec4d],
):
    """A ball around the displacements of each triangle's corners."""
    i = first + wp.tid()
    f = faces[i]
    moves[i] = ball_of_three(end[f[0]] - x[f[0]], end[f[1]] - x[f[1]], end[f[2]] - x[f[2]])


@wp.kernel
def enclose_edge_moves(
    first: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    edges: wp.array[wp.vec2i],
    moves: wp.array[wp.vec4d],
):
    """A ball around the displacements of each edge's ends."""
    i = first + wp.tid()
    e = edges[i]
    moves[i] = ball_of_two(end[e[0]] - x[e[0]], end[e[1]] - x[e[1]])


@wp.func
def relative_way(a: wp.vec4d, b: wp.vec4d) -> wp.float64:
    """How far two features can move towards each other, from the balls around their displacements."""
    return wp.length(wp.vec3d(a[0] - b[0], a[1] - b[1], a[2] - b[2])) + a[3] + b[3]
