"""The exact ground truth itself: known answers, and agreement with distances at many times."""

from fractions import Fraction

import ccd_families
import exact
import numpy as np
import pytest


def still(*vertices):
    return np.array(vertices, float), np.array(vertices, float)


@pytest.mark.parametrize(
    ("point", "touches"),
    [
        ((0.25, 0.25, 0), True),
        ((0, 0, 0), True),
        ((0.5, 0.5, 0), True),
        ((1, 0, 0), True),
        ((0.5, 0.5 + 2**-53, 0), False),
        ((0.25, 0.25, 5e-324), False),
        ((-5e-324, 0, 0), False),
        ((2, -1, 0), False),
    ],
)
def test_still_point_and_triangle(point, touches):
    contact = exact.point_triangle(*still(point, (0, 0, 0), (1, 0, 0), (0, 1, 0)))
    assert contact == ((0, 0) if touches else None)


@pytest.mark.parametrize(
    ("a0", "a1", "touches"),
    [
        ((0.5, -1, 0), (0.5, 1, 0), True),
        ((1, 0, 0), (1, 0, 0), True),
        ((-1, 0, 0), (0, 0, 0), True),
        ((-1, 0, 0), (-5e-324, 0, 0), False),
        ((0.25, 0, 0), (0.5, 0, 0), True),
        ((-1, 0, 0), (2, 0, 0), True),
        ((-1, 0, 5e-324), (2, 0, 5e-324), False),
        ((1.5, 0, 0), (2, 0, 0), False),
    ],
)
def test_still_edges(a0, a1, touches):
    contact = exact.edge_edge(*still(a0, a1, (0, 0, 0), (1, 0, 0)))
    assert contact == ((0, 0) if touches else None)


def test_times_of_contact():
    # falls onto the triangle at 2/3
    start = np.array([(0.2, 0.2, 2), (0, 0, 0), (1, 0, 0), (0, 1, 0)], float)
    end = start.copy()
    end[0, 2] = -1
    low, high = exact.point_triangle(start, end)
    assert low <= Fraction(2, 3) <= high
    assert high - low <= Fraction(1, 2**80)
    # slides in its plane over the side at 1/2
    start[0], end[0] = (-1, 0.5, 0), (1, 0.5, 0)
    assert exact.point_triangle(start, end) == (Fraction(1, 2), Fraction(1, 2))
    # on one line all along, two edges meet end to end at 1/4
    start = np.array([(0, 0, 0), (1, 0, 0), (2, 0, 0), (3, 0, 0)], float)
    end = start + np.array([(4, 0, 0), (4, 0, 0), (0, 0, 0), (0, 0, 0)], float)
    assert exact.edge_edge(start, end) == (Fraction(1, 4), Fraction(1, 4))


def test_roots_with_multiplicity():
    # (3 t - 1)^2 (5 t - 2), then (3 t - 1)^3, then a pair 2^-1000 apart
    product = exact._times(exact._times((-1, 3), (-1, 3)), (-2, 5))
    for root, t in zip(exact._roots(product), (Fraction(1, 3), Fraction(2, 5)), strict=True):
        assert root.contact().low <= t <= root.contact().high
    assert len(exact._roots(exact._times(exact._times((-1, 3), (-1, 3)), (-1, 3)))) == 1
    near = exact._times((-1, 1 << 1000), (-3, 1 << 1000))
    for root, t in zip(exact._roots(near), (Fraction(1, 2**1000), Fraction(3, 2**1000)), strict=True):
        assert root.contact().low <= t <= root.contact().high
    assert exact._roots((1, 0, 1)) == []


@pytest.mark.parametrize("kind", ccd_families.KINDS)
def test_contacts_have_no_distance_and_others_have(kind):
    rng = np.random.default_rng(7)
    hits = 0
    for family in ("lattice", "coplanar", "collinear", "double_root"):
        for start, end in zip(*ccd_families.families()[family](rng, kind, 40), strict=True):
            contact = getattr(exact, kind)(start, end)
            times = np.linspace(0, 1, 65)
            squared = [exact.distance_squared(kind, start, end, t) for t in times]
            if contact is None:
                assert min(squared) > 0
                continue
            hits += 1
            assert exact.distance_squared(kind, start, end, float(contact.low)) < 1e-28
            # nothing touches before the first contact
            assert all(d > 0 for d, t in zip(squared, times, strict=True) if t < contact.low)
    assert hits > 60


@pytest.mark.parametrize("kind", ccd_families.KINDS)
def test_no_contact_is_overlooked(kind):
    """Where the truth is `never`, the least distance, found by ever finer sampling, stays away from zero."""
    rng = np.random.default_rng(8)
    checked = 0
    for start, end in zip(*ccd_families.families()["lattice"](rng, kind, 120), strict=True):
        if getattr(exact, kind)(start, end) is None:
            low, high = 0.0, 1.0
            for _ in range(8):
                times = np.linspace(low, high, 17)
                squared = [exact.distance_squared(kind, start, end, t) for t in times]
                best = int(np.argmin(squared))
                low, high = times[max(best - 1, 0)], times[min(best + 1, 16)]
            assert min(squared) > 1e-6
            checked += 1
    assert checked > 40
