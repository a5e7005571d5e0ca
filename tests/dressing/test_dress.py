"""Dressing a body: a vest on a rounded column, layers, other bodies, animations, bad input."""

import json
from dataclasses import replace

import numpy as np
import pytest
from patterns import gathered, save, tube, vest
from typer.testing import CliRunner

import weft
from weft.cli.main import app
from weft.dressing import sewing
from weft.dressing.arrange import Obstacle, arrange_panels, panel_groups
from weft.dressing.dresser import count_crossings, open_limit, part_cloth
from weft.dressing.sewing import hanging_stitches, laid_into, sew_garment
from weft.dressing.tension import tightened
from weft.dressing.thin_body import thin_body
from weft.errors import WeftError, WeftWarning
from weft.garment import cut_pattern
from weft.garment.pattern import EdgeName
from weft.garment.reading import read_pattern
from weft.mesh import TriMesh, save_mesh, shapes
from weft.scene import Material


def column(scale=1.0, y=0.7):
    """A body that a vest can hang on: wider than deep, round above."""
    body = shapes.capsule(0.14, 0.8, segments=24, rings=8, bands=16)
    return body.transformed(np.array([[1.25 * scale, 0, 0, 0], [0, 1, 0, y], [0, 0, scale, 0], [0, 0, 0, 1.0]]))


def distances(points, scale=1.0):
    """How far points are from the axis of the column, 1 on its surface."""
    return np.hypot(points[:, 0] / (1.25 * 0.14 * scale), points[:, 2] / (0.14 * scale))


@pytest.fixture(scope="module")
def pattern():
    return read_pattern(vest(y=80), "vest")


@pytest.fixture(scope="module")
def dressed(pattern, tmp_path_factory):
    folder = tmp_path_factory.mktemp("dressed")
    save_mesh(column(), folder / "body.obj")
    return weft.dress(pattern, folder / "body.obj", folder / "dressed.zarr", edge=0.04, settle=0.2)


def test_a_vest_is_sewn_and_nothing_crosses(dressed):
    assert dressed.ok and dressed.crossings.free and dressed.remarks == ()
    # only the start and the end of the drape are looked at
    counts = [row["intersections"] for row in dressed.cache.report.rows()]
    assert counts[-1] == 0 and set(counts[1:-1]) == {-1}
    (garment,) = dressed.garments
    # vertices that are sewn together are at the same place, and the vest is around the body
    assert np.array_equal(*garment.vertices[garment.stitches].transpose(1, 0, 2))
    trunk = garment.vertices[garment.vertices[:, 1] < 1.05]
    assert (distances(trunk) > 0.99).all() and distances(trunk).max() < 1.5
    z = np.array([garment.vertices[garment.vertex_panel == k, 2].mean() for k in range(2)])
    assert z[0] > 0.05 and z[1] < -0.05
    fit = dressed.fits[0]
    assert [panel.name for panel in fit.panels] == ["front", "back"] and not fit.too_small
    assert all(panel.most < 10.0 for panel in fit.panels)
    assert 0.0 < fit.pressure.max() < 5000.0


def test_the_scene_goes_on_from_there(dressed, tmp_path):
    scene = weft.load_scene(dressed.scene)
    cache = weft.simulate(scene.replace(frames=3), tmp_path / "on.zarr", progress=False)
    start = cache.positions(0)[: len(dressed.garments[0].vertices)]
    assert np.allclose(start, dressed.garments[0].vertices, atol=1e-5)
    assert list(cache.report.rows())[-1]["intersections"] == 0


def test_the_files_of_a_garment_keep_its_panels(dressed):
    arrays = np.load(dressed.scene.parent / "dressed" / "vest.npz")
    assert arrays["panel_names"].tolist() == ["front", "back"]
    welded = TriMesh(
        arrays["vertices"][np.unique(arrays["welded_vertex"], return_index=True)[1]], arrays["welded_faces"]
    )
    # neck, hem and two arms
    assert len(welded.boundary_loops) == 4
    assert arrays["corner_uv"].shape == (len(arrays["faces"]), 3, 2)


def test_two_layers(pattern, tmp_path):
    wide = read_pattern(vest(width=62, y=80, gap=30), "coat")
    both = weft.dress([pattern, wide], column(), tmp_path / "both.zarr", edge=0.04, settle=0.2)
    assert both.ok
    inner, outer = (np.median(distances(garment.vertices[garment.vertices[:, 1] < 1.0])) for garment in both.garments)
    assert inner < outer


