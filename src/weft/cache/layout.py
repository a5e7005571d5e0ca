"""The files of a cache folder, and atomic writing, so that no reader ever sees an incomplete file.

    out.zarr/
      zarr.json                    Zarr 3 group; its attributes describe the cache (sealed with a checksum)
      faces/ uv/                   arrays, written once
      positions/ velocities/       float64 arrays (frame, vertex, 3): one chunk, one file a frame, crc32c each
      weft/frames/00000012.json    frame 12 is complete: its report row, and the checksums of its chunks; last
      weft/saved/00000012.npz      arrays that the method needs to continue after frame 12 (kept for the last frames only)
      weft/lock                    held by the process that writes

A frame exists when its marker exists. The marker is renamed into place after everything else of the frame is
written, so a process that is killed at any moment leaves complete frames only, and a reader needs no lock. Every few
seconds all files are synced to the disk; a power cut can damage frames written after that. Checksums detect it, and a
resumed run continues from the last intact frame. A file that fits its checksum may still be made by hand, so the metadata and
the markers are checked as well.
"""

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from weft.errors import CacheError

FORMAT = 1
PARTIAL = ".partial"
SAVED = "saved."
# bytes of crc32c at the end of the file of a frame
CHECKSUM_BYTES = 4


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


def chunk_checksum(root: Path, array: str, frame: int) -> str:
    """The checksum at the end of the file of a frame, as hexadecimal digits; empty if there is no such file."""
    try:
        with chunk_path(root, array, frame).open("rb") as file:
            file.seek(-CHECKSUM_BYTES, os.SEEK_END)
            return file.read().hex()
    except OSError:
        return ""


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


# frame numbers have eight digits
MOST_FRAMES = 10**8
# subdivisions of a cache; each makes four triangles of one
MOST_LEVELS = 12
# columns of the report that are numbers, and read as such
NUMBERS = ("frame", "time", "wall_time", "steps", "contacts", "collisions", "zones", "intersections")


def stamp_of(path: Path) -> int:
    """A number that changes when the file is replaced."""
    try:
        status = path.stat()
    except FileNotFoundError:
        raise CacheError(f"{path} is missing") from None
    return hash((status.st_mtime_ns, status.st_ino, status.st_size))


def check_meta(meta: dict[str, Any], path: Path) -> None:
    """Refuse metadata that do not describe a cache, with the key that is wrong."""
    for key, is_right in _META.items():
        if key not in meta or not is_right(meta[key]):
            raise CacheError(f"{path} is damaged: its {key!r} makes no sense")


def check_marker(marker: dict[str, Any], frame: int, path: Path) -> None:
    """Refuse a marker that does not describe its frame."""
    row = marker.get("row")
    good = isinstance(row, dict) and isinstance(marker.get("saved"), bool) and marker.get("frame") == frame
    if not good or not all(_is_cell(name, value) for name, value in row.items()):  # type: ignore[union-attr]
        raise CacheError(f"{path} is damaged: it does not describe frame {frame}")


def vertex_count(meta: dict[str, Any]) -> int:
    """How many vertices the bodies have, counted to the last of them."""
    return max((body["vertices"][1] for body in meta["bodies"]), default=0)


def face_count(meta: dict[str, Any]) -> int:
    """How many triangles the bodies have, counted to the last of them."""
    return max((body["faces"][1] for body in meta["bodies"]), default=0)


def _is_cell(name: str, value: Any) -> bool:
    """Whether a value can stand in a column of the report."""
    if name == "status":
        return isinstance(value, str)
    if name in NUMBERS:
        return _is_number(value)
    if name == "stretch":
        return isinstance(value, float) or _is_number(value)
    return value is None or isinstance(value, str | bool | float) or _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63


def _is_whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_range(value: Any) -> bool:
    pair = isinstance(value, list) and len(value) == 2 and all(_is_whole(v, 0, 2**31) for v in value)
    return pair and value[0] <= value[1]


def _is_body(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("name"), str)
        and value.get("kind") in ("cloth", "collider")
        and _is_range(value.get("vertices"))
        and _is_range(value.get("faces"))
    )


def _is_scene(value: Any) -> bool:
    return value is None or (
        isinstance(value, dict) and all(isinstance(value.get(key), str) for key in ("text", "base", "source"))
    )


def _is_origin(value: Any) -> bool:
    finish = value.get("finish", {}) if isinstance(value, dict) else None
    return isinstance(finish, dict) and _is_whole(finish.get("total", 0), 0, MOST_LEVELS)


_META: dict[str, Callable[[Any], bool]] = {
    "version": lambda value: isinstance(value, str),
    "fps": lambda value: _is_number(value) and value > 0,
    "frames": lambda value: _is_whole(value, 0, MOST_FRAMES),
    "bodies": lambda value: isinstance(value, list) and all(map(_is_body, value)),
    "uv": lambda value: isinstance(value, bool),
    "scene": _is_scene,
    "origin": _is_origin,
}
