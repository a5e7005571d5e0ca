"""From wanted relative motions to displacements of all vertices of a mesh.

Where several moves name a vertex, it takes their weighted mean. Vertices that no move names follow their neighbours, ring by
ring, so that the cloth around a tangle comes along and lengths need less correction.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from weft.analysis.attraction import Moves

Floats = NDArray[np.float64]

# a displacement spreads over this many rings of neighbours, each taking this fraction of the ring before
SPREAD_RINGS, SPREAD_FACTOR = 20, 0.95


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


def spread(own: Floats, named: NDArray[np.bool_], links: sparse.csr_array, least: Floats | None = None) -> Floats:
    """(n, 3) the displacements of the named vertices, and of all vertices around them; `links` are 1 between neighbours.

    `least` (n,): how much shorter a displacement becomes from ring to ring at least, m.
    """
    moved, known = own, named.astype(np.float64)
    for _ in range(SPREAD_RINGS):
        # vertices that have not been reached are left out of the mean
        reached = links @ known
        follow = np.divide(
            SPREAD_FACTOR * (links @ moved), reached[:, None], out=np.zeros_like(own), where=reached[:, None] > 0.0
        )
        if least is not None:
            length = np.sqrt(np.einsum("ij,ij->i", follow, follow))
            follow *= np.maximum(1.0 - least / np.maximum(length, 1e-300), 0.0)[:, None]
        moved = np.where(named[:, None], own, follow)
        known = np.where(reached > 0.0, 1.0, known)
    return moved
