"""Octree and kd-tree give exactly the pairs that their definition promises."""

import numpy as np
import pytest
from crumpled import crumpled, overlapping, positions
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.broad_phase import make_broad_phase
from weft.world import Surface


def listed(name: str, surface: Surface, start: np.ndarray, end: np.ndarray, margin: float) -> tuple[set, set, int]:
    broad = make_broad_phase(name, surface)
    assert not broad.exact
    broad.update(positions(start), positions(end), margin, follow=False)
    candidates = broad.feature_pairs()
    pairs = [tuple(map(int, pair)) for pair in candidates.vertex_triangle.numpy()]
    assert len(set(pairs)) == len(pairs)
    triangles = [tuple(map(int, pair)) for pair in broad.triangle_pairs(share_vertex=True).numpy()]
    assert len(set(triangles)) == len(triangles)
    return set(pairs), set(triangles), len(candidates.edge_edge)


def without_incident(close: np.ndarray, used: np.ndarray, faces: np.ndarray) -> set[tuple[int, int]]:
    return {(int(used[i]), int(f)) for i, f in np.argwhere(close) if used[i] not in faces[f]}


def upper_half(close: np.ndarray) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in np.argwhere(close) if a < b}


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), margin=st.sampled_from([0.0, 0.03, 0.1, 0.3, 5.0]))
def test_the_octree_lists_what_shares_a_cell(seed: int, margin: float) -> None:
    start, end, faces = crumpled(8, seed)
    surface = Surface.from_arrays(len(start), faces)
    found, triangles, edges = listed("octree", surface, start, end, margin)
    middle = start[faces].mean(axis=1)
    low = middle.min(axis=0) - margin
    side = (middle.max(axis=0) + margin - low).max()
    cells = 2 ** max(d for d in range(21) if d == 0 or side / 2**d >= margin)

    def cell(points: np.ndarray) -> np.ndarray:
        return np.floor((points - low) * (cells / side))

    inside = ((cell(start) >= 0) & (cell(start) < cells)).all(axis=1)
    of_faces = np.clip(cell(middle), 0, cells - 1)
    close = (cell(start)[:, None] == of_faces[None]).all(axis=2) & inside[:, None]
    assert found == without_incident(close, np.arange(len(start)), faces)
    # a centroid on the outermost wall is in the root when it is stored, and not when it is looked for
    both = (cell(middle)[:, None] == of_faces[None]).all(axis=2)
    assert triangles == upper_half(both)
    assert edges == 0


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), margin=st.sampled_from([0.0, 0.03, 0.1, 0.3, 5.0]))
def test_the_kd_tree_lists_centroids_within_the_margin(seed: int, margin: float) -> None:
    start, end, faces = crumpled(8, seed)
    surface = Surface.from_arrays(len(start), faces)
    found, triangles, edges = listed("kdtree", surface, start, end, margin)
    both = np.stack([start, end], axis=1)
    middle = both[faces].mean(axis=1)
    vertex_boxes = both.min(axis=1) - 0.5 * margin, both.max(axis=1) + 0.5 * margin
    centroid_boxes = middle.min(axis=1) - 0.5 * margin, middle.max(axis=1) + 0.5 * margin

    def promised(slack: float) -> tuple[set, set]:
        close = overlapping(vertex_boxes, centroid_boxes, slack)
        return (
            without_incident(close, np.arange(len(start)), faces),
            upper_half(overlapping(centroid_boxes, centroid_boxes, slack)),
        )

    least, most = promised(-1e-6), promised(1e-6)
    assert least[0] <= found <= most[0]
    assert least[1] <= triangles <= most[1]
    assert edges == 0


@pytest.mark.parametrize("name", ["octree", "kdtree"])
def test_bodies_and_shared_vertices_are_respected(name: str) -> None:
    start, _, faces = crumpled(6)
    faces = np.concatenate([faces, faces + len(start)])
    start = np.concatenate([start, start + 0.001])
    body = np.repeat([0, 1], len(faces) // 2)
    surface = Surface.from_arrays(len(start), faces, face_body=body, body_pairs=[[0, 1], [1, 0]])
    broad = make_broad_phase(name, surface)
    broad.update(positions(start), positions(start), 0.2)
    pairs = broad.feature_pairs().vertex_triangle.numpy()
    vertex_body = (pairs[:, 0] >= len(start) // 2).astype(int)
    assert len(pairs) > 100
    assert (vertex_body != body[pairs[:, 1]]).all()

    alone = Surface.from_arrays(len(start), faces)
    broad = make_broad_phase(name, alone)
    broad.update(positions(start), positions(start), 0.2)
    apart = broad.triangle_pairs().numpy().copy()
    every = broad.triangle_pairs(share_vertex=True).numpy()
    assert 0 < len(apart) < len(every)
    assert not any(set(faces[a]) & set(faces[b]) for a, b in apart)


def test_what_a_wall_of_the_octree_hides_the_kd_tree_finds() -> None:
    # triangles at two corners of a cube; a small one just below the middle of the cube, and a vertex just beyond it
    faces = np.arange(12).reshape(-1, 3)
    corner = np.eye(3) * 1e-3
    middle = 0.001 / 3 + 0.4995
    start = np.concatenate([corner, corner + 0.999, corner + middle - 1e-3, corner + middle])
    start[9] = middle + 5e-4
    surface = Surface.from_arrays(12, faces)
    assert (9, 2) not in listed("octree", surface, start, start, 0.01)[0]
    assert (9, 2) in listed("kdtree", surface, start, start, 0.01)[0]
