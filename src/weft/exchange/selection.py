"""What every export has in common: the selected frames and bodies, temporary files, and the check of rounding.

Files and folders are written under temporary names and renamed, so that an export appears complete or not at all.
"""

import os
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.cache.frames import Frames, choose_frames
from weft.errors import WeftError, WeftWarning, writing
from weft.mesh import Details

if TYPE_CHECKING:
    from weft.cache import Body, Cache


Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Exported:
    """The files and frames that were written."""

    paths: list[Path]
    frames: list[int]
    rounding: dict[int, int] = field(default_factory=dict)
    """frame -> intersections that are in the file and not in the cache: made by rounding to 32 bits"""


class Selection:
    """Frames and bodies of a cache."""

    def __init__(self, cache: "Cache", frames: Frames = None, bodies: Iterable[str] | None = None) -> None:
        self.cache = cache
        self.frames = choose_frames(cache, frames)
        self.bodies: list[Body] = choose_bodies(cache, bodies)
        if not self.bodies:
            raise WeftError("there is nothing to export: the cache has no bodies, or the choice of bodies is empty")
        self.vertices: NDArray[np.intp] = np.concatenate(
            [np.arange(b.vertices.start, b.vertices.stop) for b in self.bodies]
        )
        """the vertices of the cache that are written, in order"""

    def faces(self, body: "Body") -> Ints:
        """A body's triangles, by its own vertices."""
        return self.cache.faces[body.faces] - np.int32(body.vertices.start)

    def uv(self, body: "Body") -> Floats | None:
        """A body's flat rest coordinates in metres, if all its vertices have some."""
        if self.cache.uv is None:
            return None
        own = np.asarray(self.cache.uv[body.vertices])
        return own if len(own) and np.isfinite(own).all() else None

    def details(self, body: "Body") -> Details:
        """Names, texture coordinates, polygons and attributes of a body."""
        return self.cache[body.name].details

    def corner_uv(self, body: "Body") -> Floats | None:
        """(m, 3, 2) texture coordinates of a body's corners: those of its mesh, else its flat rest coordinates in metres."""
        own, flat = self.details(body).corner_uv, self.uv(body)
        return own if own is not None else None if flat is None else flat[self.faces(body)]

    def colour(self, body: "Body") -> Floats:
        """A body's colour, sRGB in 0 to 1: the scene's, or one of the palette, as in pictures."""
        from weft.cache import scene_of
        from weft.scene.colours import body_colours

        pairs = body_colours(self.cache.bodies, scene_of(self.cache))
        return pairs[self.cache.bodies.index(body)].front

    def moving(self) -> list[bool]:
        """Which bodies move during the frames; reads all of them."""
        first = self.cache.positions(self.frames[0])
        moving = [False] * len(self.bodies)
        for frame in self.frames[1:]:
            if all(moving):
                break
            x = self.cache.positions(frame)
            moving = [
                known or not np.array_equal(x[b.vertices], first[b.vertices])
                for known, b in zip(moving, self.bodies, strict=True)
            ]
        return moving


@dataclass(frozen=True)
class Job:
    """What is to be written, where to, and how."""

    selection: Selection
    path: Path
    """a file or a folder, as the format has it"""
    format: str
    overwrite: bool = False
    check: bool = True
    """count the intersections that rounding makes"""
    progress: Report | None = None

    def frames(self) -> Iterator[int]:
        """The frames, one after another; progress is reported after each."""
        count = len(self.selection.frames)
        for done, frame in enumerate(self.selection.frames, start=1):
            yield frame
            if self.progress is not None:
                self.progress(done, count)

    def count_rounding(self, read: Callable[[int], Singles]) -> dict[int, int]:
        """See `find_made_by_rounding`; nothing where it is not to be checked."""
        return find_made_by_rounding(self.selection, read) if self.check else {}


def file_names(bodies: Sequence["Body"]) -> list[str]:
    """A name for each body that every file system accepts, all different."""
    names: list[str] = []
    for body in bodies:
        plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in body.name) or "body"
        number, name = 1, plain
        while name.lower() in {n.lower() for n in names}:
            number += 1
            name = f"{plain}_{number}"
        names.append(name)
    return names


def choose_bodies(cache: "Cache", names: Iterable[str] | None) -> list["Body"]:
    """The bodies with these names, in the order of the cache; all of them for None."""
    if names is None:
        return list(cache.bodies)
    wanted = list(names)
    known = [body.name for body in cache.bodies]
    for name in wanted:
        if name not in known:
            raise WeftError(f"there is no body {name!r}: the cache has {', '.join(known)}")
    return [body for body in cache.bodies if body.name in wanted]


@contextmanager
def staged_folder(job: Job) -> Iterator[Path]:
    """A temporary folder to write files into; at the end they move to the job's folder, replacing files of the same name."""
    folder, overwrite = job.path, job.overwrite
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
            if not folder.exists():
                staged.rename(folder)
                return
            for path in list(staged.iterdir()):
                path.replace(folder / path.name)
    finally:
        shutil.rmtree(staged, ignore_errors=True)


@contextmanager
def staged_file(job: Job) -> Iterator[Path]:
    """A temporary file to write to; at the end it is renamed to that of the job."""
    path, overwrite = job.path, job.overwrite
    if path.is_dir():
        raise WeftError(f"{path} is a folder: give a file")
    if path.exists() and not overwrite:
        raise WeftError(f"{path} exists already: choose another name, or say --overwrite")
    staged = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            # a folder that cannot be written is found here, before a library that would report it in its own way
            staged.touch()
            staged.unlink()
            yield staged
            staged.replace(path)
    finally:
        with suppress(OSError):
            staged.unlink(missing_ok=True)


def check_room(path: Path, size: int) -> None:
    """Refuse to begin a file of about so many bytes that the disk has no room for."""
    folder = path.absolute().parent
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if free < size:
        raise WeftError(
            f"cannot write {path}: it takes about {size / 1e6:.3g} MB, and the disk has {free / 1e6:.3g} MB left"
        )


def find_made_by_rounding(
    selection: Selection, read: Callable[[int], Singles], progress: Report | None = None
) -> dict[int, int]:
    """Frame -> number of intersections in the file that the cache does not have, for frames with any.

    read(k) returns the positions in the file of the k-th selected frame.
    """
    from weft.check import cache_finder

    finder = cache_finder(selection.cache)
    found = {}
    for k, frame in enumerate(selection.frames):
        exact = selection.cache.positions(frame)
        rounded = exact.copy()
        rounded[selection.vertices] = read(k)
        rows = finder.find(rounded)
        if len(rows):
            known = {tuple(row) for row in finder.find(exact).tolist()}
            made = sum(tuple(row) not in known for row in rows.tolist())
            if made:
                found[frame] = made
        if progress is not None:
            progress(k + 1, len(selection.frames))
    return found


def warn_of_rounding(found: dict[int, int], what: str) -> None:
    """Warn of intersections that rounding made."""
    if found:
        frame = next(iter(found))
        frames = "1 frame" if len(found) == 1 else f"{len(found)} frames"
        warnings.warn(
            f"{what} holds positions with 32 bits, and rounding to them made {int(np.sum(list(found.values())))} "
            f"intersections that the cache has not, in {frames}, first frame {frame}; npz and ply keep 64 bits",
            WeftWarning,
            stacklevel=3,
        )
