"""Tangles of all kinds come apart, and what comes out is what it says it is."""

import numpy as np
import pytest
import tangled_shapes as tangled
from tangled_shapes import Case

import weft
from weft.errors import MeshError, WeftError
from weft.geometry.intersection import intersections, sewn_pairs
from weft.mesh import shapes
from weft.runtime import get_threads, set_threads
from weft.untangling import UntangleResult, untangle


def lengths(vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    ends = np.unique(np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1), axis=0)
    return np.linalg.norm(vertices[ends[:, 1]] - vertices[ends[:, 0]], axis=1)


def freed(case: Case, *, rest: bool = True, **options: object) -> UntangleResult:
    """Untangle and hold the result against the exact finder."""
    before = len(intersections(case.vertices, case.faces))
    assert before > 0
    result = untangle(case.vertices, case.faces, rest=case.rest if rest else None, **options)  # type: ignore[arg-type]
    assert result.rounds[0].intersections == before
    assert np.array_equal(result.intersections, intersections(result.vertices, case.faces))
    assert result.free == (len(result.intersections) == 0)
    assert np.allclose(result.moved, np.linalg.norm(result.vertices - case.vertices, axis=1))
    return result


@pytest.mark.parametrize(("crossings", "cells", "moved"), [(10, 30, 0.02), (100, 30, 0.1), (1000, 45, 0.4)])
def test_two_sheets(crossings: int, cells: int, moved: float) -> None:
    case = tangled.two_sheets(crossings, cells)
    edge = np.median(lengths(case.rest, case.faces))
    result = freed(case)
    assert result.free
    assert result.rounds[0].intersections >= crossings
    # the tangles are small, and so are the moves: in the mean, of all vertices
    assert result.moved.mean() < moved * edge and result.moved.max() < 4.0 * edge
    if crossings == 10:
        # who was far away stayed
        assert (result.moved == 0.0).mean() > 0.5


def test_two_sheets_that_cross_from_side_to_side() -> None:
    assert freed(tangled.crossed_sheets()).free


@pytest.mark.parametrize("seed", range(3))
def test_cuff_through_cuff(seed: int) -> None:
    case = tangled.cuffs(seed)
    result = freed(case)
    assert result.free
    stretch = lengths(result.vertices, case.faces) / lengths(case.rest, case.faces)
    assert np.percentile(stretch, 1) > 0.8 and np.percentile(stretch, 99) < 1.25
    assert np.median(result.moved) < 0.5 * np.median(lengths(case.rest, case.faces))


@pytest.mark.parametrize("angle", [1.6, 2.4])
def test_a_shirt_with_a_sleeve_in_its_trunk(angle: float) -> None:
    case = tangled.shirt_with_sleeve_inside(angle)
    assert len(intersections(case.rest, case.faces)) == 0
    assert freed(case).free


@pytest.mark.parametrize("rest", [True, False], ids=["flat", "tangled"])
@pytest.mark.parametrize("shape", [tangled.crumpled, tangled.squeezed])
def test_crumples(shape: object, rest: bool) -> None:
    case = shape(7, cells=30, low=200, high=400)  # type: ignore[operator]
    result = freed(case, rest=rest)
    assert result.rounds[0].intersections >= 200 and result.free


@pytest.mark.parametrize("flat", [0.1, 0.0])
@pytest.mark.parametrize(("curve", "count", "radius"), [("figure_eight_knot", 200, 0.35), ("knot_8_18", 360, 0.25)])
def test_tubes_of_knots_that_were_flattened(curve: str, count: int, radius: float, flat: float) -> None:
    vertices, faces = tangled.flattened_tube(getattr(tangled, curve)(count), radius, flat)
    assert len(intersections(vertices, faces)) > 500
    result = untangle(vertices, faces)
    assert result.free and len(intersections(result.vertices, faces)) == 0, result.describe()


def test_a_ball_through_a_sheet_goes_back_by_the_shorter_way() -> None:
    sheet, ball = shapes.grid((1.0, 1.0), (30, 30)), shapes.icosphere(0.2, subdivisions=3)
    vertices, faces = tangled.join((sheet.vertices, sheet.faces), (ball.vertices + [0.013, -0.12, 0.007], ball.faces))
    result = freed(Case(vertices, faces, vertices))
    assert result.free
    # the ball was mostly below the sheet, and is there now
    count = len(sheet.vertices)
    near = np.hypot(*(result.vertices[:count, [0, 2]] - [0.013, 0.007]).T) < 0.05
    assert result.vertices[:count][near, 1].min() > result.vertices[count:, 1].max() - 0.02
    assert result.moved.max() < 0.1


