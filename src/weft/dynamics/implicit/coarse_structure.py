"""The structure of the coarse level of the solver, found once from the mesh: patches of vertices, and how their system is
factored (host arrays).

Conjugate gradients carry information over one ring of neighbours an iteration, while stiff cloth feels a pull across its
whole width within a step. So the preconditioner has a second, coarse level with one unknown displacement a patch of
neighbouring vertices (Vanek et al. 1996, without the smoothing).

Its matrix is factored as L D L^T in an order of little fill. The factor has an elimination tree: the parent of a column is
its first row below the diagonal, and all its rows are ancestors. Columns of the same height in the tree do not depend on
each other, so they can be factored in parallel.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.sparse.linalg import splu


class InverseStructure(NamedTuple):
    """The entries of L^-1: in each column the node itself, then its ancestors from the parent to the root."""

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
    """The order in which nodes are eliminated, and what each entry of the factor is made of."""

    place: np.ndarray
    """(count,) the position of each node in the order; all other arrays are in this order"""
    columns: np.ndarray
    """(count + 1,) where the entries of each column of the factor begin"""
    rows: np.ndarray
    """(k,) the row of each entry below the diagonal, ascending within a column"""
    column_of: np.ndarray
    """(count + k,) the column of each slot: slots are the diagonal entries, then those below it"""
    offsets: np.ndarray
    """(count + k + 1,) where the products begin that are subtracted from each slot"""
    products: np.ndarray
    """(p, 2) the two entries of each product, the first already divided by its pivot; sorted by column"""
    slots: np.ndarray
    """(count + k,) all slots, by the height of their column in the tree"""
    heights: np.ndarray
    """(heights + 1,) where the slots of each height begin"""

    @property
    def count(self) -> int:
        return len(self.place)

    @property
    def parent(self) -> np.ndarray:
        """(count,) the parent of each column in the tree, -1 at a root."""
        found = np.full(self.count, -1, np.int32)
        filled = np.diff(self.columns) > 0
        found[filled] = self.rows[self.columns[:-1][filled]]
        return found

    @property
    def depth(self) -> np.ndarray:
        """(count,) the number of ancestors of each column."""
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

    def inverse(self) -> InverseStructure:
        """Where the inverse of L has entries."""
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
        return InverseStructure(offsets, rows, row_offsets, entries, columns[entries])


def eliminate(graph: csr_array) -> Elimination:
    """Order and structure for a symmetric graph in which every node is its own neighbour."""
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
    """The position of each node in a minimum degree order."""
    if graph.shape[0] == 0:
        return np.zeros(0, np.int64)
    pattern = csc_array(graph, dtype=float)
    pattern.data[:] = -1.0
    pattern.setdiag(np.diff(graph.indptr) + 1.0)
    factor = splu(pattern, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return np.asarray(factor.perm_c, np.int64)


def _fill(graph: csr_array) -> tuple[np.ndarray, np.ndarray]:
    """The rows below the diagonal of each column of the factor: those of the matrix, and those of its children."""
    count = graph.shape[0]
    inherited: list[list[np.ndarray]] = [[] for _ in range(count)]
    found = []
    for column in range(count):
        near = graph.indices[graph.indptr[column] : graph.indptr[column + 1]]
        own = np.unique(np.concatenate([near, *inherited[column]]))
        own = own[own > column]
        inherited[column] = []
        if len(own):
            inherited[int(own[0])].append(own)
        found.append(own)
    columns = np.concatenate([[0], np.cumsum([len(own) for own in found])]).astype(np.int32)
    return columns, np.concatenate([np.zeros(0, np.int32), *found]).astype(np.int32)


def _products(columns: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All products of an entry of a column with itself or one above it: the slot that each is subtracted from, and the two."""
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


@dataclass(frozen=True)
class Aggregates:
    """The patches, and how their system is eliminated."""

    label: np.ndarray
    """(n,) int32: the patch of each vertex"""
    elimination: Elimination

    @property
    def count(self) -> int:
        """The number of patches."""
        return self.elimination.count


def aggregate(edges: np.ndarray, pairs: np.ndarray, vertex_count: int) -> Aggregates:
    """Patches of about twenty vertices, connected by `edges` (e, 2), for a matrix with blocks at `pairs` (k, 2) of vertices."""
    label, count = _patches(_graph(edges, vertex_count))
    return Aggregates(label.astype(np.int32), eliminate(_graph(label[pairs], count)))


def _graph(pairs: np.ndarray, count: int) -> csr_array:
    """The symmetric graph of the pairs, in which every node is also its own neighbour."""
    own = np.arange(count)
    first, second = np.concatenate([pairs[:, 0], pairs[:, 1], own]), np.concatenate([pairs[:, 1], pairs[:, 0], own])
    graph = coo_array((np.ones(len(first), np.int32), (first, second)), shape=(count, count)).tocsr()
    graph.sum_duplicates()
    return graph


def _patches(graph: csr_array) -> tuple[np.ndarray, int]:
    """The patch of each vertex, and the number of patches.

    Greedy: each vertex whose two rings of neighbours are all free makes them a patch; then every vertex that is left joins
    the smallest patch beside it.
    """
    wide = csr_array(graph @ graph)
    wide.sort_indices()
    label = np.full(graph.shape[0], -1, np.int64)
    count = 0
    for vertex in range(graph.shape[0]):
        ring = wide.indices[wide.indptr[vertex] : wide.indptr[vertex + 1]]
        if (label[ring] < 0).all():
            label[ring] = count
            count += 1
    sizes = np.bincount(label[label >= 0], minlength=count)
    left = np.flatnonzero(label < 0)
    while len(left):
        for vertex in left.tolist():
            around = label[graph.indices[graph.indptr[vertex] : graph.indptr[vertex + 1]]]
            around = around[around >= 0]
            if len(around):
                smallest = np.lexsort((around, sizes[around]))[0]
                label[vertex] = around[smallest]
                sizes[around[smallest]] += 1
        left = np.flatnonzero(label < 0)
    return label, count
