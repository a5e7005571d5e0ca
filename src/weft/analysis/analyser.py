"""Global intersection analysis: crossings, paths and colours of a mesh (Baraff, Witkin and Kass 2003, section 5).

`analyse` and `Analyser` find the crossings (`crossing`), order them into paths (`walk`) and find the regions that the
paths enclose (`colour`); `Analysis` holds the result. There is no history: an analysis depends on the positions alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from weft.analysis.colour import DIVIDES, DOES_NOT_DIVIDE, NO_CURVE, RegionPainter, Regions, transpose
from weft.analysis.crossing import CrossingFinder
from weft.analysis.walk import BROKEN, LOOP, TWISTED, Walk, keep_paths, pair_keys, walk_paths
from weft.errors import MeshError
from weft.mesh.topology import Csr, Topology
from weft.mesh.validate import cross, faces_out_of_range, faces_with_repeated_vertices, list_first, square

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

Kind = Literal["closed", "open", "loop"]
Colour = Literal["black", "white", "red"]

# classes of vertices, by number, for drawing
CLASSES = ("none", "black", "white", "red")


@dataclass(frozen=True)
class Region:
    """The vertices inside one curve of a path."""

    colour: Colour
    divides: bool
    """whether the curve divides its sheet in two; if not, nothing is inside"""
    vertices: Ints
    """the vertices inside, ascending; a closed curve may have none"""


@dataclass(frozen=True)
class Path:
    """A connected run of intersections."""

    kind: Kind
    """closed; open: both ends are at boundaries; loop: at least one end is at a loop vertex"""
    rows: Ints
    """(k, 3) the intersections along the path: edge vertex, edge vertex, face"""
    points: Floats
    """(k or more, 3) their positions, and the loop vertices at the ends; a closed path does not repeat its start"""
    loop_vertices: tuple[int, ...]
    """the loop vertices at its ends"""
    regions: tuple[Region, ...]
    """a black and a white region, or one red region where a single curve runs through loop vertices"""
    broken: bool
    """whether an end is neither at a boundary nor at a loop vertex"""


class Analysis:
    """The intersections of a mesh as paths, with the regions that they enclose.

    The arrays have the crossings in the order of the paths. A crossing is an edge that passes through a triangle after all
    vertices have been moved by a tiny amount (see `weft.analysis.crossing`).
    """

    def __init__(
        self, topology: Topology, positions: Floats, length: float, walk: Walk, regions: Regions, sewn: int
    ) -> None:
        self.topology = topology
        self.positions = positions
        """the vertices as they were analysed"""
        self.length = length
        """a usual length of an edge"""
        self.edge, self.face = walk.edge, walk.face
        """(k,) the crossings, path by path"""
        self.sheet = walk.sheet
        """(k,) the sheet on which the edge lies, 0 or 1; the face lies on the other"""
        self.path_offsets, self.path_ends = walk.offsets, walk.ends
        """where each path starts in these arrays, and how it starts and ends (codes of `weft.analysis.walk`)"""
        self.status = regions.status
        """(2 paths,) of every region: NO_CURVE, DIVIDES, DOES_NOT_DIVIDE"""
        self.region_vertices, self.region_faces = regions.vertices, regions.faces
        """lists of vertices and triangles: 2 p black, 2 p + 1 white; of a red region, the halves nearer to sheet 0 and 1"""
        self.sewn = sewn
        """number of crossings on paths between triangles that are sewn together, which the other arrays leave out"""

    def __len__(self) -> int:
        return len(self.path_ends)

    @property
    def crossings(self) -> int:
        """The number of crossings."""
        return len(self.edge)

    @cached_property
    def path_of(self) -> Ints:
        """(k,) the path of each crossing."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.path_offsets))

    @cached_property
    def rows(self) -> Ints:
        """(k, 3) the crossings as `weft.intersections` gives them: edge vertex, edge vertex, face; path by path."""
        return np.column_stack([self.topology.edges[self.edge], self.face])

    @cached_property
    def fractions(self) -> Floats:
        """(k,) the position of each crossing along its edge, 0 at the lower vertex and 1 at the other."""
        x = self.positions
        p, q = x[self.rows[:, 0]], x[self.rows[:, 1]]
        a, b, c = x[self.topology.faces[self.face]].transpose(1, 0, 2)
        normal = np.cross(b - a, c - a)
        height_p, height_q = np.einsum("ij,ij->i", normal, p - a), np.einsum("ij,ij->i", normal, q - a)
        gap = height_p - height_q
        with np.errstate(divide="ignore", invalid="ignore"):
            fraction = np.where(gap != 0.0, height_p / gap, 0.5)
        return np.clip(fraction, 0.0, 1.0)

    @cached_property
    def points(self) -> Floats:
        """(k, 3) the positions of the crossings."""
        p, q = self.positions[self.rows[:, 0]], self.positions[self.rows[:, 1]]
        return p + self.fractions[:, None] * (q - p)

    @cached_property
    def single(self) -> Bools:
        """(paths,) whether a path is a single curve, through loop vertices: its region is red."""
        return (self.path_ends <= LOOP).any(axis=1) | (self.path_ends[:, 0] == TWISTED)

    @cached_property
    def closed(self) -> Bools:
        """(paths,) whether a path is closed."""
        return self.path_ends[:, 0] >= 0

    @cached_property
    def colours(self) -> Csr:
        """For every vertex, the regions (lists of `region_vertices`) that contain it."""
        return transpose(self.region_vertices, self.topology.vertex_count)

    @cached_property
    def face_colours(self) -> Csr:
        """For every triangle, the regions (lists of `region_faces`) that contain it."""
        return transpose(self.region_faces, len(self.topology.faces))

    def crossing_vertices(self, paths: Bools | None = None) -> Ints:
        """The vertices of all edges and triangles that cross, or only of those on the chosen paths; ascending."""
        chosen = slice(None) if paths is None else paths[self.path_of]
        faces = self.topology.faces[self.face[chosen]]
        return np.unique(np.concatenate([self.rows[chosen, :2].ravel(), faces.ravel()]))

    def kind(self, path: int) -> Kind:
        """closed, open or loop."""
        if self.closed[path]:
            return "closed"
        return "loop" if self.single[path] else "open"

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """All paths as objects, for reading; the arrays above are for computing."""
        return tuple(self._path(number) for number in range(len(self)))

    def _path(self, number: int) -> Path:
        nodes = slice(int(self.path_offsets[number]), int(self.path_offsets[number + 1]))
        start, end = (int(code) for code in self.path_ends[number])
        vertices = [LOOP - code for code in (start, end) if code <= LOOP]
        points = [self.points[nodes]]
        if start <= LOOP:
            points.insert(0, self.positions[[LOOP - start]])
        if end <= LOOP:
            points.append(self.positions[[LOOP - end]])
        return Path(
            kind=self.kind(number),
            rows=self.rows[nodes],
            points=np.concatenate(points),
            loop_vertices=tuple(vertices),
            regions=tuple(
                Region(
                    colour="red" if self.single[number] else ("black", "white")[sheet],
                    divides=bool(self.status[2 * number + sheet] == DIVIDES),
                    vertices=self._inside(number, sheet),
                )
                for sheet in range(2)
                if self.status[2 * number + sheet] != NO_CURVE
            ),
            broken=BROKEN in (start, end),
        )

    def _inside(self, number: int, sheet: int) -> Ints:
        first, last = (
            (2 * number, 2 * number + 2) if self.single[number] else (2 * number + sheet, 2 * number + sheet + 1)
        )
        offsets = self.region_vertices.offsets
        return np.sort(self.region_vertices.items[offsets[first] : offsets[last]])

    def summary(self) -> dict[str, int]:
        """Counts: crossings, paths by kind, regions that divide or not, vertices by colour."""
        classes = vertex_classes(self)
        kinds = [self.kind(path) for path in range(len(self))]
        return {
            "crossings": self.crossings,
            "sewn": self.sewn,
            "paths": len(self),
            **{kind: kinds.count(kind) for kind in ("closed", "open", "loop")},
            "broken": int((self.path_ends == BROKEN).any(axis=1).sum()),
            "dividing": int((self.status == DIVIDES).sum()),
            "not_dividing": int((self.status == DOES_NOT_DIVIDE).sum()),
            **{name: int((classes == number).sum()) for number, name in enumerate(CLASSES) if number},
        }


