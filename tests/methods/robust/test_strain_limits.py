"""Strain and strain rate limits on velocities: the length of one spring, chains, momentum."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.dynamics.springs import from_mesh, from_pairs
from weft.mesh import TriMesh, shapes
from weft.methods.robust.limited_springs import RETURN_FRACTION, RETURN_TIME
from weft.methods.robust.strain_limits import StrainLimits
from weft.runtime import cooperative, get_threads, set_threads
from weft.scene import Material

DT, LIMIT = 1.0 / 480.0, 0.1
PART = float(RETURN_FRACTION)
SEEDS = st.integers(0, 2**32 - 1)


def limited(network, x, v, mass, *, sweeps=8, dt=DT, welds=None):
    """Velocities after the limits, and how many springs gave impulses."""
    limits = StrainLimits.from_network(network, numbers(1.0 / mass), welds=welds)
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
        (1.3, 0.1, 1.4 - PART * (0.1 + 0.2 * DT / float(RETURN_TIME))),  # outside: back within some steps
        (1.3, -0.1, 1.2),  # or faster, as it likes
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


@pytest.mark.parametrize("turn_deg", [10.0, 40.0, 60.0, 90.0])
@pytest.mark.parametrize(("length", "end"), [(1.0, 1.0), (0.95, 0.95), (0.5, 0.9)])
def test_a_spring_that_turns_is_not_pushed_for_it(turn_deg, length, end):
    """It has another direction at the end of the step, and is to have the same length; one that gets too short has 90 %."""
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    to = length * np.array([np.cos(np.radians(turn_deg)), np.sin(np.radians(turn_deg)), 0.0])
    v = np.array([np.zeros(3), (to - x[1]) / DT])
    after, found = limited(chain(1), x, v, np.array([np.inf, 1.0]))
    if end == length:
        assert found == 0 and np.array_equal(after, v)
    else:
        assert np.linalg.norm(x[1] + DT * after[1]) == pytest.approx(end, abs=1e-9)
        # pushed along the direction that it had
        assert after[1, 1] == pytest.approx(v[1, 1], abs=1e-9)


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


def test_where_limits_contradict_each_other_the_one_of_stretch_is_kept():
    """A spring that is too long, held between two that are too short: these push, but not in the last sweeps."""
    x = np.array([[0.0, 0.0, 0.0], [0.8, 0.0, 0.0], [2.0, 0.0, 0.0], [2.8, 0.0, 0.0]])
    v = np.zeros_like(x)
    mass = np.array([np.inf, 1.0, 1.0, np.inf])
    for _ in range(60):
        after, _ = limited(chain(3), x, v, mass)
        x = x + DT * after
    lengths = np.diff(x[:, 0])
    assert lengths[1] < 1.11 and lengths[0] < 0.9


def test_springs_that_cannot_come_back_pull_no_more_than_each_would_alone():
    """A chain drawn out by a third between two pins: impulses must not grow with every sweep."""
    count = 12
    x = np.column_stack([1.3 * np.arange(count + 1.0), np.zeros((count + 1, 2))])
    mass = np.array([np.inf, *np.ones(count - 1), np.inf])
    limits = StrainLimits.from_network(chain(count), numbers(1.0 / mass))
    v = wp.zeros(count + 1, dtype=wp.vec3d, device="cpu")
    limits.apply(wp.array(x, dtype=wp.vec3d, device="cpu"), v, LIMIT, DT, 40)
    alone = 0.2 / float(RETURN_TIME)
    assert 0.2 * alone < np.abs(limits.given.numpy()).max() <= alone


@pytest.mark.parametrize(("seams", "speed"), [((), 0.0), ((2,), -0.2 / float(RETURN_TIME))])
def test_rounds_of_collisions_bring_back_springs_at_seams_only(seams, speed):
    """And all the way, as nothing else does."""
    x = np.array([[0.0, 0.0, 0.0], [1.3, 0.0, 0.0], [2.6, 0.0, 0.0]])
    network = from_pairs(np.array([[1, 2]]), np.ones(1), np.full(1, 10.0))
    limits = StrainLimits.from_network(network, numbers(np.ones(3)), seams=seams)
    v = wp.zeros(3, dtype=wp.vec3d, device="cpu")
    limits.apply(wp.array(x, dtype=wp.vec3d, device="cpu"), v, LIMIT, DT, 8, returning=False)
    assert np.diff(v.numpy()[1:, 0])[0] == pytest.approx(speed)


def test_bend_springs_are_not_limited():
    network = from_mesh(shapes.grid((1.0, 1.0), (4, 4)), Material())
    springs = StrainLimits.from_network(network, numbers(np.ones(25)))
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
    limits, velocity = (
        StrainLimits.from_network(network, numbers(1.0 / mass)),
        wp.array(v, dtype=wp.vec3d, device="cpu"),
    )
    limits.apply(wp.array(mesh.vertices, dtype=wp.vec3d, device="cpu"), velocity, LIMIT, DT, 3000)
    pairs, rest = limits.springs.pairs.numpy(), limits.springs.rest.numpy()
    way, speed = (a[pairs[:, 0]] - a[pairs[:, 1]] for a in (mesh.vertices, velocity.numpy()))
    longer = DT * np.einsum("id,id->i", way, speed) / rest**2
    change = np.linalg.norm(way + DT * speed, axis=1) / rest - 1.0
    assert longer.max() < LIMIT * (1.0 + 1e-6) and change.min() > -LIMIT * (1.0 + 1e-6)
    assert (limits.given.numpy()[(longer < 0.99 * LIMIT) & (change > -0.99 * LIMIT)] == 0.0).all()


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


def test_what_is_welded_moves_as_one_mass():
    """Two springs whose ends are welded are a chain; a third panel is welded there too, and a fourth is not."""
    x = np.array([[0.0, 0, 0], [1, 0, 0], [1, 0, 0], [2, 0, 0], [1, 0, 0], [1, 1, 0], [1, 0, 0]])
    v = np.zeros_like(x)
    v[3, 0] = 0.5 / DT
    mass = np.array([np.inf, 0.2, 0.5, 1.0, 0.3, 1e-6, 1.0])
    pairs = np.array([[0, 1], [2, 3], [4, 5]])
    network = from_pairs(pairs, np.ones(3), np.ones(3))
    after, _ = limited(network, x, v, mass, welds=np.array([[1, 2], [4, 2]]), sweeps=40)
    alone, _ = limited(chain(2), x[[0, 1, 3]], v[[0, 1, 3]], np.array([np.inf, 1.0, 1.0]), sweeps=40)
    np.testing.assert_allclose(after[[0, 1, 3]], alone, atol=1e-5)
    assert np.array_equal(after[1], after[2]) and np.array_equal(after[1], after[4]) and (after[6] == 0.0).all()


def test_the_speed_at_which_a_weld_closes_stays():
    """What draws the sides of a seam together are the dynamics: limits move both sides alike."""
    x = np.array([[0.0, 0, 0], [1, 0, 0], [1.1, 0, 0], [2.1, 0, 0]])
    v = np.array([[0.0, 0, 0], [0.2, 0, 0], [-0.1, 0.3, 0], [0.6, 0, 0]]) / DT
    network = from_pairs(np.array([[0, 1], [2, 3]]), np.ones(2), np.ones(2))
    after, found = limited(network, x, v, np.array([np.inf, 1.0, 2.0, 1.0]), welds=np.array([[2, 1]]))
    assert found == 2
    np.testing.assert_allclose(after[2] - after[1], v[2] - v[1], atol=1e-9)
    # one side is held: the other is too, as far as the limits move it
    held, _ = limited(network, x, v, np.array([1.0, np.inf, 2.0, 1.0]), welds=np.array([[2, 1]]))
    assert np.array_equal(held[1:3], v[1:3]) and not np.array_equal(held[3], v[3])


def test_a_weld_stays_closed_in_cloth_that_is_stretched_to_its_limit():
    """A strip of two panels, drawn out by a fifth: the seam gaped by millimetres when the limits moved its sides alone."""
    panel = shapes.grid((0.2, 0.1), (8, 4))
    vertices = np.concatenate([panel.vertices - [0.1, 0, 0], panel.vertices + [0.1, 0, 0]])
    mesh = TriMesh(vertices, np.concatenate([panel.faces, panel.faces + 45]), uv=vertices[:, [0, 2]] * [1, -1])
    seam = np.arange(5) * 9
    ends = [
        weft.Pin(
            indices=(seam + end).tolist(),
            motion=weft.Path(keyframes=[{"time": 0.0}, {"time": 0.2, "position": (way, 0, 0)}]),
        )
        for end, way in ((0, -0.04), (53, 0.04))
    ]
    scene = weft.Scene(
        cloths=[weft.Cloth(name="strip", mesh=mesh, rest="uv", pins=ends)],
        seams=[weft.Seam(cloth="strip", kind="weld", vertices=np.stack([seam + 8, seam + 45, seam + 45], 1).tolist())],
        forces=weft.Forces(gravity=(0, 0, 0)),
        method="robust",
    )
    sim = weft.Simulation(scene)
    sim.advance(frames=18)
    x = sim.state.positions()
    gaps = np.linalg.norm(x[seam + 8] - x[seam + 45], axis=1)
    assert np.ptp(x[:, 0]) > 0.47 and gaps.max() < 1e-4


def test_worlds_with_welds_have_joined_the_bytes_that_they_have_alone():
    rng = np.random.default_rng(5)
    panel = shapes.grid((1.0, 1.0), (6, 6))
    edge = np.arange(7) * 7
    mesh = TriMesh(
        np.concatenate([panel.vertices, panel.vertices + [1.0, 0, 0]]), np.concatenate([panel.faces, panel.faces + 49])
    )
    network, welds, count = from_mesh(mesh, Material()), np.stack([edge + 6, edge + 49], axis=1), 98
    v, mass = rng.normal(scale=30.0, size=(2, count, 3)), rng.uniform(0.5, 2.0, (2, count))
    alone = [StrainLimits.from_network(network, numbers(1.0 / m), welds=welds) for m in mass]
    place = rng.permutation(2 * count).reshape(2, count).astype(np.int32)
    masses, x, velocity = np.zeros(2 * count), np.zeros((2 * count, 3)), np.zeros((2 * count, 3))
    masses[place], x[place], velocity[place] = mass, mesh.vertices, v
    together = StrainLimits.joined(alone, place, numbers(1.0 / masses))
    position, moving = (wp.array(a, dtype=wp.vec3d, device="cpu") for a in (x, velocity))
    together.apply(position, moving, LIMIT, DT, 8)
    for k in range(2):
        after, found = limited(network, mesh.vertices, v[k], mass[k], welds=welds)
        assert found > 0 and after.tobytes() == moving.numpy()[place[k]].tobytes()
