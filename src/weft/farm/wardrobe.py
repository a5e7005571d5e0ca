"""Dressing many bodies in many garments: every pattern on every body, a row of a table and a picture for each.

A sample has its own folder with what learners need: the panels of the garment on the body and welded, with their names,
texture coordinates and correspondence (npz, obj), the cache of its drape, and the report of its fit.
"""

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from weft.cache import open_cache
from weft.errors import WeftError, missing_extra, writing
from weft.farm.cluster import Farm, connect, leave_children
from weft.farm.pictures import SIZE, Picture, compose_sheet, draw_last
from weft.farm.study import import_parquet, write_bytes, write_tables

Progress = Callable[[int, int], object]

# the columns that every sample has, whatever became of it
UNKNOWN: dict[str, Any] = {
    "intersections": None,
    "cloth_crossings": None,
    "body_crossings": None,
    "mean_strain": None,
    "largest_strain": None,
    "pressure": None,
    "vertices": None,
    "triangles": None,
    "cpu_time": None,
}


@dataclass(frozen=True)
class DressTask:
    """One sample as plain data."""

    run: str
    patterns: tuple[str, ...]
    body: str
    folder: str
    options: dict[str, Any]


@dataclass(frozen=True)
class Wardrobe:
    """The result of `dress_many`."""

    path: Path
    rows: list[dict[str, Any]]
    computed: int
    """how many samples were made now"""
    sheet: Path | None

    @property
    def failed(self) -> list[dict[str, Any]]:
        """The rows of samples that failed, or in which something crosses or a seam is open."""
        return [row for row in self.rows if row["status"] != "ok"]


def dress_many(
    patterns: Sequence[str | Path],
    bodies: Sequence[str | Path],
    out: str | Path,
    *,
    scheduler: str = "local",
    workers: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
    pictures: bool = True,
    usd: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Wardrobe:
    """Dress every body in every pattern, on processes of this machine or the workers of a Dask scheduler.

    patterns: files; layers of one outfit have commas between them. options: those of `weft.dress`, the same for all.
    usd: write every garment as USD too, welded, a subset for each panel.
    A sample that fails does so alone, with the reason in the table. resume: make only what is missing or failed.
    """
    leave_children()
    import_parquet()
    out = Path(out)
    if usd and find_spec("pxr") is None:
        raise missing_extra("usd", "usd-core")
    tasks = _tasks(patterns, bodies, out, options | {"usd": usd})
    if out.exists() and any(out.iterdir()) and not (resume or overwrite):
        raise WeftError(
            f"{out} exists already: choose another name, go on with --resume, or replace it with --overwrite"
        )
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, Any]] = {}
    if resume:
        rows = {task.run: row for task in tasks if (row := _finished(task)) is not None}
    todo = [task for task in tasks if task.run not in rows]
    if todo:
        with connect(scheduler, workers=workers) as farm:
            _run_all(farm, todo, rows, len(tasks), progress)
    ordered = [rows[task.run] for task in tasks]
    write_tables(ordered, out)
    sheet = _draw_sheet(ordered, tasks, out) if pictures else None
    return Wardrobe(out, ordered, len(todo), sheet)


