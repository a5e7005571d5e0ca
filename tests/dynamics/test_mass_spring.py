"""Mass-spring dynamics: pendulum, energy, momentum, stability, the shape of hanging cloth."""

import warnings

import numpy as np
import pytest
import warp as wp

import weft
from weft.dynamics import make_dynamics
from weft.dynamics.air import Air
from weft.dynamics.mass_spring import MassSpring, stable_step
from weft.dynamics.springs import from_mesh, from_pairs
from weft.errors import SceneError
from weft.mesh import shapes
from weft.scene import Forces, Material
from weft.world import State, World

STILL = Forces(gravity=(0.0, 0.0, 0.0))


def make(network, mass, fixed=(), forces=STILL, faces=None):
    inverse = 1.0 / np.asarray(mass, float)
    inverse[list(fixed)] = 0.0
    faces = np.zeros((0, 3), np.int32) if faces is None else faces
    air = Air(forces, faces, len(mass))
    return MassSpring(network, np.asarray(mass, float), wp.array(inverse, dtype=wp.float64, device="cpu"), air)


def run(dynamics, x, v, dt, steps):
    """States after each step, starting with the first."""
    state = State.from_numpy(np.asarray(x, float), np.asarray(v, float))
    target = wp.clone(state.x)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    yield state.positions(), state.velocities()
    for _ in range(steps):
        dynamics.propose(state, target, dt, x_end, v_end)
        state.take(x_end, v_end)
        state.time += dt
        yield state.positions(), state.velocities()


def test_pendulum_of_two_vertices_has_the_right_period():
    length, gravity = 0.5, 9.81
    network = from_pairs(np.array([[0, 1]]), np.array([length]), np.array([2e4]))
    dynamics = make(network, [1.0, 0.01], fixed=[0], forces=Forces())
    swing = np.radians(5.0)
    x = [[0, 0, 0], [length * np.sin(swing), -length * np.cos(swing), 0]]
    dt = 1.0 / 240.0
    side = np.array([p[1, 0] for p, _ in run(dynamics, x, np.zeros((2, 3)), dt, 720)])

    # upward zero crossings, interpolated
    k = np.flatnonzero((side[:-1] < 0.0) & (side[1:] >= 0.0))
    times = (k + side[k] / (side[k] - side[k + 1])) * dt
    period = np.diff(times).mean()
    expected = 2.0 * np.pi * np.sqrt(length / gravity) * (1.0 + swing**2 / 16.0)
    assert period == pytest.approx(expected, rel=0.01)


def crumpled_sheet(damping):
    mesh = shapes.grid((0.4, 0.4), (8, 8))
    network = from_mesh(mesh, Material(damping=damping))
    rng = np.random.default_rng(3)
    x = mesh.vertices + rng.normal(scale=0.004, size=mesh.vertices.shape)
    v = rng.normal(scale=0.5, size=x.shape)
    return mesh, network, x, v


def energy(network, mass, x, v):
    d = x[network.pairs[:, 1]] - x[network.pairs[:, 0]]
    stretch = np.linalg.norm(d, axis=1) - network.rest
    r = np.einsum("hk,hkd->hd", network.weights, x[network.quads])
    elastic = 0.5 * (network.stiffness * stretch**2).sum()
    bending = 0.5 * (network.quad_stiffness * (np.linalg.norm(r, axis=1) - network.quad_rest) ** 2).sum()
    return elastic + bending + 0.5 * (mass[:, None] * v**2).sum()


def test_without_damping_energy_stays_and_momenta_are_conserved():
    _mesh, network, x, v = crumpled_sheet(damping=0.0)
    mass = np.full(len(x), 2e-4)
    dynamics = make(network, mass)
    states = list(run(dynamics, x, v, 0.2 * dynamics.largest_step, 2000))
    energies = np.array([energy(network, mass, *s) for s in states])
    # bounded while it sloshes, and no drift
    assert np.ptp(energies) < 0.02 * energies[0]
    assert abs(energies[-500:].mean() - energies[:500].mean()) < 2e-3 * energies[0]
    linear = [(mass[:, None] * s[1]).sum(axis=0) for s in states]
    angular = [(mass[:, None] * np.cross(*s)).sum(axis=0) for s in states]
    scale = np.abs(mass[:, None] * v).sum()
    assert np.abs(np.array(linear) - linear[0]).max() < 1e-12 * scale
    assert np.abs(np.array(angular) - angular[0]).max() < 1e-12 * scale


