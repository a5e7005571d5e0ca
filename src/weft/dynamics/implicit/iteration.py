"""Kernels of an iteration of conjugate gradients (see `conjugate_gradients`).

Rows of the matrix are vertices. A thread, on CUDA a warp, sums over the rows of a patch, then one block sums over patches,
always in this order, whatever the number of threads.
"""

import warp as wp

from weft.dynamics.implicit.step_springs import spring_block, springs_at
from weft.runtime.compaction import block_sum, lane_sum, lane_sum_vector, lanes

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# places of the numbers of the iteration. GAMMA: the residual's product with the preconditioned residual; START: the same at the
# start; GOAL: at which the iteration ends; ALPHA: the step along the direction; BETA: the factor of the last direction in the
# next; DONE: iterations so far
GAMMA, START, GOAL, ALPHA, BETA, DONE = (wp.constant(k) for k in range(6))
NUMBERS = 6
# when gamma is computed: before the first coarse correction, after it, in each iteration
AT_FIRST, CORRECTED, GOING = (wp.constant(k) for k in range(3))


@wp.struct
class System:
    """The matrix, the constraints, the springs of the step and the fine preconditioner."""

    patches: wp.array[int]
    """where the rows of each patch begin"""
    patch_of: wp.array[int]
    order: wp.array[int]
    """the vertex of each row"""
    diagonal: wp.array[int]
    offsets: wp.array[int]
    columns: wp.array[int]
    blocks: wp.array[wp.mat33d]
    held: wp.array[int]
    """by vertex: how many directions are constrained"""
    filters: wp.array[wp.mat33d]
    """by vertex; read where some are"""
    spring_offsets: wp.array[int]
    spring_entries: wp.array[int]
    spring_weights: wp.array[wp.float64]
    spring_matrices: wp.array[wp.mat33d]
    stretched: wp.array[wp.vec3d]
    inverse: wp.array[wp.mat33d]


@wp.struct
class Residual:
    """The residual, and what preconditioners need of it."""

    rows: wp.array[wp.vec3d]
    fine: wp.array[wp.vec3d]
    """the fine half of the preconditioner on it"""
    patches: wp.array[wp.vec3d]
    """its sum over each patch: the right-hand side of the coarse system"""
    norm: wp.array[wp.float64]
    """its product with the fine half, by patch"""


@wp.func
def filtered(r: int, s: System, value: wp.vec3d) -> wp.vec3d:
    """The part of a row's value in the directions in which its vertex is free."""
    i = s.order[r]
    free = value
    if s.held[i] != 0:
        free = s.filters[i] * value
    return free


@wp.func
def row_product(r: int, s: System, x: wp.array[wp.vec3d]) -> wp.vec3d:
    """The row r of the matrix without the springs of the step, times x."""
    product = wp.vec3d()
    for k in range(s.offsets[r], s.offsets[r + 1]):
        product += s.blocks[k] * x[s.columns[k]]
    return product


@wp.func
def springs_of_row(r: int, s: System) -> wp.vec3d:
    """The springs' part of the product, from what `StepSprings.stretch` found."""
    return springs_at(r, s.spring_offsets, s.spring_entries, s.spring_weights, s.stretched)


@wp.func
def sum_patch(patch: int, lane: int, summed: wp.vec3d, square: wp.float64, residual: Residual):
    """Store the sums over the rows of a patch."""
    whole = lane_sum_vector(summed)
    product = lane_sum(square)
    if lane == 0:
        residual.patches[patch] = whole
        residual.norm[patch] = product


@wp.kernel
def begin_rows(
    first: int,
    s: System,
    velocity: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    keep: int,
    x: wp.array[wp.vec3d],
):
    """The constrained part of the answer x, and the inverse of each diagonal block within its filter."""
    r = first + wp.tid()
    i = s.order[r]
    guess = wp.vec3d()
    if keep == 1:
        guess = x[r]
    springs = spring_block(r, s.spring_offsets, s.spring_entries, s.spring_weights, s.spring_matrices)
    block = s.blocks[s.diagonal[r]] + springs
    if s.held[i] == 0:
        x[r] = guess
        s.inverse[r] = wp.inverse(block)
    else:
        free = s.filters[i]
        eye = wp.identity(n=3, dtype=wp.float64)
        change = velocity[i] - v[i]
        x[r] = change + free * (guess - change)
        inside = free * block * free + (THIRD * wp.trace(block)) * (eye - free)
        s.inverse[r] = free * wp.inverse(inside) * free


@wp.kernel
def find_residual(first: int, s: System, b: wp.array[wp.vec3d], x: wp.array[wp.vec3d], residual: Residual):
    """b - A x within the filters, and the fine half of the preconditioner on it. An item a patch."""
    number = first + wp.tid()
    patch = number // lanes()
    lane = number % lanes()
    summed = wp.vec3d()
    square = ZERO
    for r in range(s.patches[patch] + lane, s.patches[patch + 1], lanes()):
        left = b[r] - row_product(r, s, x)
        left = filtered(r, s, left - springs_of_row(r, s))
        residual.rows[r] = left
        residual.fine[r] = s.inverse[r] * left
        summed += left
        square += wp.dot(left, residual.fine[r])
    sum_patch(patch, lane, summed, square, residual)


