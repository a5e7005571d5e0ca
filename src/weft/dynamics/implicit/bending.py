"""Bending in the implicit step: the force is exact, the matrix of the step is that of equally shared jumps.

With K the matrix of the energy of `weft.dynamics.curvature`, in which the shares q of the hinges' jumps are those of
equilibrium, the right-hand side of a step h has -h K (x + h v + y), and the damping. K is not sparse, but its product with
a vector is a small solve, D q = -B^T r, whose condition number is 6 on a grid: Chebyshev iteration, once for each
right-hand side.

The matrix of the step has K' instead, the sparse one with q = 0, which is never less than K. So long waves, which are the same
in both, move as with K; waves for which K' is stiffer, twist above all, take a little longer to come to where K has them at
rest.

Damping acts on the change of a hinge's jump along the normal of the cloth: a jump that turns with the cloth does not change.
"""

import math
from typing import Any

import numpy as np
import warp as wp
from scipy.sparse import coo_array, csr_array

from weft.dynamics import curvature
from weft.dynamics.bend_memory import BendMemory, mean_normal
from weft.dynamics.curvature import Hinges
from weft.runtime import launch
from weft.runtime.cooperative import (
    BLOCK,
    CooperativeLauncher,
    barrier_between,
    partition_begin,
    partition_end,
    partition_step,
)

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
# relative error of the shares q; 1e-2 makes short waves visibly stiffer on irregular meshes
TOLERANCE = 1e-3
# eigenvalues of D below this fraction of its diagonal, which only slivers have, are solved less well: their shares stay between
# equal ones and those of equilibrium. Half of it takes 1.4 times the iterations on a mesh with slivers
LEAST_EIGENVALUE = 0.03


@wp.struct
class HingeArrays:
    """The hinges as kernels take them."""

    quads: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    rest: wp.array[wp.float64]
    delay: wp.array[wp.float64]
    """damping time, s"""


@wp.struct
class ShareMatrices:
    """A, B, B^T and D of `curvature.SharedJumps`, by rows."""

    offsets: wp.array[int]
    columns: wp.array[int]
    values: wp.array[wp.vec4d]
    diagonal: wp.array[wp.float64]
    middle: wp.float64
    """middle and half the width of the range of eigenvalues of D divided by its diagonal"""
    half: wp.float64
    iterations: int


@wp.kernel
def find_jumps(
    first: int,
    hinges: HingeArrays,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    h: wp.float64,
    jump: wp.array[wp.vec3d],
):
    """r of each hinge at the end of a step without forces, less that at rest, and its damping."""
    i = first + wp.tid()
    q = hinges.quads[i]
    w = hinges.weights[i]
    # differences from the first vertex keep their digits far from the origin
    origin = x[q[0]]
    a = h * v[q[0]] + shift[q[0]]
    b = x[q[1]] - origin + h * v[q[1]] + shift[q[1]]
    c = x[q[2]] - origin + h * v[q[2]] + shift[q[2]]
    d = x[q[3]] - origin + h * v[q[3]] + shift[q[3]]
    r = w[0] * a + w[1] * b + w[2] * c + w[3] * d
    delay = hinges.delay[i]
    rest = hinges.rest[i]
    if delay > ZERO or rest != ZERO:
        n = mean_normal(a, b, c, d, r)
        change = w[0] * v[q[0]] + w[1] * v[q[1]] + w[2] * v[q[2]] + w[3] * v[q[3]]
        r += (delay * wp.dot(n, change) - rest) * n
    jump[i] = r


@wp.func
def share_residual(i: int, m: ShareMatrices, right: wp.array[wp.vec3d], q: wp.array[wp.vec3d]) -> wp.vec3d:
    """(right - D q) / diagonal of a hinge."""
    left = right[i]
    for k in range(m.offsets[i], m.offsets[i + 1]):
        left -= m.values[k][3] * q[m.columns[k]]
    return left / m.diagonal[i]


