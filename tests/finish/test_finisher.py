"""Finished frames: smooth where they may be, clean where they were, never worse where they were not."""

import numpy as np
import pytest
from finish_scenes import bodies_of, crumpled, draped, over_ball
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import WeftError
from weft.finish import Finisher
from weft.geometry.intersection import intersections, sewn_pairs
from weft.mesh import shapes

SEEDS = st.integers(0, 2**32 - 1)


def count(finisher, x, level=-1):
    """Intersections by the public function, cloth against everything."""
    chosen = finisher.levels[level]
    body = np.repeat(np.arange(len(chosen.bodies)), [b.faces.stop - b.faces.start for b in chosen.bodies])
    cloth = np.array([b.kind == "cloth" for b in chosen.bodies])
    return len(intersections(x, chosen.faces, face_body=body, body_pairs=cloth[:, None] | cloth[None, :]))


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_clean_frame_is_clean_at_every_level(levels):
    bodies, faces, x = draped()
    finisher = Finisher(bodies, faces, x, levels=levels)
    assert count(finisher, x, 0) == 0
    finished = finisher.finish(x)
    assert count(finisher, finished.positions) == 0
    assert len(finished.stopped) == levels and sum(finished.stopped) > 0
    assert finished.problems == [] and finished.held == 0 and finished.pushed == 0
    # what it is for: smoothing alone draws the sheet into the box
    assert count(finisher, finisher.plain(x)) > 0


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_folded_sheets_stay_clean(seed):
    bodies, faces, x = crumpled(seed, roughness=0.004)
    finisher = Finisher(bodies, faces, x, levels=2)
    if count(finisher, x, 0):
        return
    assert count(finisher, finisher.finish(x).positions) == 0


def test_cloth_that_nothing_is_near_is_plain_loop():
    bodies, faces, x = crumpled(0, roughness=0.0)
    x[:, 1] += np.abs(x[:, 0]) * np.where(x[:, 1] > 0.02, 0.5, 0.0)
    finisher = Finisher(bodies, faces, x, levels=2)
    finished = finisher.finish(x)
    assert finished.stopped == (0, 0)
    np.testing.assert_array_equal(finished.positions, finisher.plain(x))


def test_colliders_do_not_move_and_vertices_stay_near():
    bodies, faces, x = draped()
    finisher = Finisher(bodies, faces, x, levels=2)
    finished = finisher.finish(x)
    np.testing.assert_array_equal(finished.positions[finisher.levels[-1].bodies[1].vertices], x[bodies[1].vertices])
    # between the triangle and Loop's place: never farther off than smoothing takes it
    split = finisher.levels[1].split(finisher.levels[0].split(x))
    assert np.abs(finished.positions - split).max() <= 2.0 * np.abs(finisher.plain(x) - split).max()


def test_velocities_follow_the_positions():
    """A frame that moves as a whole has the same velocity everywhere, stopped or not."""
    bodies, faces, x = draped()
    finisher = Finisher(bodies, faces, x, levels=2)
    finished = finisher.finish(x, np.full_like(x, (1.0, -2.0, 0.5)))
    np.testing.assert_allclose(finished.velocities, np.full_like(finished.positions, (1.0, -2.0, 0.5)), atol=1e-12)
    assert sum(finished.stopped) > 0
    # and where nothing is stopped, velocities are smoothed by the same rule
    bodies, faces, x = crumpled(0, roughness=0.0)
    finisher = Finisher(bodies, faces, x, levels=1, near=1e-6)
    v = np.random.default_rng(0).normal(size=x.shape)
    finished = finisher.finish(x, v)
    if finished.stopped == (0,):
        np.testing.assert_allclose(finished.velocities, finisher.plain(v), atol=1e-14)


@settings(max_examples=10, deadline=None)
@given(SEEDS)
def test_tangled_frames_get_no_new_pair(seed):
    """A sheet through itself: the pairs of triangles that intersect are the same before and after."""
    bodies, faces, x = crumpled(seed, roughness=0.04)
    finisher = Finisher(bodies, faces, x, levels=2)
    before = finisher.intersections(x, 0)
    finished = finisher.finish(x)
    after = finisher.intersections(finished.positions)
    assert finisher.source_pairs(after) == finisher.source_pairs(before, 0)
    assert finished.before == len(before)
    assert (finished.held > 0) == (len(before) > 0) == bool(finished.problems)


def test_triangles_that_intersect_are_left_as_they_are():
    bodies, faces, x = crumpled(1, roughness=0.04)
    finisher = Finisher(bodies, faces, x, levels=1)
    finished = finisher.finish(x)
    rows = finisher.intersections(x, 0)
    assert len(rows)
    split = finisher.levels[0].split(x)
    own = np.isin(finisher.levels[1].source, finisher.triangles_of(rows))
    corners = finisher.levels[1].faces[own]
    np.testing.assert_array_equal(finished.positions[corners], split[corners])


@pytest.mark.parametrize("gap", [1e-4, -0.004, -0.03])
def test_cloth_that_cuts_through_a_ball_is_brought_outside(gap):
    bodies, faces, x = over_ball(gap)
    finisher = Finisher(bodies, faces, x, levels=2)
    assert count(finisher, x, 0) > 50
    finished = finisher.finish(x)
    assert count(finisher, finished.positions) == 0
    assert finished.pushed > 0 and finished.problems == [] and len(finished.kept) == 0
    # it was pushed no farther than it was deep, and a little
    moved = np.linalg.norm(finished.positions[: len(x) - 162] - x[:-162], axis=1)
    assert moved.max() < abs(gap) + 0.06


