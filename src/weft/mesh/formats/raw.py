"""The unchecked arrays that readers of mesh files return, steps that several formats share, and the formats STL and npz."""

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.topology import Ints
from weft.mesh.validate import Floats, faces_out_of_range, faces_without_area, place_numbers


class RawMesh(NamedTuple):
    """The triangles of a mesh file, not validated."""

    vertices: Floats
    faces: Ints | NDArray[np.int64]
    uv: Floats | None = None
    # (n,) which vertex of the file each one is, where equal vertices were merged; None: all of them, in their order
    source: Ints | None = None


# bytes that the arrays of a mesh file may take in memory, where the file itself is not of that size: 45 million vertices
UNPACKED_BYTES = 512 << 20
# or so many times the bytes of the file. Not measured on real files: a larger number lets a small hostile file take more
# memory, a smaller one refuses files that deflate well or have morph targets of few vertices
UNPACKED_RATIO = 32


def check_unpacked(unpacked: int, file_bytes: int) -> None:
    """Refuse a file whose arrays would take far more memory than its size can explain: a damaged or hostile one."""
    if unpacked > max(UNPACKED_BYTES, UNPACKED_RATIO * file_bytes):
        raise MeshError(
            f"its arrays take {unpacked / 1e9:.3g} GB, too much for a file of {file_bytes / 1e6:.2g} MB (weft unpacks "
            f"{UNPACKED_BYTES >> 20} MiB, or {UNPACKED_RATIO} times the size of the file)"
        )


def check_archive(path: Path, names: Iterable[str]) -> None:
    """Refuse an npz file of which the named arrays would take far too much memory."""
    wanted = {f"{name}.npy" for name in names}
    with zipfile.ZipFile(path) as archive:
        check_unpacked(sum(i.file_size for i in archive.infolist() if i.filename in wanted), path.stat().st_size)


def short_reason(error: Exception) -> str:
    """The error of a parser in one short line; damaged files make parsers raise anything."""
    return " ".join(str(error).split())[:160] or type(error).__name__


def triangulate(sizes: NDArray[Any]) -> NDArray[np.int64]:
    """Fans over polygons with these numbers of corners: (t, 3) positions in the list of all corners, in file order.

    Fans do not depend on coordinates, so every frame of a sequence gets the same triangles.
    """
    sizes = sizes.astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    fans = sizes - 2
    first = np.repeat(starts, fans)
    step = np.arange(len(first)) - np.repeat(np.cumsum(fans) - fans, fans) + 1
    return np.stack([first, first + step, first + step + 1], axis=1)


def uv_from_corners(corners: NDArray[Any], values: Floats, vertex_count: int) -> Floats | None:
    """One uv a vertex from one uv a corner; None where a vertex has more than one (it lies on a seam of the uv)."""
    uv = np.zeros((vertex_count, 2))
    uv[corners] = values
    return uv if np.array_equal(uv[corners], values) else None


def drop_useless_uv(raw: RawMesh) -> RawMesh:
    """Remove uv that cannot be a rest shape: not finite, or without area where the triangle has some.

    Many files carry texture coordinates of all zeros.
    """
    if raw.uv is None or faces_out_of_range(raw.faces, len(raw.vertices)).any():
        return raw
    finite = bool(np.isfinite(raw.uv).all())
    if finite and not (faces_without_area(raw.uv, raw.faces) & ~faces_without_area(raw.vertices, raw.faces)).any():
        return raw
    return raw._replace(uv=None)


def merge_equal(raw: RawMesh) -> RawMesh:
    """Merge vertices at exactly the same position into the first of them.

    For formats in which triangles cannot share vertices.
    """
    place = place_numbers(raw.vertices)
    lowest = np.unique(place, return_index=True)[1][place]
    source, merged = np.unique(lowest, return_inverse=True)
    uv = None if raw.uv is None else uv_from_corners(merged, raw.uv, len(source))
    return RawMesh(raw.vertices[source], merged[raw.faces], uv, source.astype(np.int32))


def concatenate(meshes: list[RawMesh]) -> RawMesh:
    """Several meshes as one; with uv only if each has uv."""
    if not meshes:
        raise MeshError("it holds no triangle mesh")
    counts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    uvs = [mesh.uv for mesh in meshes if mesh.uv is not None]
    return RawMesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.faces + count for mesh, count in zip(meshes, counts[:-1], strict=True)]),
        np.concatenate(uvs) if len(uvs) == len(meshes) else None,
    )


def place(vertices: Floats, faces: NDArray[np.int64], matrix: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Vertices under a 4x4 matrix (column vectors), with reversed triangles where it mirrors."""
    # numbers that are not finite are found when the mesh is validated
    with np.errstate(all="ignore"):
        moved = vertices @ matrix[:3, :3].T + matrix[:3, 3]
    return moved, faces[:, ::-1] if np.linalg.det(matrix[:3, :3]) < 0.0 else faces


def read_npz(path: Path, array: str | None) -> RawMesh:
    """`faces` (m, 3), positions `vertices` or the array of that name, (n, 3) or frames of it, and `uv` (n, 2)."""
    if not zipfile.is_zipfile(path):
        raise MeshError("it is no numpy archive, or cut short")
    check_archive(path, ("faces", array or "vertices", "uv"))
    with np.load(path, allow_pickle=False) as arrays:
        name = array or "vertices"
        for needed in ("faces", name):
            if needed not in arrays.files:
                hint = "; name the positions with array" if needed == "vertices" else ""
                raise MeshError(f"it has no array {needed!r}; it has {', '.join(arrays.files) or 'none'}{hint}")
        vertices, faces = arrays[name], arrays["faces"]
        uv = arrays["uv"] if "uv" in arrays.files else None
    # the first frame of a sequence
    if vertices.ndim == 3 and len(vertices):
        vertices = vertices[0]
    return RawMesh(vertices, faces, uv)


def read_stl(path: Path) -> RawMesh:
    """The corners of all triangles, not merged yet."""
    import trimesh

    mesh = trimesh.load_mesh(path, file_type="stl", process=False)
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise MeshError("it holds no triangles, or is cut short")
    return RawMesh(np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64))
