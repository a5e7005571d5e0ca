"""Computing damaged frames of a cache again, without touching the others."""

from pathlib import Path

import numpy as np

from weft.cache import Cache, CacheWriter, FrameWriter, layout, open_cache
from weft.cache.writer import Checkpoint
from weft.errors import CacheError
from weft.run.origin import differences
from weft.run.progress import Bar, Progress
from weft.run.runner import ComputedFrame, SceneRun


def repair(path: str | Path, *, progress: bool = False) -> list[int]:
    """Compute the damaged frames of a cache again and write only those; returns their numbers.

    The simulation starts from the last frame before them that keeps what its method needs to continue, mostly frame 0.
    Intact frames on the way, and the one after a damaged frame, must come out as they are in the cache before anything
    is written: if not, this weft or this machine computes differently from the one that wrote it.
    """
    cache = open_cache(path)
    damaged = cache.damaged()
    if not damaged:
        return []
    scene = cache.scene
    with Bar(scene.name) if progress else Progress() as show, CacheWriter.resume(path) as writer:
        run = SceneRun(scene)
        if found := differences(cache.origin, run.origin):
            raise CacheError(f"{path} cannot be repaired, its scene has changed: {'; '.join(found[:3])}")
        start = _checkpoint_before(cache, damaged[0])
        if start is not None:
            run.restore(start)
        first = 0 if start is None else start.frame + 1
        # one intact frame after the damaged ones shows that they are the same as before
        stop = damaged[-1] + (2 if cache.has(damaged[-1] + 1) else 1)
        show.begin(first, stop)
        waiting: dict[int, ComputedFrame] = {}
        frames = FrameWriter(path)
        for frame in range(first, stop):
            computed = run.compute(frame, writer.path)
            if frame in damaged:
                waiting[frame] = computed
            elif not np.array_equal(computed.positions, np.asarray(frames.arrays["positions"][frame])):
                raise CacheError(
                    f"{path} cannot be repaired here: frame {frame}, which is intact, comes out differently "
                    f"(it was written by weft {cache.meta['version']})"
                )
            if frame not in damaged or frame == stop - 1:
                _write(writer, frames, waiting)
            show.advance(computed.row)
    return damaged


def _write(writer: CacheWriter, frames: FrameWriter, waiting: dict[int, ComputedFrame]) -> None:
    """Write the frames that wait."""
    for frame, computed in waiting.items():
        frames.write(frame, *computed)
        writer.adopt(frame)
    waiting.clear()


def _checkpoint_before(cache: Cache, frame: int) -> Checkpoint | None:
    """The last frame before a given one that keeps the arrays to continue from."""
    kept = (path.stem for path in layout.saved_folder(cache.path).glob("*.npz"))
    for earlier in sorted((int(name) for name in kept if name.isdigit() and int(name) < frame), reverse=True):
        try:
            data = cache.positions(earlier), cache.velocities(earlier), cache.row(earlier)
            return Checkpoint(earlier, *data, cache.saved(earlier))
        except CacheError:
            continue
    return None