@wp.kernel(launch_bounds=BLOCK)
def share_jumps(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    m: ShareMatrices,
    jump: wp.array[wp.vec3d],
    right: wp.array[wp.vec3d],
    direction: wp.array[wp.vec3d],
    q: wp.array[wp.vec3d],
    q_next: wp.array[wp.vec3d],
    moment: wp.array[wp.vec3d],
):
    """Solve D q = -B^T r by Chebyshev iteration, then write the moments A r + B q. A cooperative kernel."""
    t = first + wp.tid()
    begin = partition_begin(t, threads, count)
    end = partition_end(t, threads, count)
    step = partition_step(threads, count)
    for i in range(begin, end, step):
        b = wp.vec3d()
        for k in range(m.offsets[i], m.offsets[i + 1]):
            b -= m.values[k][2] * jump[m.columns[k]]
        right[i] = b
        direction[i] = (ONE / (m.middle * m.diagonal[i])) * b
        q[i] = direction[i]
    barrier_between(arrivals, count, count)
    ratio = m.half / m.middle
    rho = ratio
    for number in range(m.iterations - 1):
        new = ONE / (TWO / ratio - rho)
        momentum = new * rho
        factor = TWO * new / m.half
        rho = new
        for i in range(begin, end, step):
            if number % 2 == 0:
                direction[i] = momentum * direction[i] + factor * share_residual(i, m, right, q)
                q_next[i] = q[i] + direction[i]
            else:
                direction[i] = momentum * direction[i] + factor * share_residual(i, m, right, q_next)
                q[i] = q_next[i] + direction[i]
        barrier_between(arrivals, count, count)
    for i in range(begin, end, step):
        total = wp.vec3d()
        for k in range(m.offsets[i], m.offsets[i + 1]):
            value = m.values[k]
            j = m.columns[k]
            share = q[j]
            if m.iterations % 2 == 0:
                share = q_next[j]
            total += value[0] * jump[j] + value[1] * share
        moment[i] = total


class Bending:
    """The bending moments of all hinges, and the matrix K' of a step."""

    def __init__(self, hinges: Hinges, delay: np.ndarray, vertex_count: int, device: wp.DeviceLike) -> None:
        """`delay` (h,) is the damping time of each hinge in s."""
        self.hinges, self.device, self.count = hinges, device, len(hinges.quads)
        self._stencils = curvature.stencil_matrix(hinges, vertex_count)
        self.memory = BendMemory(hinges.quads, hinges.weights, hinges.rest, hinges.limits, device)
        arrays = self._arrays = HingeArrays()
        arrays.quads, arrays.weights, arrays.rest = self.memory.quads, self.memory.weights, self.memory.rest
        arrays.delay = self._upload(delay, wp.float64)
        self._jump, self._right, self._direction, self._shares, self._next, self.moment = (
            wp.zeros(self.count, dtype=wp.vec3d, device=device) for _ in range(6)
        )
        """`moment`: what a hinge adds to the forces is minus its weights times this"""
        self._cooperative = CooperativeLauncher(device)
        self._matrices: Any = None

    def _upload(self, values: np.ndarray, dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device=self.device)

    def pin(self, pinned: np.ndarray) -> csr_array:
        """Take other vertices as pinned; gives the matrix K' in N/m."""
        shared = curvature.share_jumps(self.hinges, pinned)
        lowest, highest = max(0.99 * shared.lowest, LEAST_EIGENVALUE), 1.01 * shared.highest
        m: Any = ShareMatrices()
        self._matrices = m
        m.offsets, m.columns = self._upload(shared.offsets, int), self._upload(shared.columns, int)
        values = np.column_stack([shared.a, shared.b, shared.b_transposed, shared.d])
        m.values, m.diagonal = self._upload(values, wp.vec4d), self._upload(shared.diagonal, wp.float64)
        m.middle, m.half = 0.5 * (highest + lowest), 0.5 * (highest - lowest)
        m.iterations = math.ceil(math.acosh(1.0 / TOLERANCE) / math.acosh((highest + lowest) / (highest - lowest)))
        w = self._stencils
        return csr_array(w.T @ shared.matrix(shared.a) @ w)

    def pairs(self) -> np.ndarray:
        """(k, 2) int32: the pairs of vertices that K' joins, whichever vertices are pinned."""
        shared = curvature.share_jumps(self.hinges, np.zeros(self._stencils.shape[1], bool))
        # with positive values nothing cancels
        w = abs(self._stencils)
        joined = coo_array(w.T @ shared.matrix(np.ones(len(shared.columns))) @ w)
        upper = joined.row < joined.col
        return np.column_stack([joined.row[upper], joined.col[upper]]).astype(np.int32)

    def bend(self, x: wp.array, v: wp.array, shift: wp.array, h: float) -> None:
        """Write the moments of a step h from x with velocities v and position corrections `shift`."""
        if self.count == 0:
            return
        launch(find_jumps, self.count, [self._arrays, x, v, shift, h, self._jump], device=self.device, grain=256)
        work = [self._jump, self._right, self._direction, self._shares, self._next, self.moment]
        self._cooperative.launch(share_jumps, self.count, [self.count, self._matrices, *work])
