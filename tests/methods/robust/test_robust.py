"""`robust`: true friction, rest, fast impacts, free fall, other dynamics, resuming, threads."""

import numpy as np
import pytest

import weft
from weft.geometry.intersection import IntersectionFinder
from weft.methods import make_method
from weft.methods.robust import collision_rounds
from weft.runtime import get_threads, set_threads
from weft.scene import Robust
from weft.validate.contact import creep
from weft.world import World

GRAVITY = 9.81
COEFFICIENTS = (0.1, 0.25, 0.5, 0.75, 1.0)


class Run:
    """A scene in motion, its frames checked for intersections as they come."""

    def __init__(self, scene):
        self.world = World(scene)
        self.method = make_method(self.world, scene.method)
        self.state = self.world.initial_state()
        self.cloth = slice(0, self.world.cloth_vertex_count)
        surface = self.world.surface
        bodies = surface.face_body.numpy(), surface.body_pairs.numpy()
        self._finder = IntersectionFinder(self.world.faces, face_body=bodies[0], body_pairs=bodies[1])

    def frames(self, count):
        """Positions of the cloth and the report of each frame."""
        for _ in range(count):
            row = self.method.advance_frame(self.state)
            x = self.state.positions()
            assert len(self._finder.find(x)) == 0, f"frame {self.state.frame} has intersections"
            yield x[self.cloth], row


def grid(name="cloth", *, size=0.2, cells=4, position=(0.0, 0.001, 0.0), **options):
    placement = weft.Placement(position=position, rotation_deg=options.pop("rotation_deg", (0.0, 0.0, 0.0)))
    options.setdefault("material", weft.Material(friction=0.5))
    return weft.Cloth(
        name=name, shape=weft.Grid(size=(size, size), cells=(cells, cells)), placement=placement, **options
    )


def tilted(angle_deg):
    """Gravity as on a plane that slopes down along x by this angle, which lies flat."""
    a = np.radians(angle_deg)
    return weft.Forces(gravity=(GRAVITY * np.sin(a), -GRAVITY * np.cos(a), 0.0))


def on_a_plane(angle_deg, static, kinetic=None, method="robust"):
    """A small sheet that lies on a slope."""
    kinetic = static if kinetic is None else kinetic
    rub = {"friction": static, "friction_kinetic": kinetic}
    return weft.Scene(
        forces=tilted(angle_deg),
        method=method,
        cloths=[grid(material=weft.Material(**rub))],
        colliders=[weft.Collider(name="slope", shape=weft.Plane(size=(9.0, 9.0), cells=(3, 3)), **rub)],
    )


def slide(scene, frames=30, cloth=slice(None)):
    """Where the mean of some vertices is along the slope, frame by frame."""
    return np.array([x[cloth, 0].mean() for x, _ in Run(scene).frames(frames)])


def acceleration(way, skip=5):
    t = np.arange(1, len(way) + 1) / 60.0
    return 2.0 * np.polyfit(t[skip:], way[skip:], 2)[0]


def expected(angle_deg, kinetic):
    a = np.radians(angle_deg)
    return GRAVITY * (np.sin(a) - kinetic * np.cos(a))


@pytest.mark.parametrize("mu", COEFFICIENTS)
def test_cloth_stays_on_a_slope_below_the_angle_of_friction(mu):
    way = slide(on_a_plane(np.degrees(np.arctan(mu)) - 1.0, mu))
    assert abs(way[-1] - way[4]) < 1e-6


def test_layers_on_a_slope_hardly_creep():
    """At a third of the slope that they could lie on; sliding that counts from substep to substep lets them go by 1.7 mm."""
    layers = [grid(f"layer {k}", position=(0.0, 0.0012 * (k + 1), 0.0)) for k in range(3)]
    scene = on_a_plane(10.0, 0.5).replace(cloths=layers, thickness=0.001)
    ways = [x[:, 0].reshape(3, -1).mean(axis=1) for x, _ in Run(scene).frames(90)]
    assert np.abs(ways[-1] - ways[-31]).max() < 1e-5


@pytest.mark.parametrize("name", ["robust", "guarded"])
def test_a_pile_of_five_stays_on_its_slope(name):
    """It creeps by 3 mm/s if the sweeps after the dynamics do not know what load each contact bears."""
    assert creep(name, 6, 5, 0.488, np.radians(15.0)) < 0.03


