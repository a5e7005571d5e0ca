"""Contacts inside substeps: positions moved apart, friction on the way of a substep."""

import numpy as np
import pytest
from contact_pairs import Pairs, numbers, packed_vertices, random_pairs, relative, upload
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.contact.impulses import ImpulseSolver
from weft.methods.robust.substep_contacts import PositionContacts
from weft.runtime import cooperative, get_threads, set_threads

SEEDS = st.integers(0, 2**32 - 1)
WEIGHTS = np.array([1.0, -0.25, -0.25, -0.5])


def part(pairs, mass, x, before, distances, friction=(0.0, 0.0)):
    """Positions after one sweep over the contacts."""
    contacts = upload(pairs, friction=friction)
    solver = ImpulseSolver(len(mass), numbers(1.0 / mass))
    solver.order_by_colour(contacts)
    order = solver._colouring.order.numpy()[: contacts.count]
    contacts.kept_distances[: contacts.count].assign(np.broadcast_to(distances, contacts.count).astype(float)[order])
    out = packed_vertices(x, 1.0 / mass)
    PositionContacts(solver, contacts)(out, packed_vertices(before, 1.0 / mass))
    assert np.array_equal(out.numpy()[:, 3], 1.0 / mass)
    return out.numpy()[:, :3]


def over_a_floor(point, before, distance, static, kinetic, mass=(1.0, np.inf, np.inf, np.inf), gap=0.0):
    """Where a vertex comes to that is at `point` and was at `before`, over a triangle in the plane y = 0.

    When the step started it was over x = z = 0, with that gap.
    """
    floor = [[-1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, -1.0]]
    pairs = Pairs(
        np.array([point, *floor]), np.array([[0, 1, 2, 3]]), WEIGHTS[None], np.array([[0.0, 1, 0]]), np.full(1, gap)
    )
    x, old = np.array([point, *floor]), np.array([before, *floor])
    return part(pairs, np.array(mass), x, old, distance, (static, kinetic))


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, friction=st.sampled_from([(0.0, 0.0), (0.6, 0.4)]))
def test_the_centre_of_mass_stays(seed, friction):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 30, 40)
    mass = rng.uniform(0.5, 2.0, 40)
    before = pairs.x + rng.normal(scale=0.1, size=pairs.x.shape)
    after = part(pairs, mass, pairs.x, before, 1.0 + pairs.gaps, friction)
    moved = mass[:, None] * (after - pairs.x)
    assert np.abs(moved).max() > 0.01
    assert np.abs(moved.sum(axis=0)).max() < 1e-13 * np.abs(moved).sum()


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_pairs_of_their_own_end_at_their_distance_and_others_are_left_alone(seed):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 10, 40, gap=0.5)
    distances = rng.uniform(0.2, 0.8, 10)
    after = part(pairs, rng.uniform(0.5, 2.0, 40), pairs.x, pairs.x, distances)
    gaps = np.einsum("id,id->i", relative(pairs, after), pairs.normals)
    assert np.allclose(gaps, np.maximum(distances, 0.5), atol=1e-12)
    apart = pairs.vertices[distances < 0.5].ravel()
    assert np.array_equal(after[apart], pairs.x[apart])


def test_friction_holds_the_sliding_of_a_substep_within_its_cone():
    # 0.1 is missing; a slide of 0.05 is within static friction 0.6 * 0.1
    stuck = over_a_floor([0.05, 0.4, 0.0], [0.0, 0.45, 0.0], 0.5, 0.6, 0.4)
    assert stuck[0] == pytest.approx([0.0, 0.5, 0.0], abs=1e-14)
    # 0.2 is not: kinetic friction takes 0.4 * 0.1 of it
    slid = over_a_floor([0.2, 0.4, 0.0], [0.0, 0.45, 0.0], 0.5, 0.6, 0.4)
    assert slid[0] == pytest.approx([0.16, 0.5, 0.0], abs=1e-14)
    # nothing missing, nothing done
    free = over_a_floor([0.2, 0.6, 0.0], [0.0, 0.45, 0.0], 0.5, 0.6, 0.4)
    assert free[0] == pytest.approx([0.2, 0.6, 0.0], abs=0.0)


def test_what_touched_when_the_step_started_has_slid_since_then():
    """What friction let slip in the substeps before is held back too, as far as the push allows."""
    held = over_a_floor([0.05, 0.4, 0.0], [0.04, 0.45, 0.0], 0.5, 0.6, 0.4, gap=0.54)
    assert held[0] == pytest.approx([0.0, 0.5, 0.0], abs=1e-14)
    # the kinetic part of the push, and no more
    slid = over_a_floor([0.2, 0.4, 0.0], [0.19, 0.45, 0.0], 0.5, 0.6, 0.4, gap=0.54)
    assert slid[0] == pytest.approx([0.16, 0.5, 0.0], abs=1e-14)


def test_what_comes_to_touch_has_slid_freely_before():
    stopped = over_a_floor([0.05, 0.4, 0.0], [0.04, 0.45, 0.0], 0.5, 0.6, 0.4, gap=0.56)
    assert stopped[0] == pytest.approx([0.04, 0.5, 0.0], abs=1e-14)


def test_prescribed_vertices_do_not_move():
    after = over_a_floor([0.0, 0.4, 0.0], [0.0, 0.4, 0.0], 0.5, 0.0, 0.0)
    assert np.array_equal(after[1:], [[-1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    held = over_a_floor([0.0, 0.4, 0.0], [0.0, 0.4, 0.0], 0.5, 0.0, 0.0, mass=(np.inf,) * 4)
    assert held[0] == pytest.approx([0.0, 0.4, 0.0], abs=0.0)


def test_friction_is_relative_to_the_other_side():
    """A floor that moves carries what sticks to it."""
    floor = np.array([[-1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    x = np.concatenate([[[0.0, 0.4, 0.0]], floor + [0.03, 0.0, 0.0]])
    before = np.concatenate([[[0.0, 0.4, 0.0]], floor])
    pairs = Pairs(x, np.array([[0, 1, 2, 3]]), WEIGHTS[None], np.array([[0.0, 1, 0]]), np.zeros(1))
    after = part(pairs, np.array([1.0, np.inf, np.inf, np.inf]), x, before, 0.5, (0.6, 0.4))
    assert after[0] == pytest.approx([0.03, 0.5, 0.0], abs=1e-14)


def test_bytes_do_not_depend_on_threads(monkeypatch):
    rng = np.random.default_rng(3)
    pairs = random_pairs(rng, 900, 400)
    results, threads = [], get_threads()
    try:
        monkeypatch.setattr(cooperative, "MIN_PARALLEL_ITEMS", 0)
        for count in (1, 2, 3):
            set_threads(count)
            results.append(part(pairs, np.ones(400), pairs.x, pairs.x - 0.01, 1.0, (0.5, 0.4)).tobytes())
    finally:
        set_threads(threads)
    assert results[0] == results[1] == results[2]
