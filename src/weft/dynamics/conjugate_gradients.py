"""Modified preconditioned conjugate gradients: a block matrix solved for all but the constrained directions.

Each vertex has a filter S, a projection of rank 0 to 3 onto the directions in which it is free (Baraff and Witkin 1998,
section 5). The constrained part of the answer is set at the start and no search direction ever touches it. What is
solved is the system filtered from both sides, with the constrained part moved to the right (Ascher and Boxerman 2003).

The preconditioner adds the inverse of each diagonal block, within the filter, to a coarse solve in which each patch of
about twenty vertices moves as one (see `aggregates`). It starts and ends with a coarse correction, after which the
residual of every free patch sums to zero: the solver's tolerance costs no momentum. Links (see `links`) are in the
product and in the diagonal, not in the coarse system, whose structure is that of the mesh. The last step's answer was measured
to be a worse start than none, and would make a step depend on more than the state.

Sums run over the rows of a patch, then over patches, always in this order, whatever the number of threads.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.block_rows import BlockRows
from weft.dynamics.coarse_level import CoarseLevel
from weft.dynamics.links import Links, link_block, links_at
from weft.world import launch
from weft.world.constraints import Constraints

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# patches worth a thread of their own
GRAIN = 8


@wp.kernel
def begin_rows(
    first: int,
    order: wp.array[int],
    diagonal: wp.array[int],
    blocks: wp.array[wp.mat33d],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    velocity: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    keep: int,
    link_offsets: wp.array[int],
    link_entries: wp.array[int],
    link_weights: wp.array[wp.float64],
    link_matrices: wp.array[wp.mat33d],
    x: wp.array[wp.vec3d],
    inverse: wp.array[wp.mat33d],
):
    """The constrained part of the answer, and the inverse of the diagonal block within the filter."""
    r = first + wp.tid()
    i = order[r]
    guess = wp.vec3d()
    if keep == 1:
        guess = x[r]
    block = blocks[diagonal[r]] + link_block(r, link_offsets, link_entries, link_weights, link_matrices)
    if held[i] == 0:
        x[r] = guess
        inverse[r] = wp.inverse(block)
    else:
        s = filters[i]
        eye = wp.identity(n=3, dtype=wp.float64)
        change = velocity[i] - v[i]
        x[r] = change + s * (guess - change)
        inside = s * block * s + (THIRD * wp.trace(block)) * (eye - s)
        inverse[r] = s * wp.inverse(inside) * s


@wp.func
def row_product(
    r: int, offsets: wp.array[int], columns: wp.array[int], blocks: wp.array[wp.mat33d], x: wp.array[wp.vec3d]
) -> wp.vec3d:
    total = wp.vec3d()
    for k in range(offsets[r], offsets[r + 1]):
        total += blocks[k] * x[columns[k]]
    return total


@wp.kernel
def find_residual(
    first: int,
    patches: wp.array[int],
    order: wp.array[int],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    offsets: wp.array[int],
    columns: wp.array[int],
    blocks: wp.array[wp.mat33d],
    link_offsets: wp.array[int],
    link_entries: wp.array[int],
    link_weights: wp.array[wp.float64],
    stretched: wp.array[wp.vec3d],
    inverse: wp.array[wp.mat33d],
    b: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    residual: wp.array[wp.vec3d],
    near: wp.array[wp.vec3d],
    coarse: wp.array[wp.vec3d],
    norm: wp.array[wp.float64],
):
    """What is left of the right-hand side, and the fine half of the preconditioner on it."""
    patch = first + wp.tid()
    total = wp.vec3d()
    square = ZERO
    for r in range(patches[patch], patches[patch + 1]):
        left = b[r] - row_product(r, offsets, columns, blocks, x)
        left = left - links_at(r, link_offsets, link_entries, link_weights, stretched)
        i = order[r]
        if held[i] != 0:
            left = filters[i] * left
        z = inverse[r] * left
        residual[r] = left
        near[r] = z
        total += left
        square += wp.dot(left, z)
    coarse[patch] = total
    norm[patch] = square


@wp.kernel
def turn_direction(
    first: int,
    order: wp.array[int],
    patch_of: wp.array[int],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    near: wp.array[wp.vec3d],
    coarse: wp.array[wp.vec3d],
    beta: wp.float64,
    direction: wp.array[wp.vec3d],
):
    """The next search direction: both halves of the preconditioner, and beta times the last direction."""
    r = first + wp.tid()
    far = coarse[patch_of[r]]
    i = order[r]
    if held[i] != 0:
        far = filters[i] * far
    direction[r] = near[r] + far + beta * direction[r]


@wp.kernel
def multiply_direction(
    first: int,
    patches: wp.array[int],
    offsets: wp.array[int],
    columns: wp.array[int],
    blocks: wp.array[wp.mat33d],
    link_offsets: wp.array[int],
    link_entries: wp.array[int],
    link_weights: wp.array[wp.float64],
    stretched: wp.array[wp.vec3d],
    direction: wp.array[wp.vec3d],
    product: wp.array[wp.vec3d],
    norm: wp.array[wp.float64],
):
    """The matrix times the direction, and its product with the direction by patch."""
    patch = first + wp.tid()
    square = ZERO
    for r in range(patches[patch], patches[patch + 1]):
        total = row_product(r, offsets, columns, blocks, direction)
        total = total + links_at(r, link_offsets, link_entries, link_weights, stretched)
        product[r] = total
        square += wp.dot(total, direction[r])
    norm[patch] = square


@wp.kernel
def take_step(
    first: int,
    patches: wp.array[int],
    order: wp.array[int],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    inverse: wp.array[wp.mat33d],
    alpha: wp.float64,
    direction: wp.array[wp.vec3d],
    product: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    residual: wp.array[wp.vec3d],
    near: wp.array[wp.vec3d],
    coarse: wp.array[wp.vec3d],
    norm: wp.array[wp.float64],
):
    """Along the direction by alpha; then the fine half of the preconditioner on the new residual."""
    patch = first + wp.tid()
    total = wp.vec3d()
    square = ZERO
    for r in range(patches[patch], patches[patch + 1]):
        change = product[r]
        i = order[r]
        if held[i] != 0:
            change = filters[i] * change
        x[r] = x[r] + alpha * direction[r]
        left = residual[r] - alpha * change
        z = inverse[r] * left
        residual[r] = left
        near[r] = z
        total += left
        square += wp.dot(left, z)
    coarse[patch] = total
    norm[patch] = square


@wp.kernel
def correct_patches(
    first: int,
    order: wp.array[int],
    patch_of: wp.array[int],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    coarse: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """Move each patch by what the coarse system still asks for."""
    r = first + wp.tid()
    far = coarse[patch_of[r]]
    i = order[r]
    if held[i] != 0:
        far = filters[i] * far
    x[r] = x[r] + far


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
        self._coarse = CoarseLevel(matrix)

    def solve(
        self,
        b: wp.array,
        v: wp.array,
        constraints: Constraints,
        x: wp.array,
        *,
        before: Solution | None = None,
        looseness: float = 1.0,
    ) -> Solution:
        """Changes of velocity of the rows, to the tolerance times `looseness`.

        With the solution `before` of a similar system in the same step the search starts from what x holds, and its
        tolerance is relative to the start of that one.
        """
        matrix, filters = self.matrix, constraints.filters
        held, count = constraints.directions, self.matrix.count
        links = self.links
        system = [matrix.offsets, matrix.columns, matrix.blocks, *links.lists, links.stretched]
        filtered = [matrix.order, held, filters]
        reduced = [self._residual, self._near, self._right, self._norm]
        inputs: list[Any] = [matrix.order, matrix.diagonal, matrix.blocks, held, filters, constraints.velocity, v]
        inputs += [int(before is not None), *links.lists, links.matrices, x, self._inverse]
        launch(begin_rows, count, inputs, device=self.device)
        self._coarse.factor(constraints)

        # the coarse system alone first: what moves as one, free fall for one, is then exact
        left_over = [matrix.patches, *filtered, *system, self._inverse, b, x, *reduced]
        correction = [matrix.order, matrix.patch_of, held, filters, self._far, x]
        links.stretch(x)
        self._by_patch(find_residual, left_over)
        start = self._solve_coarse()
        if before is not None:
            start = max(start, before.start)
        goal = max((looseness * self.tolerance) ** 2 * start, self.least)
        launch(correct_patches, count, correction, device=self.device)
        links.stretch(x)
        self._by_patch(find_residual, left_over)
        gamma = self._solve_coarse()
        iterations, beta = 0, 0.0
        self._direction.zero_()
        while gamma > goal and iterations < self.most_iterations:
            inputs = [matrix.order, matrix.patch_of, held, filters, self._near, self._far]
            launch(turn_direction, count, [*inputs, beta, self._direction], device=self.device)
            links.stretch(self._direction)
            self._by_patch(multiply_direction, [matrix.patches, *system, self._direction, self._product, self._norm])
            curvature = float(np.sum(self._norm.numpy()))
            if not curvature > 0.0:
                break
            alpha = gamma / curvature
            inputs = [matrix.patches, *filtered, self._inverse]
            self._by_patch(take_step, [*inputs, alpha, self._direction, self._product, x, *reduced])
            last, gamma = gamma, self._solve_coarse()
            beta = gamma / last
            iterations += 1
        launch(correct_patches, count, correction, device=self.device)
        left = 0.0 if start == 0.0 else float(np.sqrt(np.abs(gamma / start)))
        return Solution(iterations, left, gamma <= goal, start)

    def _by_patch(self, kernel: wp.Kernel, inputs: list[Any]) -> None:
        launch(kernel, len(self._norm), inputs, device=self.device, grain=GRAIN)

    def _solve_coarse(self) -> float:
        return self._coarse.solve(self._right, self._norm, self._far)
