"""The implicit step: physics, constraints kept exactly, steps that halve, the same bytes on any number of threads."""

import numpy as np
import pytest
import warp as wp
from scipy.optimize import brentq

import weft
from weft.dynamics import make_dynamics
from weft.dynamics.air import Air
from weft.dynamics.implicit import elements as implicit_elements
from weft.dynamics.implicit.free_flight import FreeFlight
from weft.dynamics.implicit.model import Implicit
from weft.errors import WeftError
from weft.mesh import shapes
from weft.methods import make_method
from weft.runtime import get_threads, set_threads
from weft.scene import Forces, Material
from weft.world import Seams, State, World

STILL = Forces(gravity=(0.0, 0.0, 0.0))
FRAME = 1.0 / 60.0


def make(mesh, material=None, *, fixed=(), forces=STILL, mass=None, **options):
    """A model of one cloth, and its masses."""
    material = Material() if material is None else material
    count = len(mesh.vertices)
    mass = np.full(count, material.density * mesh.rest_areas.sum() / count) if mass is None else mass
    inverse = 1.0 / mass
    inverse[list(fixed)] = 0.0
    elements = implicit_elements.from_mesh(mesh, material)
    air = Air(forces, mesh.faces, count)
    return Implicit(elements, mass, wp.array(inverse, dtype=wp.float64, device="cpu"), air, **options), mass


def run(dynamics, x, v, dt, steps, target=None, restraints=(), time=0.0):
    """States after each step, starting with the first."""
    state = State.from_numpy(np.asarray(x, float), np.asarray(v, float))
    state.time = time
    goal = wp.clone(state.x) if target is None else wp.array(target, dtype=wp.vec3d, device="cpu")
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    yield state.positions(), state.velocities()
    for _ in range(steps):
        dynamics.propose(state, goal, dt, x_end, v_end, restraints=restraints)
        state.take(x_end, v_end)
        state.time += dt
        yield state.positions(), state.velocities()


def crumpled(cells=8, seed=3):
    mesh = shapes.grid((0.4, 0.4), (cells, cells))
    rng = np.random.default_rng(seed)
    x = mesh.vertices + rng.normal(scale=0.03 / cells, size=mesh.vertices.shape)
    return mesh, x, rng.normal(scale=0.5, size=x.shape)


def test_free_fall():
    mesh = shapes.grid((1.0, 1.0), (6, 6))
    m, _ = make(mesh, forces=Forces(), flight=True)
    *_, (x, v) = run(m, mesh.vertices, np.zeros_like(mesh.vertices), FRAME, 3)
    assert v == pytest.approx(np.tile([0.0, -9.81 * 3 * FRAME, 0.0], (49, 1)), abs=1e-12)
    # exactly g t^2 / 2, however long the steps
    assert x - mesh.vertices == pytest.approx(np.tile([0.0, -9.81 * 4.5 * FRAME**2, 0.0], (49, 1)), abs=1e-12)


@pytest.mark.parametrize("fixed", [(), (0,)])
def test_what_nothing_holds_keeps_its_spin(fixed):
    mesh = shapes.grid((0.4, 0.4), (6, 6))
    m, mass = make(mesh, fixed=fixed, flight=True)
    x = mesh.vertices - (mesh.vertices[0] if fixed else 0.0)
    v = np.cross([0.0, 10.0, 3.0], x)
    spins = []
    for at, speed in run(m, x, v, FRAME, 30):
        arms, speeds = at - at.mean(axis=0), speed - speed.mean(axis=0)
        spins.append((mass[:, None] * np.cross(arms, speeds)).sum(axis=0))
    lost = np.linalg.norm(spins[-1] - spins[0]) / np.linalg.norm(spins[0])
    # a pinned sheet is braked by backward Euler, a free one is not
    assert lost > 0.2 if fixed else lost < 1e-9


