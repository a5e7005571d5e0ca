"""In which order a sparse symmetric system is eliminated, and what each entry of its factor is made of (host arrays).

The factor L D L^T has a tree: a column's parent is the first row below its diagonal, and all its rows are ancestors. Columns
of the same height in that tree do not depend on each other. Everything here is found once from the structure.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu


class Reach(NamedTuple):
    """The structure of L^-1: in each column the node itself and all its ancestors, upwards."""

    offsets: np.ndarray
    """(count + 1,) where the entries of each column begin"""
    rows: np.ndarray
    """the row of each entry"""
    row_offsets: np.ndarray
    """(count + 1,) where the entries of each row begin in the next two"""
    entries: np.ndarray
    columns: np.ndarray


@dataclass(frozen=True)
class Elimination:
    """The order, and the structure of the factor."""

    place: np.ndarray
    """(count,) when each node is eliminated; all else is in this order"""
    columns: np.ndarray
    """(count + 1,) where the entries of each column of the factor begin"""
    rows: np.ndarray
    """(k,) the row of each entry below the diagonal, ascending within a column"""
    column_of: np.ndarray
    """(count + k,) the column of each slot: those of the diagonal first, then the entries"""
    offsets: np.ndarray
    """(count + k + 1,) where the products begin that are taken from each slot"""
    products: np.ndarray
    """(p, 2) the two entries of each product: the first has been divided by its pivot; in the order of their columns"""
    slots: np.ndarray
    """(count + k,) all slots, by the height of their column in the tree"""
    heights: np.ndarray
    """(heights + 1,) where those of each height begin"""

    @property
    def count(self) -> int:
        return len(self.place)

    @property
    def parent(self) -> np.ndarray:
        """(count,) the parent of each column in the tree; -1: it has none."""
        found = np.full(self.count, -1, np.int32)
        filled = np.diff(self.columns) > 0
        found[filled] = self.rows[self.columns[:-1][filled]]
        return found

    @property
    def depth(self) -> np.ndarray:
        """(count,) how many ancestors each column has."""
        found, parent = np.zeros(self.count, np.int32), self.parent
        for column in range(self.count - 1, -1, -1):
            if parent[column] >= 0:
                found[column] = found[parent[column]] + 1
        return found

    def slots_of(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """The slot of a block between two nodes; -1 above the diagonal."""
        first, second = self.place[first], self.place[second]
        keys = np.repeat(np.arange(self.count), np.diff(self.columns)).astype(np.int64) * self.count + self.rows
        wanted = second.astype(np.int64) * self.count + first
        entry = np.searchsorted(keys, wanted)
        below = self.count + np.minimum(entry, len(keys))
        return np.where(first == second, first, np.where(first > second, below, -1)).astype(np.int32)

    def reach(self) -> Reach:
        """The structure of the inverse of L."""
        parent, depth = self.parent, self.depth
        offsets = np.concatenate([[0], np.cumsum(depth + 1)])
        rows, columns = np.empty(offsets[-1], np.int32), np.repeat(np.arange(self.count), depth + 1)
        column = node = np.arange(self.count)
        for step in range(int(depth.max(initial=-1)) + 1):
            rows[offsets[column] + step] = node
            up = parent[node]
            column, node = column[up >= 0], up[up >= 0]
        entries = np.argsort(rows, kind="stable")
        row_offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=self.count))])
        return Reach(offsets, rows, row_offsets, entries, columns[entries])


def eliminate(graph: csr_array) -> Elimination:
    """An order of little fill for a symmetric graph in which every node is its own neighbour, and what follows from it."""
    place = _order(graph).astype(np.int32)
    count = len(place)
    coo = graph.tocoo()
    moved = csr_array((coo.data, (place[coo.row], place[coo.col])), shape=graph.shape)
    columns, rows = _fill(moved)
    column_of = np.concatenate([np.arange(count), np.repeat(np.arange(count), np.diff(columns))]).astype(np.int32)
    target, products = _products(columns, rows)
    by_target = np.argsort(target, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(target, minlength=len(column_of)))])
    height = np.zeros(count, np.int64)
    for column in range(count):
        if columns[column] < columns[column + 1]:
            up = rows[columns[column]]
            height[up] = max(height[up], height[column] + 1)
    slots = np.argsort(height[column_of], kind="stable").astype(np.int32)
    heights = np.concatenate([[0], np.cumsum(np.bincount(height[column_of]))]).astype(np.int32)
    return Elimination(place, columns, rows, column_of, offsets, products[by_target], slots, heights)


def _order(graph: csr_array) -> np.ndarray:
    """The place of each node in an order of little fill (minimum degree)."""
    if graph.shape[0] == 0:
        return np.zeros(0, np.int64)
    pattern = csc_array(graph, dtype=float)
    pattern.data[:] = -1.0
    pattern.setdiag(np.diff(graph.indptr) + 1.0)
    factor = splu(pattern, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return np.asarray(factor.perm_c, np.int64)


def _fill(graph: csr_array) -> tuple[np.ndarray, np.ndarray]:
    """Rows below the diagonal of each column of the factor: its own, and those its children hand on."""
    count = graph.shape[0]
    handed: list[list[np.ndarray]] = [[] for _ in range(count)]
    found = []
    for column in range(count):
        near = graph.indices[graph.indptr[column] : graph.indptr[column + 1]]
        own = np.unique(np.concatenate([near, *handed[column]]))
        own = own[own > column]
        handed[column] = []
        if len(own):
            handed[int(own[0])].append(own)
        found.append(own)
    columns = np.concatenate([[0], np.cumsum([len(own) for own in found])]).astype(np.int32)
    return columns, np.concatenate([np.zeros(0, np.int32), *found]).astype(np.int32)


def _products(columns: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All products of two entries of a column, with itself or with one above it: the slot they belong to, and the two."""
    count = len(columns) - 1
    keys = np.repeat(np.arange(count), np.diff(columns)).astype(np.int64) * count + rows
    wanted, pairs = [np.zeros(0, np.int64)], [np.zeros((0, 2), np.int32)]
    for column in range(count):
        own = rows[columns[column] : columns[column + 1]].astype(np.int64)
        low, high = np.tril_indices(len(own))[::-1]
        wanted.append(own[low] * count + own[high])
        pairs.append((columns[column] + np.column_stack([high, low])).astype(np.int32))
    key, products = np.concatenate(wanted), np.concatenate(pairs)
    own = products[:, 0] == products[:, 1]
    slot = np.where(own, key // max(count, 1), count + np.searchsorted(keys, key))
    return slot, products
