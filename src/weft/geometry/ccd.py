# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know
"""Continuous collision detection (CCD): do a point and a triangle, or two edges, collide during a step?

Vertices move on straight lines from `start` (t = 0) to `end` (t = 1). Two promises, which the tests hold against exact
rational arithmetic:

- No missed collision. A pair that comes within `tolerance` (0 is allowed) is reported, and the reported time is at or
  before the first moment at which it is that near. Until then the pair is farther apart than the tolerance.
- No distant false alarm. At the reported time the pair is within 1.25 tolerance plus rounding (at most 40 u Q, see below).

How it works: conservative advancement along separating axes. The pair touches where the convex hull of the corners q_i
contains the origin: p-a, p-b, p-c for point and triangle, a0-b0, a1-b0, a1-b1, a0-b1 for edges. A direction m with
m.q_i > 0 for every corner separates the pair; as the corners move linearly, one m separates for a span of time. So:
take m towards the point of the hull that is nearest to the origin, advance to the time at which the first m.q_i has
come down to the gap, and repeat. The nearest point only decides how far a round advances, never whether it is safe. Two
things speed this up. The four vertices are coplanar where the cubic (e x f).r vanishes (e, f the edges of the triangle,
or the two edges, and r = q_0), so time first advances to where the convex hull of its Bernstein control polygon comes
near zero. And where a pair slides past at a small distance, no fixed direction separates for long, so after a few
rounds m may turn: linearly, staying perpendicular to an edge, or with the normal e x f. Then m.q_i is a cubic at most,
and positive if its Bernstein coefficients are. A pair is reported as a collision if the rounds run out, or if a round
cannot advance.

Bounds. Let u = 2^-53, Q the largest |component| of the corners at both ends, tol the tolerance or 1e-100 if that is
more, and gap = tol + 24 u Q. All statements are first order in u; the constants leave room for the rest.

1. Corners. A computed difference is within u Q of the exact one; (1-t) q_i(0) + t q_i(1) adds 3 u Q, since weights and
   sum round once each. Together 4 u Q a component.
2. Fixed axes. For a vector m as it is in memory, a computed m.q_i adds 3 u sum |m_j q_ij|: the error is at most
   7 u Q |m|_1 <= 12.2 u Q |m|. So computed m.q_i > gap |m| means m.q_i > tol |m|, at a time and, at two times, in
   between. In the first cull |m|_1 takes the place of |m|.
3. Turning axes. With control vectors m_k as they are in memory, (2 m_1.q + m_0.q')/3 adds one sum, one product and the
   rounding of 1/3: 5.2 u Q |m|, together 17.4 u Q max|m_k|. The axis is never longer than its longest control vector.
4. Times. The fraction (g - gap)/(g - g') of the remaining time 1-t is wrong by 3 u of itself, its product by 5 u; times
   1 - 8 u it is not too large. Adding it to t and taking away u rounds twice by at most u/2: the result is not too late.
5. Coplanarity. Where the pair is within tol, |(e x f).r| <= tol |e x f| <= tol N, N the longest of the three control
   vectors n_k of e x f. Let E, F, R be the largest |component| of e, f, r and S = E F R. A component of n_k is wrong by
   at most 10 u E F, n_k.r by 52 u S, a control point by (2 52 + 46 + 18 + 36)/3 < 72 u S. De Casteljau works with
   numbers up to 6 S and adds 3 u 6 S a level: together 126 u S. N is wrong by 28 u E F. The band gap N + 160 u E F (R +
   gap) covers all of it. The entry into the band is taken 1e-12 of the remaining time, and 4 u, too early; its rounding is 6 u.

Underflow: the least tolerance 1e-100, and 1e-250 added to every product, keep products that underflow from deciding.
Coordinates may be as large as 1e50.
"""

import warp as wp

