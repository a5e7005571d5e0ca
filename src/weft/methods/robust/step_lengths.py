"""How long the steps of a frame are: a step that cannot be resolved is tried again with half its length.

A frame has a number of steps of equal length, each of which may be halved several times. Time within a frame is counted in
ticks, the shortest steps, so that steps of all lengths end exactly with the frame.
"""

from typing import Protocol

from weft.methods.base import StepReport
from weft.world import State

# steps in a row that succeed before twice their length is tried again
GOOD_STEPS = 3


class TryStep(Protocol):
    """A step of dt from the state that ends at a time; None where it failed, the state is unchanged and it may be halved."""

    def __call__(self, state: State, dt: float, end: float, *, may_halve: bool) -> StepReport | None: ...


class StepLengths:
    """How often the longest step is halved now, from frame to frame."""

    def __init__(self, steps: int, most_halvings: int) -> None:
        """`steps` of a frame while nothing goes wrong, each of which may be halved so often."""
        self._ticks, self._most = steps << most_halvings, most_halvings
        self.halvings = 0
        self.good_steps = 0

    def advance_frame(self, state: State, fps: float, try_step: TryStep) -> list[StepReport]:
        """Take steps until the frame ends; gives the reports of those that succeeded."""
        ticks, most = self._ticks, self._most
        start, tick = state.frame / fps, 0
        reports: list[StepReport] = []
        while tick < ticks:
            length = 1 << (most - self.halvings)
            state.time = start + tick / (ticks * fps)
            ends_frame = tick + length == ticks
            end = (state.frame + 1) / fps if ends_frame else start + (tick + length) / (ticks * fps)
            report = try_step(state, length / (ticks * fps), end, may_halve=self.halvings < most)
            if report is None:
                self.halvings, self.good_steps = self.halvings + 1, 0
                continue
            reports.append(report)
            tick += length
            self.good_steps += 1
            # a longer step must begin at a multiple of its length
            if self.good_steps >= GOOD_STEPS and self.halvings > 0 and tick % (2 * length) == 0:
                self.halvings, self.good_steps = self.halvings - 1, 0
        state.frame += 1
        state.time = state.frame / fps
        return reports
