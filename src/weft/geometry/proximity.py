"""Nearest points: of a point and a triangle, and of two edges. The one implementation, for every room.

Both are least squares over a convex region (the triangle; the square of the two edge parameters), so the nearest point
is the free minimum if that lies inside, and otherwise lies on the border: on one of the three edges, or at one of the
four ends. The free minimum is computed from cross products, which lose far fewer digits than dot products where a
triangle is thin or edges are nearly parallel. Where even that is in doubt, the better of inside and border is taken.
The result always is a point of the triangle or the edge, without NaN, so a distance is never too small, whatever the
shape: collapsed edges, triangles without area and single points included.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# squared sine of an angle below which a triangle counts as a needle and two edges as parallel: inside and border are then
# both evaluated. At a sine of 1e-4 cross products still have about 12 correct digits; larger only costs time
THIN = wp.constant(wp.float64(1e-8))

_native = NativeHeader(__file__, "nearest_point_triangle.h")
# C++ that defines the lambda nearest_on_triangle(p, a, b, c) of vec3d, for native functions of other modules
NEAREST_ON_TRIANGLE = _native.body("triangle", THIN=THIN)


@wp.func_native(_native.body("on_segment"))
def on_segment(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d) -> wp.float64:
    """Where on the segment ab the point nearest to p lies, from 0 to 1; 0 for a segment without length."""
    ...


@wp.func_native(_native.body("nearest_point_triangle", THIN=THIN))
def nearest_point_triangle(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """Barycentric coordinates of the point of triangle abc nearest to p: none negative, their sum 1."""
    ...


@wp.func
def nearest_edge_edge(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec2d:
    """Places s on edge ab and t on edge cd, from 0 to 1, of their nearest points."""
    ab = b - a
    cd = d - c
    ac = c - a
    n = wp.cross(ab, cd)
    area = wp.dot(n, n)
    s = wp.dot(wp.cross(ac, cd), n)
    length = wp.dot(cd, cd)
    if area <= THIN * wp.dot(ab, ab) * length:
        return _nearest_of_parallel(a, b, c, d, s, wp.dot(wp.cross(ac, ab), n), area)

    # the best place on the first line, cut to its edge; then the best on the second; where that is beyond an end, the
    # best for that end
    s = wp.clamp(s / area, ZERO, ONE)
    along = wp.dot(s * ab - ac, cd)
    if along <= ZERO:
        return wp.vec2d(on_segment(c, a, b), ZERO)
    if along >= length:
        return wp.vec2d(on_segment(d, a, b), ONE)
    return wp.vec2d(s, along / length)


@wp.func
def _nearest_of_parallel(
    a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d, s: wp.float64, t: wp.float64, area: wp.float64
) -> wp.vec2d:
    ends = nearest_at_ends(a, b, c, d)
    if s >= ZERO and s <= area and t >= ZERO and t <= area and area > ZERO:
        inside = wp.vec2d(s / area, t / area)
        if _gap(a, b, c, d, inside) <= _gap(a, b, c, d, ends):
            return inside
    return ends


@wp.func
def _gap(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d, w: wp.vec2d) -> wp.float64:
    return wp.length_sq(a - c + w[0] * (b - a) - w[1] * (d - c))


@wp.func
def nearest_at_ends(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec2d:
    """As `nearest_edge_edge`, but one of the two points is an end of its edge."""
    t = on_segment(a, c, d)
    best = wp.vec2d(ZERO, t)
    least = wp.length_sq(a - c - t * (d - c))
    t = on_segment(b, c, d)
    distance = wp.length_sq(b - c - t * (d - c))
    if distance < least:
        least = distance
        best = wp.vec2d(ONE, t)
    s = on_segment(c, a, b)
    distance = wp.length_sq(c - a - s * (b - a))
    if distance < least:
        least = distance
        best = wp.vec2d(s, ZERO)
    s = on_segment(d, a, b)
    if wp.length_sq(d - a - s * (b - a)) < least:
        best = wp.vec2d(s, ONE)
    return best


@wp.func
def triangle_weights(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec4d:
    """The stencil's weights of point p against triangle abc; they sum to zero."""
    w = nearest_point_triangle(p, a, b, c)
    return wp.vec4d(ONE, -w[0], -w[1], -w[2])


@wp.func
def edge_weights(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec4d:
    """The stencil's weights of edge ab against edge cd; they sum to zero."""
    w = nearest_edge_edge(a, b, c, d)
    return wp.vec4d(ONE - w[0], w[0], w[1] - ONE, -w[1])


@wp.func
def relative_position(w: wp.vec4d, x0: wp.vec3d, x1: wp.vec3d, x2: wp.vec3d, x3: wp.vec3d) -> wp.vec3d:
    """The stencil's r = sum of w_k x_k, from differences: exact enough far from the origin."""
    return w[0] * (x0 - x3) + w[1] * (x1 - x3) + w[2] * (x2 - x3)
