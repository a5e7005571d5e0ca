"""Repulsion: how fast the two sides of a contact must part (Bridson et al. 2002, section 7.2).

Given the gap g at the start of a step and the thickness h, a pair nearer than h stops approaching and is pushed apart
like a spring of stiffness k, but never faster than a tenth of the overlap a step: contacts that are pushed out at once
jitter. A pair farther apart than h may approach until h is reached at the end of the step (a speculative contact):
resting cloth then lies exactly at the thickness, and most collisions never come about.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

# part of the overlap that a step may remove
LARGEST_PART = wp.constant(wp.float64(0.1))


@wp.func
def parting_speed(
    gap: wp.float64, thickness: wp.float64, dt: wp.float64, stiffness: wp.float64, inverse_mass: wp.float64
) -> wp.float64:
    """The least relative normal velocity that a contact accepts over a step of dt.

    `stiffness` is that of the spring in N/m, `inverse_mass` the stencil's W: the spring's impulse dt k d changes the
    normal velocity by dt k d W.
    """
    overlap = thickness - gap
    if overlap <= wp.float64(0.0):
        return overlap / dt
    return wp.min(LARGEST_PART * overlap / dt, dt * stiffness * overlap * inverse_mass)
