"""Bending of position-based cloth: one converged implicit solve a step.

The energy is the quadratic one of `curvature`: with W the stencils of all hinges, r = W x, and C the coupling of the hinges,
E = 1/2 r^T C r. So K = W^T C W is a constant sparse matrix of numbers, the same for x, y and z. Backward Euler over a step dt,
with the damping time tau, is

    (M + (dt^2 + dt tau) K') dv = -dt K (x + (dt + tau) v)

with K' = K. C has the jumps of hinges shared nearly as equilibrium shares them (`SharedJumps.relaxed`). This takes up to
twice the entries of a row, so the matrix on the left, which is applied in every iteration, is K' >= K, that of equal shares:
long waves, which are the same in both, move as with K, and all come to rest where K has them.

A sweep of Gauss-Seidel over hinges would do nothing for long waves once bend dt^2 / (density h^4) exceeds one, h the length
of an edge: fine cloth would have no bending stiffness. Here the system is solved to `TOLERANCE` by Chebyshev iteration, which
needs bounds of the eigenvalues but no dot products, so that nothing has to be summed over threads. Divided by the mass the
eigenvalues are between 1, for the longest waves, and that of the stiffest mode; and every iterate conserves momentum, which
another preconditioner than the mass would not. The change of velocity is spread over the substeps as an acceleration: given at
once, cloth at rest would rise and fall within every step.

Rest shapes that are not flat have the energy of b_e = r_e - rest_e n_e instead of r_e, with n_e the mean normal of the hinge's
triangles in the position without bending; the matrix is the same.

A triangle with three pinned vertices does not bend: its neighbour across an edge takes all of the jump there.

Vertices that are welded from the start are one: K and K' are those of their common motion, the mean S of what moves them by
their masses, S^T K S. If they moved on their own and were put together afterwards, they would have moved too far.
"""

import math
from typing import Any

import numpy as np
import warp as wp
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import eigsh

from weft.dynamics import curvature
from weft.dynamics.bend_memory import BendMemory, mean_normal
from weft.dynamics.packed_vertices import first_three
from weft.dynamics.position_based.sparse_rows import SparseRows, iterate_rows, sliced_rows, start_rows
from weft.dynamics.seam_hinges import vertex_groups
from weft.dynamics.springs import SpringNetwork
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
# relative error of the solution for waves of any length: short waves of cloth are too stiff by up to twice that, long ones
# not at all (see `plan`). Half of it takes a fifth more iterations; with 0.15 short waves oscillated from step to step
TOLERANCE = 0.03
# iterations at most: enough for bend dt^2 / (density h^4) = 3000, beyond which long waves become too soft. Their number grows
# with dt / h^2, so that the time of a step grows with the fourth power of the resolution: multigrid would be the remedy
MOST_ITERATIONS = 1000
# rows worth a thread of their own; lengths of steps whose numbers are kept: a step that collides is halved, so a run has few
ROWS_A_THREAD, MOST_PLANS = 256, 64


@wp.struct
class Chebyshev:
    """The numbers of a solve: the step, the middle and half the width of the range of eigenvalues, iterations, and the factor
    that makes an acceleration of the result."""

    dt: wp.float64
    middle: wp.float64
    half: wp.float64
    iterations: int
    rate: wp.float64


@wp.func
def rest_stretch_of(
    i: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    rest: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
) -> wp.vec4d:
    """rest n of a hinge: what W p has too much for rest shapes that are not flat."""
    q = quads[i]
    w = weights[i]
    rest_stretch = wp.vec4d()
    if rest[i] != ZERO:
        a = first_three(p[q[0]])
        b = first_three(p[q[1]])
        c = first_three(p[q[2]])
        d = first_three(p[q[3]])
        n = rest[i] * mean_normal(a, b, c, d, w[1] * (b - a) + w[2] * (c - a) + w[3] * (d - a))
        rest_stretch = wp.vec4d(n[0], n[1], n[2], ZERO)
    return rest_stretch


@wp.kernel
def find_rest_stretch(
    first: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    rest: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
    stretch: wp.array[wp.vec4d],
):
    """What W p has too much at each hinge (see `rest_stretch_of`)."""
    i = first + wp.tid()
    stretch[i] = rest_stretch_of(i, quads, weights, rest, p)


@wp.kernel
def start_solve(
    first: int,
    k: SparseRows,
    p: wp.array[wp.vec4d],
    rest_moments: SparseRows,
    rest_stretch: wp.array[wp.vec4d],
    dt: wp.float64,
    factor: wp.float64,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
):
    """The right-hand side, and the first iterate from dv = 0."""
    i = first + wp.tid()
    start_rows(i, i + 1, 1, k, p, rest_moments, rest_stretch, dt, factor, right, direction, dv)


