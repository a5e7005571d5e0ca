"""Strain and strain rate limits on velocities: the length of one spring, chains, momentum."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.dynamics.springs import from_mesh, from_pairs
from weft.mesh import shapes
from weft.methods.robust.strain_limits import StrainLimits
from weft.runtime import cooperative, get_threads, set_threads
from weft.scene import Material

DT, LIMIT = 1.0 / 480.0, 0.1
SEEDS = st.integers(0, 2**32 - 1)


def limited(network, x, v, mass, *, sweeps=8, dt=DT):
    """Velocities after the limits, and how many springs gave impulses."""
    limits = StrainLimits(network, numbers(1.0 / mass))
    position, velocity = (wp.array(a, dtype=wp.vec3d, device="cpu") for a in (x, v))
    limits.apply(position, velocity, LIMIT, dt, sweeps)
    return velocity.numpy(), int((limits.given.numpy() != 0.0).sum())


def numbers(values):
    return wp.array(np.asarray(values, float), dtype=wp.float64, device="cpu")


def chain(count):
    pairs = np.stack([np.arange(count), np.arange(1, count + 1)], axis=1)
    return from_pairs(pairs, np.full(count, 1.0), np.full(count, 10.0))


@pytest.mark.parametrize(
    ("length", "speed", "end"),
    [
        (1.0, 0.05, 1.05),  # within
        (1.0, 0.3, 1.1),  # strain
        (1.0, -0.3, 0.9),
        (0.95, 0.4, 1.045),  # a tenth of its present length first
        (1.05, -0.5, 0.945),
        (1.3, 0.1, 1.3),  # outside: no farther out
        (1.3, -0.1, 1.2),  # and back as it likes
        (0.7, -0.1, 0.7),
        (0.7, 0.05, 0.75),
    ],
)
def test_one_spring_ends_where_it_may(length, speed, end):
    x = np.array([[0.0, 0.0, 0.0], [length, 0.0, 0.0]])
    v = np.array([[0.0, 1.0, 0.0], [speed / DT, 1.0, 0.0]])
    after, _ = limited(chain(1), x, v, np.array([np.inf, 1.0]))
    assert np.linalg.norm(x[1] + DT * (after[1] - after[0]) - x[0]) == pytest.approx(end, abs=1e-9)
    # what is across the spring stays
    assert after[:, 1] == pytest.approx([1.0, 1.0], abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_limits_conserve_momenta_and_take_energy(seed):
    rng = np.random.default_rng(seed)
    mesh = shapes.grid((1.0, 1.0), (5, 5))
    network = from_mesh(mesh, Material())
    x = mesh.vertices + rng.normal(scale=0.02, size=mesh.vertices.shape)
    v, mass = rng.normal(scale=30.0, size=x.shape), rng.uniform(0.5, 2.0, len(x))
    after, found = limited(network, x, v, mass)
    assert found > 0
    change = mass[:, None] * (after - v)
    size = np.abs(change).sum()
    assert np.abs(change.sum(axis=0)).max() < 1e-12 * size
    assert np.abs(np.cross(x, change).sum(axis=0)).max() < 1e-12 * size
    assert (mass[:, None] * after**2).sum() < (mass[:, None] * v**2).sum()


def test_a_chain_that_is_jerked_passes_the_motion_on():
    """Springs that exceed their limit hand what is too much to their neighbours, round by round."""
    count = 6
    x = np.column_stack([np.arange(count + 1.0), np.zeros((count + 1, 2))])
    v = np.zeros_like(x)
    v[-1, 0] = 3.0 / DT
    mass = np.array([np.inf, *np.ones(count)])
    longest = []
    for _ in range(200):
        v, _ = limited(chain(count), x, v, mass)
        longest.append(np.diff((x + DT * v)[:, 0]).max())
    assert longest[0] > 1.15 and longest[-1] < 1.101


def test_bend_springs_are_not_limited():
    network = from_mesh(shapes.grid((1.0, 1.0), (4, 4)), Material())
    springs = StrainLimits(network, numbers(np.ones(25)))
    assert springs.count == 4 * 5 * 2 + 16 < len(network.pairs)


def test_springs_without_length_are_left_alone():
    x = np.zeros((2, 3))
    after, found = limited(chain(1), x, np.array([[0.0, 0.0, 0.0], [100.0, 0.0, 0.0]]), np.ones(2))
    assert np.isfinite(after).all() and found == 0


@settings(max_examples=10, deadline=None)
@given(seed=SEEDS)
def test_enough_sweeps_bring_all_springs_within_their_limits(seed):
    """And impulses that were not needed in the end were taken back: a spring well within its limits gave none."""
    rng = np.random.default_rng(seed)
    mesh = shapes.grid((1.0, 1.0), (4, 4))
    network = from_mesh(mesh, Material())
    v, mass = rng.normal(scale=30.0, size=mesh.vertices.shape), rng.uniform(0.5, 2.0, 25)
    limits, velocity = StrainLimits(network, numbers(1.0 / mass)), wp.array(v, dtype=wp.vec3d, device="cpu")
    limits.apply(wp.array(mesh.vertices, dtype=wp.vec3d, device="cpu"), velocity, LIMIT, DT, 3000)
    pairs, rest = limits.springs.pairs.numpy(), limits.rest.numpy()
    way, speed = (a[pairs[:, 0]] - a[pairs[:, 1]] for a in (mesh.vertices, velocity.numpy()))
    change = DT * np.einsum("id,id->i", way, speed) / rest**2
    assert np.abs(change).max() < LIMIT * (1.0 + 1e-6)
    assert (limits.given.numpy()[np.abs(change) < 0.99 * LIMIT] == 0.0).all()


def test_bytes_do_not_depend_on_threads(monkeypatch):
    monkeypatch.setattr(cooperative, "MIN_PARALLEL_ITEMS", 0)
    rng = np.random.default_rng(1)
    mesh = shapes.grid((1.0, 1.0), (20, 20))
    v, threads, found = rng.normal(scale=30.0, size=mesh.vertices.shape), get_threads(), []
    try:
        for count in (1, 2, 3):
            set_threads(count)
            found.append(limited(from_mesh(mesh, Material()), mesh.vertices, v, np.ones(len(v)))[0])
    finally:
        set_threads(threads)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
