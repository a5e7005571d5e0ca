# mypy: disable-error-code="arg-type"
"""Collisions of a step: candidates that would meet on the way to where the velocities lead, and where they do.

A pair counts as colliding when it comes within a small distance of its own: a tenth of a millimetre, or less where the
pair starts nearer than that, so that a pair which is already close is not stuck for ever. What is done about it
aims for more, so that gaps grow back.
"""

import warp as wp

from weft.detection.approach import (
    Sheet,
    combine,
    edge_weights,
    pair_direction,
    point_way,
    relative_way,
    triangle_weights,
)
from weft.detection.ccd_kernels import ccd_edge_edge, ccd_point_triangle

wp.set_module_options({"enable_backward": False})

# a pair may come this near, in m
LARGEST_LEAST_DISTANCE = 1e-4
NEAREST = wp.constant(wp.float64(LARGEST_LEAST_DISTANCE))
# and at most this part of its distance at the start; the detector may see a hit a quarter farther away
PART = wp.constant(wp.float64(0.5))
# what a response aims for, in units of the least distance: with the part above more than the pair has, or gaps would
# shrink a little in every step until nothing is left of them
AIM = wp.constant(wp.float64(2.4))


@wp.func
def least_distance(distance: wp.float64) -> wp.float64:
    """How near a pair may come that is this far apart at the start of the step."""
    return wp.min(NEAREST, PART * distance)


@wp.kernel
def collide_vertex_triangle(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    hit: wp.array[int],
    time: wp.array[wp.float64],
):
    """Whether and when each candidate meets; `sheet` holds the motion to be tested."""
    i = first + wp.tid()
    pair = pairs[i]
    hit[i] = 0
    tolerance = least_distance(near[i])
    if near[i] > point_way(sheet.end[pair[0]] - sheet.x[pair[0]], sheet.face_moves[pair[1]]) + tolerance:
        return

    f = sheet.faces[pair[1]]
    p0 = sheet.x[pair[0]]
    a0 = sheet.x[f[0]]
    b0 = sheet.x[f[1]]
    c0 = sheet.x[f[2]]
    p1 = sheet.end[pair[0]]
    a1 = sheet.end[f[0]]
    b1 = sheet.end[f[1]]
    c1 = sheet.end[f[2]]
    met, when = ccd_point_triangle(p0, a0, b0, c0, p1, a1, b1, c1, tolerance)
    if met:
        hit[i] = 1
        time[i] = when


@wp.kernel
def collide_edge_edge(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    hit: wp.array[int],
    time: wp.array[wp.float64],
):
    """Whether and when each candidate meets; `sheet` holds the motion to be tested."""
    i = first + wp.tid()
    pair = pairs[i]
    hit[i] = 0
    tolerance = least_distance(near[i])
    if near[i] > relative_way(sheet.edge_moves[pair[0]], sheet.edge_moves[pair[1]]) + tolerance:
        return

    e = sheet.edges[pair[0]]
    f = sheet.edges[pair[1]]
    a0 = sheet.x[e[0]]
    b0 = sheet.x[e[1]]
    c0 = sheet.x[f[0]]
    d0 = sheet.x[f[1]]
    a1 = sheet.end[e[0]]
    b1 = sheet.end[e[1]]
    c1 = sheet.end[f[0]]
    d1 = sheet.end[f[1]]
    met, when = ccd_edge_edge(a0, b0, c0, d0, a1, b1, c1, d1, tolerance)
    if met:
        hit[i] = 1
        time[i] = when


@wp.func
def between(a: wp.vec3d, b: wp.vec3d, time: wp.float64) -> wp.vec3d:
    """Where a vertex is at a time between 0 and 1."""
    return a + time * (b - a)


@wp.kernel
def fill_triangle_hits(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    hit: wp.array[int],
    places: wp.array[int],
    time: wp.array[wp.float64],
    base: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
):
    """Write the stencils of the collisions as they are at the moment of impact.

    The gap is measured at the start of the step along that normal; the thickness is the gap to aim for at the end.
    """
    i = first + wp.tid()
    if hit[i] == 0:
        return
    f = sheet.faces[pairs[i][1]]
    q = wp.vec4i(pairs[i][0], f[0], f[1], f[2])
    p0 = sheet.x[q[0]]
    a0 = sheet.x[q[1]]
    b0 = sheet.x[q[2]]
    c0 = sheet.x[q[3]]
    p = between(p0, sheet.end[q[0]], time[i])
    a = between(a0, sheet.end[q[1]], time[i])
    b = between(b0, sheet.end[q[2]], time[i])
    c = between(c0, sheet.end[q[3]], time[i])
    w = triangle_weights(p, a, b, c)
    # where they touch the direction at the start tells the sides apart
    start = combine(triangle_weights(p0, a0, b0, c0), p0, a0, b0, c0)
    n = pair_direction(combine(w, p, a, b, c), pair_direction(start, wp.cross(b0 - a0, c0 - a0)))
    k = base + places[i]
    vertices[k] = q
    weights[k] = w
    normals[k] = n
    gaps[k] = wp.dot(n, combine(w, p0, a0, b0, c0))
    thickness[k] = AIM * least_distance(near[i])


@wp.kernel
def fill_edge_hits(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    hit: wp.array[int],
    places: wp.array[int],
    time: wp.array[wp.float64],
    base: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
):
    """The same for pairs of edges."""
    i = first + wp.tid()
    if hit[i] == 0:
        return
    e = sheet.edges[pairs[i][0]]
    f = sheet.edges[pairs[i][1]]
    q = wp.vec4i(e[0], e[1], f[0], f[1])
    a0 = sheet.x[q[0]]
    b0 = sheet.x[q[1]]
    c0 = sheet.x[q[2]]
    d0 = sheet.x[q[3]]
    a = between(a0, sheet.end[q[0]], time[i])
    b = between(b0, sheet.end[q[1]], time[i])
    c = between(c0, sheet.end[q[2]], time[i])
    d = between(d0, sheet.end[q[3]], time[i])
    w = edge_weights(a, b, c, d)
    start = combine(edge_weights(a0, b0, c0, d0), a0, b0, c0, d0)
    n = pair_direction(combine(w, a, b, c, d), pair_direction(start, wp.cross(b0 - a0, d0 - c0)))
    k = base + places[i]
    vertices[k] = q
    weights[k] = w
    normals[k] = n
    gaps[k] = wp.dot(n, combine(w, a0, b0, c0, d0))
    thickness[k] = AIM * least_distance(near[i])
