"""Mass-spring dynamics: pendulum, energy, momentum, stability, the shape of hanging cloth."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.dynamics import make_dynamics
from weft.dynamics.air import Air
from weft.dynamics.mass_spring import MassSpring, stable_step
from weft.dynamics.springs import from_mesh, from_pairs
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
                    material=weft.Material(stretch=60.0, shear=20.0, damping=2e-3, density=0.3),
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
