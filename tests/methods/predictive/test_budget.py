"""The time that a step may take."""

import itertools

import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.geometry.intersection import IntersectionFinder
from weft.methods.predictive.budget import StepBudget
from weft.scene import Predictive


class Clock:
    """A clock that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def part(budget: StepBudget, clock: Clock, search: float, substep: float, undo: float, *, wanted: int = 10) -> int:
    """A fraction of a step on a clock, of which each thing takes so many seconds; gives its substeps."""
    budget.begin_fraction()
    clock.now += search
    taken = budget.substeps(wanted, 1000)
    clock.now += taken * substep
    budget.solved(taken, 1000)
    clock.now += undo
    budget.end_fraction()
    return taken


def step(budget: StepBudget, clock: Clock, *takes: float) -> int:
    budget.begin()
    taken = part(budget, clock, *takes)
    budget.end()
    return taken


def test_substeps_are_those_that_fit():
    clock = Clock()
    budget = StepBudget(0.0101, clock=clock)
    # nothing is known yet
    assert step(budget, clock, 0.001, 0.001, 0.001) == 10
    assert (budget.wanted, budget.taken, budget.spent) == (10, 10, pytest.approx(0.012))
    assert [step(budget, clock, 0.001, 0.001, 0.001) for _ in range(3)] == [8] * 3
    assert budget.report(frozen=True) == {
        "substeps": 8,
        "wanted_substeps": 10,
        "frozen": 1,
        "milliseconds": pytest.approx(10.0),
    }
    # what takes longer is known at once, what takes less by and by
    assert step(budget, clock, 0.001, 0.0014, 0.001) == 8
    assert step(budget, clock, 0.001, 0.0005, 0.001) == 5
    assert [step(budget, clock, 0.001, 0.0005, 0.001) for _ in range(4)][-1] == 10


def test_half_of_the_substeps_are_done_in_any_case():
    clock = Clock()
    budget = StepBudget(0.001, clock=clock)
    assert [step(budget, clock, 0.004, 0.001, 0.001) for _ in range(3)] == [10, 5, 5]
    assert budget.late()


def test_undoing_crossings_leaves_half_of_the_time_to_substeps():
    clock = Clock()
    budget = StepBudget(0.0171, clock=clock)
    assert [step(budget, clock, 0.001, 0.001, 0.050) for _ in range(3)] == [10, 8, 8]


def test_fractions_share_the_time():
    clock = Clock()
    budget = StepBudget(0.020, clock=clock)
    assert budget.fractions(3) == 3
    step(budget, clock, 0.003, 0.001, 0.003)
    budget.begin()
    budget.begin_fraction()
    assert [budget.fractions(n) for n in (1, 2, 3, 8)] == [1, 2, 3, 3]
    taken = []
    for fractions in (2, 1):
        budget.fractions_left = fractions
        taken.append(part(budget, clock, 0.003, 0.001, 0.001, wanted=6))
    budget.end()
    assert budget.wanted == 12 and budget.taken == sum(taken) < 12
    assert budget.spent <= 0.020


def collapse(substeps: int | None = None, **options) -> weft.Realtime:
    """A sheet that falls on its edge and collapses."""
    sheet = weft.Cloth(
        shape=weft.Grid(size=(0.5, 0.5), cells=(16, 16)),
        material="silk",
        placement=weft.Placement(position=(0.0, 0.26, 0.0), rotation_deg=(84, 0, 0)),
    )
    floor = weft.Collider(shape=weft.Plane(), analytic=True)
    scene = weft.Scene(cloths=[sheet], colliders=[floor], method=Predictive(substeps=substeps))
    return weft.Realtime(scene, **options)


def test_cloth_without_time_to_undo_crossings_freezes_and_does_not_cross():
    # so few substeps that it would cross
    cloth = collapse(3)
    # each look at the clock takes a minute
    cloth.solver.budget = StepBudget(1e-3, clock=itertools.count(0.0, 60.0).__next__)
    crossings = IntersectionFinder(cloth.faces)
    frozen = 0
    for _ in range(90):
        before = cloth.positions.copy()
        cloth.step(1 / 60)
        if cloth.report["frozen"]:
            frozen += 1
            apart = [np.linalg.norm(x[:-1] - x[1:], axis=1) for x in (before, cloth.positions)]
            np.testing.assert_allclose(*apart, atol=1e-12)
        assert len(crossings.find(cloth.positions)) == 0
    assert frozen > 0
    assert cloth.report["substeps"] == np.ceil(cloth.report["wanted_substeps"] / 2)


def test_a_large_budget_changes_nothing():
    cloths = collapse(), collapse(budget_ms=1e9)
    for _ in range(40):
        for cloth in cloths:
            cloth.step(1 / 60)
    np.testing.assert_array_equal(cloths[0].positions, cloths[1].positions)
    assert set(cloths[1].report) - set(cloths[0].report) == {"substeps", "wanted_substeps", "frozen", "milliseconds"}


@pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "4"])
def test_a_budget_is_a_time(value):
    with pytest.raises(WeftError, match=r"^budget_ms must be more than 0"):
        collapse(budget_ms=value)
