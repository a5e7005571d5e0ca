"""The forces of Baraff and Witkin 1998 and their derivatives: stretch and shear of triangles, stitches, wind.

What they act on is in `elements`; the kernels here turn it into terms of the linear system of a step.

A triangle of rest area a maps material coordinates to space; w_u = sum p_k x_k and w_v = sum q_k x_k are the images of
the material axes. Its conditions are stretch C = a (|w_u| - 1) and a (|w_v| - 1) and shear C = a w_u.w_v. Each gives the force
-k C dC/dx and the damping -kd Cdot dC/dx with kd = damping time * k. With k = stiffness / a a triangle holds the energy
a / 2 * stiffness * strain^2, so that cloth is as stiff however finely it is divided. Beyond a limit of stretch k is `FIRMNESS`
times as large. Bending is in `bending`.

The time step needs three 3x3 matrices A, B, D of a triangle, which make the block of corners i and j
p_i p_j A + q_i q_j B + p_i q_j D + q_i p_j D^T. Of the term s d2C/dx2 of the Jacobian, s = k C + kd Cdot, the positive
semidefinite part is kept: for stretch all of it while s > 0, for shear a part known in closed form.
"""

# mypy: disable-error-code="arg-type"

import warp as wp

from weft.dynamics.air import WindField, wind_at
from weft.dynamics.springs import FIRMNESS
from weft.runtime.compaction import lane_max, lanes

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# what stiffness grows by, in units of itself, where a thread is beyond its limit
FIRMER = wp.constant(wp.float64(FIRMNESS - 1.0))
# no force below this length of a material axis, as a ratio, which has no direction
LEAST_LENGTH = wp.constant(wp.float64(1.0e-9))


@wp.struct
class TriangleArrays:
    """The triangles of `Elements` as kernels take them."""

    faces: wp.array[wp.vec3i]
    p: wp.array[wp.vec3d]
    q: wp.array[wp.vec3d]
    moduli: wp.array[wp.vec4d]
    delay: wp.array[wp.float64]
    limit: wp.array[wp.float64]


@wp.struct
class TriangleTerms:
    """The contribution of a triangle to a step; to the right-hand side of corner i it adds p_i along_u + q_i along_v."""

    uu: wp.mat33d
    vv: wp.mat33d
    uv: wp.mat33d
    along_u: wp.vec3d
    along_v: wp.vec3d


@wp.struct
class Terms:
    """What the elements contribute to a step: triangles (see `TriangleTerms`), hinges and stitches."""

    uu: wp.array[wp.mat33d]
    vv: wp.array[wp.mat33d]
    uv: wp.array[wp.mat33d]
    along_u: wp.array[wp.vec3d]
    along_v: wp.array[wp.vec3d]
    moment: wp.array[wp.vec3d]
    stitch_along: wp.array[wp.vec3d]
    stitch_factor: wp.array[wp.float64]


@wp.func
def stretch_terms(
    n: wp.vec3d,
    length: wp.float64,
    strain: wp.float64,
    strain_across: wp.float64,
    modulus: wp.float64,
    coupling: wp.float64,
    delay: wp.float64,
    limit: wp.float64,
    h: wp.float64,
):
    """Threads along the unit vector n, stretched to `length`: their stress, and -dF/dx without and with the damping."""
    s = modulus * strain + coupling * strain_across
    stiffness = modulus
    if length - ONE > limit:
        s += FIRMER * modulus * (length - ONE - limit)
        stiffness += FIRMER * modulus
    along = wp.outer(n, n)
    across = (wp.max(s, ZERO) / length) * (wp.identity(n=3, dtype=wp.float64) - along)
    return s, stiffness * along + across, (h * h * stiffness + h * delay * modulus) * along + (h * h) * across


