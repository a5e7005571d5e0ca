"""From crossings to paths: which crossing follows which (Baraff, Witkin and Kass 2003, section 5.3).

Two triangles that cross share a segment, and its two ends are crossings: an edge of one that passes through the other;
or one end is a vertex that both have, a **loop vertex**. A crossing (edge, face) therefore lies on one segment with
each triangle of its edge. Its halves are these (triangle of the edge, face) pairs: two halves of the same pair are the
ends of one segment and link their crossings; a half alone ends the path at the loop vertex. At an edge of the boundary
there is no second half, and the path ends.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis import walk_kernels as kernels
from weft.mesh.topology import Topology
from weft.runtime import launch

Ints = NDArray[np.int32]

# how a path ends, where it does not go on: at a boundary, nowhere (its links contradict one another, which no data has
# shown so far), or at loop vertex v as LOOP - v
BOUNDARY, BROKEN, LOOP = -1, -2, -3
# the ends of a closed path; TWISTED: it comes back with its sheets exchanged (one-sided surfaces only)
CLOSED, TWISTED = 0, 1


class Walk(NamedTuple):
    """Crossings in the order of their paths."""

    edge: Ints
    face: Ints
    sheet: Ints
    """(k,) 0 or 1: on which of the two sheets of its path the edge lies; the face lies on the other"""
    offsets: Ints
    """(paths + 1,) where each path starts"""
    ends: Ints
    """(paths, 2) how each path starts and ends; see the codes above"""


def walk_paths(topology: Topology, edge: Ints, face: Ints) -> Walk:
    """Order the crossings (edge, face) by paths: those with ends first, each by its lowest crossing."""
    count = len(edge)
    if not count:
        none = np.zeros(0, np.int32)
        return Walk(none, none, none, np.zeros(1, np.int32), np.zeros((0, 2), np.int32))
    order, sheet = wp.empty(count, dtype=int, device="cpu"), wp.empty(count, dtype=int, device="cpu")
    visited = wp.zeros(count, dtype=int, device="cpu")
    offsets = wp.zeros(count + 1, dtype=int, device="cpu")
    ends, paths = wp.empty(count, dtype=wp.vec2i, device="cpu"), wp.zeros(1, dtype=int, device="cpu")
    links = wp.array(link_halves(topology, edge, face), dtype=int, device="cpu")
    faces = wp.array(face, dtype=int, device="cpu")
    launch(kernels.walk, 1, [count, links, faces, visited, order, sheet, offsets, ends, paths])
    nodes, found = order.numpy(), int(paths.numpy()[0])
    return Walk(edge[nodes], face[nodes], sheet.numpy(), offsets.numpy()[: found + 1], ends.numpy()[:found])


def link_halves(topology: Topology, edge: Ints, face: Ints) -> Ints:
    """(2 k,) for half 2 i + j (crossing i with triangle j of its edge): the half it is linked to, or how it ends."""
    beside = topology.edge_faces[edge].ravel()
    pierced = np.repeat(face, 2)
    links = np.full(len(beside), BOUNDARY, dtype=np.int32)
    halves = np.flatnonzero(beside >= 0)
    keys = pair_keys(beside[halves], pierced[halves], len(topology.faces))
    order = np.argsort(keys, kind="stable")
    halves, keys = halves[order], keys[order]

    # runs of equal keys: two are a link
    same = keys[1:] == keys[:-1]
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    length = np.diff(first, append=len(keys))
    pairs = first[length == 2]
    links[halves[pairs]] = halves[pairs + 1]
    links[halves[pairs + 1]] = halves[pairs]

    # one alone ends at the vertex that both triangles have
    alone = halves[first[length == 1]]
    one, other = topology.faces[beside[alone]], topology.faces[pierced[alone]]
    shared = one[:, :, None] == other[:, None, :]
    vertex = one[np.arange(len(alone)), shared.any(axis=2).argmax(axis=1)]
    links[alone] = np.where(shared.sum(axis=(1, 2)) == 1, LOOP - vertex, BROKEN)
    crowded = first[length > 2]
    links[halves[np.isin(keys, keys[crowded])]] = BROKEN
    return links


def pair_keys(one: NDArray[np.integer], other: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """One number for an unordered pair of triangles."""
    return np.minimum(one, other).astype(np.int64) * count + np.maximum(one, other)


def keep_paths(walk: Walk, kept: NDArray[np.bool_]) -> Walk:
    """The walk without some of its paths."""
    if kept.all():
        return walk
    sizes = np.diff(walk.offsets)
    nodes = np.repeat(kept, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int32)
    return Walk(walk.edge[nodes], walk.face[nodes], walk.sheet[nodes], offsets, walk.ends[kept])
