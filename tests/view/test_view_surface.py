"""The drawn surface: the same shape, finer; smooth where it is smooth and sharp where it is sharp."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.mesh import TriMesh, shapes
from weft.mesh.topology import split_sharp
from weft.view.surface import Surface, split_matrix, typical_edge


def area(points, faces):
    a, b, c = (points[faces[:, k]] for k in range(3))
    return np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 1000))
def test_splitting_in_four_is_the_midpoint_subdivision(across, along, seed):
    grid = shapes.grid((1.0, 2.0), (across, along))
    x = grid.vertices + np.random.default_rng(seed).normal(scale=0.1, size=grid.vertices.shape)
    step, faces = split_matrix(grid.faces, len(x))
    fine = step @ x
    assert len(fine) == len(x) + len(grid.edges)
    # a valid mesh with the same boundary, orientation and area
    mesh = TriMesh(fine, faces)
    assert area(fine, faces) == pytest.approx(area(x, grid.faces))
    assert sum(map(len, mesh.boundary_loops)) == 2 * sum(map(len, grid.boundary_loops))
    normal = np.cross(x[grid.faces[0, 1]] - x[grid.faces[0, 0]], x[grid.faces[0, 2]] - x[grid.faces[0, 0]])
    np.testing.assert_allclose(mesh.face_normals[0], normal / np.linalg.norm(normal), atol=1e-9)


def test_a_box_gets_one_point_for_each_corner_of_each_side():
    box = shapes.box((1.0, 2.0, 3.0))
    corners, faces = split_sharp(box.vertices, box.faces)
    assert len(corners) == 24
    np.testing.assert_array_equal(corners[faces], box.faces)
    surface = Surface(box.vertices, box.faces, smooth=False, detail=10.0)
    _, normals = surface.shape(box.vertices)
    np.testing.assert_allclose(np.sort(np.abs(normals), axis=1), [[0.0, 0.0, 1.0]] * 24, atol=1e-12)


def test_a_sphere_stays_whole_and_its_normals_point_outwards():
    ball = shapes.icosphere(1.0, subdivisions=3)
    corners, _ = split_sharp(ball.vertices, ball.faces)
    assert len(corners) == len(ball.vertices)
    points, normals = Surface(ball.vertices, ball.faces, smooth=False, detail=0.05).shape(ball.vertices)
    assert (np.einsum("ij,ij->i", points / np.linalg.norm(points, axis=1, keepdims=True), normals) > 0.995).all()


def test_a_fold_of_cloth_is_smooth_however_sharp():
    grid = shapes.grid((1.0, 1.0), (2, 1), diagonals="same")
    x = grid.vertices.copy()
    x[:, 1] = np.abs(x[:, 0])
    surface = Surface(x, grid.faces, smooth=True, detail=10.0)
    assert len(surface.shape(x)[0]) == len(x)


def test_coarse_triangles_are_refined_and_fine_ones_are_not():
    coarse = shapes.grid((1.0, 1.0), (2, 2))
    surface = Surface(coarse.vertices, coarse.faces, smooth=True, detail=0.1)
    points, _ = surface.shape(coarse.vertices)
    assert typical_edge(points, surface.faces) <= 0.1
    fine = shapes.grid((1.0, 1.0), (20, 20))
    assert len(Surface(fine.vertices, fine.faces, smooth=True, detail=0.1).faces) == len(fine.faces)


def test_the_surface_follows_the_vertices():
    grid = shapes.grid((1.0, 1.0), (3, 3))
    surface = Surface(grid.vertices, grid.faces, smooth=True, detail=0.05)
    turn = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    points, normals = surface.shape(grid.vertices)
    moved, turned = surface.shape(grid.vertices @ turn.T + 2.0)
    np.testing.assert_allclose(moved, points @ turn.T + 2.0, atol=1e-12)
    np.testing.assert_allclose(turned, normals @ turn.T, atol=1e-12)


def test_a_triangle_without_area_gives_no_nan():
    vertices = np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 0, 1]])
    faces = np.array([[0, 1, 2], [0, 3, 1]], np.int32)
    _, normals = Surface(vertices, faces, smooth=True, detail=9.0).shape(vertices)
    assert np.isfinite(normals).all()


def test_rounding_moves_points_by_its_length_at_most_and_keeps_gentle_bends():
    ball = shapes.icosphere(0.5, subdivisions=3)
    flat = Surface(ball.vertices, ball.faces, smooth=True, detail=np.inf)
    free, held = (Surface(ball.vertices, ball.faces, smooth=True, detail=np.inf, rounding=r) for r in (1.0, 1e-4))
    points, normals = free.shape(ball.vertices)
    # vertices of the ball and middles of its edges are both on it
    assert np.abs(np.linalg.norm(points, axis=1) - 0.5).max() < 2e-3 * 0.5
    assert (normals * points).sum(axis=1).min() > 0.999 * 0.5
    middles = np.linalg.norm(held.lift @ ball.vertices, axis=1)
    moved = np.linalg.norm(held.shape(ball.vertices)[0] - held.lift @ ball.vertices, axis=1)
    assert moved.max() == pytest.approx(1e-4) and middles.min() < 0.5 - 1e-3
    assert len(flat.faces) * 4 == len(held.faces) == len(free.faces)


def test_a_flat_sheet_and_its_corners_stay():
    grid = shapes.grid((1.0, 1.0), (6, 6))
    surface = Surface(grid.vertices, grid.faces, smooth=True, detail=np.inf, rounding=4e-4)
    points, normals = surface.shape(grid.vertices)
    assert np.abs(points - surface.lift @ grid.vertices).max() <= 4.001e-4 and np.abs(points[:, 1]).max() < 1e-12
    np.testing.assert_allclose(np.abs(normals[:, 1]), 1.0, atol=1e-12)


def test_normals_of_a_narrow_fold_are_nearer_to_the_true_ones():
    """A ridge as narrow as the cells that runs at an angle to them: plain normals alternate along its crest."""
    grid = shapes.grid((1.0, 1.0), (20, 20))
    radius, slant = 0.05, 0.31

    def across(points):
        return points[:, 0] + slant * points[:, 2]

    x = grid.vertices.copy()
    x[:, 1] = np.sqrt(across(x) ** 2 + radius**2)

    def error(rounding):
        surface = Surface(x, grid.faces, smooth=True, detail=0.03, rounding=rounding)
        points, normals = surface.shape(x)
        steep = across(points) / np.sqrt(across(points) ** 2 + radius**2)
        true = np.stack([-steep, np.ones_like(steep), -slant * steep], axis=1)
        true /= np.linalg.norm(true, axis=1, keepdims=True)
        inside = (np.abs(points[:, [0, 2]]) < 0.4).all(axis=1)
        return np.sqrt(np.mean(1.0 - np.abs((normals * true).sum(axis=1))[inside]))

    assert error(1e-3) < 0.75 * error(0.0)