def test_layers_make_room_for_each_other():
    """Three sheets over a ball, 4 mm apart, the innermost through it: those above go along."""
    sheets = [(f"sheet {k}", "cloth", shapes.grid((1.0, 1.0), (16, 16))) for k in range(3)]
    bodies, faces, x = bodies_of(*sheets, ("ball", "collider", shapes.icosphere(0.3, subdivisions=2)))
    for k, body in enumerate(bodies[:3]):
        cloth = x[body.vertices]
        from_axis = np.hypot(cloth[:, 0], cloth[:, 2])
        height = np.sqrt(np.maximum((0.296 + 0.004 * k) ** 2 - from_axis**2, 0.0))
        cloth[:, 1] = np.where(from_axis < 0.3, height, 0.0) + 0.004 * k
    finisher = Finisher(bodies, faces, x, levels=1)
    assert count(finisher, x, 0) > 100
    finished = finisher.finish(x)
    assert finished.problems == [] and count(finisher, finished.positions) == 0


def test_cloth_that_went_through_the_floor_is_brought_back():
    """An open collider: back to the side where most of the cloth is."""
    sheet, floor = shapes.grid((1.0, 1.0), (12, 12)), shapes.plane((3.0, 3.0))
    bodies, faces, x = bodies_of(("sheet", "cloth", sheet), ("floor", "collider", floor))
    below = (np.abs(x[:169, 0]) < 0.2) & (np.abs(x[:169, 2]) < 0.2)
    x[:169, 1] = np.where(below, -0.01, 0.02)
    finisher = Finisher(bodies, faces, x, levels=1)
    assert count(finisher, x, 0) > 0
    finished = finisher.finish(x)
    assert count(finisher, finished.positions) == 0
    assert finished.positions[finisher.levels[1].bodies[0].vertices, 1].min() > 0.0


def test_cloth_on_both_sides_of_a_plate_is_left_there():
    """A sheet folded round the rim of an open plate: a vertex that pokes through goes back, the fold stays."""
    _, _, x = crumpled(0, cells=12, roughness=0.0)
    sheet, plate = shapes.grid((1.0, 1.0), (12, 12)), shapes.plane((1.0, 3.0)).transformed(_shift(0.6, 0.015))
    bodies, faces, y = bodies_of(("sheet", "cloth", sheet), ("plate", "collider", plate))
    y[: len(x)] = x
    finisher = Finisher(bodies, faces, y, levels=1)
    assert count(finisher, y, 0) == 0
    poking = 6 * 13 + 9
    assert y[poking, 1] == 0.03
    y[poking, 1] = 0.012
    assert count(finisher, y, 0) > 0
    finished = finisher.finish(y)
    assert count(finisher, finished.positions) == 0
    assert finished.pushed == 1
    under = np.flatnonzero((x[:, 1] == 0.0) & (x[:, 0] > 0.2))
    assert finished.positions[under, 1].max() < 0.015 < finished.positions[poking, 1]


def test_what_cannot_be_removed_is_said():
    """A held, tangled sheet inside a ball stays there, and the status says so."""
    bodies, faces, x = crumpled(2, roughness=0.05)
    ball = shapes.icosphere(0.2, subdivisions=2)
    bodies, faces, y = bodies_of(("sheet", "cloth", shapes.grid((1.0, 1.0), (8, 8))), ("ball", "collider", ball))
    y[: len(x)] = x
    finisher = Finisher(bodies, faces, y, levels=1)
    finished = finisher.finish(y)
    after = finisher.intersections(finished.positions)
    assert finisher.source_pairs(after) == finisher.source_pairs(finished.kept, 0)
    assert len(finished.kept) <= finished.before
    assert any("triangles intersect in this frame" in p for p in finished.problems)


def test_seams_may_touch():
    """Two sheets sewn edge to edge on the same points: smoothed along the seam, which stays together."""
    left, right = shapes.grid((1.0, 1.0), (6, 6)), shapes.grid((1.0, 1.0), (6, 6))
    bodies, faces, x = bodies_of(("left", "cloth", left), ("right", "cloth", right))
    x[49:, 0] += 1.0
    x[:, 1] = 0.1 * np.sin(5.0 * x[:, 0]) * np.cos(4.0 * x[:, 2])
    stitches = [(j * 7 + 6, 49 + j * 7, 49 + j * 7) for j in range(7)]
    pairs = sewn_pairs(faces, stitches)
    free = Finisher(bodies, faces, x, levels=2, sewn=pairs)
    finished = free.finish(x)
    assert finished.before == 0 and finished.stopped == (0, 0)
    np.testing.assert_array_equal(finished.positions, free.plain(x))
    assert len(free.intersections(finished.positions)) == 0
    # without the seam the sheets touch, and touching counts
    touching = Finisher(bodies, faces, x, levels=1)
    assert touching.finish(x).before > 0


def test_bad_input():
    bodies, faces, x = draped(cells=3)
    with pytest.raises(WeftError, match="levels must be 1 to 5, not 0"):
        Finisher(bodies, faces, x, levels=0)
    with pytest.raises(WeftError, match="levels must be 1 to 5, not 9"):
        Finisher(bodies, faces, x, levels=9)
    with pytest.raises(WeftError, match="near must be a distance"):
        Finisher(bodies, faces, x, near=0.0)
    with pytest.raises(WeftError, match="no cloth to subdivide"):
        Finisher(bodies[1:], faces, x)
    bad = x.copy()
    bad[3] = np.nan
    with pytest.raises(WeftError, match="vertex 3"):
        Finisher(bodies, faces, x, levels=1).finish(bad)


def _shift(x, y):
    matrix = np.eye(4)
    matrix[:2, 3] = x, y
    return matrix
