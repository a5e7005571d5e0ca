"""What users are told about mistakes in Python and at the command line: one line, with what to do."""

import pydoc

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft.cli.main import app
from weft.errors import SceneError

CLOTH = weft.Cloth(shape=weft.Grid(cells=(2, 2)), pins=weft.Pin(boundary="all"))


def test_what_is_no_scene_is_refused_in_one_line(tmp_path):
    for start in (
        lambda scene: weft.simulate(scene, tmp_path / "a.zarr", progress=False),
        lambda scene: weft.Simulation(scene),
        lambda scene: weft.Realtime(scene),
    ):
        with pytest.raises(SceneError, match=r"not a dict: make a scene of it with weft\.Scene\(\*\*table\)"):
            start({"frames": 3})
        with pytest.raises(SceneError, match=r"a scene is a weft\.Scene or the name of a TOML file, not a int"):
            start(3)


def test_scenes_say_how_to_change_them():
    scene = weft.Scene(cloths=CLOTH)
    with pytest.raises(
        SceneError, match=r"^Scene: frames: a Scene cannot be changed; scene\.replace\(frames=3\) makes"
    ):
        scene.frames = 3
    with pytest.raises(SceneError, match=r"Scene: framez: unknown key, did you mean 'frames'\?"):
        scene.framez = 3
    assert scene.replace(frames=3).frames == 3


def test_values_without_a_name_are_refused_in_one_line():
    with pytest.raises(
        SceneError, match=r"^Sphere: values are given by name, as in Sphere\(radius=\.\.\.\); known are"
    ):
        weft.Sphere(0.2)
    with pytest.raises(SceneError, match=r"^Still: values are given by name"):
        weft.Still(1)


def test_what_python_shows_is_short():
    pin = weft.Pin(indices=[0, 1])
    assert repr(pin) == str(pin) == "Pin(indices=(0, 1))"
    # of a material all numbers are of interest
    assert "density=0.08" in repr(weft.MATERIALS["silk"]) and "stretch=500.0" in repr(weft.Material())
    told = pydoc.plain(pydoc.render_doc(weft.Cloth))
    assert "pins: vertices that are held" in told and "model_fields" not in told
    told = pydoc.plain(pydoc.render_doc(weft.Simulation))
    assert "Simulation(scene: 'Any', *, device: 'str | None' = None, worlds" in told and "_Buffer" not in told
    assert "_Buffer" not in pydoc.plain(pydoc.render_doc(weft.Realtime))


def test_one_body_needs_no_list():
    scene = weft.Scene(cloths=CLOTH, colliders=weft.Collider(shape=weft.Plane()))
    assert [body.name for body in (*scene.cloths, *scene.colliders)] == ["cloth", "collider"]


def test_a_cache_that_is_there_names_the_options(tmp_path):
    scene = weft.Scene(cloths=CLOTH, frames=2, method="plain", check=1)
    cache = weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    with pytest.raises(
        weft.WeftError, match=r"3 of 3 frames: continue it with --resume, replace it with --overwrite \("
    ):
        weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    # the verdict has the stretch of 99 of 100 edges, which held cloth does not have
    assert cache.report["stretch_99"][0] == 0.0
    assert cache.report["stretch_99"].max() < 1e-3


def test_the_99th_percentile_is_that_of_the_edges(tmp_path):
    grid = weft.mesh.shapes.grid((1.0, 1.0), (10, 10))
    moved = grid.vertices.copy()
    moved[[15, 38, 65], 1] += (0.4, 0.2, 0.1)
    mesh = weft.TriMesh(moved, grid.faces, grid.uv)
    scene = weft.Scene(cloths=weft.Cloth(mesh=mesh, rest="uv"), frames=1, method="plain", check=0)
    cache = weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    edges, rest = mesh.edges, mesh.rest_lengths
    lengths = np.linalg.norm(moved[edges[:, 1]] - moved[edges[:, 0]], axis=1)
    # between the two edges on both sides of 99 in 100
    ordered = np.sort(lengths / rest) - 1.0
    place = 0.99 * (len(ordered) - 1)
    assert ordered[int(place)] <= cache.report["stretch_99"][0] <= ordered[int(place) + 1]
    assert 0.0 < cache.report["stretch_99"][0] < cache.report["stretch"][0]


