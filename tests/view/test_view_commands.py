"""The commands render, plot, view and export: thin, and mistakes are one line."""

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner
from view_caches import waving, write_cache

from weft.cli.main import app
from weft.cli.terminal import choose_size
from weft.errors import WeftError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_cache(tmp_path / "run.zarr", waving(cells=4, frames=5))
    return tmp_path


def call(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    return result.exit_code, result.output.strip()


def refused(*words):
    code, output = call(*words)
    assert code == 1
    assert output.startswith("weft: ")
    assert "\n" not in output
    return output


def test_render_a_still(folder):
    code, output = call("render", "run.zarr", "-o", "a.png", "--frame", "-2", "--size", "64x48", "--draft")
    assert (code, output) == (0, "a.png: frame 3")
    assert Image.open(folder / "a.png").size == (64, 48)


def test_crossings_are_red_where_they_are_asked_for(folder):
    memory = waving(cells=6, frames=2)
    # the block goes through the sheet in frame 1
    memory.xs[1][memory.bodies[1].vertices] += [0.0, 0.35, 0.0]
    write_cache(folder / "c.zarr", memory)
    red = []
    for option in ((), ("--crossings",)):
        code, _ = call("render", "c.zarr", "-o", "c.png", "--frame", "1", "--size", "160x120", "--draft", *option)
        assert code == 0
        pixels = np.asarray(Image.open(folder / "c.png").convert("RGB")).astype(int)
        red.append(int((pixels[:, :, 0] > pixels[:, :, 1:].sum(axis=2) + 60).sum()))
    assert red[0] == 0 and red[1] > 20


def test_render_a_film_under_the_name_of_the_cache(folder):
    code, output = call("render", "run.zarr", "--frames", "1:4", "--size", "64x48", "--draft", "--fps", "3")
    assert code == 0
    assert output.endswith("run.mp4: 3 frames, 1.0 s")
    assert (folder / "run.mp4").stat().st_size > 500


def test_plot_under_the_name_of_the_cache(folder):
    assert call("plot", "run.zarr") == (0, "run-report.png")
    assert Image.open(folder / "run-report.png").format == "PNG"


def test_export(folder):
    code, output = call("export", "run.zarr", "-o", "sheet", "--frames", "2:", "--body", "sheet", "--format", "ply")
    assert code == 0
    assert output.endswith("sheet: 3 files, sheet_0002.ply to sheet_0004.ply")
    assert len(list((folder / "sheet").iterdir())) == 3


def test_mistakes_are_one_line(folder):
    assert "nothing.zarr does not exist" in refused("render", "nothing.zarr")
    assert "must end in .mp4, .webp, .gif for a film" in refused("render", "run.zarr", "-o", "a.avi")
    assert "--size large: write width and height" in refused("render", "run.zarr", "--size", "large")
    assert "--colour heat: use one of" in refused("render", "run.zarr", "--colour", "heat")
    assert "--fps 0: must be more than 0" in refused("render", "run.zarr", "--fps", "0")
    assert "a.png is a still" in refused("render", "run.zarr", "-o", "a.png", "--frames", "1:2")
    assert "run.mp4 is a film" in refused("render", "run.zarr", "--frame", "1")
    assert "frame 9 is not there" in refused("render", "run.zarr", "-o", "a.png", "--frame", "9")
    assert "a plot ends in" in refused("plot", "run.zarr", "-o", "a.txt")
    assert "no body 'hat': the cache has sheet, block" in refused("export", "run.zarr", "--body", "hat")
    assert "format 'fbx' is not known" in refused("export", "run.zarr", "--format", "fbx")
    assert "does not exist" in refused("view", "nothing.zarr")
    assert sorted(p.name for p in folder.iterdir()) == ["run.zarr"]


@pytest.mark.parametrize("text", ["", "640", "640x", "x480", "0x10", "10x99999", "1e3x10", "-64x48"])
def test_bad_sizes(text):
    with pytest.raises(WeftError, match="--size"):
        choose_size(text)


def test_size():
    assert choose_size("1280x960") == (1280, 960)