@wp.kernel(launch_bounds=(BLOCK, 1))
def solve_bending(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    k: SparseRows,
    delay: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
    chebyshev: Chebyshev,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
    dv_next: wp.array[wp.vec4d],
    push: wp.array[wp.vec3d],
):
    """All further iterations; then the change of velocity, spread over the step, is added to `push`. A cooperative kernel."""
    t = first + wp.tid()
    begin = partition_begin(t, threads, count)
    end = partition_end(t, threads, count)
    step = partition_step(threads, count)
    ratio = chebyshev.half / chebyshev.middle
    rho = ratio
    for number in range(chebyshev.iterations - 1):
        new = ONE / (TWO / ratio - rho)
        momentum = new * rho
        factor = TWO * new / chebyshev.half
        rho = new
        if number % 2 == 0:
            iterate_rows(
                begin, end, step, k, delay, p, chebyshev.dt, momentum, factor, right, direction, dv, dv_next
            )  # fmt: skip
        else:
            iterate_rows(
                begin, end, step, k, delay, p, chebyshev.dt, momentum, factor, right, direction, dv_next, dv
            )  # fmt: skip
        barrier_between(arrivals, count, count)
    for i in range(begin, end, step):
        if p[i][3] > ZERO:
            last = dv[i]
            if chebyshev.iterations % 2 == 0:
                last = dv_next[i]
            push[i] = push[i] + chebyshev.rate * first_three(last)


class Bending:
    """The bending matrix of a spring network for the vertices that are pinned now, and the solve of a step."""

    def __init__(self, network: SpringNetwork, mass: np.ndarray, device: wp.DeviceLike) -> None:
        self.device, self.count = device, len(mass)
        finite = np.isfinite(mass)
        self._mass = np.where(finite, mass, 1.0)
        hinges = self._hinges = network.hinges()
        self.active = bool(hinges.face_coupling.any())
        """whether anything bends"""
        self._stencils = curvature.stencil_matrix(hinges, self.count)
        self.welded = len(network.welded) > 0
        self._groups = vertex_groups(network.welded, self.count) if len(network.welded) else None
        self.memory = BendMemory(hinges.quads, hinges.weights, hinges.rest, hinges.limits, device)
        self.rest_stretch = wp.zeros(len(hinges.quads) if self.memory.curved else 0, dtype=wp.vec4d, device=device)
        stiffness = network.quad_stiffness
        delay = np.divide(network.quad_damping, stiffness, where=stiffness > 0.0, out=np.zeros(len(stiffness)))
        self._delay = np.zeros(self.count)
        for corners in network.quads[~network.sewn].T:
            self._delay[corners] = delay[~network.sewn]
        self.delay = wp.array(self._delay, dtype=wp.float64, device=device)
        """damping time at each vertex, s"""
        self.work = [wp.zeros(self.count, dtype=wp.vec4d, device=device) for _ in range(4)]
        """right-hand side, direction, and two iterates of a solve"""
        self.matrix: Any = None
        self._pinned: np.ndarray | None = None
        self._plans: dict[float, Any] = {}
        self._cooperative = CooperativeLauncher(device)

    def pin(self, pinned: np.ndarray) -> None:
        """Assemble the matrix for the vertices that are pinned now, unless they are the same as before."""
        if self._pinned is not None and np.array_equal(pinned, self._pinned):
            return
        self._pinned = pinned.copy()
        w = self._stencils if self._groups is None else csr_array(self._stencils @ self._common_motion(pinned))
        shared = curvature.share_jumps(self._hinges, pinned)
        moments = self.moments = csr_array(w.T @ shared.relaxed())
        """(n, h): what the rest jumps of hinges do to vertices"""
        self.stiffness, self.equal_shares = csr_array(moments @ w), csr_array(w.T @ shared.matrix(shared.a) @ w)
        """K and K' in N/m, (n, n)"""
        self._stiffest = _stiffest_modes(self.equal_shares, np.where(pinned, 0.0, 1.0 / self._mass), self._delay)
        self._plans = {}
        self.matrix, self.iterated = (sliced_rows(x, self.device) for x in (self.stiffness, self.equal_shares))
        """K, and K' of the iterations, as kernels take them"""
        self.rest_moments = sliced_rows(moments, self.device) if self.memory.curved else SparseRows()
        rows = [self.matrix, self.iterated, *([self.rest_moments] if self.memory.curved else [])]
        self._material = [(matrix, matrix.values.numpy()) for matrix in rows], self._stiffest

    def _common_motion(self, pinned: np.ndarray) -> csr_array:
        """S (n, n): how each vertex moves by the motions of those that it is welded to."""
        assert self._groups is not None
        # a pinned vertex moves alone
        group = np.where(pinned, self._groups.max() + 1 + np.arange(self.count), self._groups)
        members = csr_array((self._mass, (group, np.arange(self.count))))
        share = diags_array(1.0 / np.maximum(members.sum(axis=1), 1e-300)) @ members
        return csr_array((members != 0.0).astype(np.float64).T @ share)

    def scale(self, factor: float) -> None:
        """Make cloth so many times as stiff as its material, until vertices are pinned anew."""
        for rows, values in self._material[0]:
            rows.values.assign(factor * values)
        self._stiffest = [(delay, factor * largest) for delay, largest in self._material[1]]
        self._plans = {}

    def plan(self, dt: float) -> Any:
        """The numbers of Chebyshev's iteration for a step dt.

        Divided by the mass, the eigenvalues of the system are between 1 and a bound (see `_stiffest_modes`). The error of the
        result is T_k(y) / T_k(middle / half), with y from 1 for the longest wave to -1: that wave is made exact.
        """
        if dt not in self._plans:
            lower, upper = 1.0, 1.0 + max([dt * (dt + delay) * stiffest for delay, stiffest in self._stiffest] + [1e-6])
            wanted = math.acosh(1.0 / TOLERANCE)
            iterations = math.ceil(wanted / _rate_of_convergence(lower, upper))
            if iterations > MOST_ITERATIONS:
                # the tolerance holds from here on; what is below is too soft, and no wave is too stiff, which would be unstable
                iterations = MOST_ITERATIONS
                lower = upper * (math.cosh(wanted / iterations) - 1.0) / (math.cosh(wanted / iterations) + 1.0)
            plan: Any = Chebyshev()
            plan.dt, plan.iterations = dt, iterations
            plan.middle, plan.half = 0.5 * (upper + lower), 0.5 * (upper - lower)
            error = 1.0 / math.cosh(iterations * _rate_of_convergence(lower, upper))
            plan.rate = 1.0 / (dt * (1.0 - error)) if lower == 1.0 else 1.0 / dt
            if len(self._plans) >= MOST_PLANS:
                self._plans.clear()
            self._plans[dt] = plan
        return self._plans[dt]

    def iterations(self, dt: float) -> int:
        """How many iterations a solve over a step dt takes."""
        return int(self.plan(dt).iterations)

    def solve(self, dt: float, p: wp.array, push: wp.array) -> None:
        """Add the mean acceleration by bending over a step dt to `push`.

        p are packed vertices moved on by their velocity, without bending, for the step and their damping time (`delay`) more.
        Only launches kernels, the same ones for the same dt and pins.
        """
        numbers = self.plan(dt)
        if len(self.rest_stretch):
            hinges = [self.memory.quads, self.memory.weights, self.memory.rest]
            launch(find_rest_stretch, len(self.rest_stretch), [*hinges, p, self.rest_stretch], device=self.device)
        inputs = [self.matrix, p, self.rest_moments, self.rest_stretch, dt, 1.0 / float(numbers.middle)]
        launch(start_solve, self.count, [*inputs, *self.work[:3]], device=self.device, grain=ROWS_A_THREAD)
        inputs = [self.count, self.iterated, self.delay, p, numbers, *self.work, push]
        self._cooperative.launch(solve_bending, self.count, inputs)


