"""The surface cut into patches of a few neighbouring triangles, and the pairing tree that they come from.

Broad phases search for pairs of patches whose boxes overlap and then compare the features of the two patches. That is three
times as fast as searching for every triangle: a tree is walked once for sixteen triangles, and the comparisons run through
memory in order. Vertices, edges and triangles are numbered by *rank*, their place in the order of the pairing tree; a vertex
or an edge belongs to the patch of the triangle that owns it.

The pairing tree is the hierarchy of Bridson, Fedkiw and Anderson 2002, section 4: neighbouring triangles are paired, then
pairs of pairs, up to one root, in sweeps of alternating direction. Its leaves from left to right are an order in which
what is near in the mesh is near in memory. The order depends on the faces alone, so that lists that are sorted by rank are the
same whichever broad phase wrote them, and the same again when a run is resumed.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# triangles of a patch: sixteen was fastest on the CPU; a GPU wants more and smaller queries
PATCH_SIZE_CPU = 16
PATCH_SIZE_CUDA = 4
# the edges of a patch are compared as the bits of one 64-bit word, and a patch owns at most three a triangle
LARGEST_PATCH = 21
# boxes at the end of every plane (see `boxes`) that may be read and mean nothing: sixteen are compared at once
PADDING = 16


@wp.struct
class PatchArrays:
    """The arrays of `Patches` that kernels need, under the same names."""

    vertex_ids: wp.array[int]
    edge_ids: wp.array[int]
    face_ids: wp.array[int]
    vertex_start: wp.array[int]
    edge_start: wp.array[int]
    face_start: wp.array[int]
    faces: wp.array[wp.vec3i]
    corners: wp.array2d[int]
    ends: wp.array2d[int]
    body: wp.array[int]


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
    """(nodes,) int32: rank of the first triangle below; the triangles below have the ranks start to start + size - 1"""
    connected: np.ndarray
    """(nodes,) bool: whether the triangles below are connected by shared edges"""

    @property
    def order(self) -> np.ndarray:
        """The triangles from left to right: the triangle of each rank."""
        order = np.empty(self.triangle_count, np.int32)
        order[self.start[: self.triangle_count]] = np.arange(self.triangle_count, dtype=np.int32)
        return order

    def patches(self, largest: int) -> np.ndarray:
        """The nodes that make up patches: the largest connected ones of at most `largest` triangles, from left to right."""
        fits = self.connected & (self.size <= largest)
        above = np.where(self.parent < 0, False, fits[self.parent])
        nodes = np.flatnonzero(fits & ~above)
        return nodes[np.argsort(self.start[nodes])].astype(np.int32)


@wp.kernel
def _match(
    first: int, count: int, backwards: int, offsets: wp.array[int], neighbours: wp.array[int], partner: wp.array[int]
):
    # one thread: each node in turn is paired with the first of its neighbours that is not paired yet
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

    Of several neighbours the one with the most common edges is taken, which keeps the nodes compact. Components that are not
    connected are paired at the top, in order of index.
    """
    count = len(face_edges)
    nodes = np.arange(count, dtype=np.int32)
    connected = [np.ones(count, bool)]
    children = [np.full((count, 2), -1, np.int32)]
    made = count
    links, weights = _links(face_edges, face_body)
    backwards = False
    while len(nodes) > 1:
        by_edges = len(links) > 0
        partner = _partners(len(nodes), links, weights, backwards) if by_edges else _consecutive(len(nodes))
        backwards = not backwards

        # each pair becomes a node at the place of its first member; nodes without a partner go to the next level as they are
        low = np.flatnonzero((partner < 0) | (partner > np.arange(len(nodes))))
        paired = partner[low] >= 0
        pairs = np.stack([nodes[low[paired]], nodes[partner[low[paired]]]], axis=1)
        above = nodes[low]
        above[paired] = made + np.arange(len(pairs), dtype=np.int32)
        children.append(pairs)
        connected.append(np.full(len(pairs), by_edges))
        made += len(pairs)

        # links between the new nodes, each once, their weights added up
        place = np.empty(len(nodes), np.int64)
        place[low] = np.arange(len(low))
        place[partner[low[paired]]] = np.flatnonzero(paired)
        links, weights = _merge(place[links], weights, len(low))
        nodes = above
    return _finish(count, np.concatenate(children), np.concatenate(connected))


