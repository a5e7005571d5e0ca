"""Limits of strain and strain rate as impulses on velocities (Bridson et al. 2002, section 4; Provot 1995).

Over a step a structural or shear spring may neither leave 10 % of its rest length nor change its present length by more
than 10 %. A spring that would gets impulses along it, which conserve momentum, in Gauss-Seidel sweeps over springs in
colours that never change. Each spring remembers its impulse, and takes back in later sweeps what is no longer needed.
Positions are not changed.

An impulse on a vertex moves those that are welded to it as well, as one mass: what keeps them together, or draws them
together, are the dynamics alone. Impulses on one side of a seam only would open it: a waistband that was stretched to its limit
gaped by a centimetre.

A spring that turns in a step gets shorter along the direction that it had, which is where impulses push, but keeps its length.
So the limit of shortening is one of its length, with the motion across: else the corner of a flag, which turns by a radian in a
step of 1/360 s when it lashes, would be pushed until its edges are half as long again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.seam_hinges import vertex_groups
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
# s in which the strain beyond the limit would go back if nothing held it: where seams ask for lengths that do not fit,
# elasticity alone leaves edges of a dress stretched by 97 %, this 42 %
RETURN_TIME = wp.constant(wp.float64(0.01))
# of the impulse by which a spring would come back so fast. With 1, springs that cannot come back would get impulses that
# grow with every sweep. The twist of 41 x 41 vertices has 20 collisions a frame in frames 51 to 60, with 0.67 460, with 1 1360;
# later it has 500. Of a dress 70 edges are longer by 15 %, with 1 20 edges; the longest are about as long
RETURN_PART = wp.constant(wp.float64(0.5))
# m/s, faster than anything
NO_LIMIT = wp.constant(wp.float64(1e30))


@wp.func
def speeds_within(length: wp.float64, rest: wp.float64, limit: wp.float64, dt: wp.float64) -> wp.vec2d:
    """The least and the largest speed at which a spring may change its length.

    A spring that is stretched beyond its limit comes back within some milliseconds: impulses that brought it back within one
    step would give velocities that grow as steps get shorter. One that is too short may not get shorter; elasticity brings it
    back.
    """
    longest = wp.min((ONE + limit) * rest, (ONE + limit) * length)
    excess = length - (ONE + limit) * rest
    if excess > ZERO:
        longest = length - wp.min(dt / RETURN_TIME, ONE) * excess
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
def limiting_impulse(u: wp.float64, before: wp.float64, within: wp.vec2d, total: wp.float64) -> wp.float64:
    """The impulse that brings a spring within its limits, instead of the impulse `before`; `total` is its inverse mass.

    A spring that has to come back gets a part of it only, in all sweeps together: springs that cannot, because pins or contacts
    hold what is between them, would ask for more in every sweep, and press the cloth into itself.
    """
    # the speed without the impulse so far
    own = u - before * total
    impulse = (wp.clamp(own, within[0], within[1]) - own) / total
    if within[1] < ZERO and own > within[1]:
        impulse *= RETURN_PART
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
            now = limiting_impulse(u, before, wp.vec2d(least, spring.within[1]), ma + mb)
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
    for sweep in range(sweeps):
        # where not all limits can be kept, those of stretch are
        sweep_springs(t, threads, arrivals, 2 * sweep < sweeps, offsets, springs, v, v_too)
        if springs.found[0] == 0:
            break


class StrainLimits:
    """Keeps the structural and shear springs of a network from stretching or shrinking too far or too fast."""

    def __init__(
        self, pairs: np.ndarray, rest: np.ndarray, offsets: np.ndarray, inverse_mass: wp.array, welded: np.ndarray
    ) -> None:
        """Springs (k, 2) and their rest lengths, sorted by colours, which begin at `offsets`.

        welded: (n,) the rings of `LimitedSprings.welded`.
        """
        device = inverse_mass.device
        self.count, self.offsets = len(pairs), offsets
        self._largest = int(np.diff(offsets).max(initial=0))
        self._offsets = wp.array(offsets, dtype=int, device=device)
        self.rest = wp.array(rest, dtype=wp.float64, device=device)
        springs: Any = LimitedSprings()
        springs.pairs = wp.array(pairs, dtype=wp.vec2i, device=device)
        springs.inverse_mass = inverse_mass
        springs.welded = wp.array(welded, dtype=int, device=device)
        springs.along = wp.zeros(self.count, dtype=wp.vec3d, device=device)
        springs.speeds = wp.zeros(self.count, dtype=wp.vec2d, device=device)
        springs.paces, springs.given, springs.given_too = (
            wp.zeros(self.count, dtype=wp.float64, device=device) for _ in range(3)
        )
        springs.found = wp.zeros(1, dtype=int, device=device)
        self.springs = springs
        self.given = springs.given
        """the impulse of each spring in the last call, from its second end to its first"""
        self._none = wp.empty(0, dtype=wp.vec3d, device=device)
        self._cooperative = CooperativeLauncher(device)

    @classmethod
    def from_network(
        cls, network: SpringNetwork, inverse_mass: wp.array, *, welds: np.ndarray | None = None
    ) -> "StrainLimits":
        """Of the structural and shear springs of a network some of whose vertices are welded to each other (k, 2)."""
        count = len(inverse_mass)
        group = vertex_groups(np.zeros((0, 2), np.int32) if welds is None else welds, count)
        kept = np.flatnonzero(network.kind != BEND)
        # within a seam a spring and its own group would be in each other's way
        kept = kept[group[network.pairs[kept, 0]] != group[network.pairs[kept, 1]]]
        order, offsets = colour_items(group[network.pairs[kept]], count)
        kept = kept[order]
        return cls(network.pairs[kept], network.rest[kept], offsets, inverse_mass, _rings(group))

    @classmethod
    def joined(cls, limits: Sequence["StrainLimits"], place: np.ndarray, inverse_mass: wp.array) -> "StrainLimits":
        """Of several worlds, whose vertices have the numbers `place` (w, n) here: each has the colours that it has alone."""
        pairs = np.concatenate(
            [numbers[one.springs.pairs.numpy()].reshape(-1, 2) for one, numbers in zip(limits, place, strict=True)]
        )
        rest = np.concatenate([one.rest.numpy() for one in limits])
        colour = np.concatenate([np.repeat(np.arange(len(one.offsets) - 1), np.diff(one.offsets)) for one in limits])
        order = np.argsort(colour, kind="stable")
        offsets = np.append(0, np.cumsum(np.bincount(colour))).astype(np.int32)
        welded = np.arange(len(inverse_mass), dtype=np.int32)
        for one, numbers in zip(limits, place, strict=True):
            welded[numbers] = numbers[one.springs.welded.numpy()]
        return cls(pairs[order], rest[order], offsets, inverse_mass, welded)

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


def _rings(group: np.ndarray) -> np.ndarray:
    """(n,) int32: for each vertex the next one of its group, after the last one the first."""
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    following = np.append(order[1:], order[:1])
    # the last of each group is followed by its first
    following[np.append(starts[1:], len(order)) - 1] = order[starts]
    ring = np.empty(len(order), np.int32)
    ring[order] = following
    return ring
