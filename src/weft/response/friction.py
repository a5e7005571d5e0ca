"""Coulomb friction with separate static and kinetic coefficients (Bridson et al. 2002, section 7.3).

The tangential impulse that would stop the sliding is taken whole while it stays within static friction, mu_s times the
normal impulse; past that the pair slides and gets kinetic friction, mu_k times the normal impulse, against the sliding.
"""

import warp as wp

from weft.world.card import divided

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
    wanted = before - divided(sliding, inverse_mass)
    size = wp.length(wanted)
    if size <= static * push:
        return wanted
    return (kinetic * push / size) * wanted
