"""The half-spaces of a step: lists of them that grow, and the search for them as launches over all vertices."""

from typing import Any

import numpy as np
import warp as wp

from weft.methods.predictive.colliders import Colliders
from weft.methods.predictive.kernels import find_half_spaces, place_shapes
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scan
from weft.world import World

# half-spaces that there may be room for on CUDA, one of each vertex with each collider: 140 bytes each
MOST_ROOM = 2**22


class HalfSpaces:
    """All half-spaces; where steps are serial, the kernel of a step finds them itself."""

    def __init__(self, world: World, colliders: Colliders, room: int) -> None:
        self.world, self.colliders, self.device = world, colliders, world.device
        vertices = world.cloth_vertex_count
        self.counts, self.places = (wp.zeros(vertices, dtype=int, device=self.device) for _ in range(2))
        """of each vertex"""
        self.count = wp.zeros(1, dtype=int, device=self.device)
        """of all"""
        dtypes: tuple[Any, ...] = (int, wp.vec3d, wp.vec2d, wp.vec3d, wp.float64, wp.vec2d, int)
        self._buffers = [Buffer(dtype, self.device) for dtype in dtypes]
        all_of_them = vertices * colliders.count
        self.has_room = not self.device.is_cpu and all_of_them <= MOST_ROOM
        """whether each vertex has a place for each collider: then nobody has to count before they are written"""
        if self.has_room:
            self.places.assign(np.arange(vertices, dtype=np.int32) * colliders.count)
        self.arrays = self._grow(all_of_them if self.has_room else room)
        """vertices, normals, offsets, ways, thickness, friction, pushed"""

    def find(self, settings: wp.array, x: wp.array, free: wp.array, layout: tuple[wp.array, ...]) -> None:
        """Those of all vertices, which would go to `free`: count, scan, write."""
        world, colliders = self.world, self.colliders
        if colliders.count == 0:
            return
        inputs = [colliders.shapes, colliders.start, colliders.end]
        launch(place_shapes, colliders.count, inputs, device=self.device)
        head = [x, free, world.inverse_mass, world.thickness, *layout, colliders.shapes]
        head += [*colliders.meshes, world.friction_static, world.friction_kinetic, self.counts, self.places]
        for writes in (2,) if self.has_room else (0, 1):
            if writes == 1:
                total = exclusive_scan(self.counts, self.places)
                self.count.fill_(total)
                self.arrays = self._grow(total)
            found: list[Any] = [settings, writes, *head, *self.arrays[:-1]]
            launch(find_half_spaces, len(self.counts), found, device=self.device, grain=128)

    def tally(self) -> tuple[int, int]:
        """How many there are, and how many of them pushed in the last sweep."""
        pushed = self.arrays[-1].numpy()
        if not self.has_room:
            count = int(self.count.numpy()[0])
            return count, int(pushed[:count].sum())
        counts, each = self.counts.numpy(), self.colliders.count
        pushed = pushed[: each * len(counts)].reshape(len(counts), each)
        return int(counts.sum()), int(pushed[np.arange(each) < counts[:, None]].sum())

    def _grow(self, count: int) -> list[wp.array]:
        return [buffer.at_least(count) for buffer in self._buffers]
