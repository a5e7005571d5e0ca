"""Contacts of a step: every vertex that is or comes near has one, and each is what it says."""

import distance_pairs as proximity
import numpy as np
import pytest
from crumpled import positions
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from step_scenes import THICKNESS, all_pairs, distances, folded, keys, make_contact_list, make_search, take, two_sheets

from weft.contact.step_search import USUAL_REACH

SEEDS = st.integers(0, 2**32 - 1)
# a seed does not shrink to anything simpler
QUICK = (Phase.explicit, Phase.reuse, Phase.generate)
EDGE_PART = 0.8
CLOSE = 4e-4


def contacts(motion, *, reach=USUAL_REACH, **options):
    search, rows = make_search(motion, **options), make_contact_list()
    start, end = positions(motion.start), positions(motion.end)
    assert search.find_contacts(start, end, rows, reach=reach) == rows.count
    return search, take(search, rows)


@settings(max_examples=8, deadline=None, phases=QUICK)
@given(seed=SEEDS, fall=st.floats(0.0, 0.03), folds=st.booleans())
def test_contacts_are_stencils_of_the_start(seed, fall, folds):
    motion = folded(speed=fall, seed=seed) if folds else two_sheets(fall=fall, seed=seed)
    _, found = contacts(motion)
    assert len(found.kind) > 0
    assert len(keys(found)) == len(found.kind), "a pair was listed twice"
    assert np.abs(found.weights.sum(axis=1)).max() < 1e-15
    assert np.abs(np.linalg.norm(found.normals, axis=1) - 1.0).max() < 1e-14
    r = np.einsum("ik,ikd->id", found.weights, motion.start[found.vertices])
    assert np.allclose(found.gaps[:, None] * found.normals, r, atol=1e-14)
    for kind, measure in enumerate((proximity.point_triangle, proximity.edge_edge)):
        chosen = found.kind == kind
        assert np.allclose(found.gaps[chosen], measure(motion.start[found.vertices[chosen]])[0], atol=1e-12)
    # near now, or near at the end
    end = np.einsum("ik,ikd,id->i", found.weights, motion.end[found.vertices], found.normals)
    reach = np.where(found.kind == 0, 1.0, EDGE_PART) * USUAL_REACH * THICKNESS
    assert (np.minimum(found.gaps, end) < found.thickness + reach + 1e-15).all()


def test_a_longer_reach_has_contacts_farther_away():
    motion = two_sheets(gap=0.018, fall=0.0, rough=0.0)
    _, usual = contacts(motion)
    _, farther = contacts(motion, reach=1.0)
    assert len(usual.kind) == 0
    assert set(farther.kind.tolist()) == {0}
    _, nearer = contacts(two_sheets(gap=0.012, fall=0.0, rough=0.0), reach=1.0)
    assert set(nearer.kind.tolist()) == {0, 1}


@settings(max_examples=8, deadline=None, phases=QUICK)
@given(seed=SEEDS)
def test_what_is_very_near_in_a_crease_is_kept_from_closing(seed):
    """In a crushed crease the surface leads from every point down to the other: cones leave all of its pairs out."""
    rng = np.random.default_rng(seed)
    motion = folded(gap=0.006, seed=seed)
    crushed = 0.003 * motion.rest + rng.normal(scale=2e-5, size=motion.rest.shape)
    motion = motion._replace(start=crushed, end=crushed)
    _, found = contacts(motion)
    points = all_pairs(motion)[0]
    near = distances(motion)[0] < CLOSE
    assert near.any()
    listed = {tuple(row) for row in found.vertices[found.kind == 0].tolist()}
    assert {(row[0], *sorted(row[1:])) for row in points[near].tolist()} <= {(a, *sorted(b)) for a, *b in listed}
    assert (found.thickness[found.gaps < CLOSE] <= THICKNESS).all()
    assert (found.thickness == CLOSE).any()


