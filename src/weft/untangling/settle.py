"""Settling: from a state without intersections back towards the one that came in, never crossing again.

Every step proposes positions a little nearer to the start, with lengths restored and gaps kept, looks for intersections
there (exactly), and takes back the moves of all vertices that take part in one: first their part across the triangle,
then more, at last everything, also around them. Taking everything back is the state before, which is free. Vertices
are drawn back only as long as the lengths around them stay near what they should be.
"""

import numpy as np
from numpy.typing import NDArray

from weft.analysis.contour import unit
from weft.geometry.intersection import IntersectionFinder
from weft.untangling.weave import Weave

Floats = NDArray[np.float64]

# steps without and with a pull towards the start
FREE_STEPS, PULLED_STEPS, LAST_STEPS = 10, 45, 8
# part of the way back a step, where the lengths allow it; none at this strain
PULL, STRAIN_LIMIT = 0.15, 0.12
# how far a vertex may go in a step, and which gap it keeps from other layers, in lengths of an edge
TRUST, GAP = 0.3, 0.2
# gap that is opened where cloth was tangled
LEAST_GAP = 0.02
SWEEPS = 6
# smoothing of the displacement a step, and of folds where the cloth has given way
EVEN_OUT, UNFOLD = 0.2, 0.5
# moves are taken back in so many tries before everything around is held
TRIES = 3
# settled when nothing moves by more, in lengths of an edge
SETTLED = 2e-3
# at the end every vertex goes back by this much, so that what was not concerned is exactly where it was
LEFTOVER = 0.03


class Settler:
    """Moves a free state towards its start."""

    def __init__(self, weave: Weave, finder: IntersectionFinder, start: Floats, thickness: float) -> None:
        self.weave = weave
        self.finder = finder
        self.start = start
        self.thickness = thickness
        # how much of a move a vertex is allowed; it recovers step by step
        self._allowed = np.ones(weave.count)

    def settle(self, x: Floats, bending: Floats, tangled: NDArray[np.bool_]) -> Floats:
        """The settled positions. `bending`: where folds may be flattened; `tangled`: what ever crossed."""
        weave = self.weave
        length = weave.length
        stiffness = np.ones(len(weave.edges))
        least = np.where(tangled, max(self.thickness, LEAST_GAP * length), self.thickness)
        for step in range(FREE_STEPS + PULLED_STEPS + LAST_STEPS):
            most = max(GAP * length, self.thickness)
            gaps = weave.find_gaps(x, most + TRUST * length, least, most)
            way = x - self.start
            if FREE_STEPS <= step < FREE_STEPS + PULLED_STEPS:
                give = np.clip(1.0 - weave.worst_strain(x) / STRAIN_LIMIT, 0.0, 1.0)
                way = way * (1.0 - PULL * give[:, None])
            way += EVEN_OUT * (weave.mean_of_neighbours(way) - way)
            wanted = weave.smooth(self.start + way, UNFOLD * bending, np.zeros_like(bending), 1)
            wanted = x + _limited(wanted - x, TRUST * length)
            wanted = weave.relax(wanted, stiffness, SWEEPS, gaps)
            moved = self.move_safely(x, wanted)
            change = np.sqrt(((moved - x) ** 2).sum(axis=1).max())
            x = moved
            if step >= FREE_STEPS and change < SETTLED * length:
                break
        self._allowed[:] = 1.0
        return self.move_safely(x, x - _limited(x - self.start, LEFTOVER * length))

    def move_safely(self, x: Floats, wanted: Floats) -> Floats:
        """From free positions as far towards others as nothing crosses."""
        faces = self.weave.topology.faces
        step = _limited(wanted - x, TRUST * self.weave.length) * self._allowed[:, None]
        self._allowed = np.minimum(1.0, 2.0 * self._allowed)
        held = np.zeros(len(x), dtype=bool)
        tries = 0
        while len(rows := self.finder.find(x + step)):
            tries += 1
            corners = np.column_stack([rows[:, :2], faces[rows[:, 2]]])
            found, first = np.unique(corners.ravel(), return_index=True)
            # what is sewn to them is held back with them, or the seam would open
            sewn = self.weave.sewn_to(found)
            if tries <= TRIES:
                # let them slide along the triangle, and less at each further try
                a, b, c = x[faces[rows[first // 5, 2]]].transpose(1, 0, 2)
                normal = unit(np.cross(b - a, c - a))
                across = np.einsum("ij,ij->i", step[found], normal)[:, None] * normal
                slide = (step[found] - across) * (1.0 if tries == 1 else 0.5)
                # both sides of a seam do the same
                step[found] = np.where(self.weave.on_seam[found, None], 0.5 * step[found], slide)
                step[sewn] *= 0.5
                both = np.concatenate([found, sewn])
                self._allowed[both] = np.maximum(0.5 * self._allowed[both], 0.05)
            else:
                # hold them, later also what is around them: rows need a vertex that moves, so this comes to an end
                held[found] = held[sewn] = True
                if tries > 2 * TRIES:
                    held |= self.weave.mean_of_neighbours(held.astype(np.float64)) > 0.0
                step[held] = 0.0
        return x + step


def _limited(steps: Floats, limit: float) -> Floats:
    """Steps shortened to a limit."""
    lengths = np.sqrt(np.einsum("ij,ij->i", steps, steps))[:, None]
    return steps * np.minimum(1.0, limit / np.maximum(lengths, 1e-300))
