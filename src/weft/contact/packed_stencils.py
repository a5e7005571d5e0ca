"""Stencils whose vertices are rows: three numbers, a position or a velocity, and the inverse mass, in two loads."""

import warp as wp

from weft.contact.project_contact import touched
from weft.dynamics.packed_vertices import first_three
from weft.runtime.vector_loads import load_vec4d

wp.set_module_options({"enable_backward": False})


@wp.func
def between(q: wp.vec4i, w: wp.vec4d, p: wp.array[wp.vec4d]) -> wp.vec3d:
    """The relative position of a pair."""
    a = first_three(load_vec4d(p, q[0]))
    b = first_three(load_vec4d(p, q[1]))
    c = first_three(load_vec4d(p, q[2]))
    d = first_three(load_vec4d(p, q[3]))
    return w[0] * a + w[1] * b + w[2] * c + w[3] * d


@wp.func
def slid_from(q: wp.vec4i, w: wp.vec4d, gap: wp.float64, distance: wp.float64, before: wp.array[wp.vec4d]) -> wp.vec3d:
    """The relative position from which a pair has slid, but for what is along its normal."""
    start = wp.vec3d()
    if not touched(gap, distance):
        start = between(q, w, before)
    return start
