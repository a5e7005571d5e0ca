"""Cloth against colliders in an implicit step: hard constraints along the normal, and Coulomb friction along the surface.

A vertex at the thickness, or nearer, ends the step at the thickness from where the surface will be, with the normal velocity
of the surface: that direction of the vertex is removed from the system (Baraff et al. 2003, section 3; the position comes
from the correction y of Baraff and Witkin 1998, section 6, without the velocity that it would take).

The state of each vertex, such as sticking or sliding, is found by solving, looking at the constraint forces, and solving again
where the state was wrong (see `contact_states`). A step starts with the states of the last step, most of which are right.
Friction is part of the solve, not applied after it: the vertices of stiff cloth pull each other along, and one that is
stopped alone, however little it weighs, tears at its neighbours.
"""

# mypy: disable-error-code="arg-type"

from typing import Any

import numpy as np
import warp as wp

from weft.methods.untangle.contact_states import (
    AWAY,
    CHUNK,
    HALF,
    ONE,
    OPEN,
    SLIDES,
    STICKS,
    THICKNESS_TOLERANCE,
    UNBOUNDED,
    YIELDS,
    ZERO,
    Touch,
    along_surface,
    count_changes,
    review_contacts,
    slide,
    start_contact,
    stick,
    yield_to,
)
from weft.methods.untangle.solid_surfaces import NearestPoints, SolidSurfaces
from weft.runtime import launch
from weft.runtime.buffers import read
from weft.runtime.compaction import block_max, lanes_on
from weft.runtime.cooperative import CooperativeLauncher
from weft.world import World
from weft.world.constraints import NOBODY, SETTLED, UNSURE, WRONG, ConstraintArrays, Constraints
from weft.world.surface import Rings

wp.set_module_options({"enable_backward": False})

# m/s; the fastest motion out of a solid: a hand's width in a few frames, and no jerk where steps are short
EXIT_SPEED = wp.constant(wp.float64(1.0))
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
        data.faces, data.colliders = self.surfaces.solids.faces, self.surfaces.count
        data.first_collider = len(world.cloths)
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
