"""One scene simulated with several methods: time, intersections, stretch, and the last frames side by side."""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from weft.cache import Cache
from weft.errors import MissingExtraError, WeftError, missing_extra, writing
from weft.scene import Scene, load_scene

# width and height of one picture, and how many stand in a row
SIZE = (640, 480)
ACROSS = 3


@dataclass(frozen=True)
class Row:
    """The result of one method; numbers are NaN if it could not run the scene."""

    method: str
    frames: int
    frame_ms: float
    """mean computing time a frame, ms"""
    worst_intersections: int
    """in the worst frame"""
    last_intersections: int
    stretch: float
    """largest strain of an edge in any frame"""
    kinetic_mj: float
    """kinetic energy of the cloth in the last frame, mJ: small if it has come to rest"""
    troubled: int
    """frames whose status is not ok"""
    problem: str
    """why it stopped, or the first status that is not ok; empty if there was none"""


@dataclass(frozen=True)
class Comparison:
    """The rows in the order of the methods, and the files that were written."""

    rows: tuple[Row, ...]
    table: Path
    picture: Path | None
    """None where there was nothing to draw"""
    no_picture: str
    """why there is no picture; empty if there is one"""


def compare(
    scene: Scene | str | Path,
    methods: Sequence[str] | None = None,
    out: str | Path = "compare",
    *,
    frames: int | None = None,
    device: str | None = None,
    size: tuple[int, int] = SIZE,
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Simulate a scene once a method into the folder `out`, with a table (CSV) and a picture of the last frames.

    methods: names; by default all. The method of the scene keeps its options, others have their defaults. The row of a
        method that cannot run the scene says why.
    resume: continue caches in the folder that come from the same scene.
    overwrite: replace them.
    progress: called with the method, the frames done and the number of frames.
    """
    known = _known_methods()
    found = load_scene(scene) if isinstance(scene, str | Path) else scene
    if frames is not None:
        found = found.replace(frames=frames)
    chosen = list(dict.fromkeys(methods)) if methods else known
    for name in chosen:
        if name not in known:
            raise WeftError(f"no method is called {name!r}; there are {', '.join(known)}")
    folder = Path(out)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)

    rows, caches = [], []
    for name in chosen:
        changed = found if found.method.name == name else found.replace(method=name)
        path = folder / f"{name}.zarr"
        if path.exists() and not (resume or overwrite):
            raise WeftError(f"{path} is there already: choose another folder, or say --resume or --overwrite")
        row, cache = _try(changed, path, progress, device=device, resume=resume, overwrite=overwrite)
        rows.append(row)
        caches.append(cache)
    table = _write_table(rows, folder / "compare.csv")
    picture, reason = _try_picture(rows, caches, folder / "compare.png", size)
    return Comparison(tuple(rows), table, picture, reason)


def _known_methods() -> list[str]:
    from weft.methods.base import _METHODS

    return list(_METHODS)


def _try(
    scene: Scene, path: Path, progress: Callable[[str, int, int], None] | None, **options: Any
) -> tuple[Row, Cache | None]:
    """Run one method; an error goes into its row, and the frames until then still count."""
    from weft.cache import open_cache
    from weft.run import simulate

    method = scene.method.name

    def on_frame(frame: int, row: Any) -> None:
        if progress is not None:
            progress(method, frame, scene.frames)

    problem = ""
    try:
        simulate(scene, path, progress=False, on_frame=on_frame, **options)
    except WeftError as error:
        problem = str(error).splitlines()[0]
    if not path.exists():
        return Row(method, 0, np.nan, 0, 0, np.nan, np.nan, 0, problem or "it made no frame"), None
    cache = open_cache(path)
    return _measure(method, cache, problem), cache


def _measure(method: str, cache: Cache, problem: str) -> Row:
    """The row of a method from its cache."""
    from weft.check import check_cache

    report = cache.report
    # count the intersections that the run did not count
    counted = np.array(report["intersections"])
    if (counted < 0).any():
        counted = np.array([frame.intersections for frame in check_cache(cache).frames])
    troubles = [status for status in report["status"] if status != "ok"]
    times = np.array(report["wall_time"], float)[1:]
    return Row(
        method,
        cache.frames - 1,
        1e3 * float(times.mean()) if len(times) else np.nan,
        int(counted.max()),
        int(counted[-1]),
        float(np.max(report["stretch"])),
        1e3 * _kinetic_energy(cache),
        len(troubles),
        problem or (troubles[0] if troubles else ""),
    )


def _kinetic_energy(cache: Cache) -> float:
    """Kinetic energy of all cloths in the last frame, J."""
    from weft.world import World

    world = World(cache.scene)
    count = world.cloth_vertex_count
    v = cache.velocities(cache.frames - 1)[:count]
    return float(0.5 * (world.mass[:count, None] * v**2).sum())


def _write_table(rows: list[Row], path: Path) -> Path:
    names = [field.name for field in fields(Row)]
    with writing(path), path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows([getattr(row, name) for name in names] for row in rows)
    return path


def _try_picture(
    rows: list[Row], caches: list[Cache | None], path: Path, size: tuple[int, int]
) -> tuple[Path | None, str]:
    """Draw the last frames side by side; returns the path, or None and the reason why there is no picture."""
    drawn = [(row, cache) for row, cache in zip(rows, caches, strict=True) if cache is not None]
    if not drawn:
        return None, "no method ran the scene"
    try:
        return _draw(drawn, path, size), ""
    except MissingExtraError as error:
        return None, str(error)


def _draw(drawn: list[tuple[Row, Cache]], path: Path, size: tuple[int, int]) -> Path:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
        from matplotlib.image import imread
    except ImportError as error:
        raise missing_extra("render", "matplotlib") from error
    from weft.check import crossing_marks
    from weft.view import render_still
    from weft.view.camera import common_view

    view = common_view([cache for _, cache in drawn], size)
    across = min(len(drawn), ACROSS)
    down = -(-len(drawn) // across)
    figure = Figure(figsize=(across * size[0] / 160, down * (size[1] / 160 + 0.35)), dpi=160, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(down, across, squeeze=False).ravel()
    for axis in axes:
        axis.axis("off")
    for axis, (row, cache) in zip(axes, drawn, strict=False):
        still = path.with_name(f"{row.method}.png")
        last = cache.frames - 1
        render_still(cache, last, still, size=size, camera=view, marks=crossing_marks(cache, last))
        axis.imshow(imread(still))
        title = f"{row.method}: {row.frame_ms:.0f} ms a frame, {row.last_intersections} intersections"
        axis.set_title(title, fontsize=7)
    figure.savefig(path)
    return path
