"""Folds that cross themselves are flattened: the part of untangling that only moves, without a speed.

A fold a few triangles wide, at a seam or a border above all, has no inside to pull back and a contour too short to tell
where to go. The static untangler flattens such places; so does a step here: the vertices of what crosses go a part of
the way to the middle of their neighbours, and lose as much of their speed against these.
"""

import numpy as np
import warp as wp

from weft.analysis.analyser import Analysis
from weft.analysis.colour import DIVIDES
from weft.mesh.topology import make_csr
from weft.methods.untangle.pulling import SMALL_FOLD, crossing_vertices
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.world import World

wp.set_module_options({"enable_backward": False})

# part of the way to the middle of its neighbours that a vertex goes in a step
PART = 0.1
# and where a small fold has nothing inside, as at a border: shortening its path alone pulls it to and fro for ever
FOLD_PART = 0.9


@wp.kernel
def flatten_chosen(
    first: int,
    chosen: wp.array[int],
    part: wp.float64,
    inverse_mass: wp.array[wp.float64],
    offsets: wp.array[int],
    neighbours: wp.array[int],
    values: wp.array[wp.vec3d],
    flattened: wp.array[wp.vec3d],
):
    """A part of the way from what a vertex has to the mean of what its neighbours have."""
    k = first + wp.tid()
    i = chosen[k]
    own = values[i]
    near = offsets[i + 1] - offsets[i]
    if near > 0 and inverse_mass[i] > wp.float64(0.0):
        mean = wp.vec3d()
        for n in range(offsets[i], offsets[i + 1]):
            mean += values[neighbours[n]]
        own += part * (mean / wp.float64(near) - own)
    flattened[k] = own


@wp.kernel
def take_chosen(first: int, chosen: wp.array[int], flattened: wp.array[wp.vec3d], values: wp.array[wp.vec3d]):
    """What was found, in its place."""
    k = first + wp.tid()
    values[chosen[k]] = flattened[k]


class Unfolding:
    """Flattens what crosses itself; stitches count as neighbours."""

    def __init__(self, world: World) -> None:
        self.world, self.device, count = world, world.device, world.cloth_vertex_count
        edges = [part.mesh.edges + part.first for part in world.cloths]
        pairs = np.concatenate([np.zeros((0, 2), np.int64), *edges, world.seams.nearest()])
        one, other = np.concatenate([pairs, pairs[:, ::-1]]).T
        near = make_csr(one, other, count, max(count, 1))
        self._near = [wp.array(a, dtype=int, device=self.device) for a in (near.offsets, near.items)]
        self._chosen, self._flattened = Buffer(int, self.device), Buffer(wp.vec3d, self.device)

    def flatten(self, x: wp.array, v: wp.array, analysis: Analysis, *, held: np.ndarray) -> None:
        """Flatten what crossed when it was analysed; `held` vertices stay."""
        empty = analysis.single & (analysis.status[::2] != DIVIDES)
        folds = empty & (np.diff(analysis.path_offsets) <= SMALL_FOLD)
        for paths, part in ((~folds, PART), (folds, FOLD_PART)):
            vertices = np.setdiff1d(crossing_vertices(analysis, paths), held)
            for values in (x, v):
                self._flatten(vertices, part, values)

    def _flatten(self, vertices: np.ndarray, part: float, values: wp.array) -> None:
        count = len(vertices)
        if count:
            chosen, flattened = self._chosen.at_least(count), self._flattened.at_least(count)
            chosen[:count].assign(vertices.astype(np.int32))
            inputs = [chosen, part, self.world.inverse_mass, *self._near, values, flattened]
            launch(flatten_chosen, count, inputs, device=self.device)
            launch(take_chosen, count, [chosen, flattened, values], device=self.device)
