"""Kernels of the coarse system: its blocks summed by patches, its factor, and what the factor makes of a right-hand side.

All are for blocks of 3 x 3. The factor is L D L^T in the order of elimination (see `elimination`).
"""

import warp as wp

from weft.runtime.cooperative import barrier_between
from weft.runtime.partition import partition_begin, partition_end, partition_step
from weft.runtime.reduction import lane_sum_matrix, lane_sum_vector, lanes, sync_lanes

wp.set_module_options({"enable_backward": False})

# part of a diagonal block that stands in for what is filtered away: enough to stay regular
STAND_IN = wp.constant(wp.float64(1.0e-4))


@wp.kernel
def assemble_coarse(
    first: int,
    offsets: wp.array[int],
    items: wp.array[int],
    rows: wp.array[int],
    columns: wp.array[int],
    blocks: wp.array[wp.mat33d],
    order: wp.array[int],
    held: wp.array[int],
    filters: wp.array[wp.mat33d],
    values: wp.array[wp.mat33d],
):
    """Sum of the filtered blocks between two patches; what is filtered away stays regular on the diagonal."""
    number = first + wp.tid()
    slot = number // lanes()
    lane = number % lanes()
    total = wp.mat33d()
    for k in range(offsets[slot] + lane, offsets[slot + 1], lanes()):
        place = items[k]
        block = blocks[place]
        i = order[rows[place]]
        j = order[columns[place]]
        if i == j and held[i] != 0:
            total += (STAND_IN * wp.trace(block)) * (wp.identity(n=3, dtype=wp.float64) - filters[i])
        if held[i] != 0:
            block = filters[i] * block
        if held[j] != 0:
            block = block * filters[j]
        total += block
    total = lane_sum_matrix(total)
    if lane == 0:
        values[slot] = total


@wp.func
def take_products(
    slot: int,
    lane: int,
    count: int,
    offsets: wp.array[int],
    products: wp.array[wp.vec2i],
    values: wp.array[wp.mat33d],
    factor: wp.array[wp.mat33d],
):
    """Take from a slot what the columns before it have in common with it."""
    total = wp.mat33d()
    if lane == 0:
        total = values[slot]
    for k in range(offsets[slot] + lane, offsets[slot + 1], lanes()):
        pair = products[k]
        total -= factor[pair[0]] * wp.transpose(values[count + pair[1]])
    total = lane_sum_matrix(total)
    if lane == 0:
        values[slot] = total


