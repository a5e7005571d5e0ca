"""Folds that cross themselves are flattened: the part of untangling that only moves, without a speed.

A fold a few triangles wide, at a seam or a border above all, has no inside to pull back and a contour too short to tell
where to go. The static untangler flattens such places; so does a step here: the vertices of what crosses go a part of
the way to the middle of their neighbours, and lose as much of their speed against these.
"""

import numpy as np
import warp as wp
from scipy import sparse

from weft.analysis.result import Analysis
from weft.response.pulling import crossing_vertices
from weft.world import World

# part of the way to the middle of its neighbours that a vertex goes in a step
PART = 0.1


class Unfolding:
    """Flattens what crosses itself; stitches count as neighbours."""

    def __init__(self, world: World) -> None:
        count = world.cloth_vertex_count
        edges = [part.mesh.edges + part.first for part in world.cloths]
        pairs = np.concatenate([np.zeros((0, 2), np.int64), *edges, world.seams.nearest()])
        both = np.concatenate([pairs, pairs[:, ::-1]])
        near = sparse.coo_array((np.ones(len(both)), (both[:, 0], both[:, 1])), shape=(count, count)).tocsr()
        self._mean = sparse.csr_array(sparse.diags_array(1.0 / np.maximum(near.sum(axis=1), 1.0)) @ near)
        self.count = count
        self.world = world

    def flatten(self, x: wp.array, v: wp.array, analysis: Analysis, *, held: np.ndarray) -> None:
        """Flatten what crossed when it was analysed; `held` vertices stay."""
        free = self.world.inverse_mass.numpy()[: self.count] > 0.0
        free[held] = False
        chosen = crossing_vertices(analysis)
        chosen = chosen[free[chosen]]
        if not len(chosen):
            return
        rows = self._mean[chosen]
        for values in (x, v):
            old = values.numpy().copy()
            old[chosen] += PART * (rows @ old[: self.count] - old[chosen])
            values.assign(wp.array(old, dtype=wp.vec3d, device=values.device))
