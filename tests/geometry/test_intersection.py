"""Intersections against rational brute force, ipctk, real data, and what the definition promises."""

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from exact_intersection import brute_rows, cross, dot, in_triangle, minus
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import MeshError
from weft.geometry.crossing_curves import crossing_points, crossing_segments
from weft.geometry.intersection import (
    IntersectionFinder,
    have_common_point,
    intersections,
    sewn_pairs,
)
from weft.runtime.launch import get_threads, set_threads

DATA = Path(__file__).parents[3] / "shared" / "data"


def rows_of(vertices, faces, **options):
    return [tuple(row) for row in intersections(vertices, faces, **options).tolist()]


def sheet(cells):
    """A flat grid of 2 cells^2 triangles in the xz plane."""
    n = cells + 1
    i = np.arange(n * n).reshape(n, n)
    quads = np.stack([i[:-1, :-1], i[1:, :-1], i[1:, 1:], i[:-1, 1:]], axis=-1).reshape(-1, 4)
    u, v = np.meshgrid(np.linspace(0, 1, n), np.linspace(0, 1, n), indexing="ij")
    vertices = np.column_stack([u.ravel(), np.zeros(n * n), v.ravel()])
    return vertices, np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])


def soup(rng, vertices, faces):
    return np.array([rng.choice(vertices, 3, replace=False) for _ in range(faces)])


def turned(rng):
    return np.linalg.qr(rng.normal(size=(3, 3)))[0]


FAMILIES = {
    "random": lambda rng, n: rng.normal(size=(n, 3)),
    "lattice": lambda rng, n: rng.integers(0, 3, (n, 3)).astype(float),
    "cube corners": lambda rng, n: rng.integers(0, 2, (n, 3)).astype(float),
    "tenths": lambda rng, n: rng.integers(0, 4, (n, 3)) * 0.1,
    "flat lattice": lambda rng, n: rng.integers(0, 4, (n, 3)) * [1.0, 0.0, 1.0],
    "turned flat lattice": lambda rng, n: (rng.integers(0, 4, (n, 3)) * [1.0, 0.0, 1.0]) @ turned(rng).T,
    "slanted plane": lambda rng, n: rng.integers(0, 3, (n, 2)) @ np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 2.0]]),
    "line": lambda rng, n: rng.integers(0, 6, (n, 1)) * np.array([[1.0, 2.0, -1.0]]),
    "point": lambda rng, n: np.full((n, 3), 0.1),
    "far and small": lambda rng, n: 1e6 + rng.integers(0, 3, (n, 3)) * 1e-6,
    "one ulp off": lambda rng, n: np.nextafter(rng.integers(0, 2, (n, 3)) * 1.0, rng.integers(-1, 2, (n, 3)) * 9.0),
    "huge": lambda rng, n: rng.integers(-2, 3, (n, 3)) * 1e50,
    "tiny": lambda rng, n: rng.integers(-2, 3, (n, 3)) * 1e-310,
    "mixed sizes": lambda rng, n: rng.integers(-1, 2, (n, 3)) * 10.0 ** rng.integers(-12, 3, (n, 3)),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_those_of_rational_brute_force(family):
    rng = np.random.default_rng(list(FAMILIES).index(family))
    found = 0
    for trial in range(80):
        vertices, faces = FAMILIES[family](rng, 4 + trial % 6), soup(rng, 4 + trial % 6, 2 + trial % 4)
        expected = brute_rows(vertices, faces)
        assert rows_of(vertices, faces) == expected
        found += len(expected)
    assert found > 0


def test_exact_stage_alone_is_right():
    """Most pairs never reach the exact stage: give it all of them."""
    rng = np.random.default_rng(3)
    for family in ("random", "lattice", "tenths", "turned flat lattice", "line"):
        x = FAMILIES[family](rng, 5 * 100).reshape(5, 100, 3)
        found = have_common_point(*x)
        for i in range(100):
            # vertices 0 and 1 are an edge of a face that shares nothing with face 1
            corners = np.concatenate([x[:, i], x[:1, i]])
            assert found[i] == ((0, 1, 1) in brute_rows(corners, [(0, 1, 5), (2, 3, 4)]))


