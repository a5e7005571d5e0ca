"""Collisions of a step against all pairs, and what their stencils say."""

import ccd_pairs as ccd
import distance_pairs as proximity
import numpy as np
import pytest
from crumpled import positions
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from step_scenes import (
    Motion,
    all_pairs,
    distances,
    folded,
    key,
    keys,
    make_contact_list,
    make_search,
    take,
    two_sheets,
)

from weft.contact.ccd_tests import COLLISION_DISTANCE, START_FRACTION, TARGET_GAP

SEEDS = st.integers(0, 2**32 - 1)
# a seed does not shrink to anything simpler
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)


def collisions(motion):
    """What is found from the candidates of the motion itself."""
    search, rows = make_search(motion), make_contact_list()
    start, end = positions(motion.start), positions(motion.end)
    search.list_candidates(start, end)
    search.find_collisions(start, end, rows)
    return take(search, rows)


def least(distance):
    return np.minimum(COLLISION_DISTANCE, float(START_FRACTION) * distance)


@settings(max_examples=8, deadline=None, phases=QUICK)
@given(seed=SEEDS, folds=st.booleans())
def test_every_pair_that_meets_is_found(seed, folds):
    motion = folded(speed=0.02, seed=seed) if folds else two_sheets(fall=0.03, seed=seed)
    found = keys(collisions(motion))
    assert found
    for kind, (detect, rows) in enumerate(zip((ccd.point_triangle, ccd.edge_edge), all_pairs(motion), strict=True)):
        hit, _ = detect(motion.start[rows], motion.end[rows], 0.0)
        assert hit.any()
        missed = [row for row in rows[hit] if key(kind, row) not in found]
        assert not missed


def test_a_triangle_that_turns_about_its_centre_is_found():
    """Its corners move although it does not on average: it passes the tip of another that stands still."""
    tip = np.array([[0.1, -0.02, 0.1], [0.12, -0.2, 0.1], [0.1, -0.2, 0.12]])
    start = np.concatenate([tip, [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]])
    end = start.copy()
    end[3:, 1] = -0.06, 0.03, 0.03
    motion = Motion(start, end, np.array([[0, 1, 2], [3, 4, 5]]), np.array([0, 1]), start)
    found = keys(collisions(motion))
    assert key(0, [0, 3, 4, 5]) in found
    for kind, (detect, rows) in enumerate(zip((ccd.point_triangle, ccd.edge_edge), all_pairs(motion), strict=True)):
        hit, _ = detect(start[rows], end[rows], 0.0)
        assert {key(kind, row) for row in rows[hit]} <= found


@settings(max_examples=8, deadline=None, phases=QUICK)
@given(seed=SEEDS)
def test_nothing_is_found_that_stays_away(seed):
    """A pair is told only if it comes as near as it may not, or a quarter more, on its way."""
    motion = two_sheets(fall=0.012, seed=seed)
    found = collisions(motion)
    times = np.linspace(0.0, 1.0, 2001)
    for kind, measure in enumerate((proximity.point_triangle, proximity.edge_edge)):
        rows = found.vertices[found.kind == kind]
        for row in rows[:20]:
            way = motion.start[row] + times[:, None, None] * (motion.end[row] - motion.start[row])
            along = measure(way)[0]
            # between two samples it can come nearer by half a step of its motion
            step = np.linalg.norm(motion.end[row] - motion.start[row], axis=1).max() / 2000
            assert along.min() <= 1.25 * least(along[0]) + step


@pytest.mark.parametrize(("gap", "way"), [(5e-5, [0, 1e-3, 0]), (5e-5, [0, -1.5e-5, 0]), (2e-4, [0.01, 0.0, 0.004])])
def test_pairs_that_are_near_are_not_stuck(gap, way):
    """The distance that a pair keeps shrinks with its gap: it may part, settle a little, and slide."""
    motion = two_sheets(fall=0.0, gap=gap, rough=0.0)
    assert distances(motion)[0].min() == pytest.approx(gap)
    end = motion.start.copy()
    end[len(end) // 2 :] += way
    assert len(collisions(motion._replace(end=end)).kind) == 0


def test_a_response_aims_for_more_than_the_gap_that_a_near_pair_has():
    """Otherwise gaps shrink by a part in every step, until nothing is left of them and nothing ends."""
    assert float(START_FRACTION) * float(TARGET_GAP) > 1.05
    # and a pair at its least distance is not a hit at the very start: the detector sees a quarter farther
    assert float(START_FRACTION) * 1.25 < 0.8


@settings(max_examples=8, deadline=None, phases=QUICK)
@given(seed=SEEDS)
def test_stencils_of_collisions_are_measured_at_the_start_along_the_normal_of_the_impact(seed):
    motion = two_sheets(fall=0.02, seed=seed)
    found = collisions(motion)
    r = np.einsum("ik,ikd->id", found.weights, motion.start[found.vertices])
    assert np.allclose(np.einsum("id,id->i", r, found.normals), found.gaps, atol=1e-14)
    assert np.abs(np.linalg.norm(found.normals, axis=1) - 1.0).max() < 1e-14
    # the gap closes along that normal, which is what the impulse is about, except where the triangle turns a lot
    end = np.einsum("ik,ikd,id->i", found.weights, motion.end[found.vertices], found.normals)
    assert (end < found.thickness).mean() > 0.9
    assert (found.gaps > 0.0).mean() > 0.95
    for kind, measure in enumerate((proximity.point_triangle, proximity.edge_edge)):
        chosen = found.kind == kind
        start = measure(motion.start[found.vertices[chosen]])[0]
        assert np.allclose(found.thickness[chosen], float(TARGET_GAP) * least(start), rtol=1e-6)


def test_still_surfaces_do_not_collide():
    motion = two_sheets(fall=0.0)
    assert len(collisions(motion._replace(end=motion.start)).kind) == 0


def test_a_vertex_through_a_triangle_within_a_step():
    """The smallest collision: one vertex through the middle of one triangle of another body."""
    start = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1], [0.3, 0.5, 0.3], [0.3, 9, 0.3], [0.4, 9, 0.3]], float)
    end = start.copy()
    end[3, 1] = -0.5
    motion = two_sheets()._replace(
        start=start, end=end, faces=np.array([[0, 1, 2], [3, 4, 5]], np.int32), body=np.array([0, 1]), rest=start
    )
    found = collisions(motion)
    assert keys(found) == {(0, 3, (0, 1, 2))}
    assert found.normals[0] == pytest.approx([0, 1, 0], abs=1e-9)
    assert found.gaps[0] == pytest.approx(0.5, abs=1e-9)
    assert found.weights[0] == pytest.approx([1, -0.4, -0.3, -0.3], abs=1e-6)
