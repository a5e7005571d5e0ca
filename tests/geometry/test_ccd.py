"""Continuous collision detection against exact arithmetic: no miss, no late time, no far alarm."""

import ccd_families
import ccd_pairs as ccd
import exact
import numpy as np
import pytest
import warp as wp
from ccd_families import KINDS
from hypothesis import HealthCheck, given, settings, target
from hypothesis import strategies as st

from weft.runtime import get_threads, launch, set_threads

DETECT = {"point_triangle": ccd.point_triangle, "edge_edge": ccd.edge_edge}
TRUTH = {"point_triangle": exact.point_triangle, "edge_edge": exact.edge_edge}
# orders of the four vertices that describe the same pair
ORDERS = {
    "point_triangle": [(0, 1, 3, 2), (0, 2, 1, 3), (0, 2, 3, 1), (0, 3, 1, 2), (0, 3, 2, 1)],
    "edge_edge": [(1, 0, 2, 3), (0, 1, 3, 2), (1, 0, 3, 2), (2, 3, 0, 1), (3, 2, 0, 1), (3, 2, 1, 0)],
}
TOLERANCES = (1e-6, 0.0)
UNIT = 2.0**-53


def size_of(start, end):
    """The largest coordinate difference between the vertices of each pair, which rounding is measured by."""
    return np.max([np.ptp(x, axis=-2).max(axis=-1) for x in (start, end)], axis=0)


def reach_of(start, end, tolerance):
    """How far apart a reported pair may be: what the module promises."""
    return 1.2501 * tolerance + 40 * UNIT * size_of(start, end) + 1e-99


def distance(kind, start, end, time):
    return float(exact.distance_squared(kind, start, end, time)) ** 0.5


def check(kind, start, end):
    """Compare with the truth at every tolerance; gives the number of hits and the worst distance over its limit."""
    contacts = [TRUTH[kind](*pair) for pair in zip(start, end, strict=True)]
    worst = 0.0
    for tolerance in TOLERANCES:
        hit, time = DETECT[kind](start, end, tolerance)
        reach = reach_of(start, end, tolerance)
        for i, contact in enumerate(contacts):
            case = f"{kind} at tolerance {tolerance}: start {start[i].tolist()} end {end[i].tolist()}"
            assert 0.0 <= time[i] <= 1.0, case
            if contact is not None:
                assert hit[i], f"missed {case}"
                assert float(time[i]) <= contact.high, f"late {case}"
            if hit[i]:
                apart = distance(kind, start[i], end[i], float(time[i]))
                worst = max(worst, apart / reach[i])
                assert apart <= reach[i], f"{apart} m apart when reported, {reach[i]} allowed: {case}"
            else:
                assert time[i] == 1.0, case
    return sum(contact is not None for contact in contacts), worst


@pytest.mark.parametrize("name", ccd_families.families())
def test_family_against_exact_truth(name):
    hits = 0
    for kind in KINDS:
        rng = np.random.default_rng([len(name), *name.encode()])
        hits += check(kind, *ccd_families.families()[name](rng, kind, 50))[0]
    # a family that never touches could not show a miss; hovering pairs only test the alarms
    assert hits > 0 or "hover" in name


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", ccd_families.families())
def test_family_at_length(name):
    for kind in KINDS:
        for seed in range(4):
            rng = np.random.default_rng([seed, *name.encode()])
            check(kind, *ccd_families.families()[name](rng, kind, 1000))


# coordinates that coincide, align and cancel: small integers, fractions, tiny offsets, and anything
INTEGERS = st.integers(-3, 3).map(float)
FRACTIONS = st.builds(lambda a, b: a / b, st.integers(-64, 64), st.sampled_from([3.0, 7.0, 8.0, 10.0, 64.0]))
OFFSETS = st.builds(
    lambda a, k, s: a + s * 10.0**-k, st.integers(-2, 2), st.integers(1, 18), st.sampled_from([-1.0, 1.0])
)
ANYTHING = st.floats(-1e3, 1e3) | st.floats(-1e50, 1e50) | st.floats(-1e-290, 1e-290)
POOLS = st.one_of(
    *(
        st.lists(coordinate, min_size=2, max_size=12)
        for coordinate in (INTEGERS, FRACTIONS, OFFSETS, INTEGERS | OFFSETS, INTEGERS | FRACTIONS | OFFSETS | ANYTHING)
    )
)


