"""Rigid impact zones: who belongs together, lengths, momenta, zones that colliders carry."""

import numpy as np
import pytest
from contact_pairs import momenta
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial.transform import Rotation

import weft
from weft.methods import make_method
from weft.methods.robust import collision_rounds
from weft.methods.robust.collision_rounds import LARGEST_ANGLE, Zones, carried_velocity, rigid_velocity
from weft.world import World

SEEDS = st.integers(0, 2**32 - 1)


def distances(x):
    return np.linalg.norm(x[:, None] - x[None, :], axis=2)


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, rounds=st.integers(1, 4))
def test_zones_are_the_components_of_the_collisions(seed, rounds):
    rng = np.random.default_rng(seed)
    stencils = rng.integers(0, 200, (rounds * 12, 4))
    zones = Zones()
    for part in np.split(stencils, rounds):
        zones.add(part)
    first, other = np.repeat(stencils[:, 0], 3), stencils[:, 1:].ravel()
    _, label = connected_components(coo_array((np.ones(len(first)), (first, other)), shape=(200, 200)), directed=False)
    touched = np.unique(stencils)
    expected = sorted(touched[label[touched] == k].tolist() for k in np.unique(label[touched]))
    assert [group.tolist() for group in zones.groups()] == expected


def test_zones_do_not_depend_on_the_order_of_the_collisions():
    rng = np.random.default_rng(0)
    stencils = rng.integers(0, 60, (12, 4))
    one, other = Zones(), Zones()
    one.add(stencils)
    other.add(stencils[::-1])
    assert [g.tolist() for g in one.groups()] == [g.tolist() for g in other.groups()]


@settings(max_examples=80, deadline=None)
@given(
    seed=SEEDS,
    count=st.integers(2, 40),
    dt=st.sampled_from([1e-4, 1 / 480, 1 / 60]),
    speed=st.floats(1e-3, 100.0),
    turning=st.booleans(),
)
def test_a_zone_keeps_its_lengths_and_its_momentum(seed, count, dt, speed, turning):
    rng = np.random.default_rng(seed)
    x = rng.normal(scale=0.01, size=(count, 3)) + rng.normal(size=3)
    v, mass = rng.normal(scale=speed, size=(count, 3)), rng.uniform(1e-5, 1e-4, count)
    rigid = rigid_velocity(x, v, mass, dt, turning=turning)
    assert np.abs(distances(x + dt * rigid) - distances(x)).max() < 1e-12
    change = (mass[:, None] * (rigid - v)).sum(axis=0)
    assert np.abs(change).max() < 1e-11 * (mass[:, None] * np.abs(v)).sum()


@settings(max_examples=50, deadline=None)
@given(seed=SEEDS, count=st.integers(3, 30))
def test_a_zone_keeps_its_angular_momentum(seed, count):
    """The average velocity over a step turns on a chord, so the spin at once is looked at over a vanishing step."""
    rng = np.random.default_rng(seed)
    x, v, mass = rng.normal(size=(count, 3)), rng.normal(size=(count, 3)), rng.uniform(0.5, 2.0, count)
    dt, arm = 1e-8, x - mass @ x / mass.sum()
    rigid = rigid_velocity(x, v, mass, dt)
    change = momenta(mass, x, rigid) - momenta(mass, x, v)
    # a chord leaves the arc by the angle; three vertices nearly on a line may turn fast about it
    inertia = np.einsum("i,i,jk->jk", mass, (arm**2).sum(axis=1), np.eye(3)) - np.einsum("i,ij,ik->jk", mass, arm, arm)
    angle = dt * np.linalg.norm(np.linalg.solve(inertia, mass @ np.cross(arm, v)))
    size = (mass * np.linalg.norm(x, axis=1) * np.linalg.norm(rigid, axis=1)).sum()
    assert np.abs(change).max() < 1e-6 + angle * size


def test_what_moves_rigidly_already_goes_on():
    rng = np.random.default_rng(4)
    x, mass, dt = rng.normal(size=(9, 3)), rng.uniform(0.5, 2.0, 9), 0.01
    centre = mass @ x / mass.sum()
    rate, drift = np.array([3.0, -2.0, 8.0]), np.array([0.3, 0.1, -2.0])
    rigid = rigid_velocity(x, drift + np.cross(rate, x - centre), mass, dt)
    turn = Rotation.from_rotvec(rate * dt).as_matrix()
    expected = (x - centre) @ turn.T + centre + dt * drift
    assert np.abs(x + dt * rigid - expected).max() < 1e-14


