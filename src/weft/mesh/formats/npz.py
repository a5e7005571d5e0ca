"""numpy archives: `faces`, positions, and `uv` where there is one."""

import zipfile
from pathlib import Path

import numpy as np

from weft.errors import MeshError
from weft.mesh.formats.raw import RawMesh


def read_npz(path: Path, array: str | None) -> RawMesh:
    """`faces` (m, 3), positions `vertices` or the array of that name, (n, 3) or frames of it, and `uv` (n, 2)."""
    if not zipfile.is_zipfile(path):
        raise MeshError("it is no numpy archive, or cut short")
    with np.load(path, allow_pickle=False) as arrays:
        name = array or "vertices"
        for needed in ("faces", name):
            if needed not in arrays.files:
                hint = "; name the positions with array" if needed == "vertices" else ""
                raise MeshError(f"it has no array {needed!r}; it has {', '.join(arrays.files) or 'none'}{hint}")
        vertices, faces = arrays[name], arrays["faces"]
        uv = arrays["uv"] if "uv" in arrays.files else None
    # of a sequence, the first frame
    if vertices.ndim == 3 and len(vertices):
        vertices = vertices[0]
    return RawMesh(vertices, faces, uv)
