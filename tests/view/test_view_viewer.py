"""The browser viewer: what the server sends, and what Chromium shows."""

import io
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from view_caches import waving, write_cache

import weft
from weft.errors import MissingExtraError, WeftError
from weft.view.curve import POINTS, curve_html, thinned
from weft.view.figures import LOADING
from weft.view.marks import MarkFinder
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
    """A viewer with one tab, `viewer.tab`, which every browser that comes would see beside its own."""
    viewer = Viewer(cache, port=8600)
    viewer.tab = viewer.open_tab(-1, viewer._server)
    try:
        yield viewer
    finally:
        viewer.close()


def figure(viewer, name):
    return next(f for f in viewer.tab.figures if f.body.name == name)


def test_scrubbing_moves_the_vertices_of_the_same_mesh():
    cache = waving()
    with viewing(cache) as viewer:
        viewer.step(0.0)
        sheet = figure(viewer, "sheet")
        front, back = sheet._front, sheet._back
        np.testing.assert_allclose(front.vertices, cache.positions(0)[sheet.body.vertices], atol=1e-6)
        viewer.tab.panel.step_to(2)
        viewer.step(0.1)
        assert figure(viewer, "sheet")._front is front
        for side in (front, back):
            np.testing.assert_allclose(side.vertices, cache.positions(2)[sheet.body.vertices], atol=1e-6)
        assert (front.side, back.side) == ("front", "back")
        assert front.color != back.color
        viewer.step(0.2)
        assert viewer.tab.panel.slider.value == 2
        assert "frame 2" in viewer.tab.panel.words.content


def test_the_curve_of_the_report_follows_the_frame_and_the_choice(tmp_path):
    cache = write_cache(tmp_path / "a.zarr", waving(frames=5))
    with viewing(cache) as viewer:
        viewer.step(0.0)
        curve = viewer.tab.panel.curve
        np.testing.assert_array_equal(curve.values, cache.report[curve.choice.value])
        assert "left:0.000%" in curve._cursor.content
        viewer.tab.panel.step_to(3)
        viewer.step(0.1)
        viewer.step(0.2)
        assert "left:75.000%" in curve._cursor.content and "frame 3: 3" in curve._cursor.content
        curve.choice.value = "stretch"
        viewer.step(0.3)
        np.testing.assert_array_equal(curve.values, np.asarray(cache.report["stretch"], float))


def test_a_request_of_the_curve_goes_to_its_frame_and_others_are_refused():
    with viewing(waving(frames=5)) as viewer:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

        def ask(path):
            try:
                with opener.open(viewer.url + path, timeout=20) as answer:
                    return answer.status
            except urllib.error.HTTPError as error:
                return error.code

        assert ask("do/tab0/3") == 204
        assert viewer.tab.player.frame == 3
        for path in ("do/tab0/-1", "do/tab0/x", "do/tab0/1e3", "do/tab0/", "do/tab7/1", "do/", "do/tab0/" + "9" * 30):
            assert ask(path) == 404
        assert ask("do/tab0/999") == 204
        assert viewer.tab.player.frame == 4
        viewer._close_tab(-1)
        assert ask("do/tab0/1") == 404


def test_long_curves_keep_their_peaks():
    values = np.zeros(100_000)
    values[77_777], values[5] = 3.0, -2.0
    frames, shown = thinned(values)
    assert len(shown) <= POINTS and shown.max() == 3.0 and shown.min() == -2.0
    assert {77_777, 5} <= set(frames)
    assert frames == sorted(frames)
    few, same = thinned(values[:50])
    assert few == list(range(50)) and same is not None
    # a gap splits the line
    assert curve_html(np.array([0.0, 1.0, np.nan, 2.0, 3.0])).count("<polyline") == 2


def test_grid_and_axes_can_be_hidden():
    with viewing(waving()) as viewer:
        assert [handle.visible for handle in viewer.tab.helpers] == [True, True]
        viewer.tab.panel.grid.value = False
        deadline = time.monotonic() + 5.0
        while any(handle.visible for handle in viewer.tab.helpers) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert [handle.visible for handle in viewer.tab.helpers] == [False, False]


def test_playing_goes_on_by_the_clock():
    with viewing(waving(frames=10, fps=10.0)) as viewer:
        viewer.step(0.0)
        viewer.tab.panel.toggle()
        for now in (1.0, 1.5, 1.6):
            viewer.step(now)
        assert viewer.tab.panel.slider.value == 6
        assert viewer.tab.panel.button.label == "Pause"


