"""Where the edges and folds of panels are divided into segments: alike on both sides of a seam, finer towards short edges."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from weft.garment.pattern import EdgeName, Panel, Pattern
from weft.garment.triangulate import GRADING

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# places along an edge at which the wanted length of segments is evaluated
PLACES = 129
# rounds in which short segments at a corner pass on from edge to edge over corners and seams, and how much longer than its
# neighbour around a corner a segment may be before it is shortened too
CORNER_ROUNDS, CORNER_RATIO = 6, 1.6
# an edge that is longer than its chord by this fraction is divided at least once: one segment would cut off its area
CURVED = 0.02
# of the wanted length of segments: an edge shorter than this, and all that it is sewn to, is one vertex. Programs that split
# edges so that they match leave edges of a millimetre, whose triangles would be finer than cloth is thick
TINY = 0.25
# cosine of the angle between the neighbours of such an edge: the end of a strap, whose sides run against each other, stays
STRAP = -0.5


def divide_edges(pattern: Pattern, length: float, finer: Mapping[EdgeName, float]) -> dict[EdgeName, Floats]:
    """For each edge the fractions of its length at which vertices are, from 0 to 1.

    Edges that are sewn together get the same fractions (reversed where they meet the other way round), so that every
    vertex of one has its partner on the other, also where one is longer and is eased or gathered. `finer` divides the
    wanted length of segments on some edges. An edge that is tiny has one vertex, its end, and the fractions [1].
    """
    groups = _sewn_groups(pattern)
    tiny = _tiny_edges(pattern, groups, length)
    groups = [group for group in groups if group[0][0] not in tiny]
    aims = {}
    for group in groups:
        aim = length / max(finer.get(name, 1.0) for name, _ in group)
        aims.update({name: aim for name, _ in group})
    corner = _corner_lengths(pattern, groups, aims)
    divided = {name: np.ones(1) for name in tiny}
    for _ in range(CORNER_ROUNDS):
        for group in groups:
            fractions = _divide_group(pattern, group, aims, corner)
            for name, turned in group:
                divided[name] = 1.0 - fractions[::-1] if turned else fractions
        if not _shorten_corners(pattern, divided, corner):
            break
    return divided


def divide_folds(
    panel: Panel, divided: dict[EdgeName, Floats], edge: float, finer: Mapping[EdgeName, float]
) -> tuple[Floats, list[Ints]]:
    """Points along the folds of a panel, numbered after those of its boundary, and the segments of each fold."""
    starts = np.cumsum([0, *(len(divided[EdgeName(panel.name, i)]) - 1 for i in range(len(panel.edges)))])
    corner = {e.start: int(starts[i]) for i, e in enumerate(panel.edges)}
    points, segments = [np.zeros((0, 2))], []
    following = int(starts[-1])
    for number, fold in enumerate(panel.folds):
        ends = panel.corners[[fold.start, fold.end]]
        aim = edge / finer.get(fold_name(panel, number), 1.0)
        count = max(1, round(float(np.linalg.norm(ends[1] - ends[0])) / aim))
        points.append(ends[0] + np.linspace(0.0, 1.0, count + 1)[1:-1, None] * (ends[1] - ends[0]))
        chain = [corner[fold.start], *range(following, following + count - 1), corner[fold.end]]
        segments.append(np.stack([chain[:-1], chain[1:]], axis=1).astype(np.int32))
        following += count - 1
    return np.concatenate(points), segments


def fold_name(panel: Panel, number: int) -> EdgeName:
    """Folds are numbered after the edges of their panel."""
    return EdgeName(panel.name, len(panel.edges) + number)


def _sewn_groups(pattern: Pattern) -> list[list[tuple[EdgeName, bool]]]:
    """The edges that seams connect, each with whether it runs against the first edge of its group."""
    partners: dict[EdgeName, list[tuple[EdgeName, bool]]] = {}
    for panel in pattern.panels:
        for i in range(len(panel.edges)):
            partners[EdgeName(panel.name, i)] = []
    for seam in pattern.seams:
        partners[seam.one].append((seam.other, not seam.same_way))
        partners[seam.other].append((seam.one, not seam.same_way))
    seen: set[EdgeName] = set()
    groups = []
    for first in partners:
        if first in seen:
            continue
        group = [(first, False)]
        seen.add(first)
        for name, turned in group:
            for other, against in partners[name]:
                if other not in seen:
                    seen.add(other)
                    group.append((other, turned != against))
        groups.append(group)
    return groups


def _tiny_edges(pattern: Pattern, groups: list[list[tuple[EdgeName, bool]]], length: float) -> set[EdgeName]:
    """The edges that are too short for a segment, with all that they are sewn to; of neighbours only every other one."""
    tiny: set[EdgeName] = set()
    longest = {group[0][0]: max(pattern.edge(name).length for name, _ in group) for group in groups}
    for group in sorted(groups, key=lambda group: longest[group[0][0]]):
        if longest[group[0][0]] >= TINY * length:
            break
        names = {name for name, _ in group}
        if all(_may_vanish(pattern, name, tiny | names - {name}) for name in names):
            tiny |= names
    return tiny


def _may_vanish(pattern: Pattern, name: EdgeName, gone: set[EdgeName]) -> bool:
    """Whether a panel is about the same without an edge: both its neighbours stay, and do not run against each other."""
    edges = pattern.panel(name.panel).edges
    before, after = (EdgeName(name.panel, (name.edge + step) % len(edges)) for step in (-1, 1))
    if len(edges) < 4 or before in gone or after in gone:
        return False
    into = np.diff(pattern.edge(before).curve.at(np.array([0.9, 1.0])), axis=0)[0]
    onto = np.diff(pattern.edge(after).curve.at(np.array([0.0, 0.1])), axis=0)[0]
    return bool(into @ onto > STRAP * np.linalg.norm(into) * np.linalg.norm(onto))


def _least(pattern: Pattern, name: EdgeName) -> int:
    """Segments that an edge has at least."""
    edge = pattern.edge(name)
    ends = edge.curve.control[[0, -1]]
    return 2 if edge.length > (1.0 + CURVED) * np.linalg.norm(ends[1] - ends[0]) else 1


def _corner_lengths(
    pattern: Pattern, groups: list[list[tuple[EdgeName, bool]]], aims: Mapping[EdgeName, float]
) -> dict[tuple[str, int], float]:
    """For each corner of each panel how long segments are there: as long as the shorter ones of its two edges."""
    corner: dict[tuple[str, int], float] = {}
    for group in groups:
        count = max(max(_least(pattern, name), round(pattern.edge(name).length / aims[name])) for name, _ in group)
        for name, _ in group:
            edge = pattern.edge(name)
            for end in (edge.start, edge.end):
                key = name.panel, end
                corner[key] = min(corner.get(key, np.inf), edge.length / count)
    return corner


def _shorten_corners(
    pattern: Pattern, divided: Mapping[EdgeName, Floats], corner: dict[tuple[str, int], float]
) -> bool:
    """Note where segments at a corner came out short because of an edge that they are sewn to; whether there are such."""
    changed = False
    for name, fractions in divided.items():
        if len(fractions) == 1:
            continue
        edge = pattern.edge(name)
        for end, step in ((edge.start, fractions[1]), (edge.end, 1.0 - fractions[-2])):
            segment = float(step) * edge.length
            if CORNER_RATIO * segment < corner[name.panel, end]:
                corner[name.panel, end] = segment
                changed = True
    return changed


def _divide_group(
    pattern: Pattern,
    group: list[tuple[EdgeName, bool]],
    aims: Mapping[EdgeName, float],
    corner: Mapping[tuple[str, int], float],
) -> Floats:
    """The fractions of the first edge of a group: every edge of it gets segments as short as it needs."""
    places = np.linspace(0.0, 1.0, PLACES)
    density = np.zeros(PLACES)
    for name, turned in group:
        edge = pattern.edge(name)
        start, end = corner[name.panel, edge.start], corner[name.panel, edge.end]
        wanted = np.minimum(aims[name], start + GRADING * edge.length * places)
        wanted = np.minimum(wanted, end + GRADING * edge.length * (1.0 - places))
        # segments for each part of the edge
        needed = edge.length / wanted
        density = np.maximum(density, needed[::-1] if turned else needed)
    steps = 0.5 * (density[1:] + density[:-1]) / (PLACES - 1)
    total = np.concatenate([[0.0], np.cumsum(steps)])
    count = max(round(float(total[-1])), *(_least(pattern, name) for name, _ in group))
    return np.interp(np.linspace(0.0, total[-1], count + 1), total, places)
