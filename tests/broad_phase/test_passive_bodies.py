"""Bodies that are passive do not look for others: they are found by them, and the pairs are the same."""

import numpy as np
import pytest
import warp as wp

from weft.broad_phase import make_broad_phase
from weft.mesh import shapes
from weft.world import Surface


def sheet_and_ball(*, ball_first=False):
    """A fine wavy sheet through the top of a coarse ball."""
    sheet, ball = shapes.grid((1.0, 1.0), (24, 24)), shapes.icosphere(0.4, subdivisions=2)
    x = sheet.vertices.copy()
    x[:, 1] = 0.38 + 0.02 * np.sin(9.0 * x[:, 0])
    parts = (
        [(ball.vertices, ball.faces), (x, sheet.faces)]
        if ball_first
        else [(x, sheet.faces), (ball.vertices, ball.faces)]
    )
    vertices = np.concatenate([part[0] for part in parts])
    faces = np.concatenate([parts[0][1], parts[1][1] + len(parts[0][0])])
    body = np.repeat([0, 1], [len(part[1]) for part in parts])
    pairs = np.array([[0, 1], [1, 1]] if ball_first else [[1, 1], [1, 0]])
    surface = Surface.from_arrays(len(vertices), faces, face_body=body, body_pairs=pairs)
    return vertices, surface


def listed(pairs):
    return sorted(map(tuple, pairs.numpy().tolist()))


@pytest.mark.parametrize("name", ["bvh", "topology_tree", "material_tree", "brute"])
def test_passive_bodies_are_found_by_the_others(name):
    x, surface = sheet_and_ball()
    start, end = (wp.array(p, dtype=wp.vec3d, device="cpu") for p in (x, x + [0.0, -0.01, 0.0]))
    found = []
    for passive in ((), (1,)):
        search = make_broad_phase(name, surface, material=x, passive=passive)
        search.update(start, end, 0.005, follow=False)
        found.append([listed(pairs) for pairs in search.feature_pairs()])
        # a vertex of the sheet goes elsewhere
        escaped = wp.zeros(len(x), dtype=int, device="cpu")
        escaped.numpy()[300:310] = 1
        search.enlarge_boxes(start, wp.array(x + [0.0, 0.02, 0.0], dtype=wp.vec3d, device="cpu"), escaped)
        found[-1] += [listed(pairs) for pairs in search.escaped_pairs()]
    ball = {vertex for vertex, _ in found[0][0]} - set(range(625))
    assert len(ball) > 5 and all(len(pairs) > 20 for pairs in found[0])
    assert found[1] == found[0]


def test_the_order_does_not_depend_on_the_patches():
    x, surface = sheet_and_ball()
    positions = wp.array(x, dtype=wp.vec3d, device="cpu")
    found = []
    for name in ("bvh", "brute"):
        search = make_broad_phase(name, surface, passive=(1,))
        search.update(positions, positions, 0.005)
        found.append([pairs.numpy().tolist() for pairs in search.feature_pairs()])
    assert found[0] == found[1]


def test_passive_bodies_come_last():
    _, surface = sheet_and_ball(ball_first=True)
    with pytest.raises(ValueError, match="must come last"):
        make_broad_phase("bvh", surface, passive=(0,))
