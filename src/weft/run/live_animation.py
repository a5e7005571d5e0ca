"""Goals that a caller sets for all cloth in every step, as the skinned mesh of a character, with painted limits.

Each vertex has a spring to its place in the animation, a largest distance from it, and a ball behind it that it stays out of
(the backstop: an inexpensive body). A largest distance of 0 holds the vertex.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import WeftError
from weft.mesh.topology import vertex_normals
from weft.methods.predictive.solver import PredictiveSolver

Floats = npt.NDArray[np.float64]

# what can be painted, and its least value
PAINTS = {
    "max_distance": 0.0,
    "stiffness": 0.0,
    "damping": 0.0,
    "backstop_distance": -np.inf,
    "backstop_radius": 0.0,
}


class LiveAnimation:
    """The animation of all vertices of the cloths of a world, by numbers and places that the caller gives."""

    def __init__(self, solver: PredictiveSolver, faces: npt.NDArray[np.int32], start: Floats) -> None:
        """`start`: where the animation has the vertices until the caller gives it."""
        goals = self.goals = solver.goals
        goals.take_over(start)
        solver.guides.refresh()
        self.faces = faces
        frequency, damping, reach = goals.springs.numpy().T.copy()
        nowhere = np.zeros(len(start))
        self.paints: dict[str, Floats] = {
            "max_distance": reach,
            "stiffness": frequency / (2.0 * np.pi),
            "damping": damping,
            "backstop_distance": nowhere,
            "backstop_radius": nowhere.copy(),
        }
        """for each vertex: m, Hz, a ratio, m, m"""
        self.places = start.copy()
        """where the animation has the vertices at the end of the next step"""
        self.repainted = True
        """whether other vertices may be held than in the last step"""
        self._moved, self._with_backstops = True, False
        self._begun = np.zeros(len(start), bool)

    @property
    def held(self) -> npt.NDArray[np.bool_]:
        """Vertices that are exactly where the animation has them."""
        return self.paints["max_distance"] == 0.0

    def paint(self, rows: slice, values: dict[str, npt.ArrayLike | None]) -> None:
        """Set numbers of the vertices in `rows`: one for all, or one each."""
        count = rows.stop - rows.start
        checked = {name: _numbers(name, value, count) for name, value in values.items() if value is not None}
        for name, numbers in checked.items():
            self.paints[name][rows] = numbers
        paints = self.paints
        springs = np.stack([2.0 * np.pi * paints["stiffness"], paints["damping"], paints["max_distance"]], axis=1)
        self.goals.springs.assign(springs)
        self.repainted = self._moved = True

    def pose(self, rows: slice, places: npt.ArrayLike) -> None:
        """Take the places of the vertices in `rows` at the end of the next step; the first ones are where it starts."""
        values = np.asarray(places, dtype=float)
        expected = (rows.stop - rows.start, 3)
        if values.shape != expected:
            raise WeftError(f"the animation has the shape {values.shape}, and the cloth {expected}")
        if not np.isfinite(values).all():
            vertex = int(np.flatnonzero(~np.isfinite(values).all(axis=1))[0])
            raise WeftError(f"the animation of vertex {vertex} is not finite")
        self.places[rows] = values
        self.goals.ends.assign(self.places)
        if not self._begun[rows].all():
            starts = self.goals.starts.numpy().copy()
            starts[rows] = values
            self.goals.starts.assign(starts)
            self._begun[rows] = True
        self._moved = True

    def place_backstops(self) -> None:
        """Put the balls behind the animation, by its normals at the end of the step, if anything has changed."""
        radius = self.paints["backstop_radius"]
        if self._moved and (radius.any() or self._with_backstops):
            self._with_backstops, self._moved = bool(radius.any()), False
            normals = vertex_normals(self.places, self.faces)
            centres = -(radius + self.paints["backstop_distance"])[:, None] * normals
            self.goals.backstops.assign(np.column_stack([centres, radius]))

    def restart(self, places: Floats) -> None:
        """The animation is here, and has not moved."""
        self.places[:] = places
        self.goals.starts.assign(places)
        self.goals.ends.assign(places)
        self._begun[:] = False
        self._moved = True

    def end_step(self) -> None:
        """The end of a step is the start of the next."""
        wp.copy(self.goals.starts, self.goals.ends)

    def saved(self) -> dict[str, Any]:
        """What `restore` takes, as arrays that pickle."""
        return {"paints": {name: values.copy() for name, values in self.paints.items()}, "begun": self._begun.copy()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take up what `saved` gave; the goals have been restored."""
        self.places[:] = self.goals.ends.numpy()
        self._begun[:] = saved["begun"]
        self.paint(slice(0, len(self.places)), saved["paints"])


def _numbers(name: str, value: npt.ArrayLike, count: int) -> Floats:
    """One number for each vertex."""
    numbers = np.asarray(value, dtype=float)
    if numbers.shape not in ((), (count,)):
        raise WeftError(f"{name} is one number, or one for each of the {count} vertices, not {numbers.shape}")
    least = PAINTS[name]
    unlimited = name == "max_distance"
    if not ((numbers >= least) & (unlimited | np.isfinite(numbers))).all():
        raise WeftError(f"{name} must be {'finite' if least < 0.0 else f'at least {least:g}'}, and is not everywhere")
    return np.broadcast_to(numbers, (count,))
