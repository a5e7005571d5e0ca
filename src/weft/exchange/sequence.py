"""Sequences of mesh files, one a frame: OBJ (text) and PLY (binary), as Blender and Houdini read them.

Nobody sees half of a sequence: it is written into a folder next to its place and moved there when it is whole.
"""

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError, writing

if TYPE_CHECKING:
    from weft.cache import Body, Cache

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


class Part(NamedTuple):
    """One body in a file: its name and, counted within the file, its vertices and its triangles."""

    name: str
    vertices: slice
    faces: Ints


def export_sequence(
    cache: "Cache",
    folder: str | Path,
    *,
    format: str = "obj",
    frames: Sequence[int] | None = None,
    bodies: Iterable[str] | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[Path]:
    """Write frames of a cache as mesh files `folder/<folder's name>_0000.obj` and return their paths.

    All complete frames and all bodies are written unless some are named. Files have the number of their frame. The
    order of vertices and triangles is that of the cache and the same in all files; OBJ keeps the bodies apart as
    objects. Where the cache has flat rest coordinates (metres) they go along as texture coordinates. A folder that
    is not empty is refused unless `overwrite`, which replaces the sequence of that name and leaves other files alone.
    """
    folder = Path(folder)
    if format not in WRITERS:
        raise WeftError(f"format {format!r} is not known: use one of {', '.join(WRITERS)}")
    chosen = list(range(cache.frames)) if frames is None else list(frames)
    if not chosen:
        raise WeftError("there are no frames to export: the cache has none yet, or the choice of frames is empty")
    parts, vertices, uv = gather(cache, choose_bodies(cache, bodies))
    if folder.exists() and not folder.is_dir():
        raise WeftError(f"{folder} is a file: give a folder for the sequence")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise WeftError(f"{folder} is not empty: choose another folder, or say --overwrite")

    name = folder.resolve().name
    digits = max(4, len(str(max(chosen))))
    staged = folder.resolve().with_name(f".{name}.{os.getpid()}.partial")
    try:
        with writing(folder):
            staged.mkdir(parents=True)
            for done, frame in enumerate(chosen, start=1):
                content = WRITERS[format](cache.positions(frame)[vertices], parts, uv)
                (staged / f"{name}_{frame:0{digits}d}.{format}").write_bytes(content)
                if progress is not None:
                    progress(done, len(chosen))
            return move_in(staged, folder, f"{name}_", f".{format}")
    finally:
        shutil.rmtree(staged, ignore_errors=True)


def move_in(staged: Path, folder: Path, prefix: str, suffix: str) -> list[Path]:
    """Put a finished sequence into its folder in place of the one that was there."""
    names = sorted(path.name for path in staged.iterdir())
    if not folder.exists():
        staged.rename(folder)
        return [folder / name for name in names]
    for name in names:
        (staged / name).replace(folder / name)
    # frames that an earlier, longer sequence left
    for path in list(folder.iterdir()):
        number = path.name.removeprefix(prefix).removesuffix(suffix)
        if path.name == f"{prefix}{number}{suffix}" and number.isdigit() and path.name not in names:
            path.unlink()
    return [folder / name for name in names]


def choose_bodies(cache: "Cache", names: Iterable[str] | None) -> list["Body"]:
    """The bodies of those names, in the order of the cache; all of them for None."""
    if names is None:
        return list(cache.bodies)
    wanted = list(names)
    known = [body.name for body in cache.bodies]
    for name in wanted:
        if name not in known:
            raise WeftError(f"there is no body {name!r}: the cache has {', '.join(known)}")
    return [body for body in cache.bodies if body.name in wanted]


def gather(cache: "Cache", bodies: Sequence["Body"]) -> tuple[list[Part], NDArray[np.intp], Floats | None]:
    """The parts of a file, which of the cache's vertices go into it, and their flat coordinates if they have some."""
    parts = []
    count = 0
    for body in bodies:
        share = slice(count, count + body.vertices.stop - body.vertices.start)
        parts.append(Part(body.name, share, cache.faces[body.faces] + np.int32(count - body.vertices.start)))
        count = share.stop
    vertices = np.concatenate([np.arange(body.vertices.start, body.vertices.stop) for body in bodies])
    uv = None if cache.uv is None else np.asarray(cache.uv)[vertices]
    return parts, vertices, uv if uv is not None and np.isfinite(uv).any() else None


def to_obj(positions: Floats, parts: Sequence[Part], uv: Floats | None) -> bytes:
    """A Wavefront OBJ: one object a body, with texture coordinates for the bodies that have them."""
    lines = []
    textured = 0
    for part in parts:
        lines.append(f"o {part.name.replace(' ', '_')}")
        lines += [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in positions[part.vertices].tolist()]
        faces = part.faces + 1
        flat = None if uv is None else uv[part.vertices]
        if flat is None or not np.isfinite(flat).all():
            lines += [f"f {a} {b} {c}" for a, b, c in faces.tolist()]
            continue
        lines += [f"vt {u:.9g} {v:.9g}" for u, v in flat.tolist()]
        # vertices and texture coordinates are counted apart
        skip = part.vertices.start - textured
        lines += [f"f {a}/{a - skip} {b}/{b - skip} {c}/{c - skip}" for a, b, c in faces.tolist()]
        textured += len(flat)
    return ("\n".join(lines) + "\n").encode()


def to_ply(positions: Floats, parts: Sequence[Part], uv: Floats | None) -> bytes:
    """A binary little-endian PLY of all parts together, positions as doubles, so that nothing is lost."""
    kinds = [("x", "<f8"), ("y", "<f8"), ("z", "<f8")] + ([] if uv is None else [("s", "<f4"), ("t", "<f4")])
    vertices = np.zeros(len(positions), dtype=kinds)
    for k, name in enumerate("xyz"):
        vertices[name] = positions[:, k]
    if uv is not None:
        for k, name in enumerate("st"):
            vertices[name] = np.nan_to_num(uv[:, k])
    faces = np.zeros(sum(len(part.faces) for part in parts), dtype=[("count", "u1"), ("corners", "<i4", 3)])
    faces["count"] = 3
    faces["corners"] = np.concatenate([part.faces for part in parts])
    names = {"<f8": "double", "<f4": "float"}
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(vertices)}",
        *(f"property {names[kind]} {name}" for name, kind in kinds),
        f"element face {len(faces)}",
        "property list uchar int vertex_indices",
        "end_header",
    ]
    return ("\n".join(header) + "\n").encode() + vertices.tobytes() + faces.tobytes()


WRITERS: dict[str, Callable[[Floats, Sequence[Part], Floats | None], bytes]] = {"obj": to_obj, "ply": to_ply}
