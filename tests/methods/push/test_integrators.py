"""Explicit integrators: orders by refinement, stages against plain formulas, springs against mass_spring."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.dynamics.mass_spring import MassSpring
from weft.methods.push.integrators import SCHEMES, Integrator, SpringAcceleration
from weft.world import State, World


def vec(values):
    return wp.array(np.asarray(values, float), dtype=wp.vec3d, device="cpu")


def smooth(x, v, time):
    """A smooth force that depends on everything: a driven, damped oscillator that is not linear."""
    return -4.0 * np.sin(x) - 0.3 * v + 0.5 * np.cos(2.0 * time) * np.array([1.0, 0.5, -0.5])


def accelerate(x, v, time, a):
    a.assign(smooth(x.numpy(), v.numpy(), time))


def integrate(name, steps, duration=1.0):
    rng = np.random.default_rng(0)
    x, v = vec(rng.uniform(-1, 1, (4, 3))), vec(rng.uniform(-1, 1, (4, 3)))
    integrator = Integrator(name, 4)
    h = duration / steps
    for k in range(steps):
        x_end, v_end = wp.zeros_like(x), wp.zeros_like(v)
        integrator.step(x, v, k * h, h, accelerate, x_end, v_end)
        x, v = x_end, v_end
    return np.concatenate([x.numpy(), v.numpy()])


@pytest.mark.parametrize(("name", "order"), [("euler", 1), ("midpoint", 2), ("trapezoid", 2), ("runge_kutta", 4)])
def test_the_order_of_accuracy_shows_under_refinement(name, order):
    assert SCHEMES[name].order == order
    exact = integrate("runge_kutta", 1000)
    errors = [np.abs(integrate(name, steps) - exact).max() for steps in (20, 40, 80)]
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert orders == pytest.approx(order, abs=0.15)


def by_hand(name, x, v, t, h):
    """The textbook formulas on y = (x, v)."""

    def rate(y, time):
        return np.concatenate([y[1:], smooth(y[:1], y[1:], time)])

    y = np.concatenate([x, v])
    k1 = rate(y, t)
    if name == "euler":
        return y + h * k1
    if name == "midpoint":
        return y + h * rate(y + h / 2 * k1, t + h / 2)
    if name == "trapezoid":
        return y + h / 2 * (k1 + rate(y + h * k1, t + h))
    k2 = rate(y + h / 2 * k1, t + h / 2)
    k3 = rate(y + h / 2 * k2, t + h / 2)
    k4 = rate(y + h * k3, t + h)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_step_is_that_of_the_textbook(name):
    x, v, t, h = np.array([[0.3, -0.7, 1.1]]), np.array([[1.0, 0.2, -0.4]]), 0.4, 0.3
    x_end, v_end = vec(np.zeros((1, 3))), vec(np.zeros((1, 3)))
    start_x, start_v = vec(x), vec(v)
    Integrator(name, 1).step(start_x, start_v, t, h, accelerate, x_end, v_end)
    expected = by_hand(name, x, v, t, h)
    assert x_end.numpy() == pytest.approx(expected[:1], abs=1e-14)
    assert v_end.numpy() == pytest.approx(expected[1:], abs=1e-14)
    assert (start_x.numpy() == x).all() and (start_v.numpy() == v).all()


def test_springs_accelerate_as_in_mass_spring():
    cloth = weft.Cloth(shape=weft.Grid(size=(0.5, 0.4), cells=(5, 4)), pins=[weft.Pin(boundary="left")])
    forces = weft.Forces(wind=weft.Wind(velocity=(2.0, 0.0, 1.0)), air_damping=0.5)
    world = World(weft.Scene(cloths=[cloth], forces=forces))
    state = world.initial_state()
    rng = np.random.default_rng(3)
    # pinned vertices are where they belong
    free = np.arange(30) % 6 > 0
    x = state.positions() + free[:, None] * rng.normal(scale=0.01, size=(30, 3))
    v = free[:, None] * rng.normal(scale=0.3, size=(30, 3))
    state = State.from_numpy(x, v)
    world.begin_step(state, 1e-7)
    a = vec(np.zeros((30, 3)))
    SpringAcceleration.from_world(world)(state.x, state.v, 0.0, a)
    # the first part of a tiny step of the other model has the same acceleration
    x_end, v_end = vec(x), vec(v)
    h = 1e-7
    MassSpring.from_world(world).propose(state, world.target, h, x_end, v_end)
    assert (free == (world.inverse_mass.numpy() > 0.0)).all()
    expected = (v_end.numpy() - v)[free] / h
    assert a.numpy()[free] == pytest.approx(expected, rel=1e-3, abs=1e-3 * np.abs(expected).max())
    assert (a.numpy()[~free] == 0.0).all()
