"""Neighbours of vertices along edges, and marks on the rings of vertices around given ones."""

import numpy as np
import warp as wp
from scipy.sparse import coo_array, eye_array

from weft.runtime.buffers import Buffer
from weft.runtime.launch import launch
from weft.world.surface import Surface

wp.set_module_options({"enable_backward": False})


@wp.kernel
def mark_chosen(first: int, chosen: wp.array[int], marks: wp.array[wp.int8]):
    """Mark the listed vertices."""
    marks[chosen[first + wp.tid()]] = wp.int8(1)


@wp.kernel
def widen(
    first: int,
    offsets: wp.array[int],
    neighbours: wp.array[int],
    marks: wp.array[wp.int8],
    wider: wp.array[wp.int8],
):
    """Mark a vertex if a neighbour is marked."""
    i = first + wp.tid()
    mark = marks[i]
    for k in range(offsets[i], offsets[i + 1]):
        if marks[neighbours[k]] != wp.int8(0):
            mark = wp.int8(1)
    wider[i] = mark


class Rings:
    """Marks the rings around vertices of a mesh with edges (k, 2) and `count` vertices."""

    def __init__(self, edges: np.ndarray, count: int, device: wp.DeviceLike) -> None:
        self.count, self.device = count, device
        self._lists = [wp.array(a, dtype=int, device=device) for a in neighbours(edges, count)]
        self._chosen = Buffer(int, self.device)
        self._other = self.no_marks()

    def no_marks(self) -> wp.array:
        """An array with a mark for each vertex, none of them set."""
        return wp.zeros(self.count, dtype=wp.int8, device=self.device)

    def mark(self, vertices: np.ndarray, rings: int, marks: wp.array) -> None:
        """Mark these vertices and so many rings of neighbours around them, and clear all other marks."""
        marks.zero_()
        if not len(vertices):
            return
        self.add(vertices, marks)
        for _ in range(rings):
            launch(widen, self.count, [*self._lists, marks, self._other], device=self.device)
            wp.copy(marks, self._other)

    def add(self, vertices: np.ndarray, marks: wp.array) -> None:
        """Mark these vertices in addition."""
        count = len(vertices)
        if count:
            chosen = self._chosen.at_least(count)
            chosen[:count].assign(np.ascontiguousarray(vertices, np.int32))
            launch(mark_chosen, count, [chosen, marks], device=self.device)


def surface_neighbours(surface: Surface, stitches: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The neighbours of each vertex of a surface along its edges, as offsets and items.

    With `stitches` (k, 2), pairs of vertices that are sewn together count as one vertex: each has the neighbours of both.
    """
    edges, count = surface.edges.numpy().reshape(-1, 2), surface.vertex_count
    if stitches is not None and len(stitches):
        edges = _edges_across(edges, stitches, count)
    return neighbours(edges, count)


def _edges_across(edges: np.ndarray, stitches: np.ndarray, count: int) -> np.ndarray:
    """The edges, the same edges from and to whatever is sewn to their ends, and the stitches themselves."""
    along, sewn = (coo_array((np.ones(len(e)), e.T), shape=(count, count)) for e in (edges, stitches))
    same = eye_array(count) + sewn + sewn.T
    reached = (same @ (along + along.T) @ same + sewn + sewn.T).tocoo()
    pairs = np.stack(reached.coords, axis=1)
    return pairs[pairs[:, 0] < pairs[:, 1]]


def neighbours(edges: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The neighbours of each of `count` vertices along edges (k, 2), as offsets and items."""
    ends = np.concatenate([edges, edges[:, ::-1]])
    order = np.argsort(ends[:, 0], kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(ends[:, 0], minlength=count))]).astype(np.int32)
    return offsets, ends[order, 1].astype(np.int32)
