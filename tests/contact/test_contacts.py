"""Contacts against all pairs measured one by one, and where the sides touch."""

from itertools import combinations

import distance_pairs as proximity
import numpy as np
import pytest
from crumpled import crumpled, positions, sheet
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.broad_phase import make_broad_phase
from weft.contact import find_contacts
from weft.contact.contact import Contacts, ContactSearch
from weft.errors import WeftError
from weft.runtime import get_threads, set_threads
from weft.world import Surface


def all_pairs(faces: np.ndarray, vertex_count: int) -> list[np.ndarray]:
    """Every vertex with every triangle, every two edges, without those that share a vertex."""
    edges = sorted({tuple(sorted((int(f[k]), int(f[(k + 1) % 3])))) for f in faces for k in range(3)})
    used = sorted({int(v) for v in faces.ravel()})
    points = [[v, *map(int, f)] for v in used for f in faces if v not in f]
    lines = [[*e, *f] for e, f in combinations(edges, 2) if not set(e) & set(f)]
    return [np.array(rows, int).reshape(-1, 4) for rows in (points, lines)]


def keys(kind: np.ndarray, vertices: np.ndarray) -> set[tuple]:
    """A name for each pair that does not depend on the order within its sides."""
    result = set()
    for k, (a, b, c, d) in zip(kind.tolist(), vertices.tolist(), strict=True):
        two = (tuple(sorted((a, b))), tuple(sorted((c, d))))
        result.add((k, a, tuple(sorted((b, c, d)))) if k == 0 else (k, *sorted(two)))
    return result


def some_faces(rng: np.random.Generator, vertices: int, count: int) -> np.ndarray:
    """Random triangles, some with a vertex twice, no two of the same three vertices."""
    faces = rng.integers(0, vertices, (count, 3)).astype(np.int32)
    _, kept = np.unique(np.sort(faces, axis=1), axis=0, return_index=True)
    return faces[np.sort(kept)]


def check(found: Contacts, vertices: np.ndarray) -> None:
    """What holds for every contact."""
    assert len(keys(found.kind, found.vertices)) == len(found.kind), "a contact was listed twice"
    assert np.isfinite(found.normal).all() and np.isfinite(found.distance).all()
    np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1.0, atol=1e-14)
    np.testing.assert_allclose(found.weights.sum(axis=1), 0.0, atol=1e-15)
    r = np.einsum("nk,nkx->nx", found.weights, vertices[found.vertices])
    gap = np.einsum("nx,nx->n", found.normal, r)
    assert (found.distance >= 0.0).all()
    size = np.abs(vertices).max(initial=0.0)
    np.testing.assert_allclose(gap, found.distance, atol=1e-14 * size)
    np.testing.assert_allclose(np.linalg.norm(r, axis=1), found.distance, atol=1e-11 * size)


def expected_keys(vertices: np.ndarray, faces: np.ndarray, thickness: np.ndarray) -> set[tuple]:
    result = set()
    for kind, rows in enumerate(all_pairs(faces, len(vertices))):
        distance, weights = (proximity.point_triangle, proximity.edge_edge)[kind](vertices[rows])
        wanted = 0.5 * (np.abs(weights) * thickness[rows]).sum(axis=1)
        near = distance < wanted
        result |= keys(np.full(near.sum(), kind), rows[near])
    return result


@pytest.mark.parametrize("thickness", [0.0, 0.01, 0.05])
def test_contacts_of_a_folded_sheet_are_those_of_all_pairs(thickness: float) -> None:
    start, _, faces = crumpled(9)
    found = weft.contacts(start, faces, thickness)
    check(found, start)
    expected = expected_keys(start, faces, np.full(len(start), thickness))
    assert keys(found.kind, found.vertices) == expected
    assert (len(expected) > 50) == (thickness > 0.0)


def test_thickness_may_differ_from_vertex_to_vertex() -> None:
    start, _, faces = crumpled(9)
    thickness = np.random.default_rng(0).uniform(0.0, 0.08, len(start))
    found = weft.contacts(start, faces, thickness)
    check(found, start)
    assert keys(found.kind, found.vertices) == expected_keys(start, faces, thickness)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), scale=st.sampled_from([1e-6, 1.0]), offset=st.sampled_from([0.0, 1e6]))
def test_lattices_full_of_touching_and_degenerate_triangles(seed: int, scale: float, offset: float) -> None:
    rng = np.random.default_rng(seed)
    vertices = rng.integers(0, 3, (12, 3)) * scale + (offset if scale == 1.0 else 0.0)
    faces = some_faces(rng, 12, 9)
    found = weft.contacts(vertices, faces, 0.5 * scale)
    check(found, vertices)
    assert keys(found.kind, found.vertices) == expected_keys(vertices, faces, np.full(12, 0.5 * scale))


