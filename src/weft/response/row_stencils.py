"""Stencils whose vertices are rows (x, y, z, inverse mass) or (velocity, inverse mass), as a card has them."""

import warp as wp

from weft.response.parting import touched
from weft.world.card import load_vec4d

wp.set_module_options({"enable_backward": False})


@wp.func
def place_of(row: wp.vec4d) -> wp.vec3d:
    """Where a vertex is."""
    return wp.vec3d(row[0], row[1], row[2])


@wp.func
def between(q: wp.vec4i, w: wp.vec4d, p: wp.array[wp.vec4d]) -> wp.vec3d:
    """The relative position of a pair."""
    a = place_of(load_vec4d(p, q[0]))
    b = place_of(load_vec4d(p, q[1]))
    c = place_of(load_vec4d(p, q[2]))
    d = place_of(load_vec4d(p, q[3]))
    return w[0] * a + w[1] * b + w[2] * c + w[3] * d


@wp.func
def slid_from(q: wp.vec4i, w: wp.vec4d, gap: wp.float64, distance: wp.float64, before: wp.array[wp.vec4d]) -> wp.vec3d:
    """The relative position from which a pair has slid, but for what is along its normal."""
    start = wp.vec3d()
    if not touched(gap, distance):
        start = between(q, w, before)
    return start
