"""Cloth against solids in an implicit step: hard constraints normal to the surface, and Coulomb friction along it.

A vertex at the thickness, or nearer, ends the step at the thickness from where the surface will be, with the surface's
normal velocity: that direction of the vertex is taken out of the system (Baraff et al. 2003, section 3; the position
comes from the correction y of Baraff and Witkin 1998, section 6, without the speed it would take).

What a vertex does along the surface is decided by solving, looking at the forces N n + T that the constraints took, and
solving again where they were wrong:

- it sticks, held in all directions, while |T| is at most mu_s N;
- it slides, pushed by the force mu_k N against its motion, until friction would turn that motion round: then it sticks;
- it is let go where the surface would have to pull (N < 0);
- a free vertex that would end nearer than the thickness, or nearer than it is, is held.

- it yields where holding it takes more force than cloth bears: it is free, and the surface pushes with that force alone.
  Rather through a solid than torn: a hand that sinks into the body and comes out again would carry off a dress that it
  has caught.

A step starts with what each vertex did in the last one, which is mostly right.

Friction in the solve, not after it: the vertices of stiff cloth pull each other along, and one that is stopped alone,
however little it weighs, tears at its neighbours.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.methods.untangle.solid_kernels import (
    CHUNK,
    SLIDES,
    Touch,
    choose_surface,
    limit_forces,
    review_contacts,
    tally_contacts,
)
from weft.methods.untangle.solid_surfaces import SolidSurfaces
from weft.runtime import launch
from weft.runtime.reduction import lanes_on
from weft.world import World
from weft.world.constraints import SETTLED, UNSURE, WRONG, Constraints
from weft.world.rings import Rings

# changes of less than this part of all contacts are left for the next step to start with
IN_DOUBT = 0.02
# a surface pushes at most with the force that stretches the cloth around a vertex by this part
YIELD = 0.5
# but not within so many rings of a pinched vertex
PINCH_RINGS = 3


class SolidContact:
    """The restraint that keeps cloth vertices out of colliders (see `world.constraints`)."""

    def __init__(self, world: World, *, depth: float = 0.03, surfaces: SolidSurfaces | None = None) -> None:
        """`depth`: how far inside a collider a vertex is still brought back to its surface, in m."""
        self.world = world
        self.device = world.device
        self.depth = depth
        self.surfaces = SolidSurfaces(world) if surfaces is None else surfaces
        self.count = world.cloth_vertex_count
        self._gravity = wp.vec3d(*world.scene.forces.gravity)
        self._thickest = float(world.thickness.numpy().max(initial=0.0))
        touch = self._touch = Touch()
        touch.state, touch.turns = self._zeros(int), self._zeros(int)
        touch.grip, touch.drag = self._zeros(wp.float64), self._zeros(wp.float64)
        touch.push, touch.normal, touch.end = (self._zeros(wp.vec3d) for _ in range(3))
        touch.carried, touch.shift = (self._zeros(wp.vec3d) for _ in range(2))
        touch.limit = self._zeros(wp.float64)
        self._changed = self._zeros(int)
        parts = world.cloths
        self._edges = np.concatenate([np.zeros((0, 2), int), *(part.mesh.edges + part.first for part in parts)])
        self._lengths = np.concatenate([np.zeros(0), *(part.mesh.rest_lengths for part in parts)])
        self._limit = wp.array(YIELD * self._stretching_forces(), dtype=wp.float64, device=self.device)
        self._rings = Rings(self._edges, self.count, self.device)
        self._around = self._rings.no_marks()
        self._tallies = wp.zeros(-(-self.count // int(CHUNK)), dtype=wp.vec3d, device=self.device)
        self.pinch(np.zeros(0, np.int32))

    @property
    def closed(self) -> int:
        """Vertices that a surface held in the last step."""
        return int(self._tally()[2])

    @property
    def sliding(self) -> int:
        """Vertices that slid along a surface in the last step."""
        return int(np.count_nonzero(self._touch.state.numpy() == int(SLIDES)))

    def saved(self) -> dict[str, np.ndarray]:
        """What the next step starts from: what each vertex did, and its friction."""
        return {"contact_state": self._touch.state.numpy().copy(), "contact_push": self._touch.push.numpy().copy()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take up what `saved` gave."""
        self._touch.state.assign(saved["contact_state"])
        self._touch.push.assign(saved["contact_push"])

    def pinch(self, vertices: np.ndarray) -> None:
        """Nothing yields around these vertices in the steps that follow: what stretches cloth there is the pinch."""
        self._rings.mark(vertices, PINCH_RINGS, self._around)
        launch(limit_forces, self.count, [self._limit, self._around, self._touch.limit], device=self.device)

    def begin(self, x: wp.array, v: wp.array, goal: wp.array, h: float, constraints: Constraints) -> None:
        """Find the surfaces that vertices are near to, and hold those that touch."""
        world, found = self.world, self.surfaces
        reach = max(self.depth, 2.0 * self._thickest) + found.largest_motion(x, goal)
        # gravity and the pull of neighbours come on top of the velocity: twice the way is looked at
        found.find(x, v, reach=reach, time=2.0 * h)
        inputs: list[Any] = [found.solids.faces, found.count, found.face, found.weights, found.normals, found.gaps]
        inputs += [world.thickness, world.surface.vertex_body, world.friction_static, world.friction_kinetic]
        inputs += [len(world.cloths), self._gravity, x, v, goal, h, self._touch, constraints.held]
        launch(choose_surface, self.count, inputs, device=self.device)

    def review(self, x_end: wp.array, v_end: wp.array, force: wp.array, constraints: Constraints) -> int:
        """Let go, hold, slide or stick where the solve has shown the opposite to be wrong."""
        inputs = [x_end, v_end, force, self.world.thickness, self._touch, constraints.held, self._changed]
        launch(review_contacts, self.count, inputs, device=self.device)
        changed, urgent, closed = self._tally()
        if urgent:
            return WRONG
        return UNSURE if changed > IN_DOUBT * closed else SETTLED

    def _tally(self) -> np.ndarray:
        """How many vertices changed, how many of these urgently, and how many a surface holds."""
        items = len(self._tallies) * lanes_on(self.device)
        launch(tally_contacts, items, [self._changed, self._touch, self._tallies], device=self.device, grain=8)
        counts: np.ndarray = self._tallies.numpy().sum(axis=0)
        return counts

    def _stretching_forces(self) -> np.ndarray:
        """(n,) the force that would stretch the cloth around each vertex to twice its length, were it linear, in N."""
        ends = self._edges.ravel()
        parts = self.world.cloths
        stretch = np.concatenate(
            [np.zeros(0), *(np.full(len(part.mesh.edges), part.material.stretch) for part in parts)]
        )
        total = np.bincount(ends, np.repeat(stretch * self._lengths, 2), self.count)
        force: np.ndarray = total / np.maximum(np.bincount(ends, minlength=self.count), 1)
        return force

    def _zeros(self, dtype: Any) -> wp.array:
        return wp.zeros(self.count, dtype=dtype, device=self.device)
