"""Cached contacts go on to other triangles, and stay where nothing is nearer."""

import numpy as np
import pytest
import warp as wp
from structs import struct_of

from weft.mesh import TriMesh, shapes
from weft.mesh.topology import incidence
from weft.methods.predictive.contacts import ASLEEP, BORDER, TRIANGLE, StepContactArrays, refresh_contact
from weft.methods.predictive.half_spaces import faces_along
from weft.methods.predictive.search import _faces_across
from weft.methods.predictive.state import VertexArrays
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def refresh(first: int, contacts: StepContactArrays, vertices: VertexArrays):
    refresh_contact(first + wp.tid(), contacts, vertices)


@wp.kernel
def look_along(first: int, normals: wp.array[wp.vec3d], vertices: VertexArrays, found: wp.array[int]):
    i = first + wp.tid()
    found[i] = int(faces_along(i, normals[i], vertices))


def arrays_of(faces, x):
    """Triangles, those across, positions, and the triangles at each vertex, as kernels take them."""
    mesh = TriMesh(x[: faces.max() + 1], faces)
    across = _faces_across(mesh.face_edges, mesh.edge_faces, np.zeros(len(faces), int))
    offsets, corners = incidence(faces, len(x))
    rows = np.column_stack([x, np.ones(len(x))])
    return struct_of(VertexArrays, faces=faces, across=across, x=x, p=rows, corner_offsets=offsets, corners=corners)


def walk(faces, x, vertices, triangles, sides):
    """Triangles and kinds of contacts of vertices with triangles at the start of a step."""
    contacts = struct_of(
        StepContactArrays,
        vertices=np.column_stack([vertices, faces[triangles]]).astype(np.int32),
        kinds=sides * int(TRIANGLE),
        triangles=triangles.copy(),
        weights=np.ones((len(vertices), 4)),
    )
    launch(refresh, len(vertices), [contacts, arrays_of(faces, x)])
    assert (contacts.weights.numpy()[:, 0] == 0.0).all()
    np.testing.assert_array_equal(contacts.vertices.numpy()[:, 1:], faces[contacts.triangles.numpy()])
    return contacts.triangles.numpy(), contacts.kinds.numpy()


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
def test_contacts_on_the_wrong_side_sleep_unless_they_are_certainly_through(seed):
    faces, x, vertices, triangles = hills(seed)
    sides = np.where(np.arange(len(vertices)) % 2 == 0, 1, -1)
    ends, kinds = walk(faces, x, vertices, triangles, sides)
    np.testing.assert_array_equal(np.sign(kinds), sides)
    right = heights(faces, x, vertices, ends) * sides >= 0.0
    assert (np.abs(kinds[right]) == int(TRIANGLE)).all()
    # these vertices have no triangles of their own, and so face no way
    assert (np.abs(kinds[~right]) == int(ASLEEP)).all()
    assert 0.1 < right.mean() < 0.9


@pytest.mark.parametrize("seed", range(4))
def test_contacts_end_no_farther_than_they_were_and_where_no_neighbour_is_nearer(seed):
    faces, x, vertices, triangles = hills(seed, 200)
    across = arrays_of(faces, x).across.numpy()
    ends, _ = walk(faces, x, vertices, triangles, np.ones(len(vertices), int))
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


def test_over_a_ridge_a_contact_stays_where_it_is():
    # a roof, and vertices above its ridge: both sides are as near, however rounding goes
    roof = np.array([[0.0, 0.0, 0.0], [1.0, 0.1, 0.0], [0.5, -0.5, 0.4], [0.5, -0.6, -0.5]])
    faces = np.array([[0, 2, 1], [0, 1, 3]], np.int32)
    rng = np.random.default_rng(0)
    above = np.array([[u, 0.1 * u, 0.0] for u in rng.uniform(0.1, 0.9, 64)])
    above += np.column_stack([np.zeros(64), rng.uniform(0.05, 0.3, 64), rng.uniform(-0.03, 0.03, 64)])
    x = np.concatenate([roof, above])
    vertices, triangles = 4 + np.arange(64), (np.arange(64) % 2).astype(np.int32)
    ends, kinds = walk(faces, x, vertices, triangles, np.ones(64, int))
    np.testing.assert_array_equal(ends, triangles)
    assert (kinds == int(TRIANGLE)).all()


def test_a_vertex_faces_one_way():
    rng = np.random.default_rng(3)
    faces, x, _, _ = hills(5, 1)
    count = int(faces.max()) + 1
    normals = rng.normal(size=(count, 3))
    found = wp.zeros(count, dtype=int, device="cpu")
    launch(look_along, count, [wp.array(normals, dtype=wp.vec3d, device="cpu"), arrays_of(faces, x), found])
    own = np.zeros((len(x), 3))
    a, b, c = np.moveaxis(x[faces], 1, 0)
    for k in range(3):
        np.add.at(own, faces[:, k], np.cross(b - a, c - a))
    np.testing.assert_array_equal(found.numpy(), (own[:count] * normals).sum(axis=1) > 0.0)
    assert 0.2 < found.numpy().mean() < 0.8
