"""What colliders would tear: cloth that they strike too fast, or stretch too far, lets them pass.

A body that hits cloth faster than its critical speed pierces it at once, before any edge is long. A slower one carries the
cloth along, and passes through the vertices that it pushes when these pull an edge to several times its length.
"""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.contact.lists import ContactList
from weft.methods.guarded.tangles import TangleFinder
from weft.methods.robust.step_motion import StepMotion
from weft.world import State, World

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

# times its rest length that an edge may be stretched by a collider, which passes through the cloth before it stretches it
# farther: a ball at 50 m/s that a sheet of leather stops stretches it to 2.8 times
TEARING = 4.0
# the same where something crosses already: cloth that hangs on a hand that has come through it slips off
TEARING_TANGLED = 1.5
# times its rest length to which such a collider may stretch what else it pushes in that step: cloth that it has torn cannot
# pull the rest along. Without this limit a ball at 300 m/s leaves a sheet flying at 50 m/s
TORN = 1.25
# edge lengths by which contacts must move a vertex in a step for it to count as pushed: cloth that rests on a body is not
PUSHED = 0.1
# strain at which cloth is pierced at once. A body that hits it faster than a critical speed strains it farther in its first
# moment, however short that is (von Karman and Duwez 1950; of membranes, Smith et al. 1958): 45 m/s for cotton, 59 for leather,
# 180 for linen. With twice the strain a curtain of linen flew off with a ball of 300 m/s
PIERCED_STRAIN = 0.5


class Torn(Exception):
    """Colliders would tear the cloth; they have to pass the vertices that they push."""

    def __init__(self, vertices: Ints) -> None:
        super().__init__("a collider would tear the cloth")
        self.vertices = vertices


class Tearing:
    """Finds what colliders would tear in the step whose motion and contacts these are."""

    def __init__(self, world: World, motion: StepMotion, contacts: ContactList, finder: TangleFinder) -> None:
        self.world, self.motion, self.contacts, self.finder = world, motion, contacts, finder
        self._critical_speed = critical_speeds(world)
        self._colliders = slice(world.cloth_vertex_count, world.vertex_count)

    def refuse(self, state: State, dt: float, loose: Ints, *, tangled: bool) -> None:
        """Raise `Torn` where colliders push cloth faster than it can follow, or would stretch its edges too far.

        `loose` are the vertices that they pass already, `tangled` says whether something crosses at the start of the step.
        """
        torn, fast = self._torn_edges(state, loose, tangled), self._any_fast(state, dt)
        if not len(torn) and not fast:
            return
        stencils = self._read(self.contacts.vertices).reshape(-1, 4)
        with_collider = (stencils >= self._colliders.start).any(axis=1)
        pushed = np.zeros(0, np.int32)
        if fast:
            pushed = np.unique(stencils[with_collider & self._too_fast(state, dt, stencils)])
        if len(torn):
            given = self._read(self.contacts.normal_impulses) > self._read(self.contacts.least_impulses)
            touching = self._pushed(np.unique(stencils[with_collider & given]), dt)
            pushed = np.union1d(pushed, self.finder.connected(touching, torn.ravel()))
        pushed = np.setdiff1d(pushed[pushed < self._colliders.start], loose)
        if len(pushed):
            raise Torn(pushed)

    def _read(self, array: wp.array) -> Any:
        """What an array has of the contacts."""
        return array[: self.contacts.count].numpy()

    def _pushed(self, vertices: Ints, dt: float) -> Ints:
        """The vertices of cloth among these that contacts move noticeably."""
        vertices = vertices[vertices < self._colliders.start]
        change = self.motion.v.numpy()[vertices] - self.motion.v_free.numpy()[vertices]
        way = dt * np.linalg.norm(change, axis=1)
        return vertices[way > PUSHED * self.finder.parting.scale[vertices]]

    def _any_fast(self, state: State, dt: float) -> bool:
        """Whether a collider moves faster than the critical speed of some cloth."""
        there = self._colliders
        if there.start == there.stop:
            return False
        way = self.world.target[there].numpy() - state.x[there].numpy()
        return bool(np.linalg.norm(way, axis=1).max(initial=0.0) > dt * self._critical_speed.min())

    def _too_fast(self, state: State, dt: float, stencils: Ints) -> NDArray[np.bool_]:
        """(k,) which contacts meet in the step, faster than the critical speed of the cloth."""
        world, there = self.world, self._colliders
        velocity = state.v.numpy().copy()
        velocity[there] = (world.target.numpy()[there] - state.x.numpy()[there]) / dt
        arrays = self.contacts.weights, self.contacts.normals, self.contacts.gaps
        weights, normals, gaps = (self._read(array) for array in arrays)
        speed = -np.einsum("ij,ijk,ik->i", weights.reshape(-1, 4), velocity[stencils], normals)
        return np.asarray((speed > self._critical_speed[stencils].min(axis=1)) & (gaps < dt * speed))

    def _torn_edges(self, state: State, loose: Ints, tangled: bool) -> Ints:
        """(k, 2) the edges that the step would stretch too far."""
        whole = not len(loose)
        largest = TORN if not whole else TEARING_TANGLED if tangled else TEARING
        if self.world.largest_stretch(self.motion.x_end) < largest:
            return np.zeros((0, 2), np.int32)
        edges, rest = (array.numpy() for array in self.world.cloth_edges)
        x, end = state.x.numpy(), self.motion.x_end.numpy()
        a, b = edges.T
        before, length = (np.linalg.norm(y[b] - y[a], axis=1) for y in (x, end))
        # edges that were long before count only if the step makes them as much longer
        longer = length - before > (0.0 if whole else TORN - 1.0) * rest
        return np.asarray(edges[longer & (length > largest * rest)])


def critical_speeds(world: World) -> Floats:
    """(n,) m/s: how fast a body may hit each vertex without piercing the cloth; infinite for colliders."""
    speeds = np.full(world.vertex_count, np.inf)
    strain = PIERCED_STRAIN
    factor = np.sqrt(2.0 * strain * np.sqrt(strain * (1.0 + strain)) - strain**2)
    for cloth, body in zip(world.cloths, world.bodies, strict=False):
        speeds[body.vertices] = factor * np.sqrt(cloth.material.mean("stretch") / cloth.material.density)
    return speeds
