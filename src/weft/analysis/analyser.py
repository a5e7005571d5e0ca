"""The whole analysis in one call: crossings, paths, colours. No history: every call starts from the positions alone."""

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from weft.analysis.colour import RegionPainter
from weft.analysis.crossing import CrossingFinder
from weft.analysis.result import Analysis
from weft.analysis.walk import Walk, keep_paths, pair_keys, walk_paths
from weft.errors import MeshError
from weft.mesh.topology import Topology
from weft.mesh.validate import cross, faces_out_of_range, faces_with_repeated_vertices, list_first, square

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def analyse(vertices: ArrayLike, faces: ArrayLike, *, seams: ArrayLike | None = None) -> Analysis:
    """Find where a mesh passes through itself: paths of intersections, and the regions on the wrong side.

    vertices, faces: (n, 3) and (m, 3); at most two triangles an edge. Triangles need no area.
    seams: (s, 3) rows (a, b, c), vertex a sewn to a point of the edge bc, or (s, 2), vertex to vertex. Paths that only
        join triangles sewn together are left out.
    """
    x = _read_vertices(vertices)
    return Analyser(faces, len(x), seams=seams).analyse(x)


class Analyser:
    """Analyses one mesh again and again, as its vertices move; see `analyse`.

    areas: areas of the vertices by which the smaller side is chosen; by default those at the moment.
    length: a usual length of an edge; by default the median at the moment.
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
    ) -> None:
        self.topology = _read_topology(faces, vertex_count)
        self.finder = CrossingFinder(self.topology, device=device)
        self._painter = RegionPainter(self.topology)
        self._areas, self._length = areas, length
        self._sewn = np.zeros(0, dtype=np.int64)
        if seams is not None and len(np.asarray(seams)):
            from weft.geometry.intersection import sewn_pairs

            pairs = sewn_pairs(self.topology.faces, seams)
            self._sewn = np.unique(pair_keys(pairs[:, 0], pairs[:, 1], len(self.topology.faces)))

    def analyse(self, vertices: ArrayLike) -> Analysis:
        """The analysis of the mesh with its vertices here."""
        x = _read_vertices(vertices)
        if len(x) != self.topology.vertex_count:
            raise MeshError(f"the mesh has {self.topology.vertex_count} vertices, the positions are for {len(x)}")
        length = self.usual_length(x) if self._length is None else self._length
        return self._analyse(x, length, *self.finder.find(x, length))

    def analyse_in_place(self, x: wp.array) -> Analysis | None:
        """The same for vertices on the device, which come to the host only where something crosses; None where nothing does.

        Of the array the first vertices are taken, as many as the mesh has. The usual length is that of the first time.
        """
        count = self.topology.vertex_count
        if self._length is None:
            self._length = self.usual_length(x.numpy()[:count])
        edge, face = self.finder.find(x, self._length)
        if not len(edge):
            return None
        found = self._analyse(x.numpy()[:count].copy(), self._length, edge, face)
        return found if len(found) else None

    def _analyse(self, x: Floats, length: float, edge: Ints, face: Ints) -> Analysis:
        found = walk_paths(self.topology, edge, face)
        walk = self._without_seams(found)
        # areas matter only where there is a path
        areas = self._areas if self._areas is not None else vertex_areas(self.topology, x) if len(walk.ends) else None
        regions = self._painter.paint(walk, np.ones(len(x)) if areas is None else areas)
        return Analysis(self.topology, x, length, walk, regions, len(found.edge) - len(walk.edge))

    def usual_length(self, x: Floats) -> float:
        """The median length of an edge."""
        edges = self.topology.edges
        lengths = np.sqrt(square(x[edges[:, 1]] - x[edges[:, 0]]))
        return float(np.median(lengths)) if len(lengths) else 0.0

    def _without_seams(self, walk: Walk) -> Walk:
        """Drop the paths on which every crossing lies between triangles that are sewn together."""
        if not len(self._sewn) or not len(walk.ends):
            return walk
        beside = self.topology.edge_faces[walk.edge]
        keys = pair_keys(beside, walk.face[:, None], len(self.topology.faces))
        place = np.minimum(np.searchsorted(self._sewn, keys), len(self._sewn) - 1)
        sewn = ((self._sewn[place] == keys) | (beside < 0)).all(axis=1)
        return keep_paths(walk, np.add.reduceat(~sewn, walk.offsets[:-1]) > 0)


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
