# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know
"""Axes that separate the planar hull of a pair's corners from the origin, for continuous collision detection.

The method and the error bounds are explained in `weft.geometry.ccd`. Its guarantee does not depend on the accuracy of the
axes found here, only on `turning_axis_holds`. The nearest points here belong to the measured recipe of the CCD and are
those of the origin only; `weft.geometry.stencil` has the general ones.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

# numbers are module constants: a literal inside a kernel is float32
ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# added to every bound on a product of coordinates, so that products that underflow do not decide
LEAST_BOUND = wp.constant(wp.float64(1e-250))
# the computed normal is trusted where the heights of the corners along it differ by at most this fraction of the lowest
GOOD_NORMAL = wp.constant(wp.float64(0.25))
# the end of a turning axis may be at most this factor shorter, or its inverse longer, than its start: the bound on the
# separation is measured by the longest control vector, so a larger range would seldom succeed
LEAST_RATIO = wp.constant(wp.float64(0.125))


@wp.struct
class Corners:
    """The hull of differences at one time: a parallelogram, corners in order, or a triangle, its last corner twice."""

    a: wp.vec3d
    b: wp.vec3d
    c: wp.vec3d
    d: wp.vec3d


@wp.func
def corners_at(start: Corners, end: Corners, t: wp.float64) -> Corners:
    s = ONE - t
    return Corners(s * start.a + t * end.a, s * start.b + t * end.b, s * start.c + t * end.c, s * start.d + t * end.d)


@wp.func
def _lowest(n: wp.vec3d, q: Corners) -> wp.float64:
    return wp.min(wp.min(wp.dot(n, q.a), wp.dot(n, q.b)), wp.min(wp.dot(n, q.c), wp.dot(n, q.d)))


@wp.func
def best_axis(q: Corners, gap: wp.float64) -> tuple[wp.vec3d, wp.float64, wp.float64]:
    """The unit axis that separates the corners from the origin best, the distance of the hull from the origin, and the
    separation along the axis: the lowest corner."""
    # directions to the sides: where two sides are equally near, the separation decides
    ab = on_segment(q.a, q.b)
    bc = on_segment(q.b, q.c)
    cd = on_segment(q.c, q.d)
    da = on_segment(q.d, q.a)
    near = wp.sqrt(wp.min(wp.min(wp.dot(ab, ab), wp.dot(bc, bc)), wp.min(wp.dot(cd, cd), wp.dot(da, da))))
    m = _better_axis(_better_axis(ab, bc, q), _better_axis(cd, da, q), q)

    # the normal, orthogonalised once more against both sides: for needles the cross product has few correct digits
    e = q.b - q.a
    f = q.d - q.a
    n = wp.cross(e, f)
    ee = wp.dot(e, e)
    if ee > ZERO:
        n = n - e * (wp.dot(n, e) / ee)
        f = f - e * (wp.dot(f, e) / ee)
        f = f - e * (wp.dot(f, e) / ee)
        ff = wp.dot(f, f)
        if ff > ZERO:
            n = n - f * (wp.dot(n, f) / ff)
    n = wp.normalize(n)
    height = wp.dot(n, q.a)
    if height < ZERO:
        n = -n
    lowest = _lowest(n, q)
    highest = -_lowest(-n, q)

    # the interior of the face is nearest where its normal is accurate and the origin projects into it
    if wp.dot(n, n) > HALF and highest - lowest <= GOOD_NORMAL * wp.max(lowest, gap):
        first = wp.dot(wp.cross(q.a, q.b), n)
        second = wp.dot(wp.cross(q.b, q.c), n)
        third = wp.dot(wp.cross(q.c, q.d), n)
        fourth = wp.dot(wp.cross(q.d, q.a), n)
        least = wp.min(wp.min(first, second), wp.min(third, fourth))
        most = wp.max(wp.max(first, second), wp.max(third, fourth))
        if least >= ZERO or most <= ZERO:
            near = wp.min(near, wp.abs(height))

    m = _better_axis(m, n, q)
    return m, near, _lowest(m, q)


@wp.func
def _better_axis(y: wp.vec3d, z: wp.vec3d, q: Corners) -> wp.vec3d:
    """Of two directions the one, as a unit vector, along which the corners are farther from the origin."""
    m = wp.normalize(y)
    n = wp.normalize(z)
    if _lowest(n, q) > _lowest(m, q):
        return n
    return m


@wp.func
def turning_axis_holds(m: wp.vec3d, m2: wp.vec3d, q: Corners, q2: Corners, gap: wp.float64) -> bool:
    """Whether an axis that goes from m to m2, or the moving normal, separates all the way from q to q2."""
    # beside an edge: an axis that stays perpendicular to it
    if (
        _edge_axis_holds(m, m2, q.b - q.a, q2.b - q2.a, q, q2, gap)
        or _edge_axis_holds(m, m2, q.c - q.b, q2.c - q2.b, q, q2, gap)
        or _edge_axis_holds(m, m2, q.d - q.c, q2.d - q2.c, q, q2, gap)
        or _edge_axis_holds(m, m2, q.a - q.d, q2.a - q2.d, q, q2, gap)
    ):
        return True
    # above the face: its normal, which is quadratic, on the side of the origin
    e = q.b - q.a
    f = q.d - q.a
    e2 = q2.b - q2.a
    f2 = q2.d - q2.a
    n = wp.cross(e, f)
    between = (wp.cross(e, f2) + wp.cross(e2, f)) * HALF
    n2 = wp.cross(e2, f2)
    if wp.dot(n, q.a) < ZERO:
        n = -n
        between = -between
        n2 = -n2
    return _axis_holds(n, between, n2, q, q2, gap)


@wp.func
def _edge_axis_holds(
    m: wp.vec3d, m2: wp.vec3d, e: wp.vec3d, e2: wp.vec3d, q: Corners, q2: Corners, gap: wp.float64
) -> bool:
    """A linear axis from m to k m2, where k keeps it perpendicular to an edge that goes from e to e2, if it can."""
    here = -wp.dot(m, e2)
    there = wp.dot(m2, e)
    k = ONE
    if here * there > ZERO:
        k = here / there
    if k < LEAST_RATIO or k > ONE / LEAST_RATIO:
        return False
    return _axis_holds(m, (m + m2 * k) * HALF, m2 * k, q, q2, gap)


@wp.func
def _axis_holds(m0: wp.vec3d, m1: wp.vec3d, m2: wp.vec3d, q: Corners, q2: Corners, gap: wp.float64) -> bool:
    """Whether the quadratic axis with control vectors m0, m1, m2 keeps all corners more than the gap away."""
    floor = gap * wp.sqrt(wp.max(wp.max(wp.dot(m0, m0), wp.dot(m1, m1)), wp.dot(m2, m2))) + LEAST_BOUND
    return (
        _lowest_control(m0, m1, m2, q.a, q2.a) > floor
        and _lowest_control(m0, m1, m2, q.b, q2.b) > floor
        and _lowest_control(m0, m1, m2, q.c, q2.c) > floor
        and _lowest_control(m0, m1, m2, q.d, q2.d) > floor
    )


@wp.func
def _lowest_control(m0: wp.vec3d, m1: wp.vec3d, m2: wp.vec3d, q: wp.vec3d, q2: wp.vec3d) -> wp.float64:
    """Least Bernstein coefficient of (quadratic axis) . (linear corner)."""
    second = (TWO * wp.dot(m1, q) + wp.dot(m0, q2)) * THIRD
    third = (TWO * wp.dot(m1, q2) + wp.dot(m2, q)) * THIRD
    return wp.min(wp.min(wp.dot(m0, q), second), wp.min(third, wp.dot(m2, q2)))


@wp.func
def on_segment(a: wp.vec3d, b: wp.vec3d) -> wp.vec3d:
    """The point of segment ab nearest to the origin, in a direction perpendicular to it to the last digits."""
    d = b - a
    ad = wp.dot(a, d)
    bd = wp.dot(b, d)
    if ad >= ZERO:
        return a
    if bd <= ZERO:
        return b
    # from the nearer end, then orthogonalised once more
    dd = bd - ad
    y = b - d * (bd / dd)
    if -ad < bd:
        y = a - d * (ad / dd)
    return y - d * (wp.dot(y, d) / dd)


@wp.func
def on_triangle(y: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """The origin's projection to triangle abc if it lies inside and is nearer than y, else y."""
    n = wp.cross(b - a, c - a)
    nn = wp.dot(n, n)
    if (
        nn > ZERO
        and wp.dot(wp.cross(a, b), n) >= ZERO
        and wp.dot(wp.cross(b, c), n) >= ZERO
        and wp.dot(wp.cross(c, a), n) >= ZERO
    ):
        return nearer(y, n * (wp.dot(a, n) / nn))
    return y


@wp.func
def on_parallelogram(y: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec3d:
    """The origin's projection to parallelogram abcd if it lies inside and is nearer than y, else y."""
    n = wp.cross(b - a, d - a)
    nn = wp.dot(n, n)
    if (
        nn > ZERO
        and wp.dot(wp.cross(a, b), n) >= ZERO
        and wp.dot(wp.cross(b, c), n) >= ZERO
        and wp.dot(wp.cross(c, d), n) >= ZERO
        and wp.dot(wp.cross(d, a), n) >= ZERO
    ):
        return nearer(y, n * (wp.dot(a, n) / nn))
    return y


@wp.func
def nearer(y: wp.vec3d, z: wp.vec3d) -> wp.vec3d:
    """The shorter of two vectors from the origin."""
    if wp.dot(z, z) < wp.dot(y, y):
        return z
    return y
