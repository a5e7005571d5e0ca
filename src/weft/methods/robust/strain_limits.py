"""Limits of strain and strain rate as impulses on velocities (Bridson et al. 2002, section 4; Provot 1995).

Over a step a structural or shear spring may neither leave 10 % of its rest length nor change its present length by more
than 10 %. A spring that would gets impulses along it, which conserve momentum, in Gauss-Seidel sweeps over springs in
colours that never change. Each spring remembers its impulse, and takes back in later sweeps what is no longer needed.
Positions are not changed.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.springs import BEND, SpringNetwork
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import (
    BLOCK,
    CooperativeLauncher,
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


@wp.func
def speeds_within(length: wp.float64, rest: wp.float64, limit: wp.float64, dt: wp.float64) -> wp.vec2d:
    """The least and the largest speed at which a spring may change its length.

    A spring beyond its limit may not go farther; elasticity brings it back. Impulses that did so within one step would give
    velocities that grow as steps get shorter.
    """
    longest = wp.max(wp.min((ONE + limit) * rest, (ONE + limit) * length), length)
    shortest = wp.min(wp.max((ONE - limit) * rest, (ONE - limit) * length), length)
    return wp.vec2d((shortest - length) / dt, (longest - length) / dt)


@wp.func
def limiting_impulse(u: wp.float64, before: wp.float64, within: wp.vec2d, total: wp.float64) -> wp.float64:
    """The impulse that brings a spring within its limits, instead of the impulse `before`; `total` is its inverse mass."""
    # the speed without the impulse so far
    own = u - before * total
    return (wp.clamp(own, within[0], within[1]) - own) / total


@wp.struct
class LimitedSprings:
    """All springs sorted by colour, with their limits and their impulses so far, for one or two sets of velocities."""

    pairs: wp.array[wp.vec2i]
    along: wp.array[wp.vec3d]
    """unit vectors from the second end to the first"""
    speeds: wp.array[wp.vec2d]
    """least and largest speed at which a spring may change its length"""
    given: wp.array[wp.float64]
    given_too: wp.array[wp.float64]
    inverse_mass: wp.array[wp.float64]
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
def limit_velocity(
    i: int,
    spring: LimitedSpring,
    before: wp.float64,
    springs: LimitedSprings,
    given: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
):
    """Bring the velocities of a spring's ends within its limits."""
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
            # all threads that write here write the same
            springs.found[0] = 1
            v[p[0]] = a + ((now - before) * ma) * n
            v[p[1]] = b - ((now - before) * mb) * n


@wp.func
def limit_spring(
    i: int, spring: LimitedSpring, springs: LimitedSprings, v: wp.array[wp.vec3d], v_too: wp.array[wp.vec3d]
):
    """Bring one or two sets of velocities within the limits of a spring."""
    limit_velocity(i, spring, spring.given, springs, springs.given, v)
    if v_too.shape[0] > 0:
        limit_velocity(i, spring, spring.given_too, springs, springs.given_too, v_too)


@wp.func
def set_limits(
    i: int,
    springs: LimitedSprings,
    rest: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    limit: wp.float64,
    dt: wp.float64,
):
    """Store the direction of a spring and the limits of its speed; no impulse is given yet."""
    p = springs.pairs[i]
    n = x[p[0]] - x[p[1]]
    length = wp.length(n)
    if length > ZERO:
        n = n / length
    springs.along[i] = n
    springs.speeds[i] = speeds_within(length, rest[i], limit, dt)
    springs.given[i] = ZERO
    springs.given_too[i] = ZERO


@wp.func
def sweep_springs(
    t: int,
    threads: int,
    arrivals: wp.array[int],
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
def limit_springs(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sweeps: int,
    offsets: wp.array[int],
    rest: wp.array[wp.float64],
    springs: LimitedSprings,
    x: wp.array[wp.vec3d],
    limit: wp.float64,
    dt: wp.float64,
    v: wp.array[wp.vec3d],
    v_too: wp.array[wp.vec3d],
):
    """Sweeps over all springs, for one or two sets of velocities; one sweep is enough if no limit is broken. Cooperative."""
    t = first + wp.tid()
    count = springs.pairs.shape[0]
    for i in range(
        partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
    ):
        set_limits(i, springs, rest, x, limit, dt)
    grid_barrier(arrivals)
    for _sweep in range(sweeps):
        sweep_springs(t, threads, arrivals, offsets, springs, v, v_too)
        if springs.found[0] == 0:
            break


class StrainLimits:
    """Keeps the structural and shear springs of a network from stretching or shrinking too far or too fast."""

    def __init__(self, network: SpringNetwork, inverse_mass: wp.array) -> None:
        device = inverse_mass.device
        kept = np.flatnonzero(network.kind != BEND)
        order, offsets = colour_items(network.pairs[kept], len(inverse_mass))
        kept = kept[order]
        self.count = len(kept)
        self._largest = int(np.diff(offsets).max(initial=0))
        self._offsets = wp.array(offsets, dtype=int, device=device)
        self.rest = wp.array(network.rest[kept], dtype=wp.float64, device=device)
        springs: Any = LimitedSprings()
        springs.pairs = wp.array(network.pairs[kept], dtype=wp.vec2i, device=device)
        springs.inverse_mass = inverse_mass
        springs.along = wp.zeros(self.count, dtype=wp.vec3d, device=device)
        springs.speeds = wp.zeros(self.count, dtype=wp.vec2d, device=device)
        springs.given, springs.given_too = (wp.zeros(self.count, dtype=wp.float64, device=device) for _ in range(2))
        springs.found = wp.zeros(1, dtype=int, device=device)
        self.springs = springs
        self.given = springs.given
        """the impulse of each spring in the last call, from its second end to its first"""
        self._none = wp.empty(0, dtype=wp.vec3d, device=device)
        self._cooperative = CooperativeLauncher(device)

    def apply(
        self, x: wp.array, v: wp.array, limit: float, dt: float, sweeps: int, *, v_too: wp.array | None = None
    ) -> None:
        """Change velocities so that over a step of dt no spring breaks `limit`, as far as so many sweeps achieve that.

        `v_too` are other velocities, which are limited independently in the same sweeps.
        """
        self.springs.found.zero_()
        inputs = [sweeps, self._offsets, self.rest, self.springs, x, limit, dt, v]
        inputs.append(self._none if v_too is None else v_too)
        self._cooperative.launch(limit_springs, self._largest, inputs, work=self.count)
