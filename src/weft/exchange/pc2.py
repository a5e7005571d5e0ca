"""Point caches (PC2) with an OBJ for each body: what Blender's Mesh Cache modifier and 3ds Max play.

A PC2 file is 32 bytes of header and then, sample after sample, the positions of all vertices as float32.
"""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weft.exchange.selection import Exported, Floats, Report, Selection, Singles, file_names
from weft.exchange.sequence import Part, to_obj
from weft.exchange.staging import staged_folder

if TYPE_CHECKING:
    from weft.cache import Body, Cache

# signature, version, points, first frame, frames a sample, samples
HEADER = struct.Struct("<12siiffi")
SIGNATURE = b"POINTCACHE2\0"


def export_pc2(
    cache: "Cache",
    folder: str | Path,
    *,
    frames: Sequence[int] | None = None,
    bodies: Iterable[str] | None = None,
    overwrite: bool = False,
    check: bool = True,
    progress: Report | None = None,
) -> Exported:
    """Write `folder/<body>.obj`, the first frame, and `folder/<body>.pc2`, all frames, for every body.

    Sample k of a file is the k-th frame; the header counts them from 0, one sample a frame.
    """
    from weft.exchange.rounding import find_made_by_rounding

    selection = Selection(cache, frames, bodies)
    names = file_names(selection.bodies)
    folder = Path(folder)
    written = [f"{name}.{kind}" for name in names for kind in ("obj", "pc2")]
    with staged_folder(folder, written, overwrite=overwrite) as staged:
        for body, name in zip(selection.bodies, names, strict=True):
            (staged / f"{name}.obj").write_bytes(rest_obj(selection, body))
        files = [(staged / f"{name}.pc2").open("wb") for name in names]
        try:
            for file, body in zip(files, selection.bodies, strict=True):
                count = body.vertices.stop - body.vertices.start
                file.write(HEADER.pack(SIGNATURE, 1, count, 0.0, 1.0, len(selection.frames)))
            for done, frame in enumerate(selection.frames, start=1):
                x = cache.positions(frame).astype("<f4")
                for file, body in zip(files, selection.bodies, strict=True):
                    file.write(x[body.vertices].tobytes())
                if progress is not None:
                    progress(done, len(selection.frames))
        finally:
            for file in files:
                file.close()
        rounding = {}
        if check:
            samples = [read_pc2(staged / f"{name}.pc2") for name in names]
            rounding = find_made_by_rounding(selection, lambda k: np.concatenate([s[k] for s in samples]))
    return Exported([folder / name for name in written], selection.frames, rounding)


def rest_obj(selection: Selection, body: "Body") -> bytes:
    """The first frame of one body as an OBJ."""
    x = selection.cache.positions(selection.frames[0])[body.vertices]
    uv: Floats | None = selection.uv(body)
    return to_obj(x, [Part(body.name, slice(0, len(x)), selection.faces(body))], uv)


def read_pc2(path: str | Path) -> Singles:
    """The samples of a PC2 file, (samples, points, 3), from the disk as they are asked for."""
    from weft.errors import WeftError

    path = Path(path)
    with path.open("rb") as file:
        head = file.read(HEADER.size)
    if len(head) < HEADER.size or not head.startswith(SIGNATURE):
        raise WeftError(f"{path} is no PC2 file")
    _, version, points, _, _, samples = HEADER.unpack(head)
    if version != 1 or points < 0 or samples < 0:
        raise WeftError(f"{path} is damaged, or a PC2 of another version ({version})")
    if path.stat().st_size < HEADER.size + 12 * points * samples:
        raise WeftError(f"{path} is cut short: it says {samples} samples of {points} points")
    if not points or not samples:
        return np.zeros((samples, points, 3), np.float32)
    return np.memmap(path, dtype="<f4", mode="r", offset=HEADER.size, shape=(samples, points, 3))
