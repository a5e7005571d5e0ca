"""Broad phases against an all-pairs oracle, against each other, and at the edges of what they accept."""

from typing import Any

import numpy as np
import pytest
import warp as wp
from crumpled import crumpled, feature_oracle, overlapping, positions, sheet, swept
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.broad_phase import BROAD_PHASES, lists, make_broad_phase
from weft.broad_phase.interface import BroadPhase
from weft.broad_phase.patch_search import PatchSearch
from weft.errors import WeftError
from weft.runtime import get_threads, set_threads
from weft.world import Surface


def pairs_of(array: wp.array) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in array.numpy().reshape(-1, 2)]


def searched(
    name: str, surface: Surface, start: np.ndarray, end: np.ndarray, margin: float = 0.0, **options: bool
) -> BroadPhase:
    broad = make_broad_phase(name, surface, material=start)
    broad.update(positions(start), positions(end), margin, **options)
    return broad


def lists_of(broad: BroadPhase) -> list[np.ndarray]:
    candidates = broad.feature_pairs()
    lists = [candidates.vertex_triangle, candidates.edge_edge]
    lists += [broad.triangle_pairs(share_vertex=share).numpy().copy() for share in (False, True)]
    return [np.array(pairs.numpy() if isinstance(pairs, wp.array) else pairs) for pairs in lists]


def assert_between(found: list[tuple[int, int]], least: set[tuple[int, int]], most: set[tuple[int, int]]) -> None:
    assert len(set(found)) == len(found), "a pair was listed twice"
    assert least <= set(found), "a pair is missing"
    assert set(found) <= most, "a pair whose boxes are apart was listed"


