"""Running a study: the plan of its runs, one run on a worker, and the table and pictures at the end.

A task and its result are plain data, and `run_task` does not need Dask, so that any process with weft can run it.
"""

import contextlib
import json
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cache import Cache, layout, open_cache
from weft.errors import CacheError, WeftError
from weft.farm.cluster import Farm, FarmError, connect, leave_children
from weft.farm.keys import value_of
from weft.farm.study import Run, Study, import_parquet, make_runs, write_bytes, write_tables
from weft.farm.sweeps import Axis, Combination, Interval, combine, sample_latin
from weft.scene import Scene, load_scene
from weft.scene.arrays import arrays_in
from weft.scene.messages import shown
from weft.scene.model import unwrap
from weft.scene.motion import Function
from weft.scene.unit_checks import motions

if TYPE_CHECKING:
    from weft.scene import Scene


# seconds that a run waits for the next frame of another process that still writes its cache, such as a worker that lost
# its scheduler
PATIENCE = 60.0

# (method, device) whose kernels this process has loaded
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
    """Simulate a run, or continue its cache; returns its record, which is also written to disk."""
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
    """Load the kernels of a method once a process; of several processes one compiles them, the others use its cache."""
    mark = (scene.method.name, scene.device)
    if mark in _warmed:
        return
    import warp

    from weft.geometry.intersection import intersection_finder
    from weft.run.simulation import compile_scene

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
    """The summary of the frames that exist, however the run ended."""
    if not cache.exists():
        return {}
    try:
        return summarise_run(open_cache(cache))
    except WeftError:
        return {}


def _wait_for_writer(cache: Path) -> None:
    """Wait while another process writes the cache and makes progress: it may not know that its task was given away."""
    seen, end = -1, 0.0
    while layout.lock_path(cache).exists() and (opened := open_cache(cache)).writer is not None:
        if opened.frames != seen:
            seen, end = opened.frames, time.monotonic() + PATIENCE
        if time.monotonic() > end:
            return
        time.sleep(0.2)


