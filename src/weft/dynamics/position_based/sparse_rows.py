"""Sparse matrices by rows, and the passes of Chebyshev iteration over some of their rows (see `bending`).

Rows are stored in slices, side by side. On CUDA a slice has the rows of a warp, which so reads neighbours. On the CPU it has
`SIDE` rows, which are summed at the same time: sums of one row after another wait for each addition, and for the end of
each row, whose length the processor cannot guess.
"""

# mypy: disable-error-code="arg-type, empty-body"

from typing import Any

import numpy as np
import warp as wp
from scipy.sparse import csr_array

from weft.dynamics.packed_vertices import PACKED_VERTEX, row_product
from weft.runtime.cooperative import WARP, on_gpu
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# rows of a slice on the CPU: as many additions as it can begin while one ends
SIDE = 4

_native = NativeHeader(__file__, "sparse_rows.h")


@wp.struct
class SparseRows:
    """A sparse matrix by rows. The rows of a slice have as many places as its longest; those left over are 0."""

    begins: wp.array[int]
    ends: wp.array[int]
    step: int
    """from an entry of a row to its next"""
    columns: wp.array[int]
    values: wp.array[wp.float64]


@wp.func
def times(i: int, matrix: SparseRows, x: wp.array[wp.vec4d]) -> wp.vec4d:
    """Row i of the matrix times x."""
    return row_product(matrix.begins[i], matrix.ends[i], matrix.step, matrix.columns, matrix.values, x)


@wp.func
def right_hand_side(
    i: int,
    k: SparseRows,
    p: wp.array[wp.vec4d],
    rest_moments: SparseRows,
    rest_stretch: wp.array[wp.vec4d],
    dt: wp.float64,
) -> wp.vec4d:
    """The right-hand side divided by the mass. p is x + (dt + tau) v."""
    w = p[i][3]
    b = wp.vec4d()
    if w > ZERO:
        if k.begins.shape[0] > 0:
            b = -times(i, k, p)
        if rest_moments.begins.shape[0] > 0:
            b += times(i, rest_moments, rest_stretch)
        b = (dt * w) * b
        b[3] = ZERO
    return b


@wp.func
def iterate(
    i: int,
    k: SparseRows,
    delay: wp.array[wp.float64],
    w: wp.float64,
    dt: wp.float64,
    momentum: wp.float64,
    factor: wp.float64,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
    dv_next: wp.array[wp.vec4d],
):
    """One Chebyshev iteration for a vertex of inverse mass w; a pinned one stays at 0."""
    if w > ZERO:
        residual = right[i] - dv[i] - (w * dt * (dt + delay[i])) * times(i, k, dv)
        d = momentum * direction[i] + factor * residual
        direction[i] = d
        dv_next[i] = dv[i] + d


@wp.func_native(PACKED_VERTEX + _native.body("start_rows", SIDE=SIDE))
def start_slices(
    first: int,
    last: int,
    k: SparseRows,
    p: wp.array[wp.vec4d],
    rest_moments: SparseRows,
    rest_stretch: wp.array[wp.vec4d],
    dt: wp.float64,
    factor: wp.float64,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
):
    """CPU: `start_rows`."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("iterate_rows", SIDE=SIDE))
def iterate_slices(
    first: int,
    last: int,
    k: SparseRows,
    delay: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
    dt: wp.float64,
    momentum: wp.float64,
    factor: wp.float64,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
    dv_next: wp.array[wp.vec4d],
):
    """CPU: `iterate_rows`."""
    ...


@wp.func
def start_rows(
    first: int,
    last: int,
    step: int,
    k: SparseRows,
    p: wp.array[wp.vec4d],
    rest_moments: SparseRows,
    rest_stretch: wp.array[wp.vec4d],
    dt: wp.float64,
    factor: wp.float64,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
):
    """The right-hand side of the vertices first, first + step, ... below `last`, and the first iterate from dv = 0: that times
    `factor`. The step is 1 on the CPU. p is x + (dt + tau) v."""
    if on_gpu():
        for i in range(first, last, step):
            b = right_hand_side(i, k, p, rest_moments, rest_stretch, dt)
            right[i] = b
            direction[i] = factor * b
            dv[i] = factor * b
    else:
        start_slices(first, last, k, p, rest_moments, rest_stretch, dt, factor, right, direction, dv)


@wp.func
def iterate_rows(
    first: int,
    last: int,
    step: int,
    k: SparseRows,
    delay: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
    dt: wp.float64,
    momentum: wp.float64,
    factor: wp.float64,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
    dv_next: wp.array[wp.vec4d],
):
    """One Chebyshev iteration for the vertices first, first + step, ... below `last`; pinned ones stay at 0."""
    if on_gpu():
        for i in range(first, last, step):
            iterate(i, k, delay, p[i][3], dt, momentum, factor, right, direction, dv, dv_next)
    else:
        iterate_slices(first, last, k, delay, p, dt, momentum, factor, right, direction, dv, dv_next)


def sliced_rows(matrix: csr_array, device: wp.DeviceLike, side: int | None = None) -> Any:
    """`SparseRows` with slices of so many rows, as many as the device needs; the columns of a row in order."""
    side = side or (SIDE if wp.get_device(device).is_cpu else WARP)
    matrix.sort_indices()
    lengths, row = np.diff(matrix.indptr), np.arange(matrix.shape[0])
    widths = np.maximum.reduceat(lengths, row[::side]) if len(row) else lengths
    begins = (np.concatenate([[0], side * np.cumsum(widths)])[row // side] + row % side).astype(np.int32)
    place = np.repeat(begins - side * matrix.indptr[:-1], lengths) + side * np.arange(matrix.nnz)

    # places left over name a column of their row, so that what is not finite there goes nowhere else
    last = np.zeros(len(row) + -len(row) % side, np.int32)
    last[: len(row)][lengths > 0] = matrix.indices[matrix.indptr[1:][lengths > 0] - 1]

    def upload(given: np.ndarray, others: np.ndarray, dtype: Any) -> wp.array:
        values = np.repeat(others.reshape(-1, side), widths, axis=0).ravel()
        values[place] = given
        return wp.array(values, dtype=dtype, device=device)

    rows: Any = SparseRows()
    rows.begins, rows.ends = (wp.array(x, dtype=int, device=device) for x in (begins, begins + side * lengths))
    rows.step, rows.columns = side, upload(matrix.indices, last, int)
    rows.values = upload(matrix.data, np.zeros(last.shape), wp.float64)
    return rows
