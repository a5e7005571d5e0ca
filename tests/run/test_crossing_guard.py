"""The guard of every frame: the same intersections as the exact finder, whatever crosses."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.geometry.intersection import intersection_finder
from weft.run import crossing_guard
from weft.run.crossing_guard import CrossingGuard
from weft.world import World


def world_of():
    """Two sheets and a ball."""
    sheets = [
        weft.Cloth(
            name=name, shape=weft.Grid(size=(0.4, 0.4), cells=(7, 7)), placement=weft.Placement(position=(0, y, 0))
        )
        for name, y in (("lower", 0.0), ("upper", 0.05))
    ]
    ball = weft.Collider(shape=weft.Sphere(radius=0.1, subdivisions=2), placement=weft.Placement(position=(0, -0.2, 0)))
    return World(weft.Scene(cloths=sheets, colliders=[ball]))


WORLD = world_of()
GUARD = CrossingGuard(WORLD)
FINDER = intersection_finder(WORLD)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), size=st.sampled_from([0.0, 1e-3, 0.01, 0.03, 0.1, 0.5]), snap=st.booleans())
def test_it_finds_what_the_exact_finder_finds(seed, size, snap):
    """Crumpled by any amount; on a lattice vertices, edges and planes touch exactly."""
    x = WORLD.initial_state().positions() + size * np.random.default_rng(seed).normal(size=(WORLD.vertex_count, 3))
    if snap:
        x = np.round(x * 32.0) / 32.0
    found = GUARD.find(wp.array(x, dtype=wp.vec3d, device="cpu"))
    np.testing.assert_array_equal(found, FINDER.find(x))


def test_free_frames_need_no_exact_arithmetic(monkeypatch):
    monkeypatch.setattr(crossing_guard, "intersection_finder", lambda world: pytest.fail("looked exactly"))
    assert len(CrossingGuard(WORLD).find(WORLD.initial_state().x)) == 0


def test_one_crossing_among_many_is_seen():
    """A single vertex pushed through the sheet beside it."""
    x = WORLD.initial_state().positions()
    x[27, 1] = 0.051
    found = GUARD.find(wp.array(x, dtype=wp.vec3d, device="cpu"))
    assert len(found) > 0 and (27 in found[:, :2] or 27 in WORLD.faces[found[:, 2]])