@pytest.mark.parametrize(
    ("points", "kind", "normal"),
    [
        ([[0.2, 0.2, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0]], 0, [0, 0, 1]),
        ([[1, 0, 0], [0, 0, 0], [2, 0, 0], [3, 0, 0]], 0, None),
        ([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], 0, [0, 1, 0]),
        ([[-1, 0, 0], [1, 0, 0], [0, -1, 0], [0, 1, 0]], 1, [0, 0, 1]),
        ([[0, 0, 0], [2, 0, 0], [1, 0, 0], [3, 0, 0]], 1, None),
        ([[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], 1, [0, 1, 0]),
    ],
)
def test_where_the_sides_touch_the_normal_lies_across_them(points: list, kind: int, normal: list | None) -> None:
    # a fifth vertex, far away, makes triangles of the edges
    vertices = np.array([*points, [50.0, 60.0, 70.0], [-50.0, 60.0, -70.0]], float)
    faces = np.array([[1, 2, 3], [0, 4, 5]] if kind == 0 else [[0, 1, 4], [2, 3, 5]])
    found = weft.contacts(vertices, faces, 0.1)
    check(found, vertices)
    row = next(
        k for k in range(len(found.kind)) if found.kind[k] == kind and set(found.vertices[k].tolist()) == {0, 1, 2, 3}
    )
    assert found.distance[row] == 0.0
    if normal is None:
        # the surfaces lie along x: anything across
        assert found.normal[row, 0] == 0.0
    else:
        np.testing.assert_allclose(np.abs(found.normal[row]), normal, atol=1e-15)


def test_the_normal_points_from_the_second_side_to_the_first() -> None:
    vertices = np.array([[0.2, 0.2, 0.3], [0, 0, 0], [1, 0, 0], [0, 1, 0], [9, 9, 9.0], [8, 9, 9]])
    found = weft.contacts(vertices, [[1, 2, 3], [0, 4, 5]], 0.5)
    row = int(np.flatnonzero((found.kind == 0) & (found.vertices[:, 0] == 0))[0])
    np.testing.assert_allclose(found.normal[row], [0, 0, 1], atol=1e-15)
    assert found.distance[row] == pytest.approx(0.3)
    np.testing.assert_allclose(found.weights[row], [1, -0.6, -0.2, -0.2])


def test_threads_and_broad_phases_do_not_change_the_stencils() -> None:
    start, _, faces = crumpled(40)
    threads = get_threads()
    try:
        results = []
        for count, broad_phase in ((1, "bvh"), (2, "bvh"), (3, "topology_tree"), (2, "brute")):
            set_threads(count)
            results.append(weft.contacts(start, faces, 0.03, broad_phase=broad_phase))
    finally:
        set_threads(threads)
    assert len(results[0].kind) > 1000
    for result in results[1:]:
        for one, other in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_search_is_used_again() -> None:
    start, end, faces = crumpled(10)
    surface = Surface.from_arrays(len(start), faces)
    broad = make_broad_phase("bvh", surface)
    search = ContactSearch(broad, 0.03)
    search.find(positions(end))
    again = search.find(positions(start))
    fresh = find_contacts(make_broad_phase("bvh", surface), positions(start), 0.03)
    assert again.count == fresh.count > 0
    for name in ("kind", "vertices", "weights", "normal", "gap"):
        np.testing.assert_array_equal(getattr(again, name).numpy(), getattr(fresh, name).numpy())


def test_bodies_that_do_not_meet_have_no_contacts() -> None:
    start, _, faces = crumpled(6)
    both, double = np.concatenate([faces, faces + len(start)]), np.concatenate([start, start + 1e-3])
    body = np.repeat([0, 1], len(faces))
    for table, least in (([[0, 1], [1, 0]], 1), ([[0, 0], [0, 0]], 0)):
        surface = Surface.from_arrays(len(double), both, face_body=body, body_pairs=table)
        found = find_contacts(make_broad_phase("bvh", surface), positions(double), 0.01)
        vertices = found.vertices.numpy().reshape(-1, 4)
        assert (len(vertices) > 0) == (least > 0)
        # the two sides are of different bodies
        first = vertices[:, 0] >= len(start)
        assert (first != (vertices[:, 3] >= len(start))).all()


def test_nothing_to_find_and_bad_input() -> None:
    for vertices, faces in ((np.zeros((0, 3)), []), (np.eye(3), [[0, 1, 2]]), (np.eye(3), np.zeros((0, 3), int))):
        found = weft.contacts(vertices, faces, 1.0)
        assert found.vertices.shape == (0, 4) and found.normal.shape == (0, 3) and found.distance.shape == (0,)
    with pytest.raises(WeftError, match=r"vertices must have the shape \(n, 3\)"):
        weft.contacts(np.zeros((3, 2)), [[0, 1, 2]], 0.1)
    with pytest.raises(WeftError, match=r"triangles 0 name vertices outside 0 to 2; the first is \(0, 1, 3\)"):
        weft.contacts(np.eye(3), [[0, 1, 3]], 0.1)
    with pytest.raises(WeftError, match="whole numbers"):
        weft.contacts(np.eye(3), [[0.0, 1.0, 2.0]], 0.1)
    with pytest.raises(WeftError, match="not finite numbers, at vertices 1"):
        weft.contacts([[0, 0, 0], [np.nan, 0, 0], [1, 1, 1]], [[0, 1, 2]], 0.1)
    with pytest.raises(WeftError, match="thickness must be a length"):
        weft.contacts(np.eye(3), [[0, 1, 2]], -1.0)
    with pytest.raises(WeftError, match="or 3 lengths of 0 or more"):
        weft.contacts(np.eye(3), [[0, 1, 2]], np.array([1.0, 2.0]))


def test_a_flat_sheet_touches_itself_nowhere_within_less_than_an_edge() -> None:
    side = np.linspace(0.0, 1.0, 6)
    u, v = np.meshgrid(side, side)
    vertices = np.stack([u, np.zeros_like(u), v], axis=-1).reshape(-1, 3)
    assert len(weft.contacts(vertices, sheet(5), 0.1).kind) == 0
