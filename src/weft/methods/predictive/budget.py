"""The time that a step may take.

A step is a search for contacts, substeps, and a look for what crossed. How long these take is known from the steps before. What
does not fit is left out: a step is divided into fewer fractions; once the search has shown how many contacts there are, it has
fewer substeps; and where there is no time left to undo what crossed, all cloth goes through the step as one rigid body
(`Tangles`). A search and half of the substeps are done in any case. With fewer substeps cloth is so soft that it has several
times the contacts; with fewer contacts more crosses, which takes longer to undo than contacts take to solve.
"""

import math
from collections.abc import Callable
from time import perf_counter

import warp as wp

from weft.errors import WeftError

# share of the time after the search that substeps may take, however long it takes to undo crossings
SOLVING = 0.5
# share of the substeps that a step has in any case
LEAST_SUBSTEPS = 0.5


def never() -> bool:
    """Without a budget no step is late."""
    return False


class StepBudget:
    """Keeps steps within so many seconds."""

    def __init__(self, seconds: float, *, clock: Callable[[], float] = perf_counter) -> None:
        self.seconds = seconds
        self.fractions_left = 1
        """how many fractions of the step are still to be done, the present one among them"""
        self.wanted = self.taken = 0
        """substeps of the step: as many as without a budget, and those that it had"""
        self.spent = 0.0
        """what the step took, s"""
        self._clock = clock
        self._start = self._fraction_start = self._mark = 0.0
        self._fraction_end = math.inf
        # of the last steps, s: until the substeps begin; a substep, for each vertex or contact; undoing crossings
        self._before = self._rate = self._after = 0.0

    @classmethod
    def of(cls, milliseconds: float, device: wp.Device) -> "StepBudget":
        """A budget as somebody asks for it."""
        if not isinstance(milliseconds, int | float) or not 0.0 < milliseconds < math.inf:
            raise WeftError(f"budget_ms must be more than 0, not {milliseconds!r}")
        if not device.is_cpu:
            raise WeftError(
                "budget_ms is for the CPU: on a GPU a whole step is launched before anything of it can be measured"
            )
        return cls(1e-3 * milliseconds)

    def report(self, *, frozen: bool) -> dict[str, float]:
        """What is said about the last step."""
        return {
            "substeps": self.taken,
            "wanted_substeps": self.wanted,
            "frozen": int(frozen),
            "milliseconds": 1e3 * self.spent,
        }

    def begin(self) -> None:
        """A step begins."""
        self._start = self._clock()
        self.wanted = self.taken = 0
        self.fractions_left = 1

    def end(self) -> None:
        """The step is over."""
        self.spent = self._clock() - self._start

    def begin_fraction(self) -> None:
        """A fraction of the step begins, or all of it."""
        now = self._fraction_start = self._clock()
        self._fraction_end = now + (self._start + self.seconds - now) / self.fractions_left

    def fractions(self, wanted: int) -> int:
        """How many of the fractions that a step should have fit in, each with a search and a look for crossings."""
        return _fitting(wanted, self._before + self._after, self._fraction_end - self._clock())

    def substeps(self, wanted: int, size: int) -> int:
        """How many of the wanted substeps fit in, with so many vertices and contacts."""
        now = self._mark = self._clock()
        self._before = _smoothed(self._before, now - self._fraction_start)
        left = self._fraction_end - now
        left = max(left - self._after, SOLVING * left)
        taken = max(_fitting(wanted, self._rate * size, left), math.ceil(LEAST_SUBSTEPS * wanted))
        self.wanted += wanted
        self.taken += taken
        return taken

    def solved(self, substeps: int, size: int) -> None:
        """So many substeps were done."""
        now = self._clock()
        self._rate = _smoothed(self._rate, (now - self._mark) / (substeps * size))
        self._mark = now

    def end_fraction(self) -> None:
        """Crossings were undone."""
        self._after = _smoothed(self._after, self._clock() - self._mark)

    def late(self) -> bool:
        """Whether the time of the fraction is over."""
        return self._clock() > self._fraction_end


def _fitting(wanted: int, each: float, left: float) -> int:
    """How many of the wanted things that take so long each fit into the time that is left; one in any case."""
    return min(wanted, max(int(left / each), 1)) if each > 0.0 else wanted


def _smoothed(before: float, now: float) -> float:
    """What something takes, from what it took before and now: more at once, less by and by."""
    return max(now, 0.5 * (before + now))