def test_pieces_that_a_spring_joins_keep_their_spin_together():
    """The spin of the two changes, that of both together does not."""
    rng = np.random.default_rng(0)
    x, v = rng.normal(size=(2, 6, 3))
    mass = rng.uniform(1.0, 2.0, 6)
    flight = FreeFlight(np.array([[0, 1], [1, 2], [3, 4], [4, 5]]), mass)
    assert flight.pieces == 2
    for joined in (np.zeros((0, 5), int), np.array([[0, 3, 4, 0, 0]])):
        x_end, v_end = x + 0.1 * rng.normal(size=(6, 3)), v + rng.normal(size=(6, 3))
        held = np.zeros(6, bool)
        assert flight.correct((x, v), (x_end, v_end), held, joined, 0.1, damping=0.0, turn=True)
        for island in [slice(0, 6)] if len(joined) else [slice(0, 3), slice(3, 6)]:
            m = mass[island, None]
            momenta = (m * v_end[island]).sum(axis=0)
            moved = (m * (x_end - x)[island]).sum(axis=0)
            assert moved == pytest.approx(0.05 * ((m * v[island]).sum(axis=0) + momenta))
            centres = [(m * a[island]).sum(axis=0) / m.sum() for a in (x, v, x_end, v_end)]
            before = (m * np.cross(x[island] - centres[0], v[island] - centres[1])).sum(axis=0)
            after = (m * np.cross(x_end[island] - centres[2], v_end[island] - centres[3])).sum(axis=0)
            assert after == pytest.approx(before)
        # what touches something that is held is not in free flight
        held[0] = True
        assert flight.correct((x, v), (x_end, v_end), held, joined, 0.1, damping=0.0, turn=True) == (not len(joined))


@pytest.mark.parametrize("tolerance", [1e-1, 1e-4])
def test_linear_momentum_is_conserved_whatever_the_tolerance_of_the_solver(tolerance):
    mesh, x, v = crumpled()
    mass = np.random.default_rng(0).uniform(1e-4, 4e-4, len(x))
    m, _ = make(mesh, mass=mass, tolerance=tolerance)
    momenta = np.array([(mass[:, None] * v).sum(axis=0) for _, v in run(m, x, v, FRAME, 5)])
    assert np.abs(momenta - momenta[0]).max() < 1e-12 * np.abs(mass[:, None] * v).sum()


def energy(mesh, material, mass, x, v):
    e = implicit_elements.from_mesh(mesh, material)
    wu, wv = (np.einsum("fk,fkd->fd", w, x[e.faces]) for w in (e.p, e.q))
    u, v_ = np.linalg.norm(wu, axis=1) - 1.0, np.linalg.norm(wv, axis=1) - 1.0
    shear = (wu * wv).sum(axis=1)
    squares = np.column_stack([u**2, v_**2, 2.0 * u * v_, shear**2])
    elastic = 0.5 * (e.moduli * squares).sum()
    return elastic + 0.5 * (mass[:, None] * v**2).sum()


@pytest.mark.parametrize("damping", [0.0, 1e-3])
def test_energy_only_falls(damping):
    mesh, x, v = crumpled()
    material = Material(damping=damping)
    m, mass = make(mesh, material)
    energies = np.array([energy(mesh, material, mass, *s) for s in run(m, x, v, FRAME, 40)])
    assert (np.diff(energies) < 1e-6 * energies[0]).all()
    # what remains is the motion of the whole, which nothing may take
    drift = 0.5 * mass.sum() * ((mass[:, None] * v).sum(axis=0) / mass.sum()) ** 2
    assert drift.sum() < energies[-1] < 0.5 * energies[0]


