"""Strain and strain rate limits on velocities (Bridson et al. 2002, section 4; Provot 1995).

Over a step a structural or shear spring may neither leave 10 % of its rest length nor change its present length by more
than 10 %. What would break a limit gets impulses along the spring, which conserve momentum, spring by spring in the order
of colours that never change. Each spring remembers its impulse and takes back what is no longer needed. Positions are
never touched.
"""

import numpy as np
import warp as wp

from weft.dynamics.springs import BEND, SpringNetwork
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import BLOCK, CooperativeLauncher, arrive_between, clusterable, grid_barrier, wait_between
from weft.runtime.partition import partition_begin, partition_end, partition_step
from weft.runtime.vector_loads import load_vec2d, load_vec2i

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.func
def speeds_within(length: wp.float64, rest: wp.float64, limit: wp.float64, dt: wp.float64) -> wp.vec2d:
    """How fast a spring may shrink and grow.

    A spring outside its limits may not go farther out; elasticity brings it back, since impulses that did so within a
    step would have to be as fast as the step is short.
    """
    longest = wp.max(wp.min((ONE + limit) * rest, (ONE + limit) * length), length)
    shortest = wp.min(wp.max((ONE - limit) * rest, (ONE - limit) * length), length)
    return wp.vec2d((shortest - length) / dt, (longest - length) / dt)


@wp.func
def limiting_impulse(u: wp.float64, before: wp.float64, within: wp.vec2d, total: wp.float64) -> wp.float64:
    """The impulse that brings a spring within its limits, in place of what it has given before."""
    # the speed without what this spring has given
    own = u - before * total
    return (wp.clamp(own, within[0], within[1]) - own) / total


@wp.struct
class Springs:
    """All springs in the order of their colours, with their limits and the impulses that they have given."""

    pairs: wp.array[wp.vec2i]
    along: wp.array[wp.vec3d]
    speeds: wp.array[wp.vec2d]
    given: wp.array[wp.float64]
    given_too: wp.array[wp.float64]
    inverse_mass: wp.array[wp.float64]
    found: wp.array[int]


@wp.struct
class Spring:
    """A spring of which all is known but how fast its ends are now."""

    p: wp.vec2i
    n: wp.vec3d
    within: wp.vec2d
    given: wp.float64
    given_too: wp.float64


@wp.func
def load_spring(i: int, springs: Springs) -> Spring:
    """Spring i."""
    spring = Spring()
    spring.p = load_vec2i(springs.pairs, i)
    spring.n = springs.along[i]
    spring.within = load_vec2d(springs.speeds, i)
    spring.given = springs.given[i]
    spring.given_too = springs.given_too[i]
    return spring


@wp.func
def limit_velocity(
    i: int,
    spring: Spring,
    before: wp.float64,
    springs: Springs,
    given: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
):
    """Bring a spring within its limits, as far as it has not been already."""
    p = spring.p
    n = spring.n
    a = v[p[0]]
    b = v[p[1]]
    u = wp.dot(n, a - b)
    if before != ZERO or u < spring.within[0] or u > spring.within[1]:
        ma = springs.inverse_mass[p[0]]
        mb = springs.inverse_mass[p[1]]
        if ma + mb != ZERO and wp.length_sq(n) != ZERO:
            now = limiting_impulse(u, before, spring.within, ma + mb)
            given[i] = now
            # whoever writes writes the same
            springs.found[0] = 1
            v[p[0]] = a + ((now - before) * ma) * n
            v[p[1]] = b - ((now - before) * mb) * n


@wp.func
def limit_spring(i: int, spring: Spring, springs: Springs, v: wp.array[wp.vec3d], v_too: wp.array[wp.vec3d]):
    """The same for one or two velocities."""
    limit_velocity(i, spring, spring.given, springs, springs.given, v)
    if v_too.shape[0] > 0:
        limit_velocity(i, spring, spring.given_too, springs, springs.given_too, v_too)


@wp.func
def limit_of(
    i: int,
    x: wp.array[wp.vec3d],
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    limit: wp.float64,
    dt: wp.float64,
    along: wp.array[wp.vec3d],
    speeds: wp.array[wp.vec2d],
):
    """Note the direction of a spring and how fast it may shrink and grow."""
    p = pairs[i]
    n = x[p[0]] - x[p[1]]
    length = wp.length(n)
    if length > ZERO:
        n = n / length
    along[i] = n
    speeds[i] = speeds_within(length, rest[i], limit, dt)