def test_sheets_in_the_same_place_are_parted() -> None:
    sheet = shapes.grid((1.0, 1.0), (12, 12))
    vertices, faces = tangled.join((sheet.vertices, sheet.faces), (sheet.vertices, sheet.faces))
    result = freed(Case(vertices, faces, vertices))
    assert result.free and result.moved.max() < 0.1


def test_sheets_that_only_touch_are_parted() -> None:
    """No edge passes through a triangle, but touching counts."""
    sheet = shapes.grid((1.0, 1.0), (6, 6))
    upper = np.array(sheet.vertices)
    upper[:, 1] = 0.05 * (upper[:, 0] ** 2 + upper[:, 2] ** 2)
    vertices, faces = tangled.join((sheet.vertices, sheet.faces), (upper, sheet.faces))
    result = freed(Case(vertices, faces, vertices))
    assert result.free and result.moved.max() < 0.02


def test_what_is_free_is_given_back_as_it_is() -> None:
    sheet = shapes.grid((1.0, 1.0), (5, 5))
    result = untangle(sheet.vertices, sheet.faces)
    assert result.free and len(result.rounds) == 1 and not result.moved.any()
    assert np.array_equal(result.vertices, sheet.vertices)
    assert result.describe() == "nothing was tangled, and nothing was moved"


def test_what_is_left_is_said() -> None:
    case = tangled.crossed_sheets()
    result = freed(case, max_rounds=2)
    assert not result.free and len(result.rounds) == 3
    assert f"{len(result.intersections)} are left after 2 rounds" in result.describe()
    # never worse than what came in
    assert len(result.intersections) <= result.rounds[0].intersections
    none = freed(case, max_rounds=0)
    assert np.array_equal(none.vertices, case.vertices) and not none.moved.any()


def test_the_same_bytes_each_time_on_any_number_of_threads() -> None:
    case = tangled.crumpled(3, cells=16, low=30, high=60)
    threads = get_threads()
    results = []
    try:
        for count in (1, 2, 3):
            set_threads(count)
            results.append(untangle(case.vertices, case.faces, rest=case.rest).vertices.tobytes())
    finally:
        set_threads(threads)
    assert len(set(results)) == 1


def test_the_place_and_the_size_do_not_matter() -> None:
    case = tangled.crumpled(4, cells=16, low=30, high=60)
    for scale, offset in ((1000.0, 0.0), (0.001, 0.0), (1.0, 300.0)):
        moved = Case(scale * case.vertices + offset, case.faces, scale * case.rest)
        assert freed(moved).free


def test_progress_is_told_every_round() -> None:
    told: list[int] = []
    result = untangle(*tangled.two_sheets(10)[:2], progress=lambda now: told.append(now.intersections))
    assert told == [now.intersections for now in result.rounds]


def test_a_gap_is_opened_where_there_is_room() -> None:
    case = tangled.two_sheets(10, cells=20)
    thickness = 0.01
    result = freed(case, thickness=thickness)
    assert result.free
    count = len(case.vertices) // 2
    # heights of the hilly sheet above the flat one, which is moved little sideways
    gaps = result.vertices[count:, 1] - result.vertices[:count, 1]
    assert np.percentile(gaps, 2) > 0.5 * thickness


def test_vertices_without_triangles_stay() -> None:
    case = tangled.two_sheets(10, cells=20)
    vertices = np.concatenate([[[5.0, 5.0, 5.0]], case.vertices, [[0.0, 0.0, 0.0]]])
    result = untangle(vertices, case.faces + 1)
    assert result.free and not result.moved[[0, -1]].any()
    assert np.array_equal(result.vertices[1:-1], untangle(case.vertices, case.faces).vertices)


def test_rows_that_are_left_name_the_vertices_that_were_given() -> None:
    case = tangled.crossed_sheets(10)
    vertices = np.concatenate([[[5.0, 5.0, 5.0]], case.vertices])
    result = untangle(vertices, case.faces + 1, max_rounds=0)
    assert np.array_equal(result.intersections, intersections(vertices, case.faces + 1))


