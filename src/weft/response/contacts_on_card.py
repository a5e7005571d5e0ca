"""Contacts inside substeps on a card, where vertices are rows (x, y, z, inverse mass), which two loads bring."""

import warp as wp

from weft.response.colour_words import COLOURS
from weft.response.parting import parting
from weft.world.card import load_vec2d, load_vec4d, load_vec4i, store_row
from weft.world.together import BLOCK, TAIL, TURNS, arrive, await_others, meet, meet_in_block, share_begin, shared

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# contacts of a colour from which on a card waits for the memory rather than for the way to it
MANY = wp.constant(16384)


@wp.func
def place_of(row: wp.vec4d) -> wp.vec3d:
    """Where a vertex is."""
    return wp.vec3d(row[0], row[1], row[2])


@wp.func
def between(q: wp.vec4i, w: wp.vec4d, p: wp.array[wp.vec4d]) -> wp.vec3d:
    """The relative position of a pair."""
    a = place_of(load_vec4d(p, q[0]))
    b = place_of(load_vec4d(p, q[1]))
    c = place_of(load_vec4d(p, q[2]))
    d = place_of(load_vec4d(p, q[3]))
    return w[0] * a + w[1] * b + w[2] * c + w[3] * d


@wp.func
def shift_corner(i: int, row: wp.vec4d, gain: wp.float64, shift: wp.vec3d, p: wp.array[wp.vec4d]):
    """Move a corner; one that cannot move is shared."""
    if gain != ZERO:
        store_row(p, i, place_of(row) + gain * shift, row[3])


@wp.func
def part_loaded(
    there: bool,
    q: wp.vec4i,
    w: wp.vec4d,
    n: wp.vec3d,
    distance: wp.float64,
    g: wp.vec4d,
    mu: wp.vec2d,
    was: wp.vec3d,
    p: wp.array[wp.vec4d],
):
    """Part a pair, if there is one, of which all is known but where its corners are now."""
    a = load_vec4d(p, q[0])
    b = load_vec4d(p, q[1])
    c = load_vec4d(p, q[2])
    d = load_vec4d(p, q[3])
    r = w[0] * place_of(a) + w[1] * place_of(b) + w[2] * place_of(c) + w[3] * place_of(d)
    lack = distance - wp.dot(n, r)
    if there and lack > ZERO:
        shift = parting(lack, n, r, was, mu)
        shift_corner(q[0], a, g[0], shift, p)
        shift_corner(q[1], b, g[1], shift, p)
        shift_corner(q[2], c, g[2], shift, p)
        shift_corner(q[3], d, g[3], shift, p)


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
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """The same where so many are loaded at once that the memory is what they wait for: the rest only if it is needed."""
    a = load_vec4d(p, q[0])
    b = load_vec4d(p, q[1])
    c = load_vec4d(p, q[2])
    d = load_vec4d(p, q[3])
    r = w[0] * place_of(a) + w[1] * place_of(b) + w[2] * place_of(c) + w[3] * place_of(d)
    lack = distance - wp.dot(n, r)
    if there and lack > ZERO:
        g = load_vec4d(gains, k)
        shift = parting(lack, n, r, between(q, w, before), load_vec2d(friction, k))
        shift_corner(q[0], a, g[0], shift, p)
        shift_corner(q[1], b, g[1], shift, p)
        shift_corner(q[2], c, g[2], shift, p)
        shift_corner(q[3], d, g[3], shift, p)


@wp.func
def part_unknown(
    i: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """The same for a pair of which nothing is known yet."""
    q = load_vec4i(vertices, i)
    part_of_many(i, True, q, load_vec4d(weights, i), normals[i], distances[i], gains, friction, before, p)


@shared
@wp.kernel(launch_bounds=BLOCK)
def part_on_card(
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
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """All colours, with the next contact of each thread loaded while threads wait for each other; then those that found none,
    one after another.

    Who has none in a colour loads the last one, as others do. Corners are known a colour before, so that nothing is on its
    way when a thread arrives.
    """
    t = first + wp.tid()
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
        part_of_many(k, i < end, q, w, n, distance, gains, friction, before, p)
        for s in range(i + threads, end, threads):
            part_unknown(s, vertices, weights, normals, distances, gains, friction, before, p)
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
    was = between(q, w, before)
    while end - begin > TAIL:
        after = offsets[wp.min(colour + 3, COLOURS)]
        part_loaded(i < end, q, w, n, distance, g, mu, was, p)
        for s in range(i + threads, end, threads):
            part_unknown(s, vertices, weights, normals, distances, gains, friction, before, p)
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
        was = between(q, w, before)
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
        was = between(q, w, before)
        while end > begin:
            begin = offsets[wp.min(base + TURNS, COLOURS)]
            end = offsets[wp.min(base + TURNS + 1, COLOURS)]
            later_low = offsets[wp.min(base + turn + 2 * TURNS, COLOURS)]
            later_high = offsets[wp.min(base + turn + 2 * TURNS + 1, COLOURS)]
            meet_in_block(turn)
            part_loaded(low + t % TAIL < high, q, w, n, distance, g, mu, was, p)
            for s in range(low + t % TAIL + TAIL, high, TAIL):
                part_unknown(s, vertices, weights, normals, distances, gains, friction, before, p)
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
            was = between(q, w, before)
            meet_in_block(TURNS - 1 - turn)
    if offsets[COLOURS + 1] > offsets[COLOURS]:
        meet(arrivals)
        if t == 0:
            for s in range(offsets[COLOURS], offsets[COLOURS + 1]):
                part_unknown(s, vertices, weights, normals, distances, gains, friction, before, p)
