"""Coulomb friction with static and kinetic coefficients, on velocities and on positions (Bridson et al. 2002, section 7.3).

While the tangential impulse that would stop the sliding is at most mu_s times the normal impulse, it is applied whole and
the contact sticks. Beyond that the contact slides, and friction is mu_k times the normal impulse against the sliding. In
the substeps of position-based dynamics the same holds for displacements: the depth by which two sides are moved apart
takes the place of the normal impulse.
"""

import warp as wp

from weft.runtime.vector_loads import divide

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# a contact counts as touching at the start of a step if its gap is below this many times the distance that it keeps
TOUCHING_FACTOR = wp.constant(wp.float64(1.1))


@wp.func
def friction_impulse(
    before: wp.vec3d,
    sliding: wp.vec3d,
    inverse_mass: wp.float64,
    normal_impulse: wp.float64,
    static: wp.float64,
    kinetic: wp.float64,
) -> wp.vec3d:
    """The contact's accumulated tangential impulse, updated for the sliding velocity that is left.

    `before` is the tangential impulse given so far, `normal_impulse` the accumulated normal one (not negative),
    `inverse_mass` the stencil's W.
    """
    wanted = before - divide(sliding, inverse_mass)
    size = wp.length(wanted)
    if size <= static * normal_impulse:
        return wanted
    return (kinetic * normal_impulse / size) * wanted


@wp.func
def contact_impulse(
    given: wp.float64,
    least_speed: wp.float64,
    u: wp.vec3d,
    normal_speed: wp.float64,
    n: wp.vec3d,
    inverse_mass: wp.float64,
    mu: wp.vec2d,
    before: wp.vec3d,
):
    """New accumulated normal and tangential impulse of a contact with relative velocity u, and the change of their sum.

    `given` and `before` are the accumulated impulses so far, `mu` the static and kinetic coefficient.
    """
    # the accumulated normal impulse may shrink, but never pull
    now = wp.max(given + (least_speed - normal_speed) / inverse_mass, ZERO)
    impulse = (now - given) * n
    after = before
    if mu[0] > ZERO:
        sliding = u - normal_speed * n
        after = friction_impulse(before, sliding, inverse_mass, now, mu[0], mu[1])
        # the normal may have turned since the impulse was given: keep the tangential component only
        after = after - wp.dot(n, after) * n
        impulse += after - before
    return now, after, impulse


@wp.func
def touched_at_start(gap: wp.float64, distance: wp.float64) -> bool:
    """Whether a contact that keeps this distance touched when the step started.

    Then sliding is measured from the start of the step: what friction lets slip in one substep, it pulls back in the
    next, and resting layers do not creep. A contact that closes during the step has slid freely before; its sliding is
    measured from the start of the substep.
    """
    return gap < TOUCHING_FACTOR * distance


@wp.func
def contact_correction(depth: wp.float64, n: wp.vec3d, r: wp.vec3d, r_before: wp.vec3d, mu: wp.vec2d) -> wp.vec3d:
    """The relative displacement that moves two sides apart by `depth` and, within friction, back from r to `r_before`."""
    slide = r - r_before
    slide = slide - wp.dot(slide, n) * n
    # a sticking contact needs no square root, which would take long where a thread has nothing else to do meanwhile
    squared = wp.length_sq(slide)
    held = mu[0] * depth
    fraction = ONE
    if squared > held * held:
        fraction = mu[1] * depth / wp.sqrt(squared)
    return depth * n - fraction * slide