def two_bodies(table: list[list[int]]) -> tuple[Surface, np.ndarray, np.ndarray]:
    start, end, faces = crumpled(6)
    faces = np.concatenate([faces, faces + len(start)])
    start, end = np.concatenate([start, start + 0.02]), np.concatenate([end, end + 0.01])
    body = np.repeat([0, 1], len(faces) // 2)
    return Surface.from_arrays(len(start), faces, face_body=body, body_pairs=table), start, end


@pytest.mark.parametrize("name", BROAD_PHASES)
@pytest.mark.parametrize("follow", [False, True])
def test_features_are_those_of_the_oracle(name: str, follow: bool) -> None:
    start, end, faces = crumpled(9)
    surface = Surface.from_arrays(len(start), faces)
    candidates = searched(name, surface, start, end, 0.01, follow=follow).feature_pairs()
    # in the moving frame the boxes are those of the motion without its mean
    drift = (end - start).mean(axis=0) if follow else np.zeros(3)
    # the mean is that of a sample, here of all vertices with some of them twice: allow for the difference
    slack = 2e-3 if follow else 1e-6
    least = feature_oracle(surface, start, end - drift, 0.01, -slack)
    most = feature_oracle(surface, start, end - drift, 0.01, slack)
    assert_between(pairs_of(candidates.vertex_triangle), least[0], most[0])
    assert_between(pairs_of(candidates.edge_edge), least[1], most[1])


@pytest.mark.parametrize("name", BROAD_PHASES)
@pytest.mark.parametrize("share_vertex", [False, True])
def test_triangles_are_those_of_the_oracle(name: str, share_vertex: bool) -> None:
    start, end, faces = crumpled(9)
    surface = Surface.from_arrays(len(start), faces)
    found = pairs_of(searched(name, surface, start, end, follow=False).triangle_pairs(share_vertex=share_vertex))
    boxes = swept(np.stack([start, end], axis=1)[faces].reshape(len(faces), -1, 3), 0.0)

    def oracle(slack: float) -> set[tuple[int, int]]:
        rows = np.argwhere(overlapping(boxes, boxes, slack))
        apart = (set(map(int, pair)) for pair in rows if pair[0] < pair[1])
        pairs = (tuple(sorted(pair)) for pair in apart)
        return {(a, b) for a, b in pairs if share_vertex or not set(faces[a]) & set(faces[b])}

    assert_between(found, oracle(-1e-6), oracle(1e-6))


@pytest.mark.parametrize("table", [[[1, 1], [1, 1]], [[1, 1], [1, 0]], [[0, 1], [1, 0]], [[1, 0], [0, 0]]])
def test_bodies_meet_as_the_table_says(table: list[list[int]]) -> None:
    surface, start, end = two_bodies(table)
    least = feature_oracle(surface, start, end, 0.0, -1e-6)
    most = feature_oracle(surface, start, end, 0.0, 1e-6)
    assert least[0]
    expected = lists_of(searched("brute", surface, start, end, follow=False))
    for name in BROAD_PHASES:
        broad = searched(name, surface, start, end, follow=False)
        candidates = broad.feature_pairs()
        assert_between(pairs_of(candidates.vertex_triangle), least[0], most[0])
        assert_between(pairs_of(candidates.edge_edge), least[1], most[1])
        for one, other in zip(lists_of(broad), expected, strict=True):
            np.testing.assert_array_equal(one, other)


def scattered(seed: int, count: int, kind: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    if kind == "crumpled":
        return crumpled(int(np.sqrt(count)) + 1, seed)
    vertex_count = max(3, count)
    faces = rng.integers(0, vertex_count, (count, 3)).astype(np.int32)
    start = rng.uniform(-1.0, 1.0, (vertex_count, 3))
    end = start + rng.normal(0.0, 0.05, start.shape)
    if kind == "degenerate":
        # on a lattice, with equal points, flat boxes, and triangles that have a vertex twice
        start, end = np.round(start * 2.0) / 2.0, np.round(end * 2.0) / 2.0
    elif kind == "far":
        start, end = start + 1e6, end + 1e6
    elif kind == "tiny":
        start, end = start * 1e-6, end * 1e-6
    elif kind == "mixed":
        # sizes over twelve orders of magnitude
        scale = 10.0 ** rng.uniform(-6.0, 6.0, (vertex_count, 1))
        start, end = start * scale, end * scale
    return start, end, faces


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(0, 150),
    kind=st.sampled_from(["soup", "crumpled", "degenerate", "far", "tiny", "mixed"]),
    margin=st.sampled_from([0.0, 1e-3, 0.3]),
    still=st.booleans(),
)
def test_exact_broad_phases_list_the_same(seed: int, count: int, kind: str, margin: float, still: bool) -> None:
    start, end, faces = scattered(seed, count, kind)
    surface = Surface.from_arrays(len(start), faces)
    end = start if still else end
    expected = lists_of(searched("brute", surface, start, end, margin))
    for name in BROAD_PHASES:
        for one, other in zip(lists_of(searched(name, surface, start, end, margin)), expected, strict=True):
            np.testing.assert_array_equal(one, other)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["soup", "crumpled", "degenerate", "far", "tiny", "mixed"]),
    margin=st.sampled_from([0.0, 0.1]),
    follow=st.booleans(),
)
def test_no_pair_whose_true_boxes_overlap_is_missing(seed: int, kind: str, margin: float, follow: bool) -> None:
    start, end, faces = scattered(seed, 40, kind)
    surface = Surface.from_arrays(len(start), faces)
    candidates = searched("bvh", surface, start, end, margin, follow=follow).feature_pairs()
    # whatever the frame, two points that meet at some time are listed: ask at a few times
    for t in (0.0, 0.3, 1.0):
        now = (1.0 - t) * start + t * end
        least = feature_oracle(surface, now, now, margin, 0.0)
        assert least[0] <= set(pairs_of(candidates.vertex_triangle))
        assert least[1] <= set(pairs_of(candidates.edge_edge))


def test_boxes_follow_the_common_motion_but_lists_do_not_depend_on_where_it_goes() -> None:
    start, _, faces = crumpled(20)
    surface = Surface.from_arrays(len(start), faces)
    still = searched("bvh", surface, start, start)
    falling = searched("bvh", surface, start, start + [0.0, -3.0, 0.0])
    swept_through = searched("bvh", surface, start, start + [0.0, -3.0, 0.0], follow=False)
    counts = [len(broad.feature_pairs().edge_edge) for broad in (still, falling, swept_through)]
    # in exact arithmetic the first two are equal; rounding may add a pair that touches
    assert counts[0] <= counts[1] <= 1.01 * counts[0] + 2
    assert counts[2] > 2 * counts[0]


