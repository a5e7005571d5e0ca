"""Meshes that rest in the texture coordinates of their corners: panels that share the vertices of their seams."""

import numpy as np
import pytest
from scipy.sparse.csgraph import shortest_path

from weft.dynamics import springs
from weft.dynamics.implicit import elements
from weft.errors import MeshError
from weft.mesh import TriMesh, shapes
from weft.methods.predictive.guides import _rest_graph
from weft.scene import Material
from weft.world import RestCloth

TABLES = ("rest_lengths", "rest_areas", "rest_edges", "rest_corners", "flat_corners")


def sheet():
    return shapes.grid((1.0, 0.7), (5, 4))


def at_corners(mesh, corners):
    return TriMesh(mesh.vertices, mesh.faces, corner_uv=corners).resting_in_corners()


def moved(corners, angle, away):
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    return corners @ turn + away


def test_without_seams_it_is_the_mesh_with_a_uv_a_vertex():
    mesh = sheet()
    same = at_corners(mesh, mesh.uv[mesh.faces])
    for name in TABLES:
        np.testing.assert_allclose(getattr(same, name), getattr(mesh, name), atol=1e-14, err_msg=name)
    material = Material(stretch_limit=0.1, bend={"warp": 1e-4, "weft": 3e-4})
    one, other = springs.from_mesh(same, material), springs.from_mesh(mesh, material)
    for name in springs.SpringNetwork.__dataclass_fields__:
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=1e-9, err_msg=name)
    one, other = elements.from_mesh(same, material), elements.from_mesh(mesh, material)
    np.testing.assert_allclose(one.p, other.p, atol=1e-12)
    np.testing.assert_allclose(one.hinges.face_coupling, other.hinges.face_coupling, atol=1e-12)
    assert same != mesh and same.digest != TriMesh(mesh.vertices, mesh.faces, corner_uv=same.corner_uv).digest


def test_over_seams_cloth_is_as_within_panels():
    """Each triangle is a panel of its own, some of them mirrored: lengths, areas and hinges stay."""
    mesh, random = sheet(), np.random.default_rng(4)
    corners = np.array(
        [moved(corner * random.choice([[1, 1], [-1, 1]]), *random.normal(size=2)) for corner in mesh.uv[mesh.faces]]
    )
    apart = at_corners(mesh, corners)
    for name in ("rest_lengths", "rest_areas"):
        np.testing.assert_allclose(getattr(apart, name), getattr(mesh, name), atol=1e-12, err_msg=name)
    sides = (mesh.hinge_corners, apart.hinge_corners)
    one, other = (np.linalg.norm(c[:, :, None] - c[:, None, :], axis=3) for c in sides)
    np.testing.assert_allclose(one, other, atol=1e-12)
    material = Material()
    np.testing.assert_allclose(
        springs.from_mesh(apart, material).weights, springs.from_mesh(mesh, material).weights, atol=1e-9
    )
    graphs = [shortest_path(_rest_graph(RestCloth(rest, material, 0)), directed=False) for rest in (mesh, apart)]
    np.testing.assert_allclose(*graphs, atol=1e-12)


def test_an_eased_seam_rests_at_the_mean_of_both_sides():
    """One of two triangles is cut 1.1 times as large."""
    corners = np.array([[[0, 0], [1, 0], [0, 1]], [[9, 9], [7.9, 9], [9, 7.9]]])
    mesh = at_corners(TriMesh([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]], [[0, 1, 2], [3, 2, 1]]), corners)
    (seam,) = mesh.hinge_edges
    assert mesh.rest_lengths[seam] == pytest.approx(1.05 * np.sqrt(2.0))
    np.testing.assert_allclose(sorted(mesh.rest_lengths), [1.0, 1.0, 1.1, 1.1, 1.05 * np.sqrt(2.0)])
    np.testing.assert_allclose(mesh.rest_areas, [0.5, 0.605])
    # unfolded, both are right-angled triangles of the same size
    a, b, c, d = mesh.hinge_corners[0]
    np.testing.assert_allclose(0.5 * (a + b), 0.5 * (c + d), atol=1e-12)
    assert np.linalg.norm(c - d) == pytest.approx(1.05 * np.sqrt(2.0))


def test_it_stays_so_in_motion_and_mirrored():
    mesh = sheet()
    same = at_corners(mesh, moved(mesh.uv[mesh.faces], 0.5, [3.0, 0.0]))
    for other in (same.with_vertices(2.0 * mesh.vertices), same.transformed(np.diag([3.0, -1.0, 1.0, 1.0]))):
        np.testing.assert_allclose(other.rest_lengths, mesh.rest_lengths, atol=1e-12)
        np.testing.assert_allclose(other.rest_areas, mesh.rest_areas, atol=1e-12)


def test_what_has_no_area_there_is_refused():
    mesh = sheet()
    corners = mesh.uv[mesh.faces].copy()
    corners[[3, 8]] = 0.0
    with pytest.raises(MeshError, match="2 triangles without area in the texture coordinates, first triangle 3"):
        at_corners(mesh, corners)
    with pytest.raises(MeshError, match="no texture coordinates at its corners"):
        mesh.with_uv(None).resting_in_corners()
