"""The theory against the numbers that textbooks and standards give."""

import numpy as np
import pytest

from weft.scene.material import MATERIALS
from weft.validate import theory


@pytest.mark.parametrize(
    ("weight", "ratio"), [(1.0, 0.1246), (10.0, 1.067), (30.0, 2.547), (100.0, 5.888), (1000.0, 21.34)]
)
def test_heavy_cantilever(weight, ratio):
    shape = theory.heavy_cantilever(weight)
    assert shape.ratio == pytest.approx(ratio, rel=5e-4)
    assert theory.weight_from_ratio(shape.ratio) == pytest.approx(weight, rel=1e-5)
    # the curve has the length of the strip, and starts level
    assert np.linalg.norm(np.diff(shape.curve, axis=0), axis=1).sum() == pytest.approx(1.0, abs=2e-3)
    assert shape.curve[1, 1] < 0.1 * shape.curve[1, 0]


def test_a_light_strip_bends_as_a_beam():
    # small deflections: G / 8
    assert theory.heavy_cantilever(0.01).drop == pytest.approx(0.01 / 8.0, rel=1e-5)


def test_bending_length():
    assert theory.bending_weight() == pytest.approx(8.004, abs=1e-3)
    lengths = {"cotton": 30.1, "silk": 27.3, "denim": 39.4, "wool": 31.9}
    for preset, expected in lengths.items():
        numbers = {"cotton": (0.15, 5e-6), "silk": (0.08, 2e-6), "denim": (0.4, 3e-5), "wool": (0.25, 1e-5)}[preset]
        assert preset in MATERIALS and 1e3 * theory.bending_length(*numbers) == pytest.approx(expected, abs=0.1)


def test_buckling_and_swing():
    assert theory.buckling_weight() == pytest.approx(18.18, abs=5e-3)
    # a strip that cannot warp at the clamp: more the wider it is, and the narrow strip in the limit
    assert theory.buckling_weight(0.2) == pytest.approx(20.70, abs=5e-3)
    assert theory.buckling_weight(0.03) == pytest.approx(18.18 + 0.1 * 3.4, abs=0.03)
    assert theory.first_swing(1.0, 1.0, 1.0) == pytest.approx(0.5596, abs=1e-4)


def test_stretching():
    assert theory.hanging_strain(0.2, 200.0, 0.5) == pytest.approx(0.2 * 9.81 * 0.5 / 400.0)
    # a material that is the same in all directions, without Poisson effect, has shear = stretch / 2
    assert theory.bias_stiffness(100.0, 100.0, 50.0) == pytest.approx(100.0)
    assert theory.belt_ratio(0.3, np.pi) == pytest.approx(2.566, abs=1e-3)
