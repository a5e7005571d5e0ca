"""Vertices whose motion is prescribed: all of a collider's, and a cloth's where it is pinned."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# a release at the very start of a step counts as done, rounding of added-up times included
TIME_SLACK = 1e-9

Place = Callable[[float], np.ndarray]
"""time -> (k, 3) positions"""


@dataclass(frozen=True)
class Prescription:
    """Some vertices that follow a motion until they are let go."""

    vertices: np.ndarray
    place: Place
    still: bool = False
    """the place does not depend on the time"""
    until: float = np.inf
    pose: Callable[[float], np.ndarray] | None = None
    """a matrix that says all about the place, where there is one"""


class Kinematics:
    """All prescriptions of a world, by vertex.

    A vertex in two prescriptions follows the later one in the list while both hold.
    """

    def __init__(self, prescriptions: list[Prescription]) -> None:
        self.prescriptions = prescriptions
        self._held: dict[int, np.ndarray] = {}
        self._releases = sorted({p.until for p in prescriptions if np.isfinite(p.until)})
        self.moving = any(not p.still for p in prescriptions)
        self._asked: tuple[float, float] | None = None
        self._poses: list[bytes] | None = None

    def phase(self, time: float) -> int:
        """How many releases have happened; what is prescribed changes only when this does."""
        return bisect_right(self._releases, time + TIME_SLACK)

    def span(self, time: float) -> tuple[float, float]:
        """The times, a little slack added, from and to which the phase is that of a time."""
        phase = self.phase(time)
        ends = [-np.inf, *self._releases, np.inf]
        return float(ends[phase]), float(ends[phase + 1])

    def fixed(self, vertex_count: int, time: float) -> np.ndarray:
        """Which vertices are prescribed during a step that starts at this time."""
        mask = np.zeros(vertex_count, bool)
        for p in self._active(time):
            mask[p.vertices] = True
        return mask

    def poses(self, start: float, end: float) -> list[bytes] | None:
        """What says all about where the vertices prescribed at `start` are at `end`; None where that is too much.

        The last answer is kept, so that somebody may ask early.
        """
        if self._asked != (start, end):
            self._asked, self._poses = (start, end), self._find_poses(start, end)
        return self._poses

    def _find_poses(self, start: float, end: float) -> list[bytes] | None:
        active = self._active(start)
        if any(not p.still and p.pose is None for p in active):
            return None
        return [b"" if p.pose is None or p.still else p.pose(min(end, p.until)).tobytes() for p in active]

    def place(self, x: np.ndarray, start: float, end: float) -> None:
        """Write into x where the vertices prescribed at `start` are at `end`."""
        for p in self._active(start):
            x[p.vertices] = self._positions(p, min(end, p.until))

    def _active(self, time: float) -> list[Prescription]:
        return [p for p in self.prescriptions if p.until > time + TIME_SLACK]

    def _positions(self, p: Prescription, time: float) -> np.ndarray:
        if not p.still:
            return p.place(time)
        key = id(p)
        if key not in self._held:
            self._held[key] = p.place(time)
        return self._held[key]
