"""Results that other programs wrote, read as if they were caches: Alembic, USD, glTF, OBJ and PLY sequences, point caches, npz.

`open_result` opens either kind, so that checking, drawing and exporting need not know which one they have.
"""

import json
import shlex
import zipfile
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from weft.cache.reader import Body, Cache
from weft.cache.report import Report
from weft.errors import CacheError, MeshError, WeftError
from weft.mesh.details import Details
from weft.mesh.files import READABLE, read_mesh
from weft.mesh.sequences import POINT_CACHES, MeshSequence, read_files, read_sequence

# frames a second where a file does not say: film's
DEFAULT_FPS = 24.0
SEQUENCES = (".obj", ".ply")
# files of a folder that weft exported as npy
ARRAYS, TABLE = "vertices.npy", "cache.json"
# names of the positions and of the triangles in npz files of other programs, in the order in which they are looked for
POSITIONS = ("vertices", "positions", "points", "verts", "x", "arr_0")
TRIANGLES = ("faces", "triangles", "tris", "cells", "f")


def open_result(
    paths: str | Path | Sequence[str | Path], *, fps: float | None = None, colliders: Iterable[str] = ()
) -> Cache:
    """A cache, or an animated or still file of any program as one.

    paths: one of them, or the files of an OBJ or PLY sequence; a name with * or ? stands for all files that fit.
    fps: frames a second where the file does not say. colliders: names of objects that are colliders; the others are cloth.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(p) for p in paths]
    files = [file for path in given for file in _expanded(path)]
    if not files:
        raise CacheError("name a cache or a file")
    names = set(colliders)
    first = files[0] = _inside(files[0]) if len(files) == 1 else files[0]
    if first.name == ARRAYS:
        return ForeignResult(
            first.parent, _read_npy(first.parent, fps or DEFAULT_FPS), names, _npy_bodies(first.parent)
        )
    if len(files) == 1 and first.is_dir() and not any(f.suffix.lower() in SEQUENCES for f in first.iterdir()):
        if names:
            raise CacheError(f"{first} is a cache, which knows its colliders itself")
        return Cache(first)
    if len(files) == 1 and not first.exists():
        raise CacheError(f"{first} does not exist")
    if len(files) > 1:
        wrong = [f for f in files if f.suffix.lower() not in SEQUENCES]
        if wrong:
            raise CacheError(f"{wrong[0]}: several files are a sequence of OBJ or PLY files, one a frame")
        try:
            return ForeignResult(first.parent, read_files(files, fps or DEFAULT_FPS), names)
        except MeshError as error:
            raise MeshError(f"{first.parent}: {error}") from None
    if first.suffix.lower() == ".npz":
        return ForeignResult(first, _read_npz(first, fps or DEFAULT_FPS), names, _npz_bodies(first))
    return ForeignResult(first, _read_any(first, fps), names)


def _inside(path: Path) -> Path:
    """The one file in a folder that holds a result: positions that weft exported as npy, or a point cache beside its mesh."""
    if not path.is_dir() or (path / "zarr.json").exists():
        return path
    if (path / ARRAYS).is_file() and (path / TABLE).is_file():
        return path / ARRAYS
    caches = sorted(file for file in path.iterdir() if file.suffix.lower() in POINT_CACHES)
    if len(caches) > 1:
        named = ", ".join(file.name for file in caches)
        raise CacheError(f"{path} has several point caches, one for each body: name one of {named}")
    return caches[0] if caches else path


def _expanded(path: Path) -> list[Path]:
    """The files that a name with wildcards stands for, where the shell did not expand it."""
    if path.exists() or not any(c in path.name for c in "*?["):
        return [path]
    found = sorted(path.parent.glob(path.name))
    if not found:
        raise CacheError(f"{path}: there is no such file")
    return found


def _read_any(path: Path, fps: float | None) -> MeshSequence:
    """An animated file, or a still one as one sample."""
    ending = path.suffix.lower()
    if path.is_dir():
        return read_sequence(path, fps=fps or DEFAULT_FPS)
    if ending in POINT_CACHES:
        return _read_points(path, fps)
    if ending == ".toml":
        raise MeshError(
            f"{path} is a scene, which has no frames yet: simulate it with  weft run {shlex.quote(str(path))}"
        )
    if ending not in READABLE:
        there = ", ".join((*READABLE, *POINT_CACHES))
        raise MeshError(f"{path}: weft reads caches (folders that weft wrote), folders of OBJ files, and {there} files")
    if ending not in SEQUENCES and ending != ".stl":
        try:
            return read_sequence(path, fps=fps)
        except MeshError as error:
            if "holds no animation" not in str(error):
                raise
    still = read_mesh(path)
    about = f"{ending[1:].upper()}, a still mesh: {_units(path)}"
    return MeshSequence(
        [0.0],
        len(still.vertices),
        still.faces.astype(np.int32),
        lambda _: still.vertices,
        about=about,
        details=still.details,
    )


def _units(path: Path) -> str:
    """The unit and the up axis that the file of a still mesh states, or that are assumed."""
    ending = path.suffix.lower()
    if ending.startswith(".usd"):
        from weft.mesh.formats.usd import open_stage, units_of

        return units_of(open_stage(path))
    return "metres, y up" if ending in (".glb", ".gltf") else "without units, taken as metres, y up"


def _read_points(path: Path, fps: float | None) -> MeshSequence:
    """A point cache with the triangles of the OBJ file of the same name beside it."""
    mesh = path.with_suffix(".obj")
    if not mesh.exists():
        raise MeshError(f"{path} has no triangles: put the mesh that it moves beside it, as {mesh.name}")
    rate = (fps or DEFAULT_FPS) if path.suffix.lower() == ".pc2" else fps
    points, raw = read_sequence(path, fps=rate), read_mesh(mesh)
    if points.vertex_count != len(raw.vertices):
        raise MeshError(f"{path} has {points.vertex_count} vertices, and {mesh.name} has {len(raw.vertices)}")
    faces = raw.faces.astype(np.int32)
    about = f"{points.about}, with the triangles of {mesh.name}"
    return MeshSequence(points.times, len(raw.vertices), faces, points.vertices, about=about, details=raw.details)


def _read_npz(path: Path, fps: float) -> MeshSequence:
    """Arrays of any names: positions (frames, n, 3) or (n, 3), and triangles (m, 3)."""
    try:
        with np.load(path, allow_pickle=False) as file:
            names = list(file.files)
            positions = next((n for n in POSITIONS if n in names), None)
            triangles = next((n for n in TRIANGLES if n in names), None)
            if positions is None or triangles is None:
                there = ", ".join(names) or "none"
                raise MeshError(
                    f"{path}: it needs positions ({', '.join(POSITIONS)}) and triangles ({', '.join(TRIANGLES)}); "
                    f"its arrays are {there}"
                )
            rate = float(file["fps"]) if "fps" in names else fps
            x, faces = file[positions], np.asarray(file[triangles])
    except (OSError, ValueError, EOFError) as error:
        reason = str(error)[:120] if zipfile.is_zipfile(path) else "it is no zip archive"
        raise MeshError(f"{path}: it cannot be read as an npz file ({reason})") from None
    x = x[None] if x.ndim == 2 else x
    if x.ndim != 3 or x.shape[2] != 3 or x.dtype.kind not in "fiu" or 0 in x.shape:
        raise MeshError(f"{path}: {positions} must be numbers (frames, vertices, 3), not {x.dtype} {x.shape}")
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise MeshError(f"{path}: {triangles} must be whole numbers (triangles, 3), not {faces.dtype} {faces.shape}")
    about = f"npz: {positions} and {triangles}, without units, taken as metres, {rate:g} frames a second"
    times = [i / rate for i in range(len(x))]
    return MeshSequence(times, x.shape[1], faces.astype(np.int32), lambda i: x[i].astype(np.float64), about=about)


def _read_npy(folder: Path, fps: float) -> MeshSequence:
    """What weft exported as npy: positions that are read a frame at a time, and triangles beside them."""
    try:
        x = np.load(folder / ARRAYS, mmap_mode="r", allow_pickle=False)
        faces = np.load(folder / "faces.npy", allow_pickle=False)
        rate = float(json.loads((folder / TABLE).read_text(encoding="utf-8")).get("fps", fps))
    except (OSError, ValueError, EOFError, AttributeError, TypeError) as error:
        raise MeshError(f"{folder}: it cannot be read as arrays that weft exported ({str(error)[:120]})") from None
    if x.ndim != 3 or x.shape[2] != 3 or x.dtype.kind != "f" or 0 in x.shape:
        raise MeshError(f"{folder / ARRAYS}: it must hold numbers (frames, vertices, 3), not {x.dtype} {x.shape}")
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu" or not rate > 0.0:
        raise MeshError(f"{folder}: faces.npy must be whole numbers (triangles, 3), and the rate in {TABLE} above 0")
    about = f"npy: arrays that weft exported, metres, y up, {rate:g} frames a second"
    times = [i / rate for i in range(len(x))]
    return MeshSequence(times, x.shape[1], faces.astype(np.int32), lambda i: x[i].astype(np.float64), about=about)


def _npy_bodies(folder: Path) -> list[Body]:
    """The bodies of arrays that weft exported."""
    try:
        table = json.loads((folder / TABLE).read_text(encoding="utf-8"))
        columns = [table[name] for name in ("body_names", "body_kinds", "body_vertices", "body_faces")]
        return [
            Body(str(n), str(k), slice(*map(int, v)), slice(*map(int, f))) for n, k, v, f in zip(*columns, strict=True)
        ]
    except (KeyError, TypeError, ValueError):
        raise MeshError(f"{folder / TABLE}: it does not say which bodies there are") from None


def _npz_bodies(path: Path) -> list[Body] | None:
    """The bodies of an npz file that weft exported."""
    with np.load(path, allow_pickle=False) as file:
        tables = [file[n] for n in ("body_names", "body_kinds", "body_vertices", "body_faces") if n in file.files]
    if len(tables) != 4:
        return None
    return [Body(str(n), str(k), slice(*map(int, v)), slice(*map(int, f))) for n, k, v, f in zip(*tables, strict=True)]


class ForeignResult(Cache):
    """A file of another program with the interface of a cache: every sample is a frame."""

    def __init__(
        self, path: Path, sequence: MeshSequence, colliders: set[str], bodies: list[Body] | None = None
    ) -> None:
        self.path = path
        self.sequence = sequence
        if sequence.faces is None:
            raise MeshError(f"{path}: it has no triangles")
        faces = sequence.faces
        if len(faces) and (faces.min() < 0 or faces.max() >= sequence.vertex_count):
            raise MeshError(f"{path}: its triangles name vertices that do not exist: there are {sequence.vertex_count}")
        self._bodies = bodies or _bodies(path.stem, sequence.vertex_count, faces, sequence.details, colliders)
        unknown = sorted(colliders - {body.name for body in self._bodies})
        if unknown:
            names = ", ".join(body.name for body in self._bodies)
            raise WeftError(f"{path} has no object {unknown[0]!r}; it has {names}")

    def __repr__(self) -> str:
        return f"ForeignResult({str(self.path)!r}, {self.frames} frames)"

    @property
    def about(self) -> str:
        """The format, and the units, up axis and rate that were read or assumed."""
        return self.sequence.about

    @property
    def frames(self) -> int:
        return len(self.sequence)

    @property
    def planned(self) -> int:
        return self.frames

    @property
    def writer(self) -> None:
        return None

    @property
    def fps(self) -> float:
        times = self.sequence.times
        return (len(times) - 1) / times[-1] if len(times) > 1 and times[-1] > 0.0 else DEFAULT_FPS

    @property
    def meta(self) -> dict[str, Any]:
        return {"scene": None, "version": None, "frames": self.frames, "fps": self.fps, "uv": False, "origin": {}}

    @property
    def scene(self) -> NoReturn:
        raise CacheError(f"{self.path} does not say which scene it comes from")

    @cached_property
    def bodies(self) -> list[Body]:
        return self._bodies

    @cached_property
    def faces(self) -> npt.NDArray[np.int32]:
        assert self.sequence.faces is not None
        return self.sequence.faces

    @cached_property
    def uv(self) -> None:
        return None

    def details(self, body: Body) -> Details:
        corners = np.arange(3 * body.faces.start, 3 * body.faces.stop).reshape(-1, 3)
        return self.sequence.details.take(np.arange(body.vertices.start, body.vertices.stop), corners)

    def positions(self, frame: int) -> npt.NDArray[np.float64]:
        return np.asarray(self.sequence.vertices(self._index(frame)))

    def velocities(self, frame: int) -> npt.NDArray[np.float64]:
        """Differences between neighbouring frames."""
        frame = self._index(frame)
        before, after = max(frame - 1, 0), min(frame + 1, self.frames - 1)
        if before == after:
            return np.zeros((self.sequence.vertex_count, 3))
        seconds = self.sequence.times[after] - self.sequence.times[before]
        return (self.positions(after) - self.positions(before)) / seconds

    def noted(self, frame: int) -> dict[str, npt.NDArray[np.int64]]:
        """Nothing."""
        return {}

    def row(self, frame: int) -> dict[str, Any]:
        return {"frame": self._index(frame), "time": self.sequence.times[frame]}

    @property
    def report(self) -> Report:
        return Report([self.row(frame) for frame in range(self.frames)])

    def verify(self) -> list[str]:
        for frame in range(self.frames):
            self.positions(frame)
        return []

    def damaged(self) -> list[int]:
        return []

    def _index(self, frame: int) -> int:
        index = frame + self.frames if frame < 0 else frame
        if not 0 <= index < self.frames:
            raise CacheError(f"{self.path} has no frame {frame}: it has frames 0 to {self.frames - 1}")
        return index


def _bodies(
    name: str, vertex_count: int, faces: npt.NDArray[np.int32], details: Details, colliders: set[str]
) -> list[Body]:
    """One body for each object of the file, if the objects follow each other and share no vertices; else one for all."""
    whole = [Body(name, "collider" if name in colliders else "cloth", slice(0, vertex_count), slice(0, len(faces)))]
    labels = details.labels.get("object")
    if labels is None or len(faces) == 0 or labels.index.min() < 0 or np.any(np.diff(labels.index) < 0):
        return whole
    found: list[Body] = []
    for number in np.unique(labels.index).tolist():
        rows = np.flatnonzero(labels.index == number)
        start = found[-1].vertices.stop if found else 0
        own = faces[rows]
        if own.min() < start:
            return whole
        kind = "collider" if labels.names[number] in colliders else "cloth"
        found.append(
            Body(labels.names[number], kind, slice(start, int(own.max()) + 1), slice(int(rows[0]), int(rows[-1]) + 1))
        )
    last = found[-1]
    found[-1] = Body(last.name, last.kind, slice(last.vertices.start, vertex_count), last.faces)
    return found