def test_bodies_wireframe_and_colours():
    with viewing(waving()) as viewer:
        viewer.step(0.0)
        sheet, block = figure(viewer, "sheet"), figure(viewer, "block")
        viewer.tab.panel.record(hidden={"block"}, wireframe=True)
        viewer.step(0.1)
        assert not block._front.visible
        assert (sheet._front.wireframe, sheet._back.visible) == (True, False)
        viewer.tab.panel.record(hidden=set(), wireframe=False)
        viewer.step(0.2)
        assert block._front.visible
        assert (sheet._front.wireframe, sheet._back.visible) == (False, True)
        # a coloured mesh loads in the dark and then takes the place of the plain one
        viewer.tab.panel.record(colour="strain")
        viewer.step(0.3)
        assert sheet._front.visible
        viewer.step(0.31 + LOADING)
        assert [m.visible for m in (sheet._front, sheet._back)] == [False, False]
        assert sum(m.visible for m in sheet._coloured) == 1
        assert "strain" in viewer.tab.panel.legend.content
        lit = next(m for m in sheet._coloured if m.visible)
        viewer.tab.panel.step_to(1)
        viewer.step(0.6)
        assert lit.visible
        viewer.step(0.7 + LOADING)
        assert not lit.visible
        viewer.tab.panel.record(colour="body")
        viewer.step(1.0)
        assert not any(m.visible for m in sheet._coloured)
        assert sheet._front.visible


def test_crossings_are_drawn_when_asked_for(tmp_path):
    memory = waving(cells=6, frames=2)
    # push the block through the sheet in frame 1
    memory.xs[1][memory.bodies[1].vertices] += [0.0, 0.35, 0.0]
    with viewing(write_cache(tmp_path / "c.zarr", memory)) as viewer:
        marks = viewer.tab.marks
        viewer.tab.panel.step_to(1)
        viewer.step(0.0)
        assert marks.handles == {}
        viewer.tab.panel.record(marks={"crossings"})
        viewer.step(0.1)
        assert marks.error == ""
        assert len(marks.handles["crossings"][0].points) > 4
        viewer.tab.panel.step_to(0)
        viewer.step(0.2)
        assert marks.handles["crossings"] == []
        # the rest needs the scene
        viewer.tab.panel.record(marks={"pins"})
        viewer.step(0.3)
        assert "no scene" in marks.error and "no scene" in viewer.tab.caption


def pinned_seamed_run(path):
    """Two strips that a seam joins, pinned at the top, one of which touches a ball."""
    strip = weft.Grid(size=(0.3, 0.3), cells=(6, 6))
    turned = {"rotation_deg": (90, 0, 0)}
    scene = weft.Scene(
        name="strips",
        frames=8,
        fps=30,
        method="guarded",
        cloths=[
            weft.Cloth(name="left", shape=strip, pins=[weft.Pin(boundary="top", until=0.1)], placement=turned),
            weft.Cloth(name="right", shape=strip, placement=turned | {"position": (0.301, 0, 0)}),
        ],
        colliders=[
            weft.Collider(
                name="ball", shape=weft.Sphere(radius=0.1), placement=weft.Placement(position=(0.3, -0.1, 0.101))
            )
        ],
        # the right column of one strip to the left column of the other
        seams=[weft.Seam(cloth="left", to="right", vertices=[(7 * k + 6, 7 * k, 7 * k) for k in range(7)])],
    )
    return weft.simulate(scene, path)


def test_marks_of_pins_seams_and_contacts_and_the_energy_are_those_of_the_scene(tmp_path):
    cache = pinned_seamed_run(tmp_path / "s.zarr")
    finder = MarkFinder(cache)
    assert len(finder.pins(0).points) == 7
    np.testing.assert_array_equal(finder.pins(0).points[:, 1], finder.pins(0).points[0, 1])
    assert len(finder.pins(7).points) == 0
    seams = finder.seams(3)
    assert len(seams.segments) == 7
    assert np.linalg.norm(seams.segments[:, 0] - seams.segments[:, 1], axis=1).max() < 0.02
    contacts = finder.contacts(3)
    # what a seam holds together is no contact
    away = np.abs(np.linalg.norm(contacts.points - [0.3, -0.1, 0.101], axis=1) - 0.1)
    assert len(away) and away.max() < 0.005
    assert finder.released(7).count == 0
    energy = finder.energy()
    mass = np.asarray(finder.world.mass)[: finder.world.cloth_vertex_count]
    fall = 9.81 * mass @ (cache.positions(0) - cache.positions(7))[: len(mass), 1]
    speed = 0.5 * mass @ (cache.velocities(7)[: len(mass)] ** 2).sum(axis=1)
    elastic = finder.energy("elastic")
    assert len(energy) == 9 and elastic.min() >= 0.0 and elastic.max() > 0.0
    assert energy[0] - energy[7] == pytest.approx(fall - speed + elastic[0] - elastic[7], rel=1e-6)
    with viewing(cache) as viewer:
        viewer.tab.panel.record(marks={"pins", "seams", "contacts", "released pairs"})
        viewer.tab.panel.curve.choice.value = "energy"
        viewer.step(0.0)
        assert "pins: 7" in viewer.tab.caption and "seams: 7" in viewer.tab.caption
        np.testing.assert_allclose(viewer.tab.panel.curve.values, energy)


def test_a_frame_that_the_program_shows_is_shown_in_later_tabs_too():
    with viewing(waving(frames=6)) as viewer:
        viewer.show(5)
        assert viewer.tab.player.frame == 5
        viewer._close_tab(-1)
        assert viewer.open_tab(-1, viewer._server).player.frame == 5


