"""temporary"""
import warp as wp
wp.set_module_options({"enable_backward": False})
Z = wp.constant(wp.float64(0.0))
O = wp.constant(wp.float64(1.0))


@wp.func
def nearest_point_triangle(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    ab = b - a
    ac = c - a
    ap = p - a
    d1 = wp.dot(ab, ap)
    d2 = wp.dot(ac, ap)
    if d1 <= Z and d2 <= Z:
        return wp.vec3d(O, Z, Z)
    bp = p - b
    d3 = wp.dot(ab, bp)
    d4 = wp.dot(ac, bp)
    if d3 >= Z and d4 <= d3:
        return wp.vec3d(Z, O, Z)
    vc = d1 * d4 - d3 * d2
    if vc <= Z and d1 >= Z and d3 <= Z:
        v = d1 / (d1 - d3)
        return wp.vec3d(O - v, v, Z)
    cp = p - c
    d5 = wp.dot(ab, cp)
    d6 = wp.dot(ac, cp)
    if d6 >= Z and d5 <= d6:
        return wp.vec3d(Z, Z, O)
    vb = d5 * d2 - d1 * d6
    if vb <= Z and d2 >= Z and d6 <= Z:
        w = d2 / (d2 - d6)
        return wp.vec3d(O - w, Z, w)
    va = d3 * d6 - d5 * d4
    if va <= Z and (d4 - d3) >= Z and (d5 - d6) >= Z:
        w = (d4 - d3) / ((d4 - d3) + (d5 - d6))
        return wp.vec3d(Z, O - w, w)
    s = O / (va + vb + vc)
    return wp.vec3d(O - (vb + vc) * s, vb * s, vc * s)


@wp.func
def nearest_edge_edge(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec2d:
    u = b - a
    v = d - c
    r = a - c
    A = wp.dot(u, u)
    E = wp.dot(v, v)
    F = wp.dot(v, r)
    if A <= Z and E <= Z:
        return wp.vec2d(Z, Z)
    if A <= Z:
        return wp.vec2d(Z, wp.clamp(F / E, Z, O))
    C = wp.dot(u, r)
    if E <= Z:
        return wp.vec2d(wp.clamp(-C / A, Z, O), Z)
    B = wp.dot(u, v)
    den = A * E - B * B
    s = Z
    if den > wp.float64(1e-14) * A * E:
        s = wp.clamp((B * F - C * E) / den, Z, O)
    t = (B * s + F) / E
    if t < Z:
        t = Z
        s = wp.clamp(-C / A, Z, O)
    elif t > O:
        t = O
        s = wp.clamp((B - C) / A, Z, O)
    return wp.vec2d(s, t)
