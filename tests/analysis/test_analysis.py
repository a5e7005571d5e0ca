"""Paths and colours of surfaces whose answer is known, and of random ones against slow oracles."""

from itertools import pairwise

import analysis_cases as cases
import numpy as np
import pytest
from analysis_oracles import edge_triangles, inside_of, linked_paths, sheets_of

import weft
from weft.analysis import Analyser, Analysis, analyse, vertex_classes
from weft.analysis.analyser import vertex_areas
from weft.analysis.walk import walk_paths
from weft.errors import MeshError
from weft.mesh import shapes


def analysed(tangle: cases.Tangle) -> Analysis:
    return analyse(tangle.vertices, tangle.faces)


def above(tangle: cases.Tangle) -> set[int]:
    """Vertices of the second sheet above the plane of the first."""
    return set(np.flatnonzero(tangle.second & (tangle.vertices[:, 1] > 0.0)).tolist())


def under_the_second(tangle: cases.Tangle) -> set[int]:
    """Vertices of the flat sheet that lie below the second one, seen from above."""
    hidden = set()
    for triangle in tangle.faces[tangle.second[tangle.faces[:, 0]]]:
        a, b, c = tangle.vertices[triangle]
        matrix = np.array([b - a, c - a])[:, [0, 2]].T
        flat = np.flatnonzero(~tangle.second)
        part = np.linalg.solve(matrix, (tangle.vertices[flat] - a)[:, [0, 2]].T)
        height = a[1] + part[0] * (b - a)[1] + part[1] * (c - a)[1]
        hidden |= set(flat[(part >= 0.0).all(axis=0) & (part.sum(axis=0) <= 1.0) & (height > 0.0)].tolist())
    return hidden


def colours_of(analysis: Analysis, path: int) -> list[set[int]]:
    return [set(region.vertices.tolist()) for region in analysis.paths[path].regions]


def test_two_sheets_that_cross_in_one_closed_path() -> None:
    tangle = cases.hills([(0.013, 0.007)])
    analysis = analysed(tangle)
    (path,) = analysis.paths
    assert path.kind == "closed" and path.loop_vertices == () and not path.broken
    assert [region.colour for region in path.regions] == ["black", "white"]
    assert all(region.divides for region in path.regions)
    assert len(above(tangle)) > 8 and len(under_the_second(tangle)) > 8
    assert {frozenset(s) for s in colours_of(analysis, 0)} == {
        frozenset(above(tangle)),
        frozenset(under_the_second(tangle)),
    }
    # the curve lies in the plane, around the hill
    assert np.abs(path.points[:, 1]).max() < 1e-8
    assert np.hypot(path.points[:, 0] - 0.016, path.points[:, 2] - 0.0087).max() < 0.13


def test_two_sheets_that_cross_in_two_closed_paths() -> None:
    tangle = cases.hills([(0.2, 0.2), (-0.2, -0.2)])
    analysis = analysed(tangle)
    assert [path.kind for path in analysis.paths] == ["closed", "closed"]
    left = {v for v in above(tangle) if tangle.vertices[v, 0] < 0.0}
    found = {frozenset(region.vertices.tolist()) for path in analysis.paths for region in path.regions}
    assert {frozenset(left), frozenset(above(tangle) - left)} <= found
    # no vertex is inside both
    assert np.diff(analysis.colours.offsets).max() == 1


def test_a_path_that_ends_on_a_boundary_divides_the_sheet_whose_boundary_it_is() -> None:
    tangle = cases.hills([(0.41, 0.007)], second_size=0.8)
    analysis = analysed(tangle)
    (path,) = analysis.paths
    assert path.kind == "open"
    divided = [region for region in path.regions if region.divides]
    assert len(divided) == 1 and set(divided[0].vertices.tolist()) == above(tangle)
    (other,) = [region for region in path.regions if not region.divides]
    assert len(other.vertices) == 0


def test_a_ball_through_a_sheet() -> None:
    tangle = cases.ball_through_sheets((0.1,))
    analysis = analysed(tangle)
    assert [path.kind for path in analysis.paths] == ["closed"]
    cap = set(np.flatnonzero(~tangle.second & (tangle.vertices[:, 1] > 0.1)).tolist())
    # what of the sheet is inside the ball: below all planes of its triangles
    ball = tangle.faces[~tangle.second[tangle.faces[:, 0]]]
    a, b, c = tangle.vertices[ball].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    within = ((tangle.vertices[:, None] - a) * normal).sum(axis=2).max(axis=1) < 0.0
    disc = set(np.flatnonzero(within & tangle.second).tolist())
    assert len(cap) > 50 and len(disc) > 50
    assert {frozenset(s) for s in colours_of(analysis, 0)} == {frozenset(cap), frozenset(disc)}


