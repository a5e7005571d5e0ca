"""A pattern drawn: panels with their names and grain, edges with their numbers, seams in pairs of one colour."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError, missing_extra, writing
from weft.garment.cut import CutGarment, lay_out, mirrored_panels
from weft.garment.pattern import EdgeName, Pattern

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

DRAWING_FORMATS = (".svg", ".png", ".pdf")
# inches on paper a metre of cloth, and the dots an inch of a PNG
SCALE, DOTS = 9.0, 110
GREY = "0.35"
# points of a curved edge in a drawing
CURVE_POINTS = 33


def draw_pattern(pattern: Pattern, path: str | Path, *, cut: CutGarment | None = None) -> Path:
    """Draw a pattern into an SVG, PNG or PDF file, with the triangles of `cut` where that is given."""
    path = Path(path)
    if path.suffix.lower() not in DRAWING_FORMATS:
        raise WeftError(f"{path}: a pattern is drawn to {', '.join(DRAWING_FORMATS)} files")
    try:
        import matplotlib
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("render", "matplotlib") from error

    offsets = _offsets(pattern)
    edges = _edge_points(pattern, offsets)
    every = np.concatenate(list(edges.values()))
    width, height = (np.ptp(every, axis=0) + 0.08).tolist()
    figure = Figure(figsize=(SCALE * width, SCALE * height + 0.5), dpi=DOTS)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0 - 0.5 / (SCALE * height + 0.5)))
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_xlim(every[:, 0].min() - 0.04, every[:, 0].max() + 0.04)
    axes.set_ylim(every[:, 1].min() - 0.04, every[:, 1].max() + 0.04)
    _draw_panels(axes, pattern, offsets, edges, cut)
    _draw_seams(axes, pattern, edges)
    panels, seams = len(pattern.panels), len(pattern.seams)
    total = sum(abs(panel.area) for panel in pattern.panels)
    figure.suptitle(f"{pattern.name}: {panels} panels, {seams} seams, {total:.2f} m²", fontsize=12)
    # names in the file that do not change from run to run, and no date
    with writing(path), matplotlib.rc_context({"svg.hashsalt": "weft", "svg.fonttype": "none"}):
        metadata: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower(), {})
        figure.savefig(path, metadata=metadata)
    return path


def _offsets(pattern: Pattern) -> list[tuple[float, Floats]]:
    """How each panel is laid out: -1 where it is mirrored to be seen from outside, and by how much it is moved."""
    mirrors = [-1.0 if mirrored else 1.0 for mirrored in mirrored_panels(pattern)]
    seen = [panel.outline * [mirror, 1.0] for panel, mirror in zip(pattern.panels, mirrors, strict=True)]
    moved = lay_out(seen)
    return [(mirror, after[0] - before[0]) for mirror, before, after in zip(mirrors, seen, moved, strict=True)]


def _edge_points(pattern: Pattern, offsets: list[tuple[float, Floats]]) -> dict[EdgeName, Floats]:
    """Every edge as a line on paper."""
    lines = {}
    for panel, (mirror, shift) in zip(pattern.panels, offsets, strict=True):
        for i, edge in enumerate(panel.edges):
            points = edge.curve.divided(1 if edge.curve.straight else CURVE_POINTS - 1)
            lines[EdgeName(panel.name, i)] = points * [mirror, 1.0] + shift
    return lines


def _draw_panels(
    axes: "Axes",
    pattern: Pattern,
    offsets: list[tuple[float, Floats]],
    edges: Mapping[EdgeName, Floats],
    cut: CutGarment | None,
) -> None:
    """The area of each panel, its triangles where there are some, its name and size."""
    for number, panel in enumerate(pattern.panels):
        outline = np.concatenate([edges[EdgeName(panel.name, i)][:-1] for i in range(len(panel.edges))])
        axes.fill(*outline.T, facecolor="0.95", edgecolor=GREY, linewidth=1.0, zorder=0)
        if cut is not None:
            # the cut garment is laid out on its own: panels are moved to where they are drawn
            mine = np.flatnonzero(cut.vertex_panel == number)
            flat = cut.uv[mine]
            faces = cut.faces[cut.face_panel == number] - mine[0]
            first = cut.edge_vertices[EdgeName(panel.name, 0)][0] - mine[0]
            shown = flat - flat[first] + edges[EdgeName(panel.name, 0)][0]
            axes.triplot(*shown.T, faces, color="0.75", linewidth=0.3, zorder=1)
        x, y = _middle(outline)
        low, high = outline.min(axis=0), outline.max(axis=0)
        size = f"{100 * (high[0] - low[0]):.1f} × {100 * (high[1] - low[1]):.1f} cm"
        axes.text(x, y, panel.name, ha="center", va="bottom", fontsize=9, zorder=4)
        axes.text(x, y - 0.004, size, ha="center", va="top", fontsize=7, color=GREY, zorder=4)


def _middle(outline: Floats) -> Floats:
    """The centroid of a polygon."""
    x, y = outline.T
    after_x, after_y = np.roll(x, -1), np.roll(y, -1)
    cross = x * after_y - after_x * y
    return np.array([((x + after_x) * cross).sum(), ((y + after_y) * cross).sum()]) / (3.0 * cross.sum())


def _draw_seams(axes: "Axes", pattern: Pattern, edges: Mapping[EdgeName, Floats]) -> None:
    """Both edges of a seam in one colour with the number of the seam; free edges stay thin."""
    from matplotlib import colormaps

    colours = colormaps["tab20"]
    for number, seam in enumerate(pattern.seams):
        colour = colours(number % 20)
        for name in (seam.one, seam.other):
            line = edges[name]
            axes.plot(*line.T, color=colour, linewidth=2.2, solid_capstyle="round", zorder=2)
            x, y = 0.5 * (line[(len(line) - 1) // 2] + line[len(line) // 2])
            axes.text(
                x,
                y,
                str(number),
                fontsize=7,
                ha="center",
                va="center",
                zorder=5,
                bbox={"boxstyle": "circle,pad=0.15", "facecolor": "white", "edgecolor": colour, "linewidth": 0.8},
            )
