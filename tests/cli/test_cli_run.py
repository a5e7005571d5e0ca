"""`weft new`, `weft run` and `weft info`, one after the other as a user calls them."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft.cache import layout
from weft.cli.main import app
from weft.cli.terminal import count, size_of
from weft.run.progress import span
from weft.scene import parse_scene

SCENE = """
name = "sheet"
frames = 3
[[cloth]]
name = "sheet"
shape = {kind = "grid", size = [1.0, 1.0], cells = [4, 4]}
pins = [{boundary = "corners"}]
[[collider]]
name = "ball"
shape = {kind = "sphere", radius = 0.2, subdivisions = 1}
placement = {position = [0.0, -0.5, 0.0]}
"""


def call(*arguments: object, code: int = 0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def scene(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("sheet.toml").write_text(SCENE)
    return Path("sheet.toml")


def test_a_tangled_start_is_told_of_at_once(scene):
    scene.write_text(SCENE.replace("-0.5", "0.0"))
    result = call("run", scene, "--method", "plain", "--frames", 1)
    found = weft.open_cache("sheet.zarr").report["intersections"][0]
    assert f"sheet: the scene starts with {found} intersections: robust" in result.stderr
    assert "starts with" not in call("run", scene, "--method", "plain", "--frames", 2, "--resume").stderr


def test_a_start_on_something_is_told_of(scene):
    scene.write_text(SCENE.replace('pins = [{boundary = "corners"}]', "").replace("-0.5", "-0.2"))
    result = call("run", scene, "--method", "robust", "--frames", 1)
    assert "1 vertex of cloth touches something at the start" in result.output
    assert "no intersections" in result.output


def test_run(scene):
    result = call("run", scene)
    assert result.stdout.splitlines()[0].startswith("sheet.zarr: 4 frames, 4 computed now in ")
    assert "no intersections (4 frames checked)" in result.stdout
    cache = weft.open_cache("sheet.zarr")
    assert cache.complete and cache.frames == 4
    assert cache.positions(3)[cache.bodies[0].vertices, 1].min() < -1e-4, "nothing has fallen"
    # pinned corners and the still collider stay
    assert np.array_equal(cache.positions(3)[0], cache.positions(0)[0])
    ball = cache.bodies[1].vertices
    assert np.array_equal(cache.positions(3)[ball], cache.positions(0)[ball])


def test_run_again(scene):
    call("run", scene, "-q", "-o", "a.zarr")
    result = call("run", scene, "-o", "a.zarr", code=1)
    assert result.stderr.startswith("weft: a.zarr exists already, with 4 of 4 frames")
    assert call("run", scene, "-o", "a.zarr", "--resume", "--frames", 5, "-q").output == ""
    assert weft.open_cache("a.zarr").frames == 6
    call("run", scene, "-o", "a.zarr", "--overwrite", "-q")
    assert weft.open_cache("a.zarr").frames == 4
    scene.write_text(SCENE.replace("radius = 0.2", "radius = 0.3"))
    result = call("run", scene, "-o", "a.zarr", "--resume", code=1)
    assert "colliders[0].shape.radius was 0.2, is 0.3" in result.stderr


def test_real_run_resumed_is_the_same(scene):
    call("run", scene, "-o", "a.zarr", "-q")
    call("run", scene, "-o", "b.zarr", "-q", "--frames", 1)
    call("run", scene, "-o", "b.zarr", "-q", "--resume", "--threads", 1)
    a, b = weft.open_cache("a.zarr"), weft.open_cache("b.zarr")
    for frame in range(4):
        assert a.positions(frame).tobytes() == b.positions(frame).tobytes()
        assert a.velocities(frame).tobytes() == b.velocities(frame).tobytes()
    assert np.array_equal(a.uv, b.uv, equal_nan=True) and not np.isnan(a.uv[a.bodies[0].vertices]).any()


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_killed_run_resumed_is_the_same(scene):
    # the real thing from end to end; tests/run kills a smaller one before each of its file operations
    frames = ["--frames", "40", "-q"]
    call("run", scene, "-o", "whole.zarr", *frames)
    command = [sys.executable, "-m", "weft", "run", str(scene), "-o", "part.zarr", *frames]
    with subprocess.Popen(command) as process:
        while not layout.marker_path(Path("part.zarr"), 5).exists():
            assert process.poll() is None
            time.sleep(0.001)
        process.kill()
    part = weft.open_cache("part.zarr")
    assert part.frames >= 6 and part.verify() == []
    call("run", scene, "-o", "part.zarr", "--resume", *frames)
    whole = weft.open_cache("whole.zarr")
    assert part.frames == whole.frames == 41
    for frame in range(41):
        assert part.positions(frame).tobytes() == whole.positions(frame).tobytes()
        assert part.velocities(frame).tobytes() == whole.velocities(frame).tobytes()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "plian"], "did you mean 'plain'"),
        (["--device", "gpu"], "must be 'cpu', 'cuda'"),
        (["--frames", "0"], "frames: must be at least 1"),
        (["--resume", "--overwrite"], "choose one of them"),
    ],
)
def test_bad_options(scene, options, said):
    assert said in call("run", scene, *options, code=1).stderr
    assert not Path("sheet.zarr").exists()


@pytest.mark.parametrize("folder", [".", "..", "/"])
def test_a_folder_is_no_scene(scene, folder):
    assert f"weft: {folder}: cannot be read" in call("run", folder, code=1).stderr


def test_new_scene_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("new", "deep/my scene.toml")
    assert "weft run 'deep/my scene.toml'" in result.stdout
    scene = weft.load_scene("deep/my scene.toml")
    assert scene.name == "my scene" and scene.cloths[0].name == "curtain" and scene.cloths[0].pins
    call("run", "deep/my scene.toml", "--frames", 2, "-q")
    assert weft.open_cache("my scene.zarr").frames == 3


def test_new_scene_stays_true_when_uncommented(tmp_path):
    # everything that is commented out is a possibility and must hold: tables as a whole, keys one by one
    path = tmp_path / "a.toml"
    call("new", path)
    paragraphs = path.read_text().split("\n\n")
    tried = set()
    for p, paragraph in enumerate(paragraphs):
        lines = paragraph.splitlines()
        option = re.compile(r"# (\[+[\w.]+\]+|\w+ = )")
        if any(line.startswith("# [") for line in lines):
            tables = ["\n".join(line[2:] if option.match(line) else line for line in lines)]
            tried.update(line.split()[1] for line in lines if option.match(line))
        else:
            tables = []
            for line in lines:
                if option.match(line):
                    key = line.split()[1]
                    # it stands instead of what the table says already
                    instead = f"{'shape' if key == 'mesh' else key} = "
                    tables.append("\n".join(k[2:] if k is line else k for k in lines if not k.startswith(instead)))
                    tried.add(key)
        for table in tables:
            parse_scene("\n\n".join([*paragraphs[:p], table, *paragraphs[p + 1 :]]))
    expected = {"method", "device", "thickness", "mesh", "material", "pins", "colour", "[[collider]]", "motion"}
    assert expected | {"air_damping", "[camera]", "target"} <= tried


def test_new_refuses(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text("mine")
    assert "exists already" in call("new", path, code=1).stderr
    assert path.read_text() == "mine"
    call("new", path, "--overwrite")
    assert weft.load_scene(path).name == "a"
    assert "ends in .toml" in call("new", tmp_path / "a.txt", code=1).stderr
    (tmp_path / "file").write_text("")
    assert "cannot write" in call("new", tmp_path / "file" / "b.toml", code=1).stderr


def test_new_with_an_odd_name(tmp_path):
    path = tmp_path / 'say "hi" \\.toml'
    call("new", path)
    assert weft.load_scene(path).name == "say hi"


def test_info_of_a_cache(scene):
    call("run", scene, "-q")
    out = call("info", "sheet.zarr").stdout
    assert "frames   4 of 4: 0.05 s at 60 frames/s" in out.replace("frames    ", "frames   ")
    for part in ("complete", "sheet: 25 vertices, 32 triangles", "ball: 42 vertices, 80 triangles", "guarded on cpu"):
        assert part in out
    out = call("info", "sheet.zarr", "--verify", "--csv", "r.csv").stdout
    assert "all 4 frames can be read" in out
    assert Path("r.csv").read_text().splitlines()[0].startswith("frame,time,wall_time,steps,contacts")


def test_info_of_a_stopped_and_of_a_damaged_cache(scene):
    call("run", scene, "-q")
    root = Path("sheet.zarr")
    layout.marker_path(root, 3).unlink()
    assert "3 of 4" in (out := call("info", root).stdout) and "--resume" in out
    layout.marker_path(root, 0).unlink()
    assert "nothing yet" in call("info", root).stdout
    call("run", scene, "--overwrite", "-q")
    chunk = layout.chunk_path(root, "positions", 2)
    chunk.write_bytes(chunk.read_bytes()[:-1])
    result = call("info", root, "--verify", code=1)
    assert "frame 2 of sheet.zarr is damaged" in result.stderr


def test_info_of_a_scene(scene):
    out = call("info", scene).stdout
    for part in (
        "sheet, a grid: 25 vertices, 32 triangles, cotton, 0.15 kg, 4 pinned",
        "ball, a sphere",
        "weft run sheet",
    ):
        assert part in out
    scene.write_text(SCENE.replace("frames", "framse"))
    assert "did you mean 'frames'" in call("info", scene, code=1).stderr


def test_info_of_a_mesh(tmp_path):
    from weft.mesh import save_mesh, shapes

    save_mesh(shapes.grid((2.0, 1.0), (4, 2)), tmp_path / "grid.obj")
    out = call("info", tmp_path / "grid.obj").stdout
    for part in ("15 vertices, 16 triangles, 30 edges", "(2, 0, 1) m", "1, with 1 boundary loop", "2 m^2"):
        assert part in out
    save_mesh(shapes.icosphere(1.0, subdivisions=1), tmp_path / "ball.ply")
    assert "1, closed" in call("info", tmp_path / "ball.ply").stdout


def test_info_refuses(tmp_path):
    assert "does not exist" in call("info", tmp_path / "none", code=1).stderr
    assert "is not a weft cache" in call("info", tmp_path, code=1).stderr
    (tmp_path / "a.toml").write_text(SCENE)
    assert "are for caches" in call("info", tmp_path / "a.toml", "--verify", code=1).stderr


def test_short_texts(tmp_path):
    assert [span(s) for s in (0.0042, 0.42, 4.2, 42, 59.97, 125, 7850)] == [
        "4.2 ms", "420 ms", "4.20 s", "42.0 s", "1 min 00 s", "2 min 05 s", "2 h 10 min",
    ]  # fmt: skip
    assert count(1, "vertex", "vertices") == "1 vertex" and count(12345, "triangle") == "12,345 triangles"
    (tmp_path / "a").write_bytes(bytes(1500))
    (tmp_path / "b").write_bytes(bytes(15_000_000))
    assert size_of(tmp_path / "a") == "1.5 kB" and size_of(tmp_path) == "15 MB"


def test_a_cache_that_is_given_to_run_is_explained(scene):
    call("run", scene, "--quiet")
    said = call("run", "sheet.zarr", code=1).output
    assert "sheet.zarr is a cache, the result of a run" in said and "weft view sheet.zarr" in said