def test_a_ball_through_three_sheets_gives_vertices_of_three_colours() -> None:
    heights = (0.1, 0.15, 0.2)
    tangle = cases.ball_through_sheets(heights)
    analysis = analysed(tangle)
    assert [path.kind for path in analysis.paths] == ["closed"] * 3
    y = tangle.vertices[:, 1]
    expected = sum((y > height).astype(int) for height in heights)
    ball = ~tangle.second
    assert np.array_equal(np.diff(analysis.colours.offsets)[ball], expected[ball])
    assert (expected[ball] == 3).any()


def test_nested_paths() -> None:
    tangle = cases.crater()
    analysis = analysed(tangle)
    assert [path.kind for path in analysis.paths] == ["closed", "closed"]
    small, large = sorted(analysis.paths, key=lambda path: len(path.rows))
    for inner, outer in zip(small.regions, large.regions, strict=True):
        inside, around = set(inner.vertices.tolist()), set(outer.vertices.tolist())
        # the two curves may be numbered the other way round
        other = {v for region in large.regions for v in region.vertices.tolist()}
        assert inside and inside < (around if inside < around else other)
    hollow = set(np.flatnonzero(tangle.second & (np.hypot(*tangle.vertices[:, [0, 2]].T) < 0.05)).tolist())
    twice = set(np.flatnonzero(np.diff(analysis.colours.offsets) == 2).tolist())
    assert hollow and hollow <= twice


def test_a_sheet_folded_through_itself_has_two_curves() -> None:
    tangle = cases.folded_with_hill()
    analysis = analysed(tangle)
    (path,) = analysis.paths
    assert path.kind == "closed" and [region.colour for region in path.regions] == ["black", "white"]
    low = set(np.flatnonzero(tangle.second & (tangle.vertices[:, 1] < 0.0)).tolist())
    sides = [set(region.vertices.tolist()) for region in path.regions]
    assert low in sides
    (other,) = [side for side in sides if side != low]
    assert other and not tangle.second[list(other)].any()


def test_a_fold_that_passes_through_itself_has_one_curve_through_two_loop_vertices() -> None:
    tangle = cases.pinched_fold()
    analysis = analysed(tangle)
    (path,) = analysis.paths
    assert path.kind == "loop" and len(path.loop_vertices) == 2
    (region,) = path.regions
    assert region.colour == "red" and region.divides
    # both loop vertices are on the crease, before and behind the rows that are exchanged
    rows, columns = np.divmod(sorted(path.loop_vertices), cases.FOLD_COLUMNS)
    assert columns.tolist() == [2, 2] and rows.tolist() == [2, 6]
    expected = {row * cases.FOLD_COLUMNS + column for row in cases.EXCHANGED for column in (1, 2, 3)}
    assert set(region.vertices.tolist()) == expected | set(path.loop_vertices)
    # the two halves are the two slopes
    columns_of = [set((analysis.region_vertices.row(k) % cases.FOLD_COLUMNS).tolist()) - {2} for k in (0, 1)]
    assert columns_of in ([{1}, {3}], [{3}, {1}])
    assert vertex_classes(analysis)[sorted(expected)].tolist() == [3] * len(expected)
    # the polyline begins and ends at the loop vertices
    assert np.array_equal(path.points[[0, -1]], tangle.vertices[list(path.loop_vertices)])


def test_a_boundary_through_a_boundary_divides_nothing() -> None:
    tangle = cases.crossed_sheets()
    analysis = analysed(tangle)
    (path,) = analysis.paths
    assert path.kind == "open" and not path.broken
    assert [region.divides for region in path.regions] == [False, False]
    assert analysis.summary()["not_dividing"] == 2 and len(analysis.region_vertices.items) == 0
    # from the edge of the upright sheet, inside the flat one, to the edge of the flat sheet
    ends = sorted(path.points[[0, -1], 2].tolist())
    assert ends == pytest.approx([0.017, 0.5])
    assert np.diff(path.points[:, 2]).min() > 0.0 or np.diff(path.points[:, 2]).max() < 0.0


def test_a_bent_sleeve_is_red_on_its_inner_side() -> None:
    tangle = cases.bent_sleeve()
    analysis = analysed(tangle)
    (path,) = analysis.paths
    assert path.kind == "loop" and len(path.loop_vertices) == 2
    (region,) = path.regions
    assert region.colour == "red" and region.divides
    inner = set(np.flatnonzero(tangle.second).tolist())
    red = set(region.vertices.tolist())
    assert 50 < len(red) < len(tangle.vertices) // 4
    assert len(red & inner) > 0.5 * len(red)
    # the opposite side of the bend is not touched
    outer = np.flatnonzero(tangle.vertices[:, 0] < -0.05)
    assert not red & set(outer.tolist())


