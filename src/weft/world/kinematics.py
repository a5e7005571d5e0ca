"""Vertices whose motion is prescribed: those of colliders, and pinned ones of cloths until they are released."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# seconds by which the time of a step may miss the release of a pin and still count as later: step times are sums of many dt,
# with rounding errors of some 1e-13 s; a real step is a million times longer
TIME_SLACK = 1e-9

# bits of a phase that count releases of pins; those above count changes of the prescriptions
MOST_RELEASES_BITS = 32

Place = Callable[[float], np.ndarray]
"""time -> (k, 3) positions"""


@dataclass(frozen=True)
class Prescription:
    """Vertices that follow a motion until they are released."""

    vertices: np.ndarray
    place: Place
    still: bool = False
    """whether the place does not depend on the time"""
    until: float = np.inf
    """the time of the release, s"""
    pose: Callable[[float], np.ndarray] | None = None
    """for rigid motions: time -> a matrix that determines the place"""


class Kinematics:
    """All prescriptions of a world. A vertex in two of them follows the later one in the list while both hold."""

    def __init__(self, prescriptions: list[Prescription]) -> None:
        # the first prescriptions are no change
        self._changes = -1
        self.change(prescriptions)

    def change(self, prescriptions: list[Prescription]) -> None:
        """Other prescriptions from now on."""
        self.prescriptions = prescriptions
        self._held: dict[int, np.ndarray] = {}
        self._releases = sorted({p.until for p in prescriptions if np.isfinite(p.until)})
        self.moving = any(not p.still for p in prescriptions)
        self._changes += 1
        self.forget_poses()

    def forget_poses(self) -> None:
        """Compute poses again: a motion that its caller steers has been given another goal."""
        self._poses_of: tuple[float, float] | None = None
        self._poses: list[bytes] | None = None

    def phase(self, time: float) -> int:
        """A number that changes whenever the set of prescribed vertices does: at releases, and by `change`."""
        return bisect_right(self._releases, time + TIME_SLACK) + (self._changes << MOST_RELEASES_BITS)

    def fixed(self, vertex_count: int, time: float) -> np.ndarray:
        """Which vertices are prescribed during a step that starts at this time."""
        mask = np.zeros(vertex_count, bool)
        for p in self._active(time):
            mask[p.vertices] = True
        return mask

    def poses(self, start: float, end: float) -> list[bytes] | None:
        """Bytes that determine where the vertices prescribed at `start` are at `end`; None if some motion is not rigid.

        The last result is kept, so that it can be computed early, while the host has nothing else to do.
        """
        if self._poses_of != (start, end):
            self._poses_of, self._poses = (start, end), self._find_poses(start, end)
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
