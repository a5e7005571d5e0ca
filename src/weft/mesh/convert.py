"""Meshes and arrays of other libraries: trimesh, pyvista, torch, DLPack. None of the libraries is imported here."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.details import Details
from weft.mesh.formats.raw import RawMesh, concatenate, cut_polygons, place
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import as_faces, as_uv, as_vertices

ACCEPTED = "a TriMesh, (vertices, faces), a trimesh.Trimesh or a pyvista.PolyData"


def as_mesh(value: Any) -> TriMesh:
    """The mesh that a Python value means; a `MeshError` says what is accepted.

    Faces are (m, 3), or polygons: (m, k), or a list of lists of any lengths. Texture coordinates and values at the points of a
    trimesh or pyvista mesh come along, and so do the names of a trimesh's material and of the nodes of a trimesh scene.
    """
    if isinstance(value, TriMesh):
        return value
    library = type(value).__module__.partition(".")[0]
    if library == "trimesh" and hasattr(value, "faces"):
        return _as_trimesh(_from_trimesh(value))
    if library == "trimesh" and hasattr(value, "graph"):
        return _as_trimesh(_from_scene(value))
    if hasattr(value, "points") and hasattr(value, "point_data"):
        return _from_pyvista(value)
    if isinstance(value, tuple | list) and len(value) == 2:
        return _from_arrays(on_host(value[0]), on_host(value[1]))
    raise MeshError(f"a mesh is {ACCEPTED}, or the name of a file, not {_described(value)}")


def on_host(value: Any) -> Any:
    """Numbers of another library as NumPy can read them: torch, JAX, CuPy and Warp arrays, and whatever knows DLPack."""
    if hasattr(value, "detach"):
        return value.detach().cpu().numpy()
    if hasattr(value, "__cuda_array_interface__") and hasattr(value, "get"):
        return value.get()
    if hasattr(value, "numpy") and hasattr(value, "__dlpack__"):
        return value.numpy()
    known = isinstance(value, np.ndarray) or hasattr(value, "__array__") or not hasattr(value, "__dlpack__")
    return value if known else np.from_dlpack(value)


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of shape {value.shape}; give its triangles too, as (vertices, faces)"
    return f"a {type(value).__name__}"


def _from_arrays(vertices: Any, faces: Any) -> TriMesh:
    sizes, corners = _polygons(faces)
    if sizes is None or (sizes == 3).all():
        return TriMesh(vertices, faces if sizes is None else corners.reshape(-1, 3))
    points = as_vertices(vertices)
    if (sizes < 3).any():
        polygon = int((sizes < 3).argmax())
        raise MeshError(f"polygon {polygon} has {sizes[polygon]} corners; a polygon needs three")
    if corners.min() < 0 or corners.max() >= len(points):
        polygon = int(np.repeat(np.arange(len(sizes)), sizes)[((corners < 0) | (corners >= len(points))).argmax()])
        raise MeshError(f"polygon {polygon} has a corner outside 0..{len(points) - 1}, the numbers of the vertices")
    return _as_trimesh(cut_polygons(points, sizes, corners))


def _polygons(faces: Any) -> tuple[NDArray[np.int64] | None, NDArray[np.int64]]:
    """The sizes and the corners of polygons that are given as (m, k) or as lists of indices; no sizes for anything else."""
    lists = isinstance(faces, list | tuple) and len({np.size(face) for face in faces}) > 1
    array = np.concatenate([np.ravel(face) for face in faces]) if lists else np.asarray(faces)
    if array.dtype.kind not in "iu" or array.ndim != (1 if lists else 2) or array.size == 0:
        return None, np.empty(0, dtype=np.int64)
    sizes = [np.size(face) for face in faces] if lists else np.full(len(array), array.shape[1])
    return np.asarray(sizes, dtype=np.int64), array.astype(np.int64).ravel()


def _as_trimesh(raw: RawMesh) -> TriMesh:
    return TriMesh(raw.vertices, raw.faces, details=raw.details)


def _from_scene(scene: Any) -> RawMesh:
    """The meshes of all nodes of a trimesh scene where they stand, as objects of these names."""
    pieces = []
    for node in scene.graph.nodes_geometry:
        matrix, geometry = scene.graph[node]
        mesh = scene.geometry[geometry]
        if not hasattr(mesh, "faces"):
            continue
        raw = _from_trimesh(mesh)
        raw = raw._replace(details=raw.details.named("object", str(node), len(raw.faces)))
        pieces.append(place(raw, np.asarray(matrix, dtype=np.float64)))
    return concatenate(pieces)


def _from_trimesh(mesh: Any) -> RawMesh:
    vertices, faces = as_vertices(np.asarray(mesh.vertices)), as_faces(np.asarray(mesh.faces))
    texture = getattr(getattr(mesh, "visual", None), "uv", None)
    corner_uv = None
    if texture is not None and len(texture) == len(vertices):
        corner_uv = as_uv(np.asarray(texture)[:, :2], len(vertices))[faces]
    values = getattr(mesh, "vertex_attributes", {})
    attributes = _attributes({str(name): np.asarray(value) for name, value in values.items()}, len(vertices))
    details = Details(corner_uv, attributes=attributes)
    material = getattr(getattr(getattr(mesh, "visual", None), "material", None), "name", None)
    if material:
        details = details.named("material", str(material), len(faces))
    return RawMesh(vertices, faces, details=details)


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
    active = surface.point_data.active_texture_coordinates_name
    known = {"Normals", active, "vtkOriginalPointIds", "vtkOriginalCellIds"}
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
