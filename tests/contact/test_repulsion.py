"""Repulsion: how fast a contact must part, from its gap, its thickness and the step."""

import numpy as np
import pytest
import warp as wp
from contact_pairs import numbers, random_pairs, relative, upload, vectors
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.contact.friction import REMOVED_OVERLAP, ContactTables, set_repulsion
from weft.runtime import launch

THICKNESS = 1e-3


def tables(bodies):
    static = np.linspace(0.1, 0.9, bodies * bodies).reshape(bodies, bodies)
    return static, 0.5 * static


def set_up(pairs, inverse_mass, body, dt, *, part=REMOVED_OVERLAP, stiffness=500.0, known=0, fold=0.0, more=0):
    contacts = upload(pairs, speeds=-7.0, friction=(-1.0, -1.0), thickness=THICKNESS)
    contacts.normal_impulses.fill_(3.0)
    friction = [wp.array(t, dtype=wp.float64, ndim=2, device="cpu") for t in tables(int(body.max()) + 1)]
    bodies = wp.array(body.astype(np.int32), dtype=int, device="cpu")
    given = ContactTables()
    given.inverse_mass, given.vertex_body = numbers(inverse_mass), bodies
    given.friction_static, given.friction_kinetic = friction
    given.rest_shape, given.crease_lengths = vectors(pairs.x), numbers(np.full(int(body.max()) + 1, fold))
    given.stiffness = numbers(np.full(int(body.max()) + 1, stiffness))
    inputs = [known, contacts.size, contacts.arrays, given, part, dt]
    launch(set_repulsion, contacts.count - known + more, inputs)
    return contacts


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    dt=st.sampled_from([1 / 480, 1 / 3840]),
    part=st.sampled_from([0.1, 1.0]),
    stiffness=st.sampled_from([1.0, 500.0, np.inf]),
)
def test_parting_speeds_against_the_formula(seed, dt, part, stiffness):
    """min(spring, a part of the overlap) inside the thickness; what leaves the thickness at the end outside of it."""
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 50, 60)._replace(gaps=rng.uniform(0.0, 3e-3, 50))
    inverse = np.where(rng.uniform(size=60) < 0.2, 0.0, rng.uniform(1e3, 1e5, 60))
    contacts = set_up(pairs, inverse, rng.integers(0, 3, 60), dt, part=part, stiffness=stiffness)
    overlap = THICKNESS - pairs.gaps
    w = (pairs.weights**2 * inverse[pairs.vertices]).sum(axis=1)
    with np.errstate(invalid="ignore"):
        spring = dt * stiffness * overlap * w
    expected = np.where(overlap > 0.0, np.fmin(part * overlap / dt, spring), overlap / dt)
    assert np.allclose(contacts.least_speeds.numpy()[:50], expected, rtol=1e-12, atol=0.0)


@pytest.mark.parametrize(
    ("gap", "distance"), [(0.0, 1e-4), (5e-4, 5.5e-4), (9.99e-4, 9.991e-4), (1e-3, 1e-3), (3e-3, 1e-3)]
)
def test_contacts_in_substeps_grow_by_a_tenth_of_what_is_missing_a_step(gap, distance):
    pairs = random_pairs(np.random.default_rng(0), 1, 4)._replace(gaps=np.array([gap]))
    contacts = set_up(pairs, np.full(4, 1e4), np.zeros(4, int), 1 / 480)
    assert contacts.kept_distances.numpy()[0] == pytest.approx(distance, rel=1e-12)


def test_the_spring_brings_a_contact_out_in_the_end_and_never_overshoots():
    """Gaps grow by at most a tenth of what is missing, and reach the thickness without passing it."""
    pairs = random_pairs(np.random.default_rng(0), 1, 4)._replace(gaps=np.array([2e-4]))
    gap, dt, gaps = 2e-4, 1 / 480, []
    for _ in range(200):
        speed = set_up(
            pairs._replace(gaps=np.array([gap])), np.full(4, 1e4), np.zeros(4, int), dt
        ).least_speeds.numpy()[0]
        assert 0.0 <= speed <= 0.1 * (THICKNESS - gap) / dt * (1 + 1e-12)
        gap += dt * speed
        gaps.append(gap)
    assert gaps[-1] == pytest.approx(THICKNESS, rel=1e-6) and max(gaps) <= THICKNESS * (1 + 1e-12)


def test_friction_is_that_of_the_two_bodies_and_impulses_start_at_nothing():
    rng = np.random.default_rng(1)
    pairs, body = random_pairs(rng, 20, 30), rng.integers(0, 4, 30)
    contacts = set_up(pairs, np.ones(30), body, 0.01)
    static, kinetic = tables(4)
    a, b = body[pairs.vertices[:, 0]], body[pairs.vertices[:, 3]]
    assert np.array_equal(contacts.friction.numpy()[:20], np.column_stack([static[a, b], kinetic[a, b]]))
    assert not contacts.normal_impulses.numpy()[:20].any() and not contacts.tangential_impulses.numpy()[:20].any()


def test_contacts_before_the_offset_keep_what_they_have():
    rng = np.random.default_rng(2)
    contacts = set_up(random_pairs(rng, 20, 30), np.ones(30), np.zeros(30, int), 0.01, known=12)
    assert (contacts.least_speeds.numpy()[:12] == -7.0).all() and (contacts.normal_impulses.numpy()[:12] == 3.0).all()
    assert (contacts.least_speeds.numpy()[12:20] != -7.0).all() and not contacts.normal_impulses.numpy()[12:20].any()


def test_pairs_of_one_cloth_that_are_near_along_it_have_no_friction():
    rng = np.random.default_rng(3)
    pairs, body = random_pairs(rng, 60, 30), rng.integers(0, 2, 30)
    apart = np.linalg.norm(relative(pairs, pairs.x), axis=1)
    fold = float(np.median(apart))
    friction = set_up(pairs, np.ones(30), body, 0.01, fold=fold).friction.numpy()[:60]
    own = body[pairs.vertices[:, 0]] == body[pairs.vertices[:, 3]]
    smooth = own & (apart < fold)
    assert smooth.any() and (own & ~smooth).any() and (~own & (apart < fold)).any()
    assert np.array_equal(friction[:, 0] == 0.0, smooth)


def test_nothing_is_written_behind_the_last_contact():
    """Launches have as many items as there may be contacts; `size` says how many there are."""
    pairs = random_pairs(np.random.default_rng(0), 40, 30)
    contacts = set_up(pairs, np.ones(30), np.zeros(30, int), 0.01, more=20)
    assert (contacts.normal_impulses.numpy()[:40] == 0.0).all() and (
        contacts.normal_impulses.numpy()[40:60] == 3.0
    ).all()
