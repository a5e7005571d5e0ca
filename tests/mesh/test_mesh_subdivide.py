"""Subdivision against rules written out vertex by vertex, and properties that hold for all meshes."""

import numpy as np
import pytest
from hypothesis import given, settings
from mesh_oracles import good_meshes

from weft.errors import MeshError
from weft.mesh import TriMesh, shapes, subdivide
from weft.mesh.topology import Topology

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


def test_loop_of_triangles_that_are_no_manifold():
    """Edges with one or three triangles are boundaries, and a vertex with other than two of them stays."""
    faces = np.array([[0, 1, 2], [1, 0, 3], [0, 1, 4], [2, 1, 5]], np.int32)
    points = np.random.default_rng(0).normal(size=(7, 3))
    topology = Topology(faces, 7)
    found = subdivide.loop_matrix(topology) @ points
    assert np.array_equal(found[[0, 1, 6]], points[[0, 1, 6]])
    for (a, b), point in zip(topology.edges, found[7:], strict=True):
        expected = 0.5 * (points[a] + points[b])
        if (a, b) == (1, 2):
            expected = 0.375 * (points[1] + points[2]) + 0.125 * (points[0] + points[5])
        assert point == pytest.approx(expected)
    assert found[2] == pytest.approx(0.75 * points[2] + 0.125 * (points[0] + points[5]))
    assert found[3] == pytest.approx(0.75 * points[3] + 0.125 * (points[0] + points[1]))


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


def fan(n, rings=3):
    """A flat mesh around one vertex with n neighbours, and the label (sector, a, b) of each vertex: a steps along its sector's
    first ray and b along the next one; a > 0, or (0, 0, 0) for the middle.
    """
    labels = [(0, 0, 0)] + [(i, a, b) for i in range(n) for a in range(1, rings + 1) for b in range(rings + 1 - a)]
    number = {label: k for k, label in enumerate(labels)}
    rays = np.array([(np.cos(t), np.sin(t), 0.0) for t in 2 * np.pi * np.arange(n + 1) / n])

    def at(i, a, b):
        return number[(0, 0, 0) if a == b == 0 else (i, a, b) if a > 0 else ((i + 1) % n, b, 0)]

    faces = []
    for i in range(n):
        for a in range(rings):
            for b in range(rings - a):
                faces.append((at(i, a, b), at(i, a + 1, b), at(i, a, b + 1)))
                if a + b < rings - 1:
                    faces.append((at(i, a + 1, b), at(i, a + 1, b + 1), at(i, a, b + 1)))
    return TriMesh([a * rays[i] + b * rays[i + 1] for i, a, b in labels], faces), number, at