lattice_point = st.tuples(*[st.integers(-2, 2)] * 3)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(lattice_point, min_size=6, max_size=7),
    st.lists(st.permutations(range(6)).map(lambda order: order[:3]), min_size=2, max_size=4),
    st.sampled_from([1.0, 0.1, 1e-7, 3e5]),
    st.sampled_from([0.0, 0.3, 1e6]),
)
def test_any_small_mesh(points, faces, scale, shift):
    vertices = np.array(points) * scale + shift
    assert rows_of(vertices, faces) == brute_rows(vertices, faces)


@pytest.mark.long
@settings(max_examples=10000, deadline=None)
@given(
    st.lists(lattice_point, min_size=6, max_size=9),
    st.lists(st.permutations(range(6)).map(lambda order: order[:3]), min_size=2, max_size=6),
    st.floats(1e-9, 1e9),
    st.floats(-1e6, 1e6),
)
def test_any_small_mesh_for_minutes(points, faces, scale, shift):
    vertices = np.array(points) * scale + shift
    assert rows_of(vertices, faces) == brute_rows(vertices, faces)


def common_sample(one, other, shared):
    """A point of a fine grid on triangle one that is in the other triangle and is no shared corner, exactly."""
    normal = cross(minus(other[1], other[0]), minus(other[2], other[0]))
    for i, j in product(range(13), repeat=2):
        if i + j > 12:
            continue
        w = (Fraction(12 - i - j, 12), Fraction(i, 12), Fraction(j, 12))
        point = [sum(weight * corner[k] for weight, corner in zip(w, one, strict=True)) for k in range(3)]
        if point not in shared and dot(normal, minus(point, other[0])) == 0 and in_triangle(point, *other):
            return point
    return None


def test_no_rows_means_that_no_triangles_meet_beyond_what_they_share():
    rng = np.random.default_rng(8)
    clean = dirty = 0
    for _ in range(120):
        vertices = rng.integers(0, 4, (5, 3)).astype(float)
        faces = np.array([[0, 1, 2], [0, 3, 4]])
        x = [[Fraction(value) for value in vertex] for vertex in vertices]
        one, other = ([x[k] for k in face] for face in faces)
        if not all(any(cross(minus(t[1], t[0]), minus(t[2], t[0]))) for t in (one, other)):
            continue
        rows = rows_of(vertices, faces)
        clean, dirty = clean + (not rows), dirty + bool(rows)
        if not rows:
            assert common_sample(one, other, [x[0]]) is None
            assert common_sample(other, one, [x[0]]) is None
    assert clean > 20 and dirty > 20


def test_triangles_that_share_a_vertex_and_cross_beyond_it():
    vertices = np.array([[0, 0, 0], [2, -1, 0], [2, 1, 0], [1.5, 0, -1], [1.5, 0, 1]], dtype=float)
    assert rows_of(vertices, [[0, 1, 2], [0, 3, 4]]) == [(3, 4, 0)]


