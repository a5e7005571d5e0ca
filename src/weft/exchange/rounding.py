"""Whether writing positions with 32 bits made cloth intersect that did not: said, never hidden."""

import warnings
from collections.abc import Callable

import numpy as np

from weft.errors import WeftWarning
from weft.exchange.selection import Report, Selection, Singles


def find_made_by_rounding(
    selection: Selection, read: Callable[[int], Singles], progress: Report | None = None
) -> dict[int, int]:
    """Frame -> how many intersections the file has that the cache has not, for frames that have some.

    read(k) gives the positions that the file holds for the k-th chosen frame, as it was written.
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
    """Say in one line what rounding did."""
    if found:
        frame = next(iter(found))
        frames = "1 frame" if len(found) == 1 else f"{len(found)} frames"
        warnings.warn(
            f"{what} holds positions with 32 bits, and rounding to them made {int(np.sum(list(found.values())))} "
            f"intersections that the cache has not, in {frames}, first frame {frame}; npz and ply keep 64 bits",
            WeftWarning,
            stacklevel=3,
        )
