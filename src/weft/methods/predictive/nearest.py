"""The point of a triangle that is nearest to another (Ericson 2005, section 5.1.5)."""

import warp as wp

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


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
