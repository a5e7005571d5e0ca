"""Nearest points against exact rational arithmetic, in every region and for every degenerate shape."""

from fractions import Fraction

import distance_pairs as proximity
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

Point = tuple[Fraction, Fraction, Fraction]


def exact(point: np.ndarray) -> Point:
    return tuple(Fraction(float(value)) for value in point)  # type: ignore[return-value]


def minus(a: Point, b: Point) -> Point:
    return (a[0] - b[0], a[1] - b[1], a[2] - b[2])


def dot(a: Point, b: Point) -> Fraction:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def squared_to_segment(p: Point, a: Point, b: Point) -> Fraction:
    ab, ap = minus(b, a), minus(p, a)
    length = dot(ab, ab)
    s = min(max(dot(ap, ab) / length, Fraction(0)), Fraction(1)) if length else Fraction(0)
    r = tuple(x - s * y for x, y in zip(ap, ab, strict=True))
    return dot(r, r)  # type: ignore[arg-type]


def squared_point_triangle(points: np.ndarray) -> Fraction:
    """Least over the three edges and, where the plane's foot point lies inside, the plane."""
    p, a, b, c = map(exact, points)
    least = min(squared_to_segment(p, a, b), squared_to_segment(p, b, c), squared_to_segment(p, c, a))
    ab, ac, ap = minus(b, a), minus(c, a), minus(p, a)
    d, e, f, g, h = dot(ab, ab), dot(ab, ac), dot(ac, ac), dot(ab, ap), dot(ac, ap)
    area = d * f - e * e
    if area:
        v, w = (f * g - e * h) / area, (d * h - e * g) / area
        if v >= 0 and w >= 0 and v + w <= 1:
            r = tuple(ap[k] - v * ab[k] - w * ac[k] for k in range(3))
            least = min(least, dot(r, r))  # type: ignore[arg-type]
    return least


def squared_edge_edge(points: np.ndarray) -> Fraction:
    a, b, c, d = map(exact, points)
    ends = [(a, c, d), (b, c, d), (c, a, b), (d, a, b)]
    least = min(squared_to_segment(*end) for end in ends)
    u, v, r = minus(b, a), minus(d, c), minus(a, c)
    A, B, C, D, E = dot(u, u), dot(u, v), dot(v, v), dot(u, r), dot(v, r)
    area = A * C - B * B
    if area:
        s, t = (B * E - C * D) / area, (A * E - B * D) / area
        if 0 <= s <= 1 and 0 <= t <= 1:
            gap = tuple(r[k] + s * u[k] - t * v[k] for k in range(3))
            least = min(least, dot(gap, gap))  # type: ignore[arg-type]
    return least


CASES = {
    "point_triangle": (proximity.point_triangle, squared_point_triangle),
    "edge_edge": (proximity.edge_edge, squared_edge_edge),
}


def check(name: str, points: np.ndarray, relative: float = 1e-8) -> None:
    measure, oracle = CASES[name]
    distance, weights = (values[0] for values in measure(points[None]))
    w = weights.tolist()
    # the weights name a point of each side
    assert np.isfinite(w).all()
    assert abs(sum(w)) < 1e-15
    first = w[:1] if name == "point_triangle" else w[:2]
    second = w[1:] if name == "point_triangle" else w[2:]
    assert abs(sum(first) - 1.0) < 1e-15 and min(first) >= 0.0 and max(second) <= 0.0
    # the distance is the one that the weights give, and within rounding the least
    size = float(np.abs(points - points[0]).max())
    vector = sum(wk * (xk - points[0]) for wk, xk in zip(w, points, strict=True))
    assert distance == pytest.approx(np.linalg.norm(vector), abs=1e-14 * size)
    least = float(oracle(points)) ** 0.5
    assert distance >= least - 1e-14 * size
    assert distance <= least + relative * size


@pytest.mark.parametrize("name", CASES)
def test_every_region_on_a_lattice(name: str) -> None:
    # small whole coordinates: vertices, edges, inside, collinear and equal points, parallel and crossing edges
    rng = np.random.default_rng(0)
    for _ in range(3000):
        check(name, rng.integers(-2, 3, (4, 3)).astype(float), 1e-15)


def test_regions_of_a_triangle_by_hand() -> None:
    a, b, c = np.array([0.0, 0.0, 0.0]), np.array([2.0, 0.0, 0.0]), np.array([0.0, 2.0, 0.0])
    expected = {
        (-1.0, -1.0, 1.0): (1.0, 0.0, 0.0),
        (3.0, -1.0, 0.0): (0.0, 1.0, 0.0),
        (-1.0, 5.0, 0.0): (0.0, 0.0, 1.0),
        (1.0, -1.0, 2.0): (0.5, 0.5, 0.0),
        (-3.0, 1.0, 0.0): (0.5, 0.0, 0.5),
        (2.0, 2.0, 1.0): (0.0, 0.5, 0.5),
        (0.5, 0.5, 7.0): (0.5, 0.25, 0.25),
    }
    points = np.array([[p, a, b, c] for p in expected])
    _, weights = proximity.point_triangle(points)
    np.testing.assert_allclose(-weights[:, 1:], list(expected.values()), atol=1e-15)