def vertex_classes(analysis: Analysis) -> NDArray[np.uint8]:
    """(n,) one class a vertex for drawing: 0 none, 1 black, 2 white, 3 red (see `CLASSES`).

    A vertex of several colours gets black or white before red, and of these the colour of its smallest region.
    """
    sizes = np.diff(analysis.region_vertices.offsets)
    region = np.repeat(np.arange(len(sizes)), sizes)
    red = analysis.single[region // 2] if len(region) else np.zeros(0, dtype=bool)
    # the last one written stays
    order = np.lexsort((region, -sizes[region], ~red))
    classes = np.zeros(analysis.topology.vertex_count, dtype=np.uint8)
    classes[analysis.region_vertices.items[order]] = np.where(red, 3, 1 + region % 2)[order]
    return classes


def analyse(vertices: ArrayLike, faces: ArrayLike, *, seams: ArrayLike | None = None) -> Analysis:
    """Find where a mesh passes through itself: paths of intersections, and the regions that they enclose.

    vertices, faces: (n, 3) and (m, 3); at most two triangles at an edge. Triangles need no area.
    seams: (s, 3) stitches (a, b, c), vertex a sewn to a point of the edge bc; or (s, 2), vertex sewn to vertex. Paths
        that only involve triangles sewn to each other are left out.
    """
    x = _read_vertices(vertices)
    return Analyser(faces, len(x), seams=seams).analyse(x)


class _Last(NamedTuple):
    """The last analysis: what it was made from, and what stays the same as long as that does."""

    edge: Ints
    face: Ints
    areas: Floats
    walk: Walk
    regions: Regions


class Analyser:
    """Analyses one mesh at many positions of its vertices; see `analyse`.

    areas: weights of the vertices by which the smaller side of a curve is chosen; by default their current areas.
    length: a usual length of an edge, metres; by default the current median.
    finder: what finds the crossings of the mesh, where it is there already.
    still: how many of the last triangles belong to things that stay where they are, and may cross each other.
    """

    def __init__(
        self,
        faces: ArrayLike,
        vertex_count: int,
        *,
        seams: ArrayLike | None = None,
        areas: Floats | None = None,
        length: float | None = None,
        device: wp.DeviceLike = "cpu",
        finder: CrossingFinder | None = None,
        still: int = 0,
    ) -> None:
        self.topology = _read_topology(faces, vertex_count)
        self.finder = CrossingFinder(self.topology, device=device, still=still) if finder is None else finder
        self._painter = RegionPainter(self.topology)
        self._areas, self._length = areas, length
        self._last: _Last | None = None
        self._sewn = np.zeros(0, dtype=np.int64)
        if seams is not None and len(np.asarray(seams)):
            from weft.geometry.intersection import sewn_pairs

            pairs = sewn_pairs(self.topology.faces, seams)
            self._sewn = np.unique(pair_keys(pairs[:, 0], pairs[:, 1], len(self.topology.faces)))

    def analyse(self, vertices: ArrayLike, areas: Floats | None = None) -> Analysis:
        """The analysis of the mesh at these positions, with the areas of the vertices if they are not those of the mesh."""
        x = _read_vertices(vertices)
        if len(x) != self.topology.vertex_count:
            raise MeshError(f"the mesh has {self.topology.vertex_count} vertices, the positions are for {len(x)}")
        length = self.usual_length(x) if self._length is None else self._length
        return self._analyse(x, length, *self.finder.find(x, length), areas)

    def analyse_in_place(self, x: wp.array, weigh: Callable[[Floats], Floats] | None = None) -> Analysis | None:
        """The analysis at positions on the device, copied to the host only if something crosses; None if nothing does.

        Of a longer array the first vertices are used, as many as the mesh has. The usual length is that of the first call.
        `weigh` gives the areas of the vertices where they are not those of the mesh, from the positions.
        """
        count = self.topology.vertex_count
        if self._length is None:
            self._length = self.usual_length(x.numpy()[:count])
        edge, face = self.finder.find(x, self._length)
        return self.analyse_found(x, edge, face, weigh) if len(edge) else None

    def analyse_found(
        self, x: wp.array, edge: Ints, face: Ints, weigh: Callable[[Floats], Floats] | None = None
    ) -> Analysis | None:
        """The analysis of crossings that the finder has found at these positions, with the usual length of this analyser."""
        assert self._length is not None
        positions = x.numpy()[: self.topology.vertex_count].copy()
        areas = None if weigh is None else weigh(positions)
        found = self._analyse(positions, self._length, edge, face, areas)
        return found if len(found) else None

    def _analyse(self, x: Floats, length: float, edge: Ints, face: Ints, areas: Floats | None = None) -> Analysis:
        last = self._last
        same = last is not None and np.array_equal(edge, last.edge) and np.array_equal(face, last.face)
        walk = last.walk if last is not None and same else self._without_seams(walk_paths(self.topology, edge, face))
        # areas are needed only if there is a path
        if areas is None:
            areas = self._areas
        if areas is None and len(walk.ends):
            areas = vertex_areas(self.topology, x)
        areas = np.ones(len(x)) if areas is None else areas
        if last is not None and same and np.array_equal(areas, last.areas):
            regions = last.regions
        else:
            regions = self._painter.paint(walk, areas)
        self._last = _Last(edge, face, areas, walk, regions)
        return Analysis(self.topology, x, length, walk, regions, len(edge) - len(walk.edge))

    def usual_length(self, x: Floats) -> float:
        """The median length of an edge."""
        edges = self.topology.edges
        lengths = np.sqrt(square(x[edges[:, 1]] - x[edges[:, 0]]))
        return float(np.median(lengths)) if len(lengths) else 0.0

    def _without_seams(self, walk: Walk) -> Walk:
        """The walk without the paths whose crossings are all between triangles that are sewn together."""
        if not len(self._sewn) or not len(walk.ends):
            return walk
        sewn = self.sewn(walk.edge, walk.face)
        return keep_paths(walk, np.add.reduceat(~sewn, walk.offsets[:-1]) > 0)

    def sewn(self, edge: Ints, face: Ints) -> Bools:
        """(k,) which crossings are between triangles that a seam joins, which are meant to touch."""
        if not len(self._sewn):
            return np.zeros(len(edge), dtype=bool)
        beside = self.topology.edge_faces[edge]
        keys = pair_keys(beside, face[:, None], len(self.topology.faces))
        place = np.minimum(np.searchsorted(self._sewn, keys), len(self._sewn) - 1)
        return np.asarray(((self._sewn[place] == keys) | (beside < 0)).all(axis=1))


def vertex_areas(topology: Topology, x: Floats) -> Floats:
    """A third of the area of the triangles around each vertex."""
    a, b, c = (x[column] for column in topology.faces.T)
    thirds = np.sqrt(square(cross(b - a, c - a))) / 6.0
    summed = np.bincount(topology.faces.ravel(), np.repeat(thirds, 3), topology.vertex_count)
    return summed.astype(np.float64, copy=False)


def _read_vertices(vertices: ArrayLike) -> Floats:
    x = np.ascontiguousarray(vertices, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] != 3:
        raise MeshError(f"vertices must be an (n, 3) array, got {x.shape}")
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        raise MeshError(f"{len(bad)} vertices have NaN or infinite coordinates ({list_first(bad.tolist())})")
    return x


def _read_topology(faces: ArrayLike, vertex_count: int) -> Topology:
    read = np.asarray(faces)
    if read.ndim != 2 or read.shape[1] != 3 or not np.issubdtype(read.dtype, np.integer):
        raise MeshError(f"faces must be an (m, 3) array of integers, got {read.shape} of {read.dtype}")
    for wrong, what in (
        (faces_out_of_range(read, vertex_count), f"name a vertex outside 0..{vertex_count - 1}"),
        (faces_with_repeated_vertices(read), "name a vertex twice"),
    ):
        if wrong.any():
            raise MeshError(f"{wrong.sum()} triangles {what} ({list_first(np.flatnonzero(wrong).tolist())})")
    topology = Topology(np.ascontiguousarray(read, dtype=np.int32), vertex_count)
    crowded = topology.edge_counts > 2
    if crowded.any():
        names = list_first([f"{a}-{b}" for a, b in topology.edges[crowded][:6].tolist()])
        raise MeshError(
            f"{crowded.sum()} edges have more than two triangles ({names}); weft.mesh.repair_mesh splits such edges"
        )
    return topology