def test_touching_counts():
    triangle = [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
    faces = [[0, 1, 2], [3, 4, 5]]
    for touch, away in (
        ([0.25, 0.25, 0], [0, 0, 2**-40]),
        ([0.5, 0.5, 0], [2**-40, 0, 0]),
        ([1, 0, 0], [2**-40, 0, 0]),
    ):
        other = np.array([touch, [3, 3, 1], [3, 4, 1]])
        assert {row[2] for row in rows_of(np.concatenate([triangle, other]), faces)} >= {0}
        other = other + np.array(away)
        assert rows_of(np.concatenate([triangle, other]), faces) == []


def test_a_hinge_folded_exactly_flat_has_no_row_of_its_own():
    vertices = np.array([[0, 0, 0], [1, 0, 0], [0.5, 1, 0], [0.4, 0.5, 0]])
    assert rows_of(vertices, [[0, 1, 2], [1, 0, 3]]) == []


def test_triangle_inside_another_in_one_plane():
    big = np.array([[-5, -5, 0], [5, -5, 0], [0, 5, 0]], dtype=float)
    vertices = np.concatenate([big, 0.1 * big])
    assert rows_of(vertices, [[0, 1, 2], [3, 4, 5]]) == [(3, 4, 0), (3, 5, 0), (4, 5, 0)]


@pytest.mark.parametrize("turn", [False, True])
def test_clean_flat_sheet_and_exact_stack(turn):
    rng = np.random.default_rng(0)
    vertices, faces = sheet(3)
    if turn:
        vertices = vertices @ turned(rng).T
    assert rows_of(vertices, faces) == []
    stack, stack_faces = np.concatenate([vertices, vertices]), np.concatenate([faces, faces + len(vertices)])
    rows = rows_of(stack, stack_faces)
    assert rows == brute_rows(stack, stack_faces)
    # every edge lies on or touches triangles of the other sheet
    assert len({row[:2] for row in rows}) == len(IntersectionFinder(stack_faces).edges)


def test_order_of_vertices_and_faces_does_not_matter():
    rng = np.random.default_rng(4)
    vertices, faces = rng.integers(0, 5, (40, 3)) * 0.1, soup(rng, 40, 60)
    expected = rows_of(vertices, faces)
    assert len(expected) > 100
    new_vertex, new_face = rng.permutation(40), rng.permutation(60)
    moved = np.empty_like(vertices)
    moved[new_vertex] = vertices
    moved_faces = np.empty_like(faces)
    moved_faces[new_face] = np.roll(new_vertex[faces], 1, axis=1)
    renamed = sorted((*sorted((int(new_vertex[i]), int(new_vertex[j]))), int(new_face[f])) for i, j, f in expected)
    assert rows_of(moved, moved_faces) == renamed


def test_threads_and_repeats_do_not_matter():
    rng = np.random.default_rng(6)
    vertices, faces = sheet(40)
    vertices = vertices + rng.normal(scale=0.02, size=vertices.shape)
    threads = get_threads()
    try:
        set_threads(1)
        one = intersections(vertices, faces)
        set_threads(3)
        finder = IntersectionFinder(faces)
        finder.find(vertices[::-1])
        assert len(one) > 100
        assert finder.find(vertices).tobytes() == one.tobytes()
    finally:
        set_threads(threads)


def roll(cells, gap):
    """A sheet rolled up to a spiral of several turns."""
    vertices, faces = sheet(cells)
    angle = vertices[:, 0] * 16.0
    radius = 0.2 + gap * angle / (2 * np.pi)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle), vertices[:, 2]]), faces


def ipctk_rows(vertices, faces):
    """ipctk's own candidates and predicate, one pair at a time."""
    ipctk = pytest.importorskip("ipctk")
    mesh = ipctk.CollisionMesh(vertices, ipctk.edges(faces), faces)
    broad = ipctk.LBVH()
    broad.build(vertices, mesh.edges, mesh.faces, 0.0)
    rows = []
    for pair in broad.detect_edge_face_candidates():
        edge, face = mesh.edges[pair.edge_id], mesh.faces[pair.face_id]
        if not np.isin(edge, face).any() and ipctk.is_edge_intersecting_triangle(*vertices[edge], *vertices[face]):
            rows.append((*sorted(edge.tolist()), pair.face_id))
    return sorted(rows), ipctk.has_intersections(mesh, vertices)


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.04])
def test_large_meshes_agree_with_ipctk(noise):
    vertices, faces = roll(30, 0.03)
    vertices = vertices + np.random.default_rng(2).normal(scale=noise, size=vertices.shape)
    expected, any_there = ipctk_rows(vertices, faces)
    rows = rows_of(vertices, faces)
    assert rows == expected
    assert bool(rows) == any_there == (noise > 0)


@pytest.mark.parametrize("push", [0.0, 0.1])
def test_whether_there_are_any_agrees_with_ipctk(push):
    ipctk = pytest.importorskip("ipctk")
    vertices, faces = roll(120, 0.01)
    # one vertex pushed into the next layer is enough
    middle = len(vertices) // 2
    vertices[middle, :2] *= 1.0 + push
    mesh = ipctk.CollisionMesh(vertices, ipctk.edges(faces), faces)
    assert ipctk.has_intersections(mesh, vertices) == bool(rows_of(vertices, faces)) == (push > 0)


