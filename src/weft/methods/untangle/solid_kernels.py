"""Kernels of the contact with solids: which surface a vertex meets, what it does there, and what a solve says to that."""

import warp as wp

from weft.runtime.reduction import block_max, lane_sum_vector, lanes
from weft.world.constraints import NOBODY, SOLID, ConstraintArrays, hold, release

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
# a change, and one that no step must end without
CHANGED = wp.constant(1)
URGENT = wp.constant(2)
# more than any force, N
UNBOUNDED = wp.constant(wp.float64(1.0e12))
# vertices that are counted together
CHUNK = wp.constant(128)
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
def stick(i: int, touch: Touch, held: ConstraintArrays):
    """Held in all directions: the vertex goes with the surface."""
    touch.state[i] = STICKS
    hold(i, SOLID, touch.carried[i], touch.shift[i], held)


@wp.func
def slide(i: int, push: wp.vec3d, touch: Touch, held: ConstraintArrays):
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
def give_way(i: int, touch: Touch, held: ConstraintArrays):
    """Free, but for a push that the cloth bears."""
    touch.state[i] = YIELDS
    release(i, held)
    held.push[i] = touch.limit[i] * touch.normal[i]


@wp.func
def meet(i: int, touch: Touch, held: ConstraintArrays):
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
    held: ConstraintArrays,
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
    held: ConstraintArrays,
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
            release(i, held)
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


@wp.kernel
def tally_contacts(first: int, changed: wp.array[int], touch: Touch, tallies: wp.array[wp.vec3d]):
    """Of a chunk of vertices: how many changed, how many of these must not be left so, how many are held."""
    number = first + wp.tid()
    chunk = number // lanes()
    tally = wp.vec3d()
    end = wp.min((chunk + 1) * CHUNK, changed.shape[0])
    for i in range(chunk * CHUNK + number % lanes(), end, lanes()):
        if changed[i] != 0:
            tally[0] = tally[0] + ONE
        if changed[i] == URGENT:
            tally[1] = tally[1] + ONE
        if touch.state[i] == STICKS or touch.state[i] == SLIDES:
            tally[2] = tally[2] + ONE
    tally = lane_sum_vector(tally)
    if number % lanes() == 0:
        tallies[chunk] = tally


@wp.kernel
def limit_forces(first: int, limit: wp.array[wp.float64], around: wp.array[wp.int8], limits: wp.array[wp.float64]):
    """What a vertex bears; around what is pinched anything."""
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
    """The longest way of the vertices from `start` on. One block: larger than the kernels have that walk trees."""
    t = first + wp.tid()
    square = wp.float64(0.0)
    for i in range(start + t, x.shape[0], threads):
        square = wp.max(square, wp.length_sq(goal[i] - x[i]))
    square = block_max(square)
    if t == 0:
        farthest[0] = wp.sqrt(square)
