"""Kernels of impulses over stencils: one pair, and sweeps over all colours of them."""

import warp as wp

from weft.detection.boxes import lowest_bit
from weft.response.friction import impulse_of
from weft.response.stencil_colours import COLOURS
from weft.response.stencil_masks import MOST, rows_below_or_given
from weft.world.together import meet, meet_between, share_begin, share_end, share_step

wp.set_module_options({"enable_backward": False})


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
    v[q[0]] = v0 + g[0] * impulse
    v[q[1]] = v1 + g[1] * impulse
    # stencils of fewer points name a vertex twice, the second time without weight
    if g[2] != wp.float64(0.0):
        v[q[2]] = v2 + g[2] * impulse
    if g[3] != wp.float64(0.0):
        v[q[3]] = v3 + g[3] * impulse


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


@wp.kernel
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
    """Sweeps over all rows: first those that lie in the order of their colours, then the others. On a CPU."""
    t = first + wp.tid()
    for _sweep in range(sweeps):
        sweep_colours(
            t, threads, arrivals, placed_offsets, -1, order, vertices, weights, normals, speeds, friction, inverse_mass,
            push, drag, v,
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
    vertices_out: wp.array[wp.vec4i],
    weights_out: wp.array[wp.vec4d],
    normals_out: wp.array[wp.vec3d],
    gaps_out: wp.array[wp.float64],
    thickness_out: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
):
    """Move rows to their places in the order, and find their gains."""
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
