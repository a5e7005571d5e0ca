"""The states of cloth vertices at colliders in an implicit step, and how each solve changes them.

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
"""

# mypy: disable-error-code="arg-type"

import warp as wp

from weft.runtime.compaction import lane_sum_vector, lanes
from weft.world.constraints import NOBODY, SOLID, ConstraintArrays, hold, release

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
# fraction of the thickness by which a vertex may be off before it counts as not touching, or as too near
THICKNESS_TOLERANCE = wp.constant(wp.float64(1.0e-3))
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
