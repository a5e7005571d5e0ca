"""Pairs of vertices that leave their boxes, against a search that knew where they would go."""

import numpy as np
import pytest
import warp as wp
from crumpled import crumpled, positions
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.broad_phase import make_broad_phase
from weft.world import Surface


def listed(pairs):
    rows = [tuple(row) for row in pairs.numpy().reshape(-1, 2).tolist()]
    assert len(set(rows)) == len(rows), "a pair was listed twice"
    return set(rows)


@pytest.mark.parametrize("name", ["bvh", "topology_tree", "material_tree", "brute"])
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), part=st.sampled_from([0.0, 0.02, 0.3, 1.0]), far=st.sampled_from([0.01, 0.1]))
def test_all_pairs_with_an_escaped_vertex_are_listed_and_no_others(name, seed, part, far):
    start, _, faces = crumpled(12, seed)
    random = np.random.default_rng(seed)
    escaped = random.uniform(size=len(start)) < part
    end = start + np.where(escaped[:, None], random.normal(scale=far, size=start.shape), 0.0)
    surface = Surface.from_arrays(len(start), faces)
    first, knowing = (make_broad_phase(name, surface, material=start) for _ in range(2))
    first.update(positions(start), positions(start), 0.01, follow=False)
    first.enlarge_boxes(positions(start), positions(end), wp.array(escaped.astype(np.int32), dtype=int, device="cpu"))
    found = [listed(pairs) for pairs in first.escaped_pairs()]

    knowing.update(positions(start), positions(end), 0.01, follow=False)
    vertex_triangle, edge_edge = (listed(pairs) for pairs in knowing.feature_pairs())
    edges = surface.edges.numpy().reshape(-1, 2)
    assert found[0] == {(v, f) for v, f in vertex_triangle if escaped[v] or escaped[faces[f]].any()}
    assert found[1] == {(e, f) for e, f in edge_edge if escaped[edges[e]].any() or escaped[edges[f]].any()}
    assert bool(found[0]) == bool(escaped.any())
