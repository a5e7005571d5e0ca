"""Graph colouring for Gauss-Seidel: constraints of one colour share no vertex, so that they can be solved in parallel.

A sweep colour by colour gives the same bytes on one thread, on several and on a GPU. The colouring is greedy: constraint by
constraint, each gets the first colour that no other constraint at its vertices has.
"""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.runtime.launch import launch

wp.set_module_options({"enable_backward": False})

# colours that one 64-bit mask a vertex holds; constraints that need more are coloured by another pass with empty masks
MASK_BITS = 62


@wp.kernel
def colour_greedily(
    first: int,
    items: wp.array[int],
    starts: wp.array[int],
    base: int,
    colour: wp.array[int],
    used: wp.array[wp.int64],
    left: wp.array[int],
):
    """Serial, launched with one item. Constraints that find no free colour below the limit stay at -1; left[0] counts them."""
    start = first + wp.tid()
    open_items = int(0)
    for i in range(start, colour.shape[0]):
        if colour[i] < 0:
            mask = wp.int64(0)
            for k in range(starts[i], starts[i + 1]):
                if items[k] >= 0:
                    mask = mask | used[items[k]]
            bit = int(0)
            while bit < MASK_BITS and (mask >> wp.int64(bit)) & wp.int64(1) != wp.int64(0):
                bit += 1
            if bit < MASK_BITS:
                colour[i] = base + bit
                for k in range(starts[i], starts[i + 1]):
                    if items[k] >= 0:
                        used[items[k]] = used[items[k]] | (wp.int64(1) << wp.int64(bit))
            else:
                open_items += 1
    left[0] = open_items


class Colours(NamedTuple):
    """Constraints in the order of their colours, and where each colour starts in that order."""

    order: np.ndarray
    offsets: np.ndarray


def colour_items(items: np.ndarray, vertex_count: int, starts: np.ndarray | None = None) -> Colours:
    """Colour constraints, given as (count, width) vertex indices; negative indices (of fixed vertices, say) do not count.

    With `starts`, `items` are the indices of all constraints in a row, those of constraint i from starts[i] to starts[i + 1].
    """
    if starts is None:
        starts = np.arange(len(items) + 1) * items.shape[1]
    count = len(starts) - 1
    if count == 0:
        return Colours(np.zeros(0, np.int32), np.zeros(1, np.int32))
    colour = wp.array(np.full(count, -1, np.int32), dtype=int, device="cpu")
    indices, begins = (wp.array(values.ravel().astype(np.int32), dtype=int, device="cpu") for values in (items, starts))
    left = wp.zeros(1, dtype=int, device="cpu")
    base = 0
    while True:
        used = wp.zeros(vertex_count, dtype=wp.int64, device="cpu")
        launch(colour_greedily, 1, [indices, begins, base, colour, used, left])
        if left.numpy()[0] == 0:
            break
        base += MASK_BITS
    order = np.argsort(colour.numpy(), kind="stable").astype(np.int32)
    counts = np.bincount(colour.numpy())
    counts = counts[counts > 0]
    return Colours(order, np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