def _rate_of_convergence(lower: float, upper: float) -> float:
    """arcosh of (upper + lower) / (upper - lower), by which the logarithm of the error falls in an iteration of Chebyshev.

    Written so that it is not 0 where the bounds are so far apart that the quotient rounds to 1.
    """
    return 2.0 * math.atanh(math.sqrt(lower / upper))


def _stiffest_modes(k: csr_array, inverse_mass: np.ndarray, delay: np.ndarray) -> list[tuple[float, float]]:
    """For each damping time that occurs: the time, and a bound of the eigenvalues of K / M for the vertices that have it.

    Lanczos finds the largest one to a hundredth from below. The bound is 2 to 7 % above that, one of the powers of 1.05, so
    that rounding in Lanczos, which is not ours, does not change the result. (Gershgorin's bound is twice as high on narrow
    strips, for the light vertices of their borders.)
    """
    found = []
    for time in np.unique(delay):
        chosen = np.flatnonzero((delay == time) & (inverse_mass > 0.0))
        root = diags_array(np.sqrt(inverse_mass[chosen]))
        largest = _largest_eigenvalue(root @ k[chosen][:, chosen] @ root)
        if largest > 0.0:
            found.append((float(time), 1.05 ** math.ceil(math.log(1.02 * largest) / math.log(1.05))))
    return found


def _largest_eigenvalue(matrix: csr_array) -> float:
    """Of a positive semidefinite matrix, to a hundredth."""
    if matrix.shape[0] < 32:
        return float(np.linalg.eigvalsh(matrix.toarray()).max(initial=0.0))
    if matrix.count_nonzero() == 0:
        return 0.0
    start = np.random.default_rng(0).normal(size=matrix.shape[0])
    return float(eigsh(matrix, k=1, which="LA", tol=1e-2, v0=start, return_eigenvectors=False)[0])
