"""One scene simulated with several methods, or with cloth of several cells: time, intersections, stretch, and the last frames
side by side.
"""

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.cache import Cache
from weft.errors import MissingExtraError, WeftError, missing_extra, writing
from weft.mesh.silhouette import silhouette_change
from weft.scene import Cloth, Cylinder, Grid, MethodOptions, Scene, Strip, load_scene
from weft.scene.bodies import is_pattern

if TYPE_CHECKING:
    from weft.world import World

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
    cell: float = np.nan
    """length of a cell of the cloths, m; NaN: as in the scene"""
    outline: float = np.nan
    """mean distance of the silhouette in the last frame from that with the smallest cells, % of the height of the cloth; the
    larger one of those from the front and from the side"""

    @property
    def label(self) -> str:
        """The method, and the length of a cell where cells were divided: `robust-5mm`."""
        return self.method if np.isnan(self.cell) else f"{self.method}-{1e3 * self.cell:g}mm"


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
    resolutions: Sequence[float] | None = None,
    frames: int | None = None,
    device: str | None = None,
    size: tuple[int, int] = SIZE,
    resume: bool = False,
    overwrite: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> Comparison:
    """Simulate a scene once a method into the folder `out`, with a table (CSV) and a picture of the last frames.

    methods: names; by default all, or with resolutions that of the scene. The method of the scene keeps its options, others
        have their defaults. The row of a method that cannot run the scene says why.
    resolutions: lengths in m of the cells into which all cloths are divided; one run for each of them and each method.
    resume: continue caches in the folder that come from the same scene.
    overwrite: replace them.
    progress: called with the name of the run, the frames done and the number of frames.
    """
    known = list(MethodOptions.known)
    found = load_scene(scene) if isinstance(scene, str | Path) else scene
    if frames is not None:
        found = found.replace(frames=frames)
    chosen = list(dict.fromkeys(methods)) if methods else [found.method.name] if resolutions else known
    for name in chosen:
        if name not in known:
            raise WeftError(f"no method is called {name!r}; there are {', '.join(known)}")
    # from the largest cells to the smallest
    divided = {np.nan: found}
    if resolutions:
        divided = {cell: with_cells(found, cell) for cell in sorted(set(resolutions), reverse=True)}
    folder = Path(out)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)

    rows, caches = [], []
    for name in chosen:
        for cell, changed in divided.items():
            changed = changed if changed.method.name == name else changed.replace(method=name)
            label = _empty_row(name, "", cell).label
            path = folder / f"{label}.zarr"
            if path.exists() and not (resume or overwrite):
                raise WeftError(f"{path} is there already: choose another folder, or say --resume or --overwrite")
            row, cache = _try(changed, path, progress, cell, device=device, resume=resume, overwrite=overwrite)
            rows.append(row)
            caches.append(cache)
    if resolutions:
        rows = _with_outlines(rows, caches)
    table = _write_table(rows, folder / "compare.csv")
    picture, reason = _try_picture(rows, caches, folder / "compare.png", size)
    return Comparison(tuple(rows), table, picture, reason)


def with_cells(scene: Scene, length: float) -> Scene:
    """The scene with all cloths divided into cells of this length in m: grids, strips, cylinders and sewing patterns."""
    if not (np.isfinite(length) and length > 0.0):
        raise WeftError(f"resolutions are lengths of cells in m, more than 0, not {length:g}")
    return scene.replace(cloths=tuple(_cloth_with_cells(cloth, length) for cloth in scene.cloths))


