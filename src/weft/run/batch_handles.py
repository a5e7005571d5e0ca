"""What a batch of worlds has in common: a body of every world, and the same held vertices in every world."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import WeftError
from weft.run.checks import to_array
from weft.run.controls import Floats

Mask = npt.ArrayLike | None


class BatchBody:
    """A cloth or a collider of every world."""

    def __init__(self, batch: Any, name: str) -> None:
        self._batch, self.name = batch, name
        self._of = [world.bodies[name] for world in batch.worlds]
        self.kind, self.vertices, self.faces = self._of[0].kind, self._of[0].vertices, self._of[0].faces

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r} in {len(self._of)} worlds>"

    @property
    def positions(self) -> Any:
        """(w, n, 3) m: a view."""
        return self._own(self._batch._x)

    @property
    def velocities(self) -> Any:
        """(w, n, 3) m/s: a view."""
        return self._own(self._batch._v)

    def _own(self, array: wp.array) -> Any:
        own = array[:, self.vertices.start : self.vertices.stop]
        return own.numpy() if self._batch.world.device.is_cpu else own

    @property
    def pose(self) -> Floats:
        """(w, 4, 4) a copy; set it to (w, 4, 4), or to one (4, 4) for all worlds, see `SimulatedBody.pose`."""
        return np.array([body.pose for body in self._of])

    @pose.setter
    def pose(self, value: npt.ArrayLike) -> None:
        poses = to_array(f"the poses of {self.name!r}", value)
        if poses.shape not in ((4, 4), (len(self._of), 4, 4)):
            raise WeftError(
                f"the poses of {self.name!r} are an array ({len(self._of)}, 4, 4) or (4, 4), not {poses.shape}"
            )
        for body, pose in zip(self._of, np.broadcast_to(poses, (len(self._of), 4, 4)), strict=True):
            body.pose = pose


class BatchHold:
    """The same vertices of a cloth, held in every world."""

    def __init__(self, batch: Any, holds: list[Any]) -> None:
        self._batch, self._holds = batch, holds
        self.vertices = holds[0].vertices

    def __repr__(self) -> str:
        return f"<Hold of {len(self.vertices)} vertices in {self.held.sum()} of {len(self._holds)} worlds>"

    @property
    def positions(self) -> Floats:
        """(w, k, 3) where the vertices are now, m: a copy."""
        return np.array([hold.positions for hold in self._holds])

    @property
    def held(self) -> npt.NDArray[np.bool_]:
        """(w,) whether they are still held."""
        return np.array([hold.held for hold in self._holds])

    @property
    def target(self) -> Floats:
        """(w, k, 3) a copy of the targets; where a world has released its vertices, where they are."""
        return np.array([hold.target if hold.held else hold.positions for hold in self._holds])

    @target.setter
    def target(self, value: npt.ArrayLike) -> None:
        shape = (len(self._holds), len(self.vertices), 3)
        targets = to_array("the targets", value)
        if targets.shape != shape:
            raise WeftError(f"the targets are an array {shape}, not {targets.shape}")
        for hold, target in zip(self._holds, targets, strict=True):
            if hold.held:
                hold.target = target

    def release(self, mask: Mask = None) -> None:
        """Let go in the chosen worlds."""
        for k in self._batch._chosen(mask):
            self._holds[k].release()
