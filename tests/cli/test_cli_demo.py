"""`weft demo` ends with its files, and says in a line which ones it could not make."""

import os
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import weft
import weft.view
from weft.cli.main import app
from weft.errors import missing_extra


def call(*arguments: object, code: int = 0):
    result = CliRunner().invoke(app, ["demo", "--frames", "2", *(str(a) for a in arguments)])
    assert result.exit_code == code, result.output
    return result


def draw(cache, path: Path, *, frames, fps, size, progress) -> Path:
    progress(1, len(frames))
    assert list(frames) == [0, 2] and fps == 30
    path.write_text("film")
    return path


def draw_still(cache, frame: int, path: Path, *, size) -> Path:
    path.write_text("still")
    return path


@pytest.fixture
def painted(monkeypatch):
    """Pictures are tested where they are drawn."""
    monkeypatch.setattr(weft.view, "render_film", draw, raising=False)
    monkeypatch.setattr(weft.view, "render_still", draw_still, raising=False)


def test_demo(tmp_path, painted):
    result = call("--out", tmp_path / "out")
    assert {p.name for p in (tmp_path / "out").iterdir()} == {"flag.toml", "flag.zarr", "flag.png", "flag.mp4"}
    lines = result.stdout.splitlines()
    start = lines.index("written:")
    assert [line.split()[0] for line in lines[start + 1 : start + 5]] == [
        str(tmp_path / "out" / name) for name in ("flag.toml", "flag.zarr", "flag.png", "flag.mp4")
    ]
    assert lines[-1] == f"  weft view {tmp_path / 'out' / 'flag.zarr'}"
    cache = weft.open_cache(tmp_path / "out/flag.zarr")
    assert cache.frames == 3 and [b.name for b in cache.bodies] == ["flag", "pole"]
    assert cache.report["intersections"][0] == 0
    # a second time replaces its own
    call("--out", tmp_path / "out")


@pytest.mark.skipif(os.name == "nt", reason="programs end in .exe there")
def test_the_last_line_can_be_pasted(tmp_path, painted, monkeypatch):
    # as after `make demo`, where nobody has activated the environment
    program = tmp_path / ".venv/bin/weft"
    program.parent.mkdir(parents=True)
    program.write_text("")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [".venv/bin/weft", "demo"])
    assert call("--out", "out").stdout.splitlines()[-1] == "  .venv/bin/weft view out/flag.zarr"
    # and where it is activated
    monkeypatch.setenv("PATH", str(program.parent))
    assert call("--out", "out").stdout.splitlines()[-1] == "  weft view out/flag.zarr"


def test_demo_without_extras(tmp_path, painted, monkeypatch):
    def no_film(*arguments: object, **options: object) -> None:
        raise missing_extra("render", "pyvista")

    monkeypatch.setattr(weft.view, "render_film", no_film)
    monkeypatch.setattr(weft.view, "render_still", no_film)
    result = call("--out", tmp_path)
    assert (
        "weft: no film: this needs the package pyvista: install it with  pip install 'weft-cloth[render]'\n"
        in result.stderr
    )
    assert "weft: no picture: " in result.stderr
    assert "flag.zarr" in result.stdout and "flag.mp4" not in result.stdout


def test_demo_does_not_replace_what_is_not_its_own(tmp_path, painted):
    cloth = weft.Cloth(shape=weft.Grid(cells=(2, 2)))
    weft.simulate(weft.Scene(name="mine", frames=1, cloths=[cloth]), tmp_path / "flag.zarr", progress=False)
    assert "exists already" in call("--out", tmp_path, code=1).stderr
    assert weft.open_cache(tmp_path / "flag.zarr").scene.name == "mine"


def test_demo_in_a_place_that_cannot_be(tmp_path):
    (tmp_path / "file").write_text("")
    assert "cannot write" in call("--out", tmp_path / "file" / "out", code=1).stderr