def test_nothing_tangled() -> None:
    vertices, faces = cases.sheet(5)
    analysis = analyse(vertices, faces)
    assert len(analysis) == 0 and analysis.crossings == 0 and analysis.paths == ()
    assert set(analysis.summary().values()) == {0}
    assert not vertex_classes(analysis).any()
    assert np.array_equal(analysis.colours.offsets, np.zeros(len(vertices) + 1))


def oracle_regions(tangle: cases.Tangle, path: set, loops: list[int]) -> list[tuple[frozenset[int], ...]]:
    """For each curve of a path the two sides it parts its sheet into; nothing where it does not divide."""
    beside = edge_triangles(tangle.faces)
    sheet = sheets_of(tangle.faces, path)
    curves = [set(path)] if loops else [{n for n in path if sheet[n] == side} for side in (0, 1)]
    sides = []
    for edges in curves:
        passed = {t for node in edges for t in beside[node[0]]}
        passed |= {node[1] for node in path if loops or node not in edges}
        sides.append(tuple(map(frozenset, inside_of(tangle.faces, [n[0] for n in edges], passed, set(loops)))))
    return sides


@pytest.mark.parametrize("seed", range(12))
def test_random_surfaces_against_slow_oracles(seed: int) -> None:
    tangle = cases.crumpled(seed, cells=9, strength=0.25)
    analysis = analysed(tangle)
    nodes = {((a, b), f) for a, b, f in analysis.rows.tolist()}
    assert nodes
    expected, loops, broken = linked_paths(tangle.faces, nodes)
    assert broken == 0 and not any(path.broken for path in analysis.paths)
    assert len(expected) == len(analysis.paths)
    areas = vertex_areas(analysis.topology, tangle.vertices)
    for path in analysis.paths:
        own = {((a, b), f) for a, b, f in path.rows.tolist()}
        number = expected.index(own)
        assert sorted(path.loop_vertices) == loops[number]
        curves = oracle_regions(tangle, own, loops[number])
        assert len(curves) == len(path.regions)
        matched = []
        for region in path.regions:
            inside = frozenset(region.vertices.tolist()) - frozenset(path.loop_vertices)
            for k, sides in enumerate(curves):
                if k in matched or bool(sides) != region.divides:
                    continue
                if not sides or (
                    inside in sides
                    and areas[list(inside)].sum() <= min(areas[list(side)].sum() for side in sides) * (1 + 1e-9)
                ):
                    matched.append(k)
                    break
        assert len(matched) == len(curves)


def test_consecutive_points_of_a_path_share_triangles() -> None:
    tangle = cases.crumpled(3, cells=16, strength=0.1)
    analysis = analysed(tangle)
    edge_faces = analysis.topology.edge_faces
    for number, path in enumerate(analysis.paths):
        first, last = analysis.path_offsets[number : number + 2]
        order = list(range(first, last)) + ([first] if path.kind == "closed" else [])
        for one, other in pairwise(order):
            pairs = [
                {frozenset((t, int(analysis.face[k]))) for t in edge_faces[analysis.edge[k]].tolist() if t >= 0}
                for k in (one, other)
            ]
            assert pairs[0] & pairs[1]


def test_the_second_analysis_is_the_same_as_a_fresh_one() -> None:
    tangle, other = cases.crumpled(1, cells=20), cases.crumpled(2, cells=20)
    analyser = Analyser(tangle.faces, len(tangle.vertices))
    analyser.analyse(other.vertices)
    again, fresh = analyser.analyse(tangle.vertices), analysed(tangle)
    for name in ("edge", "face", "sheet", "path_offsets", "path_ends", "status"):
        assert np.array_equal(getattr(again, name), getattr(fresh, name)), name
    for name in ("region_vertices", "region_faces", "colours", "face_colours"):
        assert all(np.array_equal(a, b) for a, b in zip(getattr(again, name), getattr(fresh, name), strict=True)), name


