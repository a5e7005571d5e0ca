"""Sweeps of impulses over the colours of stencils, for all threads together.

Velocities lie beside inverse masses in rows of four numbers, which one or two loads copy_to_host.
"""

import warp as wp

from weft.contact.active_masks import rows_below_or_given
from weft.contact.colour_words import COLOURS
from weft.contact.friction import impulse_of
from weft.contact.gauss_seidel import make_sweep
from weft.dynamics.packed_vertices import first_three
from weft.runtime.cooperative import BLOCK, barrier_between, grid_barrier
from weft.runtime.partition import partition_begin, partition_end, partition_step
from weft.runtime.vector_loads import load_vec2d, load_vec4d, load_vec4i, store_vec4d

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


@wp.struct
class Rows:
    """Stencils with what they ask for and the impulses that they have given."""

    vertices: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    normals: wp.array[wp.vec3d]
    speeds: wp.array[wp.float64]
    friction: wp.array[wp.vec2d]
    push: wp.array[wp.float64]
    drag: wp.array[wp.vec3d]


@wp.struct
class Row:
    """A stencil of which all is known but how fast its corners are now."""

    q: wp.vec4i
    w: wp.vec4d
    n: wp.vec3d
    speed: wp.float64
    mu: wp.vec2d
    push: wp.float64
    drag: wp.vec3d


@wp.func
def load_row(i: int, q: wp.vec4i, rows: Rows) -> Row:
    """Row i, whose corners are known."""
    row = Row()
    row.q = q
    row.w = load_vec4d(rows.weights, i)
    row.n = rows.normals[i]
    row.speed = rows.speeds[i]
    row.mu = load_vec2d(rows.friction, i)
    row.push = rows.push[i]
    row.drag = rows.drag[i]
    return row


@wp.func
def solve_row(i: int, there: bool, row: Row, rows: Rows, p: wp.array[wp.vec4d]):
    """Bring a pair, if there is one, to its least normal velocity, then apply friction."""
    q = row.q
    w = row.w
    a = load_vec4d(p, q[0])
    b = load_vec4d(p, q[1])
    c = load_vec4d(p, q[2])
    d = load_vec4d(p, q[3])
    # velocity that each corner gains from a unit impulse
    g = wp.vec4d(w[0] * a[3], w[1] * b[3], w[2] * c[3], w[3] * d[3])
    total = w[0] * g[0] + w[1] * g[1] + w[2] * g[2] + w[3] * g[3]
    u = w[0] * first_three(a) + w[1] * first_three(b) + w[2] * first_three(c) + w[3] * first_three(d)
    normal_speed = wp.dot(row.n, u)
    if there and total > ZERO and (row.push != ZERO or normal_speed < row.speed):
        push, drag, impulse = impulse_of(row.push, row.speed, u, normal_speed, row.n, total, row.mu, row.drag)
        rows.push[i] = push
        rows.drag[i] = drag
        # a corner without weight stands for nothing, and one that cannot move is shared
        if g[0] != ZERO:
            store_vec4d(p, q[0], first_three(a) + g[0] * impulse, a[3])
        if g[1] != ZERO:
            store_vec4d(p, q[1], first_three(b) + g[1] * impulse, b[3])
        if g[2] != ZERO:
            store_vec4d(p, q[2], first_three(c) + g[2] * impulse, c[3])
        if g[3] != ZERO:
            store_vec4d(p, q[3], first_three(d) + g[3] * impulse, d[3])


@wp.func
def solve_at(i: int, rows: Rows, p: wp.array[wp.vec4d]):
    """The same for a row of which nothing is known yet."""
    solve_row(i, True, load_row(i, load_vec4i(rows.vertices, i), rows), rows, p)


@wp.func
def busy_rows(i: int, count: int, rows: Rows, p: wp.array[wp.vec4d]) -> wp.uint64:
    """Which of so many rows from i on approach too fast, or have given something, which they may take back."""
    return rows_below_or_given(i, count, rows.vertices, rows.weights, rows.normals, rows.speeds, p, rows.push)


sweep_placed = make_sweep(load_row, solve_row, busy_rows)


@wp.func
def sweep_uncoloured(t: int, arrivals: wp.array[int], begin: int, end: int, rows: Rows, p: wp.array[wp.vec4d]):
    """One sweep over the rows that found no colour, one after another."""
    if end > begin:
        if t == 0:
            for i in range(begin, end):
                solve_at(i, rows, p)
        grid_barrier(arrivals)


@wp.func
def sweep_later(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    placed: int,
    offsets: wp.array[int],
    order: wp.array[int],
    rows: Rows,
    p: wp.array[wp.vec4d],
):
    """One sweep over the rows that came after the placed ones, in an order of their own."""
    begin = offsets[0]
    end = offsets[1]
    colour = int(0)
    while colour < COLOURS and end > begin:
        following = offsets[colour + 2]
        first_k = begin + partition_begin(t, threads, end - begin)
        last_k = begin + partition_end(t, threads, end - begin)
        for k in range(first_k, last_k, partition_step(threads, end - begin)):
            solve_at(placed + order[k], rows, p)
        barrier_between(arrivals, end - begin, following - end)
        begin = end
        end = following
        colour += 1
    if colour == COLOURS and end > begin:
        if t == 0:
            for k in range(begin, end):
                solve_at(placed + order[k], rows, p)
        grid_barrier(arrivals)


@wp.func
def take_velocities(
    t: int, threads: int, v: wp.array[wp.vec3d], inverse_mass: wp.array[wp.float64], p: wp.array[wp.vec4d]
):
    """Write velocities and inverse masses into rows."""
    count = p.shape[0]
    for i in range(
        partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
    ):
        store_vec4d(p, i, v[i], inverse_mass[i])


@wp.func
def give_velocities(t: int, threads: int, p: wp.array[wp.vec4d], v: wp.array[wp.vec3d]):
    """Take them back."""
    count = p.shape[0]
    for i in range(
        partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
    ):
        v[i] = first_three(load_vec4d(p, i))


@wp.func
def gather_rows(
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
) -> Rows:
    rows = Rows()
    rows.vertices = vertices
    rows.weights = weights
    rows.normals = normals
    rows.speeds = speeds
    rows.friction = friction
    rows.push = push
    rows.drag = drag
    return rows


@wp.kernel(launch_bounds=BLOCK)
def solve_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sweeps: int,
    placed_offsets: wp.array[int],
    later: int,
    offsets: wp.array[int],
    order: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """Sweeps over all rows: first those that lie in the order of their colours, then the others."""
    t = first + wp.tid()
    placed = placed_offsets[COLOURS + 1]
    rows = gather_rows(vertices, weights, normals, speeds, friction, push, drag)
    take_velocities(t, threads, v, inverse_mass, p)
    grid_barrier(arrivals)
    for _sweep in range(sweeps):
        if placed > 0:
            sweep_placed(t, threads, arrivals, placed_offsets, rows, p)
            sweep_uncoloured(t, arrivals, placed_offsets[COLOURS], placed, rows, p)
        if later != 0:
            sweep_later(t, threads, arrivals, placed, offsets, order, rows, p)
    give_velocities(t, threads, p, v)


@wp.kernel
def put_in_order(
    first: int,
    sizes: wp.array[int],
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
    if k >= sizes[0]:
        return
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
