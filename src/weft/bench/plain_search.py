"""For `weft bench boxes` only: the searches S1 and S2 that Liu, Ko and Chang 1998 compare their tree with.

Every triangle is compared with every other, without a hierarchy and without stored boxes: S1 tests whether the triangles
intersect at the end of a step, S2 whether their boxes overlap during it. No method uses this; the broad phase `brute`
does the comparisons of S2 about ten times as fast, with stored boxes and vector instructions.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.methods.boxes.held_triangles import edges_intersect, has
from weft.methods.boxes.plane_kernels import span_of
from weft.runtime import launch
from weft.world import World

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_pairs(
    first: int,
    geometric: int,
    count: int,
    faces: wp.array[wp.vec3i],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    margin: wp.float64,
    capacity: int,
    found: wp.array2d[int],
    counts: wp.array[int],
):
    """The later triangles that a triangle intersects at the end (`geometric`), or whose boxes overlap its own in the step."""
    i = first + wp.tid()
    f = faces[i]
    n = int(0)
    for j in range(i + 1, count):
        g = faces[j]
        if not has(g, f[0]) and not has(g, f[1]) and not has(g, f[2]):
            hit = bool(True)
            if geometric == 1:
                hit = edges_intersect(f, g, end) or edges_intersect(g, f, end)
            else:
                a = span_of(f, start, end)
                b = span_of(g, start, end)
                for d in range(3):
                    if (
                        wp.min(a.low[d], a.low_end[d]) > wp.max(b.high[d], b.high_end[d]) + margin
                        or wp.min(b.low[d], b.low_end[d]) > wp.max(a.high[d], a.high_end[d]) + margin
                    ):
                        hit = False
            if hit:
                if n < capacity:
                    found[i, n] = j
                n += 1
    counts[i] = n


class PlainSearch:
    """All pairs of triangles of a world, found by comparing all."""

    def __init__(self, world: World, *, geometric: bool, capacity: int = 64) -> None:
        self.world, self.geometric = world, geometric
        # S1 looks at cloth only
        self.count = world.cloth_face_count if geometric else len(world.faces)
        self._counts = wp.zeros(self.count, dtype=int, device=world.device)
        self._grow(capacity)

    def _grow(self, capacity: int) -> None:
        self.capacity = capacity
        self._found: Any = wp.zeros((self.count, capacity), dtype=int, device=self.world.device)

    def find(self, start: wp.array, end: wp.array) -> np.ndarray:
        """The pairs (k, 2), smaller index first, in order."""
        world = self.world
        while True:
            inputs = [int(self.geometric), self.count, world.surface.faces, start, end, world.largest_thickness]
            inputs += [self.capacity, self._found, self._counts]
            launch(find_pairs, self.count, inputs, device=world.device, grain=16)
            counts = self._counts.numpy()
            if counts.max(initial=0) <= self.capacity:
                break
            self._grow(2 * int(counts.max()))
        first = np.repeat(np.arange(self.count), counts)
        second = self._found.numpy()[np.arange(self.capacity)[None] < counts[:, None]]
        return np.column_stack([first, second]).astype(np.int32)
