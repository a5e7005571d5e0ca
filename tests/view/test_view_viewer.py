"""The browser viewer: what the server sends, and what Chromium shows."""

import io
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from view_caches import waving, write_cache

from weft.errors import MissingExtraError, WeftError
from weft.view.figures import LOADING
from weft.view.viewer import POLL, Viewer

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--no-sandbox",
    "--use-gl=angle",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextmanager
def viewing(cache):
    viewer = Viewer(cache, port=8600)
    try:
        yield viewer
    finally:
        viewer.close()


def figure(viewer, name):
    return next(f for f in viewer._figures if f.body.name == name)


def test_scrubbing_moves_the_vertices_of_the_same_mesh():
    cache = waving()
    with viewing(cache) as viewer:
        viewer.step(0.0)
        sheet = figure(viewer, "sheet")
        front, back = sheet._front, sheet._back
        np.testing.assert_allclose(front.vertices, cache.positions(0)[sheet.body.vertices], atol=1e-6)
        viewer.panel.step_to(2)
        viewer.step(0.1)
        assert figure(viewer, "sheet")._front is front
        for side in (front, back):
            np.testing.assert_allclose(side.vertices, cache.positions(2)[sheet.body.vertices], atol=1e-6)
        assert (front.side, back.side) == ("front", "back")
        assert front.color != back.color
        viewer.step(0.2)
        assert viewer.panel.slider.value == 2
        assert "frame 2" in viewer.panel.words.content


def test_the_curve_of_the_report_follows_the_frame_and_the_choice(tmp_path):
    cache = write_cache(tmp_path / "a.zarr", waving(frames=5))
    with viewing(cache) as viewer:
        viewer.step(0.0)
        curve = viewer.panel.curve
        column = curve._choice.value
        frames, values, now = curve._plot.data
        assert frames.tolist() == list(range(cache.frames)) and np.isnan(now[1:]).all()
        np.testing.assert_array_equal(values, cache.report[column])
        viewer.panel.step_to(3)
        viewer.step(0.1)
        viewer.step(0.2)
        assert np.flatnonzero(~np.isnan(curve._plot.data[2])).tolist() == [3]
        curve._choice.value = "stretch"
        viewer.step(0.3)
        np.testing.assert_array_equal(curve._plot.data[1], np.asarray(cache.report["stretch"], float))


def test_grid_and_axes_can_be_hidden():
    with viewing(waving()) as viewer:
        assert [handle.visible for handle in viewer._helpers] == [True, True]
        viewer.panel.grid.value = False
        deadline = time.monotonic() + 5.0
        while any(handle.visible for handle in viewer._helpers) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [handle.visible for handle in viewer._helpers] == [False, False]


def test_playing_goes_on_by_the_clock():
    with viewing(waving(frames=10, fps=10.0)) as viewer:
        viewer.step(0.0)
        viewer.panel.toggle()
        for now in (1.0, 1.5, 1.6):
            viewer.step(now)
        assert viewer.panel.slider.value == 6
        assert viewer.panel.button.label == "Pause"


def test_bodies_wireframe_and_colours():
    with viewing(waving()) as viewer:
        viewer.step(0.0)
        sheet, block = figure(viewer, "sheet"), figure(viewer, "block")
        viewer.panel.record(hidden={"block"}, wireframe=True)
        viewer.step(0.1)
        assert not block._front.visible
        assert (sheet._front.wireframe, sheet._back.visible) == (True, False)
        viewer.panel.record(hidden=set(), wireframe=False)
        viewer.step(0.2)
        assert block._front.visible
        assert (sheet._front.wireframe, sheet._back.visible) == (False, True)
        # a coloured mesh loads in the dark and then takes the place of the plain one
        viewer.panel.record(colour="strain")
        viewer.step(0.3)
        assert sheet._front.visible
        viewer.step(0.31 + LOADING)
        assert [m.visible for m in (sheet._front, sheet._back)] == [False, False]
        assert sum(m.visible for m in sheet._coloured) == 1
        assert "strain" in viewer.panel.legend.content
        lit = next(m for m in sheet._coloured if m.visible)
        viewer.panel.step_to(1)
        viewer.step(0.6)
        assert lit.visible
        viewer.step(0.7 + LOADING)
        assert not lit.visible
        viewer.panel.record(colour="body")
        viewer.step(1.0)
        assert not any(m.visible for m in sheet._coloured)
        assert sheet._front.visible


