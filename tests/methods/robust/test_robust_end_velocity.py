"""`robust` with the implicit velocity at the end of steps: free fall, friction, rest, energy, resuming, threads."""

import numpy as np
import pytest

import weft
from weft.dynamics.springs import from_world
from weft.errors import SceneError
from weft.geometry.intersection import IntersectionFinder
from weft.methods import make_method
from weft.runtime import get_threads, set_threads
from weft.scene import Robust
from weft.world import World

GRAVITY = 9.81
FLOOR = weft.Collider(name="floor", shape=weft.Plane(size=(2.0, 2.0)), friction=0.5)


def method(end_velocity="implicit", **options):
    return Robust(end_velocity=end_velocity, **options)


def sheet(size, cells, height, **options):
    turn = options.pop("rotation_deg", (0.0, 0.0, 0.0))
    placement = weft.Placement(position=(0.0, height, 0.0), rotation_deg=turn)
    return weft.Cloth(shape=weft.Grid(size=(size, size), cells=(cells, cells)), placement=placement, **options)


class Run:
    """A scene in motion, frame by frame."""

    def __init__(self, scene):
        self.world = World(scene)
        self.method = make_method(self.world, scene.method)
        self.state = self.world.initial_state()
        self.count = self.world.cloth_vertex_count
        surface = self.world.surface
        bodies = {"face_body": surface.face_body.numpy(), "body_pairs": surface.body_pairs.numpy()}
        self._finder = IntersectionFinder(self.world.faces, **bodies)

    def frame(self):
        """One frame, which must be free; gives the positions of the cloth."""
        row = self.method.advance_frame(self.state)
        x = self.state.positions()
        assert row["status"] == "ok" and len(self._finder.find(x)) == 0
        return x[: self.count], row


@pytest.mark.parametrize("dynamics", ["position_based", "mass_spring", "implicit"])
def test_where_nothing_touches_the_option_changes_no_byte(dynamics):
    """Free fall of cloth that flutters, far above a floor."""
    ends = []
    for end_velocity in ("carried", "implicit"):
        cloth = sheet(0.2, 6, 1.5, rotation_deg=(30.0, 10.0, 5.0), velocity=(0.3, 0.0, 0.0))
        run = Run(weft.Scene(method=method(end_velocity, dynamics=dynamics), cloths=[cloth], colliders=[FLOOR]))
        x = run.state.positions()
        x[: run.count] += np.random.default_rng(0).normal(scale=1e-3, size=(run.count, 3))
        run.state.x.assign(x)
        assert sum(run.frame()[1]["contacts"] for _ in range(6)) == 0
        ends.append((run.state.positions().tobytes(), run.state.velocities().tobytes()))
    assert ends[0] == ends[1]


@pytest.mark.parametrize("dynamics", ["position_based", "mass_spring", "implicit"])
def test_cloth_that_hangs_beside_a_contact_falls_as_fast_as_it_should(dynamics):
    """The half step is as long as the dynamics leave it: what touches elsewhere adds no gravity, and takes none."""
    resting, falling = sheet(0.1, 3, 0.001, name="resting"), sheet(0.2, 4, 1.0, name="falling")
    run = Run(weft.Scene(method=method(dynamics=dynamics), cloths=[resting, falling], colliders=[FLOOR]))
    speeds = []
    for _ in range(12):
        _, row = run.frame()
        assert row["contacts"] > 0
        speeds.append(run.state.velocities()[16 : run.count, 1])
    assert np.diff(speeds, axis=0) == pytest.approx(-GRAVITY / 60.0, rel=1e-6)


def on_a_slope(angle_deg, mu, dynamics):
    """How far a sheet slides down a slope, frame by frame."""
    a = np.radians(angle_deg)
    rough = weft.Material(friction=mu)
    scene = weft.Scene(
        forces=weft.Forces(gravity=(GRAVITY * np.sin(a), -GRAVITY * np.cos(a), 0.0)),
        method=method(dynamics=dynamics),
        cloths=[sheet(0.2, 4, 0.001, material=rough)],
        colliders=[FLOOR.model_copy(update={"friction": mu, "friction_kinetic": mu})],
    )
    run = Run(scene)
    return np.array([run.frame()[0][:, 0].mean() for _ in range(25)])


@pytest.mark.parametrize("dynamics", ["position_based", "mass_spring"])
@pytest.mark.parametrize("mu", [0.2, 0.8])
def test_friction_is_as_true_as_with_carried_velocities(dynamics, mu):
    angle = np.degrees(np.arctan(mu))
    held = on_a_slope(angle - 1.0, mu, dynamics)
    assert abs(held[-1] - held[4]) < 1e-9
    slid = on_a_slope(angle + 2.0, mu, dynamics)
    a = np.radians(angle + 2.0)
    found = 2.0 * np.polyfit(np.arange(1, 26)[5:] / 60.0, slid[5:], 2)[0]
    assert found == pytest.approx(GRAVITY * (np.sin(a) - mu * np.cos(a)), rel=1e-6)