from weft.geometry.ccd_axes import (
    HALF,
    LEAST_BOUND,
    ONE,
    THIRD,
    TWO,
    ZERO,
    Corners,
    best_axis,
    corners_at,
    nearer,
    on_parallelogram,
    on_segment,
    on_triangle,
    turning_axis_holds,
)

wp.set_module_options({"enable_backward": False})

# numbers are module constants: a literal inside a kernel is float32
TWO_THIRDS = wp.constant(wp.float64(2.0 / 3.0))
# unit roundoff, and the multiples of it that the bounds need
UNIT = wp.constant(wp.float64(2.0**-53))
FOUR_UNITS = wp.constant(wp.float64(4.0 * 2.0**-53))
AXIS_ROUNDING = wp.constant(wp.float64(24.0 * 2.0**-53))
CUBIC_ROUNDING = wp.constant(wp.float64(160.0 * 2.0**-53))
# a computed fraction of time times SHORTEN is not above the true one; STEP_BACK, a fraction of the remaining time, is
# subtracted from the entry into the band (bounds 4 and 5)
SHORTEN = wp.constant(wp.float64(1.0 - 2.0**-50))
STEP_BACK = wp.constant(wp.float64(1e-12))
# metres; a smaller tolerance is raised to this, so that no product underflows
LEAST_TOLERANCE = wp.constant(wp.float64(1e-100))
# a pair is reported as colliding when it is nearer than this times the gap; nearer to 1 gives tighter times for more
# rounds
REPORT_DISTANCE = wp.constant(wp.float64(1.25))
# the fast rounds go on while the axis separates by at least this fraction of the distance; else the careful rounds begin
GOOD_AXIS = wp.constant(wp.float64(0.75))
# the time of a pair that does not collide: any number above 1
NEVER = wp.constant(wp.float64(2.0))
# rounds with fixed axes before the careful ones, with several candidates for the axis, begin
FAST_ROUNDS = wp.constant(8)
# careful rounds; a pair that is not decided after them is reported as colliding
CAREFUL_ROUNDS = wp.constant(256)


@wp.func
def ccd_point_triangle(
    p0: wp.vec3d,
    a0: wp.vec3d,
    b0: wp.vec3d,
    c0: wp.vec3d,
    p1: wp.vec3d,
    a1: wp.vec3d,
    b1: wp.vec3d,
    c1: wp.vec3d,
    tolerance: wp.float64,
) -> tuple[bool, wp.float64]:
    """Whether point p comes within `tolerance` of triangle abc on straight paths from x0 to x1; (hit, time).

    The time is at or before the first moment at which they are that near; 1 if never. Coordinates that are not
    finite count as a hit at time 0.
    """
    # the triangle of differences holds the origin exactly when the pair touches
    qa0 = p0 - a0
    qb0 = p0 - b0
    qc0 = p0 - c0
    qa1 = p1 - a1
    qb1 = p1 - b1
    qc1 = p1 - c1
    size = wp.max(_largest_of_two(qa0, qa1, qb0, qb1), _largest(qc0, qc1))
    gap = wp.max(tolerance, LEAST_TOLERANCE) + AXIS_ROUNDING * size

    # cull: apart along the mean direction, at both ends and so in between
    n = qa0 + qb0 + qc0 + qa1 + qb1 + qc1
    low = wp.min(_lower_of_two(n, qa0, qa1, qb0, qb1), _lower(n, qc0, qc1))
    floor = gap * _taxicab(n) + LEAST_BOUND
    if low > floor:
        return False, ONE
    if not wp.isfinite(floor):
        return True, ZERO

    # cull: never coplanar
    cubic, band = _coplanarity(b0 - a0, b1 - a1, c0 - a0, c1 - a1, qa0, qa1, gap)
    if _never_in_band(cubic, band):
        return False, ONE

    # advance with fixed axes while these separate well
    t = ZERO
    for _k in range(FAST_ROUNDS):
        t = _enter_band(cubic, band, t)
        if t > ONE:
            return False, ONE
        s = ONE - t
        qa = s * qa0 + t * qa1
        qb = s * qb0 + t * qb1
        qc = s * qc0 + t * qc1
        y = nearer(nearer(on_segment(qa, qb), on_segment(qb, qc)), on_segment(qc, qa))
        y = on_triangle(y, qa, qb, qc)
        d = wp.length(y)
        if not d > REPORT_DISTANCE * gap:
            break
        m = y / d
        ga = wp.dot(m, qa)
        gb = wp.dot(m, qb)
        gc = wp.dot(m, qc)
        if wp.min(wp.min(ga, gb), gc) < GOOD_AXIS * d + gap * (ONE - GOOD_AXIS):
            break
        x = _fraction(NEVER, ga, wp.dot(m, qa1), gap)
        x = _fraction(x, gb, wp.dot(m, qb1), gap)
        x = _fraction(x, gc, wp.dot(m, qc1), gap)
        if x > ONE:
            return False, ONE
        t = wp.max(t, _advance(t, x))

    t = _careful(t, cubic, band, gap, Corners(qa0, qb0, qc0, qc0), Corners(qa1, qb1, qc1, qc1))
    return t <= ONE, wp.min(t, ONE)


