"""Reading and writing mesh files. What cannot be read gives one `MeshError` that names the file."""

import logging
import uuid
from collections.abc import Callable
from pathlib import Path

from weft.errors import MeshError, WeftError
from weft.mesh.formats.raw import RawMesh, drop_useless_uv, merge_equal, short_reason
from weft.mesh.repair import repair_mesh
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import BadMeshError

_log = logging.getLogger("weft.mesh")

USD_SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
READABLE = (".obj", ".ply", ".stl", ".glb", ".gltf", *USD_SUFFIXES, ".npz")
WRITABLE = (".obj", ".ply")


def load_mesh(path: str | Path, *, array: str | None = None, repair: bool = False, uv: bool = True) -> TriMesh:
    """Read a mesh from an OBJ, PLY, STL, glTF, USD or npz file.

    Polygons become fans of triangles. OBJ, PLY, USD and npz keep the vertices of the file, in its order; STL cannot say
    that triangles share a vertex, and glTF cannot where its normal or uv differs, so there vertices at exactly the same
    place become one. Scene graphs are applied, several meshes become one, and animated ones stand still. uv is kept
    where each vertex has just one and it gives every triangle an area. `array` names the positions in an npz file (if
    not `vertices`); of frames the first is taken. `uv=False` leaves uv out.

    `repair` mends what `TriMesh` would refuse, joins edges that lie on each other, and logs what was done; `read_mesh`
    and `repair_mesh` also tell which vertex each one was.
    """
    raw = read_mesh(path, array=array)
    if not uv:
        raw = raw._replace(uv=None)
    try:
        if not repair:
            return TriMesh(raw.vertices, raw.faces, raw.uv)
        result = repair_mesh(raw.vertices, raw.faces, raw.uv)
    except BadMeshError as error:
        raise MeshError(f"{path}: {error.summary}. Load it with repair to mend it") from None
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from None
    for sentence in result.sentences:
        _log.warning("%s: %s", path, sentence)
    return result.mesh


def read_mesh(path: str | Path, *, array: str | None = None) -> RawMesh:
    """The arrays of a mesh file, triangulated and placed, but not validated; `source` tells what was merged."""
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
        return _read(path, suffix, array)
    except FileNotFoundError:
        raise MeshError(f"{path}: no such file") from None
    except OSError as error:
        raise MeshError(f"{path}: cannot be read ({error.strerror or error})") from None
    except MeshError as error:
        raise MeshError(f"{path}: {error}") from None
    except WeftError:
        raise
    except Exception as error:
        # the parsers raise whatever garbage makes them stumble over
        raise MeshError(f"{path}: it is no {suffix} file, or a damaged one ({short_reason(error)})") from error


def save_mesh(mesh: TriMesh, path: str | Path) -> None:
    """Write an OBJ or PLY file, uv included, with all digits. The file appears whole or not at all."""
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
    # each format is imported where it is asked for
    if suffix == ".obj":
        from weft.mesh.formats.obj import read_obj

        return drop_useless_uv(read_obj(path.read_bytes()))
    if suffix == ".ply":
        from weft.mesh.formats.ply import read_ply

        return drop_useless_uv(read_ply(path.read_bytes()))
    if suffix == ".stl":
        from weft.mesh.formats.stl import read_stl

        return merge_equal(read_stl(path))
    if suffix in (".glb", ".gltf"):
        from weft.mesh.formats.gltf import read_gltf

        return drop_useless_uv(read_gltf(path))
    if suffix in USD_SUFFIXES:
        from weft.mesh.formats.usd import read_usd

        return drop_useless_uv(read_usd(path))
    from weft.mesh.formats.npz import read_npz

    return read_npz(path, array)


def _writer(path: Path) -> Callable[[TriMesh], bytes]:
    from weft.mesh.formats.obj import write_obj
    from weft.mesh.formats.ply import write_ply

    writers = {".obj": write_obj, ".ply": write_ply}
    if path.suffix.lower() not in writers:
        raise MeshError(f"{path}: weft writes meshes to {', '.join(WRITABLE)} files")
    return writers[path.suffix.lower()]