@pytest.mark.parametrize("mu", COEFFICIENTS)
@pytest.mark.parametrize("more", [1.0, 10.0])
def test_cloth_slides_above_the_angle_of_friction_as_fast_as_it_should(mu, more):
    angle = np.degrees(np.arctan(mu)) + more
    assert acceleration(slide(on_a_plane(angle, mu))) == pytest.approx(expected(angle, mu), rel=0.05)


@pytest.mark.parametrize(("static", "kinetic"), [(0.6, 0.3), (1.0, 0.8)])
def test_static_and_kinetic_friction_differ(static, kinetic):
    """It holds up to the static angle; once it slides, kinetic friction alone slows it."""
    angle = np.degrees(np.arctan(static))
    held = slide(on_a_plane(angle - 1.0, static, kinetic))
    assert abs(held[-1] - held[4]) < 1e-6
    slid = slide(on_a_plane(angle + 1.0, static, kinetic))
    assert acceleration(slid) == pytest.approx(expected(angle + 1.0, kinetic), rel=0.05)


def test_cloth_that_slides_in_the_substeps_is_not_stopped_after_them(tmp_path):
    """A tight sleeve with edges 40 % too long here, too short there: tension beats friction, whatever the load.

    Static friction of the load would stop the way of a step, with no spring left that pulls; edges then stay 30 % too long.
    """
    tube = weft.mesh.shapes.cylinder(0.1, 0.3, segments=24, rings=24)
    rest = tube.vertices - tube.vertices.mean(axis=0)
    height = rest[:, 1]
    assert np.ptp(height) == pytest.approx(0.3)
    start = rest * [1.04, 1.0, 1.04] + [0.0, 1.0, 0.0] * (0.0072 * np.sin(20.0 * np.pi * height))[:, None]
    np.savez(tmp_path / "rest.npz", vertices=rest, faces=tube.faces)
    np.savez(tmp_path / "start.npz", vertices=start, faces=tube.faces)
    rubs = {"friction": 1.0, "friction_kinetic": 0.8}
    files = {"mesh": str(tmp_path / "rest.npz"), "start": str(tmp_path / "start.npz")}
    scene = weft.Scene(
        method="robust",
        cloths=[weft.Cloth(**files, material=weft.Material(**rubs))],
        colliders=[weft.Collider(shape=weft.Capsule(radius=0.103, length=0.6, segments=48), **rubs)],
        forces=weft.Forces(gravity=(0.0, 0.0, 0.0)),
    )
    rows = [row for _, row in Run(scene).frames(4)]
    assert all(row["contacts"] > 1000 for row in rows)
    assert rows[-1]["stretch"] < 0.1


def test_a_plane_that_is_really_tilted():
    """The same with a turned plane and gravity straight down: nothing depends on the axes."""
    mu, angle = 0.5, 30.0
    a = np.radians(angle)
    down, up = np.array([np.cos(a), -np.sin(a), 0.0]), np.array([np.sin(a), np.cos(a), 0.0])
    turn = (0.0, 0.0, -angle)
    scene = weft.Scene(
        method="robust",
        cloths=[grid(position=tuple(0.001 * up), rotation_deg=turn)],
        colliders=[
            weft.Collider(
                name="slope",
                shape=weft.Plane(size=(9.0, 9.0), cells=(3, 3)),
                placement=weft.Placement(rotation_deg=turn),
                friction=mu,
            )
        ],
    )
    way = np.array([x.mean(axis=0) @ down for x, _ in Run(scene).frames(30)])
    assert acceleration(way) == pytest.approx(expected(angle, mu), rel=0.05)


def on_a_cloth(angle_deg, mu):
    """A small sheet on a larger one of other triangles, which is held at every vertex."""
    rough = weft.Material(friction=mu)
    scene = weft.Scene(
        forces=tilted(angle_deg),
        method="robust",
        cloths=[
            grid("lower", size=1.2, cells=17, material=rough, pins=[weft.Pin(indices=list(range(18 * 18)))]),
            grid("upper", size=0.2, position=(-0.3, 0.002, 0.0), material=rough),
        ],
    )
    return slide(scene, cloth=slice(18 * 18, None))


