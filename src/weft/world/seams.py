"""The stitches of all seams of a world."""

from dataclasses import dataclass, replace

import numpy as np

from weft.scene import Material
from weft.scene.seams import Stitches


@dataclass(frozen=True)
class Seams:
    """All stitches of a world, as host arrays. A stitch pulls vertex a to the point (1 - w) b + w c of an edge."""

    vertices: np.ndarray
    """(k, 3) int32: a, b, c"""
    weights: np.ndarray
    """(k,): w"""
    stiffness: np.ndarray
    """(k,) in N/m; infinite for a weld"""
    damping: np.ndarray
    """(k,) in N s/m"""
    closing: np.ndarray | None = None
    """(k,) s: how long each stitch takes to close; None where all pull at once"""
    delay: np.ndarray | None = None
    """(k,) s: when each stitch begins to close, where `closing` is given"""
    gaps: np.ndarray | None = None
    """(k,) m: how far the points of each stitch are apart at the start, where `closing` is given"""

    def lengths(self, time: float) -> np.ndarray:
        """(k,) m: how far the points of each stitch may be apart at a time, while seams are drawn together."""
        assert self.closing is not None and self.delay is not None and self.gaps is not None
        left = 1.0 - (time - self.delay) / np.maximum(self.closing, 1e-300)
        return np.where(self.closing + self.delay > time, self.gaps * np.clip(left, 0.0, 1.0), 0.0)

    def nearest(self) -> np.ndarray:
        """(k, 2): vertex a and the nearer end of its edge; with both ends, a whole seam would be connected to one vertex."""
        return np.stack([self.vertices[:, 0], np.where(self.weights < 0.5, *self.vertices[:, 1:].T)], axis=1)


def join_seams(
    sewn: list[Stitches], positions: np.ndarray, first_vertices: list[int], materials: list[Material]
) -> Seams:
    """All stitches of all seams, with vertex numbers of the world, whose vertices start at these positions.

    `first_vertices` and `materials` are those of each cloth.
    """
    vertices, weights, stiffness, damping = [np.zeros((0, 3), np.int32)], [np.zeros(0)], [np.zeros(0)], [np.zeros(0)]
    for seam in sewn:
        first, other = first_vertices[seam.cloth], first_vertices[seam.to]
        count = len(seam.weights)
        strength = np.inf if seam.kind == "weld" else seam.stiffness
        vertices.append(seam.vertices + np.array([first, other, other], np.int32))
        weights.append(seam.weights)
        stiffness.append(np.full(count, strength))
        damping.append(np.full(count, materials[seam.cloth].damping * seam.stiffness))
    seams = Seams(*(np.concatenate(arrays) for arrays in (vertices, weights, stiffness, damping)))
    counts = [len(seam.weights) for seam in sewn]
    closing, delay = (np.repeat([getattr(seam, name) for seam in sewn], counts) for name in ("closing", "delay"))
    if not closing.any():
        return seams
    (a, b, c), w = positions[seams.vertices].transpose(1, 0, 2), seams.weights[:, None]
    return replace(seams, closing=closing, delay=delay, gaps=np.linalg.norm(a - (1.0 - w) * b - w * c, axis=1))
