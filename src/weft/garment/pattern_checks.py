"""What makes a pattern impossible: a wrong unit, panels without area or with edges that cross, seams to the wrong edges."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.garment.pattern import CHORDS, EdgeName, Panel, PatternError, PatternSeam

Floats = NDArray[np.float64]

# m: what the largest panel of a garment measures at least and at most; a doll's collar, and a wedding train. A pattern in
# centimetres that is read as metres, or the other way round, is far outside
SMALLEST_PANEL, LARGEST_PANEL = 0.03, 8.0
# of the diagonal of a panel: an edge shorter than this has no length, a panel narrower than this no area
NOTHING = 1e-5


def check_size(panels: Sequence[Panel], scale: float) -> None:
    """Refuse a pattern whose unit is wrong: panels of millimetres or of tens of metres."""
    panel = max(panels, key=lambda panel: panel.size)
    largest, name, units = panel.size, panel.name, 1.0 / scale
    if SMALLEST_PANEL <= largest <= LARGEST_PANEL:
        return
    factor = 100.0 if largest > LARGEST_PANEL else 0.01
    raise PatternError(
        f"panel {name!r}, the largest, is {largest:.3g} m long: no garment is. properties.units_in_meter = {units:g} is "
        f"probably wrong; is it {units * factor:g}?"
    )


def check_panel(panel: Panel) -> None:
    """Refuse a panel without area, and one whose edges cross."""
    size = float(np.linalg.norm(np.ptp(panel.outline, axis=0)))
    if abs(panel.area) <= NOTHING * size * size:
        raise PatternError(f"panel {panel.name!r} has no area: its edges lie on each other")
    crossing = _crossing_edges(panel)
    if crossing is not None:
        one, other = crossing
        what = f"edges {one} and {other} cross" if one != other else f"edge {one} crosses itself"
        raise PatternError(f"panel {panel.name!r}: {what}; a panel is cut along a line that does not cross itself")
    _check_folds(panel)


def _check_folds(panel: Panel) -> None:
    """Refuse folds that leave their panel, run along its edges, or cross each other."""
    a, b = panel.outline, np.roll(panel.outline, -1, axis=0)
    ends = [(panel.corners[fold.start], panel.corners[fold.end]) for fold in panel.folds]
    for i, (start, end) in enumerate(ends):
        where = f"panel {panel.name!r}: fold {i}"
        if any({edge.start, edge.end} == {panel.folds[i].start, panel.folds[i].end} for edge in panel.edges):
            raise PatternError(f"{where} runs along an edge: a fold needs cloth on both sides")
        others = [k for k in range(i) if _cross(start, end, *ends[k])]
        if others:
            raise PatternError(f"{where} crosses fold {others[0]}")
        middle = 0.5 * (start + end)
        # a ray to the right of its middle meets the outline an odd number of times
        spans = (a[:, 1] > middle[1]) != (b[:, 1] > middle[1])
        rise = np.where(spans, b[:, 1] - a[:, 1], 1.0)
        right = spans & (middle[0] < a[:, 0] + (middle[1] - a[:, 1]) * (b[:, 0] - a[:, 0]) / rise)
        if right.sum() % 2 == 0 or bool(_cross(start, end, a, b).any()):
            raise PatternError(f"{where} leaves the panel: a fold runs inside it, from corner to corner")


def _cross(start: Floats, end: Floats, a: Floats, b: Floats) -> NDArray[np.bool_]:
    """Whether the segment from start to end and those from a to b cross within both."""

    def side(first: Floats, second: Floats, point: Floats) -> Floats:
        d, o = second - first, point - first
        return np.asarray(d[..., 0] * o[..., 1] - d[..., 1] * o[..., 0])

    nothing = NOTHING * float(np.sum((end - start) ** 2))
    apart = side(start, end, a) * side(start, end, b) < -(nothing**2)
    return np.asarray(apart & (side(a, b, start) * side(a, b, end) < -(nothing**2)))


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


def check_rings(panels: Sequence[Panel], seams: Sequence[PatternSeam]) -> None:
    """Refuse seams that join both ends of an edge with each other, although no seam makes a tube of its panel.

    Some seam beside it joins the wrong edges, or runs the wrong way: the left half of a skirt with the right half of a bodice.
    """
    joined = {(panel.name, i): (panel.name, i) for panel in panels for i in range(len(panel.corners))}
    edges = {EdgeName(panel.name, i): edge for panel in panels for i, edge in enumerate(panel.edges)}

    def corner(panel: str, number: int) -> tuple[str, int]:
        """The first of the corners that seams have joined this one with."""
        at = (panel, number)
        while joined[at] != at:
            at = joined[at]
        return at

    for seam in seams:
        one, other = edges[seam.one], edges[seam.other]
        meets = (other.start, other.end) if seam.same_way else (other.end, other.start)
        for mine, yours in zip((one.start, one.end), meets, strict=True):
            joined[corner(seam.one.panel, mine)] = corner(seam.other.panel, yours)
    sewn = {frozenset((seam.one, seam.other)) for seam in seams}
    counts = {panel.name: len(panel.edges) for panel in panels}
    tubes = {
        name
        for name in edges
        if frozenset(EdgeName(name.panel, (name.edge + k) % counts[name.panel]) for k in (-1, 1)) in sewn
    }
    partners = {name for pair in sewn if pair & tubes for name in pair}
    for name, edge in edges.items():
        if corner(name.panel, edge.start) == corner(name.panel, edge.end) and name not in tubes | partners:
            raise PatternError(
                f"the seams join both ends of {name} with each other: a seam beside it joins the wrong edges, or runs the "
                "wrong way"
            )
