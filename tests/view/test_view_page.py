"""The page of a cache without a server: what is in it, what Chromium shows of it, and notebooks that are run."""

import base64
import html
import io
import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner
from view_caches import waving

import weft
from weft.cli.main import app
from weft.errors import WeftError
from weft.view import page as pages
from weft.view.page import cache_page, inline, save_page, simulation_page

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]


def content(page):
    return json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.DOTALL)[1])


def positions_in(body):
    numbers = np.frombuffer(base64.b64decode(body["positions"]), "<u2").reshape(body["samples"], -1, 3)
    return np.array(body["low"]) + np.array(body["step"]) * numbers


def test_the_page_has_all_frames_to_a_fraction_of_a_millimetre():
    cache = waving()
    data = content(cache_page(cache))
    assert data["frames"] == list(range(cache.frames))
    for body, own in zip(cache.bodies, data["bodies"], strict=True):
        shown = positions_in(own)
        for frame in range(cache.frames):
            exact = cache.positions(frame)[body.vertices]
            assert (
                np.abs(shown[min(frame, len(shown) - 1)] - exact).max() <= np.ptp(exact, axis=0).max() / 60_000 + 1e-5
            )
        faces = np.frombuffer(base64.b64decode(own["faces"]), "<u4").reshape(-1, 3)
        assert np.array_equal(faces, cache.faces[body.faces] - body.vertices.start)


def test_long_runs_show_fewer_frames(monkeypatch):
    cache = waving()
    monkeypatch.setattr(pages, "PAGE_BYTES", 6 * len(cache.positions(0)) * 2)
    data = content(cache_page(cache))
    assert 1 < len(data["frames"]) <= 2
    assert data["stride"] == data["frames"][1] - data["frames"][0] > 1


def test_a_simulation_and_chosen_frames_can_be_saved(tmp_path):
    scene = weft.Scene(cloths=weft.Cloth(shape=weft.Grid(cells=(2, 2))), method="plain")
    for simulation in (weft.Simulation(scene), weft.Simulation(scene, worlds=2)):
        assert content(save_page(simulation, tmp_path / "now.html").read_text())["frames"] == [0]
    assert content(save_page(waving(), tmp_path / "run.html", frames="1:3").read_text())["frames"] == [1, 2]


def test_names_cannot_end_the_page(tmp_path):
    cloth = weft.Cloth(name="<b>script", shape=weft.Grid(cells=(1, 1)))
    scene = weft.Scene(cloths=cloth, frames=1, method="plain", check=0)
    cache = weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    page = cache_page(cache)
    assert page.count("</script>") == 2
    assert content(page)["bodies"][0]["name"] == "<b>script"
    save_page(cache, tmp_path / "a.html", frames=[1])
    assert content((tmp_path / "a.html").read_text())["frames"] == [1]
    with pytest.raises(WeftError, match=r"cannot write /proc/a\.html"):
        save_page(cache, "/proc/a.html")


@pytest.fixture(scope="module")
def browser():
    sync_api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM.exists():
        pytest.skip(f"{CHROMIUM} is not there")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()


def picture(page):
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(int)


@pytest.mark.browser
def test_chromium_shows_it_without_a_network(browser, tmp_path):
    cache = waving()
    save_page(cache, tmp_path / "cache.html")
    page = browser.new_page(viewport={"width": 640, "height": 480})
    wrong = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if request.url.startswith("http") else None)
    page.goto((tmp_path / "cache.html").as_uri())
    page.wait_for_function("window.weft && window.weft.bodies.length > 0")
    page.evaluate("weft.show(0)")
    first = picture(page)
    background = np.array([244, 244, 242])
    cloth = np.abs(first[:440] - background).sum(axis=2) > 40
    assert 0.03 < cloth.mean() < 0.9
    page.evaluate(f"weft.show({cache.frames - 1})")
    last = picture(page)
    assert (np.abs(last - first).sum(axis=2) > 30).mean() > 0.002
    # the mouse turns it
    page.mouse.move(320, 200)
    page.mouse.down()
    page.mouse.move(420, 220)
    page.mouse.up()
    assert (np.abs(picture(page) - last).sum(axis=2) > 30).mean() > 0.01
    assert page.inner_text("#said") == f"frame {cache.frames - 1}, {(cache.frames - 1) / cache.fps:.3f} s"
    assert wrong == []


@pytest.mark.browser
def test_chromium_shows_it_inside_another_page(browser, tmp_path):
    sim = weft.Simulation(weft.Scene(cloths=weft.Cloth(shape=weft.Grid(cells=(4, 4))), method="plain"))
    sim.advance()
    (tmp_path / "notebook.html").write_text(f"<p>a notebook</p>{inline(simulation_page(sim))}")
    page = browser.new_page(viewport={"width": 640, "height": 480})
    page.goto((tmp_path / "notebook.html").as_uri())
    frame = page.frames[1]
    frame.wait_for_function("window.weft && window.weft.bodies.length === 1")
    assert frame.inner_text("#said").startswith("frame 1, ")
    shown = picture(page)[60:420]
    assert (np.abs(shown - np.array([244, 244, 242])).sum(axis=2) > 40).mean() > 0.02


