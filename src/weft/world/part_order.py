"""An order of constraints for the blocks of a cluster, each of which holds a part of the vertices.

Constraints whose vertices all lie in one part are that block's, and its threads wait for nobody else between two colours of
them. The others are done after that: most lie within the second half of a part and the first half of the next, and are those of
the block of the first. Only what reaches farther is left for all blocks together.
"""

from typing import NamedTuple

import numpy as np

from weft.world.colouring import colour_items
from weft.world.together import CLUSTER


class PartOrder(NamedTuple):
    """Items by stage, block and colour."""

    order: np.ndarray
    starts: np.ndarray
    """where the items of each colour of each block begin, and end: first of those within parts, then of those across"""
    colours: tuple[int, int]
    """of a block, in both stages"""
    far: np.ndarray
    """where the colours of what is left begin"""


def order_in_parts(items: np.ndarray, vertex_count: int) -> PartOrder:
    """Order constraints, given as rows of vertex indices."""
    part = -(-vertex_count // CLUSTER)
    first, last = items.min(axis=1), items.max(axis=1)
    shifted = [(vertices - part // 2) // part for vertices in (first, last)]
    within, across = first // part == last // part, shifted[0] == shifted[1]
    orders: list[np.ndarray] = []
    tables: list[np.ndarray] = []
    colours: list[int] = []
    for chosen, block in (
        (np.flatnonzero(within), first // part),
        (np.flatnonzero(~within & across), shifted[0]),
    ):
        found = colour_items(items[chosen], vertex_count)
        count = len(found.offsets) - 1
        colour = np.repeat(np.arange(count), np.diff(found.offsets))
        mine = chosen[found.order]
        place = block[mine] * count + colour
        done = sum(len(some) for some in orders)
        orders.append(mine[np.lexsort((first[mine], place))])
        sizes = np.bincount(place, minlength=CLUSTER * count)
        tables.append(done + np.concatenate([[0], np.cumsum(sizes)]))
        colours.append(count)
    left = np.flatnonzero(~within & ~across)
    found = colour_items(items[left], vertex_count)
    far = sum(len(some) for some in orders) + found.offsets
    orders.append(left[found.order])
    starts = np.concatenate(tables).astype(np.int32)
    return PartOrder(np.concatenate(orders), starts, (colours[0], colours[1]), far.astype(np.int32))
