"""Sweeps of impulses over the colours of stencils as a card does them: what a thread needs next is loaded while it waits."""

import warp as wp

from weft.response.clump_sweeps import solve_clumps
from weft.response.colour_words import COLOURS
from weft.response.friction import impulse_of
from weft.world.card import load_vec2d, load_vec4d, load_vec4i, store_row
from weft.world.together import BLOCK, arrive, await_others, meet, meet_between, share_begin, share_step

wp.set_module_options({"enable_backward": False})


@wp.func
def solve_loaded(
    i: int,
    there: bool,
    q: wp.vec4i,
    w: wp.vec4d,
    n: wp.vec3d,
    speed: wp.float64,
    mu: wp.vec2d,
    given: wp.float64,
    before: wp.vec3d,
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """The same on a card for a pair, if there is one, of which all is known but how fast its corners are now.

    Velocities and inverse masses lie in rows, which one or two loads bring.
    """
    a = load_vec4d(p, q[0])
    b = load_vec4d(p, q[1])
    c = load_vec4d(p, q[2])
    d = load_vec4d(p, q[3])
    v0 = wp.vec3d(a[0], a[1], a[2])
    v1 = wp.vec3d(b[0], b[1], b[2])
    v2 = wp.vec3d(c[0], c[1], c[2])
    v3 = wp.vec3d(d[0], d[1], d[2])
    g = wp.vec4d(w[0] * a[3], w[1] * b[3], w[2] * c[3], w[3] * d[3])
    total = w[0] * g[0] + w[1] * g[1] + w[2] * g[2] + w[3] * g[3]
    u = w[0] * v0 + w[1] * v1 + w[2] * v2 + w[3] * v3
    normal_speed = wp.dot(n, u)
    if there and total > wp.float64(0.0) and (given != wp.float64(0.0) or normal_speed < speed):
        now, after, impulse = impulse_of(given, speed, u, normal_speed, n, total, mu, before)
        push[i] = now
        drag[i] = after
        # a corner without weight stands for nothing, and one that cannot move is shared
        if g[0] != wp.float64(0.0):
            store_row(p, q[0], v0 + g[0] * impulse, a[3])
        if g[1] != wp.float64(0.0):
            store_row(p, q[1], v1 + g[1] * impulse, b[3])
        if g[2] != wp.float64(0.0):
            store_row(p, q[2], v2 + g[2] * impulse, c[3])
        if g[3] != wp.float64(0.0):
            store_row(p, q[3], v3 + g[3] * impulse, d[3])


@wp.func
def solve_unknown(
    i: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """The same for a pair of which nothing is known yet."""
    q = load_vec4i(vertices, i)
    w = load_vec4d(weights, i)
    mu = load_vec2d(friction, i)
    solve_loaded(i, True, q, w, normals[i], speeds[i], mu, push[i], drag[i], push, drag, p)


@wp.func
def sweep_on_card(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    clumped: int,
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """One sweep over the first colours of placed rows, with the next row of each thread loaded while threads wait.

    Who has none in a colour loads the last one, as others do. Corners are known a colour before, so that nothing is on its
    way when a thread arrives. A row is the same thread's in every sweep, so that nobody else changes what it has given.
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
    speed = speeds[k]
    given = push[k]
    next_i = end + share_begin(t, threads, following - end)
    next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
    mu = load_vec2d(friction, k)
    before = drag[k]
    while colour < clumped and end > begin:
        after = offsets[wp.min(colour + 3, COLOURS)]
        solve_loaded(k, i < end, q, w, n, speed, mu, given, before, push, drag, p)
        for s in range(i + threads, end, threads):
            solve_unknown(s, vertices, weights, normals, speeds, friction, push, drag, p)
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
        speed = speeds[k]
        mu = load_vec2d(friction, k)
        given = push[k]
        before = drag[k]
        next_i = end + share_begin(t, threads, following - end)
        next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
        await_others(arrivals, True, size, next_size, ticket)


@wp.func
def sweep_later_on_card(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    placed: int,
    order: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """One sweep over the rows that came later."""
    begin = offsets[0]
    end = offsets[1]
    colour = int(0)
    while colour < COLOURS and end > begin:
        following = offsets[colour + 2]
        first_k = begin + share_begin(t, threads, end - begin)
        for k in range(first_k, end, share_step(threads, end - begin)):
            solve_unknown(placed + order[k], vertices, weights, normals, speeds, friction, push, drag, p)
        meet_between(arrivals, end - begin, following - end)
        begin = end
        end = following
        colour += 1
    if colour == COLOURS and end > begin:
        if t == 0:
            for k in range(begin, end):
                solve_unknown(placed + order[k], vertices, weights, normals, speeds, friction, push, drag, p)
        meet(arrivals)


@wp.func
def solve_uncoloured(
    t: int,
    arrivals: wp.array[int],
    begin: int,
    end: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """Those that found no colour, one after another."""
    if end > begin:
        if t == 0:
            for s in range(begin, end):
                solve_unknown(s, vertices, weights, normals, speeds, friction, push, drag, p)
        meet(arrivals)


@wp.kernel(launch_bounds=BLOCK)
def solve_on_card(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sweeps: int,
    placed_offsets: wp.array[int],
    later: int,
    placed: int,
    offsets: wp.array[int],
    order: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    first_colour: wp.array[int],
    sizes: wp.array[int],
    spans: wp.array[int],
    contacts: wp.array[int],
    contact_colours: wp.array[int],
    corners: wp.array[wp.vec4i],
    members: wp.array[int],
):
    """Sweeps over all rows: first those that lie in the order of their colours, then the others."""
    t = first + wp.tid()
    for i in range(t, p.shape[0], threads):
        store_row(p, i, v[i], inverse_mass[i])
    meet(arrivals)
    coloured = placed_offsets[COLOURS]
    # where all are in clumps these need not wait for each other
    alone = placed > 0 and later == 0 and first_colour[0] == 0 and coloured == placed
    for _sweep in range(wp.where(alone, 1, sweeps)):
        if placed > 0:
            sweep_on_card(
                t, threads, arrivals, first_colour[0], placed_offsets, vertices, weights, normals, speeds, friction, push,
                drag, p,
            )  # fmt: skip
            solve_clumps(
                t, threads, wp.where(alone, sweeps, 1), sizes, spans, contacts, contact_colours, corners, members, vertices,
                weights, normals, speeds, friction, push, drag, p,
            )  # fmt: skip
            meet(arrivals)
            solve_uncoloured(
                t, arrivals, coloured, placed, vertices, weights, normals, speeds, friction, push, drag, p
            )  # fmt: skip
        if later != 0:
            sweep_later_on_card(
                t,
                threads,
                arrivals,
                offsets,
                placed,
                order,
                vertices,
                weights,
                normals,
                speeds,
                friction,
                push,
                drag,
                p,
            )
    for i in range(t, p.shape[0], threads):
        row = load_vec4d(p, i)
        v[i] = wp.vec3d(row[0], row[1], row[2])


@wp.kernel(launch_bounds=BLOCK)
def solve_many_on_card(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sweeps: int,
    placed_offsets: wp.array[int],
    later: int,
    placed: int,
    offsets: wp.array[int],
    order: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """The same colour by colour: of millions of rows few are in clumps, and code for these would slow down the others."""
    t = first + wp.tid()
    for i in range(t, p.shape[0], threads):
        store_row(p, i, v[i], inverse_mass[i])
    meet(arrivals)
    for _sweep in range(sweeps):
        sweep_on_card(
            t, threads, arrivals, COLOURS, placed_offsets, vertices, weights, normals, speeds, friction, push, drag, p
        )
        solve_uncoloured(
            t, arrivals, placed_offsets[COLOURS], placed, vertices, weights, normals, speeds, friction, push, drag, p
        )
        if later != 0:
            sweep_later_on_card(
                t,
                threads,
                arrivals,
                offsets,
                placed,
                order,
                vertices,
                weights,
                normals,
                speeds,
                friction,
                push,
                drag,
                p,
            )
    for i in range(t, p.shape[0], threads):
        row = load_vec4d(p, i)
        v[i] = wp.vec3d(row[0], row[1], row[2])
