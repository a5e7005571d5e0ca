"""Marks around vertices against sets of neighbours."""

import itertools

import numpy as np
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.world import Surface
from weft.world.surface import Rings, neighbours, surface_neighbours


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 30), st.integers(0, 60), st.integers(0, 4), st.integers(0, 10**6))
def test_rings_are_those_that_edges_lead_to(count, edges, rings, seed):
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, count, (edges, 2))
    chosen = rng.choice(count, rng.integers(0, count + 1), replace=False)
    expected = set(chosen.tolist())
    for _ in range(rings):
        expected |= {int(b) for a, b in [*pairs, *pairs[:, ::-1]] if a in expected}
    device = Rings(pairs, count, "cpu")
    marks = device.no_marks()
    # what was marked before does not stay
    device.mark(np.arange(count), 0, marks)
    device.mark(chosen, rings, marks)
    assert set(np.flatnonzero(marks.numpy()).tolist()) == expected
    device.add(np.array([0]), marks)
    assert set(np.flatnonzero(marks.numpy()).tolist()) == expected | {0}


def test_neighbours_are_listed_from_both_ends():
    offsets, items = neighbours(np.array([[0, 2], [2, 3]]), 5)
    assert [items[a:b].tolist() for a, b in itertools.pairwise(offsets)] == [[2], [], [3, 0], [2], []]
    assert Rings(np.zeros((0, 2), int), 3, "cpu").no_marks().dtype is wp.int8


def test_neighbours_across_a_seam_are_those_of_both_sides():
    """Two triangles, of which vertices 1 and 2 are sewn to 3 and 4: as if these were one vertex each."""
    surface = Surface.from_arrays(6, np.array([[0, 1, 2], [4, 3, 5]]))
    offsets, items = surface_neighbours(surface, np.array([[1, 3], [2, 4]]))
    found = [set(items[a:b].tolist()) for a, b in itertools.pairwise(offsets)]
    assert found == [{1, 2, 3, 4}, {0, 2, 3, 4, 5}, {0, 1, 3, 4, 5}, {0, 1, 2, 4, 5}, {0, 1, 2, 3, 5}, {1, 2, 3, 4}]
    plain = surface_neighbours(surface)
    for one, other in zip(plain, surface_neighbours(surface, np.zeros((0, 2), int)), strict=True):
        np.testing.assert_array_equal(one, other)
    assert set(plain[1][: plain[0][1]].tolist()) == {1, 2}
