"""Colours for Gauss-Seidel: constraints of one colour share no vertex, so that they may be solved side by side.

A sweep colour by colour gives the same bytes whether the constraints of a colour run on one thread, on two or on a
GPU. The greedy choice takes each constraint in turn and gives it the first colour free at all its vertices.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.runtime.launch import launch

wp.set_module_options({"enable_backward": False})

# colours that one 64-bit mask a vertex can tell apart; those beyond go through a second, third... mask
MASK_BITS = 62


@wp.kernel
def colour_greedily(
    first: int,
    items: wp.array2d[int],
    count: int,
    width: int,
    base: int,
    colour: wp.array[int],
    used: wp.array[wp.int64],
    left: wp.array[int],
):
    """Serial by nature: launched with one item. Constraints that find no free colour below the limit stay at -1."""
    start = first + wp.tid()
    open_items = int(0)
    for i in range(start, count):
        if colour[i] < 0:
            mask = wp.int64(0)
            for k in range(width):
                if items[i, k] >= 0:
                    mask = mask | used[items[i, k]]
            bit = int(0)
            while bit < 62 and (mask >> wp.int64(bit)) & wp.int64(1) != wp.int64(0):
                bit += 1
            if bit < 62:
                colour[i] = base + bit
                for k in range(width):
                    if items[i, k] >= 0:
                        used[items[i, k]] = used[items[i, k]] | (wp.int64(1) << wp.int64(bit))
            else:
                open_items += 1
    left[0] = open_items


class Colours(NamedTuple):
    """Items in the order of their colours, and where each colour starts."""

    order: np.ndarray
    offsets: np.ndarray


def colour_items(items: np.ndarray, vertex_count: int) -> Colours:
    """Colours for constraints given as rows of vertex indices; negative indices do not count (fixed vertices, say)."""
    items = np.ascontiguousarray(items, np.int32)
    if len(items) == 0:
        return Colours(np.zeros(0, np.int32), np.zeros(1, np.int32))
    colour = wp.array(np.full(len(items), -1, np.int32), dtype=int, device="cpu")
    rows = wp.array(items, dtype=int, ndim=2, device="cpu")
    left = wp.zeros(1, dtype=int, device="cpu")
    base = 0
    while True:
        used = wp.zeros(vertex_count, dtype=wp.int64, device="cpu")
        launch(colour_greedily, 1, [rows, *items.shape, base, colour, used, left])
        if left.numpy()[0] == 0:
            break
        base += MASK_BITS
    order = np.argsort(colour.numpy(), kind="stable").astype(np.int32)
    counts = np.bincount(colour.numpy())
    counts = counts[counts > 0]
    return Colours(order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


def balance_colours(items: np.ndarray, colour: np.ndarray, vertex_count: int, most: int) -> np.ndarray:
    """Colours of which none has more than so many items, where that can be: large ones give some to small ones.

    What hangs together of two colours may change both, and no two items of a colour come to share a vertex.
    """
    colour = colour.copy()
    sizes = np.bincount(colour)
    for large in np.argsort(-sizes):
        for small in np.argsort(sizes):
            surplus = min(sizes[large] - most, (sizes[large] - sizes[small]) // 2)
            if surplus <= 0:
                continue
            both = np.flatnonzero((colour == large) | (colour == small))
            groups = _groups(items[both], vertex_count)
            gain = np.bincount(groups, weights=np.where(colour[both] == large, 1, -1)).astype(int)
            useful = np.flatnonzero(gain > 0)
            swapped = useful[np.cumsum(gain[useful]) <= surplus]
            change = both[np.isin(groups, swapped)]
            colour[change] = large + small - colour[change]
            sizes = np.bincount(colour, minlength=len(sizes))
    return colour


def _groups(items: np.ndarray, vertex_count: int) -> np.ndarray:
    """A number for each item, the same for all that hang together."""
    count, width = items.shape
    ends = np.repeat(np.arange(count), width), count + items.ravel()
    graph = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(count + vertex_count,) * 2)
    return connected_components(graph, directed=False)[1][:count]
