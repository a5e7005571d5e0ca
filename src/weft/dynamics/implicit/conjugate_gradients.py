"""Modified preconditioned conjugate gradients: a block matrix solved for all but the constrained directions.

Each vertex has a filter S, a projection of rank 0 to 3 onto the directions in which it is free (Baraff and Witkin 1998,
section 5). The constrained part of the answer is set at the start and no search direction ever touches it. What is
solved is the system filtered from both sides, with the constrained part moved to the right (Ascher and Boxerman 2003).

The preconditioner has two halves, which are added: the fine one is the inverse of each diagonal block, within the filter, the
coarse one a solve in which each patch of about twenty vertices moves as one (see `coarse_level`). The solve starts and ends
with a coarse correction, after which the residual of every free patch sums to zero: the solver's tolerance costs no
momentum. Springs of the step (see `step_springs`) are in the product and in the diagonal, not in the coarse system,
whose structure is that of the mesh. The last step's answer was measured to be a worse start than zero, and would make a step
depend on more than the state.

The numbers of an iteration stay on the device, and an iteration after the goal is reached changes nothing: so CUDA does
several of them, as one graph, before the host reads how far they are. The kernels are in `iteration`.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.implicit.block_matrix import BlockRows
from weft.dynamics.implicit.coarse_level import CoarseLevel
from weft.dynamics.implicit.iteration import (
    ALPHA,
    AT_FIRST,
    CORRECTED,
    DONE,
    GAMMA,
    GOAL,
    GOING,
    NUMBERS,
    START,
    Residual,
    System,
    begin_rows,
    correct_patches,
    find_alpha,
    find_forces,
    find_gamma,
    find_residual,
    multiply_direction,
    take_step,
    turn_direction,
)
from weft.dynamics.implicit.step_springs import StepSprings
from weft.runtime import launch
from weft.runtime.buffers import read
from weft.runtime.compaction import lanes_on
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.graph_cache import GraphCache
from weft.world.constraints import Constraints

# patches worth a thread of their own: some twenty rows each
PATCHES_A_THREAD = 8
# iterations of a CUDA graph between two readbacks: more of them waste up to as many at the end, fewer wait more often
ITERATIONS_A_GRAPH = 8


class Solution(NamedTuple):
    """How a solve went."""

    iterations: int
    residual: float
    """what is left, as a fraction of `start`, in the norm of the preconditioner"""
    converged: bool
    start: float
    """the square of that norm at the start, an energy in J"""


class ConjugateGradients:
    """Solves for the changes of velocity; buffers are kept between steps."""

    def __init__(
        self,
        matrix: BlockRows,
        springs: StepSprings,
        *,
        mass: float,
        tolerance: float,
        least_velocity: float,
        most_iterations: int,
    ) -> None:
        """`tolerance` is relative to the residual at the start; an error of `least_velocity` (m/s) is always small enough."""
        self.matrix = matrix
        self.springs = springs
        self.device = wp.get_device(matrix.device)
        self.tolerance = tolerance
        self.most_iterations = most_iterations
        # the square of the residual's norm is about that of the error: an energy
        self.least = mass * least_velocity**2
        count, patches = matrix.count, matrix.aggregates.count

        def vectors(size: int) -> wp.array:
            return wp.zeros(size, dtype=wp.vec3d, device=self.device)

        self._direction, self._product, self._coarse_answer = vectors(count), vectors(count), vectors(patches)
        self._guess, self._zero = vectors(count), vectors(count)
        self._residual = Residual()
        self._residual.rows, self._residual.fine, self._residual.patches = (
            vectors(count),
            vectors(count),
            vectors(patches),
        )
        self._norm = self._residual.norm = wp.zeros(patches, dtype=wp.float64, device=self.device)
        self._numbers = wp.zeros(NUMBERS, dtype=wp.float64, device=self.device)
        self._system = System()
        self._system.inverse = wp.zeros(count, dtype=wp.mat33d, device=self.device)
        self._given: tuple[wp.array, ...] = ()
        self._coarse = CoarseLevel(matrix)
        self._cooperative, self._graphs = CooperativeLauncher(self.device), GraphCache(self.device)

    def _bind(self, constraints: Constraints) -> None:
        """Make `_system` again if one of its arrays is another one: those of the springs grow."""
        m, s = self.matrix, self.springs
        given = (constraints.directions, constraints.filters, *s.lists, s.matrices, s.stretched)
        if len(given) == len(self._given) and all(a is b for a, b in zip(given, self._given, strict=True)):
            return
        system, inverse = System(), self._system.inverse
        system.patches, system.patch_of, system.order, system.diagonal = m.patches, m.patch_of, m.order, m.diagonal
        system.offsets, system.columns, system.blocks, system.inverse = m.offsets, m.columns, m.blocks, inverse
        system.held, system.filters, system.spring_offsets, system.spring_entries = given[:4]
        system.spring_weights, system.spring_matrices, system.stretched = given[4:]
        self._system, self._given = system, given

    def solve(
        self,
        b: wp.array,
        v: wp.array,
        constraints: Constraints,
        x: wp.array,
        *,
        warm: bool = False,
        tolerance: float | None = None,
    ) -> Solution:
        """Write the changes of velocity x of the rows, to this tolerance, or the usual one.

        `warm`: x holds the solution of a similar system, from which the search starts if it is nearer than zero. The tolerance
        is relative to the residual of zero in any case: that of a guess can be huge where a stiff spring was added.
        """
        count = self.matrix.count
        self._bind(constraints)
        if warm:
            wp.copy(self._guess, x)
        launch(begin_rows, count, (self._system, constraints.velocity, v, 0, x), device=self.device)
        self._coarse.factor(constraints)

        # the coarse system alone first: what moves as one, free fall for one, is then exact
        correction = (self._system, self._coarse_answer, x)
        self._find_residual(b, x)
        wanted = self.tolerance if tolerance is None else tolerance
        # a tighter tolerance lowers the error that is always small enough, too
        least = self.least * min(1.0, wanted / self.tolerance) ** 2
        self._precondition(AT_FIRST, wanted**2, least)
        if warm:
            self._start_from_guess(b, v, constraints, x)
        launch(correct_patches, count, correction, device=self.device)
        self._find_residual(b, x)
        self._precondition(CORRECTED)
        self._direction.zero_()
        iterate = partial(self._iteration(x), 1 if self.device.is_cpu else ITERATIONS_A_GRAPH)
        while True:
            numbers = read((self._numbers, 0, NUMBERS))[0]
            gamma, start, goal, iterations = (float(numbers[k]) for k in (GAMMA, START, GOAL, DONE))
            if not gamma > goal or numbers[ALPHA] == 0.0:
                break
            self._graphs.run(iterate, *self._given, *self.springs.arrays, self.springs.count, x)
        launch(correct_patches, count, correction, device=self.device)
        left = 0.0 if start == 0.0 else float(np.sqrt(np.abs(gamma / start)))
        return Solution(int(iterations), left, gamma <= goal, start)

    def _start_from_guess(self, b: wp.array, v: wp.array, constraints: Constraints, x: wp.array) -> None:
        """Replace the start x, which is zero but for constraints, by the guess, if the residual of that is smaller."""
        wp.copy(self._zero, x)
        wp.copy(x, self._guess)
        launch(begin_rows, self.matrix.count, (self._system, constraints.velocity, v, 1, x), device=self.device)
        self._find_residual(b, x)
        self._precondition(CORRECTED)
        numbers = read((self._numbers, 0, NUMBERS))[0]
        if not numbers[GAMMA] < numbers[START]:
            wp.copy(x, self._zero)
            self._find_residual(b, x)
            self._precondition(CORRECTED)

    def constraint_forces(self, constraints: Constraints, b: wp.array, x: wp.array, h: float, force: wp.array) -> None:
        """Write the force by which constraints make x the answer, by vertex, in N, for a step h."""
        self._bind(constraints)
        self.springs.stretch(x)
        launch(find_forces, self.matrix.count, [self._system, self.matrix.row_of, b, x, h, force], device=self.device)

    def _find_residual(self, b: wp.array, x: wp.array) -> None:
        self.springs.stretch(x)
        self._by_patch(find_residual, (self._system, b, x, self._residual))

    def _iteration(self, x: wp.array) -> Any:
        """A function that does so many iterations; they change nothing once the goal is reached."""
        system, residual, numbers, direction = self._system, self._residual, self._numbers, self._direction
        count, patches = self.matrix.count, len(self._norm)
        # tuples, which `launch` looks through once
        turn = (system, residual, self._coarse_answer, numbers, direction)
        multiply = (system, direction, self._product, self._norm)
        alpha = (patches, self._norm, self.most_iterations, numbers)
        step = (system, numbers, direction, self._product, x, residual)

        def iterate(iterations: int) -> None:
            for _ in range(iterations):
                launch(turn_direction, count, turn, device=self.device)
                self.springs.stretch(direction)
                self._by_patch(multiply_direction, multiply)
                self._cooperative.launch(find_alpha, 1, alpha)
                self._by_patch(take_step, step)
                self._precondition(GOING)

        return iterate

    def _precondition(self, stage: int, ratio: float = 0.0, least: float = 0.0) -> None:
        """The coarse half of the preconditioner on the residual, and gamma."""
        self._coarse.solve(self._residual.patches, self._coarse_answer)
        inputs = [len(self._norm), self._residual, self._coarse_answer, stage, ratio, least, self._numbers]
        self._cooperative.launch(find_gamma, 1, inputs)

    def _by_patch(self, kernel: wp.Kernel, inputs: tuple[Any, ...]) -> None:
        """Launch a kernel over patches, on CUDA with a warp for each."""
        launch(kernel, len(self._norm) * lanes_on(self.device), inputs, device=self.device, grain=PATCHES_A_THREAD)