def _cloth_with_cells(cloth: Cloth, length: float) -> Cloth:
    """A cloth divided into other cells; one that names vertices by their numbers cannot be."""
    numbered = {
        "pins": any(pin.indices is not None for pin in cloth.pins),
        "creases": any(crease.edges is not None for crease in cloth.creases),
        "painted": any(not isinstance(value, str) for value in cloth.painted.plain().values()),
    }
    for key, by_number in numbered.items():
        if by_number:
            raise WeftError(
                f"{key} of the cloth {cloth.name!r} name vertices by their numbers, which change with its cells"
            )

    def cells(*lengths: float) -> tuple[int, ...]:
        return tuple(max(1, round(extent / length)) for extent in lengths)

    shape = cloth.shape
    if isinstance(shape, Grid):
        return cloth.replace(shape=shape.replace(cells=cells(*shape.size)))
    if isinstance(shape, Strip):
        return cloth.replace(shape=shape.replace(cells=cells(shape.length, shape.width)))
    if isinstance(shape, Cylinder):
        segments, rings = cells(2.0 * np.pi * shape.radius, shape.height)
        return cloth.replace(shape=shape.replace(segments=max(3, segments), rings=rings))
    if is_pattern(cloth.mesh):
        return cloth.replace(edge=length)
    what = "comes from a mesh" if shape is None else f"is a {shape.kind}"
    raise WeftError(
        f"the cloth {cloth.name!r} {what}: cells of another length are for grids, strips, cylinders and sewing patterns"
    )


def _with_outlines(rows: list[Row], caches: list[Cache | None]) -> list[Row]:
    """The rows with the distance of each silhouette from that of the same method with the smallest cells."""
    ends = [
        None if cache is None or row.frames == 0 else _last_cloth(cache)
        for row, cache in zip(rows, caches, strict=True)
    ]
    finest = {row.method: end for row, end in zip(rows, ends, strict=True) if end is not None}
    result = []
    for row, end in zip(rows, ends, strict=True):
        if end is not None:
            changes = [silhouette_change(end, finest[row.method], axis=axis) for axis in (0, 2)]
            row = replace(row, outline=max(changes))
        result.append(row)
    return result


def _last_cloth(cache: Cache) -> tuple[NDArray[np.float64], NDArray[np.int32]]:
    """Positions of all cloths in the last frame, and their edges."""
    world = _world_of(cache)
    edges, _ = world.cloth_edges
    return cache.positions(cache.frames - 1)[: world.cloth_vertex_count], edges.numpy().reshape(-1, 2)


def _empty_row(method: str, problem: str, cell: float) -> Row:
    """The row of a run without a frame."""
    return Row(method, 0, np.nan, 0, 0, np.nan, np.nan, 0, problem, cell)


def _try(
    scene: Scene, path: Path, progress: Callable[[str, int, int], None] | None, cell: float, **options: Any
) -> tuple[Row, Cache | None]:
    """Run one method; an error goes into its row, and the frames until then still count."""
    from weft.cache import open_cache
    from weft.run import simulate

    method = scene.method.name
    label = _empty_row(method, "", cell).label

    def on_frame(frame: int, row: Any) -> None:
        if progress is not None:
            progress(label, frame, scene.frames)

    problem = ""
    try:
        simulate(scene, path, progress=False, on_frame=on_frame, **options)
    except WeftError as error:
        problem = str(error).splitlines()[0]
    if not path.exists():
        return _empty_row(method, problem or "it made no frame", cell), None
    cache = open_cache(path)
    return _measure(method, cache, problem, cell), cache


def _measure(method: str, cache: Cache, problem: str, cell: float) -> Row:
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
        cell,
    )


def _kinetic_energy(cache: Cache) -> float:
    """Kinetic energy of all cloths in the last frame, J."""
    world = _world_of(cache)
    count = world.cloth_vertex_count
    v = cache.velocities(cache.frames - 1)[:count]
    return float(0.5 * (world.mass[:count, None] * v**2).sum())


def _world_of(cache: Cache) -> "World":
    """The scene of a cache, compiled."""
    from weft.world import World

    return World(cache.scene)


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
        still = path.with_name(f"{row.label}.png")
        last = cache.frames - 1
        render_still(cache, last, still, size=size, camera=view, marks=crossing_marks(cache, last))
        axis.imshow(imread(still))
        title = f"{row.label}: {row.frame_ms:.0f} ms a frame, {row.last_intersections} intersections"
        if not np.isnan(row.outline):
            title += f", outline {row.outline:.1f} % off"
        axis.set_title(title, fontsize=7)
    figure.savefig(path)
    return path
