"""Mesh files, one a frame (OBJ, PLY), point caches (PC2, MDD) with an OBJ for each body, and NumPy arrays.

Blender and Houdini read the sequences; Blender's Mesh Cache modifier, 3ds Max and LightWave play the point caches. A
sequence is written into a temporary folder beside its own and moved there when it is complete.

NumPy: a cache as 64-bit arrays, in one npz file or as npy files that can be memory-mapped.
"""

import json
import zipfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.exchange.selection import Exported, Floats, Ints, Job, Selection, file_names, staged_file, staged_folder
from weft.mesh import Details
from weft.mesh.formats.obj import obj_faces, unique_corner_uv
from weft.mesh.formats.ply import ply_faces
from weft.mesh.formats.point_cache import MDD_HEADER, PC2_HEADER, PC2_SIGNATURE, read_mdd, read_pc2
from weft.mesh.formats.raw import uv_from_corners
from weft.mesh.polygons import polygon_loops

if TYPE_CHECKING:
    from weft.cache import Body


class FileBody(NamedTuple):
    """One body in a file: its name, its vertices counted within the file, its own triangles, and what goes with them."""

    name: str
    vertices: slice
    faces: Ints
    details: Details = Details()
    flat: Floats | None = None
    """(n, 2) flat rest coordinates, which are texture coordinates where the mesh has no others"""


def write_sequence(job: Job) -> Exported:
    """Write mesh files `folder/<folder's name>_0000.obj`, which have the number of their frame.

    The order of vertices and triangles is that of the cache and the same in all files; OBJ keeps the bodies apart as
    objects, with the names of their materials. Polygons are those of the mesh files. Texture coordinates are those of
    the mesh, else the flat rest coordinates in metres. An earlier sequence of that name is replaced, and other files in the
    folder are left alone.
    """
    selection, cache = job.selection, job.selection.cache
    bodies, count = [], 0
    for body in selection.bodies:
        own = slice(count, count + body.vertices.stop - body.vertices.start)
        held = cache[body.name]
        bodies.append(FileBody(body.name, own, held.faces, held.details, held.uv))
        count = own.stop
    name, digits = job.path.resolve().name, max(4, len(str(max(selection.frames))))
    written = [job.path / f"{name}_{frame:0{digits}d}.{job.format}" for frame in selection.frames]
    with staged_folder(job) as staged:
        for path, frame in zip(written, job.frames(), strict=True):
            content = WRITERS[job.format](cache.positions(frame)[selection.vertices], bodies)
            (staged / path.name).write_bytes(content)
    # remove frames of an earlier, longer sequence
    for path in list(job.path.iterdir()):
        number = path.name.removeprefix(f"{name}_").removesuffix(f".{job.format}")
        if path.name == f"{name}_{number}.{job.format}" and number.isdigit() and path not in written:
            path.unlink()
    return Exported(sorted(set(written)), selection.frames)


def to_obj(positions: Floats, file_bodies: Sequence[FileBody]) -> bytes:
    """A Wavefront OBJ: one object a body, with texture coordinates for the bodies that have them, and their polygons."""
    lines = []
    textured = 0
    for body in file_bodies:
        lines.append(f"o {body.name.replace(' ', '_')}")
        lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in positions[body.vertices].tolist()]
        uv, index = unique_corner_uv(body.faces, body.details.corner_uv, body.flat)
        # the body is the object; what its mesh file called so is a group here
        labels = {kind: own for kind, own in body.details.labels.items() if kind != "object"}
        if "group" not in labels and len(body.details.names("object")) > 1:
            labels["group"] = body.details.labels["object"]
        first = (body.vertices.start + 1, textured + 1, 1)
        lines += obj_faces(body.faces, replace(body.details, labels=labels), uv, index, first=first, digits=":.9g")
        textured += 0 if uv is None else len(uv)
    return ("\n".join(lines) + "\n").encode()


