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

from weft.response.solid_surfaces import SolidSurfaces
from weft.world import World, launch
from weft.world.constraints import NOBODY, SETTLED, SOLID, UNSURE, WRONG, Constraints, Held, hold, let_go

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
# part of the thickness that a vertex may be off before it counts as not touching, or as too near
SLACK = wp.constant(wp.float64(1.0e-3))
# the fastest way out of a solid, m/s: a hand's width in a few frames, and no jerk where steps are short
PACE = wp.constant(wp.float64(1.0))
# how often a vertex may change between sticking, sliding and being free within a step: in doubt it stays held
MOST_TURNS = wp.constant(3)
# friction may be off by this part before its force is corrected
RUBBING = wp.constant(wp.float64(0.2))
# changes of less than this part of all contacts are left for the next step to start with
IN_DOUBT = 0.02
# a change, and one that no step must end without
CHANGED = wp.constant(1)
URGENT = wp.constant(2)
# a surface pushes at most with the force that stretches the cloth around a vertex by this part
YIELD = 0.5
# but not within so many rings of a pinched vertex
PINCH_RINGS = 3
# more than any force, N
UNBOUNDED = wp.constant(wp.float64(1.0e12))
# what a vertex does
AWAY = wp.constant(0)
OPEN = wp.constant(1)
STICKS = wp.constant(2)
SLIDES = wp.constant(3)
YIELDS = wp.constant(4)


@wp.struct
class Touch:
    """For each cloth vertex the surface it meets."""

    state: wp.array[int]
    push: wp.array[wp.vec3d]
    """friction on a vertex that slides; with the state, where the next step starts"""
    limit: wp.array[wp.float64]
    """the largest force of a surface on a vertex, N"""
    turns: wp.array[int]
    """how often the state has changed in this step"""
    grip: wp.array[wp.float64]
    """static friction"""
    drag: wp.array[wp.float64]
    """kinetic friction"""
    normal: wp.array[wp.vec3d]
    """at the end of the step"""
    end: wp.array[wp.vec3d]
    """a point of the plane that the vertex must not cross while it is free"""
    carried: wp.array[wp.vec3d]
    """velocity of the surface"""
    shift: wp.array[wp.vec3d]
    """what brings the vertex to the thickness, on top of the surface's motion"""