def test_two_layers_stay_in_order_on_a_moving_body(pattern, tmp_path):
    """The body turns to and fro and sways: the coat stays over the vest, and nothing crosses."""
    wide = read_pattern(vest(width=62, y=80, gap=30), "coat")
    body = column()
    frames = []
    for t in np.linspace(0.0, 2.0 * np.pi, 9):
        a, sway = 0.3 * np.sin(t), 0.05 * (body.vertices[:, 1] - 0.7) * np.sin(2.0 * t)
        turn = np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]])
        frames.append(body.vertices @ turn + np.column_stack([sway, 0 * sway, 0 * sway]))
    np.savez(tmp_path / "dance.npz", vertices=np.stack(frames), faces=body.faces)
    both = weft.dress(
        [pattern, wide], body, tmp_path / "both.zarr", edge=0.05, settle=0.2, motion=tmp_path / "dance.npz", fps=20
    )
    cache = weft.simulate(weft.load_scene(both.scene), tmp_path / "dance.zarr", progress=False)
    assert all(row["intersections"] == 0 for row in cache.report.rows())
    end = cache.positions(-1)
    inner, outer = (end[own.vertices] for own in cache.bodies[:2])
    low, high = inner[:, 1].min(), outer[:, 1].max() - 0.3
    inner, outer = (np.median(distances(x[(x[:, 1] > low) & (x[:, 1] < high)])) for x in (inner, outer))
    assert inner < outer


@pytest.mark.parametrize("segments", [24, 20])
def test_onto_another_body(pattern, segments, tmp_path):
    """With the same triangles the body changes its shape; another one is dressed from the start."""
    other = shapes.capsule(0.14, 0.8, segments=segments, rings=8, bands=16)
    other = other.transformed(np.array([[1.35, 0, 0, 0], [0, 1, 0, 0.7], [0, 0, 1.1, 0], [0, 0, 0, 1.0]]))
    moved = weft.dress(pattern, column(), tmp_path / "other.zarr", edge=0.05, settle=0.1, onto=other)
    assert moved.crossings.free and np.array_equal(moved.body.vertices, other.vertices)
    trunk = moved.garments[0].vertices
    trunk = trunk[trunk[:, 1] < 1.0]
    assert (np.hypot(trunk[:, 0] / (1.35 * 0.14), trunk[:, 2] / (1.1 * 0.14)) > 0.97).all()


def test_an_animation_begins_with_the_pose_of_the_drape(pattern, tmp_path):
    body = column()
    frames = np.stack([body.vertices + [0.02 + 0.01 * i, 0.0, 0.0] for i in range(4)])
    np.savez(tmp_path / "walk.npz", vertices=frames, faces=body.faces)
    done = weft.dress(
        pattern, body, tmp_path / "d.zarr", edge=0.05, settle=0.1, motion=tmp_path / "walk.npz", fps=20, blend=0.2
    )
    moving = np.load(tmp_path / "d" / "motion.npz")["vertices"]
    assert len(moving) == 4 + 4
    assert np.allclose(moving[0], body.vertices, atol=1e-6) and np.allclose(moving[-1], frames[-1], atol=1e-6)
    scene = weft.load_scene(done.scene)
    assert scene.fps == 20 and scene.frames == 7
    end = weft.simulate(scene, tmp_path / "walk.zarr", progress=False)
    assert list(end.report.rows())[-1]["intersections"] == 0


def test_labelled_edges_stay_on_the_body(tmp_path):
    data = vest(y=80)
    for panel in data["pattern"]["panels"].values():
        for edge in panel["edges"]:
            if all(panel["vertices"][i][1] == 0 for i in edge["endpoints"]):
                edge["label"] = "hem"
    labelled = read_pattern(data, "vest")
    assert labelled.labels == ["hem"]
    with pytest.raises(WeftError, match="no edge is labelled 'waist'"):
        weft.dress(labelled, column(), tmp_path / "d.zarr", edge=0.06, attach=["waist"])
    body = column()
    turned = [np.array([[np.cos(a), 0, -np.sin(a)], [0, 1, 0], [np.sin(a), 0, np.cos(a)]]) for a in (0.0, 0.1, 0.2)]
    frames = np.stack([body.vertices @ matrix for matrix in turned])
    np.savez(tmp_path / "turn.npz", vertices=frames, faces=body.faces)
    done = weft.dress(
        labelled, body, tmp_path / "d.zarr", edge=0.06, settle=0.1, attach=["hem"], motion=tmp_path / "turn.npz", fps=20
    )
    (garment,) = done.garments
    held = garment.labelled(["hem"])
    assert len(held) > 10 and np.ptp(garment.vertices[held, 1]) < 0.2
    end = weft.simulate(weft.load_scene(done.scene), tmp_path / "on.zarr", progress=False).positions(-1)[held]
    # all of them turn with the body
    assert np.abs(end - garment.vertices[held] @ turned[2]).max() < 1e-5


