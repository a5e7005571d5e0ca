"""The kernel of the limits of strain: springs that get impulses, in sweeps over their colours (see `strain_limits`).

A spring that turns in a step gets shorter along the direction that it had, which is where impulses push, but keeps its length.
So the limit of shortening is one of its length, with the motion across: else the corner of a flag, which turns by a radian in a
step of 1/360 s when it lashes, would be pushed until its edges are half as long again.
"""

import warp as wp

from weft.runtime.cooperative import (
    BLOCK,
    arrive_between,
    clusterable,
    grid_barrier,
    partition_begin,
    partition_end,
    partition_step,
    wait_between,
)
from weft.runtime.native import load_vec2d, load_vec2i

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# s in which the strain beyond the limit would go back if nothing held it: where seams ask for lengths that do not fit,
# elasticity alone leaves edges of a dress stretched by 97 %, this 42 %
RETURN_TIME = wp.constant(wp.float64(0.01))
# of the impulse by which a spring would come back so fast. With 1, springs that cannot come back would get impulses that
# grow with every sweep: the twist of 41 x 41 vertices has 810 instead of 30 collisions a frame in frames 41 to 60. Springs at
# seams get all of it: with a half 75 instead of 28 edges of a dancing dress are more than 15 % too long
RETURN_FRACTION = wp.constant(wp.float64(0.5))
# m/s, faster than anything
NO_LIMIT = wp.constant(wp.float64(1e30))


@wp.func
def speeds_within(
    length: wp.float64, rest: wp.float64, limit: wp.float64, dt: wp.float64, returning: wp.bool
) -> wp.vec2d:
    """The least and the largest speed at which a spring may change its length.

    A spring that is stretched beyond its limit gets no longer or, `returning`, comes back within some milliseconds: impulses
    that brought it back within one step would give velocities that grow as steps get shorter. One that is too short may not
    get shorter; elasticity brings it back.
    """
    longest = wp.min((ONE + limit) * rest, (ONE + limit) * length)
    excess = length - (ONE + limit) * rest
    if excess > ZERO:
        longest = length
        if returning:
            longest -= wp.min(dt / RETURN_TIME, ONE) * excess
    shortest = wp.min(wp.max((ONE - limit) * rest, (ONE - limit) * length), length)
    return wp.vec2d((shortest - length) / dt, (longest - length) / dt)


@wp.func
def least_speed_turning(least: wp.float64, pace: wp.float64, across: wp.float64) -> wp.float64:
    """The least speed along a spring of length pace * dt whose ends move across it with the speed `across`.

    `least` is that of a spring that does not turn. The length after dt is dt times the length of (pace + speed, across).
    """
    shortest = pace + least
    if across >= shortest:
        return -NO_LIMIT
    return wp.sqrt(shortest * shortest - across * across) - pace


@wp.func
def limiting_impulse(
    u: wp.float64, before: wp.float64, within: wp.vec2d, total: wp.float64, fraction: wp.float64
) -> wp.float64:
    """The impulse that brings a spring within its limits, instead of the impulse `before`; `total` is its inverse mass.

    A spring that has to come back gets this fraction of it, in all sweeps together: springs that cannot, because pins or
    contacts hold what is between them, would ask for more in every sweep, and press the cloth into itself.
    """
    # the speed without the impulse so far
    own = u - before * total
    impulse = (wp.clamp(own, within[0], within[1]) - own) / total
    if within[1] < ZERO and own > within[1]:
        impulse *= fraction
    return impulse


@wp.struct
class LimitedSprings:
    """All springs sorted by colour, with their limits and their impulses so far, for one or two sets of velocities."""

    pairs: wp.array[wp.vec2i]
    along: wp.array[wp.vec3d]
    """unit vectors from the second end to the first"""
    speeds: wp.array[wp.vec2d]
    """least and largest speed at which a spring may change its length"""
    paces: wp.array[wp.float64]
    """length over the length of the step, m/s"""
    rest: wp.array[wp.float64]
    """rest lengths"""
    sewn: wp.array[int]
    """1 if an end is at a seam, which may ask for lengths that do not fit"""
    given: wp.array[wp.float64]
    given_too: wp.array[wp.float64]
    inverse_mass: wp.array[wp.float64]
    welded: wp.array[int]
    """of each vertex the next one that it is welded to, in a ring; itself where it is alone"""
    found: wp.array[int]
    """1 if a spring got an impulse"""


@wp.struct
class LimitedSpring:
    """A spring: all but the velocities of its ends."""

    p: wp.vec2i
    n: wp.vec3d
    within: wp.vec2d
    given: wp.float64
    given_too: wp.float64


@wp.func
def load_spring(i: int, springs: LimitedSprings) -> LimitedSpring:
    """Load spring i."""
    spring = LimitedSpring()
    spring.p = load_vec2i(springs.pairs, i)
    spring.n = springs.along[i]
    spring.within = load_vec2d(springs.speeds, i)
    spring.given = springs.given[i]
    spring.given_too = springs.given_too[i]
    return spring


@wp.func
def inverse_mass_with_welded(i: int, springs: LimitedSprings) -> wp.float64:
    """The inverse of the mass of a vertex and of all that are welded to it; 0 if one of them is held."""
    w = springs.inverse_mass[i]
    k = springs.welded[i]
    if k == i or w == ZERO:
        return w
    mass = ONE / w
    while k != i:
        w = springs.inverse_mass[k]
        if w == ZERO:
            return ZERO
        mass += ONE / w
        k = springs.welded[k]
    return ONE / mass


