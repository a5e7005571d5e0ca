"""Kernels of impulses over stencils: one pair, and sweeps over all colours of them."""

import warp as wp

from weft.detection.boxes import lowest_bit
from weft.response.friction import friction_impulse
from weft.response.stencil_colours import COLOURS
from weft.response.stencil_masks import MOST, rows_below_or_given
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
    share_step,
)

wp.set_module_options({"enable_backward": False})


@wp.func
def impulse_of(
    given: wp.float64,
    speed: wp.float64,
    u: wp.vec3d,
    normal_speed: wp.float64,
    n: wp.vec3d,
    total: wp.float64,
    mu: wp.vec2d,
    before: wp.vec3d,
):
    """The normal and the tangential impulse of a pair from now on, and by how much both together change."""
    # the normal part may be taken back, never below zero
    now = wp.max(given + (speed - normal_speed) / total, wp.float64(0.0))
    impulse = (now - given) * n
    after = before
    if mu[0] > wp.float64(0.0):
        sliding = u - normal_speed * n
        after = friction_impulse(before, sliding, total, now, mu[0], mu[1])
        # the normal may have turned since the impulse was given: keep the tangential part only
        after = after - wp.dot(n, after) * n
        impulse += after - before
    return now, after, impulse


@wp.func
def change_corners(
    q: wp.vec4i,
    g: wp.vec4d,
    impulse: wp.vec3d,
    v0: wp.vec3d,
    v1: wp.vec3d,
    v2: wp.vec3d,
    v3: wp.vec3d,
    v: wp.array[wp.vec3d],
):
    """Give an impulse to the corners of a pair."""
    v[q[0]] = v0 + g[0] * impulse
    v[q[1]] = v1 + g[1] * impulse
    # stencils of fewer points name a vertex twice, the second time without weight
    if g[2] != wp.float64(0.0):
        v[q[2]] = v2 + g[2] * impulse
    if g[3] != wp.float64(0.0):
        v[q[3]] = v3 + g[3] * impulse


@wp.func
def solve_stencil(
    i: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
):
    """Bring one pair to its least normal velocity, then apply friction."""
    q = vertices[i]
    w = weights[i]
    n = normals[i]
    v0 = v[q[0]]
    v1 = v[q[1]]
    v2 = v[q[2]]
    v3 = v[q[3]]
    given = push[i]
    u = w[0] * v0 + w[1] * v1 + w[2] * v2 + w[3] * v3
    normal_speed = wp.dot(n, u)
    if given == wp.float64(0.0) and normal_speed >= speeds[i]:
        return

    # velocity that each corner gains from a unit impulse
    g = wp.vec4d(
        w[0] * inverse_mass[q[0]], w[1] * inverse_mass[q[1]], w[2] * inverse_mass[q[2]], w[3] * inverse_mass[q[3]]
    )
    total = w[0] * g[0] + w[1] * g[1] + w[2] * g[2] + w[3] * g[3]
    if total <= wp.float64(0.0):
        return
    now, after, impulse = impulse_of(given, speeds[i], u, normal_speed, n, total, friction[i], drag[i])
    push[i] = now
    drag[i] = after
    change_corners(q, g, impulse, v0, v1, v2, v3, v)


@wp.func
def solve_loaded(
    i: int,
    there: bool,
    q: wp.vec4i,
    w: wp.vec4d,
    n: wp.vec3d,
    speed: wp.float64,
    mu: wp.vec2d,
    m: wp.vec4d,
    given: wp.float64,
    before: wp.vec3d,
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
):
    """The same for a pair, if there is one, of which all is known but how fast its corners are now."""
    v0 = v[q[0]]
    v1 = v[q[1]]
    v2 = v[q[2]]
    v3 = v[q[3]]
    g = wp.vec4d(w[0] * m[0], w[1] * m[1], w[2] * m[2], w[3] * m[3])
    total = w[0] * g[0] + w[1] * g[1] + w[2] * g[2] + w[3] * g[3]
    u = w[0] * v0 + w[1] * v1 + w[2] * v2 + w[3] * v3
    normal_speed = wp.dot(n, u)
    if there and total > wp.float64(0.0) and (given != wp.float64(0.0) or normal_speed < speed):
        now, after, impulse = impulse_of(given, speed, u, normal_speed, n, total, mu, before)
        push[i] = now
        drag[i] = after
        change_corners(q, g, impulse, v0, v1, v2, v3, v)


@wp.func
def row_at(k: int, placed: int, order: wp.array[int]) -> int:
    """The row at a place in the order: those that are placed lie in it, others come after them."""
    i = k
    if placed >= 0:
        i = placed + order[k]
    return i