def to_ply(positions: Floats, file_bodies: Sequence[FileBody]) -> bytes:
    """A binary little-endian PLY of all bodies; positions as doubles, so that no digits are lost.

    Texture coordinates are s, t at the vertices, or a list at each face where a vertex has several.
    """
    loops = [polygon_loops(body.faces, body.details.polygons) for body in file_bodies]
    sizes = np.concatenate([sizes for sizes, _ in loops])
    corners = np.concatenate(
        [body.faces.ravel()[loop] + body.vertices.start for body, (_, loop) in zip(file_bodies, loops, strict=True)]
    )
    at_corners = [_corner_uv(body) for body in file_bodies]
    at_vertices, at_faces = None, None
    if any(uv is not None for uv in at_corners):
        ordered = [
            np.zeros((len(loop), 2)) if uv is None else uv.reshape(-1, 2)[loop]
            for uv, (_, loop) in zip(at_corners, loops, strict=True)
        ]
        at_faces = np.concatenate(ordered)
        at_vertices = uv_from_corners(corners, at_faces, len(positions))
    kinds = [("x", "<f8"), ("y", "<f8"), ("z", "<f8")] + ([] if at_vertices is None else [("s", "<f4"), ("t", "<f4")])
    vertices = np.zeros(len(positions), dtype=kinds)
    for k, name in enumerate("xyz"):
        vertices[name] = positions[:, k]
    if at_vertices is not None:
        vertices["s"], vertices["t"] = at_vertices.T
    listed = at_faces if at_vertices is None else None
    names = {"<f8": "double", "<f4": "float"}
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(vertices)}",
        *(f"property {names[kind]} {name}" for name, kind in kinds),
        f"element face {len(sizes)}",
        "property list uchar int vertex_indices",
        *([] if listed is None else ["property list uchar double texcoord"]),
        "end_header",
    ]
    return ("\n".join(header) + "\n").encode() + vertices.tobytes() + ply_faces(corners, sizes, listed)


def _corner_uv(body: FileBody) -> Floats | None:
    """(m, 3, 2) texture coordinates of a body's corners."""
    own = body.details.corner_uv
    return own if own is not None else None if body.flat is None else body.flat[body.faces]


WRITERS: dict[str, Callable[[Floats, Sequence[FileBody]], bytes]] = {"obj": to_obj, "ply": to_ply}


def write_points(job: Job) -> Exported:
    """Write a point cache of all frames and an OBJ of the first frame for every body.

    Sample k of a file is the k-th frame; PC2 counts them from 0, one sample a frame, and MDD has their times.
    """
    selection, format = job.selection, job.format
    names = file_names(selection.bodies)
    with staged_folder(job) as staged, ExitStack() as opened:
        for body, name in zip(selection.bodies, names, strict=True):
            (staged / f"{name}.obj").write_bytes(rest_obj(selection, body))
        paths = [staged / f"{name}.{format}" for name in names]
        files = [opened.enter_context(path.open("wb")) for path in paths]
        for file, body in zip(files, selection.bodies, strict=True):
            file.write(_points_head(selection, body.vertices.stop - body.vertices.start, format))
        for frame in job.frames():
            x = selection.cache.positions(frame).astype("<f4" if format == "pc2" else ">f4")
            for file, body in zip(files, selection.bodies, strict=True):
                file.write(x[body.vertices].tobytes())
        opened.close()
        rounding = {}
        if job.check:
            samples = [read_pc2(path) if format == "pc2" else read_mdd(path)[0] for path in paths]
            rounding = job.count_rounding(lambda k: np.concatenate([s[k] for s in samples]))
    written = [job.path / f"{name}.{kind}" for name in names for kind in ("obj", format)]
    return Exported(written, selection.frames, rounding)


def _points_head(selection: Selection, vertices: int, format: str) -> bytes:
    """What stands before the samples of a point cache."""
    count = len(selection.frames)
    if format == "pc2":
        return PC2_HEADER.pack(PC2_SIGNATURE, 1, vertices, 0.0, 1.0, count)
    times = (np.array(selection.frames) - selection.frames[0]) / selection.cache.fps
    return MDD_HEADER.pack(count, vertices) + times.astype(">f4").tobytes()


