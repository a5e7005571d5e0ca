"""Cloth against colliders in an implicit step: hard constraints along the normal, and Coulomb friction along the surface.

A vertex at the thickness, or nearer, ends the step at the thickness from where the surface will be, with the normal velocity
of the surface: that direction of the vertex is removed from the system (Baraff et al. 2003, section 3; the position comes
from the correction y of Baraff and Witkin 1998, section 6, without the velocity that it would take).

The state of each vertex is found by solving, looking at the constraint forces N n + T, and solving again where the state was
wrong:

- a vertex sticks, held in all directions, while |T| is at most mu_s N;
- it slides, pushed by the force mu_k N against its motion, until friction would reverse that motion: then it sticks;
- it is released where the surface would have to pull (N < 0);
- a free vertex that would end nearer than the thickness, or nearer than it is now, is held;
- in the crease between two colliders it touches both: it sticks, or slides along the crease, while both push, and touches
  one of them where the other would have to pull;
- it yields where holding it takes more force than the cloth bears: it is free, and the surface pushes with that force alone.
  A hand that sinks into the body and comes out again would otherwise carry off a dress that it has caught.

A step starts with the states of the last step, most of which are right. Friction is part of the solve, not applied after it:
the vertices of stiff cloth pull each other along, and one that is stopped alone, however little it weighs, tears at its
neighbours.
"""

# mypy: disable-error-code="arg-type"

from typing import Any

import numpy as np
import warp as wp

from weft.methods.untangle.solid_surfaces import NearestPoints, SolidSurfaces
from weft.runtime import launch
from weft.runtime.buffers import read
from weft.runtime.compaction import block_max, lane_sum_vector, lanes, lanes_on
from weft.runtime.cooperative import CooperativeLauncher
from weft.world import World
from weft.world.constraints import NOBODY, SETTLED, SOLID, UNSURE, WRONG, ConstraintArrays, Constraints, hold, release
from weft.world.surface import Rings

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
# fraction of the thickness by which a vertex may be off before it counts as not touching, or as too near
THICKNESS_TOLERANCE = wp.constant(wp.float64(1.0e-3))
# m/s; the fastest motion out of a solid: a hand's width in a few frames, and no jerk where steps are short
EXIT_SPEED = wp.constant(wp.float64(1.0))
# how often a vertex may change its state within a step before it stays constrained: otherwise some alternate for ever
MOST_CHANGES = wp.constant(3)
# relative error of a friction force up to which it is not corrected: each correction costs a solve
FRICTION_TOLERANCE = wp.constant(wp.float64(0.2))
# a change, and one that must be solved again before the step ends
CHANGED = wp.constant(1)
URGENT = wp.constant(2)
# newtons; more than any force
UNBOUNDED = wp.constant(wp.float64(1.0e12))
# vertices whose changes are summed by one item of the reduction
CHUNK = wp.constant(128)
# states of a vertex: no surface near; free near a surface; held in all directions; held along the normal; pushed by a force
AWAY = wp.constant(0)
OPEN = wp.constant(1)
STICKS = wp.constant(2)
SLIDES = wp.constant(3)
YIELDS = wp.constant(4)
# cosines between two normals from and to which there is a crease between two surfaces: smoother ones are one surface, sharper
# ones pinch
CREASE_LEAST, CREASE_MOST = wp.constant(wp.float64(-0.5)), wp.constant(wp.float64(0.95))
# fraction of all contacts; if fewer changed, the next step starts with the changes and no further solve is made
FEW_CHANGES = 0.02
# a surface pushes at most with the force that stretches the cloth around a vertex by this fraction
YIELD_STRETCH = 0.5
# rings around a pinched vertex in which the force of surfaces is not limited
PINCH_RINGS = 3


