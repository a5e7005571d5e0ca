"""Shapes have the size, the triangles, the sides and the orientation they say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_oracles import signed_volume

from weft.errors import MeshError
from weft.mesh import shapes

counts = st.integers(1, 7)
few = settings(max_examples=40, deadline=None)


def euler(mesh):
    return len(mesh.vertices) - len(mesh.edges) + len(mesh.faces)


@few
@given(counts, counts, st.sampled_from(["alternating", "same"]))
def test_grid(across, along, diagonals):
    mesh = shapes.grid((3.0, 2.0), (across, along), diagonals=diagonals)
    assert len(mesh.vertices) == (across + 1) * (along + 1)
    assert len(mesh.faces) == 2 * across * along
    assert euler(mesh) == 1
    assert mesh.face_normals == pytest.approx(np.tile((0.0, 1.0, 0.0), (len(mesh.faces), 1)))
    assert mesh.bounds == pytest.approx(np.array([(-1.5, 0, -1), (1.5, 0, 1)]))
    i, j = across // 2, along
    assert mesh.vertices[j * (across + 1) + i] == pytest.approx((3.0 * i / across - 1.5, 0.0, 1.0))
    # at rest as it is made, and the front of uv is the front of the sheet
    assert mesh.rest_lengths == pytest.approx(mesh.edge_lengths)
    a, b, c = (mesh.uv[column] for column in mesh.faces.T)
    assert (np.linalg.det(np.stack([b - a, c - a], axis=1)) > 0).all()


def test_diagonals():
    same = shapes.grid((4.0, 4.0), (4, 4), diagonals="same")
    alternating = shapes.grid((4.0, 4.0), (4, 4))
    for mesh, expected in ((same, {6}), (alternating, {4, 8})):
        valences = np.diff(mesh.vertex_neighbours.offsets)
        inner = [j * 5 + i for i in (1, 2, 3) for j in (1, 2, 3)]
        assert set(valences[inner].tolist()) == expected
    with pytest.raises(MeshError, match="'alternating' or 'same'"):
        shapes.grid((1.0, 1.0), (1, 1), diagonals="random")


@few
@given(counts, counts)
def test_grid_boundary(across, along):
    mesh = shapes.grid((3.0, 2.0), (across, along))
    x, _, z = mesh.vertices.T
    where = {"left": x == -1.5, "right": x == 1.5, "top": z == -1.0, "bottom": z == 1.0}
    where["corners"] = (where["left"] | where["right"]) & (where["top"] | where["bottom"])
    where["all"] = where["left"] | where["right"] | where["top"] | where["bottom"]
    for name, mask in where.items():
        assert shapes.grid_boundary((across, along), name).tolist() == np.flatnonzero(mask).tolist()
    assert np.array_equal(shapes.grid_boundary((across, along), "all"), np.sort(mesh.boundary_loops[0]))


def test_grid_boundary_refuses():
    with pytest.raises(MeshError, match="no boundary 'front'; it has left"):
        shapes.grid_boundary((2, 2), "front")


def test_strip():
    mesh = shapes.strip(2.0, 0.1, 20, cells_across=2)
    assert mesh.bounds == pytest.approx(np.array([(-1, 0, -0.05), (1, 0, 0.05)]))
    assert len(mesh.faces) == 80
    assert mesh.uv is not None


def test_plane():
    mesh = shapes.plane((4.0, 6.0), cells=(2, 3), height=-0.5)
    assert mesh.bounds == pytest.approx(np.array([(-2, -0.5, -3), (2, -0.5, 3)]))
    assert mesh.face_normals == pytest.approx(np.tile((0.0, 1.0, 0.0), (12, 1)))
    assert mesh.uv is None


@few
@given(st.integers(3, 12), st.integers(2, 8))
def test_uv_sphere(segments, rings):
    mesh = shapes.uv_sphere(2.0, segments=segments, rings=rings)
    assert np.linalg.norm(mesh.vertices, axis=1) == pytest.approx(np.full(len(mesh.vertices), 2.0))
    assert len(mesh.faces) == 2 * segments * (rings - 1)
    assert mesh.closed and euler(mesh) == 2
    assert (np.einsum("ij,ij->i", mesh.face_normals, mesh.vertices[mesh.faces].mean(axis=1)) > 0).all()


def test_uv_sphere_approaches_the_ball():
    mesh = shapes.uv_sphere(2.0, segments=200, rings=100)
    assert signed_volume(mesh) == pytest.approx(4.0 / 3.0 * np.pi * 8.0, rel=1e-3)


@pytest.mark.parametrize("subdivisions", range(4))
def test_icosphere(subdivisions):
    mesh = shapes.icosphere(0.5, subdivisions=subdivisions)
    assert len(mesh.faces) == 20 * 4**subdivisions
    assert np.linalg.norm(mesh.vertices, axis=1) == pytest.approx(np.full(len(mesh.vertices), 0.5))
    assert mesh.closed and euler(mesh) == 2
    assert (np.einsum("ij,ij->i", mesh.face_normals, mesh.vertices[mesh.faces].mean(axis=1)) > 0).all()
    assert mesh.face_areas.max() / mesh.face_areas.min() < 2.0


@few
@given(st.integers(3, 12), st.integers(1, 6), counts)
def test_capsule(segments, rings, bands):
    mesh = shapes.capsule(0.5, 2.0, segments=segments, rings=rings, bands=bands)
    axis = mesh.vertices * (0, 1, 0)
    axis[:, 1] = np.clip(axis[:, 1], -1.0, 1.0)
    assert np.linalg.norm(mesh.vertices - axis, axis=1) == pytest.approx(np.full(len(mesh.vertices), 0.5))
    assert mesh.bounds[:, 1] == pytest.approx([-1.5, 1.5])
    assert mesh.closed and euler(mesh) == 2
    assert len(mesh.faces) == 2 * segments * (2 * rings - 1 + bands)
    centres = mesh.vertices[mesh.faces].mean(axis=1)
    outwards = centres - np.clip(centres, -1.0, 1.0) * (0, 1, 0)
    assert (np.einsum("ij,ij->i", mesh.face_normals, outwards) > 0).all()


def test_capsule_approaches_its_volume():
    mesh = shapes.capsule(0.5, 2.0, segments=200, rings=50)
    assert signed_volume(mesh) == pytest.approx(np.pi * 0.25 * 2.0 + 4.0 / 3.0 * np.pi * 0.125, rel=1e-3)


@pytest.mark.parametrize(("lower", "upper"), [(0.5, 0.2), (0.2, 0.5), (0.3, 0.3)])
def test_a_tapered_capsule_touches_two_spheres(lower, upper):
    mesh = shapes.capsule(lower, 1.0, end_radius=upper, segments=24, rings=6, bands=4)
    assert mesh.closed and euler(mesh) == 2
    assert mesh.bounds[:, 1] == pytest.approx([-0.5 - lower, 0.5 + upper])
    # the hull of two spheres: every vertex is on the sphere that reaches out to it, and inside of none
    t = np.linspace(0.0, 1.0, 2001)
    centres = np.column_stack([0 * t, t - 0.5, 0 * t])
    gaps = np.linalg.norm(mesh.vertices[:, None] - centres, axis=2) - ((1.0 - t) * lower + t * upper)
    assert gaps.min(axis=1) == pytest.approx(np.zeros(len(mesh.vertices)), abs=1e-5)
    assert signed_volume(mesh) > 0.0
    np.testing.assert_array_equal(shapes.capsule(0.3, 1.0, end_radius=0.3).vertices, shapes.capsule(0.3, 1.0).vertices)


def test_a_hull_holds_its_points():
    points = np.random.default_rng(0).normal(size=(200, 3))
    mesh = shapes.convex_hull(points)
    assert mesh.closed and euler(mesh) == 2 and signed_volume(mesh) > 0.0
    away = np.einsum("fk,nfk->nf", mesh.face_normals, points[:, None] - mesh.vertices[mesh.faces[:, 0]])
    assert away.max() < 1e-12
    box = shapes.box((1.0, 2.0, 3.0)).vertices
    assert signed_volume(shapes.convex_hull(box)) == pytest.approx(6.0)


@few
@given(counts, counts, counts)
def test_box(x, y, z):
    mesh = shapes.box((1.0, 2.0, 3.0), cells=(x, y, z))
    assert mesh.closed and euler(mesh) == 2
    assert len(mesh.faces) == 4 * (x * y + y * z + z * x)
    assert signed_volume(mesh) == pytest.approx(6.0)
    assert mesh.bounds == pytest.approx(np.array([(-0.5, -1.0, -1.5), (0.5, 1.0, 1.5)]))
    # all triangles face away from the centre, along an axis
    assert np.abs(mesh.face_normals).max(axis=1) == pytest.approx(np.ones(len(mesh.faces)))
    assert (np.einsum("ij,ij->i", mesh.face_normals, mesh.vertices[mesh.faces].mean(axis=1)) > 0).all()


@few
@given(st.integers(3, 12), counts)
def test_cylinder(segments, rings):
    mesh = shapes.cylinder(0.5, 3.0, segments=segments, rings=rings)
    assert euler(mesh) == 0
    assert [len(loop) for loop in mesh.boundary_loops] == [segments, segments]
    assert len(mesh.faces) == 2 * segments * rings
    assert np.hypot(mesh.vertices[:, 0], mesh.vertices[:, 2]) == pytest.approx(np.full(len(mesh.vertices), 0.5))
    assert mesh.bounds[:, 1] == pytest.approx([-1.5, 1.5])
    outwards = mesh.vertices[mesh.faces].mean(axis=1) * (1, 0, 1)
    assert (np.einsum("ij,ij->i", mesh.face_normals, outwards) > 0).all()


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: shapes.grid((1.0, 0.0), (1, 1)), "size must be 2 positive numbers"),
        (lambda: shapes.grid((1.0, np.nan), (1, 1)), "size must be 2 positive numbers"),
        (lambda: shapes.grid(1.0, (1, 1)), "size must be 2 positive numbers"),
        (lambda: shapes.grid((1.0, 1.0), (1, 0)), "cells must be 2 whole numbers from 1 up"),
        (lambda: shapes.grid((1.0, 1.0), (1.5, 2)), "cells must be 2 whole numbers"),
        (lambda: shapes.uv_sphere(-1.0), "radius must be a positive number"),
        (lambda: shapes.uv_sphere(segments=2), "segments must be a whole number from 3 up"),
        (lambda: shapes.uv_sphere(rings=1), "rings must be a whole number from 2 up"),
        (lambda: shapes.icosphere(subdivisions=-1), "subdivisions must be"),
        (lambda: shapes.capsule(0.1, 0.0), "length must be"),
        (lambda: shapes.capsule(0.5, 0.2, end_radius=0.1), "must differ by less than its length 0.2"),
        (lambda: shapes.convex_hull([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]), "not in one plane"),
        (lambda: shapes.convex_hull([[0, 0, np.nan]]), "finite points"),
        (lambda: shapes.cylinder(0.1, np.inf), "height must be"),
        (lambda: shapes.box((1.0, 1.0)), "size must be 3"),
        (lambda: shapes.box(cells=0), "cells must be 3"),
        (lambda: shapes.plane(cells=(0, 1)), "cells must be 2"),
    ],
)
def test_refuses(make, words):
    with pytest.raises(MeshError, match=words):
        make()