def test_crossings_are_drawn_when_asked_for(tmp_path):
    memory = waving(cells=6, frames=2)
    # push the block through the sheet in frame 1
    memory.xs[1][memory.bodies[1].vertices] += [0.0, 0.35, 0.0]
    with viewing(write_cache(tmp_path / "c.zarr", memory)) as viewer:
        viewer.panel.step_to(1)
        viewer.step(0.0)
        assert viewer._marks is None
        viewer.panel.record(crossings=True)
        viewer.step(0.1)
        assert viewer._mark_error == ""
        assert len(viewer._marks.points) > 4
        viewer.panel.step_to(0)
        viewer.step(0.2)
        assert viewer._marks is None


def test_a_running_simulation_is_followed():
    cache = waving(frames=8, complete=False, writer="process 1")
    later, cache.xs = cache.xs[3:], cache.xs[:3]
    with viewing(cache) as viewer:
        viewer.step(0.0)
        assert viewer.player.frame == 2
        cache.xs = cache.xs + later[:2]
        viewer.step(POLL)
        viewer.step(POLL + 0.1)
        assert viewer.panel.slider.value == 4
        assert viewer.panel.slider.max == 4
        # who goes back is left in peace
        viewer.panel.step_to(1)
        cache.xs = cache.xs + later[2:]
        cache.complete = True
        viewer.step(3 * POLL)
        viewer.step(3 * POLL + 0.1)
        assert viewer.player.frame == 1
        assert viewer.panel.slider.max == 7


def test_the_server_is_for_this_machine_only():
    with viewing(waving()) as viewer:
        assert viewer.url.startswith("http://127.0.0.1:")
        assert viewer._server.get_host() == "127.0.0.1"


def test_without_viser_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(MissingExtraError, match=r"viser.*weft-cloth\[view\]"):
        Viewer(waving())


def test_a_cache_without_frames_is_refused():
    cache = waving()
    cache.xs = []
    with pytest.raises(WeftError, match="no complete frame yet"):
        Viewer(cache)


@contextmanager
def serving(viewer):
    """Run the viewer's loop beside the test."""
    done = threading.Event()

    def loop():
        while not done.is_set():
            viewer.step(time.monotonic())
            time.sleep(0.03)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def until(what, *, patience=60.0):
    """Ask again until the answer is true; software rendering takes its time."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        answer = what()
        if answer is not None:
            return answer
        time.sleep(0.3)
    raise AssertionError("the browser did not show it in time")


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium: apt-get install chromium")
def test_chromium_shows_the_cloth_and_the_timeline_moves_it():
    playwright = pytest.importorskip("playwright.sync_api")
    from PIL import Image

    cache = waving(cells=16, frames=8)
    with viewing(cache) as viewer, serving(viewer), playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page(viewport={"width": 900, "height": 600})
        failures = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(viewer.url)
        page.wait_for_selector("canvas", timeout=60_000)

        def picture():
            # the left part: the controls are on the right
            return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(int)[:, :550]

        def cloth(shot):
            return (shot[..., 2] > shot[..., 0] + 40) & (shot[..., 2] > 100)

        def settled(differs_from=None):
            first = picture()
            if cloth(first).mean() < 0.03 or (np.abs(first - picture()) > 8).any():
                return None
            if differs_from is not None and (np.abs(first - differs_from).sum(axis=2) > 60).mean() < 0.005:
                return None
            return first

        # the cloth is there, lit, and in the frame
        start = until(settled)
        assert cloth(start).mean() < 0.7
        assert len(np.unique(start[cloth(start)].sum(axis=1))) > 30
        background = start[5, 545]
        assert np.abs(background - 255).max() < 60

        # the timeline moves it: type a frame into the slider's field
        entry = page.locator("input[type=text], input[inputmode]").first
        entry.fill("3")
        entry.press("Enter")
        moved = until(lambda: settled(start))
        assert viewer.player.frame == 3

        # and the buttons play it
        page.get_by_role("button", name="Play", exact=True).click()
        until(lambda: True if viewer.player.playing else None)
        page.get_by_role("button", name="Pause", exact=True).click()
        until(lambda: True if not viewer.player.playing else None)

        # colours come from the field
        viewer.panel.step_to(3)
        viewer.panel.record(colour="speed")
        until(lambda: True if (np.abs(picture() - moved).sum(axis=2) > 60).mean() > 0.03 else None)
        assert failures == []
        browser.close()
