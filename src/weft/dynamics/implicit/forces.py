"""The forces of Baraff and Witkin 1998: stretch and shear of triangles, bending of hinges, stitches, and wind.

A triangle of rest area a maps material coordinates to space; w_u = sum p_k x_k and w_v = sum q_k x_k are the images of
the material axes. Its conditions are stretch C = a (|w_u| - 1) and a (|w_v| - 1) and shear C = a w_u.w_v; a hinge has
C = theta - rest. Each gives the force -k C dC/dx and the damping -kd Cdot dC/dx with kd = damping time * k. With
k = stiffness / a a triangle holds the energy a / 2 * stiffness * strain^2, so that cloth is as stiff however finely it
is divided; bending has k = bend L^2 / A, L the edge's length and A the area of both triangles, for the same reason.

What the time step needs of a triangle is three 3x3 matrices A, B, D, which give the block of corners i and j as
p_i p_j A + q_i q_j B + p_i q_j D + q_i p_j D^T. Of the term s d2C/dx2 of the Jacobian, s = k C + kd Cdot, the positive
semidefinite part is kept: for stretch all of it while s > 0, for shear a part known in closed form, for bending, whose
s is small, none.
"""

import math

import warp as wp

from weft.dynamics.air import WindField, wind_at
from weft.runtime.reduction import lane_max, lanes

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# an axis or an edge shrunk to nothing has no direction: no force below this
LEAST_LENGTH = wp.constant(wp.float64(1.0e-9))
# the least angle of a hinge that is folded flat
FLAT = wp.constant(wp.float64(math.pi - 1.0e-9))


@wp.struct
class TriangleTerms:
    """What a triangle gives to the time step: the right-hand side of corner i is p_i along_u + q_i along_v."""

    uu: wp.mat33d
    vv: wp.mat33d
    uv: wp.mat33d
    along_u: wp.vec3d
    along_v: wp.vec3d


@wp.func
def triangle_terms(
    x0: wp.vec3d,
    x1: wp.vec3d,
    x2: wp.vec3d,
    v0: wp.vec3d,
    v1: wp.vec3d,
    v2: wp.vec3d,
    m0: wp.vec3d,
    m1: wp.vec3d,
    m2: wp.vec3d,
    p: wp.vec3d,
    q: wp.vec3d,
    stretch: wp.float64,
    shear: wp.float64,
    delay: wp.float64,
    h: wp.float64,
) -> TriangleTerms:
    """Stretch and shear of one triangle over a step h.

    `stretch` and `shear` are stiffness times rest area, `delay` is the damping time; m = h v + y is where each corner
    would be carried by its velocity and its position correction.
    """
    wu = p[0] * x0 + p[1] * x1 + p[2] * x2
    wv = q[0] * x0 + q[1] * x1 + q[2] * x2
    du = p[0] * v0 + p[1] * v1 + p[2] * v2
    dv = q[0] * v0 + q[1] * v1 + q[2] * v2
    mu = p[0] * m0 + p[1] * m1 + p[2] * m2
    mv = q[0] * m0 + q[1] * m1 + q[2] * m2

    # -dF/dx without and with the damping, in the same three matrices
    elastic = TriangleTerms()
    force_u = wp.vec3d()
    force_v = wp.vec3d()
    damped = h * h + h * delay
    terms = TriangleTerms()

    length_u = wp.length(wu)
    if length_u > LEAST_LENGTH:
        n = wu / length_u
        s = stretch * (length_u - ONE + delay * wp.dot(n, du))
        along = wp.outer(n, n)
        across = (wp.max(s, ZERO) / length_u) * (wp.identity(n=3, dtype=wp.float64) - along)
        force_u += s * n
        elastic.uu += stretch * along + across
        terms.uu += (damped * stretch) * along + (h * h) * across
    length_v = wp.length(wv)
    if length_v > LEAST_LENGTH:
        n = wv / length_v
        s = stretch * (length_v - ONE + delay * wp.dot(n, dv))
        along = wp.outer(n, n)
        across = (wp.max(s, ZERO) / length_v) * (wp.identity(n=3, dtype=wp.float64) - along)
        force_v += s * n
        elastic.vv += stretch * along + across
        terms.vv += (damped * stretch) * along + (h * h) * across

    # dC/dx_i = a (p_i w_v + q_i w_u)
    s = shear * (wp.dot(wu, wv) + delay * (wp.dot(du, wv) + wp.dot(wu, dv)))
    force_u += s * wv
    force_v += s * wu
    vv = shear * wp.outer(wv, wv)
    uu = shear * wp.outer(wu, wu)
    vu = shear * wp.outer(wv, wu)
    # d2C/dx_i dx_j = a (p_i q_j + q_i p_j) I, whose positive part is |p| |q| / 2 (p/|p| + q/|q|)(p/|p| + q/|q|)^T
    ratio = HALF * wp.abs(s) * wp.length(q) / wp.length(p)
    inverse = HALF * wp.abs(s) * wp.length(p) / wp.length(q)
    eye = wp.identity(n=3, dtype=wp.float64)
    elastic.uu += vv + ratio * eye
    elastic.vv += uu + inverse * eye
    elastic.uv += vu + (HALF * s) * eye
    terms.uu += damped * vv + (h * h * ratio) * eye
    terms.vv += damped * uu + (h * h * inverse) * eye
    terms.uv += damped * vu + (h * h * HALF * s) * eye

    # h (F + dF/dx (h v + y))
    terms.along_u = -h * (force_u + elastic.uu * mu + elastic.uv * mv)
    terms.along_v = -h * (force_v + mu * elastic.uv + elastic.vv * mv)
    return terms


