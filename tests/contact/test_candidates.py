"""Candidates that are measured side by side have the distances that they have one by one."""

import distance_pairs as proximity
import numpy as np
import pytest
from crumpled import positions, sheet
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from step_scenes import THICKNESS, Motion, make_contact_list, make_search, take, two_sheets

from weft.contact.execution_plan import WORD


def measured(motion, **options):
    """Each kind's candidates as vertices, their distances, and those that are kept."""
    search = make_search(motion, **options)
    search.list_candidates(positions(motion.start), positions(motion.end))
    faces, edges = search.surface.faces.numpy(), search.surface.edges.numpy()
    one, other = search.candidates
    pairs = [kind.pairs.numpy().reshape(-1, 2) for kind in (one, other)]
    points = np.concatenate([pairs[0][:, :1], faces[pairs[0][:, 1]]], axis=1)
    lines = np.concatenate([edges[pairs[1][:, 0]], edges[pairs[1][:, 1]]], axis=1)
    for kind, rows, measure in ((one, points, proximity.point_triangle), (other, lines, proximity.edge_edge)):
        yield rows, measure(motion.start[rows])[0], kind.distances.numpy()[: len(rows)]


@settings(max_examples=25, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 2**32 - 1), cells=st.integers(2, 5), steps=st.sampled_from([2, 4, 8, 0]))
def test_distances_are_those_of_one_pair_at_a_time(seed, cells, steps):
    """Vertices on a coarse lattice: edges without length, needles, parallel edges, things that lie on each other."""
    rng = np.random.default_rng(seed)
    start = rng.random(((cells + 1) ** 2, 3)) * 0.1
    if steps:
        start = np.round(start * 10.0 * steps) / (10.0 * steps)
    faces = sheet(cells)
    motion = Motion(start, start, faces, np.zeros(len(faces), int), start)
    for rows, truth, kept in measured(motion):
        assert len(rows)
        assert np.abs(kept - truth).max() < 1e-9


@pytest.mark.parametrize("cells", range(1, 7))
def test_any_number_of_candidates_is_measured(cells):
    """Batches that are full, not full, and less than a lane wide."""
    motion = two_sheets(cells=cells, gap=0.004, fall=0.0, rough=0.001)
    counts = []
    for rows, truth, kept in measured(motion):
        counts.append(len(rows))
        assert np.abs(kept - truth).max() < 1e-12
    assert counts[1] % WORD
    assert counts[1] > WORD or cells < 3


def test_far_from_the_origin_the_same_pairs_are_contacts():
    found = []
    for shift in (0.0, 1000.0):
        motion = two_sheets(fall=0.004)
        motion = motion._replace(start=motion.start + shift, end=motion.end + shift, rest=motion.rest + shift)
        search, rows = make_search(motion), make_contact_list()
        search.find_contacts(positions(motion.start), positions(motion.end), rows)
        found.append(take(search, rows))
    assert len(found[0].kind)
    assert np.array_equal(found[0].vertices, found[1].vertices)
    assert np.allclose(found[0].gaps, found[1].gaps, atol=1e-3 * THICKNESS)
