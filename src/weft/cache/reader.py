"""Reading a cache, also while it is being written: frames and bodies."""

import contextlib
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from weft.cache import layout
from weft.cache.arrays import open_array
from weft.cache.kept import read_details, read_scene
from weft.cache.lock import writer_of
from weft.cache.report import Report
from weft.errors import CacheError
from weft.mesh import Details, TriMesh

if TYPE_CHECKING:
    from weft.scene import Scene


@dataclass(frozen=True)
class Body:
    """One cloth or collider: its range of vertices and of faces."""

    name: str
    kind: str
    vertices: slice
    faces: slice


class Frame:
    """One frame of a cache; its arrays are read when they are asked for."""

    def __init__(self, cache: "Cache", number: int) -> None:
        self._cache = cache
        self.number = number

    @property
    def time(self) -> float:
        """s"""
        return self.number / self._cache.fps

    @cached_property
    def positions(self) -> npt.NDArray[np.float64]:
        """(n, 3) positions of all vertices, m."""
        return self._cache.positions(self.number)

    @cached_property
    def velocities(self) -> npt.NDArray[np.float64]:
        """(n, 3) velocities of all vertices, m/s."""
        return self._cache.velocities(self.number)

    @property
    def row(self) -> dict[str, Any]:
        """The row of the report."""
        return self._cache.row(self.number)

    def __getitem__(self, body: str) -> npt.NDArray[np.float64]:
        """The positions of one body: `cache[10]["shirt"]`."""
        return self.positions[self._cache[body].body.vertices]

    def __repr__(self) -> str:
        return f"Frame({self.number} at {self.time:.4g} s: {self.row['status']})"


class CachedBody:
    """One body of a cache: its triangles, and its positions at every frame."""

    def __init__(self, cache: "Cache", body: Body) -> None:
        self._cache = cache
        self.body = body
        self.name, self.kind = body.name, body.kind
        """the name that the scene gives it; cloth or collider"""

    @property
    def faces(self) -> npt.NDArray[np.int32]:
        """(m, 3) triangles, by the body's own vertices."""
        return self._cache.faces[self.body.faces] - np.int32(self.body.vertices.start)

    @property
    def uv(self) -> npt.NDArray[np.float64] | None:
        """(n, 2) flat rest shape in metres, or None."""
        own = None if self._cache.uv is None else np.asarray(self._cache.uv[self.body.vertices])
        return own if own is not None and len(own) and np.isfinite(own).all() else None

    @cached_property
    def details(self) -> Details:
        """Names, texture coordinates, polygons and attributes, as the mesh of the body had them."""
        return self._cache.details(self.body)

    def positions(self, frame: int) -> npt.NDArray[np.float64]:
        """(n, 3) positions at a frame, m; a negative frame counts from the last complete one."""
        return self._cache.positions(frame)[self.body.vertices]

    def velocities(self, frame: int) -> npt.NDArray[np.float64]:
        """(n, 3) velocities at a frame, m/s."""
        return self._cache.velocities(frame)[self.body.vertices]

    def mesh(self, frame: int) -> TriMesh:
        """The body at a frame as a mesh, with its names, texture coordinates and polygons."""
        details = replace(self.details, corner_normals=None)
        return TriMesh(self.positions(frame), self.faces, details=details)

    def __repr__(self) -> str:
        vertices, faces = (items.stop - items.start for items in (self.body.vertices, self.body.faces))
        return f"CachedBody({self.kind} {self.name!r}, {vertices} vertices, {faces} triangles)"


