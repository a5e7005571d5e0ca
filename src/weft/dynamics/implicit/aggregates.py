"""Patches of neighbouring vertices, each of which moves as one in a small system.

Conjugate gradients carry news over one ring of neighbours an iteration, while stiff cloth feels a pull across its whole
width within a step. So the preconditioner has a second, coarse level with one unknown displacement a patch (Vanek et
al. 1996, without the smoothing). Everything here is found once from the mesh; the numbers follow each step.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from weft.dynamics.implicit.elimination import Elimination, eliminate


@dataclass(frozen=True)
class Aggregates:
    """The patches, numbered from near to near, and how their system is eliminated (host arrays)."""

    label: np.ndarray
    """(n,) int32: the patch of each vertex"""
    elimination: Elimination

    @property
    def count(self) -> int:
        """How many patches there are."""
        return self.elimination.count


def aggregate(links: np.ndarray, pairs: np.ndarray, vertex_count: int) -> Aggregates:
    """Patches of about twenty linked vertices (edges and stitches), for a matrix with blocks at the given pairs."""
    label, count = _patches(_graph(links, vertex_count))
    return Aggregates(label.astype(np.int32), eliminate(_graph(label[pairs], count)))


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
