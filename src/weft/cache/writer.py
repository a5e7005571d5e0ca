"""Writing a cache, one whole frame at a time, in such an order that a stop at any moment loses no frame."""

import contextlib
import glob
import json
import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from weft import __version__
from weft.cache import layout
from weft.cache.lock import WriterLock, is_running
from weft.cache.reader import Cache, open_array
from weft.errors import CacheError

if TYPE_CHECKING:
    from weft.scene import Scene

# for how many of the last frames the method's own arrays are kept: if the last one is damaged, the one before it
# can still be continued
KEPT = 2


class Checkpoint(NamedTuple):
    """All that is needed to go on after a frame."""

    frame: int
    positions: npt.NDArray[np.float64]
    velocities: npt.NDArray[np.float64]
    row: dict[str, Any]
    saved: dict[str, npt.NDArray[Any]]


class CacheWriter:
    """Makes a cache (`create`) or continues one (`resume`); `append` adds a frame. Use it in a `with` block."""

    def __init__(self, path: Path, lock: WriterLock) -> None:
        self.path = path
        self.cache = Cache(path)
        self._lock = lock
        self._frames = self.cache.frames
        self._arrays = {name: open_array(path, name, "r+") for name in ("positions", "velocities")}

    @classmethod
    def create(
        cls,
        path: str | Path,
        *,
        frames: int,
        faces: npt.ArrayLike,
        bodies: Iterable[Any],
        fps: float,
        vertices: int | None = None,
        uv: npt.ArrayLike | None = None,
        scene: "Scene | None" = None,
        origin: Mapping[str, Any] | None = None,
        overwrite: bool = False,
    ) -> Self:
        """Make an empty cache that will hold `frames` frames, frame 0 included.

        bodies: objects with name, kind, vertices and faces (slices); `vertices` is their total unless given.
        scene: given back by `Cache.scene`.
        origin: what the frames are computed from, in JSON; it is compared before a run is continued.
        overwrite: replace a cache that is there already; anything else that is there is never removed.
        """
        path = Path(path)
        described = [
            {"name": b.name, "kind": b.kind, "vertices": _range(b.vertices), "faces": _range(b.faces)} for b in bodies
        ]
        count = vertices if vertices is not None else max((b["vertices"][1] for b in described), default=0)
        meta = {
            "format": layout.FORMAT,
            "version": __version__,
            "fps": float(fps),
            "frames": int(frames),
            "bodies": described,
            "uv": uv is not None,
            "scene": _scene_json(scene),
            "origin": dict(origin or {}),
        }
        triangles = np.asarray(faces, dtype=np.int32).reshape(-1, 3)
        if len(triangles) and not (triangles.min() >= 0 and triangles.max() < count):
            raise CacheError(f"the faces name vertex {int(triangles.max())}, but there are {count} vertices")

        with layout.writing(f"the cache {path}", lambda: "Choose another output, or make room."):
            path.parent.mkdir(parents=True, exist_ok=True)
            _check_free(path, overwrite)
            # made aside and moved into place whole, so that a cache is never half made
            _remove_leftovers(path)
            aside = _aside(path, "new")
            try:
                layout.marker_folder(aside).mkdir(parents=True)
                layout.saved_path(aside, 0).parent.mkdir()
                _create_array(aside / "faces", triangles)
                if uv is not None:
                    _create_array(aside / "uv", np.asarray(uv, dtype=np.float64).reshape(count, 2))
                for name in ("positions", "velocities"):
                    _create_frames(aside / name, frames, count)
                layout.write_meta(aside, meta)
                _move_into_place(aside, path, overwrite)
            except BaseException:
                shutil.rmtree(aside, ignore_errors=True)
                raise
            return cls(path, WriterLock(layout.lock_path(path), path))

    @classmethod
    def resume(cls, path: str | Path, *, frames: int | None = None, scene: "Scene | None" = None) -> Self:
        """Continue a cache, perhaps to another number of frames than was planned at first.

        frames: how many it will hold then; never fewer than are complete. scene: replaces the one that is kept.
        """
        path = Path(path)
        layout.read_meta(path)
        with layout.writing(f"the cache {path}", lambda: "Its frames are intact."):
            lock = WriterLock(layout.lock_path(path), path)
            try:
                layout.remove_partials(path)
                writer = cls(path, lock)
                writer._plan(max(frames or writer.cache.planned, writer.frames), scene)
                return writer
            except BaseException:
                lock.release()
                raise

    @property
    def frames(self) -> int:
        """How many frames are complete; also the number of the frame that `append` writes next."""
        return self._frames

    def checkpoint(self) -> tuple[Checkpoint | None, list[str]]:
        """The last frame that can be continued (None: start anew), and what had to be given up for it.

        Frames after it are taken back: they are damaged, and computing them again gives the same bytes.
        """
        problems: list[str] = []
        for frame in range(self.frames - 1, max(self.frames - 1 - KEPT, -1), -1):
            cache = self.cache
            try:
                found = Checkpoint(
                    frame, cache.positions(frame), cache.velocities(frame), cache.row(frame), cache.saved(frame)
                )
            except CacheError as error:
                problems.append(str(error))
                continue
            self._take_back(frame + 1)
            return found, problems
        if not problems and any(layout.marker_folder(self.path).glob("*.json")):
            problems.append(f"{layout.marker_path(self.path, 0)} is missing")
        if problems:
            raise CacheError(
                f"{self.path} cannot be continued: {'; '.join(problems)}. Overwrite it, or choose another output"
            )
        return None, []

    def append(
        self,
        positions: npt.ArrayLike,
        velocities: npt.ArrayLike,
        row: Mapping[str, Any],
        saved: Mapping[str, npt.ArrayLike] | None = None,
    ) -> int:
        """Write the next frame, whole, and return its number.

        row: its line in the report. saved: arrays that the method needs to go on after this frame.
        """
        frame = self._frames
        if frame >= self.cache.planned:
            raise CacheError(f"{self.path} is complete: it was planned for {self.cache.planned} frames")
        values = {
            "positions": self._checked("positions", positions),
            "velocities": self._checked("velocities", velocities),
        }
        arrays = {name: np.asarray(array) for name, array in (saved or {}).items()}
        for name, array in arrays.items():
            if array.dtype.hasobject:
                raise CacheError(f"the saved array {name!r} holds Python objects, which a cache cannot keep")
        marker = layout.seal({"frame": frame, "row": {k: _plain(v) for k, v in row.items()}, "saved": bool(arrays)})
        text = json.dumps(marker).encode()
        kept = (
            "No frame is complete yet."
            if frame == 0
            else f"Frames 0 to {frame - 1} are intact; put that right and resume."
        )

        with layout.writing(f"frame {frame} of {self.path}", lambda: kept):
            try:
                for name, value in values.items():
                    self._arrays[name][frame] = value
                    layout.sync(layout.chunk_path(self.path, name, frame))
                    layout.sync(self.path / name)
                if arrays:
                    layout.write_atomic(layout.saved_path(self.path, frame), lambda file: _save(file, arrays))
                # from here on the frame exists
                layout.write_atomic(layout.marker_path(self.path, frame), lambda file: file.write(text))
            except OSError:
                self._discard(frame)
                raise
        self._frames = frame + 1
        with contextlib.suppress(OSError):
            layout.saved_path(self.path, frame - KEPT).unlink(missing_ok=True)
        return frame

    def close(self) -> None:
        """Let others write. Safe to call twice."""
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _checked(self, name: str, value: npt.ArrayLike) -> npt.NDArray[np.float64]:
        array = np.ascontiguousarray(value, dtype=np.float64)
        expected = self._arrays[name].shape[1:]
        if array.shape != expected:
            raise CacheError(f"{name} have the shape {array.shape}, but {self.path} holds {expected}")
        if not np.isfinite(array).all():
            vertex = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
            raise CacheError(f"{name} of vertex {vertex} are not finite at frame {self._frames}")
        return array

    def _plan(self, frames: int, scene: "Scene | None") -> None:
        """Change how many frames the cache will hold. The arrays grow first, so that no frame is out of range."""
        for array in self._arrays.values():
            if array.shape[0] < frames:
                array.resize((frames, *array.shape[1:]))
        meta = self.cache.meta
        planned = {**meta, "frames": frames, "scene": meta["scene"] if scene is None else _scene_json(scene)}
        if planned != meta:
            layout.write_meta(self.path, planned)

    def _take_back(self, first: int) -> None:
        """Remove the frames from `first` on, the last one first, so that what remains never has a gap."""
        folder = layout.marker_folder(self.path)
        for path in sorted(folder.glob("*.json"), reverse=True):
            if path.stem.isdigit() and int(path.stem) >= first:
                path.unlink()
        self._frames = first

    def _discard(self, frame: int) -> None:
        """Remove what there is of a frame that could not be completed; the room may be needed."""
        for path in (
            layout.chunk_path(self.path, "positions", frame),
            layout.chunk_path(self.path, "velocities", frame),
            layout.saved_path(self.path, frame),
        ):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _check_free(path: Path, overwrite: bool) -> None:
    """Refuse a place that is taken; with `overwrite` refuse it if it is not a cache or is being written."""
    if not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    try:
        cache = Cache(path)
    except CacheError as error:
        if path.is_dir() and overwrite and (path / "zarr.json").is_file() and (path / "weft" / "frames").is_dir():
            return
        raise CacheError(f"{path} exists and is not a readable weft cache, so it is left alone ({error})") from None
    if not overwrite:
        raise CacheError(
            f"{path} exists already, with {cache.frames} of {cache.planned} frames: resume it, overwrite it, "
            "or choose another output"
        )


