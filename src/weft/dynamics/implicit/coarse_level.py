"""The coarse half of the implicit step's preconditioner: a small system in which each patch of vertices moves as one.

Its 3x3 blocks are the sums of the matrix' blocks between two patches, and its factor L D L^T is exact (see
`coarse_structure`). The factor is sparse, but substitution takes as many dependent steps as the elimination tree is high. A
CPU does it serially, which is quick. For CUDA the inverse of L is computed as well, whose columns have entries at all
ancestors of their node: seven times as many entries, and three launches instead of hundreds of grid barriers.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.implicit.block_matrix import BlockRows
from weft.dynamics.implicit.coarse_structure import Elimination
from weft.runtime import launch
from weft.runtime.compaction import lane_sum_matrix, lane_sum_vector, lanes, lanes_on, sync_lanes
from weft.runtime.cooperative import (
    CooperativeLauncher,
    barrier_between,
    partition_begin,
    partition_end,
    partition_step,
)
from weft.world.constraints import Constraints

wp.set_module_options({"enable_backward": False})

# entries of a row of L^-1 that a warp adds up: 4 a thread. More balance worse over warps, fewer need more partial sums
ENTRIES_A_WARP = 128
# fraction of the trace of a diagonal block that replaces its constrained directions: enough to keep the block invertible,
# and little beside the free ones
REGULAR = wp.constant(wp.float64(1.0e-4))


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
    """Sum of the filtered blocks between two patches; constrained directions get a small diagonal instead."""
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
            total += (REGULAR * wp.trace(block)) * (wp.identity(n=3, dtype=wp.float64) - filters[i])
        if held[i] != 0:
            block = filters[i] * block
        if held[j] != 0:
            block = block * filters[j]
        total += block
    total = lane_sum_matrix(total)
    if lane == 0:
        values[slot] = total


@wp.func
def subtract_products(
    slot: int,
    lane: int,
    count: int,
    offsets: wp.array[int],
    products: wp.array[wp.vec2i],
    values: wp.array[wp.mat33d],
    factor: wp.array[wp.mat33d],
):
    """Subtract the products of earlier columns from a slot."""
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
    """L and the inverse of D, height by height from the leaves of the tree; `values` keeps L D. A cooperative kernel."""
    t = first + wp.tid()
    for height in range(heights.shape[0] - 1):
        begin = heights[height]
        size = heights[height + 1] - begin
        shared = size * lanes()
        for k in range(
            partition_begin(t, threads, shared), partition_end(t, threads, shared), partition_step(threads, shared)
        ):
            subtract_products(slots[begin + k // lanes()], k % lanes(), count, offsets, products, values, factor)
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
    """The displacement of each patch by forward and backward substitution. Serial: launched with one item."""
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
    inverse_offsets: wp.array[int],
    inverse_rows: wp.array[int],
    inverse: wp.array[wp.mat33d],
):
    """A column of L^-1, from the node to the root: each ancestor subtracts its entry's share from its own ancestors."""
    number = first + wp.tid()
    column = number // lanes()
    lane = number % lanes()
    begin = inverse_offsets[column]
    end = inverse_offsets[column + 1]
    for k in range(begin + lane, end, lanes()):
        inverse[k] = wp.mat33d()
    if lane == 0:
        inverse[begin] = wp.identity(n=3, dtype=wp.float64)
    sync_lanes()
    for k in range(begin, end):
        known = inverse[k]
        node = inverse_rows[k]
        for a in range(columns[node] + lane, columns[node + 1], lanes()):
            # an ancestor's place in the column is the difference of depths
            above = begin + depth[column] - depth[rows[a]]
            inverse[above] = inverse[above] - factor[a] * known
        sync_lanes()


@wp.kernel
def multiply_inverse(
    first: int,
    chunks: wp.array[int],
    entries: wp.array[int],
    columns: wp.array[int],
    inverse: wp.array[wp.mat33d],
    patches: wp.array[int],
    right: wp.array[wp.vec3d],
    partial_sums: wp.array[wp.vec3d],
):
    """L^-1 times the right-hand side: the partial sum over a chunk of a row."""
    number = first + wp.tid()
    chunk = number // lanes()
    total = wp.vec3d()
    for k in range(chunks[chunk] + number % lanes(), chunks[chunk + 1], lanes()):
        total += inverse[entries[k]] * right[patches[columns[k]]]
    total = lane_sum_vector(total)
    if number % lanes() == 0:
        partial_sums[chunk] = total


@wp.kernel
def divide_by_pivots(
    first: int,
    row_chunks: wp.array[int],
    partial_sums: wp.array[wp.vec3d],
    pivots: wp.array[wp.mat33d],
    divided: wp.array[wp.vec3d],
):
    """D^-1 times the sums over the chunks of each row."""
    row = first + wp.tid()
    total = wp.vec3d()
    for k in range(row_chunks[row], row_chunks[row + 1]):
        total += partial_sums[k]
    divided[row] = pivots[row] * total


@wp.kernel
def multiply_transposed(
    first: int,
    offsets: wp.array[int],
    rows: wp.array[int],
    inverse: wp.array[wp.mat33d],
    divided: wp.array[wp.vec3d],
    patches: wp.array[int],
    answer: wp.array[wp.vec3d],
):
    """L^-T times that: the displacement of each patch."""
    number = first + wp.tid()
    column = number // lanes()
    total = wp.vec3d()
    for k in range(offsets[column] + number % lanes(), offsets[column + 1], lanes()):
        total += wp.transpose(inverse[k]) * divided[rows[k]]
    total = lane_sum_vector(total)
    if number % lanes() == 0:
        answer[patches[column]] = total