@wp.kernel
def factor_coarse(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    heights: wp.array[int],
    slots: wp.array[int],
    column_of: wp.array[int],
    offsets: wp.array[int],
    products: wp.array[wp.vec2i],
    values: wp.array[wp.mat33d],
    factor: wp.array[wp.mat33d],
    pivots: wp.array[wp.mat33d],
):
    """L and the inverse of D, from the lowest columns of the tree upwards; `values` keeps L D."""
    t = first + wp.tid()
    for height in range(heights.shape[0] - 1):
        begin = heights[height]
        size = heights[height + 1] - begin
        shared = size * lanes()
        for k in range(
            partition_begin(t, threads, shared), partition_end(t, threads, shared), partition_step(threads, shared)
        ):
            take_products(slots[begin + k // lanes()], k % lanes(), count, offsets, products, values, factor)
        barrier_between(arrivals, shared, size)
        for k in range(
            partition_begin(t, threads, size), partition_end(t, threads, size), partition_step(threads, size)
        ):
            slot = slots[begin + k]
            pivot = wp.inverse(values[column_of[slot]])
            if slot < count:
                pivots[slot] = pivot
            else:
                factor[slot - count] = values[slot] * pivot
        following = int(0)
        if height + 2 < heights.shape[0]:
            following = (heights[height + 2] - heights[height + 1]) * lanes()
        barrier_between(arrivals, size, following)


@wp.kernel
def substitute(
    first: int,
    count: int,
    columns: wp.array[int],
    rows: wp.array[int],
    pivots: wp.array[wp.mat33d],
    factor: wp.array[wp.mat33d],
    place: wp.array[int],
    right: wp.array[wp.vec3d],
    work: wp.array[wp.vec3d],
    answer: wp.array[wp.vec3d],
):
    """The displacement of each patch, column after column: one item."""
    start = first + wp.tid()
    for i in range(start, count):
        work[place[i]] = right[i]
    for j in range(start, count):
        known = work[j]
        for a in range(columns[j], columns[j + 1]):
            work[rows[a]] = work[rows[a]] - factor[a] * known
    for back in range(start, count):
        j = count - 1 - back
        known = pivots[j] * work[j]
        for a in range(columns[j], columns[j + 1]):
            known -= wp.transpose(factor[a]) * work[rows[a]]
        work[j] = known
    for i in range(start, count):
        answer[i] = work[place[i]]


@wp.kernel
def invert_columns(
    first: int,
    columns: wp.array[int],
    rows: wp.array[int],
    depth: wp.array[int],
    factor: wp.array[wp.mat33d],
    reach_offsets: wp.array[int],
    reach_rows: wp.array[int],
    inverse: wp.array[wp.mat33d],
):
    """A column of L^-1: from the node itself upwards, each ancestor hands on what it has to its own ancestors."""
    number = first + wp.tid()
    column = number // lanes()
    lane = number % lanes()
    begin = reach_offsets[column]
    end = reach_offsets[column + 1]
    for k in range(begin + lane, end, lanes()):
        inverse[k] = wp.mat33d()
    if lane == 0:
        inverse[begin] = wp.identity(n=3, dtype=wp.float64)
    sync_lanes()
    for k in range(begin, end):
        known = inverse[k]
        node = reach_rows[k]
        for a in range(columns[node] + lane, columns[node + 1], lanes()):
            # an ancestor's place is how much higher it is
            above = begin + depth[column] - depth[rows[a]]
            inverse[above] = inverse[above] - factor[a] * known
        sync_lanes()


@wp.kernel
def carry_up(
    first: int,
    chunks: wp.array[int],
    entries: wp.array[int],
    columns: wp.array[int],
    inverse: wp.array[wp.mat33d],
    patches: wp.array[int],
    right: wp.array[wp.vec3d],
    parts: wp.array[wp.vec3d],
):
    """L^-1 times the right-hand side: a part of a row."""
    number = first + wp.tid()
    chunk = number // lanes()
    total = wp.vec3d()
    for k in range(chunks[chunk] + number % lanes(), chunks[chunk + 1], lanes()):
        total += inverse[entries[k]] * right[patches[columns[k]]]
    total = lane_sum_vector(total)
    if number % lanes() == 0:
        parts[chunk] = total


@wp.kernel
def divide(
    first: int,
    row_chunks: wp.array[int],
    parts: wp.array[wp.vec3d],
    pivots: wp.array[wp.mat33d],
    divided: wp.array[wp.vec3d],
):
    """D^-1 times that, row by row."""
    row = first + wp.tid()
    total = wp.vec3d()
    for k in range(row_chunks[row], row_chunks[row + 1]):
        total += parts[k]
    divided[row] = pivots[row] * total


@wp.kernel
def carry_down(
    first: int,
    offsets: wp.array[int],
    rows: wp.array[int],
    inverse: wp.array[wp.mat33d],
    divided: wp.array[wp.vec3d],
    patches: wp.array[int],
    answer: wp.array[wp.vec3d],
):
    """L^-T times that: the displacement of a patch."""
    number = first + wp.tid()
    column = number // lanes()
    total = wp.vec3d()
    for k in range(offsets[column] + number % lanes(), offsets[column + 1], lanes()):
        total += wp.transpose(inverse[k]) * divided[rows[k]]
    total = lane_sum_vector(total)
    if number % lanes() == 0:
        answer[patches[column]] = total
