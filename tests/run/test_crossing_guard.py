"""The guard of every frame: the same intersections as the exact finder, whatever crosses."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.geometry.intersection import intersection_finder
from weft.run import crossing_guard
from weft.run.crossing_guard import CrossingGuard, is_flat_fan, make_fans
from weft.runtime import launch
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


@wp.kernel
def flat_fans(first: int, fans: crossing_guard.Fans, x: wp.array[wp.vec3d], flat: wp.array[int]):
    i = first + wp.tid()
    flat[i] = int(is_flat_fan(fans, i, x))


def flat_centres(faces, x):
    """The vertices whose triangles are certain to lie side by side."""
    faces, x = np.asarray(faces, np.int32), np.asarray(x, float)
    fans = make_fans(faces, np.ones(len(faces), bool), "cpu")
    flat = wp.zeros(len(fans.vertices), dtype=int, device="cpu")
    launch(flat_fans, len(flat), [fans, wp.array(x, dtype=wp.vec3d, device="cpu"), flat], device="cpu")
    return set(fans.vertices.numpy()[flat.numpy() == 1].tolist())


def fan(turns, sides, *, closed, lift=0.01):
    """Triangles around vertex 0 that turn around it so many times, rising on the way and, if closed, down again."""
    angles = 2.0 * np.pi * turns * np.arange(sides + (not closed)) / sides
    height = np.abs(np.arange(len(angles)) - 0.5 * len(angles)) if closed else np.arange(len(angles))
    rim = np.column_stack([np.cos(angles), np.sin(angles), lift * height])
    next_one = (np.arange(sides) + 1) % len(angles)
    faces = np.column_stack([np.zeros(sides, int), np.arange(sides) + 1, next_one + 1])
    return faces, np.vstack([np.zeros(3), rim])


def test_fans_that_go_around_once_are_flat():
    for turns, closed in ((1.0, True), (0.9, False), (0.5, False), (0.99, False)):
        faces, x = fan(turns, 7, closed=closed)
        assert flat_centres(faces, x) == {0}, (turns, closed)
        rng = np.random.default_rng(3)
        shuffled = rng.permutation(len(faces))
        turned = np.array([np.roll(face, rng.integers(3)) for face in faces[shuffled]])
        assert flat_centres(turned, x) == {0}


def test_fans_that_go_around_more_than_once_are_not_flat():
    for turns, closed in ((2.0, True), (1.01, False), (1.2, False), (1.9, False), (2.3, False)):
        assert flat_centres(*fan(turns, 14, closed=closed)) == set(), (turns, closed)


def test_no_two_triangles_of_a_flat_fan_cross():
    """The exact test of all pairs agrees, around vertices with any number of triangles, some of which cross."""
    rng, flat, crossing = np.random.default_rng(5), 0, 0
    for _ in range(300):
        closed = bool(rng.random() < 0.5)
        turns = float(rng.integers(1, 3)) if closed else rng.uniform(0.3, 1.6)
        faces, x = fan(turns, int(rng.integers(5, 12)), closed=closed, lift=rng.uniform(0.0, 0.3))
        x[1:] += rng.choice([0.0, 0.1, 0.4]) * rng.normal(size=(len(x) - 1, 3))
        x[1:] *= rng.uniform(0.2, 1.0, size=(len(x) - 1, 1))
        crosses = len(weft.intersections(x, faces)) > 0
        crossing += crosses
        if flat_centres(faces, x):
            flat += 1
            assert not crosses
    assert flat > 60 and crossing > 60


def test_fans_of_triangles_that_face_differently_are_not_flat():
    faces, x = fan(1.0, 7, closed=True)
    x[3] *= -0.3
    assert flat_centres(faces, x) == set()
    reversed_one = fan(1.0, 7, closed=True)[0]
    reversed_one[2] = reversed_one[2][::-1]
    assert flat_centres(reversed_one, fan(1.0, 7, closed=True)[1]) == set()
    # two fans that share their vertex alone
    both = np.vstack([fan(0.3, 4, closed=False)[0], np.where(fan(0.3, 4, closed=False)[0] > 0, 5, 0) + faces[:4]])
    assert flat_centres(both, np.random.default_rng(0).normal(size=(int(both.max()) + 1, 3))) == set()


def test_nearly_all_fans_of_a_sheet_are_flat():
    mesh = WORLD.cloths[0].mesh
    inner = 6 * 6
    assert len(flat_centres(mesh.faces, mesh.vertices)) >= inner


def test_a_fold_at_a_vertex_is_found():
    """Triangles that cross have one vertex in common, and nothing else in the mesh crosses."""
    faces, x = fan(2.0, 8, closed=True, lift=0.2)
    cloth = weft.Cloth(mesh=weft.TriMesh(x, faces))
    world = World(weft.Scene(cloths=[cloth]))
    found = CrossingGuard(world).find(wp.array(x, dtype=wp.vec3d, device="cpu"))
    assert len(found) > 0 and 0 in world.faces[found[:, 2]]
    np.testing.assert_array_equal(found, intersection_finder(world).find(x))
