"""Cloth against solids in an implicit step: hard constraints normal to the surface, and Coulomb friction along it.

A vertex at the thickness, or nearer, ends the step exactly at the thickness from where the surface will be, with the
surface's normal velocity: one direction of the vertex is taken out of the system (Baraff et al. 2003, section 3; the
position comes from the correction y of Baraff and Witkin 1998, section 6, without the speed it would take). It may
still slide. A vertex that is farther away, but would end nearer than the thickness, is constrained in another solve of
the same step; one whose constraint would have to pull is let go.

Friction acts after the solve, on velocities and positions: with N the constraint's force, sliding relative to the
surface is stopped while that takes at most mu_s N, and else slowed by mu_k N.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.constraints import Constraints
from weft.response.solid_surfaces import SolidSurfaces
from weft.world import World, launch

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
# parts of the thickness: farther by this a vertex still counts as touching at the start of a step,
TOUCHING = wp.constant(wp.float64(0.5))
# and nearer by this it need not be held at the end
SLACK = wp.constant(wp.float64(1.0e-3))
# what a constraint does at a vertex
AWAY = wp.constant(0)
OPEN = wp.constant(1)
CLOSED = wp.constant(2)
STAYS = wp.constant(3)


@wp.func
def triangle_frame(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.mat33d:
    """Columns: along ab, across it in the plane, normal; zero for a triangle without area."""
    t = wp.normalize(b - a)
    n = wp.normalize(wp.cross(b - a, c - a))
    s = wp.cross(n, t)
    return wp.mat33d(t[0], s[0], n[0], t[1], s[1], n[1], t[2], s[2], n[2])


@wp.kernel
def choose_surface(
    first: int,
    solids_faces: wp.array[wp.vec3i],
    count: int,
    face: wp.array2d[int],
    weights: wp.array2d[wp.vec3d],
    normals: wp.array2d[wp.vec3d],
    gaps: wp.array2d[wp.float64],
    thickness: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    held: wp.array[int],
    h: wp.float64,
    state: wp.array[int],
    body: wp.array[int],
    normal: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    carried: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
):
    """The surface that a vertex is deepest in, or nearest to: where it will be, and what brings the vertex there."""
    i = first + wp.tid()
    state[i] = AWAY
    if held[i] != 0:
        return
    best = int(-1)
    least = ZERO
    for k in range(count):
        if face[k, i] >= 0 and (best < 0 or gaps[k, i] < least):
            best = k
            least = gaps[k, i]
    if best < 0:
        return
    f = solids_faces[face[best, i]]
    w = weights[best, i]
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    q = w[0] * a + w[1] * b + w[2] * c
    n = normals[best, i]
    # the way of the point, and the normal turned with its triangle; nothing changes where nothing moves
    way = w[0] * (goal[f[0]] - a) + w[1] * (goal[f[1]] - b) + w[2] * (goal[f[2]] - c)
    before = triangle_frame(a, b, c)
    after = triangle_frame(goal[f[0]], goal[f[1]], goal[f[2]])
    n = wp.normalize(n + (after - before) * (n * before))
    distance = HALF * (thickness[i] + thickness[f[0]])
    state[i] = OPEN
    if least < (ONE + TOUCHING) * distance:
        state[i] = CLOSED
    body[i] = best
    normal[i] = n
    end[i] = q + way + distance * n
    carried[i] = way / h
    shift[i] = (distance - wp.dot(n, x[i] - q)) * n


@wp.func
def constrain(
    i: int,
    normal: wp.array[wp.vec3d],
    carried: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    velocity: wp.array[wp.vec3d],
    correction: wp.array[wp.vec3d],
):
    """Take the normal direction out of the system."""
    held[i] = 1
    filters[i] = wp.identity(n=3, dtype=wp.float64) - wp.outer(normal[i], normal[i])
    velocity[i] = carried[i]
    correction[i] = shift[i]


@wp.kernel
def close_contacts(
    first: int,
    state: wp.array[int],
    normal: wp.array[wp.vec3d],
    carried: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    velocity: wp.array[wp.vec3d],
    correction: wp.array[wp.vec3d],
):
    """Constrain the vertices that touch at the start."""
    i = first + wp.tid()
    if state[i] == CLOSED:
        constrain(i, normal, carried, shift, held, filters, velocity, correction)


@wp.kernel
def review_contacts(
    first: int,
    x_end: wp.array[wp.vec3d],
    force: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    state: wp.array[int],
    normal: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    carried: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    velocity: wp.array[wp.vec3d],
    correction: wp.array[wp.vec3d],
    changed: wp.array[int],
):
    """Let go of vertices that would be pulled, hold those that would end too near; each at most once either way."""
    i = first + wp.tid()
    changed[i] = 0
    # another restraint took this vertex over
    if state[i] == AWAY or held[i] > 1:
        return
    n = normal[i]
    if held[i] == 1 and state[i] == CLOSED and wp.dot(n, force[i]) < ZERO:
        state[i] = OPEN
        held[i] = 0
        correction[i] = wp.vec3d()
        changed[i] = 1
    elif held[i] == 0 and wp.dot(n, x_end[i] - end[i]) < -SLACK * thickness[i]:
        state[i] = STAYS
        constrain(i, normal, carried, shift, held, filters, velocity, correction)
        changed[i] = 1


@wp.kernel
def rub(
    first: int,
    inverse_mass: wp.array[wp.float64],
    force: wp.array[wp.vec3d],
    state: wp.array[int],
    held: wp.array[int],
    body: wp.array[int],
    normal: wp.array[wp.vec3d],
    carried: wp.array[wp.vec3d],
    vertex_body: wp.array[int],
    first_collider: int,
    grip: wp.array2d[wp.float64],
    drag: wp.array2d[wp.float64],
    h: wp.float64,
    x_end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
):
    """Coulomb friction of each vertex that a surface holds; grip and drag: static and kinetic coefficients."""
    i = first + wp.tid()
    if state[i] == AWAY or held[i] != 1:
        return
    n = normal[i]
    # the velocity that a force of N takes in a step
    push = wp.max(wp.dot(n, force[i]), ZERO) * h * inverse_mass[i]
    u = v_end[i] - carried[i]
    sliding = u - wp.dot(n, u) * n
    speed = wp.length(sliding)
    if speed == ZERO:
        return
    cloth = vertex_body[i]
    collider = first_collider + body[i]
    change = -sliding
    if speed > grip[cloth, collider] * push:
        change = -wp.min(ONE, drag[cloth, collider] * push / speed) * sliding
    v_end[i] = v_end[i] + change
    x_end[i] = x_end[i] + h * change


class SolidContact:
    """The restraint that keeps cloth vertices out of colliders (see `dynamics.constraints`)."""

    def __init__(self, world: World, *, depth: float = 0.03, surfaces: SolidSurfaces | None = None) -> None:
        """`depth`: how far inside a collider a vertex is still brought back to its surface, in m."""
        self.world = world
        self.device = world.device
        self.depth = depth
        self.surfaces = SolidSurfaces(world) if surfaces is None else surfaces
        self.closed = 0
        """vertices held by a surface at the end of the last step"""
        count = self.count = world.cloth_vertex_count
        self._state, self._body, self._changed = (wp.zeros(count, dtype=int, device=self.device) for _ in range(3))
        self._normal, self._end, self._carried, self._shift = (
            wp.zeros(count, dtype=wp.vec3d, device=self.device) for _ in range(4)
        )
        self._held = self._changed
        self._h = 0.0

    def begin(self, x: wp.array, v: wp.array, goal: wp.array, h: float, constraints: Constraints) -> None:
        """Find the surfaces that vertices are near to, and constrain those that touch."""
        found = self.surfaces
        self._h = h
        self._held = constraints.held
        largest = float(self.world.thickness.numpy().max(initial=0.0))
        reach = max(self.depth, 2.0 * largest) + found.largest_motion(x, goal)
        # gravity and the pull of neighbours come on top of the velocity: twice the way is looked at
        found.find(x, v, reach=reach, time=2.0 * h)
        inputs: list[Any] = [found.solids.faces, found.count, found.face, found.weights, found.normals, found.gaps]
        inputs += [self.world.thickness, x, goal, constraints.held, h, self._state, self._body, self._normal]
        inputs += [self._end, self._carried, self._shift]
        launch(choose_surface, self.count, inputs, device=self.device)
        inputs = [self._state, self._normal, self._carried, self._shift, *_arrays(constraints)]
        launch(close_contacts, self.count, inputs, device=self.device)

    def review(self, x_end: wp.array, force: wp.array, constraints: Constraints) -> bool:
        """Change what the solve has shown to be wrong."""
        inputs = [x_end, force, self.world.thickness, self._state, self._normal, self._end, self._carried, self._shift]
        launch(review_contacts, self.count, [*inputs, *_arrays(constraints), self._changed], device=self.device)
        return bool(self._changed.numpy().any())

    def finish(self, x_end: wp.array, v_end: wp.array, force: wp.array) -> None:
        """Friction."""
        world = self.world
        inputs: list[Any] = [world.inverse_mass, force, self._state, self._held, self._body, self._normal]
        inputs += [
            self._carried,
            world.surface.vertex_body,
            len(world.cloths),
            world.friction_static,
            world.friction_kinetic,
        ]
        launch(rub, self.count, [*inputs, self._h, x_end, v_end], device=self.device)
        self.closed = int(np.count_nonzero((self._state.numpy() > 0) & (self._held.numpy() == 1)))


def _arrays(constraints: Constraints) -> list[wp.array]:
    return [constraints.held, constraints.filters, constraints.velocity, constraints.shift]
