"""Processes that finish frames side by side. Each is a Python of its own that runs `weft.finish.worker`.

They are not made by `multiprocessing`, which would run the caller's script again and so asks every script for a guard.
"""

import contextlib
import os
import pickle
import queue
import subprocess
import sys
from collections.abc import Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from weft.errors import WeftError
from weft.finish.jobs import Plan, Result, finish_frame


class WorkerDied(WeftError):
    """A process ended before its frame was finished."""


class Worker:
    """One process, given a frame at a time."""

    def __init__(self, plan: Plan, threads: int) -> None:
        environment = {**os.environ, "WEFT_THREADS": str(threads)}
        # a session of its own: Ctrl-C is for the parent, which lets the frame at hand be finished
        self._process = subprocess.Popen(
            [sys.executable, "-m", "weft.finish.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._send(plan)

    def run(self, frame: int) -> Result:
        """Finish a frame; what goes wrong there is raised here."""
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
    """The finished frames in order; a few are worked on ahead of the one that is asked for."""
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
        # so many frames may wait for an earlier one
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
