"""The coarse half of the implicit step's preconditioner: a small system in which each patch moves as one."""

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.block_rows import BlockRows
from weft.world import launch
from weft.world.constraints import Constraints

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
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
    slot = first + wp.tid()
    total = wp.mat33d()
    for k in range(offsets[slot], offsets[slot + 1]):
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
    values[slot] = total


@wp.kernel
def factor_coarse(
    first: int,
    count: int,
    columns: wp.array[int],
    rows: wp.array[int],
    targets: wp.array[int],
    values: wp.array[wp.mat33d],
    factor: wp.array[wp.mat33d],
):
    """L D L^T of the coarse matrix, serial: one item. D is inverted in place, L goes to `factor`."""
    target = first + wp.tid()
    for j in range(count):
        pivot = wp.inverse(values[j])
        values[j] = pivot
        for a in range(columns[j], columns[j + 1]):
            entry = values[count + a]
            scaled = entry * pivot
            factor[a] = scaled
            for k in range(columns[j], a):
                place = count + targets[target]
                target += 1
                values[place] = values[place] - scaled * wp.transpose(values[count + k])
            values[rows[a]] = values[rows[a]] - scaled * wp.transpose(entry)


@wp.kernel
def solve_coarse(
    first: int,
    count: int,
    columns: wp.array[int],
    rows: wp.array[int],
    values: wp.array[wp.mat33d],
    factor: wp.array[wp.mat33d],
    place: wp.array[int],
    right: wp.array[wp.vec3d],
    norm: wp.array[wp.float64],
    work: wp.array[wp.vec3d],
    answer: wp.array[wp.vec3d],
    gamma: wp.array[wp.float64],
):
    """The coarse displacement of each patch, and the residual's product with all of the preconditioner; one item."""
    start = first + wp.tid()
    for i in range(start, count):
        work[place[i]] = right[i]
    for j in range(start, count):
        known = work[j]
        for a in range(columns[j], columns[j + 1]):
            work[rows[a]] = work[rows[a]] - factor[a] * known
    for back in range(start, count):
        j = count - 1 - back
        known = values[j] * work[j]
        for a in range(columns[j], columns[j + 1]):
            known -= wp.transpose(factor[a]) * work[rows[a]]
        work[j] = known
    total = ZERO
    for i in range(start, count):
        answer[i] = work[place[i]]
        total += norm[i] + wp.dot(right[i], answer[i])
    gamma[0] = total


class CoarseLevel:
    """The system of the patches. It is small and solved in order: always on the CPU."""

    def __init__(self, matrix: BlockRows) -> None:
        self.matrix = matrix
        self.device = wp.get_device(matrix.device)
        aggregates = matrix.aggregates
        self.count = aggregates.count
        label = aggregates.label[matrix.order.numpy()]
        slots = aggregates.slots(label[matrix.rows.numpy()], label[matrix.columns.numpy()])
        used = np.flatnonzero(slots >= 0)
        items = used[np.argsort(slots[used], kind="stable")]
        entries = self.count + len(aggregates.rows)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(slots[used], minlength=entries))])
        self._gather = [wp.array(a, dtype=int, device=self.device) for a in (offsets, items)]
        self._assembled = wp.zeros(entries, dtype=wp.mat33d, device=self.device)

        lists = (aggregates.columns, aggregates.rows, aggregates.targets, aggregates.place)
        self._columns, self._rows, self._targets, self._place = (wp.array(a, dtype=int, device="cpu") for a in lists)
        # on the CPU these are the arrays of the solver themselves
        on_cpu = self.device.is_cpu
        self._values = self._assembled if on_cpu else wp.zeros(entries, dtype=wp.mat33d, device="cpu")
        self._factor = wp.zeros(len(aggregates.rows), dtype=wp.mat33d, device="cpu")
        self._work, self._right, self._answer = (wp.zeros(self.count, dtype=wp.vec3d, device="cpu") for _ in range(3))
        self._norm = wp.zeros(self.count, dtype=wp.float64, device="cpu")
        self._gamma = wp.zeros(1, dtype=wp.float64, device="cpu")

    def factor(self, constraints: Constraints) -> None:
        """Sum the blocks of the matrix by patches, within the filters, and factor the result."""
        m = self.matrix
        inputs = [*self._gather, m.rows, m.columns, m.blocks, m.order, constraints.directions]
        inputs += [constraints.filters, self._assembled]
        launch(assemble_coarse, len(self._assembled), inputs, device=self.device, grain=128)
        if not self.device.is_cpu:
            wp.copy(self._values, self._assembled)
        inputs = [self._columns, self._rows, self._targets, self._values, self._factor]
        launch(factor_coarse, 1, [self.count, *inputs])

    def solve(self, right: wp.array, norm: wp.array, answer: wp.array) -> float:
        """Write the displacement of each patch; gives the residual's product with the preconditioned residual."""
        if not self.device.is_cpu:
            wp.copy(self._right, right)
            wp.copy(self._norm, norm)
            right, norm, answer, end = self._right, self._norm, self._answer, answer
        inputs: list[Any] = [self.count, self._columns, self._rows, self._values, self._factor, self._place]
        launch(solve_coarse, 1, [*inputs, right, norm, self._work, answer, self._gamma])
        if not self.device.is_cpu:
            wp.copy(end, answer)
        return float(self._gamma.numpy()[0])
