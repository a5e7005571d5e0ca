"""The surface cut into patches of a few neighbouring triangles: the items that broad phases search.

Searching for patches and then comparing the few features of two patches with each other is three times as fast as
searching for every triangle: a tree is walked for sixteen triangles at once, and the comparisons run through memory in
order. Vertices, edges and triangles are numbered by rank, their place in the order of the pairing tree; a vertex or an
edge belongs to the patch of the triangle that owns it.
"""

import numpy as np
import warp as wp

from weft.broad_phase.pairing import PairingTree, build_pairing
from weft.world import Surface

# triangles a patch: sixteen was fastest on the CPU; a GPU wants more and smaller items
PATCH_SIZE_CPU = 16
PATCH_SIZE_CUDA = 4
# a patch's edges are compared as the bits of one 64-bit word, and it owns at most three a triangle
LARGEST_PATCH = 21
# planes (see `boxes`) are padded by this many items, so that reading sixteen at the end is harmless
PADDING = 16


class Patches:
    """Ranks of all features and the patches they form; fixed for a surface, whatever moves."""

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

        def with_room(values: np.ndarray) -> wp.array:
            # a mask of 64 bits may be read beyond the last item
            return to_device(np.pad(values, (0, 64)), int)[: len(values)]

        self.count = len(self.nodes)
        self.face_ids = with_room(order)
        """(m,) the triangle of each rank"""
        self.vertex_ids = with_room(vertex_ids)
        """(used vertices,) the vertex of each rank"""
        self.edge_ids = with_room(edge_ids)
        """(e,) the edge of each rank"""
        self.faces = to_device(vertex_rank[faces[order]], wp.vec3i)
        """(m,) by rank: the ranks of each triangle's vertices"""
        self.edges = to_device(vertex_rank[surface.edges.numpy().reshape(-1, 2)[edge_ids]], wp.vec2i)
        """(e,) by rank: the ranks of each edge's vertices"""
        self.corners = to_device(_planes(self.faces), int)
        """(3, m) the same as planes, padded like the boxes"""
        self.ends = to_device(_planes(self.edges), int)
        """(2, e) likewise for edges"""
        self.face_start = to_device(face_start, int)
        """(patches + 1,) where the triangles of each patch begin"""
        self.vertex_start = to_device(vertex_start, int)
        self.edge_start = to_device(edge_start, int)
        self.body = to_device(body[order[face_start[:-1]]] if self.count else np.zeros(0, np.int32), int)
        """(patches,) the body of each patch: no patch spans two"""


def _ranked(features: np.ndarray, owned: np.ndarray, face_start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    owned_before = np.concatenate([[0], np.cumsum(owned.sum(axis=1))]).astype(np.int32)
    return features[owned].astype(np.int32), owned_before[face_start]


def _planes(features: wp.array) -> np.ndarray:
    return np.pad(features.numpy().T, ((0, 0), (0, PADDING)), constant_values=-1)