def test_a_viewer_returns_at_once_and_can_be_steered():
    pytest.importorskip("viser")
    cache = waving()
    with weft.view(cache, port=8700, browser=False) as handle:
        assert handle.running and handle.url in repr(handle)
        assert html.escape(handle.url) in handle._repr_html_()
        handle.show(-1)
        with pytest.raises(WeftError, match="no frame 99"):
            handle.show(99)
    assert not handle.running
    handle.close()


CELLS = [
    "import weft",
    "scene = weft.Scene(cloths=weft.Cloth(shape=weft.Grid(cells=(3, 3)), pins=weft.Pin(boundary='top')), frames=2,"
    " method='plain', check=0)\nscene",
    "cache = weft.simulate(scene, 'run.zarr', progress=False, overwrite=True)\ncache",
    "sim = weft.Simulation(scene)\nsim.advance()\nsim",
    "cache.report",
    "cache.report.to_pandas()",
]


def test_notebooks_show_caches_simulations_scenes_and_reports(tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("pandas")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS])
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    scene, cache, sim, report, table = (
        next(o["data"] for o in cell["outputs"] if o["output_type"] == "execute_result") for cell in notebook.cells[1:]
    )
    assert "└─ cloth cloth: grid 1 x 1 m, cotton, 1 pin" in scene["text/plain"]
    for shown in (cache, sim):
        assert "<iframe srcdoc=" in shown["text/html"]
        inner = html.unescape(re.search(r'srcdoc="(.*?)" style', shown["text/html"], re.DOTALL)[1])
        assert [body["name"] for body in content(inner)["bodies"]] == ["cloth"]
    assert "Cache(" in cache["text/html"] and "Simulation" in sim["text/html"]
    assert "<th>stretch_99</th>" in report["text/html"]
    assert "stretch_99" in table["text/html"]


def character():
    """A napkin on a ball that moves, at 60 Hz."""
    path = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=1.0, position=(0.3, 0.0, 0.0))])
    return weft.Scene(
        name="ball",
        fps=30,
        frames=30,
        cloths=weft.Cloth(shape=weft.Grid(size=(0.4, 0.4), cells=(8, 8)), placement={"position": (0, 0.21, 0)}),
        colliders=weft.Collider(name="ball", shape=weft.Sphere(radius=0.2), analytic=True, motion=path),
        method="predictive",
    )


def test_play_is_shared_as_a_page(tmp_path):
    weft.save_scene(character(), tmp_path / "ball.toml")
    said = CliRunner().invoke(app, ["play", str(tmp_path / "ball.toml"), "--share", str(tmp_path / "ball.html")])
    assert said.exit_code == 0, said.output
    data = content((tmp_path / "ball.html").read_text())
    assert data["fps"] == 60 and data["frames"] == list(range(61))
    cloth, ball = data["bodies"]
    assert (cloth["samples"], ball["samples"]) == (61, 1)
    # the ball is one sample and a pose a frame
    poses = np.frombuffer(base64.b64decode(ball["poses"]), "<f4").reshape(-1, 3, 4)
    live = weft.Realtime(character())
    for k in range(61):
        if k:
            live.step(1 / 60)
        np.testing.assert_allclose(positions_in(cloth)[k], live.positions, atol=2e-5)
        moved = positions_in(ball)[0] @ poses[k, :, :3].T + poses[k, :, 3]
        np.testing.assert_allclose(moved, live.collider_mesh("ball")[0], atol=2e-5)
    short = pages.share_play(character(), tmp_path / "robust.html", method="robust", seconds=0.1)
    assert content(short.read_text())["frames"] == [0, 1, 2, 3]
    said = CliRunner().invoke(app, ["play", str(tmp_path / "ball.toml"), "--seconds", "1"])
    assert said.exit_code != 0 and "--seconds is for --share" in said.output


@pytest.mark.browser
def test_chromium_plays_it_at_sixty_pictures_a_second(browser, tmp_path):
    pages.share_play(character(), tmp_path / "ball.html")
    page = browser.new_page(viewport={"width": 480, "height": 360})
    page.goto((tmp_path / "ball.html").as_uri())
    page.wait_for_function("window.weft && window.weft.drawn() > 5")
    # all 61 frames in their order: none is left out where the browser keeps up, and it goes round
    count = page.evaluate(
        "new Promise(done => { const a = weft.drawn(); setTimeout(() => done(weft.drawn() - a), 2000); })"
    )
    assert count <= 125
    assert count > 10
    page.evaluate("weft.show(0)")
    first = picture(page)
    page.evaluate("weft.show(60)")
    assert (np.abs(picture(page) - first).sum(axis=2) > 30).mean() > 0.01


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    def half(self, text, **options):
        self.write_bytes(text[:100].encode())
        raise OSError(28, "No space left on device")

    (tmp_path / "run.html").write_text("before")
    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(WeftError, match=r"cannot write .*run\.html: No space left on device"):
        save_page(waving(), tmp_path / "run.html")
    assert [path.read_text() for path in tmp_path.iterdir()] == ["before"]
