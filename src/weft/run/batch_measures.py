"""What is measured of every world of a batch at the end of its frames, for all worlds in one launch."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.run.checks import FARTHEST
from weft.runtime import launch
from weft.world import World
from weft.world.stretch import stretch_of

wp.set_module_options({"enable_backward": False})

# threads that share a world
LANES = 32


@wp.kernel
def measure_worlds(
    first: int,
    lanes: int,
    edges: wp.array[wp.vec2i],
    rest: wp.array2d[wp.float64],
    x: wp.array2d[wp.vec3d],
    v: wp.array2d[wp.vec3d],
    vertices: int,
    farthest: wp.float64,
    found: wp.array[wp.vec2d],
):
    """The largest ratio of an edge's length to its rest length, and 1 where a number is not finite or far too large."""
    i = first + wp.tid()
    world = i // lanes
    stretch = wp.float64(0.0)
    bad = wp.float64(0.0)
    for k in range(i % lanes, edges.shape[0], lanes):
        e = edges[k]
        stretch = wp.max(stretch, stretch_of(x[world, e[0]], x[world, e[1]], rest[world, k]))
    for k in range(i % lanes, vertices, lanes):
        for c in range(3):
            # false for what is no number
            if not (wp.abs(x[world, k][c]) < farthest and wp.abs(v[world, k][c]) < farthest):
                bad = wp.float64(1.0)
    found[i] = wp.vec2d(stretch, bad)


class BatchMeasures:
    """Measures worlds whose positions and velocities lie in one array each."""

    def __init__(self, worlds: Sequence[World], x: wp.array, v: wp.array) -> None:
        """`worlds` have the same edges."""
        device = worlds[0].device
        edges = worlds[0].cloth_edges[0]
        rest = np.stack([world.cloth_edges[1].numpy() for world in worlds])
        self._found = wp.zeros(len(worlds) * LANES, dtype=wp.vec2d, device=device)
        rests: wp.array = wp.array(rest, dtype=wp.float64, ndim=2, device=device)
        self._inputs = [LANES, edges, rests, x, v, worlds[0].vertex_count, FARTHEST]

    def find(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]]:
        """(w,) the largest strain of an edge of each world, at least 0, and whether all its numbers are sound."""
        device = self._found.device
        launch(measure_worlds, len(self._found), [*self._inputs, self._found], device=device, grain=LANES)
        stretch, bad = self._found.numpy().reshape(-1, LANES, 2).max(axis=1).T
        return np.maximum(0.0, stretch - 1.0), bad == 0.0