@pytest.mark.parametrize("mu", [0.1, 0.4, 0.7, 1.0])
def test_cloth_on_cloth_rubs_as_cloth_on_a_plane(mu):
    angle = np.degrees(np.arctan(mu))
    held = on_a_cloth(angle - 1.0, mu)
    assert abs(held[-1] - held[4]) < 1e-6
    for more in (1.0, 15.0):
        slid = on_a_cloth(angle + more, mu)
        assert acceleration(slid) == pytest.approx(expected(angle + more, mu), rel=0.05)


def test_cloth_slides_over_borders_of_triangles_however_fast():
    """At 2 m/s it moves by four times its thickness a step; nothing must hook it."""
    rough = weft.Material(friction=0.5)
    plane = weft.Plane(size=(3.0, 3.0), cells=(31, 31))
    scene = weft.Scene(
        forces=tilted(45.0),
        method="robust",
        cloths=[grid(size=0.2, position=(-1.0, 0.001, 0.0), velocity=(2.0, 0.0, 0.0), material=rough)],
        colliders=[weft.Collider(name="slope", shape=plane, friction=0.5)],
    )
    assert acceleration(slide(scene)) == pytest.approx(expected(45.0, 0.5), rel=0.02)


@pytest.mark.parametrize("dynamics", ["position_based", "mass_spring"])
def test_free_fall(dynamics):
    """Velocities lead positions by a substep at first; after a quarter of a second that is less than 1 %."""
    scene = weft.Scene(method=Robust(dynamics=dynamics), cloths=[grid(position=(0.0, 0.0, 0.0))])
    for k, (x, _) in enumerate(Run(scene).frames(24), start=1):
        if k >= 15:
            assert x[:, 1] == pytest.approx(-0.5 * GRAVITY * (k / 60.0) ** 2, rel=0.01)


def test_free_fall_of_implicit_dynamics():
    """They have no substeps: velocities lead by a whole step."""
    method = Robust(dynamics="implicit")
    scene = weft.Scene(method=method, cloths=[grid(position=(0.0, 0.0, 0.0))])
    step = 1.0 / (60.0 * method.steps)
    for k, (x, _) in enumerate(Run(scene).frames(24), start=1):
        t = k / 60.0
        assert x[:, 1] == pytest.approx(-0.5 * GRAVITY * t * (t + step), rel=1e-6)


@pytest.mark.parametrize("dynamics", ["position_based", "mass_spring", "implicit"])
def test_every_dynamics_drapes_over_a_ball_without_intersections(dynamics):
    scene = weft.Scene(
        method=Robust(dynamics=dynamics),
        cloths=[grid(size=0.5, cells=12, position=(0.0, 0.11, 0.0))],
        colliders=[weft.Collider(name="ball", shape=weft.Sphere(radius=0.1, subdivisions=2))],
    )
    run = Run(scene)
    for x, row in run.frames(30):  # noqa: B007
        assert row["status"] == "ok"
    assert row["contacts"] > 0
    # it hangs over the ball
    assert 0.1 < x[:, 1].max() < 0.12 and x[:, 1].min() < 0.0
    assert np.linalg.norm(x, axis=1).min() > 0.098


@pytest.mark.parametrize("seed", [0, 1])
def test_sheets_thrown_at_each_other_at_100_m_a_second_do_not_cross(seed):
    """A frame would take each of them 0.8 m through the other."""
    rng = np.random.default_rng(seed)
    turn = tuple(rng.uniform(-5.0, 5.0, 3))
    scene = weft.Scene(
        method="robust",
        forces=weft.Forces(gravity=(0.0, 0.0, 0.0)),
        cloths=[
            grid("left", size=0.3, cells=8, position=(0.0, 0.0, 0.0), velocity=(0.0, 50.0, 0.0)),
            grid(
                "right", size=0.3, cells=8, position=(0.02, 0.05, 0.01), rotation_deg=turn, velocity=(0.0, -50.0, 0.0)
            ),
        ],
    )
    run = Run(scene)
    half = 81
    masses = run.world.mass[: 2 * half]
    for x, row in run.frames(4):  # noqa: B007
        assert row["status"] == "ok"
        momentum = (masses[:, None] * run.state.velocities()[: 2 * half]).sum(axis=0)
        assert np.abs(momentum).max() < 1e-9 * 50.0 * masses.sum()
    # they stopped each other: past each other they would be metres apart
    assert abs(x[half:, 1].mean() - x[:half, 1].mean()) < 0.3
    assert np.linalg.norm(x - x.mean(axis=0), axis=1).max() < 0.5


