"""Meshes of other libraries as a `TriMesh`: arrays, trimesh, pyvista. None of the libraries is imported here."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.details import Details
from weft.mesh.formats.raw import cut_polygons
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import as_faces, as_uv, as_vertices

ACCEPTED = "a TriMesh, (vertices, faces), a trimesh.Trimesh or a pyvista.PolyData"


def as_mesh(value: Any) -> TriMesh:
    """The mesh that a Python value means; a `MeshError` says what is accepted.

    Texture coordinates and values at the points of a trimesh or pyvista mesh come along.
    """
    if isinstance(value, TriMesh):
        return value
    library = type(value).__module__.partition(".")[0]
    if library == "trimesh" and hasattr(value, "faces"):
        return _from_trimesh(value)
    if library == "trimesh" and hasattr(value, "to_mesh"):
        return _from_trimesh(value.to_mesh())
    if hasattr(value, "points") and hasattr(value, "point_data"):
        return _from_pyvista(value)
    if isinstance(value, tuple | list) and len(value) == 2:
        return TriMesh(value[0], value[1])
    raise MeshError(f"a mesh is {ACCEPTED}, or the name of a file, not {_described(value)}")


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}; give its triangles too, as (vertices, faces)"
    return f"a {type(value).__name__}"


def _from_trimesh(mesh: Any) -> TriMesh:
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    texture = getattr(getattr(mesh, "visual", None), "uv", None)
    corner_uv = None
    if texture is not None and len(texture) == len(vertices):
        corner_uv = as_uv(np.asarray(texture)[:, :2], len(vertices))[faces]
    values = getattr(mesh, "vertex_attributes", {})
    attributes = _attributes({str(name): np.asarray(value) for name, value in values.items()}, len(vertices))
    return TriMesh(vertices, as_faces(faces), corner_uv=corner_uv, attributes=attributes)


def _from_pyvista(mesh: Any) -> TriMesh:
    # grids and volumes have cells; what is simulated is their surface
    surface = mesh if hasattr(mesh, "faces") else mesh.extract_surface(algorithm="dataset_surface")
    points = as_vertices(np.asarray(surface.points))
    sizes, corners = _padded(np.asarray(surface.faces).astype(np.int64))
    if len(sizes) == 0:
        raise MeshError("the pyvista mesh has no faces")
    texture = getattr(surface, "active_texture_coordinates", None)
    uv = None if texture is None else as_uv(np.asarray(texture)[:, :2], len(points))[corners]
    raw = cut_polygons(points, sizes, corners, uv)
    # normals follow from the shape, and texture coordinates stand at the corners
    known = {"Normals", "Texture Coordinates", "vtkOriginalPointIds", "vtkOriginalCellIds"}
    values = {str(name): np.asarray(surface.point_data[name]) for name in surface.point_data if name not in known}
    details = Details(raw.details.corner_uv, None, raw.details.polygons, {}, _attributes(values, len(points)))
    return TriMesh(points, raw.faces, details=details)


def _padded(numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sizes and the corners of VTK's list of polygons: their number of corners, then the corners, one after the other."""
    sizes: list[int] = []
    keep = np.ones(len(numbers), dtype=bool)
    at = 0
    while at < len(numbers):
        keep[at] = False
        sizes.append(int(numbers[at]))
        at += sizes[-1] + 1
    return np.array(sizes, dtype=np.int64), numbers[keep]


def _attributes(values: dict[str, NDArray[Any]], count: int) -> dict[str, NDArray[np.float64]]:
    """Those values that are one or a few finite numbers a vertex."""
    return {
        name: array.astype(np.float64)
        for name, array in values.items()
        if array.dtype.kind in "fiub" and array.ndim in (1, 2) and len(array) == count and np.isfinite(array).all()
    }