@wp.kernel
def strain_triangles(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    p: wp.array[wp.vec3d],
    q: wp.array[wp.vec3d],
    moduli: wp.array[wp.vec3d],
    h: wp.float64,
    uu: wp.array[wp.mat33d],
    vv: wp.array[wp.mat33d],
    uv: wp.array[wp.mat33d],
    along_u: wp.array[wp.vec3d],
    along_v: wp.array[wp.vec3d],
):
    """The terms of all triangles; moduli are stretch * area, shear * area and the damping time."""
    i = first + wp.tid()
    f = faces[i]
    v0 = v[f[0]]
    v1 = v[f[1]]
    v2 = v[f[2]]
    m0 = h * v0 + shift[f[0]]
    m1 = h * v1 + shift[f[1]]
    m2 = h * v2 + shift[f[2]]
    k = moduli[i]
    terms = triangle_terms(x[f[0]], x[f[1]], x[f[2]], v0, v1, v2, m0, m1, m2, p[i], q[i], k[0], k[1], k[2], h)
    uu[i] = terms.uu
    vv[i] = terms.vv
    uv[i] = terms.uv
    along_u[i] = terms.along_u
    along_v[i] = terms.along_v


@wp.kernel
def bend_hinges(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    hinges: wp.array[wp.vec4i],
    rest: wp.array[wp.float64],
    least: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    h: wp.float64,
    gradient: wp.array[wp.vec3d],
    along: wp.array[wp.float64],
):
    """Gradients of the four corners, scaled so that a block is their outer product; b_i = along * gradient_i.

    Hinge (a, b, c, d) has triangles (a, b, c) and (b, a, d); theta > 0 where c and d rise on the side of their normals.
    """
    i = first + wp.tid()
    f = hinges[i]
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    d = x[f[3]]
    e = b - a
    length = wp.length(e)
    n1 = wp.cross(e, c - a)
    n2 = wp.cross(d - a, e)
    s1 = wp.dot(n1, n1)
    s2 = wp.dot(n2, n2)
    ga = wp.vec3d()
    gb = wp.vec3d()
    gc = wp.vec3d()
    gd = wp.vec3d()
    push = ZERO
    floor = least[i] * least[i]
    if s1 > floor and s2 > floor and length > LEAST_LENGTH:
        theta = -wp.atan2(wp.dot(wp.cross(n1, n2), e) / length, wp.dot(n1, n2))
        # what is folded flat, as between two planes, is neither over nor under: its last bit must not say which
        if theta < -FLAT:
            theta = -theta
        gc = (length / s1) * n1
        gd = (length / s2) * n2
        square = length * length
        # where the feet of c and d lie on the edge
        foot_c = wp.dot(c - a, e) / square
        foot_d = wp.dot(d - a, e) / square
        ga = (foot_c - ONE) * gc + (foot_d - ONE) * gd
        gb = -(foot_c * gc + foot_d * gd)

        angle = theta - rest[i]
        turn = wp.dot(ga, v[f[0]]) + wp.dot(gb, v[f[1]]) + wp.dot(gc, v[f[2]]) + wp.dot(gd, v[f[3]])
        fold = h * turn
        fold += wp.dot(ga, shift[f[0]]) + wp.dot(gb, shift[f[1]]) + wp.dot(gc, shift[f[2]]) + wp.dot(gd, shift[f[3]])
        k = stiffness[i]
        scale = wp.sqrt(k * (h * h + h * delay[i]))
        if scale > ZERO:
            push = -h * k * (angle + delay[i] * turn + fold) / scale
        ga = scale * ga
        gb = scale * gb
        gc = scale * gc
        gd = scale * gd
    gradient[4 * i] = ga
    gradient[4 * i + 1] = gb
    gradient[4 * i + 2] = gc
    gradient[4 * i + 3] = gd
    along[i] = push


