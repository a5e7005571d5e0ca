"""From a pattern to cloth: panels triangulated and placed, the stitches between them, and the garment welded to one mesh."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.errors import WeftError
from weft.garment.division import divide_edges, divide_folds, fold_name
from weft.garment.pattern import EdgeName, Panel, Pattern, PatternError
from weft.garment.triangulate import MissingSegments, smallest_angles, split_edges, triangulate
from weft.mesh import TriMesh
from weft.mesh.details import GROUP, PANEL, Labels

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# m between panels that are laid out side by side
LAYOUT_GAP = 0.05
# by how much segments get shorter where a panel is too narrow for them, and how often that is tried
NARROWER, NARROW_ROUNDS = 1.5, 8
# triangles of a panel at most: an edge length a hundred times too short would fill the memory
MOST_TRIANGLES = 2_000_000
# the area of an equilateral triangle with edges of length 1, about that of the triangles of a panel
TRIANGLE_AREA = 0.43
# width of the layout in units of the side of a square with the area of all panels: rows are never full
LAYOUT_WIDTH = 1.3


@dataclass(frozen=True)
class CutGarment:
    """The panels of a pattern as triangles: vertices of all panels one after the other, not yet joined."""

    pattern: Pattern
    vertices: Floats
    """(n, 3) m: where the panels stand before they are sewn"""
    uv: Floats
    """(n, 2) m: the flat panels, laid out side by side, seen from the outside of the garment"""
    faces: Ints
    """(m, 3) counter-clockwise seen from the outside"""
    vertex_panel: Ints
    """(n,) the number of the panel of each vertex"""
    stitches: Ints
    """(k, 2) vertices that are sewn together"""
    stitch_seam: Ints
    """(k,) the number of the seam of each stitch; -1 where several seams meet, and two vertices are joined over a third"""
    edge_vertices: dict[EdgeName, Ints]
    """the vertices along each edge, from its start to its end"""
    folds: tuple[tuple[Floats, float], ...] = ()
    """the folds of all panels: (2, 2) m, the ends of each in the flat shape (`uv`), and its angle in degrees"""

    @property
    def face_panel(self) -> Ints:
        """(m,) the number of the panel of each triangle."""
        return np.asarray(self.vertex_panel[self.faces[:, 0]])

    def mesh(self) -> TriMesh:
        """All panels as one mesh of several pieces, with their flat shapes as uv, and their names."""
        return TriMesh(self.vertices, self.faces, self.uv, labels=self._labels())

    def welded_mesh(self) -> TriMesh:
        """One mesh without gaps, in which vertices on seams have several texture coordinates; triangles know their panels.

        Where several edges are sewn together, the layers of a pleat and a waistband, two and two are joined, so that no edge
        has more than two triangles; their vertices are at the same places.
        """
        number, faces = self._surface_vertex, self.welded_faces
        x = self.welded_mean(self.vertices)[self.welded_vertex[np.unique(number, return_index=True)[1]]]
        faces = faces if number is self.welded_vertex else number[self.faces]
        return TriMesh(x, faces, corner_uv=self.corner_uv, labels=self._labels())

    def _labels(self) -> dict[str, Labels]:
        # OBJ files know groups only
        names = Labels(tuple(panel.name for panel in self.pattern.panels), self.face_panel)
        return {PANEL: names, GROUP: names}

    def mesh_at_rest(self) -> TriMesh:
        """The flat panels, whose rest lengths and threads do not depend on where the garment is."""
        return TriMesh(np.column_stack([self.uv, np.zeros(len(self.uv))]), self.faces, self.uv)

    @cached_property
    def welded_vertex(self) -> Ints:
        """(n,) the vertex of the welded garment that each vertex becomes; numbered by the first of those that are joined."""
        return _joined_vertices(self.stitches, len(self.vertices))

    @cached_property
    def _surface_vertex(self) -> Ints:
        """As `welded_vertex`, but every edge is joined to one other only: to one of another panel, where there is such."""
        seams = self.pattern.seams
        taken: set[EdgeName] = set()
        kept = []
        for number in sorted(range(len(seams)), key=lambda i: seams[i].one.panel == seams[i].other.panel):
            if not taken & {seams[number].one, seams[number].other}:
                taken |= {seams[number].one, seams[number].other}
                kept.append(number)
        if len(kept) == len(seams):
            return self.welded_vertex
        return _joined_vertices(self.stitches[np.isin(self.stitch_seam, kept)], len(self.vertices))

    @cached_property
    def welded_faces(self) -> Ints:
        """(m, 3) the triangles of the welded garment, in the same order."""
        faces = self.welded_vertex[self.faces]
        a, b, c = faces.T
        flat = np.flatnonzero((a == b) | (b == c) | (c == a))
        if len(flat):
            panel = self.pattern.panels[self.face_panel[flat[0]]].name
            raise PatternError(
                f"the seams join two corners of one triangle in panel {panel!r}: an edge is sewn to its own neighbour "
                "against its direction; see the stitches of that panel"
            )
        _, first, group = np.unique(np.sort(faces, axis=1), axis=0, return_index=True, return_inverse=True)
        twice = np.flatnonzero(first[group.ravel()] != np.arange(len(faces)))
        if len(twice):
            one, other = (
                self.pattern.panels[self.face_panel[i]].name for i in (first[group.ravel()[twice[0]]], twice[0])
            )
            raise PatternError(
                f"panels {one!r} and {other!r} are sewn together on all sides of a triangle: make the edge length shorter"
            )
        return np.ascontiguousarray(faces)

    @cached_property
    def shared_chords(self) -> Ints:
        """(k, 2) edges inside panels that would have more than two triangles in the welded garment.

        Two panels that are sewn to each other along both sides of a corner both have an edge across it.
        """
        sides = np.sort(self.faces[:, [0, 1, 1, 2, 2, 0]].reshape(-1, 2), axis=1)
        edges, inside = np.unique(sides, axis=0, return_counts=True)
        welded = np.sort(self.welded_vertex[edges], axis=1)
        _, group = np.unique(welded, axis=0, return_inverse=True)
        triangles = np.bincount(group.ravel(), inside)
        return np.asarray(edges[(inside == 2) & (triangles[group.ravel()] > 2)])

    def welded_mean(self, values: Floats) -> Floats:
        """Values of the vertices of the welded garment: the mean of those of the vertices that were joined."""
        number = self.welded_vertex
        count = np.bincount(number)
        sums = np.stack([np.bincount(number, column) for column in values.T], axis=1)
        return np.asarray(sums / count[:, None])

    @property
    def corner_uv(self) -> Floats:
        """(m, 3, 2) m: the flat shape of each triangle, also of the welded garment, whose vertices on seams have several."""
        return np.asarray(self.uv[self.faces])

    @property
    def smallest_angle(self) -> float:
        """Of all triangles of the flat panels, degrees."""
        return float(smallest_angles(self.uv, self.faces).min())

    def labelled(self, labels: Collection[str]) -> Ints:
        """The vertices along all edges with one of these labels, and those that are sewn to them, ascending."""
        found = [
            self.edge_vertices[EdgeName(panel.name, i)]
            for panel in self.pattern.panels
            for i, edge in enumerate(panel.edges)
            if edge.label in labels
        ]
        along = np.concatenate([np.zeros(0, np.int32), *found])
        return np.flatnonzero(np.isin(self.welded_vertex, self.welded_vertex[along])).astype(np.int32)


def _joined_vertices(pairs: Ints, count: int) -> Ints:
    """(n,) the number of the vertex that each of so many becomes when pairs are joined, in the order of the first of them."""
    sewn = coo_array((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), shape=(count, count))
    _, labels = connected_components(sewn, directed=False)
    _, first, number = np.unique(labels, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[number], dtype=np.int32)


def cut_pattern(pattern: Pattern, edge: float) -> CutGarment:
    """Triangulate all panels of a pattern with edges of about this length in metres."""
    if not 0.0 < edge < np.inf:
        raise WeftError(f"the edge length of triangles must be more than 0 m, not {edge}")
    for panel in pattern.panels:
        if abs(panel.area) / (TRIANGLE_AREA * edge * edge) > MOST_TRIANGLES:
            raise WeftError(
                f"panel {panel.name!r} of {abs(panel.area):.3g} m^2 would have more than {MOST_TRIANGLES:,} triangles: "
                f"an edge length of {edge:g} m is too short; it is in metres, 0.01 is usual"
            )
    finer: dict[EdgeName, float] = {}
    for _ in range(NARROW_ROUNDS):
        divided = divide_edges(pattern, edge, finer)
        narrow: list[EdgeName] = []
        pieces = []
        for panel in pattern.panels:
            try:
                pieces.append(_cut_panel(panel, divided, edge, finer))
            except MissingSegments as missing:
                narrow += _edges_of_segments(panel, divided, edge, finer, missing.segments)
        if not narrow:
            cut = _join(pattern, pieces, divided)
            return _join(pattern, _parted(cut, pieces), divided) if len(cut.shared_chords) else cut
        for name in narrow:
            finer[name] = finer.get(name, 1.0) * NARROWER
    name, edges = narrow[0], len(pattern.panel(narrow[0].panel).edges)
    what = f"{name}" if name.edge < edges else f"fold {name.edge - edges} of panel {name.panel!r}"
    raise PatternError(f"{what} comes so near to another edge of its panel that no triangles fit between them")


def _cut_panel(
    panel: Panel, divided: dict[EdgeName, Floats], edge: float, finer: Mapping[EdgeName, float]
) -> tuple[Floats, Ints]:
    """Vertices of a flat panel, those of its boundary first and in the order of its edges, and its triangles."""
    rim = np.concatenate([e.curve.at_lengths(divided[EdgeName(panel.name, i)])[:-1] for i, e in enumerate(panel.edges)])
    inner, chains = divide_folds(panel, divided, edge, finer)
    folds = np.concatenate([np.zeros((0, 2), np.int32), *chains])
    if panel.area > 0.0:
        return triangulate(rim, edge, inner, folds)
    # Delaunay wants a counter-clockwise boundary: mirrored, and mirrored back
    count = len(rim)
    try:
        points, faces = triangulate(rim[::-1], edge, inner, np.where(folds < count, count - 1 - folds, folds))
    except MissingSegments as missing:
        lost = missing.segments
        raise MissingSegments(np.where(lost < count, (count - 2 - lost) % count, lost)) from None
    points[:count] = points[:count][::-1]
    faces = np.where(faces < count, count - 1 - faces, faces)
    return points, np.ascontiguousarray(faces[:, ::-1])


def _parted(cut: CutGarment, pieces: list[tuple[Floats, Ints]]) -> list[tuple[Floats, Ints]]:
    """The panels with a vertex in the middle of every shared chord."""
    starts = np.cumsum([0, *(len(points) for points, _ in pieces)])
    panel_of = cut.vertex_panel[cut.shared_chords[:, 0]]
    parted = list(pieces)
    for number in np.unique(panel_of).tolist():
        points, faces = pieces[number]
        parted[number] = split_edges(points, faces, cut.shared_chords[panel_of == number] - starts[number])
    return parted


def _edges_of_segments(
    panel: Panel, divided: dict[EdgeName, Floats], edge: float, finer: Mapping[EdgeName, float], segments: Ints
) -> list[EdgeName]:
    """The edges and folds that segments belong to."""
    names = [EdgeName(panel.name, i) for i in range(len(panel.edges))]
    counts = [len(divided[name]) - 1 for name in names]
    names += [fold_name(panel, number) for number in range(len(panel.folds))]
    counts += [len(chain) for chain in divide_folds(panel, divided, edge, finer)[1]]
    starts = np.cumsum([0, *counts])
    return [names[i] for i in np.unique(np.searchsorted(starts, segments, side="right") - 1)]


def _join(pattern: Pattern, pieces: list[tuple[Floats, Ints]], divided: dict[EdgeName, Floats]) -> CutGarment:
    """All panels in one list of vertices, turned so that the outside of the garment is the front of every triangle."""
    turns, mirrors = turned_panels(pattern), mirrored_panels(pattern)
    starts = np.cumsum([0, *(len(points) for points, _ in pieces)])
    faces, flat, placed, edge_vertices = [], [], [], {}
    for i, panel in enumerate(pattern.panels):
        (points, triangles), start = pieces[i], starts[i]
        faces.append((triangles[:, ::-1] if turns[i] else triangles) + start)
        flat.append(points * [-1.0 if mirrors[i] else 1.0, 1.0])
        placed.append(panel.placed(points))
        names = [EdgeName(panel.name, k) for k in range(len(panel.edges))]
        first = np.cumsum([0, *(len(divided[name]) - 1 for name in names)])
        for name, begin, end in zip(names, first, first[1:], strict=False):
            edge_vertices[name] = (start + np.arange(begin, end + 1) % first[-1]).astype(np.int32)
    stitches, seam = _stitches(pattern, edge_vertices)
    laid = lay_out(flat)
    folds = tuple(
        (
            panel.corners[[fold.start, fold.end]] * [-1.0 if mirrors[i] else 1.0, 1.0] + laid[i][0] - flat[i][0],
            fold.angle,
        )
        for i, panel in enumerate(pattern.panels)
        for fold in panel.folds
    )
    return CutGarment(
        pattern,
        np.concatenate(placed),
        np.concatenate(laid),
        np.concatenate(faces).astype(np.int32),
        np.repeat(np.arange(len(pieces), dtype=np.int32), np.diff(starts)),
        stitches,
        seam,
        edge_vertices,
        folds,
    )


def _stitches(pattern: Pattern, edge_vertices: dict[EdgeName, Ints]) -> tuple[Ints, Ints]:
    """(k, 2) pairs of different vertices that are sewn together, and the seam of each."""
    pairs, seams = [np.zeros((0, 2), np.int32)], [np.zeros(0, np.int32)]
    for number, seam in enumerate(pattern.seams):
        one, other = edge_vertices[seam.one], edge_vertices[seam.other]
        both = np.stack([one, other if seam.same_way else other[::-1]], axis=1)
        # the tip of a dart is one vertex already
        both = both[both[:, 0] != both[:, 1]]
        pairs.append(both)
        seams.append(np.full(len(both), number, np.int32))
    stitches, numbers = np.concatenate(pairs).astype(np.int32), np.concatenate(seams)
    more = _over_others(stitches)
    return np.concatenate([stitches, more]), np.concatenate([numbers, np.full(len(more), -1, np.int32)])


def _over_others(stitches: Ints) -> Ints:
    """(k, 2) pairs of vertices that stitches join only over other vertices: where the seams of several panels meet."""
    joined: dict[int, set[int]] = {}
    for a, b in stitches.tolist():
        both = joined.get(a, {a}) | joined.get(b, {b})
        for vertex in both:
            joined[vertex] = both
    direct = {frozenset(pair) for pair in stitches.tolist()}
    found = {
        (a, b)
        for both in joined.values()
        if len(both) > 2
        for a in both
        for b in both
        if a < b and frozenset((a, b)) not in direct
    }
    return np.array(sorted(found), dtype=np.int32).reshape(-1, 2)


def mirrored_panels(pattern: Pattern) -> list[bool]:
    """Whether each panel is seen mirrored from the outside of the garment: its loop, as it is turned, runs clockwise."""
    return [(panel.area < 0.0) != turned for panel, turned in zip(pattern.panels, turned_panels(pattern), strict=True)]


def turned_panels(pattern: Pattern) -> list[bool]:
    """Whether each panel is turned so that neighbouring panels have their outsides on the same side.

    Edges that meet end to start, the usual case, join panels whose loops run the same way round. Where an edge meets the
    other start to start, one of the panels is upside down. The first panel of each connected piece stays as it is.
    """
    numbers = {panel.name: i for i, panel in enumerate(pattern.panels)}
    turned: dict[int, bool] = {}
    for first in range(len(pattern.panels)):
        if first in turned:
            continue
        turned[first] = False
        queue = [first]
        for panel in queue:
            for seam in pattern.seams:
                ends = numbers[seam.one.panel], numbers[seam.other.panel]
                if panel in ends and ends[0] != ends[1]:
                    other = ends[1] if ends[0] == panel else ends[0]
                    if other not in turned:
                        turned[other] = turned[panel] != seam.same_way
                        queue.append(other)
    return [turned[i] for i in range(len(pattern.panels))]


def lay_out(panels: list[Floats]) -> list[Floats]:
    """Move flat panels beside each other, in rows of similar width as height in all; none overlaps another."""
    sizes = np.array([np.ptp(points, axis=0) for points in panels]) + LAYOUT_GAP
    width = max(float(sizes[:, 0].max()), LAYOUT_WIDTH * float(np.sqrt(sizes.prod(axis=1).sum())))
    moved = []
    x = y = height = 0.0
    for points, size in zip(panels, sizes, strict=True):
        if x > 0.0 and x + size[0] > width:
            x, y, height = 0.0, y + height, 0.0
        moved.append(points - points.min(axis=0) + [x, y])
        x, height = x + float(size[0]), max(height, float(size[1]))
    return moved
