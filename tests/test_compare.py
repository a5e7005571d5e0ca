"""`weft compare`: rows against the caches they come from, methods that cannot run, the table and the picture."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft.cli.main import app
from weft.compare import compare
from weft.errors import WeftError
from weft.scene import Boxes, save_scene
from weft.world import World


def scene(**changes):
    return weft.Scene(
        **{
            "name": "small",
            "frames": 5,
            "cloths": [
                weft.Cloth(
                    shape=weft.Grid(size=(0.5, 0.5), cells=(3, 3)),
                    placement={"position": (0.0, 0.13, 0.0)},
                    velocity=(0.0, -3.0, 0.0),
                )
            ],
            "colliders": [weft.Collider(name="ball", shape=weft.Sphere(radius=0.1, subdivisions=1))],
            **changes,
        }
    )


def test_rows_say_what_the_caches_hold(tmp_path):
    result = compare(scene(), ["plain", "boxes"], tmp_path / "out", size=(64, 48))
    assert [row.method for row in result.rows] == ["plain", "boxes"]
    for row in result.rows:
        cache = weft.open_cache(tmp_path / "out" / f"{row.method}.zarr")
        assert cache.scene.method.name == row.method
        troubles = [status for status in cache.report["status"] if status != "ok"]
        assert row.frames == 5 and row.frame_ms > 0.0
        assert row.troubled == len(troubles) and row.problem == (troubles[0] if troubles else "")
        counts = np.array(cache.report["intersections"])
        assert (row.worst_intersections, row.last_intersections) == (counts.max(), counts[-1])
        assert row.stretch == max(cache.report["stretch"])
        mass, v = World(cache.scene).mass[:16], cache.velocities(5)[:16]
        assert row.kinetic_mj == pytest.approx(500.0 * (mass * (v**2).sum(axis=1)).sum())
    plain, boxes = result.rows
    # without any contact the sheet falls through the ball
    assert plain.worst_intersections > 0 and boxes.worst_intersections == 0
    with result.table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == ["plain", "boxes"]
    assert float(rows[1]["stretch"]) == boxes.stretch
    assert result.picture is not None and result.picture.read_bytes()[:4] == b"\x89PNG" and not result.no_picture


def test_the_scenes_own_method_keeps_its_options_and_others_have_defaults(tmp_path):
    compare(scene(method=Boxes(steps=3), frames=1), ["boxes", "plain"], tmp_path, size=(64, 48))
    assert weft.open_cache(tmp_path / "boxes.zarr").scene.method == Boxes(steps=3)
    assert weft.open_cache(tmp_path / "plain.zarr").scene.method == weft.scene.Plain()


def test_intersections_are_counted_even_where_the_run_did_not(tmp_path):
    result = compare(scene(check=0), ["plain"], tmp_path, size=(64, 48))
    assert result.rows[0].worst_intersections > 0


def test_a_method_that_cannot_run_the_scene_says_why(tmp_path):
    ball = weft.Cloth(shape=weft.Sphere(radius=0.2, subdivisions=1))
    result = compare(scene(cloths=[ball], colliders=[]), ["boxes", "plain"], tmp_path, frames=1, size=(64, 48))
    refused, plain = result.rows
    assert refused.frames == 0 and "grid" in refused.problem and np.isnan(refused.frame_ms)
    assert plain.frames == 1 and result.picture is not None
    only = compare(scene(cloths=[ball], colliders=[]), ["boxes"], tmp_path / "none", frames=1)
    assert only.picture is None and only.no_picture


def test_a_sheet_that_hangs_has_the_same_outline_whatever_its_cells(tmp_path):
    """And the caches say that it was divided as asked for."""
    sheet = weft.Cloth(
        shape=weft.Grid(size=(0.4, 0.2), cells=(3, 3)),
        masses="area",
        placement={"rotation_deg": (90.0, 0.0, 0.0)},
        pins=[weft.Pin(boundary="top")],
    )
    hung = scene(cloths=[sheet], colliders=[], method="plain")
    result = compare(hung, None, tmp_path, resolutions=[0.05, 0.1], size=(64, 48))
    assert [(row.label, row.cell) for row in result.rows] == [("plain-100mm", 0.1), ("plain-50mm", 0.05)]
    assert weft.open_cache(tmp_path / "plain-100mm.zarr").scene.cloths[0].shape.cells == (4, 2)
    assert weft.open_cache(tmp_path / "plain-50mm.zarr").scene.cloths[0].shape.cells == (8, 4)
    coarse, fine = result.rows
    assert fine.outline == 0.0 and coarse.outline < 0.2
    with result.table.open() as file:
        assert [float(row["outline"]) for row in csv.DictReader(file)] == [coarse.outline, 0.0]
    assert result.picture is not None


def test_outlines_tell_by_how_much_cloth_hangs_differently(tmp_path):
    """A cloth that is held by its left side falls away from under it: the fewer cells, the less it can."""
    sheet = weft.Cloth(shape=weft.Grid(size=(0.4, 0.2)), material="silk", pins=[weft.Pin(boundary="left")])
    result = compare(
        scene(cloths=[sheet], colliders=[]), ["plain"], tmp_path, resolutions=[0.4, 0.05], frames=20, size=(64, 48)
    )
    assert result.rows[0].outline > 3.0


@pytest.mark.parametrize(
    ("cloth", "message"),
    [
        ({"pins": [weft.Pin(indices=(0, 1))]}, "pins of the cloth 'cloth' name vertices by their numbers"),
        ({"painted": {"bend": [1.0] * 16}}, "painted of the cloth 'cloth' name vertices"),
        ({"creases": [weft.Crease(edges=[(0, 1)])]}, "creases of the cloth 'cloth' name vertices"),
        ({"shape": weft.Sphere(radius=0.1)}, "the cloth 'cloth' is a sphere: cells of another length"),
    ],
)
def test_cloth_that_cannot_be_divided_is_refused(tmp_path, cloth, message):
    shape = {"shape": weft.Grid(size=(0.5, 0.5), cells=(3, 3)), **cloth}
    with pytest.raises(WeftError, match=message):
        compare(scene(cloths=[weft.Cloth(**shape)]), ["plain"], tmp_path, resolutions=[0.1])


@pytest.mark.parametrize("length", [0.0, -0.1, float("nan"), float("inf")])
def test_cells_have_a_length(tmp_path, length):
    with pytest.raises(WeftError, match="lengths of cells in m"):
        compare(scene(), ["plain"], tmp_path, resolutions=[length])


def test_unknown_methods_and_caches_in_the_way_are_refused(tmp_path):
    with pytest.raises(WeftError, match="bocks"):
        compare(scene(), ["bocks"], tmp_path)
    compare(scene(frames=1), ["plain"], tmp_path, size=(64, 48))
    with pytest.raises(WeftError, match=r"plain\.zarr"):
        compare(scene(frames=1), ["plain"], tmp_path, size=(64, 48))
    assert compare(scene(frames=2), ["plain"], tmp_path, size=(64, 48), overwrite=True).rows[0].frames == 2


def test_the_command_prints_a_table_and_names_its_files(tmp_path):
    path = tmp_path / "small.toml"
    save_scene(scene(), path)
    arguments = ["compare", str(path), "--methods", "plain, boxes", "-o", str(tmp_path / "o"), "--frames", "2"]
    done = CliRunner().invoke(app, [*arguments, "--size", "64x48"])
    assert done.exit_code == 0, done.output
    assert "plain" in done.output and "boxes" in done.output
    # long paths are wrapped
    assert "compare.csv" in done.output.replace("\n", "")
    assert (tmp_path / "o" / "compare.png").exists()
    wrong = CliRunner().invoke(app, [*arguments, "--methods", "bocks"])
    assert wrong.exit_code == 1
    divided = [
        "compare",
        str(path),
        "--methods",
        "plain",
        "-o",
        str(tmp_path / "r"),
        "--frames",
        "1",
        "--size",
        "64x48",
    ]
    done = CliRunner().invoke(app, [*divided, "--resolutions", "0.25, 0.1"])
    assert done.exit_code == 0, done.output
    assert "plain-250mm" in done.output and "plain-100mm" in done.output and "outline" in done.output
    wrong = CliRunner().invoke(app, [*divided, "--resolutions", "fine"])
    assert wrong.exit_code == 2 and "list of lengths" in wrong.output


def test_a_comparison_that_was_stopped_goes_on(tmp_path):
    def stop(method, frame, total):
        if (method, frame) == ("boxes", 2):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"stopped after frame 2 of 5; .*boxes\.zarr"):
        compare(scene(), ["plain", "boxes"], tmp_path / "part", size=(64, 48), progress=stop)
    computed = []
    result = compare(
        scene(),
        ["plain", "boxes"],
        tmp_path / "part",
        size=(64, 48),
        resume=True,
        progress=lambda method, frame, total: computed.append((method, frame)),
    )
    assert computed == [("boxes", 3), ("boxes", 4), ("boxes", 5)] and [row.frames for row in result.rows] == [5, 5]
    compare(scene(), ["boxes"], tmp_path / "whole", size=(64, 48))
    ends = [weft.open_cache(tmp_path / out / "boxes.zarr").positions(5).tobytes() for out in ("part", "whole")]
    assert ends[0] == ends[1]


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WeftError, match=r"cannot write .*out"):
        compare(scene(), ["plain"], tmp_path / "file" / "out")