class CoarseLevel:
    """The system of the patches: `factor` it, then `solve` it as often as needed."""

    def __init__(self, matrix: BlockRows, *, inverted: bool | None = None) -> None:
        """`inverted`: whether L is inverted; by default on CUDA only."""
        self.matrix = matrix
        self.device = wp.get_device(matrix.device)
        self.inverted = not self.device.is_cpu if inverted is None else inverted
        elimination = matrix.aggregates.elimination
        self.count = elimination.count
        label = matrix.aggregates.label[matrix.order.numpy()]
        slots = elimination.slots_of(label[matrix.rows.numpy()], label[matrix.columns.numpy()])
        used = np.flatnonzero(slots >= 0)
        items = used[np.argsort(slots[used], kind="stable")]
        size = len(elimination.column_of)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(slots[used], minlength=size))])
        self._gather = [self._upload(a) for a in (offsets, items)]
        self._values = wp.zeros(size, dtype=wp.mat33d, device=self.device)
        self._factor = wp.zeros(len(elimination.rows), dtype=wp.mat33d, device=self.device)
        self._pivots = wp.zeros(self.count, dtype=wp.mat33d, device=self.device)
        lists = (elimination.heights, elimination.slots, elimination.column_of, elimination.offsets)
        products = wp.array(elimination.products, dtype=wp.vec2i, device=self.device)
        results = (self._values, self._factor, self._pivots)
        self._factoring = (self.count, *map(self._upload, lists), products, *results)
        self._most = int(np.diff(elimination.heights).max(initial=0)) * lanes_on(self.device)
        self._work = size + len(elimination.products)
        self._cooperative = CooperativeLauncher(self.device)

        self._columns, self._rows = self._upload(elimination.columns), self._upload(elimination.rows)
        if self.inverted:
            self._prepare_inverse(elimination)
        else:
            self._place = self._upload(elimination.place)
            self._known = wp.zeros(self.count, dtype=wp.vec3d, device=self.device)

    def _prepare_inverse(self, elimination: Elimination) -> None:
        """Arrays for the inverse of L and for the products with it."""
        structure = elimination.inverse()
        counts = -(-np.diff(structure.row_offsets) // ENTRIES_A_WARP)
        row_chunks = np.concatenate([[0], np.cumsum(counts)])
        number = np.arange(row_chunks[-1]) - np.repeat(row_chunks[:-1], counts)
        chunks = np.append(np.repeat(structure.row_offsets[:-1], counts) + ENTRIES_A_WARP * number, len(structure.rows))
        self._depth, self._row_chunks, self._chunks = map(self._upload, (elimination.depth, row_chunks, chunks))
        self._by_column = [self._upload(a) for a in (structure.offsets, structure.rows)]
        self._by_row = [self._upload(a) for a in (structure.entries, structure.columns)]
        self._patches = self._upload(np.argsort(elimination.place))
        self._inverse = wp.zeros(len(structure.rows), dtype=wp.mat33d, device=self.device)
        self._partial_sums = wp.zeros(len(chunks) - 1, dtype=wp.vec3d, device=self.device)
        self._divided = wp.zeros(self.count, dtype=wp.vec3d, device=self.device)

    def factor(self, constraints: Constraints) -> None:
        """Sum the blocks of the matrix by patches, within the filters of the constraints, and factor the result."""
        m = self.matrix
        inputs = [*self._gather, m.rows, m.columns, m.blocks, m.order, constraints.directions]
        self._run(assemble_coarse, len(self._values), [*inputs, constraints.filters, self._values], grain=128)
        self._cooperative.launch(factor_coarse, self._most, self._factoring, work=self._work)
        if self.inverted:
            inputs = [self._columns, self._rows, self._depth, self._factor, *self._by_column, self._inverse]
            self._run(invert_columns, self.count, inputs, grain=64)

    def solve(self, right: wp.array, answer: wp.array) -> None:
        """Write the displacement `answer` of each patch for a right-hand side `right` by patch."""
        if self.inverted:
            inputs: list[Any] = [self._chunks, *self._by_row, self._inverse, self._patches, right, self._partial_sums]
            self._run(multiply_inverse, len(self._partial_sums), inputs)
            inputs = [self._row_chunks, self._partial_sums, self._pivots, self._divided]
            launch(divide_by_pivots, self.count, inputs, device=self.device)
            inputs = [*self._by_column, self._inverse, self._divided, self._patches, answer]
            self._run(multiply_transposed, self.count, inputs)
        else:
            inputs = [self.count, self._columns, self._rows, self._pivots, self._factor, self._place, right]
            launch(substitute, 1, [*inputs, self._known, answer], device=self.device)

    def _run(self, kernel: wp.Kernel, items: int, inputs: list[Any], *, grain: int = 1024) -> None:
        """Launch a kernel over items, on CUDA with a warp for each."""
        launch(kernel, items * lanes_on(self.device), inputs, device=self.device, grain=grain)

    def _upload(self, values: np.ndarray) -> wp.array:
        return wp.array(values, dtype=int, device=self.device)
