"""Sewing patterns: panels with their edges and placements, the seams between edges, and reading them from files.

The files are GarmentCode specifications (Korosteleva and Sorkine-Hornung 2023), JSON. Every mistake that would make a
garment impossible is found here, and its message names the file, the panel and the edge.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError, printable
from weft.garment.curves import Curve, arc, bezier, line

Floats = NDArray[np.float64]

# m: what the largest panel of a garment measures at least and at most; a doll's collar, and a wedding train. A pattern in
# centimetres that is read as metres, or the other way round, is far outside
SMALLEST_PANEL, LARGEST_PANEL = 0.03, 8.0
# of the diagonal of a panel: an edge shorter than this has no length, a panel narrower than this no area
NOTHING = 1e-5
# chords by which edges are tested for crossings
CHORDS = 24


class PatternError(MeshError):
    """A sewing pattern that cannot be sewn as it is."""


@dataclass(frozen=True)
class PanelEdge:
    """One edge of a panel, from corner `start` to corner `end`."""

    start: int
    end: int
    curve: Curve
    label: str = ""
    """what the pattern calls it: `lower_interface` is a waistband"""

    @property
    def length(self) -> float:
        """In metres."""
        return self.curve.length


@dataclass(frozen=True)
class Panel:
    """A flat piece of cloth and where it stands before it is sewn."""

    name: str
    corners: Floats
    """(k, 2) m"""
    edges: tuple[PanelEdge, ...]
    """a closed loop; seen from the outside of the garment it runs counter-clockwise"""
    rotation: Floats
    """(3, 3)"""
    translation: Floats
    """(3,) m"""
    label: str = ""
    """the part of the body that it covers, where the pattern says that"""

    def placed(self, points: Floats) -> Floats:
        """(n, 3) where points of the flat panel stand in the world."""
        flat = np.column_stack([points, np.zeros(len(points))])
        return np.asarray(flat @ self.rotation.T + self.translation)

    @cached_property
    def outline(self) -> Floats:
        """(n, 2) a polygon along all edges, without a repeated point at the end."""
        return np.concatenate([edge.curve.divided(1 if edge.curve.straight else CHORDS)[:-1] for edge in self.edges])

    @property
    def area(self) -> float:
        """m^2; negative where the loop of edges runs clockwise in the plane."""
        x, y = self.outline.T
        return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


@dataclass(frozen=True)
class EdgeName:
    """An edge of a pattern: the name of its panel and its number there."""

    panel: str
    edge: int

    def __str__(self) -> str:
        return f"edge {self.edge} of panel {self.panel!r}"


@dataclass(frozen=True)
class PatternSeam:
    """Two edges that are sewn together along their whole lengths, however different these are."""

    one: EdgeName
    other: EdgeName
    same_way: bool = False
    """the start of one meets the start of the other, instead of its end: right side on wrong side"""


@dataclass(frozen=True)
class Pattern:
    """A sewing pattern, in metres."""

    name: str
    panels: tuple[Panel, ...]
    seams: tuple[PatternSeam, ...]

    def panel(self, name: str) -> Panel:
        """The panel of that name."""
        return self._by_name[name]

    def edge(self, name: EdgeName) -> PanelEdge:
        """The edge of that name."""
        return self._by_name[name.panel].edges[name.edge]

    @property
    def labels(self) -> list[str]:
        """The labels of its edges, without repetition."""
        return sorted({edge.label for panel in self.panels for edge in panel.edges} - {""})

    @cached_property
    def _by_name(self) -> dict[str, Panel]:
        return {panel.name: panel for panel in self.panels}


def load_pattern(path: str | Path) -> Pattern:
    """Read and check a sewing pattern: a GarmentCode specification, `*_specification.json`."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise PatternError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise PatternError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error})") from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PatternError(f"{path}: it is no JSON file ({printable(str(error))})") from None
    try:
        return read_pattern(data, _name_of(path))
    except PatternError as error:
        raise PatternError(f"{path}: {error}") from None


def read_pattern(data: Any, name: str = "garment") -> Pattern:
    """A pattern from the contents of a GarmentCode specification."""
    pattern = _table(_table(data, "the file").get("pattern"), "pattern")
    scale = _scale(_table(data.get("properties", {}), "properties"))
    tables = _table(pattern.get("panels"), "pattern.panels")
    if not tables:
        raise PatternError("the pattern has no panels")
    panels = tuple(_read_panel(str(key), value, scale) for key, value in tables.items())
    _check_size(panels, scale)
    for panel in panels:
        _check_panel(panel)
    seams = tuple(
        _read_seam(i, value, panels) for i, value in enumerate(_list(pattern.get("stitches", []), "stitches"))
    )
    return Pattern(name, panels, seams)


