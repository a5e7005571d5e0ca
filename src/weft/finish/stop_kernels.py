# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know
"""Kernels of `stop`: which pairs could meet while vertices go some part of their way each, and which do meet.

Every vertex i goes straight from start[i] towards goal[i] and stops after its own part of the way, from 0 to 1. Sifting
looks at all such parts at once, so that a pair it lets go never has to be looked at again.
"""

import warp as wp

from weft.geometry.ccd_kernels import ccd_edge_edge, ccd_point_triangle
from weft.geometry.proximity import edge_weights, relative_position, triangle_weights

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
# detection may see a pair that is a quarter farther apart than the least distance
REACH = wp.constant(wp.float64(1.3))
# rounding of a difference of coordinates along a direction, in units of the largest of them
ROUNDING = wp.constant(wp.float64(32.0 * 2.0**-53))


@wp.func
def low_end(n: wp.vec3d, x: wp.vec3d, way: wp.vec3d) -> wp.float64:
    """The least height along n of a point anywhere on its way."""
    return wp.dot(n, x) + wp.min(ZERO, wp.dot(n, way))


@wp.func
def high_end(n: wp.vec3d, x: wp.vec3d, way: wp.vec3d) -> wp.float64:
    """The greatest height along n of a point anywhere on its way."""
    return wp.dot(n, x) + wp.max(ZERO, wp.dot(n, way))


@wp.func
def least_distance(distance: wp.float64, near: wp.float64) -> wp.float64:
    """How near a pair may come that starts this far apart: half its distance, and `near` at most."""
    return wp.min(near, HALF * distance)


@wp.func
def size_of(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.float64:
    """The largest coordinate of some differences."""
    m = wp.max(wp.max(wp.abs(a), wp.abs(b)), wp.abs(c))
    return wp.max(wp.max(m[0], m[1]), m[2])


@wp.kernel
def prefilter_vertex_triangle(
    first: int,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    start: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    near: wp.float64,
    kept: wp.array[int],
    least: wp.array[wp.float64],
):
    """Keep the candidates that could come within their least distance, and find that distance."""
    i = first + wp.tid()
    p = pairs[i][0]
    f = faces[pairs[i][1]]
    # all from the vertex, so that numbers are small
    x0 = start[p]
    a = start[f[0]] - x0
    b = start[f[1]] - x0
    c = start[f[2]] - x0
    way = goal[p] - x0
    way_a = goal[f[0]] - start[f[0]]
    way_b = goal[f[1]] - start[f[1]]
    way_c = goal[f[2]] - start[f[2]]
    kept[i] = 0

    # apart along the line of their centres, by more than they may come near
    zero = wp.vec3d()
    n = -(a + b + c)
    apart = low_end(n, zero, way) - wp.max(wp.max(high_end(n, a, way_a), high_end(n, b, way_b)), high_end(n, c, way_c))
    rounding = ROUNDING * size_of(a, b, c)
    if apart > (REACH * near + rounding) * wp.length(n):
        return

    # or along the line of their nearest points
    w = triangle_weights(zero, a, b, c)
    n = relative_position(w, zero, a, b, c)
    distance = wp.length(n)
    least[i] = least_distance(distance, near)
    apart = low_end(n, zero, way) - wp.max(wp.max(high_end(n, a, way_a), high_end(n, b, way_b)), high_end(n, c, way_c))
    if apart > (REACH * least[i] + rounding) * distance:
        return
    kept[i] = 1


@wp.kernel
def prefilter_edge_edge(
    first: int,
    pairs: wp.array[wp.vec2i],
    edges: wp.array[wp.vec2i],
    start: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    near: wp.float64,
    kept: wp.array[int],
    least: wp.array[wp.float64],
):
    """The same for two edges."""
    i = first + wp.tid()
    e = edges[pairs[i][0]]
    f = edges[pairs[i][1]]
    x0 = start[e[0]]
    b = start[e[1]] - x0
    c = start[f[0]] - x0
    d = start[f[1]] - x0
    way_a = goal[e[0]] - x0
    way_b = goal[e[1]] - start[e[1]]
    way_c = goal[f[0]] - start[f[0]]
    way_d = goal[f[1]] - start[f[1]]
    kept[i] = 0

    zero = wp.vec3d()
    n = b - c - d
    apart = wp.min(low_end(n, zero, way_a), low_end(n, b, way_b)) - wp.max(high_end(n, c, way_c), high_end(n, d, way_d))
    rounding = ROUNDING * size_of(b, c, d)
    if apart > (REACH * near + rounding) * wp.length(n):
        return

    w = edge_weights(zero, b, c, d)
    n = relative_position(w, zero, b, c, d)
    distance = wp.length(n)
    least[i] = least_distance(distance, near)
    apart = wp.min(low_end(n, zero, way_a), low_end(n, b, way_b)) - wp.max(high_end(n, c, way_c), high_end(n, d, way_d))
    if apart > (REACH * least[i] + rounding) * distance:
        return
    kept[i] = 1


@wp.kernel
def go(
    first: int,
    start: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    part: wp.array[wp.float64],
    end: wp.array[wp.vec3d],
):
    """Where each vertex stops; exactly the start or the goal where it goes no way or all of it."""
    i = first + wp.tid()
    if part[i] >= ONE:
        end[i] = goal[i]
    elif part[i] <= ZERO:
        end[i] = start[i]
    else:
        end[i] = start[i] + part[i] * (goal[i] - start[i])


@wp.kernel
def meet(
    first: int,
    kinds: wp.array[int],
    stencils: wp.array[wp.vec4i],
    least: wp.array[wp.float64],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    changed: wp.array[int],
    hit: wp.array[int],
    time: wp.array[wp.float64],
):
    """Whether and when pairs come within their least distance; only those that have a vertex whose end has changed."""
    i = first + wp.tid()
    q = stencils[i]
    hit[i] = 0
    if changed[q[0]] + changed[q[1]] + changed[q[2]] + changed[q[3]] == 0:
        return
    a0 = start[q[0]]
    b0 = start[q[1]]
    c0 = start[q[2]]
    d0 = start[q[3]]
    a1 = end[q[0]]
    b1 = end[q[1]]
    c1 = end[q[2]]
    d1 = end[q[3]]
    # what does not move makes nothing new
    if a0 == a1 and b0 == b1 and c0 == c1 and d0 == d1:
        return
    if kinds[i] == 0:
        met, when = ccd_point_triangle(a0, b0, c0, d0, a1, b1, c1, d1, least[i])
    else:
        met, when = ccd_edge_edge(a0, b0, c0, d0, a1, b1, c1, d1, least[i])
    if met:
        hit[i] = 1
        time[i] = when
