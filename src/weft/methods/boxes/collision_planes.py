"""Collision planes: keep the boxes of triangles apart by limits on the coordinates of their vertices.

Liu, Ko and Chang 1998, section 4. Two boxes that are apart at the start of a step and touch while their sides move
linearly get a plane d = k, perpendicular to the axis d on which they touch last: the vertices of one triangle stay
below it, those of the other above it. A vertex in several pairs must be below its lowest plane and above its highest;
where these conflict (upper < lower) it stays between them, and the next run of the step moves the planes apart.

The paper leaves open, and weft does:

- A gap stays between the two sides: the thickness, or what there was at the start of the step if that was less.
- Where one side already rests on a limit, the other gives way: this is how a floor carries a pile.
- Otherwise the first plane of a pair is the middle of its two sides at the end of the step, so that cloth which falls
  together goes on falling. A pair that touches again in the same step, because of a conflict, gets the paper's plane,
  where its sides first touch; in later runs this moves back towards where the sides were at the start.
- When planes still conflict after some runs, every pair that is left gets the plane in the middle of its gap at the
  start: the positions of the start fulfil all of these at once, so that the runs come to an end.
- A collider does not give way: its plane is its own side at the end of the step.
- Boxes that overlap at the start on all axes have no plane. On the axis of least overlap neither side may go deeper.
- Triangles that share no vertex but that an edge joins are left out as adjacent ones are: in a flat sheet that lies at
  an angle to the axes their boxes overlap, and planes between them would stop the sheet from turning. Whether they and
  adjacent triangles intersect is tested triangle by triangle (`held_triangles.py`).
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.methods.boxes.elastic_surface import Limits
from weft.methods.boxes.plane_kernels import (
    PlaneMesh,
    Planes,
    WantedPlanes,
    anchor_vertices,
    find_carriers,
    find_planes,
    grip_vertices,
    narrow_limits,
    settle_limits,
    take_planes,
)
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scans
from weft.world import Surface, World
from weft.world.surface import surface_neighbours

# grain of launches with atomics, so that a single thread runs them on the CPU, where atomics of Warp are not thread-safe
ONE_THREAD = 1 << 30


class Touching(NamedTuple):
    """How many pairs of boxes touch during a step, and how many of them had no plane before."""

    pairs: int
    new: int


class CollisionPlanes:
    """The planes of one step, and the limits that follow from them."""

    def __init__(self, surface: Surface, thickness: wp.array, fixed_faces: np.ndarray) -> None:
        """`fixed_faces` flags the triangles of colliders."""
        self.surface, self.device = surface, surface.device
        self.fixed = wp.array(np.asarray(fixed_faces, np.int32), dtype=int, device=self.device)
        mesh: Any = PlaneMesh()
        mesh.faces, mesh.fixed, mesh.thickness = surface.faces, self.fixed, thickness
        mesh.offsets, mesh.neighbours = (
            wp.array(a, dtype=int, device=self.device) for a in surface_neighbours(surface)
        )
        self._mesh = mesh
        self._store = {
            name: Buffer(dtype, self.device)
            for name, dtype in (("pairs", wp.vec2i), ("sides", wp.vec2i), ("values", wp.vec2d), ("following", int))
        }
        self._heads = wp.full(surface.face_count, -1, dtype=int, device=self.device)
        # for each pair: the outputs of `find_planes`, and its places among the touching and among the new ones
        outputs = (("touch", int), ("fresh", int), ("found", wp.vec3i), ("values", wp.vec2d))
        self._outputs = {name: Buffer(dtype, self.device) for name, dtype in outputs}
        self._places = [Buffer(int, self.device) for _ in range(2)]
        shape = (3, surface.vertex_count)
        self._hard = [wp.full(shape, end, dtype=wp.float64, device=self.device) for end in (-np.inf, np.inf)]
        self.count = 0
        """planes so far"""
        self._room = 0
        self._make_room(1)

    @classmethod
    def from_world(cls, world: World) -> "CollisionPlanes":
        """The planes between all triangles of a world; those of its colliders do not give way."""
        return cls(world.surface, world.thickness, np.arange(len(world.faces)) >= world.cloth_face_count)

    def reset(self) -> None:
        """Forget all planes, at the start of a step."""
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
    ) -> Touching:
        """Add planes for the pairs whose boxes touch between start and end, and move those of pairs that touch again.

        limits: those that the end was solved with.
        still: put planes where the positions of the start fulfil them all; `reset` before the first time.
        hard_only: leave out pairs of cloth with cloth.
        """
        count = len(pairs)
        if count == 0:
            return Touching(0, 0)
        wanted: Any = WantedPlanes()
        for name, buffer in self._outputs.items():
            setattr(wanted, name, buffer.at_least(count))
        touch_places, places = (buffer.at_least(count) for buffer in self._places)
        inputs = [pairs, int(still), int(hard_only), self.planes, self._mesh, start, end]
        inputs += [limits.lower.shape[1], limits.lower, limits.upper, wanted]
        launch(find_planes, count, inputs, device=self.device, grain=256)
        touching, new = exclusive_scans((wanted.touch, touch_places, count), (wanted.fresh, places, count))
        if touching:
            self._make_room(self.count + new)
            inputs = [self.count, pairs, wanted, places, self.planes]
            launch(take_planes, count, inputs, device=self.device, grain=ONE_THREAD)
            self.count += new
        return Touching(touching, new)

    def write(self, limits: Limits) -> None:
        """Narrow the limits of all vertices to what the planes allow.

        Where planes conflict the interval is reversed, so that the vertex stays between them. Planes of colliders come first.
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


