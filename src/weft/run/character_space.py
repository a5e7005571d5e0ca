"""How much of the motion of a character its cloth feels.

A character that runs at 6 m/s and turns on its heel throws its cloth about more than a game wants. So a share of each motion of
its root is no motion but a teleport: cloth and the starts of colliders and of animations are put along, and only the rest
is swept, and felt as speed against the air and as inertia. Where inertia is to be felt more or less than speed, cloth gets the
difference as a change of velocity whenever the root changes its velocity.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from weft.methods.predictive.solver import poses_between
from weft.scene import rotation

Floats = npt.NDArray[np.float64]


# how far from 1 the squared lengths of the axes of a rigid pose may be: single precision, and some products of it
SCALED = 1e-3


class CharacterSpace:
    """The root of a character, and its pose and velocity before the step."""

    def __init__(self) -> None:
        self.root: Floats = np.eye(4)
        """the pose at the end of the next step, which the caller writes"""
        self.velocity_scale = self.inertia_scale = 1.0
        """shares of speed and of acceleration that are felt"""
        self.forget()

    def forget(self) -> None:
        """The root has not moved: where it is at the end of the next step, it has been before."""
        self.before: Floats | None = None
        """the pose at the start of the next step, where there was one"""
        self._linear, self._angular = np.zeros(3), np.zeros(3)
        self._resting = b""
        """the pose in which it was before and after the last step, if it was"""

    def take_motion(self, dt: float) -> tuple[Floats, Floats, Floats] | None:
        """What is not felt of the motion of a step of `dt`: a rigid 4x4 matrix, and changes of linear and angular velocity.

        The angular velocity turns about the root at the start of the step. None where all is felt, or nothing moves.
        """
        if self._resting and self._resting == self.root.tobytes():
            return None
        self._resting = b""
        at_rest = not (self._linear.any() or self._angular.any())
        if at_rest and self.before is not None and np.array_equal(self.root, self.before):
            self._resting = self.root.tobytes()
            return None
        end = self.root.copy()
        start = end if self.before is None else self.before
        linear = (end[:3, 3] - start[:3, 3]) / dt
        angular = rotation.logarithm(rotation.quaternion_of(end[:3, :3] @ start[:3, :3].T)) / dt
        more = self.inertia_scale - self.velocity_scale
        kick = -more * (linear - self._linear), -more * (angular - self._angular)
        self.before, self._linear, self._angular = end, linear, angular
        if self.velocity_scale == self.inertia_scale == 1.0:
            return None
        if np.array_equal(start, end) and not (kick[0].any() or kick[1].any()):
            return None
        unfelt = poses_between(start[None], end[None], np.zeros((1, 3)), 1.0 - self.velocity_scale)[0]
        return unfelt @ np.linalg.inv(start), *kick

    def saved(self) -> list[Any]:
        """Root, and what is known of the step before."""
        before = None if self.before is None else self.before.copy()
        return [self.root.copy(), before, self._linear.copy(), self._angular.copy()]

    def restore(self, saved: list[Any]) -> None:
        """Take up what `saved` gave."""
        self.root[:] = saved[0]
        self._resting = b""
        self.before, self._linear, self._angular = (None if v is None else np.array(v) for v in saved[1:])  # type: ignore[assignment]


def rigid_problem(pose: Floats) -> str:
    """What keeps a 4x4 matrix from being a rigid motion; nothing if it is one."""
    if not np.isfinite(pose).all():
        return "has numbers that are not finite"
    turn = pose[:3, :3]
    if np.abs(turn.T @ turn - np.eye(3)).max() >= SCALED:
        lengths = np.linalg.norm(turn, axis=0).round(4).tolist()
        return f"is scaled or sheared (its axes have the lengths {lengths}); poses are rigid"
    return "mirrors" if np.linalg.det(turn) < 0.0 else ""
