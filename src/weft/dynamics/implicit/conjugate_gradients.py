"""Modified preconditioned conjugate gradients: a block matrix solved for all but the constrained directions.

Each vertex has a filter S, a projection of rank 0 to 3 onto the directions in which it is free (Baraff and Witkin 1998,
section 5). The constrained part of the answer is set at the start and no search direction ever touches it. What is
solved is the system filtered from both sides, with the constrained part moved to the right (Ascher and Boxerman 2003).

The preconditioner adds the inverse of each diagonal block, within the filter, to a coarse solve in which each patch of
about twenty vertices moves as one (see `aggregates`). It starts and ends with a coarse correction, after which the
residual of every free patch sums to zero: the solver's tolerance costs no momentum. Links (see `links`) are in the
product and in the diagonal, not in the coarse system, whose structure is that of the mesh. The last step's answer was measured
to be a worse start than none, and would make a step depend on more than the state.

Sums run over the rows of a patch, then over patches, always in this order, whatever the number of threads. The numbers of an
iteration stay on the device, and an iteration after the goal is reached changes nothing: so a card does several of them,
as one graph, before the host asks how far they have come.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.implicit.block_rows import BlockRows
from weft.dynamics.implicit.coarse_level import CoarseLevel
from weft.dynamics.implicit.conjugate_kernels import (
    ALPHA,
    AT_FIRST,
    CORRECTED,
    DONE,
    GAMMA,
    GOAL,
    GOING,
    NUMBERS,
    START,
    begin_rows,
    correct_patches,
    find_alpha,
    find_gamma,
    find_residual,
    multiply_direction,
    take_step,
    turn_direction,
)
from weft.dynamics.implicit.links import Links
from weft.runtime import launch
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.graph_cache import GraphCache
from weft.runtime.readback import read
from weft.runtime.reduction import lanes_on
from weft.world.constraints import Constraints

# patches worth a thread of their own
GRAIN = 8
# iterations of a card between two looks of the host
BATCH = 8


class Solution(NamedTuple):
    """How a solve went."""

    iterations: int
    residual: float
    """left over, as a part of what it was at the start"""
    converged: bool
    start: float
    """the residual that it is a part of, an energy"""


class ConjugateGradients:
    """Solves for the changes of velocity; buffers are kept between steps."""

    def __init__(
        self,
        matrix: BlockRows,
        links: Links,
        *,
        mass: float,
        tolerance: float,
        least_velocity: float,
        most_iterations: int,
    ) -> None:
        self.matrix = matrix
        self.links = links
        self.device = wp.get_device(matrix.device)
        self.tolerance = tolerance
        self.most_iterations = most_iterations
        # the norm of the residual is about that of the error: an energy, of which this is not worth an iteration
        self.least = mass * least_velocity**2
        count, patches = matrix.count, matrix.aggregates.count
        self._inverse = wp.zeros(count, dtype=wp.mat33d, device=self.device)
        self._residual, self._near, self._direction, self._product = (
            wp.zeros(count, dtype=wp.vec3d, device=self.device) for _ in range(4)
        )
        self._norm = wp.zeros(patches, dtype=wp.float64, device=self.device)
        self._right, self._far = (wp.zeros(patches, dtype=wp.vec3d, device=self.device) for _ in range(2))
        self._numbers = wp.zeros(NUMBERS, dtype=wp.float64, device=self.device)
        self._coarse = CoarseLevel(matrix)
        self._cooperative, self._graphs = CooperativeLauncher(self.device), GraphCache(self.device)

    def solve(
        self,
        b: wp.array,
        v: wp.array,
        constraints: Constraints,
        x: wp.array,
        *,
        before: Solution | None = None,
        tolerance: float | None = None,
    ) -> Solution:
        """Changes of velocity of the rows, to this tolerance, or the usual one.

        With the solution `before` of a similar system in the same step the search starts from what x holds, and its
        tolerance is relative to the start of that one.
        """
        matrix, links, count = self.matrix, self.links, self.matrix.count
        held, filters = constraints.directions, constraints.filters
        inputs: list[Any] = [matrix.order, matrix.diagonal, matrix.blocks, held, filters, constraints.velocity, v]
        inputs += [int(before is not None), *links.lists, links.matrices, x, self._inverse]
        launch(begin_rows, count, inputs, device=self.device)
        self._coarse.factor(constraints)

        # the coarse system alone first: what moves as one, free fall for one, is then exact
        correction = [matrix.order, matrix.patch_of, held, filters, self._far, x]
        self._find_residual(b, constraints, x)
        wanted = self.tolerance if tolerance is None else tolerance
        # who wants more than usual wants more of what is little, too
        least = self.least * min(1.0, wanted / self.tolerance) ** 2
        earlier = 0.0 if before is None else before.start
        self._precondition(AT_FIRST, wanted**2, least, earlier)
        launch(correct_patches, count, correction, device=self.device)
        self._find_residual(b, constraints, x)
        self._precondition(CORRECTED)
        self._direction.zero_()
        while True:
            numbers = read((self._numbers, 0, NUMBERS))[0]
            gamma, start, goal, iterations = (float(numbers[k]) for k in (GAMMA, START, GOAL, DONE))
            if not gamma > goal or numbers[ALPHA] == 0.0:
                break
            self._iterate(constraints, x)
        launch(correct_patches, count, correction, device=self.device)
        left = 0.0 if start == 0.0 else float(np.sqrt(np.abs(gamma / start)))
        return Solution(int(iterations), left, gamma <= goal, start)

    def _find_residual(self, b: wp.array, constraints: Constraints, x: wp.array) -> None:
        """What is left of the right-hand side, and the fine half of the preconditioner on it."""
        self.links.stretch(x)
        inputs = [self.matrix.patches, *self._filtered(constraints), *self._system, self._inverse, b, x]
        self._by_patch(find_residual, [*inputs, *self._reduced])

    def _iterate(self, constraints: Constraints, x: wp.array) -> None:
        """The next iteration, or several of them on a card."""
        if self.device.is_cpu:
            self._go(constraints, x)
        else:
            links = self.links
            given = [*links.lists, links.matrices, links.stretched, links.count, x, constraints.filters]
            self._graphs.run(lambda: self._go_on(constraints, x), *given, self.most_iterations)

    def _go_on(self, constraints: Constraints, x: wp.array) -> None:
        for _ in range(BATCH):
            self._go(constraints, x)

    def _go(self, constraints: Constraints, x: wp.array) -> None:
        """One iteration; it changes nothing once the goal is reached."""
        matrix, numbers, count = self.matrix, self._numbers, self.matrix.count
        filtered = self._filtered(constraints)
        inputs: list[Any] = [matrix.order, matrix.patch_of, *filtered[1:], self._near, self._far, numbers]
        launch(turn_direction, count, [*inputs, self._direction], device=self.device)
        self.links.stretch(self._direction)
        inputs = [matrix.patches, *self._system, self._direction, self._product, self._norm]
        self._by_patch(multiply_direction, inputs)
        inputs = [len(self._norm), self._norm, self.most_iterations, numbers]
        self._cooperative.launch(find_alpha, 1, inputs)
        inputs = [matrix.patches, *filtered, self._inverse, numbers, self._direction, self._product, x]
        self._by_patch(take_step, [*inputs, *self._reduced])
        self._precondition(GOING)

    def _precondition(self, stage: int, part: float = 0.0, least: float = 0.0, before: float = 0.0) -> None:
        """The coarse half of the preconditioner on the residual, and the residual's product with both halves."""
        self._coarse.solve(self._right, self._far)
        inputs = [len(self._norm), self._norm, self._right, self._far, stage, part, least, before, self._numbers]
        self._cooperative.launch(find_gamma, 1, inputs)

    @property
    def _system(self) -> list[wp.array]:
        matrix, links = self.matrix, self.links
        return [matrix.offsets, matrix.columns, matrix.blocks, *links.lists, links.stretched]

    @property
    def _reduced(self) -> list[wp.array]:
        return [self._residual, self._near, self._right, self._norm]

    def _filtered(self, constraints: Constraints) -> list[wp.array]:
        return [self.matrix.order, constraints.directions, constraints.filters]

    def _by_patch(self, kernel: wp.Kernel, inputs: list[Any]) -> None:
        """Launch a kernel over patches, which a warp of a card shares."""
        launch(kernel, len(self._norm) * lanes_on(self.device), inputs, device=self.device, grain=GRAIN)
