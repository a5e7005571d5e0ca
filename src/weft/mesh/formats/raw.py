"""The unchecked arrays that readers of mesh files return, steps that several formats share, and the formats STL and npz."""

import io
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.details import LABELS, Details, Labels, find_name, join_details, join_uv
from weft.mesh.polygons import polygon_numbers, triangulate
from weft.mesh.topology import Ints
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import Floats, faces_out_of_range, faces_without_area, list_first, place_numbers


class RawMesh(NamedTuple):
    """The triangles of a mesh file, not validated."""

    vertices: Floats
    faces: Ints | NDArray[np.int64]
    uv: Floats | None = None
    # (n,) which vertex of the file each one is, where equal vertices were merged; None: all of them, in their order
    source: Ints | None = None
    details: Details = Details()
    # the numbers of corners of the file's polygons, and the vertices of all their corners; None where it has triangles only
    loops: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None


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


def uv_from_corners(corners: NDArray[Any], values: Floats, vertex_count: int) -> Floats | None:
    """One uv a vertex from one uv a corner; None where a vertex has more than one (it lies on a seam of the uv)."""
    uv = np.zeros((vertex_count, 2))
    uv[corners] = values
    return uv if np.array_equal(uv[corners], values) else None


def cut_polygons(
    vertices: Floats,
    sizes: NDArray[np.int64],
    corners: NDArray[np.int64],
    uv: Floats | None = None,
    normals: Floats | None = None,
) -> RawMesh:
    """Polygons as triangles, with the texture coordinates and normals of their corners; all vertices must exist."""
    rows = triangulate(sizes, vertices[corners])
    details = Details(
        None if uv is None else uv[rows], None if normals is None else normals[rows], polygon_numbers(sizes)
    )
    flat = None if uv is None else uv_from_corners(corners, uv, len(vertices))
    return RawMesh(vertices, corners[rows], flat, None, details, (sizes, corners))


def drop_useless_uv(raw: RawMesh) -> RawMesh:
    """Remove uv that cannot be a rest shape: not finite, or without area where the triangle has some.

    Many files carry texture coordinates of all zeros; those are removed altogether, and so are damaged normals.
    """
    uv, normals = raw.details.corner_uv, raw.details.corner_normals
    if uv is not None and (not np.isfinite(uv).all() or np.all(uv == uv[:1, :1])):
        raw = raw._replace(details=replace(raw.details, corner_uv=None))
    if normals is not None and not np.isfinite(normals).all():
        raw = raw._replace(details=replace(raw.details, corner_normals=None))
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
    details = raw.details.take(source, None)
    return RawMesh(raw.vertices[source], merged[raw.faces], uv, source.astype(np.int32), details)


def pick(raw: RawMesh, name: str) -> RawMesh:
    """The triangles of one object (else group, panel or material) of a file, with the vertices that they use."""
    found = find_name(raw.details, name)
    if found is None:
        there = [f"{kind}s {list_first(names, 12)}" for kind in LABELS if (names := raw.details.names(kind))]
        raise MeshError(f"it has no object {name!r}; it has {'; '.join(there) or 'no names'}")
    rows = raw.details.labels[found[0]].faces(name)
    if faces_out_of_range(raw.faces[rows], len(raw.vertices)).any():
        raise MeshError(f"the triangles of {name!r} name vertices that do not exist")
    used, faces = np.unique(raw.faces[rows], return_inverse=True)
    return RawMesh(
        raw.vertices[used],
        faces.reshape(-1, 3),
        None if raw.uv is None else raw.uv[used],
        (used if raw.source is None else raw.source[used]).astype(np.int32),
        raw.details.take(used, np.arange(3 * len(rows)).reshape(-1, 3)[rows]),
    )


def concatenate(meshes: list[RawMesh]) -> RawMesh:
    """Several meshes as one."""
    if not meshes:
        raise MeshError("it holds no triangle mesh")
    counts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes)])
    return RawMesh(
        np.concatenate([mesh.vertices for mesh in meshes]),
        np.concatenate([mesh.faces + count for mesh, count in zip(meshes, counts[:-1], strict=True)]),
        join_uv([mesh.uv for mesh in meshes], [(len(mesh.vertices), 2) for mesh in meshes]),
        None,
        join_details(
            [mesh.details for mesh in meshes],
            [len(mesh.vertices) for mesh in meshes],
            [len(mesh.faces) for mesh in meshes],
        ),
    )


def place(raw: RawMesh, matrix: Floats) -> RawMesh:
    """A mesh under a 4x4 matrix (column vectors), with reversed triangles where it mirrors."""
    # numbers that are not finite are found when the mesh is validated
    with np.errstate(all="ignore"):
        moved = raw.vertices @ matrix[:3, :3].T + matrix[:3, 3]
        determinant = np.linalg.det(matrix[:3, :3])
        details = raw.details.rotated(matrix[:3, :3]) if determinant != 0.0 else raw.details
    raw = raw._replace(vertices=moved, details=details)
    return turned(raw) if determinant < 0.0 else raw


