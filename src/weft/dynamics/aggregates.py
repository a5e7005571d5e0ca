"""Patches of neighbouring vertices, and the sparse factor of the small system in which each patch moves as one.

Conjugate gradients carry news over one ring of neighbours an iteration, while stiff cloth feels a pull across its whole
width within a step. So the preconditioner has a second, coarse level with one unknown displacement a patch (Vanek et
al. 1996, without the smoothing). Everything here is found once from the mesh; the numbers follow each step.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.sparse.linalg import splu


@dataclass(frozen=True)
class Aggregates:
    """The patches, numbered from near to near, and the structure of the coarse system's factor (host arrays)."""

    label: np.ndarray
    """(n,) int32: the patch of each vertex"""
    count: int
    place: np.ndarray
    """(count,) int32: when each patch is eliminated; columns and rows of the factor are in this order"""
    columns: np.ndarray
    """(count + 1,) int32: where the entries of each column of the factor begin"""
    rows: np.ndarray
    """(k,) int32: the row of each entry below the diagonal, ascending within a column"""
    targets: np.ndarray
    """int32: the entry that each product of two entries of a column is taken from, in the order of elimination"""

    def slots(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """Where a block between patches belongs: its place on the diagonal, count + entry below, -1 above it."""
        first, second = self.place[first], self.place[second]
        keys = np.repeat(np.arange(self.count), np.diff(self.columns)).astype(np.int64) * self.count + self.rows
        wanted = second.astype(np.int64) * self.count + first
        entry = np.searchsorted(keys, wanted)
        below = self.count + np.minimum(entry, len(keys))
        return np.where(first == second, first, np.where(first > second, below, -1)).astype(np.int32)


def aggregate(links: np.ndarray, pairs: np.ndarray, vertex_count: int) -> Aggregates:
    """Patches of about twenty linked vertices (edges and stitches), for a matrix with blocks at the given pairs."""
    label, count = _patches(_graph(links, vertex_count))
    place = _elimination_order(_graph(label[pairs], count))
    columns, rows = _fill(_graph(place[label[pairs]], count))
    return Aggregates(label.astype(np.int32), count, place.astype(np.int32), columns, rows, _targets(columns, rows))


def _graph(pairs: np.ndarray, count: int) -> csr_array:
    """The symmetric graph of the pairs, every node its own neighbour too."""
    own = np.arange(count)
    first, second = np.concatenate([pairs[:, 0], pairs[:, 1], own]), np.concatenate([pairs[:, 1], pairs[:, 0], own])
    graph = coo_array((np.ones(len(first), np.int32), (first, second)), shape=(count, count)).tocsr()
    graph.sum_duplicates()
    return graph


def _patches(graph: csr_array) -> tuple[np.ndarray, int]:
    """Whole neighbourhoods of two rings while they are free; then each vertex left joins the smallest patch near it."""
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


def _elimination_order(graph: csr_array) -> np.ndarray:
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


def _targets(columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """For entries i, k of a column with row i > row k, in order: the entry of row i in column k."""
    count = len(columns) - 1
    keys = np.repeat(np.arange(count), np.diff(columns)).astype(np.int64) * count + rows
    found = [np.zeros(0, np.int64)]
    for column in range(count):
        own = rows[columns[column] : columns[column + 1]].astype(np.int64)
        low, high = np.tril_indices(len(own), -1)[::-1]
        found.append(own[low] * count + own[high])
    return np.searchsorted(keys, np.concatenate(found)).astype(np.int32)
