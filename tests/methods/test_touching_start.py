"""`robust` and `boxes`: cloth that is placed exactly on something, or on other cloth, lies on it."""

import numpy as np
import pytest

import weft


def grid(name="cloth", *, size=0.2, cells=6, position=(0.0, 0.0, 0.0), rotation_deg=(0.0, 0.0, 0.0), **options):
    placement = weft.Placement(position=position, rotation_deg=rotation_deg)
    shape = weft.Grid(size=(size, size), cells=(cells, cells))
    return weft.Cloth(name=name, shape=shape, placement=placement, **options)


def lying(*cloths, **options):
    """Cloth at a height of 0, and a block whose top is there."""
    block = weft.Collider(shape=weft.Box(size=(0.6, 0.2, 0.6)), placement=weft.Placement(position=(0.0, -0.1, 0.0)))
    return weft.Scene(cloths=cloths, colliders=[block], thickness=0.002, frames=40, **options)


@pytest.mark.parametrize("names", ["a", "ab", "abcd"])
def test_cloth_that_is_placed_exactly_on_something_lies_on_it(tmp_path, names):
    scene = lying(*(grid(name, size=0.3) for name in names))
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    assert not cache.report["intersections"].any()
    assert cache.report["steps"].max() == 6
    assert set(cache.report["status"]) == {"ok"}
    for layer, body in enumerate(cache.bodies[:-1]):
        heights = cache.positions(-1)[body.vertices][:, 1]
        assert heights == pytest.approx(0.002 * (layer + 1), rel=0.2)
        # nobody sees what it took
        assert np.abs(cache.positions(0)[body.vertices][:, 1]).max() < 1e-5


def test_a_hem_that_touches_the_floor_stays_above_it(tmp_path):
    scene = lying(grid(position=(0.0, 0.1, 0.0), rotation_deg=(90.0, 0.0, 0.0)))
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    assert not cache.report["intersections"].any()
    assert set(cache.report["status"]) == {"ok"}


def test_pins_on_something_do_not_hold_up_the_rest(tmp_path):
    scene = lying(grid(pins=[weft.Pin(boundary="left")]))
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    # only the held row touches still
    assert cache.report["steps"].max() == 6
    assert cache.report["zones"].sum() == 0
    cloth = cache.positions(-1)[cache.bodies[0].vertices]
    assert cloth[cloth[:, 0] > -0.05][:, 1].min() > 0.001


def test_a_run_that_started_on_something_goes_on_with_the_same_bytes(tmp_path):
    scene = lying(grid())
    whole = weft.simulate(scene, tmp_path / "whole.zarr", progress=False)
    weft.simulate(scene, tmp_path / "parts.zarr", frames=3, progress=False)
    parts = weft.simulate(scene, tmp_path / "parts.zarr", resume=True, progress=False)
    assert np.array_equal(whole.positions(-1), parts.positions(-1))


@pytest.mark.parametrize("names", ["a", "ab"])
def test_boxes_lie_on_it_too(tmp_path, names):
    scene = lying(*(grid(name, size=0.3) for name in names), method="boxes")
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    assert not cache.report["intersections"].any()
    assert set(cache.report["status"]) == {"ok"}
    assert cache.positions(-1)[: cache.bodies[-1].vertices.start, 1].min() > 0.0
