"""Triangles that pass through each other: which neighbours are looked at, what is found, what is held until the step ends."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.geometry.intersection import intersections
from weft.mesh import shapes
from weft.methods.boxes.elastic_surface import Limits
from weft.methods.boxes.limits import HeldTriangles, near_pairs
from weft.methods.boxes.relaxation import HalfSpaces
from weft.world import Surface


def device(values, dtype=wp.vec3d):
    return wp.array(np.ascontiguousarray(values), dtype=dtype, device="cpu")


def grid_faces(n):
    mesh = shapes.grid((1.0, 1.0), (n, n))
    return mesh.vertices, mesh.faces


def brute_near(faces):
    edges = {frozenset((f[k], f[k - 1])) for f in faces.tolist() for k in range(3)}
    found = set()
    for a, f in enumerate(faces.tolist()):
        for b, g in enumerate(faces.tolist()[:a]):
            shared = len(set(f) & set(g))
            joined = shared or any(frozenset((p, q)) in edges for p in f for q in g)
            if joined and shared < 2:
                found.add((b, a))
    return found


@pytest.mark.parametrize("n", [1, 2, 4])
def test_near_pairs_are_those_of_a_search_by_hand(n):
    x, faces = grid_faces(n)
    surface = Surface.from_arrays(len(x), faces)
    assert {tuple(p) for p in near_pairs(surface, len(faces)).tolist()} == brute_near(faces)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 100_000), shared=st.booleans(), rounded=st.booleans())
def test_intersecting_triangles_are_found_whenever_the_exact_check_finds_them(seed, shared, rounded):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, (6, 3))
    if rounded:
        x = np.round(2 * x) / 2
    faces = np.array([[0, 1, 2], [0, 3, 4]] if shared else [[0, 1, 2], [3, 4, 5]], np.int32)
    if any(np.linalg.norm(np.cross(*(x[f[1:]] - x[f[0]]))) < 1e-9 for f in faces):
        return
    held = HeldTriangles(Surface.from_arrays(6, faces), 2)
    found = held.find(device(x), device([[0, 1]], wp.vec2i))
    exact = len(intersections(x, faces)) > 0
    assert found.some if exact else (not found.some or rounded)
    assert found.new == found.some and held.count == (len(np.unique(faces)) if found.some else 0)


def test_vertices_are_held_until_the_next_step():
    # a triangle through the first two of three
    x = np.array([[0, 0, 0], [1, 0, 0], [0, 0, 1], [0, 0.5, 0], [1, 0.5, 0], [0, 0.5, 1]], float)
    x = np.concatenate([x, [[0.2, -1, 0.2], [0.2, 2, 0.2], [0.3, 2, 0.2]], x[:3] + 9.0])
    surface = Surface.from_arrays(12, np.arange(12, dtype=np.int32).reshape(-1, 3))
    held = HeldTriangles(surface, 4)
    pairs = [device(np.array(rows, np.int32), wp.vec2i) for rows in ([[0, 2], [0, 3]], [[0, 2], [1, 2]])]
    assert held.find(device(x), pairs[0][1:]) == (False, False) and held.count == 0
    assert held.find(device(x), pairs[0]) == (True, True) and held.count == 6
    assert held.find(device(x), pairs[0]) == (True, False)
    assert held.find(device(x), *pairs) == (True, True) and held.count == 9
    limits = Limits(*(device(np.full((3, 12), end), wp.float64) for end in (-np.inf, np.inf)))
    # the collider of a half-space carries vertex 4 along
    spaces = HalfSpaces()
    spaces.offsets = device(np.repeat([0, 1], [5, 8]), int)
    spaces.anchor = device(x[4:5] + 0.5)
    held.write(device(x), spaces, limits)
    x[4] += 0.5
    for limit, away in ((limits.lower.numpy(), -np.inf), (limits.upper.numpy(), np.inf)):
        assert (limit[:, :9] == x[:9].T).all() and (limit[:, 9:] == away).all()
    x[4] -= 0.5
    held.reset()
    assert held.count == 0
    # colliders come last and are not looked at
    assert HeldTriangles(surface, 2).find(device(x), *pairs) == (False, False)


def test_a_flat_sheet_does_not_intersect_itself():
    x, faces = grid_faces(6)
    surface = Surface.from_arrays(len(x), faces)
    pairs = device(near_pairs(surface, len(faces)), wp.vec2i)
    spin = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    for y in (x, x @ spin.T):
        assert not HeldTriangles(surface, len(faces)).find(device(y), pairs).some
