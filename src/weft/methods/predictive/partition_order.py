"""The order of constraints for CUDA blocks, each of which owns a partition of the vertices.

Constraints whose vertices all lie in one partition are solved by that block, whose threads wait for each other only between two
colours. Most others lie within the second half of one partition and the first half of the next: those are solved afterwards, by
the block of the first. Only constraints that reach farther, across seams for example, are left for all blocks together.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from weft.runtime.colouring import balance_colours, colour_items


class Partitions(NamedTuple):
    """Partitions of the vertices, of equal size but for the last."""

    blocks: int
    size: int
    vertices: np.ndarray
    """in the order of the partitions"""

    @property
    def rank(self) -> np.ndarray:
        """The place of each vertex in that order."""
        rank = np.empty(len(self.vertices), np.int64)
        rank[self.vertices] = np.arange(len(self.vertices))
        return rank


class PartitionOrder(NamedTuple):
    """Constraints by stage, block and colour."""

    order: np.ndarray
    starts: np.ndarray
    """where the constraints of each colour of each block begin, and the end: within partitions, then across two"""
    colours: tuple[int, int]
    """number of colours of a block, in both stages"""
    far: np.ndarray
    """where the colours of those that reach farther begin"""


def make_partitions(kinds: Sequence[np.ndarray], vertex_count: int, count: int) -> Partitions:
    """Partition the vertices so that few constraints, given by kind as arrays (n, k) of vertex indices, reach far."""
    size = max(-(-vertex_count // count), 1)
    usual = Partitions(count, size, np.arange(vertex_count))
    if _reaching_far(kinds, usual) == 0:
        return usual
    # neighbours may have numbers far apart: reorder by bandwidth (reverse Cuthill-McKee), if that is better
    pairs = [(items[:, a], items[:, b]) for items in kinds for a in range(items.shape[1]) for b in range(a)]
    first, second = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    graph = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(vertex_count, vertex_count))
    order = np.asarray(reverse_cuthill_mckee(graph.tocsr(), symmetric_mode=True), dtype=np.int64)
    return min(usual, Partitions(count, size, order), key=lambda partitions: _reaching_far(kinds, partitions))


def _reaching_far(kinds: Sequence[np.ndarray], partitions: Partitions) -> int:
    """How many constraints reach farther than half a partition."""
    rank = partitions.rank
    return sum(int((np.ptp(rank[items], axis=1) > partitions.size // 2).sum()) for items in kinds if len(items))


def order_by_partition(items: np.ndarray, partitions: Partitions, *, most: int) -> PartitionOrder:
    """Order constraints (n, k); no colour of a block has more than `most` of them, where that is possible."""
    size, rank = partitions.size, partitions.rank[items]
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
        found = colour_items(items[chosen], len(partitions.vertices))
        count = len(found.offsets) - 1
        colour = np.repeat(np.arange(count), np.diff(found.offsets))
        mine = chosen[found.order]
        for number in range(partitions.blocks):
            own = np.flatnonzero(block[mine] == number)
            if len(own) and np.bincount(colour[own]).max() > most:
                colour[own] = balance_colours(items[mine[own]], colour[own], len(partitions.vertices), most)
        place = block[mine] * count + colour
        done = sum(len(some) for some in orders)
        orders.append(mine[np.lexsort((first[mine], place))])
        sizes = np.bincount(place, minlength=partitions.blocks * count)
        tables.append(done + np.concatenate([[0], np.cumsum(sizes)]))
        colours.append(count)
    left = np.flatnonzero(~within & ~across)
    found = colour_items(items[left], len(partitions.vertices))
    far = sum(len(some) for some in orders) + found.offsets
    orders.append(left[found.order])
    starts = np.concatenate(tables).astype(np.int32)
    return PartitionOrder(np.concatenate(orders), starts, (colours[0], colours[1]), far.astype(np.int32))
