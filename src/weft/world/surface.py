"""All triangles of a world as device arrays: what collision detection needs to know of them.

Also the neighbours of vertices along its edges, and marks on the rings of vertices around given ones.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import warp as wp
from scipy.sparse import coo_array, eye_array

from weft.runtime.buffers import Buffer
from weft.runtime.launch import launch

wp.set_module_options({"enable_backward": False})


@dataclass(frozen=True)
class Surface:
    """Triangles, their edges, and which triangle owns which vertex and edge.

    Ownership (the rep-tris of Lewin 2018, section 3.3): every vertex and every edge belongs to the first triangle
    that has it, so that a loop over pairs of triangles visits each pair of features once. Bits 0 to 2 of `owned`
    stand for the triangle's corners, bits 3 to 5 for its edges; edge k joins corners k and k + 1.
    """

    vertex_count: int
    faces: wp.array
    """(m,) vec3i"""
    edges: wp.array
    """(e,) vec2i, smaller index first, sorted"""
    face_edges: wp.array
    """(m,) vec3i: the three edges of each triangle"""
    owned: wp.array
    """(m,) int: six bits a triangle"""
    face_body: wp.array
    """(m,) int: the body of each triangle"""
    vertex_body: wp.array
    """(n,) int: the body of each vertex; -1 where no triangle uses it"""
    body_pairs: wp.array
    """(bodies, bodies) int, symmetric: 1 where two bodies interact, the diagonal for a body with itself"""

    @property
    def face_count(self) -> int:
        return len(self.faces)

    @property
    def edge_count(self) -> int:
        return len(self.edges)

    @property
    def device(self) -> wp.Device:
        return wp.get_device(self.faces.device)

    @classmethod
    def from_arrays(
        cls,
        vertex_count: int,
        faces: npt.ArrayLike,
        *,
        face_body: npt.ArrayLike | None = None,
        body_pairs: npt.ArrayLike | None = None,
        device: wp.DeviceLike = "cpu",
    ) -> "Surface":
        """A surface of any triangles, non-manifold ones too: detection accepts what a simulation would refuse."""
        faces = np.asarray(faces, dtype=np.int32).reshape(-1, 3)
        body = np.zeros(len(faces), np.int32) if face_body is None else np.asarray(face_body, np.int32)
        bodies = int(body.max()) + 1 if len(body) else 1
        pairs = np.ones((bodies, bodies), np.int32) if body_pairs is None else np.asarray(body_pairs, np.int32)
        if not np.array_equal(pairs, pairs.T):
            raise ValueError("body_pairs must be symmetric: a interacts with b exactly when b interacts with a")

        edges, face_edges = _edges_of(faces)
        vertex_body = np.full(vertex_count, -1, np.int32)
        vertex_body[faces] = body[:, None]
        return cls(
            vertex_count,
            wp.array(faces, dtype=wp.vec3i, device=device),
            wp.array(edges, dtype=wp.vec2i, device=device),
            wp.array(face_edges, dtype=wp.vec3i, device=device),
            wp.array(_ownership(faces, face_edges), dtype=int, device=device),
            wp.array(body, dtype=int, device=device),
            wp.array(vertex_body, dtype=int, device=device),
            wp.array(pairs, dtype=int, device=device),
        )


def _edges_of(faces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    sides = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)
    # one 64-bit key an edge sorts much faster than pairs of indices do
    low, high = sides.min(axis=1).astype(np.int64), sides.max(axis=1).astype(np.int64)
    keys, side_edge = np.unique(low << 32 | high, return_inverse=True)
    edges = np.stack([keys >> 32, keys & 0xFFFFFFFF], axis=1).astype(np.int32)
    return edges, side_edge.reshape(-1, 3).astype(np.int32)


def _ownership(faces: np.ndarray, face_edges: np.ndarray) -> np.ndarray:
    owned = np.zeros(len(faces), np.int32)
    for features, first_bit in ((faces, 0), (face_edges, 3)):
        # np.unique returns the first occurrence of each feature in the flat list, hence the lowest triangle that has it
        _, places = np.unique(features.ravel(), return_index=True)
        np.bitwise_or.at(owned, places // 3, (1 << (places % 3 + first_bit)).astype(np.int32))
    return owned


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