class Cache:
    """The frames of a run on disk. Frame 0 is the initial state; frame f is the state at f / fps seconds.

    `cache[10]` and `cache[-1]` are frames, `cache[10:20]` is a list of them, `len(cache)` their number, and
    `cache["shirt"]` is a body. Complete frames can be read at any time, also while another process writes: `frames`, `len`
    and `report` read the disk each time.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._meta = layout.read_meta(self.path)
        self._meta_stamp = layout.stamp_of(layout.meta_path(self.path))
        self._arrays: dict[str, Any] = {}
        self._known = 0
        self._rows: dict[int, tuple[int, dict[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"Cache({str(self.path)!r}, {self.frames} of {self.planned} frames)"

    @overload
    def __getitem__(self, key: int) -> Frame: ...

    @overload
    def __getitem__(self, key: slice) -> list[Frame]: ...

    @overload
    def __getitem__(self, key: str) -> CachedBody: ...

    def __getitem__(self, key: int | slice | str) -> "Frame | list[Frame] | CachedBody":
        """A frame by its number, frames by a slice, or a body by its name."""
        if isinstance(key, slice):
            return [Frame(self, number) for number in range(*key.indices(self.frames))]
        if isinstance(key, str):
            found = next((body for body in self.bodies if body.name == key), None)
            if found is None:
                names = ", ".join(body.name for body in self.bodies)
                raise CacheError(f"{self.path} has no body {key!r}; it has {names}")
            return CachedBody(self, found)
        return Frame(self, self._index(operator.index(key)))

    def __len__(self) -> int:
        return self.frames

    def __bool__(self) -> bool:
        # a cache that has no frame yet is a cache all the same
        return True

    def __iter__(self) -> Iterator[Frame]:
        return (Frame(self, number) for number in range(self.frames))

    def __contains__(self, key: object) -> bool:
        """Whether there is a body of that name, or a frame of that number."""
        return any(body.name == key for body in self.bodies) or (isinstance(key, int) and 0 <= key < self.frames)

    @property
    def frames(self) -> int:
        """How many frames are complete now."""
        return layout.complete_frames(self.path)

    @property
    def planned(self) -> int:
        """How many frames the cache holds when its run is complete, frame 0 included."""
        return int(self.meta["frames"])

    @property
    def complete(self) -> bool:
        """Whether every planned frame is there."""
        return self.frames >= self.planned

    @property
    def writer(self) -> str | None:
        """The process that writes the cache now ("process 4711"), or None."""
        return writer_of(layout.lock_path(self.path))

    @property
    def fps(self) -> float:
        """Frames a second of simulated time."""
        return float(self.meta["fps"])

    @property
    def meta(self) -> dict[str, Any]:
        """The metadata, read again when it has changed on disk."""
        stamp = layout.stamp_of(layout.meta_path(self.path))
        if stamp != self._meta_stamp:
            self._meta, self._meta_stamp = layout.read_meta(self.path), stamp
            # a longer run has longer arrays
            self._arrays.clear()
        return self._meta

    @property
    def origin(self) -> dict[str, Any]:
        """What the frames were computed from; equal origins give equal frames."""
        return dict(self.meta["origin"])

    @property
    def scene(self) -> "Scene":
        """The scene that the frames come from."""
        return read_scene(self.path, self.meta)

    @cached_property
    def bodies(self) -> list[Body]:
        """All bodies, cloths first."""
        return [Body(b["name"], b["kind"], slice(*b["vertices"]), slice(*b["faces"])) for b in self._meta["bodies"]]

    @cached_property
    def faces(self) -> npt.NDArray[np.int32]:
        """(m, 3) vertex indices of all bodies' triangles."""
        faces = self._read_only("faces", np.int32)
        count = self._array("positions").shape[1]
        if len(faces) and (faces.min() < 0 or faces.max() >= count):
            raise CacheError(f"{self.path / 'faces'} is damaged: it names vertices beyond the {count} that there are")
        return faces

    @cached_property
    def uv(self) -> npt.NDArray[np.float64] | None:
        """(n, 2) flat rest shape in metres, NaN where a body has none; None if no body has one."""
        return self._read_only("uv", np.float64) if self._meta["uv"] else None

    def details(self, body: Body) -> Details:
        """Names, texture coordinates, polygons and attributes of a body, as its mesh had them."""
        vertices, faces = (items.stop - items.start for items in (body.vertices, body.faces))
        number, checksums = self.bodies.index(body), self.meta.get("details")
        checksum = checksums.get(str(number)) if isinstance(checksums, dict) else None
        return read_details(self.path, number, checksum, vertices, faces)

    def positions(self, frame: int) -> npt.NDArray[np.float64]:
        """(n, 3) positions of all vertices; a negative frame counts from the last complete one."""
        return self._read("positions", self._index(frame))

    def velocities(self, frame: int) -> npt.NDArray[np.float64]:
        """(n, 3) velocities of all vertices."""
        return self._read("velocities", self._index(frame))

    def row(self, frame: int) -> dict[str, Any]:
        """The report row of one frame."""
        return dict(self._marker(self._index(frame))["row"])

    @property
    def report(self) -> Report:
        """The rows of all complete frames as a table."""
        return Report([self._marker(frame)["row"] for frame in range(self.frames)])

    def saved(self, frame: int) -> dict[str, npt.NDArray[Any]]:
        """The arrays that the method needs to continue after a frame; kept for the last frames only."""
        frame = self._index(frame)
        if not self._marker(frame)["saved"]:
            return {}
        path = layout.saved_path(self.path, frame)
        try:
            with np.load(path, allow_pickle=False) as arrays:
                found = {name.removeprefix(layout.SAVED): arrays[name] for name in arrays.files}
        except FileNotFoundError:
            raise CacheError(
                f"{self.path} does not keep what the method needs to go on after frame {frame} ({path} is missing)"
            ) from None
        except Exception as error:
            # a damaged archive makes zipfile, zlib and numpy raise all kinds of errors
            raise self._damage(frame, f"{path} cannot be read ({layout.brief(error)})") from error
        if sorted(found) != self._marker(frame).get("arrays", sorted(found)):
            raise self._damage(frame, f"{path} does not hold the arrays that it should")
        return found

    def noted(self, frame: int) -> dict[str, npt.NDArray[np.int64]]:
        """What the method noted of a frame: of `guarded` the released pairs (k, 3), two ends of an edge and a triangle."""
        found = self._marker(self._index(frame)).get("noted", {})
        limits = [self._array("positions").shape[1]] * 2 + [len(self.faces)]
        try:
            noted = {name: np.array(rows, dtype=np.int64).reshape(-1, 3) for name, rows in found.items()}
        except (AttributeError, OverflowError, TypeError, ValueError):
            noted = {"": np.array([limits])}
        if any(((rows < 0) | (rows >= limits)).any() for rows in noted.values()):
            raise self._damage(frame, "what was noted of it are not pairs of its mesh")
        return noted

    def has(self, frame: int) -> bool:
        """Whether a frame is complete and intact, also where an earlier one is missing."""
        try:
            self._marker(frame)
            self._read("positions", frame)
            self._read("velocities", frame)
        except CacheError:
            return False
        return True

    def damaged(self) -> list[int]:
        """The frames up to the last one written that are missing or cannot be read; reads them all."""
        numbers = (path.stem for path in layout.marker_folder(self.path).glob("*.json"))
        last = max((int(number) for number in numbers if number.isdigit()), default=-1)
        return [frame for frame in range(last + 1) if not self.has(frame)]

    def verify(self) -> list[str]:
        """Read everything; returns one message for each damaged file, or an empty list."""
        problems = []
        # nothing that was read before counts
        fresh = Cache(self.path)
        checks: list[Callable[[], object]] = [lambda: fresh.faces, lambda: fresh.uv]
        checks += [partial(getattr, fresh[body.name], "details") for body in fresh.bodies]
        for frame in range(fresh.frames):
            checks += [partial(read, frame) for read in (fresh._marker, fresh.positions, fresh.velocities)]
            if layout.saved_path(self.path, frame).exists():
                checks.append(partial(fresh.saved, frame))
        for check in checks:
            try:
                check()
            except CacheError as error:
                problems.append(str(error))
        # what is wrong with an array is wrong in all of its frames
        return list(dict.fromkeys(problems))

    def _index(self, frame: int) -> int:
        """The number of a frame, counted from the last if negative; an error if it is not complete."""
        # a known frame needs no listing of the whole folder
        if 0 <= frame < self._known and layout.marker_path(self.path, frame).is_file():
            return frame
        count = self._known = self.frames
        index = frame + count if frame < 0 else frame
        if not 0 <= index < count:
            have = f"it has frames 0 to {count - 1}" if count else "it has no complete frame yet"
            raise CacheError(f"{self.path} has no frame {frame}: {have}")
        return index

    def _damage(self, frame: int, what: str) -> CacheError:
        return CacheError(f"frame {frame} of {self.path} is damaged: {what}")

    def _read(self, name: str, frame: int) -> npt.NDArray[np.float64]:
        path = layout.chunk_path(self.path, name, frame)
        array = self._array(name)
        # Zarr reads a missing chunk as fill values; here it is an error
        if not path.is_file():
            raise self._damage(frame, f"{path} is missing")
        try:
            values = np.asarray(array[frame], dtype=np.float64)
        except Exception as error:
            raise self._damage(frame, f"{path} cannot be read ({layout.brief(error)})") from error
        # such numbers are never written, but Zarr fills what it does not find with them
        if not np.isfinite(values).all():
            raise self._damage(frame, f"{path} holds numbers that are not finite")
        known = None
        # a damaged marker says nothing of the numbers; caches of older versions have no checksums there
        with contextlib.suppress(CacheError):
            known = self._marker(frame).get("chunks")
        if isinstance(known, dict) and known.get(name) != layout.chunk_checksum(self.path, name, frame):
            raise self._damage(frame, f"{path} is not the file that was written for it")
        return values

    def _read_only(self, name: str, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        array = self._array(name)
        try:
            values = np.asarray(array[:], dtype=dtype)
        except Exception as error:
            raise CacheError(f"{self.path / name} is damaged and cannot be read ({layout.brief(error)})") from error
        if values.shape[0] and not any(self.path.joinpath(name).glob("c.*")):
            raise CacheError(f"{self.path / name} is damaged: its data file is missing")
        values.flags.writeable = False
        return values

    def _array(self, name: str) -> Any:
        _ = self.meta
        if name not in self._arrays:
            self._arrays[name] = open_array(self.path, name, "r", self._meta)
        return self._arrays[name]

    def _marker(self, frame: int) -> dict[str, Any]:
        path = layout.marker_path(self.path, frame)
        stamp = layout.stamp_of(path)
        if self._rows.get(frame, (None,))[0] != stamp:
            marker = layout.unseal(layout.read_json(path), path)
            layout.check_marker(marker, frame, path)
            self._rows[frame] = (stamp, marker)
        return self._rows[frame][1]


def open_cache(path: str | Path) -> Cache:
    """Open a cache for reading; it may be one that is still being written."""
    return Cache(path)


def scene_of(cache: Any) -> Any:
    """The scene of a cache, or None if it has none that can be read."""
    try:
        return cache.scene
    except CacheError:
        return None