def test_elastic_is_shorter_at_rest_and_fades(tmp_path):
    pattern = waisted(30)
    cut = cut_pattern(pattern, 0.02)
    tight = tightened(cut, {"waist": 0.8})
    for number in range(2):
        waist = cut.edge_vertices[EdgeName(pattern.panels[number].name, 3)]
        before, after = (np.linalg.norm(np.diff(one.uv[waist], axis=0), axis=1).sum() for one in (cut, tight))
        assert after == pytest.approx(0.8 * before)
    far = np.abs(cut.uv - tight.uv).max(axis=1) == 0.0
    top = np.array([cut.uv[cut.vertex_panel == k, 1].max() for k in range(2)])[cut.vertex_panel]
    # the ends move by 6 cm, and three times that below nothing does
    assert far[cut.uv[:, 1] < top - 0.181].all() and not far[cut.uv[:, 1] > top - 0.001].all()
    assert tight.smallest_angle > 20.0 and np.array_equal(tight.vertices, cut.vertices)
    with pytest.raises(WeftError, match=r"between 0\.3 and 1 times what is cut, not 2"):
        weft.dress(pattern, column(), tmp_path / "d.zarr", edge=0.06, tension={"waist": 2.0})
    with pytest.raises(WeftError, match="no edge is labelled 'hem'"):
        weft.dress(pattern, column(), tmp_path / "d.zarr", edge=0.06, tension={"hem": 0.9})


def test_a_waistband_is_elastic_as_a_whole():
    data = gathered()
    data["pattern"]["panels"]["band"]["edges"][2]["label"] = "waist"
    cut = cut_pattern(read_pattern(data), 0.02)
    tight, band = tightened(cut, {"waist": 0.7}), cut.vertex_panel == 0
    assert np.ptp(tight.uv[band], axis=0) == pytest.approx([0.14, 0.05])
    assert np.array_equal(tight.uv[~band], cut.uv[~band])


def test_elastic_keeps_a_skirt_up(tmp_path):
    """A tube of 104 cm around a column of 99 cm, by itself too wide to stay."""
    ends = []
    for fraction in (1.0, 0.8):
        out = tmp_path / f"{fraction}.zarr"
        done = weft.dress(
            waisted(26), column(), out, edge=0.05, settle=0.8, tension={"waist": fraction}, overwrite=True
        )
        assert done.crossings.free
        ends.append(done.garments[0].vertices[:, 1].max())
    assert ends[1] > 0.9 and ends[1] > ends[0] + 0.1


def test_what_is_left_of_crossings_is_taken_apart():
    """One vertex of the front of a tube sticks out of its back."""
    cut = cut_pattern(read_pattern(tube(gap=1.0, y=60)), 0.03)
    inner = np.flatnonzero((np.abs(cut.vertices - [0.0, 0.8, 0.01]) < [0.03, 0.03, 0.001]).all(axis=1))[0]
    x = cut.vertices.copy()
    x[inner, 2] = -0.02
    poked, body = replace(cut, vertices=x), column().transformed(np.diag([0.01, 0.01, 0.01, 1.0]))
    assert count_crossings([poked], body).cloth > 0
    (parted,), crossings = part_cloth([poked], body)
    assert crossings.free and np.abs(parted.vertices - x).max() < 0.06


def test_the_thin_body_is_inside_and_far_parts_stay():
    body = column()
    cut = cut_pattern(read_pattern(vest(y=80)), 0.06)
    thin = thin_body(body, cut.vertices)
    low, covered = body.vertices[:, 1] < 0.4, np.abs(body.vertices[:, 1] - 1.0) < 0.1
    assert np.abs(thin - body.vertices)[low].max() < 0.005
    assert distances(thin)[covered].max() < 0.85


