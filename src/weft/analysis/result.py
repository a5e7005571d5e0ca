"""What the analysis says: paths, the regions inside them, and the colours of every vertex."""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.analysis.colour import DIVIDES, DOES_NOT_DIVIDE, NO_CURVE, Regions, transpose
from weft.analysis.walk import BROKEN, LOOP, TWISTED, Walk
from weft.mesh.topology import Csr, Topology

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

Kind = Literal["closed", "open", "loop"]
Colour = Literal["black", "white", "red"]

# classes of vertices for drawing
CLASSES = ("none", "black", "white", "red")


@dataclass(frozen=True)
class Region:
    """What lies inside one curve of a path."""

    colour: Colour
    divides: bool
    """whether the curve parts its sheet in two; if not, nothing is inside"""
    vertices: Ints
    """the vertices inside, ascending; a closed curve may have none"""


@dataclass(frozen=True)
class Path:
    """A connected run of intersections."""

    kind: Kind
    """closed; open: both ends at boundaries; loop: at least one end at a loop vertex"""
    rows: Ints
    """(k, 3) the intersections along it: edge vertex, edge vertex, face"""
    points: Floats
    """(k or more, 3) where they are, with the loop vertices at the ends; a closed path does not repeat its start"""
    loop_vertices: tuple[int, ...]
    """where it ends at loop vertices"""
    regions: tuple[Region, ...]
    """black and white, or one red region where a single curve runs through loop vertices"""
    broken: bool
    """whether an end is neither at a boundary nor at a loop vertex"""


class Analysis:
    """The intersections of a mesh as paths, with the regions that they enclose.

    Arrays hold the crossings in the order of the paths. A crossing is an edge that passes through a triangle once all
    vertices are moved by a tiny amount (see `analysis.crossing`).
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
        """(k,) on which of the two sheets the edge lies, 0 or 1; the face lies on the other"""
        self.path_offsets, self.path_ends = walk.offsets, walk.ends
        """where each path starts in these arrays; how it starts and ends (see `analysis.walk`)"""
        self.status = regions.status
        """(2 paths,) of every region: NO_CURVE, DIVIDES, DOES_NOT_DIVIDE"""
        self.region_vertices, self.region_faces = regions.vertices, regions.faces
        """rows of vertices and triangles: 2 p black, 2 p + 1 white; if red, the halves nearer to sheet 0 and 1"""
        self.sewn = sewn
        """crossings of paths that lie between triangles sewn together, left out everywhere else"""

    def __len__(self) -> int:
        return len(self.path_ends)

    @property
    def crossings(self) -> int:
        """How many there are."""
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
        """(k,) where along its edge, from the lower vertex, each crossing is."""
        x = self.positions
        p, q = x[self.rows[:, 0]], x[self.rows[:, 1]]
        a, b, c = x[self.topology.faces[self.face]].transpose(1, 0, 2)
        normal = np.cross(b - a, c - a)
        height_p, height_q = np.einsum("ij,ij->i", normal, p - a), np.einsum("ij,ij->i", normal, q - a)
        gap = height_p - height_q
        with np.errstate(divide="ignore", invalid="ignore"):
            part = np.where(gap != 0.0, height_p / gap, 0.5)
        return np.clip(part, 0.0, 1.0)

    @cached_property
    def points(self) -> Floats:
        """(k, 3) where the crossings are."""
        p, q = self.positions[self.rows[:, 0]], self.positions[self.rows[:, 1]]
        return p + self.fractions[:, None] * (q - p)

    @cached_property
    def single(self) -> Bools:
        """(paths,) whether a path is one curve, through loop vertices: its region is red."""
        return (self.path_ends <= LOOP).any(axis=1) | (self.path_ends[:, 0] == TWISTED)

    @cached_property
    def closed(self) -> Bools:
        """(paths,) whether a path comes back to its start."""
        return self.path_ends[:, 0] >= 0

    @cached_property
    def colours(self) -> Csr:
        """The rows of `region_vertices` that every vertex is in, a row a vertex."""
        return transpose(self.region_vertices, self.topology.vertex_count)

    @cached_property
    def face_colours(self) -> Csr:
        """The rows of `region_faces` that every triangle is in, a row a triangle."""
        return transpose(self.region_faces, len(self.topology.faces))

    def kind(self, path: int) -> Kind:
        """closed, open or loop."""
        if self.closed[path]:
            return "closed"
        return "loop" if self.single[path] else "open"

    @cached_property
    def paths(self) -> tuple[Path, ...]:
        """Every path, for reading; the arrays above are for computing."""
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
    """One class a vertex for drawing: 0 none, 1 black, 2 white, 3 red (see `CLASSES`).

    A vertex of many colours shows one that pulls before red, and of these the one of its smallest region.
    """
    sizes = np.diff(analysis.region_vertices.offsets)
    region = np.repeat(np.arange(len(sizes)), sizes)
    red = analysis.single[region // 2] if len(region) else np.zeros(0, dtype=bool)
    # written in this order, the last one stays
    order = np.lexsort((region, -sizes[region], ~red))
    classes = np.zeros(analysis.topology.vertex_count, dtype=np.uint8)
    classes[analysis.region_vertices.items[order]] = np.where(red, 3, 1 + region % 2)[order]
    return classes
