"""The files of a cache folder, and atomic writing, so that no reader ever sees an incomplete file.

    out.zarr/
      zarr.json                    Zarr 3 group; its attributes describe the cache (sealed with a checksum)
      faces/ uv/                   arrays, written once
      positions/ velocities/       float64 arrays (frame, vertex, 3): one chunk, one file a frame, crc32c each
      weft/frames/00000012.json    frame 12 is complete: its report row; written last, by rename
      weft/saved/00000012.npz      arrays that the method needs to continue after frame 12 (kept for the last frames only)
      weft/lock                    held by the process that writes

A frame exists when its marker exists. The marker is renamed into place after everything else of the frame is
written, so a process that is killed at any moment leaves complete frames only, and a reader needs no lock. Every few
seconds all files are synced to the disk; a power cut can damage frames written after that. Checksums detect it, and a
resumed run continues from the last intact frame.
"""

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from weft.cache.checks import check_meta
from weft.errors import CacheError

FORMAT = 1
PARTIAL = ".partial"
SAVED = "saved."


def meta_path(root: Path) -> Path:
    """The metadata of the Zarr group; a folder with this file is a cache."""
    return root / "zarr.json"


def marker_folder(root: Path) -> Path:
    return root / "weft" / "frames"


def marker_path(root: Path, frame: int) -> Path:
    return marker_folder(root) / f"{frame:08d}.json"


def saved_folder(root: Path) -> Path:
    return root / "weft" / "saved"


def saved_path(root: Path, frame: int) -> Path:
    return saved_folder(root) / f"{frame:08d}.npz"


def lock_path(root: Path) -> Path:
    return root / "weft" / "lock"


def chunk_path(root: Path, array: str, frame: int) -> Path:
    """The one file that holds a frame of `positions` or `velocities`."""
    return root / array / f"c.{frame}.0.0"


def complete_frames(root: Path) -> int:
    """How many frames are complete, counted from frame 0 without a gap."""
    try:
        with os.scandir(marker_folder(root)) as entries:
            frames = {int(e.name[:-5]) for e in entries if e.name.endswith(".json") and e.name[:-5].isdecimal()}
    except FileNotFoundError:
        return 0
    count = 0
    while count in frames:
        count += 1
    return count


def write_atomic(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write a file under a temporary name and rename it; `sync` makes it survive a power cut."""
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        with partial.open("wb") as file:
            write(file)
        partial.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Flush a file, or the names in a folder, to the disk, where the system supports it."""
    with contextlib.suppress(PermissionError, IsADirectoryError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove_partials(root: Path) -> None:
    """Remove the temporary files of a killed writer."""
    for path in root.rglob(f"*{PARTIAL}"):
        path.unlink(missing_ok=True)


def seal(content: dict[str, Any]) -> dict[str, Any]:
    """The content and a checksum of it, as one JSON object."""
    return {"crc32": _crc(content), "content": content}


def unseal(sealed: Any, path: Path) -> dict[str, Any]:
    """The content of a sealed object; a CacheError names the file if it does not fit its checksum."""
    if (
        not isinstance(sealed, dict)
        or not isinstance(sealed.get("content"), dict)
        or sealed.get("crc32") != _crc(sealed["content"])
    ):
        raise CacheError(f"{path} is damaged: its content does not fit its checksum")
    return dict(sealed["content"])


def _crc(content: dict[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def read_json(path: Path) -> Any:
    """Parse a JSON file of the cache; a CacheError names it if it is missing or not JSON."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        raise CacheError(f"{path} is missing") from None
    except (ValueError, RecursionError):
        raise CacheError(f"{path} is damaged: it is not JSON") from None
    except OSError as error:
        raise CacheError(f"{path} cannot be read: {reason(error)}") from None


def read_meta(root: Path) -> dict[str, Any]:
    """The metadata of a cache: fps, frames, bodies, scene, origin."""
    if not root.exists():
        raise CacheError(f"{root} does not exist")
    if not root.is_dir():
        raise CacheError(f"{root} is a file, not a weft cache (a cache is a folder made by `weft run`)")
    path = meta_path(root)
    if not path.is_file():
        raise CacheError(f"{root} is not a weft cache: {path} is missing")
    group = read_json(path)
    attributes = group.get("attributes") if isinstance(group, dict) else None
    if not isinstance(attributes, dict) or "weft" not in attributes:
        raise CacheError(f"{root} is not a weft cache: {path} does not describe one")
    meta = unseal(attributes["weft"], path)
    if meta.get("format") != FORMAT:
        raise CacheError(
            f"{root} was written by weft {meta.get('version')} in cache format {meta.get('format')}; "
            f"this weft reads format {FORMAT}"
        )
    check_meta(meta, path)
    return meta


def write_meta(root: Path, meta: dict[str, Any]) -> None:
    """Replace the metadata atomically."""
    group = {"zarr_format": 3, "node_type": "group", "attributes": {"weft": seal(meta)}}
    text = json.dumps(group, indent=1).encode()
    write_atomic(meta_path(root), lambda file: file.write(text))
    sync(meta_path(root))
    sync(root)


def seal_array(path: Path, length: int | None = None) -> None:
    """Add a checksum to the metadata of an array, atomically; `length` changes the number of its frames."""
    document = json.loads((path / "zarr.json").read_bytes())
    if length is not None:
        document["shape"][0] = length
    document["attributes"] = {"weft": {"crc32": _crc({**document, "attributes": {}})}}
    text = json.dumps(document, indent=1).encode()
    write_atomic(path / "zarr.json", lambda file: file.write(text))
    sync(path / "zarr.json")
    sync(path)


def check_array(path: Path) -> None:
    """Refuse metadata of an array that do not fit their checksum."""
    document = read_json(path / "zarr.json")
    seal = document.get("attributes") if isinstance(document, dict) else None
    if not isinstance(seal, dict) or seal != {"weft": {"crc32": _crc({**document, "attributes": {}})}}:
        raise CacheError(f"{path / 'zarr.json'} is damaged: its content does not fit its checksum")


def brief(error: Exception) -> str:
    """The message of a library's error as one short line."""
    return " ".join(str(error).split())[:160] or type(error).__name__


def reason(error: OSError) -> str:
    """The system's message of an error, without its number and path."""
    return (error.strerror or str(error)).lower()


@contextlib.contextmanager
def writing(what: str, kept: Callable[[], str]) -> Iterator[None]:
    """Turn a failed write into an error that says what could not be written, why, and what is kept."""
    try:
        yield
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        raise CacheError(f"{what} could not be written: {reason(error)}{where}. {kept()}".rstrip()) from error