def resting(frames):
    """Two sheets on a floor: drift of each since the tenth frame, and the last positions."""
    scene = weft.Scene(
        method="robust",
        cloths=[
            grid("lower", size=0.3, cells=10, position=(0.0, 0.0012, 0.0)),
            grid("upper", size=0.2, cells=7, position=(0.01, 0.0025, 0.02), rotation_deg=(0.0, 20.0, 0.0)),
        ],
        colliders=[weft.Collider(name="floor", shape=weft.Plane(size=(2.0, 2.0)))],
    )
    run = Run(scene)
    farthest = 0.0
    for k, (x, row) in enumerate(run.frames(frames)):
        assert row["status"] == "ok" and row["zones"] == 0
        if k == 9:
            began = x
        if k > 9:
            farthest = max(farthest, float(np.linalg.norm(x - began, axis=1).max()))
    return farthest, x, run


def check_resting(frames):
    drift, x, run = resting(frames)
    assert drift < 1e-3
    thickness = run.world.scene.thickness
    lower, upper = x[:121], x[121:]
    assert lower[:, 1].mean() == pytest.approx(thickness, rel=0.2)
    assert (upper[:, 1].mean() - lower[:, 1].mean()) == pytest.approx(thickness, rel=0.2)


def test_resting_contact_keeps_its_place_and_its_thickness():
    check_resting(90)


@pytest.mark.long
def test_resting_contact_for_twenty_seconds():
    check_resting(1200)


def tumbling():
    return weft.Scene(
        frames=14,
        method="robust",
        cloths=[
            grid("one", size=0.3, cells=9, position=(0.0, 0.25, 0.0), rotation_deg=(70.0, 10.0, 5.0)),
            grid("two", size=0.25, cells=8, position=(0.0, 0.5, 0.0), velocity=(0.0, -3.0, 0.0)),
        ],
        colliders=[
            weft.Collider(
                name="ball", shape=weft.Sphere(radius=0.06, subdivisions=2), motion=weft.Spin(rate_deg=200.0)
            ),
            weft.Collider(name="floor", shape=weft.Plane(size=(2, 2)), placement=weft.Placement(position=(0, -0.1, 0))),
        ],
    )


def test_threads_do_not_change_a_byte():
    results, threads = [], get_threads()
    try:
        for count in (1, 2, 3):
            set_threads(count)
            run = Run(tumbling())
            rows = [row for _, row in run.frames(14)]
            results.append((run.state.positions().tobytes(), run.state.velocities().tobytes(), rows))
    finally:
        set_threads(threads)
    assert results[0] == results[1] == results[2]
    assert sum(row["contacts"] for row in results[0][2]) > 0


def test_a_run_that_is_resumed_gives_the_same_bytes(tmp_path):
    scene = tumbling()
    whole = weft.simulate(scene, tmp_path / "whole.zarr", progress=False)
    weft.simulate(scene, tmp_path / "parts.zarr", progress=False, frames=5)
    parts = weft.simulate(scene, tmp_path / "parts.zarr", progress=False, resume=True)
    assert whole.frames == parts.frames == 15
    for frame in range(15):
        assert whole.positions(frame).tobytes() == parts.positions(frame).tobytes()
        assert whole.velocities(frame).tobytes() == parts.velocities(frame).tobytes()


def test_steps_are_halved_when_something_comes_fast_and_doubled_again():
    scene = weft.Scene(
        method="robust",
        cloths=[grid(size=0.4, cells=16, position=(0.0, 0.0, 0.0), pins=[weft.Pin(boundary="left")])],
        colliders=[
            weft.Collider(
                name="ball",
                shape=weft.Sphere(radius=0.05, subdivisions=2),
                placement=weft.Placement(position=(0.0, -0.4, 0.0)),
                motion=weft.Path(keyframes=[weft.Keyframe(time=0.05), weft.Keyframe(time=0.055, position=(0, 0.6, 0))]),
            )
        ],
    )
    steps = [row["steps"] for _, row in Run(scene).frames(25)]
    usual = Robust().steps
    assert steps[0] == usual and max(steps) > usual and steps[-1] == usual


