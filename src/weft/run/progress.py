"""Progress of a run on the terminal, its summary at the end, and a watch that stops a run whose frames would not end."""

import shlex
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.cache import Cache
from weft.errors import WeftError, printable

if TYPE_CHECKING:
    from rich.console import Console


# seconds between two lines where there is no terminal
_LOG_SECONDS = 15.0


class Progress:
    """Receives every frame of a run; this base class prints nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    def begin(self, done: int, planned: int) -> None:
        """The scene is compiled; `done` of `planned` frames are there."""

    def advance(self, row: Mapping[str, Any]) -> None:
        """One more frame is complete."""

    def compiling(self, module: str, seconds: float | None) -> None:
        """A module of kernels is compiled, which happens once on a machine; called again with the seconds when it is done."""

    def say(self, sentence: str) -> None:
        """Print a message to the user."""


class Bar(Progress):
    """A progress bar on stderr, or a line every few seconds where that is no terminal."""

    def __init__(self, name: str, console: "Console | None" = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        self._console = console or Console(stderr=True, highlight=False, markup=False)
        self._rich = RichProgress(
            TextColumn("{task.description}", markup=False),
            TextColumn("frame {task.fields[frame]}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[contacts]}"),
            console=self._console,
            transient=True,
            disable=not self._console.is_terminal,
        )
        self._task = self._rich.add_task(f"{name}: compiling", total=None, frame="-", rate="", contacts="")
        self._name = name
        self._done = self._planned = self._first = self._compiled = 0
        self._started = self._logged = time.perf_counter()

    def __enter__(self) -> Self:
        self._rich.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._rich.stop()

    def begin(self, done: int, planned: int) -> None:
        self._done = self._first = done
        self._planned = planned
        self._started = self._logged = time.perf_counter()
        # reset, so that rich estimates the remaining time from the frames completed from here on
        self._rich.reset(
            self._task,
            total=planned,
            completed=done,
            description=self._name,
            frame=self._place(),
            rate="",
            contacts="",
        )

    def advance(self, row: Mapping[str, Any]) -> None:
        self._done += 1
        now = time.perf_counter()
        rate = (self._done - self._first) / max(now - self._started, 1e-9)
        speed = f"{rate:.1f} frames/s" if rate >= 1 else f"{1 / rate:.1f} s/frame"
        self._rich.update(
            self._task, completed=self._done, frame=self._place(), rate=speed, contacts=f"{row['contacts']} contacts"
        )
        if not self._console.is_terminal and now - self._logged > _LOG_SECONDS:
            self._logged = now
            left = (self._planned - self._done) / rate
            self.say(f"frame {self._place()}, {speed}, {span(left)} left, {row['contacts']} contacts")

    def compiling(self, module: str, seconds: float | None) -> None:
        if not self._compiled and seconds is None:
            self.say("compiling kernels, once on this machine; `weft warmup` does it beforehand")
        self._compiled += seconds is None
        doing = f"{self._name}: compiling {module} ({self._compiled})" if seconds is None else self._name
        self._rich.update(self._task, description=doing)

    def say(self, sentence: str) -> None:
        self._console.print(printable(f"{self._name}: {sentence}"), soft_wrap=True)

    def _place(self) -> str:
        return f"{max(self._done - 1, 0)}/{self._planned - 1}"


def span(seconds: float) -> str:
    """A duration for people: 24 ms, 3.27 s, 12.3 s, 4 min 05 s, 2 h 10 min."""
    if not np.isfinite(seconds):
        return "?"
    if seconds < 1:
        return f"{1000 * seconds:.1f} ms" if seconds < 0.01 else f"{1000 * seconds:.0f} ms"
    if round(seconds, 1) < 60:
        return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def summarise(cache: Cache, *, computed: int, seconds: float) -> list[str]:
    """The lines printed at the end of a run: frames, time, quality, and the command to look at it."""
    report = cache.report
    lines = [f"{cache.path}: {cache.frames} frames, {computed} computed now in {span(seconds)}"]
    lines[0] += f", median {span(median)} a frame" if (median := median_wall_time(report)) is not None else ""
    lines += quality(report)
    lines.append(f"look at it:  weft view {shlex.quote(str(cache.path))}")
    return lines


def median_wall_time(report: Mapping[str, Any]) -> float | None:
    """Median wall time a frame, without frame 0, which is not simulated."""
    if "wall_time" not in report or len(report["wall_time"]) < 2:
        return None
    return float(np.median(report["wall_time"][1:]))


def quality(report: Mapping[str, Any]) -> list[str]:
    """One line about the quality of all frames: ok only if nothing crosses and no status says otherwise; and their stretch."""
    counts = np.asarray(report.get("intersections", []), dtype=float)
    checked, crossed = int((counts >= 0).sum()), int((counts > 0).sum())
    found, verdict = [], "ok"
    if crossed:
        verdict, worst = "not ok", int(np.nanargmax(counts))
        found.append(
            f"intersections in {crossed} of {checked} frames checked, at most {int(counts[worst])} (frame {worst})"
        )
    statuses = list(report.get("status", []))
    odd = [frame for frame, status in enumerate(statuses) if status != "ok"]
    # frames that only cross are counted already
    more = [frame for frame in odd if frame >= len(counts) or not counts[frame] > 0]
    if more:
        verdict = "not ok"
        frames = "1 frame" if len(more) == 1 else f"{len(more)} frames"
        found.append(f"{frames}{' more' if crossed else ''} with a status, first frame {more[0]}: {statuses[more[0]]}")
    if not checked:
        verdict = "not checked" if verdict == "ok" else verdict
        found.append("intersections were not counted")
    elif not crossed:
        found.append(f"no intersections ({checked} frame{'s' if checked > 1 else ''} checked)")
    return [f"{verdict}: {'; '.join([*found, *_stretch_words(report)])}"]


def _stretch_words(report: Mapping[str, Any]) -> list[str]:
    """The stretch of all frames: 99 of 100 edges, and the worst one."""
    stretch = np.asarray(report.get("stretch", []), dtype=float)
    if not np.isfinite(stretch).any():
        return []
    worst = int(np.nanargmax(stretch))
    most = np.asarray(report.get("stretch_99", []), dtype=float)
    usual = f"{100 * np.nanmax(most):.1f} % at the 99th percentile, " if np.isfinite(most).any() else ""
    return [f"stretch {usual}worst edge {100 * stretch[worst]:.1f} % (frame {worst})"]


# s of a frame before its time is estimated
FIRST_ESTIMATE = 10.0
# s; a frame that takes longer than that is announced
LONG = 120.0
# s; a frame that takes longer than that is stopped where no earlier frame shows what is usual
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