def test_panels_are_bent_without_stretching_and_seams_pass_the_body(pattern):
    cut = cut_pattern(pattern, 0.04)
    body = column()
    arranged = arrange_panels(cut, Obstacle(body.vertices, body.faces))
    assert arranged.caught == 0
    strain = arranged.garment.mesh().edge_lengths / cut.mesh().rest_lengths - 1.0
    # chords of a bent panel are a little shorter
    assert strain.max() < 1e-9 and strain.min() > -0.02
    gaps = [
        np.linalg.norm(np.subtract(*g.vertices[cut.stitches].transpose(1, 0, 2)), axis=1).mean()
        for g in (arranged.garment, cut)
    ]
    assert gaps[0] < 0.6 * gaps[1]


def flat_panel(z, corners):
    edges = [{"endpoints": [i, (i + 1) % len(corners)]} for i in range(len(corners))]
    return {"vertices": corners, "edges": edges, "translation": [0, 100, z], "rotation": [0, 0, 0]}


def skirt(half_waist, half_hem, length, z=15):
    """A front and a back, sewn along both sides."""
    corners = [[-half_waist, 0], [-half_hem, -length], [half_hem, -length], [half_waist, 0]]
    panels = {"front": flat_panel(z, corners), "back": flat_panel(-z, corners)}
    sides = [[{"panel": name, "edge": edge} for name in panels] + ["right_wrong"] for edge in (0, 2)]
    return read_pattern(
        {"pattern": {"panels": panels, "stitches": sides}, "properties": {"units_in_meter": 100}}, "skirt"
    )


def waisted(half):
    """A straight skirt of four times this girth whose upper edges are labelled."""
    pattern = skirt(half, half, 30, z=20)
    panels = [
        replace(panel, edges=(*panel.edges[:3], replace(panel.edges[3], label="waist"))) for panel in pattern.panels
    ]
    return replace(pattern, panels=tuple(panels))


def test_a_wide_skirt_stays_flat_and_a_straight_one_is_bent():
    """The sides of a circle skirt run across the body rather than along it."""
    body = column()
    for hem, bent in ((65, False), (30, True)):
        cut = cut_pattern(skirt(25, hem, 15 if hem > 50 else 60), 0.04)
        end = arrange_panels(cut, Obstacle(body.vertices, body.faces)).garment.vertices
        depth = [np.ptp(end[cut.vertex_panel == k, 2]) for k in range(2)]
        assert all((d > 0.05) == bent for d in depth), depth


@pytest.mark.parametrize("angle", [41, 0, -41])
def test_a_sleeve_is_bent_whichever_way_it_points(angle):
    """Of a right and a left sleeve one was taken for a wide skirt and stayed flat, and the arm came through its seam."""
    corners = [[-10, -25], [10, -25], [10, 25], [-10, 25]]
    panels = {
        side: flat_panel(0, corners) | {"translation": [0, 100, z], "rotation": [0, 0, angle]}
        for side, z in (("front", 15), ("back", -15))
    }
    seams = [[{"panel": name, "edge": edge} for name in panels] + ["right_wrong"] for edge in (1, 3)]
    properties = {"units_in_meter": 100}
    cut = cut_pattern(
        read_pattern({"pattern": {"panels": panels, "stitches": seams}, "properties": properties}, "s"), 0.04
    )
    end = arrange_panels(cut, Obstacle(column().vertices, column().faces)).garment.vertices
    assert all(np.ptp(end[cut.vertex_panel == k, 2]) > 0.03 for k in range(2))


