"""Light: what is in the open is lit as by the formula, what is covered is darker, and it is the same every time."""

import numpy as np
import pytest

from weft.mesh import shapes
from weft.view.light import FILM, Lights, disc_directions, open_light, sphere_directions
from weft.view.stage import import_pyvista

LAMP = np.array([0.0, 1.0, 0.0])


@pytest.fixture(scope="module")
def roof():
    """Light with a roof, one metre square, half a metre over the ground."""
    pyvista = import_pyvista()
    sheet = shapes.grid((1.0, 1.0), (8, 8))
    casters = pyvista.PolyData.from_regular_faces(sheet.vertices + [0.0, 0.5, 0.0], sheet.faces)
    lights = Lights(pyvista, casters, LAMP, centre=np.array([0.0, 0.3, 0.0]), radius=1.0, quality=FILM)
    yield lights
    lights.close()


def upwards(points):
    points = np.asarray(points, dtype=np.float64)
    return points, np.tile([0.0, 1.0, 0.0], (len(points), 1))


def test_below_the_roof_it_is_darker_than_in_the_open(roof):
    points, normals = upwards([[0.0, 0.0, 0.0], [0.45, 0.0, 0.0], [3.0, 0.0, 0.0], [0.0, 0.5, 0.0]])
    front, _ = roof.shine(points, normals, reach=4.0)
    under, edge, away, top = front.mean(axis=1)
    assert under < edge < away
    assert under < 0.35 * away
    # the roof does not shade itself, and points outside the maps are in the open
    assert top == pytest.approx(away, rel=0.05)


def test_in_the_open_the_sum_over_directions_is_the_formula(roof):
    rng = np.random.default_rng(4)
    normals = rng.normal(size=(40, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    points = np.tile([0.0, 0.0, 9.0], (40, 1))
    for summed, formula in zip(roof.shine(points, normals, reach=12.0), open_light(normals, LAMP), strict=True):
        np.testing.assert_allclose(summed, formula, atol=0.12)


def test_the_back_is_lit_from_behind(roof):
    points = np.tile([0.0, 0.0, 9.0], (2, 1))
    normals = np.array([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    front, back = roof.shine(points, normals, reach=12.0)
    np.testing.assert_allclose(front, back[::-1])
    assert front[0].mean() > 3.0 * front[1].mean()


def test_light_is_the_same_every_time(roof):
    points, normals = upwards(np.random.default_rng(1).uniform(-1, 1, size=(50, 3)) * [1.0, 0.0, 1.0])
    first = roof.shine(points, normals, reach=4.0)
    second = roof.shine(points, normals, reach=4.0)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("count", [8, 24, 72])
def test_directions_are_spread_evenly(count):
    directions = sphere_directions(count)
    np.testing.assert_allclose(np.linalg.norm(directions, axis=1), 1.0)
    assert np.linalg.norm(directions.mean(axis=0)) < 0.3 / np.sqrt(count)
    lamp = np.array([1.0, 2.0, -1.0]) / np.sqrt(6.0)
    disc = disc_directions(lamp, count, 7.0)
    np.testing.assert_allclose(np.linalg.norm(disc, axis=1), 1.0)
    assert (disc @ lamp > np.cos(np.radians(7.01))).all()