def _move_into_place(aside: Path, path: Path, overwrite: bool) -> None:
    """Move the new cache to its place; an old one is removed after that, and only if nobody writes it."""
    old = _aside(path, "old")
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
    if path.exists() and overwrite:
        lock = WriterLock(layout.lock_path(path), path)
        lock.release()
        path.rename(old)
    try:
        aside.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _aside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{what}{layout.PARTIAL}")


def _remove_leftovers(path: Path) -> None:
    """Remove what processes that are gone have left beside a cache while they made it."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{layout.PARTIAL}"):
        pid = left.name.removeprefix(f".{path.name}.").split(".")[0]
        if not is_running(pid) or pid == str(os.getpid()):
            shutil.rmtree(left, ignore_errors=True)


def _create_array(path: Path, values: npt.NDArray[Any]) -> None:
    """An array that is written once, in one chunk."""
    array = zarr.create_array(
        path,
        shape=values.shape,
        chunks=tuple(max(1, n) for n in values.shape),
        dtype=values.dtype,
        compressors=_compressors(values.dtype.itemsize),
        chunk_key_encoding={"name": "default", "separator": "."},
        config={"write_empty_chunks": True},
    )
    array[:] = values


def _create_frames(path: Path, frames: int, vertices: int) -> None:
    """An array of frames: one chunk a frame; a frame that is not there reads as NaN elsewhere."""
    zarr.create_array(
        path,
        shape=(frames, vertices, 3),
        chunks=(1, max(1, vertices), 3),
        dtype=np.float64,
        fill_value=np.nan,
        compressors=_compressors(8),
        chunk_key_encoding={"name": "default", "separator": "."},
        config={"write_empty_chunks": True},
    )


def _save(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    # the prefix keeps names apart from the parameters of savez
    named: dict[str, Any] = {f"{layout.SAVED}{name}": array for name, array in arrays.items()}
    np.savez(file, **named)


def _compressors(itemsize: int) -> list[Any]:
    """Lossless; the checksum is of the compressed bytes, hence tested before anything is unpacked."""
    return [BloscCodec(cname="zstd", clevel=5, shuffle="shuffle", typesize=itemsize), Crc32cCodec()]


def _scene_json(scene: "Scene | None") -> dict[str, str] | None:
    """The scene in full, defaults too, so that a later weft with other defaults still reads the same scene.

    It is JSON within JSON: a scene may hold infinite numbers, which other readers of the cache would refuse.
    """
    if scene is None:
        return None
    return {"text": json.dumps(scene.model_dump()), "base": str(scene.base.absolute()), "source": scene.source}


def _range(part: slice) -> list[int]:
    return [int(part.start or 0), int(part.stop)]


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python number it is."""
    return value.item() if isinstance(value, np.generic) else value