def _name_of(path: Path) -> str:
    """The name of a pattern file without what all of them have in common."""
    return path.stem.removesuffix("_specification") or path.stem


def _scale(properties: Mapping[str, Any]) -> float:
    """Metres a unit of the file."""
    units = _number(properties.get("units_in_meter", 100), "properties.units_in_meter")
    if not units > 0.0:
        raise PatternError(f"properties.units_in_meter must be more than 0, not {units:g}; 100 means centimetres")
    if properties.get("curvature_coords", "relative") != "relative":
        raise PatternError("properties.curvature_coords must be 'relative': control points in parts of their edge")
    return 1.0 / units


def _read_panel(name: str, data: Any, scale: float) -> Panel:
    where = f"panel {name!r}"
    table = _table(data, where)
    corners = _points(table.get("vertices"), 2, f"{where}: vertices") * scale
    translation = _points([table.get("translation", [0, 0, 0])], 3, f"{where}: translation")[0] * scale
    rotation = _euler(_points([table.get("rotation", [0, 0, 0])], 3, f"{where}: rotation")[0])
    edges = []
    for i, edge in enumerate(_list(table.get("edges"), f"{where}: edges")):
        edges.append(_read_edge(f"{where}: edge {i}", edge, corners, scale))
    if len(edges) < 2:
        raise PatternError(f"{where}: a panel needs at least two edges, and it has {len(edges)}")
    for i, (edge, following) in enumerate(zip(edges, [*edges[1:], edges[0]], strict=True)):
        if edge.end != following.start:
            after = (i + 1) % len(edges)
            raise PatternError(
                f"{where}: edge {i} ends at vertex {edge.end} and edge {after} starts at vertex {following.start}: "
                "the edges of a panel are one closed loop"
            )
    return Panel(name, corners, tuple(edges), rotation, translation, str(table.get("label", "")))


def _read_edge(where: str, data: Any, corners: Floats, scale: float) -> PanelEdge:
    table = _table(data, where)
    ends = table.get("endpoints")
    if not (isinstance(ends, list) and len(ends) == 2 and all(isinstance(i, int) for i in ends)):
        raise PatternError(f"{where}: endpoints must be two vertex numbers")
    outside = [i for i in ends if not 0 <= i < len(corners)]
    if outside:
        raise PatternError(
            f"{where}: there is no vertex {outside[0]}: the panel has the vertices 0 to {len(corners) - 1}"
        )
    start, end = corners[ends[0]], corners[ends[1]]
    size = float(np.linalg.norm(np.ptp(corners, axis=0)))
    if np.linalg.norm(end - start) <= NOTHING * size:
        raise PatternError(f"{where} has no length: its ends are at the same place; leave it out")
    curve = _read_curve(where, table.get("curvature"), start, end, scale)
    return PanelEdge(ends[0], ends[1], curve, str(table.get("label", "")))


def _read_curve(where: str, data: Any, start: Floats, end: Floats, scale: float) -> Curve:
    if data is None:
        return line(start, end)
    if isinstance(data, list):
        # what older files write for a quadratic curve: its control point
        data = {"type": "quadratic", "params": [data]}
    table = _table(data, f"{where}: curvature")
    kind, params = table.get("type"), _list(table.get("params"), f"{where}: curvature.params")
    if kind == "circle":
        if len(params) != 3:
            raise PatternError(
                f"{where}: a circle has the params radius, large_arc and right, not {len(params)} of them"
            )
        radius = _number(params[0], f"{where}: radius") * scale
        curve = arc(start, end, radius, bool(params[1]), bool(params[2])) if radius > 0.0 else None
        if curve is None:
            raise PatternError(
                f"{where}: a circle of radius {radius:.4g} m does not reach over "
                f"{float(np.linalg.norm(end - start)):.4g} m, the distance of the ends of the edge"
            )
        return curve
    counts = {"quadratic": 1, "cubic": 2}
    if kind not in counts:
        raise PatternError(f"{where}: curvature.type = {kind!r} is unknown; known are quadratic, cubic, circle")
    control = _points(params, 2, f"{where}: curvature.params")
    if len(control) != counts[kind]:
        raise PatternError(f"{where}: a {kind} curve has {counts[kind]} control points, not {len(control)}")
    return bezier(start, end, control)


