"""Contacts inside the substeps of position-based dynamics: springs and contacts find their balance together.

Contacts are found once a step; in every substep the pairs that are nearer than they should be are moved apart, and
their sliding over the substep is held back by friction, as far as the push of that substep allows.
"""

from typing import Any

import warp as wp

from weft.detection.boxes import lowest_bit
from weft.response.impulses import ImpulseRows, ImpulseSolver
from weft.response.stencil_colours import COLOURS
from weft.response.stencil_masks import MOST, rows_below
from weft.world.card import load_vec2d, load_vec4d, load_vec4i
from weft.world.together import (
    BLOCK,
    TAIL,
    TURNS,
    arrive,
    await_others,
    meet,
    meet_between,
    meet_in_block,
    on_card,
    share_begin,
    share_end,
    shared,
)

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# contacts of a colour from which on a card waits for the memory rather than for the way to it
MANY = wp.constant(16384)


@wp.kernel
def set_distances(
    first: int,
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
    part: wp.float64,
    distances: wp.array[wp.float64],
):
    """The gap that each contact keeps during the step: its thickness, or a little more than it has now."""
    i = first + wp.tid()
    distances[i] = wp.min(thickness[i], gaps[i] + part * wp.max(thickness[i] - gaps[i], ZERO))


@wp.func
def parting(lack: wp.float64, n: wp.vec3d, r: wp.vec3d, was: wp.vec3d, mu: wp.vec2d) -> wp.vec3d:
    """How far two sides that lack some distance go apart, and back against their sliding from `was` to r."""
    slide = r - was
    slide = slide - wp.dot(slide, n) * n
    # within the cone no root is needed, which takes long where nothing else is to be done meanwhile
    squared = wp.length_sq(slide)
    held = mu[0] * lack
    part = ONE
    if squared > held * held:
        part = mu[1] * lack / wp.sqrt(squared)
    return lack * n - part * slide


