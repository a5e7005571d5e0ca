"""A binary tree over triangles made from the mesh alone: neighbours are paired, then pairs of pairs, up to one root.

This is the hierarchy of Bridson, Fedkiw and Anderson 2002, section 4: built once, bottom-up, with sweeps that alternate
in direction. Read from left to right its leaves are also a good order of the triangles: what lies near in the mesh
lies near in memory. That order depends on nothing but the faces, so that lists written in it come out the same
whichever broad phase wrote them, and the same again when a run is resumed.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp

from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@dataclass(frozen=True)
class PairingTree:
    """Nodes 0 to m - 1 are the triangles, the last node is the root; children come before their parents."""

    triangle_count: int
    children: np.ndarray
    """(nodes, 2) int32; -1 for triangles"""
    parent: np.ndarray
    """(nodes,) int32; -1 for the root"""
    size: np.ndarray
    """(nodes,) int32: how many triangles lie below"""
    start: np.ndarray
    """(nodes,) int32: rank of the first triangle below; those below are ranks start to start + size - 1"""
    joined: np.ndarray
    """(nodes,) bool: whether the triangles below hang together by edges"""

    @property
    def order(self) -> np.ndarray:
        """The triangles from left to right: the triangle of each rank."""
        order = np.empty(self.triangle_count, np.int32)
        order[self.start[: self.triangle_count]] = np.arange(self.triangle_count, dtype=np.int32)
        return order

    def patches(self, largest: int) -> np.ndarray:
        """The nodes that make up patches: the largest joined ones of at most so many triangles, from left to right."""
        fits = self.joined & (self.size <= largest)
        above = np.where(self.parent < 0, False, fits[self.parent])
        nodes = np.flatnonzero(fits & ~above)
        return nodes[np.argsort(self.start[nodes])].astype(np.int32)


@wp.kernel
def _match(
    first: int, count: int, backwards: int, offsets: wp.array[int], neighbours: wp.array[int], partner: wp.array[int]
):
    # one thread: each node in turn takes the first of its neighbours that is still free
    for k in range(count):
        i = first + k
        if backwards == 1:
            i = count - 1 - k
        if partner[i] < 0:
            for place in range(offsets[i], offsets[i + 1]):
                j = neighbours[place]
                if partner[i] < 0 and partner[j] < 0:
                    partner[i] = j
                    partner[j] = i


def build_pairing(face_edges: np.ndarray, face_body: np.ndarray) -> PairingTree:
    """Pair triangles that share an edge (within a body), then the pairs, until one node is left.

    Of several neighbours the one with the longest common border is taken, which keeps the nodes compact. What does not
    hang together is joined at the top, in order of index.
    """
    count = len(face_edges)
    nodes = np.arange(count, dtype=np.int32)
    joined = [np.ones(count, bool)]
    children = [np.full((count, 2), -1, np.int32)]
    made = count
    links, weights = _links(face_edges, face_body)
    backwards = False
    while len(nodes) > 1:
        by_edges = len(links) > 0
        partner = _partners(len(nodes), links, weights, backwards) if by_edges else _consecutive(len(nodes))
        backwards = not backwards

        # each pair becomes a node at the place of its first member; the others move up as they are
        low = np.flatnonzero((partner < 0) | (partner > np.arange(len(nodes))))
        paired = partner[low] >= 0
        pairs = np.stack([nodes[low[paired]], nodes[partner[low[paired]]]], axis=1)
        above = nodes[low]
        above[paired] = made + np.arange(len(pairs), dtype=np.int32)
        children.append(pairs)
        joined.append(np.full(len(pairs), by_edges))
        made += len(pairs)

        # links between the new nodes, each once, their weights added up
        place = np.empty(len(nodes), np.int64)
        place[low] = np.arange(len(low))
        place[partner[low[paired]]] = np.flatnonzero(paired)
        links, weights = _merge(place[links], weights, len(low))
        nodes = above
    return _finish(count, np.concatenate(children), np.concatenate(joined))


def _links(face_edges: np.ndarray, face_body: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # triangles in order of their edges; where many meet at one edge each is linked to the next, not to all
    edge = face_edges.ravel()
    by_edge = np.argsort(edge, kind="stable")
    same = np.flatnonzero(edge[by_edge[1:]] == edge[by_edge[:-1]])
    pairs = np.stack([by_edge[same] // 3, by_edge[same + 1] // 3], axis=1)
    pairs = pairs[face_body[pairs[:, 0]] == face_body[pairs[:, 1]]]
    return _merge(pairs, np.ones(len(pairs), np.int64), len(face_edges))


def _merge(links: np.ndarray, weights: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    low, high = links.min(axis=1), links.max(axis=1)
    apart = low < high
    keys, inverse = np.unique(low[apart] * count + high[apart], return_inverse=True)
    total = np.bincount(inverse, weights=weights[apart], minlength=len(keys)).astype(np.int64)
    return np.stack([keys // count, keys % count], axis=1), total


def _partners(count: int, links: np.ndarray, weights: np.ndarray, backwards: bool) -> np.ndarray:
    # both directions, each node's neighbours by falling weight, then by index
    one, other = np.concatenate([links, links[:, ::-1]]).T
    order = np.lexsort((other, -np.concatenate([weights, weights]), one))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(one, minlength=count))]).astype(np.int32)
    partner = wp.array(np.full(count, -1, np.int32), dtype=int, device="cpu")
    neighbours = wp.array(other[order].astype(np.int32), dtype=int, device="cpu")
    inputs = [count, int(backwards), wp.array(offsets, dtype=int, device="cpu"), neighbours, partner]
    launch(_match, 1, inputs, device="cpu")
    return partner.numpy()


def _consecutive(count: int) -> np.ndarray:
    partner = np.arange(count) ^ 1
    partner[partner >= count] = -1
    return partner


def _finish(count: int, children: np.ndarray, joined: np.ndarray) -> PairingTree:
    nodes = len(children)
    parent = np.full(nodes, -1, np.int32)
    size = np.ones(nodes, np.int32)
    levels = _levels(count, children)
    for level in levels:
        left, right = children[level].T
        parent[left] = parent[right] = level
        size[level] = size[left] + size[right]
        joined[level] &= joined[left] & joined[right]
    start = np.zeros(nodes, np.int32)
    for level in reversed(levels):
        left, right = children[level].T
        start[left] = start[level]
        start[right] = start[level] + size[left]
    return PairingTree(count, children, parent, size, start, joined)


def _levels(count: int, children: np.ndarray) -> list[np.ndarray]:
    """Inner nodes grouped so that each group's children lie in groups before it."""
    levels: list[np.ndarray] = []
    first = count
    while first < len(children):
        # nodes made in one sweep are consecutive, and none of them is a child of another
        rest = children[first:].max(axis=1)
        beyond = np.flatnonzero(rest >= first)
        last = first + int(beyond[0]) if len(beyond) else len(children)
        levels.append(np.arange(first, last))
        first = last
    return levels
