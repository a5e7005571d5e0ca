"""Coulomb friction with separate static and kinetic coefficients (Bridson et al. 2002, section 7.3).

The tangential impulse that would stop the sliding is taken whole while it stays within static friction, mu_s times the
normal impulse; past that the pair slides and gets kinetic friction, mu_k times the normal impulse, against the sliding.
"""

import warp as wp

from weft.runtime.vector_loads import divide

wp.set_module_options({"enable_backward": False})


@wp.func
def friction_impulse(
    before: wp.vec3d,
    sliding: wp.vec3d,
    inverse_mass: wp.float64,
    push: wp.float64,
    static: wp.float64,
    kinetic: wp.float64,
) -> wp.vec3d:
    """The contact's tangential impulse so far, made right for the sliding velocity that is left.

    `before` is the impulse given already, `push` the normal impulse (not negative), `inverse_mass` the stencil's W.
    """
    wanted = before - divide(sliding, inverse_mass)
    size = wp.length(wanted)
    if size <= static * push:
        return wanted
    return (kinetic * push / size) * wanted


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
