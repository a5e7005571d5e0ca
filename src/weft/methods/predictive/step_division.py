"""A step in which cloth moves far against itself, divided: each fraction of the step has a contact search of its own.

Contacts found at the start of a step hold for all of it. Where cloth moves against itself by many times the distance within
which contacts are made, as it does when it collapses, folds form that no search at the start could foresee.
"""

# mypy: disable-error-code="arg-type"

import math
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

from weft.runtime import launch

if TYPE_CHECKING:
    from weft.methods.predictive.solver import PredictiveSolver

wp.set_module_options({"enable_backward": False})

# mean displacement of a vertex against the cloth as a whole in one fraction, in units of the distance within which contacts are
# made: with less, steps take longer; with more, folds of collapsing cloth are missed
LARGEST_DISPLACEMENT = 1.0
# fractions of a step at most: a step in which cloth is thrown takes at most three searches and solves
MOST_FRACTIONS = 3


def fractions_for(relative_displacement: float) -> int:
    """How many fractions a step needs, given how far the mean vertex moves besides the rigid motion of all cloth."""
    if not math.isfinite(relative_displacement):
        return 1
    return min(max(math.ceil(relative_displacement / LARGEST_DISPLACEMENT), 1), MOST_FRACTIONS)


@wp.kernel
def interpolate(
    first: int, start: wp.array[wp.vec3d], end: wp.array[wp.vec3d], share: wp.float64, found: wp.array[wp.vec3d]
):
    """Points between start and end."""
    i = first + wp.tid()
    found[i] = start[i] + share * (end[i] - start[i])


def poses_between(start: np.ndarray, end: np.ndarray, centres: np.ndarray, share: float) -> np.ndarray:
    """Rigid poses (k, 4, 4) after a share of the step: centres move straight, and bodies rotate at a constant rate."""
    first, last = start[:, :3, :3], end[:, :3, :3]
    turn = last @ first.transpose(0, 2, 1)
    axis = 0.5 * np.stack(
        [turn[:, 2, 1] - turn[:, 1, 2], turn[:, 0, 2] - turn[:, 2, 0], turn[:, 1, 0] - turn[:, 0, 1]], axis=1
    )
    sine = np.linalg.norm(axis, axis=1)
    angle = share * np.arctan2(sine, 0.5 * (np.trace(turn, axis1=1, axis2=2) - 1.0))
    axis /= np.maximum(sine, 1e-300)[:, None]
    cross = np.cross(np.eye(3)[None], axis[:, None])
    rotation = np.eye(3) + np.sin(angle)[:, None, None] * cross + (1.0 - np.cos(angle))[:, None, None] * cross @ cross
    poses = end.copy()
    poses[:, :3, :3] = rotation @ first
    places = [(pose[:, :3, :3] @ centres[..., None])[..., 0] for pose in (start, end, poses)]
    came, goes = places[0] + start[:, :3, 3], places[1] + end[:, :3, 3]
    poses[:, :3, 3] = (1.0 - share) * came + share * goes - places[2]
    return poses


class Division:
    """Steps in several fractions, one after another; colliders, pins and goals go straight through them."""

    def __init__(self, solver: "PredictiveSolver") -> None:
        self.solver = solver
        self._start, self._target = (wp.zeros(solver.count, dtype=wp.vec3d, device=solver.device) for _ in range(2))

    @property
    def possible(self) -> bool:
        """Not where the mesh of a collider deforms: its tree is that of the start."""
        return not self.solver.colliders.deforming

    def advance(self, fractions: int, x: wp.array, v: wp.array, target: wp.array, time: float, dt: float) -> None:
        """Do a step in so many fractions; afterwards settings, poses and goals are as after one undivided step."""
        solver = self.solver
        colliders, goals, settings = solver.colliders, solver.goals, solver.settings
        substeps = int(settings["substeps"][0])
        wp.copy(self._start, x, count=solver.count)
        poses = colliders.start.numpy().copy(), colliders.end.numpy().copy()
        goal_starts, goal_ends = goals.starts.numpy().copy(), goals.ends.numpy().copy()
        settings["substeps"][0] = -(-substeps // fractions)
        for k in range(fractions):
            before, after = k / fractions, (k + 1) / fractions
            launch(interpolate, solver.count, [self._start, target, after, self._target], device=solver.device)
            colliders.end.assign(poses_between(*poses, colliders.centres, after))
            for array, share in ((goals.starts, before), (goals.ends, after)):
                array.assign(goal_starts + share * (goal_ends - goal_starts))
            solver.advance(x, v, self._target, time + before * dt, dt / fractions, divide=False)
        colliders.start.assign(poses[1])
        colliders.end.assign(poses[1])
        goals.starts.assign(goal_starts)
        goals.ends.assign(goal_ends)
        settings["substeps"][0], settings["dt"][0] = substeps, dt