def subdivision_matrix(n, weights):
    """From the two rings around a vertex with n neighbours to the two rings around it one level finer; and these vertices."""
    mesh, number, at = fan(n)
    all_weights = subdivide.loop_points(mesh, np.eye(len(mesh.vertices)), weights=weights)
    edge_of = {tuple(edge): len(mesh.vertices) + k for k, edge in enumerate(mesh.edges.tolist())}
    inner = [label for label in number if label[1] + label[2] <= 2]
    rows = []
    for i, a, b in inner:
        # the fine vertex lies at half its label: on a coarse vertex, or in the middle between the two around it
        lows, highs = (a // 2, b // 2), (a - a // 2, b - b // 2)
        if a % 2 and b % 2:
            ends = at(i, highs[0], lows[1]), at(i, lows[0], highs[1])
        else:
            ends = at(i, *lows), at(i, *highs)
        rows.append(all_weights[ends[0] if ends[0] == ends[1] else edge_of[min(ends), max(ends)]])
    columns = [number[label] for label in inner]
    matrix = np.array(rows)
    np.testing.assert_allclose(matrix[:, columns].sum(axis=1), 1.0)
    return matrix[:, columns], inner


VALENCES = [3, 4, 5, 6, 7, 8, 9, 12, 20, 40]


@pytest.mark.parametrize("n", VALENCES)
def test_bounded_weights_bound_the_curvature(n):
    """Eigenvalues 1, s, s, then s^2 and nothing between: curvature neither grows nor is lost from level to level."""
    matrix, _ = subdivision_matrix(n, "bounded")
    values = np.sort(np.abs(np.linalg.eigvals(matrix)))[::-1]
    s = float(subdivide.shrinkage(n))
    # the bowl always has s^2; so has the saddle: none with three neighbours, one with four, two with more
    many = {3: 1, 4: 2}.get(n, 3)
    np.testing.assert_allclose(values[: 3 + many], [1.0, s, s] + [s * s] * many, atol=1e-9)
    assert values[3 + many] < s * s - 0.01


@pytest.mark.parametrize("n", [3, 7, 8, 12])
def test_loop_of_1987_does_not(n):
    """Below six neighbours the largest of the rest is above s^2 at n = 3, above six the saddle's is."""
    matrix, _ = subdivision_matrix(n, "loop")
    values = np.sort(np.abs(np.linalg.eigvals(matrix)))[::-1]
    assert values[3] > 1.01 * values[1] ** 2


@pytest.mark.parametrize("n", VALENCES)
def test_the_characteristic_map_is_regular(n):
    """The plane that subdivision shrinks by s is covered once: no triangle of the eigenvectors is turned over."""
    matrix, inner = subdivision_matrix(n, "bounded")
    mesh, number, _ = fan(n, rings=2)
    values, vectors = np.linalg.eig(matrix)
    order = np.argsort(-np.abs(values))[1:3]
    plane = np.real(np.column_stack([vectors[:, order[0]], vectors[:, order[1]]]))
    if np.iscomplexobj(vectors[:, order]) and abs(values[order[0]].imag) > 0:
        plane = np.column_stack([vectors[:, order[0]].real, vectors[:, order[0]].imag])
    points = np.zeros((len(mesh.vertices), 3))
    for label, place in zip(inner, plane, strict=True):
        points[number[label], :2] = place
    flat = TriMesh(points, mesh.faces)
    for _ in range(3):
        up = flat.face_normals[:, 2]
        # the outer ring depends on what lies outside: leave the triangles of the boundary out
        border = np.unique(flat.edges[flat.edge_faces[:, 1] < 0])
        up = up[~np.isin(flat.faces, border).any(axis=1)]
        assert (up > 0).all() or (up < 0).all()
        flat = subdivide.loop(flat, weights="bounded")


def test_bounded_weights_are_convex():
    """None is negative and they sum to 1, for every number of neighbours."""
    for n in range(3, 200):
        weights = subdivide.edge_weights(n, np.arange(n))
        assert weights.min() > -1e-15
        assert weights.sum() == pytest.approx(0.625)
    np.testing.assert_allclose(subdivide.edge_weights(6, np.arange(6)), [3 / 8, 1 / 8, 0, 0, 0, 1 / 8], atol=1e-15)


@few
@given(good_meshes())
def test_bounded_points_of_any_mesh(mesh):
    weights = subdivide.loop_points(mesh, np.eye(len(mesh.vertices)), weights="bounded")
    assert weights.min() > -1e-15
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, atol=1e-13)


def test_bounded_weights_change_nothing_in_a_regular_mesh():
    """Borders and vertices with six neighbours have the same points, and sewn borders stay together."""
    sheet = shapes.grid((1.0, 1.0), (5, 4), diagonals="same")
    points = sheet.vertices + 0.1 * np.sin(7.0 * sheet.vertices[:, ::-1])
    np.testing.assert_array_equal(
        subdivide.loop_points(sheet, points, weights="bounded"), subdivide.loop_points(sheet, points)
    )
    other = shapes.grid((1.0, 1.0), (5, 4))
    assert not np.array_equal(
        subdivide.loop_points(other, points, weights="bounded"), subdivide.loop_points(other, points)
    )
    border = np.unique(other.edges[other.edge_faces[:, 1] < 0])
    np.testing.assert_array_equal(
        subdivide.loop_points(other, points, weights="bounded")[border], subdivide.loop_points(other, points)[border]
    )


def test_other_weights_are_refused():
    with pytest.raises(MeshError, match="weights must be one of loop, bounded, not 'butterfly'"):
        subdivide.loop(shapes.plane(), weights="butterfly")
