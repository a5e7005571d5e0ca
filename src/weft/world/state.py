"""Positions and velocities of all vertices at one moment."""

from dataclasses import dataclass

import numpy as np
import warp as wp


@dataclass
class State:
    """All that a frame passes on to the next one: positions in m, velocities in m/s, time in s, and the frame's number."""

    x: wp.array
    v: wp.array
    time: float = 0.0
    frame: int = 0

    @classmethod
    def from_numpy(
        cls, x: np.ndarray, v: np.ndarray, *, time: float = 0.0, frame: int = 0, device: wp.DeviceLike = "cpu"
    ) -> "State":
        return cls(wp.array(x, dtype=wp.vec3d, device=device), wp.array(v, dtype=wp.vec3d, device=device), time, frame)

    def take(self, x: wp.array, v: wp.array) -> None:
        """Copy positions and velocities from other arrays."""
        wp.copy(self.x, x)
        wp.copy(self.v, v)

    def positions(self) -> np.ndarray:
        """A copy, (n, 3) float64."""
        return self.x.numpy().copy()

    def velocities(self) -> np.ndarray:
        """A copy, (n, 3) float64."""
        return self.v.numpy().copy()