def test_bodies_that_do_not_meet_are_left_out():
    rng = np.random.default_rng(9)
    vertices, faces = rng.normal(size=(45, 3)), np.arange(45).reshape(15, 3)
    body = np.repeat([0, 1, 2], 5)
    everything = rows_of(vertices, faces)
    table = np.array([[1, 1, 0], [1, 0, 1], [0, 1, 1]], dtype=bool)
    kept = [row for row in everything if table[row[0] // 15, body[row[2]]]]
    assert 0 < len(kept) < len(everything)
    assert rows_of(vertices, faces, face_body=body, body_pairs=table) == kept


def test_ignored_pairs_are_left_out_only_with_all_triangles_of_the_edge():
    # edge 0-1 belongs to triangles 0 and 1 and pierces triangle 2
    vertices = np.array([[0, 0, -1], [0, 0, 1], [9, 0, 0], [0, 9, 0], [-1, -1, 0], [2, -1, 0], [-1, 2, 0]], dtype=float)
    faces = [[0, 1, 2], [1, 0, 3], [4, 5, 6]]
    through = [row for row in rows_of(vertices, faces) if row[2] == 2]
    assert through == [(0, 1, 2)]
    assert (0, 1, 2) in rows_of(vertices, faces, ignore=[[2, 0]])
    assert (0, 1, 2) not in rows_of(vertices, faces, ignore=[[2, 0], [1, 2]])
    assert rows_of(vertices, faces, ignore=[[0, 2], [1, 2]]) == []
    assert rows_of(vertices, faces, ignore=np.zeros((0, 2))) == rows_of(vertices, faces)


def test_sewn_pairs_by_hand():
    faces = [[0, 1, 2], [1, 3, 2], [4, 5, 6], [5, 7, 6]]
    assert sewn_pairs(faces, [[3, 4, 7]]).tolist() == [[1, 2], [1, 3]]
    assert sewn_pairs(faces, [[1, 4]]).tolist() == [[0, 2], [1, 2]]
    assert sewn_pairs(faces, np.zeros((0, 3), dtype=int)).shape == (0, 2)


def test_the_dress_crosses_only_along_its_seams():
    if not (DATA / "dress.npz").exists():
        pytest.skip("shared/data/dress.npz is not here")
    dress = np.load(DATA / "dress.npz")
    rows = intersections(dress["draped"], dress["faces"])
    assert len(rows) == 528
    sewn = sewn_pairs(dress["faces"], dress["stitch_vertices"])
    assert len(intersections(dress["draped"], dress["faces"], ignore=sewn)) == 0


def test_the_dancing_body_overlaps_itself():
    if not (DATA / "rumba_body.npz").exists():
        pytest.skip("shared/data/rumba_body.npz is not here")
    body = np.load(DATA / "rumba_body.npz")
    finder = IntersectionFinder(body["faces"])
    counts = [len(finder.find(body["vertices"][frame])) for frame in (0, 15, 60, 71, 106, 120)]
    # the same by ipctk's predicate on ipctk's candidates
    assert counts == [499, 492, 523, 804, 786, 786]


def test_crossing_points_and_segments():
    vertices = np.array([[0, 0, 0], [2, -1, 0], [2, 1, 0], [1.5, 0, -1], [1.5, 0, 3]], dtype=float)
    faces = [[0, 1, 2], [0, 3, 4]]
    rows = intersections(vertices, faces)
    assert crossing_points(vertices, faces, rows).tolist() == [[1.5, 0, 0]]
    # from the crossing to the vertex that the triangles share
    (segment,) = crossing_segments(vertices, faces, rows).tolist()
    assert sorted(segment) == [[0, 0, 0], [1.5, 0, 0]]


def test_crossing_points_lie_on_both():
    rng = np.random.default_rng(12)
    vertices, faces = rng.normal(size=(60, 3)), np.arange(60).reshape(20, 3)
    rows = intersections(vertices, faces)
    points = crossing_points(vertices, faces, rows)
    a, b, c = vertices[faces[rows[:, 2]]].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    assert len(rows) > 20
    assert np.abs(((points - a) * normal).sum(axis=1)).max() < 1e-12
    # generic triangles cross along a segment with two ends, each of them a row
    segments = crossing_segments(vertices, faces, rows)
    assert 2 * len(segments) == len(rows)
    nearest = np.linalg.norm(segments.reshape(-1, 1, 3) - points, axis=2)
    assert nearest.min(axis=1).max() < 1e-12 and nearest.min(axis=0).max() < 1e-12


def test_crossings_in_a_plane_and_touches_can_be_drawn():
    for family in ("lattice", "flat lattice", "line", "point"):
        rng = np.random.default_rng(1)
        vertices, faces = FAMILIES[family](rng, 9), soup(rng, 9, 8)
        rows = intersections(vertices, faces)
        points, segments = crossing_points(vertices, faces, rows), crossing_segments(vertices, faces, rows)
        assert np.isfinite(points).all() and points.shape == (len(rows), 3)
        assert np.isfinite(segments).all() and segments.shape[1:] == (2, 3) and len(segments)
    assert crossing_segments(vertices, faces, np.zeros((0, 3), dtype=int)).shape == (0, 2, 3)


def test_few_triangles():
    assert intersections(np.zeros((0, 3)), np.zeros((0, 3), dtype=int)).shape == (0, 3)
    assert intersections(np.eye(3), [[0, 1, 2]]).shape == (0, 3)
    assert intersections(np.eye(3), [[0, 1, 2], [2, 1, 0]]).shape == (0, 3)
    assert intersections(np.zeros((0, 3)), []).dtype == np.int32


def test_a_vertex_far_away_that_no_triangle_uses():
    vertices, faces = sheet(20)
    vertices = np.concatenate(
        [vertices + np.random.default_rng(0).normal(scale=0.03, size=vertices.shape), [[1e50] * 3]]
    )
    assert rows_of(vertices, faces) == rows_of(vertices[:-1], faces) != []


@pytest.mark.parametrize(
    ("vertices", "faces", "options", "says"),
    [
        ([[0, 0, np.nan], *np.eye(3)], [[1, 2, 3]], {}, r"vertex 0 is at \(0, 0, nan\)"),
        ([[0, 0, np.inf], *np.eye(3)], [[1, 2, 3]], {}, r"vertex 0 .*finite"),
        ([[0, 0, 1e70], *np.eye(3)], [[1, 2, 3]], {}, "at most 1e\\+60 m"),
        (np.eye(3), [[0, 1, 3]], {}, r"triangle 0 \(0, 1, 3\) names a vertex that is not there: there are 3"),
        (np.eye(3), [[0, 1, 2], [0, -1, 2]], {}, r"triangle 1 \(0, -1, 2\)"),
        (np.eye(3), [[0, 1, 1]], {}, "triangle 0 names a vertex twice"),
        (np.eye(3), [[0.0, 1.0, 2.0]], {}, "integers"),
        (np.eye(3), [[0, 1]], {}, r"\(m, 3\)"),
        (np.zeros((3, 2)), [[0, 1, 2]], {}, r"\(n, 3\)"),
        (np.eye(3), [[0, 1, 2]], {"face_body": [0]}, "go together"),
        (np.eye(3), [[0, 1, 2]], {"face_body": [0, 0], "body_pairs": [[1]]}, "1 integers"),
        (np.eye(3), [[0, 1, 2]], {"face_body": [1], "body_pairs": [[1]]}, "1 rows"),
        (np.eye(3), [[0, 1, 2]], {"face_body": [0], "body_pairs": [[1, 0], [1, 1]]}, "symmetric"),
        (np.eye(4, 3), [[0, 1, 2], [1, 2, 3]], {"face_body": [0, 1], "body_pairs": np.eye(2)}, "shares a vertex"),
        (np.eye(3), [[0, 1, 2]], {"ignore": [[0, 4]]}, "ignore names triangle 4"),
    ],
)
def test_bad_input_says_what_is_wrong(vertices, faces, options, says):
    with pytest.raises(MeshError, match=says):
        intersections(vertices, faces, **options)


@pytest.mark.cuda
def test_cuda_gives_the_same_rows():
    if not wp.is_cuda_available():
        pytest.skip("no CUDA device")
    rng = np.random.default_rng(6)
    vertices, faces = sheet(60)
    for scale in (0.0, 0.01):
        moved = vertices + rng.normal(scale=scale, size=vertices.shape)
        assert intersections(moved, faces, device="cuda").tobytes() == intersections(moved, faces).tobytes()
    for family in FAMILIES:
        x, f = FAMILIES[family](rng, 30), soup(rng, 30, 40)
        assert rows_of(x, f, device="cuda") == rows_of(x, f)


def test_needles_through_a_stack():
    """Every box overlaps every other, every long edge pierces every layer: counted by hand."""
    big = [np.array([[-9, -9, z], [9, -9, z], [0, 9, z]], dtype=float) for z in np.arange(30) * 0.1]
    needles = [np.array([[k * 0.01, 0, -5], [k * 0.01, 0, 8], [k * 0.01, 1e-3, 8]]) for k in range(20)]
    vertices = np.concatenate([*big, *needles])
    rows = intersections(vertices, np.arange(150).reshape(50, 3))
    # two long edges of every needle
    assert len(rows) == 20 * 30 * 2