def _read_seam(number: int, data: Any, panels: Sequence[Panel]) -> PatternSeam:
    where = f"stitch {number}"
    sides = _list(data, where)
    same_way = len(sides) == 3 and sides[2] == "right_wrong"
    if len(sides) != 2 and not same_way:
        raise PatternError(
            f"{where} must have two sides, each a panel and an edge, and may have 'right_wrong' after them"
        )
    known = {panel.name: panel for panel in panels}
    names = []
    for side in sides[:2]:
        table = _table(side, where)
        panel, edge = table.get("panel"), table.get("edge")
        if panel not in known:
            near = get_close_matches(str(panel), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise PatternError(f"{where} sews edge {edge} of panel {panel!r}, which the pattern does not have; {hint}")
        edges = len(known[panel].edges)
        if not isinstance(edge, int) or not 0 <= edge < edges:
            raise PatternError(f"{where} sews edge {edge} of panel {panel!r}, which has the edges 0 to {edges - 1}")
        names.append(EdgeName(panel, edge))
    if names[0] == names[1]:
        raise PatternError(f"{where} sews {names[0]} to itself")
    return PatternSeam(names[0], names[1], same_way)


def _check_size(panels: Sequence[Panel], scale: float) -> None:
    """Refuse a pattern whose unit is wrong: panels of millimetres or of tens of metres."""
    sizes = [float(np.linalg.norm(np.ptp(panel.corners, axis=0))) for panel in panels]
    largest = max(sizes)
    if SMALLEST_PANEL <= largest <= LARGEST_PANEL:
        return
    name, units = panels[int(np.argmax(sizes))].name, 1.0 / scale
    factor = 100.0 if largest > LARGEST_PANEL else 0.01
    raise PatternError(
        f"panel {name!r}, the largest, is {largest:.3g} m long: no garment is. properties.units_in_meter = {units:g} is "
        f"probably wrong; is it {units * factor:g}?"
    )


def _check_panel(panel: Panel) -> None:
    """Refuse a panel without area, and one whose edges cross."""
    size = float(np.linalg.norm(np.ptp(panel.outline, axis=0)))
    if abs(panel.area) <= NOTHING * size * size:
        raise PatternError(f"panel {panel.name!r} has no area: its edges lie on each other")
    crossing = _crossing_edges(panel)
    if crossing is not None:
        one, other = crossing
        what = f"edges {one} and {other} cross" if one != other else f"edge {one} crosses itself"
        raise PatternError(f"panel {panel.name!r}: {what}; a panel is cut along a line that does not cross itself")


def _crossing_edges(panel: Panel) -> tuple[int, int] | None:
    """The first two edges of a panel that cross, or None; neighbours may touch at their common corner."""
    counts = [1 if edge.curve.straight else CHORDS for edge in panel.edges]
    points = panel.outline
    owner = np.repeat(np.arange(len(counts)), counts)
    a, b = points, np.roll(points, -1, axis=0)
    ab = b - a
    count = len(points)

    def side(first: Floats, direction: Floats, point: Floats) -> Floats:
        offset = point - first
        return np.asarray(direction[..., 0] * offset[..., 1] - direction[..., 1] * offset[..., 0])

    i, j = np.triu_indices(count, 2)
    # the last chord is the neighbour of the first
    apart = ~((i == 0) & (j == count - 1))
    i, j = i[apart], j[apart]
    across = (side(a[i], ab[i], a[j]) * side(a[i], ab[i], b[j]) < 0.0) & (
        side(a[j], ab[j], a[i]) * side(a[j], ab[j], b[i]) < 0.0
    )
    if not across.any():
        return None
    first = int(np.flatnonzero(across)[0])
    return int(owner[i[first]]), int(owner[j[first]])


def _euler(degrees: Floats) -> Floats:
    """The rotation about x, then about y, then about z."""
    (cx, cy, cz), (sx, sy, sz) = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    about_x = np.array([[1, 0, 0], [0, cx, -sx], [0, sx, cx]])
    about_y = np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])
    about_z = np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]])
    return np.asarray(about_z @ about_y @ about_x)


def _table(value: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise PatternError(f"{where} must be a table of a GarmentCode specification, and is {_kind(value)}")
    return value


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise PatternError(f"{where} must be a list, and is {_kind(value)}")
    return value


def _kind(value: Any) -> str:
    return "missing" if value is None else f"a {type(value).__name__}"


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise PatternError(f"{where} must be a number, not {value!r}")
    return float(value)


def _points(value: Any, columns: int, where: str) -> Floats:
    rows = _list(value, where)
    for row in rows:
        if not isinstance(row, list) or len(row) != columns:
            raise PatternError(f"{where} must be lists of {columns} numbers")
    return np.array([[_number(x, where) for x in row] for row in rows], dtype=np.float64).reshape(-1, columns)