@settings(max_examples=8, deadline=None, phases=QUICK)
@given(seed=SEEDS, fall=st.floats(0.0, 0.03))
def test_every_vertex_near_the_other_sheet_is_held_at_its_nearest_point(seed, fall):
    """The cones leave out pairs that only seem near; the pair that is nearest of all is never left out."""
    motion = two_sheets(fall=fall, seed=seed)
    _, found = contacts(motion)
    points = all_pairs(motion)[0]
    body = np.zeros(len(motion.start), int)
    body[motion.faces] = motion.body[:, None]
    other = body[points[:, 0]] != body[points[:, 1]]
    points = points[other]
    measured = distances(motion)[0][other]
    for vertex in range(len(motion.start)):
        nearest = measured[points[:, 0] == vertex].min()
        if nearest < THICKNESS:
            mine = found.gaps[(found.kind == 0) & (found.vertices[:, 0] == vertex)]
            # on the border of the other sheet an edge may be nearest, told by the pair of edges
            assert len(mine) and mine.min() == pytest.approx(nearest, abs=1e-12)


def test_a_flat_surface_gives_each_vertex_one_contact():
    """Over the middle of a triangle, an edge or a vertex: never the neighbours' border points too."""
    motion = two_sheets(gap=0.005, fall=0.0, rough=0.0)
    start = motion.start.copy()
    n = len(start) // 2
    # the same grid over itself: every vertex over a vertex, then shifted onto edges and into triangles
    for shift in ([0.0, 0.0], [0.1, 0.0], [0.05, 0.03]):
        start[n:] = start[:n] + [shift[0], 0.005, shift[1]]
        _, found = contacts(motion._replace(start=start, end=start))
        upper = found.vertices[(found.kind == 0) & (found.vertices[:, 0] >= n), 0]
        inside = (np.abs(start[n:, [0, 2]]) < 0.5 - 1e-9).all(axis=1)
        counts = np.bincount(upper - n, minlength=n)
        assert (counts[inside] == 1).all()


def test_thickness_within_one_cloth_is_at_most_half_the_way_along_it():
    motion = folded(gap=0.006)
    _, found = contacts(motion, thickness=0.2)
    r = np.einsum("ik,ikd->id", found.weights, motion.rest[found.vertices])
    along = np.linalg.norm(r, axis=1)
    expected = np.where(found.kind == 0, 1.0, EDGE_PART) * np.minimum(0.2, 0.5 * along)
    assert np.allclose(found.thickness, expected, rtol=1e-12)
    assert (0.5 * along < 0.15).any() and (0.5 * along > 0.2).any()


def test_thickness_between_two_cloths_is_the_mean_of_theirs():
    motion = two_sheets(fall=0.0)
    _, found = contacts(motion)
    assert np.allclose(found.thickness, np.where(found.kind == 0, THICKNESS, EDGE_PART * THICKNESS), rtol=1e-14)


def test_what_is_sewn_together_is_no_contact():
    motion = folded(gap=0.006)
    _, before = contacts(motion)
    assert len(before.kind)
    columns = 9
    # sew every vertex of the one half to the one it lies on
    stitches = np.array([(j * columns + i, j * columns + 8 - i) for j in range(columns) for i in range(3)])
    _, after = contacts(motion, stitches=stitches)
    group = np.arange(len(motion.start))
    group[stitches[:, 1]] = stitches[:, 0]
    same = group[after.vertices]
    for kind, row in zip(after.kind, same, strict=True):
        first, second = (row[:1], row[1:]) if kind == 0 else (row[:2], row[2:])
        assert not set(first.tolist()) & set(second.tolist())
    assert len(after.kind) < len(before.kind)


@settings(max_examples=8, deadline=None, phases=QUICK)
@given(seed=SEEDS)
def test_the_distance_that_is_kept_is_never_too_large(seed):
    """Later passes leave pairs out by it: it may be a bound from below, not from above."""
    motion = two_sheets(fall=0.02, seed=seed)
    search, _ = contacts(motion)
    faces, edges = (a.numpy() for a in (search.surface.faces, search.surface.edges))
    points, lines = (kind.pairs.numpy() for kind in search.candidates)
    rows = np.column_stack([points[:, 0], faces[points[:, 1]]])
    assert (
        search.candidates[0].distances.numpy()[: len(points)] <= proximity.point_triangle(motion.start[rows])[0] + 1e-12
    ).all()
    rows = np.column_stack([edges[lines[:, 0]], edges[lines[:, 1]]])
    assert (
        search.candidates[1].distances.numpy()[: len(lines)] <= proximity.edge_edge(motion.start[rows])[0] + 1e-12
    ).all()
