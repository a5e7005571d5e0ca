"""Threads lock: cloth that is pulled at far beyond its weight stretches to the limit and little more."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.dynamics.implicit.model import Implicit
from weft.methods.untangle.locking import CLIP_TOLERANCE, LARGEST_STRETCH, LOCKING_STRETCH, Locking
from weft.world import World

DT = 1.0 / 60.0


def loaded_strip(pull):
    """A strip that hangs from one end and is so heavy that it would stretch by `pull` there."""
    material = weft.Material(stretch=5.0, density=pull * 5.0 / (9.81 * 0.4))
    return World(
        weft.Scene(
            cloths=[
                weft.Cloth(
                    name="strip",
                    shape=weft.Grid(size=(0.1, 0.4), cells=(3, 12)),
                    placement=weft.Placement(rotation_deg=(90.0, 0.0, 0.0)),
                    material=material,
                    pins=[weft.Pin(boundary="top")],
                )
            ],
        )
    )


def vec(values):
    return wp.array(values, dtype=wp.vec3d, device="cpu")


def marks(chosen):
    return wp.array(np.asarray(chosen, np.int8), dtype=wp.int8, device="cpu")


def stretched(world, *, lock):
    """The largest stretch of an edge once the strip hangs still, and how many edges locked in the last step."""
    dynamics, locking, state = Implicit.from_world(world), Locking(world), world.initial_state()
    x_end, v_end = (wp.zeros_like(state.x) for _ in range(2))
    nothing = marks(np.zeros(world.cloth_vertex_count))
    slower = wp.zeros_like(state.v)
    locked = 0
    for _ in range(200):
        world.begin_step(state, DT)
        dynamics.step_springs.clear()
        if lock:
            slower.assign(0.9 * state.velocities())
            locked = locking.lock(state.x, slower, DT, dynamics.step_springs, spared=nothing)
        dynamics.step_springs.close()
        dynamics.propose(state, world.target, DT, x_end, v_end)
        state.take(x_end, v_end)
    mesh = world.cloths[0].mesh
    way = state.positions()[mesh.edges]
    return float((np.linalg.norm(way[:, 1] - way[:, 0], axis=1) / mesh.rest_lengths).max() - 1.0), locked


def test_a_strip_under_load_locks():
    world = loaded_strip(pull=0.5)
    free, _ = stretched(world, lock=False)
    held, locked = stretched(world, lock=True)
    assert free > 0.4
    assert LOCKING_STRETCH < held < LOCKING_STRETCH + 0.1
    assert locked > 0


def test_cloth_that_is_hardly_stretched_is_left_alone():
    world = loaded_strip(pull=0.05)
    free, _ = stretched(world, lock=False)
    held, locked = stretched(world, lock=True)
    assert locked == 0
    assert held == pytest.approx(free, abs=1e-12)


def test_nothing_locks_at_spared_vertices():
    world = loaded_strip(pull=0.5)
    links = Implicit.from_world(world).step_springs
    x = 1.5 * world.initial_state().positions()
    v = np.zeros_like(x)
    spared = np.zeros(len(x), bool)
    edges = len(world.cloths[0].mesh.edges)
    assert Locking(world).lock(vec(x), vec(v), DT, links, spared=marks(spared)) == edges
    spared[0] = True
    at_first = (world.cloths[0].mesh.edges == 0).any(axis=1).sum()
    assert Locking(world).lock(vec(x), vec(v), DT, links, spared=marks(spared)) == edges - at_first


def clip_by_hand(mesh, x, v, held):
    """The same edge by edge: rounds in which every vertex goes the mean of the ways that its long edges ask for."""
    x, v = x.copy(), v.copy()
    for _ in range(30):
        ways = [[] for _ in x]
        for (a, b), rest in zip(mesh.edges, mesh.rest_lengths, strict=True):
            length = np.linalg.norm(x[a] - x[b])
            if length > float(CLIP_TOLERANCE) * (1.0 + LARGEST_STRETCH) * rest and not held[a] and not held[b]:
                step = 0.5 * ((1.0 + LARGEST_STRETCH) * rest / length - 1.0) * (x[a] - x[b])
                ways[a].append(step)
                ways[b].append(-step)
        if not any(ways):
            break
        for i, own in enumerate(ways):
            if own:
                x[i] += np.mean(own, axis=0)
                v[i] += np.mean(own, axis=0) / DT
    return x, v


def test_edges_that_a_step_left_too_long_are_clipped():
    world = loaded_strip(pull=0.5)
    mesh = world.cloths[0].mesh
    start = world.initial_state().positions()
    # one vertex is pulled away from its neighbours
    before = start.copy()
    before[0] += 0.1 * (before[0] - before.mean(axis=0))
    x, v = vec(before), vec(np.zeros_like(before))
    nothing = np.zeros(len(before), bool)
    assert Locking(world).clip(x, v, DT, held=marks(nothing)) > 0
    way = x.numpy()[mesh.edges]
    stretch = np.linalg.norm(way[:, 1] - way[:, 0], axis=1) / mesh.rest_lengths - 1.0
    assert stretch.max() < 0.25
    assert v.numpy() == pytest.approx((x.numpy() - before) / DT, abs=1e-9)
    # nothing moves where all is held, or nothing is too long
    again = vec(before)
    assert Locking(world).clip(again, v, DT, held=marks(~nothing)) == 0
    assert Locking(world).clip(vec(start), v, DT, held=marks(nothing)) == 0
    assert (again.numpy() == before).all()


def test_clipping_is_what_it_is_edge_by_edge():
    world = loaded_strip(pull=0.5)
    rng = np.random.default_rng(3)
    start = world.initial_state().positions()
    before, speeds = start + rng.normal(scale=0.01, size=start.shape), rng.normal(size=start.shape)
    held = rng.random(len(start)) < 0.2
    x, v = vec(before), vec(speeds)
    Locking(world).clip(x, v, DT, held=marks(held))
    expected_x, expected_v = clip_by_hand(world.cloths[0].mesh, before, speeds, held)
    np.testing.assert_allclose(x.numpy(), expected_x, atol=1e-12)
    np.testing.assert_allclose(v.numpy(), expected_v, atol=1e-9)
    assert not np.array_equal(x.numpy(), before)


def test_the_last_bit_does_not_say_what_is_clipped_again():
    # edges that are too long by themselves are as long as they may be after a round, when others at their ends are too long
    world = loaded_strip(pull=0.5)
    rng = np.random.default_rng(5)
    start = 1.2 * world.initial_state().positions()
    start += rng.normal(scale=6e-4, size=start.shape)
    found = []
    for _ in range(20):
        x, v = vec(start + 1e-15 * rng.uniform(-1.0, 1.0, start.shape)), vec(np.zeros_like(start))
        Locking(world).clip(x, v, DT, held=marks(np.zeros(len(start))))
        found.append(x.numpy())
    assert np.abs(found[0] - start).max() > 1e-4
    np.testing.assert_allclose(found, np.broadcast_to(found[0], np.shape(found)), rtol=0.0, atol=1e-12)