@wp.func
def ccd_edge_edge(
    a0: wp.vec3d,
    b0: wp.vec3d,
    c0: wp.vec3d,
    d0: wp.vec3d,
    a1: wp.vec3d,
    b1: wp.vec3d,
    c1: wp.vec3d,
    d1: wp.vec3d,
    tolerance: wp.float64,
) -> tuple[bool, wp.float64]:
    """Whether edge ab comes within `tolerance` of edge cd on straight paths from x0 to x1; (hit, time).

    The time is at or before the first moment at which they are that near; 1 if never. Coordinates that are not
    finite count as a hit at time 0.
    """
    # the parallelogram of differences, in cyclic order
    qa0 = a0 - c0
    qb0 = b0 - c0
    qc0 = b0 - d0
    qd0 = a0 - d0
    qa1 = a1 - c1
    qb1 = b1 - c1
    qc1 = b1 - d1
    qd1 = a1 - d1
    size = wp.max(_largest_of_two(qa0, qa1, qb0, qb1), _largest_of_two(qc0, qc1, qd0, qd1))
    gap = wp.max(tolerance, LEAST_TOLERANCE) + AXIS_ROUNDING * size

    # cull: apart along the mean direction, at both ends and so in between
    n = qa0 + qb0 + qc0 + qd0 + qa1 + qb1 + qc1 + qd1
    low = wp.min(_lower_of_two(n, qa0, qa1, qb0, qb1), _lower_of_two(n, qc0, qc1, qd0, qd1))
    floor = gap * _taxicab(n) + LEAST_BOUND
    if low > floor:
        return False, ONE
    if not wp.isfinite(floor):
        return True, ZERO

    # cull: never coplanar
    cubic, band = _coplanarity(b0 - a0, b1 - a1, d0 - c0, d1 - c1, qa0, qa1, gap)
    if _never_in_band(cubic, band):
        return False, ONE

    # advance with fixed axes while these separate well
    t = ZERO
    for _k in range(FAST_ROUNDS):
        t = _enter_band(cubic, band, t)
        if t > ONE:
            return False, ONE
        s = ONE - t
        qa = s * qa0 + t * qa1
        qb = s * qb0 + t * qb1
        qc = s * qc0 + t * qc1
        qd = s * qd0 + t * qd1
        y = nearer(nearer(on_segment(qa, qb), on_segment(qb, qc)), nearer(on_segment(qc, qd), on_segment(qd, qa)))
        y = on_parallelogram(y, qa, qb, qc, qd)
        d = wp.length(y)
        if not d > REPORT_DISTANCE * gap:
            break
        m = y / d
        ga = wp.dot(m, qa)
        gb = wp.dot(m, qb)
        gc = wp.dot(m, qc)
        gd = wp.dot(m, qd)
        if wp.min(wp.min(ga, gb), wp.min(gc, gd)) < GOOD_AXIS * d + gap * (ONE - GOOD_AXIS):
            break
        x = _fraction(NEVER, ga, wp.dot(m, qa1), gap)
        x = _fraction(x, gb, wp.dot(m, qb1), gap)
        x = _fraction(x, gc, wp.dot(m, qc1), gap)
        x = _fraction(x, gd, wp.dot(m, qd1), gap)
        if x > ONE:
            return False, ONE
        t = wp.max(t, _advance(t, x))

    t = _careful(t, cubic, band, gap, Corners(qa0, qb0, qc0, qd0), Corners(qa1, qb1, qc1, qd1))
    return t <= ONE, wp.min(t, ONE)