def test_while_the_same_pairs_cross_paths_and_regions_are_those_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is a fresh analyser at every position."""
    grid = shapes.grid((1.0, 1.0), (20, 20))
    slanted = grid.vertices + [0.0031, 0.0, 0.0017]
    slanted[:, 1] += 0.2 * (slanted[:, 0] - 0.223)
    x = np.concatenate([grid.vertices, slanted])
    faces = np.concatenate([grid.faces, grid.faces + len(slanted)])
    areas = np.ones(len(x))
    analyser, calls = Analyser(faces, len(x), length=0.05), []
    monkeypatch.setattr(
        "weft.analysis.analyser.walk_paths", lambda *given: (calls.append("walk"), walk_paths(*given))[1]
    )
    paint = analyser._painter.paint
    analyser._painter.paint = lambda *given: (calls.append("paint"), paint(*given))[1]  # type: ignore[method-assign]
    # a little higher; other areas, so that the other side is the inside; far enough for other pairs to cross
    for height, size, expected in (
        (0.0, 1.0, ["walk", "paint"]),
        (1e-6, 1.0, []),
        (1e-6, 1e-6, ["paint"]),
        (0.05, 1e-6, ["walk", "paint"]),
    ):
        x[len(slanted) :, 1] = slanted[:, 1] + height
        areas[x[:, 0] < 0.223] = size
        calls.clear()
        kept = analyser.analyse(x, areas.copy())
        assert calls == expected
        fresh = Analyser(faces, len(x), length=0.05).analyse(x, areas)
        for name in ("edge", "face", "sheet", "path_offsets", "path_ends", "status", "points"):
            assert np.array_equal(getattr(kept, name), getattr(fresh, name)), name
        for one, other in zip(
            kept.region_vertices + kept.region_faces, fresh.region_vertices + fresh.region_faces, strict=True
        ):
            assert np.array_equal(one, other)


def test_region_faces_hold_what_the_curve_passes_and_what_is_inside() -> None:
    tangle = cases.hills([(0.013, 0.007)])
    analysis = analysed(tangle)
    for region in (0, 1):
        inside = np.isin(tangle.faces, analysis.region_vertices.row(region)).sum(axis=1)
        faces = set(analysis.region_faces.row(region).tolist())
        assert set(np.flatnonzero(inside == 3).tolist()) <= faces
        # the curve parts the corners of every other triangle it passes, or lies within it
        passed = {
            t for k in np.flatnonzero(analysis.sheet == region) for t in analysis.topology.edge_faces[analysis.edge[k]]
        }
        passed |= set(analysis.face[analysis.sheet != region].tolist())
        assert faces == passed | set(np.flatnonzero(inside == 3).tolist())
        assert set(np.flatnonzero((inside == 1) | (inside == 2)).tolist()) <= passed


def sewn_strips() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two sheets that overlap by a hair along one side, sewn there."""
    left, faces = cases.sheet(6)
    right = left + [0.999, 0.0, 0.0]
    right[:, 1] += 0.01 * (np.arange(len(right)) % 3 - 1)
    tangle = cases.join((left, faces), (right, faces))
    rim_left = np.flatnonzero(left[:, 0] > 0.499)
    rim_right = np.flatnonzero(right[:, 0] < 0.5) + len(left)
    return tangle.vertices, tangle.faces, np.column_stack([rim_left, rim_right])


def test_paths_between_sewn_triangles_only_are_left_out() -> None:
    vertices, faces, seams = sewn_strips()
    everything, rest = analyse(vertices, faces), analyse(vertices, faces, seams=seams)
    assert everything.crossings > 0
    assert rest.crossings == 0 and rest.sewn == everything.crossings
    # a path that has other crossings too stays whole
    partly = analyse(vertices, faces, seams=seams[:1])
    assert partly.crossings + partly.sewn == everything.crossings and partly.crossings > 0


def test_real_bodies_have_no_broken_paths() -> None:
    from pathlib import Path

    file = Path(__file__).resolve().parents[3] / "shared" / "data" / "rumba_body.npz"
    if not file.exists():
        pytest.skip(f"needs {file}")
    body = np.load(file)
    analyser = Analyser(body["faces"], body["vertices"].shape[1])
    for frame in (0, 60, 120):
        summary = analyser.analyse(body["vertices"][frame]).summary()
        assert summary["crossings"] > 400 and summary["broken"] == 0


def test_the_public_name() -> None:
    assert weft.analyse is analyse


@pytest.mark.parametrize(
    ("vertices", "faces", "message"),
    [
        (np.zeros((3, 2)), [[0, 1, 2]], "vertices must be an"),
        ([[0, 0, 0], [1, 0, 0], [np.nan, 1, 0]], [[0, 1, 2]], "NaN or infinite coordinates .2."),
        (np.eye(3), [[0, 1, 3]], "name a vertex outside 0..2 .0."),
        (np.eye(3), [[0, 1, 1]], "name a vertex twice"),
        (np.eye(3), [[0.0, 1.0, 2.0]], "array of integers"),
        (
            np.random.default_rng(0).normal(size=(5, 3)),
            [[0, 1, 2], [0, 1, 3], [0, 1, 4]],
            "more than two triangles .0-1.",
        ),
    ],
)
def test_bad_meshes_are_refused(vertices: object, faces: object, message: str) -> None:
    with pytest.raises(MeshError, match=message):
        analyse(vertices, faces)  # type: ignore[arg-type]


def test_positions_of_another_mesh_are_refused() -> None:
    grid = shapes.grid((1.0, 1.0), (2, 2))
    with pytest.raises(MeshError, match="has 9 vertices, the positions are for 4"):
        Analyser(grid.faces, 9).analyse(np.zeros((4, 3)))
