"""The force of a spring network, gravity and air on each vertex, for explicit integrators.

Springs between two vertices lie side by side at either end, so that each vertex sums its own forces. Springs over four
vertices (hinges and stitches) are evaluated first, and vertices gather their share.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.springs import SpringNetwork
from weft.mesh.topology import incidence
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.struct
class VertexForces:
    """What acts on each vertex, in lists by vertex."""

    spring_offsets: wp.array[int]
    """where the springs of each vertex begin"""
    others: wp.array[int]
    """the other end of each spring"""
    rest: wp.array[wp.float64]
    stiffness: wp.array[wp.float64]
    damping: wp.array[wp.float64]
    quad_offsets: wp.array[int]
    """where the corners of springs over four vertices begin for each vertex"""
    quad_items: wp.array[int]
    """four times the spring, plus the number of the corner"""
    quad_weights: wp.array[wp.vec4d]
    quad_pull: wp.array[wp.vec3d]
    face_offsets: wp.array[int]
    face_items: wp.array[int]
    face_force: wp.array[wp.vec3d]
    """force of the wind on each corner of a triangle"""
    gravity: wp.vec3d
    air_damping: wp.float64


@wp.kernel
def pull_quads(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    rest: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    damping: wp.array[wp.float64],
    pull: wp.array[wp.vec3d],
):
    """The pull of each spring over four vertices, N: the force on corner k is its weight times this."""
    i = first + wp.tid()
    q = quads[i]
    w = weights[i]
    r = w[0] * x[q[0]] + w[1] * x[q[1]] + w[2] * x[q[2]] + w[3] * x[q[3]]
    u = w[0] * v[q[0]] + w[1] * v[q[1]] + w[2] * v[q[2]] + w[3] * v[q[3]]
    k = stiffness[i]
    back = k * r
    if rest[i] > ZERO:
        length = wp.length(r)
        if length > ZERO:
            back = k * (ONE - rest[i] / length) * r
        else:
            back = wp.vec3d()
    pull[i] = -(back + damping[i] * u)


@wp.func
def acceleration_of(
    i: int, w: wp.float64, forces: VertexForces, x: wp.array[wp.vec3d], v: wp.array[wp.vec3d]
) -> wp.vec3d:
    """The acceleration of vertex i, whose inverse mass is w."""
    xi = x[i]
    vi = v[i]
    force = wp.vec3d()
    for s in range(forces.spring_offsets[i], forces.spring_offsets[i + 1]):
        j = forces.others[s]
        d = x[j] - xi
        length = wp.length(d)
        if length > ZERO:
            n = d / length
            tension = forces.stiffness[s] * (length - forces.rest[s]) + forces.damping[s] * wp.dot(v[j] - vi, n)
            force += tension * n
    for s in range(forces.quad_offsets[i], forces.quad_offsets[i + 1]):
        item = forces.quad_items[s]
        weight = forces.quad_weights[item // 4]
        force += weight[item % 4] * forces.quad_pull[item // 4]
    for s in range(forces.face_offsets[i], forces.face_offsets[i + 1]):
        force += forces.face_force[forces.face_items[s] // 3]
    return w * force + forces.gravity - forces.air_damping * vi


class SpringForces:
    """The arrays of a network and of the air for `acceleration_of`."""

    def __init__(self, network: SpringNetwork, count: int, air: Air, device: wp.DeviceLike) -> None:
        """`count` is the number of vertices that the network may name."""

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        forces: Any = VertexForces()
        offsets, entries = incidence(network.pairs, count)
        spring, end = entries // 2, entries % 2
        forces.spring_offsets, forces.others = upload(offsets, int), upload(network.pairs[spring, 1 - end], int)
        for name in ("rest", "stiffness", "damping"):
            setattr(forces, name, upload(getattr(network, name)[spring], wp.float64))
        offsets, items = incidence(network.quads, count)
        forces.quad_offsets, forces.quad_items = upload(offsets, int), upload(items, int)
        forces.quad_weights = upload(network.weights, wp.vec4d)
        forces.quad_pull = wp.zeros(len(network.quads), dtype=wp.vec3d, device=device)
        forces.face_offsets, forces.face_items, forces.face_force = air.lists
        forces.gravity, forces.air_damping = air.gravity, wp.float64(air.damping)
        self.arrays = forces
        numbers = (network.quad_rest, network.quad_stiffness, network.quad_damping)
        self._quads = (upload(network.quads, wp.vec4i), forces.quad_weights, *(upload(a, wp.float64) for a in numbers))
        self._device = device

    def pull(self, x: wp.array, v: wp.array) -> None:
        """Evaluate the springs over four vertices at positions x and velocities v."""
        pull = self.arrays.quad_pull
        launch(pull_quads, len(pull), [x, v, *self._quads, pull], device=self._device)
