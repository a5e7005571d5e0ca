"""Writing a cache frame by frame, in an order in which a stop at any moment loses no complete frame."""

import contextlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from weft import __version__
from weft.cache import layout
from weft.cache.arrays import create_array, create_frames, open_array
from weft.cache.kept import write_details, write_scene_arrays
from weft.cache.lock import WriterLock, aside, check_free, move_in, remove_leftovers
from weft.cache.reader import Cache
from weft.errors import CacheError
from weft.mesh import Details

if TYPE_CHECKING:
    from weft.scene import Scene


class FrameWriter:
    """Writes complete frames of a cache in any order, on behalf of the process that holds its lock.

    Several processes may do so at once: no two frames share a file, and writing a frame again gives the same bytes.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.cache = Cache(self.path)
        self.arrays = {name: open_array(self.path, name, "r+", self.cache.meta) for name in ("positions", "velocities")}

    def write(
        self,
        frame: int,
        positions: npt.ArrayLike,
        velocities: npt.ArrayLike,
        row: Mapping[str, Any],
        saved: Mapping[str, npt.ArrayLike] | None = None,
        noted: Mapping[str, npt.ArrayLike] | None = None,
        *,
        kept: Callable[[], str] = lambda: "The other frames are intact; put that right and resume.",
    ) -> None:
        """Write a frame. `kept` returns what is kept after a failed write, for the message."""
        if not 0 <= frame < self.cache.planned:
            raise CacheError(f"{self.path} is complete: it was planned for {self.cache.planned} frames")
        values = {
            "positions": self._checked("positions", positions, frame),
            "velocities": self._checked("velocities", velocities, frame),
        }
        arrays = {name: np.asarray(array) for name, array in (saved or {}).items()}
        for name, array in arrays.items():
            if array.dtype.hasobject:
                raise CacheError(f"the saved array {name!r} holds Python objects, which a cache cannot keep")
        plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in row.items()}
        content = {"frame": frame, "row": plain, "saved": saved is not None}
        # checksums of an archive do not cover its list of contents
        content["arrays"] = sorted(arrays)
        content["noted"] = {name: np.asarray(array, dtype=np.int64).tolist() for name, array in (noted or {}).items()}

        with layout.writing(f"frame {frame} of {self.path}", kept):
            try:
                for name, value in values.items():
                    self.arrays[name][frame] = value
                if saved is not None:
                    layout.write_atomic(layout.saved_path(self.path, frame), lambda file: _save(file, arrays))
                # a file with the checksum of another frame is not the file of this one
                content["chunks"] = {name: layout.chunk_checksum(self.path, name, frame) for name in values}
                text = json.dumps(layout.seal(content)).encode()
                # with its marker the frame exists
                layout.write_atomic(layout.marker_path(self.path, frame), lambda file: file.write(text))
            except OSError:
                self._discard(frame)
                raise

    def files(self, frame: int) -> list[Path]:
        """All files of a frame."""
        chunks = [layout.chunk_path(self.path, name, frame) for name in self.arrays]
        return [*chunks, layout.saved_path(self.path, frame), layout.marker_path(self.path, frame)]

    def _checked(self, name: str, value: npt.ArrayLike, frame: int) -> npt.NDArray[np.float64]:
        array = np.ascontiguousarray(value, dtype=np.float64)
        expected = self.arrays[name].shape[1:]
        if array.shape != expected:
            raise CacheError(f"{name} have the shape {array.shape}, but {self.path} holds {expected}")
        if not np.isfinite(array).all():
            vertex = int(np.flatnonzero(~np.isfinite(array).all(axis=1))[0])
            raise CacheError(f"{name} of vertex {vertex} are not finite at frame {frame}")
        return array

    def _discard(self, frame: int) -> None:
        """Remove the files of a frame that could not be completed; the space may be needed."""
        for path in self.files(frame):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _save(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    # the prefix keeps names apart from the parameters of savez
    named: dict[str, Any] = {f"{layout.SAVED}{name}": array for name, array in arrays.items()}
    np.savez(file, **named)


# the arrays of the method are kept for so many of the last frames: if the last is damaged, the one before it can still
# be continued
KEPT = 2
# seconds between two syncs to the disk. A killed process loses nothing without them; a power cut may damage what was
# written since the last one, which `checkpoint` detects
SYNC_SECONDS = 2.0


class Checkpoint(NamedTuple):
    """All that is needed to continue after a frame."""

    frame: int
    positions: npt.NDArray[np.float64]
    velocities: npt.NDArray[np.float64]
    row: dict[str, Any]
    saved: dict[str, npt.NDArray[Any]]


class CacheWriter:
    """Makes a cache (`create`) or continues one (`resume`); `append` adds a frame. Use it in a `with` block."""

    def __init__(self, path: Path, lock: WriterLock) -> None:
        self.path = path
        self._writer = FrameWriter(path)
        self.cache = self._writer.cache
        self._lock = lock
        self._frames = self.cache.frames
        self._unsynced: list[Path] = []
        self._synced_at = time.monotonic()
        # the last frame that was synced; its saved arrays are kept as well
        self._durable = -1

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
        details: Sequence[Details] = (),
        overwrite: bool = False,
    ) -> Self:
        """Create an empty cache for `frames` frames, frame 0 included.

        bodies: objects with name, kind, vertices and faces (slices); `vertices` is their total unless given.
        scene: given back by `Cache.scene`.
        origin: what the frames are computed from, in JSON; it is compared before a run is continued.
        details: what the meshes of the bodies carry besides their shape, one for each body, for exports.
        overwrite: replace a cache that is there already; anything else that is there is never removed.
        """
        path = Path(path)
        described = [
            {"name": b.name, "kind": b.kind, "vertices": _range(b.vertices), "faces": _range(b.faces)} for b in bodies
        ]
        count = vertices if vertices is not None else max((b["vertices"][1] for b in described), default=0)
        meta: dict[str, Any] = {
            "format": layout.FORMAT,
            "version": __version__,
            "fps": float(fps),
            "frames": int(frames),
            "bodies": described,
            "uv": uv is not None,
            "sealed_arrays": True,
            "scene": _scene_json(scene),
            "origin": dict(origin or {}),
        }
        triangles = np.asarray(faces, dtype=np.int32).reshape(-1, 3)
        if len(triangles) and not (triangles.min() >= 0 and triangles.max() < count):
            raise CacheError(f"the faces name vertex {int(triangles.max())}, but there are {count} vertices")

        with layout.writing(f"the cache {path}", lambda: "Choose another output, or make room."):
            path.parent.mkdir(parents=True, exist_ok=True)
            check_free(path, overwrite)
            # created beside its path and renamed, so that a cache is never incomplete
            remove_leftovers(path)
            made = aside(path, "new")
            try:
                layout.marker_folder(made).mkdir(parents=True)
                layout.saved_folder(made).mkdir()
                create_array(made / "faces", triangles)
                if uv is not None:
                    create_array(made / "uv", np.asarray(uv, dtype=np.float64).reshape(count, 2))
                for name in ("positions", "velocities"):
                    create_frames(made / name, frames, count)
                write_scene_arrays(made, scene)
                meta["details"] = write_details(made, details)
                layout.write_meta(made, meta)
                move_in(made, path, overwrite)
            except BaseException:
                shutil.rmtree(made, ignore_errors=True)
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
                write_scene_arrays(path, scene)
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
        """The last frame that can be continued (None: start from the beginning), and messages about damaged frames.

        Frames after it are removed; computing them again gives the same bytes.
        """
        last = self.frames - 1
        problems: list[str] = []
        found: Checkpoint | None = None
        candidates = self._continuable()
        for frame in range(candidates[0] if candidates else last + 1, last + 1):
            try:
                data = self.cache.positions(frame), self.cache.velocities(frame), self.cache.row(frame)
            except CacheError as error:
                # nothing after it counts
                problems.append(str(error))
                break
            try:
                if frame in candidates:
                    found = Checkpoint(frame, *data, self.cache.saved(frame))
            except CacheError as error:
                problems.append(str(error))
        if found is None and (problems or any(layout.marker_folder(self.path).glob("*.json"))):
            missing = f"{layout.marker_path(self.path, self.frames)} is missing"
            raise CacheError(
                f"{self.path} cannot be continued: {'; '.join(problems) or missing}. "
                f"weft check {self.path} --repair computes what is damaged again; or --overwrite, or another output"
            )
        if found is None:
            return None, []
        self._remove_frames(found.frame + 1)
        self._durable = found.frame
        self._drop_saved()
        return found, problems if found.frame < last else []

    def append(
        self,
        positions: npt.ArrayLike,
        velocities: npt.ArrayLike,
        row: Mapping[str, Any],
        saved: Mapping[str, npt.ArrayLike] | None = None,
        noted: Mapping[str, npt.ArrayLike] | None = None,
    ) -> int:
        """Write the next frame and return its number.

        row: its row of the report. saved: arrays that the method needs to continue after this frame. noted: few whole numbers
        by name, which `Cache.noted` gives back.
        """
        frame = self._frames
        self._writer.write(frame, positions, velocities, row, saved, noted, kept=self._kept)
        self._frames = frame + 1
        self._note(frame)
        self._drop_saved()
        return frame

    def missing(self) -> list[int]:
        """The frames that are missing or damaged, for a cache whose frames are written in any order."""
        known = Cache(self.path)
        return [frame for frame in range(self.cache.planned) if not known.has(frame)]

    def close_gap(self) -> None:
        """Remove the frames after the first missing one, to continue in order from there."""
        self._remove_frames(self._frames)

    def end(self) -> None:
        """Plan no more frames than there are: the cache is complete."""
        self._plan(self._frames, None)

    def adopt(self, frame: int) -> None:
        """Count a frame that another process has written with a `FrameWriter` while the lock is held here."""
        while layout.marker_path(self.path, self._frames).is_file():
            self._frames += 1
        self._note(frame)

    def close(self) -> None:
        """Sync everything to the disk and release the lock. Safe to call twice."""
        try:
            # without a new frame the saved arrays of older ones may be all that a damaged cache can be continued from
            if self._unsynced:
                self._sync()
                self._drop_saved()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _note(self, frame: int) -> None:
        """Remember the files of a written frame for the next sync, and sync if it is time."""
        self._unsynced += self._writer.files(frame)
        if time.monotonic() - self._synced_at > SYNC_SECONDS:
            self._sync()

    def _plan(self, frames: int, scene: "Scene | None") -> None:
        """Change how many frames the cache will hold. The arrays grow first, so that no frame is out of range."""
        for name, array in self._writer.arrays.items():
            if array.shape[0] < frames:
                layout.seal_array(self.path / name, frames)
                self._writer.arrays[name] = open_array(self.path, name, "r+", self.cache.meta)
        meta = self.cache.meta
        planned = {**meta, "frames": frames, "scene": meta["scene"] if scene is None else _scene_json(scene)}
        if planned != meta:
            layout.write_meta(self.path, planned)

    def _kept(self) -> str:
        """What is kept after a failed write, for the message."""
        if not self._frames:
            return "No frame is complete yet."
        return f"Frames 0 to {self._frames - 1} are intact; put that right and resume."

    def _continuable(self) -> list[int]:
        """The frames whose saved arrays are kept; if there are none, the last frames: the method may save nothing."""
        names = (path.stem for path in layout.saved_folder(self.path).glob("*.npz"))
        kept = sorted(int(name) for name in names if name.isdigit() and int(name) < self._frames)
        return kept or list(range(max(0, self._frames - KEPT), self._frames))

    def _remove_frames(self, first: int) -> None:
        """Remove the frames from `first` on, the last one first, so that there is never a gap."""
        folder = layout.marker_folder(self.path)
        for path in sorted(folder.glob("*.json"), reverse=True):
            if path.stem.isdigit() and int(path.stem) >= first:
                # a damaged disk may have made a folder of it
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        self._frames = first

    def _drop_saved(self) -> None:
        """Remove the saved arrays that no resume needs; if that fails they only take space.

        Those after a gap are kept: the gap may be repaired.
        """
        needed = {self._durable, *range(self._frames - KEPT, self._frames)}
        with contextlib.suppress(OSError):
            for path in layout.saved_folder(self.path).glob("*.npz"):
                if path.stem.isdigit() and int(path.stem) < self._frames and int(path.stem) not in needed:
                    path.unlink(missing_ok=True)

    def _sync(self) -> None:
        """Flush all frames written so far to the disk."""
        with layout.writing(f"the last frames of {self.path}", lambda: "Resume it: what is damaged is done again."):
            for path in self._unsynced:
                if path.exists():
                    layout.sync(path)
            for folder in {path.parent for path in self._unsynced}:
                layout.sync(folder)
        self._unsynced.clear()
        self._synced_at = time.monotonic()
        self._durable = self._frames - 1


def _scene_json(scene: "Scene | None") -> dict[str, str] | None:
    """The scene in full, defaults too, so that a later weft with other defaults still reads the same scene.

    It is JSON within JSON: a scene may hold infinite numbers, which other readers of the cache would refuse.
    """
    if scene is None:
        return None
    return {"text": json.dumps(scene.model_dump()), "base": str(scene.base.absolute()), "source": scene.source}


def _range(items: slice) -> list[int]:
    return [int(items.start or 0), int(items.stop)]
