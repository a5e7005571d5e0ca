"""What `TriMesh` refuses and how it says so, and what it computes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_oracles import is_good, moebius, signed_volume

import weft
from weft.errors import MeshError
from weft.mesh import TriMesh, shapes

SQUARE = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], dtype=float)


def test_public_name():
    assert weft.TriMesh is TriMesh


def test_keeps_its_own_read_only_arrays():
    vertices, faces = SQUARE.copy(), np.array([(0, 1, 2), (0, 2, 3)])
    mesh = TriMesh(vertices, faces, uv=SQUARE[:, :2])
    vertices[0] = 7.0
    faces[0] = 3
    assert np.array_equal(mesh.vertices, SQUARE)
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert (mesh.vertices.dtype, mesh.faces.dtype) == (np.float64, np.int32)
    tables = [mesh.vertices, mesh.faces, mesh.uv, mesh.edges, mesh.edge_faces, mesh.face_edges, mesh.hinges]
    tables += [mesh.vertex_faces.items, mesh.components, mesh.rest_lengths, mesh.face_areas, mesh.boundary_loops[0]]
    for table in tables:
        with pytest.raises(ValueError, match="read-only"):
            table[0] = 0
    with pytest.raises(AttributeError, match="cannot be changed"):
        mesh.vertices = SQUARE


BAD = {
    "nan": (np.where(np.arange(12).reshape(4, 3) == 7, np.nan, SQUARE), [(0, 1, 2), (0, 2, 3)], ["NaN", "(2)"]),
    "infinite": (np.where(SQUARE == 0, np.inf, SQUARE), [(0, 1, 2), (0, 2, 3)], ["infinite", "4 vertices"]),
    "range": (SQUARE, [(0, 1, 2), (0, 2, 9)], ["outside 0..3", "(0, 2, 9)", "1 triangle "]),
    "negative": (SQUARE, [(0, 1, 2), (0, 2, -1)], ["outside 0..3", "(1;"]),
    "huge": (SQUARE, [(0, 1, 2), (0, 2, 2**40)], ["outside 0..3"]),
    "repeat": (SQUARE, [(0, 1, 2), (0, 2, 3), (1, 1, 2)], ["same vertex twice", "(2)"]),
    "flat": (SQUARE * (1, 0, 1), [(0, 1, 2), (0, 2, 3)], ["2 triangles without area (0, 1)"]),
    "copy": (SQUARE, [(0, 1, 2), (0, 2, 3), (1, 2, 0)], ["vertices of an earlier one", "(2)"]),
    "unused": (np.vstack([SQUARE, SQUARE[:2] + 5]), [(0, 1, 2), (0, 2, 3)], ["2 vertices in no triangle (4, 5)"]),
    "orientation": (SQUARE, [(0, 1, 2), (0, 3, 2)], ["face opposite ways", "0-2"]),
    "crowded": (
        np.vstack([SQUARE, (0.5, 0.5, 1.0)]),
        [(0, 1, 2), (0, 2, 3), (2, 0, 4)],
        ["1 edge with more than two triangles (0-2)"],
    ),
    "bow tie": (
        np.vstack([SQUARE, -SQUARE[1:3]]),
        [(0, 1, 2), (0, 4, 5)],
        ["bow-tie vertex", "(0)", "in no triangle (3)"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_refuses(name):
    vertices, faces, words = BAD[name]
    with pytest.raises(MeshError) as error:
        TriMesh(vertices, faces)
    message = str(error.value)
    assert "repair_mesh" in message
    assert "\n" not in message
    for word in words:
        assert word in message


def test_refuses_closed_fans_that_meet_in_a_point():
    """Each fan is whole in itself: only walking round the vertex tells."""
    ball = shapes.icosphere(subdivisions=0)
    number = np.arange(12) + 12
    number[0] = 0
    faces = np.concatenate([ball.faces, number[ball.faces]])
    # vertex 12 would be the other copy of vertex 0
    faces[faces > 12] -= 1
    vertices = np.concatenate([ball.vertices, 2 * ball.vertices[0] - ball.vertices[1:]])
    with pytest.raises(MeshError, match=r"1 bow-tie vertex .*\(0\)"):
        TriMesh(vertices, faces)


def test_refuses_a_moebius_strip():
    with pytest.raises(MeshError, match="face opposite ways"):
        TriMesh(*moebius())


def test_names_all_problems_but_only_the_first_few_offenders():
    vertices = np.vstack([SQUARE, np.full((20, 3), 9.0)])
    with pytest.raises(MeshError) as error:
        TriMesh(vertices, [(0, 1, 2), (0, 2, 3), (1, 1, 2)])
    assert "same vertex twice" in str(error.value)
    assert "20 vertices in no triangle (4, 5, 6, 7, 8, ...)" in str(error.value)


@pytest.mark.parametrize(
    ("vertices", "faces", "uv", "words"),
    [
        (SQUARE, np.zeros((0, 3), dtype=int), None, "no triangles"),
        (SQUARE, [(0, 1, 2, 3)], None, r"shape \(m, 3\)"),
        (SQUARE, [(0.0, 1.0, 2.0)], None, "integers"),
        (SQUARE, [(True, False, True)], None, "integers"),
        (SQUARE, [(0, 1, 2), (1, 2)], None, "different lengths"),
        (SQUARE[:, :2], [(0, 1, 2)], None, r"shape \(n, 3\)"),
        ([("a", "b", "c")], [(0, 1, 2)], None, "array of numbers"),
        (SQUARE, [(0, 1, 2), (0, 2, 3)], SQUARE, r"uv must have shape \(n, 2\)"),
        (SQUARE, [(0, 1, 2), (0, 2, 3)], SQUARE[:3, :2], "uv has 3 rows for 4 vertices"),
        (SQUARE, [(0, 1, 2), (0, 2, 3)], np.full((4, 2), np.nan), "infinite uv"),
        (SQUARE, [(0, 1, 2), (0, 2, 3)], np.zeros((4, 2)), "without area in uv"),
    ],
)
def test_refuses_arrays_that_make_no_sense(vertices, faces, uv, words):
    with pytest.raises(MeshError, match=words):
        TriMesh(vertices, faces, uv)


@settings(max_examples=300, deadline=None)
@given(st.integers(3, 8), st.integers(1, 8), st.integers(0, 2**32 - 1))
def test_accepts_exactly_the_manifolds(vertex_count, face_count, seed):
    random = np.random.default_rng(seed)
    vertices = random.normal(size=(vertex_count, 3))
    faces = np.array([random.choice(vertex_count, 3, replace=False) for _ in range(face_count)])
    try:
        TriMesh(vertices, faces)
        accepted = True
    except MeshError:
        accepted = False
    copies = len({tuple(sorted(face)) for face in faces.tolist()}) < face_count
    assert accepted == (is_good(faces, vertex_count) and not copies)


def test_flatness_is_a_matter_of_shape_not_of_size():
    tiny = TriMesh(SQUARE * 1e-9, [(0, 1, 2), (0, 2, 3)])
    assert tiny.face_areas == pytest.approx(np.full(2, 0.5e-18))


def test_geometry_of_a_square():
    mesh = TriMesh(SQUARE, [(0, 1, 2), (0, 2, 3)])
    assert mesh.face_areas == pytest.approx([0.5, 0.5])
    assert mesh.face_normals == pytest.approx(np.array([(0, 0, 1), (0, 0, 1)]))
    assert mesh.edges.tolist() == [[0, 1], [0, 2], [0, 3], [1, 2], [2, 3]]
    assert mesh.edge_lengths == pytest.approx([1.0, 2**0.5, 1.0, 1.0, 1.0])
    assert mesh.rest_lengths is mesh.edge_lengths
    assert mesh.rest_areas is mesh.face_areas
    assert mesh.bounds.tolist() == [[0, 0, 0], [1, 1, 0]]
    assert repr(mesh) == "TriMesh(4 vertices, 2 triangles)"


def test_rest_shape_comes_from_uv():
    mesh = TriMesh(SQUARE, [(0, 1, 2), (0, 2, 3)], uv=SQUARE[:, :2] * (3.0, 4.0))
    assert mesh.rest_lengths == pytest.approx([3.0, 5.0, 4.0, 4.0, 3.0])
    assert mesh.rest_areas == pytest.approx([6.0, 6.0])
    assert mesh.edge_lengths[0] == pytest.approx(1.0)


def test_crumpled_cloth_with_a_good_rest_shape_is_accepted():
    mesh = TriMesh(np.zeros((4, 3)), [(0, 1, 2), (0, 2, 3)], uv=SQUARE[:, :2])
    assert mesh.face_normals.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert mesh.rest_areas == pytest.approx([0.5, 0.5])


def test_with_vertices_shares_the_tables():
    mesh = shapes.grid((1.0, 1.0), (3, 3))
    edges, hinges = mesh.edges, mesh.hinges
    areas = mesh.face_areas.copy()
    moved = mesh.with_vertices(mesh.vertices * 2.0)
    assert moved.edges is edges
    assert moved.hinges is hinges
    assert moved.uv is mesh.uv
    assert moved.face_areas == pytest.approx(4.0 * areas)
    assert mesh.face_areas == pytest.approx(areas)
    assert mesh.with_vertices(np.zeros_like(mesh.vertices)).face_areas.max() == 0.0


def test_with_vertices_refuses():
    mesh = shapes.grid((1.0, 1.0), (2, 2))
    with pytest.raises(MeshError, match="9 vertices, the new positions are for 8"):
        mesh.with_vertices(mesh.vertices[:-1])
    bad = mesh.vertices.copy()
    bad[4, 1] = np.inf
    with pytest.raises(MeshError, match=r"infinite coordinate \(4\)"):
        mesh.with_vertices(bad)


def test_transformed():
    mesh = shapes.box((1.0, 2.0, 3.0))
    matrix = np.eye(4)
    matrix[:3, :3] = [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    matrix[:3, 3] = (10, 20, 30)
    moved = mesh.transformed(matrix)
    assert moved.vertices[3] == pytest.approx(matrix[:3, :3] @ mesh.vertices[3] + (10, 20, 30))
    assert moved.faces is mesh.faces
    assert signed_volume(moved) == pytest.approx(6.0)


def test_mirrored_bodies_still_face_outwards():
    mesh = shapes.box((1.0, 2.0, 3.0))
    moved = mesh.transformed(np.diag([-2.0, 1.0, 1.0, 1.0]))
    assert signed_volume(moved) == pytest.approx(12.0)
    assert moved.hinges.shape == mesh.hinges.shape
    assert is_good(moved.faces, len(moved.vertices))


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.eye(3), "4x4"),
        (np.full((4, 4), np.nan), "finite"),
        (np.diag([1.0, 0.0, 1.0, 1.0]), "flattens"),
        (np.diag([1.0, 1.0, 1.0, 2.0]), "last row"),
    ],
)
def test_transformed_refuses(matrix, words):
    with pytest.raises(MeshError, match=words):
        shapes.box().transformed(matrix)
