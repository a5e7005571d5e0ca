"""Nearest points of a point and a triangle, and of two edges (Ericson 2005, sections 5.1.5 and 5.1.9)."""

import warp as wp

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# edges whose angle is below about 1e-7 count as parallel
PARALLEL = wp.constant(wp.float64(1e-14))


@wp.func
def nearest_on_triangle(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """Barycentric coordinates of the point of triangle abc that is nearest to p."""
    ab = b - a
    ac = c - a
    ap = p - a
    d1 = wp.dot(ab, ap)
    d2 = wp.dot(ac, ap)
    if d1 <= ZERO and d2 <= ZERO:
        return wp.vec3d(ONE, ZERO, ZERO)
    bp = p - b
    d3 = wp.dot(ab, bp)
    d4 = wp.dot(ac, bp)
    if d3 >= ZERO and d4 <= d3:
        return wp.vec3d(ZERO, ONE, ZERO)
    cp = p - c
    d5 = wp.dot(ab, cp)
    d6 = wp.dot(ac, cp)
    if d6 >= ZERO and d5 <= d6:
        return wp.vec3d(ZERO, ZERO, ONE)
    # areas opposite c, b and a
    vc = d1 * d4 - d3 * d2
    if vc <= ZERO and d1 >= ZERO and d3 <= ZERO:
        t = d1 / (d1 - d3)
        return wp.vec3d(ONE - t, t, ZERO)
    vb = d5 * d2 - d1 * d6
    if vb <= ZERO and d2 >= ZERO and d6 <= ZERO:
        t = d2 / (d2 - d6)
        return wp.vec3d(ONE - t, ZERO, t)
    va = d3 * d6 - d5 * d4
    if va <= ZERO and d4 - d3 >= ZERO and d5 - d6 >= ZERO:
        t = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return wp.vec3d(ZERO, ONE - t, t)
    whole = va + vb + vc
    return wp.vec3d(ONE - (vb + vc) / whole, vb / whole, vc / whole)


@wp.func
def nearest_on_edges(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec2d:
    """Parameters s on edge ab and t on edge cd of their nearest points; of parallel edges, one of the nearest pairs."""
    u = b - a
    v = d - c
    r = a - c
    uu = wp.dot(u, u)
    vv = wp.dot(v, v)
    uv = wp.dot(u, v)
    ur = wp.dot(u, r)
    vr = wp.dot(v, r)
    if uu == ZERO and vv == ZERO:
        return wp.vec2d(ZERO, ZERO)
    if uu == ZERO:
        return wp.vec2d(ZERO, wp.clamp(vr / vv, ZERO, ONE))
    if vv == ZERO:
        return wp.vec2d(wp.clamp(-ur / uu, ZERO, ONE), ZERO)
    area = uu * vv - uv * uv
    s = ZERO
    if area > PARALLEL * uu * vv:
        s = wp.clamp((uv * vr - ur * vv) / area, ZERO, ONE)
    t = (uv * s + vr) / vv
    if t < ZERO:
        t = ZERO
        s = wp.clamp(-ur / uu, ZERO, ONE)
    elif t > ONE:
        t = ONE
        s = wp.clamp((uv - ur) / uu, ZERO, ONE)
    return wp.vec2d(s, t)
