"""Surface: edges and ownership against plain loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.world import Surface


@st.composite
def triangle_soups(draw):
    vertices = draw(st.integers(3, 12))
    corner = st.integers(0, vertices - 1)
    faces = draw(st.lists(st.lists(corner, min_size=3, max_size=3, unique=True), max_size=15))
    return vertices, np.array(faces, np.int32).reshape(-1, 3)


@settings(max_examples=60, deadline=None)
@given(triangle_soups())
def test_edges_and_ownership_against_loops(soup):
    vertices, faces = soup
    surface = Surface.from_arrays(vertices, faces)

    expected = sorted({tuple(sorted((int(f[k]), int(f[(k + 1) % 3])))) for f in faces for k in range(3)})
    edges = [tuple(e) for e in surface.edges.numpy().reshape(-1, 2).tolist()]
    assert edges == expected

    owner_of_vertex, owner_of_edge = {}, {}
    face_edges, owned = surface.face_edges.numpy().reshape(-1, 3), surface.owned.numpy()
    for f, face in enumerate(faces):
        for k in range(3):
            assert set(edges[face_edges[f, k]]) == {face[k], face[(k + 1) % 3]}
            if owned[f] >> k & 1:
                assert face[k] not in owner_of_vertex
                owner_of_vertex[face[k]] = f
            if owned[f] >> (k + 3) & 1:
                assert face_edges[f, k] not in owner_of_edge
                owner_of_edge[face_edges[f, k]] = f
    assert set(owner_of_vertex) == set(faces.ravel().tolist())
    assert set(owner_of_edge) == set(range(len(expected)))


def test_bodies():
    faces = [[0, 1, 2], [3, 4, 5]]
    surface = Surface.from_arrays(7, faces, face_body=[0, 1], body_pairs=[[1, 0], [0, 1]])
    assert surface.vertex_body.numpy().tolist() == [0, 0, 0, 1, 1, 1, -1]
    with pytest.raises(ValueError, match="symmetric"):
        Surface.from_arrays(6, faces, face_body=[0, 1], body_pairs=[[1, 0], [1, 1]])