def test_a_running_simulation_is_followed():
    cache = waving(frames=8, complete=False, writer="process 1")
    later, cache.xs = cache.xs[3:], cache.xs[:3]
    with viewing(cache) as viewer:
        viewer.step(0.0)
        assert viewer.tab.player.frame == 2
        cache.xs = cache.xs + later[:2]
        viewer.step(POLL)
        viewer.step(POLL + 0.1)
        assert viewer.tab.panel.slider.value == 4
        assert viewer.tab.panel.slider.max == 4
        # who goes back is left in peace
        viewer.tab.panel.step_to(1)
        cache.xs = cache.xs + later[2:]
        cache.complete = True
        viewer.step(3 * POLL)
        viewer.step(3 * POLL + 0.1)
        assert viewer.tab.player.frame == 1
        assert viewer.tab.panel.slider.max == 7


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


@contextmanager
def browsing(cache):
    """A viewer that serves, and a function that opens a page of it in Chromium: the page, its errors and its tab."""
    playwright = pytest.importorskip("playwright.sync_api")
    viewer = Viewer(cache, port=8600)
    try:
        with serving(viewer), playwright.sync_playwright() as p:
            browser = p.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)

            def open_page():
                before = set(viewer.tabs)
                page = browser.new_page(viewport={"width": 900, "height": 600})
                failures = []
                page.on("pageerror", lambda error: failures.append(str(error)))
                page.goto(viewer.url)
                page.wait_for_selector("canvas", timeout=60_000)
                number = until(lambda: next(iter(set(viewer.tabs) - before), None))
                return page, failures, viewer.tabs[number]

            yield viewer, open_page
            browser.close()
    finally:
        viewer.close()


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium: apt-get install chromium")
def test_chromium_shows_the_cloth_and_the_timeline_moves_it(tmp_path):
    from PIL import Image

    cache = write_cache(tmp_path / "w.zarr", waving(cells=16, frames=8))
    with browsing(cache) as (_, open_page):
        page, failures, tab = open_page()

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
        assert tab.player.frame == 3

        # and the buttons play it
        page.get_by_role("button", name="Play", exact=True).click()
        until(lambda: True if tab.player.playing else None)
        page.get_by_role("button", name="Pause", exact=True).click()
        until(lambda: True if not tab.player.playing else None)

        # a click on the curve goes to the frame below it
        curve = page.locator(".weft-curve")
        box = curve.bounding_box()
        curve.click(position={"x": box["width"] * 5 / 7, "y": box["height"] / 2})
        until(lambda: True if tab.player.frame == 5 else None)

        # colours come from the field
        tab.panel.step_to(3)
        tab.panel.record(colour="speed")
        until(lambda: True if (np.abs(picture() - moved).sum(axis=2) > 60).mean() > 0.03 else None)
        assert failures == []


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium: apt-get install chromium")
def test_in_chromium_keys_move_one_tab_alone_and_buttons_frame_and_save(tmp_path):
    pytest.importorskip("pyvista")
    from PIL import Image

    cache = write_cache(tmp_path / "w.zarr", waving(cells=8, frames=4))
    with browsing(cache) as (viewer, open_page):
        page, failures, tab = open_page()
        other, more_failures, second = open_page()
        assert len(viewer.tabs) == 2
        page.bring_to_front()
        page.mouse.click(5, 5)
        page.keyboard.press("ArrowRight")
        until(lambda: True if tab.player.frame == 1 else None)
        assert second.player.frame == 0
        page.get_by_label("wireframe").click()
        until(lambda: True if tab.panel.wireframe else None)
        assert not second.panel.wireframe
        page.mouse.click(5, 5)
        page.keyboard.press("Space")
        until(lambda: True if tab.player.playing else None)
        assert not second.player.playing
        page.keyboard.press("Space")
        until(lambda: True if not tab.player.playing else None)

        # the camera comes back when it has been moved away
        before = np.array(tab.scope.camera.position)
        tab.scope.camera.position = before + [0.0, 50.0, 0.0]
        until(lambda: True if np.linalg.norm(np.array(tab.scope.camera.position) - before) > 10.0 else None)
        page.get_by_role("button", name="Frame all", exact=True).click()
        until(lambda: True if np.linalg.norm(np.array(tab.scope.camera.position) - before) < 2.0 else None)

        with page.expect_download(timeout=90_000) as saved:
            page.get_by_role("button", name="Save a picture", exact=True).click()
        assert saved.value.suggested_filename == f"cache-{tab.player.frame:04d}.png"
        found = np.asarray(Image.open(saved.value.path()).convert("RGB")).astype(int)
        assert found.shape[1] == 1280
        assert ((found[..., 2] > found[..., 0] + 40) & (found[..., 2] > 80)).mean() > 0.02
        with page.expect_download(timeout=90_000) as saved:
            page.get_by_role("button", name="Save a film", exact=True).click()
        assert saved.value.suggested_filename == "cache.mp4"
        assert Path(saved.value.path()).read_bytes()[4:8] == b"ftyp"
        assert failures == more_failures == []
        other.close()
        until(lambda: True if len(viewer.tabs) == 1 else None)
