"""Continuous collision detection inside kernels: `ccd_point_triangle` and `ccd_edge_edge`.

The idea, the guarantee and the derivation of every error bound are in the docstring of `weft.detection.ccd`.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

# numbers are module constants: a literal inside a kernel is float32
ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
TWO_THIRDS = wp.constant(wp.float64(2.0 / 3.0))
# unit roundoff, and the multiples of it that the bounds need
UNIT = wp.constant(wp.float64(2.0**-53))
FOUR_UNITS = wp.constant(wp.float64(4.0 * 2.0**-53))
AXIS_ROUNDING = wp.constant(wp.float64(24.0 * 2.0**-53))
CUBIC_ROUNDING = wp.constant(wp.float64(160.0 * 2.0**-53))
# factors that keep a computed time below the true one
SHORTEN = wp.constant(wp.float64(1.0 - 2.0**-50))
STEP_BACK = wp.constant(wp.float64(1e-12))
# below these, products underflow
LEAST_TOLERANCE = wp.constant(wp.float64(1e-100))
LEAST_BOUND = wp.constant(wp.float64(1e-250))
# a pair is reported when it is nearer than this times the guaranteed separation
REACH = wp.constant(wp.float64(1.25))
# an axis is good when it separates by this much of the distance
GOOD_AXIS = wp.constant(wp.float64(0.75))
# a normal is good when the corners' heights agree to this part
GOOD_NORMAL = wp.constant(wp.float64(0.25))
# a turning axis may change its length by this factor
LEAST_RATIO = wp.constant(wp.float64(0.125))
# the time of a pair that does not meet
NEVER = wp.constant(wp.float64(2.0))
FAST_ROUNDS = wp.constant(8)
ROUNDS = wp.constant(256)


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
    size = wp.max(wp.max(_largest(qa0, qa1), _largest(qb0, qb1)), _largest(qc0, qc1))
    gap = wp.max(tolerance, LEAST_TOLERANCE) + AXIS_ROUNDING * size

    # cull: apart along the mean direction, at both ends and so in between
    n = qa0 + qb0 + qc0 + qa1 + qb1 + qc1
    low = wp.min(
        wp.min(_lower(n, qa0, qa1), _lower(n, qb0, qb1)),
        _lower(n, qc0, qc1),
    )
    floor = gap * _taxicab(n) + LEAST_BOUND
    if low > floor:
        return False, ONE
    if not wp.isfinite(floor):
        return True, ZERO

    # cull: never coplanar
    cubic, band = _coplanarity(b0 - a0, b1 - a1, c0 - a0, c1 - a1, qa0, qa1, gap)
    if _never_in_band(cubic, band):
        return False, ONE

    # advance with fixed axes while that goes well
    t = ZERO
    for _k in range(FAST_ROUNDS):
        t = _enter_band(cubic, band, t)
        if t > ONE:
            return False, ONE
        s = ONE - t
        qa = s * qa0 + t * qa1
        qb = s * qb0 + t * qb1
        qc = s * qc0 + t * qc1
        y = _nearer(_nearer(_on_segment(qa, qb), _on_segment(qb, qc)), _on_segment(qc, qa))
        y = _on_triangle(y, qa, qb, qc)
        d = wp.length(y)
        if not d > REACH * gap:
            break
        m = y / d
        ga = wp.dot(m, qa)
        gb = wp.dot(m, qb)
        gc = wp.dot(m, qc)
        if wp.min(wp.min(ga, gb), gc) < GOOD_AXIS * d + gap * (ONE - GOOD_AXIS):
            break
        x = _share(NEVER, ga, wp.dot(m, qa1), gap)
        x = _share(x, gb, wp.dot(m, qb1), gap)
        x = _share(x, gc, wp.dot(m, qc1), gap)
        if x > ONE:
            return False, ONE
        t = wp.max(t, _advance(t, x))

    t = _careful(t, cubic, band, gap, qa0, qb0, qc0, qc0, qa1, qb1, qc1, qc1)
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
    size = wp.max(
        wp.max(_largest(qa0, qa1), _largest(qb0, qb1)),
        wp.max(_largest(qc0, qc1), _largest(qd0, qd1)),
    )
    gap = wp.max(tolerance, LEAST_TOLERANCE) + AXIS_ROUNDING * size

    # cull: apart along the mean direction, at both ends and so in between
    n = qa0 + qb0 + qc0 + qd0 + qa1 + qb1 + qc1 + qd1
    low = wp.min(
        wp.min(_lower(n, qa0, qa1), _lower(n, qb0, qb1)),
        wp.min(_lower(n, qc0, qc1), _lower(n, qd0, qd1)),
    )
    floor = gap * _taxicab(n) + LEAST_BOUND
    if low > floor:
        return False, ONE
    if not wp.isfinite(floor):
        return True, ZERO

    # cull: never coplanar
    cubic, band = _coplanarity(b0 - a0, b1 - a1, d0 - c0, d1 - c1, qa0, qa1, gap)
    if _never_in_band(cubic, band):
        return False, ONE

    # advance with fixed axes while that goes well
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
        y = _nearer(
            _nearer(_on_segment(qa, qb), _on_segment(qb, qc)),
            _nearer(_on_segment(qc, qd), _on_segment(qd, qa)),
        )
        y = _on_parallelogram(y, qa, qb, qc, qd)
        d = wp.length(y)
        if not d > REACH * gap:
            break
        m = y / d
        ga = wp.dot(m, qa)
        gb = wp.dot(m, qb)
        gc = wp.dot(m, qc)
        gd = wp.dot(m, qd)
        if wp.min(wp.min(ga, gb), wp.min(gc, gd)) < GOOD_AXIS * d + gap * (ONE - GOOD_AXIS):
            break
        x = _share(NEVER, ga, wp.dot(m, qa1), gap)
        x = _share(x, gb, wp.dot(m, qb1), gap)
        x = _share(x, gc, wp.dot(m, qc1), gap)
        x = _share(x, gd, wp.dot(m, qd1), gap)
        if x > ONE:
            return False, ONE
        t = wp.max(t, _advance(t, x))

    t = _careful(t, cubic, band, gap, qa0, qb0, qc0, qd0, qa1, qb1, qc1, qd1)
    return t <= ONE, wp.min(t, ONE)


@wp.func
def _careful(
    time: wp.float64,
    cubic: wp.vec4d,
    band: wp.float64,
    gap: wp.float64,
    a0: wp.vec3d,
    b0: wp.vec3d,
    c0: wp.vec3d,
    d0: wp.vec3d,
    a1: wp.vec3d,
    b1: wp.vec3d,
    c1: wp.vec3d,
    d1: wp.vec3d,
) -> wp.float64:
    """Time of contact from `time` on, with polished and with turning axes; a triangle repeats its last corner."""
    t = time
    stride = ONE
    for _k in range(ROUNDS):
        t = _enter_band(cubic, band, t)
        if t > ONE:
            return NEVER
        a = _at(a0, a1, t)
        b = _at(b0, b1, t)
        c = _at(c0, c1, t)
        d = _at(d0, d1, t)
        m, near, low = _best_axis(a, b, c, d, gap)
        if not (near > REACH * gap and low > gap):
            return t

        # a fixed axis holds until the first corner has come down to the gap
        x = _share(NEVER, wp.dot(m, a), wp.dot(m, a1), gap)
        x = _share(x, wp.dot(m, b), wp.dot(m, b1), gap)
        x = _share(x, wp.dot(m, c), wp.dot(m, c1), gap)
        x = _share(x, wp.dot(m, d), wp.dot(m, d1), gap)
        if x > ONE:
            return NEVER
        after = _advance(t, x)

        # an axis that turns with the pair may hold for longer
        later = wp.min(t + stride, ONE)
        if later > after:
            a2 = _at(a0, a1, later)
            b2 = _at(b0, b1, later)
            c2 = _at(c0, c1, later)
            d2 = _at(d0, d1, later)
            m2, _near2, _low2 = _best_axis(a2, b2, c2, d2, gap)
            if _turning_axis_holds(m, m2, gap, a, b, c, d, a2, b2, c2, d2):
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
def _best_axis(
    a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d, gap: wp.float64
) -> tuple[wp.vec3d, wp.float64, wp.float64]:
    """The unit axis that separates a planar hull from the origin best, the distance, and the separation along it."""
    y = _nearer(_nearer(_on_segment(a, b), _on_segment(b, c)), _nearer(_on_segment(c, d), _on_segment(d, a)))

    # the normal, made orthogonal to both sides once more: needles leave it few correct digits
    e = b - a
    f = d - a
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
    if wp.dot(n, a) < ZERO:
        n = -n
    ha = wp.dot(n, a)
    hb = wp.dot(n, b)
    hc = wp.dot(n, c)
    hd = wp.dot(n, d)
    lowest = wp.min(wp.min(ha, hb), wp.min(hc, hd))
    highest = wp.max(wp.max(ha, hb), wp.max(hc, hd))

    # the face counts where its normal can be trusted and the origin projects into it
    if wp.dot(n, n) > HALF and highest - lowest <= GOOD_NORMAL * wp.max(lowest, gap):
        ab = wp.dot(wp.cross(a, b), n)
        bc = wp.dot(wp.cross(b, c), n)
        cd = wp.dot(wp.cross(c, d), n)
        da = wp.dot(wp.cross(d, a), n)
        if (ab >= ZERO and bc >= ZERO and cd >= ZERO and da >= ZERO) or (
            ab <= ZERO and bc <= ZERO and cd <= ZERO and da <= ZERO
        ):
            y = _nearer(y, n * ha)

    m = wp.normalize(y)
    low = wp.min(wp.min(wp.dot(m, a), wp.dot(m, b)), wp.min(wp.dot(m, c), wp.dot(m, d)))
    if lowest > low:
        m = n
        low = lowest
    return m, wp.length(y), low


@wp.func
def _turning_axis_holds(
    m: wp.vec3d,
    m2: wp.vec3d,
    gap: wp.float64,
    a: wp.vec3d,
    b: wp.vec3d,
    c: wp.vec3d,
    d: wp.vec3d,
    a2: wp.vec3d,
    b2: wp.vec3d,
    c2: wp.vec3d,
    d2: wp.vec3d,
) -> bool:
    """Whether an axis that goes from m to m2, or the moving normal, separates all the way from abcd to a2 b2 c2 d2."""
    # beside an edge: an axis that stays perpendicular to it
    holds = _edge_axis_holds(m, m2, b - a, b2 - a2, gap, a, b, c, d, a2, b2, c2, d2)
    if not holds:
        holds = _edge_axis_holds(m, m2, c - b, c2 - b2, gap, a, b, c, d, a2, b2, c2, d2)
    if not holds:
        holds = _edge_axis_holds(m, m2, d - c, d2 - c2, gap, a, b, c, d, a2, b2, c2, d2)
    if not holds:
        holds = _edge_axis_holds(m, m2, a - d, a2 - d2, gap, a, b, c, d, a2, b2, c2, d2)
    # above the face: its normal
    if not holds:
        e = b - a
        f = d - a
        if wp.dot(wp.cross(e, f), a) < ZERO:
            e = -e
        e2 = b2 - a2
        f2 = d2 - a2
        if wp.dot(wp.cross(e, f), wp.cross(e2, f2)) < ZERO:
            e2 = -e2
        between = (wp.cross(e, f2) + wp.cross(e2, f)) * HALF
        holds = _axis_holds(wp.cross(e, f), between, wp.cross(e2, f2), gap, a, b, c, d, a2, b2, c2, d2)
    return holds


@wp.func
def _edge_axis_holds(
    m: wp.vec3d,
    m2: wp.vec3d,
    e: wp.vec3d,
    e2: wp.vec3d,
    gap: wp.float64,
    a: wp.vec3d,
    b: wp.vec3d,
    c: wp.vec3d,
    d: wp.vec3d,
    a2: wp.vec3d,
    b2: wp.vec3d,
    c2: wp.vec3d,
    d2: wp.vec3d,
) -> bool:
    """A linear axis from m to k m2; k makes it perpendicular to an edge that goes from e to e2, if it is at both ends."""
    here = -wp.dot(m, e2)
    there = wp.dot(m2, e)
    k = ONE
    if here * there > ZERO:
        k = here / there
    if k < LEAST_RATIO or k > ONE / LEAST_RATIO:
        return False
    return _axis_holds(m, (m + m2 * k) * HALF, m2 * k, gap, a, b, c, d, a2, b2, c2, d2)


@wp.func
def _axis_holds(
    m0: wp.vec3d,
    m1: wp.vec3d,
    m2: wp.vec3d,
    gap: wp.float64,
    a: wp.vec3d,
    b: wp.vec3d,
    c: wp.vec3d,
    d: wp.vec3d,
    a2: wp.vec3d,
    b2: wp.vec3d,
    c2: wp.vec3d,
    d2: wp.vec3d,
) -> bool:
    """Whether the quadratic axis with control vectors m0, m1, m2 keeps all corners more than the gap away."""
    reach = gap * wp.sqrt(wp.max(wp.max(wp.dot(m0, m0), wp.dot(m1, m1)), wp.dot(m2, m2))) + LEAST_BOUND
    return (
        _lowest_control(m0, m1, m2, a, a2) > reach
        and _lowest_control(m0, m1, m2, b, b2) > reach
        and _lowest_control(m0, m1, m2, c, c2) > reach
        and _lowest_control(m0, m1, m2, d, d2) > reach
    )


@wp.func
def _lowest_control(m0: wp.vec3d, m1: wp.vec3d, m2: wp.vec3d, q: wp.vec3d, q2: wp.vec3d) -> wp.float64:
    """Least Bernstein coefficient of (quadratic axis) . (linear corner)."""
    second = (TWO * wp.dot(m1, q) + wp.dot(m0, q2)) * THIRD
    third = (TWO * wp.dot(m1, q2) + wp.dot(m2, q)) * THIRD
    return wp.min(wp.min(wp.dot(m0, q), second), wp.min(third, wp.dot(m2, q2)))


@wp.func
def _coplanarity(
    e0: wp.vec3d, e1: wp.vec3d, f0: wp.vec3d, f1: wp.vec3d, r0: wp.vec3d, r1: wp.vec3d, gap: wp.float64
) -> tuple[wp.vec4d, wp.float64]:
    """Bernstein coefficients of (e x f) . r over the step, and how large it may be where the pair is within the gap."""
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
    """A time from t on before which |cubic| stays above the band: where the control polygon's hull enters it."""
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
    # the hull enters along the first of the segments that lead from above to below
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
def _share(x: wp.float64, g: wp.float64, g1: wp.float64, gap: wp.float64) -> wp.float64:
    """The lesser of x and the share of the remaining time after which g, on its way to g1, has come down to the gap."""
    if g1 > gap:
        return x
    return wp.min(x, (g - gap) / (g - g1))