@wp.func
def _careful(
    time: wp.float64, cubic: wp.vec4d, band: wp.float64, gap: wp.float64, start: Corners, end: Corners
) -> wp.float64:
    """Time of collision from `time` on, or NEVER, with the best of several axes in each round, fixed or turning."""
    t = time
    stride = ONE
    for _k in range(CAREFUL_ROUNDS):
        t = _enter_band(cubic, band, t)
        if t > ONE:
            return NEVER
        q = corners_at(start, end, t)
        m, near, low = best_axis(q, gap)
        if not (near > REPORT_DISTANCE * gap and low > gap):
            return t

        # a fixed axis holds until the first corner has come down to the gap
        x = _fraction(NEVER, wp.dot(m, q.a), wp.dot(m, end.a), gap)
        x = _fraction(x, wp.dot(m, q.b), wp.dot(m, end.b), gap)
        x = _fraction(x, wp.dot(m, q.c), wp.dot(m, end.c), gap)
        x = _fraction(x, wp.dot(m, q.d), wp.dot(m, end.d), gap)
        if x > ONE:
            return NEVER
        after = _advance(t, x)

        # an axis that turns with the pair may hold for longer
        later = wp.min(t + stride, ONE)
        if later > after:
            q2 = corners_at(start, end, later)
            m2, _near2, _low2 = best_axis(q2, gap)
            if turning_axis_holds(m, m2, q, q2, gap):
                if later == ONE:
                    return NEVER
                after = later
                stride = TWO * stride
            else:
                stride = HALF * stride
        else:
            stride = TWO * stride
        if after <= t:
            return t
        t = after
    return t


@wp.func
def _coplanarity(
    e0: wp.vec3d, e1: wp.vec3d, f0: wp.vec3d, f1: wp.vec3d, r0: wp.vec3d, r1: wp.vec3d, gap: wp.float64
) -> tuple[wp.vec4d, wp.float64]:
    """Bernstein coefficients of (e x f) . r over the step, and a bound on its size where the pair is within the gap."""
    n0 = wp.cross(e0, f0)
    n1 = (wp.cross(e0, f1) + wp.cross(e1, f0)) * HALF
    n2 = wp.cross(e1, f1)
    cubic = wp.vec4d(
        wp.dot(n0, r0),
        (TWO * wp.dot(n1, r0) + wp.dot(n0, r1)) * THIRD,
        (wp.dot(n2, r0) + TWO * wp.dot(n1, r1)) * THIRD,
        wp.dot(n2, r1),
    )
    area = wp.sqrt(wp.max(wp.max(wp.dot(n0, n0), wp.dot(n1, n1)), wp.dot(n2, n2)))
    volume = _largest(e0, e1) * _largest(f0, f1) * (_largest(r0, r1) + gap)
    return cubic, gap * area + CUBIC_ROUNDING * volume + LEAST_BOUND


@wp.func
def _never_in_band(cubic: wp.vec4d, band: wp.float64) -> bool:
    low = wp.min(wp.min(cubic[0], cubic[1]), wp.min(cubic[2], cubic[3]))
    high = wp.max(wp.max(cubic[0], cubic[1]), wp.max(cubic[2], cubic[3]))
    return low > band or high < -band