@wp.struct
class Touch:
    """For each cloth vertex: its state, and the surface that it touches or is near."""

    state: wp.array[int]
    push: wp.array[wp.vec3d]
    """newtons; friction on a vertex that slides; kept with the state for the next step"""
    limit: wp.array[wp.float64]
    """newtons; the largest force of a surface on a vertex"""
    changes: wp.array[int]
    """how often the state has changed in this step"""
    static_friction: wp.array[wp.float64]
    """coefficient of static friction"""
    kinetic_friction: wp.array[wp.float64]
    """coefficient of kinetic friction"""
    normal: wp.array[wp.vec3d]
    """of the surface at the end of the step"""
    second: wp.array[wp.vec3d]
    """the normal of a second surface, where the vertex is in the crease between two; else 0"""
    end: wp.array[wp.vec3d]
    """a point of the plane that the vertex must not cross while it is free"""
    carried: wp.array[wp.vec3d]
    """m/s; velocity of the surface"""
    shift: wp.array[wp.vec3d]
    """displacement of the vertex to the thickness, on top of the motion of the surface"""


@wp.struct
class ContactData:
    """What does not change during a run."""

    faces: wp.array[wp.vec3i]
    """triangles of the colliders"""
    colliders: int
    first_collider: int
    """body index of the first collider"""
    thickness: wp.array[wp.float64]
    vertex_body: wp.array[int]
    static_friction: wp.array2d[wp.float64]
    """coefficients of static friction of two bodies"""
    kinetic_friction: wp.array2d[wp.float64]
    gravity: wp.vec3d


