"""Kernels of position-based cloth: free motion, springs, hinges, velocities."""

import warp as wp

from weft.world.card import load_vec2i
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
    shared,
)

wp.set_module_options({"enable_backward": False})

# springs that a CPU gathers before it does them, eight side by side: it may look at so many behind the last one
LANES = 64
PADDING = 8
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


@wp.kernel
def prepare_springs(
    first: int,
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    lengths: wp.array[wp.float64],
    springs: wp.array2d[wp.float64],
):
    """What a spring needs in every substep: its length, its damping, and how far its ends go for each metre that it lacks.

    Compliance is 1/k, delay = damping / k; how long a substep is, is the first of `lengths`.
    """
    i = first + wp.tid()
    ma = inverse_mass[pairs[i][0]]
    mb = inverse_mass[pairs[i][1]]
    h = lengths[0]
    gamma = delay[i] / h
    given_way = (wp.float64(1.0) + gamma) * (ma + mb) + compliance[i] / (h * h)
    springs[0, i] = rest[i]
    springs[1, i] = gamma
    springs[2, i] = ma / given_way
    springs[3, i] = mb / given_way


@wp.func_native(
    f"""
    // only on a CPU
#if !defined(__CUDA_ARCH__)
    constexpr int lanes = {LANES};
    int p[lanes], q[lanes];
    double dx[lanes], dy[lanes], dz[lanes], mx[lanes], my[lanes], mz[lanes];
    double a[lanes], b[lanes];
    const size_t next = springs.strides[0] / sizeof(double);
    const double *rest = springs.data + begin, *damping = rest + next, *part_a = damping + next, *part_b = part_a + next;
    // up to a whole number of lanes, the last one again and again, which then nobody takes
    const int whole = (count + {PADDING} - 1) / {PADDING} * {PADDING};
    #pragma clang loop vectorize(disable)
    for (int k = 0; k < whole; ++k) {{
        const int i = begin + (k < count ? k : count - 1);
        const auto pair = pairs.data[i];
        p[k] = pair[0], q[k] = pair[1];
        const auto &from = x.data[p[k]], &to = x.data[q[k]];
        const auto &was = before.data[p[k]], &was_to = before.data[q[k]];
        dx[k] = to[0] - from[0], dy[k] = to[1] - from[1], dz[k] = to[2] - from[2];
        mx[k] = (to[0] - was_to[0]) - (from[0] - was[0]);
        my[k] = (to[1] - was_to[1]) - (from[1] - was[1]);
        mz[k] = (to[2] - was_to[2]) - (from[2] - was[2]);
    }}
    for (int k = 0; k < whole; ++k) {{
        const double length = sqrt(dx[k] * dx[k] + dy[k] * dy[k] + dz[k] * dz[k]);
        const double part = length > 0.0 ? 1.0 / length : 0.0;
        const double moved = part * (dx[k] * mx[k] + dy[k] * my[k] + dz[k] * mz[k]);
        const double step = part * (length - rest[k] + damping[k] * moved);
        a[k] = part_a[k] * step, b[k] = part_b[k] * step;
    }}
    #pragma clang loop vectorize(disable)
    for (int k = 0; k < count; ++k) {{
        auto &from = x.data[p[k]], &to = x.data[q[k]];
        from[0] += a[k] * dx[k], from[1] += a[k] * dy[k], from[2] += a[k] * dz[k];
        to[0] -= b[k] * dx[k], to[1] -= b[k] * dy[k], to[2] -= b[k] * dz[k];
    }}
#endif
    """
)
def stretch_some(
    begin: int,
    count: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array2d[wp.float64],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """Distance springs of one colour, at most `LANES` of them: the vector units of a CPU do them in one go."""
    ...


@wp.func
def stretch_on_card(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    springs: wp.array2d[wp.float64],
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
    spring = wp.vec4d(springs[0, k], springs[1, k], springs[2, k], springs[3, k])
    meet(arrivals)
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
        next_spring = wp.vec4d(springs[0, k], springs[1, k], springs[2, k], springs[3, k])

        d = b - a
        length = wp.length(d)
        if there and length > wp.float64(0.0):
            part = wp.float64(1.0) / length
            moved = part * wp.dot(d, (b - b0) - (a - a0))
            step = part * (length - spring[0] + spring[1] * moved)
            x[p[0]] = a + (spring[2] * step) * d
            x[p[1]] = b - (spring[3] * step) * d

        meets = crosses and colour < colours
        ticket = arrive(arrivals, meets, size, next_size)
        p = next_p
        spring = next_spring
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


@shared
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
    springs: wp.array2d[wp.float64],
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
    per_h = wp.float64(1.0) / h
    for i in range(share_begin(t, threads, count), share_end(t, threads, count), share_step(threads, count)):
        if again == 1:
            v[i] = per_h * (x[i] - before[i])
        predict_vertex(i, inverse_mass, push, gravity, air_damping, h, x, v, before)
    if on_card():
        if colours > 0:
            stretch_on_card(t, threads, arrivals, colours, offsets, pairs, springs, before, x)
    else:
        end = offsets[0]
        for colour in range(colours):
            meet(arrivals)
            begin = end
            end = offsets[colour + 1]
            first_i = begin + share_begin(t, threads, end - begin)
            last_i = begin + share_end(t, threads, end - begin)
            for i in range(first_i, last_i, LANES):
                stretch_some(i, wp.min(LANES, last_i - i), pairs, springs, before, x)


@shared
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
