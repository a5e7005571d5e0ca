"""All triangles of a world as device arrays: what collision detection needs to know of them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import warp as wp


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
