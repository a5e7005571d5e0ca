"""What the metadata and the frame markers of a cache must be: a file that fits its checksum may still be made by hand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import CacheError

# frame numbers have eight digits
MOST_FRAMES = 10**8
# subdivisions of a cache; each makes four triangles of one
MOST_LEVELS = 12
# columns of the report that are numbers, and read as such
NUMBERS = ("frame", "time", "wall_time", "steps", "contacts", "collisions", "zones", "intersections")


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
