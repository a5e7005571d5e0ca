"""A live simulation: what the loop does with wishes and the mouse, and what Chromium shows and sends."""

import io
import sys
import threading
import time
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft.cli.main import app
from weft.errors import MissingExtraError
from weft.scene.rotation import quaternion_of
from weft.view.camera import view_axes
from weft.view.play import HAND_SPEED, SETTLING, LiveView

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--disable-quic"]


# three triangles about a point, which is no grid
ROUND = ([(0, 0, 0), (0.2, 0, 0), (-0.1, 0.2, 0), (-0.1, -0.2, 0)], [(0, 1, 2), (0, 2, 3), (0, 3, 1)])


def hanging(**forces):
    """A napkin that hangs from its upper edge in front of a ball."""
    return weft.Scene(
        name="napkin",
        fps=30,
        cloths=[
            weft.Cloth(
                name="napkin",
                shape=weft.Grid(size=(0.4, 0.4), cells=(8, 8)),
                placement=weft.Placement(rotation_deg=(90, 0, 0)),
                pins=[weft.Pin(boundary="top")],
                colour="#2040c0",
            )
        ],
        colliders=[
            weft.Collider(
                name="ball",
                shape=weft.Sphere(radius=0.05),
                analytic=True,
                placement=weft.Placement(position=(0.0, -0.1, -0.2)),
            ),
            weft.Collider(
                name="top",
                shape=weft.Box(size=(0.1, 0.1, 0.1)),
                analytic=True,
                placement=weft.Placement(position=(0.6, 0.0, 0.0)),
                motion=weft.Spin(rate_deg=90.0),
            ),
        ],
        forces=weft.Forces(air_damping=2.0, **forces),
        method="predictive",
        camera=weft.Camera(position=(0.0, 0.0, 1.2), target=(0.0, 0.0, 0.0), fov_deg=40.0),
    )


@contextmanager
def playing(scene=None):
    view = LiveView(scene or hanging(), port=8700)
    try:
        yield view
    finally:
        view.close()


def drag(view, body, phase, start, end):
    view.hand.move(SimpleNamespace(phase=phase, start_position=start, end_position=end), body)


def rounds(view, count, start=0.0):
    for k in range(count):
        view.step(start + k * view.dt)


def test_it_goes_on_by_the_clock_and_sends_what_it_computes():
    with playing() as view:
        rounds(view, 5)
        assert view.cloth.time == pytest.approx(5 * view.dt)
        front, back = view._cloths["napkin"]
        np.testing.assert_allclose(front.vertices, view.cloth.positions, atol=1e-6)
        np.testing.assert_allclose(back.vertices, view.cloth.positions, atol=1e-6)
        # no step is due yet
        view.step(4 * view.dt + 0.2 * view.dt)
        assert view.cloth.time == pytest.approx(5 * view.dt)
        # whoever was away for a minute does not get it back
        view.step(60.0)
        view.step(60.0)
        assert view.cloth.time == pytest.approx(6 * view.dt, abs=1.01 * view.dt)
        assert "contacts" in view.panel.words.content


def test_pause_and_reset():
    with playing() as view:
        rounds(view, 5)
        view.panel.toggle()
        rounds(view, 5, 1.0)
        assert view.cloth.time == pytest.approx(5 * view.dt)
        assert view.panel.pause.label == "Go on"
        start = view.cloth.world.initial_state().positions()[: len(view.cloth.positions)]
        assert np.abs(view.cloth.positions - start).max() > 0.0
        view.panel.record(reset=True)
        view.step(2.0)
        assert view.cloth.time == 0.0
        np.testing.assert_array_equal(view.cloth.positions, start)
        np.testing.assert_allclose(view._cloths["napkin"][0].vertices, start, atol=1e-6)


def test_single_steps_pause_it():
    with playing() as view:
        rounds(view, 3)
        view.panel.step_once()
        view.panel.step_once()
        rounds(view, 4, 1.0)
        assert view.cloth.time == pytest.approx(5 * view.dt) and view.panel.pause.label == "Go on"
        view.panel.toggle()
        rounds(view, 2, 2.0)
        assert view.cloth.time == pytest.approx(7 * view.dt)


