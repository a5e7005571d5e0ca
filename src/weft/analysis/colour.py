"""Colours: which vertices lie inside the curves of a path (Baraff, Witkin and Kass 2003, section 5.4).

A path is a curve on each of the two data that cross, or one single curve where it runs through loop vertices. A curve
divides its sheet if the vertices can be given two labels that differ across an edge exactly where the curve cuts the edge
an odd number of times. Labels start along the curve and grow on both sides in turn (`flood`); the side that is complete
first is the smaller one, by area, and is the inside. So a curve costs as much as its smaller side; where the two sides
reach each other, the curve does not divide the mesh.

Regions are numbered 2 path + sheet: 2 path is black and 2 path + 1 white. A red region (of a single curve) is split into
two halves, nearer to the curve of sheet 0 and of sheet 1, which are listed as 2 path and 2 path + 1.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.flood import FloodData, flood, label_sides, mark_curve, split_red_region
from weft.analysis.walk import LOOP, TWISTED, Walk
from weft.mesh.topology import Csr, Topology, make_csr
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

# what a curve does to its sheet; NO_CURVE: the second region of a single curve
NO_CURVE, DIVIDES, DOES_NOT_DIVIDE = 0, 1, 2

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]


@wp.func
def list_face(s: FloodData, f: int, curve: int, faces: wp.array[int], place: int) -> int:
    """Append a triangle to the list of a curve, once; gives the new end of the list, also where the array is full."""
    if s.listed[f] == curve + 1:
        return place
    s.listed[f] = curve + 1
    if place < faces.shape[0]:
        faces[place] = f
    return place + 1


@wp.func
def list_passed(s: FloodData, path: int, curve: int, faces: wp.array[int], start: int) -> int:
    """Append the triangles that the curve passes through."""
    place = start
    sheet = curve % 2
    for i in range(s.path_offsets[path], s.path_offsets[path + 1]):
        if s.node_sheet[i] == sheet:
            for k in range(2):
                f = s.edge_faces[s.node_edge[i]][k]
                if f >= 0:
                    place = list_face(s, f, curve, faces, place)
        else:
            place = list_face(s, s.node_face[i], curve, faces, place)
    return place


@wp.func
def belongs(s: FloodData, v: int, sheet: int, side: int, single: bool, stamp: int) -> int:
    """1 for a vertex inside (of a red region: in the half of this sheet), 0 in the other half, -1 outside."""
    if s.blocked[v] == stamp:
        return 1
    if s.labels[v] != 2 * stamp + side:
        return -1
    if single and s.halves[v] != 2 * stamp + sheet:
        return 0
    return 1


@wp.func
def list_inside(
    s: FloodData,
    curve: int,
    single: bool,
    stamp: int,
    side: int,
    count: int,
    vertices: wp.array[int],
    faces: wp.array[int],
    start: wp.vec2i,
) -> wp.vec2i:
    """Append the vertices inside, and the triangles with all corners inside, two of them at least in the half of the curve."""
    v_place = start[0]
    f_place = start[1]
    sheet = curve % 2
    for i in range(count):
        v = s.queue_0[i]
        if side == 1:
            v = s.queue_1[i]
        if belongs(s, v, sheet, side, single, stamp) == 1:
            if v_place < vertices.shape[0]:
                vertices[v_place] = v
            v_place += 1
            for j in range(s.vertex_face_offsets[v], s.vertex_face_offsets[v + 1]):
                f = s.vertex_faces[j]
                corners = int(0)
                inside = bool(True)
                for k in range(3):
                    b = belongs(s, s.faces[f][k], sheet, side, single, stamp)
                    if b < 0:
                        inside = False
                    corners += b
                if inside and corners >= 2:
                    f_place = list_face(s, f, curve, faces, f_place)
    return wp.vec2i(v_place, f_place)


@wp.func
def list_loop_vertices(s: FloodData, path: int, vertices: wp.array[int], start: int) -> int:
    """Append the loop vertices of a path: they belong to the region that it encloses."""
    place = start
    for k in range(2):
        code = s.path_ends[path][k]
        if code <= LOOP and (k == 0 or code != s.path_ends[path][0]):
            if place < vertices.shape[0]:
                vertices[place] = LOOP - code
            place += 1
    return place


@wp.kernel
def colour_regions(
    first: int,
    paths: int,
    s: FloodData,
    status: wp.array[int],
    vertex_offsets: wp.array[int],
    vertices: wp.array[int],
    face_offsets: wp.array[int],
    faces: wp.array[int],
):
    """List what lies inside each curve 2 p + sheet of path p, or inside the single curve 2 p of a path through loop vertices.

    Launched with one item: serial code on the CPU.
    """
    place = wp.vec2i(0, 0)
    side = int(-1)
    count = int(0)
    stamp = int(0)
    for curve in range(first + wp.tid(), 2 * paths):
        path = curve // 2
        ends = s.path_ends[path]
        single = ends[0] <= LOOP or ends[1] <= LOOP or ends[0] == TWISTED
        status[curve] = NO_CURVE
        if not single or curve % 2 == 0:
            # even, so that the number below it can mark vertices that have been counted
            stamp = 2 * (curve + 1)
            band = mark_curve(s, path, curve % 2, single, stamp)
            labelled = label_sides(s, band, stamp)
            side = -1
            if labelled >= 0:
                found = flood(s, labelled, stamp)
                side = found[0]
                count = found[1]
            status[curve] = DOES_NOT_DIVIDE
            if side >= 0:
                status[curve] = DIVIDES
                if single:
                    split_red_region(s, path, side, stamp)
        v_place = place[0]
        f_place = list_passed(s, path, curve, faces, place[1])
        place = wp.vec2i(v_place, f_place)
        if side >= 0:
            place = list_inside(s, curve, single, stamp, side, count, vertices, faces, place)
            if single and curve % 2 == 0:
                place = wp.vec2i(list_loop_vertices(s, path, vertices, place[0]), place[1])
        vertex_offsets[curve + 1] = place[0]
        face_offsets[curve + 1] = place[1]


class Regions(NamedTuple):
    """What lies inside the curves."""

    status: Ints
    """(2 paths,) NO_CURVE, DIVIDES or DOES_NOT_DIVIDE"""
    vertices: Csr
    """vertices inside, one list a region or half of a red region"""
    faces: Csr
    """triangles that the curve passes through, and those with all corners inside, in the same lists"""


class RegionPainter:
    """Finds the regions of the paths on one mesh, for many analyses."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        faces, edges = topology.faces, topology.edges
        count = topology.vertex_count
        ends = np.concatenate([edges[:, 0], edges[:, 1]])
        around = make_csr(ends, np.tile(np.arange(len(edges), dtype=np.int32), 2), count, max(len(edges), 1))
        data = FloodData()
        data.faces = wp.array(faces, dtype=wp.vec3i, device="cpu")
        data.edges = wp.array(edges, dtype=wp.vec2i, device="cpu")
        data.edge_faces = wp.array(topology.edge_faces, dtype=wp.vec2i, device="cpu")
        data.vertex_face_offsets = wp.array(topology.vertex_faces.offsets, dtype=int, device="cpu")
        data.vertex_faces = wp.array(topology.vertex_faces.items, dtype=int, device="cpu")
        data.vertex_edge_offsets = wp.array(around.offsets, dtype=int, device="cpu")
        data.vertex_edges = wp.array(around.items, dtype=int, device="cpu")
        stamps = {"labels": count, "blocked": count, "halves": count, "cuts": len(edges)}
        stamps |= {"near": len(faces), "listed": len(faces)}
        lists = {"band": len(faces), "queue_0": count, "queue_1": count, "spare": count}
        for name, size in (stamps | lists).items():
            setattr(data, name, wp.empty(size, dtype=int, device="cpu"))
        self._stamps = [getattr(data, name) for name in stamps]
        self._sheets = data
        self._vertices = wp.empty(count, dtype=int, device="cpu")
        self._faces = wp.empty(len(faces), dtype=int, device="cpu")

    def paint(self, walk: Walk, areas: Floats) -> Regions:
        """The regions of all paths; `areas` (m^2) are those of the vertices."""
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
            launch(colour_regions, 1, inputs)
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


def transpose(lists: Csr, count: int) -> Csr:
    """For items 0 to count - 1: the lists that contain each item, in ascending order."""
    number = np.repeat(np.arange(len(lists.offsets) - 1, dtype=np.int32), np.diff(lists.offsets))
    # list numbers ascend already, and a stable sort keeps their order
    order = np.argsort(lists.items, kind="stable")
    offsets = np.zeros(count + 1, dtype=np.int32)
    np.cumsum(np.bincount(lists.items, minlength=count), out=offsets[1:])
    return Csr(offsets, number[order])
