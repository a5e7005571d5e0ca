"""NumPy: a cache as 64-bit arrays, in one npz file or as npy files that can be memory-mapped."""

import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.exchange.selection import Exported, Report, Selection, staged_file, staged_folder

if TYPE_CHECKING:
    from weft.cache import Cache

# the arrays with one entry a frame
FRAMES = ("vertices", "velocities")


def export_npz(
    cache: "Cache",
    path: str | Path,
    *,
    frames: Sequence[int] | None = None,
    bodies: Iterable[str] | None = None,
    overwrite: bool = False,
    progress: Report | None = None,
) -> Exported:
    """Write one npz file that weft also reads as a moving mesh.

    Arrays: vertices and velocities (frames, n, 3), faces (m, 3), uv (n, 2; NaN where there is none) if any body has
    some, frames (their numbers), fps, body_names, body_kinds, body_vertices and body_faces (first, last + 1).
    """
    selection = Selection(cache, frames, bodies)
    path = Path(path)
    with staged_file(path, overwrite=overwrite) as staged, zipfile.ZipFile(staged, "w", zipfile.ZIP_STORED) as archive:
        for name, value in _tables(selection).items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)
        for step, name in enumerate(FRAMES):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                _write_frames(file, selection, name, step, progress)
    return Exported([path], selection.frames)


def export_npy(
    cache: "Cache",
    folder: str | Path,
    *,
    frames: Sequence[int] | None = None,
    bodies: Iterable[str] | None = None,
    overwrite: bool = False,
    progress: Report | None = None,
) -> Exported:
    """Write the arrays of `export_npz` as separate npy files, to be opened with numpy.load(..., mmap_mode="r").

    Small tables are in `cache.json`.
    """
    selection = Selection(cache, frames, bodies)
    folder = Path(folder)
    tables = _tables(selection)
    large: list[str] = [name for name in ("faces", "uv") if name in tables]
    names = [*(f"{name}.npy" for name in large), "vertices.npy", "velocities.npy", "cache.json"]
    with staged_folder(folder, names, overwrite=overwrite) as staged:
        for name in large:
            np.save(staged / f"{name}.npy", tables[name], allow_pickle=False)
        for step, name in enumerate(FRAMES):
            with (staged / f"{name}.npy").open("wb") as file:
                _write_frames(file, selection, name, step, progress)
        small = {name: np.asarray(value).tolist() for name, value in tables.items() if name not in large}
        (staged / "cache.json").write_text(json.dumps(small, indent=1), encoding="utf-8")
    return Exported([folder / name for name in names], selection.frames)


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
    if selection.cache.uv is not None and np.isfinite(selection.cache.uv[selection.vertices]).any():
        tables["uv"] = np.asarray(selection.cache.uv[selection.vertices])
    return tables


def _write_frames(file: IO[bytes], selection: Selection, name: str, step: int, progress: Report | None) -> None:
    """Write an npy of all frames one by one, so that they need not fit into memory."""
    read = selection.cache.positions if name == "vertices" else selection.cache.velocities
    shape = (len(selection.frames), len(selection.vertices), 3)
    np.lib.format.write_array_header_2_0(file, {"descr": "<f8", "fortran_order": False, "shape": shape})
    for done, frame in enumerate(selection.frames, start=1):
        file.write(read(frame)[selection.vertices].astype("<f8").tobytes())
        if progress is not None:
            progress(step * len(selection.frames) + done, 2 * len(selection.frames))