@pytest.mark.parametrize("gap", [10, 3])
def test_a_skirt_hangs_from_its_bodice_and_a_sleeve_does_not(gap):
    square = [[-20, -20], [20, -20], [20, 20], [-20, 20]]
    places = {"bodice": (0, 100), "skirt": (0, 60 - gap), "sleeve": (55, 105)}
    panels = {
        f"{part}_{side}": flat_panel(z, square) | {"translation": [x, y, z]}
        for part, (x, y) in places.items()
        for side, z in (("front", 15), ("back", -15))
    }
    around = [("bodice", 3), ("skirt", 1), ("skirt", 3), ("sleeve", 0), ("sleeve", 2)]
    seams = [[(f"{part}_front", edge), (f"{part}_back", edge)] for part, edge in around]
    seams += [[("bodice_front", 0), ("skirt_front", 2)], [("bodice_front", 1), ("sleeve_front", 3)]]
    stitches = [[{"panel": panel, "edge": edge} for panel, edge in seam] for seam in seams]
    data = {"pattern": {"panels": panels, "stitches": stitches}, "properties": {"units_in_meter": 100}}
    cut = cut_pattern(read_pattern(data, "dress"), 0.1)
    names = np.array([panel.name for panel in cut.pattern.panels])[cut.vertex_panel[cut.stitches]]
    waist = np.array([{*pair} == {"bodice_front", "skirt_front"} for pair in names])
    # corners at which several seams end are joined too
    own = cut.stitch_seam >= 0
    assert waist[own].any() and np.array_equal(hanging_stitches(cut)[own], waist[own])


def test_a_waistband_belongs_to_its_skirt():
    data = gathered()
    data["pattern"]["panels"]["skirt"]["vertices"] = [[0, 0], [20, 0], [20, -30], [0, -30]]
    data["pattern"]["panels"]["band"]["translation"] = [0, 3, 0]
    assert panel_groups(cut_pattern(read_pattern(data), 0.04)).tolist() == [0, 0]
    data["pattern"]["panels"]["band"]["vertices"] = [[0, 0], [20, 0], [20, 25], [0, 25]]
    assert panel_groups(cut_pattern(read_pattern(data), 0.04)).tolist() == [0, 1]


def leg(x=0.0, lower=0.0):
    """A trouser leg whose back stands lower than its front, as patterns place them."""
    corners = [[-12, -30], [12, -30], [12, 30], [-12, 30]]
    panels = {
        side: flat_panel(z, corners) | {"translation": [x, 100 - down, z]}
        for side, z, down in (("front", 20, 0.0), ("back", -20, lower))
    }
    sides = [[{"panel": name, "edge": edge} for name in panels] + ["right_wrong"] for edge in (1, 3)]
    return cut_pattern(
        read_pattern({"pattern": {"panels": panels, "stitches": sides}, "properties": {"units_in_meter": 100}}), 0.04
    )


def test_front_and_back_of_a_leg_belong_together():
    assert panel_groups(leg(lower=2.4)).tolist() == [0, 0]


def test_a_tube_is_moved_aside_where_the_body_is_in_the_way_at_all_heights():
    """The inner seams of trousers that are drawn wider apart than legs are met the legs, and closed inside them."""
    thin = shapes.capsule(0.03, 1.6, segments=12)
    thin = thin.with_vertices(thin.vertices + (0.0, 1.0 - thin.vertices[:, 1].mean(), 0.0))
    body = Obstacle(thin.vertices, thin.faces)
    for x in (0.0, 11.0):
        arrangement = arrange_panels(leg(x), body)
        assert arrangement.caught == 0
        middle = arrangement.garment.vertices[:, 0].mean()
        # around the limb, and where the pattern has it if nothing is in the way
        assert abs(middle) < 0.08 and (x == 0.0) == (abs(middle - 0.01 * x) < 1e-3)


def test_a_tube_is_moved_so_that_its_limb_is_in_its_middle():
    """Legs that were near the side of a trouser leg were left outside when it closed, and the trousers slid off."""
    thin = shapes.capsule(0.008, 1.6, segments=12)
    thin = thin.with_vertices(thin.vertices + (0.0, 1.0 - thin.vertices[:, 1].mean(), 0.0))
    end = arrange_panels(leg(7.0), Obstacle(thin.vertices, thin.faces)).garment.vertices
    assert abs(end[:, 0].mean()) < 0.6 * np.abs(end[:, 0] - end[:, 0].mean()).max() + 0.008


def test_a_thin_body_that_carries_nothing_lets_nothing_fall():
    """A tube around a body that is thinner everywhere is held at its height while the body grows."""
    cut = cut_pattern(skirt(40, 40, 30, z=25), 0.1)
    sewn = sew_garment(cut, column(0.5), material=Material(), thickness=0.002).cut.vertices
    assert abs((sewn - cut.vertices)[:, 1].mean()) < 0.035


