"""Cached contacts go on to other triangles, and stay where nothing is nearer."""

import numpy as np
import pytest
import warp as wp

from weft.mesh import TriMesh, shapes
from weft.mesh.topology import incidence
from weft.methods.predictive.contact_walk import (
    BORDER,
    LANES,
    WALK,
    faces_along,
    refresh_contact,
    refresh_lanes,
    vertex_normal,
)
from weft.methods.predictive.contacts import ASLEEP, OVER, TRIANGLE
from weft.methods.predictive.search import _faces_across
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def refresh(
    first: int,
    quick: int,
    count: int,
    faces: wp.array[wp.vec3i],
    across: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    triangles: wp.array[int],
    weights: wp.array[wp.vec4d],
    offsets: wp.array[int],
    corners: wp.array[int],
    left: wp.array[int],
):
    """All contacts, four at once where they can be."""
    if first + wp.tid() == 0:
        for i in range(count):
            left[i] = 1
        if quick != 0:
            for c in range(0, count - LANES + 1, LANES):
                bits = refresh_lanes(c, BORDER, TRIANGLE, faces, across, vertices, kinds, triangles, weights, p)
                for k in range(LANES):
                    left[c + k] = (bits >> k) & 1
        for i in range(count):
            if left[i] != 0:
                refresh_contact(
                    i, BORDER, WALK, OVER, TRIANGLE, ASLEEP, faces, across, x, vertices, kinds, triangles, weights,
                    offsets, corners,
                )  # fmt: skip


@wp.kernel
def look_along(
    first: int,
    normals: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    offsets: wp.array[int],
    corners: wp.array[int],
    x: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    found: wp.array[wp.vec2i],
):
    i = first + wp.tid()
    plain = wp.dot(vertex_normal(i, x, faces, offsets, corners), normals[i]) > wp.float64(0.0)
    found[i] = wp.vec2i(int(faces_along(i, normals[i], faces, offsets, corners, p)), int(plain))


def arrays_of(faces, x):
    """Triangles, those across, positions, rows, and the triangles at each vertex, as kernels take them."""
    mesh = TriMesh(x[: faces.max() + 1], faces)
    across = _faces_across(mesh.face_edges, mesh.edge_faces, np.zeros(len(faces), int))
    offsets, corners = incidence(faces, len(x))
    rows = np.column_stack([x, np.ones(len(x))])
    kinds = ((faces, wp.vec3i), (across, wp.vec3i), (x, wp.vec3d), (rows, wp.vec4d), (offsets, int), (corners, int))
    return [wp.array(values, dtype=dtype, device="cpu") for values, dtype in kinds]


def walk(faces, x, vertices, triangles, sides, *, quick):
    """Triangles and kinds of contacts of vertices with triangles at the start of a step, and which took the long way."""
    count = len(vertices)
    face_array, across, positions, rows, offsets, corners = arrays_of(faces, x)
    corner = np.column_stack([vertices, faces[triangles]]).astype(np.int32)
    given = [
        wp.array(corner, dtype=wp.vec4i, device="cpu"),
        wp.array(sides * int(TRIANGLE), dtype=int, device="cpu"),
        wp.array(triangles, dtype=int, device="cpu"),
        wp.full(count, wp.vec4d(1.0), dtype=wp.vec4d, device="cpu"),
    ]
    left = wp.zeros(count, dtype=int, device="cpu")
    launch(refresh, 1, [int(quick), count, face_array, across, positions, rows, *given, offsets, corners, left])
    assert (given[3].numpy()[:, 0] == 0.0).all()
    np.testing.assert_array_equal(given[0].numpy()[:, 1:], faces[given[2].numpy()])
    return given[2].numpy(), given[1].numpy(), left.numpy()


def distance(p, corners):
    """From a point to a triangle, by trying its plane, its edges and its corners."""
    a, b, c = corners
    found = [np.linalg.norm(p - q) for q in corners]
    for s, t in ((a, b), (b, c), (c, a)):
        u = np.clip((p - s) @ (t - s) / ((t - s) @ (t - s)), 0.0, 1.0)
        found.append(np.linalg.norm(p - s - u * (t - s)))
    w = np.linalg.lstsq(np.stack([b - a, c - a], axis=1), p - a, rcond=None)[0]
    if w.min() >= 0.0 and w.sum() <= 1.0:
        found.append(np.linalg.norm(p - a - w[0] * (b - a) - w[1] * (c - a)))
    return min(found)