@wp.func
def sweep_springs(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    colours: int,
    offsets: wp.array[int],
    springs: Springs,
    v: wp.array[wp.vec3d],
    v_too: wp.array[wp.vec3d],
):
    """One sweep after a meeting, with the first spring of each thread in the next colour loaded while threads wait.

    Who has none in a colour loads the last one, as others do. A spring is the same thread's in every sweep, so that nobody
    else changes what it has given.
    """
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
            limit_spring(i, spring, springs, v, v_too)
        for k in range(i + step, last, step):
            limit_spring(k, load_spring(k, springs), springs, v, v_too)
        ticket = arrive_between(arrivals, True, size, next_size)
        begin = end
        end = following
        i = begin + partition_begin(t, threads, next_size)
        spring = load_spring(wp.min(i, end - 1), springs)
        wait_between(arrivals, True, size, next_size, ticket)


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def limit_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sweeps: int,
    colours: int,
    offsets: wp.array[int],
    x: wp.array[wp.vec3d],
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    limit: wp.float64,
    dt: wp.float64,
    along: wp.array[wp.vec3d],
    speeds: wp.array[wp.vec2d],
    given: wp.array[wp.float64],
    given_too: wp.array[wp.float64],
    found: wp.array[int],
    v: wp.array[wp.vec3d],
    v_too: wp.array[wp.vec3d],
):
    """Sweeps over all springs, for one or two velocities; one is enough where none would break a limit."""
    t = first + wp.tid()
    springs = Springs()
    springs.pairs = pairs
    springs.along = along
    springs.speeds = speeds
    springs.given = given
    springs.given_too = given_too
    springs.inverse_mass = inverse_mass
    springs.found = found
    count = offsets[colours]
    for i in range(
        partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
    ):
        limit_of(i, x, pairs, rest, limit, dt, along, speeds)
        given[i] = ZERO
        given_too[i] = ZERO
    grid_barrier(arrivals)
    for _sweep in range(sweeps):
        sweep_springs(t, threads, arrivals, colours, offsets, springs, v, v_too)
        if found[0] == 0:
            break


class StrainLimits:
    """The structural and shear springs of a network, which are kept from stretching and shrinking too far or too fast."""

    def __init__(self, network: SpringNetwork, inverse_mass: wp.array) -> None:
        device = inverse_mass.device
        kept = np.flatnonzero(network.kind != BEND)
        order, offsets = colour_items(network.pairs[kept], len(inverse_mass))
        kept = kept[order]
        self.count, self.colours = len(kept), len(offsets) - 1
        self._largest = int(np.diff(offsets).max(initial=0))
        self._offsets = wp.array(offsets, dtype=int, device=device)
        self._pairs = wp.array(network.pairs[kept], dtype=wp.vec2i, device=device)
        self._rest = wp.array(network.rest[kept], dtype=wp.float64, device=device)
        self._inverse_mass = inverse_mass
        self._along = wp.zeros(self.count, dtype=wp.vec3d, device=device)
        self._speeds = wp.zeros(self.count, dtype=wp.vec2d, device=device)
        self.given, self._given_too = (wp.zeros(self.count, dtype=wp.float64, device=device) for _ in range(2))
        """the impulse of each spring in the last call, along it from its second end to its first"""
        self._none = wp.empty(0, dtype=wp.vec3d, device=device)
        self._found = wp.zeros(1, dtype=int, device=device)
        self._cooperative = CooperativeLauncher(device)

    def apply(
        self, x: wp.array, v: wp.array, limit: float, dt: float, sweeps: int, *, v_too: wp.array | None = None
    ) -> None:
        """Change velocities so that over a step of dt no spring breaks a limit, as far as so many sweeps go.

        `v_too` are other velocities, which are limited on their own in the same sweeps.
        """
        self._found.zero_()
        inputs = [sweeps, self.colours, self._offsets, x, self._pairs, self._rest, self._inverse_mass, limit, dt]
        inputs += [self._along, self._speeds, self.given, self._given_too, self._found, v]
        inputs.append(self._none if v_too is None else v_too)
        self._cooperative.launch(limit_together, self._largest, inputs, work=self.count)
