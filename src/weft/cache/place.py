"""The place where a cache goes: it is taken whole or not at all, and nobody loses what was there without a word."""

import glob
import os
import shutil
from pathlib import Path

from weft.cache import layout
from weft.cache.lock import WriterLock, is_running
from weft.cache.reader import Cache
from weft.errors import CacheError


def check_free(path: Path, overwrite: bool) -> None:
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


def move_in(made: Path, path: Path, overwrite: bool) -> None:
    """Move the new cache to its place; an old one is removed after that, and only if nobody writes it."""
    old = aside(path, "old")
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
    if path.exists() and overwrite:
        lock = WriterLock(layout.lock_path(path), path)
        lock.release()
        path.rename(old)
    try:
        made.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def aside(path: Path, what: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}.{what}{layout.PARTIAL}")


def remove_leftovers(path: Path) -> None:
    """Remove what processes that are gone have left beside a cache while they made it."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{layout.PARTIAL}"):
        pid = left.name.removeprefix(f".{path.name}.").split(".")[0]
        if not is_running(pid) or pid == str(os.getpid()):
            shutil.rmtree(left, ignore_errors=True)
