"""Subdividing, checking and drawing the frames of a cache on workers.

The result of a frame depends on that frame alone, so the order and the place of computation do not matter. Workers must
see the caches under the same paths as the caller.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cache import Cache, CacheWriter, FrameWriter, choose_frames, layout, open_cache
from weft.cache.frames import Frames
from weft.errors import CacheError, WeftError
from weft.farm.cluster import Farm, connect
from weft.run.interrupt import StopAtFrame
from weft.view.light import FILM
from weft.view.pictures import Look, Picture, open_stage, write_film

if TYPE_CHECKING:
    from weft.check import CheckResult, FrameCheck
    from weft.finish.workers import Plan

Progress = Callable[[int, int], object]

# one frame at a time in a process, even if its worker has several threads: kernels use all cores, and a window belongs
# to one thread
_busy = threading.Lock()
_windows = threading.local()


@dataclass(frozen=True)
class Finish:
    """Finish frame `source` of the plan's cache and write it as frame `frame` of `out`."""

    plan: "Plan"
    out: str
    stamp: str
    frame: int
    source: int


@dataclass(frozen=True)
class Check:
    """Count the intersections of a frame."""

    cache: str
    stamp: str
    frame: int
    colliders: bool
    seams: bool


@dataclass(frozen=True)
class Draw:
    """Draw a frame with these options."""

    cache: str
    stamp: str
    frame: int
    look: Look


def subdivide_on(scheduler: str, source: str | Path | Cache, out: str | Path, **options: Any) -> Cache:
    """`weft.subdivide`, with the same options and the same result, on the workers of a Dask scheduler."""
    from weft.finish import subdivide

    return subdivide(source, out, **options, elsewhere=partial(finish_on, scheduler))


def finish_on(
    scheduler: str, writer: CacheWriter, plan: "Plan", sources: Sequence[int], progress: Progress | None = None
) -> None:
    """Finish the frames that the writer's cache lacks; workers write them there themselves."""
    missing = writer.missing()
    done, planned = len(sources) - len(missing), len(sources)
    out, stamp = str(writer.path.absolute()), stamp_of(writer.path)
    jobs = [Finish(plan, out, stamp, frame, sources[frame]) for frame in missing]
    if progress is not None:
        progress(done, planned)
    if not jobs:
        return
    with connect(scheduler, gpus=plan.device.startswith("cuda")) as farm, StopAtFrame(say=progress is not None) as stop:
        for number, result in farm.map_unordered(finish_one, jobs, needs=_needs(farm, plan.device)):
            if isinstance(result, WeftError):
                raise type(result)(f"frame {jobs[number].frame} was not finished: {result}")
            writer.adopt(jobs[number].frame)
            done += 1
            if progress is not None:
                progress(done, planned)
            if stop.asked and done < planned:
                raise KeyboardInterrupt
    # temporary files of workers that died
    layout.remove_partials(writer.path)


def finish_one(job: Finish) -> int:
    """Finish a frame and write it."""
    from weft.finish.workers import finish_frame

    with _busy:
        result = finish_frame(job.plan, job.source)
        if stamp_of(Path(job.out)) != job.stamp:
            raise CacheError(f"{job.out} was replaced while it was written")
        _frame_writer(job.out, job.stamp).write(
            job.frame, result.positions, result.velocities, {"frame": job.frame, **result.row}
        )
    return job.frame


def check_on(
    scheduler: str,
    cache: Cache,
    *,
    frames: Frames = None,
    colliders: bool = True,
    seams: bool = True,
    progress: "Callable[[FrameCheck, int], None] | None" = None,
) -> "CheckResult":
    """`check_cache` on workers, with the same result."""
    from weft.check import CheckResult

    wanted = choose_frames(cache, frames)
    path, stamp = str(cache.path.absolute()), stamp_of(cache.path)
    jobs = [Check(path, stamp, frame, colliders, seams) for frame in wanted]
    found: dict[int, FrameCheck] = {}
    with connect(scheduler) as farm:
        for number, result in farm.map_unordered(check_one, jobs):
            if isinstance(result, WeftError):
                raise result
            found[number] = result
            if progress is not None:
                progress(result, len(jobs))
    return CheckResult(tuple(found[number] for number in range(len(jobs))))


def check_one(job: Check) -> "FrameCheck":
    """Count the intersections of one frame."""
    from weft.check import check_frame

    with _busy:
        cache, finder = _finder(job.cache, job.stamp, job.colliders, job.seams)
        return check_frame(cache, finder, job.frame)


def film_on(
    scheduler: str,
    cache: Cache,
    path: str | Path,
    look: Look,
    *,
    frames: Frames = None,
    fps: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """`draw_film`, with the same result: pictures are drawn on workers and encoded here."""
    place, stamp = str(cache.path.absolute()), stamp_of(cache.path)

    @contextmanager
    def pictures(even: Look, frames: Sequence[int]) -> Iterator[Iterator[Picture]]:
        with connect(scheduler) as farm:
            yield _in_order(farm, [Draw(place, stamp, frame, even) for frame in frames])

    return write_film(cache, path, look, pictures, frames=frames, fps=fps, progress=progress)


def draw_one(job: Draw) -> Any:
    """The picture of a frame, (height, width, 3) bytes."""
    from weft.check import crossing_marks

    with _busy:
        stage = _stage(job)
        if job.look.samples is not None:
            return stage.draw(job.frame)
        marks = crossing_marks(open_cache(job.cache), job.frame) if job.look.crossings else None
        return stage.draw(job.frame, marks)


def _in_order(farm: Farm, jobs: Sequence[Draw]) -> Iterator[Any]:
    """Pictures in the order of the film; a few are drawn ahead and kept until the earlier ones have arrived."""
    waiting: dict[int, Any] = {}
    following = 0
    for number, picture in farm.map_unordered(draw_one, jobs, ahead=3 * len(farm.workers)):
        if isinstance(picture, WeftError):
            raise picture
        waiting[number] = picture
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def stamp_of(path: Path) -> str:
    """A text that changes when a cache is replaced by another, but not when it grows."""
    try:
        folder = path.stat()
        return f"{folder.st_dev}:{folder.st_ino}:{layout.read_meta(path)['origin'].get('geometry', '')}"
    except OSError as error:
        raise CacheError(f"{path} cannot be read: {layout.reason(error)}") from None


def _needs(farm: Farm, device: str) -> Callable[[Any], dict[str, float]]:
    if not device.startswith("cuda"):
        return lambda job: {}
    farm.check_gpus()
    return lambda job: {"GPU": 1.0}


@lru_cache(maxsize=1)
def _frame_writer(path: str, stamp: str) -> FrameWriter:
    return FrameWriter(path)


@lru_cache(maxsize=1)
def _finder(path: str, stamp: str, colliders: bool, seams: bool) -> tuple[Cache, Any]:
    from weft.check import cache_finder

    cache = open_cache(path)
    return cache, cache_finder(cache, colliders=colliders, seams=seams)


def _stage(job: Draw) -> Any:
    """The stage that draws the frames of a cache, kept for the next frame; a window belongs to the thread that made it."""
    mark = (job.cache, job.stamp, job.look)
    if getattr(_windows, "mark", None) != mark:
        if getattr(_windows, "stage", None) is not None:
            _windows.stage.__exit__(None, None, None)
        _windows.stage, _windows.mark = open_stage(open_cache(job.cache), job.look, FILM).__enter__(), mark
    return _windows.stage
