"""From crossings to paths: which crossing follows which (Baraff, Witkin and Kass 2003, section 5.3).

Two triangles that cross share a segment. An end of the segment is a crossing, where an edge of one passes through the
other, or a vertex that both triangles have, a **loop vertex**. So a crossing (edge, face) is an end of up to two segments:
one with each triangle at its edge. We call these (triangle of the edge, face) pairs the halves of the crossing. Two halves
of the same pair of triangles are the ends of one segment and link their crossings. A half without a counterpart ends the
path at the loop vertex, and at a boundary edge the path ends since there is no second half.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.mesh.topology import Topology
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

Ints = NDArray[np.int32]

# codes of how a path ends: at a boundary; broken (its links contradict one another, which no data has shown so far); at
# loop vertex v as LOOP - v
BOUNDARY, BROKEN, LOOP = -1, -2, -3
# codes of both ends of a closed path; TWISTED: it comes back with its sheets exchanged (one-sided surfaces only)
CLOSED, TWISTED = 0, 1


class Walk(NamedTuple):
    """Crossings in the order in which the paths visit them."""

    edge: Ints
    face: Ints
    sheet: Ints
    """(k,) 0 or 1: the sheet of the path on which the edge lies; the face lies on the other sheet"""
    offsets: Ints
    """(paths + 1,) where each path starts"""
    ends: Ints
    """(paths, 2) how each path starts and ends; see the codes above"""


@wp.func
def follow_path(
    start: int,
    way_out: int,
    code: int,
    path: int,
    links: wp.array[int],
    faces: wp.array[int],
    visited: wp.array[int],
    order: wp.array[int],
    sheets: wp.array[int],
    offsets: wp.array[int],
    ends: wp.array[wp.vec2i],
):
    """Follow a path from crossing `start`, leaving it by half `way_out`, until it ends or closes. `code`: how it starts."""
    place = offsets[path]
    node = start
    out = way_out
    sheet = int(0)
    going = bool(True)
    end = wp.vec2i(code, code)
    while going:
        visited[node] = 1
        order[place] = node
        sheets[place] = sheet
        place += 1
        link = links[out]
        if link < 0:
            end = wp.vec2i(code, link)
            going = False
        else:
            following = link // 2
            # a half is (triangle of the edge, face): if the face stays the same, the edge stays on the same sheet
            if faces[following] != faces[node]:
                sheet = 1 - sheet
            if visited[following] != 0:
                end = wp.vec2i(CLOSED, CLOSED)
                if sheet != 0:
                    end = wp.vec2i(TWISTED, TWISTED)
                going = False
            node = following
            out = link ^ 1
    ends[path] = end
    offsets[path + 1] = place


@wp.kernel
def follow_all(
    first: int,
    count: int,
    links: wp.array[int],
    faces: wp.array[int],
    visited: wp.array[int],
    order: wp.array[int],
    sheets: wp.array[int],
    offsets: wp.array[int],
    ends: wp.array[wp.vec2i],
    paths: wp.array[int],
):
    """Follow all paths, open ones first; launched with one item, serial code on the CPU."""
    path = first + wp.tid()
    for half in range(2 * count):
        if links[half] < 0 and visited[half // 2] == 0:
            follow_path(half // 2, half ^ 1, links[half], path, links, faces, visited, order, sheets, offsets, ends)
            path += 1
    for node in range(count):
        if visited[node] == 0:
            follow_path(node, 2 * node, CLOSED, path, links, faces, visited, order, sheets, offsets, ends)
            path += 1
    paths[0] = path


def walk_paths(topology: Topology, edge: Ints, face: Ints) -> Walk:
    """Order the crossings (edge, face) by paths: open paths first, each from its first end in the order of the crossings."""
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
    launch(follow_all, 1, [count, links, faces, visited, order, sheet, offsets, ends, paths])
    nodes, found = order.numpy(), int(paths.numpy()[0])
    return Walk(edge[nodes], face[nodes], sheet.numpy(), offsets.numpy()[: found + 1], ends.numpy()[:found])


def link_halves(topology: Topology, edge: Ints, face: Ints) -> Ints:
    """(2 k,) for half 2 i + j (crossing i with triangle j of its edge): the half it is linked to, or the code of its end."""
    beside = topology.edge_faces[edge].ravel()
    pierced = np.repeat(face, 2)
    links = np.full(len(beside), BOUNDARY, dtype=np.int32)
    halves = np.flatnonzero(beside >= 0)
    keys = pair_keys(beside[halves], pierced[halves], len(topology.faces))
    order = np.argsort(keys, kind="stable")
    halves, keys = halves[order], keys[order]

    # two equal keys: a link
    same = keys[1:] == keys[:-1]
    first = np.flatnonzero(np.concatenate([[True], ~same]))
    length = np.diff(first, append=len(keys))
    pairs = first[length == 2]
    links[halves[pairs]] = halves[pairs + 1]
    links[halves[pairs + 1]] = halves[pairs]

    # a key alone: the path ends at the vertex that both triangles have
    alone = halves[first[length == 1]]
    one, other = topology.faces[beside[alone]], topology.faces[pierced[alone]]
    shared = one[:, :, None] == other[:, None, :]
    vertex = one[np.arange(len(alone)), shared.any(axis=2).argmax(axis=1)]
    links[alone] = np.where(shared.sum(axis=(1, 2)) == 1, LOOP - vertex, BROKEN)
    crowded = first[length > 2]
    links[halves[np.isin(keys, keys[crowded])]] = BROKEN
    return links


def pair_keys(one: NDArray[np.integer], other: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    """One number for each unordered pair of triangles out of `count`."""
    return np.minimum(one, other).astype(np.int64) * count + np.maximum(one, other)


def keep_paths(walk: Walk, kept: NDArray[np.bool_]) -> Walk:
    """The walk with only the paths that `kept` marks."""
    if kept.all():
        return walk
    sizes = np.diff(walk.offsets)
    nodes = np.repeat(kept, sizes)
    offsets = np.concatenate([[0], np.cumsum(sizes[kept])]).astype(np.int32)
    return Walk(walk.edge[nodes], walk.face[nodes], walk.sheet[nodes], offsets, walk.ends[kept])
