"""When cloth has come to rest, so that its steps need not be computed."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

# for how long nothing may move, s: longer than the highest point of a swing lasts
WINDOW = 0.5
# how far a vertex may move within that time, m: contacts jitter by less, and a millimetre a second is hard to see
MOST = 5e-4


class RestWatch:
    """Whether cloth is at rest: for a while no vertex has moved, nor anything that could move it."""

    def __init__(self) -> None:
        self.asleep = False
        self._since = 0.0
        self._first: Floats = np.zeros((0, 3))
        self._given: list[bytes] = []

    def wake(self) -> None:
        """Begin to watch again."""
        self.asleep, self._first, self._since = False, np.zeros((0, 3)), 0.0

    def look(self, given: Sequence[Floats], positions: Floats) -> bool:
        """Whether the next step can be left out; `given` is all that the caller moves, as it is at the end of the step."""
        now = [values.tobytes() for values in given]
        if now != self._given or (self.asleep and not np.array_equal(positions, self._first)):
            self._given = now
            self.wake()
        return self.asleep

    def step_done(self, positions: Floats, dt: float) -> bool:
        """Look at the cloth after a step; whether it falls asleep now."""
        if not len(self._first) or np.abs(positions - self._first).max(initial=0.0) > MOST:
            self._first, self._since = positions.copy(), 0.0
            return False
        self._since += dt
        self.asleep = self._since >= WINDOW
        if self.asleep:
            self._first = positions.copy()
        return self.asleep
