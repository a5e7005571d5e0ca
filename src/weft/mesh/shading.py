"""Edges and normals of a list of triangles, for drawing and for files; the triangles need not be a manifold mesh."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# triangles that meet at a larger angle than this are drawn with a sharp edge between them
SHARP_DEG = 40.0


def unique_edges(faces: Ints) -> Ints:
    """The edges of a triangle list, (e, 2), lower vertex first, each once."""
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    return np.unique(np.sort(sides, axis=1), axis=0)


def unit(vectors: Floats) -> Floats:
    """Vectors of length one; zero stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0.0, lengths, 1.0)


def vertex_normals(points: Floats, faces: Ints) -> Floats:
    """Unit normals at the vertices, each triangle counting by its area; (0, 1, 0) where there is none."""
    a, b, c = points[faces].transpose(1, 0, 2)
    across = np.cross(b - a, c - a)
    corners = faces.ravel()
    sums = [np.bincount(corners, weights=np.repeat(column, 3), minlength=len(points)) for column in across.T]
    normals = np.stack(sums, axis=1)
    length = np.linalg.norm(normals, axis=1, keepdims=True)
    return np.where(length > 0.0, normals / np.where(length > 0.0, length, 1.0), (0.0, 1.0, 0.0))


def split_sharp(vertices: Floats, faces: Ints) -> tuple[NDArray[np.intp], Ints]:
    """Give the two sides of every sharp edge points of their own; returns the vertex of each point, and the triangles.

    Corners of triangles that share an edge which is not sharp stay one point.
    """
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    normals = unit(np.cross(b - a, c - a))

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

    glued = [(corner(first, sides[first, k]), corner(second, sides[first, k])) for k in range(2)]
    rows, columns = (np.concatenate([pair[k] for pair in glued]) for k in range(2))
    graph = sparse.coo_array((np.ones(len(rows)), (rows, columns)), shape=(faces.size, faces.size))
    count, label = sparse.csgraph.connected_components(graph, directed=False)
    owner_vertex = np.empty(count, dtype=np.intp)
    owner_vertex[label] = faces.ravel()
    return owner_vertex, label.reshape(-1, 3).astype(np.int32)
