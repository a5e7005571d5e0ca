"""What a worker does: one run of a study, from its scene to its record on disk.

Nothing here needs Dask, and what goes in and out is plain data, so that any process with weft can do it.
"""

import contextlib
import json
import time
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cache import Cache, layout, open_cache
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.scene import Scene

# how long a run waits for the next frame of a process that still writes its cache, such as one that lost its scheduler
PATIENCE = 60.0

# what this process has loaded already
_warmed: set[tuple[str, str]] = set()


@dataclass(frozen=True)
class Task:
    """A run as plain data."""

    name: str
    scene: str
    """as JSON"""
    base: str
    """the folder that its file names are relative to"""
    cache: str
    record: str
    digest: str


def run_task(task: Task) -> dict[str, Any]:
    """Simulate, or go on with what an earlier try left; what becomes of it is returned and kept on disk."""
    from weft.run import simulate

    started = time.perf_counter()
    cache, error, trace, simulation = Path(task.cache), "", "", 0.0
    try:
        scene = scene_of(task)
        warm_up(scene)
        _wait_for_writer(cache)
        began = time.perf_counter()
        simulate(scene, cache, resume=True, progress=False)
        simulation = time.perf_counter() - began
    except WeftError as failure:
        error = " ".join(str(failure).split())
    except Exception as failure:
        error = " ".join(f"{type(failure).__name__}: {failure}".split())
        trace = traceback.format_exc()
    row = _row(cache)
    record = {
        "run": task.name,
        "status": "failed" if error else "ok",
        "error": error,
        "row": row,
        "seconds": time.perf_counter() - started,
        "simulation": simulation,
        "digest": task.digest,
        "trace": trace,
    }
    try:
        layout.write_atomic(Path(task.record), lambda file: file.write(json.dumps(record, indent=1).encode()))
    except OSError as failure:
        if not error:
            record.update(status="failed", error=f"{task.record} could not be written: {layout.reason(failure)}")
    return record


def scene_of(task: Task) -> "Scene":
    """The scene of a task."""
    from weft.scene import Scene

    return Scene.model_validate(json.loads(task.scene)).at(task.base)


def warm_up(scene: "Scene") -> None:
    """Load what a method needs once a process; of several, one compiles the kernels and the others take them from it."""
    mark = (scene.method.name, scene.device)
    if mark in _warmed:
        return
    import warp

    from weft.geometry.intersection import intersection_finder
    from weft.run.runner import compile_scene

    # importing weft's kernels has started Warp, and only then it is known where compiled kernels are kept
    with _one_at_a_time(Path(str(warp.config.kernel_cache_dir))):
        world, _ = compile_scene(scene)
        intersection_finder(world)
        warp.force_load(scene.device)
    _warmed.add(mark)


def summarise_run(cache: Cache) -> dict[str, Any]:
    """A run in one row: see `study.COLUMNS`."""
    report = cache.report
    row: dict[str, Any] = {"frames": cache.frames}
    if not cache.frames:
        return row
    counts = np.asarray(report.get("intersections", []), dtype=float)
    if (counts >= 0).any():
        worst = int(counts.argmax())
        row |= {"intersections": int(counts[worst]), "worst_frame": worst}
        row["last_intersections"] = int(counts[counts >= 0][-1])
    stretch = np.asarray(report.get("stretch", []), dtype=float)
    if np.isfinite(stretch).any():
        worst = int(np.nanargmax(stretch))
        row |= {"stretch": float(stretch[worst]), "stretch_frame": worst}
    row["contacts"] = int(np.max(report["contacts"]))
    row["troubled"] = sum(status != "ok" for status in report["status"])
    times = np.asarray(report["wall_time"], dtype=float)
    row |= {"time": float(times.sum()), "frame_time": float(np.median(times[1:] if len(times) > 1 else times))}
    return row


def _row(cache: Path) -> dict[str, Any]:
    """The summary of what there is, however the run ended."""
    if not cache.exists():
        return {}
    try:
        return summarise_run(open_cache(cache))
    except WeftError:
        return {}


def _wait_for_writer(cache: Path) -> None:
    """Wait for a process that does not know that its work was given to another, for as long as it gets on."""
    seen, end = -1, 0.0
    while layout.lock_path(cache).exists() and (opened := open_cache(cache)).writer is not None:
        if opened.frames != seen:
            seen, end = opened.frames, time.monotonic() + PATIENCE
        if time.monotonic() > end:
            return
        time.sleep(0.2)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock in a folder that all processes of a machine share; where there are no locks, go on without."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            folder.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((folder / "weft-farm.lock").open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