def _links(face_edges: np.ndarray, face_body: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    # triangles sorted by edge; where more than two share an edge each is linked to the next one, not to all
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


def _finish(count: int, children: np.ndarray, connected: np.ndarray) -> PairingTree:
    nodes = len(children)
    parent = np.full(nodes, -1, np.int32)
    size = np.ones(nodes, np.int32)
    levels = _levels(count, children)
    for level in levels:
        left, right = children[level].T
        parent[left] = parent[right] = level
        size[level] = size[left] + size[right]
        connected[level] &= connected[left] & connected[right]
    start = np.zeros(nodes, np.int32)
    for level in reversed(levels):
        left, right = children[level].T
        start[left] = start[level]
        start[right] = start[level] + size[left]
    return PairingTree(count, children, parent, size, start, connected)


def _levels(count: int, children: np.ndarray) -> list[np.ndarray]:
    """Inner nodes in groups such that the children of a group are in earlier groups."""
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


class Patches:
    """Ranks of all features and the patches that they form; depends on the faces of the surface alone."""

    def __init__(self, surface: Surface, *, largest: int | None = None) -> None:
        device = surface.device
        if largest is None:
            largest = PATCH_SIZE_CPU if device.is_cpu else PATCH_SIZE_CUDA
        if not 1 <= largest <= LARGEST_PATCH:
            raise ValueError(f"a patch has 1 to {LARGEST_PATCH} triangles, not {largest}")
        faces, face_edges = surface.faces.numpy().reshape(-1, 3), surface.face_edges.numpy().reshape(-1, 3)
        body = surface.face_body.numpy()
        self.tree: PairingTree = build_pairing(face_edges, body)
        self.nodes = self.tree.patches(largest)
        """the node of the pairing tree that each patch is"""
        order = self.tree.order
        face_start = np.append(self.tree.start[self.nodes], len(faces)).astype(np.int32)

        # owned vertices and edges in the order of their triangles
        owned = (surface.owned.numpy()[order][:, None] >> np.arange(6)) & 1 == 1
        vertex_ids, vertex_start = _ranked(faces[order], owned[:, :3], face_start)
        edge_ids, edge_start = _ranked(face_edges[order], owned[:, 3:], face_start)
        vertex_rank = np.full(surface.vertex_count, -1, np.int32)
        vertex_rank[vertex_ids] = np.arange(len(vertex_ids), dtype=np.int32)

        def to_device(values: np.ndarray, dtype: type) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        def padded(values: np.ndarray) -> wp.array:
            # the 64 bits of a mask may reach beyond the last feature
            return to_device(np.pad(values, (0, 64)), int)[: len(values)]

        self.count = len(self.nodes)
        self.face_ids = padded(order)
        """(m,) the triangle of each rank"""
        self.vertex_ids = padded(vertex_ids)
        """(used vertices,) the vertex of each rank"""
        self.edge_ids = padded(edge_ids)
        """(e,) the edge of each rank"""
        self.faces = to_device(vertex_rank[faces[order]], wp.vec3i)
        """(m,) by rank: the ranks of each triangle's vertices"""
        self.edges = to_device(vertex_rank[surface.edges.numpy().reshape(-1, 2)[edge_ids]], wp.vec2i)
        """(e,) by rank: the ranks of each edge's vertices"""
        self.corners = to_device(_planes(self.faces), int)
        """(3, m + padding) the same as three planes, like the boxes"""
        self.ends = to_device(_planes(self.edges), int)
        """(2, e + padding) the vertices of the edges as two planes"""
        self.face_start = to_device(face_start, int)
        """(patches + 1,) where the triangles of each patch begin"""
        self.vertex_start = to_device(vertex_start, int)
        self.edge_start = to_device(edge_start, int)
        self.body = to_device(body[order[face_start[:-1]]] if self.count else np.zeros(0, np.int32), int)
        """(patches,) the body of each patch: no patch spans two"""
        arrays: Any = PatchArrays()
        for name in arrays._cls.vars:
            setattr(arrays, name, getattr(self, name))
        self.arrays = arrays


def _ranked(features: np.ndarray, owned: np.ndarray, face_start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    owned_before = np.concatenate([[0], np.cumsum(owned.sum(axis=1))]).astype(np.int32)
    return features[owned].astype(np.int32), owned_before[face_start]


def _planes(features: wp.array) -> np.ndarray:
    return np.pad(features.numpy().T, ((0, 0), (0, PADDING)), constant_values=-1)