@wp.func
def sweep_colours(
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
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
):
    """One sweep over all colours, then over the rows that found none, one after another."""
    begin = offsets[0]
    end = offsets[1]
    colour = int(0)
    while colour < COLOURS and end > begin:
        following = offsets[colour + 2]
        first_k = begin + share_begin(t, threads, end - begin)
        last_k = begin + share_end(t, threads, end - begin)
        if placed < 0:
            for k in range(first_k, last_k, MOST):
                busy = rows_below_or_given(k, wp.min(MOST, last_k - k), vertices, weights, normals, speeds, v, push)
                while busy != wp.uint64(0):
                    i = k + lowest_bit(busy)
                    busy &= busy - wp.uint64(1)
                    solve_stencil(i, vertices, weights, normals, speeds, friction, inverse_mass, push, drag, v)
        else:
            for k in range(first_k, last_k, share_step(threads, end - begin)):
                i = placed + order[k]
                solve_stencil(i, vertices, weights, normals, speeds, friction, inverse_mass, push, drag, v)
        meet_between(arrivals, end - begin, following - end)
        begin = end
        end = following
        colour += 1
    if colour == COLOURS and end > begin:
        if t == 0:
            for k in range(begin, end):
                i = row_at(k, placed, order)
                solve_stencil(i, vertices, weights, normals, speeds, friction, inverse_mass, push, drag, v)
        meet(arrivals)


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
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
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
    m = wp.vec4d(inverse_mass[q[0]], inverse_mass[q[1]], inverse_mass[q[2]], inverse_mass[q[3]])
    next_i = end + share_begin(t, threads, following - end)
    next_q = load_vec4i(vertices, wp.min(next_i, following - 1))
    while end - begin > TAIL:
        after = offsets[wp.min(colour + 3, COLOURS)]
        solve_loaded(k, i < end, q, w, n, speed, mu, m, given, before, push, drag, v)
        for s in range(i + threads, end, threads):
            solve_stencil(s, vertices, weights, normals, speeds, friction, inverse_mass, push, drag, v)
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
        m = wp.vec4d(inverse_mass[q[0]], inverse_mass[q[1]], inverse_mass[q[2]], inverse_mass[q[3]])
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
            m = wp.vec4d(inverse_mass[q[0]], inverse_mass[q[1]], inverse_mass[q[2]], inverse_mass[q[3]])
            while end > begin:
                begin = offsets[wp.min(base + TURNS, COLOURS)]
                end = offsets[wp.min(base + TURNS + 1, COLOURS)]
                later_low = offsets[wp.min(base + turn + 2 * TURNS, COLOURS)]
                later_high = offsets[wp.min(base + turn + 2 * TURNS + 1, COLOURS)]
                meet_in_block(turn)
                solve_loaded(k, low + t % TAIL < high, q, w, n, speed, mu, m, given, before, push, drag, v)
                for s in range(low + t % TAIL + TAIL, high, TAIL):
                    solve_stencil(s, vertices, weights, normals, speeds, friction, inverse_mass, push, drag, v)
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
                meet_in_block(1)
                m = wp.vec4d(inverse_mass[q[0]], inverse_mass[q[1]], inverse_mass[q[2]], inverse_mass[q[3]])
                meet_in_block(TURNS - 1 - turn)
        meet(arrivals)
    if offsets[COLOURS + 1] > offsets[COLOURS]:
        if t == 0:
            for s in range(offsets[COLOURS], offsets[COLOURS + 1]):
                solve_stencil(s, vertices, weights, normals, speeds, friction, inverse_mass, push, drag, v)
        meet(arrivals)


@wp.kernel(launch_bounds=BLOCK)
def solve_together(
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
):
    """Sweeps over all rows: first those that lie in the order of their colours, then the others."""
    t = first + wp.tid()
    for _sweep in range(sweeps):
        if on_card():
            if placed > 0:
                sweep_on_card(
                    t, threads, arrivals, placed_offsets, vertices, weights, normals, speeds, friction, inverse_mass,
                    push, drag, v,
                )  # fmt: skip
        else:
            sweep_colours(
                t, threads, arrivals, placed_offsets, -1, order, vertices, weights, normals, speeds, friction,
                inverse_mass, push, drag, v,
            )  # fmt: skip
        if later != 0:
            sweep_colours(
                t, threads, arrivals, offsets, placed, order, vertices, weights, normals, speeds, friction, inverse_mass,
                push, drag, v,
            )  # fmt: skip


@wp.kernel
def put_in_order(
    first: int,
    order: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    distances: wp.array[wp.float64],
    vertices_out: wp.array[wp.vec4i],
    weights_out: wp.array[wp.vec4d],
    normals_out: wp.array[wp.vec3d],
    gaps_out: wp.array[wp.float64],
    thickness_out: wp.array[wp.float64],
    speeds_out: wp.array[wp.float64],
    friction_out: wp.array[wp.vec2d],
    distances_out: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
):
    """Move rows that have given no impulse yet to their places in the order, and find their gains."""
    k = first + wp.tid()
    i = order[k]
    q = vertices[i]
    w = weights[i]
    g = wp.vec4d(
        w[0] * inverse_mass[q[0]], w[1] * inverse_mass[q[1]], w[2] * inverse_mass[q[2]], w[3] * inverse_mass[q[3]]
    )
    total = wp.dot(w, g)
    gains[k] = wp.vec4d()
    if total > wp.float64(0.0):
        gains[k] = g / total
    vertices_out[k] = q
    weights_out[k] = w
    normals_out[k] = normals[i]
    gaps_out[k] = gaps[i]
    thickness_out[k] = thickness[i]
    speeds_out[k] = speeds[i]
    friction_out[k] = friction[i]
    distances_out[k] = distances[i]