@wp.kernel
def pull_stitches(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    stitches: wp.array[wp.vec3i],
    weights: wp.array[wp.vec3d],
    stiffness: wp.array[wp.float64],
    damping: wp.array[wp.float64],
    h: wp.float64,
    along: wp.array[wp.vec3d],
    factor: wp.array[wp.float64],
):
    """Springs without length: b_i = w_i along, and the block of corners i and j is factor w_i w_j times identity."""
    i = first + wp.tid()
    f = stitches[i]
    w = weights[i]
    r = w[0] * x[f[0]] + w[1] * x[f[1]] + w[2] * x[f[2]]
    u = w[0] * v[f[0]] + w[1] * v[f[1]] + w[2] * v[f[2]]
    y = w[0] * shift[f[0]] + w[1] * shift[f[1]] + w[2] * shift[f[2]]
    k = stiffness[i]
    along[i] = -h * (k * (r + h * u + y) + damping[i] * u)
    factor[i] = h * h * k + h * damping[i]


@wp.kernel
def resist_wind(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    wind: WindField,
    time: wp.float64,
    drag: wp.array[wp.mat33d],
):
    """What the wind's force on a triangle loses for each m/s that it yields: a third of that for each corner.

    With u the relative wind, about the symmetric part of -dF/dv: drag |u.n| (1 + n n^T) + lift |u| n n^T. It need not
    be exact: it keeps strong wind stable, and vanishes with the change of velocity.
    """
    i = first + wp.tid()
    f = faces[i]
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    normal = wp.cross(b - a, c - a)
    doubled = wp.length(normal)
    result = wp.mat33d()
    if doubled > ZERO:
        n = normal / doubled
        u = wind_at(wind, THIRD * (a + b + c), time) - THIRD * (v[f[0]] + v[f[1]] + v[f[2]])
        square_on = wp.abs(wp.dot(u, n))
        eye = wp.identity(n=3, dtype=wp.float64)
        result = (wind.drag * square_on) * eye + (wind.drag * square_on + wind.lift * wp.length(u)) * wp.outer(n, n)
        result = (HALF * doubled * THIRD) * result
    drag[i] = result


@wp.kernel
def measure_growth(
    first: int,
    before: wp.array[wp.vec3d],
    after: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    p: wp.array[wp.vec3d],
    q: wp.array[wp.vec3d],
    chunk: int,
    growth: wp.array[wp.float64],
):
    """By how much a step moved the axes of a triangle further from their rest length; the most of each chunk."""
    number = first + wp.tid()
    i = number // lanes()
    lane = number % lanes()
    most = ZERO
    for k in range(i * chunk + lane, wp.min((i + 1) * chunk, faces.shape[0]), lanes()):
        f = faces[k]
        w = p[k]
        old = wp.abs(wp.length(w[0] * before[f[0]] + w[1] * before[f[1]] + w[2] * before[f[2]]) - ONE)
        new = wp.abs(wp.length(w[0] * after[f[0]] + w[1] * after[f[1]] + w[2] * after[f[2]]) - ONE)
        most = wp.max(most, new - old)
        w = q[k]
        old = wp.abs(wp.length(w[0] * before[f[0]] + w[1] * before[f[1]] + w[2] * before[f[2]]) - ONE)
        new = wp.abs(wp.length(w[0] * after[f[0]] + w[1] * after[f[1]] + w[2] * after[f[2]]) - ONE)
        most = wp.max(most, new - old)
    most = lane_max(most)
    if lane == 0:
        growth[i] = most
