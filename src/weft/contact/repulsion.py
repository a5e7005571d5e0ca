"""Repulsion: how fast the two sides of a contact must part (Bridson et al. 2002, section 7.2).

Given the gap g at the start of a step and the thickness h, a pair nearer than h stops approaching and is pushed apart
like a spring of stiffness k, but never faster than a tenth of the overlap a step: contacts that are pushed out at once
jitter. A pair farther apart than h may approach until h is reached at the end of the step (a speculative contact):
resting cloth then lies exactly at the thickness, and most collisions never come about.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

# part of the overlap that a step may remove from a contact
LARGEST_PART = 0.1


@wp.func
def parting_speed(
    gap: wp.float64,
    thickness: wp.float64,
    part: wp.float64,
    dt: wp.float64,
    stiffness: wp.float64,
    inverse_mass: wp.float64,
) -> wp.float64:
    """The least relative normal velocity that a contact accepts over a step of dt.

    `part` is the part of an overlap that may be removed, `stiffness` that of the spring in N/m, `inverse_mass` the
    stencil's W: the spring's impulse dt k d changes the normal velocity by dt k d W.
    """
    overlap = thickness - gap
    if overlap <= wp.float64(0.0):
        return overlap / dt
    return wp.min(part * overlap / dt, dt * stiffness * overlap * inverse_mass)


@wp.func
def kept_distance(gap: wp.float64, thickness: wp.float64, part: wp.float64) -> wp.float64:
    """The gap that a contact keeps during a step: its thickness, or a little more than it has now."""
    return wp.min(thickness, gap + part * wp.max(thickness - gap, wp.float64(0.0)))


@wp.kernel
def set_repulsion(
    first: int,
    offset: int,
    sizes: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    vertex_body: wp.array[int],
    sticking: wp.array2d[wp.float64],
    sliding: wp.array2d[wp.float64],
    rest: wp.array[wp.vec3d],
    folds: wp.array[wp.float64],
    part: wp.float64,
    stiffness: wp.float64,
    dt: wp.float64,
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
):
    """What each contact asks of the velocities, before any impulse is given, and the gap that it keeps in substeps.

    `folds` has a length for each body: pairs of it that are nearer to each other along the cloth do not rub.
    """
    i = offset + first + wp.tid()
    if i >= sizes[0]:
        return
    q = vertices[i]
    w = weights[i]
    total = wp.float64(0.0)
    for k in range(4):
        total += w[k] * w[k] * inverse_mass[q[k]]
    speeds[i] = parting_speed(gaps[i], thickness[i], part, dt, stiffness, total)
    distances[i] = kept_distance(gaps[i], thickness[i], part)
    # corners 0 and 3 are on different sides in both kinds of stencils
    a = vertex_body[q[0]]
    b = vertex_body[q[3]]
    friction[i] = wp.vec2d(sticking[a, b], sliding[a, b])
    if a == b:
        # creases of a few edges would lock for ever if they rubbed
        along = w[0] * rest[q[0]] + w[1] * rest[q[1]] + w[2] * rest[q[2]] + w[3] * rest[q[3]]
        if wp.length(along) < folds[a]:
            friction[i] = wp.vec2d()
    push[i] = wp.float64(0.0)
    drag[i] = wp.vec3d()