@wp.func
def change_velocity(i: int, change: wp.vec3d, springs: LimitedSprings, v: wp.array[wp.vec3d]):
    """Add to the velocity of a vertex and of all that are welded to it."""
    v[i] = v[i] + change
    k = springs.welded[i]
    while k != i:
        v[k] = v[k] + change
        k = springs.welded[k]


@wp.func
def limit_velocity(
    i: int,
    pushing: bool,
    spring: LimitedSpring,
    before: wp.float64,
    springs: LimitedSprings,
    given: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
):
    """Bring the velocities of a spring's ends within its limits; a spring that gets too short may push, or push no more."""
    p = spring.p
    n = spring.n
    a = v[p[0]]
    b = v[p[1]]
    u = wp.dot(n, a - b)
    if before != ZERO or u < spring.within[0] or u > spring.within[1]:
        ma = inverse_mass_with_welded(p[0], springs)
        mb = inverse_mass_with_welded(p[1], springs)
        if ma + mb != ZERO and wp.length_sq(n) != ZERO:
            across = wp.length(a - b - u * n)
            least = least_speed_turning(spring.within[0], springs.paces[i], across)
            fraction = wp.where(springs.sewn[i] != 0, ONE, RETURN_FRACTION)
            now = limiting_impulse(u, before, wp.vec2d(least, spring.within[1]), ma + mb, fraction)
            if not pushing and now > ZERO:
                now = before
            # all threads that write here write the same
            springs.found[0] = 1
            given[i] = now
            change_velocity(p[0], ((now - before) * ma) * n, springs, v)
            change_velocity(p[1], ((before - now) * mb) * n, springs, v)


@wp.func
def limit_spring(
    i: int,
    pushing: bool,
    spring: LimitedSpring,
    springs: LimitedSprings,
    v: wp.array[wp.vec3d],
    v_too: wp.array[wp.vec3d],
):
    """Bring one or two sets of velocities within the limits of a spring."""
    limit_velocity(i, pushing, spring, spring.given, springs, springs.given, v)
    if v_too.shape[0] > 0:
        limit_velocity(i, pushing, spring, spring.given_too, springs, springs.given_too, v_too)


@wp.func
def set_limits(
    i: int,
    springs: LimitedSprings,
    x: wp.array[wp.vec3d],
    limit: wp.float64,
    dt: wp.float64,
    returning: wp.bool,
):
    """Store the direction of a spring and the limits of its speed; no impulse is given yet."""
    p = springs.pairs[i]
    n = x[p[0]] - x[p[1]]
    length = wp.length(n)
    if length > ZERO:
        n = n / length
    springs.along[i] = n
    springs.speeds[i] = speeds_within(length, springs.rest[i], limit, dt, returning or springs.sewn[i] != 0)
    springs.paces[i] = length / dt
    springs.given[i] = ZERO
    springs.given_too[i] = ZERO


@wp.func
def sweep_springs(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    pushing: bool,
    offsets: wp.array[int],
    springs: LimitedSprings,
    v: wp.array[wp.vec3d],
    v_too: wp.array[wp.vec3d],
):
    """One sweep over all springs. Each thread loads its first spring of the next colour before the barrier between the two.

    A thread without a spring in a colour loads the last one. A spring belongs to the same thread in every sweep, so that no
    other thread changes its impulse.
    """
    colours = offsets.shape[0] - 1
    begin = offsets[0]
    end = offsets[1]
    i = begin + partition_begin(t, threads, end - begin)
    spring = load_spring(wp.min(i, end - 1), springs)
    for colour in range(colours):
        following = offsets[wp.min(colour + 2, colours)]
        size = end - begin
        next_size = following - end
        last = begin + partition_end(t, threads, size)
        step = partition_step(threads, size)
        if i < last:
            limit_spring(i, pushing, spring, springs, v, v_too)
        for k in range(i + step, last, step):
            limit_spring(k, pushing, load_spring(k, springs), springs, v, v_too)
        ticket = arrive_between(arrivals, True, size, next_size)
        begin = end
        end = following
        i = begin + partition_begin(t, threads, next_size)
        spring = load_spring(wp.min(i, end - 1), springs)
        wait_between(arrivals, True, size, next_size, ticket)


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def limit_springs(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sweeps: int,
    offsets: wp.array[int],
    springs: LimitedSprings,
    x: wp.array[wp.vec3d],
    limit: wp.float64,
    dt: wp.float64,
    returning: wp.bool,
    v: wp.array[wp.vec3d],
    v_too: wp.array[wp.vec3d],
):
    """Sweeps over all springs, for one or two sets of velocities; one sweep is enough if no limit is broken. Cooperative."""
    t = first + wp.tid()
    count = springs.pairs.shape[0]
    for i in range(
        partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
    ):
        set_limits(i, springs, x, limit, dt, returning)
    grid_barrier(arrivals)
    for sweep in range(sweeps):
        # where not all limits can be kept, those of stretch are
        sweep_springs(t, threads, arrivals, 2 * sweep < sweeps, offsets, springs, v, v_too)
        if springs.found[0] == 0:
            break