def rest_obj(selection: Selection, body: "Body") -> bytes:
    """The first frame of one body as an OBJ."""
    x = selection.cache.positions(selection.frames[0])[body.vertices]
    details, flat = selection.details(body), selection.uv(body)
    return to_obj(x, [FileBody(body.name, slice(0, len(x)), selection.faces(body), details, flat)])


# the arrays with one entry a frame
FRAMES = ("vertices", "velocities")


def write_npz(job: Job) -> Exported:
    """Write one npz file that weft also reads as a moving mesh.

    Arrays: vertices and velocities (frames, n, 3), faces (m, 3), uv (n, 2; NaN where there is none) and corner_uv (m, 3, 2)
    if any body has some, frames (their numbers), fps, body_names, body_kinds, body_vertices and body_faces (first, last + 1).
    """
    selection = job.selection
    with staged_file(job) as staged, zipfile.ZipFile(staged, "w", zipfile.ZIP_STORED) as archive:
        for name, value in _tables(selection).items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)
        for step, name in enumerate(FRAMES):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                _write_frames(file, job, step)
    return Exported([job.path], selection.frames)


def write_npy(job: Job) -> Exported:
    """Write the arrays of `write_npz` as separate npy files, to be opened with numpy.load(..., mmap_mode="r").

    Small tables are in `cache.json`.
    """
    selection = job.selection
    tables = _tables(selection)
    large: list[str] = [name for name in ("faces", "uv", "corner_uv") if name in tables]
    names = [*(f"{name}.npy" for name in large), "vertices.npy", "velocities.npy", "cache.json"]
    with staged_folder(job) as staged:
        for name in large:
            np.save(staged / f"{name}.npy", tables[name], allow_pickle=False)
        for step, name in enumerate(FRAMES):
            with (staged / f"{name}.npy").open("wb") as file:
                _write_frames(file, job, step)
        small = {name: np.asarray(value).tolist() for name, value in tables.items() if name not in large}
        (staged / "cache.json").write_text(json.dumps(small, indent=1), encoding="utf-8")
    return Exported([job.path / name for name in names], selection.frames)


def _tables(selection: Selection) -> dict[str, NDArray[Any]]:
    """All arrays except those with frames."""
    counts = [(b.vertices.stop - b.vertices.start, b.faces.stop - b.faces.start) for b in selection.bodies]
    ends = np.cumsum(np.array(counts, dtype=np.int64), axis=0)
    starts = ends - np.array(counts)
    faces = [selection.faces(b) + start for b, (start, _) in zip(selection.bodies, starts, strict=True)]
    tables: dict[str, NDArray[Any]] = {
        "faces": np.concatenate(faces).astype(np.int32),
        "fps": np.array(selection.cache.fps),
        "frames": np.array(selection.frames, dtype=np.int64),
        "body_names": np.array([b.name for b in selection.bodies]),
        "body_kinds": np.array([b.kind for b in selection.bodies]),
        "body_vertices": np.stack([starts[:, 0], ends[:, 0]], axis=1),
        "body_faces": np.stack([starts[:, 1], ends[:, 1]], axis=1),
    }
    corner_uv = [selection.corner_uv(body) for body in selection.bodies]
    if any(selection.details(body).corner_uv is not None for body in selection.bodies):
        pairs = zip(corner_uv, counts, strict=True)
        tables["corner_uv"] = np.concatenate([np.zeros((m, 3, 2)) if uv is None else uv for uv, (_, m) in pairs])
    if selection.cache.uv is not None and np.isfinite(selection.cache.uv[selection.vertices]).any():
        tables["uv"] = np.asarray(selection.cache.uv[selection.vertices])
    return tables


def _write_frames(file: IO[bytes], job: Job, step: int) -> None:
    """Write an npy of an array of `FRAMES` frame by frame, so that they need not fit into memory."""
    selection = job.selection
    read = selection.cache.positions if FRAMES[step] == "vertices" else selection.cache.velocities
    shape = (len(selection.frames), len(selection.vertices), 3)
    np.lib.format.write_array_header_2_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    for done, frame in enumerate(selection.frames, start=1):
        file.write(read(frame)[selection.vertices].astype("<f8").tobytes())
        if job.progress is not None:
            job.progress(step * len(selection.frames) + done, 2 * len(selection.frames))