def test_few_collisions_among_many_contacts_are_swept_alone_at_once(monkeypatch):
    """And nothing passes through anything with these either, which Run looks at."""
    alone = {}
    for many in (0, collision_rounds.MANY_CONTACTS):
        monkeypatch.setattr(collision_rounds, "MANY_CONTACTS", many)
        run, alone[many] = Run(tumbling()), 0

        def sweep(*rest, of=many, do=run.method.solver.sweep, appended_only=False):
            alone[of] += appended_only
            do(*rest, appended_only=appended_only)

        monkeypatch.setattr(run.method.solver, "sweep", sweep)
        assert sum(row["collisions"] for _, row in run.frames(15)) > 0
    few, usual = alone.values()
    assert few > 2 * usual


def test_fine_cloth_that_hangs_comes_to_rest():
    """Springs that give way more while they are pulled out than while they go back would let it swing more each time."""
    strip = weft.Cloth(
        shape=weft.Grid(size=(0.02, 1.0), cells=(4, 200)),
        placement=weft.Placement(rotation_deg=(90.0, 0.0, 0.0)),
        material=weft.Material(stretch=1000.0),
        pins=[weft.Pin(boundary="top")],
    )
    world = World(weft.Scene(method="robust", cloths=[strip]))
    method, state = make_method(world, world.scene.method), world.initial_state()
    for _ in range(90):
        method.advance_frame(state)
    assert np.sqrt((state.velocities() ** 2).sum(axis=1).mean()) < 0.01
    assert np.ptp(state.positions()[:, 1]) == pytest.approx(1.0, abs=0.004)


def test_velocities_of_what_lies_still_are_those_of_its_motion():
    """Sheets on each other: what the next step goes on from, contacts hold back again, and it is no motion."""
    sheets = [
        weft.Cloth(
            name=f"sheet {k}",
            shape=weft.Grid(size=(0.3, 0.3), cells=(10, 10)),
            placement={"position": (0.0, 0.003 + 0.003 * k, 0.0), "rotation_deg": (0.0, 25.0 * k, 0.0)},
        )
        for k in range(3)
    ]
    slab = weft.Collider(shape=weft.Box(size=(0.6, 0.1, 0.6)), placement={"position": (0.0, -0.05, 0.0)})
    world = World(weft.Scene(cloths=sheets, colliders=[slab], method="robust"))
    method, state = make_method(world, world.scene.method), world.initial_state()
    free = world.initial_state()
    method.advance_frame(free)
    # nothing touches yet, and everything falls
    np.testing.assert_array_equal(method.velocities(free), free.velocities())
    assert free.velocities()[: world.cloth_vertex_count, 1].max() < -0.1
    for _ in range(60):
        before = state.positions()
        method.advance_frame(state)
    motion, shown, kept = (
        np.linalg.norm(v[: world.cloth_vertex_count], axis=1).mean()
        for v in ((state.positions() - before) * 60.0, method.velocities(state), state.velocities())
    )
    assert motion < 2e-4 and shown < 5e-4 < kept


def test_frames_of_earlier_versions_can_be_resumed():
    """They hold how far vertices wandered and whether cloth crossed something, on which nothing depends any more."""
    run = Run(tumbling())
    list(run.frames(9))
    saved = run.method.saved()
    older = {**saved, "stepping": np.append(saved["stepping"], 1), "leeway": np.array([1, 2])}
    older |= {"wandered": np.ones(run.world.vertex_count, np.float32), "adaptive_margin": np.array([1, 2])}
    other = Run(tumbling())
    other.method.restore(older)
    restored = other.method.saved()
    assert restored.keys() == saved.keys()
    assert np.array_equal(restored["stepping"], saved["stepping"]) and saved["stepping"].any()


def test_pins_that_cross_do_not_throw_the_cloth():
    """Where pins have nearly all the weight of a pair that collides, its free vertices stay near them all the same."""

    def move(way):
        return weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=0.1, position=(way, 0.0, 0.0))])

    pins = [weft.Pin(boundary="left", motion=move(2.0)), weft.Pin(boundary="right", motion=move(-2.0))]
    scene = weft.Scene(method="robust", cloths=[grid(size=0.4, cells=4, pins=pins)])
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    for _ in range(3):
        method.advance_frame(state)
        assert np.abs(state.positions()).max() < 2.0