@contextlib.contextmanager
def _one_at_a_time(folder: Path) -> Iterator[None]:
    """Hold a lock that all processes of a machine share; without file locks, continue without it."""
    with contextlib.ExitStack() as held:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            folder.mkdir(parents=True, exist_ok=True)
            file = held.enter_context((folder / "weft-farm.lock").open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


# called with (runs done, runs in all) after every run
Progress = Callable[[int, int], object]


@dataclass(frozen=True)
class Outcome:
    """The result of `wedge`."""

    study: Study
    rows: list[dict[str, Any]] = field(repr=False)
    computed: int
    """how many runs were run now; the others were complete already"""
    pictures: list[Path]
    no_pictures: str
    """why there are none"""

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The rows of runs that failed or are missing."""
        return [row for row in self.rows if row["status"] != "ok"]


class Stopped(KeyboardInterrupt):
    """A study was stopped; the runs that were complete are kept."""


def wedge(
    scene: Scene | str | Path,
    out: str | Path,
    vary: Mapping[str, Any] | None = None,
    *,
    sample: tuple[int, int] | None = None,
    runs: Sequence[Combination] | None = None,
    scheduler: str = "local",
    workers: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    pictures: bool = True,
    progress: Progress | None = None,
) -> Outcome:
    """Run a scene with every combination of the values of some keys, each into a cache of its own in the folder `out`.

    Runs are spread over processes of this machine or over the workers of a Dask scheduler. One that fails does so
    alone, with its error in the table. Call it below `if __name__ == "__main__":`, since workers import the script.

    vary: key -> values, keys spelt as in scene files: {"cloth.material.friction": [0.1, 0.3], "seed": range(1, 21)}.
    sample: (count, seed): instead of all combinations a Latin hypercube; values may then be `Interval`s.
    runs: instead of both, the runs one by one, each a table of keys and values.
    scheduler: "local", or the address of a scheduler, whose workers must see the same files under the same names.
    workers: how many processes on this machine; one a core unless given.
    resume: go on with a study: only what is missing or failed is run. overwrite: replace it.
    pictures: draw the contact sheet and the plots.
    """
    leave_children()
    import_parquet()
    base = scene if isinstance(scene, Scene) else load_scene(scene)
    _check_files_only(base)
    study = Study(out, make_runs(base, plan(base, vary or {}, sample, runs)))
    study.prepare(base, resume=resume, overwrite=overwrite)
    todo = [run for run in study.runs if not (resume and study.is_done(run))]
    if progress is not None:
        progress(len(study.runs) - len(todo), len(study.runs))
    records: dict[str, dict[str, Any]] = {}
    if todo:
        gpus = any(run.scene.device.startswith("cuda") for run in todo)
        with connect(scheduler, workers=workers, gpus=gpus) as farm:
            if gpus:
                farm.check_gpus()
            run_all(farm, study, todo, records, progress)
            return _finish(study, records, len(todo), farm if pictures else None)
    return _finish(study, records, 0, None, pictures=pictures)


def _check_files_only(scene: Scene) -> None:
    """Refuse a scene that only this process has whole: workers read scenes and their files."""
    if arrays_in(scene) or any(isinstance(motion, Function) for _, motion in motions(scene)):
        raise WeftError(
            "the scene holds arrays or Python functions, which the workers of a study do not have: save it with "
            "weft.save_scene(scene, 'scene.toml'), which writes arrays beside it, and give that file"
        )


def plan(
    scene: Scene,
    vary: Mapping[str, Any],
    sample: tuple[int, int] | None = None,
    runs: Sequence[Combination] | None = None,
) -> list[Combination]:
    """The combinations of values to run."""
    if runs is not None:
        if vary or sample is not None:
            raise WeftError("a list of runs says all: leave out keys to vary and the sample")
        return [{key: _plain(key, value) for key, value in run.items()} for run in runs]
    axes = [Axis(key, _typed(scene, key, values)) for key, values in vary.items()]
    for axis in axes:
        if not isinstance(axis.values, Interval) and not axis.values:
            raise WeftError(f"{axis.key}: there is no value to give it")
        if not isinstance(axis.values, Interval) and len({json.dumps(v) for v in axis.values}) < len(axis.values):
            raise WeftError(f"{axis.key}: a value is given twice")
    if not axes:
        return []
    return combine(axes) if sample is None else sample_latin(axes, *sample)


def _typed(scene: Scene, key: str, values: Any) -> tuple[Any, ...] | Interval:
    """The values of a key as a tuple; an interval of whole numbers becomes one of real numbers unless the key is whole."""
    if not isinstance(values, Interval):
        if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
            raise WeftError(f"{key}: give a list of values, not {shown(values)}")
        return tuple(_plain(key, value) for value in values)
    whole = type(value_of(scene, key)) is int
    return values if whole else Interval(float(values.low), float(values.high), values.log)


def _plain(key: str, value: Any) -> Any:
    """A value that a scene file can hold; numpy values become Python values."""
    value = unwrap(value)
    if isinstance(value, list | tuple):
        return [_plain(key, item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(key, item) for name, item in value.items()}
    if not isinstance(value, bool | int | float | str):
        raise WeftError(f"{key}: a value must be something that a scene file can say, not {shown(value)}")
    return value


def run_all(
    farm: Farm, study: Study, todo: list[Run], records: dict[str, dict[str, Any]], progress: Progress | None
) -> None:
    """Run the runs in `todo`; `records` is filled as runs end."""
    before = len(study.runs) - len(todo)
    tasks = [_task(study, run) for run in todo]
    try:
        for number, result in farm.map_unordered(run_task, tasks, needs=_needs(todo, tasks)):
            run = todo[number]
            if isinstance(result, WeftError):
                result = {"run": run.name, "status": "failed", "error": str(result), "row": {}, "digest": run.digest}
                with contextlib.suppress(OSError):
                    write_bytes(study.record_path(run), json.dumps(result, indent=1).encode())
            records[run.name] = result
            if progress is not None:
                progress(before + len(records), len(study.runs))
    except FarmError as error:
        raise FarmError(f"{error}; {_kept(study)}") from None
    except KeyboardInterrupt:
        raise Stopped(f"stopped; {_kept(study)}") from None


def _kept(study: Study) -> str:
    done = sum(study.is_done(run) for run in study.runs)
    return f"{done} of {len(study.runs)} runs in {study.path} are complete, --resume does the others"


def _task(study: Study, run: Run) -> Task:
    return Task(
        name=run.name,
        scene=json.dumps(run.scene.model_dump()),
        base=str(run.scene.base.absolute()),
        cache=str(study.cache_path(run).absolute()),
        record=str(study.record_path(run).absolute()),
        digest=run.digest,
    )


def _needs(runs: list[Run], tasks: list[Task]) -> Callable[[Task], dict[str, float]]:
    """Runs on GPUs go to workers that declare one, the others to any worker."""
    on_gpu = {task.name for run, task in zip(runs, tasks, strict=True) if run.scene.device.startswith("cuda")}
    return lambda task: {"GPU": 1.0} if task.name in on_gpu else {}


def _finish(
    study: Study,
    records: Mapping[str, Mapping[str, Any]],
    computed: int,
    farm: Farm | None,
    *,
    pictures: bool = False,
) -> Outcome:
    """Write the table, then draw the pictures; if these fail, the table is kept."""
    from weft.farm.pictures import draw_charts, draw_sheet

    rows = study.rows(records)
    try:
        write_tables(rows, study.path)
    except OSError as error:
        raise CacheError(
            f"the table of {study.path} could not be written: {layout.reason(error)}. {_kept(study)}"
        ) from None
    drawn: list[Path] = []
    why = "" if farm is not None or pictures else "they were not asked for"
    if not why:
        try:
            drawn += draw_charts(rows, study.keys, study.path / "plots")
            drawn += draw_sheet(study, rows, farm)
        except WeftError as error:
            why = str(error)
    return Outcome(study, rows, computed, drawn, why)
