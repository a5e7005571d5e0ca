"""Contacts inside substeps on a card, where vertices are rows (x, y, z, inverse mass), which two loads bring."""

import warp as wp

from weft.response.clump_sweeps import part_clumps
from weft.response.colour_words import COLOURS
from weft.response.parting import parting
from weft.response.row_stencils import place_of, slid_from
from weft.world.card import load_vec2d, load_vec4d, load_vec4i, store_row
from weft.world.together import BLOCK, arrive, await_others, meet, share_begin

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# contacts of a colour from which on a card waits for the memory rather than for the way to it
MANY = wp.constant(16384)


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
    gaps: wp.array[wp.float64],
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
        shift = parting(lack, n, r, slid_from(q, w, gaps[k], distance, before), load_vec2d(friction, k))
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
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """The same for a pair of which nothing is known yet."""
    q = load_vec4i(vertices, i)
    part_of_many(i, True, q, load_vec4d(weights, i), normals[i], distances[i], gaps, gains, friction, before, p)


@wp.func
def part_colours(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    clumped: int,
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """The first colours, with the next contact of each thread loaded while threads wait for each other.

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
    while colour < clumped and end - begin > MANY:
        after = offsets[wp.min(colour + 3, COLOURS)]
        part_of_many(k, i < end, q, w, n, distance, gaps, gains, friction, before, p)
        for s in range(i + threads, end, threads):
            part_unknown(s, vertices, weights, normals, distances, gaps, gains, friction, before, p)
        size = end - begin
        next_size = wp.where(colour + 1 < clumped, following - end, 0)
        ticket = arrive(arrivals, True, size, next_size)
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
        await_others(arrivals, True, size, next_size, ticket)

    g = load_vec4d(gains, k)
    mu = load_vec2d(friction, k)
    was = slid_from(q, w, gaps[k], distance, before)
    while colour < clumped and end > begin:
        after = offsets[wp.min(colour + 3, COLOURS)]
        part_loaded(i < end, q, w, n, distance, g, mu, was, p)
        for s in range(i + threads, end, threads):
            part_unknown(s, vertices, weights, normals, distances, gaps, gains, friction, before, p)
        size = end - begin
        next_size = wp.where(colour + 1 < clumped, following - end, 0)
        ticket = arrive(arrivals, True, size, next_size)
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
        was = slid_from(q, w, gaps[k], distance, before)
        next_i = end + share_begin(t, threads, following - end)
        next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
        await_others(arrivals, True, size, next_size, ticket)


@wp.func
def part_uncoloured(
    t: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Those that found no colour, one after another."""
    if offsets[COLOURS + 1] > offsets[COLOURS]:
        meet(arrivals)
        if t == 0:
            for s in range(offsets[COLOURS], offsets[COLOURS + 1]):
                part_unknown(s, vertices, weights, normals, distances, gaps, gains, friction, before, p)


@wp.kernel(launch_bounds=BLOCK)
def part_on_card(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    first_colour: wp.array[int],
    sizes: wp.array[int],
    spans: wp.array[int],
    contacts: wp.array[int],
    contact_colours: wp.array[int],
    corners: wp.array[wp.vec4i],
    members: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """The first colours, then the clumps of the others."""
    t = first + wp.tid()
    part_colours(
        t,
        threads,
        arrivals,
        first_colour[0],
        offsets,
        vertices,
        weights,
        normals,
        distances,
        gaps,
        gains,
        friction,
        before,
        p,
    )
    part_clumps(
        t, threads, sizes, spans, contacts, contact_colours, corners, members, vertices, weights, normals, distances,
        gaps, gains, friction, before, p,
    )  # fmt: skip
    part_uncoloured(t, arrivals, offsets, vertices, weights, normals, distances, gaps, gains, friction, before, p)


@wp.kernel(launch_bounds=BLOCK)
def part_many_on_card(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """All colours: of millions of contacts few are in clumps, and code for these would slow down the others."""
    t = first + wp.tid()
    part_colours(
        t, threads, arrivals, COLOURS, offsets, vertices, weights, normals, distances, gaps, gains, friction, before, p
    )
    part_uncoloured(t, arrivals, offsets, vertices, weights, normals, distances, gaps, gains, friction, before, p)
