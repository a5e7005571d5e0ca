"""`weft.Simulation`: step by step the same bytes as `simulate`, in every method; held vertices, steered bodies, forces."""

import copy
import pickle

import numpy as np
import pytest
import warp as wp

import weft
from weft.errors import WeftError

METHODS = {
    "plain": weft.methods.Plain(),
    "robust": weft.methods.Robust(steps=2),
    "guarded": weft.methods.Guarded(steps=2),
    "untangle": weft.methods.Untangle(steps=2),
    "predictive": weft.methods.Predictive(steps=2),
    "boxes": weft.methods.Boxes(),
    "push": weft.methods.Push(),
}
GRAVITY = 9.81


def drape(method="robust", **changes):
    """A small sheet just above a ball, held at one corner."""
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.2, 0.2), cells=(6, 6)),
        material=weft.Material(stretch=50.0, damping=0.01),
        pins=[weft.Pin(indices=[0])],
    )
    ball = weft.Collider(
        name="ball",
        shape=weft.Sphere(radius=0.06, subdivisions=2),
        placement=weft.Placement(position=(0.0, -0.064, 0.0)),
    )
    settings = {"name": "drape", "fps": 60, "frames": 4, "method": METHODS.get(method, method), "thickness": 0.002}
    return weft.Scene(**{**settings, "cloths": [sheet], "colliders": [ball], **changes})


def falling(**changes):
    """A sheet alone in the air."""
    return drape(colliders=[], cloths=[drape().cloths[0].replace(pins=[])], **changes)


@pytest.mark.parametrize("method", METHODS)
def test_steps_saving_and_frames_give_the_same_bytes(method, tmp_path):
    scene = drape(method)
    cache = weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    sim = weft.Simulation(scene)
    saved = None
    while sim.frame < 4:
        sim.step()
        if sim.frame == 2 and saved is None:
            # in the middle of a frame where a frame has several steps
            if sim.method.steps_a_frame() > 1:
                sim.step()
                assert sim.state.step == 1
            saved = pickle.dumps(sim.save())
    end = sim.state.positions()
    assert np.array_equal(end, cache.positions(4))
    sim.restore(pickle.loads(saved))
    other = weft.Simulation(scene)
    other.restore(pickle.loads(saved))
    for one in (sim, other):
        one.advance(4 - one.frame)
        assert one.state.positions().tobytes() == end.tobytes()
    assert sim.time == pytest.approx(4 / 60) and sim.report["frame"] == 4


@pytest.mark.parametrize("method", METHODS)
def test_a_reset_is_a_new_start(method):
    sim = weft.Simulation(drape(method))
    pose = sim.bodies["ball"].pose.copy()
    pose[1, 3] += 0.004
    sim.bodies["ball"].pose = pose
    sim.pin("sheet", [48])
    sim.forces[:] = (1e-4, 0.0, 0.0)
    sim.advance(3)
    sim.reset()
    other = weft.Simulation(drape(method))
    for one in (sim, other):
        one.advance(2)
    assert sim.state.positions().tobytes() == other.state.positions().tobytes() and sim.frame == 2


def test_views_are_the_arrays_of_the_simulation():
    sim = weft.Simulation(falling())
    x, v = sim.positions, sim.velocities
    start = x.copy()
    v[:] = (1.0, 0.0, 0.0)
    sim.advance()
    assert x is sim.positions and np.shares_memory(x, sim.state.x.numpy())
    assert np.allclose((x - start)[:, 0], 1 / 60, atol=1e-9) and (x[:, 1] < start[:, 1]).all()
    assert np.shares_memory(sim.bodies["sheet"].positions, x)
    assert np.shares_memory(np.from_dlpack(x), x)


def test_arrays_may_be_set_as_a_whole():
    sim, other = weft.Simulation(drape()), weft.Simulation(drape())
    sim.advance(2)
    view = sim.positions
    other.positions, other.velocities = sim.positions.tolist(), sim.velocities
    assert np.array_equal(other.positions, view) and np.array_equal(other.velocities, sim.velocities)
    sim.positions = view + [0.0, 0.5, 0.0]
    # views stay those of the simulation
    assert np.array_equal(sim.positions, view) and view[:, 1].min() > 0.3
    sim.forces = np.full((49, 3), 0.25)
    assert (sim.forces == 0.25).all()


