"""Every table of the topology against a slow and plain one."""

import numpy as np
from hypothesis import given, settings
from mesh_oracles import edges, good_meshes, half_edges, is_good

from weft.mesh import shapes

many = settings(max_examples=60, deadline=None)


@many
@given(good_meshes())
def test_edges_and_their_triangles(mesh):
    assert [tuple(edge) for edge in mesh.edges.tolist()] == edges(mesh.faces)
    assert mesh.edges.dtype == mesh.edge_faces.dtype == mesh.face_edges.dtype == np.int32
    for edge, pair in zip(mesh.edges.tolist(), mesh.edge_faces.tolist(), strict=True):
        expected = [f for f, face in enumerate(mesh.faces.tolist()) if set(edge) <= set(face)]
        assert pair == expected + [-1] * (2 - len(expected))
    for face, own in zip(mesh.faces.tolist(), mesh.face_edges.tolist(), strict=True):
        for k in range(3):
            assert sorted((face[k], face[(k + 1) % 3])) == mesh.edges[own[k]].tolist()


@many
@given(good_meshes())
def test_vertex_rows(mesh):
    faces, pairs = mesh.faces.tolist(), mesh.edges.tolist()
    for vertex in range(len(mesh.vertices)):
        around = [f for f, face in enumerate(faces) if vertex in face]
        beside = sorted(sum(pair) - vertex for pair in pairs if vertex in pair)
        assert mesh.vertex_faces.row(vertex).tolist() == around
        assert mesh.vertex_neighbours.row(vertex).tolist() == beside
    for rows in (mesh.vertex_faces, mesh.vertex_neighbours):
        assert rows.offsets.dtype == rows.items.dtype == np.int32
        assert len(rows.offsets) == len(mesh.vertices) + 1
        assert rows.offsets[-1] == len(rows.items)


@many
@given(good_meshes())
def test_hinges_are_oriented(mesh):
    directed = half_edges(mesh.faces)
    expected = [pair for pair in edges(mesh.faces) if pair in directed and pair[::-1] in directed]
    assert [tuple(mesh.edges[e].tolist()) for e in mesh.hinge_edges] == expected
    for (a, b, c, d), edge in zip(mesh.hinges.tolist(), mesh.hinge_edges, strict=True):
        first, corner = directed[a, b][0]
        second, other = directed[b, a][0]
        assert first < second
        assert mesh.faces[first, (corner + 2) % 3] == c
        assert mesh.faces[second, (other + 2) % 3] == d
        assert sorted((a, b)) == mesh.edges[edge].tolist()


@many
@given(good_meshes())
def test_boundary_loops(mesh):
    directed = half_edges(mesh.faces)
    open_edges = {pair for pair in directed if pair[::-1] not in directed}
    walked = []
    for loop in mesh.boundary_loops:
        assert loop[0] == loop.min()
        walked += zip(loop.tolist(), np.roll(loop, -1).tolist(), strict=True)
    assert len(walked) == len(set(walked))
    assert set(walked) == open_edges
    starts = [int(loop[0]) for loop in mesh.boundary_loops]
    assert starts == sorted(starts)
    assert mesh.closed == (not open_edges)


@many
@given(good_meshes())
def test_components(mesh):
    labels = list(range(len(mesh.vertices)))
    for _ in labels:
        for a, b in mesh.edges.tolist():
            labels[a] = labels[b] = min(labels[a], labels[b])
    order = {label: place for place, label in enumerate(sorted(set(labels)))}
    assert mesh.components.tolist() == [order[label] for label in labels]


@many
@given(good_meshes())
def test_euler_characteristic(mesh):
    """Filling the holes gives closed surfaces: V - E + F plus the holes is even, and at most 2 for each part."""
    euler = len(mesh.vertices) - len(mesh.edges) + len(mesh.faces)
    parts = int(mesh.components.max()) + 1
    filled = euler + len(mesh.boundary_loops)
    assert filled % 2 == 0
    assert filled <= 2 * parts


@many
@given(good_meshes())
def test_what_is_accepted_is_good(mesh):
    assert is_good(mesh.faces, len(mesh.vertices))


def test_loop_of_a_grid_runs_round_it():
    mesh = shapes.grid((1.0, 1.0), (2, 1))
    (loop,) = mesh.boundary_loops
    assert loop.tolist() == [0, 3, 4, 5, 2, 1]


def test_fan_of_very_many_triangles():
    """A vertex with a hundred thousand triangles needs no more rounds than its logarithm."""
    mesh = shapes.uv_sphere(segments=100_000, rings=2)
    assert len(mesh.faces) == 200_000
    assert len(mesh.vertex_faces.row(len(mesh.vertices) - 1)) == 100_000
    assert mesh.closed
