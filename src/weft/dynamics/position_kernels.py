"""Kernels of position-based cloth: free motion, springs, hinges, velocities."""

import warp as wp

from weft.dynamics.yarn_kernels import stretch_rows
from weft.world.together import (
    BLOCK,
    meet,
    meet_between,
    share_begin,
    share_end,
    share_step,
    shared,
)

wp.set_module_options({"enable_backward": False})


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
    compliance: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    h: wp.float64,
    places: int,
    worst: wp.array[wp.float64],
):
    """By how much some of the springs change in h at most, and by how much they are off their lengths, in parts of these:
    the worst ones go to as many places each.

    What a spring gives way by its own compliance is no fault of a substep, so strain counts as far as masses hold it.
    """
    i = first + wp.tid()
    place = i % places
    change = wp.float64(0.0)
    off = wp.float64(0.0)
    for k in range(i, count, lookers):
        p = pairs[k]
        if p[0] >= 0:
            change = wp.max(change, h * wp.length(v[p[1]] - v[p[0]]) / rest[k])
            free = inverse_mass[p[0]] + inverse_mass[p[1]]
            part = free / (free + compliance[k] / (h * h))
            off = wp.max(off, part * wp.abs(wp.length(x[p[1]] - x[p[0]]) / rest[k] - wp.float64(1.0)))
    wp.atomic_max(worst, place, change)
    wp.atomic_max(worst, places + place, off)


@wp.kernel
def substep_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    again: int,
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    numbers: wp.array2d[wp.float64],
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    lengths: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    before: wp.array[wp.vec3d],
):
    """Free motion over a substep, after the velocity of the last one where there was one; then all springs. On a CPU.

    How long a substep is, is the first of `lengths`.
    """
    t = first + wp.tid()
    h = lengths[0]
    per_h = wp.float64(1.0) / h
    for i in range(share_begin(t, threads, count), share_end(t, threads, count), share_step(threads, count)):
        xi = x[i]
        vi = wp.vec3d()
        if again == 1:
            vi = per_h * (xi - before[i])
        else:
            vi = v[i]
        if inverse_mass[i] != wp.float64(0.0):
            vi += h * (gravity + push[i] - air_damping * vi)
        before[i] = xi
        x[i] = xi + h * vi
    end = offsets[0]
    for colour in range(colours):
        meet(arrivals)
        begin = end
        end = offsets[colour + 1]
        for i in range(begin + (end - begin) * t // threads, begin + (end - begin) * (t + 1) // threads):
            stretch_rows(i, pairs, numbers, before, x)


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
