"""Panels around a body: bent about the part of the body that they enclose, and moved so that seams pass it by.

A pattern places its panels flat, in front of and behind the body. Panels that are sewn to each other over the body belong
together: those of a trunk, of a sleeve, of a skirt. Such a group is bent, without stretching anything, into two half
cylinders whose axis runs along the seams that close it. Then it is moved up or down to where the straight lines between
the two sides of its seams do not pass through the (thin) body, with some distance from where they would.
"""

from dataclasses import dataclass, replace

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
# m: but edges that are at least so far apart one above the other, and farther than sideways, do not: a skirt below its bodice
# is a part of its own, and patterns leave 3 to 5 cm between such parts
BELOW = 0.01
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
        x[vertex_group == group, 1] += _shift(x, cut.stitches[(vertex_group[cut.stitches] == group).all(axis=1)], body)
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
    heights = np.array([np.ptp(cut.vertices[cut.vertex_panel == k, 1]) for k in range(count)])
    for seam in range(len(cut.pattern.seams)):
        pairs = cut.stitches[cut.stitch_seam == seam]
        if len(pairs):
            one, other = cut.vertices[pairs].transpose(1, 0, 2)
            apart = np.abs((one - other)[:, :2])
            across, down = apart.mean(axis=0)
            two = cut.vertex_panel[pairs[0]]
            hangs = down > max(BELOW, across) and heights[two].min() > BAND_HEIGHT
            if apart.max() < BESIDE and not hangs:
                joined[tuple(two)] = 1
    return np.asarray(connected_components(joined, directed=False)[1])


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
    """The direction of most edges that are sewn around the body within the chosen panels; None if there is none.

    A tube runs along its seams, and these are side by side: the seams of a wide circle skirt, one behind the other along
    their direction, are no tube.
    """
    total = np.zeros((3, 3))
    middles = []
    for number, seam in enumerate(cut.pattern.seams):
        pairs = cut.stitches[cut.stitch_seam == number]
        if not len(pairs) or not chosen[cut.vertex_panel[pairs[0]]].all():
            continue
        one, other = cut.vertices[pairs].transpose(1, 0, 2)
        if np.linalg.norm(one - other, axis=1).mean() < AROUND:
            continue
        for name in (seam.one, seam.other):
            steps = np.diff(cut.vertices[cut.edge_vertices[name]], axis=0)
            total += np.einsum("i,ij,ik->jk", 1.0 / np.linalg.norm(steps, axis=1), steps, steps)
        middles.append(0.5 * (one + other).mean(axis=0))
    lengths, directions = np.linalg.eigh(total)
    axis = directions[:, 2]
    if not lengths[2] > ALONG * lengths.sum() > 0.0:
        return None
    apart = np.array(middles)[:, None] - np.array(middles)
    along = np.abs(apart @ axis)
    across = np.linalg.norm(apart - (apart @ axis)[..., None] * axis, axis=2)
    return None if along.max() > across.max() else np.asarray(axis)


def _shift(x: Floats, stitches: Ints, body: Obstacle) -> float:
    """How far up a group is moved so that the body is in the way of the fewest stitches, and not just so."""
    heights = np.arange(DOWN, UP + 0.5 * STEP, STEP)
    one, other = x[stitches].transpose(1, 0, 2)
    counts = np.array([body.between(one + [0, h, 0], other + [0, h, 0]).sum() for h in heights])
    best = counts == counts.min()
    # the runs of good heights; the nearest to where the pattern puts the group is taken
    edges = np.flatnonzero(np.diff(np.concatenate([[0], best.astype(int), [0]])))
    runs = [(heights[i], heights[j - 1]) for i, j in zip(edges[::2], edges[1::2], strict=True)]
    low, high = min(runs, key=lambda run: max(0.0, run[0], -run[1]))
    middle = 0.5 * (low + high)
    return float(np.clip(0.0, min(low + CLEARANCE, middle), max(high - CLEARANCE, middle)))
