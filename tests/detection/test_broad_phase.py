"""Broad phases against an all-pairs oracle, against each other, and at the edges of what they accept."""

import numpy as np
import pytest
import warp as wp
from crumpled import crumpled, feature_oracle, positions

from weft.detection import BROAD_PHASES, make_broad_phase
from weft.detection.broad_phase import BroadPhase
from weft.world import Surface

EXACT = [name for name in BROAD_PHASES if name not in ("octree", "kdtree")]


def pairs_of(array: wp.array) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in array.numpy().reshape(-1, 2)]


def searched(
    name: str, surface: Surface, start: np.ndarray, end: np.ndarray, margin: float = 0.0, **options: bool
) -> BroadPhase:
    broad = make_broad_phase(name, surface)
    broad.update(positions(start), positions(end), margin, **options)
    return broad


def assert_between(found: list[tuple[int, int]], least: set[tuple[int, int]], most: set[tuple[int, int]]) -> None:
    assert len(set(found)) == len(found), "a pair was listed twice"
    assert least <= set(found), "a pair is missing"
    assert set(found) <= most, "a pair whose boxes are apart was listed"


@pytest.mark.parametrize("name", EXACT)
@pytest.mark.parametrize("follow", [False, True])
def test_features_are_those_of_the_oracle(name: str, follow: bool) -> None:
    start, end, faces = crumpled(9)
    surface = Surface.from_arrays(len(start), faces)
    candidates = searched(name, surface, start, end, 0.01, follow=follow).feature_pairs()
    # in the moving frame the boxes are those of the motion without its mean
    drift = (end - start).mean(axis=0) if follow else np.zeros(3)
    # the mean is that of a sample, here of all vertices with some of them twice: allow for the difference
    slack = 2e-3 if follow else 1e-6
    least = feature_oracle(surface, start, end - drift, 0.01, -slack)
    most = feature_oracle(surface, start, end - drift, 0.01, slack)
    assert_between(pairs_of(candidates.vertex_triangle), least[0], most[0])
    assert_between(pairs_of(candidates.edge_edge), least[1], most[1])
