"""The web: three.js in Chromium loads our GLB files and plays them, and skins characters as weft does."""

import io
import json
import subprocess

import numpy as np
import pytest
from character import write_character
from exchange_caches import FPS, FRAMES, positions_at, write_cache
from three_js import install, page_of

from weft.exchange import export
from weft.mesh.sequences import read_sequence

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return install(tmp_path_factory.mktemp("web"))


@pytest.fixture(scope="module")
def cache(folder):
    cache = write_cache(folder / "run.zarr")
    export(cache, folder / "run.glb")
    return cache


def picture(page):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"), dtype=float)


def test_three_plays_our_frames(folder, cache):
    with page_of(folder) as page:
        told = page.evaluate("load('/run.glb')")
        assert [name for name, _ in told["clips"]] == ["frames"]
        assert told["clips"][0][1] == pytest.approx((FRAMES - 1) / FPS, abs=1e-6)
        assert told["meshes"] == {"sheet": 42, "a_box": 24, "floor": 4}
        pictures = []
        for frame in (0, 2, FRAMES - 1):
            points = np.reshape(page.evaluate(f"at('sheet', {frame / FPS})"), (-1, 3))
            np.testing.assert_allclose(points, positions_at(frame)[cache.bodies[0].vertices], atol=1e-6)
            pictures.append(picture(page))
        # halfway between two frames every vertex is halfway
        between = np.reshape(page.evaluate(f"at('sheet', {2.5 / FPS})"), (-1, 3))
        middle = 0.5 * (positions_at(2) + positions_at(3))[cache.bodies[0].vertices]
        np.testing.assert_allclose(between, middle, atol=1e-6)
        # the box has a point for each side that meets at a corner
        corners = np.reshape(page.evaluate(f"at('a_box', {3 / FPS})"), (-1, 3))
        box = positions_at(3)[cache.bodies[1].vertices]
        assert max(np.linalg.norm(box - p, axis=1).min() for p in corners) < 1e-6
        # something is drawn, and it moves
        assert all((p.min(axis=2) < 250).mean() > 0.05 for p in pictures)
        assert np.abs(pictures[0] - pictures[1]).mean() > 1.0


def test_three_skins_as_weft_does(folder):
    """A character with two bones: weft's vertices are those that three.js shows, at every time."""
    write_character(folder / "character.glb")
    moving = read_sequence(folder / "character.glb", fps=10.0)
    with page_of(folder) as page:
        page.evaluate("load('/character.glb')")
        for sample in (0, 3, 7, len(moving) - 1):
            points = np.reshape(page.evaluate(f"at('body', {moving.times[sample]})"), (-1, 3))
            ours = moving.vertices(sample)
            assert len(points) == len(ours)
            np.testing.assert_allclose(points, ours, atol=2e-6)


def test_the_validator_finds_no_fault(folder, cache):
    """Khronos' own validator: no error and no warning."""
    script = (
        "const v = require('gltf-validator'), fs = require('fs');"
        "v.validateBytes(new Uint8Array(fs.readFileSync('run.glb'))).then(r => console.log(JSON.stringify(r.issues)));"
    )
    done = subprocess.run(["node", "-e", script], cwd=folder, capture_output=True, text=True, check=True)
    issues = json.loads(done.stdout)
    assert (issues["numErrors"], issues["numWarnings"]) == (0, 0), issues["messages"]