def heights(faces, x, vertices, triangles):
    """How high vertices are over the planes of triangles, times twice the area."""
    a, b, c = np.moveaxis(x[faces[triangles]], 1, 0)
    return (np.cross(b - a, c - a) * (x[vertices] - a)).sum(axis=1)


def hills(seed, points=400):
    """A sheet with hills and valleys, and points about it, each with a triangle not far from it."""
    rng = np.random.default_rng(seed)
    sheet = shapes.grid((1.0, 1.0), (9, 9))
    x = sheet.vertices + rng.normal(0.0, 0.025, sheet.vertices.shape)
    middles = x[sheet.faces].mean(axis=1)
    triangles = rng.integers(0, len(sheet.faces), points)
    around = middles[triangles] + rng.normal(0.0, 0.06, (points, 3))
    return sheet.faces, np.concatenate([x, around]), len(x) + np.arange(points), triangles.astype(np.int32)


@pytest.mark.parametrize("seed", range(4))
def test_four_at_once_are_as_one_after_another(seed):
    faces, x, vertices, triangles = hills(seed)
    sides = np.where(np.arange(len(vertices)) % 2 == 0, 1, -1)
    found = walk(faces, x, vertices, triangles, sides, quick=True)
    plain = walk(faces, x, vertices, triangles, sides, quick=False)
    np.testing.assert_array_equal(found[0], plain[0])
    np.testing.assert_array_equal(found[1], plain[1])
    # those that stay, and are not through, hardly ever take the long way
    stay = (plain[0] == triangles) & (np.abs(plain[1]) == int(TRIANGLE))
    assert 0.1 < stay.mean() < 0.9
    over = stay & (heights(faces, x, vertices, triangles) * sides > 0.0)
    assert found[2][over].mean() < 0.2
    assert found[2][~stay].all()


@pytest.mark.parametrize("seed", range(4))
def test_contacts_end_no_farther_than_they_were_and_where_no_neighbour_is_nearer(seed):
    faces, x, vertices, triangles = hills(seed, 200)
    across = arrays_of(faces, x)[1].numpy()
    ends, _, _ = walk(faces, x, vertices, triangles, np.ones(len(vertices), int), quick=True)
    nearer = 0
    for vertex, begin, end in zip(vertices, triangles, ends, strict=True):
        was, now = (distance(x[vertex], x[faces[face]]) for face in (begin, end))
        assert now <= was + 1e-12
        assert (end == begin) or now < was
        nearer += end != begin
        # across the edge that its foot has left behind there is nothing nearer, unless it went as far as it may
        a, b, c = x[faces[end]]
        w = np.linalg.lstsq(np.stack([b - a, c - a], axis=1), x[vertex] - a, rcond=None)[0]
        w = np.array([1.0 - w.sum(), *w])
        other = across[end][w.argmin()]
        if w.min() < float(BORDER) and other >= 0:
            assert distance(x[vertex], x[faces[other]]) >= now - 1e-12
    assert nearer > 20


@pytest.mark.parametrize("quick", [False, True])
def test_over_a_ridge_a_contact_stays_where_it_is(quick):
    # a roof, and vertices above its ridge: both sides are as near, however rounding goes
    roof = np.array([[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.5, -0.5, 0.4], [0.5, -0.6, -0.5]])
    faces = np.array([[0, 2, 1], [0, 1, 3]], np.int32)
    rng = np.random.default_rng(0)
    above = np.array([[u, 0.1 * u, 0.0] for u in rng.uniform(0.1, 0.9, 64)])
    above += np.column_stack([np.zeros(64), rng.uniform(0.05, 0.3, 64), rng.uniform(-0.03, 0.03, 64)])
    x = np.concatenate([roof, above])
    vertices, triangles = 4 + np.arange(64), (np.arange(64) % 2).astype(np.int32)
    ends, kinds, left = walk(faces, x, vertices, triangles, np.ones(64, int), quick=quick)
    np.testing.assert_array_equal(ends, triangles)
    assert (kinds == int(TRIANGLE)).all()
    assert not quick or not left.any()


def test_a_vertex_faces_one_way():
    rng = np.random.default_rng(3)
    faces, x, _, _ = hills(5, 1)
    count = int(faces.max()) + 1
    face_array, _, positions, rows, offsets, corners = arrays_of(faces, x)
    normals = wp.array(rng.normal(size=(count, 3)), dtype=wp.vec3d, device="cpu")
    found = wp.zeros(count, dtype=wp.vec2i, device="cpu")
    launch(look_along, count, [normals, face_array, offsets, corners, positions, rows, found])
    fast, plain = found.numpy().T
    np.testing.assert_array_equal(fast, plain)
    assert 0.2 < fast.mean() < 0.8
