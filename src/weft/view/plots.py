"""The report of a run as a plot: time a frame, contacts, stretch and intersections."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import WeftError, missing_extra
from weft.scene.colours import CLOTH_PALETTE, Floats, from_lch

if TYPE_CHECKING:
    from weft.cache import Cache

PLOT_FORMATS = (".png", ".pdf", ".svg")

# title, unit on the axis, and the report columns that are drawn there
PANELS = (
    ("Wall time", "seconds a frame", ("wall_time",)),
    ("Contacts", "pairs a frame", ("contacts", "collisions", "zones")),
    ("Stretch", "worst edge strain", ("stretch",)),
    ("Intersections", "edges through triangles", ("intersections",)),
)
GREY = (0.45, 0.47, 0.50)
RED = (0.80, 0.12, 0.10)


def plot_report(cache: "Cache", path: str | Path, *, title: str | None = None) -> Path:
    """Draw a cache's report into a PNG, PDF or SVG file and return its path.

    Frames whose status is not "ok" have a red line through all panels; the first statuses are printed below.
    """
    path = Path(path)
    if path.suffix.lower() not in PLOT_FORMATS:
        raise WeftError(f"{path}: a plot ends in {', '.join(PLOT_FORMATS)}")
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("render", "matplotlib") from error
    from weft.view.pictures import replacing

    report = cache.report
    rows = list(report.rows())
    if not rows:
        raise WeftError("there is nothing to plot: the cache has no complete frame yet")
    frames = np.arange(len(rows))
    troubles = [(f, str(row["status"])) for f, row in zip(frames, rows, strict=True) if not is_ok(row.get("status"))]

    figure = Figure(figsize=(10.0, 7.0), dpi=120, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(2, 2, sharex=True)
    for axis, (name, unit, columns) in zip(axes.ravel(), PANELS, strict=True):
        draw_panel(axis, name, unit, {c: column(report, c) for c in columns})
        for frame, _ in troubles:
            axis.axvline(frame, color=RED, linewidth=0.8, alpha=0.35, zorder=0)
        axis.set_xlim(0, max(len(rows) - 1, 1))
    for axis in axes[1]:
        axis.set_xlabel("frame")
    figure.suptitle(title or report_title(cache, column(report, "wall_time")), fontsize=12)
    if troubles:
        lines = [f"frame {frame}: {status[:110]}" for frame, status in troubles[:3]]
        if len(troubles) > 3:
            lines.append(f"and {len(troubles) - 3} more frames with a status")
        figure.supxlabel("\n".join(lines), fontsize=8, color=RED, x=0.01, ha="left")
    with replacing(path) as partial:
        figure.savefig(partial)
    return path


def is_ok(status: Any) -> bool:
    """Whether a status is empty or "ok"."""
    return status in (None, "", "ok")


def column(report: Any, name: str) -> Floats | None:
    """A column as numbers, NaN where a frame has none; None if no frame has any."""
    if name not in report:
        return None
    values = np.array([np.nan if v is None else v for v in report[name]], dtype=np.float64)
    return values if np.isfinite(values).any() else None


def draw_panel(axis: Any, name: str, unit: str, columns: dict[str, Floats | None]) -> None:
    """Draw one panel: a line for each column, or "not recorded"."""
    axis.set_title(name, loc="left", fontsize=10, fontweight="bold")
    axis.set_ylabel(unit, fontsize=9, color=GREY)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(axis="y", color=GREY, alpha=0.2, linewidth=0.6)
    axis.tick_params(labelsize=8, colors=GREY)
    known = {label: values for label, values in columns.items() if values is not None}
    if not known:
        axis.text(0.5, 0.5, "not recorded", transform=axis.transAxes, ha="center", color=GREY)
        axis.set_yticks([])
        return
    for (label, values), lch in zip(known.items(), CLOTH_PALETTE, strict=False):
        # a column that only some frames have (intersections) is drawn as joined points
        there = np.isfinite(values)
        mark = "." if len(values) < 2 or not there.all() else ""
        colour = tuple(from_lch(*lch))
        axis.plot(np.flatnonzero(there), values[there], color=colour, linewidth=1.4, marker=mark, label=label)
    if len(known) > 1:
        axis.legend(frameon=False, fontsize=8)
    axis.margins(y=0.08)
    tops = [float(np.nanmax(values)) for values in known.values()]
    top = max(tops)
    if len(tops) > 1 and top > 50.0 * min(tops) > 0.0:
        # on a linear scale thousands of contacts would hide a few impact zones
        axis.set_yscale("symlog", linthresh=10.0)
    axis.set_ylim(bottom=min(0.0, *(float(np.nanmin(v)) for v in known.values())), top=None if top > 0.0 else 1.0)


def report_title(cache: "Cache", wall: Floats | None) -> str:
    """Name, frames and total time in one line."""
    from weft.cache import scene_of

    name = getattr(scene_of(cache), "name", None) or getattr(getattr(cache, "path", None), "stem", "cache")
    total = "" if wall is None else f", {np.nansum(wall):.1f} s of computing"
    return f"{name}: {cache.frames} frames at {cache.fps:g} fps{total}"
