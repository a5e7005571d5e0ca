"""Kernels of position-based cloth: free motion, springs, hinges, velocities."""

import warp as wp

from weft.world.card import divided, load_vec2i
from weft.world.together import (
    BLOCK,
    arrive,
    await_others,
    meet,
    meet_between,
    on_card,
    share_begin,
    share_end,
    share_rounds,
    share_step,
)

wp.set_module_options({"enable_backward": False})

# so much more strain asks for as many substeps again
STRAIN_STEP = wp.constant(wp.float64(0.008))


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
    push: wp.array[wp.vec3d],
    guess: wp.array[wp.vec3d],
):
    """Acceleration by wind, held for the step, and where each vertex would be at its end."""
    i = first + wp.tid()
    if inverse_mass[i] == wp.float64(0.0):
        push[i] = wp.vec3d()
        guess[i] = target[i]
        return
    force = wp.vec3d()
    for s in range(face_offsets[i], face_offsets[i + 1]):
        force += face_force[face_items[s] // 3]
    push[i] = inverse_mass[i] * force
    guess[i] = x[i] + dt * v[i]


@wp.func
def pull_quad(
    i: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    rest: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    damping: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    dt: wp.float64,
    x: wp.array[wp.vec3d],
    guess: wp.array[wp.vec3d],
):
    """A hinge or a stitch: three constraints r = 0 (or one, |r| = rest), with gradients w."""
    q = quads[i]
    w = weights[i]
    m0 = inverse_mass[q[0]]
    m1 = inverse_mass[q[1]]
    m2 = inverse_mass[q[2]]
    m3 = inverse_mass[q[3]]
    a = guess[q[0]]
    b = guess[q[1]]
    c = guess[q[2]]
    d = guess[q[3]]
    r = w[0] * a + w[1] * b + w[2] * c + w[3] * d
    back = r
    if rest[i] > wp.float64(0.0):
        back = (wp.float64(1.0) - rest[i] / wp.max(wp.length(r), wp.float64(1.0e-30))) * r
    # damping resists the change of r over the step
    gamma = damping[i] / (stiffness[i] * dt)
    moved = r - (w[0] * x[q[0]] + w[1] * x[q[1]] + w[2] * x[q[2]] + w[3] * x[q[3]])
    total = w[0] * w[0] * m0 + w[1] * w[1] * m1 + w[2] * w[2] * m2 + w[3] * w[3] * m3
    compliance = wp.float64(1.0) / (stiffness[i] * dt * dt)
    step = -(back + gamma * moved) / ((wp.float64(1.0) + gamma) * total + compliance)
    # colours leave out vertices without weight, and a stitch names its last vertex twice: those belong to others
    if w[0] != wp.float64(0.0):
        guess[q[0]] = a + (w[0] * m0) * step
    if w[1] != wp.float64(0.0):
        guess[q[1]] = b + (w[1] * m1) * step
    if w[2] != wp.float64(0.0):
        guess[q[2]] = c + (w[2] * m2) * step
    if w[3] != wp.float64(0.0):
        guess[q[3]] = d + (w[3] * m3) * step


@wp.kernel
def take_bending(
    first: int,
    x: wp.array[wp.vec3d],
    guess: wp.array[wp.vec3d],
    dt: wp.float64,
    x_out: wp.array[wp.vec3d],
    v_out: wp.array[wp.vec3d],
):
    """The velocity that contains the step's bending; a pinned vertex gets the velocity of its way."""
    i = first + wp.tid()
    x_out[i] = x[i]
    v_out[i] = (guess[i] - x[i]) / dt


@wp.func
def predict_vertex(
    i: int,
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    h: wp.float64,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    before: wp.array[wp.vec3d],
):
    """Free motion of a vertex over a substep."""
    before[i] = x[i]
    vi = v[i]
    if inverse_mass[i] != wp.float64(0.0):
        vi += h * (gravity + push[i] - air_damping * vi)
    x[i] = x[i] + h * vi


@wp.func
def spring_yield(
    ma: wp.float64, mb: wp.float64, compliance: wp.float64, gamma: wp.float64, h: wp.float64
) -> wp.float64:
    """How much a spring's ends give way to a unit of pull over a substep."""
    return (wp.float64(1.0) + gamma) * (ma + mb) + compliance / (h * h)


@wp.func
def stretch_pair(
    i: int,
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    h: wp.float64,
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """A distance spring; compliance 1/k, delay = damping / k."""
    p = pairs[i]
    a = x[p[0]]
    b = x[p[1]]
    ma = inverse_mass[p[0]]
    mb = inverse_mass[p[1]]
    d = b - a
    length = wp.length(d)
    if length > wp.float64(0.0) and ma + mb > wp.float64(0.0):
        n = divided(d, length)
        gamma = delay[i] / h
        moved = wp.dot(n, (b - before[p[1]]) - (a - before[p[0]]))
        step = (length - rest[i] + gamma * moved) / spring_yield(ma, mb, compliance[i], gamma, h)
        x[p[0]] = a + (ma * step) * n
        x[p[1]] = b - (mb * step) * n


@wp.func
def stretch_on_card(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    h: wp.float64,
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """All springs after a meeting, with the next one of each thread loaded while threads wait for each other."""
    colour = int(0)
    begin = offsets[0]
    end = offsets[1]
    i = begin + share_begin(t, threads, end - begin)
    left = share_rounds(threads, end - begin)
    k = wp.min(i, end - 1)
    p = load_vec2i(pairs, k)
    length_now = rest[k]
    soft = compliance[k]
    gamma = delay[k]
    meet(arrivals)
    ma = inverse_mass[p[0]]
    mb = inverse_mass[p[1]]
    a0 = before[p[0]]
    b0 = before[p[1]]
    while colour < colours:
        following = offsets[wp.min(colour + 2, colours)]
        a = x[p[0]]
        b = x[p[1]]
        there = i < end
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
        next_p = load_vec2i(pairs, k)
        next_length = rest[k]
        next_soft = compliance[k]
        next_gamma = delay[k]

        # what needs no position, while positions are on their way
        gamma = gamma / h
        given_way = spring_yield(ma, mb, soft, gamma, h)
        d = b - a
        length = wp.length(d)
        if there and length > wp.float64(0.0) and ma + mb > wp.float64(0.0):
            n = divided(d, length)
            moved = wp.dot(n, (b - b0) - (a - a0))
            step = (length - length_now + gamma * moved) / given_way
            x[p[0]] = a + (ma * step) * n
            x[p[1]] = b - (mb * step) * n

        meets = crosses and colour < colours
        ticket = arrive(arrivals, meets, size, next_size)
        p = next_p
        length_now = next_length
        soft = next_soft
        gamma = next_gamma
        ma = inverse_mass[p[0]]
        mb = inverse_mass[p[1]]
        a0 = before[p[0]]
        b0 = before[p[1]]
        await_others(arrivals, meets, size, next_size, ticket)


@wp.kernel
def find_velocity(first: int, h: wp.float64, x: wp.array[wp.vec3d], before: wp.array[wp.vec3d], v: wp.array[wp.vec3d]):
    """The velocity is what the substep made of the positions."""
    i = first + wp.tid()
    v[i] = (x[i] - before[i]) / h


@wp.kernel
def find_worst_edges(
    first: int,
    count: int,
    lookers: int,
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    h: wp.float64,
    largest_change: wp.float64,
    largest_strain: wp.float64,
    worst: wp.array[wp.float64],
):
    """How far some of the springs are beyond what a substep of h can do with them: 1 is just right."""
    i = first + wp.tid()
    found = wp.float64(0.0)
    for k in range(i, count, lookers):
        p = pairs[k]
        change = h * wp.length(v[p[1]] - v[p[0]]) / rest[k]
        strain = wp.length(x[p[1]] - x[p[0]]) / rest[k] - wp.float64(1.0)
        off = wp.float64(1.0) + (wp.abs(strain) - largest_strain) / STRAIN_STEP
        found = wp.max(found, wp.max(change / largest_change, off))
    wp.atomic_max(worst, i % worst.shape[0], found)


@wp.kernel(launch_bounds=BLOCK)
def substep_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    again: int,
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    lengths: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    before: wp.array[wp.vec3d],
):
    """Free motion over a substep, after the velocity of the last one where there was one; then all springs.

    How long a substep is, is the first of `lengths`.
    """
    t = first + wp.tid()
    h = lengths[0]
    for i in range(share_begin(t, threads, count), share_end(t, threads, count), share_step(threads, count)):
        if again == 1:
            v[i] = (x[i] - before[i]) / h
        predict_vertex(i, inverse_mass, push, gravity, air_damping, h, x, v, before)
    if on_card():
        if colours > 0:
            stretch_on_card(
                t, threads, arrivals, colours, offsets, pairs, rest, compliance, delay, inverse_mass, h, before, x
            )  # fmt: skip
    else:
        end = offsets[0]
        for colour in range(colours):
            meet(arrivals)
            begin = end
            end = offsets[colour + 1]
            first_i = begin + share_begin(t, threads, end - begin)
            last_i = begin + share_end(t, threads, end - begin)
            for i in range(first_i, last_i, share_step(threads, end - begin)):
                stretch_pair(i, pairs, rest, compliance, delay, inverse_mass, h, before, x)


@wp.kernel(launch_bounds=BLOCK)
def pull_together(
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
    inverse_mass: wp.array[wp.float64],
    dt: wp.float64,
    x: wp.array[wp.vec3d],
    guess: wp.array[wp.vec3d],
):
    """All colours of hinges or stitches."""
    t = first + wp.tid()
    begin = offsets[0]
    end = offsets[wp.min(1, colours)]
    for colour in range(colours):
        following = end
        if colour + 1 < colours:
            following = offsets[colour + 2]
        first_i = begin + share_begin(t, threads, end - begin)
        last_i = begin + share_end(t, threads, end - begin)
        for i in range(first_i, last_i, share_step(threads, end - begin)):
            pull_quad(i, quads, weights, rest, stiffness, damping, inverse_mass, dt, x, guess)
        if colour + 1 < colours:
            meet_between(arrivals, end - begin, following - end)
        begin = end
        end = following
