"""Nobody sees half of an export: files and folders are made aside and take their place when they are whole."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from weft.errors import WeftError, writing


@contextmanager
def staged_folder(folder: Path, names: Sequence[str], *, overwrite: bool) -> Iterator[Path]:
    """A folder to write `names` into; at the end they move to `folder`, where they may replace what has their name."""
    if folder.exists() and not folder.is_dir():
        raise WeftError(f"{folder} is a file: give a folder")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise WeftError(f"{folder} is not empty: choose another folder, or say --overwrite")
    whole = folder.resolve()
    staged = whole.with_name(f".{whole.name}.{os.getpid()}.partial")
    try:
        with writing(folder):
            staged.mkdir(parents=True)
            yield staged
            folder.mkdir(parents=True, exist_ok=True)
            for name in names:
                (staged / name).replace(folder / name)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


@contextmanager
def staged_file(path: Path, *, overwrite: bool) -> Iterator[Path]:
    """A file to write instead of `path`; it takes that place at the end."""
    if path.is_dir():
        raise WeftError(f"{path} is a folder: give a file")
    if path.exists() and not overwrite:
        raise WeftError(f"{path} exists already: choose another name, or say --overwrite")
    staged = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield staged
            staged.replace(path)
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)
