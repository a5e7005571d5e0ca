"""Free flight: the motion of what nothing holds, as a whole, without the errors of backward Euler.

Backward Euler moves cloth with the velocity of the end of a step, so that it falls by g h^2 / 2 too far in each step, and
it takes spin from cloth that turns: a fraction of 1 / (1 + (omega h)^2) is left after a step. Both are known exactly of
cloth that no pin and no collider holds. Its centre moves with the mean of its velocities before and after the step. Forces
between its vertices have no torque, gravity has none about its centre, and air damping takes spin at its rate: what is
missing is given back as the velocity of a rigid rotation.

Pieces of cloth that springs of the step join, as in a contact, are one: their sum is what is conserved.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

Floats = NDArray[np.float64]


class FreeFlight:
    """Corrects the motion of the connected pieces of cloth that nothing holds (host arrays)."""

    def __init__(self, joined: np.ndarray, mass: Floats) -> None:
        """`joined` (k, 2): pairs of vertices that elements join."""
        self.mass = mass
        self.pieces, self.piece = _components(joined, len(mass))

    def correct(
        self,
        start: tuple[Floats, Floats],
        end: tuple[Floats, Floats],
        held: NDArray[np.bool_],
        joined: np.ndarray,
        dt: float,
        *,
        damping: float,
        turn: bool,
    ) -> bool:
        """Change `end`, positions and velocities after a step dt from `start`; returns whether there was anything to change.

        `held` vertices have a prescribed or constrained motion. `joined` (k, c) are the vertices of the springs of the step.
        `turn`: whether spin is kept, too; wind has a torque that is not known here.
        """
        flying = np.bincount(self.piece, held, self.pieces) == 0.0
        if not flying.any():
            return False
        number = self.piece
        if len(joined) and self.pieces > 1:
            pairs = np.column_stack([np.repeat(number[joined[:, 0]], joined.shape[1]), number[joined].ravel()])
            _, island = _components(pairs, self.pieces)
            flying = np.bincount(island, ~flying, island.max() + 1) == 0.0
            number = island[number]
        for island_number in np.flatnonzero(flying):
            self._correct(np.flatnonzero(number == island_number), start, end, dt, damping, turn)
        return bool(flying.any())

    def _correct(
        self,
        chosen: np.ndarray,
        start: tuple[Floats, Floats],
        end: tuple[Floats, Floats],
        dt: float,
        damping: float,
        turn: bool,
    ) -> None:
        m = self.mass[chosen][:, None]
        weights = m / m.sum()
        x, v = start[0][chosen], start[1][chosen]
        x_end, v_end = end[0][chosen], end[1][chosen]
        centre, centre_end, mean, mean_end = ((weights * a).sum(axis=0) for a in (x, x_end, v, v_end))
        x_end += centre + 0.5 * dt * (mean + mean_end) - centre_end
        if turn:
            r = x_end - (weights * x_end).sum(axis=0)
            spin = (m * np.cross(x - centre, v - mean)).sum(axis=0) / (1.0 + dt * damping)
            missing = spin - (m * np.cross(r, v_end - mean_end)).sum(axis=0)
            inertia = (m * r**2).sum() * np.eye(3) - np.einsum("ni,nj->ij", m * r, r)
            # cloth in a line does not turn about it
            rate = np.linalg.lstsq(inertia, missing, rcond=1e-9)[0]
            v_end += np.cross(rate, r)
        end[0][chosen], end[1][chosen] = x_end, v_end


def _components(pairs: np.ndarray, count: int) -> tuple[int, NDArray[np.int32]]:
    """The number of connected components of a graph, and that of each node."""
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    number, label = connected_components(graph, directed=False)
    return int(number), label
