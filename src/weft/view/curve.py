"""A curve of the report over the frames, below the timeline of `weft view`: a click or a drag on it goes to that frame."""

import html
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError

Floats = NDArray[np.float64]

# columns of the report that can be drawn, those that a run has, in the order of the choice
CURVES = (
    "contacts",
    "intersections",
    "crossing",
    "released",
    "stretch",
    "stretch_99",
    "collisions",
    "zones",
    "wall_time",
)
CURVE_COLOUR, CURSOR_COLOUR = "#3366cc", "#dc1419"
# height of the drawing, pixels; its width is that of the panel, to which 1000 units of the drawing are stretched
HEIGHT, WIDTH = 96, 1000
# points of a curve at most: of longer runs the largest and smallest value of each group of frames is drawn
POINTS = 1000


class ReportCurve:
    """A column of the report, with a line at the frame that is shown.

    Two pieces of HTML lie over each other: the curve, which changes when the run grows, and the line, which changes with
    every frame and is therefore small. `more` are curves that are not in the report, computed when they are chosen.
    """

    def __init__(
        self, gui: Any, report: Mapping[str, Any], key: str, more: Mapping[str, Callable[[], Floats]] | None = None
    ) -> None:
        self._report, self._key, self._more = report, key, dict(more or {})
        self._values: Floats = np.zeros(0)
        self._drawn: tuple[int, str] = (-1, "")
        self._at: tuple[int, int] = (-1, -1)
        self._error = ""
        columns = [name for name in CURVES if name in report and np.ndim(report[name]) == 1] + list(self._more)
        self.choice: Any = None
        if not columns:
            return
        with gui.add_folder("Report"):
            self.choice = gui.add_dropdown("curve", tuple(columns), initial_value=columns[0])
            self._curve = gui.add_html("")
            self._cursor = gui.add_html("")

    @property
    def values(self) -> Floats:
        """The value of each frame of the curve that is drawn."""
        return self._values

    def update(self, report: Mapping[str, Any] | None, frames: int, frame: int) -> None:
        """Draw the chosen column with a line at a frame; `report` is given where it has grown."""
        if report is not None:
            self._report = report
        if self.choice is None:
            return
        column = str(self.choice.value)
        if (frames, column) != self._drawn or report is not None:
            self._drawn = frames, column
            self._values, self._error = np.zeros(0), ""
            try:
                found = self._more[column]() if column in self._more else self._report[column]
                self._values = np.asarray(found, dtype=np.float64)
            except WeftError as error:
                self._error = str(error)
            self._curve.content = curve_html(self._values)
            self._at = (-1, -1)
        if (frames, frame) != self._at:
            self._at = frames, frame
            self._cursor.content = cursor_html(self._values, frame, self._key, self._error)


def value_range(values: Floats) -> tuple[float, float]:
    """The smallest and the largest finite value; the smallest is at most 0."""
    finite = values[np.isfinite(values)]
    return min(float(finite.min(initial=0.0)), 0.0), float(finite.max(initial=0.0))


def curve_html(values: Floats) -> str:
    """The curve as SVG, with the range of the values and the last frame beside it."""
    low, high = value_range(values)
    frames, shown = thinned(values)
    last = max(len(values) - 1, 1)
    runs, run = [], []
    for f, v in zip(frames, shown, strict=True):
        if np.isfinite(v):
            run.append(f"{WIDTH * f / last:.1f},{_height_of(v, low, high):.1f}")
        elif run:
            runs.append(run)
            run = []
    lines = "".join(f'<polyline points="{" ".join(points)}"/>' for points in [*runs, run] if points)
    label = 'style="position:absolute;left:2px;font-size:10px;opacity:0.7;{}"'
    return (
        f'<div style="margin:0 1em;position:relative;height:{HEIGHT}px;border:1px solid #8884;border-radius:3px">'
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" preserveAspectRatio="none" style="width:100%;height:100%;display:block">'
        f'<g fill="none" stroke="{CURVE_COLOUR}" stroke-width="1.5">{lines}</g>'
        "<style>polyline{vector-effect:non-scaling-stroke}</style></svg>"
        f"<span {label.format('top:0')}>{high:.4g}</span><span {label.format('bottom:0')}>{low:.4g}</span></div>"
    )


def cursor_html(values: Floats, frame: int, key: str, error: str = "") -> str:
    """The line at a frame and its value, in a layer over the curve that takes clicks."""
    last = max(len(values) - 1, 1)
    value = values[frame] if frame < len(values) else np.nan
    said = html.escape(error or f"frame {frame}: {value:.4g}" if np.isfinite(value) else f"frame {frame}")
    # a request a frame that the mouse passes, not one a movement
    go = (
        "if(event.type=='pointerdown'||event.buttons){const b=this.getBoundingClientRect();"
        f"const f=Math.min({last},Math.max(0,Math.round((event.clientX-b.left)/b.width*{last})));"
        f"if(event.type=='pointerdown'||window.weftFrame!==f){{window.weftFrame=f;fetch('do/{key}/'+f)}}}}"
    )
    return (
        f'<div class="weft-curve" title="click or drag to go to a frame" onpointerdown="{go}" onpointermove="{go}" '
        f'style="margin:0 1em;margin-top:-{HEIGHT}px;height:{HEIGHT}px;position:relative;cursor:crosshair;'
        'touch-action:none;user-select:none">'
        f'<div style="position:absolute;top:0;bottom:0;left:{100.0 * frame / last:.3f}%;width:1px;background:{CURSOR_COLOUR}">'
        f'</div><span style="position:absolute;right:2px;top:0;font-size:10px;color:{CURSOR_COLOUR}">{said}</span></div>'
    )


def thinned(values: Floats) -> tuple[list[int], Floats]:
    """Frames and values of at most `POINTS` points that keep every peak and every valley of a longer curve."""
    group = -(-2 * len(values) // POINTS)
    if group <= 2:
        return list(range(len(values))), values
    chosen: list[int] = []
    for first in range(0, len(values), group):
        part = values[first : first + group]
        if np.isfinite(part).any():
            chosen += sorted({first + int(np.nanargmin(part)), first + int(np.nanargmax(part))})
    return chosen, values[chosen]


def _height_of(value: float, low: float, high: float) -> float:
    """Where a value is drawn, from the top, with a margin of 5 % on both sides."""
    return HEIGHT * (0.95 - 0.9 * (value - low) / ((high - low) or 1.0))