def test_torch_shares_the_arrays_and_gives_forces_targets_and_positions():
    torch = pytest.importorskip("torch")
    sim = weft.Simulation(drape())
    x, v = torch.from_dlpack(sim.positions), torch.from_numpy(sim.velocities)
    assert x.dtype == torch.float64 and x.data_ptr() == sim.positions.ctypes.data
    corner = sim.pin("sheet", [48])
    corner.target = x[48:49] + 0.01
    calls = []

    def lift(sim):
        calls.append(sim.time)
        return torch.full((49, 3), 0.001, dtype=torch.float32, requires_grad=True)

    sim.add_force(lift)
    before = x.clone()
    sim.advance(2)
    assert len(calls) == 4 and torch.equal(x, torch.from_numpy(sim.positions)) and not torch.equal(x, before)
    assert np.allclose(sim.positions[48], before[48] + 0.01)
    sim.forces = torch.ones(49, 3)
    sim.positions, sim.velocities = before, torch.zeros(49, 3)
    assert torch.equal(x, before) and (v == 0.0).all() and (sim.forces == 1.0).all()
    moved = sim.bodies["ball"].pose_now()
    sim.bodies["ball"].pose = torch.from_numpy(moved)
    assert np.array_equal(sim.bodies["ball"].pose, moved)


@pytest.mark.parametrize("method", METHODS)
def test_held_vertices_follow_their_target_and_fly_on_when_released(method):
    sim = weft.Simulation(drape(method, forces=weft.Forces(gravity=(0, 0, 0)), colliders=[]))
    # along the sheet: a single corner that is pulled far would stretch it
    corners = sim.pin("sheet", [6, 42, 48])
    other = sim.pin("sheet", np.flatnonzero(~np.isin(np.arange(49), [0, 6, 42, 48])))
    goal = corners.target + [0.0, 0.01, 0.0]
    corners.target = goal
    other.target += [0.0, 0.01, 0.0]
    sim.advance()
    assert np.allclose(sim.positions[corners.vertices], goal, atol=1e-12)
    corners.release()
    other.release()
    assert not corners.held
    with pytest.raises(WeftError, match="have been released"):
        corners.target = goal
    sim.advance()
    # at 0.6 m/s for another frame, except at the corner that the scene still pins
    moved = sim.positions[24, 1] - goal[0, 1]
    assert 0.004 < moved < 0.012
    assert np.array_equal(sim.positions[0], sim.world.rest_positions[0])


@pytest.mark.parametrize("method", METHODS)
def test_a_steered_body_pushes_the_cloth(method):
    sim = weft.Simulation(drape(method, forces=weft.Forces(gravity=(0, 0, 0))))
    ball = sim.bodies["ball"]
    pose = ball.pose.copy()
    assert np.array_equal(pose[:3, 3], (0.0, -0.064, 0.0))
    before = sim.positions[24].copy()
    for _ in range(6):
        pose[1, 3] += 0.002
        ball.pose = pose
        sim.advance()
    assert ball.positions[:, 1].max() == pytest.approx(pose[1, 3] + 0.06, abs=1e-4)
    if method == "plain":
        assert np.allclose(sim.positions[24], before)
    else:
        assert sim.positions[24, 1] > before[1] + 0.005
        assert sim.positions[24, 1] > ball.positions[:, 1].max() - 0.001


def test_a_body_goes_to_its_pose_at_constant_speed_and_stays():
    sim = weft.Simulation(drape("plain", forces=weft.Forces(gravity=(0, 0, 0))))
    ball = sim.bodies["ball"]
    turned = np.eye(4)
    turned[:3, :3] = [[0, 0, 1], [0, 1, 0], [-1, 0, 0]]
    turned[:3, 3] = (0.1, -0.3, 0.0)
    ball.pose = turned
    centres = []
    sim.on_frame(lambda s: centres.append(s.bodies["ball"].positions.mean(axis=0)))
    local = ball.positions - (0.0, -0.064, 0.0)
    sim.advance(4)
    assert np.allclose(centres, np.linspace((0.0, -0.064, 0.0), (0.1, -0.3, 0.0), 5)[1:], atol=1e-9)
    assert np.allclose(ball.positions, local @ turned[:3, :3].T + turned[:3, 3], atol=1e-12)
    sim.advance()
    assert np.array_equal(ball.velocities, np.zeros_like(ball.velocities))
    ball.pose[0, 3] += 0.05
    sim.step()
    assert ball.positions[:, 0].mean() == pytest.approx(0.15)


def test_saving_keeps_poses_and_held_vertices():
    sim = weft.Simulation(drape(forces=weft.Forces(gravity=(0, 0, 0))))
    hold = sim.pin("sheet", [48])
    hold.target = [0.1, 0.01, 0.1]
    pose = sim.bodies["ball"].pose.copy()
    pose[1, 3] -= 0.02
    sim.bodies["ball"].pose = pose
    sim.step()
    saved = sim.save()
    sim.advance(2)
    end = sim.state.positions()
    hold.release()
    sim.advance()
    sim.restore(saved)
    assert hold.held
    sim.advance(2)
    assert np.array_equal(sim.state.positions(), end)
    fresh = weft.Simulation(drape(forces=weft.Forces(gravity=(0, 0, 0))))
    fresh.restore(saved)
    fresh.advance(2)
    assert np.array_equal(fresh.state.positions(), end)


