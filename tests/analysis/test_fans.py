"""The pairs of triangles around a vertex that may cross: none around flat fans, and all that do cross around others."""

import numpy as np
import pytest
import warp as wp

from weft.analysis.fans import Fans
from weft.geometry.intersection import intersections
from weft.mesh import shapes
from weft.mesh.topology import Topology

NO_PAIRS = np.zeros((0, 2), np.int32)


def pairs_of(vertices, faces, given=NO_PAIRS, apart=None):
    topology = Topology(np.asarray(faces, np.int32), len(vertices))
    apart = np.zeros(len(vertices), dtype=bool) if apart is None else apart
    device = wp.get_device("cpu")
    x = wp.array(vertices, dtype=wp.vec3d, device=device)
    pairs = wp.array(given, dtype=wp.vec2i, device=device)
    return Fans(topology, apart, device).add(pairs, x, wp.float64(1e-12)).numpy().reshape(-1, 2)


def fan(angles, heights):
    """A closed fan around vertex 0, whose spokes have these angles and heights."""
    count = len(angles)
    rim = np.column_stack([np.cos(angles), np.sin(angles), heights])
    faces = [[0, 1 + k, 1 + (k + 1) % count] for k in range(count)]
    return np.concatenate([np.zeros((1, 3)), rim]), np.array(faces)


def test_a_flat_fan_has_none_but_a_folded_or_wound_one_has():
    angles = 2.0 * np.pi * np.arange(6) / 6
    vertices, faces = fan(angles, 0.3 * np.sin(3.0 * angles))
    assert not len(pairs_of(vertices, faces))
    # each spoke with the triangles beside it: 9 of the 15 pairs have only the vertex in common
    folded = vertices.copy()
    folded[2] = [0.5, -0.4, 0.2]
    assert len(pairs_of(folded, faces)) == 9
    twice, faces = fan(4.0 * np.pi * np.arange(12) / 12, 0.1 * np.arange(12))
    assert len(pairs_of(twice, faces)) == 54
    # behind those that are given, and not where a body does not meet itself
    given = np.array([[0, 5], [1, 2]], np.int32)
    assert pairs_of(twice, faces, given)[:2].tolist() == given.tolist() and len(pairs_of(twice, faces, given)) == 56
    assert not len(pairs_of(twice, faces, apart=np.ones(13, dtype=bool)))


def test_fans_at_a_boundary_are_never_flat_and_those_of_a_sheet_inside_always():
    grid = shapes.grid((1.0, 1.0), (8, 8))
    found = pairs_of(grid.vertices, grid.faces)
    shared = [set(grid.faces[a]) & set(grid.faces[b]) for a, b in found.tolist()]
    assert all(len(vertices) == 1 for vertices in shared)
    rim = np.unique(grid.topology.edges[grid.topology.edge_counts == 1])
    assert {int(v) for (v,) in shared} <= set(rim.tolist())
    assert len({tuple(pair) for pair in found.tolist()}) == len(found) > 0


@pytest.mark.parametrize("seed", range(30))
def test_what_crosses_is_listed(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(5, 9))
    angles = np.sort(rng.uniform(0.0, 2.0 * np.pi * rng.integers(1, 3), count))
    vertices, faces = fan(angles, rng.normal(size=count))
    vertices[1:] *= rng.uniform(0.2, 2.0, (count, 1))
    listed = {frozenset(pair) for pair in pairs_of(vertices, faces).tolist()}
    for a, b, face in intersections(vertices, faces).tolist():
        # an edge of the rim, which one triangle has
        owner = np.flatnonzero((np.isin(faces, [a, b])).sum(axis=1) == 2)[0]
        assert frozenset((int(owner), face)) in listed