def test_a_finer_garment_lies_in_the_triangles_of_the_coarse_one(pattern):
    """Any linear map of the coarse one is that of the fine one too, also beyond its chords along curved edges."""
    coarse, fine = cut_pattern(pattern, 0.08), cut_pattern(pattern, 0.03)
    bend = np.array([[0.5, 0.3, 0.0], [0.1, 1.0, 0.7], [-0.2, 0.0, 1.0]])
    laid = laid_into(coarse, coarse.vertices @ bend, fine)
    expected = fine.welded_mean(fine.vertices @ bend)[fine.welded_vertex]
    assert len(laid.faces) == len(fine.faces) and np.allclose(laid.vertices, expected, atol=1e-9)


def test_fine_garments_are_sewn_with_coarse_triangles(pattern, tmp_path, monkeypatch):
    counts = []

    def sew(cut, *rest, **how):
        counts.append(len(cut.faces))
        return sew_garment(cut, *rest, **how)

    monkeypatch.setattr(sewing, "SEWING_EDGE", 0.06)
    monkeypatch.setattr(sewing, "sew_garment", sew)
    done = weft.dress(pattern, column(), tmp_path / "fine.zarr", edge=0.04, settle=0.2)
    fine = cut_pattern(pattern, 0.04)
    assert done.ok and len(done.garments[0].faces) == len(fine.faces) > 1.5 * counts[0]
    assert np.array_equal(done.garments[0].uv, fine.uv)
    assert done.fits[0].panels[0].most < 10.0


def test_sewing_ends_and_names_the_seams_that_are_open(pattern, monkeypatch):
    monkeypatch.setattr(sewing, "LIMIT", 0.0)
    monkeypatch.setattr(sewing, "LIMIT_TRIANGLE", 0.0)
    message = (
        r"vest cannot be sewn: after 0 s of processor time 1 of 102 frames are done, and "
        r"the seam of edge \d+ of panel '\w+' and edge \d+ of panel '\w+' is open by \d\d cm"
    )
    with pytest.raises(WeftError, match=message):
        sew_garment(cut_pattern(pattern, 0.08), column(), material=Material(), thickness=0.002)


def test_a_skirt_is_held_by_its_waistband():
    """The middle of a wide skirt comes nearer to its waistband when it closes: held by it, the waistband closed on the hip."""
    wide = [[-25, 0], [-70, 0], [-55, -40], [0, -60], [55, -40], [70, 0], [25, 0]]
    band = [[-25, 0], [25, 0], [25, 6], [-25, 6]]
    panels = {f"skirt_{z}": flat_panel(z, wide) for z in (25, -25)} | {
        f"band_{z}": flat_panel(z, band) for z in (25, -25)
    }
    for name, panel in panels.items():
        panel["translation"][1] = 83 if name[0] == "b" else 80
    pairs = [("skirt_25", 0, "skirt_-25", 0), ("skirt_25", 5, "skirt_-25", 5)]
    pairs += [("band_25", 1, "band_-25", 1), ("band_25", 3, "band_-25", 3)]
    stitches = [[{"panel": a, "edge": i}, {"panel": b, "edge": j}, "right_wrong"] for a, i, b, j in pairs]
    stitches += [[{"panel": f"band_{z}", "edge": 0}, {"panel": f"skirt_{z}", "edge": 6}] for z in (25, -25)]
    data = {"pattern": {"panels": panels, "stitches": stitches}, "properties": {"units_in_meter": 100}}
    cut = cut_pattern(read_pattern(data, "wide"), 0.05)
    sewn = sew_garment(cut, column(), material=Material(), thickness=0.002)
    of_band = np.isin(cut.vertex_panel, (2, 3))
    sunk = (cut.vertices - sewn.cut.vertices)[of_band, 1]
    assert not sewn.open_seams and abs(sunk.mean()) < 0.03
    assert np.array_equal(sewing.waistband(cut, cut.vertices[:, 1] > 0.85), of_band)
    assert sewing.waistband(cut, cut.vertices[:, 1] < 0.5).all()


def test_the_halves_of_a_tube_stay_apart():
    cut = cut_pattern(skirt(45, 45, 50, z=6), 0.04)
    end = arrange_panels(cut, Obstacle(column().vertices, column().faces)).garment.vertices
    assert end[cut.vertex_panel == 0, 2].min() > 0.01 and end[cut.vertex_panel == 1, 2].max() < -0.01


