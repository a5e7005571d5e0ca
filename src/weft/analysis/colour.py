"""Colours: which vertices lie inside the curves of a path (Baraff, Witkin and Kass 2003, section 5.4).

A path is a curve on each of the two sheets that cross, or one single curve where it runs through loop vertices. Each
curve parts its sheet if the vertices can be given two labels that differ across an edge exactly where the curve cuts
it an odd number of times. Labels start along the curve and grow on both sides in turn; the side that is complete first
is the smaller one, by area, and counts as inside. So the cost of a curve is that of the smaller side, and where the
sides meet the curve does not divide the mesh.

Regions are numbered 2 path + sheet: 2 path is black and 2 path + 1 white. A red region is numbered 2 path and is listed
in two halves, nearer to the curve of one sheet and of the other, in the rows 2 path and 2 path + 1.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis import colour_kernels as kernels
from weft.analysis.flood_kernels import Sheets
from weft.analysis.walk import Walk
from weft.mesh.topology import Csr, Topology, make_csr
from weft.runtime import launch

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]

# what a curve does to its sheet
NO_CURVE = int(kernels.NO_CURVE)
DIVIDES = int(kernels.DIVIDES)
DOES_NOT_DIVIDE = int(kernels.DOES_NOT_DIVIDE)


class Regions(NamedTuple):
    """What lies inside the curves."""

    status: Ints
    """(2 paths,) NO_CURVE, DIVIDES or DOES_NOT_DIVIDE"""
    vertices: Csr
    """vertices inside, a row a region or half of a red region"""
    faces: Csr
    """triangles that the curve passes through, and those with all corners inside, in the same rows"""


class RegionPainter:
    """Finds the regions of the paths on one mesh again and again."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        faces, edges = topology.faces, topology.edges
        count = topology.vertex_count
        ends = np.concatenate([edges[:, 0], edges[:, 1]])
        around = make_csr(ends, np.tile(np.arange(len(edges), dtype=np.int32), 2), count, max(len(edges), 1))
        sheets = Sheets()
        sheets.faces = wp.array(faces, dtype=wp.vec3i, device="cpu")
        sheets.edges = wp.array(edges, dtype=wp.vec2i, device="cpu")
        sheets.edge_faces = wp.array(topology.edge_faces, dtype=wp.vec2i, device="cpu")
        sheets.vertex_face_offsets = wp.array(topology.vertex_faces.offsets, dtype=int, device="cpu")
        sheets.vertex_faces = wp.array(topology.vertex_faces.items, dtype=int, device="cpu")
        sheets.vertex_edge_offsets = wp.array(around.offsets, dtype=int, device="cpu")
        sheets.vertex_edges = wp.array(around.items, dtype=int, device="cpu")
        stamps = {"labels": count, "blocked": count, "parts": count, "cuts": len(edges)}
        stamps |= {"near": len(faces), "listed": len(faces)}
        lists = {"band": len(faces), "queue_0": count, "queue_1": count, "spare": count}
        for name, size in (stamps | lists).items():
            setattr(sheets, name, wp.empty(size, dtype=int, device="cpu"))
        self._stamps = [getattr(sheets, name) for name in stamps]
        self._sheets = sheets
        self._vertices = wp.empty(count, dtype=int, device="cpu")
        self._faces = wp.empty(len(faces), dtype=int, device="cpu")

    def paint(self, walk: Walk, areas: Floats) -> Regions:
        """The regions of all paths; `areas` are those of the vertices."""
        paths = len(walk.ends)
        s = self._sheets
        s.areas = wp.array(areas, dtype=wp.float64, device="cpu")
        s.node_edge, s.node_face, s.node_sheet, s.path_offsets = (
            wp.array(values, dtype=int, device="cpu") for values in (walk.edge, walk.face, walk.sheet, walk.offsets)
        )
        s.path_ends = wp.array(walk.ends, dtype=wp.vec2i, device="cpu")
        status = wp.zeros(2 * paths, dtype=int, device="cpu")
        offsets = [wp.zeros(2 * paths + 1, dtype=int, device="cpu") for _ in range(2)]
        while True:
            for stamps in self._stamps:
                stamps.zero_()
            inputs = [paths, s, status, offsets[0], self._vertices, offsets[1], self._faces]
            launch(kernels.colour_regions, 1, inputs)
            vertex_offsets, face_offsets = (o.numpy() for o in offsets)
            # lists that do not fit grow, and the pass runs again
            vertices, faces = int(vertex_offsets[-1]), int(face_offsets[-1])
            if vertices <= len(self._vertices) and faces <= len(self._faces):
                break
            self._vertices = wp.empty(max(vertices * 3 // 2, len(self._vertices)), dtype=int, device="cpu")
            self._faces = wp.empty(max(faces * 3 // 2, len(self._faces)), dtype=int, device="cpu")
        return Regions(
            status.numpy(),
            Csr(vertex_offsets, self._vertices.numpy()[:vertices].copy()),
            Csr(face_offsets, self._faces.numpy()[:faces].copy()),
        )


def transpose(rows: Csr, count: int) -> Csr:
    """The rows in which each item occurs, for items 0 to count - 1, in ascending order."""
    number = np.repeat(np.arange(len(rows.offsets) - 1, dtype=np.int32), np.diff(rows.offsets))
    # rows are in ascending order already, and a stable sort keeps it
    order = np.argsort(rows.items, kind="stable")
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(rows.items, minlength=count), out=offsets[1:])
    return Csr(offsets, number[order])