@pytest.mark.parametrize("name", BROAD_PHASES)
def test_threads_do_not_change_the_lists(name: str) -> None:
    start, end, faces = crumpled(40)
    surface = Surface.from_arrays(len(start), faces)
    threads = get_threads()
    try:
        results = []
        for count in (1, 2, 5):
            set_threads(count)
            results.append(lists_of(searched(name, surface, start, end, 0.01)))
    finally:
        set_threads(threads)
    for result in results[1:]:
        for one, other in zip(result, results[0], strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("name", BROAD_PHASES)
def test_an_updated_broad_phase_lists_what_a_new_one_lists(name: str) -> None:
    start, end, faces = crumpled(12)
    surface = Surface.from_arrays(len(start), faces)
    broad = make_broad_phase(name, surface, material=start)
    rng = np.random.default_rng(3)
    for step in range(10):
        moved = start + rng.normal(0.0, 0.03 * step, start.shape)
        broad.update(positions(moved), positions(moved + (end - start)), 0.01)
        fresh = make_broad_phase(name, surface, material=start)
        fresh.update(positions(moved), positions(moved + (end - start)), 0.01)
        for one, other in zip(lists_of(broad), lists_of(fresh), strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_tree_is_rebuilt_when_the_surface_has_changed_its_shape_and_only_then() -> None:
    start, _, faces = crumpled(30)
    surface = Surface.from_arrays(len(start), faces)
    broad: Any = make_broad_phase("bvh", surface)
    for step in range(12):
        moved = positions(start + [0.3 * step, 0.0, 0.0])
        broad.update(moved, moved)
    assert broad.builds == 1
    for _ in range(8):
        moved = positions(start[::-1] * [3.0, 1.0, 1.0])
        broad.update(moved, moved)
    assert broad.builds == 2


@pytest.mark.parametrize("name", BROAD_PHASES)
def test_too_few_slots_lose_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start, end, faces = crumpled(10)
    surface = Surface.from_arrays(len(start), faces)
    expected = lists_of(searched(name, surface, start, end, 0.2))
    assert sum(map(len, expected)) > 1000
    # one slot for each query, counts given up after three, two queries counted at a time
    monkeypatch.setattr(lists.QueryLists, "_stop", lambda self, items: 3)
    monkeypatch.setattr(lists, "CHUNK", 2)
    broad = searched(name, surface, start, end, 0.2)
    for value in (*vars(broad).values(), *vars(getattr(broad, "_overlaps", broad)).values()):
        if isinstance(value, lists.QueryLists):
            value.capacity = 1
    for one, other in zip(lists_of(broad), expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_too_many_pairs_are_an_error_that_says_so() -> None:
    start, _, faces = crumpled(20)
    surface = Surface.from_arrays(len(start), faces)
    broad = make_broad_phase("bvh", surface, limit=5000)
    broad.update(positions(start), positions(start), 10.0)
    with pytest.raises(WeftError, match=r"more than 5,000 pairs .* overlap"):
        broad.feature_pairs()
    # and it works again when the pairs are few
    broad.update(positions(start), positions(start), 0.0)
    assert 0 < len(broad.triangle_pairs()) < 5000


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_everything_in_one_place_is_an_error_soon(count: int) -> None:
    rng = np.random.default_rng(0)
    faces = np.arange(3 * count, dtype=np.int32).reshape(-1, 3)
    start = positions(rng.uniform(0.0, 1.0, (3 * count, 3)))
    broad = make_broad_phase("bvh", Surface.from_arrays(3 * count, faces), limit=10_000_000)
    broad.update(start, start)
    with pytest.raises(WeftError, match="too many triangles lie in one place"):
        broad.feature_pairs()


@pytest.mark.parametrize("name", BROAD_PHASES)
def test_no_triangle_and_one_triangle(name: str) -> None:
    for vertices, faces in ((0, np.zeros((0, 3), int)), (4, np.zeros((0, 3), int)), (5, np.array([[0, 3, 1]]))):
        surface = Surface.from_arrays(vertices, faces)
        start = np.random.default_rng(1).uniform(size=(vertices, 3))
        assert [len(pairs) for pairs in lists_of(searched(name, surface, start, start + 0.1, 1.0))] == [0, 0, 0, 0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e200])
def test_positions_that_are_no_positions_are_named(value: float) -> None:
    start, end, faces = crumpled(5)
    surface = Surface.from_arrays(len(start), faces)
    broad = make_broad_phase("bvh", surface)
    bad = end.copy()
    bad[17, 1] = value
    with pytest.raises(WeftError, match=r"1 vertices have no usable end position, vertex 17 first"):
        broad.update(positions(start), positions(bad))
    broad.update(positions(start), positions(end))
    assert len(broad.feature_pairs().edge_edge) > 0


def test_a_vertex_that_no_triangle_uses_may_be_anywhere() -> None:
    start, end, faces = crumpled(5)
    start, end = (np.concatenate([values, [[np.nan, 0.0, 0.0]]]) for values in (start, end))
    surface = Surface.from_arrays(len(start), faces)
    candidates = searched("bvh", surface, start, end).feature_pairs()
    assert len(start) - 1 not in candidates.vertex_triangle.numpy()[:, 0]


def test_wrong_arguments_are_named() -> None:
    start, _, faces = crumpled(5)
    surface = Surface.from_arrays(len(start), faces)
    broad = make_broad_phase("bvh", surface)
    with pytest.raises(WeftError, match="end has 3 positions, but the surface 36"):
        broad.update(positions(start), positions(start[:3]))
    with pytest.raises(WeftError, match="margin"):
        broad.update(positions(start), positions(start), -1.0)
    with pytest.raises(WeftError, match="no broad phase 'bhv'; choose one of bvh"):
        make_broad_phase("bhv", surface)
    with pytest.raises(WeftError, match="material coordinates"):
        make_broad_phase("material_tree", surface)
    with pytest.raises(WeftError, match=r"one row a vertex \(36\)"):
        make_broad_phase("material_tree", surface, material=np.zeros((4, 2)))


def test_material_coordinates_may_be_flat() -> None:
    start, end, faces = crumpled(8)
    surface = Surface.from_arrays(len(start), faces)
    side = np.linspace(0.0, 1.0, 9)
    uv = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    broad = make_broad_phase("material_tree", surface, material=uv)
    broad.update(positions(start), positions(end))
    for one, other in zip(lists_of(broad), lists_of(searched("brute", surface, start, end)), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", BROAD_PHASES)
def test_cuda_gives_the_same_lists(name: str) -> None:
    start, end, faces = crumpled(40)
    results = []
    for device in ("cpu", "cuda:0"):
        surface = Surface.from_arrays(len(start), faces, device=device)
        broad = make_broad_phase(name, surface, material=start)
        broad.update(*(wp.array(x, dtype=wp.vec3d, device=device) for x in (start, end)), 0.01)
        results.append(lists_of(broad))
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_edges_are_left_out_on_request() -> None:
    start, end, faces = crumpled(10)
    broad = searched("bvh", Surface.from_arrays(len(start), faces), start, end)
    expected = broad.feature_pairs().vertex_triangle.numpy().copy()
    candidates = broad.feature_pairs(edges=False)
    np.testing.assert_array_equal(candidates.vertex_triangle.numpy(), expected)
    assert len(candidates.edge_edge) == 0


def test_neighbours_in_a_sheet_are_listed_without_incident_pairs() -> None:
    faces = sheet(1)
    surface = Surface.from_arrays(4, faces)
    start = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])
    candidates = searched("bvh", surface, start, start).feature_pairs()
    # the two corners off the diagonal against the other triangle; edges that share no vertex lie a side apart
    assert sorted(pairs_of(candidates.vertex_triangle)) == [(1, 1), (2, 0)]
    assert pairs_of(candidates.edge_edge) == []


@pytest.mark.parametrize("queries_per_patch", [2, 5, 40])
def test_queries_that_divide_a_patch_list_the_same_in_the_same_order(queries_per_patch: int) -> None:
    start, end, faces = crumpled(12)
    surface = Surface.from_arrays(len(start), faces)
    found = []
    for count in (1, queries_per_patch):
        broad = make_broad_phase("bvh", surface)
        assert isinstance(broad, PatchSearch)
        broad.queries_per_patch = count
        broad.update(positions(start), positions(end), 0.01)
        found.append(lists_of(broad))
    for whole, shared in zip(*found, strict=True):
        assert len(whole) > 20
        np.testing.assert_array_equal(shared, whole)


@pytest.mark.parametrize("offset", [0.0, 1e-9, 12345.678])
def test_boxes_hold_the_motion_however_it_is_rounded(offset: float) -> None:
    """A box is lower than the exact minimum on all six sides, since single precision rounds to either side."""
    start, end, faces = crumpled(12)
    start, end, margin = start + offset, end + offset, 0.003
    broad = searched("bvh", Surface.from_arrays(len(start), faces), start, end, margin)
    origin, drift = broad.boxes.frame.numpy()
    ids = broad.patches.vertex_ids.numpy()
    both = np.stack([start[ids] - origin, end[ids] - origin - drift])
    exact = np.concatenate([both.min(axis=0), -both.max(axis=0)], axis=1).T - 0.5 * margin
    boxes = broad.boxes.vertices.numpy()[:, : len(ids)].astype(np.float64)
    assert (boxes < exact).all()
    assert np.abs(boxes - exact).max() < 1e-6
