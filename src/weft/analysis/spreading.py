"""From wanted relative motions to displacements of all vertices of a mesh.

Where several moves name a vertex, it takes their weighted mean. Vertices that no move names follow their neighbours, ring by
ring, so that the cloth around a tangle comes along and lengths need less correction.
"""

from collections.abc import Sequence

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.attraction import Moves
from weft.mesh.topology import Csr
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]

# a displacement spreads over this many rings of neighbours, each taking this fraction of the ring before
SPREAD_RINGS, SPREAD_FACTOR = 20, 0.95
FACTOR = wp.constant(wp.float64(SPREAD_FACTOR))


@wp.kernel
def follow_neighbours(
    first: int,
    offsets: wp.array[int],
    neighbours: wp.array[int],
    named: wp.array[wp.int8],
    least: wp.array[wp.float64],
    reached: wp.array[wp.int8],
    moved: wp.array[wp.vec3d],
    next_reached: wp.array[wp.int8],
    next_moved: wp.array[wp.vec3d],
):
    """One ring more: vertices that are not named take a fraction of the mean of their neighbours that are reached already."""
    i = first + wp.tid()
    next_moved[i] = moved[i]
    next_reached[i] = reached[i]
    if named[i] == wp.int8(0):
        total = wp.vec3d()
        number = wp.float64(0.0)
        for k in range(offsets[i], offsets[i + 1]):
            if reached[neighbours[k]] != wp.int8(0):
                total += moved[neighbours[k]]
                number += wp.float64(1.0)
        if number > wp.float64(0.0):
            follow = (FACTOR / number) * total
            length = wp.length(follow)
            if length > least[i]:
                next_moved[i] = (wp.float64(1.0) - least[i] / length) * follow
            else:
                next_moved[i] = wp.vec3d()
            next_reached[i] = wp.int8(1)


def mean_displacements(moves: Sequence[tuple[Moves, Floats]], count: int) -> tuple[Floats, NDArray[np.bool_]]:
    """(n, 3) displacements by moves and the lengths of their steps, and which vertices the moves name."""
    total, weight = np.zeros((count, 3)), np.zeros(count)
    for one, steps in moves:
        size = np.abs(one.weights)
        pull = np.where(one.weights > 0.0, size, -size)[:, :, None] * (steps[:, None] * one.directions)[:, None, :]
        flat = one.vertices.ravel()
        weight += np.bincount(flat, size.ravel(), count)
        for axis in range(3):
            total[:, axis] += np.bincount(flat, pull[:, :, axis].ravel(), count)
    named = weight > 0.0
    return np.divide(total, weight[:, None], out=np.zeros_like(total), where=named[:, None]), named


class Spreading:
    """Spreads displacements over a mesh; `neighbours` are those of each vertex."""

    def __init__(self, neighbours: Csr, device: wp.DeviceLike = "cpu") -> None:
        self.count = len(neighbours.offsets) - 1
        self.device = device
        self._neighbours = [wp.array(values, dtype=int, device=device) for values in neighbours]

    def spread(self, own: Floats, named: NDArray[np.bool_], least: Floats | None = None) -> Floats:
        """(n, 3) the displacements of the named vertices, and of all vertices around them; others have none of their own.

        `least` (n,): how much shorter a displacement becomes from ring to ring at least, m.
        """
        if not named.any():
            return own
        marks = wp.array(named.astype(np.int8), dtype=wp.int8, device=self.device)
        fall = wp.array(np.zeros(self.count) if least is None else least, dtype=wp.float64, device=self.device)
        here, there = [(wp.clone(marks), wp.array(own, dtype=wp.vec3d, device=self.device)) for _ in range(2)]
        for _ in range(SPREAD_RINGS):
            inputs = [*self._neighbours, marks, fall, *here, *there]
            launch(follow_neighbours, self.count, inputs, device=self.device)
            here, there = there, here
        return here[1].numpy()