@wp.func
def thread_strain(w: wp.vec3d, dw: wp.vec3d, delay: wp.float64) -> tuple[wp.vec3d, wp.float64, wp.float64]:
    """Direction, length and strain of a thread that is w long and changes by dw a second; the strain is that after the delay.

    A thread without length has no direction and no strain.
    """
    n = wp.vec3d()
    strain = ZERO
    length = wp.length(w)
    if length > LEAST_LENGTH:
        n = w / length
        strain = length - ONE + delay * wp.dot(n, dw)
    return n, length, strain


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
    moduli: wp.vec4d,
    delay: wp.float64,
    limit: wp.float64,
    h: wp.float64,
) -> TriangleTerms:
    """Stretch and shear of one triangle over a step h.

    `moduli` are stiffnesses times rest area (see `Elements`), `delay` is the damping time, `limit` the strain beyond which
    threads are firm; m = h v + y is the displacement of each corner by its velocity and its position correction.
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

    shear = moduli[3]
    eye = wp.identity(n=3, dtype=wp.float64)
    n_u, length_u, strain_u = thread_strain(wu, du, delay)
    n_v, length_v, strain_v = thread_strain(wv, dv, delay)
    if length_u > LEAST_LENGTH:
        stress_u, elastic_u, damped_u = stretch_terms(
            n_u, length_u, strain_u, strain_v, moduli[0], moduli[2], delay, limit, h
        )
        force_u += stress_u * n_u
        elastic.uu += elastic_u
        terms.uu += damped_u
    if length_v > LEAST_LENGTH:
        stress_v, elastic_v, damped_v = stretch_terms(
            n_v, length_v, strain_v, strain_u, moduli[1], moduli[2], delay, limit, h
        )
        force_v += stress_v * n_v
        elastic.vv += elastic_v
        terms.vv += damped_v
    both = moduli[2] * wp.outer(n_u, n_v)
    elastic.uv += both
    terms.uv += damped * both

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
    triangles: TriangleArrays,
    h: wp.float64,
    all_terms: Terms,
):
    """The terms of all triangles."""
    i = first + wp.tid()
    f = triangles.faces[i]
    v0 = v[f[0]]
    v1 = v[f[1]]
    v2 = v[f[2]]
    m0 = h * v0 + shift[f[0]]
    m1 = h * v1 + shift[f[1]]
    m2 = h * v2 + shift[f[2]]
    p = triangles.p[i]
    q = triangles.q[i]
    moduli = triangles.moduli[i]
    delay = triangles.delay[i]
    limit = triangles.limit[i]
    terms = triangle_terms(x[f[0]], x[f[1]], x[f[2]], v0, v1, v2, m0, m1, m2, p, q, moduli, delay, limit, h)
    all_terms.uu[i] = terms.uu
    all_terms.vv[i] = terms.vv
    all_terms.uv[i] = terms.uv
    all_terms.along_u[i] = terms.along_u
    all_terms.along_v[i] = terms.along_v


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
    """The derivative of the wind's force on a triangle by its velocity, a third of it for each corner.

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
    triangles: TriangleArrays,
    chunk: int,
    growth: wp.array[wp.float64],
):
    """The largest growth of strain along the material axes of triangles in a step, for each chunk of triangles."""
    number = first + wp.tid()
    i = number // lanes()
    lane = number % lanes()
    most = ZERO
    for k in range(i * chunk + lane, wp.min((i + 1) * chunk, triangles.faces.shape[0]), lanes()):
        f = triangles.faces[k]
        w = triangles.p[k]
        old = wp.abs(wp.length(w[0] * before[f[0]] + w[1] * before[f[1]] + w[2] * before[f[2]]) - ONE)
        new = wp.abs(wp.length(w[0] * after[f[0]] + w[1] * after[f[1]] + w[2] * after[f[2]]) - ONE)
        most = wp.max(most, new - old)
        w = triangles.q[k]
        old = wp.abs(wp.length(w[0] * before[f[0]] + w[1] * before[f[1]] + w[2] * before[f[2]]) - ONE)
        new = wp.abs(wp.length(w[0] * after[f[0]] + w[1] * after[f[1]] + w[2] * after[f[2]]) - ONE)
        most = wp.max(most, new - old)
    most = lane_max(most)
    if lane == 0:
        growth[i] = most
