"""`push`: draping, steps that halve and recover, Provot's correction, searches, resuming, and what it cannot do."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
import warp as wp
from sewn import gaps, sewn_panels

import weft
from weft.bench.push import SCENES, bunny_mesh
from weft.dynamics.springs import BEND
from weft.errors import SceneError
from weft.geometry.intersection import intersections
from weft.methods import make_method
from weft.methods.push.integrators import SWEEPS
from weft.runtime import get_threads, set_threads
from weft.runtime.colouring import colour_items
from weft.scene import Push
from weft.world import World


def frames_of(scene, frames):
    """World, positions, velocities and report rows, frame by frame."""
    world = World(scene)
    method = make_method(world, scene.method)
    state = world.initial_state()
    for _ in range(frames):
        row = method.advance_frame(state)
        yield world, state.positions(), state.velocities(), row


def over_a_ball(**options):
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.2, subdivisions=2), friction=0.5)
    return weft.Scene(
        method=Push(**{"close": 0.03, "against": "mesh", **options}),
        forces=weft.Forces(air_damping=2.0),
        cloths=[
            weft.Cloth(
                shape=weft.Grid(size=(0.6, 0.6), cells=(6, 6)),
                placement={"position": (0.01, 0.24, 0.02)},
                material=weft.Material(damping=1e-3),
            )
        ],
        colliders=[ball],
    )


@pytest.mark.parametrize("integrator", ["euler", "midpoint", "trapezoid", "runge_kutta"])
def test_cloth_drapes_over_a_ball_and_stays_outside(integrator):
    for _, x, v, row in frames_of(over_a_ball(integrator=integrator), 30):
        cloth, speed = x[:49], np.linalg.norm(v[:49], axis=1)
        assert np.linalg.norm(cloth, axis=1).min() > 0.18
        assert row["stretch"] < 0.2
    # it lies on top, and its corners hang
    assert cloth[:, 1].max() == pytest.approx(0.23, abs=0.02)
    assert cloth[[0, 6, 42, 48], 1].max() < 0.12
    assert row["contacts"] > 0 and speed.mean() < 0.5


def test_kdtree_and_brute_give_the_same_bytes_and_the_octree_nearly_the_same_drape():
    ends = {}
    for search in ("brute", "kdtree", "octree"):
        *_, (_, x, _, row) = frames_of(over_a_ball(search=search, against="both"), 20)
        ends[search] = x[:49], row
    assert ends["brute"][0].tobytes() == ends["kdtree"][0].tobytes() and ends["brute"][1] == ends["kdtree"][1]
    assert ends["octree"][0].mean(axis=0) == pytest.approx(ends["brute"][0].mean(axis=0), abs=0.03)


def test_steps_halve_when_a_vertex_moves_far_and_recover():
    # shot upwards at 60 m/s a vertex would go 1.5 cm of 3 cm / 2 allowed in a step of 1 ms
    cloth = weft.Cloth(shape=weft.Grid(size=(0.3, 0.3), cells=(3, 3)), velocity=(0.0, 60.0, 0.0))
    scene = weft.Scene(
        method=Push(close=0.01, steps=10, halvings=6), forces=weft.Forces(air_damping=60.0), cloths=[cloth]
    )
    rows = [row for *_, row in frames_of(scene, 12)]
    steps = [row["steps"] for row in rows]
    assert max(steps[:2]) > 40 and steps[-1] == 10
    assert all(row["status"] == "ok" for row in rows)
    # halving was not allowed: the report says so
    stubborn = scene.replace(method=Push(close=0.01, steps=10, halvings=0))
    *_, row = next(iter(frames_of(stubborn, 1)))
    assert row["steps"] == 10 and "shortest step" in row["status"]


@pytest.mark.parametrize(("move", "steps"), [(0.45, 1), (0.55, 2), (0.95, 2), (1.05, 4)])
def test_a_step_moves_a_vertex_by_half_of_close_at_most(move, steps):
    cloth = weft.Cloth(shape=weft.Grid(size=(0.3, 0.3), cells=(3, 3)), velocity=(0.0, move * 0.02 / 1e-3, 0.0))
    world = World(weft.Scene(method=Push(close=0.02), forces=weft.Forces(gravity=(0, 0, 0)), cloths=[cloth]))
    method, state = make_method(world, world.scene.method), world.initial_state()
    method.step(state, 1e-3)
    assert method.taken == steps


def test_steps_halve_for_the_speed_that_springs_have_made():
    """A sheet that is drawn out: in the first step it has not moved yet, but its springs have made it fast."""
    drawn = weft.Cloth(shape=weft.Grid(size=(0.3, 0.3), cells=(3, 3)), material=weft.Material(stretch=5000.0))
    scene = weft.Scene(
        method=Push(close=0.02, integrator="euler", largest_stretch=0.0),
        forces=weft.Forces(gravity=(0, 0, 0)),
        cloths=[drawn],
    )
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    state.x.assign(1.1 * state.positions())
    method.step(state, 2e-3)
    assert method.level >= 1 and method.taken > 1


def test_a_halved_step_is_doubled_after_eight_good_ones():
    cloth = weft.Cloth(shape=weft.Grid(size=(0.3, 0.3), cells=(3, 3)))
    world = World(weft.Scene(method=Push(close=0.02), forces=weft.Forces(gravity=(0, 0, 0)), cloths=[cloth]))
    method, state = make_method(world, world.scene.method), world.initial_state()
    method.level = 2
    levels = []
    for _ in range(7):
        method.step(state, 1e-4)
        levels.append(method.level)
    # four quarters a step, then two halves
    assert levels == [2, 1, 1, 1, 1, 0, 0]


def test_moves_are_shorter_in_steps_shorter_than_a_sixtieth_of_a_second():
    floor = weft.Collider(name="floor", shape=weft.Plane(size=(3, 3)))
    cloth = weft.Cloth(shape=weft.Grid(size=(0.3, 0.3), cells=(3, 3)), placement={"position": (0.01, 0.02, 0.02)})
    scene = weft.Scene(method=Push(close=0.1), forces=weft.Forces(gravity=(0, 0, 0)), cloths=[cloth], colliders=[floor])
    for dt, fraction in ((1.0 / 600.0, 0.1), (1.0 / 60.0, 1.0), (1.0 / 30.0, 1.0)):
        world = World(scene)
        method, state = make_method(world, scene.method), world.initial_state()
        method.step(state, dt)
        assert state.positions()[:16, 1] == pytest.approx(0.02 + fraction * 0.1 / 16)


def test_halved_steps_end_exactly_at_the_frame():
    cloth = weft.Cloth(shape=weft.Grid(size=(0.3, 0.3), cells=(3, 3)), velocity=(0.0, 30.0, 0.0))
    scene = weft.Scene(method=Push(close=0.02, steps=7), forces=weft.Forces(gravity=(0, 0, 0)), cloths=[cloth])
    for k, (world, x, _, _) in enumerate(frames_of(scene, 3), start=1):
        assert x[:, 1] == pytest.approx(world.rest_positions[:, 1] + 30.0 * k / 60.0)


def heavy(largest_stretch):
    """A sheet far too heavy for its springs, held at one side."""
    cloth = weft.Cloth(
        shape=weft.Grid(size=(0.5, 0.5), cells=(5, 5)),
        placement={"rotation_deg": (90, 0, 0)},
        material=weft.Material(density=4.0, stretch=30.0, shear=5.0, damping=5e-3),
        pins=[weft.Pin(boundary="top")],
    )
    return weft.Scene(method=Push(largest_stretch=largest_stretch), cloths=[cloth])


def test_provots_correction_limits_stretch():
    *_, (world, _, _, row) = frames_of(heavy(0.0), 30)
    assert row["stretch"] > 0.4
    *_, (_, x, _, row) = frames_of(heavy(0.1), 30)
    assert row["stretch"] < 0.25
    held = np.arange(6)
    assert x[held] == pytest.approx(world.rest_positions[held])


@pytest.mark.parametrize("cells", [4, 60])
def test_the_fastest_free_vertex_is_measured(cells):
    """Pins may go anywhere; what is not a number is too far."""
    cloth = weft.Cloth(shape=weft.Grid(size=(1.0, 1.0), cells=(cells, cells)), pins=[weft.Pin(boundary="left")])
    world = World(weft.Scene(method=Push(close=0.1, largest_stretch=0.0), cloths=[cloth]))
    method = make_method(world, world.scene.method)
    state = world.initial_state()
    v = np.random.default_rng(cells).normal(scale=0.1, size=(world.vertex_count, 3))
    state.v.assign(v)
    moved = method._integrate(state, 1e-9)
    free = world.inverse_mass.numpy() > 0.0
    assert not free.all() and moved == pytest.approx(1e-9 * np.linalg.norm(v[free], axis=1).max(), rel=1e-3)
    assert moved == np.sqrt(((method.x_end.numpy() - state.positions())[free] ** 2).sum(axis=1)).max()
    v[np.flatnonzero(free)[-1]] = np.nan
    state.v.assign(v)
    assert np.isnan(method._integrate(state, 1e-9))


@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
@pytest.mark.parametrize("search", ["brute", "kdtree", "octree"])
@pytest.mark.parametrize("still", [True, False])
def test_as_on_the_cpu(search, still):
    """A sheet that touches a ball, which may turn."""
    scene = over_a_ball(search=search, against="both", moves=3)
    ball = scene.colliders[0] if still else scene.colliders[0].replace(motion=weft.Spin(rate_deg=90))
    sheet = weft.Cloth(
        shape=weft.Grid(size=(0.6, 0.6), cells=(29, 29)),
        placement={"position": (0.01, 0.225, 0.02)},
        material=weft.Material(stretch=20.0, shear=5.0, damping=1e-3),
    )
    scene = scene.replace(cloths=[sheet], colliders=[ball])
    frames = 1 if search == "brute" else 3
    ends = []
    for device in ("cpu", "cuda:0"):
        world = World(scene, device)
        method, state = make_method(world, scene.method), world.initial_state()
        rows = [method.advance_frame(state) for _ in range(frames)]
        # how many are too close at the end is a matter of rounding: those that were moved out lie exactly there
        ends.append((state.positions(), [(row["steps"], row["contacts"]) for row in rows]))
    assert np.abs(ends[0][0] - ends[1][0]).max() < 1e-9
    assert ends[0][1] == ends[1][1] and ends[0][1][-1][1] > 0


def test_to_push_before_the_check_changes_nothing():
    """As a GPU does it, with steps that are halved after vertices were pushed in vain."""
    ends = []
    for unchecked in (False, True):
        scene = over_a_ball(against="both", steps=4)
        scene = scene.replace(cloths=[scene.cloths[0].replace(velocity=(0.0, -4.0, 0.0))])
        world = World(scene)
        method, state = make_method(world, scene.method), world.initial_state()
        method._pushes_unchecked = unchecked
        rows = [method.advance_frame(state) for _ in range(6)]
        ends.append((rows, state.positions().tobytes(), state.velocities().tobytes()))
    assert ends[0] == ends[1]
    assert max(row["steps"] for row in rows) > 4 and rows[-1]["contacts"] > 0


@pytest.mark.parametrize("threads", [1, 2])
def test_colours_of_edges_are_shortened_as_one_after_another(threads):
    """As a loop over all edges does it, on any number of threads."""
    before = get_threads()
    # enough edges to be worth a second thread
    cloth = weft.Cloth(shape=weft.Grid(size=(1.0, 1.0), cells=(30, 30)), pins=[weft.Pin(boundary="left")])
    world = World(weft.Scene(method=Push(largest_stretch=0.1), cloths=[cloth]))
    method = make_method(world, world.scene.method)
    state = world.initial_state()
    world.begin_step(state, 0.01)
    x = state.positions() + np.random.default_rng(1).normal(scale=0.01, size=(world.vertex_count, 3))
    state.x.assign(x)
    try:
        set_threads(threads)
        method.correction.apply(state.x)
    finally:
        set_threads(before)

    network, w = method.forces.network, world.inverse_mass.numpy()
    edges = np.flatnonzero(network.kind != BEND)
    edges = edges[colour_items(network.pairs[edges], world.cloth_vertex_count).order]
    shortened = []
    for _ in range(SWEEPS):
        shortened.append(0)
        for edge, longest in zip(network.pairs[edges], 1.1 * network.rest[edges], strict=True):
            d = x[edge[1]] - x[edge[0]]
            length = np.sqrt(d[0] * d[0] + d[1] * d[1] + d[2] * d[2])
            if length > longest and w[edge].sum() > 0.0:
                move = ((length - longest) / (length * w[edge].sum())) * d
                x[edge[0]] += w[edge[0]] * move
                x[edge[1]] -= w[edge[1]] * move
                shortened[-1] += 1
    assert shortened[0] > 1000 and np.abs(state.positions() - x).max() < 1e-15


def test_moving_colliders_carry_the_cloth():
    floor = weft.Collider(
        name="floor",
        shape=weft.Plane(size=(2.0, 2.0)),
        motion={
            "kind": "path",
            "keyframes": [{"time": 0.0, "position": (0, 0, 0)}, {"time": 1.0, "position": (0, 0.5, 0)}],
        },
    )
    cloth = weft.Cloth(shape=weft.Grid(size=(0.4, 0.4), cells=(4, 4)), placement={"position": (0, 0.021, 0)})
    scene = weft.Scene(method=Push(close=0.02, largest_face=0.2), cloths=[cloth], colliders=[floor])
    *_, (_, x, _, _) = frames_of(scene, 45)
    assert x[:25, 1] == pytest.approx(0.75 * 0.5 + 0.02, abs=0.006)


def test_a_resumed_run_gives_the_same_bytes(tmp_path):
    scene = over_a_ball().replace(frames=14)
    whole = weft.simulate(scene, tmp_path / "whole.zarr", progress=False)
    weft.simulate(scene, tmp_path / "parts.zarr", progress=False, frames=9)
    parts = weft.simulate(scene, tmp_path / "parts.zarr", progress=False, resume=True)
    for frame in (10, 14):
        assert whole.positions(frame).tobytes() == parts.positions(frame).tobytes()


def test_edges_pass_through_edges():
    # a bar between two lines of vertices: no vertex comes near a triangle
    bar = weft.Collider(name="bar", shape=weft.Box(size=(2.0, 0.02, 0.02)), placement={"position": (0.0, -0.1, 0.1)})
    cloth = weft.Cloth(
        shape=weft.Grid(size=(0.8, 0.8), cells=(2, 4)), velocity=(0.0, -1.0, 0.0), placement={"position": (0, 0, 0)}
    )
    scene = weft.Scene(method=Push(close=0.01), cloths=[cloth], colliders=[bar], forces=weft.Forces(gravity=(0, 0, 0)))
    crossed = 0
    for world, x, _, _ in frames_of(scene, 12):
        body = np.repeat([0, 1], [b.faces.stop - b.faces.start for b in world.bodies])
        pairs = np.array([[True, True], [True, False]])
        crossed = max(crossed, len(intersections(x, world.faces, face_body=body, body_pairs=pairs)))
    assert crossed > 0
    assert x[:15, 1].max() < -0.15


def test_welds_are_refused():
    cloths = [weft.Cloth(name=name, shape=weft.Grid(cells=(2, 2))) for name in ("a", "b")]
    seam = weft.Seam(cloth="a", to="b", vertices=[(0, 0, 1)], kind="weld")
    scene = weft.Scene(method="push", cloths=cloths, seams=[seam])
    with pytest.raises(SceneError, match="weld"):
        make_method(World(scene), scene.method)


def test_the_rabbit_is_closed_and_clean():
    mesh = bunny_mesh(0.5)
    assert 900 <= len(mesh.faces) <= 1100
    assert not mesh.boundary_loops and (mesh.edge_faces >= 0).all()
    assert len(intersections(mesh.vertices, mesh.faces)) == 0
    corners = mesh.vertices[mesh.faces]
    volume = np.einsum("ij,ij->i", corners[:, 0], np.cross(corners[:, 1], corners[:, 2])).sum() / 6
    assert volume > 0.01 and np.ptp(mesh.vertices[:, 1]) == pytest.approx(0.5)


@pytest.mark.parametrize("name", SCENES)
def test_the_scenes_of_the_paper_have_its_numbers_of_triangles(name, tmp_path):
    wanted = {"cube_edge": 3072, "finer_cube_edge": 49152, "bunny": 1004, "cube": 768, "sphere": 624, "tablecloth": 0}
    scene = SCENES[name](Path(tmp_path))
    world = World(scene)
    assert len(world.faces) - world.cloth_face_count == wanted[name]
    assert world.cloth_face_count == (392 if name == "tablecloth" else 200)


def test_what_is_sewn_together_is_not_pushed_apart():
    """Two panels that hang side by side, sewn together: nothing else touches."""
    world = World(weft.Scene(**sewn_panels(), method="push"))
    method, state = make_method(world, world.scene.method), world.initial_state()
    # the first frames close the seam
    contacts = [method.advance_frame(state)["contacts"] for _ in range(40)]
    assert sum(contacts[10:]) == 0
    x = state.positions()
    open_by = gaps(x)
    assert np.sort(open_by)[:-1].max() < 5e-4
    assert np.linalg.norm(state.v.numpy(), axis=1).max() < 5e-3


@pytest.fixture(scope="module")
def figures():
    """The example of the paper's figures as a module; examples import their neighbours by bare names."""
    folder = Path(__file__).parents[3] / "examples"
    sys.path.insert(0, str(folder))
    try:
        yield importlib.import_module("push_figures")
    finally:
        sys.path.remove(str(folder))


@pytest.mark.parametrize("figure", ["1", "2", "8", "9"])
def test_the_figures_show_what_the_paper_shows_and_what_prevents_it(figures, figure, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = figures.check(weft.simulate(figures.scene(figure), tmp_path / "run.zarr", progress=False))
    assert found
    if figure == "9":
        return
    careful = figures.scene(figure, careful=True)
    with pytest.raises(figures.CheckError):
        figures.check(weft.simulate(careful, tmp_path / "careful.zarr", progress=False))