@wp.kernel
def turn_direction(
    first: int,
    s: System,
    residual: Residual,
    coarse: wp.array[wp.vec3d],
    numbers: wp.array[wp.float64],
    direction: wp.array[wp.vec3d],
):
    """The next search direction: both halves of the preconditioner, and beta times the last direction."""
    r = first + wp.tid()
    direction[r] = residual.fine[r] + filtered(r, s, coarse[s.patch_of[r]]) + numbers[BETA] * direction[r]


@wp.kernel
def multiply_direction(
    first: int,
    s: System,
    direction: wp.array[wp.vec3d],
    product: wp.array[wp.vec3d],
    norm: wp.array[wp.float64],
):
    """The matrix times the direction, and its product with the direction by patch. An item a patch."""
    number = first + wp.tid()
    patch = number // lanes()
    lane = number % lanes()
    square = ZERO
    for r in range(s.patches[patch] + lane, s.patches[patch + 1], lanes()):
        answered = row_product(r, s, direction)
        answered = answered + springs_of_row(r, s)
        product[r] = answered
        square += wp.dot(answered, direction[r])
    square = lane_sum(square)
    if lane == 0:
        norm[patch] = square


@wp.kernel
def take_step(
    first: int,
    s: System,
    numbers: wp.array[wp.float64],
    direction: wp.array[wp.vec3d],
    product: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    residual: Residual,
):
    """x += alpha direction; then the fine half of the preconditioner on the new residual. An item a patch."""
    alpha = numbers[ALPHA]
    number = first + wp.tid()
    patch = number // lanes()
    lane = number % lanes()
    summed = wp.vec3d()
    square = ZERO
    for r in range(s.patches[patch] + lane, s.patches[patch + 1], lanes()):
        change = filtered(r, s, product[r])
        x[r] = x[r] + alpha * direction[r]
        left = residual.rows[r] - alpha * change
        residual.rows[r] = left
        residual.fine[r] = s.inverse[r] * left
        summed += left
        square += wp.dot(left, residual.fine[r])
    sum_patch(patch, lane, summed, square, residual)


@wp.kernel
def correct_patches(first: int, s: System, coarse: wp.array[wp.vec3d], x: wp.array[wp.vec3d]):
    """Move each patch by what the coarse system found, each vertex within its filter."""
    r = first + wp.tid()
    x[r] = x[r] + filtered(r, s, coarse[s.patch_of[r]])


@wp.kernel
def find_alpha(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    patches: int,
    norm: wp.array[wp.float64],
    most: int,
    numbers: wp.array[wp.float64],
):
    """The step along the direction: 0 once the goal is reached. One block."""
    t = first + wp.tid()
    own = ZERO
    for k in range(t, patches, threads):
        own += norm[k]
    curvature = block_sum(own)
    if t == 0:
        gamma = numbers[GAMMA]
        alpha = ZERO
        if gamma > numbers[GOAL] and numbers[DONE] < wp.float64(most) and curvature > ZERO:
            alpha = gamma / curvature
            numbers[DONE] = numbers[DONE] + wp.float64(1.0)
        numbers[ALPHA] = alpha


@wp.kernel
def find_gamma(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    patches: int,
    residual: Residual,
    coarse: wp.array[wp.vec3d],
    stage: int,
    ratio: wp.float64,
    least: wp.float64,
    numbers: wp.array[wp.float64],
):
    """The residual's product with both halves of the preconditioner on it, and what follows from it. One block.

    The goal is `ratio` times its value at first, but not less than `least`.
    """
    t = first + wp.tid()
    own = ZERO
    for k in range(t, patches, threads):
        own += residual.norm[k] + wp.dot(residual.patches[k], coarse[k])
    gamma = block_sum(own)
    if t == 0:
        if stage == AT_FIRST:
            numbers[START] = gamma
            numbers[GOAL] = wp.max(ratio * gamma, least)
        elif stage == CORRECTED:
            numbers[ALPHA] = wp.float64(1.0)
            numbers[BETA] = ZERO
            numbers[DONE] = ZERO
        elif numbers[ALPHA] > ZERO:
            numbers[BETA] = gamma / numbers[GAMMA]
        numbers[GAMMA] = gamma


@wp.kernel
def find_forces(
    first: int,
    s: System,
    row_of: wp.array[int],
    b: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    h: wp.float64,
    force: wp.array[wp.vec3d],
):
    """The force of each vertex' constraints: (A x - b) / h; 0 where there are none."""
    i = first + wp.tid()
    missing = wp.vec3d()
    if s.held[i] != 0:
        r = row_of[i]
        missing = -b[r]
        for k in range(s.offsets[r], s.offsets[r + 1]):
            missing += s.blocks[k] * x[s.columns[k]]
        missing += springs_of_row(r, s)
        missing = missing / h
    force[i] = missing
