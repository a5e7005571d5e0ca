"""Finer meshes: every triangle split in four, with straight (midpoint) or smooth (Loop) new positions."""

import numpy as np

from weft.mesh.topology import Ints
from weft.mesh.trimesh import TriMesh


def split_in_four(mesh: TriMesh) -> Ints:
    """The triangles of the split mesh: old vertices first, then one a edge. Triangle f becomes 4 f .. 4 f + 3.

    The three corners come first, in the order of the old corners, then the middle.
    """
    a, b, c = mesh.faces.T
    ab, bc, ca = mesh.face_edges.T + np.int32(len(mesh.vertices))
    return np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)


def midpoint(mesh: TriMesh) -> TriMesh:
    """Split every triangle in four without changing the surface."""
    vertices = np.concatenate([mesh.vertices, mesh.vertices[mesh.edges].mean(axis=1)])
    uv = None if mesh.uv is None else np.concatenate([mesh.uv, mesh.uv[mesh.edges].mean(axis=1)])
    return TriMesh(vertices, split_in_four(mesh), uv)
