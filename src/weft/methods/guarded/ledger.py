"""Why edges pass through triangles: the pairs that came to cross in each step, by their cause.

A pair is an edge and a triangle. A pair that crosses at the end of a step and did not at its start was released (bodies or pins
forced it), opened (it was left alone, beside a contour that slides over the mesh while it is parted), or neither, which would
break the promise. The ledger only counts: nothing that moves cloth depends on it.
"""

import numpy as np
from numpy.typing import NDArray

Keys = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Ledger:
    """The causes of crossings; `faces` is the number of triangles."""

    def __init__(self, faces: int) -> None:
        self._faces = faces
        self.crossing: Keys = np.zeros(0, np.int64)
        """the pairs that cross now, ascending"""
        self.released: Keys = np.zeros(0, np.int64)
        """those of them that were released, ascending"""
        self.opened = 0
        """pairs that came to cross in this frame beside contours, the sum over its steps"""
        self.newly_crossing = 0
        """pairs that came to cross in this frame without a cause"""

    def begin_frame(self) -> None:
        """Count anew."""
        self.opened = self.newly_crossing = 0

    def keys(self, edge: NDArray[np.integer], face: NDArray[np.integer]) -> Keys:
        """One number for each pair of an edge and a triangle."""
        keys: Keys = edge.astype(np.int64) * self._faces + face
        return keys

    def start(self, pairs: Keys) -> None:
        """Take pairs that cross, whatever the cause."""
        self.crossing = np.unique(pairs)
        self.released = np.intersect1d(self.released, self.crossing)

    def end_step(self, pairs: Keys, released: Bools, left_alone: Bools) -> None:
        """Take the pairs that cross after a step, which of them it released, and which it left alone."""
        new = ~np.isin(pairs, self.crossing)
        self.released = np.union1d(self.released, pairs[new & released])
        self.opened += int((new & left_alone & ~released).sum())
        self.newly_crossing += int((new & ~left_alone & ~released).sum())
        self.start(pairs)