def in_picture(points, camera, aspect):
    """Whether all points are within the picture of a camera that looks with y up."""
    right, up, ahead = view_axes(np.asarray(camera.look_at) - camera.position)
    q = points - np.asarray(camera.position)
    tall = np.tan(camera.fov / 2.0) * (q @ ahead)
    return bool((np.abs(q @ up) < tall).all() and (np.abs(q @ right) < aspect * tall).all())


def test_no_body_is_cut_off_and_frame_all_brings_back_what_went_away():
    floor = weft.Collider(name="floor", shape=weft.Box(size=(20.0, 0.1, 20.0)))
    far = weft.Collider(
        name="far", shape=weft.Box(size=(0.2, 0.2, 0.2)), placement=weft.Placement(position=(2.0, 0.2, -1.0))
    )
    scene = hanging()
    with playing(scene.replace(colliders=[*scene.colliders, far, floor], camera=weft.Camera())) as view:
        named = [view.cloth.collider_mesh(name)[0] for name in ("ball", "top", "far")]
        points = np.concatenate([view.cloth.positions, *named])
        assert in_picture(points, view._server.initial_camera, 1.0)
        # a browser whose camera looks elsewhere
        camera = SimpleNamespace(
            position=np.array([0.0, 0.0, 50.0]), look_at=np.array([90.0, 0.0, 0.0]), fov=0.6, aspect=0.7
        )
        client = SimpleNamespace(camera=camera, atomic=nullcontext)
        assert not in_picture(points, camera, 0.7)
        view._frame_all(client)
        assert in_picture(points, camera, 0.7)
        # the floor is not shown whole
        assert np.linalg.norm(camera.position) < 20.0


def test_the_grid_lies_below_everything_and_can_be_hidden():
    with playing() as view:
        grid, axes = view._helpers
        lowest = min(view.cloth.positions[:, 1].min(), -0.15)
        assert lowest - 0.01 < grid.position[1] < lowest and axes.visible
        view.panel.grid.value = False
        assert not grid.visible and not axes.visible


