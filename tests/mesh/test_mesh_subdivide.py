"""Subdivision against rules written out vertex by vertex, and properties that hold for all meshes."""

import numpy as np
import pytest
from hypothesis import given, settings
from mesh_oracles import good_meshes

from weft.errors import MeshError
from weft.mesh import TriMesh, shapes, subdivide

few = settings(max_examples=30, deadline=None)


@few
@given(good_meshes())
def test_midpoint_keeps_the_surface(mesh):
    finer = subdivide.midpoint(mesh)
    assert len(finer.faces) == 4 * len(mesh.faces)
    assert finer.face_areas.reshape(-1, 4) == pytest.approx(np.repeat(mesh.face_areas[:, None] / 4, 4, axis=1))
    # the four parts of a triangle face the way it does
    assert finer.face_normals.reshape(-1, 4, 3) == pytest.approx(np.repeat(mesh.face_normals[:, None], 4, axis=1))
    assert len(finer.boundary_loops) == len(mesh.boundary_loops)
    assert np.array_equal(finer.components[: len(mesh.vertices)], mesh.components)


def loop_rules(mesh, points):
    """Loop's rules, one vertex and one edge at a time."""
    border = {}
    for loop in mesh.boundary_loops:
        loop = loop.tolist()
        for k, vertex in enumerate(loop):
            border[vertex] = loop[k - 1], loop[(k + 1) % len(loop)]
    result = []
    for vertex in range(len(points)):
        if vertex in border:
            before, after = border[vertex]
            result.append(0.75 * points[vertex] + 0.125 * points[before] + 0.125 * points[after])
            continue
        around = mesh.vertex_neighbours.row(vertex).tolist()
        n = len(around)
        beta = (5 / 8 - (3 / 8 + np.cos(2 * np.pi / n) / 4) ** 2) / n
        result.append((1 - n * beta) * points[vertex] + beta * sum(points[other] for other in around))
    for (a, b), pair in zip(mesh.edges.tolist(), mesh.edge_faces.tolist(), strict=True):
        if pair[1] < 0:
            result.append((points[a] + points[b]) / 2)
            continue
        opposite = [sum(mesh.faces[face].tolist()) - a - b for face in pair]
        result.append(3 / 8 * (points[a] + points[b]) + (points[opposite[0]] + points[opposite[1]]) / 8)
    return np.array(result)


@few
@given(good_meshes())
def test_loop_follows_the_rules(mesh):
    assert subdivide.loop_points(mesh, mesh.vertices) == pytest.approx(loop_rules(mesh, mesh.vertices))


@few
@given(good_meshes())
def test_loop_keeps_flat_and_affine(mesh):
    """The weights of every new point sum to 1, so an affine map before or after is the same."""
    matrix, shift = np.array([(1.0, 2.0, 0.0), (0.0, 1.0, 3.0), (1.0, 0.0, 1.0)]), np.array([5.0, 6.0, 7.0])
    before = subdivide.loop_points(mesh, mesh.vertices @ matrix + shift)
    after = subdivide.loop_points(mesh, mesh.vertices) @ matrix + shift
    assert before == pytest.approx(after)


def test_loop_carries_uv_so_that_a_sheet_at_rest_stays_at_rest():
    sheet = shapes.grid((2.0, 1.0), (4, 3), diagonals="same")
    finer = subdivide.loop(sheet)
    assert finer.rest_lengths == pytest.approx(finer.edge_lengths)
    assert finer.face_normals == pytest.approx(np.tile((0.0, 1.0, 0.0), (len(finer.faces), 1)))
    middle = subdivide.midpoint(sheet)
    assert middle.rest_lengths == pytest.approx(middle.edge_lengths)
    assert middle.bounds == pytest.approx(sheet.bounds)


def test_sewn_borders_stay_together():
    """Two sheets with the same border points keep the same border, whatever their insides do."""
    left = shapes.grid((1.0, 1.0), (3, 4), diagonals="same")
    right = shapes.grid((1.0, 1.0), (5, 4))
    border_left, border_right = shapes.grid_boundary((3, 4), "right"), shapes.grid_boundary((5, 4), "left")
    wave = np.column_stack([np.zeros(5), np.sin(np.arange(5.0)), np.arange(5.0)])
    points_left, points_right = left.vertices.copy(), right.vertices + np.array([1.0, 0, 0])
    points_left[border_left] = points_right[border_right] = wave
    finer_left = subdivide.loop(left.with_vertices(points_left))
    finer_right = subdivide.loop(right.with_vertices(points_right))
    # all but the corners, whose neighbours on the border differ
    assert finer_left.vertices[border_left[1:-1]] == pytest.approx(finer_right.vertices[border_right[1:-1]])


def test_loop_smooths_a_coarse_ball():
    mesh = shapes.icosphere(subdivisions=0)
    for _ in range(3):
        mesh = subdivide.loop(mesh)
    assert mesh.closed
    hinge = np.einsum("ij,ij->i", *(mesh.face_normals[mesh.edge_faces[mesh.hinge_edges, side]] for side in (0, 1)))
    assert hinge.min() > np.cos(np.radians(15.0))


def test_points_must_fit():
    with pytest.raises(MeshError, match="one row for each of the 4 vertices"):
        subdivide.loop_points(shapes.plane(), np.zeros((3, 3)))


def test_single_triangle():
    mesh = TriMesh([(0, 0, 0), (8, 0, 0), (0, 8, 0)], [(0, 1, 2)])
    finer = subdivide.loop(mesh)
    assert finer.vertices.tolist() == [[1, 1, 0], [6, 1, 0], [1, 6, 0], [4, 0, 0], [0, 4, 0], [4, 4, 0]]
