"""Collisions of a moving surface against continuous detection of all pairs."""

import ccd_pairs as ccd
import numpy as np
import pytest
from crumpled import crumpled, positions, sheet
from hypothesis import given, settings
from hypothesis import strategies as st
from test_contacts import all_pairs, keys, some_faces

from weft.broad_phase import BROAD_PHASES, make_broad_phase
from weft.contact import collisions
from weft.contact.contact import CollisionSearch
from weft.errors import WeftError
from weft.runtime import get_threads, set_threads
from weft.world import Surface


def check_against_all_pairs(start: np.ndarray, end: np.ndarray, faces: np.ndarray, tolerance: float) -> int:
    found = collisions(start, end, faces, tolerance=tolerance)
    assert len(keys(found.kind, found.vertices)) == len(found.kind), "a collision was listed twice"
    assert ((found.time >= 0.0) & (found.time <= 1.0)).all()
    times = dict(zip((_key(k, v) for k, v in zip(found.kind, found.vertices, strict=True)), found.time, strict=True))
    for kind, rows in enumerate(all_pairs(faces, len(start))):
        detect = (ccd.point_triangle, ccd.edge_edge)[kind]
        hit, time = detect(start[rows], end[rows], tolerance)
        for row, when in zip(rows[hit], time[hit], strict=True):
            # the same features in the same order give the same time; edges may come in another order
            assert times.pop(_key(kind, row)) == pytest.approx(when, abs=1e-3)
    assert not times, "a pair that does not meet was listed"
    return len(found.kind)


def _key(kind: int, vertices: np.ndarray) -> tuple:
    return next(iter(keys(np.array([kind]), np.array([vertices]))))


def test_collisions_of_a_folded_sheet_are_those_of_all_pairs() -> None:
    start, end, faces = crumpled(9)
    assert check_against_all_pairs(start, end, faces, 1e-6) > 100


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    tolerance=st.sampled_from([1e-6, 1e-3]),
    speed=st.sampled_from([0.0, 0.1, 1.0]),
    scale=st.sampled_from([1e-3, 1.0]),
)
def test_any_triangles(seed: int, tolerance: float, speed: float, scale: float) -> None:
    rng = np.random.default_rng(seed)
    faces = some_faces(rng, 20, 14)
    start = rng.uniform(-1.0, 1.0, (20, 3)) * scale
    end = start + rng.normal(0.0, 1.0, start.shape) * speed * scale
    check_against_all_pairs(start, end, faces, tolerance)


def test_a_point_that_falls_through_a_triangle_meets_it_on_the_way() -> None:
    start = np.array([[0, 0, 0], [3, 0, 0], [0, 0, 3], [0.5, 1, 0.5], [0.5, 9, 0.5], [0.6, 9, 0.5]], float)
    end = start.copy()
    end[3, 1] = -1.0
    found = collisions(start, end, [[0, 1, 2], [3, 4, 5]])
    assert found.kind.tolist()[0] == 0
    assert found.vertices[0].tolist() == [3, 0, 1, 2]
    assert found.time[0] == pytest.approx(0.5, abs=1e-5)
    # moved along with the triangle it does not
    assert len(collisions(start, start + [0.0, -2.0, 0.0], [[0, 1, 2], [3, 4, 5]]).kind) == 0


def test_threads_and_broad_phases_do_not_change_the_collisions() -> None:
    start, end, faces = crumpled(30)
    threads = get_threads()
    try:
        results = []
        for count, name in enumerate(["bvh", *BROAD_PHASES], start=1):
            set_threads(count)
            results.append(collisions(start, end, faces, broad_phase=name))
    finally:
        set_threads(threads)
    assert len(results[0].kind) > 100
    for result in results[1:]:
        for one, other in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_free_share_of_a_step_is_the_earliest_time() -> None:
    faces = sheet(20)
    # two flat sheets, the one moves through the other
    side = np.linspace(0.0, 1.0, 21)
    y, z = np.meshgrid(side, side)
    start = np.stack([np.zeros_like(y), y, z], axis=-1).reshape(-1, 3)
    start = np.concatenate([start, start + [0.1, 0.0, 0.0]])
    end = start + np.concatenate([np.zeros((441, 3)), np.tile([-0.4, 0.0, 0.0], (441, 1))])
    both = np.concatenate([faces, faces + 441])
    surface = Surface.from_arrays(len(start), both)
    search = CollisionSearch(make_broad_phase("bvh", surface))
    free = search.free_step(positions(start), positions(end))
    assert free == pytest.approx(0.25, abs=1e-4) and free <= 0.25
    assert free == collisions(start, end, both).time.min()
    assert search.free_step(positions(start), positions(start + 5.0)) == 1.0


def test_nothing_to_find_and_bad_input() -> None:
    for vertices, faces in ((np.zeros((0, 3)), []), (np.eye(3), [[0, 1, 2]])):
        found = collisions(vertices, vertices + 1.0, faces)
        assert found.kind.shape == (0,) and found.vertices.shape == (0, 4) and found.time.shape == (0,)
    with pytest.raises(WeftError, match="start has 3 vertices and end 2"):
        collisions(np.eye(3), np.eye(3)[:2], [[0, 1, 2]])
    with pytest.raises(WeftError, match="end holds coordinates that are not finite"):
        collisions(np.eye(3), np.full((3, 3), np.inf), [[0, 1, 2]])
    with pytest.raises(WeftError, match="tolerance must be a length"):
        collisions(np.eye(3), np.eye(3), [[0, 1, 2]], tolerance=-1e-6)
