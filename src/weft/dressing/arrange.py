"""Panels around a body: bent about the part of the body that they enclose, and moved so that seams pass it by.

A pattern places its panels flat, in front of and behind the body. Panels that are sewn to each other over the body belong
together: those of a trunk, of a sleeve, of a skirt. Such a group is bent, without stretching anything, into two half
cylinders whose axis runs along the seams that close it. Then it is moved up or down, and aside where that is not enough, to
where the straight lines between the two sides of its seams do not pass through the (thin) body, with some distance from where
they would.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import warp as wp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from weft.garment import CutGarment
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# m: edges that are sewn together and are no farther apart than this, seen from the front, belong to one group: side by side,
# or one in front of the other; the edges of sleeve and armhole are farther apart
BESIDE = 0.04
# m: but edges that are at least so far apart one above the other do not, where one panel is below the other: a skirt below its
# bodice is a part of its own, and patterns leave 2 to 5 cm between such parts. Panels that share more than this part of the
# height of the lower of both are beside each other: the front of a leg and its back, which patterns place a little lower
BELOW, SHARED = 0.01, 0.5
# m: a panel no higher than this is a waistband or a cuff, which belongs to what it holds: trousers that closed before their
# waistband did slid down the thin hips
BAND_HEIGHT = 0.08
# m: a seam whose edges are at least this far apart goes around the body
AROUND = 0.10
# of all edges of such seams the fraction, by length, that must run along one axis for a group to be bent about that
ALONG = 0.65
# the radius of the half cylinders in units of that of a closed tube: a little flatter, so that both halves stay apart
FLATTER = 1.15
# m: what the two halves keep apart, which are moved outwards where the panels stand closer than they are deep
HALVES_APART = 0.04
# places along a tube at which its girth is measured
GIRTHS = 9
# m: how far a group is moved down and up, in which steps, and the distance that it keeps from where seams would be caught
DOWN, UP, STEP, CLEARANCE = -0.10, 0.18, 0.01, 0.05
# m: and to both sides, where moving it up or down is not enough: the inner seams of narrow trousers, which are drawn wider
# apart than legs are, meet the legs
ASIDE = 0.12
# a tube encloses its part of the body where some of that is in the middle of it, this fraction of its width: sides that are
# sewn draw closer than they stood, and would leave a leg outside that was near one of them. Of the slices of the tube as many
# are to do so as can, but for one: a hem may hang below the feet
MIDDLE = 0.6
# m: of the points by which the body is found there
SPACING = 0.03


@wp.kernel
def find_blocked(
    first: int,
    body: wp.uint64,
    start: wp.array[wp.vec3],
    end: wp.array[wp.vec3],
    blocked: wp.array[int],
):
    """Whether the body is in the way from start to end."""
    i = first + wp.tid()
    way = end[i] - start[i]
    length = wp.length(way)
    blocked[i] = 0
    if length > float(1.0e-6):
        met = wp.mesh_query_ray(body, start[i], way / length, length)
        if met.result:  # type: ignore[attr-defined]
            blocked[i] = 1


class Obstacle:
    """A body that straight lines may meet."""

    def __init__(self, vertices: Floats, faces: Ints) -> None:
        self.points = np.concatenate([vertices, _points_on_edges(vertices, faces)])
        """points on it, not far from each other"""
        self._mesh = wp.Mesh(
            wp.array(vertices.astype(np.float32), dtype=wp.vec3, device="cpu"),
            wp.array(faces.ravel().astype(np.int32), dtype=int, device="cpu"),
        )

    def between(self, start: Floats, end: Floats) -> NDArray[np.bool_]:
        """(k,) whether the body is between two points."""
        count = len(start)
        found = wp.zeros(max(count, 1), dtype=int, device="cpu")
        ends = [wp.array(points.astype(np.float32), dtype=wp.vec3, device="cpu") for points in (start, end)]
        if count:
            launch(find_blocked, count, [self._mesh.id, *ends, found], device="cpu")
        return np.asarray(found.numpy()[:count] > 0)


def _points_on_edges(vertices: Floats, faces: Ints) -> Floats:
    """(k, 3) points that divide long edges of triangles into pieces of at most SPACING."""
    edges = np.unique(np.sort(faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1), axis=0)
    start, way = vertices[edges[:, 0]], np.subtract(*vertices[edges[:, ::-1]].transpose(1, 0, 2))
    pieces = np.maximum(1, np.ceil(np.linalg.norm(way, axis=1) / SPACING)).astype(int)
    of = np.repeat(np.arange(len(edges)), pieces - 1)
    number = np.arange(len(of)) - np.repeat(np.cumsum(pieces - 1) - (pieces - 1), pieces - 1) + 1
    return np.asarray(start[of] + (number / pieces[of])[:, None] * way[of])


@dataclass(frozen=True)
class Tube:
    """The middle of a tube of panels, in slices one after the other: boxes whose axes are those of the tube."""

    frame: Floats
    """(3, 3) along the tube, across it from side to side, from back to front"""
    least: Floats
    """(k, 3) m: the lower bounds of the boxes; each begins where the one before it ends"""
    most: Floats

    def enclosed(self, points: Floats, moves: Floats) -> Ints:
        """(h,) how many slices have one of the points inside when the tube is moved so."""
        places, steps = points @ self.frame.T, moves @ self.frame.T
        low, high = self.least.min(axis=0) + steps.min(axis=0), self.most.max(axis=0) + steps.max(axis=0)
        places = places[((places > low) & (places < high)).all(axis=1)]
        counts = np.zeros(len(moves), dtype=np.int32)
        for number, step in enumerate(steps):
            at = places - step
            box = np.clip(np.searchsorted(self.least[:, 0], at[:, 0]) - 1, 0, len(self.least) - 1)
            inside = ((at > self.least[box]) & (at < self.most[box])).all(axis=1)
            counts[number] = len(np.unique(box[inside]))
        return counts


@dataclass(frozen=True)
class Arrangement:
    """A garment ready to be sewn."""

    garment: CutGarment
    """with its panels moved and bent"""
    caught: int
    """stitches that the body is still in the way of"""


def arrange_panels(cut: CutGarment, body: Obstacle) -> Arrangement:
    """Bend and move the panels of a garment around a body."""
    groups = panel_groups(cut)
    x = cut.vertices.copy()
    for group in range(groups.max() + 1):
        _bend(cut, groups == group, x)
    vertex_group = groups[cut.vertex_panel]
    for group in range(groups.max() + 1):
        own = cut.stitches[(vertex_group[cut.stitches] == group).all(axis=1)]
        x[vertex_group == group] += _shift(x, own, _tube(cut, groups == group, x), body)
    caught = body.between(*x[cut.stitches].transpose(1, 0, 2)).sum()
    return Arrangement(replace(cut, vertices=x), int(caught))


def tube_girths(cut: CutGarment) -> list[tuple[Floats, Floats, Floats, Floats]]:
    """For each group of panels that encloses a part of the body: axis, middle, places along the axis, girths there in m."""
    groups = panel_groups(cut)
    found = []
    for group in range(groups.max() + 1):
        axis = _axis(cut, groups == group)
        if axis is None:
            continue
        mine = (groups == group)[cut.vertex_panel]
        heights = cut.vertices @ axis
        low, high = heights[mine].min(), heights[mine].max()
        places = low + (high - low) * np.linspace(0.05, 0.95, GIRTHS)
        faces = cut.faces[mine[cut.faces[:, 0]]]
        girths = np.array(
            [np.linalg.norm(np.subtract(*cut_edges(cut.vertices, faces, axis, h)), axis=1).sum() for h in places]
        )
        found.append((axis, cut.vertices[mine].mean(axis=0), places, girths))
    return found


def cut_edges(x: Floats, faces: Ints, axis: Floats, height: float) -> tuple[Floats, Floats]:
    """The ends of the segments in which a plane, at a height along its normal, cuts triangles."""
    above = (x @ axis > height)[faces]
    faces, above = faces[above.any(axis=1) & ~above.all(axis=1)], above[above.any(axis=1) & ~above.all(axis=1)]
    # the corner that is alone on its side, and the two others
    alone = np.where(above.sum(axis=1) == 1, above.argmax(axis=1), (~above).argmax(axis=1))
    rows = np.arange(len(faces))
    tip = x[faces[rows, alone]]
    ends = []
    for k in (1, 2):
        other = x[faces[rows, (alone + k) % 3]]
        fraction = (height - tip @ axis) / ((other - tip) @ axis)
        ends.append(tip + fraction[:, None] * (other - tip))
    return ends[0], ends[1]


def panel_groups(cut: CutGarment) -> Ints:
    """The group of each panel."""
    count = len(cut.pattern.panels)
    joined = np.zeros((count, count), dtype=np.int8)
    y = [cut.vertices[cut.vertex_panel == k, 1] for k in range(count)]
    low, high = np.array([own.min() for own in y]), np.array([own.max() for own in y])
    band, tubes = high - low <= BAND_HEIGHT, _tubes(cut)
    for seam in range(len(cut.pattern.seams)):
        pairs = cut.stitches[cut.stitch_seam == seam]
        if not len(pairs):
            continue
        one, other = cut.vertices[pairs].transpose(1, 0, 2)
        apart = np.abs((one - other)[:, :2])
        two = cut.vertex_panel[pairs[0]]
        if apart.max() >= BESIDE:
            continue
        below = high[two].min() - low[two].max() < SHARED * (high - low)[two].min() and apart[:, 1].mean() > BELOW
        # two legs are two tubes, also where their inner seams are drawn beside each other or over each other
        legs = tubes[two].all() and tubes[two[0]] != tubes[two[1]]
        if band[two].any() or not (below or legs):
            joined[tuple(two)] = 1
    return np.asarray(connected_components(joined, directed=False)[1])


def _tubes(cut: CutGarment) -> Ints:
    """(p,) the number of the tube that each panel makes with one other, which it is sewn to on two sides; 0 for others."""
    panels = [panel.name for panel in cut.pattern.panels]
    between: dict[tuple[int, ...], list[int]] = {}
    for number, seam in enumerate(cut.pattern.seams):
        both = sorted(panels.index(name.panel) for name in (seam.one, seam.other))
        between.setdefault(tuple(both), []).append(number)
    tubes = np.zeros(len(panels), dtype=np.int32)
    for number, (pair, seams) in enumerate(sorted(between.items()), 1):
        if len(seams) > 1 and pair[0] != pair[1] and _axis_of_seams(cut, seams, both_sides=True) is not None:
            tubes[list(pair)] = number
    return tubes


def _bend(cut: CutGarment, chosen: NDArray[np.bool_], x: Floats) -> None:
    """Bend the chosen panels into half cylinders, in place."""
    panels = cut.pattern.panels
    axis = _axis(cut, chosen)
    if axis is None:
        return
    mine = chosen[cut.vertex_panel]
    flat, middle = x[mine].copy(), x[mine].mean(axis=0)
    halves: dict[tuple[float, ...], list[int]] = {}
    for number in np.flatnonzero(chosen):
        own = cut.vertex_panel == number
        normal = panels[number].rotation[:, 2]
        across = np.cross(axis, normal)
        depth = float((middle - x[own].mean(axis=0)) @ normal)
        length = float(np.linalg.norm(across))
        # a panel that stands beside the axis, or lies across it, stays flat
        if length < 0.5 or abs(depth) < 0.5 * AROUND:
            continue
        across /= length
        reach = (flat - middle) @ across
        centre, half = 0.5 * (reach.min() + reach.max()), 0.5 * np.ptp(reach)
        radius = FLATTER * 2.0 * half / np.pi
        u = (x[own] - middle) @ across - centre
        x[own] += np.outer(radius * np.sin(u / radius) - u, across)
        x[own] += np.outer(np.sign(depth) * radius * (1.0 - np.cos(u / radius)), normal)
        halves.setdefault(tuple(np.round(-np.sign(depth) * normal, 3)), []).append(int(number))
    for outwards, numbers in halves.items():
        half = np.isin(cut.vertex_panel, numbers)
        nearest = float(((x[half] - middle) @ np.array(outwards)).min())
        x[half] += max(0.0, 0.5 * HALVES_APART - nearest) * np.array(outwards)


def _axis(cut: CutGarment, chosen: NDArray[np.bool_]) -> Floats | None:
    """The direction of most edges that are sewn around the body within the chosen panels; None if there is none."""
    panels = {panel.name: bool(own) for panel, own in zip(cut.pattern.panels, chosen, strict=True)}
    seams = cut.pattern.seams
    return _axis_of_seams(cut, [i for i, s in enumerate(seams) if panels[s.one.panel] and panels[s.other.panel]])


def _axis_of_seams(cut: CutGarment, numbers: Sequence[int], *, both_sides: bool = False) -> Floats | None:
    """The axis of the tube that seams close, on both sides of it if that is asked for; None where they close none.

    A tube runs along its seams, and these are side by side: the seams of a wide circle skirt, one behind the other along
    their direction, are no tube.
    """
    total = np.zeros((3, 3))
    lines = []
    for number in numbers:
        pairs, seam = cut.stitches[cut.stitch_seam == number], cut.pattern.seams[number]
        one, other = cut.vertices[pairs].transpose(1, 0, 2)
        if not len(pairs) or np.linalg.norm(one - other, axis=1).mean() < AROUND:
            continue
        for name in (seam.one, seam.other):
            steps = np.diff(cut.vertices[cut.edge_vertices[name]], axis=0)
            total += np.einsum("i,ij,ik->jk", 1.0 / np.linalg.norm(steps, axis=1), steps, steps)
        lines.append(0.5 * (one + other))
    lengths, directions = np.linalg.eigh(total)
    axis = directions[:, 2]
    if not lengths[2] > ALONG * lengths.sum() > 0.0:
        return None
    # a side of a tube may have several seams, one after the other; both sides have some at the same heights
    middles = np.array([line.mean(axis=0) for line in lines])
    across = middles - np.outer(middles @ axis, axis)
    across = (across - across.mean(axis=0)) @ np.linalg.svd(across - across.mean(axis=0))[2][0]
    reach = [
        np.concatenate([line @ axis for line, c in zip(lines, across, strict=True) if (c > 0.0) == side])
        for side in (False, True)
        if ((across > 0.0) == side).any()
    ]
    if np.ptp(across) < AROUND or len(reach) < 2:
        return None if both_sides or np.ptp(middles @ axis) > np.ptp(across) else np.asarray(axis)
    shared = min(side.max() for side in reach) - max(side.min() for side in reach)
    return np.asarray(axis) if shared > SHARED * min(np.ptp(side) for side in reach) else None


def _shift(x: Floats, stitches: Ints, tube: Tube | None, body: Obstacle) -> Floats:
    """(3,) how far a group is moved so that the body is in the way of the fewest stitches, and not just so.

    It is moved up or down; where that is not enough, also to a side. A tube is to enclose its part of the body: it is no
    better if the stitches of a trouser leg all pass the leg by on one side.
    """
    heights = np.arange(DOWN, UP + 0.5 * STEP, STEP)
    sides = np.append(np.arange(-ASIDE, ASIDE + 0.5 * STEP, STEP), 0.0) if tube else np.zeros(1)
    one, other = x[stitches].transpose(1, 0, 2)
    moves = np.zeros((len(sides), len(heights), 3))
    moves[:, :, 0], moves[:, :, 1] = sides[:, None], heights
    beside = np.zeros(moves.shape[:2])
    if tube:
        enclosed = tube.enclosed(body.points, moves.reshape(-1, 3)).reshape(beside.shape)
        beside = np.maximum(0, enclosed.max() - 1 - enclosed) / len(tube.least)

    def missed(side: int) -> Floats:
        """Stitches, for each height, that the body is in the way of, or that close beside it."""
        blocked = np.array([body.between(one + move, other + move).sum() for move in moves[side]])
        return np.asarray(blocked + beside[side] * len(stitches))

    # the last of the sides is none
    side, counts = len(sides) - 1, missed(len(sides) - 1)
    if counts.min() > 0 and tube:
        best = _nearest(sides[:-1], np.array([missed(i).min() for i in range(len(sides) - 1)]))
        side = int(np.argmin(np.abs(sides[:-1] - best)))
        counts = missed(side)
    return np.array([sides[side], _nearest(heights, counts), 0.0])


def _tube(cut: CutGarment, chosen: NDArray[np.bool_], x: Floats) -> Tube | None:
    """The slices of the tube that panels make; None where they make none."""
    axis = _axis(cut, chosen)
    if axis is None:
        return None
    frame = np.stack([axis, np.cross(axis, [0.0, 0.0, 1.0]), [0.0, 0.0, 1.0]])
    places = x[chosen[cut.vertex_panel]] @ frame.T
    least, most = [], []
    for low, high in pairwise(np.linspace(places[:, 0].min(), places[:, 0].max(), GIRTHS + 1)):
        here = places[(places[:, 0] >= low) & (places[:, 0] <= high)]
        if len(here):
            (_, left, back), (_, right, front) = here.min(axis=0), here.max(axis=0)
            middle, half = 0.5 * (left + right), 0.5 * MIDDLE * (right - left)
            least.append([low, middle - half, back])
            most.append([high, middle + half, front])
    return Tube(frame, np.array(least), np.array(most))


def _nearest(moves: Floats, counts: Floats) -> float:
    """Of the moves with the smallest count the nearest to none, with some distance from those with more."""
    best = counts == counts.min()
    # the runs of good moves; the nearest to where the pattern puts the group is taken
    edges = np.flatnonzero(np.diff(np.concatenate([[0], best.astype(int), [0]])))
    runs = [(moves[i], moves[j - 1]) for i, j in zip(edges[::2], edges[1::2], strict=True)]
    low, high = min(runs, key=lambda run: max(0.0, run[0], -run[1]))
    middle = 0.5 * (low + high)
    return float(np.clip(0.0, min(low + CLEARANCE, middle), max(high - CLEARANCE, middle)))
