"""Moving until something is in the way, against exact intersections and against all pairs."""

import numpy as np
import pytest
import warp as wp
from ccd_pairs import edge_edge, point_triangle
from finish_scenes import bodies_of, crumpled
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.finish.stop import SafeMove
from weft.geometry.intersection import intersections
from weft.mesh import shapes
from weft.world import Surface

SEEDS = st.integers(0, 2**32 - 1)


def two_sheets(gap, cells=6):
    bodies, faces, x = bodies_of(
        ("lower", "cloth", shapes.grid((1.0, 1.0), (cells, cells))),
        ("upper", "cloth", shapes.grid((1.0, 1.0), (cells, cells), diagonals="same")),
    )
    x[bodies[1].vertices, 1] += gap
    return bodies, faces, x


def surface_of(faces, count):
    return Surface.from_arrays(count, faces)


@settings(max_examples=25, deadline=None)
@given(SEEDS, st.sampled_from([1e-3, 0.02, 0.2]))
def test_the_end_is_free_of_intersections(seed, way):
    """Wild goals from a clean start: whatever happens, nothing intersects, and everything is on its way."""
    _bodies, faces, x = crumpled(seed, roughness=0.003)
    if len(intersections(x, faces)):
        return
    goal = x + np.random.default_rng(seed).normal(scale=way, size=x.shape)
    moved = SafeMove(surface_of(faces, len(x))).go(x, goal)
    assert len(intersections(moved.positions, faces)) == 0
    assert ((moved.fraction >= 0.0) & (moved.fraction <= 1.0)).all()
    np.testing.assert_allclose(moved.positions, x + moved.fraction[:, None] * (goal - x), atol=1e-15)
    np.testing.assert_array_equal(moved.positions[moved.fraction == 1.0], goal[moved.fraction == 1.0])
    assert moved.stopped == (moved.fraction < 1.0).sum()


def test_what_is_free_goes_all_the_way():
    _, faces, x = two_sheets(0.1)
    goal = x + np.random.default_rng(0).normal(scale=0.01, size=x.shape)
    moved = SafeMove(surface_of(faces, len(x))).go(x, goal)
    assert moved.stopped == 0
    np.testing.assert_array_equal(moved.positions, goal)


def test_sheets_stop_before_they_meet():
    """The lower one rises into the upper one: it stops below, near, and nothing else is stopped early."""
    bodies, faces, x = two_sheets(0.01)
    goal = x.copy()
    goal[bodies[0].vertices, 1] += 0.02
    moved = SafeMove(surface_of(faces, len(x)), near=1e-4).go(x, goal)
    lower, upper = (moved.positions[b.vertices, 1] for b in bodies)
    assert (upper == 0.01).all()
    assert lower.max() < 0.01 - 1e-4 and lower.min() > 0.005
    assert moved.stopped == len(lower)
    assert len(intersections(moved.positions, faces)) == 0


def test_gaps_do_not_decay():
    """Pairs nearer than the least distance lose at most half of it each time, others stop at the least distance."""
    bodies, faces, x = two_sheets(5e-4)
    goal = x.copy()
    goal[bodies[0].vertices, 1] += 1.0
    move = SafeMove(surface_of(faces, len(x)), near=1e-4)
    for _ in range(4):
        x = move.go(x, goal).positions
    assert x[bodies[1].vertices, 1].min() - x[bodies[0].vertices, 1].max() > 1e-4 / 2**4


def test_held_vertices_stay():
    _, faces, x = two_sheets(0.1)
    held = np.zeros(len(x), bool)
    held[::3] = True
    goal = x + 0.01
    moved = SafeMove(surface_of(faces, len(x))).go(x, goal, held=held)
    np.testing.assert_array_equal(moved.positions[held], x[held])
    np.testing.assert_array_equal(moved.positions[~held], goal[~held])


def test_pairs_to_skip_are_not_looked_at():
    bodies, faces, x = two_sheets(0.01)
    goal = x.copy()
    goal[bodies[0].vertices, 1] += 0.02
    moved = SafeMove(surface_of(faces, len(x))).go(x, goal, skip=lambda kind, pairs: np.ones(len(pairs), bool))
    assert moved.stopped == 0
    np.testing.assert_array_equal(moved.positions, goal)


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_sifting_loses_no_pair_that_could_meet(seed):
    """Any vertex may stop anywhere on its way: pairs that then meet are among those that prefilter kept."""
    _bodies, faces, x = crumpled(seed, cells=4, roughness=0.004)
    rng = np.random.default_rng(seed)
    goal = x + rng.normal(scale=0.02, size=x.shape)
    surface = surface_of(faces, len(x))
    move = SafeMove(surface, near=1e-3)
    arrays = [wp.array(p, dtype=wp.vec3d, device="cpu") for p in (x, goal)]
    kinds, stencils, _least = move._pairs(*arrays, None)
    kept = {(int(k), *map(int, q)) for k, q in zip(kinds, stencils, strict=True)}

    # all pairs that share no vertex, at random parts of their ways
    edges = surface.edges.numpy()
    vertex, face = (a.ravel() for a in np.meshgrid(np.arange(len(x)), np.arange(len(faces)), indexing="ij"))
    triangles = np.column_stack([vertex, faces[face]])
    one, other = np.triu_indices(len(edges), 1)
    crossed = np.concatenate([edges[one], edges[other]], axis=1)
    for kind, rows, meet in ((0, triangles, point_triangle), (1, crossed, edge_edge)):
        rows = rows[[len(set(r)) == 4 for r in rows.tolist()]]
        end = x + rng.uniform(size=(len(x), 1)) * (goal - x)
        hit, _ = meet(x[rows], end[rows], 1e-12)
        found = {(kind, *map(int, r)) for r in rows[hit]}
        # two edges may be listed in either order
        lost = [f for f in found if f not in kept and (kind == 0 or (kind, *f[3:], *f[1:3]) not in kept)]
        assert not lost


@pytest.mark.parametrize("threads", [1, 2])
def test_threads_do_not_change_the_result(threads):
    from weft.runtime import get_threads, set_threads

    _bodies, faces, x = crumpled(3, cells=20, roughness=0.002)
    goal = x + np.random.default_rng(1).normal(scale=0.02, size=x.shape)
    before = get_threads()
    try:
        set_threads(threads)
        moved = SafeMove(surface_of(faces, len(x))).go(x, goal)
        set_threads(1)
        again = SafeMove(surface_of(faces, len(x))).go(x, goal)
    finally:
        set_threads(before)
    np.testing.assert_array_equal(moved.positions, again.positions)
