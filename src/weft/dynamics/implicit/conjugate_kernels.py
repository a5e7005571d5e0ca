"""Kernels of the conjugate gradients: rows are vertices, and a warp of a card shares the rows of a patch.

The numbers of the iteration stay on the device, so that nobody waits for them: kernels read them where they are.
"""

import warp as wp

from weft.dynamics.implicit.links import link_block, links_at
from weft.runtime.reduction import block_sum, lane_sum, lane_sum_vector, lanes

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# where the numbers of the iteration are: the residual's product with the preconditioned residual, now and at the start, what
# it shall come down to, the way along the direction, the part of the last direction in the next, iterations so far
GAMMA, START, GOAL, ALPHA, BETA, DONE = (wp.constant(k) for k in range(6))
NUMBERS = 6
# when gamma is found: before the coarse correction, after it, in each iteration
AT_FIRST, CORRECTED, GOING = (wp.constant(k) for k in range(3))


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


@wp.func
def sum_patch(
    patch: int,
    lane: int,
    summed: wp.vec3d,
    square: wp.float64,
    coarse: wp.array[wp.vec3d],
    norm: wp.array[wp.float64],
):
    """What the rows of a patch leave in sum, and its product with the fine half of the preconditioner on it."""
    whole = lane_sum_vector(summed)
    product = lane_sum(square)
    if lane == 0:
        coarse[patch] = whole
        norm[patch] = product


@wp.func
def patch_way(
    r: int,
    order: wp.array[int],
    patch_of: wp.array[int],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    coarse: wp.array[wp.vec3d],
) -> wp.vec3d:
    """How a row moves with its patch, within its filter."""
    way = coarse[patch_of[r]]
    i = order[r]
    if held[i] != 0:
        way = filters[i] * way
    return way


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
    number = first + wp.tid()
    patch = number // lanes()
    lane = number % lanes()
    summed = wp.vec3d()
    square = ZERO
    for r in range(patches[patch] + lane, patches[patch + 1], lanes()):
        left = b[r] - row_product(r, offsets, columns, blocks, x)
        left = left - links_at(r, link_offsets, link_entries, link_weights, stretched)
        i = order[r]
        if held[i] != 0:
            left = filters[i] * left
        residual[r] = left
        near[r] = inverse[r] * left
        summed += left
        square += wp.dot(left, near[r])
    sum_patch(patch, lane, summed, square, coarse, norm)


@wp.kernel
def turn_direction(
    first: int,
    order: wp.array[int],
    patch_of: wp.array[int],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    near: wp.array[wp.vec3d],
    coarse: wp.array[wp.vec3d],
    numbers: wp.array[wp.float64],
    direction: wp.array[wp.vec3d],
):
    """The next search direction: both halves of the preconditioner, and beta times the last direction."""
    r = first + wp.tid()
    far = patch_way(r, order, patch_of, held, filters, coarse)
    direction[r] = near[r] + far + numbers[BETA] * direction[r]


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
    number = first + wp.tid()
    patch = number // lanes()
    lane = number % lanes()
    square = ZERO
    for r in range(patches[patch] + lane, patches[patch + 1], lanes()):
        answered = row_product(r, offsets, columns, blocks, direction)
        answered = answered + links_at(r, link_offsets, link_entries, link_weights, stretched)
        product[r] = answered
        square += wp.dot(answered, direction[r])
    square = lane_sum(square)
    if lane == 0:
        norm[patch] = square


@wp.kernel
def take_step(
    first: int,
    patches: wp.array[int],
    order: wp.array[int],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    inverse: wp.array[wp.mat33d],
    numbers: wp.array[wp.float64],
    direction: wp.array[wp.vec3d],
    product: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    residual: wp.array[wp.vec3d],
    near: wp.array[wp.vec3d],
    coarse: wp.array[wp.vec3d],
    norm: wp.array[wp.float64],
):
    """Along the direction by alpha; then the fine half of the preconditioner on the new residual."""
    alpha = numbers[ALPHA]
    number = first + wp.tid()
    patch = number // lanes()
    lane = number % lanes()
    summed = wp.vec3d()
    square = ZERO
    for r in range(patches[patch] + lane, patches[patch + 1], lanes()):
        change = product[r]
        i = order[r]
        if held[i] != 0:
            change = filters[i] * change
        x[r] = x[r] + alpha * direction[r]
        left = residual[r] - alpha * change
        residual[r] = left
        near[r] = inverse[r] * left
        summed += left
        square += wp.dot(left, near[r])
    sum_patch(patch, lane, summed, square, coarse, norm)


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
    far = patch_way(r, order, patch_of, held, filters, coarse)
    x[r] = x[r] + far


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
    """How far to go along the direction: nowhere once the goal is reached. One block."""
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
    norm: wp.array[wp.float64],
    right: wp.array[wp.vec3d],
    far: wp.array[wp.vec3d],
    stage: int,
    part: wp.float64,
    least: wp.float64,
    before: wp.float64,
    numbers: wp.array[wp.float64],
):
    """The residual's product with both halves of the preconditioner on it, and what follows from it. One block.

    The goal is a part of what it is at first, or was `before` if that is more, but not less than `least`.
    """
    t = first + wp.tid()
    own = ZERO
    for k in range(t, patches, threads):
        own += norm[k] + wp.dot(right[k], far[k])
    gamma = block_sum(own)
    if t == 0:
        if stage == AT_FIRST:
            # what is not a number stays so
            start = gamma
            if before > gamma:
                start = before
            numbers[START] = start
            numbers[GOAL] = wp.max(part * start, least)
        elif stage == CORRECTED:
            numbers[ALPHA] = wp.float64(1.0)
            numbers[BETA] = ZERO
            numbers[DONE] = ZERO
        elif numbers[ALPHA] > ZERO:
            numbers[BETA] = gamma / numbers[GAMMA]
        numbers[GAMMA] = gamma
