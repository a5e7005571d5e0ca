"""Cloth that starts on something: which way it goes, and what stays where it is."""

import numpy as np
import pytest

from weft.contact.touching import OFFSET, moved_off, pieces
from weft.mesh import shapes
from weft.mesh.topology import vertex_normals

TRIANGLE = [[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
UP = np.array([0.0, OFFSET, 0.0])


def two_triangles(offset=(0.2, 0.0, 0.2)):
    """The second lies on the first, with its corner 3 inside of it; both look up."""
    x = np.concatenate([TRIANGLE, np.array(TRIANGLE) + offset])
    return x, np.array([[0, 1, 2], [3, 4, 5]])


def off(x, faces, piece, vertices, weights, free=None):
    free = np.ones(len(x), bool) if free is None else free
    return moved_off(x, faces, np.array(piece), free, np.array([vertices]), np.array([weights])) - x


def test_a_vertex_goes_off_a_triangle_along_its_normal():
    x, faces = two_triangles()
    moved = off(x, faces, [0, 0, 0, 1, 1, 1], [3, 0, 1, 2], [1.0, -0.6, -0.2, -0.2])
    assert moved[3] == pytest.approx(UP, abs=1e-15)
    assert not moved[[0, 1, 2, 4, 5]].any()


def test_a_triangle_goes_off_a_vertex_that_was_there_first():
    x, faces = two_triangles()
    moved = off(x, faces, [1, 1, 1, 0, 0, 0], [3, 0, 1, 2], [1.0, -0.6, -0.2, -0.2])
    assert moved[:3] == pytest.approx(np.tile(UP, (3, 1)), abs=1e-15)
    assert not moved[3:].any()


@pytest.mark.parametrize(("piece", "later"), [([0, 0, 0, 1, 1, 1], [3, 4]), ([1, 1, 1, 0, 0, 0], [1, 2])])
def test_of_two_edges_the_later_one_goes(piece, later):
    x, faces = two_triangles()
    moved = off(x, faces, piece, [1, 2, 3, 4], [0.5, 0.5, -0.5, -0.5])
    assert moved[later] == pytest.approx(np.tile(UP, (2, 1)), abs=1e-15)
    assert not np.delete(moved, later, axis=0).any()


def test_colliders_come_before_all_cloth():
    x, faces = two_triangles()
    piece = pieces(faces, 6, 3)
    assert piece.tolist() == [0, 0, 0, -1, -1, -1]
    moved = off(x, faces, piece, [3, 0, 1, 2], [1.0, -0.6, -0.2, -0.2])
    assert moved[:3].any(axis=1).all()
    assert not moved[3:].any()


def test_pins_and_pairs_of_one_piece_stay():
    x, faces = two_triangles()
    stencil = [3, 0, 1, 2], [1.0, -0.6, -0.2, -0.2]
    assert not off(x, faces, np.zeros(6, int), *stencil).any()
    assert not off(x, faces, [0, 0, 0, 1, 1, 1], *stencil, free=np.arange(6) != 3).any()


def test_between_two_floors_there_is_no_way():
    x = np.concatenate([TRIANGLE, [[0.2, 0.0, 0.2]]])
    faces = np.array([[0, 1, 2], [0, 2, 1]])
    vertices, weights = np.array([[3, 0, 1, 2], [3, 0, 2, 1]]), np.array([[1.0, -0.6, -0.2, -0.2]] * 2)
    assert moved_off(x, faces, np.array([-1, -1, -1, 0]), np.ones(4, bool), vertices, weights) is x


def test_pieces_are_numbered_in_the_order_of_their_vertices():
    faces = np.array([[3, 4, 5], [0, 1, 2], [5, 4, 6]])
    assert pieces(faces, 7, 7).tolist() == [0, 0, 0, 3, 3, 3, 3]


def test_normals_of_a_sphere_look_outwards():
    mesh = shapes.icosphere(radius=0.7, subdivisions=2)
    outwards = mesh.vertices / 0.7
    assert (vertex_normals(mesh.vertices, mesh.faces) * outwards).sum(axis=1).min() > 0.99
