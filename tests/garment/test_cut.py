"""Panels to triangles: quality, the same division on both sides of seams, darts, gathers, welding, files, drawings."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patterns import dart, gathered, panel, pleated, save, specification, stitch, tube
from typer.testing import CliRunner

from weft.cli.main import app
from weft.errors import WeftError
from weft.garment import cut_pattern, load_pattern
from weft.garment.cut import turned_panels
from weft.garment.drawing import draw_pattern
from weft.garment.files import save_garment
from weft.garment.pattern import EdgeName, PatternError
from weft.garment.reading import read_pattern
from weft.garment.triangulate import smallest_angles, split_edges, triangulate
from weft.mesh import TriMesh, load_mesh

DATA = Path(__file__).parents[3] / "shared" / "data" / "garmentcode"


def signed_areas(points, faces):
    a, b, c = points[faces].transpose(1, 0, 2)
    return 0.5 * ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])


def check(cut):
    """What is true of every cut garment."""
    panels = cut.pattern.panels
    areas = np.bincount(cut.face_panel, signed_areas(cut.uv, cut.faces))
    # polygons are a little smaller or larger than what curves bound; all triangles face outwards
    assert areas == pytest.approx([abs(panel.area) for panel in panels], rel=0.02)
    assert (signed_areas(cut.uv, cut.faces) > 0.0).all()
    lengths = cut.mesh().edge_lengths
    assert lengths == pytest.approx(cut.mesh().rest_lengths, rel=1e-9)
    for seam in cut.pattern.seams:
        one, other = cut.edge_vertices[seam.one], cut.edge_vertices[seam.other]
        assert len(one) == len(other)
    welded = TriMesh(cut.welded_mean(cut.vertices) + np.arange(3) * 0.0, cut.welded_faces)
    assert len(np.unique(welded.components)) == 1
    return welded


def test_a_tiny_edge_is_one_vertex():
    """Programs that split edges so that they match leave edges of a millimetre."""
    front = panel([[0, 0], [30, 0], [30, 40], [12.1, 40], [12, 40], [0, 40]])
    back = panel([[0, 0], [30, 0], [30, 40], [12.1, 40], [12, 40], [0, 40]], z=-10)
    seams = [stitch("front", edge, "back", edge, "right_wrong") for edge in (1, 2, 3, 4, 5)]
    cut = cut_pattern(read_pattern(specification({"front": front, "back": back}, seams)), 0.02)
    check(cut)
    assert cut.mesh().rest_lengths.min() > 0.01
    tiny = [cut.edge_vertices[EdgeName(name, 3)].tolist() for name in ("front", "back")]
    assert all(len(along) == 1 for along in tiny) and cut.welded_vertex[tiny[0]] == cut.welded_vertex[tiny[1]]
    # at a finer edge length it is an edge as any other
    assert len(cut_pattern(cut.pattern, 0.003).edge_vertices[EdgeName("front", 3)]) == 2


def test_the_ends_of_a_strap_and_fine_polylines_stay():
    strap = panel([[0, 0], [0.3, 0], [0.3, 30], [0, 30]])
    around = np.linspace(0.0, 2.0 * np.pi, 150, endpoint=False)
    disc = panel(np.stack([8 * np.cos(around), 8 * np.sin(around)], axis=1).tolist())
    cut = cut_pattern(read_pattern(specification({"strap": strap, "disc": disc})), 0.02)
    assert (signed_areas(cut.uv, cut.faces) > 0.0).all()
    assert all(len(cut.edge_vertices[EdgeName("strap", i)]) >= 2 for i in range(4))
    kept = [len(cut.edge_vertices[EdgeName("disc", i)]) - 1 for i in range(150)]
    # of neighbours one stays: between half of them and two thirds
    assert 75 <= sum(kept) <= 100


@given(
    st.lists(st.floats(0.5, 1.0), min_size=5, max_size=12),
    st.floats(0.0, 1.0),
)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_stars_are_triangulated_well(radii, turn):
    """Polygons with corners of all kinds, their boundary divided finely: the boundary is kept and angles are large."""
    angles = 2 * np.pi * (np.arange(len(radii)) + turn) / len(radii)
    corners = np.stack([np.cos(angles), np.sin(angles)], axis=1) * np.array(radii)[:, None]
    rim = np.concatenate(
        [
            a + (b - a) * np.linspace(0, 1, 13)[:-1, None]
            for a, b in zip(corners, np.roll(corners, -1, axis=0), strict=True)
        ]
    )
    points, faces = triangulate(rim, 0.06)
    assert np.array_equal(points[: len(rim)], rim)
    sides = {tuple(s) for f in faces.tolist() for s in ((f[0], f[1]), (f[1], f[2]), (f[2], f[0]))}
    assert all((i, (i + 1) % len(rim)) in sides for i in range(len(rim)))
    shoelace = 0.5 * np.sum(rim[:, 0] * np.roll(rim[:, 1], -1) - np.roll(rim[:, 0], -1) * rim[:, 1])
    assert signed_areas(points, faces).sum() == pytest.approx(shoelace)
    before, after = np.roll(corners, 1, axis=0) - corners, np.roll(corners, -1, axis=0) - corners
    inner = np.degrees(
        np.arctan2(after[:, 0] * before[:, 1] - after[:, 1] * before[:, 0], (after * before).sum(axis=1))
    )
    # a corner sharper than that cannot be mended
    sharpest = min(25.0, (inner % 360.0).min() - 1e-6)
    assert smallest_angles(points, faces).min() > min(sharpest, 25.0) - 1e-9


def test_splitting_an_edge_keeps_the_area():
    points = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    faces = np.array([[0, 1, 2], [1, 3, 2]], np.int32)
    more, split = split_edges(points, faces, np.array([[1, 2]]))
    assert np.array_equal(more[4:], [[0.5, 0.5]]) and len(split) == 4
    assert signed_areas(more, split) == pytest.approx([0.25] * 4)


def test_where_seams_meet_every_vertex_is_sewn_to_every_other():
    """Four panels around one point: the seams join neighbours, and the opposite ones are joined over them."""
    square = [[0, 0], [20, 0], [20, 20], [0, 20]]
    panels = {name: panel(square, x=x, y=y) for name, x, y in (("a", 0, 0), ("b", 20, 0), ("c", 20, 20), ("d", 0, 20))}
    seams = [stitch("a", 1, "b", 3), stitch("b", 2, "c", 0), stitch("c", 3, "d", 1), stitch("d", 0, "a", 2)]
    cut = cut_pattern(read_pattern(specification(panels, seams)), 0.1)
    assert (cut.stitch_seam == -1).sum() == 2
    assert len(np.unique(cut.welded_vertex)) == len(check(cut).vertices)


@pytest.mark.parametrize("edge", [0.03, 0.015])
def test_a_tube(edge):
    cut = cut_pattern(read_pattern(tube()), edge)
    welded = check(cut)
    assert len(welded.boundary_loops) == 2
    assert cut.smallest_angle > 25.0
    assert np.median(cut.mesh().edge_lengths) == pytest.approx(edge, rel=0.15)
    # the outside of the front panel is in front, that of the back panel behind
    normals = cut.mesh().face_normals[:, 2]
    assert (normals[cut.face_panel == 0] > 0.99).all() and (normals[cut.face_panel == 1] < -0.99).all()
    # vertices that are sewn together lie opposite each other
    one, other = cut.vertices[cut.stitches].transpose(1, 0, 2)
    assert np.allclose((one - other)[:, :2], 0.0)


def test_a_dart_closes_over_its_tip():
    cut = cut_pattern(read_pattern(dart()), 0.01)
    welded = check(cut)
    one, other = cut.edge_vertices[EdgeName("back", 3)], cut.edge_vertices[EdgeName("back", 4)]
    assert one[-1] == other[0] and (one[:-1] != other[::-1][:-1]).all()
    assert len(welded.boundary_loops) == 1 and cut.smallest_angle > 25.0
    # the tip is inside the welded cloth
    assert cut.welded_vertex[one[-1]] not in np.concatenate(welded.boundary_loops)


def test_a_gathered_edge_has_a_partner_for_every_vertex():
    cut = cut_pattern(read_pattern(gathered()), 0.01)
    check(cut)
    assert len(cut.stitches) == 61 and cut.smallest_angle > 25.0
    # sewn the same way round, one of the panels is upside down: start meets start
    assert (np.diff(cut.stitches, axis=0) > 0).all()
    band = cut.mesh().rest_lengths[(cut.vertex_panel == 0)[cut.mesh().edges].all(axis=1)]
    assert band.min() < 0.004 < 0.009 < band.max()


def test_narrow_panels_are_divided_more_finely():
    """A strap of 8 mm with edges of 3 cm, and a wedge that ends in a sharp corner."""
    strap = panel([[0, 0], [30, 0], [30, 0.8], [0, 0.8]])
    wedge = panel([[0, 0], [30, 0], [30, 2]])
    cut = cut_pattern(read_pattern(specification({"strap": strap, "wedge": wedge})), 0.03)
    areas = np.bincount(cut.face_panel, signed_areas(cut.uv, cut.faces))
    assert areas == pytest.approx([0.0024, 0.003])


def test_two_panels_that_are_sewn_along_both_sides_of_a_corner_share_no_triangle():
    """The peak of a hood: its sharp corner is full of triangles without a vertex inside the panel."""
    half = [[0, 0], [40, 0], [34, 6], [20, 20]]
    other = [half[i] for i in (0, 3, 2, 1)]
    seams = [stitch("left", 0, "right", 3), stitch("left", 2, "right", 1), stitch("left", 1, "right", 2)]
    hood = specification({"left": panel(half, z=10), "right": panel(other, z=-10)}, seams)
    for edge in (0.05, 0.03, 0.02):
        cut = cut_pattern(read_pattern(hood), edge)
        welded = check(cut)
        assert not len(cut.shared_chords) and len(welded.boundary_loops) == 1


def test_a_panel_of_one_triangle_that_is_sewn_all_around_is_refused():
    corner = [[0, 0], [20, 0], [0, 20]]
    other = [corner[i] for i in (0, 2, 1)]
    seams = [stitch("left", i, "right", 2 - i) for i in range(3)]
    bag = specification({"left": panel(corner, z=10), "right": panel(other, z=-10)}, seams)
    with pytest.raises(PatternError, match="panels 'left' and 'right' are sewn together on all sides of a triangle"):
        cut_pattern(read_pattern(bag), 0.3).welded_mesh()


def test_panels_are_turned_by_all_seams_on_the_way_to_them():
    """Sewn start to start, a panel is upside down to its neighbour, and the one behind it to that one."""
    square = [[0, 0], [10, 0], [10, 10], [0, 10]]
    panels = {name: panel(square, x=20 * k) for k, name in enumerate("abcd")}
    seams = [stitch("a", 1, "b", 3, "right_wrong"), stitch("b", 1, "c", 3, "right_wrong"), stitch("c", 1, "d", 3)]
    pattern = read_pattern(specification(panels, seams))
    ways = [seam.same_way for seam in pattern.seams]
    assert ways[0] == ways[1] != ways[2]
    expected = [False]
    for way in ways:
        expected.append(expected[-1] != way)
    assert turned_panels(pattern) == expected and sum(expected) in (1, 2)


def test_an_edge_is_fine_where_the_one_it_is_sewn_to_is_fine():
    """A side of 12 mm asks for short segments at its end of an edge, and so of the edge sewn to it, which runs against it."""
    wedge = panel([[0, 0], [30, 0], [30, 1.2], [0, 9]])
    strip = panel([[0, -20], [30, -20], [30, -5], [0, -5]])
    cut = cut_pattern(
        read_pattern(specification({"strip": strip, "wedge": wedge}, [stitch("strip", 2, "wedge", 0)])), 0.03
    )
    along = cut.vertices[cut.edge_vertices[EdgeName("wedge", 0)]]
    steps = np.linalg.norm(np.diff(along, axis=0), axis=1)
    partner = cut.vertices[cut.edge_vertices[EdgeName("strip", 2)]]
    others = np.linalg.norm(np.diff(partner, axis=0), axis=1)
    assert np.allclose(steps, others[::-1])
    assert steps[-1] < 0.75 * steps[0]


def test_a_tube_of_one_panel_is_no_mistake():
    band = specification({"band": panel([[0, 0], [40, 0], [40, 10], [0, 10]])}, [stitch("band", 1, "band", 3)])
    cut = cut_pattern(read_pattern(band), 0.03)
    assert len(check(cut).boundary_loops) == 2


def test_edges_that_are_sewn_over_a_corner_are_refused():
    """A seam that closes an edge onto the next one against its direction would fold a triangle flat."""
    folded = specification({"front": panel([[0, 0], [2, 0], [2, 3]])}, [stitch("front", 0, "front", 1, "right_wrong")])
    with pytest.raises(PatternError, match="both ends of edge 0 of panel 'front'"):
        read_pattern(folded)


@pytest.mark.parametrize("edge", [0.0, -1.0, np.nan, np.inf])
def test_an_edge_length_that_is_none(edge):
    with pytest.raises(WeftError, match="edge length"):
        cut_pattern(read_pattern(tube()), edge)


def test_an_edge_length_far_too_short():
    with pytest.raises(WeftError, match="too short; it is in metres"):
        cut_pattern(read_pattern(tube()), 1e-5)


def test_the_same_pattern_gives_the_same_bytes():
    one, other = (cut_pattern(read_pattern(tube()), 0.02) for _ in range(2))
    assert one.vertices.tobytes() == other.vertices.tobytes() and np.array_equal(one.faces, other.faces)


def test_files(tmp_path):
    cut = cut_pattern(read_pattern(dart()), 0.03)
    save_garment(cut, tmp_path / "dart.obj")
    assert np.array_equal(load_mesh(tmp_path / "dart.obj").faces, cut.faces)
    save_garment(cut, tmp_path / "dart.npz")
    arrays = np.load(tmp_path / "dart.npz")
    assert np.array_equal(arrays["stitch_vertices"][:, :2], cut.stitches)
    assert arrays["panel_names"].tolist() == ["back"]
    assert np.array_equal(load_mesh(tmp_path / "dart.npz").uv, cut.uv)
    save_garment(cut, tmp_path / "welded.obj", welded=True)
    welded = load_mesh(tmp_path / "welded.obj")
    assert len(welded.vertices) == len(cut.vertices) - len(cut.stitches)
    assert np.allclose(welded.corner_uv, cut.corner_uv) and welded.names("group") == ("back",)
    save_garment(cut, tmp_path / "welded.npz", welded=True)
    assert len(load_mesh(tmp_path / "welded.npz").vertices) == len(cut.vertices) - len(cut.stitches)


def test_drawings(tmp_path):
    pytest.importorskip("matplotlib")
    pattern = read_pattern(gathered(), "skirt")
    draw_pattern(pattern, tmp_path / "skirt.svg")
    text = (tmp_path / "skirt.svg").read_text()
    assert "band" in text and "60.0 × 30.0 cm" in text and "skirt: 2 panels, 1 seams" in text
    draw_pattern(pattern, tmp_path / "again.svg")
    assert (tmp_path / "again.svg").read_text() == text
    with pytest.raises(WeftError, match="drawn to"):
        draw_pattern(pattern, tmp_path / "skirt.txt")


def test_the_command(tmp_path):
    path = save(tube(), tmp_path / "tube.json")
    run = CliRunner().invoke
    listed = run(app, ["garment", str(path)])
    assert listed.exit_code == 0 and "front" in listed.output and "2 panels, 2 seams" in listed.output
    out = tmp_path / "tube.obj"
    assert run(app, ["garment", str(path), "-o", str(out), "--edge", "0.05"]).exit_code == 0
    assert len(load_mesh(out).faces) > 50
    assert run(app, ["garment", str(path), "-o", str(out)]).exit_code == 1


@pytest.mark.parametrize("name", ["shirt_mean", "dress_pencil"])
def test_patterns_of_garmentcode(name):
    if not DATA.exists():
        pytest.skip("the patterns of GarmentCode are not here")
    cut = cut_pattern(load_pattern(DATA / f"{name}_specification.json"), 0.02)
    welded = check(cut)
    # neck, hem, and two arms
    assert len(welded.boundary_loops) == 4
    assert cut.smallest_angle > 25.0


@pytest.mark.parametrize("clockwise", [False, True])
@pytest.mark.parametrize("edge", [0.006, 0.02, 0.05])
def test_folds_are_edges_of_triangles(edge, clockwise):
    data = pleated()
    data["pattern"]["stitches"] = []
    if clockwise:
        # the loop the other way round: the corners and, in each of their edges, the ends are reversed
        skirt = data["pattern"]["panels"]["skirt"]
        skirt["vertices"] = skirt["vertices"][::-1]
        for fold in skirt["folds"]:
            fold["endpoints"] = [11 - i for i in fold["endpoints"]]
    cut = cut_pattern(read_pattern(data), edge)
    check(cut)
    assert [angle for _, angle in cut.folds] == [-150.0, 150.0]
    mesh = cut.mesh()
    for ends, angle in cut.folds:
        # the triangles' edges on the line are as long in all as the fold
        steps = mesh.uv[mesh.edges] - ends[0]
        along = (ends[1] - ends[0]) / np.linalg.norm(ends[1] - ends[0])
        on = (np.abs(steps @ [-along[1], along[0]]) < 1e-9).all(axis=1)
        assert mesh.edge_lengths[on].sum() == pytest.approx(0.4)
        assert np.ptp(ends[:, 1]) == pytest.approx(0.4) and np.ptp(ends[:, 0]) < 1e-12
        # where it is in the panel, as the vertices that stand there say
        x = cut.vertices[np.unique(mesh.edges[on]), 0]
        assert x == pytest.approx(0.14 if angle > 0 else 0.18)


def test_the_three_layers_of_a_pleat_are_sewn_together():
    cut = cut_pattern(read_pattern(pleated()), 0.02)
    top = np.flatnonzero(np.abs(cut.vertices[:, 1] - 0.4) < 1e-9)
    x, number = cut.vertices[top, 0], cut.welded_vertex[top]
    group = number == number[np.argmin(np.abs(x - 0.22))]
    assert np.sort(x[group]) == pytest.approx([0.14, 0.22])
    assert sorted(np.bincount(number)[np.unique(number)])[-1] == 3
    # as a surface, in which no edge may have three triangles, two layers are joined: two of the vertices of the third stay
    assert len(cut.welded_mesh().vertices) == cut.welded_vertex.max() + 1 + 2
