"""What users hand to detection: numpy arrays, checked once, with a message that names what is wrong."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import MeshError, WeftError
from weft.mesh.validate import list_first, rows_out_of_range


def read_positions(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """A float64 array of shape (n, 3), all finite."""
    positions = np.ascontiguousarray(values, dtype=np.float64)
    if positions.ndim != 2 or positions.shape[1] != 3:
        raise MeshError(f"{name} must have the shape (n, 3), got {positions.shape}")
    bad = np.flatnonzero(~np.isfinite(positions).all(axis=1))
    if len(bad):
        raise MeshError(f"{name} holds coordinates that are not finite numbers, at vertices {list_first(bad)}")
    return positions


def read_faces(values: ArrayLike, vertex_count: int) -> NDArray[np.int32]:
    """An int32 array of shape (m, 3) of vertices that exist; no triangle at all is fine."""
    faces = np.asarray(values)
    if faces.size == 0:
        return np.zeros((0, 3), np.int32)
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise MeshError(f"faces must be whole numbers of shape (m, 3), got {faces.dtype} of shape {faces.shape}")
    bad = np.flatnonzero(rows_out_of_range(faces, vertex_count))
    if len(bad):
        raise MeshError(
            f"triangles {list_first(bad)} name vertices outside 0 to {vertex_count - 1}; the first is "
            f"{tuple(faces[bad[0]].tolist())}"
        )
    return faces.astype(np.int32)


def read_length(value: float, name: str) -> float:
    """A length in metres, 0 or more."""
    length = float(value)
    if not 0.0 <= length < float("inf"):
        raise WeftError(f"{name} must be a length in metres, 0 or more, got {value}")
    return length