def test_sewn_triangles_may_cross_and_seams_stay_closed() -> None:
    """Two panels sewn along a side, with a hill of one through a flap of the other."""
    grid = shapes.grid((1.0, 0.6), (20, 12))
    left = np.array(grid.vertices)
    right = left * [-1.0, 1.0, 1.0] + [0.0, 0.03, 0.0]
    right[:, 1] -= 0.1 * np.exp(-((right[:, 0] + 0.1) ** 2 + right[:, 2] ** 2) / 0.02)
    # the sewn sides overlap by a hair
    right += (left[:, :1] < -0.499) * [0.0, -0.03, 0.0] + [0.001, 0.0, 0.0]
    right[:, 0] = np.where(left[:, 0] < -0.499, left[:, 0] + 0.0005, right[:, 0])
    vertices, faces = tangled.join((left, grid.faces), (right, grid.faces[:, ::-1]))
    rim = np.flatnonzero(left[:, 0] < -0.499)
    seams = np.column_stack([rim, rim + len(left)])
    ignore = sewn_pairs(faces, seams)
    assert len(intersections(vertices, faces, ignore=ignore)) > 0
    result = untangle(vertices, faces, seams=seams)
    assert result.free and len(intersections(result.vertices, faces, ignore=ignore)) == 0
    gap_before = vertices[seams[:, 0]] - vertices[seams[:, 1]]
    gap_after = result.vertices[seams[:, 0]] - result.vertices[seams[:, 1]]
    assert np.abs(gap_after - gap_before).max() < 0.005


def test_uv_is_a_rest_shape_too() -> None:
    case = tangled.crumpled(5, cells=24, low=60, high=120)
    by_uv = untangle(case.vertices, case.faces, uv=case.rest[:, [0, 2]])
    assert by_uv.free
    assert np.array_equal(by_uv.vertices, untangle(case.vertices, case.faces, rest=case.rest).vertices)


def test_the_public_name() -> None:
    assert weft.untangle is untangle


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rest": np.zeros((3, 3)), "uv": np.zeros((3, 2))}, "either rest or uv"),
        ({"rest": np.zeros((3, 2))}, "rest must be a .4, 3. array"),
        ({"uv": np.full((4, 2), np.nan)}, "uv has 4 points with NaN"),
        ({"seams": [[0, 9, 1]]}, "stitches 0 name a vertex outside 0..3"),
        ({"seams": [[0.5, 1.0]]}, "seams must be stitches of 2 or 3"),
        ({"thickness": -1.0}, "thickness must be"),
        ({"thickness": float("nan")}, "thickness must be"),
        ({"max_rounds": -1}, "max_rounds must be"),
    ],
)
def test_bad_options_are_refused(options: dict, message: str) -> None:
    faces = [[0, 1, 2], [1, 3, 2]]
    vertices = np.random.default_rng(0).normal(size=(4, 3))
    with pytest.raises(WeftError, match=message):
        untangle(vertices, faces, **options)


def test_bad_meshes_are_refused() -> None:
    with pytest.raises(MeshError, match="vertices must be an"):
        untangle(np.zeros((4, 2)), [[0, 1, 2]])
    with pytest.raises(MeshError, match="more than two triangles"):
        untangle(np.random.default_rng(0).normal(size=(5, 3)), [[0, 1, 2], [0, 1, 3], [0, 1, 4]])
    with pytest.raises(MeshError, match="NaN"):
        untangle(np.full((3, 3), np.nan), [[0, 1, 2]])
    with pytest.raises(MeshError, match=r"outside 0\.\.2"):
        untangle(np.zeros((3, 3)), [[0, 1, 7]])


def test_an_empty_mesh_is_free() -> None:
    assert untangle(np.zeros((0, 3)), np.zeros((0, 3), dtype=int)).free


SEEDS = range(100, 120)


@pytest.mark.long
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("shape", [tangled.crumpled, tangled.squeezed])
def test_crumples_of_200_to_2000_crossings_with_a_flat_rest_shape(shape: object, seed: int) -> None:
    result = freed(shape(seed))  # type: ignore[operator]
    assert result.rounds[0].intersections >= 200 and result.free


@pytest.mark.long
@pytest.mark.parametrize("shape", [tangled.crumpled, tangled.squeezed])
def test_crumples_with_the_tangled_shape_as_rest(shape: object) -> None:
    results = [freed(shape(seed), rest=False) for seed in SEEDS]  # type: ignore[operator]
    assert sum(result.free for result in results) >= 18


@pytest.mark.long
@pytest.mark.parametrize("seed", range(20))
def test_many_cuffs(seed: int) -> None:
    assert freed(tangled.cuffs(seed)).free