def test_frames_mean_the_same_in_every_command(tmp_path):
    scene = weft.Scene(cloths=CLOTH, frames=5, method="plain", check=0)
    weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    run = CliRunner().invoke
    said = run(app, ["export", str(tmp_path / "a.zarr"), "-o", str(tmp_path / "objs"), "--frames", "1:3"])
    assert said.exit_code == 0, said.output
    assert sorted(path.name for path in (tmp_path / "objs").iterdir()) == ["objs_0001.obj", "objs_0002.obj"]
    said = run(app, ["check", str(tmp_path / "a.zarr"), "--frames", "1:3", "--json"])
    assert [frame["frame"] for frame in __import__("json").loads(said.stdout)["frames"]] == [1, 2]
    for command in ("export", "check", "render", "subdivide"):
        text = " ".join(run(app, [command, "--help"], env={"COLUMNS": "200"}).output.replace("│", " ").split())
        assert "the end is not included: 10:20 is 10 to 19" in text, command
    said = run(app, ["check", str(tmp_path / "a.zarr"), "--frames", "1:2", "--frame", "1"])
    assert said.exit_code == 1


def test_exports_to_places_that_cannot_be_written_say_so(tmp_path):
    scene = weft.Scene(cloths=CLOTH, frames=1, method="plain", check=0)
    cache = weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    for place in ("a.usda", "a.glb", "a.npz", "a.abc"):
        pytest.importorskip({"a.usda": "pxr", "a.abc": "alembic3d"}.get(place, "numpy"))
        with pytest.raises(weft.WeftError, match=rf"^cannot write /proc/{place}: "):
            weft.export(cache, f"/proc/{place}")
    with pytest.raises(weft.WeftError, match=r"^cannot write /proc/objs: "):
        weft.export(cache, "/proc/objs", format="obj")


def test_a_disk_without_room_is_said_before_alembic_begins(tmp_path, monkeypatch):
    pytest.importorskip("alembic3d")
    import shutil

    scene = weft.Scene(cloths=CLOTH, frames=1, method="plain", check=0)
    cache = weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 90, 10))
    with pytest.raises(weft.WeftError, match=r"a\.abc: it takes about 0\.1\d* MB, and the disk has 1e-05 MB left"):
        weft.export(cache, tmp_path / "a.abc")


def test_usd_reports_a_full_disk_in_one_line(tmp_path, monkeypatch):
    pytest.importorskip("pxr")
    from pxr import Tf

    from weft.exchange import usd

    scene = weft.Scene(cloths=CLOTH, frames=1, method="plain", check=0)
    cache = weft.simulate(scene, tmp_path / "a.zarr", progress=False)

    class Full(Tf.ErrorException):
        def __str__(self):
            return "\n\tError in 'x::Write' at line 78 in file a.cpp : 'Error occurred writing file: No space left on device'"

    def full(stage, selection):
        raise Full

    monkeypatch.setattr(usd, "_describe", full)
    with pytest.raises(weft.WeftError, match=r"^cannot write .*a\.usda: No space left on device$"):
        weft.export(cache, tmp_path / "a.usda")
    assert [path.name for path in tmp_path.iterdir()] == ["a.zarr"]


def test_warmup_compiles_what_a_run_needs(capsys):
    from weft.run.warmup import warm_up

    told = []
    warm_up(["plain"], "cpu", lambda name, seconds: told.append(name))
    told.clear()
    warm_up(["plain"], "cpu", lambda name, seconds: told.append(name))
    assert told == []
    said = CliRunner().invoke(app, ["warmup", "--method", "plain"])
    assert said.output.splitlines()[-1] == "all was compiled already: plain on cpu"
    with pytest.raises(weft.WeftError, match=r"no method is called 'plane', did you mean 'plain'\?"):
        warm_up(["plane"], "cpu", lambda name, seconds: None)
