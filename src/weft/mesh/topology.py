"""Adjacency of triangle meshes (edges, neighbours, boundaries, components), and edges and normals for drawing.

All tables are computed by sorting and pointer doubling, without a loop over triangles.

Half-edge `3 f + k` runs from corner k of triangle f to corner k + 1. The corner it starts at has the same number, so
one index names both.
"""

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# triangles that meet at a larger angle than this are drawn with a sharp edge between them
SHARP_DEG = 40.0


class Csr(NamedTuple):
    """Rows of different lengths in two arrays: row i is `items[offsets[i]:offsets[i + 1]]`."""

    offsets: Ints
    items: Ints

    def row(self, i: int) -> Ints:
        """The items of row i."""
        return self.items[self.offsets[i] : self.offsets[i + 1]]


class Topology:
    """The adjacency tables of an array of triangles, each computed on first use.

    `edges`, `edge_counts` and `edge_faces` also hold for meshes that are not manifold; the tables that walk around a
    vertex or along a boundary need a manifold, consistently oriented mesh, which `TriMesh` guarantees.
    """

    def __init__(self, faces: Ints, vertex_count: int) -> None:
        self.faces = faces
        self.vertex_count = vertex_count

    @cached_property
    def _edge_tables(self) -> tuple[Ints, Ints, Ints, Ints]:
        """Edges, triangles on each edge, edge of each half-edge, first two half-edges of each edge."""
        tails = self.faces.ravel()
        heads = np.roll(self.faces, -1, axis=1).ravel()
        low, high = np.minimum(tails, heads), np.maximum(tails, heads)

        # sort the half-edges by their edge; equal edges keep the order of the triangles
        order, keys = sort_pairs(low, high, self.vertex_count)
        is_first = np.ones(len(keys), dtype=bool)
        np.not_equal(keys[1:], keys[:-1], out=is_first[1:])
        starts = np.flatnonzero(is_first)
        counts = np.diff(starts, append=len(keys)).astype(np.int32)

        first = order[starts]
        edges = np.stack([low[first], high[first]], axis=1)
        edge_of_half = np.empty(len(keys), dtype=np.int32)
        edge_of_half[order] = np.cumsum(is_first, dtype=np.int32) - 1
        halves = np.full((len(starts), 2), -1, dtype=np.int32)
        halves[:, 0] = first
        shared = np.flatnonzero(counts > 1)
        halves[shared, 1] = order[starts[shared] + 1]
        return edges, counts, edge_of_half, halves

    @cached_property
    def edges(self) -> Ints:
        """(e, 2) vertex pairs, low < high, in lexicographic order."""
        return read_only(self._edge_tables[0])

    @cached_property
    def edge_counts(self) -> Ints:
        """(e,) how many triangles have the edge."""
        return read_only(self._edge_tables[1])

    @cached_property
    def face_edges(self) -> Ints:
        """(m, 3) edges of each triangle; edge k joins corners k and k + 1."""
        return read_only(self._edge_tables[2].reshape(-1, 3))

    @cached_property
    def edge_halves(self) -> Ints:
        """(e, 2) the first two half-edges on each edge, in the order of their triangles; -1 = none."""
        return read_only(self._edge_tables[3])

    @cached_property
    def edge_faces(self) -> Ints:
        """(e, 2) the first two triangles on each edge, lower index first; -1 = none."""
        return read_only(np.where(self.edge_halves < 0, -1, self.edge_halves // 3).astype(np.int32))

    @cached_property
    def twins(self) -> Ints:
        """(3 m,) the half-edge on the other side; -1 on the boundary. Needs manifold edges."""
        twins = np.full(self.faces.size, -1, dtype=np.int32)
        inner = self.edge_halves[self.edge_halves[:, 1] >= 0]
        twins[inner[:, 0]] = inner[:, 1]
        twins[inner[:, 1]] = inner[:, 0]
        return read_only(twins)

    @cached_property
    def vertex_faces(self) -> Csr:
        """Triangles around each vertex, in ascending order."""
        triangles = np.repeat(np.arange(len(self.faces), dtype=np.int32), 3)
        return make_csr(self.faces.ravel(), triangles, self.vertex_count, len(self.faces))

    @cached_property
    def vertex_neighbours(self) -> Csr:
        """Vertices that share an edge with each vertex, in ascending order."""
        low, high = self.edges[:, 0], self.edges[:, 1]
        rows, items = np.concatenate([low, high]), np.concatenate([high, low])
        return make_csr(rows, items, self.vertex_count, self.vertex_count)

    @cached_property
    def hinge_edges(self) -> Ints:
        """(h,) the edge of each hinge: the edges with two triangles, in ascending order."""
        return read_only(np.flatnonzero(self.edge_halves[:, 1] >= 0).astype(np.int32))

    @cached_property
    def hinges(self) -> Ints:
        """(h, 4) vertices a, b, c, d: triangles (a, b, c) and (b, a, d) on the edge ab, the lower triangle first."""
        corners = self.faces.ravel()
        first, second = self.edge_halves[self.hinge_edges].T
        a, b, c = corners[first], corners[following(first)], corners[preceding(first)]
        return read_only(np.stack([a, b, c, corners[preceding(second)]], axis=1))

    @cached_property
    def boundary_loops(self) -> list[Ints]:
        """The closed boundary curves, in the direction of their triangles' edges.

        Each starts at its lowest vertex; the loops are sorted by that vertex.
        """
        corners = self.faces.ravel()
        halves = np.flatnonzero(self.twins < 0)
        tails, heads = corners[halves], corners[following(halves)]

        # number the boundary vertices 0, 1, ... in ascending order
        order = np.argsort(tails)
        vertices = tails[order]
        successor = np.searchsorted(vertices, heads[order])

        # follow the loops by pointer doubling: lowest member, then steps left until it comes again
        lowest, _ = follow(successor, len(successor))
        own = np.arange(len(vertices))
        jump = np.where(successor == lowest, own, successor)
        steps = (successor != lowest).astype(np.int64)
        while np.any(jump[jump] != jump):
            steps += steps[jump]
            jump = jump[jump]
        order = np.lexsort((-steps, lowest))
        cuts = np.flatnonzero(np.diff(lowest[order])) + 1
        ordered = vertices[order]
        return [read_only(loop) for loop in np.split(ordered, cuts)] if len(ordered) else []

    @cached_property
    def components(self) -> Ints:
        """(n,) component of each vertex, numbered in the order of their lowest vertices."""
        return read_only(connected_labels(self.edges[:, 0], self.edges[:, 1], self.vertex_count))

    @cached_property
    def vertex_fans(self) -> Ints:
        """(n,) how many separate fans of triangles meet at each vertex: 1 everywhere on a manifold.

        Needs manifold edges and a consistent orientation.
        """
        corners = self.faces.ravel()
        halves = np.arange(len(corners), dtype=np.int32)

        # an open fan starts where the outgoing half-edge has no twin
        starts = corners[self.twins < 0]
        fans = np.bincount(starts, minlength=self.vertex_count)

        # the next corner around the vertex lies across the incoming half-edge; open fans end in themselves
        successor = self.twins[preceding(halves)]
        ends = successor < 0
        successor = np.where(ends, halves, successor)
        lowest, last = follow(successor, int(np.bincount(corners).max()))

        # a closed fan is counted at its lowest corner
        closed = (lowest == halves) & ~ends[last]
        fans += np.bincount(corners[closed], minlength=self.vertex_count)
        return read_only(fans.astype(np.int32))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """The same array, no longer writable."""
    array.setflags(write=False)
    return array


def following(halves: NDArray[Any]) -> NDArray[Any]:
    """The next half-edge of the same triangle."""
    return np.where(halves % 3 == 2, halves - 2, halves + 1)


def preceding(halves: NDArray[Any]) -> NDArray[Any]:
    """The previous half-edge of the same triangle."""
    return np.where(halves % 3 == 0, halves + 2, halves - 1)


def sort_pairs(rows: NDArray[Any], items: NDArray[Any], item_count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """The stable order that sorts pairs (row, item), and the sorted pairs packed into one integer each."""
    keys = rows.astype(np.int64) * item_count + items
    order = np.argsort(keys, kind="stable")
    return order, keys[order]


def ascending(values: NDArray[Any]) -> NDArray[Any]:
    """The values in ascending order, each once; by sorting, which is faster than the hash table of `np.unique`."""
    values = np.sort(values, axis=None)
    first = np.ones(len(values), dtype=bool)
    np.not_equal(values[1:], values[:-1], out=first[1:])
    return values[first]


def make_csr(rows: NDArray[Any], items: NDArray[Any], row_count: int, item_count: int) -> Csr:
    """Gather the items of each row, in ascending order."""
    keys = np.sort(rows.astype(np.int64) * item_count + items)
    offsets = np.zeros(row_count + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows, minlength=row_count), out=offsets[1:])
    return Csr(read_only(offsets), read_only((keys % item_count).astype(np.int32)))


def follow(successor: NDArray[Any], longest: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Follow a permutation-like map from every element at once, at least `longest` steps, by pointer doubling.

    Gives the lowest element met (on a cycle: the lowest of the cycle) and the element reached (on a chain that ends in
    itself: its end).
    """
    lowest = np.minimum(np.arange(len(successor), dtype=successor.dtype), successor)
    reached = successor
    for _ in range(max(longest - 1, 0).bit_length()):
        lowest = np.minimum(lowest, lowest[reached])
        reached = reached[reached]
    return lowest, reached


def connected_labels(first: NDArray[Any], second: NDArray[Any], count: int) -> Ints:
    """Label the connected components of an undirected graph, numbered in the order of their lowest nodes."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    graph = coo_array((np.ones(len(first), dtype=np.int8), (first, second)), shape=(count, count))
    count_found, labels = connected_components(graph.tocsr(), directed=False)

    # renumber by first appearance, so that the labels do not depend on how the graph was searched
    lowest = np.full(count_found, count, dtype=np.int64)
    np.minimum.at(lowest, labels, np.arange(count))
    rank = np.empty(count_found, dtype=np.int32)
    rank[np.argsort(lowest)] = np.arange(count_found, dtype=np.int32)
    return rank[labels]


def incidence(items: NDArray[np.integer], vertex_count: int) -> tuple[Ints, Ints]:
    """Which of the items (n, width) of vertex indices touch each vertex: the offsets of the lists, and their entries.

    An entry is item * width + corner. Lists are sorted, so that sums over them are gathered in one fixed order.
    """
    flat = items.reshape(-1)
    entries = np.argsort(flat, kind="stable").astype(np.int32)
    counts = np.bincount(flat, minlength=vertex_count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, entries


def unique_edges(faces: Ints) -> Ints:
    """The edges of a triangle list, (e, 2), lower vertex first, each once."""
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return np.unique(np.sort(sides, axis=1), axis=0)


def unit_vectors(vectors: Floats) -> Floats:
    """Vectors of length one; zero stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)


def area_vectors(points: Floats, faces: Ints) -> Floats:
    """The normals of triangles, twice as long as their areas are large."""
    a, b, c = points[faces].transpose(1, 0, 2)
    return np.cross(b - a, c - a)


def area_vectors_at_vertices(points: Floats, faces: Ints) -> Floats:
    """The sum of the area vectors of the triangles around each vertex."""
    corners, across = faces.ravel(), area_vectors(points, faces)
    sums = [np.bincount(corners, weights=np.repeat(column, 3), minlength=len(points)) for column in across.T]
    return np.stack(sums, axis=1)


def vertex_normals(points: Floats, faces: Ints) -> Floats:
    """Unit normals at the vertices, each triangle counting by its area; (0, 1, 0) where there is none."""
    normals = area_vectors_at_vertices(points, faces)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(length > 0.0, normals / np.where(length > 0.0, length, 1.0), (0.0, 1.0, 0.0))


def split_sharp(vertices: Floats, faces: Ints) -> tuple[NDArray[np.intp], Ints]:
    """Give the two sides of every sharp edge points of their own; returns the vertex of each point, and the triangles.

    Corners of triangles that share an edge which is not sharp stay one point.
    """
    normals = unit_vectors(area_vectors(vertices, faces))

    # pairs of triangles with a common edge, sorted by edge; an open or non-manifold edge joins only neighbours in line
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).astype(np.int64)
    owner = np.tile(np.arange(len(faces)), 3)
    key = np.sort(sides, axis=1) @ np.array([len(vertices), 1])
    order = np.argsort(key, kind="stable")
    same = key[order][1:] == key[order][:-1]
    first, second = order[:-1][same], order[1:][same]
    soft = (normals[owner[first]] * normals[owner[second]]).sum(axis=1) > np.cos(np.radians(SHARP_DEG))
    first, second = first[soft], second[soft]

    # corner (face, k) has number 3 face + k; a soft edge glues two pairs of corners
    def corner(side: NDArray[np.intp], vertex: NDArray[np.int64]) -> NDArray[np.intp]:
        face = owner[side]
        return 3 * face + np.argmax(faces[face] == vertex[:, None], axis=1)

    from scipy import sparse

    glued = [(corner(first, sides[first, k]), corner(second, sides[first, k])) for k in range(2)]
    rows, columns = (np.concatenate([pair[k] for pair in glued]) for k in range(2))
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(faces.size, faces.size))
    count, label = sparse.csgraph.connected_components(graph, directed=False)
    owner_vertex = np.empty(count, dtype=np.intp)
    owner_vertex[label] = faces.ravel()
    return owner_vertex, label.reshape(-1, 3).astype(np.int32)
