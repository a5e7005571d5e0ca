"""Sweeps of impulses over the colours of stencils as a card does them: what a thread needs next is loaded while it waits."""

import warp as wp

from weft.response.friction import impulse_of
from weft.response.stencil_colours import COLOURS
from weft.world.card import load_vec2d, load_vec4d, load_vec4i, store_row
from weft.world.together import (
    BLOCK,
    TAIL,
    TURNS,
    arrive,
    await_others,
    meet,
    meet_between,
    meet_in_block,
    share_begin,
    share_step,
)

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
def solve_on_card(
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
    solve_loaded(
        i,
        True,
        load_vec4i(vertices, i),
        load_vec4d(weights, i),
        normals[i],
        speeds[i],
        load_vec2d(friction, i),
        push[i],
        drag[i],
        push,
        drag,
        p,
    )


@wp.func
def sweep_on_card(
    t: int,
    threads: int,
    arrivals: wp.array[int],
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
    """One sweep over all colours of placed rows, with the next row of each thread loaded while threads wait for each other.

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
    mu = load_vec2d(friction, k)
    given = push[k]
    before = drag[k]
    next_i = end + share_begin(t, threads, following - end)
    next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
    while end - begin > TAIL:
        after = offsets[wp.min(colour + 3, COLOURS)]
        solve_loaded(k, i < end, q, w, n, speed, mu, given, before, push, drag, p)
        for s in range(i + threads, end, threads):
            solve_on_card(s, vertices, weights, normals, speeds, friction, push, drag, p)
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
        speed = speeds[k]
        mu = load_vec2d(friction, k)
        given = push[k]
        before = drag[k]
        next_i = end + share_begin(t, threads, following - end)
        next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
        await_others(arrivals, True, size, end - begin, ticket)

    # few are left in each colour: the first block does these, its threads in turns
    if end > begin:
        if t < BLOCK:
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
            speed = speeds[k]
            mu = load_vec2d(friction, k)
            given = push[k]
            before = drag[k]
            while end > begin:
                begin = offsets[wp.min(base + TURNS, COLOURS)]
                end = offsets[wp.min(base + TURNS + 1, COLOURS)]
                later_low = offsets[wp.min(base + turn + 2 * TURNS, COLOURS)]
                later_high = offsets[wp.min(base + turn + 2 * TURNS + 1, COLOURS)]
                meet_in_block(turn)
                solve_loaded(k, low + t % TAIL < high, q, w, n, speed, mu, given, before, push, drag, p)
                for s in range(low + t % TAIL + TAIL, high, TAIL):
                    solve_on_card(s, vertices, weights, normals, speeds, friction, push, drag, p)
                low = next_low
                high = next_high
                next_low = later_low
                next_high = later_high
                base += TURNS
                k = wp.max(wp.min(low + t % TAIL, high - 1), 0)
                q = load_vec4i(vertices, k)
                w = load_vec4d(weights, k)
                n = normals[k]
                speed = speeds[k]
                mu = load_vec2d(friction, k)
                given = push[k]
                before = drag[k]
                meet_in_block(TURNS - turn)
        meet(arrivals)
    if offsets[COLOURS + 1] > offsets[COLOURS]:
        if t == 0:
            for s in range(offsets[COLOURS], offsets[COLOURS + 1]):
                solve_on_card(s, vertices, weights, normals, speeds, friction, push, drag, p)
        meet(arrivals)


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
            solve_on_card(placed + order[k], vertices, weights, normals, speeds, friction, push, drag, p)
        meet_between(arrivals, end - begin, following - end)
        begin = end
        end = following
        colour += 1
    if colour == COLOURS and end > begin:
        if t == 0:
            for k in range(begin, end):
                solve_on_card(placed + order[k], vertices, weights, normals, speeds, friction, push, drag, p)
        meet(arrivals)
