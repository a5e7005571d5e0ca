"""Strain and strain rate limits on velocities (Bridson et al. 2002, section 4; Provot 1995).

Over a step a structural or shear spring may neither leave 10 % of its rest length nor change its present length by more
than 10 %. What would break a limit gets impulses along the spring, which conserve momentum, spring by spring in the order
of colours that never change. Each spring remembers its impulse and takes back what is no longer needed. Positions are
never touched.
"""

import numpy as np
import warp as wp

from weft.dynamics.springs import BEND, SpringNetwork
from weft.world.card import load_vec2d, load_vec2i
from weft.world.colouring import colour_items
from weft.world.together import (
    BLOCK,
    Together,
    arrive,
    await_others,
    meet,
    on_card,
    share_begin,
    share_end,
    share_rounds,
    share_step,
    shared,
)

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


@wp.func
def limit_spring(
    i: int,
    p: wp.vec2i,
    n: wp.vec3d,
    within: wp.vec2d,
    again: bool,
    inverse_mass: wp.array[wp.float64],
    given: wp.array[wp.float64],
    found: wp.array[int],
    v: wp.array[wp.vec3d],
):
    """Bring one spring within its limits, as far as it has not been already."""
    before = ZERO
    if again:
        before = given[i]
    else:
        given[i] = ZERO
    u = wp.dot(n, v[p[0]] - v[p[1]])
    if before == ZERO and u >= within[0] and u <= within[1]:
        return
    total = inverse_mass[p[0]] + inverse_mass[p[1]]
    if total == ZERO or wp.length_sq(n) == ZERO:
        return
    now = limiting_impulse(u, before, within, total)
    given[i] = now
    # whoever writes writes the same
    found[0] = 1
    v[p[0]] = v[p[0]] + ((now - before) * inverse_mass[p[0]]) * n
    v[p[1]] = v[p[1]] - ((now - before) * inverse_mass[p[1]]) * n


@wp.func
def limit_loaded(
    i: int,
    there: bool,
    p: wp.vec2i,
    n: wp.vec3d,
    within: wp.vec2d,
    ma: wp.float64,
    mb: wp.float64,
    before: wp.float64,
    a: wp.vec3d,
    b: wp.vec3d,
    given: wp.array[wp.float64],
    found: wp.array[int],
    v: wp.array[wp.vec3d],
):
    """The same for a spring, if there is one, of which all is known."""
    u = wp.dot(n, a - b)
    beyond = before != ZERO or u < within[0] or u > within[1]
    if there and beyond and ma + mb != ZERO and wp.length_sq(n) != ZERO:
        now = limiting_impulse(u, before, within, ma + mb)
        given[i] = now
        found[0] = 1
        v[p[0]] = a + ((now - before) * ma) * n
        v[p[1]] = b - ((now - before) * mb) * n


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
def limit_on_card(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    inverse_mass: wp.array[wp.float64],
    along: wp.array[wp.vec3d],
    speeds: wp.array[wp.vec2d],
    given: wp.array[wp.float64],
    given_too: wp.array[wp.float64],
    found: wp.array[int],
    v: wp.array[wp.vec3d],
    v_too: wp.array[wp.vec3d],
):
    """One sweep after a meeting, with the next spring of each thread loaded while threads wait for each other.

    A spring is the same thread's in every sweep, so that nobody else changes what it has given.
    """
    colour = int(0)
    begin = offsets[0]
    end = offsets[1]
    i = begin + share_begin(t, threads, end - begin)
    left = share_rounds(threads, end - begin)
    k = wp.min(i, end - 1)
    p = load_vec2i(pairs, k)
    n = along[k]
    within = load_vec2d(speeds, k)
    before = given[k]
    before_too = given_too[k]
    ma = inverse_mass[p[0]]
    mb = inverse_mass[p[1]]
    while colour < colours:
        following = offsets[wp.min(colour + 2, colours)]
        there = i < end
        a = v[p[0]]
        b = v[p[1]]
        if v_too.shape[0] > 0:
            a_too = v_too[p[0]]
            b_too = v_too[p[1]]
            limit_loaded(k, there, p, n, within, ma, mb, before, a, b, given, found, v)
            limit_loaded(k, there, p, n, within, ma, mb, before_too, a_too, b_too, given_too, found, v_too)
        else:
            limit_loaded(k, there, p, n, within, ma, mb, before, a, b, given, found, v)
        # the next in this colour or the first of the next one; who has none loads the last, as others do
        size = end - begin
        next_size = following - end
        left -= 1
        crosses = left == 0
        i += threads
        if crosses:
            begin = end
            end = following
            colour += 1
            i = begin + share_begin(t, threads, next_size)
            left = share_rounds(threads, next_size)
        k = wp.min(i, end - 1)
        p = load_vec2i(pairs, k)
        n = along[k]
        within = load_vec2d(speeds, k)
        before = given[k]
        before_too = given_too[k]
        ticket = arrive(arrivals, crosses, size, next_size)
        ma = inverse_mass[p[0]]
        mb = inverse_mass[p[1]]
        await_others(arrivals, crosses, size, next_size, ticket)


@shared
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
    if on_card():
        for i in range(t, offsets[colours], threads):
            limit_of(i, x, pairs, rest, limit, dt, along, speeds)
            given[i] = ZERO
            given_too[i] = ZERO
        meet(arrivals)
        for _sweep in range(sweeps):
            limit_on_card(
                t, threads, arrivals, colours, offsets, pairs, inverse_mass, along, speeds, given, given_too, found, v,
                v_too,
            )  # fmt: skip
            if found[0] == 0:
                break
    else:
        for sweep in range(sweeps):
            for colour in range(colours):
                begin = offsets[colour]
                count = offsets[colour + 1] - begin
                first_i = begin + share_begin(t, threads, count)
                last_i = begin + share_end(t, threads, count)
                for i in range(first_i, last_i, share_step(threads, count)):
                    if sweep == 0:
                        limit_of(i, x, pairs, rest, limit, dt, along, speeds)
                    p = pairs[i]
                    n = along[i]
                    within = speeds[i]
                    limit_spring(i, p, n, within, sweep > 0, inverse_mass, given, found, v)
                    if v_too.shape[0] > 0:
                        limit_spring(i, p, n, within, sweep > 0, inverse_mass, given_too, found, v_too)
                meet(arrivals)
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
        self._together = Together(device)

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
        self._together.launch(limit_together, self._largest, inputs, work=self.count)