@wp.func
def part_contact(
    i: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """Move one pair apart, and back against its sliding since the start of the substep."""
    q = vertices[i]
    w = weights[i]
    n = normals[i]
    x0 = x[q[0]]
    x1 = x[q[1]]
    x2 = x[q[2]]
    x3 = x[q[3]]
    r = w[0] * x0 + w[1] * x1 + w[2] * x2 + w[3] * x3
    lack = distances[i] - wp.dot(n, r)
    if lack <= ZERO:
        return
    g = gains[i]
    was = w[0] * before[q[0]] + w[1] * before[q[1]] + w[2] * before[q[2]] + w[3] * before[q[3]]
    shift = parting(lack, n, r, was, friction[i])
    x[q[0]] = x0 + g[0] * shift
    x[q[1]] = x1 + g[1] * shift
    x[q[2]] = x2 + g[2] * shift
    x[q[3]] = x3 + g[3] * shift


@wp.func
def part_loaded(
    there: bool,
    q: wp.vec4i,
    w: wp.vec4d,
    n: wp.vec3d,
    distance: wp.float64,
    g: wp.vec4d,
    mu: wp.vec2d,
    b0: wp.vec3d,
    b1: wp.vec3d,
    b2: wp.vec3d,
    b3: wp.vec3d,
    x: wp.array[wp.vec3d],
):
    """The same for a pair, if there is one, of which all is known but where its corners are now."""
    x0 = x[q[0]]
    x1 = x[q[1]]
    x2 = x[q[2]]
    x3 = x[q[3]]
    r = w[0] * x0 + w[1] * x1 + w[2] * x2 + w[3] * x3
    lack = distance - wp.dot(n, r)
    if there and lack > ZERO:
        shift = parting(lack, n, r, w[0] * b0 + w[1] * b1 + w[2] * b2 + w[3] * b3, mu)
        x[q[0]] = x0 + g[0] * shift
        x[q[1]] = x1 + g[1] * shift
        x[q[2]] = x2 + g[2] * shift
        x[q[3]] = x3 + g[3] * shift


@wp.func
def part_of_many(
    k: int,
    there: bool,
    q: wp.vec4i,
    w: wp.vec4d,
    n: wp.vec3d,
    distance: wp.float64,
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """The same where so many are loaded at once that the memory is what they wait for: the rest only if it is needed."""
    x0 = x[q[0]]
    x1 = x[q[1]]
    x2 = x[q[2]]
    x3 = x[q[3]]
    r = w[0] * x0 + w[1] * x1 + w[2] * x2 + w[3] * x3
    lack = distance - wp.dot(n, r)
    if there and lack > ZERO:
        g = load_vec4d(gains, k)
        was = w[0] * before[q[0]] + w[1] * before[q[1]] + w[2] * before[q[2]] + w[3] * before[q[3]]
        shift = parting(lack, n, r, was, load_vec2d(friction, k))
        x[q[0]] = x0 + g[0] * shift
        x[q[1]] = x1 + g[1] * shift
        x[q[2]] = x2 + g[2] * shift
        x[q[3]] = x3 + g[3] * shift


@wp.func
def part_on_card(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """All colours, with the next contact of each thread loaded while threads wait for each other.

    Who has none in a colour loads the last one, as others do. Corners are known a colour before, so that nothing is on its
    way when a thread arrives.
    """
    colour = int(0)
    begin = offsets[0]
    end = offsets[1]
    following = offsets[2]
    i = begin + share_begin(t, threads, end - begin)
    k = wp.min(i, end - 1)
    q = load_vec4i(vertices, k)
    w = load_vec4d(weights, k)
    n = normals[k]
    distance = distances[k]
    next_i = end + share_begin(t, threads, following - end)
    next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
    while end - begin > MANY:
        after = offsets[wp.min(colour + 3, COLOURS)]
        part_of_many(k, i < end, q, w, n, distance, gains, friction, before, x)
        for s in range(i + threads, end, threads):
            part_contact(s, vertices, weights, normals, distances, gains, friction, before, x)
        size = end - begin
        ticket = arrive(arrivals, True, size, following - end)
        begin = end
        end = following
        following = after
        colour += 1
        i = next_i
        k = wp.min(i, end - 1)
        q = next_q
        w = load_vec4d(weights, k)
        n = normals[k]
        distance = distances[k]
        next_i = end + share_begin(t, threads, following - end)
        next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
        await_others(arrivals, True, size, end - begin, ticket)

    g = load_vec4d(gains, k)
    mu = load_vec2d(friction, k)
    b0 = before[q[0]]
    b1 = before[q[1]]
    b2 = before[q[2]]
    b3 = before[q[3]]
    while end - begin > TAIL:
        after = offsets[wp.min(colour + 3, COLOURS)]
        part_loaded(i < end, q, w, n, distance, g, mu, b0, b1, b2, b3, x)
        for s in range(i + threads, end, threads):
            part_contact(s, vertices, weights, normals, distances, gains, friction, before, x)
        size = end - begin
        ticket = arrive(arrivals, True, size, following - end)
        begin = end
        end = following
        following = after
        colour += 1
        i = next_i
        k = wp.min(i, end - 1)
        q = next_q
        w = load_vec4d(weights, k)
        n = normals[k]
        distance = distances[k]
        g = load_vec4d(gains, k)
        mu = load_vec2d(friction, k)
        b0 = before[q[0]]
        b1 = before[q[1]]
        b2 = before[q[2]]
        b3 = before[q[3]]
        next_i = end + share_begin(t, threads, following - end)
        next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
        await_others(arrivals, True, size, end - begin, ticket)

    # few are left in each colour: the first block does these, its threads in turns
    if t < BLOCK and end > begin:
        turn = t // TAIL
        base = colour
        low = offsets[wp.min(base + turn, COLOURS)]
        high = offsets[wp.min(base + turn + 1, COLOURS)]
        next_low = offsets[wp.min(base + turn + TURNS, COLOURS)]
        next_high = offsets[wp.min(base + turn + TURNS + 1, COLOURS)]
        k = wp.max(wp.min(low + t % TAIL, high - 1), 0)
        q = load_vec4i(vertices, k)
        w = load_vec4d(weights, k)
        n = normals[k]
        distance = distances[k]
        g = load_vec4d(gains, k)
        mu = load_vec2d(friction, k)
        b0 = before[q[0]]
        b1 = before[q[1]]
        b2 = before[q[2]]
        b3 = before[q[3]]
        while end > begin:
            begin = offsets[wp.min(base + TURNS, COLOURS)]
            end = offsets[wp.min(base + TURNS + 1, COLOURS)]
            later_low = offsets[wp.min(base + turn + 2 * TURNS, COLOURS)]
            later_high = offsets[wp.min(base + turn + 2 * TURNS + 1, COLOURS)]
            meet_in_block(turn)
            part_loaded(low + t % TAIL < high, q, w, n, distance, g, mu, b0, b1, b2, b3, x)
            for s in range(low + t % TAIL + TAIL, high, TAIL):
                part_contact(s, vertices, weights, normals, distances, gains, friction, before, x)
            low = next_low
            high = next_high
            next_low = later_low
            next_high = later_high
            base += TURNS
            k = wp.max(wp.min(low + t % TAIL, high - 1), 0)
            q = load_vec4i(vertices, k)
            w = load_vec4d(weights, k)
            n = normals[k]
            distance = distances[k]
            g = load_vec4d(gains, k)
            mu = load_vec2d(friction, k)
            meet_in_block(1)
            b0 = before[q[0]]
            b1 = before[q[1]]
            b2 = before[q[2]]
            b3 = before[q[3]]
            meet_in_block(TURNS - 1 - turn)


@shared
@wp.kernel(launch_bounds=BLOCK)
def part_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """A sweep over contacts that lie in the order of their colours, then over those that found none, one after another."""
    t = first + wp.tid()
    if on_card():
        part_on_card(
            t, threads, arrivals, offsets, vertices, weights, normals, distances, gains, friction, before, x
        )  # fmt: skip
    else:
        begin = offsets[0]
        end = offsets[1]
        colour = int(0)
        while colour < COLOURS and end > begin:
            following = offsets[colour + 2]
            first_i = begin + share_begin(t, threads, end - begin)
            last_i = begin + share_end(t, threads, end - begin)
            for i in range(first_i, last_i, MOST):
                near = rows_below(i, wp.min(MOST, last_i - i), vertices, weights, normals, distances, x)
                while near != wp.uint64(0):
                    k = i + lowest_bit(near)
                    near &= near - wp.uint64(1)
                    part_contact(k, vertices, weights, normals, distances, gains, friction, before, x)
            meet_between(arrivals, end - begin, following - end)
            begin = end
            end = following
            colour += 1
    if offsets[COLOURS + 1] > offsets[COLOURS]:
        meet(arrivals)
        if t == 0:
            for i in range(offsets[COLOURS], offsets[COLOURS + 1]):
                part_contact(i, vertices, weights, normals, distances, gains, friction, before, x)


class PositionContacts:
    """The contacts of a step as position-based dynamics meet them: called once a substep."""

    def __init__(self, solver: ImpulseSolver, rows: ImpulseRows) -> None:
        self.solver, self.rows = solver, rows
        self._inputs: tuple[Any, ...] = ()

    def __len__(self) -> int:
        """How many there are."""
        return self.rows.count

    @property
    def given(self) -> tuple[Any, ...]:
        """What a call depends on besides the positions."""
        return self.solver.threads_for(self.rows.count), *self._arrays

    @property
    def _arrays(self) -> tuple[wp.array, ...]:
        rows = self.rows
        return rows.vertices, rows.weights, rows.normals, rows.distances, rows.gains, rows.friction

    def __call__(self, x: wp.array, before: wp.array) -> None:
        """Correct positions x that were at `before` when the substep started."""
        inputs = (self.solver.offsets, *self._arrays, before, x)
        # the same tuple in all substeps of a step is looked at once
        if len(inputs) != len(self._inputs) or any(a is not b for a, b in zip(inputs, self._inputs, strict=True)):
            self._inputs = inputs
        self.solver.run(self.rows.count, part_together, self._inputs)
