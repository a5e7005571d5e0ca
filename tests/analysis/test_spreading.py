"""Displacements that spread ring by ring, against the same written out."""

import numpy as np
import pytest

from weft.analysis.spreading import SPREAD_FACTOR, SPREAD_RINGS, Spreading
from weft.mesh import shapes
from weft.mesh.topology import make_csr


def ring_by_ring(neighbours, own, named, least):
    """The displacements and which vertices are reached, a vertex at a time."""
    moved, reached = own.copy(), named.copy()
    for _ in range(SPREAD_RINGS):
        before, known = moved.copy(), reached.copy()
        for v in np.flatnonzero(~named):
            beside = [w for w in neighbours.row(v) if known[w]]
            if beside:
                follow = SPREAD_FACTOR * np.mean(before[beside], axis=0)
                length = np.linalg.norm(follow)
                moved[v] = follow * max(1.0 - least[v] / length, 0.0) if length > 0.0 else 0.0
                reached[v] = True
    return moved


@pytest.mark.parametrize("loses", [False, True])
def test_spreads_to_the_neighbours_that_are_reached(loses):
    grid = shapes.grid((1.0, 1.0), (60, 4))
    edges, count = grid.topology.edges, len(grid.vertices)
    neighbours = make_csr(*np.concatenate([edges, edges[:, ::-1]]).T, count, count)
    rng = np.random.default_rng(3)
    named = np.zeros(count, dtype=bool)
    named[rng.choice(np.flatnonzero(grid.vertices[:, 0] < -0.3), 5, replace=False)] = True
    own = np.where(named[:, None], rng.normal(size=(count, 3)), 0.0)
    least = np.where(loses, rng.uniform(0.0, 0.1, count), np.zeros(count))
    found = Spreading(neighbours).spread(own, named, least if loses else None)
    expected = ring_by_ring(neighbours, own, named, least)
    assert np.allclose(found, expected, atol=1e-14) and np.array_equal(found[named], own[named])
    # more rings than these are not reached
    assert not found.any(axis=1).all()
    assert not Spreading(neighbours).spread(np.zeros((count, 3)), np.zeros(count, dtype=bool)).any()