def dress_one(task: DressTask) -> dict[str, Any]:
    """Dress one body; returns its row, which is also written to its folder."""
    from weft.cache.foreign import open_result
    from weft.dressing import dress
    from weft.dressing.report import write_report
    from weft.exchange import export

    folder = Path(task.folder)
    row = {**_names(task), "status": "ok", "error": "", **UNKNOWN, "time": None}
    began, busy = time.perf_counter(), time.process_time()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        options = {name: value for name, value in task.options.items() if name != "usd"}
        dressed = dress(list(task.patterns), task.body, folder / "dressed.zarr", overwrite=True, **options)
        write_report(dressed, folder / "fit.json")
        for garment in dressed.garments if task.options["usd"] else ():
            mesh = folder / "dressed" / f"{garment.pattern.name}.obj"
            export(open_result(mesh), mesh.with_suffix(".usdc"), overwrite=True)
        crossings, fits = dressed.crossings, dressed.fits
        panels = [panel for fit in fits for panel in fit.panels]
        row |= {
            "intersections": crossings.cloth + crossings.body,
            "cloth_crossings": crossings.cloth,
            "body_crossings": crossings.body,
            "mean_strain": sum(panel.mean for panel in panels) / len(panels),
            "largest_strain": max(panel.most for panel in panels),
            "pressure": max(float(fit.pressure.max()) for fit in fits),
            "vertices": sum(len(garment.vertices) for garment in dressed.garments),
            "triangles": sum(len(garment.faces) for garment in dressed.garments),
        }
        if not dressed.ok:
            crossed = [] if crossings.free else [f"{row['intersections']} crossings are left"]
            row |= {"status": "not ok", "error": "; ".join([*crossed, *dressed.remarks])}
    except WeftError as failure:
        row |= {"status": "failed", "error": " ".join(str(failure).split())}
    except Exception as failure:
        row |= {"status": "failed", "error": " ".join(f"{type(failure).__name__}: {failure}".split())}
        (folder / "trace.txt").write_text(traceback.format_exc(), encoding="utf-8")
    row |= {"cpu_time": time.process_time() - busy, "time": time.perf_counter() - began}
    record = {"row": row, "options": {name: str(value) for name, value in task.options.items()}}
    write_bytes(folder / "sample.json", json.dumps(record, indent=1).encode())
    return row


def _tasks(
    patterns: Sequence[str | Path], bodies: Sequence[str | Path], out: Path, options: dict[str, Any]
) -> list[DressTask]:
    """Every pattern with every body, under names of their own."""
    if not patterns or not bodies:
        raise WeftError(f"there is no {'pattern' if not patterns else 'body'} to dress with")
    tasks = []
    for outfit in patterns:
        layers = tuple(str(Path(layer.strip()).absolute()) for layer in str(outfit).split(","))
        for body in bodies:
            name = "+".join(Path(layer).stem.removesuffix("_specification") for layer in layers) + f"-{Path(body).stem}"
            tasks.append(
                DressTask(name, layers, str(Path(body).absolute()), str((out / "samples" / name).absolute()), options)
            )
    twice = {task.run for task in tasks if sum(other.run == task.run for other in tasks) > 1}
    if twice:
        raise WeftError(
            f"two samples would be called {sorted(twice)[0]!r}: give patterns and bodies names of their own"
        )
    return tasks


def _names(task: DressTask) -> dict[str, Any]:
    outfit = "+".join(Path(layer).stem.removesuffix("_specification") for layer in task.patterns)
    return {"run": task.run, "pattern": outfit, "body": Path(task.body).stem}


def _finished(task: DressTask) -> dict[str, Any] | None:
    """The row of a sample that is complete, and was made with the same options."""
    try:
        record = json.loads((Path(task.folder) / "sample.json").read_bytes())
    except (OSError, ValueError):
        return None
    same = record.get("options") == {name: str(value) for name, value in task.options.items()}
    row = record.get("row", {})
    return row if same and row.get("status") == "ok" else None


def _run_all(
    farm: Farm, todo: Sequence[DressTask], rows: dict[str, dict[str, Any]], total: int, progress: Progress | None
) -> None:
    """Make all samples; `rows` is filled as they come."""
    for number, result in farm.map_unordered(dress_one, todo):
        task = todo[number]
        if isinstance(result, WeftError):
            result = {**_names(task), "status": "failed", "error": str(result), **UNKNOWN, "time": None}
        rows[task.run] = result
        if progress is not None:
            progress(len(rows), total)


def _draw_sheet(rows: Sequence[dict[str, Any]], tasks: Sequence[DressTask], out: Path) -> Path | None:
    """The contact sheet: one picture a sample, its status where there is none."""
    from weft.view.camera import common_view

    pictures: dict[str, Any] = {}
    for task in tasks:
        path = Path(task.folder) / "dressed.zarr"
        try:
            cache = open_cache(path)
        except WeftError:
            continue
        if cache.frames:
            pictures[task.run] = draw_last(Picture(str(path), common_view([cache], SIZE)))
    return compose_sheet(rows, ["pattern", "body"], pictures, out / "sheet.png") if pictures else None
