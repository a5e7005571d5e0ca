"""Collision planes: keep the boxes of triangles apart by limits on the coordinates of their vertices.

Liu, Ko and Chang 1998, section 4. Two boxes that are apart at the start of a step and touch while their sides move
linearly get a plane d = k, perpendicular to the axis d on which they touch last: the vertices of one triangle stay
below it, those of the other above it. A vertex in several pairs must be below its lowest plane and above its highest;
where these conflict (upper < lower) it stays between them, and the next run moves the planes apart.

What the paper leaves open, and what is done here:

- A gap stays between the two sides: the thickness, or what there was at the start of the step if that was less.
- Where one side already lies on a limit that holds it back, the other gives way: this is how a floor carries a pile.
- Otherwise the first plane of a pair is the middle of its two sides at the end of the step, so that cloth which falls
  together goes on falling. A pair that meets again in the same step, because of a conflict, gets the paper's plane,
  where its sides first touch; in later runs this goes back towards where the sides were at the start.
- When planes still conflict after some runs, every pair that is left gets the plane in the middle of its gap at the
  start: the positions of the start fulfil all of these at once, so that the runs come to an end.
- A collider does not give way: its plane is its own side at the end of the step.
- Boxes that overlap at the start on all axes have no plane. On the axis of least overlap neither side may go deeper.
- Triangles that share no vertex but that an edge joins are left out as adjacent ones are: in a flat sheet that lies at
  an angle to the axes their boxes overlap, and planes between them would stop the sheet from turning. Whether they and
  adjacent triangles pass through each other is looked at triangle by triangle (`response/held_triangles.py`).
"""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.elastic_surface import Limits
from weft.world import Surface, World, launch

wp.set_module_options({"enable_backward": False})

# how much of a gap may be lost to rounding before a pair counts again
SLACK = wp.constant(wp.float64(1e-6))
# kinds of planes: in the middle of the ends, where the sides touch, in the middle of the gap at the start
CARRIED, TOUCHING, STILL = range(3)
# what a pair needs
NOTHING, PLANE, NO_DEEPER = range(3)


@wp.struct
class Span:
    """The box of a triangle at the start and at the end of a step."""

    low: wp.vec3d
    high: wp.vec3d
    low_end: wp.vec3d
    high_end: wp.vec3d


