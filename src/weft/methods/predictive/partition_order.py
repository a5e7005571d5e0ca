"""An order of constraints for blocks of threads, each of which has a part of the vertices.

Constraints whose vertices all lie in one part are that block's, and its threads wait for nobody else between two colours of
them. The others are done after that: most lie within the second half of a part and the first half of the next, and are those of
the block of the first. Only what reaches farther is left for all blocks together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from weft.runtime.colouring import balance_colours, colour_items


class Parts(NamedTuple):
    """Vertices in parts of equal size, the last of which may be smaller."""

    blocks: int
    size: int
    vertices: np.ndarray
    """in the order of parts"""

    @property
    def rank(self) -> np.ndarray:
        """Where each vertex stands in that order."""
        rank = np.empty(len(self.vertices), np.int64)
        rank[self.vertices] = np.arange(len(self.vertices))
        return rank


class PartOrder(NamedTuple):
    """Items by stage, block and colour."""

    order: np.ndarray
    starts: np.ndarray
    """where the items of each colour of each block begin, and end: first of those within parts, then of those across"""
    colours: tuple[int, int]
    """of a block, in both stages"""
    far: np.ndarray
    """where the colours of what is left begin"""


def make_parts(kinds: Sequence[np.ndarray], vertex_count: int, count: int) -> Parts:
    """Put vertices into so many parts that few items of any kind, given as rows of vertex indices, reach far."""
    size = max(-(-vertex_count // count), 1)
    usual = Parts(count, size, np.arange(vertex_count))
    if _reaching_far(kinds, usual) == 0:
        return usual
    # numbers may jump over the cloth: neighbours get numbers near each other, if that is better
    pairs = [(items[:, a], items[:, b]) for items in kinds for a in range(items.shape[1]) for b in range(a)]
    first, second = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    graph = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(vertex_count, vertex_count))
    order = np.asarray(reverse_cuthill_mckee(graph.tocsr(), symmetric_mode=True), dtype=np.int64)
    return min(usual, Parts(count, size, order), key=lambda parts: _reaching_far(kinds, parts))


def _reaching_far(kinds: Sequence[np.ndarray], parts: Parts) -> int:
    """How many items reach farther than half a part."""
    rank = parts.rank
    return sum(int((np.ptp(rank[items], axis=1) > parts.size // 2).sum()) for items in kinds if len(items))


def order_in_parts(items: np.ndarray, parts: Parts, *, most: int) -> PartOrder:
    """Order constraints, given as rows of vertex indices; no colour of a block has more than `most`, where that can be."""
    size, rank = parts.size, parts.rank[items]
    first, last = rank.min(axis=1), rank.max(axis=1)
    shifted = [(places - size // 2) // size for places in (first, last)]
    within, across = first // size == last // size, shifted[0] == shifted[1]
    orders: list[np.ndarray] = []
    tables: list[np.ndarray] = []
    colours: list[int] = []
    for chosen, block in (
        (np.flatnonzero(within), first // size),
        (np.flatnonzero(~within & across), shifted[0]),
    ):
        found = colour_items(items[chosen], len(parts.vertices))
        count = len(found.offsets) - 1
        colour = np.repeat(np.arange(count), np.diff(found.offsets))
        mine = chosen[found.order]
        for number in range(parts.blocks):
            own = np.flatnonzero(block[mine] == number)
            if len(own) and np.bincount(colour[own]).max() > most:
                colour[own] = balance_colours(items[mine[own]], colour[own], len(parts.vertices), most)
        place = block[mine] * count + colour
        done = sum(len(some) for some in orders)
        orders.append(mine[np.lexsort((first[mine], place))])
        sizes = np.bincount(place, minlength=parts.blocks * count)
        tables.append(done + np.concatenate([[0], np.cumsum(sizes)]))
        colours.append(count)
    left = np.flatnonzero(~within & ~across)
    found = colour_items(items[left], len(parts.vertices))
    far = sum(len(some) for some in orders) + found.offsets
    orders.append(left[found.order])
    starts = np.concatenate(tables).astype(np.int32)
    return PartOrder(np.concatenate(orders), starts, (colours[0], colours[1]), far.astype(np.int32))