def test_crossing_parallel_and_degenerate_edges_by_hand() -> None:
    points = np.array(
        [
            [[-1, 0, 0], [1, 0, 0], [0, -1, 1], [0, 1, 1]],
            [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]],
            [[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 1, 0]],
            [[0, 0, 0], [0, 0, 0], [-1, 1, 0], [1, 1, 0]],
            [[0, 0, 0], [0, 0, 0], [0, 3, 4], [0, 3, 4]],
        ],
        float,
    )
    distance, weights = proximity.edge_edge(points)
    np.testing.assert_allclose(distance, [1.0, 1.0, 2**0.5, 1.0, 5.0])
    np.testing.assert_allclose(weights[0], [0.5, 0.5, -0.5, -0.5])
    np.testing.assert_allclose(weights[3, 2:], [-0.5, -0.5])


coordinate = st.floats(-1.0, 1.0, allow_subnormal=False)
four_points = st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=4, max_size=4)


@settings(max_examples=400, deadline=None)
@given(name=st.sampled_from(sorted(CASES)), points=four_points, scale=st.sampled_from([1e-6, 1.0, 1e3]))
def test_any_points(name: str, points: list, scale: float) -> None:
    check(name, np.array(points) * scale)


@settings(max_examples=400, deadline=None)
@given(
    name=st.sampled_from(sorted(CASES)),
    seed=st.integers(0, 2**32 - 1),
    thin=st.sampled_from([0.0, 1e-16, 1e-14, 1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3]),
    height=st.sampled_from([0.0, 1e-12, 1e-8, 1e-4, 1e-2, 1.0]),
)
@example(name="edge_edge", seed=0, thin=1e-8, height=1.0)
def test_needles_and_nearly_parallel_edges(name: str, seed: int, thin: float, height: float) -> None:
    rng = np.random.default_rng(seed)
    line, side, up = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    if name == "point_triangle":
        # three points on a line, bent by `thin`, and a point above
        places = rng.uniform(-1.0, 1.0, 3)
        triangle = places[:, None] * line + rng.uniform(-thin, thin, (3, 1)) * side
        points = np.concatenate([[rng.uniform(-1, 1) * line + rng.uniform(-thin, thin) * side + height * up], triangle])
    else:
        first = rng.uniform(-1, 1, (2, 1)) * line
        second = rng.uniform(-1, 1, (2, 1)) * line + rng.uniform(-thin, thin, (2, 1)) * side + height * up
        points = np.concatenate([first, second])
    check(name, points)


@settings(max_examples=400, deadline=None)
@given(
    name=st.sampled_from(sorted(CASES)),
    points=four_points,
    shape=st.sampled_from(
        [(0, 1, 1, 1), (0, 1, 1, 3), (0, 1, 2, 1), (0, 1, 2, 2), (0, 0, 0, 0), (0, 0, 2, 0), (0, 1, 0, 1)]
    ),
    scale=st.sampled_from([1e-150, 1e-6, 1.0, 1e3]),
)
def test_collapsed_edges_and_points(name: str, points: list, shape: tuple, scale: float) -> None:
    # corners that coincide exactly: an edge, or the whole triangle, is a point, and p may be one of the corners
    check(name, np.array(points)[list(shape)] * scale)


@settings(max_examples=200, deadline=None)
@given(
    ends=st.lists(st.tuples(*[st.integers(-9, 9)] * 3), min_size=3, max_size=3),
    place=st.sampled_from([-1, 0, 1, 2, 3]),
    corner=st.integers(0, 2),
)
def test_triangles_without_area(ends: list, place: int, corner: int) -> None:
    # the third corner is on the line through the other two, exactly
    p, a, b = np.array(ends, float)
    triangle = np.roll([a, b, a + place * (b - a)], corner, axis=0)
    check("point_triangle", np.array([p, *triangle]), 1e-15)


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(sorted(CASES)), seed=st.integers(0, 2**32 - 1))
def test_far_from_the_origin(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    check(name, 1e6 + rng.uniform(-0.01, 0.01, (4, 3)))


@pytest.mark.parametrize("name", CASES)
def test_no_sampled_point_is_nearer(name: str) -> None:
    rng = np.random.default_rng(5)
    points = rng.uniform(-1.0, 1.0, (200, 4, 3))
    distance, _ = CASES[name][0](points)
    if name == "point_triangle":
        weights = rng.dirichlet([0.5, 0.5, 0.5], 2000)
        sampled = points[:, :1] - np.einsum("sk,nkx->nsx", weights, points[:, 1:])
    else:
        s, t = rng.uniform(size=(2, 2000, 1))
        one, other = points[:, None, 0] * (1 - s) + points[:, None, 1] * s, points[:, None, 2] * (1 - t)
        sampled = one - other - points[:, None, 3] * t
    nearest = np.linalg.norm(sampled, axis=2).min(axis=1)
    assert (distance <= nearest).all()
    assert (nearest - distance < 0.2).all()


def test_no_pairs() -> None:
    for measure in (proximity.point_triangle, proximity.edge_edge):
        distance, weights = measure(np.zeros((0, 4, 3)))
        assert distance.shape == (0,) and weights.shape == (0, 4)
