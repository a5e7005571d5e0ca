"""Searches without any hierarchy, as plain as can be: every triangle against every other, everything from scratch.

These are S1 and S2 of Liu, Ko and Chang 1998, who compare with them. Boxes are not kept: each pair makes its own.
The broad phase `brute` does the same comparisons about ten times as fast, with stored boxes and vector instructions.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.methods.boxes.held_triangles import edges_pass, has
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
    """The later triangles that a triangle meets: by geometry at the end, or by boxes that sweep through the step."""
    i = first + wp.tid()
    f = faces[i]
    n = int(0)
    for j in range(i + 1, count):
        g = faces[j]
        if not has(g, f[0]) and not has(g, f[1]) and not has(g, f[2]):
            hit = bool(True)
            if geometric == 1:
                hit = edges_pass(f, g, end) or edges_pass(g, f, end)
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
    """All pairs of a world's triangles that meet, found the slow way."""

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
        rows = self._found.numpy()[np.arange(self.capacity)[None] < counts[:, None]]
        return np.column_stack([first, rows]).astype(np.int32)
