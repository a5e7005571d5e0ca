"""Estimates how long a frame takes while it is computed, and stops a run whose frames would not end."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.run.progress import span

# s of a frame before its time is estimated
FIRST_ESTIMATE = 10.0
# s; a frame that takes longer than that is announced
LONG = 120.0
# s; a frame that takes longer than that is stopped where no earlier frame tells what is usual
TOO_LONG = 3600.0
# a frame is stopped too if it takes so many times as long as is usual, and longer than LONG
TIMES_USUAL = 100.0


class FrameWatch:
    """Called at the start of each step of a method; `force` lets every frame take its time."""

    def __init__(self, fps: float, *, say: Callable[[str], None], force: bool = False) -> None:
        self.fps, self.force, self.say = fps, force, say
        self._times: list[float] = []
        self._frame = 0
        self._began = time.perf_counter()
        self._first: tuple[float, float] | None = None
        self._announced = True

    def begin(self, frame: int) -> None:
        """A frame begins."""
        self._frame, self._first, self._announced = frame, None, False
        self._began = time.perf_counter()

    def end(self) -> None:
        """The frame is complete; how long it took counts as usual."""
        self._times.append(time.perf_counter() - self._began)

    def on_step(self, state: Any) -> None:
        """A step of the frame begins at `state.time`."""
        now, done = time.perf_counter(), state.time * self.fps - state.frame
        if self._first is None:
            # the first step may compile kernels
            self._first = (now, done) if done > 0.0 else None
        if now - self._began < FIRST_ESTIMATE or self.force:
            return
        total = now - self._began
        if self._first is not None and done > self._first[1]:
            total = max(total, (now - self._first[0]) / (done - self._first[1]))
        usual = float(np.median(self._times)) if self._times else None
        limit = TOO_LONG if usual is None else max(LONG, TIMES_USUAL * usual)
        if total > limit:
            instead = "" if usual is None else f" instead of {span(usual)}"
            raise WeftError(
                f"frame {self._frame} would take about {span(total)}{instead} (one {1 / max(done, 1e-12):.2g}th of it is done "
                f"after {span(now - self._began)}), so the run stops; the frames before it are kept. Fewer or larger "
                "triangles, softer cloth, slower motion or more frames a second help, and force (--force) waits for it"
            )
        if total > LONG and not self._announced:
            self._announced = True
            self.say(f"frame {self._frame} will take about {span(total)}")