@wp.func
def lowest(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """The lower corner of the box around three points."""
    return wp.min(wp.min(a, b), c)


@wp.func
def highest(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """The upper corner of the box around three points."""
    return wp.max(wp.max(a, b), c)


@wp.func
def span_of(f: wp.vec3i, start: wp.array[wp.vec3d], end: wp.array[wp.vec3d]) -> Span:
    """The boxes of a triangle."""
    result = Span()
    result.low = lowest(start[f[0]], start[f[1]], start[f[2]])
    result.high = highest(start[f[0]], start[f[1]], start[f[2]])
    result.low_end = lowest(end[f[0]], end[f[1]], end[f[2]])
    result.high_end = highest(end[f[0]], end[f[1]], end[f[2]])
    return result


@wp.func
def time_of(gap: wp.float64, gap_end: wp.float64) -> wp.vec2d:
    """When a gap that changes linearly is closed during a step: first and last time, first > last: never."""
    zero = wp.float64(0.0)
    one = wp.float64(1.0)
    if gap >= zero and gap_end >= zero:
        return wp.vec2d(wp.float64(2.0), wp.float64(-1.0))
    if gap < zero and gap_end < zero:
        return wp.vec2d(zero, one)
    closing = gap / (gap - gap_end)
    if gap >= zero:
        return wp.vec2d(closing, one)
    return wp.vec2d(zero, closing)


@wp.func
def joined(f: wp.vec3i, g: wp.vec3i, offsets: wp.array[int], neighbours: wp.array[int]) -> bool:
    """Whether an edge leads from one triangle to the other."""
    for k in range(3):
        for s in range(offsets[f[k]], offsets[f[k] + 1]):
            n = neighbours[s]
            if n == g[0] or n == g[1] or n == g[2]:
                return True
    return False


@wp.func
def rests(
    f: wp.vec3i, axis: int, side: wp.float64, cloth: int, limit: wp.array2d[wp.float64], end: wp.array[wp.vec3d]
) -> bool:
    """Whether a triangle's side, at this coordinate, lies on a limit of one of its vertices; cloth ones have limits."""
    for k in range(3):
        v = f[k]
        if v < cloth and end[v][axis] == side and limit[axis, v] == side:
            return True
    return False


@wp.kernel
def find_planes(
    first: int,
    pairs: wp.array[wp.vec2i],
    kinds: wp.array[int],
    faces: wp.array[wp.vec3i],
    fixed: wp.array[int],
    offsets: wp.array[int],
    neighbours: wp.array[int],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    cloth: int,
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    found: wp.array[wp.vec3i],
    values: wp.array[wp.vec2d],
):
    """What each pair of triangles needs: (what, axis, which of the two is below) and (upper, lower) limit."""
    i = first + wp.tid()
    p = pairs[i]
    f = faces[p[0]]
    g = faces[p[1]]
    a = span_of(f, start, end)
    b = span_of(g, start, end)
    half = wp.float64(0.5)

    # how far apart the boxes are at the start, and on which axis they are farthest
    gap = wp.float64(-1.0e300)
    axis = int(0)
    for d in range(3):
        here = wp.max(b.low[d] - a.high[d], a.low[d] - b.high[d])
        if here > gap:
            gap = here  # type: ignore[assignment]
            axis = d
    spacing = wp.min(wp.min(thickness[f[0]], thickness[g[0]]), gap)
    kept = spacing * (wp.float64(1.0) - SLACK)

    # when they overlap on all axes, and on which one last
    what = int(0)
    touch = wp.float64(-1.0)
    if gap > wp.float64(0.0):
        until = wp.float64(1.0)
        last = int(0)
        for d in range(3):
            above = time_of(b.low[d] - a.high[d] - kept, b.low_end[d] - a.high_end[d] - kept)
            below = time_of(a.low[d] - b.high[d] - kept, a.low_end[d] - b.high_end[d] - kept)
            until = wp.min(until, wp.min(above[1], below[1]))
            begin = wp.max(above[0], below[0])
            if begin > touch:
                touch = begin  # type: ignore[assignment]
                last = d
        if touch <= until:
            what = 1
            if kinds[i] != 2:
                axis = last

    # the two sides that face each other: (at the start, at the end)
    under = int(0)
    top = wp.vec2d(a.high[axis], a.high_end[axis])
    bottom = wp.vec2d(b.low[axis], b.low_end[axis])
    if a.low[axis] + a.high[axis] > b.low[axis] + b.high[axis]:
        under = 1
        top = wp.vec2d(b.high[axis], b.high_end[axis])
        bottom = wp.vec2d(a.low[axis], a.low_end[axis])
    limits = wp.vec2d(top[0], bottom[0])
    if gap <= wp.float64(0.0):
        deeper = top[1] - bottom[1] - (top[0] - bottom[0])
        if deeper > SLACK * (top[0] - bottom[0] + thickness[f[0]]):
            what = 2
    elif what == 1:
        middle = half * (top[0] + bottom[0])
        if kinds[i] == 0:
            middle = half * (top[1] + bottom[1])
        elif kinds[i] == 1:
            middle += touch * half * (top[1] - top[0] + bottom[1] - bottom[0])
        limits = wp.vec2d(middle - half * spacing, middle + half * spacing)
        if kinds[i] == 2:
            # rounding must not put the start outside
            limits = wp.vec2d(wp.max(limits[0], top[0]), wp.min(limits[1], bottom[0]))
        # a collider goes where it goes, and what rests on a limit stays
        carries = fixed[p[under]] != 0
        presses = fixed[p[1 - under]] != 0
        if kinds[i] != 2 and not carries and not presses:
            carries = rests(faces[p[under]], axis, top[1], cloth, lower, end)
            presses = rests(faces[p[1 - under]], axis, bottom[1], cloth, upper, end)
        if carries and not presses:
            limits = wp.vec2d(top[1], top[1] + spacing)
        elif presses and not carries:
            limits = wp.vec2d(bottom[1] - spacing, bottom[1])
    if what != 0 and joined(f, g, offsets, neighbours):
        what = 0
    found[i] = wp.vec3i(what, axis, under)
    values[i] = limits


class Planes(NamedTuple):
    """Planes of some pairs of triangles (host arrays)."""

    keys: np.ndarray
    """(k,) int64: first triangle times the number of triangles, plus the second; ascending"""
    axis: np.ndarray
    """(k,) 0, 1, 2: x, y, z"""
    under: np.ndarray
    """(k,) 0 where the first triangle is the lower one, 1 where the second is"""
    values: np.ndarray
    """(k, 2): the largest coordinate of the lower triangle, the least one of the upper"""


class Met(NamedTuple):
    """How many pairs met, and how many of them had no plane before."""

    pairs: int
    new: int


class CollisionPlanes:
    """The planes of one step: what was found in its runs, and the limits that follow."""

    def __init__(
        self, surface: Surface, thickness: wp.array, fixed_faces: np.ndarray, friction: np.ndarray | None = None
    ) -> None:
        """`fixed_faces` says which triangles are colliders; `friction` holds a coefficient a pair of bodies."""
        self.surface, self.thickness = surface, thickness
        self.device = surface.device
        self.faces = surface.faces.numpy().reshape(-1, 3)
        self.fixed = np.asarray(fixed_faces, bool)
        self._fixed = wp.array(self.fixed.astype(np.int32), dtype=int, device=self.device)
        self._offsets, self._neighbours = (
            wp.array(a, dtype=int, device=self.device) for a in vertex_neighbours(surface)
        )
        self._body = surface.face_body.numpy()
        bodies = surface.body_pairs.shape[0]
        self._friction = np.zeros((bodies, bodies)) if friction is None else friction
        self.reset()

    @classmethod
    def from_world(cls, world: World) -> "CollisionPlanes":
        """The planes between all triangles of a world; those of its colliders do not give way."""
        fixed = np.arange(len(world.faces)) >= world.cloth_face_count
        return cls(world.surface, world.thickness, fixed, world.friction_static.numpy())

    def reset(self) -> None:
        """Forget all planes: a new step begins."""
        none = np.zeros(0, np.int64)
        self.planes = Planes(none, none, none, np.zeros((0, 2)))

    def update(
        self, pairs: wp.array, start: wp.array, end: wp.array, lower: wp.array, upper: wp.array, *, still: bool = False
    ) -> Met:
        """Add planes for the pairs that meet between start and end, and move those of pairs that meet again.

        lower, upper: the limits (3, cloth vertices) with which the end was found.
        still: put planes where the positions of the start fulfil them all; `reset` before the first time.
        """
        count = len(pairs)
        if count == 0:
            return Met(0, 0)
        pairs_host = pairs.numpy().reshape(-1, 2).astype(np.int64)
        keys = pairs_host[:, 0] * len(self.faces) + pairs_host[:, 1]
        known = np.isin(keys, self.planes.keys)
        kinds = np.full(count, STILL) if still else np.where(known, TOUCHING, CARRIED)
        found = wp.empty(count, dtype=wp.vec3i, device=self.device)
        values = wp.empty(count, dtype=wp.vec2d, device=self.device)
        launch(
            find_planes,
            count,
            [pairs, wp.array(kinds.astype(np.int32), dtype=int, device=self.device), self.surface.faces, self._fixed]
            + [self._offsets, self._neighbours, start, end, self.thickness]
            + [lower.shape[1], lower, upper, found, values],
            device=self.device,
            grain=256,
        )
        what = found.numpy()
        rows = np.flatnonzero(what[:, 0] != NOTHING)
        if len(rows):
            self._merge(Planes(keys[rows], what[rows, 1], what[rows, 2], values.numpy()[rows]))
        return Met(len(rows), int(np.count_nonzero(~known[rows])))

    def _merge(self, new: Planes) -> None:
        """Take new planes; of two for one pair the new one counts."""
        both = Planes(*(np.concatenate(columns) for columns in zip(new, self.planes, strict=True)))
        _, chosen = np.unique(both.keys, return_index=True)
        self.planes = Planes(*(column[chosen] for column in both))

    def write(self, limits: Limits) -> int:
        """Narrow the limits to what the planes allow; gives how many coordinates are in conflict.

        A vertex between two planes that conflict stays between them: its interval is reversed. Planes of colliders
        count before all others.
        """
        vertices, axis, value, below, pair = self._rows()
        hard = self._is_hard(pair)

        def narrow(lower: np.ndarray, upper: np.ndarray, rows: np.ndarray) -> None:
            high, low = rows & below, rows & ~below
            np.minimum.at(upper, (axis[high], vertices[high]), value[high])
            np.maximum.at(lower, (axis[low], vertices[low]), value[low])

        narrow(limits.lower, limits.upper, ~hard)
        conflict = limits.upper < limits.lower
        upper = limits.upper[conflict]
        limits.upper[conflict] = limits.lower[conflict]
        limits.lower[conflict] = upper
        # colliders do not give way
        bounds = Limits.free(limits.lower.shape[1])
        narrow(bounds.lower, bounds.upper, hard)
        for limit in (limits.lower, limits.upper):
            np.clip(limit, bounds.lower, np.maximum(bounds.lower, bounds.upper), out=limit)
        return int(np.count_nonzero(conflict))

    def rubbing(self, limits: Limits, r: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Where r (3, n) lies on a collider's plane: vertices, axes, coefficients of friction, triangles rubbed on."""
        vertices, axis, value, _, pair = self._rows()
        mu, solid = self._contact(pair)
        at = (axis, vertices)
        on = (mu > 0.0) & (r[at] == value) & ((limits.lower[at] == value) | (limits.upper[at] == value))
        return vertices[on], axis[on], mu[on], solid[on]

    def _is_hard(self, pair: np.ndarray) -> np.ndarray:
        """For planes by number: whether one of the two triangles is a collider's."""
        first, second = np.divmod(self.planes.keys, max(len(self.faces), 1))
        return (self.fixed[first] | self.fixed[second])[pair]

    def _contact(self, pair: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """For planes by number: the coefficient of friction, 0 between cloths, and the collider's triangle."""
        first, second = np.divmod(self.planes.keys[pair], max(len(self.faces), 1))
        hard = self.fixed[first] | self.fixed[second]
        mu = np.where(hard, self._friction[self._body[first], self._body[second]], 0.0)
        solid = np.asarray(np.where(self.fixed[first], first, second))
        return mu, solid

    def _rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Every limit of every plane: vertex, axis, value, whether it is an upper one, number of the plane."""
        planes = self.planes
        triangles = np.stack(np.divmod(planes.keys, max(len(self.faces), 1)), axis=1)
        number = np.arange(len(planes.keys))
        lower = np.where(planes.under == 0, triangles[:, 0], triangles[:, 1])
        upper = np.where(planes.under == 0, triangles[:, 1], triangles[:, 0])
        parts = []
        for triangle, value, below in ((lower, planes.values[:, 0], True), (upper, planes.values[:, 1], False)):
            soft = ~self.fixed[triangle]
            vertices = self.faces[triangle[soft]].ravel()
            parts.append(
                (
                    vertices,
                    np.repeat(planes.axis[soft], 3),
                    np.repeat(value[soft], 3),
                    np.full(len(vertices), below),
                    np.repeat(number[soft], 3),
                )
            )
        vertices, axis, values, below_all, pair = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return vertices, axis, values, below_all, pair


def vertex_neighbours(surface: Surface) -> tuple[np.ndarray, np.ndarray]:
    """The vertices that an edge leads to from each vertex: offsets and items."""
    edges = surface.edges.numpy().reshape(-1, 2)
    ends = np.concatenate([edges, edges[:, ::-1]])
    order = np.argsort(ends[:, 0], kind="stable")
    counts = np.bincount(ends[:, 0], minlength=surface.vertex_count)
    offsets = np.zeros(len(counts) + 1, np.int32)
    offsets[1:] = np.cumsum(counts)
    items: np.ndarray = ends[order, 1].astype(np.int32)
    return offsets, items
