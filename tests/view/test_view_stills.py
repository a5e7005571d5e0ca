"""Stills: the cloth is in the picture, lit and two-sided, and mistakes are one sentence."""

import sys

import numpy as np
import pytest
from PIL import Image
from view_caches import MemoryCache, waving

from weft.errors import MissingExtraError, WeftError
from weft.exchange import export
from weft.mesh import save_mesh, shapes
from weft.view import render_film, render_still, save_page
from weft.view.camera import View

SIZE = (160, 120)


def draw(cache, tmp_path, frame=0, **options):
    path = render_still(cache, frame, tmp_path / "still.png", size=SIZE, **{"draft": True, **options})
    return np.asarray(Image.open(path).convert("RGB")).astype(int)


def bluish(picture):
    return picture[..., 2] > picture[..., 0] + 40


def reddish(picture):
    return (picture[..., 0] > 180) & (picture[..., 1] < 80) & (picture[..., 2] < 80)


@pytest.mark.parametrize("draft", [True, False])
def test_the_cloth_is_in_the_picture_and_not_cut_off(tmp_path, draft):
    picture = draw(waving(), tmp_path, draft=draft)
    assert picture.shape == (120, 160, 3)
    cloth = bluish(picture)
    assert 0.05 < cloth.mean() < 0.8
    rows, columns = np.nonzero(cloth)
    assert rows.min() > 2
    assert rows.max() < 117
    assert columns.min() > 2
    assert columns.max() < 157
    # shaded: the same cloth has many brightnesses
    assert len(np.unique(picture[cloth].sum(axis=1))) > 20


def test_another_frame_is_another_picture_and_the_same_frame_the_same(tmp_path):
    cache = waving()
    first, again, other = (draw(cache, tmp_path, frame, draft=False) for frame in (0, 0, -1))
    np.testing.assert_array_equal(first, again)
    assert (np.abs(first - other).sum(axis=2) > 30).mean() > 0.02


def test_the_two_sides_have_two_shades(tmp_path):
    cache = waving(cells=6, frames=1)
    sheet = cache.bodies[0]
    alone = MemoryCache([sheet], cache.faces[sheet.faces], [cache.xs[0][sheet.vertices] * [1.0, 0.0, 1.0]])
    above = draw(alone, tmp_path, camera=View(np.array([0.0, 3.0, 0.01]), np.zeros(3)))
    below = draw(alone, tmp_path, camera=View(np.array([0.0, -3.0, 0.01]), np.zeros(3)))
    front, back = above[60, 80], below[60, 80]
    assert front.sum() > 1.3 * back.sum()


def test_shadows_darken_what_is_covered(tmp_path):
    cache = waving(ground=True)
    drafted, shaded = (draw(cache, tmp_path, draft=draft) for draft in (True, False))
    assert (shaded.sum(axis=2) < drafted.sum(axis=2) - 60).mean() > 0.01


def test_a_plane_collider_is_drawn_as_ground(tmp_path):
    without, ground = draw(waving(), tmp_path), draw(waving(ground=True), tmp_path)
    # the lower corners: cool background against warm floor
    for corner in (without, ground):
        assert corner[-1, 0].sum() > 500
    assert without[-1, 0, 2] > without[-1, 0, 0]
    assert ground[-1, 0, 2] < ground[-1, 0, 0]
    # and the sky is the same
    np.testing.assert_allclose(without[0], ground[0], atol=3)


def test_marks_are_red_and_nothing_hides_them(tmp_path):
    cache = waving()
    hidden = np.array([[[-0.1, 0.0, 0.0], [0.1, 0.0, 0.0]]])
    assert not reddish(draw(cache, tmp_path)).any()
    assert reddish(draw(cache, tmp_path, marks=hidden)).sum() > 5
    assert not reddish(draw(cache, tmp_path, marks=np.zeros((0, 2, 3)))).any()


def test_wireframe_draws_edges(tmp_path):
    cache = waving(cells=4)
    plain, wires = draw(cache, tmp_path), draw(cache, tmp_path, wireframe=True)
    changed = np.abs(plain - wires).sum(axis=2) > 40
    assert 0.005 < changed.mean() < 0.4


@pytest.mark.parametrize("colour", ["strain", "speed"])
def test_fields_colour_the_cloth_and_have_a_legend(tmp_path, colour):
    cache = waving()
    plain, coloured = draw(cache, tmp_path, 2), draw(cache, tmp_path, 2, colour=colour)
    assert (np.abs(plain - coloured)[:90].sum(axis=2) > 60).mean() > 0.03
    assert (np.abs(plain - coloured)[105:].sum(axis=2) > 60).mean() > 0.02


def test_a_jpeg_is_a_jpeg(tmp_path):
    path = render_still(waving(), 0, tmp_path / "still.jpg", size=SIZE, draft=True)
    assert Image.open(path).format == "JPEG"


def test_files_are_drawn_by_their_names(tmp_path):
    save_mesh(shapes.icosphere(0.2, subdivisions=1), tmp_path / "ball.obj")
    path = render_still(str(tmp_path / "ball.obj"), 0, tmp_path / "still.png", size=SIZE, draft=True)
    assert Image.open(path).size == SIZE
    assert save_page(str(tmp_path / "ball.obj"), tmp_path / "ball.html").stat().st_size > 1000
    export(str(tmp_path / "ball.obj"), tmp_path / "ball.npz")
    with pytest.raises(WeftError, match=r"run\.zarr does not exist"):
        render_film(tmp_path / "run.zarr", tmp_path / "film.mp4")


def test_mistakes_are_sentences(tmp_path):
    cache = waving()
    with pytest.raises(WeftError, match=r"still\.bmp: a still ends in \.png"):
        render_still(cache, 0, tmp_path / "still.bmp")
    with pytest.raises(WeftError, match="frame 4 is not there: the cache has 4 frames, 0 to 3"):
        render_still(cache, 4, tmp_path / "still.png")
    with pytest.raises(WeftError, match="colour 'heat' is not known"):
        render_still(cache, 0, tmp_path / "still.png", colour="heat")
    with pytest.raises(WeftError, match="size 4x4 is too small"):
        render_still(cache, 0, tmp_path / "still.png", size=(4, 4))
    for size in ("320x240", (320.5, 240), (320,)):
        with pytest.raises(WeftError, match="size is the width and the height of the picture in pixels"):
            render_still(cache, 0, tmp_path / "still.png", size=size)
    with pytest.raises(WeftError, match=r"camera is a weft\.Camera with position, target and fov_deg, not 'left'"):
        render_still(cache, 0, tmp_path / "still.png", camera="left")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WeftError, match=r"cannot write .*file.still\.png"):
        render_still(waving(), 0, tmp_path / "file" / "still.png", size=SIZE, draft=True)


def test_a_cache_without_frames_or_triangles_is_refused(tmp_path):
    cache = waving()
    bare = MemoryCache([], np.zeros((0, 3), np.int32), [np.zeros((3, 3))])
    with pytest.raises(WeftError, match="nothing to draw: the cache has no bodies"):
        render_still(bare, 0, tmp_path / "still.png")
    cache.xs.clear()
    with pytest.raises(WeftError, match="no complete frame yet"):
        render_still(cache, 0, tmp_path / "still.png")


def test_without_pyvista_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'weft-cloth\[render\]'"):
        render_still(waving(), 0, tmp_path / "still.png")
