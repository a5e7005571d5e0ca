"""Kernels of position-based cloth: free motion, springs, hinges, velocities. Vertices are packed (see `packed_vertices`)."""

import warp as wp

from weft.dynamics.packed_vertices import first_three, length_at
from weft.dynamics.position_based.spring_lines import (
    SpringSlots,
    load_slots,
    slots_at_once,
    solve_lines,
)
from weft.runtime.cooperative import (
    BLOCK,
    WARP,
    arrive_between,
    barrier_between,
    clusterable,
    grid_barrier,
    partition_begin,
    partition_end,
    partition_rounds,
    partition_step,
    wait_between,
)
from weft.runtime.native import load_vec4d, store_vec4d

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))


@wp.kernel
def start_step(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    target: wp.array[wp.vec3d],
    face_offsets: wp.array[int],
    face_items: wp.array[int],
    face_force: wp.array[wp.vec3d],
    dt: wp.float64,
    lengths: wp.array[wp.float64],
    wind: wp.array[wp.vec3d],
    push: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    v_start: wp.array[wp.vec3d],
):
    """Pack the vertices where they will be after half a substep (see `end_substeps`), whose length is in `lengths`.

    Find the acceleration by wind and the velocity at the start (of pinned vertices, to their target).
    """
    i = first + wp.tid()
    w = inverse_mass[i]
    force = wp.vec3d()
    speed = v[i]
    if w == ZERO:
        speed = (target[i] - x[i]) / dt
    else:
        for s in range(face_offsets[i], face_offsets[i + 1]):
            force += face_force[face_items[s] // 3]
    v_start[i] = speed
    store_vec4d(p, i, x[i] + (HALF * length_at(lengths, i)) * speed, w)
    wind[i] = w * force
    push[i] = w * force


@wp.kernel
def extrapolate_unbent(
    first: int,
    again: int,
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    lengths: wp.array[wp.float64],
    wind: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    delay: wp.array[wp.float64],
    dt: wp.float64,
    push: wp.array[wp.vec3d],
    ahead: wp.array[wp.vec4d],
):
    """Where vertices p will be after dt and their damping time `delay` without bending and springs.

    At first they have the velocity v, later that since `before`.

    Gravity belongs to it: what the bending of cloth at rest has to hold is foreseen, not found afterwards, too late by a step.
    """
    i = first + wp.tid()
    row = load_vec4d(p, i)
    speed = v[i]
    if again == 1:
        speed = first_three(row - load_vec4d(before, i)) / length_at(lengths, i)
    if row[3] != ZERO:
        speed += dt * (gravity + wind[i])
    push[i] = wind[i]
    store_vec4d(ahead, i, first_three(row) + (dt + delay[i]) * speed, row[3])


@wp.func
def pull_stencil(
    i: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    rest: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    damping: wp.array[wp.float64],
    dt: wp.float64,
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """XPBD on a stitch: three constraints r = 0 (or one, |r| <= rest), with gradients w; dt is the (sub)step."""
    q = quads[i]
    w = weights[i]
    a = load_vec4d(p, q[0])
    b = load_vec4d(p, q[1])
    c = load_vec4d(p, q[2])
    d = load_vec4d(p, q[3])
    sum_now = w[0] * a + w[1] * b + w[2] * c + w[3] * d
    sum_then = w[0] * before[q[0]] + w[1] * before[q[1]] + w[2] * before[q[2]] + w[3] * before[q[3]]
    r = first_three(sum_now)
    back = r
    if rest[i] > ZERO:
        # a seam that is drawn together is a thread: it pulls, and does not push
        if wp.length(r) <= rest[i]:
            return
        back = (ONE - rest[i] / wp.length(r)) * r
    # damping resists the change of r over the step
    gamma = damping[i] / (stiffness[i] * dt)
    moved = r - first_three(sum_then)
    total = w[0] * w[0] * a[3] + w[1] * w[1] * b[3] + w[2] * w[2] * c[3] + w[3] * w[3] * d[3]
    # a weld between vertices that are all held moves nothing, and has nothing to divide by
    if total == ZERO:
        return
    compliance = ONE / (stiffness[i] * dt * dt)
    step = -(back + gamma * moved) / ((ONE + gamma) * total + compliance)
    # a corner without weight may be another constraint's vertex of the same colour: it must not be written
    if w[0] != ZERO:
        store_vec4d(p, q[0], first_three(a) + (w[0] * a[3]) * step, a[3])
    if w[1] != ZERO:
        store_vec4d(p, q[1], first_three(b) + (w[1] * b[3]) * step, b[3])
    if w[2] != ZERO:
        store_vec4d(p, q[2], first_three(c) + (w[2] * c[3]) * step, c[3])
    if w[3] != ZERO:
        store_vec4d(p, q[3], first_three(d) + (w[3] * d[3]) * step, d[3])


@wp.kernel
def end_substeps(
    first: int,
    h: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
):
    """Unpack positions and velocities after the last substep, whose length is in `h`.

    A substep moves with the velocity at its end, so that the positions are those of half a substep later; the velocities are
    right. So the substeps of a step run from half a substep after its start to half a substep after its end. What falls
    freely falls exactly then, and the motion of all else is of second order.
    """
    i = first + wp.tid()
    row = load_vec4d(p, i)
    last = load_vec4d(before, i)
    x[i] = HALF * first_three(row + last)
    v[i] = first_three(row - last) / length_at(h, i)


@wp.func
def change_and_strain(
    p: wp.vec2i,
    rest: wp.float64,
    compliance: wp.float64,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    h: wp.float64,
) -> wp.vec2d:
    """The relative change of length of an edge in a substep h, and its strain (see `find_worst_edges`)."""
    free = inverse_mass[p[0]] + inverse_mass[p[1]]
    rigid = free / (free + compliance / (h * h))
    return wp.vec2d(
        h * wp.length(v[p[1]] - v[p[0]]) / rest,
        rigid * wp.abs(wp.length(x[p[1]] - x[p[0]]) / rest - wp.float64(1.0)),
    )


@wp.kernel
def find_worst_edges(
    first: int,
    count: int,
    stride: int,
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    h: wp.float64,
    places: int,
    worst: wp.array[wp.float64],
):
    """The largest relative change of length in a substep h, and the largest strain, over the springs of each thread.

    Thread i looks at every `stride`-th slot and keeps the maxima at place i % places of the two halves of `worst`. Strain that
    a spring shows because of its own compliance is no error of the solver, so strain is scaled by how much of it
    the masses account for in XPBD.
    """
    i = first + wp.tid()
    place = i % places
    change = wp.float64(0.0)
    strain = wp.float64(0.0)
    for k in range(i, count, stride):
        p = pairs[k]
        if p[0] >= 0:
            found = change_and_strain(p, rest[k], compliance[k], inverse_mass, x, v, h)
            change = wp.max(change, found[0])
            strain = wp.max(strain, found[1])
    wp.atomic_max(worst, place, change)
    wp.atomic_max(worst, places + place, strain)


@wp.func
def predict_vertex(
    i: int,
    again: int,
    push: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    h: wp.float64,
    per_h: wp.float64,
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
):
    """Free motion of a vertex over a substep h = 1 / per_h: with velocity v in the first one, else that of the last."""
    row = load_vec4d(p, i)
    x = first_three(row)
    speed = wp.vec3d()
    if again == 1:
        speed = per_h * first_three(row - load_vec4d(before, i))
    else:
        speed = v[i]
    if row[3] != ZERO:
        speed += h * (gravity + push[i] - air_damping * speed)
    store_vec4d(before, i, x, row[3])
    store_vec4d(p, i, x + h * speed, row[3])


@wp.func
def whole_batches(i: int) -> int:
    """i rounded down to an item at which a thread may start."""
    return i // slots_at_once() * slots_at_once()


@wp.func
def turns(threads: int, count: int) -> int:
    """How many times the busiest of the threads solves lines in a colour of so many items."""
    return (partition_rounds(threads, count) + slots_at_once() - 1) // slots_at_once()


@clusterable
@wp.kernel(launch_bounds=(BLOCK, 1))
def advance_substep(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    again: int,
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    rests: wp.array[wp.float64],
    elastics: wp.array[wp.float64],
    softness: wp.array[wp.float64],
    pushes: wp.array[wp.float64],
    blocks: wp.array[int],
    push: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    lengths: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
):
    """Free motion over a substep; then all lines of springs, colour by colour. `lengths` has one length, or one a vertex.

    A cooperative kernel, whose items are those of `slots_at_once`. A thread loads its next springs before the barrier between
    two colours, to hide the latency. All threads of a warp, which solve a batch together, take the same branches.
    """
    t = first + wp.tid()
    h = lengths[0]
    per_h = ONE / h
    for i in range(
        partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
    ):
        if lengths.shape[0] > 1:
            h = lengths[i]
            per_h = ONE / h
        predict_vertex(i, again, push, gravity, air_damping, h, per_h, v, p, before)
    if colours == 0:
        return
    slots = SpringSlots()
    slots.pairs = pairs
    slots.rests = rests
    slots.elastics = elastics
    slots.softness = softness
    slots.pushes = pushes
    slots.blocks = blocks
    colour = int(0)
    begin = offsets[0]
    end = offsets[1]
    i = begin + whole_batches(partition_begin(t, threads, end - begin))
    left = turns(threads, end - begin)
    springs = load_slots(wp.min(i, end - WARP + t % WARP), slots)
    grid_barrier(arrivals)
    while colour < colours:
        following = offsets[wp.min(colour + 2, colours)]
        size = end - begin
        next_size = following - end
        there = i < begin + whole_batches(partition_end(t, threads, size))
        # the thread's next springs in this colour, or its first in the next colour; a thread without any loads the last batch
        left -= 1
        crosses = left == 0
        i += slots_at_once() * partition_step(threads, size)
        if crosses:
            begin = end
            end = following
            colour += 1
            i = begin + whole_batches(partition_begin(t, threads, next_size))
            left = turns(threads, next_size)
        next_springs = load_slots(wp.min(i, end - WARP + t % WARP), slots)

        if there and springs.blocks > 0:
            solve_lines(springs, slots, False, before, p)

        last_turn = crosses and colour < colours
        ticket = arrive_between(arrivals, last_turn, size, next_size)
        springs = next_springs
        wait_between(arrivals, last_turn, size, next_size, ticket)


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def pull_stencils(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    colours: int,
    offsets: wp.array[int],
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    rest: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    damping: wp.array[wp.float64],
    dt: wp.float64,
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """One Gauss-Seidel sweep over stitches, colour by colour. A cooperative kernel."""
    t = first + wp.tid()
    begin = offsets[0]
    end = offsets[wp.min(1, colours)]
    for colour in range(colours):
        following = end
        if colour + 1 < colours:
            following = offsets[colour + 2]
        first_i = begin + partition_begin(t, threads, end - begin)
        last_i = begin + partition_end(t, threads, end - begin)
        for i in range(first_i, last_i, partition_step(threads, end - begin)):
            pull_stencil(i, quads, weights, rest, stiffness, damping, dt, before, p)
        if colour + 1 < colours:
            barrier_between(arrivals, end - begin, following - end)
        begin = end
        end = following