@pytest.mark.parametrize("method", ["predictive", "robust"])
def test_what_is_played_is_recorded(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with playing(hanging().replace(method=method)) as view:
        rounds(view, 2)
        view.panel.record(recording=True)
        rounds(view, 4, 1.0)
        assert view.panel.recording.label == "Stop recording"
        end = view.cloth.positions.copy()
        view.panel.record(recording=False)
        view.step(1.0 + 3.01 * view.dt)
        view.step(2.0)
        assert "5 frames are in napkin-take-1.zarr: weft view napkin-take-1.zarr" in view.panel.words.content
        view.panel.record(recording=True)
        rounds(view, 2, 2.0)
    # closing the window completes the second one
    cache, second = weft.open_cache("napkin-take-1.zarr"), weft.open_cache("napkin-take-2.zarr")
    assert cache.complete and cache.frames == 5 and cache.fps == pytest.approx(30.0) and second.complete
    np.testing.assert_array_equal(cache.positions(-1)[: len(end)], end)
    # the box turns: its vertices move in the cache
    top = next(b for b in cache.bodies if b.name == "top").vertices
    speeds = np.linalg.norm(cache.velocities(2)[top], axis=1)
    assert speeds.max() == pytest.approx(np.pi / 2 * 0.05 * 2**0.5, rel=0.01)
    assert cache.report["time"].tolist() == pytest.approx([k / 30 for k in range(5)])
    # a cache as any other
    assert cache.verify() == [] and weft.check.check_cache(cache).clean
    weft.export(cache, tmp_path / "take.glb")
    assert CliRunner().invoke(app, ["info", "napkin-take-1.zarr"]).exit_code == 0


@pytest.mark.parametrize("method", ["predictive", "robust"])
def test_a_recorded_frame_that_crosses_is_not_ok(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    turns = ("one", (0.0, 0.0, 0.0)), ("other", (70.0, 0.0, 0.0))
    grid = weft.Grid(size=(0.2, 0.2), cells=(5, 5))
    cloths = [weft.Cloth(name=name, shape=grid, placement=weft.Placement(rotation_deg=turn)) for name, turn in turns]
    with playing(weft.Scene(name="napkin", cloths=cloths, method=method)) as view:
        view.panel.record(recording=True)
        rounds(view, 2, 1.0)
    report = weft.open_cache("napkin-take-1.zarr").report
    assert min(report["intersections"]) > 0 and all("pass through triangles" in text for text in report["status"])


def test_a_recording_that_cannot_be_written_is_told_and_ends(tmp_path, monkeypatch):
    (tmp_path / "full").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.view.keep.free_name", lambda *_: tmp_path / "full" / "a.zarr")
    with playing() as view:
        view.panel.record(recording=True)
        rounds(view, 2)
        rounds(view, 2, 1.0)
        assert "full" in view.panel.words.content and view.panel.recording.label == "Record to a cache"
        assert view.cloth.time > 0.0


@pytest.mark.parametrize("method", ["predictive", "robust"])
def test_a_moment_is_saved_as_the_start_of_a_scene(method, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with playing(hanging().replace(method=method)) as view:
        rounds(view, 6)
        view.panel.record(save=True, gravity=3.0)
        now = view.cloth.positions.copy()
        pose = view.cloth.poses["top"].copy()
        view.panel.toggle()
        view.step(1.0)
        assert "saved napkin-start-1.toml; top stands still there" in view.panel.words.content
    scene = weft.load_scene("napkin-start-1.toml")
    assert scene.method.name == method and scene.forces.gravity == pytest.approx((0.0, -3.0, 0.0))
    sim = weft.Simulation(scene)
    assert np.array_equal(sim.positions, now) and np.allclose(sim.bodies["top"].pose, pose, atol=1e-12)
    # it rests in the lengths of the napkin, and its pins hold it where they did
    held = np.flatnonzero(sim.world.kinematics.fixed(sim.world.vertex_count, 0.0)[:81])
    assert len(held) == 9
    sim.advance(3)
    assert sim.report["stretch"] < 0.05 and np.allclose(sim.positions[held], now[held])
    assert np.array_equal(sim.bodies["top"].pose, weft.Simulation(scene).bodies["top"].pose)


def test_the_mouse_drags_a_vertex_and_lets_go():
    with playing() as view:
        rounds(view, 3)
        corner = view.cloth.positions[-1].copy()
        goal = corner + [0.1, 0.15, 0.2]
        drag(view, "napkin", "start", corner, corner)
        drag(view, "napkin", "update", corner, goal)
        view.step(1.0)
        held = set(view.cloth.held.tolist())
        assert len(view.cloth.positions) - 1 in held
        # not faster than a hand
        assert np.linalg.norm(view.cloth.positions[-1] - corner) <= HAND_SPEED * view.dt * 1.001
        rounds(view, 10, 2.0)
        np.testing.assert_allclose(view.cloth.positions[-1], goal, atol=1e-6)
        drag(view, "napkin", "end", corner, goal)
        rounds(view, 10, 3.0)
        assert len(view.cloth.positions) - 1 not in set(view.cloth.held.tolist())
        assert view.cloth.positions[-1, 1] < goal[1] - 0.05
        assert len(view.cloth.held) == 9


def test_the_mouse_moves_a_collider_and_the_collider_moves_the_cloth():
    with playing() as view:
        rounds(view, 3)
        start = view.cloth.poses["ball"][:3, 3].copy()
        # taken hold of at its surface; it keeps its distance from the mouse
        grip = start + [0.0, 0.0, 0.05]
        drag(view, "ball", "start", grip, grip)
        drag(view, "ball", "update", grip, grip + [0.0, 0.0, 0.3])
        rounds(view, 20, 1.0)
        np.testing.assert_allclose(view.cloth.poses["ball"][:3, 3], start + [0.0, 0.0, 0.3], atol=1e-9)
        np.testing.assert_allclose(view._colliders["ball"][0].position, start + [0.0, 0.0, 0.3], atol=1e-6)
        assert view.cloth.positions[:, 2].max() > 0.1


@pytest.mark.parametrize("method", ["robust", "untangle"])
def test_a_scene_is_played_with_its_own_method(method):
    with playing(hanging().replace(method=method)) as view:
        assert view.cloth.simulation.method.name == method and method in view._describe()
        rounds(view, 3)
        assert view.cloth.time == pytest.approx(3 * view.dt)
        corner = view.cloth.positions[-1].copy()
        goal = corner + [0.02, 0.05, 0.05]
        drag(view, "napkin", "start", corner, corner)
        drag(view, "napkin", "update", corner, goal)
        rounds(view, 4, 1.0)
        np.testing.assert_allclose(view.cloth.positions[-1], goal, atol=1e-6)
        assert list(view.cloth.held) == [len(view.cloth.positions) - 1]
        drag(view, "napkin", "end", corner, goal)
        rounds(view, 1, 1.5)
        start = view.cloth.poses["ball"][:3, 3].copy()
        drag(view, "ball", "start", start, start)
        drag(view, "ball", "update", start, start + [0.0, 0.0, 0.3])
        rounds(view, 20, 2.0)
        np.testing.assert_allclose(view._colliders["ball"][0].position, start + [0.0, 0.0, 0.3], atol=1e-6)
        assert view.cloth.positions[:, 2].max() > 0.1 and len(view.cloth.held) == 0
        front, _ = view._cloths["napkin"]
        np.testing.assert_allclose(front.vertices, view.cloth.positions, atol=1e-6)
        view.panel.record(reset=True, changed=True, stretch=10.0)
        view.step(5.0)
        assert view.cloth.time <= view.dt


def test_motions_of_the_scene_go_on_until_they_are_switched_off():
    with playing() as view:
        rounds(view, 4)
        turned = view.cloth.poses["top"].copy()
        assert np.abs(turned[:3, :3] - np.eye(3)).max() > 0.1
        view.panel.record(motions=False, changed=True)
        rounds(view, 4, 1.0)
        np.testing.assert_array_equal(view.cloth.poses["top"], turned)


def test_sliders_change_stiffness_friction_and_wind():
    with playing() as view:
        rounds(view, 2)
        soft = view.cloth.solver.fabric.arrays[0].compliances.numpy().copy()
        view.panel.record(stretch=10.0, friction=0.0, wind=(0.0, 0.0, 8.0), changed=True)
        view.step(1.0)
        np.testing.assert_allclose(view.cloth.solver.fabric.arrays[0].compliances.numpy(), soft / 10.0)
        assert view.cloth.solver.settings["friction"][0] == 0.0
        rounds(view, 20, 2.0)
        assert view.cloth.positions[:, 2].max() > 0.05


@pytest.mark.parametrize("method", ["predictive", "guarded"])
def test_method_material_gravity_and_pins_are_changed_while_it_goes_on(method):
    with playing(hanging().replace(method=method)) as view:
        rounds(view, 4)
        before, time = view.cloth.positions.copy(), view.cloth.time
        other = "guarded" if method == "predictive" else "predictive"
        view.panel.record(method=other, material="silk", changed=True)
        view.panel.toggle()
        view.step(1.0)
        view.step(1.0 + SETTLING)
        assert view.scene.method.name == other and view.cloth.scene.cloths[0].material.preset == "silk"
        # it goes on from where it was
        np.testing.assert_allclose(view.cloth.positions, before, atol=1e-12)
        assert view.cloth.time == pytest.approx(time)
        view.panel.toggle()
        view.panel.record(gravity=0.0, cut=True, changed=True)
        view.step(2.0)
        view.step(2.0 + SETTLING)
        assert np.linalg.norm(view.cloth.scene.forces.gravity) == 0.0 and view.cloth.scene.cloths[0].pins == ()
        view.panel.record(gravity=9.81, changed=True)
        rounds(view, 30, 3.0)
        rounds(view, 10, 5.0)
        # without pins it falls, all of it
        assert view.cloth.positions[:, 1].max() < before[:, 1].max() - 0.05
        view.panel.record(reset=True)
        view.step(9.0)
        assert view.cloth.scene.cloths[0].pins != () and view.cloth.time <= view.dt * 1.001


def test_a_method_that_cannot_play_the_scene_says_so_and_the_old_one_goes_on():
    scene = hanging()
    with playing(scene.replace(cloths=[weft.Cloth(name="napkin", mesh=ROUND)])) as view:
        view.panel.record(method="boxes", changed=True)
        view.step(1.0)
        view.step(1.0 + SETTLING)
        assert view.scene.method.name == "predictive"
        view._show(True)
        assert "grid" in view.panel.words.content


def test_poses_are_sent_as_quaternions():
    rng = np.random.default_rng(3)
    for _ in range(50):
        q = rng.normal(size=4)
        q /= np.linalg.norm(q)
        w, x, y, z = q
        turn = np.array(
            [
                [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
                [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
                [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
            ]
        )
        found = quaternion_of(turn)
        np.testing.assert_allclose(found * np.sign(found @ q), q, atol=1e-12)


def test_the_server_is_for_this_machine_only():
    with playing() as view:
        assert view.url.startswith("http://127.0.0.1:")
        assert view._server.get_host() == "127.0.0.1"


def test_without_viser_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(MissingExtraError, match=r"viser.*weft-cloth\[view\]"):
        LiveView(hanging())


def test_the_command_says_what_is_wrong_with_a_scene(tmp_path):
    result = CliRunner().invoke(app, ["play", str(tmp_path / "none.toml")])
    assert result.exit_code == 1
    assert "none.toml" in result.output + getattr(result, "stderr", "")


def until(what, *, patience=60.0):
    """Ask again until the answer is true; software rendering takes its time."""
    end = time.monotonic() + patience
    while time.monotonic() < end:
        answer = what()
        if answer is not None:
            return answer
        time.sleep(0.2)
    raise AssertionError("the browser did not do it in time")


@contextmanager
def serving(view):
    """Run the loop beside the test."""
    done = threading.Event()

    def loop():
        while not done.is_set():
            view.step(time.monotonic())
            time.sleep(0.01)

    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


@pytest.mark.browser
@pytest.mark.skipif(not CHROMIUM.exists(), reason="needs Chromium: apt-get install chromium")
def test_chromium_drags_the_cloth_pauses_and_resets():
    playwright = pytest.importorskip("playwright.sync_api")
    from PIL import Image

    with playing() as view, serving(view), playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        page = browser.new_page(viewport={"width": 900, "height": 600})
        failures = []
        page.on("pageerror", lambda error: failures.append(str(error)))
        page.goto(view.url)
        page.wait_for_selector("canvas", timeout=60_000)

        def cloth():
            shot = np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB")).astype(int)[:, :550]
            blue = (shot[..., 2] > shot[..., 0] + 40) & (shot[..., 2] > 90)
            return blue if blue.mean() > 0.02 else None

        # take hold of the cloth near the middle of what is blue, and pull
        rows, columns = np.nonzero(until(cloth))
        x, y = float(np.median(columns)), float(np.percentile(rows, 80))
        pinned = len(view.cloth.held)

        def pull():
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + 40, y - 30, steps=4)
            page.mouse.move(x + 80, y - 60, steps=4)
            time.sleep(0.3)
            if len(view.cloth.held) > pinned:
                return True
            page.mouse.up()
            return None

        until(pull)
        vertex = view._vertex
        before = view.cloth.positions[vertex].copy()
        page.mouse.move(x + 140, y - 110, steps=6)
        until(lambda: True if np.linalg.norm(view.cloth.positions[vertex] - before) > 0.03 else None)
        page.mouse.up()
        until(lambda: True if len(view.cloth.held) == pinned else None)

        # pause, and go back to the start
        page.get_by_role("button", name="Pause", exact=True).click()
        until(lambda: True if view.panel.pause.label == "Go on" else None)
        page.get_by_role("button", name="Reset", exact=True).click()
        until(lambda: True if view.cloth.time == 0.0 else None)
        page.get_by_role("button", name="Go on", exact=True).click()
        until(lambda: True if view.cloth.time > 0.0 else None)

        # a slider: type into its field
        entry = page.get_by_text("stretch, times").locator("xpath=../../..").locator("input[inputmode]")
        entry.fill("1")
        entry.press("Enter")
        until(lambda: True if view.panel.stretch.value == 1.0 else None)
        until(lambda: True if view.cloth._stiffness[0] == pytest.approx(10.0) else None)
        assert failures == []
        browser.close()