@wp.func
def _advance(t: wp.float64, share: wp.float64) -> wp.float64:
    """t plus that share of what remains, rounded down."""
    return (t + (ONE - t) * (share * SHORTEN)) - UNIT


@wp.func
def _at(x0: wp.vec3d, x1: wp.vec3d, t: wp.float64) -> wp.vec3d:
    return (ONE - t) * x0 + t * x1


@wp.func
def _on_segment(a: wp.vec3d, b: wp.vec3d) -> wp.vec3d:
    """The point of segment ab nearest to the origin, in a direction perpendicular to it to the last digits."""
    d = b - a
    ad = wp.dot(a, d)
    bd = wp.dot(b, d)
    if ad >= ZERO:
        return a
    if bd <= ZERO:
        return b
    # measured from the nearer end, then made perpendicular once more
    dd = bd - ad
    y = b - d * (bd / dd)
    if -ad < bd:
        y = a - d * (ad / dd)
    return y - d * (wp.dot(y, d) / dd)


@wp.func
def _on_triangle(y: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """The origin's projection to triangle abc if it lies inside and is nearer than y, else y."""
    n = wp.cross(b - a, c - a)
    nn = wp.dot(n, n)
    if (
        nn > ZERO
        and wp.dot(wp.cross(a, b), n) >= ZERO
        and wp.dot(wp.cross(b, c), n) >= ZERO
        and wp.dot(wp.cross(c, a), n) >= ZERO
    ):
        return _nearer(y, n * (wp.dot(a, n) / nn))
    return y


@wp.func
def _on_parallelogram(y: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec3d:
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
        return _nearer(y, n * (wp.dot(a, n) / nn))
    return y


@wp.func
def _nearer(y: wp.vec3d, z: wp.vec3d) -> wp.vec3d:
    if wp.dot(z, z) < wp.dot(y, y):
        return z
    return y


@wp.func
def _largest(v: wp.vec3d, w: wp.vec3d) -> wp.float64:
    """The largest component of both, in size."""
    x = wp.max(wp.abs(v[0]), wp.abs(w[0]))
    y = wp.max(wp.abs(v[1]), wp.abs(w[1]))
    z = wp.max(wp.abs(v[2]), wp.abs(w[2]))
    return wp.max(wp.max(x, y), z)


@wp.func
def _taxicab(v: wp.vec3d) -> wp.float64:
    return wp.abs(v[0]) + wp.abs(v[1]) + wp.abs(v[2])


@wp.func
def _lower(n: wp.vec3d, v: wp.vec3d, w: wp.vec3d) -> wp.float64:
    return wp.min(wp.dot(n, v), wp.dot(n, w))
