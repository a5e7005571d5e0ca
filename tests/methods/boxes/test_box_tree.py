"""The tree of boxes finds exactly what comparing all boxes finds, whatever moves."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.bench.boxes import PlainSearch, ground_scene
from weft.broad_phase.interface import make_broad_phase
from weft.mesh import shapes
from weft.methods.boxes.box_tree import BoxTree
from weft.methods.boxes.limits import HeldTriangles
from weft.world import Surface, World


def device(values):
    return wp.array(np.ascontiguousarray(values), dtype=wp.vec3d, device="cpu")


def brute(faces, body, pairs, start, end, margin):
    both = np.concatenate([start[faces], end[faces]], axis=1)
    low, high = both.min(axis=1) - 0.5 * margin, both.max(axis=1) + 0.5 * margin
    over = ((low[:, None] <= high[None]) & (high[:, None] >= low[None])).all(axis=2)
    found = set()
    for a, b in np.argwhere(np.triu(over, 1)):
        if pairs[body[a], body[b]] and not set(faces[a]) & set(faces[b]):
            found.add((int(a), int(b)))
    return found


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), cells=st.sampled_from([(1, 1), (3, 2), (9, 7)]), size=st.sampled_from([0.02, 0.3]))
def test_pairs_are_those_of_comparing_all(seed, cells, size):
    rng = np.random.default_rng(seed)
    sheet, ball = shapes.grid((1.0, 1.0), cells), shapes.icosphere(0.4, subdivisions=1)
    faces = np.concatenate([sheet.faces, ball.faces + len(sheet.vertices)])
    body = np.repeat([0, 1], [len(sheet.faces), len(ball.faces)])
    pairs = np.array([[1, 1], [1, 0]])
    rest = np.concatenate([sheet.vertices, ball.vertices])
    surface = Surface.from_arrays(len(rest), faces, face_body=body, body_pairs=pairs)
    tree, bvh = BoxTree(surface, rest), make_broad_phase("bvh", surface)
    # twice, since a tree keeps its shape while boxes change
    for _ in range(2):
        start = rest + rng.normal(scale=size, size=rest.shape)
        end = start + rng.normal(scale=size, size=rest.shape)
        tree.update(device(start), device(end), 0.05)
        rows = tree.triangle_pairs().numpy().reshape(-1, 2)
        found = {tuple(row) for row in rows.tolist()}
        assert len(found) == len(rows)
        # boxes are rounded outwards: nothing is missing, and what is more is nearly there
        least, most = (brute(faces, body, pairs, start, end, margin) for margin in (0.05, 0.0501))
        assert least <= found <= most
        # so are those of the search that a GPU does instead
        bvh.update(device(start), device(end), 0.05, follow=False)
        rows = bvh.triangle_pairs().numpy().reshape(-1, 2)
        found = {tuple(row) for row in rows.tolist()}
        assert len(found) == len(rows) and least <= found <= most


def test_a_surface_without_triangles_has_no_pairs():
    tree = BoxTree(Surface.from_arrays(3, np.zeros((0, 3), np.int32)), np.zeros((3, 3)))
    tree.update(device(np.zeros((3, 3))), device(np.zeros((3, 3))), 0.1)
    assert len(tree.triangle_pairs()) == 0


@pytest.mark.parametrize("geometric", [False, True])
def test_the_plain_searches_of_the_tables_find_the_same(geometric):
    world = World(ground_scene(8))
    state = world.initial_state()
    rng = np.random.default_rng(1)
    end = state.positions()
    end[:64] += rng.normal(scale=0.08, size=(64, 3))
    tree = BoxTree(world.surface, world.rest_positions)
    tree.update(state.x, device(end), world.largest_thickness)
    pairs = tree.triangle_pairs()
    # a small capacity has to grow
    found = PlainSearch(world, geometric=geometric, capacity=2).find(state.x, device(end))
    if geometric:
        soft = pairs.numpy()[pairs.numpy()[:, 1] < world.cloth_face_count]
        triangles = HeldTriangles(world.surface, world.cloth_face_count)
        rows = [row for row in soft if triangles.find(device(end), wp.array([row], dtype=wp.vec2i, device="cpu")).some]
    else:
        rows = pairs.numpy()
    assert len(found) > 5
    assert {tuple(row) for row in found.tolist()} == {tuple(row) for row in np.array(rows).tolist()}