@wp.func
def triangle_frame(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.mat33d:
    """Columns: along ab, across it in the plane, normal; zero for a triangle without area."""
    t = wp.normalize(b - a)
    n = wp.normalize(wp.cross(b - a, c - a))
    s = wp.cross(n, t)
    return wp.mat33d(t[0], s[0], n[0], t[1], s[1], n[1], t[2], s[2], n[2])


@wp.func
def stick(i: int, touch: Touch, held: Held):
    """Held in all directions: the vertex goes with the surface."""
    touch.state[i] = STICKS
    hold(i, SOLID, touch.carried[i], touch.shift[i], held)


@wp.func
def slide(i: int, push: wp.vec3d, touch: Touch, held: Held):
    """Held along the normal; friction pushes along the surface."""
    touch.state[i] = SLIDES
    n = touch.normal[i]
    held.directions[i] = 1
    held.owner[i] = SOLID
    held.filters[i] = wp.identity(n=3, dtype=wp.float64) - wp.outer(n, n)
    held.velocity[i] = touch.carried[i]
    held.shift[i] = touch.shift[i]
    held.push[i] = push
    touch.push[i] = push


@wp.func
def give_way(i: int, touch: Touch, held: Held):
    """Free, but for a push that the cloth bears."""
    touch.state[i] = YIELDS
    let_go(i, held)
    held.push[i] = touch.limit[i] * touch.normal[i]


@wp.func
def meet(i: int, touch: Touch, held: Held):
    """A vertex that touches: without friction there is no need to try whether it sticks."""
    if touch.grip[i] > ZERO:
        stick(i, touch, held)
    else:
        slide(i, wp.vec3d(), touch, held)


@wp.kernel
def choose_surface(
    first: int,
    solids_faces: wp.array[wp.vec3i],
    colliders: int,
    face: wp.array2d[int],
    weights: wp.array2d[wp.vec3d],
    normals: wp.array2d[wp.vec3d],
    gaps: wp.array2d[wp.float64],
    thickness: wp.array[wp.float64],
    vertex_body: wp.array[int],
    grip: wp.array2d[wp.float64],
    drag: wp.array2d[wp.float64],
    cloths: int,
    gravity: wp.vec3d,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    h: wp.float64,
    touch: Touch,
    held: Held,
):
    """The surface that a vertex is deepest in, or nearest to: where it will be, and what brings the vertex there."""
    i = first + wp.tid()
    was = touch.state[i]
    touch.state[i] = AWAY
    touch.turns[i] = 0
    if held.owner[i] != NOBODY:
        return
    best = int(-1)
    least = ZERO
    for k in range(colliders):
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
    n = normals[best, i]
    # the way of the point, and the normal turned with its triangle; nothing changes where nothing moves
    way = w[0] * (goal[f[0]] - a) + w[1] * (goal[f[1]] - b) + w[2] * (goal[f[2]] - c)
    before = triangle_frame(a, b, c)
    after = triangle_frame(goal[f[0]], goal[f[1]], goal[f[2]])
    n = wp.normalize(n + (after - before) * (n * before))
    distance = HALF * (thickness[i] + thickness[f[0]])
    # a vertex deep inside comes out over several steps
    gap = wp.dot(n, x[i] - (w[0] * a + w[1] * b + w[2] * c))
    out = wp.min(distance - gap, PACE * h)
    touch.grip[i] = grip[vertex_body[i], cloths + best]
    touch.drag[i] = drag[vertex_body[i], cloths + best]
    touch.normal[i] = n
    # while it is free it may stay where it is, but come no nearer
    touch.end[i] = x[i] + way + wp.min(out, ZERO) * n
    touch.carried[i] = way / h
    touch.shift[i] = out * n

    # as in the last step where it still touches, or is about to; the solve will tell
    touch.state[i] = OPEN
    slack = SLACK * distance
    fall = wp.dot(n, h * v[i] + (h * h) * gravity - way)
    touching = gap < distance + slack
    coming = gap < distance + distance and gap + fall < distance + slack
    if was == SLIDES and (touching or coming):
        slide(i, touch.push[i] - wp.dot(n, touch.push[i]) * n, touch, held)
    elif was == STICKS and (touching or coming):
        stick(i, touch, held)
    elif was == YIELDS and touching and touch.limit[i] < UNBOUNDED:
        give_way(i, touch, held)
    elif was != OPEN and (touching or coming):
        meet(i, touch, held)


@wp.kernel
def review_contacts(
    first: int,
    x_end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
    force: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    touch: Touch,
    held: Held,
    changed: wp.array[int],
):
    """Change what the last solve has shown to be wrong."""
    i = first + wp.tid()
    changed[i] = 0
    state = touch.state[i]
    # a vertex that has turned too often can still be caught, but no longer be let go
    if state == AWAY or (touch.turns[i] >= MOST_TURNS and state != OPEN):
        return
    # a later restraint took this vertex over
    if held.owner[i] != SOLID and held.owner[i] != NOBODY:
        return
    n = touch.normal[i]
    change = int(0)
    if state == OPEN:
        above = wp.dot(n, x_end[i] - touch.end[i])
        if above < -SLACK * thickness[i]:
            meet(i, touch, held)
            change = CHANGED
            if above < -HALF * thickness[i]:
                change = URGENT
    elif state == YIELDS:
        # pushed out faster than it would be brought out: no need to yield
        if wp.dot(n, x_end[i] - touch.end[i]) > wp.max(wp.dot(n, touch.shift[i]), ZERO) + SLACK * thickness[i]:
            meet(i, touch, held)
            change = CHANGED
    else:
        pressed = wp.dot(n, force[i])
        if pressed < ZERO:
            touch.state[i] = OPEN
            let_go(i, held)
            change = CHANGED
        elif pressed > touch.limit[i]:
            give_way(i, touch, held)
            change = CHANGED
        elif state == STICKS:
            pull = force[i] - pressed * n
            size = wp.length(pull)
            if size > touch.grip[i] * pressed:
                slide(i, (touch.drag[i] * pressed / size) * pull, touch, held)
                change = CHANGED
        elif touch.drag[i] > ZERO:
            u = v_end[i] - touch.carried[i]
            u = u - wp.dot(n, u) * n
            speed = wp.length(u)
            if speed == ZERO or wp.dot(u, held.push[i]) > ZERO:
                stick(i, touch, held)
                change = CHANGED
            elif touch.turns[i] == 0:
                push = (-touch.drag[i] * pressed / speed) * u
                if wp.length(push - held.push[i]) > RUBBING * wp.length(push):
                    slide(i, push, touch, held)
                    change = CHANGED
    if change != 0:
        changed[i] = change
        touch.turns[i] = touch.turns[i] + 1


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
        self._limit = YIELD * self._stretching_forces()
        self.pinch(np.zeros(0, np.int32))

    @property
    def closed(self) -> int:
        """Vertices that a surface held in the last step."""
        return int(np.isin(self._touch.state.numpy(), (int(STICKS), int(SLIDES))).sum())

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
        around = np.zeros(self.count, bool)
        around[vertices] = True
        for _ in range(PINCH_RINGS if len(vertices) else 0):
            around[self._edges[around[self._edges].any(axis=1)]] = True
        self._touch.limit.assign(np.where(around, float(UNBOUNDED), self._limit))

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
        changed = self._changed.numpy()
        if (changed == int(URGENT)).any():
            return WRONG
        return UNSURE if np.count_nonzero(changed) > IN_DOUBT * self.closed else SETTLED

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
