"""Polygons: concave ones are cut right, and come back as they were."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.mesh import TriMesh, load_mesh, save_mesh
from weft.mesh.polygons import polygon_loops, polygon_numbers, triangulate

# an L of three squares: from every corner but one a fan leaves it
L_SHAPE = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [1, 1, 0], [1, 2, 0], [0, 2, 0]], dtype=float)


def star(count, seed, dent):
    """A simple polygon about the origin: corners at ascending angles, at different distances."""
    rng = np.random.default_rng(seed)
    angles = 2.0 * np.pi * (np.arange(count) + rng.uniform(0.1, 0.9, count)) / count
    radii = rng.uniform(dent, 1.0, count)
    return np.column_stack([radii * np.cos(angles), radii * np.sin(angles), np.zeros(count)])


def area(points, triangles):
    a, b, c = (points[column] for column in triangles.T)
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum()


def shoelace(points):
    x, y = points[:, 0], points[:, 1]
    return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


@pytest.mark.parametrize("turn", range(6))
@pytest.mark.parametrize("way", [1, -1])
def test_an_l_has_three_square_metres_from_whichever_corner_it_begins(turn, way):
    points = np.roll(L_SHAPE, turn, axis=0)[::way]
    triangles = triangulate(np.array([6]), points)
    assert area(points, triangles) == pytest.approx(3.0)
    assert len(TriMesh(points, triangles).faces) == 4


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 24), st.integers(0, 10**6), st.sampled_from([0.05, 0.3, 0.9]))
def test_triangles_cover_any_simple_polygon_once(count, seed, dent):
    points = star(count, seed, dent)
    triangles = triangulate(np.array([count]), points)
    assert len(triangles) == count - 2
    # same area, every triangle counter-clockwise: no overlap
    assert area(points, triangles) == pytest.approx(shoelace(points))
    a, b, c = (points[column] for column in triangles.T)
    assert (np.cross(b - a, c - a)[:, 2] > 0.0).all()
    # a valid mesh whose boundary is the polygon
    (loop,) = TriMesh(points, triangles).boundary_loops
    assert np.roll(loop, -int(loop.argmin())).tolist() == list(range(count))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(3, 9), min_size=1, max_size=8), st.integers(0, 10**6))
def test_polygons_come_back_from_their_triangles(sizes, seed):
    points = np.concatenate([star(size, seed + k, 0.2) + (3.0 * k, 0, 0) for k, size in enumerate(sizes)])
    triangles = triangulate(np.array(sizes), points)
    found, corners = polygon_loops(triangles, polygon_numbers(np.array(sizes)))
    assert found.tolist() == sizes
    loops = np.split(triangles.ravel()[corners], np.cumsum(found)[:-1])
    starts = np.cumsum(sizes) - sizes
    for loop, start, size in zip(loops, starts, sizes, strict=True):
        assert np.roll(loop, -int(loop.argmin())).tolist() == list(range(start, start + size))


def test_convex_polygons_keep_their_fans():
    square = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], dtype=float)
    assert triangulate(np.array([4]), square).tolist() == [[0, 1, 2], [0, 2, 3]]


def test_corners_on_a_side_make_no_flat_triangle():
    # a triangle with three more corners on one side, from each corner
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0.75, 0], [0, 0.5, 0], [0, 0.25, 0]])
    for turn in range(6):
        turned = np.roll(points, turn, axis=0)
        assert TriMesh(turned, triangulate(np.array([6]), turned)).face_areas.sum() == pytest.approx(0.5)


def test_a_bent_concave_polygon_in_space_is_cut_in_its_own_plane():
    rng = np.random.default_rng(3)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    points = (L_SHAPE + rng.normal(scale=1e-3, size=L_SHAPE.shape)) @ turn.T
    assert area(points, triangulate(np.array([6]), points)) == pytest.approx(3.0, rel=1e-2)


def test_a_polygon_that_crosses_itself_still_gives_triangles():
    bow = np.array([[0, 0, 0], [1, 1, 0], [1, 0, 0], [0, 1, 0]], dtype=float)
    assert triangulate(np.array([4]), bow).shape == (2, 3)


def test_triangles_that_make_no_loop_stay_triangles():
    faces = np.array([[0, 1, 2], [3, 4, 5]])
    sizes, corners = polygon_loops(faces, np.array([0, 0]))
    assert sizes.tolist() == [3, 3]
    assert corners.tolist() == list(range(6))


@pytest.mark.parametrize("ending", ["obj", "ply"])
def test_files_give_polygons_back(tmp_path, ending):
    text = "".join(f"v {x} {y} {z}\n" for x, y, z in L_SHAPE.tolist()) + "v 3 0 0\nv 3 1 0\n"
    (tmp_path / "in.obj").write_text(text + "f 1 2 3 4 5 6\nf 2 7 8 3\n")
    mesh = load_mesh(tmp_path / "in.obj")
    assert mesh.face_areas.sum() == pytest.approx(4.0)
    out = tmp_path / f"out.{ending}"
    save_mesh(mesh, out)
    again = load_mesh(out)
    assert np.array_equal(again.faces, mesh.faces)
    assert np.array_equal(again.details.polygons, mesh.details.polygons)
    if ending == "obj":
        lines = [line for line in out.read_text().splitlines() if line.startswith("f ")]
        assert [len(line.split()) - 1 for line in lines] == [6, 4]
