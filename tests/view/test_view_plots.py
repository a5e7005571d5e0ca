"""The report as a picture."""

import sys

import numpy as np
import pytest
from PIL import Image
from view_caches import waving

from weft.errors import MissingExtraError, WeftError
from weft.view import plot_report


def rows(count=20, **more):
    return [
        {"wall_time": 0.1 + 0.01 * f, "contacts": 100 * f, "collisions": f, "zones": 1, "stretch": 0.02, "status": "ok"}
        | {name: value(f) for name, value in more.items()}
        for f in range(count)
    ]


def words(tmp_path, cache):
    return plot_report(cache, tmp_path / "report.svg").read_text()


def test_a_png_has_a_picture(tmp_path):
    path = plot_report(waving(rows=rows()), tmp_path / "report.png")
    picture = Image.open(path)
    assert picture.size == (1200, 840)
    assert len(np.unique(np.asarray(picture.convert("L")))) > 20


def test_the_picture_says_what_is_missing_and_what_went_wrong(tmp_path):
    # matplotlib keeps the words of an svg as comments
    text = words(tmp_path, waving(rows=rows()))
    assert "<!-- not recorded -->" in text
    assert "<!-- contacts -->" in text
    assert "frame 7" not in text
    bad = rows(intersections=lambda f: f % 3 if f % 5 == 0 else None)
    bad[7]["status"] = "the zones did not settle"
    text = words(tmp_path, waving(rows=bad))
    assert "<!-- not recorded -->" not in text
    assert "<!-- frame 7: the zones did not settle -->" in text


def test_one_frame_and_many_troubles_are_no_trouble(tmp_path):
    words(tmp_path, waving(rows=rows(1)))
    text = words(tmp_path, waving(rows=rows(status=lambda f: "stuck")))
    assert "and 17 more frames with a status" in text


def test_mistakes_are_sentences(tmp_path):
    with pytest.raises(WeftError, match="a plot ends in"):
        plot_report(waving(rows=rows()), tmp_path / "report.gif")
    with pytest.raises(WeftError, match="no complete frame"):
        plot_report(waving(rows=[]), tmp_path / "report.png")


def test_without_matplotlib_one_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"matplotlib.*weft-cloth\[render\]"):
        plot_report(waving(rows=rows()), tmp_path / "report.png")