def test_what_slides_off_is_told(tmp_path):
    """A tube around a column that is thinner everywhere."""
    wide = skirt(40, 40, 30, z=25)
    done = weft.dress(wide, column(0.5), tmp_path / "wide.zarr", edge=0.08, settle=0.5)
    assert not done.ok and any("skirt slid down by" in remark for remark in done.remarks)


def test_a_seam_may_be_open_by_a_part_of_an_edge():
    """Coarse cloth that is tight is pulled open between its stitches."""
    assert open_limit(0.01) == open_limit(0.02) == 0.005 and open_limit(0.06) == pytest.approx(0.015)


def test_a_garment_far_too_small_is_refused(tmp_path):
    """A tube of 52 cm around a body of 99 cm."""
    small = read_pattern(tube(width=26, height=20, gap=20, y=90), "ring")
    with pytest.raises(
        WeftError, match="ring is far too small for the body: it is 52 cm around where the body is 99 cm"
    ):
        weft.dress(small, column(), tmp_path / "small.zarr", edge=0.05)


@pytest.mark.parametrize(
    ("units", "message"),
    [
        (
            1000,
            r"vest is far too small for the body: panel 'front', the largest, is \d\.\d cm long, and the body 108 cm tall",
        ),
        (10, r"vest: its panels stand around \[0\.00, 10\.\d\d, .*or look at properties\.units_in_meter"),
    ],
)
def test_units_that_are_off_by_ten_are_told(units, message, tmp_path):
    data = vest(y=80)
    data["properties"]["units_in_meter"] = units
    with pytest.raises(WeftError, match=message):
        # with this edge length a vest of five metres would have millions of triangles
        weft.dress(read_pattern(data, "vest"), column(), tmp_path / "d.zarr", edge=0.001)


def test_the_same_input_gives_the_same_bytes(pattern):
    cut = cut_pattern(pattern, 0.06)
    one, other = (sew_garment(cut, column(), material=Material(), thickness=0.002) for _ in range(2))
    assert one.cut.vertices.tobytes() == other.cut.vertices.tobytes()


def test_bodies_that_are_refused(pattern, tmp_path):
    giant = column().transformed(np.diag([100.0, 100.0, 100.0, 1.0]))
    with pytest.raises(WeftError, match="the body is 108 m tall: it is probably in centimetres"):
        weft.dress(pattern, giant, tmp_path / "a.zarr", edge=0.06)
    beside = column().transformed(np.array([[1, 0, 0, 2.0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]]))
    with pytest.raises(WeftError, match="vest: its panels stand around"):
        weft.dress(pattern, beside, tmp_path / "a.zarr", edge=0.06)
    with pytest.raises(WeftError, match="no pattern"):
        weft.dress([], column(), tmp_path / "a.zarr")
    with pytest.raises(WeftError, match=r"ends in \.zarr"):
        weft.dress(pattern, column(), tmp_path / "a.obj")
    with pytest.raises(WeftError, match="5 vertices and the body has"):
        np.savez(tmp_path / "other.npz", vertices=np.zeros((2, 5, 3)))
        weft.dress(pattern, column(), tmp_path / "a.zarr", motion=tmp_path / "other.npz", fps=10)


def test_a_body_with_holes_is_announced(pattern, tmp_path):
    body = column()
    holed = TriMesh(body.vertices, body.faces[:-1])
    with pytest.warns(WeftWarning, match="the body has 1 hole, one of them at vertex"):
        assert weft.dress(pattern, holed, tmp_path / "h.zarr", edge=0.06, settle=0.05).crossings.free


def test_the_command(tmp_path):
    pytest.importorskip("pyvista")
    save(vest(y=80), tmp_path / "vest.json")
    save_mesh(column(), tmp_path / "body.obj")
    arguments = ["dress", str(tmp_path / "vest.json"), str(tmp_path / "body.obj"), "-o", str(tmp_path / "out.zarr")]
    done = CliRunner().invoke(app, [*arguments, "--edge", "0.06", "--settle", "0.1"])
    assert done.exit_code == 0, done.output
    assert "nothing crosses" in done.output
    report = json.loads((tmp_path / "out" / "fit.json").read_text())
    assert report["crossings"] == {"cloth": 0, "body": 0}
    assert set(report["garments"][0]["panels"]) == {"front", "back"}
    assert all((tmp_path / "out" / f"{name}.png").stat().st_size > 10_000 for name in ("dressed", "strain", "pressure"))
    assert CliRunner().invoke(app, arguments).exit_code == 1
