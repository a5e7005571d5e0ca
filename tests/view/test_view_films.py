"""Films: an mp4 that plays everywhere, whole or not there."""

import sys

import imageio_ffmpeg
import numpy as np
import pytest
from PIL import Image
from view_caches import waving

from weft.errors import MissingExtraError, WeftError
from weft.view import render_film
from weft.view.pictures import find_encoder

SIZE = (96, 64)


def read(path):
    """What ffmpeg says about a film, and its pictures."""
    reader = imageio_ffmpeg.read_frames(str(path))
    about = next(reader)
    width, height = about["size"]
    return about, [np.frombuffer(frame, np.uint8).reshape(height, width, 3).astype(int) for frame in reader]


def test_a_film_has_all_frames_at_the_rate_of_the_cache(tmp_path):
    cache = waving(frames=6, fps=12.0)
    seen = []
    path = render_film(
        cache, tmp_path / "film.mp4", size=SIZE, draft=True, progress=lambda done, total: seen.append((done, total))
    )
    about, pictures = read(path)
    assert about["codec"] == "h264"
    assert about["pix_fmt"].startswith("yuv420p")
    assert about["fps"] == 12.0
    assert about["size"] == SIZE
    assert len(pictures) == 6
    assert seen == [(k, 6) for k in range(1, 7)]
    # it moves
    assert np.abs(pictures[0] - pictures[1]).max() > 30
    assert [p.name for p in tmp_path.iterdir()] == ["film.mp4"]


def test_some_frames_at_another_rate_and_an_odd_size(tmp_path):
    path = render_film(waving(frames=6), tmp_path / "film.mp4", frames=[1, 3, 5], fps=10.0, size=(97, 65), draft=True)
    about, pictures = read(path)
    assert (about["size"], about["fps"], len(pictures)) == ((96, 64), 10.0, 3)


def test_marks_are_asked_for_frame_by_frame(tmp_path):
    asked = []

    def marks(frame):
        asked.append(frame)
        return np.array([[[-0.4, 0.3, 0.0], [0.4, 0.3, 0.0]]])

    _, pictures = read(render_film(waving(), tmp_path / "film.mp4", frames=[2, 0], size=SIZE, draft=True, marks=marks))
    assert asked == [2, 0]
    assert ((pictures[0][..., 0] > 150) & (pictures[0][..., 2] < 110)).any()


def test_a_film_that_fails_leaves_the_old_one_alone(tmp_path):
    cache = waving()
    path = tmp_path / "film.mp4"
    path.write_bytes(b"old")

    def fail(frame):
        raise WeftError("no more")

    with pytest.raises(WeftError, match="no more"):
        render_film(cache, path, size=SIZE, draft=True, marks=fail)
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["film.mp4"]


@pytest.mark.parametrize("suffix", [".gif", ".webp"])
def test_films_that_repeat_in_pages_and_messages(tmp_path, suffix):
    path = render_film(waving(frames=4), tmp_path / f"film{suffix}", size=SIZE, draft=True)
    with Image.open(path) as film:
        assert film.n_frames == 4 and film.size == SIZE and film.info["loop"] == 0
        first = np.asarray(film.convert("RGB")).astype(int)
        film.seek(3)
        assert np.abs(np.asarray(film.convert("RGB")).astype(int) - first).max() > 50


def test_mistakes_are_sentences(tmp_path):
    with pytest.raises(WeftError, match=r"film\.avi: a film ends in \.mp4"):
        render_film(waving(), tmp_path / "film.avi")
    with pytest.raises(WeftError, match="no frames left in this choice"):
        render_film(waving(), tmp_path / "film.mp4", frames=[])


def test_without_the_encoder_one_line_says_what_to_install(tmp_path, monkeypatch):
    def none():
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", none)
    with pytest.raises(WeftError, match="apt-get install ffmpeg"):
        find_encoder()
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtraError, match=r"imageio-ffmpeg.*weft-cloth\[render\]"):
        render_film(waving(), tmp_path / "film.mp4")


@pytest.mark.skipif(sys.platform == "win32", reason="the encoder of the test is a shell script")
@pytest.mark.parametrize("reads", ["head -c 100 >/dev/null", "cat >/dev/null"])
def test_an_encoder_that_fails_is_an_error_and_leaves_no_film(tmp_path, monkeypatch, reads):
    program = tmp_path / "ffmpeg"
    program.write_text(
        f"#!/bin/sh\n{reads}\necho '[mp4] Error writing trailer: No space left on device' >&2\nexit 228\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr("weft.view.pictures.find_encoder", lambda: str(program))
    with pytest.raises(WeftError, match=r"^cannot write .*film\.mp4: No space left on device$"):
        render_film(waving(), tmp_path / "film.mp4", size=SIZE, draft=True)
    assert [p.name for p in tmp_path.iterdir()] == ["ffmpeg"]
