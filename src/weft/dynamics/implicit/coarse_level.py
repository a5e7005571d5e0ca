"""The coarse half of the implicit step's preconditioner: a small system in which each patch moves as one.

It is solved exactly. Its factor is sparse, but to substitute with it takes as many steps one after another as the
elimination tree is high. On a CPU that is quick. For a card the inverse of L is worked out as well, in which the rows of a
column are the ancestors of its node: seven times as many entries, and three launches instead of hundreds of meetings.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.implicit.block_rows import BlockRows
from weft.dynamics.implicit.coarse_kernels import (
    assemble_coarse,
    carry_down,
    carry_up,
    divide,
    factor_coarse,
    invert_columns,
    substitute,
)
from weft.dynamics.implicit.elimination import Elimination
from weft.runtime import launch
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.reduction import lanes_on
from weft.world.constraints import Constraints

# entries of a row of L^-1 that are added up at once
CHUNK = 128


class CoarseLevel:
    """The system of the patches: `factor` it, then `solve` it as often as needed."""

    def __init__(self, matrix: BlockRows, *, inverted: bool | None = None) -> None:
        """`inverted`: whether L is inverted; by default on a card."""
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
            self._lay_out(elimination)
        else:
            self._place = self._upload(elimination.place)
            self._known = wp.zeros(self.count, dtype=wp.vec3d, device=self.device)

    def _lay_out(self, elimination: Elimination) -> None:
        """What solving with the inverse of L needs."""
        reach = elimination.reach()
        counts = -(-np.diff(reach.row_offsets) // CHUNK)
        row_chunks = np.concatenate([[0], np.cumsum(counts)])
        number = np.arange(row_chunks[-1]) - np.repeat(row_chunks[:-1], counts)
        chunks = np.append(np.repeat(reach.row_offsets[:-1], counts) + CHUNK * number, len(reach.rows))
        self._depth, self._row_chunks, self._chunks = map(self._upload, (elimination.depth, row_chunks, chunks))
        self._reach = [self._upload(a) for a in (reach.offsets, reach.rows)]
        self._by_row = [self._upload(a) for a in (reach.entries, reach.columns)]
        self._patches = self._upload(np.argsort(elimination.place))
        self._inverse = wp.zeros(len(reach.rows), dtype=wp.mat33d, device=self.device)
        self._parts = wp.zeros(len(chunks) - 1, dtype=wp.vec3d, device=self.device)
        self._divided = wp.zeros(self.count, dtype=wp.vec3d, device=self.device)

    def factor(self, constraints: Constraints) -> None:
        """Sum the blocks of the matrix by patches, within the filters, and factor the result."""
        m = self.matrix
        inputs = [*self._gather, m.rows, m.columns, m.blocks, m.order, constraints.directions]
        self._run(assemble_coarse, len(self._values), [*inputs, constraints.filters, self._values], grain=128)
        self._cooperative.launch(factor_coarse, self._most, self._factoring, work=self._work)
        if self.inverted:
            inputs = [self._columns, self._rows, self._depth, self._factor, *self._reach, self._inverse]
            self._run(invert_columns, self.count, inputs, grain=64)

    def solve(self, right: wp.array, answer: wp.array) -> None:
        """Write the displacement of each patch."""
        if self.inverted:
            inputs: list[Any] = [self._chunks, *self._by_row, self._inverse, self._patches, right, self._parts]
            self._run(carry_up, len(self._parts), inputs)
            inputs = [self._row_chunks, self._parts, self._pivots, self._divided]
            launch(divide, self.count, inputs, device=self.device)
            inputs = [*self._reach, self._inverse, self._divided, self._patches, answer]
            self._run(carry_down, self.count, inputs)
        else:
            inputs = [self.count, self._columns, self._rows, self._pivots, self._factor, self._place, right]
            launch(substitute, 1, [*inputs, self._known, answer], device=self.device)

    def _run(self, kernel: wp.Kernel, items: int, inputs: list[Any], *, grain: int = 1024) -> None:
        """Launch a kernel over items that a warp of a card shares."""
        launch(kernel, items * lanes_on(self.device), inputs, device=self.device, grain=grain)

    def _upload(self, values: np.ndarray) -> wp.array:
        return wp.array(values, dtype=int, device=self.device)