def test_damping_takes_energy_but_no_momentum():
    _mesh, network, x, v = crumpled_sheet(damping=2e-4)
    mass = np.full(len(x), 2e-4)
    states = list(run(make(network, mass), x, v, 1e-3, 100))
    energies = np.array([energy(network, mass, *s) for s in states])
    assert energies[-1] < 0.5 * energies[0]
    assert (np.diff(energies) < 1e-3 * energies[0]).all()
    linear = [(mass[:, None] * s[1]).sum(axis=0) for s in states]
    assert np.abs(np.array(linear) - linear[0]).max() < 1e-12 * np.abs(mass[:, None] * v).sum()


def test_the_stable_step_is_stable_and_not_needlessly_small():
    _, network, x, _v = crumpled_sheet(damping=0.0)
    mass = np.full(len(x), 2e-4)
    step = stable_step(network, mass)
    # frequencies of the linearised system, from its stiffness matrix
    n = len(x)
    matrix = np.zeros((3 * n, 3 * n))
    for (i, j), k, rest in zip(network.pairs, network.stiffness, network.rest, strict=True):
        d = x[j] - x[i]
        direction = d / np.linalg.norm(d)
        block = k * np.outer(direction, direction)
        assert rest > 0
        for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
            matrix[3 * a : 3 * a + 3, 3 * b : 3 * b + 3] += sign * block
    for q, w, k in zip(network.quads, network.weights, network.quad_stiffness, strict=True):
        for a in range(4):
            for b in range(4):
                matrix[3 * q[a] : 3 * q[a] + 3, 3 * q[b] : 3 * q[b] + 3] += k * w[a] * w[b] * np.eye(3)
    fastest = np.sqrt(np.linalg.eigvalsh(matrix / 2e-4)[-1])
    assert 0.3 * 2.0 / fastest < step <= 2.0 / fastest


def test_free_fall():
    mesh = shapes.grid((1.0, 1.0), (4, 4))
    dynamics = make(from_mesh(mesh, Material()), np.full(len(mesh.vertices), 0.01), forces=Forces())
    *_, (x, v) = run(dynamics, mesh.vertices, np.zeros_like(mesh.vertices), 0.1, 3)
    assert np.allclose(x[:, 1], -0.5 * 9.81 * 0.3**2, rtol=1e-9)
    assert np.allclose(v[:, 1], -9.81 * 0.3, rtol=1e-9)


def test_a_dense_chain_hangs_in_a_catenary():
    """A stiff chain of many links between two pins takes the shape a cosh(x / a)."""
    links, span, slack = 60, 1.0, 1.25
    rest = np.full(links, span * slack / links)
    pairs = np.stack([np.arange(links), np.arange(1, links + 1)], axis=1)
    mass = np.full(links + 1, 1e-3)
    network = from_pairs(pairs, rest, np.full(links, 2e4), damping=1e-4)
    dynamics = make(network, mass, fixed=[0, links], forces=Forces(air_damping=4.0))
    s = np.linspace(-0.5, 0.5, links + 1)
    start = np.column_stack([s, -0.35 * np.cos(np.pi * s), np.zeros(links + 1)])
    *_, (x, v) = run(dynamics, start, np.zeros_like(start), 1.0 / 30.0, 150)
    assert np.abs(v).max() < 0.02

    from scipy.optimize import brentq

    a = brentq(lambda a: 2.0 * a * np.sinh(0.5 * span / a) - span * slack, 0.05, 10.0)
    expected = a * np.cosh(x[:, 0] / a) - a * np.cosh(0.5 * span / a)
    assert np.abs(x[:, 1] - expected).max() < 0.005


@pytest.mark.parametrize("dynamics", ["mass_spring", "position_based"])
def test_hanging_sheet_comes_to_the_shape_of_a_finer_one(dynamics):
    """Two sheets of different fineness, pinned along one side, settle to the same outline."""
    drops = []
    for cells in (6, 12):
        scene = weft.Scene(
            cloths=[
                weft.Cloth(
                    shape=weft.Grid(size=(0.4, 0.4), cells=(cells, cells)),
                    material=weft.Material(stretch=60.0, shear=20.0, bend=5e-6, damping=2e-3, density=0.3),
                    pins=[weft.Pin(boundary="left")],
                )
            ],
            forces=weft.Forces(air_damping=3.0),
        )
        world = World(scene)
        state = world.initial_state()
        world.begin_step(state, 1.0)
        model = make_dynamics(dynamics, world)
        x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
        for _ in range(150):
            model.propose(state, world.target, 1.0 / 60.0, x_end, v_end)
            state.take(x_end, v_end)
        assert np.abs(state.velocities()).max() < 0.1
        drops.append(state.positions()[:, 1].min())
    # a hanging strip stretches under its own weight by density g L^2 / (2 stretch)
    expected = 0.4 + 0.3 * 9.81 * 0.4**2 / (2.0 * 60.0)
    assert -drops[0] == pytest.approx(expected, abs=0.002)
    assert -drops[1] == pytest.approx(expected, abs=0.002)