class PlaneFriction:
    """How hard colliders hold each vertex of cloth by friction, from one step to the next.

    Where a vertex lies on the plane of a collider, the limit exerts a force across the plane. The coefficient of friction times
    that force is the most that the vertex is held with, in the next step, on the other two axes, at its anchor: where it
    was, carried along by the triangle of the collider.
    """

    def __init__(self, surface: Surface, friction: wp.array, count: int) -> None:
        """`friction` has a coefficient for each pair of bodies; the first `count` vertices are cloth."""
        self.surface, self.friction, self.count = surface, friction, count
        device = surface.device
        self.grip = wp.zeros((3, count), dtype=wp.float64, device=device)
        """(3, count) the largest friction along each axis, N"""
        self.carrier = wp.full(count, -1, dtype=int, device=device)
        """the triangle of a collider that each vertex is pressed on; -1: none"""
        self._pressed = wp.empty(count, dtype=wp.int64, device=device)

    @classmethod
    def from_world(cls, world: World) -> "PlaneFriction":
        """All cloth of a world, with its coefficients of static friction."""
        return cls(world.surface, world.friction_static, world.cloth_vertex_count)

    def write(self, x: wp.array, target: wp.array, limits: Limits, *, moving: bool) -> None:
        """Write anchors and grips of vertices that start at x into the limits; `moving` colliders go to their targets."""
        inputs = [self.surface.faces, x, target, int(moving), self.carrier, self.grip, limits.anchor, limits.grip]
        launch(anchor_vertices, self.count, inputs, device=self.surface.device)

    def update(self, planes: CollisionPlanes, limits: Limits, r: wp.array, reaction: wp.array) -> None:
        """Compute the grips from the end of a step: the solution r within its limits, and their reactions (all (3, n))."""
        surface = self.surface
        self.grip.zero_()
        self._pressed.fill_(-1)
        inputs = [planes.planes, surface.faces, planes.fixed, surface.face_body, self.friction]
        inputs += [limits.lower, limits.upper, r, reaction, self.grip, self._pressed]
        launch(grip_vertices, planes.count, inputs, device=surface.device, grain=ONE_THREAD)
        launch(find_carriers, self.count, [planes.fixed, self._pressed, self.carrier], device=surface.device)

    def saved(self) -> dict[str, np.ndarray]:
        """The grips and triangles that the next step starts from."""
        return {"grip": self.grip.numpy().copy(), "carrier": self.carrier.numpy().astype(np.int64)}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Restore what `saved` returned."""
        self.grip.assign(np.array(saved["grip"]))
        self.carrier.assign(np.array(saved["carrier"], np.int32))
