"""STL, text or binary: three corners a triangle, of which equal ones are one vertex."""

from pathlib import Path

import numpy as np

from weft.errors import MeshError
from weft.mesh.formats.raw import RawMesh


def read_stl(path: Path) -> RawMesh:
    """The corners of all triangles, not merged yet."""
    import trimesh

    mesh = trimesh.load_mesh(path, file_type="stl", process=False)
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise MeshError("it holds no triangles, or is cut short")
    return RawMesh(np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64))