@pytest.mark.parametrize("dynamics", ["position_based", "mass_spring"])
def test_cloth_dropped_on_a_table_comes_to_rest(dynamics):
    """After two thirds of a second it lies there, still but for rounding, as with carried velocities."""
    table = weft.Collider(
        name="table", shape=weft.Box(size=(0.5, 0.02, 0.5)), placement=weft.Placement(position=(0.0, -0.01, 0.0))
    )
    cloth = sheet(0.3, 10, 0.04, rotation_deg=(8.0, 20.0, 3.0))
    run = Run(weft.Scene(method=method(dynamics=dynamics), cloths=[cloth], colliders=[table]))
    for _ in range(40):
        before, _ = run.frame()
    after, row = run.frame()
    assert np.linalg.norm(after - before, axis=1).max() * 60.0 < 1e-9
    assert row["zones"] == 0 and row["stretch"] < 0.01
    assert after[:, 1] == pytest.approx(run.world.scene.thickness, rel=1e-6)


def energy(network, mass, x, v):
    """Of motion, of all springs, and of height."""
    lengths = np.linalg.norm(x[network.pairs[:, 1]] - x[network.pairs[:, 0]], axis=1)
    bends = np.linalg.norm(np.einsum("hk,hkd->hd", network.weights, x[network.quads]), axis=1)
    stored = (
        network.stiffness @ (lengths - network.rest) ** 2 + network.quad_stiffness @ (bends - network.quad_rest) ** 2
    )
    return 0.5 * (stored + mass @ (v**2).sum(axis=1)) + GRAVITY * (mass @ x[:, 1])


@pytest.mark.parametrize(("dynamics", "damping"), [("position_based", 0.0), ("mass_spring", 1e-4)])
def test_a_sheet_that_oscillates_in_contact_gains_no_energy(dynamics, damping):
    """It lies on a smooth floor, pulled one way and pushed the other, and is let go."""
    smooth = weft.Material(friction=0.0, damping=damping)
    scene = weft.Scene(
        method=method(dynamics=dynamics),
        cloths=[sheet(0.3, 10, 0.001, material=smooth)],
        colliders=[FLOOR.model_copy(update={"friction": 0.0, "friction_kinetic": 0.0})],
    )
    run = Run(scene)
    x = run.state.positions()
    x[: run.count] *= np.array([1.05, 1.0, 0.98])
    run.state.x.assign(x)
    network, mass = from_world(run.world), run.world.mass[: run.count]
    level = GRAVITY * mass.sum() * 0.001
    found = [energy(network, mass, x[: run.count], 0.0 * x[: run.count]) - level]
    for _ in range(40):
        x, row = run.frame()
        assert row["contacts"] > 0
        found.append(energy(network, mass, x, run.state.velocities()[: run.count]) - level)
    # what a frame may gain is the motion that gravity gives in a half step, which the floor takes again
    assert (np.diff(found) < mass.sum() * (GRAVITY / 720.0) ** 2).all()
    assert found[-1] < 1e-3 * found[0]


def tumbling():
    return weft.Scene(
        frames=10,
        method=method(),
        cloths=[
            sheet(0.3, 9, 0.12, name="one", rotation_deg=(20.0, 10.0, 5.0), velocity=(0.0, -1.0, 0.0)),
            sheet(0.2, 7, 0.25, name="two", velocity=(0.0, -3.0, 0.0)),
        ],
        colliders=[
            weft.Collider(name="ball", shape=weft.Sphere(radius=0.06, subdivisions=2), motion=weft.Spin(rate_deg=200.0))
        ],
    )


def test_threads_do_not_change_a_byte():
    results, threads = [], get_threads()
    try:
        for count in (1, 2):
            set_threads(count)
            run = Run(tumbling())
            contacts = sum(run.frame()[1]["contacts"] for _ in range(10))
            results.append((run.state.positions().tobytes(), run.state.velocities().tobytes(), contacts))
    finally:
        set_threads(threads)
    assert results[0] == results[1] and results[0][2] > 0


def test_a_run_that_is_resumed_gives_the_same_bytes(tmp_path):
    scene = tumbling()
    whole = weft.simulate(scene, tmp_path / "whole.zarr", progress=False)
    weft.simulate(scene, tmp_path / "parts.zarr", progress=False, frames=7)
    parts = weft.simulate(scene, tmp_path / "parts.zarr", progress=False, resume=True)
    assert whole.positions(10).tobytes() == parts.positions(10).tobytes()
    assert whole.velocities(10).tobytes() == parts.velocities(10).tobytes()


def test_the_option_in_a_scene_file(tmp_path):
    scene = weft.Scene(method=method(), cloths=[sheet(0.2, 4, 0.5)])
    weft.save_scene(scene, tmp_path / "scene.toml")
    text = (tmp_path / "scene.toml").read_text()
    assert 'end_velocity = "implicit"' in text
    assert weft.load_scene(tmp_path / "scene.toml") == scene
    # the default is not written
    usual = weft.Scene(method=method("carried"), cloths=[sheet(0.2, 4, 0.5)])
    weft.save_scene(usual, tmp_path / "usual.toml")
    assert "end_velocity" not in (tmp_path / "usual.toml").read_text()


def test_a_wrong_choice_is_told_in_one_line(tmp_path):
    path = tmp_path / "scene.toml"
    path.write_text('method = {name = "robust", end_velocity = "implict"}\n')
    with pytest.raises(SceneError) as told:
        weft.load_scene(path)
    expected = "method.end_velocity: must be one of carried, implicit, not 'implict'; did you mean 'implicit'?"
    assert str(told.value).count("\n") == 0 and expected in str(told.value)
