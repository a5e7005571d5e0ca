"""The implicit solve that leads from the average velocity of a step to the velocity at its end.

Bridson, Fedkiw and Anderson 2002, section 7: after contacts and collisions only the average velocity v of the step is
known, that of a moment a time t before the end (about half a step). The velocity v' at the end x then solves

    (M - t dF/dv - t^2 dF/dx) v' = M v + t F(x)

The paper has no dF/dx, which requires that t times the frequency of the stiffest spring is less than one; here it is
more. Each spring contributes the positive semidefinite part of its dF/dx.

A spring is a stencil r = sum w_k x_k, be it between two vertices or over a hinge: it has one 3x3 matrix A, and w_i w_j A
is its block between vertices i and j. Gravity and air are forces like all others. The unknown is the change v' - v.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.implicit.block_matrix import BlockRows, ExternalForces, corner_pairs
from weft.dynamics.implicit.conjugate_gradients import ConjugateGradients, Solution
from weft.dynamics.implicit.step_springs import StepSprings
from weft.dynamics.springs import BEND, SpringNetwork, firm_welds, from_world
from weft.mesh.topology import incidence
from weft.runtime import launch
from weft.world import State, World
from weft.world.constraints import Constraints

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))


@wp.kernel
def strain_stencils(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    rest: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    damping: wp.array[wp.float64],
    t: wp.float64,
    matrices: wp.array[wp.mat33d],
    along: wp.array[wp.vec3d],
):
    """A = t D + t^2 K of each spring, and its contribution t F - A v to the right-hand side."""
    i = first + wp.tid()
    q = vertices[i]
    w = weights[i]
    r = w[0] * x[q[0]] + w[1] * x[q[1]] + w[2] * x[q[2]] + w[3] * x[q[3]]
    u = w[0] * v[q[0]] + w[1] * v[q[1]] + w[2] * v[q[2]] + w[3] * v[q[3]]
    k = stiffness[i]
    eye = wp.identity(n=3, dtype=wp.float64)
    a = wp.mat33d()
    pull = wp.vec3d()
    if rest[i] == ZERO:
        a = (t * damping[i] + t * t * k) * eye
        pull = -k * r
    else:
        length = wp.length(r)
        if length > ZERO:
            n = r / length
            # a spring shorter than at rest is unstable across its direction: that part of K is left out
            across = wp.max(ONE - rest[i] / length, ZERO)
            line = wp.outer(n, n)
            a = (t * damping[i] + t * t * k) * line + (t * t * k * across) * (eye - line)
            pull = -(k * (length - rest[i])) * n
    matrices[i] = a
    along[i] = t * pull - a * u


@wp.kernel
def assemble_pairs(
    first: int,
    offsets: wp.array[int],
    stencils: wp.array[int],
    factors: wp.array[wp.float64],
    matrices: wp.array[wp.mat33d],
    places: wp.array[wp.vec2i],
    blocks: wp.array[wp.mat33d],
):
    """The block between two vertices, which is symmetric, for both of its rows."""
    i = first + wp.tid()
    block = wp.mat33d()
    for k in range(offsets[i], offsets[i + 1]):
        block += factors[k] * matrices[stencils[k]]
    place = places[i]
    blocks[place[0]] = block
    blocks[place[1]] = block


@wp.struct
class VertexSprings:
    """The springs at each vertex."""

    offsets: wp.array[int]
    entries: wp.array[int]
    """four times the spring, plus the number of the corner"""
    weights: wp.array[wp.float64]
    along: wp.array[wp.vec3d]
    """what each spring adds to the right-hand side, times the weight of the corner"""


@wp.kernel
def assemble_rows(
    first: int,
    order: wp.array[int],
    row_offsets: wp.array[int],
    diagonal: wp.array[int],
    v: wp.array[wp.vec3d],
    lists: VertexSprings,
    external: ExternalForces,
    t: wp.float64,
    blocks: wp.array[wp.mat33d],
    b: wp.array[wp.vec3d],
):
    """The diagonal block, mass less the other blocks of the row (a common translation strains nothing); the right-hand side."""
    r = first + wp.tid()
    i = order[r]
    own = diagonal[r]
    mass = external.mass[i]
    total = (mass * (ONE + t * external.damping)) * wp.identity(n=3, dtype=wp.float64)
    for k in range(row_offsets[r], row_offsets[r + 1]):
        if k != own:
            total -= blocks[k]
    blocks[own] = HALF * (total + wp.transpose(total))
    push = (t * mass) * (external.gravity - external.damping * v[i])
    for k in range(lists.offsets[i], lists.offsets[i + 1]):
        push += lists.weights[k] * lists.along[lists.entries[k] // 4]
    for k in range(external.face_offsets[i], external.face_offsets[i + 1]):
        push += t * external.face_force[external.face_items[k] // 3]
    b[r] = push


@wp.kernel
def take_change(
    first: int,
    v: wp.array[wp.vec3d],
    held: wp.array[int],
    velocity: wp.array[wp.vec3d],
    row_of: wp.array[int],
    change: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
):
    """The velocity at the end of the step; prescribed vertices keep theirs."""
    i = first + wp.tid()
    if held[i] == 3:
        v_end[i] = velocity[i]
    else:
        v_end[i] = v[i] + change[row_of[i]]


class _Stencils(NamedTuple):
    """All springs of a network as stencils r = sum w_k x_k (host arrays)."""

    vertices: np.ndarray
    """(s, 4); a spring between two vertices repeats the second, with weight 0"""
    weights: np.ndarray
    """(s, 4)"""
    rest: np.ndarray
    stiffness: np.ndarray
    damping: np.ndarray
    near: np.ndarray
    """(s,) whether it is an edge or a stitch, over which the patches of the preconditioner grow"""


def _stencils_of(network: SpringNetwork) -> _Stencils:
    """Without the springs between opposite vertices of hinges: hinges bend by their springs over four vertices alone."""
    chosen = np.flatnonzero((network.kind != BEND) & (network.stiffness > 0.0))
    firm = np.flatnonzero(network.quad_stiffness > 0.0)
    pairs = network.pairs[chosen]
    return _Stencils(
        np.concatenate([pairs[:, [0, 1, 1, 1]], network.quads[firm]]),
        np.concatenate([np.tile([-1.0, 1.0, 0.0, 0.0], (len(pairs), 1)), network.weights[firm]]),
        np.concatenate([network.rest[chosen], network.quad_rest[firm]]),
        np.concatenate([network.stiffness[chosen], network.quad_stiffness[firm]]),
        np.concatenate([network.damping[chosen], network.quad_damping[firm]]),
        np.concatenate([np.ones(len(pairs), bool), network.sewn[firm]]),
    )


class EndVelocitySolver:
    """The linear system of the springs of all cloths, and its solver."""

    def __init__(
        self,
        network: SpringNetwork,
        mass: np.ndarray,
        inverse_mass: wp.array,
        air: Air,
        *,
        tolerance: float = 1e-3,
        most_iterations: int = 1000,
    ) -> None:
        """`mass` is that of the cloth vertices, which come first; `tolerance` is the fraction of the residual left."""
        device = inverse_mass.device
        count = self.count = len(mass)
        self.device = device
        self.inverse_mass = inverse_mass
        self.air = air

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        stencils = _stencils_of(network)
        vertices, weights = stencils.vertices, stencils.weights
        self._stencils = [upload(vertices, wp.vec4i), upload(weights, wp.vec4d)]
        self._stencils += [upload(a, wp.float64) for a in (stencils.rest, stencils.stiffness, stencils.damping)]
        self._matrices = wp.zeros(len(vertices), dtype=wp.mat33d, device=device)

        joined = corner_pairs(vertices, weights)
        ends = np.column_stack([joined.low, joined.high])
        self.matrix = BlockRows(ends, ends[stencils.near[joined.element]], count, device)
        by_pair = np.argsort(self.matrix.pair_of, kind="stable")
        counts = np.bincount(self.matrix.pair_of, minlength=self.matrix.pair_count)
        element, (one, two) = joined.element[by_pair], joined.corners[by_pair].T
        self._pair_lists = [
            upload(np.concatenate([[0], np.cumsum(counts)]), int),
            upload(element, int),
            upload(weights[element, one] * weights[element, two], wp.float64),
        ]
        offsets, entries = incidence(vertices, count)
        # without the corners of weight 0, which only fill up a stencil
        heavy = weights.ravel()[entries] != 0.0
        offsets, entries = np.concatenate([[0], np.cumsum(heavy)])[offsets], entries[heavy]
        lists: Any = VertexSprings()
        lists.offsets, lists.entries = upload(offsets, int), upload(entries, int)
        lists.weights = upload(weights.ravel()[entries], wp.float64)
        lists.along = wp.zeros(len(vertices), dtype=wp.vec3d, device=device)
        self._lists = lists

        external: Any = ExternalForces()
        external.mass, external.gravity, external.damping = upload(mass, wp.float64), air.gravity, air.damping
        external.face_offsets, external.face_items, external.face_force = air.lists
        self._external = external
        self.solver = ConjugateGradients(
            self.matrix,
            StepSprings(self.matrix, inverse_mass),
            mass=float(mass.sum()),
            tolerance=tolerance,
            least_velocity=1e-9,
            most_iterations=most_iterations,
        )
        self.constraints = Constraints(count, device)
        self._b, self._change = (wp.zeros(count, dtype=wp.vec3d, device=device) for _ in range(2))

    @classmethod
    def from_world(cls, world: World, **options: Any) -> "EndVelocitySolver":
        """All cloths and seams of a world, its masses and its forces."""
        network = firm_welds(from_world(world), world)
        mass = world.mass[: world.cloth_vertex_count]
        return cls(network, mass, world.inverse_mass, Air.from_world(world), **options)

    def take(
        self, state: State, target: wp.array, dt: float, x_end: wp.array, v: wp.array, t: float, v_end: wp.array
    ) -> Solution:
        """Write the velocities at the end of a step dt that led to x_end with the average velocities v.

        `t` is how long before the end of the step the velocity of free fall is the average one.
        """
        self.constraints.begin(self.inverse_mass, state.x, target, dt)
        self._assemble(x_end, v, state.time + dt, t)
        solution = self.solver.solve(self._b, v, self.constraints, self._change)
        held = [self.constraints.directions, self.constraints.velocity]
        launch(take_change, self.count, [v, *held, self.matrix.row_of, self._change, v_end], device=self.device)
        return solution

    def _assemble(self, x: wp.array, v: wp.array, time: float, t: float) -> None:
        """Build the matrix and the right-hand side for a solve over t, with the wind at `time`."""
        m, air, device = self.matrix, self.air, self.device
        air.blow(x, v, time, t)
        along = self._lists.along
        launch(strain_stencils, len(along), [x, v, *self._stencils, t, self._matrices, along], device=device, grain=256)
        inputs: list[Any] = [*self._pair_lists, self._matrices, m.places, m.blocks]
        launch(assemble_pairs, m.pair_count, inputs, device=device, grain=256)
        inputs = [m.order, m.offsets, m.diagonal, v, self._lists, self._external, t, m.blocks, self._b]
        launch(assemble_rows, m.count, inputs, device=device, grain=512)
