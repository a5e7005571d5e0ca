"""Finishing frames of a cache in worker processes, for `subdivide`.

`finish_frame` reads a frame, finishes it, counts intersections and gives the columns of the report. `finish_frames` does so
in worker processes, each a Python of its own that reads a plan and frame numbers from its standard input and answers with
finished frames. They are not made by `multiprocessing`, which would import the caller's script again and therefore requires
a `__main__` guard in every script.
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
import time
import traceback
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.cache import Cache, open_cache
from weft.cache.seams import sewn_triangles
from weft.errors import WeftError
from weft.finish.finisher import Finished, Finisher
from weft.mesh.subdivide import Weights

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Plan:
    """What is done with every frame of a cache."""

    source: Path
    start: str
    """hash of the start of the source (see `batch.start_of`): another run at the same place is another plan"""
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
            [sys.executable, "-c", "from weft.finish.workers import run_worker; run_worker()"],
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