def test_long_and_short_steps_come_to_the_same_motion():
    """First order: half the step, about half the error."""
    mesh = shapes.grid((0.4, 0.4), (8, 8))
    fixed = np.flatnonzero(mesh.vertices[:, 0] < -0.199)
    m, _ = make(mesh, Material(stretch=50.0, shear=10.0, damping=5e-3), fixed=fixed, forces=Forces())
    ends = []
    for steps in (10, 20, 40, 160):
        *_, (x, _v) = run(m, mesh.vertices, np.zeros_like(mesh.vertices), 0.1 / steps, steps)
        ends.append(x)
    errors = [np.abs(x - ends[-1]).max() for x in ends[:-1]]
    assert errors[0] < 0.01
    assert errors[1] < 0.65 * errors[0] and errors[2] < 0.65 * errors[1]


def test_a_hanging_strip_takes_the_shape_of_a_catenary():
    links, span, slack = 40, 1.0, 1.25
    mesh = shapes.grid((span * slack, 0.03), (links, 1))
    ends = np.flatnonzero(np.abs(mesh.vertices[:, 0]) > 0.5 * span * slack - 1e-9)
    s = mesh.vertices[:, 0] / slack
    start = np.column_stack([s, -0.35 * np.cos(np.pi * s), mesh.vertices[:, 2]])
    material = Material(stretch=2000.0, shear=500.0, bend=1e-9, damping=1e-4)
    m, _ = make(mesh, material, fixed=ends, forces=Forces(air_damping=4.0))
    *_, (x, v) = run(m, start, np.zeros_like(start), FRAME, 240)
    assert np.abs(v).max() < 0.01
    a = brentq(lambda a: 2.0 * a * np.sinh(0.5 * span / a) - span * slack, 0.05, 10.0)
    expected = a * np.cosh(x[:, 0] / a) - a * np.cosh(0.5 * span / a)
    assert np.abs(x[:, 1] - expected).max() < 0.004


@pytest.mark.parametrize("cells", [6, 12])
def test_a_hanging_sheet_stretches_under_its_own_weight(cells):
    scene = weft.Scene(
        cloths=[
            weft.Cloth(
                shape=weft.Grid(size=(0.4, 0.4), cells=(cells, cells)),
                material=weft.Material(stretch=60.0, shear=20.0, damping=2e-3, density=0.3),
                pins=[weft.Pin(boundary="left")],
            )
        ],
        forces=weft.Forces(air_damping=3.0),
    )
    world = World(scene)
    state = world.initial_state()
    world.begin_step(state, 1.0)
    m = make_dynamics("implicit", world)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    for _ in range(150):
        m.propose(state, world.target, FRAME, x_end, v_end)
        state.take(x_end, v_end)
    assert np.abs(state.velocities()).max() < 0.05
    # density g L^2 / (2 stretch)
    expected = 0.4 + 0.3 * 9.81 * 0.4**2 / (2.0 * 60.0)
    assert -state.positions()[:, 1].min() == pytest.approx(expected, abs=0.002)


def test_resting_cloth_does_not_move_at_all():
    """Without a residual there is nothing to solve: no noise of the solver, not a bit of change."""
    mesh = shapes.grid((0.4, 0.4), (8, 8))
    m, _ = make(mesh, fixed=[0])
    states = list(run(m, mesh.vertices, np.zeros_like(mesh.vertices), FRAME, 3))
    assert np.abs(states[-1][0] - mesh.vertices).max() < 1e-15
    assert sum(s.iterations for s in m.solutions) == 0


def test_pinned_vertices_go_exactly_to_their_target():
    mesh, x, v = crumpled()
    target = x + np.array([0.01, 0.02, 0.0])
    m, _ = make(mesh, fixed=[0, 8, 40], forces=Forces())
    *_, (end, speed) = run(m, x, v, FRAME, 1, target)
    held = [0, 8, 40]
    assert np.array_equal(end[held], target[held])
    assert speed[held] == pytest.approx(np.tile([0.6, 1.2, 0.0], (3, 1)))


