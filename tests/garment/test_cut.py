"""Panels to triangles: quality, the same division on both sides of seams, darts, gathers, welding, files, drawings."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from patterns import dart, gathered, panel, save, specification, stitch, tube
from typer.testing import CliRunner

from weft.cli.main import app
from weft.errors import WeftError
from weft.garment import cut_pattern, load_pattern
from weft.garment.drawing import draw_pattern
from weft.garment.files import save_garment
from weft.garment.pattern import EdgeName, PatternError, read_pattern
from weft.garment.triangulate import smallest_angles, triangulate
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


def test_edges_that_are_sewn_over_a_corner_are_refused():
    """A seam that closes an edge onto the next one against its direction would fold a triangle flat."""
    pattern = read_pattern(
        specification({"front": panel([[0, 0], [2, 0], [2, 3]])}, [stitch("front", 0, "front", 1, "right_wrong")])
    )
    with pytest.raises(PatternError, match="panel 'front'"):
        _ = cut_pattern(pattern, 0.05).welded_faces


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
