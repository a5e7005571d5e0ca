"""Traced pictures: something is there, from both sides, blurred on demand, and mistakes are sentences."""

import builtins
from importlib.util import find_spec

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner
from view_caches import MemoryCache, join, waving, write_cache

from weft.cli.main import app
from weft.errors import WeftError
from weft.mesh import shapes
from weft.view import render_beauty_film, render_beauty_still
from weft.view.beauty import Studio, cove, develop
from weft.view.camera import View

needs_mitsuba = pytest.mark.skipif(find_spec("mitsuba") is None, reason="mitsuba is not installed")
SIZE = (48, 36)


def standing_sheet(speed=0.0):
    """A sheet that stands upright and faces the z axis, perhaps moving sideways."""
    sheet = shapes.grid((1.0, 1.0), (4, 4))
    bodies, faces, x, uv = join([("sheet", "cloth", sheet)])
    x = x[:, [0, 2, 1]] * (1.0, -1.0, 1.0)
    step = np.array([speed, 0.0, 0.0])
    return MemoryCache(bodies, faces, [x, x + step], uv=uv, fps=10.0)


def traced(cache, frame=0, **options):
    settings = {"size": SIZE, "camera": None, "samples": 4, "motion_blur": False, **options}
    with Studio(cache, **settings) as studio:
        return studio.draw(frame).astype(float)


@needs_mitsuba
def test_a_still_shows_cloth_on_pale_ground(tmp_path):
    path = render_beauty_still(waving(cells=6, ground=True), -1, tmp_path / "a.png", size=SIZE, samples=8)
    picture = np.asarray(Image.open(path), dtype=float)
    assert picture.shape == (36, 48, 3)
    # the palette's first cloth is blue; the ground is nearly grey
    blue = picture[:, :, 2] - picture[:, :, 0] > 40.0
    assert 0.05 < blue.mean() < 0.8
    assert np.abs(picture[-3:, :3].mean(axis=(0, 1)) - picture[-3:, :3].mean()).max() < 20.0


@needs_mitsuba
def test_the_same_frame_is_the_same_picture():
    cache = waving(cells=3)
    np.testing.assert_array_equal(traced(cache, 1), traced(cache, 1))


@needs_mitsuba
def test_the_reverse_has_a_colour_of_its_own():
    cache = standing_sheet()
    centre = [
        traced(cache, camera=View(np.array([0.0, 0.0, z]), np.zeros(3)), samples=32)[14:22, 20:28].mean(axis=(0, 1))
        for z in (3.0, -3.0)
    ]
    assert np.abs(centre[0] - centre[1]).max() > 10.0


@needs_mitsuba
def test_what_moves_is_blurred():
    """The edge of a sheet that moves sideways is spread over the way that it goes while the shutter is open."""
    view = View(np.array([0.0, 0.0, 4.0]), np.zeros(3))
    cache = standing_sheet(speed=0.6)
    sharp, soft = (
        traced(cache, camera=view, samples=64, motion_blur=blur)[16:20].mean(axis=0) for blur in (False, True)
    )
    steps = [np.abs(np.diff(line[:, 0])).max() for line in (sharp, soft)]
    assert steps[1] < 0.7 * steps[0]
    # what lies still is not
    still = standing_sheet()
    sharp, soft = (
        traced(still, camera=view, samples=64, motion_blur=blur)[16:20].mean(axis=0) for blur in (False, True)
    )
    assert np.abs(np.diff(soft[:, 0])).max() > 0.8 * np.abs(np.diff(sharp[:, 0])).max()


@needs_mitsuba
def test_a_film(tmp_path):
    seen = []
    path = render_beauty_film(
        waving(cells=3),
        tmp_path / "a.mp4",
        frames=[0, 2],
        size=(33, 25),
        samples=1,
        progress=lambda *at: seen.append(at),
    )
    assert path.stat().st_size > 500 and seen == [(1, 2), (2, 2)]
    assert [p.name for p in tmp_path.iterdir()] == ["a.mp4"]


@needs_mitsuba
def test_the_commands(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_cache(tmp_path / "run.zarr", waving(cells=3))
    run = CliRunner()
    done = run.invoke(app, ["render", "run.zarr", "-o", "a.png", "--beauty", "--samples", "1", "--size", "32x24"])
    assert (done.exit_code, done.output.strip()) == (0, "a.png: frame 3")
    options = ["--beauty", "--samples", "1", "--size", "32x24", "--frames", ":2", "--motion-blur"]
    assert run.invoke(app, ["render", "run.zarr", "-o", "a.mp4", *options]).exit_code == 0
    for words, message in (
        (["--beauty", "--wireframe"], "leave out --draft"),
        (["--samples", "3"], "are for --beauty"),
        (["--motion-blur"], "are for --beauty"),
    ):
        done = run.invoke(app, ["render", "run.zarr", "-o", "b.png", *words])
        assert done.exit_code == 1 and message in done.output and done.output.count("\n") == 1


def test_mistakes_are_sentences(tmp_path, monkeypatch):
    cache = waving(cells=3)
    with pytest.raises(WeftError, match="a still ends in"):
        render_beauty_still(cache, 0, tmp_path / "a.gif")
    with pytest.raises(WeftError, match="frame 9 is not there"):
        render_beauty_still(cache, 9, tmp_path / "a.png")
    with pytest.raises(WeftError, match="samples must be 1 to 65536 a pixel, not 0"):
        render_beauty_still(cache, 0, tmp_path / "a.png", samples=0)
    with pytest.raises(WeftError, match=r"ends in \.mp4"):
        render_beauty_film(cache, tmp_path / "a.avi")
    real = builtins.__import__

    def blocked(name, *more, **options):
        if name == "mitsuba":
            raise ImportError(name)
        return real(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(WeftError, match=r"pip install 'weft-cloth\[beauty\]'"):
        render_beauty_still(cache, 0, tmp_path / "a.png")
    assert list(tmp_path.iterdir()) == []


def test_light_is_held_back_softly():
    light = np.linspace(0.0, 20.0, 400)
    shown = develop(light)
    assert (np.diff(shown) > 0.0).all() and shown[0] == 0.0 and shown[-1] < 1.0


def test_the_ground_has_no_corner():
    """Normals turn little from one strip to the next, and the floor under the subject is flat."""
    points, normals, faces = cove(np.array([0.3, 1.0, 0.2]), np.array([0.0, 0.0, -1.0]), 0.1, 2.0)
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-12)
    a, b, c = points[faces].transpose(1, 0, 2)
    flat = np.cross(b - a, c - a)
    flat /= np.linalg.norm(flat, axis=1, keepdims=True)
    assert ((flat * normals[faces[:, 0]]).sum(axis=1) > 0.99).all()
    assert points[:, 1].min() == pytest.approx(0.1)
    np.testing.assert_allclose(points[:4, 1], 0.1)


@needs_mitsuba
def test_the_ground_is_below_what_is_not_in_the_picture_too():
    """A tall body with a small piece of cloth around its top stands on the ground, not in it."""
    parts = [("scarf", "cloth", shapes.grid((0.2, 0.2), (2, 2))), ("pole", "collider", shapes.box((0.1, 2.0, 0.1)))]
    bodies, faces, x, uv = join(parts)
    x[bodies[0].vertices, 1] += 0.8
    cache = MemoryCache(bodies, faces, [x], uv=uv)
    with Studio(cache, size=SIZE, camera=None, samples=1, motion_blur=False) as studio:
        assert -1.1 < studio._floor <= -1.0