def test_a_sheet_follows_the_pins_that_carry_it():
    """Carried along at a steady speed, the whole sheet ends up with that speed."""
    mesh = shapes.grid((0.3, 0.3), (6, 6))
    fixed = np.flatnonzero(mesh.vertices[:, 0] < -0.149)
    m, _ = make(mesh, Material(damping=5e-3), fixed=fixed, forces=Forces(gravity=(0, 0, 0)))
    state = State.from_numpy(mesh.vertices, np.zeros_like(mesh.vertices))
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    for _ in range(120):
        target = state.positions()
        target[fixed] += np.array([0.5, 0.0, 0.2]) * FRAME
        m.propose(state, wp.array(target, dtype=wp.vec3d, device="cpu"), FRAME, x_end, v_end)
        state.take(x_end, v_end)
    assert state.velocities().mean(axis=0) == pytest.approx([0.5, 0.0, 0.2], abs=0.02)


def test_seams_close():
    mesh = shapes.grid((0.2, 0.2), (4, 4))
    count = len(mesh.vertices)
    second = mesh.vertices + (0.25, 0.0, 0.0)
    right, left = np.arange(4, count, 5), np.arange(0, count, 5)
    stitches = np.column_stack([right, count + left, count + left]).astype(np.int32)
    seams = Seams(stitches, np.zeros(5), np.full(5, 500.0), np.full(5, 0.25))
    elements = implicit_elements.join(
        [
            implicit_elements.from_mesh(mesh, Material()),
            implicit_elements.from_mesh(mesh, Material(), first=count),
            implicit_elements.from_seams(seams, weld=5e4),
        ]
    )
    mass = np.full(2 * count, 2e-4)
    m = Implicit(
        elements,
        mass,
        wp.array(1.0 / mass, dtype=wp.float64, device="cpu"),
        Air(Forces(gravity=(0, 0, 0), air_damping=5.0), np.zeros((0, 3), np.int32), 2 * count),
    )
    x = np.concatenate([mesh.vertices, second])
    *_, (end, _) = run(m, x, np.zeros_like(x), FRAME, 90)
    assert np.abs(end[right] - end[count + left]).max() < 1e-5
    assert end.mean(axis=0) == pytest.approx(x.mean(axis=0), abs=1e-9)


@pytest.mark.parametrize("speed", [5.0, 40.0])
def test_strong_wind_on_light_cloth_stays_bounded(speed):
    mesh = shapes.grid((0.4, 0.4), (10, 10))
    fixed = np.flatnonzero(mesh.vertices[:, 0] < -0.199)
    wind = weft.Wind(velocity=(speed, 0.3 * speed, 0.0))
    m, _ = make(mesh, Material(preset="chiffon"), fixed=fixed, forces=Forces(wind=wind))
    for _x, v in run(m, mesh.vertices, np.zeros_like(mesh.vertices), FRAME, 40):
        assert np.abs(v).max() < 2.0 * speed


def test_a_step_that_strains_too_much_is_taken_in_parts():
    """A corner thrown far: one linear step would stretch its triangles several times over."""
    mesh = shapes.grid((0.4, 0.4), (8, 8))
    m, _ = make(mesh, fixed=[40])
    v = np.zeros_like(mesh.vertices)
    v[0] = (0.0, 60.0, 0.0)
    state = State.from_numpy(mesh.vertices, v)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    assert m.propose(state, wp.clone(state.x), FRAME, x_end, v_end) > 1
    whole = m._measure(state.x, x_end)
    # and the same without the limit
    free, _ = make(mesh, fixed=[40], largest_growth=np.inf)
    assert free.propose(state, wp.clone(state.x), FRAME, x_end, v_end) == 1
    assert free._measure(state.x, x_end) > whole


