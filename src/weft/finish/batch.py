"""`subdivide`: from a cache to a finer, smoother one; every frame is finished by itself, several at a time."""

import hashlib
import json
import os
import warnings
from collections.abc import Callable, Generator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from weft.cache import Cache, CacheWriter, choose_frames, open_cache
from weft.cache.frames import Frames
from weft.errors import CacheError, WeftError, WeftWarning
from weft.finish.levels import split_all_details, split_uv
from weft.finish.stop import NEAR
from weft.finish.workers import Plan, Result, finish_frames, make_finisher
from weft.mesh.subdivide import Weights
from weft.run.interrupt import Interrupted, StopAtFrame
from weft.runtime import get_threads


def start_of(cache: Cache) -> str:
    """A hash of the triangles and the first frame of a cache, and of what it was made from."""
    start = hashlib.sha256(cache.positions(0).tobytes())
    start.update(cache.faces.tobytes())
    start.update(json.dumps(cache.origin, sort_keys=True).encode())
    return start.hexdigest()


Progress = Callable[[int, int], None]
FinishElsewhere = Callable[[CacheWriter, Plan, Sequence[int], Progress | None], None]
"""Writes the frames that a cache lacks, given the plan and the frame of the source for each frame of the cache."""


def subdivide(
    source: str | Path | Cache,
    out: str | Path,
    *,
    levels: int = 2,
    weights: Weights = "loop",
    frames: Frames = None,
    processes: int | None = None,
    near: float = NEAR,
    check: bool = True,
    compare: bool = False,
    device: str = "cpu",
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    elsewhere: FinishElsewhere | None = None,
) -> Cache:
    """Subdivide and smooth the cloth of every frame of a cache, without new intersections, into the cache `out`.

    Each level has four times as many triangles. Colliders stay as they are. Frames are independent of each other;
    several processes work on them (`processes`: by default as many as there are cores).

    weights: those of Loop's rule, "loop" (1987) or "bounded" (2001: bounded curvature at vertices without six neighbours).
    frames: only these frames of the source, in this order; all complete ones unless given. Every k-th frame makes a
        cache with 1/k of the frame rate.
    near: metres; the distance that surfaces keep which are at least twice as far apart at the start.
    check: count the intersections of every finished frame (column `intersections`).
    compare: count also those that Loop subdivision without collision handling makes (`plain_intersections`).
    resume: continue `out` where it stopped; it must come from the same source. overwrite: replace it.
    progress: called with (frames done, frames in all) after every frame.
    elsewhere: called instead of working here; it must write every frame that `out` lacks, in any order. See
        `weft.farm.frames.subdivide_on`, which hands the frames to the workers of a Dask scheduler.
    """
    cache = source if isinstance(source, Cache) else open_cache(source)
    out = Path(out)
    if resume and overwrite:
        raise CacheError("resume continues a cache and overwrite replaces it: choose one of them")
    if out.resolve() == cache.path.resolve():
        raise CacheError(f"{out} is the cache that is to be subdivided: choose another output")
    chosen = choose_frames(cache, frames)
    if processes is not None and processes < 1:
        raise WeftError(f"processes must be at least 1, not {processes}")
    plan = Plan(cache.path.absolute(), start_of(cache), levels, near, check, compare, device, weights)
    gaps = elsewhere is not None
    with _open(cache, plan, out, chosen, resume=resume, overwrite=overwrite, gaps=gaps) as writer:
        left = chosen[writer.frames :]
        try:
            if elsewhere is not None:
                elsewhere(writer, plan, chosen, progress)
                return open_cache(out)
            count = min(processes or os.cpu_count() or 1, max(len(left), 1))
            results = finish_frames(plan, left, count, max(1, get_threads() // count))
            _write(writer, results, len(left), progress)
        except KeyboardInterrupt:
            raise Interrupted(writer.path, writer.frames, writer.cache.planned) from None
    return open_cache(out)


def _write(
    writer: CacheWriter,
    results: Generator[Result, None, None],
    left: int,
    progress: Progress | None,
) -> None:
    """Append the finished frames to the cache; after Ctrl-C, stop at a whole frame."""
    done, planned = writer.frames, writer.frames + left
    with StopAtFrame(say=progress is not None) as stop:
        try:
            if progress is not None:
                progress(done, planned)
            for result in results:
                done += 1
                writer.append(result.positions, result.velocities, {"frame": done - 1, **result.row})
                if progress is not None:
                    progress(done, planned)
                if stop.asked and done < planned:
                    raise KeyboardInterrupt
        finally:
            results.close()


def _open(
    cache: Cache, plan: Plan, out: Path, frames: list[int], *, resume: bool, overwrite: bool, gaps: bool
) -> CacheWriter:
    """The cache to write to: a new one, or an existing one to resume if it was made in the same way.

    gaps: keep frames of an existing cache that come after a missing one.
    """
    origin = _origin(cache, plan, frames)
    if resume and out.exists():
        _check_same(open_cache(out), origin, out)
        writer = CacheWriter.resume(out, frames=len(frames))
        if gaps:
            return writer
        writer.close_gap()
        _, problems = writer.checkpoint()
        for problem in problems:
            warnings.warn(f"{problem}; frames from there on are made again", WeftWarning, stacklevel=3)
        return writer
    finisher = make_finisher(cache, plan)
    finest = finisher.levels[-1]
    return CacheWriter.create(
        out,
        frames=len(frames),
        faces=finest.faces,
        bodies=finest.bodies,
        fps=cache.fps / _stride(frames),
        uv=split_uv(finisher.levels, cache.uv),
        scene=cache.scene if cache.meta["scene"] is not None else None,
        origin=origin,
        details=split_all_details(finisher.levels, [cache[body.name].details for body in cache.bodies]),
        overwrite=overwrite,
    )


def _stride(frames: list[int]) -> int:
    """The step between the chosen frames of the source if it is always the same; else 1."""
    steps = {after - before for before, after in pairwise(frames)}
    return max(1, steps.pop()) if len(steps) == 1 else 1


def _origin(cache: Cache, plan: Plan, frames: list[int]) -> dict[str, Any]:
    """Metadata on what the frames were made from. `geometry` differs from the source's, so that no simulation resumes it."""
    total = plan.levels + cache.origin.get("finish", {}).get("total", 0)
    made = {"levels": plan.levels, "total": total, "weights": plan.weights, "near": plan.near}
    made["source"] = plan.start
    # consecutive frames from 0 on may be continued by more of them
    some = frames if frames != list(range(len(frames))) else None
    return {**cache.origin, "geometry": "finished", "finish": {**made, "frames": some}}


def _check_same(made: Cache, origin: dict[str, Any], out: Path) -> None:
    before, now = made.origin.get("finish"), origin["finish"]
    if before is None:
        raise CacheError(f"{out} was not made by subdivision and cannot be continued: choose another output")
    # caches of older versions do not name their weights
    before = {"weights": "loop", **before}
    keys = "levels", "weights", "near"
    differing = [f"{key} was {before.get(key)}, is {now[key]}" for key in keys if before.get(key) != now[key]]
    differing += ["the source is another"] if before.get("source") != now["source"] else []
    differing += ["other frames were chosen"] if before.get("frames") != now["frames"] else []
    if differing:
        raise CacheError(
            f"{out} was made from something else and cannot be continued: {', '.join(differing)}. "
            "Choose another output, or replace it with --overwrite"
        )
