"""Writing a cache, one whole frame at a time, in such an order that a stop at any moment loses no frame."""

import contextlib
import json
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from weft import __version__
from weft.cache import layout, place
from weft.cache.frame_writer import FrameWriter
from weft.cache.lock import WriterLock
from weft.cache.reader import Cache
from weft.errors import CacheError

if TYPE_CHECKING:
    from weft.scene import Scene

# for how many of the last frames the method's own arrays are kept: if the last one is damaged, the one before it
# can still be continued
KEPT = 2
# how often frames are made to reach the disk itself. A killed process loses nothing without that; a power cut may
# lose what was written since, which `checkpoint` notices
SYNC_SECONDS = 2.0


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
        self._writer = FrameWriter(path)
        self.cache = self._writer.cache
        self._lock = lock
        self._frames = self.cache.frames
        self._unsynced: list[Path] = []
        self._synced_at = time.monotonic()
        # the last frame that would outlive a power cut; its saved arrays are kept as well
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
            place.check_free(path, overwrite)
            # made aside and moved into place whole, so that a cache is never half made
            place.remove_leftovers(path)
            made = place.aside(path, "new")
            try:
                layout.marker_folder(made).mkdir(parents=True)
                layout.saved_folder(made).mkdir()
                _create_array(made / "faces", triangles)
                if uv is not None:
                    _create_array(made / "uv", np.asarray(uv, dtype=np.float64).reshape(count, 2))
                for name in ("positions", "velocities"):
                    _create_frames(made / name, frames, count)
                layout.write_meta(made, meta)
                place.move_in(made, path, overwrite)
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
                "Overwrite it, or choose another output"
            )
        if found is None:
            return None, []
        self._take_back(found.frame + 1)
        self._durable = found.frame
        self._drop_saved()
        return found, problems if found.frame < last else []

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
        self._writer.write(frame, positions, velocities, row, saved, kept=self._kept)
        self._frames = frame + 1
        self._note(frame)
        self._drop_saved()
        return frame

    def missing(self) -> list[int]:
        """The frames that are not there or are damaged, for a cache whose frames are made in any order."""
        known = Cache(self.path)
        return [frame for frame in range(self.cache.planned) if not known.has(frame)]

    def close_gap(self) -> None:
        """Take back the frames after the first one that is missing, to go on in order from there."""
        self._take_back(self._frames)

    def adopt(self, frame: int) -> None:
        """Take in a frame that a helper has written with a `FrameWriter` while the lock is held here."""
        while layout.marker_path(self.path, self._frames).is_file():
            self._frames += 1
        self._note(frame)

    def close(self) -> None:
        """Make sure that all is on the disk, and let others write. Safe to call twice."""
        try:
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
        """A frame is written: see to it that it reaches the disk."""
        self._unsynced += self._writer.files(frame)
        if time.monotonic() - self._synced_at > SYNC_SECONDS:
            self._sync()

    def _plan(self, frames: int, scene: "Scene | None") -> None:
        """Change how many frames the cache will hold. The arrays grow first, so that no frame is out of range."""
        for array in self._writer.arrays.values():
            if array.shape[0] < frames:
                array.resize((frames, *array.shape[1:]))
        meta = self.cache.meta
        planned = {**meta, "frames": frames, "scene": meta["scene"] if scene is None else _scene_json(scene)}
        if planned != meta:
            layout.write_meta(self.path, planned)

    def _kept(self) -> str:
        """What a failed write leaves."""
        if not self._frames:
            return "No frame is complete yet."
        return f"Frames 0 to {self._frames - 1} are intact; put that right and resume."

    def _continuable(self) -> list[int]:
        """The frames whose saved arrays are kept; without any, the last ones, which may have none to keep."""
        names = (path.stem for path in layout.saved_folder(self.path).glob("*.npz"))
        kept = sorted(int(name) for name in names if name.isdigit() and int(name) < self._frames)
        return kept or list(range(max(0, self._frames - KEPT), self._frames))

    def _take_back(self, first: int) -> None:
        """Remove the frames from `first` on, the last one first, so that what remains never has a gap."""
        folder = layout.marker_folder(self.path)
        for path in sorted(folder.glob("*.json"), reverse=True):
            if path.stem.isdigit() and int(path.stem) >= first:
                path.unlink()
        self._frames = first

    def _drop_saved(self) -> None:
        """Remove the saved arrays that no resume will ask for; on a failure they only take room."""
        needed = {self._durable, *range(self._frames - KEPT, self._frames)}
        with contextlib.suppress(OSError):
            for path in layout.saved_folder(self.path).glob("*.npz"):
                if path.stem.isdigit() and int(path.stem) not in needed:
                    path.unlink(missing_ok=True)

    def _sync(self) -> None:
        """Have all frames written so far on the disk itself."""
        with layout.writing(f"the last frames of {self.path}", lambda: "Resume it: what is damaged is done again."):
            for path in self._unsynced:
                if path.exists():
                    layout.sync(path)
            for folder in {path.parent for path in self._unsynced}:
                layout.sync(folder)
        self._unsynced.clear()
        self._synced_at = time.monotonic()
        self._durable = self._frames - 1


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
