"""Bodies that do not interact, as those of several worlds, may lie in one place: their pairs are those that each has alone."""

import numpy as np
import pytest
import warp as wp

from weft.broad_phase import make_broad_phase
from weft.broad_phase.trees import interacting_sets
from weft.mesh import shapes
from weft.world import Surface

WORLDS = 3


def worlds(count):
    """So many worlds, each a fine wavy sheet through the top of a coarse ball: first all sheets, then all balls."""
    sheet, ball = shapes.grid((1.0, 1.0), (24, 24)), shapes.icosphere(0.4, subdivisions=2)
    x = sheet.vertices.copy()
    x[:, 1] = 0.38 + 0.02 * np.sin(9.0 * x[:, 0])
    vertices = [*[x] * count, *[ball.vertices] * count]
    starts = np.cumsum([0, *(len(part) for part in vertices)])
    meshes = [*[sheet.faces] * count, *[ball.faces] * count]
    faces = np.concatenate([part + start for part, start in zip(meshes, starts, strict=False)])
    body = np.repeat(np.arange(2 * count), [len(part) for part in meshes])
    pairs = np.kron(np.array([[1, 1], [1, 0]]), np.eye(count, dtype=int))
    surface = Surface.from_arrays(starts[-1], faces, face_body=body, body_pairs=pairs)
    return np.concatenate(vertices), surface, len(x), len(ball.vertices)


def world_of(vertex, sheet, ball):
    return np.where(vertex < WORLDS * sheet, vertex // sheet, (vertex - WORLDS * sheet) // ball)


def own_number(vertex, sheet, ball):
    """The number of a vertex in its own world."""
    rest = vertex - WORLDS * sheet
    return np.where(vertex < WORLDS * sheet, vertex % sheet, sheet + rest % ball)


@pytest.mark.parametrize("name", ["bvh", "topology_tree", "brute"])
def test_each_world_has_the_pairs_that_it_has_alone_in_their_order(name):
    found = []
    for count in (1, WORLDS):
        x, surface, sheet, ball = worlds(count)
        search = make_broad_phase(name, surface, passive=range(count, 2 * count))
        positions = wp.array(x, dtype=wp.vec3d, device="cpu")
        search.update(positions, positions, 0.005)
        vertex_triangle, edge_edge = (pairs.numpy().reshape(-1, 2) for pairs in search.feature_pairs())
        faces, edges = surface.faces.numpy().reshape(-1, 3), surface.edges.numpy().reshape(-1, 2)
        found.append(
            [
                np.column_stack([vertex_triangle[:, 0], faces[vertex_triangle[:, 1]]]),
                np.column_stack([edges[edge_edge[:, 0]], edges[edge_edge[:, 1]]]),
            ]
        )
    for alone, together in zip(*found, strict=True):
        assert len(alone) > 100
        world = world_of(together, sheet, ball)
        assert (world == world[:, :1]).all()
        for k in range(WORLDS):
            assert np.array_equal(own_number(together[world[:, 0] == k], sheet, ball), alone)


def test_what_interacts_is_one_set():
    assert interacting_sets(np.array([[1, 1], [1, 0]])).tolist() == [0, 0]
    # a cloth between two colliders joins them
    assert interacting_sets(np.array([[0, 1, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])).tolist() == [0, 0, 0, 1]