@wp.func
def triangle_frame(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.mat33d:
    """A rotation with the columns: along ab, perpendicular to it in the plane, normal; zero for a triangle without area."""
    t = wp.normalize(b - a)
    n = wp.normalize(wp.cross(b - a, c - a))
    s = wp.cross(n, t)
    return wp.mat33d(t[0], s[0], n[0], t[1], s[1], n[1], t[2], s[2], n[2])


@wp.func
def vector_with_products(n: wp.vec3d, m: wp.vec3d, a: wp.float64, b: wp.float64) -> wp.vec3d:
    """The shortest vector whose scalar products with the unit vectors n and m are a and b."""
    c = wp.dot(n, m)
    scale = ONE / (ONE - c * c)
    return (scale * (a - c * b)) * n + (scale * (b - c * a)) * m


@wp.func
def along_surface(force: wp.vec3d, n: wp.vec3d, second: wp.vec3d) -> wp.vec3d:
    """The part of a force along a surface of normal n, or along the crease with a second one."""
    if wp.length(second) > ZERO:
        along = wp.normalize(wp.cross(n, second))
        return wp.dot(along, force) * along
    return force - wp.dot(n, force) * n


@wp.func
def stick(i: int, touch: Touch, held: ConstraintArrays):
    """Hold a vertex in all directions: it moves with the surface."""
    touch.state[i] = STICKS
    hold(i, SOLID, touch.carried[i], touch.shift[i], held)


@wp.func
def slide(i: int, push: wp.vec3d, touch: Touch, held: ConstraintArrays):
    """Hold a vertex along the normal; the friction force `push` acts along the surface."""
    touch.state[i] = SLIDES
    n = touch.normal[i]
    held.directions[i] = 1
    held.owner[i] = SOLID
    held.filters[i] = wp.identity(n=3, dtype=wp.float64) - wp.outer(n, n)
    if wp.length(touch.second[i]) > ZERO:
        along = wp.normalize(wp.cross(n, touch.second[i]))
        held.directions[i] = 2
        held.filters[i] = wp.outer(along, along)
    held.velocity[i] = touch.carried[i]
    held.shift[i] = touch.shift[i]
    held.push[i] = push
    touch.push[i] = push


@wp.func
def yield_to(i: int, touch: Touch, held: ConstraintArrays):
    """Let a vertex free, pushed with the largest force that the surface may apply."""
    touch.state[i] = YIELDS
    release(i, held)
    held.push[i] = touch.limit[i] * touch.normal[i]


@wp.func
def start_contact(i: int, touch: Touch, held: ConstraintArrays):
    """The first state of a vertex that touches: it sticks, or without friction it slides."""
    if touch.static_friction[i] > ZERO:
        stick(i, touch, held)
    else:
        slide(i, wp.vec3d(), touch, held)


@wp.struct
class Plane:
    """The surface of a collider next to a vertex, as it will be at the end of the step."""

    normal: wp.vec3d
    displacement: wp.vec3d
    """of its nearest point"""
    gap: wp.float64
    """metres; of the vertex now"""
    distance: wp.float64
    """metres; that the vertex keeps"""


@wp.func
def surface_ahead(
    k: int,
    i: int,
    nearest: NearestPoints,
    data: ContactData,
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
) -> Plane:
    """The surface of collider k next to vertex i."""
    plane = Plane()
    f = data.faces[nearest.face[k, i]]
    w = nearest.weights[k, i]
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    n = nearest.normals[k, i]
    # the displacement of the point, and the normal rotated with its triangle; both exact for a triangle at rest
    plane.displacement = w[0] * (goal[f[0]] - a) + w[1] * (goal[f[1]] - b) + w[2] * (goal[f[2]] - c)
    before = triangle_frame(a, b, c)
    after = triangle_frame(goal[f[0]], goal[f[1]], goal[f[2]])
    plane.normal = wp.vec3d(wp.normalize(n + (after - before) * (n * before)))
    plane.distance = HALF * (data.thickness[i] + data.thickness[f[0]])
    plane.gap = wp.dot(plane.normal, x[i] - (w[0] * a + w[1] * b + w[2] * c))
    return plane


@wp.kernel
def choose_surface(
    first: int,
    nearest: NearestPoints,
    data: ContactData,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    h: wp.float64,
    touch: Touch,
    held: ConstraintArrays,
):
    """Choose the surface that a vertex is deepest in, or nearest to: where that will be, and the first state of the vertex."""
    i = first + wp.tid()
    was = touch.state[i]
    touch.state[i] = AWAY
    touch.changes[i] = 0
    if held.owner[i] != NOBODY:
        return
    best = int(-1)
    least = ZERO
    for k in range(data.colliders):
        if nearest.face[k, i] >= 0 and (best < 0 or nearest.gaps[k, i] < least):
            best = k
            least = nearest.gaps[k, i]
    if best < 0:
        return
    plane = surface_ahead(best, i, nearest, data, x, goal)
    n = plane.normal
    displacement = plane.displacement
    distance = plane.distance
    # a vertex deep inside moves out over several steps
    gap = plane.gap
    out = wp.min(distance - gap, EXIT_SPEED * h)
    touch.static_friction[i] = data.static_friction[data.vertex_body[i], data.first_collider + best]
    touch.kinetic_friction[i] = data.kinetic_friction[data.vertex_body[i], data.first_collider + best]
    touch.normal[i] = n
    # a free vertex may keep its distance to the surface, but come no nearer
    touch.end[i] = x[i] + displacement + wp.min(out, ZERO) * n
    touch.carried[i] = displacement / h
    touch.shift[i] = out * n
    touch.second[i] = wp.vec3d()
    for k in range(data.colliders):
        if k != best and nearest.face[k, i] >= 0:
            if nearest.gaps[k, i] < distance + distance and wp.length(touch.second[i]) == ZERO:
                other = surface_ahead(k, i, nearest, data, x, goal)
                across = wp.dot(n, other.normal)
                touches_both = other.gap < (ONE + THICKNESS_TOLERANCE) * other.distance
                if touches_both and gap < (ONE + THICKNESS_TOLERANCE) * distance:
                    if across > CREASE_LEAST and across < CREASE_MOST:
                        touch.second[i] = other.normal
                        mean = HALF * (displacement + other.displacement)
                        a = wp.dot(n, displacement - mean)
                        b = wp.dot(other.normal, other.displacement - mean)
                        touch.carried[i] = (mean + vector_with_products(n, other.normal, a, b)) / h
                        out2 = wp.min(other.distance - other.gap, EXIT_SPEED * h)
                        touch.shift[i] = vector_with_products(n, other.normal, out, out2)

    # start with the state of the last step where the vertex still touches, or is about to
    touch.state[i] = OPEN
    tolerance = THICKNESS_TOLERANCE * distance
    fall = wp.dot(n, h * v[i] + (h * h) * data.gravity - displacement)
    touching = gap < distance + tolerance
    approaching = gap < distance + distance and gap + fall < distance + tolerance
    if was == SLIDES and (touching or approaching):
        slide(i, along_surface(touch.push[i], n, touch.second[i]), touch, held)
    elif was == STICKS and (touching or approaching):
        stick(i, touch, held)
    elif was == YIELDS and touching and touch.limit[i] < UNBOUNDED:
        yield_to(i, touch, held)
    elif was != OPEN and (touching or approaching):
        start_contact(i, touch, held)


@wp.func
def review_crease(
    i: int, v_end: wp.array[wp.vec3d], force: wp.array[wp.vec3d], touch: Touch, held: ConstraintArrays
) -> int:
    """Change the state of a vertex in a crease if the last solve contradicts it; gives the change."""
    n = touch.normal[i]
    m = touch.second[i]
    along = wp.normalize(wp.cross(n, m))
    # the forces of both surfaces: force = a n + b m + (part along the crease)
    c = wp.dot(n, m)
    scale = ONE / (ONE - c * c)
    a = scale * (wp.dot(n, force[i]) - c * wp.dot(m, force[i]))
    b = scale * (wp.dot(m, force[i]) - c * wp.dot(n, force[i]))
    pull = wp.dot(along, force[i])
    if a < ZERO and b < ZERO:
        touch.second[i] = wp.vec3d()
        touch.state[i] = OPEN
        release(i, held)
        return CHANGED
    if a < ZERO or b < ZERO:
        # one of them would have to pull: the vertex touches the other alone
        touch.second[i] = wp.vec3d()
        if a < ZERO:
            touch.normal[i] = m
        n = touch.normal[i]
        touch.shift[i] = wp.dot(n, touch.shift[i]) * n
        start_contact(i, touch, held)
        return CHANGED
    if touch.state[i] == STICKS and wp.abs(pull) > touch.static_friction[i] * (a + b):
        slide(i, (touch.kinetic_friction[i] * (a + b) * wp.sign(pull)) * along, touch, held)
        return CHANGED
    if touch.state[i] == SLIDES and wp.dot(v_end[i] - touch.carried[i], held.push[i]) > ZERO:
        stick(i, touch, held)
        return CHANGED
    return 0


@wp.kernel
def review_contacts(
    first: int,
    x_end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
    force: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    touch: Touch,
    held: ConstraintArrays,
    changed: wp.array[int],
):
    """Change the states that the last solve contradicts."""
    i = first + wp.tid()
    changed[i] = 0
    state = touch.state[i]
    # after too many changes a vertex can still be caught, but no longer be released
    if state == AWAY or (touch.changes[i] >= MOST_CHANGES and state != OPEN):
        return
    # another source of constraints holds this vertex
    if held.owner[i] != SOLID and held.owner[i] != NOBODY:
        return
    n = touch.normal[i]
    change = int(0)
    if wp.length(touch.second[i]) > ZERO and (state == STICKS or state == SLIDES):
        change = review_crease(i, v_end, force, touch, held)
    elif state == OPEN:
        above = wp.dot(n, x_end[i] - touch.end[i])
        if above < -THICKNESS_TOLERANCE * thickness[i]:
            start_contact(i, touch, held)
            change = CHANGED
            if above < -HALF * thickness[i]:
                change = URGENT
    elif state == YIELDS:
        # pushed out faster than a constraint would move it: no need to yield
        if (
            wp.dot(n, x_end[i] - touch.end[i])
            > wp.max(wp.dot(n, touch.shift[i]), ZERO) + THICKNESS_TOLERANCE * thickness[i]
        ):
            start_contact(i, touch, held)
            change = CHANGED
    else:
        pressed = wp.dot(n, force[i])
        if pressed < ZERO:
            touch.state[i] = OPEN
            release(i, held)
            change = CHANGED
        elif pressed > touch.limit[i]:
            yield_to(i, touch, held)
            change = CHANGED
        elif state == STICKS:
            pull = force[i] - pressed * n
            size = wp.length(pull)
            if size > touch.static_friction[i] * pressed:
                slide(i, (touch.kinetic_friction[i] * pressed / size) * pull, touch, held)
                change = CHANGED
        elif touch.kinetic_friction[i] > ZERO:
            u = v_end[i] - touch.carried[i]
            u = u - wp.dot(n, u) * n
            speed = wp.length(u)
            if speed == ZERO or wp.dot(u, held.push[i]) > ZERO:
                stick(i, touch, held)
                change = CHANGED
            elif touch.changes[i] == 0:
                push = (-touch.kinetic_friction[i] * pressed / speed) * u
                if wp.length(push - held.push[i]) > FRICTION_TOLERANCE * wp.length(push):
                    slide(i, push, touch, held)
                    change = CHANGED
    if change != 0:
        changed[i] = change
        touch.changes[i] = touch.changes[i] + 1


@wp.kernel
def count_changes(first: int, changed: wp.array[int], touch: Touch, counts: wp.array[wp.vec3d]):
    """For a chunk of vertices: how many changed, how many of these urgently, how many a surface holds."""
    number = first + wp.tid()
    chunk = number // lanes()
    total = wp.vec3d()
    end = wp.min((chunk + 1) * CHUNK, changed.shape[0])
    for i in range(chunk * CHUNK + number % lanes(), end, lanes()):
        if changed[i] != 0:
            total[0] = total[0] + ONE
        if changed[i] == URGENT:
            total[1] = total[1] + ONE
        if touch.state[i] == STICKS or touch.state[i] == SLIDES:
            total[2] = total[2] + ONE
    total = lane_sum_vector(total)
    if number % lanes() == 0:
        counts[chunk] = total


@wp.kernel
def limit_forces(first: int, limit: wp.array[wp.float64], around: wp.array[wp.int8], limits: wp.array[wp.float64]):
    """The largest force of a surface on each vertex; without limit around pinched vertices."""
    i = first + wp.tid()
    limits[i] = limit[i]
    if around[i] != wp.int8(0):
        limits[i] = UNBOUNDED


@wp.kernel
def find_farthest(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    start: int,
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    farthest: wp.array[wp.float64],
):
    """The longest distance from x to the goal of the vertices from `start` on; runs as one block.

    Not in `solid_surfaces`: kernels that query trees need smaller blocks.
    """
    t = first + wp.tid()
    square = wp.float64(0.0)
    for i in range(start + t, x.shape[0], threads):
        square = wp.max(square, wp.length_sq(goal[i] - x[i]))
    square = block_max(square)
    if t == 0:
        farthest[0] = wp.sqrt(square)


class SolidContact:
    """The source of constraints that keeps cloth vertices out of colliders (see `weft.world.constraints`)."""

    def __init__(self, world: World, *, depth: float = 0.03, surfaces: SolidSurfaces | None = None) -> None:
        """`depth`: metres; how far inside a collider a vertex is still moved back to its surface."""
        self.world = world
        self.device = world.device
        self.depth = depth
        self.surfaces = SolidSurfaces(world) if surfaces is None else surfaces
        self.count = world.cloth_vertex_count
        self._thickest = float(world.thickness.numpy().max(initial=0.0))
        data: Any = ContactData()
        data.faces, data.colliders, data.first_collider = (
            self.surfaces.solids.faces,
            self.surfaces.count,
            len(world.cloths),
        )
        data.thickness, data.vertex_body = world.thickness, world.surface.vertex_body
        data.static_friction, data.kinetic_friction = world.friction_static, world.friction_kinetic
        data.gravity = wp.vec3d(*world.scene.forces.gravity)
        self._data = data
        touch = self._touch = Touch()
        touch.state, touch.changes = self._zeros(int), self._zeros(int)
        touch.static_friction, touch.kinetic_friction = self._zeros(wp.float64), self._zeros(wp.float64)
        touch.push, touch.normal, touch.second, touch.end = (self._zeros(wp.vec3d) for _ in range(4))
        touch.carried, touch.shift = (self._zeros(wp.vec3d) for _ in range(2))
        touch.limit = self._zeros(wp.float64)
        self._changed = self._zeros(int)
        self._farthest = wp.zeros(1, dtype=wp.float64, device=self.device)
        self._cooperative = CooperativeLauncher(self.device)
        cloths = world.cloths
        self._edges = np.concatenate([np.zeros((0, 2), int), *(cloth.mesh.edges + cloth.first for cloth in cloths)])
        self._lengths = np.concatenate([np.zeros(0), *(cloth.mesh.rest_lengths for cloth in cloths)])
        self._limit = wp.array(YIELD_STRETCH * self._stretching_forces(), dtype=wp.float64, device=self.device)
        self._rings = Rings(self._edges, self.count, self.device)
        self._around = self._rings.no_marks()
        self._counts = wp.zeros(-(-self.count // int(CHUNK)), dtype=wp.vec3d, device=self.device)
        self.pinch(np.zeros(0, np.int32))

    @property
    def closed(self) -> int:
        """How many vertices a surface held in the last step."""
        return int(self._count_changes()[2])

    @property
    def sliding(self) -> int:
        """How many vertices slid along a surface in the last step."""
        return int(np.count_nonzero(self._touch.state.numpy() == int(SLIDES)))

    def saved(self) -> dict[str, np.ndarray]:
        """What the next step starts from: the state of each vertex, and its friction."""
        return {"contact_state": self._touch.state.numpy().copy(), "contact_push": self._touch.push.numpy().copy()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Continue from what `saved` returned."""
        self._touch.state.assign(saved["contact_state"])
        self._touch.push.assign(saved["contact_push"])

    def pinch(self, vertices: np.ndarray) -> None:
        """From now on, vertices around these do not yield: there the pinch stretches the cloth, not the surface."""
        self._rings.mark(vertices, PINCH_RINGS, self._around)
        launch(limit_forces, self.count, [self._limit, self._around, self._touch.limit], device=self.device)

    def begin(self, x: wp.array, v: wp.array, goal: wp.array, h: float, constraints: Constraints) -> None:
        """Find the surfaces near each vertex, and constrain the vertices that touch."""
        found = self.surfaces
        reach = max(self.depth, 2.0 * self._thickest) + self._largest_motion(x, goal)
        # gravity and neighbours accelerate a vertex beyond its velocity: search twice as far
        found.find(x, v, reach=reach, time=2.0 * h)
        inputs = [found.nearest, self._data, x, v, goal, h, self._touch, constraints.held]
        launch(choose_surface, self.count, inputs, device=self.device)

    def review(self, x_end: wp.array, v_end: wp.array, force: wp.array, constraints: Constraints) -> int:
        """Change the states that the solve contradicts; says whether to solve again."""
        inputs = [x_end, v_end, force, self.world.thickness, self._touch, constraints.held, self._changed]
        launch(review_contacts, self.count, inputs, device=self.device)
        changed, urgent, closed = self._count_changes()
        if urgent:
            return WRONG
        return UNSURE if changed > FEW_CHANGES * closed else SETTLED

    def _count_changes(self) -> np.ndarray:
        """How many vertices changed, how many of these urgently, and how many a surface holds."""
        items = len(self._counts) * lanes_on(self.device)
        launch(count_changes, items, [self._changed, self._touch, self._counts], device=self.device, grain=8)
        counts: np.ndarray = self._counts.numpy().sum(axis=0)
        return counts

    def _largest_motion(self, x: wp.array, goal: wp.array) -> float:
        """Metres; the longest distance of a collider vertex from x to its goal."""
        self._cooperative.launch(find_farthest, 1, [self.count, x, goal, self._farthest])
        return float(read((self._farthest, 0, 1))[0][0])

    def _stretching_forces(self) -> np.ndarray:
        """(n,) newtons; the force that would stretch the cloth around each vertex to twice its length, if it were linear."""
        ends = self._edges.ravel()
        cloths = self.world.cloths
        stretch = np.concatenate(
            [np.zeros(0), *(np.full(len(cloth.mesh.edges), cloth.material.mean("stretch")) for cloth in cloths)]
        )
        total = np.bincount(ends, np.repeat(stretch * self._lengths, 2), self.count)
        force: np.ndarray = total / np.maximum(np.bincount(ends, minlength=self.count), 1)
        return force

    def _zeros(self, dtype: Any) -> wp.array:
        return wp.zeros(self.count, dtype=dtype, device=self.device)