@st.composite
def pairs(draw):
    """A pair whose coordinates come from a small pool, so that vertices stand still, coincide or stay in a plane."""
    pool = np.array(draw(POOLS))
    # one draw for all places: Hypothesis is slow over many small ones
    places = np.frombuffer(draw(st.binary(min_size=24, max_size=24)), dtype=np.uint8)
    x = pool[places % len(pool)].reshape(2, 1, 4, 3)
    # collapse vertices, stop them, or flatten the pair, but not mostly
    vertex, other, axis, stop = draw(st.tuples(*[st.integers(-6, 3)] * 3, st.integers(0, 15)))
    if vertex >= 0 and other >= 0:
        x[:, :, vertex] = x[:, :, other]
    if 0 <= axis < 3:
        x[..., axis] = x[:, :, :1, axis]
    still = [bool(stop >> k & 1) for k in range(4)]
    x[1][:, still] = x[0][:, still]
    return draw(st.sampled_from(KINDS)), x[0], x[1]


def search(pair):
    kind, start, end = pair
    return check(kind, start, end)[1]


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs())
def test_search(pair):
    search(pair)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=60_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pairs())
def test_long_search(pair):
    target(search(pair))


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_vertices_does_not_matter(kind):
    rng = np.random.default_rng(1)
    start, end = ccd_families.cloth(rng, kind, 20_000)
    hit, time = DETECT[kind](start, end)
    assert 300 < hit.sum() < 10_000
    for order in ORDERS[kind]:
        other, when = DETECT[kind](start[:, order], end[:, order])
        # answers may differ only where the pair passes between the tolerance and the reach
        for i in np.flatnonzero(hit != other):
            t = time[i] if hit[i] else when[i]
            assert 1e-6 < distance(kind, start[i], end[i], float(t)) < 1.3e-6
        both = hit & other
        np.testing.assert_allclose(time[both], when[both], atol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_moving_and_turning_the_pair_does_not_matter(kind):
    rng = np.random.default_rng(2)
    start, end = ccd_families.cloth(rng, kind, 5_000)
    hit, time = DETECT[kind](start, end)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    shift = rng.normal(size=3)
    other, when = DETECT[kind](start @ turn + shift, end @ turn + shift)
    for i in np.flatnonzero(hit != other):
        t = time[i] if hit[i] else when[i]
        assert 0.99e-6 < distance(kind, start[i], end[i], float(t)) < 1.3e-6


@pytest.mark.parametrize("kind", KINDS)
def test_backwards_and_in_halves(kind):
    """A pair that meets meets backwards too, and in one of the halves of the step."""
    rng = np.random.default_rng(3)
    for family in ("lattice", "coplanar", "grazing_exact", "interior_exact"):
        start, end = ccd_families.families()[family](rng, kind, 300)
        truth = np.array([TRUTH[kind](a, b) is not None for a, b in zip(start, end, strict=True)])
        assert truth.any()
        assert DETECT[kind](end, start, 0.0)[0][truth].all()
        half = (start + end) / 2
        halves = [DETECT[kind](*ends, 0.0) for ends in ((start, half), (half, end))]
        assert (halves[0][0] | halves[1][0])[truth].all()
        # the whole step may be cut at the time the first half says, never later
        whole = DETECT[kind](start, end, 1e-6)[1]
        first = halves[0][0] & truth
        assert (whole[first] <= halves[0][1][first] / 2 + 1e-6).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_larger_tolerance_is_reached_earlier(kind):
    rng = np.random.default_rng(4)
    start, end = ccd_families.cloth(rng, kind, 5_000)
    previous, before = DETECT[kind](start, end, 0.0)
    for tolerance in (1e-9, 1e-6, 1e-5, 1e-4, 1e-3):
        hit, time = DETECT[kind](start, end, tolerance)
        assert (hit | ~previous).all()
        assert (time <= before).all()
        previous, before = hit, time
    assert previous.sum() > 2 * DETECT[kind](start, end, 0.0)[0].sum()


@pytest.mark.parametrize("kind", KINDS)
def test_the_tolerance_is_kept_until_the_reported_time(kind):
    rng = np.random.default_rng(5)
    start, end = ccd_families.cloth(rng, kind, 400)
    tolerance = 1e-3
    hit, time = DETECT[kind](start, end, tolerance)
    assert 20 < hit.sum() < 380
    for i in range(len(hit)):
        for share in np.linspace(0, 1, 12)[:-1]:
            if not hit[i] or time[i] > 0:
                assert distance(kind, start[i], end[i], share * float(time[i])) > tolerance


@pytest.mark.parametrize("kind", KINDS)
def test_against_ipctk(kind):
    ipctk = pytest.importorskip("ipctk")
    rng = np.random.default_rng(6)
    start, end = ccd_families.cloth(rng, kind, 3_000)
    hit, time = DETECT[kind](start, end)
    narrow = ipctk.TightInclusionCCD(max_iterations=10_000)
    judge = narrow.point_triangle_ccd if kind == "point_triangle" else narrow.edge_edge_ccd
    theirs = np.array([judge(*a, *b)[0] for a, b in zip(start, end, strict=True)])
    assert hit.sum() > 50
    # both are conservative: what only one reports must not touch
    for i in np.flatnonzero(hit != theirs):
        assert TRUTH[kind](start[i], end[i]) is None
        if hit[i]:
            assert distance(kind, start[i], end[i], float(time[i])) < 1.3e-6


def test_extreme_sizes():
    """Nanometre triangles at 1e6 m, and coordinates of 1e50 m, 1e-50 m and less than any normal number."""
    start = np.array([(0.25, 0.25, 1), (0, 0, 0), (1, 0, 0), (0, 1, 0)])
    end = start.copy()
    end[0, 2] = -1
    miss = start.copy()
    miss[0] = (1.5, 1.5, -1)
    for scale in (5e49, 1e30, 1e-9, 1e-50):
        hit, time = ccd.point_triangle([scale * start] * 2, [scale * end, scale * miss], 0.0)
        assert hit.tolist() == [True, False]
        assert time[0] == pytest.approx(0.5, abs=1e-9)
    offset = np.array([1e6, -1e6, 1e6])
    # 2^-30 m is representable at 1e6 m
    hit, time = ccd.point_triangle([offset + 2.0**-28 * start] * 2, [offset + 2.0**-28 * x for x in (end, miss)], 0.0)
    assert hit.tolist() == [True, False]
    # below the least tolerance all is contact: safe, if not sharp
    assert ccd.point_triangle([1e-320 * start], [1e-320 * end], 0.0)[0].all()


def test_no_pairs():
    hit, time = ccd.point_triangle(np.zeros((0, 4, 3)), np.zeros((0, 4, 3)))
    assert hit.shape == time.shape == (0,)
    assert hit.dtype == np.bool_
    assert time.dtype == np.float64


def test_lists_integers_and_strided_arrays():
    start = [[(0, 0, 1), (-1, -1, 0), (1, -1, 0), (0, 1, 0)]]
    end = [[(0, 0, -1), (-1, -1, 0), (1, -1, 0), (0, 1, 0)]]
    hit, time = ccd.point_triangle(start, end)
    assert hit.tolist() == [True]
    assert 0.499 < time[0] <= 0.5
    wide = np.zeros((1, 4, 6))
    wide[..., ::2] = start
    assert ccd.point_triangle(wide[..., ::2], end)[1] == time


@pytest.mark.parametrize("kernel", [ccd.point_triangle_pairs, ccd.edge_edge_pairs])
def test_kernels_take_nan_for_a_hit(kernel):
    """Inside kernels nothing refuses a bad coordinate: it must not look like a miss."""
    start = np.random.default_rng(9).normal(size=(24, 4, 3)) + np.array([[[10.0, 0, 0]], [[0.0, 0, 0]]] * 12)
    start[:, 0] += 100.0
    end = start.copy()
    for row in range(24):
        (start, end)[row // 12].reshape(24, 12)[row, row % 12] = np.nan if row % 2 else np.inf
    hit = wp.zeros(24, dtype=wp.bool, device="cpu")
    time = wp.zeros(24, dtype=wp.float64, device="cpu")
    ends = [wp.array(x.reshape(-1, 3), dtype=wp.vec3d, device="cpu") for x in (start, end)]
    launch(kernel, 24, [*ends, 1e-6, hit, time])
    assert hit.numpy().all()


def test_threads_do_not_change_the_answer():
    rng = np.random.default_rng(10)
    threads = get_threads()
    for kind in KINDS:
        start, end = ccd_families.cloth(rng, kind, 30_000)
        answers = []
        try:
            for count in (1, 3):
                set_threads(count)
                hit, time = DETECT[kind](start, end)
                answers.append((hit.tobytes(), time.tobytes()))
        finally:
            set_threads(threads)
        assert answers[0] == answers[1]
