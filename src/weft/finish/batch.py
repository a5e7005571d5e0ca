"""`subdivide`: from a cache to a finer, smoother one; every frame is finished by itself, several at a time.

`finish_frame` reads a frame, finishes it, counts intersections and gives the columns of the report. `finish_frames` does so
in worker processes, each a Python of its own that reads a plan and frame numbers from its standard input and answers with
finished frames. They are not made by `multiprocessing`, which would import the caller's script again and therefore requires
a `__main__` guard in every script.
"""

import contextlib
import hashlib
import json
import os
import pickle
import queue
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.cache import Cache, CacheWriter, open_cache
from weft.cache.seams import sewn_triangles
from weft.errors import CacheError, WeftError, WeftWarning
from weft.finish.finisher import Finished, Finisher
from weft.finish.levels import split_all_details, split_uv
from weft.finish.stop import NEAR
from weft.mesh.subdivide import Weights
from weft.run.interrupt import Interrupted, StopAtFrame
from weft.runtime import get_threads

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What is done with every frame of a cache."""

    source: Path
    start: str
    """hash of the start of the source (see `start_of`): another run at the same place is another plan"""
    levels: int
    near: float
    check: bool
    compare: bool
    device: str
    weights: Weights = "loop"


class Result(NamedTuple):
    """A finished frame, and its columns of the report by name."""

    positions: Floats
    velocities: Floats
    row: dict[str, Any]


def finish_frame(plan: Plan, frame: int) -> Result:
    """Finish one frame of the plan's source; the result depends on the plan and the frame alone.

    What all frames share is computed once in each process, and kept for the plan that was used last.
    """
    return _job(plan).run(frame)


class Job:
    """Finishes frames of one cache in one process."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.cache = open_cache(plan.source)
        self.finisher = make_finisher(self.cache, plan)

    def run(self, frame: int) -> Result:
        """Finish one frame of the source."""
        began = time.perf_counter()
        source = self.cache.positions(frame)
        finished = self.finisher.finish(source, self.cache.velocities(frame))
        wall_time = time.perf_counter() - began
        row = {"time": frame / self.cache.fps, "wall_time": wall_time, **columns(finished)}
        problems = list(finished.problems)
        if self.plan.check:
            found = self.finisher.intersections(finished.positions)
            row["intersections"] = len(found)
            known = self.finisher.source_pairs(finished.kept, 0)
            fresh = len(self.finisher.source_pairs(found) - known)
            if fresh:
                problems.append(f"{fresh} pairs of triangles intersect that did not before")
        if self.plan.compare:
            row["plain_intersections"] = len(self.finisher.intersections(self.finisher.plain(source)))
        row["status"] = "; ".join(problems) or "ok"
        assert finished.velocities is not None
        return Result(finished.positions, finished.velocities, row)


@lru_cache(maxsize=1)
def _job(plan: Plan) -> Job:
    return Job(plan)


def make_finisher(cache: Cache, plan: Plan) -> Finisher:
    """The finisher for the frames of a cache."""
    return Finisher(
        cache.bodies,
        cache.faces,
        cache.positions(0),
        levels=plan.levels,
        sewn=sewn_triangles(cache),
        near=plan.near,
        device=plan.device,
        weights=plan.weights,
    )


def start_of(cache: Cache) -> str:
    """A hash of the triangles and the first frame of a cache, and of what it was made from."""
    start = hashlib.sha256(cache.positions(0).tobytes())
    start.update(cache.faces.tobytes())
    start.update(json.dumps(cache.origin, sort_keys=True).encode())
    return start.hexdigest()


def columns(finished: Finished) -> dict[str, Any]:
    """The columns of the report about the finishing itself."""
    each = {f"stopped_{level}": count for level, count in enumerate(finished.stopped, start=1)}
    return {
        "stopped": sum(finished.stopped),
        **each,
        "rounds": finished.rounds,
        "pushed": finished.pushed,
        "held": finished.held,
        "source_intersections": finished.before,
        "intersections": -1,
    }


