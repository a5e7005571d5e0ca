"""Writing one frame of a cache, whole or not at all; several processes may write different frames at once."""

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from weft.cache import layout
from weft.cache.reader import Cache, open_array
from weft.errors import CacheError


class FrameWriter:
    """Writes whole frames of a cache, in any order, for whoever holds its lock.

    Several processes may do so at once: no two frames share a file, and writing a frame again gives the same bytes.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.cache = Cache(self.path)
        self.arrays = {name: open_array(self.path, name, "r+") for name in ("positions", "velocities")}

    def write(
        self,
        frame: int,
        positions: npt.ArrayLike,
        velocities: npt.ArrayLike,
        row: Mapping[str, Any],
        saved: Mapping[str, npt.ArrayLike] | None = None,
        *,
        kept: Callable[[], str] = lambda: "The other frames are intact; put that right and resume.",
    ) -> None:
        """Write a frame; it exists when all of it is there. `kept` says what a failed write leaves."""
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
        content = {"frame": frame, "row": {k: _plain(v) for k, v in row.items()}, "saved": saved is not None}
        text = json.dumps(layout.seal(content)).encode()

        with layout.writing(f"frame {frame} of {self.path}", kept):
            try:
                for name, value in values.items():
                    self.arrays[name][frame] = value
                if saved is not None:
                    layout.write_atomic(layout.saved_path(self.path, frame), lambda file: _save(file, arrays))
                # from here on the frame exists
                layout.write_atomic(layout.marker_path(self.path, frame), lambda file: file.write(text))
            except OSError:
                self._discard(frame)
                raise

    def files(self, frame: int) -> list[Path]:
        """All that a frame is on disk."""
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
        """Remove what there is of a frame that could not be completed; the room may be needed."""
        for path in self.files(frame):
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)


def _save(file: IO[bytes], arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    # the prefix keeps names apart from the parameters of savez
    named: dict[str, Any] = {f"{layout.SAVED}{name}": array for name, array in arrays.items()}
    np.savez(file, **named)


def _plain(value: Any) -> Any:
    """A NumPy scalar as the Python number it is."""
    return value.item() if isinstance(value, np.generic) else value