def test_pins_move_evenly_through_a_divided_step_and_unavoidable_strain_is_reported():
    mesh = shapes.grid((0.4, 0.4), (8, 8))
    fixed = [0, 80]
    m, _ = make(mesh, fixed=fixed)
    target = mesh.vertices.copy()
    target[80] += (1.0, 0.0, 0.0)
    state = State.from_numpy(mesh.vertices, np.zeros_like(mesh.vertices))
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    m.propose(state, wp.array(target, dtype=wp.vec3d, device="cpu"), FRAME, x_end, v_end)
    assert np.array_equal(x_end.numpy()[fixed], target[fixed])
    assert v_end.numpy()[80] == pytest.approx([60.0, 0.0, 0.0])
    assert np.isfinite(x_end.numpy()).all()

    # two neighbours torn apart in one step: no step is short enough
    target = mesh.vertices.copy()
    target[1] += (50.0, 0.0, 0.0)
    m, _ = make(mesh, fixed=[0, 1])
    m.propose(state, wp.array(target, dtype=wp.vec3d, device="cpu"), FRAME, x_end, v_end)
    assert any("strained" in problem for problem in m.problems)


def test_an_unfinished_solve_is_reported():
    mesh, x, v = crumpled()
    m, _ = make(mesh, most_iterations=2)
    list(run(m, x, v, FRAME, 1))
    assert any("stopped after 2 iterations" in problem for problem in m.problems)


def test_a_state_that_is_not_finite_is_refused():
    mesh, x, v = crumpled()
    m, _ = make(mesh)
    v[3, 1] = np.nan
    with pytest.raises(WeftError, match="no finite answer"):
        list(run(m, x, v, FRAME, 1))


def test_the_number_of_threads_changes_no_byte():
    mesh, x, v = crumpled(cells=50)
    before, ends = get_threads(), []
    try:
        for threads in (1, 2, 3):
            set_threads(threads)
            m, _ = make(mesh, fixed=[0, 50], forces=Forces(wind=weft.Wind(velocity=(3, 1, 0))))
            *_, (end, speed) = run(m, x, v, FRAME, 3)
            ends.append((end.tobytes(), speed.tobytes()))
    finally:
        set_threads(before)
    assert ends[0] == ends[1] == ends[2]


def test_a_step_depends_on_the_state_alone():
    """What was computed before leaves no trace: runs can resume with the same bytes."""
    mesh, x, v = crumpled()
    m, _ = make(mesh, forces=Forces())
    states = list(run(m, x, v, FRAME, 4))
    fresh, _ = make(mesh, forces=Forces())
    *_, (end, speed) = run(fresh, *states[3], FRAME, 1, time=3 * FRAME)
    assert np.array_equal(end, states[4][0]) and np.array_equal(speed, states[4][1])


def test_plain_runs_it_by_name():
    scene = weft.Scene(
        cloths=[weft.Cloth(shape=weft.Grid(size=(0.3, 0.3), cells=(5, 5)), pins=[weft.Pin(boundary="left")])],
        method={"name": "plain", "dynamics": "implicit"},
    )
    world = World(scene)
    state = world.initial_state()
    method = make_method(world, scene.method)
    rows = [method.advance_frame(state) for _ in range(5)]
    assert all(row["status"] == "ok" for row in rows)
    assert state.positions()[:, 1].min() < -0.02


def test_cloth_without_bending():
    mesh, x, v = crumpled(cells=4)
    m, _ = make(mesh, Material(bend=0.0), forces=Forces())
    *_, (end, _speed) = run(m, x, v, FRAME, 2)
    assert np.isfinite(end).all()


def test_the_first_step_of_a_run_is_solved_farther_than_others():
    mesh, x, v = crumpled(cells=16)
    m, _ = make(mesh)
    residuals = []
    for time in (0.0, FRAME):
        state = State.from_numpy(x, v)
        state.time = time
        m.propose(state, state.x, 0.1 * FRAME, wp.zeros_like(state.x), wp.zeros_like(state.v))
        residuals.append(max(solution.residual for solution in m.solutions))
    assert residuals[0] <= 1e-7 < residuals[1] <= 3e-4