@pytest.mark.parametrize("substeps", [1, 2, 4, 5, 6, 21, 88])
def test_substeps_in_batches_are_central_differences_one_after_another(substeps):
    """A chain whose held end is led away, stepped by hand."""
    links = 4
    pairs = np.stack([np.arange(links), np.arange(1, links + 1)], axis=1)
    network = from_pairs(pairs, np.full(links, 0.1), np.full(links, 50.0), damping=1e-3)
    mass = np.full(links + 1, 0.01)
    dynamics = make(network, mass, fixed=[0], forces=Forces(air_damping=0.5))
    h = 0.999 * dynamics.largest_step
    dt = h * substeps
    rng = np.random.default_rng(substeps)
    x = np.column_stack([0.11 * np.arange(links + 1), np.zeros((links + 1, 2))])
    v = rng.normal(scale=0.3, size=x.shape)
    target = x + [0.02, 0.01, 0.0]
    state = State.from_numpy(x, v)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    goal = wp.array(target, dtype=wp.vec3d, device="cpu")
    assert dynamics.propose(state, goal, dt, x_end, v_end) == substeps

    start = x.copy()
    for k in range(substeps + 1):
        d = x[pairs[:, 1]] - x[pairs[:, 0]]
        length = np.linalg.norm(d, axis=1, keepdims=True)
        n = d / length
        u = ((v[pairs[:, 1]] - v[pairs[:, 0]]) * n).sum(axis=1, keepdims=True)
        pull = (network.stiffness[:, None] * (length - network.rest[:, None]) + network.damping[:, None] * u) * n
        force = np.zeros_like(x)
        np.add.at(force, pairs[:, 0], pull)
        np.add.at(force, pairs[:, 1], -pull)
        kick = 0.5 * h if k in (0, substeps) else h
        v = v + kick * (force / mass[:, None] + [0.0, -9.81, 0.0] - 0.5 * v)
        x = x + (h if k < substeps else 0.0) * v
        x[0] = start[0] + min(k + 1, substeps) / substeps * (target[0] - start[0])
        v[0] = (target[0] - start[0]) / dt
    assert x_end.numpy() == pytest.approx(x, abs=1e-12)
    assert v_end.numpy() == pytest.approx(v, abs=1e-10)


@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
@pytest.mark.parametrize("wind", [None, weft.Wind(velocity=(1.0, 0.0, 0.5), gust=0.5)])
def test_as_on_the_cpu(wind):
    """A sheet that hangs from a side that is led away; on a GPU substeps are replayed from the second step on."""
    pin = weft.Pin(boundary="left", motion={"kind": "spin", "rate_deg": 40.0})
    scene = weft.Scene(
        cloths=[weft.Cloth(shape=weft.Grid(size=(0.6, 0.6), cells=(30, 30)), pins=[pin])],
        forces=weft.Forces(wind=wind),
    )
    ends = []
    for device in ("cpu", "cuda:0"):
        world = World(scene, device)
        state, model = world.initial_state(), MassSpring.from_world(world)
        x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
        for _ in range(5):
            world.begin_step(state, 1.0 / 60.0)
            assert model.propose(state, world.target, 1.0 / 60.0, x_end, v_end) > 64
            state.take(x_end, v_end)
            state.time += 1.0 / 60.0
        ends.append(state.positions())
    assert np.abs(ends[1] - ends[0]).max() < 1e-9
    assert np.abs(ends[0] - world.rest_positions).max() > 0.01


@pytest.mark.parametrize("method", ["push", {"name": "robust", "dynamics": "mass_spring"}])
@pytest.mark.parametrize(("size", "damping"), [(1.0, 1e6), (1e-6, 0.0)])
def test_springs_that_need_too_many_steps_are_refused(tmp_path, method, size, damping):
    cloth = weft.Cloth(name="a", shape=weft.Grid(cells=(4, 4), size=(size, size)), material={"damping": damping})
    scene = weft.Scene(frames=1, method=method, cloths=[cloth])
    with warnings.catch_warnings(), pytest.raises(SceneError, match=r"its springs need .* steps a frame"):
        warnings.simplefilter("ignore")
        weft.simulate(scene, tmp_path / "a.zarr", progress=False)
