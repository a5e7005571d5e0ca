"""Reading a cache, also while it is being written: frames, bodies, and the report with one row a frame."""

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt
import zarr

from weft.cache import layout
from weft.cache.checks import check_marker, face_count, vertex_count
from weft.cache.lock import writer_of
from weft.errors import CacheError, writing
from weft.scene.size import machine_memory

if TYPE_CHECKING:
    from weft.scene import Scene


# the columns that every run has, in the order they are shown
COLUMNS = (
    "frame",
    "time",
    "wall_time",
    "steps",
    "contacts",
    "collisions",
    "zones",
    "stretch",
    "intersections",
    "status",
)


class Report(Mapping[str, Any]):
    """A table: `report["stretch"]` is a column, `report.rows()` are the frames.

    Numeric columns are NumPy arrays, others lists. A method may add columns of its own; a frame that lacks one has
    None there (NaN in a numeric column).
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = [dict(row) for row in rows]
        seen = {name: None for row in self._rows for name in row}
        self.columns: list[str] = [c for c in COLUMNS if c in seen] + [c for c in seen if c not in COLUMNS]

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise KeyError(f"the report has no column {name!r}; it has {', '.join(self.columns) or 'none'}")
        values = [row.get(name) for row in self._rows]
        if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            return np.array(values, dtype=np.int64)
        if all(v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in values):
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """How many columns (it is a mapping of columns); `frames` is how many rows."""
        return len(self.columns)

    @property
    def frames(self) -> int:
        """How many rows."""
        return len(self._rows)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a frame, with every column."""
        return [{name: row.get(name) for name in self.columns} for row in self._rows]

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV with a header line; written to `path` too if one is given."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        if path is not None:
            with writing(Path(path)):
                Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()

    def __repr__(self) -> str:
        return f"Report({self.frames} frames: {', '.join(self.columns)})"


@dataclass(frozen=True)
class Body:
    """One cloth or collider: its range of vertices and of faces."""

    name: str
    kind: str
    vertices: slice
    faces: slice


class Cache:
    """The frames of a run on disk. Frame 0 is the initial state; frame f is the state at f / fps seconds.

    Complete frames can be read at any time, also while another process writes: `frames` and `report` read the disk each
    time.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._meta = layout.read_meta(self.path)
        self._meta_stamp = self._stamp(layout.meta_path(self.path))
        self._arrays: dict[str, Any] = {}
        self._known = 0
        self._rows: dict[int, tuple[int, dict[str, Any]]] = {}

    def __repr__(self) -> str:
        return f"Cache({str(self.path)!r}, {self.frames} of {self.planned} frames)"

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
        stamp = self._stamp(layout.meta_path(self.path))
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
        from weft.scene import Scene

        kept = self.meta["scene"]
        if kept is None:
            raise CacheError(f"{self.path} does not say which scene it comes from")
        try:
            return Scene.model_validate(json.loads(kept["text"])).at(kept["base"], kept["source"])
        except (ValueError, RecursionError) as error:
            first = str(error).splitlines()[0]
            raise CacheError(
                f"the scene of {self.path} (weft {self.meta['version']}) cannot be read: {first}"
            ) from error

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

    def positions(self, frame: int) -> npt.NDArray[np.float64]:
        """(n, 3) positions of all vertices; a negative frame counts from the last complete one."""
        return self._frame("positions", frame)

    def velocities(self, frame: int) -> npt.NDArray[np.float64]:
        """(n, 3) velocities of all vertices."""
        return self._frame("velocities", frame)

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
            raise CacheError(
                f"frame {frame} of {self.path} is damaged: {path} cannot be read ({layout.brief(error)})"
            ) from error
        if sorted(found) != self._marker(frame).get("arrays", sorted(found)):
            raise CacheError(f"frame {frame} of {self.path} is damaged: {path} does not hold the arrays that it should")
        return found

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

    def _frame(self, name: str, frame: int) -> npt.NDArray[np.float64]:
        return self._read(name, self._index(frame))

    def _read(self, name: str, frame: int) -> npt.NDArray[np.float64]:
        path = layout.chunk_path(self.path, name, frame)
        array = self._array(name)
        # Zarr reads a missing chunk as fill values; here it is an error
        if not path.is_file():
            raise CacheError(f"frame {frame} of {self.path} is damaged: {path} is missing")
        try:
            values = np.asarray(array[frame], dtype=np.float64)
        except Exception as error:
            raise CacheError(
                f"frame {frame} of {self.path} is damaged: {path} cannot be read ({layout.brief(error)})"
            ) from error
        # such numbers are never written, but Zarr fills what it does not find with them
        if not np.isfinite(values).all():
            raise CacheError(f"frame {frame} of {self.path} is damaged: {path} holds numbers that are not finite")
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
        stamp = self._stamp(path)
        if self._rows.get(frame, (None,))[0] != stamp:
            marker = layout.unseal(layout.read_json(path), path)
            check_marker(marker, frame, path)
            self._rows[frame] = (stamp, marker)
        return self._rows[frame][1]

    @staticmethod
    def _stamp(path: Path) -> int:
        """A number that changes when the file is replaced."""
        try:
            status = path.stat()
        except FileNotFoundError:
            raise CacheError(f"{path} is missing") from None
        return hash((status.st_mtime_ns, status.st_ino, status.st_size))


def open_cache(path: str | Path) -> Cache:
    """Open a cache for reading; it may be one that is still being written."""
    return Cache(path)


def open_array(root: Path, name: str, mode: Literal["r", "r+"], meta: Mapping[str, Any]) -> Any:
    """One of the cache's Zarr arrays; an error if it is not as the metadata of the cache say."""
    path = root / name / "zarr.json"
    if not path.is_file():
        raise CacheError(f"{root} is damaged: {path} is missing")
    # caches that were made before arrays were sealed have no checksum there
    if meta.get("sealed_arrays"):
        layout.check_array(root / name)
    try:
        array = zarr.open_array(root / name, mode=mode, zarr_format=3)
    except Exception as error:
        raise CacheError(f"{root} is damaged: {path} cannot be read ({layout.brief(error)})") from error
    vertices, dtype = vertex_count(dict(meta)), np.int32 if name == "faces" else np.float64
    least = {"faces": (face_count(dict(meta)), 3), "uv": (vertices, 2)}.get(name, (meta["frames"], vertices, 3))
    shape = array.shape
    if (
        array.dtype != dtype
        or len(shape) != len(least)
        or shape[-1] != least[-1]
        or any(have < need for have, need in zip(shape, least, strict=True))
    ):
        raise CacheError(f"{root} is damaged: {path} states {array.dtype} {shape}, which does not fit the cache")
    # a few bytes on disk can state an array of any size, which Zarr would fill
    read_at_once = shape if name in ("faces", "uv") else shape[1:]
    size = max(math.prod(read_at_once), math.prod(array.chunks)) * dtype().itemsize
    if size > machine_memory():
        raise CacheError(
            f"{root}: {path} states {size / 1e9:.2g} GB to read at once, more than the memory of this machine"
        )
    return array


def scene_of(cache: Any) -> Any:
    """The scene of a cache, or None if it has none that can be read."""
    try:
        return cache.scene
    except CacheError:
        return None