@pytest.mark.parametrize(
    "x",
    [
        np.outer([0.0, 1.0, 2.0, 5.0], [1.0, 2.0, 3.0]),
        np.zeros((4, 3)),
        np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1e-14]]),
    ],
    ids=["collinear", "coincident", "nearly collinear"],
)
def test_zones_without_inertia_about_some_axis(x):
    v = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 3.0], [-1.0, 1.0, 0.0]])
    dt = 1e-3
    rigid = rigid_velocity(x, v, np.ones(4), dt)
    assert np.isfinite(rigid).all()
    assert np.allclose(rigid.sum(axis=0), v.sum(axis=0), atol=1e-12)
    assert np.abs(distances(x + dt * rigid) - distances(x)).max() < 1e-12


def test_a_zone_turns_at_most_so_far_in_a_step():
    x = np.array([[1.0, 0, 0], [-1.0, 0, 0], [0, 1.0, 0], [0, -1.0, 0]])
    v = np.cross([0, 0, 500.0], x)
    end = x + 0.1 * rigid_velocity(x, v, np.ones(4), 0.1)
    angle = np.arctan2(end[0, 1], end[0, 0])
    assert angle == pytest.approx(LARGEST_ANGLE, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS, held=st.integers(1, 8), angle=st.floats(0.0, 0.4))
def test_a_zone_on_a_rigid_collider_moves_with_it(seed, held, angle):
    rng = np.random.default_rng(seed)
    fixed, loose, dt = rng.normal(size=(held, 3)), rng.normal(size=(6, 3)), 1 / 480
    axis = rng.normal(size=3)
    turn = Rotation.from_rotvec(angle * axis / np.linalg.norm(axis)).as_matrix()
    shift = rng.normal(size=3)
    x = np.concatenate([fixed, loose])
    carried = carried_velocity(x, fixed, fixed @ turn.T + shift, dt)
    end = x + dt * carried
    assert np.abs(distances(end) - distances(x)).max() < 1e-11
    assert np.abs(end[:held] - (fixed @ turn.T + shift)).max() < 1e-7
    # what lies nearly on a line leaves the rotation about it open
    spread = np.linalg.svd(fixed - fixed.mean(axis=0), compute_uv=False)
    if held >= 3 and spread[1] > 0.1 * spread[0]:
        assert np.abs(end - (x @ turn.T + shift)).max() < 1e-5


@pytest.mark.parametrize("held", [1, 2, 5])
def test_a_zone_on_what_stands_still_stands_still(held):
    """One point or a line of them says nothing about the rotation about it; none is made up."""
    rng = np.random.default_rng(held)
    for _ in range(50):
        fixed = rng.normal(size=3) + np.outer(np.arange(held), rng.normal(size=3))
        x = np.concatenate([fixed, rng.normal(size=(4, 3))])
        assert np.abs(carried_velocity(x, fixed, fixed, 1.0)).max() < 1e-6


def test_colliders_that_deform_or_close_carry_nothing():
    fixed = np.array([[0.0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    closing = fixed * [1.0, 1.0, 0.999]
    assert carried_velocity(fixed, fixed, closing, 0.01) is None
    mirrored = fixed * [1.0, 1.0, -1.0]
    assert carried_velocity(fixed, fixed, mirrored, 0.01) is None


def sheet(name, height, *, aside=0.0, cells=1, pins=(), speed=0.0):
    return weft.Cloth(
        name=name,
        shape=weft.Grid(size=(0.1, 0.1), cells=(cells, cells)),
        placement={"position": (aside, height, 0.9 * aside)},
        velocity=(0.0, speed, 0.0),
        pins=list(pins),
    )


@pytest.mark.parametrize(
    ("below", "halved"),
    [
        ({"aside": 0.09}, False),  # corner over corner
        ({"aside": 0.09, "pins": [weft.Pin(boundary="all")]}, True),
        ({"cells": 6}, True),  # many
    ],
)
def test_few_collisions_that_impulses_leave_are_left_to_zones_and_many_to_shorter_steps(monkeypatch, below, halved):
    scene = weft.Scene(
        cloths=[sheet("below", 0.0, **below), sheet("above", 0.01, cells=below.get("cells", 1), speed=-6.0)],
        # in substeps of position-based cloth contacts would stop it
        method={"name": "robust", "dynamics": "mass_spring"},
        forces=weft.Forces(gravity=(0, 0, 0)),
    )
    world = World(scene, "cpu")
    method, state = make_method(world, scene.method), world.initial_state()
    alone = []
    monkeypatch.setattr(method.solver, "sweep", lambda *_, appended_only=False: alone.append(appended_only))
    reports = method.divide_step(state, 1.0 / 360.0)
    # first the repulsion, then rounds: of few collisions those after the first are about the collisions alone
    rounds, few = alone[1 : 1 + collision_rounds.IMPULSE_ROUNDS + collision_rounds.ALONE_ROUNDS], "cells" not in below
    assert rounds == [few and number >= collision_rounds.IMPULSE_ROUNDS for number in range(len(rounds))]
    assert sum(report.zones for report in reports) > 0 and not any(report.problems for report in reports)
    assert (len(reports) > 1) == halved
