"""Triangles for a flat panel: a Delaunay triangulation whose boundary is given, with inner vertices spread evenly.

The boundary is divided before, alike on both sides of a seam, so no vertex may be added to it. Inner vertices start on a
hexagonal lattice whose spacing shrinks towards short boundary segments, move to the centroids of their surroundings
(Lloyd's method), and are added or taken away where triangles are still bad. Qhull, which scipy brings along, finds the
Delaunay triangulations.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import Delaunay, QhullError, cKDTree

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# degrees: the smallest angle that is aimed at; in practice 28 to 30 is reached, and 25 is what users are told
AIMED_ANGLE = 28.0
# how much the edge length may grow over a distance of one: 0.35 keeps neighbouring triangles similar
GRADING = 0.35
# of the local edge length: what the lattice leaves free along the boundary
BOUNDARY_GAP = 0.6
# Lloyd rounds at the start, and after each round of adding and taking away
FIRST_ROUNDS, LATER_ROUNDS = 12, 4
# rounds of adding and taking away inner vertices
MENDING_ROUNDS = 30
# finest lattice: the edge length divided by two so many times
LATTICES = 5
# of the local edge length: an edge shorter than this is collapsed, a circumcentre nearer to others than this not added
SHORT = 0.62
# points that are compared with the whole boundary at once: limits the memory for their distances
CHUNK = 4096


class MissingSegments(Exception):
    """Boundary segments that the triangulation does not contain, because the panel is narrower there than they are long."""

    def __init__(self, segments: Ints) -> None:
        super().__init__()
        self.segments = segments
        """the first vertices of those of the boundary; the numbers of folds, counted on from these"""


def triangulate(
    boundary: Floats, length: float, inner: Floats | None = None, folds: Ints | None = None
) -> tuple[Floats, Ints]:
    """Vertices, the boundary first, and counter-clockwise triangles inside a counter-clockwise polygon.

    inner: points inside that become the next vertices. folds: (k, 2) pairs of vertices that are to be edges.
    Raises `MissingSegments` where segments of the boundary, or folds, are too long for how narrow the polygon is.
    """
    inner = np.zeros((0, 2)) if inner is None else inner
    folds = np.zeros((0, 2), np.int32) if folds is None else folds
    # in units of the edge length about the origin, so that all tolerances are the same for every pattern
    origin = boundary.mean(axis=0)
    rim = (boundary - origin) / length
    panel = _PanelMesh(rim, (inner - origin) / length, folds)
    points = panel.spread(_lattice_points(panel), FIRST_ROUNDS)
    best, best_angle = points, panel.worst_angle(points)
    for _ in range(MENDING_ROUNDS):
        if best_angle >= AIMED_ANGLE:
            break
        mended = panel.mend(points)
        if mended is None:
            break
        points = panel.spread(mended, LATER_ROUNDS)
        angle = panel.worst_angle(points)
        if angle > best_angle:
            best, best_angle = points, angle
    faces = panel.triangles(best)
    missing = panel.missing_segments(faces)
    if len(missing):
        raise MissingSegments(missing)
    return np.concatenate([boundary, inner, best[panel.fixed :] * length + origin]), faces


def smallest_angles(points: Floats, faces: Ints) -> Floats:
    """(m,) the smallest angle of each triangle, in degrees."""
    return np.asarray(_angles(points, faces).min(axis=1))


def split_edges(points: Floats, faces: Ints, edges: Ints) -> tuple[Floats, Ints]:
    """Put a vertex in the middle of edges, and split the triangles on both sides of each."""
    for a, b in edges.tolist():
        rows = np.flatnonzero((faces == a).any(axis=1) & (faces == b).any(axis=1))
        pair, middle = faces[rows], len(points)
        points = np.concatenate([points, 0.5 * (points[a] + points[b])[None]])
        faces = np.concatenate([faces, np.where(pair == b, middle, pair)]).astype(np.int32)
        faces[rows] = np.where(pair == a, middle, pair)
    return points, faces


class _PanelMesh:
    """The boundary of a panel in units of the wanted edge length, and what is asked of points inside it."""

    def __init__(self, rim: Floats, inner: Floats, folds: Ints) -> None:
        self.rim = rim
        self.count = len(rim)
        self.start = np.concatenate([rim, inner])
        self.fixed = len(self.start)
        self._folds = folds
        steps = np.linalg.norm(np.roll(rim, -1, axis=0) - rim, axis=1)
        sizes = 0.5 * (steps + np.roll(steps, 1))
        # only short segments make triangles smaller
        short = sizes < 1.0
        self._short, self._short_sizes = rim[short], sizes[short]
        self._corner_angles = _corner_angles(rim)
        # the boundary by points so dense that the distance to the nearest of them is the distance to the boundary
        pieces = np.maximum(2, np.ceil(steps / 0.1).astype(int))
        ends = np.roll(rim, -1, axis=0)
        dense = [
            a + (b - a) * np.linspace(0.0, 1.0, count, endpoint=False)[:, None]
            for a, b, count in zip(rim, ends, pieces, strict=True)
        ]
        dense += [a + (b - a) * np.linspace(0.0, 1.0, 11)[:, None] for a, b in self.start[folds]]
        self._dense = cKDTree(np.concatenate(dense))

    def size(self, points: Floats) -> Floats:
        """The edge length that is wanted at points."""
        wanted = np.ones(len(points))
        if not len(self._short):
            return wanted
        for start in range(0, len(points), CHUNK):
            chunk = slice(start, start + CHUNK)
            away = np.linalg.norm(points[chunk, None] - self._short[None], axis=2)
            wanted[chunk] = np.minimum(1.0, (self._short_sizes + GRADING * away).min(axis=1))
        return wanted

    def inside(self, points: Floats) -> NDArray[np.bool_]:
        """Whether points are inside the polygon: a ray to the right crosses it an odd number of times."""
        a, b = self.rim, np.roll(self.rim, -1, axis=0)
        found = np.zeros(len(points), dtype=bool)
        for start in range(0, len(points), CHUNK):
            chunk = slice(start, start + CHUNK)
            x, y = points[chunk, :1], points[chunk, 1:]
            spans = (a[:, 1] > y) != (b[:, 1] > y)
            rise = np.where(b[:, 1] == a[:, 1], 1.0, b[:, 1] - a[:, 1])
            crossing = a[:, 0] + (y - a[:, 1]) * (b[:, 0] - a[:, 0]) / rise
            found[chunk] = (spans & (x < crossing)).sum(axis=1) % 2 == 1
        return found

    def to_boundary(self, points: Floats) -> Floats:
        """The distances of points to the boundary."""
        return np.asarray(self._dense.query(points)[0])

    def triangles(self, points: Floats) -> Ints:
        """The Delaunay triangles inside the polygon, counter-clockwise."""
        try:
            faces = Delaunay(points).simplices
        except QhullError:
            return np.zeros((0, 3), np.int32)
        a, b, c = (points[column] for column in faces.T)
        twice = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
        faces = np.where((twice < 0.0)[:, None], faces[:, ::-1], faces)
        # only triangles between boundary vertices alone can be outside
        kept = np.abs(twice) > 1e-9
        rim_only = kept & (faces < self.count).all(axis=1)
        kept[rim_only] = self.inside(points[faces[rim_only]].mean(axis=1))
        return np.asarray(faces[kept], dtype=np.int32)

    def missing_segments(self, faces: Ints) -> Ints:
        """The boundary segments that no triangle has as an edge in the right direction, and the folds that none has."""
        sides = np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2)
        following = (sides[:, 0] + 1) % self.count == sides[:, 1]
        has = np.zeros(self.count, dtype=bool)
        has[sides[following & (sides < self.count).all(axis=1), 0]] = True
        edges = {frozenset(pair) for pair in sides.tolist()} if len(self._folds) else set()
        lost = [self.count + i for i, pair in enumerate(self._folds.tolist()) if frozenset(pair) not in edges]
        return np.append(np.flatnonzero(~has), lost).astype(np.int32)

    def spread(self, points: Floats, rounds: int) -> Floats:
        """Move inner vertices to the centroids of the triangles around them, weighted by how many vertices are wanted."""
        points = points.copy()
        inner = np.arange(self.fixed, len(points))
        for _ in range(rounds):
            if not len(inner):
                return points
            faces = self.triangles(points)
            middle = points[faces].mean(axis=1)
            a, b, c = (points[column] for column in faces.T)
            area = 0.5 * ((b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0]))
            weight = np.repeat(area / self.size(middle) ** 4, 3)
            corners = faces.ravel()
            total = np.bincount(corners, weight, len(points))
            moved = np.stack(
                [np.bincount(corners, weight * np.repeat(middle[:, k], 3), len(points)) for k in range(2)], axis=1
            )
            alive = inner[total[inner] > 0.0]
            points[alive] = moved[alive] / total[alive, None]
        return points

    def worst_angle(self, points: Floats) -> float:
        """The smallest angle that is not due to a sharp corner of the panel, degrees; -1 where the boundary is broken."""
        faces = self.triangles(points)
        if len(self.missing_segments(faces)):
            return -1.0
        return float(np.where(self._excused(faces), 60.0, smallest_angles(points, faces)).min(initial=60.0))

    def _excused(self, faces: Ints) -> NDArray[np.bool_]:
        """Triangles in a corner of the panel that is itself sharper than what is aimed at."""
        sharp = np.zeros(int(faces.max(initial=0)) + 1, dtype=bool)
        sharp[: self.count] = self._corner_angles < AIMED_ANGLE
        return np.asarray(sharp[faces].any(axis=1))

    def mend(self, points: Floats) -> Floats | None:
        """Take away inner vertices on edges that are too short, or add vertices in bad triangles; None if nothing helps."""
        faces = self.triangles(points)
        angles = np.where(self._excused(faces), 60.0, smallest_angles(points, faces))
        bad = np.flatnonzero(angles < AIMED_ANGLE)
        bad = bad[np.argsort(angles[bad], kind="stable")]
        if not len(bad):
            return None
        taken: list[int] = []
        added: list[Floats] = []
        touched = np.zeros(len(points), dtype=bool)
        tree = cKDTree(points)
        centres = _circumcentres(points, faces[bad])
        good = self.inside(centres)
        sizes, nearest = self.size(centres), tree.query(centres)[0]
        room = good & (nearest > SHORT * sizes) & (self.to_boundary(centres) > 0.4 * sizes)
        for k, face in enumerate(bad):
            corners = faces[face]
            if touched[corners].any():
                continue
            if room[k]:
                added.append(centres[k])
                touched[tree.query_ball_point(centres[k], 1.5 * sizes[k])] = True
                continue
            # the inner vertex of the shortest edge, or of the triangle, goes
            inner = [int(c) for c in _shortest_first(points[corners], corners) if c >= self.fixed]
            if inner:
                taken.append(inner[0])
                touched[tree.query_ball_point(points[inner[0]], 1.5)] = True
        if not taken and not added:
            return None
        kept = np.ones(len(points), dtype=bool)
        kept[taken] = False
        return np.concatenate([points[kept], *([np.array(added)] if added else [])])


def _lattice_points(panel: _PanelMesh) -> Floats:
    """The boundary and, inside, hexagonal lattices whose spacing is about the wanted edge length."""
    low, high = panel.rim.min(axis=0), panel.rim.max(axis=0)
    points = panel.start
    for level in range(LATTICES):
        spacing = 0.5**level
        rise = spacing * np.sqrt(0.75)
        rows = np.arange(low[1] + 0.5 * rise, high[1], rise)
        columns = np.arange(low[0], high[0] + spacing, spacing)
        x = columns[None, :] + np.where(np.arange(len(rows)) % 2, 0.5 * spacing, 0.0)[:, None]
        lattice = np.stack([x, np.broadcast_to(rows[:, None], x.shape)], axis=2).reshape(-1, 2)
        wanted = panel.size(lattice)
        finest = level == LATTICES - 1
        here = (wanted <= 1.5 * spacing) & ((wanted > 0.75 * spacing) | finest)
        here[here] = panel.inside(lattice[here])
        here[here] = panel.to_boundary(lattice[here]) > BOUNDARY_GAP * wanted[here]
        if level and len(points) > panel.fixed:
            # not on what a coarser lattice has put there
            here[here] = cKDTree(points).query(lattice[here])[0] > 0.7 * wanted[here]
        points = np.concatenate([points, lattice[here]])
        if not (panel.size(points) < 0.75 * spacing).any():
            break
    return points


def _shortest_first(points: Floats, corners: Ints) -> list[int]:
    """The corners of a triangle: those of its shortest edge, then the third."""
    lengths = np.linalg.norm(np.roll(points, -1, axis=0) - points, axis=1)
    first = int(np.argmin(lengths))
    return [int(corners[(first + k) % 3]) for k in range(3)]


def _angles(points: Floats, faces: Ints) -> Floats:
    """(m, 3) the angle at each corner, degrees."""
    corners = points[faces]
    to_next = np.roll(corners, -1, axis=1) - corners
    to_last = np.roll(corners, 1, axis=1) - corners
    cross = to_next[..., 0] * to_last[..., 1] - to_next[..., 1] * to_last[..., 0]
    return np.asarray(np.degrees(np.arctan2(np.abs(cross), (to_next * to_last).sum(axis=2))))


def _corner_angles(rim: Floats) -> Floats:
    """(n,) the angle inside a counter-clockwise polygon at each of its vertices, degrees."""
    following, before = np.roll(rim, -1, axis=0) - rim, np.roll(rim, 1, axis=0) - rim
    cross = following[:, 0] * before[:, 1] - following[:, 1] * before[:, 0]
    return np.asarray(np.degrees(np.arctan2(cross, (following * before).sum(axis=1))) % 360.0)


def _circumcentres(points: Floats, faces: Ints) -> Floats:
    a, b, c = (points[column] for column in faces.T)
    ab, ac = b - a, c - a
    twice = 2.0 * (ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0])
    bb, cc = (ab**2).sum(axis=1), (ac**2).sum(axis=1)
    offset = np.stack([ac[:, 1] * bb - ab[:, 1] * cc, ab[:, 0] * cc - ac[:, 0] * bb], axis=1)
    return np.asarray(a + offset / np.where(twice == 0.0, 1e-300, twice)[:, None])
