"""The searches without a hierarchy, which the tables of `weft bench boxes` compare the tree with, find what the tree finds."""

import numpy as np
import pytest
import warp as wp

from weft.bench.boxes import PlainSearch, ground_scene
from weft.broad_phase.interface import make_broad_phase
from weft.methods.boxes.limits import HeldTriangles
from weft.world import World


def device(values):
    return wp.array(np.ascontiguousarray(values), dtype=wp.vec3d, device="cpu")


@pytest.mark.parametrize("geometric", [False, True])
def test_the_plain_searches_of_the_tables_find_the_same(geometric):
    world = World(ground_scene(8))
    state = world.initial_state()
    rng = np.random.default_rng(1)
    end = state.positions()
    end[:64] += rng.normal(scale=0.08, size=(64, 3))
    tree = make_broad_phase("material_tree", world.surface, material=world.rest_positions)
    tree.update(state.x, device(end), world.largest_thickness, follow=False)
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