def turned(raw: RawMesh) -> RawMesh:
    """The mesh with all triangles reversed."""
    return raw._replace(faces=raw.faces[:, ::-1], details=raw.details.turned())


# names of arrays in an npz file: the details of a mesh, the names and the numbers of a label, an attribute
_CORNERS = ("corner_uv", "corner_normals", "polygons")
_NAMES, _NUMBERS, _ATTRIBUTE = "names.", "label.", "attribute."


def read_npz(path: Path, array: str | None) -> RawMesh:
    """`faces` (m, 3), positions `vertices` or the array of that name, (n, 3) or frames of it, `uv` (n, 2), and details."""
    if not zipfile.is_zipfile(path):
        raise MeshError("it is no numpy archive, or cut short")
    name = array or "vertices"
    with np.load(path, allow_pickle=False) as arrays:
        more = [n for n in arrays.files if n in _CORNERS or n.startswith((_NAMES, _NUMBERS, _ATTRIBUTE))]
        check_archive(path, ("faces", name, "uv", *more))
        for needed in ("faces", name):
            if needed not in arrays.files:
                hint = "; name the positions with array" if needed == "vertices" else ""
                raise MeshError(f"it has no array {needed!r}; it has {', '.join(arrays.files) or 'none'}{hint}")
        vertices, faces = arrays[name], arrays["faces"]
        uv = arrays["uv"] if "uv" in arrays.files else None
        own = {n: arrays[n] for n in more}
        # arrays under any other name with one number a vertex are attributes too; larger ones are not unpacked
        count = vertices.shape[-2] if vertices.ndim in (2, 3) else 0
        others = set(arrays.files) - own.keys() - {"faces", "uv", name}
        for other in sorted(others & _small_members(path, 16 * count + 1024)):
            values = arrays[other]
            if values.ndim == 1 and values.dtype.kind in "fiub" and len(values) == count:
                own[_ATTRIBUTE + other] = values.astype(np.float64)
        details = details_from_arrays(own)
    # the first frame of a sequence
    if vertices.ndim == 3 and len(vertices):
        vertices = vertices[0]
    return RawMesh(vertices, faces, uv, None, details)


def _small_members(path: Path, size: int) -> set[str]:
    """The names of the arrays of an npz file that take at most so many bytes."""
    with zipfile.ZipFile(path) as archive:
        return {item.filename.removesuffix(".npy") for item in archive.infolist() if item.file_size <= size}


def details_from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Details:
    """The details that `arrays_of_details` gave."""
    kinds = [
        n.removeprefix(_NUMBERS) for n in arrays if n.startswith(_NUMBERS) and _NAMES + n[len(_NUMBERS) :] in arrays
    ]
    return Details(
        **{name: arrays.get(name) for name in _CORNERS},
        labels={
            kind: Labels(tuple(map(str, arrays[_NAMES + kind].tolist())), arrays[_NUMBERS + kind]) for kind in kinds
        },
        attributes={n.removeprefix(_ATTRIBUTE): arrays[n] for n in arrays if n.startswith(_ATTRIBUTE)},
    )


def arrays_of_details(details: Details) -> dict[str, NDArray[Any]]:
    """The details as named arrays, without those that are not there."""
    corners = {name: getattr(details, name) for name in _CORNERS}
    arrays = {name: value for name, value in corners.items() if value is not None}
    for kind, labels in details.labels.items():
        arrays[_NAMES + kind], arrays[_NUMBERS + kind] = np.array(labels.names, dtype=np.str_), labels.index
    return arrays | {_ATTRIBUTE + name: value for name, value in details.attributes.items()}


def write_npz(mesh: TriMesh) -> bytes:
    """The mesh as a numpy archive: all its arrays, bit by bit."""
    arrays: dict[str, NDArray[Any]] = {"vertices": mesh.vertices, "faces": mesh.faces}
    arrays |= {} if mesh.uv is None else {"uv": mesh.uv}
    return pack_arrays({**arrays, **arrays_of_details(mesh.details)})


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """An npz file of some arrays; the same arrays give the same bytes."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            # without a date of its own; large arrays need 64-bit lengths
            member = zipfile.ZipInfo(f"{name}.npy")
            member.compress_type = zipfile.ZIP_DEFLATED
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(array), allow_pickle=False)
    return content.getvalue()


def read_stl(path: Path) -> RawMesh:
    """The corners of all triangles, not merged yet."""
    import trimesh

    mesh = trimesh.load_mesh(path, file_type="stl", process=False)
    if not isinstance(mesh, trimesh.Trimesh) or len(mesh.faces) == 0:
        raise MeshError("it holds no triangles, or is cut short")
    return RawMesh(np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64))
