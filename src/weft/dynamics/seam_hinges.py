"""Hinges over seams: cloth that is welded along a seam bends there as it bends beside it.

Where two triangles of different panels, or of the two sides of a dart, have a border edge each whose ends are welded to each
other, they are the two triangles of a hinge. Its stencil (see `curvature`) has a vertex of either panel at the ends of the
edge: while the weld holds both are at the same place. Weights come from the flat shapes of both triangles; where one edge
was eased into a shorter one, each triangle's are scaled to the mean of both lengths, so that r = 0 where the cloth is flat.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.world import Seams

# m: welds whose vertices are farther apart at the start are still open, and nothing bends across a gap
CLOSED = 1e-6
# edges that are sewn to edges more than so many times as long are gathered: they fold as their gathers do, not as a hinge
GATHERED = 1.2


@dataclass(frozen=True)
class SeamHinges:
    """Hinges whose triangles are sewn together (host arrays)."""

    sides: np.ndarray
    """(h, 2) int32: the two border edges, each 3 t + k for the edge of triangle t from corner k to k + 1"""
    quads: np.ndarray
    """(h, 4) int32: the ends of the edge, one of either panel, then the two opposite vertices"""
    weights: np.ndarray
    """(h, 4), each row sums to zero"""


def over_seams(faces: np.ndarray, border: np.ndarray, corners: np.ndarray, groups: np.ndarray) -> SeamHinges:
    """The hinges over welds.

    faces: (m, 3) all triangles. border: (m, 3) bool, whether their edge from corner k to k + 1 has no hinge. corners: (m, 3, d)
    of the triangles in their rest shapes. groups: (n,) see `vertex_groups`.
    """
    side = np.flatnonzero(border.ravel())
    ends = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)[side]
    names = groups[ends]
    # of each welded edge all border edges that became it: a hinge has two
    _, group, count = np.unique(np.sort(names, axis=1), axis=0, return_inverse=True, return_counts=True)
    group = group.ravel()
    order = np.argsort(group, kind="stable")
    order = order[count[group[order]] == 2].reshape(-1, 2)
    one, other = side[order].T
    lengths, cotangents = _edge_shapes(corners)
    ratio = lengths[one] / lengths[other]
    kept = (np.maximum(ratio, 1.0 / ratio) <= GATHERED) & (names[order[:, 0], 0] != names[order[:, 0], 1])
    order, one, other = order[kept], one[kept], other[kept]
    # the other edge in the direction of the first: usually it runs the other way
    same = names[order[:, 0], 0] == names[order[:, 1], 0]
    start, end = ends[order[:, 0], 0], np.where(same, ends[order[:, 1], 1], ends[order[:, 1], 0])
    opposite = np.roll(faces, 1, axis=1).ravel()
    mean = 0.5 * (lengths[one] + lengths[other])
    first, second = ((mean / lengths[k])[:, None] * cotangents[k] for k in (one, other))
    second = np.where(same[:, None], second, second[:, ::-1])
    # a vertex's weight is the cotangent at the other end of the edge
    at_ends = (first + second)[:, ::-1]
    weights = np.column_stack([at_ends, -first.sum(axis=1), -second.sum(axis=1)])
    quads = np.column_stack([start, end, opposite[one], opposite[other]]).astype(np.int32)
    return SeamHinges(np.column_stack([one, other]).astype(np.int32), quads, weights)


def welded_pairs(seams: Seams) -> np.ndarray:
    """(k, 2) int32: the vertices that are welded to each other, rather than to a point of an edge; they may still be apart."""
    at_vertices = (seams.weights == 0.0) | (seams.weights == 1.0)
    return np.asarray(seams.nearest()[np.isinf(seams.stiffness) & at_vertices], dtype=np.int32)


def closed_welds(seams: Seams, positions: np.ndarray) -> np.ndarray:
    """(k, 2) int32: the vertices that are welded to each other and are at the same place, at these positions."""
    pairs = welded_pairs(seams)
    gaps = np.linalg.norm(np.subtract(*positions[pairs].transpose(1, 0, 2)), axis=1)
    return np.asarray(pairs[gaps <= CLOSED])


def vertex_groups(welded: np.ndarray, count: int) -> np.ndarray:
    """(n,) for each vertex the number of the group of vertices that are welded together; most are alone."""
    joined = coo_array((np.ones(len(welded), np.int8), tuple(welded.T)), shape=(count, count))
    return np.asarray(connected_components(joined, directed=False)[1])


def _edge_shapes(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(3 m,) the length of each edge of each triangle, and (3 m, 2) the cotangents at its start and its end."""
    edge = np.roll(corners, -1, axis=1) - corners
    along, back = np.roll(edge, -1, axis=1), -np.roll(edge, 1, axis=1)
    lengths = np.linalg.norm(edge, axis=2)
    area = np.sqrt(np.maximum(lengths**2 * (back**2).sum(axis=2) - (edge * back).sum(axis=2) ** 2, 1e-300))
    at_start, at_end = (edge * back).sum(axis=2) / area, -(edge * along).sum(axis=2) / area
    return lengths.ravel(), np.stack([at_start, at_end], axis=2).reshape(-1, 2)