class WorkerDied(WeftError):
    """A process ended before its frame was finished."""


class Worker:
    """One worker process, which finishes one frame at a time."""

    def __init__(self, plan: Plan, threads: int) -> None:
        environment = {**os.environ, "WEFT_THREADS": str(threads)}
        # a session of its own: Ctrl-C reaches the parent only, which lets the current frame be finished
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from weft.finish.batch import run_worker; run_worker()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._send(plan)

    def run(self, frame: int) -> Result:
        """Finish a frame in the worker process; its errors are raised here."""
        self._send(frame)
        assert self._process.stdout is not None
        try:
            answer = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError):
            code = self._process.wait()
            why = "it was killed, perhaps for want of memory" if code < 0 else f"its exit code is {code}"
            raise WorkerDied(f"the process that finished frame {frame} ended early: {why}. Try --processes 1") from None
        if isinstance(answer, BaseException):
            raise answer
        return Result(*answer)

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _send(self, what: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(what, self._process.stdin)
            self._process.stdin.flush()


def finish_frames(plan: Plan, frames: Sequence[int], processes: int, threads: int) -> Generator[Result, None, None]:
    """The finished frames in order; the workers are a few frames ahead of the one that is yielded."""
    if processes <= 1 or len(frames) <= 1:
        yield from (finish_frame(plan, frame) for frame in frames)
        return
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    workers: list[Worker] = []

    def run(frame: int) -> Result:
        worker = idle.get()
        try:
            return worker.run(frame)
        finally:
            idle.put(worker)

    pool = ThreadPoolExecutor(processes)
    try:
        for _ in range(min(processes, len(frames))):
            workers.append(Worker(plan, threads))
            idle.put(workers[-1])
        # finished frames that may wait for an earlier one
        ahead = 2 * len(workers)
        waiting: list[Future[Result]] = []
        for frame in frames:
            waiting.append(pool.submit(run, frame))
            if len(waiting) >= ahead:
                yield waiting.pop(0).result()
        while waiting:
            yield waiting.pop(0).result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.close()


def run_worker() -> None:
    """The main function of a worker process: answer requests until standard input ends."""
    # answers use the standard output; whatever is printed goes to standard error
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    requests = sys.stdin.buffer
    try:
        serve(requests, answers)
    except (EOFError, BrokenPipeError):
        # the parent process has closed a pipe
        os._exit(0)


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Read a plan, then frame numbers, and answer each with a `Result` as a tuple, or with an exception."""
    plan = pickle.load(requests)
    while True:
        frame = pickle.load(requests)
        answer: object
        try:
            answer = tuple(finish_frame(plan, frame))
        except WeftError as error:
            answer = WeftError(str(error))
        except Exception:
            answer = RuntimeError(f"frame {frame} could not be finished:\n{traceback.format_exc()}")
        pickle.dump(answer, answers, protocol=pickle.HIGHEST_PROTOCOL)
        answers.flush()


Progress = Callable[[int, int], None]
FinishElsewhere = Callable[[CacheWriter, Plan, Sequence[int], Progress | None], None]
"""Writes the frames that a cache lacks, given the plan and the frame of the source for each frame of the cache."""


def subdivide(
    source: str | Path | Cache,
    out: str | Path,
    *,
    levels: int = 2,
    weights: Weights = "loop",
    frames: Sequence[int] | None = None,
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
    chosen = _frames(cache, frames)
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


def _frames(cache: Cache, frames: Sequence[int] | None) -> list[int]:
    count = cache.frames
    if not count:
        raise CacheError(f"{cache.path} has no complete frame yet")
    if frames is None:
        return list(range(count))
    wrong = [frame for frame in frames if not -count <= frame < count]
    if wrong:
        raise CacheError(f"{cache.path} has no frame {wrong[0]}: it has frames 0 to {count - 1}")
    if not frames:
        raise WeftError("there are no frames to subdivide: the choice of frames is empty")
    return [frame % count for frame in frames]


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
