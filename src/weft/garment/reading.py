"""Reading sewing patterns: GarmentCode specifications (Korosteleva and Sorkine-Hornung 2023), JSON.

Every mistake that would make a garment impossible is found here, and its message names the file, the panel and the edge.
"""

import json
import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import printable
from weft.garment.curves import Curve, arc, bezier, line
from weft.garment.pattern import EdgeName, Fold, Panel, PanelEdge, Pattern, PatternError, PatternSeam
from weft.garment.pattern_checks import NOTHING, check_panel, check_rings, check_size

Floats = NDArray[np.float64]


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
    check_size(panels, scale)
    for panel in panels:
        check_panel(panel)
    seams = tuple(
        _read_seam(i, value, panels) for i, value in enumerate(_list(pattern.get("stitches", []), "stitches"))
    )
    check_rings(panels, seams)
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
    folds = tuple(
        _read_fold(f"{where}: fold {i}", fold, corners)
        for i, fold in enumerate(_list(table.get("folds", []), f"{where}: folds"))
    )
    return Panel(name, corners, tuple(edges), rotation, translation, str(table.get("label", "")), folds)


def _read_fold(where: str, data: Any, corners: Floats) -> Fold:
    table = _table(data, where)
    start, end = _read_ends(where, table, corners)
    angle = _number(table.get("angle"), f"{where}: angle")
    if not -180.0 <= angle <= 180.0:
        raise PatternError(f"{where}: angle must be between -180 and 180 degrees, not {angle:g}")
    return Fold(start, end, angle)


def _read_edge(where: str, data: Any, corners: Floats, scale: float) -> PanelEdge:
    table = _table(data, where)
    first, last = _read_ends(where, table, corners)
    curve = _read_curve(where, table.get("curvature"), corners[first], corners[last], scale)
    return PanelEdge(first, last, curve, str(table.get("label", "")))


def _read_ends(where: str, table: Mapping[str, Any], corners: Floats) -> tuple[int, int]:
    """The corners that an edge or a fold joins."""
    ends = table.get("endpoints")
    if not (isinstance(ends, list) and len(ends) == 2 and all(isinstance(i, int) for i in ends)):
        raise PatternError(f"{where}: endpoints must be two vertex numbers")
    outside = [i for i in ends if not 0 <= i < len(corners)]
    if outside:
        raise PatternError(
            f"{where}: there is no vertex {outside[0]}: the panel has the vertices 0 to {len(corners) - 1}"
        )
    size = float(np.linalg.norm(np.ptp(corners, axis=0)))
    if np.linalg.norm(corners[ends[1]] - corners[ends[0]]) <= NOTHING * size:
        raise PatternError(f"{where} has no length: its ends are at the same place; leave it out")
    return ends[0], ends[1]


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
        if not isinstance(panel, str) or panel not in known:
            near = get_close_matches(str(panel), known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise PatternError(f"{where} sews edge {edge} of panel {panel!r}, which the pattern does not have; {hint}")
        edges = len(known[panel].edges)
        if isinstance(edge, bool) or not isinstance(edge, int) or not 0 <= edge < edges:
            raise PatternError(f"{where} sews edge {edge} of panel {panel!r}, which has the edges 0 to {edges - 1}")
        names.append(EdgeName(panel, edge))
    if names[0] == names[1]:
        raise PatternError(f"{where} sews {names[0]} to itself")
    return PatternSeam(names[0], names[1], same_way)


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
