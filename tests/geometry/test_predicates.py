"""Exact signs against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.geometry import predicates
from weft.geometry.predicates import orient2d, orient3d, sign_of_sum


def exact_sign(points):
    """The sign of the determinant of differences to the first point, in fractions."""
    p = [[Fraction(float(value)) for value in point] for point in points]
    m = [[value - origin for value, origin in zip(point, p[0], strict=True)] for point in p[1:]]
    if len(m) == 2:
        value = m[0][0] * m[1][1] - m[0][1] * m[1][0]
    else:
        value = sum(
            m[0][i] * (m[1][(i + 1) % 3] * m[2][(i + 2) % 3] - m[1][(i + 2) % 3] * m[2][(i + 1) % 3]) for i in range(3)
        )
    return (value > 0) - (value < 0)


def rotation(rng):
    return np.linalg.qr(rng.normal(size=(3, 3)))[0]


FAMILIES = {
    "random": lambda rng, n: rng.normal(size=(4, n, 3)),
    "lattice": lambda rng, n: rng.integers(0, 3, (4, n, 3)).astype(float),
    "tenths": lambda rng, n: rng.integers(0, 4, (4, n, 3)) * 0.1,
    "turned plane": lambda rng, n: (rng.normal(size=(4, n, 3)) * [1, 0, 1]) @ rotation(rng).T,
    "turned line": lambda rng, n: (rng.normal(size=(4, n, 3)) * [1, 0, 0]) @ rotation(rng).T,
    "far plane": lambda rng, n: 1e6 + (rng.integers(0, 4, (4, n, 3)) * [1, 0, 1] * 1e-8) @ rotation(rng).T,
    "one ulp off": lambda rng, n: np.nextafter(rng.integers(0, 3, (4, n, 3)) * 1.0, rng.integers(-1, 2, (4, n, 3)) * 9),
    "wide range": lambda rng, n: rng.integers(-1, 2, (4, n, 3)) * 10.0 ** rng.integers(-80, 80, (4, n, 3)),
    "underflow": lambda rng, n: rng.integers(-1, 2, (4, n, 3)) * 10.0 ** rng.integers(-320, 3, (4, n, 3)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_signs_are_those_of_rational_arithmetic(family):
    rng = np.random.default_rng(list(FAMILIES).index(family))
    x = FAMILIES[family](rng, 300)
    assert orient3d(*x).tolist() == [exact_sign(x[:, i]) for i in range(300)]
    y = x[:3, :, [0, 2]]
    assert orient2d(*y).tolist() == [exact_sign(y[:, i]) for i in range(300)]


def test_orientation_is_the_documented_one():
    a, b, c, above = np.eye(4, 3, k=-1)[:, None, :]
    assert orient3d(a, b, c, above).tolist() == [1]
    assert orient2d(a[:, :2], b[:, :2], c[:, :2]).tolist() == [1]


coordinate = st.one_of(
    st.integers(-3, 3).map(float),
    st.integers(-3, 3).map(lambda i: i * 0.1),
    st.floats(-1e6, 1e6, allow_nan=False),
    st.floats(-1e-290, 1e-290, allow_nan=False),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(coordinate, coordinate, coordinate), min_size=3, max_size=4))
def test_any_coordinates(points):
    x = np.array(points)[:, None, :]
    x = x[:, :, :2] if len(points) == 3 else x
    sign = (orient2d if len(points) == 3 else orient3d)(*x)
    assert sign.tolist() == [exact_sign(x[:, 0])]


@pytest.mark.parametrize("passes", [1, 40])
def test_sums_that_cancel(monkeypatch, passes):
    """Also where the last rows go to integers after too many passes."""
    monkeypatch.setattr(predicates, "_PASSES", passes)
    rng = np.random.default_rng(5)
    half = rng.normal(size=(10, 200)) * 2.0 ** rng.integers(-300, 300, (10, 200))
    tail = rng.integers(-1, 2, (1, 200)) * 2.0**-350
    terms = np.concatenate([half, tail, -half])[rng.permutation(21)]
    assert sign_of_sum(terms.copy()).tolist() == np.sign(tail[0]).tolist()


def test_what_overflows_is_refused():
    with pytest.raises(ValueError, match="finite"):
        orient2d(np.array([[1e200, 0.0]]), np.zeros((1, 2)), np.ones((1, 2)))
    with pytest.raises(ValueError, match="finite"):
        orient2d(np.array([[np.nan, 0.0]]), np.zeros((1, 2)), np.ones((1, 2)))


def test_nothing_in_nothing_out():
    assert orient3d(*np.zeros((4, 0, 3))).shape == (0,)
    assert orient2d(*np.zeros((3, 0, 2))).shape == (0,)
