"""Coulomb friction of one contact: sticking, sliding, and the two coefficients."""

import numpy as np
import pytest
from contact_pairs import Pairs, numbers, upload, vectors
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.contact.impulses import ImpulseSolver

SEEDS = st.integers(0, 2**32 - 1)
WEIGHTS = np.array([1.0, -0.25, -0.25, -0.5])


def rub(v, static, kinetic, *, sweeps=1, mass=1.0, speed=0.0, before=(0.0, 0.0, 0.0)):
    """A vertex with velocity v on a fixed floor, which dragged at it `before`; gives its velocity, the push and the drag."""
    x = np.array([[0.0, 0.0, 0.0], [-1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    pairs = Pairs(x, np.array([[0, 1, 2, 3]]), WEIGHTS[None], np.array([[0.0, 1.0, 0.0]]), np.zeros(1))
    contacts = upload(pairs, speeds=speed, friction=(static, kinetic))
    solver = ImpulseSolver(4, numbers([1.0 / mass, 0, 0, 0]))
    solver.colour_appended(contacts)
    contacts.tangential_impulses.numpy()[0] = before
    out = vectors([v, [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    solver.sweep(contacts, out, sweeps)
    return out.numpy()[0], contacts.normal_impulses.numpy()[0], contacts.tangential_impulses.numpy()[0]


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    static=st.floats(0.05, 1.5),
    share=st.floats(0.3, 1.0),
    mass=st.floats(0.1, 10.0),
    sweeps=st.integers(1, 4),
)
def test_coulombs_law(seed, static, share, mass, sweeps):
    """Sliding shrinks by mu times the change of normal velocity, or stops; further sweeps change nothing."""
    v = np.random.default_rng(seed).normal(size=3)
    v[1] = -abs(v[1])
    kinetic = share * static
    after, push, drag = rub(v, static, kinetic, mass=mass, sweeps=sweeps)
    assert push == pytest.approx(mass * -v[1], rel=1e-12)
    assert abs(after[1]) < 1e-14
    slide = np.array([v[0], 0.0, v[2]])
    size = np.linalg.norm(slide)
    if size <= static * -v[1]:
        expected = np.zeros(3)
    else:
        expected = slide * max(1.0 - kinetic * -v[1] / size, 0.0)
    assert np.allclose(after, expected, atol=1e-12)
    # never more than static friction allows, never with the sliding, no normal part
    assert np.linalg.norm(drag) <= static * push * (1 + 1e-12)
    assert drag @ slide <= 1e-12 and abs(drag[1]) < 1e-14
    assert np.allclose(after * mass, v * mass + drag + [0, push, 0], atol=1e-12)


def test_sliding_contacts_keep_sliding_in_later_sweeps():
    """A contact beyond static friction gets kinetic friction however often it is solved."""
    once, *_ = rub([2.0, -1.0, 0.0], 0.5, 0.3)
    often, *_ = rub([2.0, -1.0, 0.0], 0.5, 0.3, sweeps=20)
    assert once[0] == pytest.approx(1.7, abs=1e-12)
    assert often[0] == pytest.approx(1.7, abs=1e-12)


def test_of_an_earlier_drag_only_what_is_tangential_now_stays():
    """The normal has turned since: the component along it is taken back."""
    before = np.array([-0.1, 0.2, 0.05])
    after, push, drag = rub([1.0, -1.0, 0.0], 0.5, 0.3, before=before)
    assert push == pytest.approx(1.0) and abs(drag[1]) < 1e-14 and abs(drag[0]) > 0.1
    assert np.allclose(after, [1.0, -1.0, 0.0] + drag - before + [0.0, push, 0.0], atol=1e-12)


@pytest.mark.parametrize("speed", [0.0, 0.4])
def test_what_pushes_apart_also_rubs(speed):
    """Friction follows the whole normal impulse, that of the repulsion spring included."""
    after, push, _ = rub([1.0, -0.2, 0.0], 0.5, 0.5, speed=speed)
    assert push == pytest.approx(0.2 + speed)
    assert after[0] == pytest.approx(1.0 - 0.5 * (0.2 + speed))


def test_no_push_no_friction():
    after, push, drag = rub([1.0, 0.1, 0.0], 0.8, 0.8)
    assert push == 0.0 and not drag.any()
    assert np.array_equal(after, [1.0, 0.1, 0.0])
