"""Pictures of a study: plots of columns against varied keys, and the contact sheet with the last frame of every run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cache import open_cache
from weft.errors import MissingExtraError, WeftError, missing_extra
from weft.farm.study import Study, read_table
from weft.scene.colours import CLOTH_PALETTE, from_lch

if TYPE_CHECKING:
    from weft.farm.cluster import Farm


# the columns that are plotted against every key, and their axis labels
PANELS = {
    "intersections": "intersections, worst frame",
    "stretch": "worst edge strain",
    "contacts": "most contacts in a frame",
    "time": "seconds of simulation",
}
UNITS = {**PANELS, "frame_time": "seconds a frame, median", "troubled": "frames with a status"}
GREY = (0.45, 0.47, 0.50)
# a key with more values than this is not used for colours
MAX_COLOURS = 8


def draw_charts(rows: Sequence[dict[str, Any]], keys: Sequence[str], folder: Path) -> list[Path]:
    """Plot the usual columns against each key, one picture a key."""
    drawn = []
    for key in keys:
        if len({str(row[key]) for row in rows}) > 1:
            path = folder / f"{_file_name(key)}.png"
            drawn.append(_draw(rows, keys, key, list(PANELS), path))
    return drawn


def plot_study(folder: str | Path, column: str, key: str, path: str | Path | None = None) -> Path:
    """Draw a column of a study's table against a key that is varied, and return the picture's path."""
    from weft.farm.study import read_manifest

    folder = Path(folder)
    keys = read_manifest(folder)["keys"]
    if not (folder / "table.parquet").is_file():
        raise WeftError(f"{folder} has no table yet: run the study, or resume it")
    rows = read_table(folder)
    names = [name for name in rows[0] if name not in ("run", "status", "error", *keys)]
    if key not in keys:
        raise WeftError(f"{folder} does not vary {key}: it varies {', '.join(keys)}")
    if column not in names and column not in keys:
        raise WeftError(f"the table of {folder} has no column {column}: it has {', '.join([*names, *keys])}")
    place = Path(path) if path is not None else folder / "plots" / f"{_file_name(column)}-{_file_name(key)}.png"
    return _draw(rows, keys, key, [column], place)


def _draw(rows: Sequence[dict[str, Any]], keys: Sequence[str], key: str, columns: list[str], path: Path) -> Path:
    if path.suffix.lower() not in (".png", ".pdf", ".svg"):
        raise WeftError(f"{path}: a plot ends in .png, .pdf or .svg")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("render", "matplotlib") from error
    from weft.view.pictures import replacing

    across = min(2, len(columns))
    down = -(-len(columns) // across)
    figure = Figure(figsize=(5.2 * across, 3.4 * down + 0.3), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    good = [row for row in rows if row["status"] == "ok"]
    colour_by = _colour_key(good, keys, key)
    for axis, column in zip(figure.subplots(down, across, squeeze=False).ravel(), columns, strict=False):
        _panel(axis, good, key, column, colour_by)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    if colour_by and labels:
        figure.legend(handles, labels, title=colour_by, loc="outside right upper", frameon=False, fontsize=8)
    lost = len(rows) - len(good)
    note = f"; {lost} that failed are left out" if lost else ""
    figure.suptitle(f"{len(good)} runs{note}; lines are medians", fontsize=9, color=GREY)
    with replacing(path) as partial:
        figure.savefig(partial)
    return path


def _panel(axis: Any, rows: Sequence[dict[str, Any]], key: str, column: str, colour_by: str | None) -> None:
    """Draw every run as a point, and the medians; a colour for each value of another key."""
    axis.set_xlabel(key, fontsize=9)
    axis.set_ylabel(UNITS.get(column, column), fontsize=9, color=GREY)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color=GREY, alpha=0.2, linewidth=0.6)
    axis.tick_params(labelsize=8, colors=GREY)
    shown = [row for row in rows if _is_number(row[column])]
    if not shown:
        axis.text(0.5, 0.5, "not recorded", transform=axis.transAxes, ha="center", color=GREY)
        return
    # values that are no numbers are placed side by side
    places: dict[str, float] = {}
    if not all(_is_number(row[key]) for row in shown):
        places = {label: float(k) for k, label in enumerate(dict.fromkeys(str(row[key]) for row in shown))}
        axis.set_xticks(list(places.values()), [label[:18] for label in places], rotation=20 if len(places) > 4 else 0)
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in shown:
        x = places[str(row[key])] if places else float(row[key])
        groups.setdefault(str(row[colour_by]) if colour_by else "", []).append((x, float(row[column])))
    for number, (label, points) in enumerate(groups.items()):
        colour = tuple(from_lch(*CLOTH_PALETTE[number % len(CLOTH_PALETTE)]))
        xs, ys = np.array(points).T
        axis.plot(xs, ys, ".", color=colour, alpha=0.6, markersize=5)
        each = np.unique(xs)
        # medians of categories are not joined by a line
        style: dict[str, Any] = {"linestyle": "", "marker": "_", "markersize": 14} if places else {"linewidth": 1.4}
        axis.plot(each, [np.median(ys[xs == x]) for x in each], color=colour, label=label, **style)
    axis.margins(y=0.08)
    if not any(row[column] for row in shown):
        # a column of zeros is drawn at the bottom
        axis.set_ylim(0.0, 1.0)


def _colour_key(rows: Sequence[dict[str, Any]], keys: Sequence[str], key: str) -> str | None:
    """Another key with few values, to colour the runs by."""
    for other in keys:
        if other != key and 1 < len({str(row[other]) for row in rows}) <= MAX_COLOURS:
            return other
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and bool(np.isfinite(value))


def _file_name(key: str) -> str:
    from weft.farm.sweeps import name_run

    return name_run({key: 0}).removesuffix("=0")


# pixels of a picture on the contact sheet, height of its label, and the largest number of pictures
SIZE = (320, 240)
LABEL = 34
MAX_PICTURES = 400
# number of caches that are read to choose the camera
CAMERA_CACHES = 40


@dataclass(frozen=True)
class Picture:
    """A picture to draw: of the last frame of a cache."""

    cache: str
    view: Any


def draw_sheet(study: Study, rows: Sequence[dict[str, Any]], farm: "Farm | None" = None) -> list[Path]:
    """Draw `sheet.png`, on the workers if there are any; a failed run has its status instead of a picture."""
    try:
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise missing_extra("render", "pillow") from error
    from weft.view.camera import common_view

    paths = {run.name: study.cache_path(run).absolute() for run in study.runs}
    # of very many runs, an even selection
    step = -(-len(rows) // MAX_PICTURES)
    shown = list(rows[::step])
    there = [row for row in shown if row["frames"] and paths[row["run"]].exists()]
    if not there:
        return []
    caches = [open_cache(paths[row["run"]]) for row in there[:: -(-len(there) // CAMERA_CACHES)]]
    view = common_view(caches, SIZE)
    jobs = [Picture(str(paths[row["run"]]), view) for row in there]
    results = (
        farm.map_unordered(draw_last, jobs) if farm is not None else ((k, draw_last(j)) for k, j in enumerate(jobs))
    )
    pictures: dict[str, Any] = {}
    for number, picture in results:
        if not isinstance(picture, WeftError):
            pictures[there[number]["run"]] = picture
        elif isinstance(picture, MissingExtraError) or len(there) == 1:
            raise picture
    return [compose_sheet(shown, study.keys, pictures, study.path / "sheet.png")]


def draw_last(job: Picture) -> Any:
    """The last frame of a cache, (height, width, 3) bytes."""
    from weft.view.stage import Stage

    cache = open_cache(job.cache)
    with Stage(cache, size=SIZE, quality=None, camera=job.view) as stage:
        return stage.draw(cache.frames - 1)


def compose_sheet(rows: Sequence[dict[str, Any]], keys: Sequence[str], pictures: dict[str, Any], path: Path) -> Path:
    """All pictures on one sheet, each with its values below it."""
    from PIL import Image, ImageDraw

    from weft.view.pictures import replacing

    width, height = SIZE[0], SIZE[1] + LABEL
    across = _across(rows, keys, width, height)
    down = -(-len(rows) // across)
    sheet = Image.new("RGB", (across * width, down * height), "white")
    pen = ImageDraw.Draw(sheet)
    font = _font(13)
    for number, row in enumerate(rows):
        x, y = number % across * width, number // across * height
        picture = pictures.get(row["run"])
        if picture is None:
            pen.text((x + 10, y + SIZE[1] // 2), row["status"], fill="#b02020", font=font)
        else:
            sheet.paste(Image.fromarray(picture), (x, y))
        bad = row["status"] != "ok" or bool(row["intersections"])
        counted = "" if row["intersections"] is None else f"  {row['intersections']} intersections"
        # the last word of a key is enough
        label = "  ".join(f"{key.rsplit('.', 1)[-1]} {_short(row[key])}" for key in keys if row[key] is not None)
        pen.text((x + 6, y + SIZE[1] + 2), label[:52], fill="#202428", font=font)
        if row["status"] == "ok":
            pen.text((x + 6, y + SIZE[1] + 17), counted.strip(), fill="#b02020" if bad else "#5a6068", font=font)
    with replacing(path) as partial:
        sheet.save(partial)
    return path


def _across(rows: Sequence[dict[str, Any]], keys: Sequence[str], width: int, height: int) -> int:
    """Pictures in a row: about a square sheet, with rows aligned by the values of the last key if these are few."""
    square = math.ceil((len(rows) * height / width) ** 0.5)
    last = len({str(row[keys[-1]]) for row in rows})
    return last * max(1, round(square / last)) if 1 < last <= 2 * square else square


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)