@wp.func
def _enter_band(cubic: wp.vec4d, band: wp.float64, t: wp.float64) -> wp.float64:
    """The time from t on until which |cubic| certainly exceeds the band: where the hull of its control polygon enters it."""
    # de Casteljau: the coefficients on [t, 1]
    s = ONE - t
    c0 = s * cubic[0] + t * cubic[1]
    c1 = s * cubic[1] + t * cubic[2]
    b2 = s * cubic[2] + t * cubic[3]
    b1 = s * c1 + t * b2
    b0 = s * (s * c0 + t * c1) + t * b1
    b3 = cubic[3]
    if b0 < ZERO:
        b0 = -b0
        b1 = -b1
        b2 = -b2
        b3 = -b3
    if not b0 > band:
        return t
    # the hull enters the band along the first segment between control points that leads from above it to below
    x = _crossing(NEVER, ZERO, THIRD, b0, b1, band)
    x = _crossing(x, ZERO, TWO_THIRDS, b0, b2, band)
    x = _crossing(x, ZERO, ONE, b0, b3, band)
    x = _crossing(x, THIRD, THIRD, b1, b2, band)
    x = _crossing(x, THIRD, TWO_THIRDS, b1, b3, band)
    x = _crossing(x, TWO_THIRDS, THIRD, b2, b3, band)
    if x > ONE:
        return NEVER
    return wp.max(t, t + (x - STEP_BACK) * s - FOUR_UNITS)


@wp.func
def _crossing(
    x: wp.float64, left: wp.float64, width: wp.float64, b: wp.float64, c: wp.float64, band: wp.float64
) -> wp.float64:
    """The lesser of x and where the segment from (left, b) to (left + width, c) comes down to the band, if it does."""
    if b > band and c <= band:
        return wp.min(x, left + width * ((b - band) / (b - c)))
    return x


@wp.func
def _fraction(x: wp.float64, g: wp.float64, g1: wp.float64, gap: wp.float64) -> wp.float64:
    """The lesser of x and the fraction of the remaining time after which g, on its way to g1, has come down to the gap."""
    if g1 > gap:
        return x
    return wp.min(x, (g - gap) / (g - g1))


@wp.func
def _advance(t: wp.float64, fraction: wp.float64) -> wp.float64:
    """t plus a fraction of the remaining time, rounded down."""
    return (t + (ONE - t) * (fraction * SHORTEN)) - UNIT


@wp.func
def _largest(v: wp.vec3d, w: wp.vec3d) -> wp.float64:
    """The largest magnitude of a component of two vectors."""
    x = wp.max(wp.abs(v[0]), wp.abs(w[0]))
    y = wp.max(wp.abs(v[1]), wp.abs(w[1]))
    z = wp.max(wp.abs(v[2]), wp.abs(w[2]))
    return wp.max(wp.max(x, y), z)


@wp.func
def _largest_of_two(v: wp.vec3d, v1: wp.vec3d, w: wp.vec3d, w1: wp.vec3d) -> wp.float64:
    """The largest magnitude of a component of two corners, each at the start and at the end."""
    return wp.max(_largest(v, v1), _largest(w, w1))


@wp.func
def _taxicab(v: wp.vec3d) -> wp.float64:
    return wp.abs(v[0]) + wp.abs(v[1]) + wp.abs(v[2])


@wp.func
def _lower(n: wp.vec3d, v: wp.vec3d, w: wp.vec3d) -> wp.float64:
    return wp.min(wp.dot(n, v), wp.dot(n, w))


@wp.func
def _lower_of_two(n: wp.vec3d, v: wp.vec3d, v1: wp.vec3d, w: wp.vec3d, w1: wp.vec3d) -> wp.float64:
    """The lower height along n of two corners, each at the start and at the end."""
    return wp.min(_lower(n, v, v1), _lower(n, w, w1))
