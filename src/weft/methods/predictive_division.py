"""Steps in which cloth moves far, divided: each part looks for contacts anew.

What is found in one look holds for the step. Where cloth moves against itself by many times the distance within which
contacts are made, as it does when it collapses, folds form that no look at the start could foresee.
"""

import math
from typing import TYPE_CHECKING

import numpy as np
import warp as wp

if TYPE_CHECKING:
    from weft.methods.predictive_solver import PredictiveSolver

# the mean way of a vertex against the cloth as a whole in a part, in distances within which contacts are made
FARTHEST = 1.0
MOST_PARTS = 3


def parts_for(haste: float) -> int:
    """How many parts a step needs."""
    return min(max(math.ceil(haste / FARTHEST), 1), MOST_PARTS) if math.isfinite(haste) else 1


def poses_between(start: np.ndarray, end: np.ndarray, centres: np.ndarray, share: float) -> np.ndarray:
    """Poses (k, 4, 4) after a share of the step: centres move straight, and all turn at a constant rate."""
    found = np.array(end)
    for k, (first, last, centre) in enumerate(zip(start, end, centres, strict=True)):
        turn = last[:3, :3] @ first[:3, :3].T
        axis = 0.5 * np.array([turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]])
        sine = float(np.linalg.norm(axis))
        angle = share * np.arctan2(sine, 0.5 * (np.trace(turn) - 1.0))
        cross = np.cross(np.eye(3), axis / max(sine, 1e-300))
        part = np.eye(3) + np.sin(angle) * cross + (1.0 - np.cos(angle)) * cross @ cross
        found[k, :3, :3] = part @ first[:3, :3]
        places = [pose[:3, :3] @ centre + pose[:3, 3] for pose in (first, last)]
        found[k, :3, 3] = (1.0 - share) * places[0] + share * places[1] - found[k, :3, :3] @ centre
    return found


class Division:
    """A step on the CPU in several parts, one after another; colliders, pins and goals go straight through them.

    The first part looks for contacts as far as the rehearsal of the whole step went; each other has its own.
    """

    def __init__(self, solver: "PredictiveSolver") -> None:
        self.solver = solver
        self.target = wp.zeros(solver.count, dtype=wp.vec3d, device=solver.device)

    @property
    def possible(self) -> bool:
        """Not where a mesh changes its form: its tree is that of the start."""
        return bool(self.solver.device.is_cpu and not self.solver.colliders.deforming)

    def advance(self, parts: int, x: wp.array, v: wp.array, target: wp.array, time: float, dt: float) -> None:
        """All parts; afterwards everything is as if there had been one."""
        solver = self.solver
        colliders, goals, settings = solver.colliders, solver.goals, solver.settings
        poses = [array.numpy().copy() for array in (colliders.start, colliders.end)]
        ways = [array.numpy().copy() for array in (goals.starts, goals.ends)]
        centres = colliders.shapes.numpy()["centre"] if colliders.count else np.zeros((0, 3))
        held = [array.numpy()[: solver.count].copy() for array in (x, target)]
        substeps = int(settings["substeps"][0])
        settings["substeps"][0] = -(-substeps // parts)
        for k in range(parts):
            share = (k + 1) / parts
            colliders.end.numpy()[:] = poses_between(poses[0], poses[1], centres, share)
            goals.starts.numpy()[:] = ways[0] + k / parts * (ways[1] - ways[0])
            goals.ends.numpy()[:] = ways[0] + share * (ways[1] - ways[0])
            self.target.numpy()[:] = held[0] + share * (held[1] - held[0])
            solver.advance(x, v, self.target, time + k * dt / parts, dt / parts, divide=False)
        settings["substeps"][0], settings["dt"][0] = substeps, dt
        colliders.end.numpy()[:] = colliders.start.numpy()[:] = poses[1]
        goals.starts.numpy()[:] = ways[0]
