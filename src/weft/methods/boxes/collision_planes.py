"""Collision planes: keep the boxes of triangles apart by limits on the coordinates of their vertices.

Liu, Ko and Chang 1998, section 4. Two boxes that are apart at the start of a step and touch while their sides move
linearly get a plane d = k, perpendicular to the axis d on which they touch last: the vertices of one triangle stay
below it, those of the other above it. A vertex in several pairs must be below its lowest plane and above its highest;
where these conflict (upper < lower) it stays between them, and the next run moves the planes apart.

What the paper leaves open, and what is done here:

- A gap stays between the two sides: the thickness, or what there was at the start of the step if that was less.
- Where one side already lies on a limit that holds it back, the other gives way: this is how a floor carries a pile.
- Otherwise the first plane of a pair is the middle of its two sides at the end of the step, so that cloth which falls
  together goes on falling. A pair that meets again in the same step, because of a conflict, gets the paper's plane,
  where its sides first touch; in later runs this goes back towards where the sides were at the start.
- When planes still conflict after some runs, every pair that is left gets the plane in the middle of its gap at the
  start: the positions of the start fulfil all of these at once, so that the runs come to an end.
- A collider does not give way: its plane is its own side at the end of the step.
- Boxes that overlap at the start on all axes have no plane. On the axis of least overlap neither side may go deeper.
- Triangles that share no vertex but that an edge joins are left out as adjacent ones are: in a flat sheet that lies at
  an angle to the axes their boxes overlap, and planes between them would stop the sheet from turning. Whether they and
  adjacent triangles pass through each other is looked at triangle by triangle (`response/held_triangles.py`).
"""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.elastic_surface.model import Limits
from weft.methods.boxes.plane_kernels import Planes, find_planes, narrow_limits, settle_limits, take_planes
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scans
from weft.world import Surface, World
from weft.world.rings import surface_neighbours

# for kernels that must not be divided: elsewhere than on a card atomics are not for several threads
ONE_THREAD = 1 << 30


class Met(NamedTuple):
    """How many pairs met, and how many of them had no plane before."""

    pairs: int
    new: int


class CollisionPlanes:
    """The planes of one step: what was found in its runs, and the limits that follow."""

    def __init__(self, surface: Surface, thickness: wp.array, fixed_faces: np.ndarray) -> None:
        """`fixed_faces` says which triangles are colliders."""
        self.surface, self.thickness, self.device = surface, thickness, surface.device
        self.fixed = wp.array(np.asarray(fixed_faces, np.int32), dtype=int, device=self.device)
        self._offsets, self._neighbours = (
            wp.array(a, dtype=int, device=self.device) for a in surface_neighbours(surface)
        )
        self._store = {
            name: Buffer(dtype, self.device)
            for name, dtype in (("pairs", wp.vec2i), ("sides", wp.vec2i), ("values", wp.vec2d), ("following", int))
        }
        self._heads = wp.full(surface.face_count, -1, dtype=int, device=self.device)
        # of every pair that is looked at: what `find_planes` says of it, and its places among those that meet and are new
        self._said = [Buffer(dtype, self.device) for dtype in (wp.vec3i, wp.vec2d, int, int)]
        self._placed = [Buffer(int, self.device) for _ in range(2)]
        shape = (3, surface.vertex_count)
        self._hard = [wp.full(shape, end, dtype=wp.float64, device=self.device) for end in (-np.inf, np.inf)]
        self.count = 0
        """how many there are"""
        self._room = 0
        self._make_room(1)

    @classmethod
    def from_world(cls, world: World) -> "CollisionPlanes":
        """The planes between all triangles of a world; those of its colliders do not give way."""
        return cls(world.surface, world.thickness, np.arange(len(world.faces)) >= world.cloth_face_count)

    def reset(self) -> None:
        """Forget all planes: a new step begins."""
        if self.count:
            self._heads.fill_(-1)
        self.count = 0

    def update(
        self,
        pairs: wp.array,
        start: wp.array,
        end: wp.array,
        limits: Limits,
        *,
        still: bool = False,
        hard_only: bool = False,
    ) -> Met:
        """Add planes for the pairs that meet between start and end, and move those of pairs that meet again.

        limits: those with which the end was found.
        still: put planes where the positions of the start fulfil them all; `reset` before the first time.
        hard_only: leave out pairs of cloth with cloth.
        """
        count = len(pairs)
        if count == 0:
            return Met(0, 0)
        found, values, met, fresh = (buffer.at_least(count) for buffer in self._said)
        met_places, places = (buffer.at_least(count) for buffer in self._placed)
        cloth, lower, upper = limits.lower.shape[1], limits.lower, limits.upper
        launch(
            find_planes,
            count,
            [pairs, int(still), int(hard_only), self.planes, self.surface.faces, self.fixed]
            + [self._offsets, self._neighbours, start, end, self.thickness]
            + [cloth, lower, upper, found, values, met, fresh],
            device=self.device,
            grain=256,
        )
        meeting, new = exclusive_scans((met, met_places, count), (fresh, places, count))
        if meeting:
            self._make_room(self.count + new)
            inputs = [self.count, pairs, found, values, met, places, self.planes]
            launch(take_planes, count, inputs, device=self.device, grain=ONE_THREAD)
            self.count += new
        return Met(meeting, new)

    def write(self, limits: Limits) -> None:
        """Narrow the limits to what the planes allow.

        A vertex between two planes that conflict stays between them: its interval is reversed. Planes of colliders
        count before all others.
        """
        if self.count == 0:
            return
        both = [limits.lower, limits.upper, *self._hard]
        inputs = [self.planes, self.surface.faces, self.fixed, *both]
        launch(narrow_limits, self.count, inputs, device=self.device, grain=ONE_THREAD)
        launch(settle_limits, limits.lower.shape[1], both, device=self.device)

    def _make_room(self, count: int) -> None:
        """Have room for so many planes."""
        if count <= self._room:
            return
        self.planes = Planes()
        self.planes.heads = self._heads
        for name, buffer in self._store.items():
            setattr(self.planes, name, buffer.at_least(count, keep=self.count))
        self._room = min(len(buffer.array) for buffer in self._store.values())
