"""Reading and writing mesh files. Errors are a `MeshError` that names the file."""

import logging
import uuid
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError, WeftError
from weft.mesh.formats.raw import RawMesh, check_archive, drop_useless_uv, merge_equal, pick, short_reason
from weft.mesh.repair import repair_mesh
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import BadMeshError

_log = logging.getLogger("weft.mesh")

USD_SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
READABLE = (".obj", ".ply", ".stl", ".glb", ".gltf", *USD_SUFFIXES, ".abc", ".npz")
WRITABLE = (".obj", ".ply", ".npz")


def load_mesh(
    path: str | Path, *, object: str | None = None, array: str | None = None, repair: bool = False, uv: bool = True
) -> TriMesh:
    """Read a mesh from an OBJ, PLY, STL, glTF, USD, Alembic or npz file.

    `object` picks one object of a file that has several (or a group, a panel or a material), by its name; `TriMesh.parts`
    gives all of them. Polygons are cut into triangles, and remembered. Texture coordinates and normals stay with their
    corners, names with their triangles, vertex groups and other attributes with their vertices.

    OBJ, PLY, USD and npz keep the vertices of the file, in its order; STL cannot say that triangles share a vertex, and
    glTF cannot where its normal or uv differs, so there vertices at exactly the same place become one. Scene graphs are
    applied, several meshes become one, and animated ones stand still. The flat rest shape `uv` is there where each vertex
    has just one texture coordinate and it gives every triangle an area; `uv=False` leaves it out. `array` names the
    positions in an npz file (if not `vertices`); of frames the first is taken.

    `repair` repairs what `TriMesh` would refuse, joins edges that lie on each other, and logs what was done; `read_mesh`
    and `repair_mesh` also return the original index of each vertex.
    """
    raw = read_mesh(path, object=object, array=array)
    if not uv:
        raw = raw._replace(uv=None)
    try:
        if not repair:
            return TriMesh(raw.vertices, raw.faces, raw.uv, details=raw.details)
        result = repair_mesh(raw.vertices, raw.faces, raw.uv, details=raw.details)
    except BadMeshError as error:
        raise MeshError(f"{path}: {error.summary}. Load it with repair=True to repair it") from None
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from None
    for sentence in result.sentences:
        _log.warning("%s: %s", path, sentence)
    return result.mesh


def read_mesh(path: str | Path, *, object: str | None = None, array: str | None = None) -> RawMesh:
    """The arrays of a mesh file, or of one object of it, triangulated and placed, but not validated.

    `source` are the indices in the file.
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in READABLE:
        raise MeshError(f"{path}: weft reads meshes from {', '.join(READABLE)} files")
    if array is not None and suffix != ".npz":
        raise MeshError(f"{path}: array names the positions in an .npz file; leave it out here")
    try:
        if path.is_dir():
            raise MeshError("it is a folder, not a file")
        if path.stat().st_size == 0:
            raise MeshError("it is empty")
        raw = _read(path, suffix, array)
        raw = raw if object is None else pick(raw, object)
        # the uv of an npz file are an array of that name, not texture coordinates
        return raw if suffix == ".npz" else drop_useless_uv(raw)
    except FileNotFoundError:
        raise MeshError(f"{path}: no such file") from None
    except OSError as error:
        raise MeshError(f"{path}: cannot be read ({error.strerror or error})") from None
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from None
    except WeftError:
        raise
    except Exception as error:
        # parsers raise all kinds of errors on damaged files
        raise MeshError(f"{path}: it is no {suffix} file, or a damaged one ({short_reason(error)})") from error


def save_mesh(mesh: TriMesh, path: str | Path) -> None:
    """Write an OBJ, PLY or npz file, with all digits. The file appears whole or not at all.

    OBJ and npz hold all names, texture coordinates, normals and polygons of a mesh, npz and PLY its attributes.
    """
    path = Path(path)
    data = _writer(path)(mesh)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        try:
            temporary.write_bytes(data)
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise MeshError(f"{path}: cannot be written ({error.strerror or error})") from None


def _read(path: Path, suffix: str, array: str | None) -> RawMesh:
    # each format is imported when it is needed
    if suffix == ".obj":
        from weft.mesh.formats.obj import read_obj

        return read_obj(path.read_bytes())
    if suffix == ".ply":
        from weft.mesh.formats.ply import read_ply

        return read_ply(path.read_bytes())
    if suffix == ".stl":
        from weft.mesh.formats.raw import read_stl

        return merge_equal(read_stl(path))
    if suffix in (".glb", ".gltf"):
        from weft.mesh.formats.gltf import read_gltf

        return read_gltf(path)
    if suffix in USD_SUFFIXES:
        from weft.mesh.formats.usd import read_usd

        return read_usd(path)
    if suffix == ".abc":
        from weft.mesh.formats.alembic import read_alembic

        return read_alembic(path)
    from weft.mesh.formats.raw import read_npz

    return read_npz(path, array)


def _writer(path: Path) -> Callable[[TriMesh], bytes]:
    from weft.mesh.formats.obj import write_obj
    from weft.mesh.formats.ply import write_ply
    from weft.mesh.formats.raw import write_npz

    writers = {".obj": write_obj, ".ply": write_ply, ".npz": write_npz}
    if path.suffix.lower() not in writers:
        raise MeshError(f"{path}: weft writes meshes to {', '.join(WRITABLE)} files")
    return writers[path.suffix.lower()]


def mesh_files(path: str | Path) -> list[Path]:
    """All files that are read with a mesh file: itself, the buffers of a glTF file, the layers of a USD file."""
    path = Path(path)
    if path.suffix.lower() == ".gltf":
        from weft.mesh.formats.gltf_document import GltfDocument

        return [path, *GltfDocument(path).buffer_files()]
    if path.suffix.lower() in USD_SUFFIXES:
        from weft.mesh.formats.usd import usd_layers

        return [path, *(layer for layer in usd_layers(path) if layer != path.absolute())]
    return [path]


def read_arrays(path: Path, names: Sequence[str], optional: Sequence[str] = ()) -> dict[str, NDArray]:
    """Arrays of an npz file by name. Nothing in the file is run: pickled objects are refused."""
    if not path.exists():
        raise MeshError(f"no such file: {path}")
    try:
        with np.load(path, allow_pickle=False) as file:
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise MeshError(f"{path.name} is no npz file")
            missing = [name for name in names if name not in file.files]
            if missing:
                there = ", ".join(file.files) or "no array"
                raise MeshError(f"{path.name} has no array {missing[0]!r}; it has {there}")
            check_archive(path, (*names, *optional))
            return {name: file[name] for name in (*names, *optional) if name in file.files}
    except (OSError, EOFError, ValueError, zipfile.BadZipFile, NotImplementedError) as error:
        raise MeshError(f"{path.name} cannot be read as an npz file: {error}") from None