@wp.kernel
def lift(
    x: wp.array(dtype=wp.vec3d),
    v: wp.array(dtype=wp.vec3d),
    mass: wp.array(dtype=wp.float64),
    time: wp.float64,
    force: wp.array(dtype=wp.vec3d),
    strength: wp.float64,
):
    i = wp.tid()
    force[i] += wp.vec3d(wp.float64(0.0), strength * mass[i], wp.float64(0.0))


@pytest.mark.parametrize("way", ["array", "function", "kernel"])
@pytest.mark.parametrize("method", METHODS)
def test_a_force_that_balances_gravity_lets_cloth_float(method, way):
    sim = weft.Simulation(falling(method=METHODS[method]))
    start = sim.positions.copy()
    mass = sim.world.mass[:49, None]
    upwards = np.array([0.0, GRAVITY, 0.0])
    if way == "array":
        sim.forces[:] = mass * upwards
    elif way == "function":
        sim.add_force(lambda s: mass * upwards)
    else:
        sim.add_force(lift, [GRAVITY])
    sim.advance(3)
    assert np.abs(sim.velocities).max() < 1e-6
    # the rest is a small number of steps, in which the integrators of push and boxes differ
    assert np.allclose(sim.positions, start, atol=1e-5)


def test_a_force_is_given_once_to_a_step_that_is_tried_again(monkeypatch):
    sim = weft.Simulation(falling(forces=weft.Forces(gravity=(0, 0, 0))))
    advance, tries = sim.method._advance, []

    def fail_at_first(state, dt, end, *, may_halve):
        report = advance(state, dt, end, may_halve=may_halve) if tries else sim.world.begin_step(state, dt)
        tries.append(dt)
        return report

    monkeypatch.setattr(sim.method, "_advance", fail_at_first)
    sim.forces[:] = (1e-4, 0.0, 0.0)
    sim.advance(3)
    assert tries[0] == 2 * tries[1] and len(tries) > 6
    assert np.allclose(sim.velocities[:, 0], 1e-4 * sim.time / sim.world.mass[0], rtol=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_a_frame_that_crosses_is_not_ok(method):
    """Two sheets that start through each other; nothing looks at frames that nobody asks about."""
    turns = ("one", (0.0, 0.0, 0.0)), ("other", (70.0, 0.0, 0.0))
    grid = weft.Grid(size=(0.2, 0.2), cells=(5, 5))
    cloths = [weft.Cloth(name=name, shape=grid, placement=weft.Placement(rotation_deg=turn)) for name, turn in turns]
    sim = weft.Simulation(weft.Scene(frames=3, cloths=cloths, method=method))
    assert sim.report == {}
    sim.advance()
    assert sim.report["intersections"] > 0 and "edges pass through triangles" in sim.report["status"]
    sim.advance()
    sim.step()
    whole = sim.method.steps_a_frame() == 1
    assert sim.report["frame"] == 2 + whole and (sim.report["intersections"] == -1) == (not whole)


def test_how_often_a_simulation_looks_for_intersections_is_said_by_the_scene():
    sim = weft.Simulation(drape().replace(check=2))
    found = []
    for _ in range(4):
        sim.advance()
        found.append(sim.report["intersections"])
    assert found == [-1, 0, -1, 0]


def test_cloth_that_is_drawn_out_without_limit_is_not_ok():
    sim = weft.Simulation(weft.Scene(cloths=[weft.Cloth(shape=weft.Grid(size=(0.1, 0.1), cells=(2, 2)))]))
    sim.pin("cloth", [0])
    sim.pin("cloth", [8]).target = np.array([[3.0, 0.0, 0.0]])
    sim.advance()
    assert "times as long as at rest" in sim.report["status"]


def test_callbacks_come_after_every_step_and_frame():
    sim = weft.Simulation(falling(method=METHODS["robust"]))
    seen = []
    sim.on_step(lambda s: seen.append("step"))

    @sim.on_frame
    def tell(s):
        seen.append(s.frame)

    sim.advance()
    sim.step()
    sim.advance()
    assert seen == ["step", "step", 1, "step", "step", 2] and callable(tell)


def test_a_run_can_be_prepared(tmp_path):
    def push(sim):
        sim.forces[:] = (1e-4, 0.0, 0.0)
        sim.on_step(lambda s: steps.append(s.time))

    steps = []
    scene = falling(method=METHODS["robust"])
    cache = weft.simulate(scene, tmp_path / "a.zarr", prepare=push, progress=False)
    sim = weft.Simulation(scene)
    push(sim)
    sim.advance(4)
    assert np.array_equal(cache.positions(-1), sim.state.positions()) and len(steps) == 16
    with pytest.raises(WeftError, match="cannot be resumed: the cache does not keep what prepare does"):
        weft.simulate(scene, tmp_path / "a.zarr", prepare=push, resume=True, progress=False)


def test_the_device_and_the_method_can_be_chosen_and_are_never_changed_silently():
    assert weft.Simulation(drape("untangle")).method.name == "untangle"
    assert weft.Simulation(drape("untangle"), method="plain").method.name == "plain"
    assert "2 steps" not in repr(weft.Simulation(drape())) and "robust" in repr(weft.Simulation(drape()))
    assert weft.MATERIALS["silk"].density > 0.0


def test_vertices_are_chosen_by_truth_values_too():
    sim = weft.Simulation(drape())
    low = sim.positions[:, 0] < 0.0
    assert sim.pin("sheet", low).vertices.tolist() == np.flatnonzero(low).tolist()


def test_mistakes_are_told():
    sim = weft.Simulation(drape("plain"))
    bad = np.eye(4)
    bad[0, 0] = 2.0
    cases = [
        (lambda: weft.Simulation({"cloth": []}), "a scene is a weft.Scene or the name of a TOML file, not a dict"),
        (lambda: sim.pin("sheat", [0]), "did you mean 'sheet'"),
        (lambda: sim.pin("sheet", [49]), "has no vertex 49: its 49 vertices are 0 to 48"),
        (lambda: sim.pin("sheet", [1, 1]), "twice"),
        (
            lambda: sim.pin("sheet", [0.5]),
            r"of cloth 'sheet' are numbers, such as \[0, 20\], or 49 truth values, not \[0.5\]",
        ),
        (lambda: sim.pin("sheet", np.ones(48, bool)), "or 49 truth values, not a ndarray"),
        (lambda: sim.pin("sheet", np.zeros(49, bool)), "not empty"),
        (lambda: sim.on_step(3), "a callback is a function of the simulation, not 3"),
        (lambda: sim.on_frame(None), "a callback is a function of the simulation, not nothing"),
        (lambda: setattr(sim.pin("sheet", [1, 2]), "target", [0.0, 0.0, 0.0]), r"is an array \(2, 3\), not \(3,\)"),
        (lambda: setattr(sim.bodies["ball"], "pose", bad), "the pose of 'ball' is not rigid"),
        (lambda: setattr(sim.bodies["ball"], "pose", np.eye(3)), "is a 4x4 matrix"),
        (lambda: sim.bodies["sheet"].pose, "is a cloth and has no pose"),
        (lambda: sim.advance(0), "advances by at least one whole frame, not 0"),
        (lambda: sim.advance(1.5), "at least one whole frame, not 1.5"),
        (lambda: sim.advance("2"), "at least one whole frame, not '2'"),
        (lambda: sim.bodies["bal"], "no body is called 'bal', did you mean 'ball'?"),
        (lambda: weft.Simulation(drape(), worlds=2.5), "at least one world, not 2.5"),
        (lambda: setattr(sim, "forces", np.zeros((3, 3))), r"the forces are an array \(49, 3\), not \(3, 3\)"),
        (lambda: setattr(sim, "positions", [[np.nan] * 3] * 49), "the positions are not finite, first in row 0"),
        (
            lambda: setattr(sim.pin("sheet", [1]), "target", "up"),
            "the target of held vertices must be numbers, not 'up'",
        ),
        (lambda: copy.deepcopy(sim), r"does not pickle, and is not copied: what save\(\) gives does"),
        (lambda: pickle.dumps(sim), "does not pickle"),
        (lambda: sim.add_force(lift), "takes x, v, mass, time, force and 0 inputs, and has 6 parameters"),
        (lambda: sim.restore({}), "restore needs what save gave, not dict"),
        (lambda: sim.restore(weft.Simulation(drape("untangle")).save()), "another scene or another method"),
        (lambda: sim.add_force(3.0), "a function of the simulation or a Warp kernel, not float"),
    ]
    for act, message in cases:
        with pytest.raises(WeftError, match=message):
            act()
    sim.add_force(lambda s: np.zeros(3))
    with pytest.raises(WeftError, match=r"gave an array \(3,\); it must give \(49, 3\) finite numbers"):
        sim.step()


def test_nonsense_is_named():
    sim = weft.Simulation(falling(method="plain"))
    sim.velocities[3] = np.nan
    with pytest.raises(WeftError, match=r"frame 1: the position of vertex 0 of cloth 'sheet'.*unstable\. Smaller"):
        sim.advance()
