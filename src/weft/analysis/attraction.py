# ruff: noqa: SIM110 (kernels have no generator expressions)
"""Attraction and repulsion by colours: cloth that has passed through other cloth is pulled back through it.

Baraff, Witkin and Kass 2003, section 6, for a vertex p and a triangle T near it. If p is black and T white by the same path
(or the reverse), they attract. If p and any corner of T are red by the same path, they are left alone. Otherwise they
repel. Three things differ from the paper:

- A triangle is white also if the path passes through it, not only if all its corners are: small regions would otherwise
  have no triangle at all.
- At a path that does not divide the mesh, there is neither attraction nor repulsion: repulsion would hold it in place.
- A red region is a fold whose two halves have passed through one another. Where nothing else pulls it apart,
  `find_partners` pairs the vertices of each half with triangles of the other.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser, Analysis
from weft.analysis.colour import DIVIDES, transpose
from weft.analysis.contour import Moves, unit
from weft.analysis.crossing import CrossingMesh, query_around
from weft.geometry.proximity import nearest_point_triangle
from weft.mesh.topology import Csr
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# what to do about a pair that is near
REPEL, ATTRACT, NEITHER = 0, 1, 2


@wp.struct
class Colours:
    """The colours of an analysis as lists with offsets: the regions that each vertex and each triangle is in, and the paths
    at each vertex that do not divide the mesh (loose paths).

    Region r belongs to path r // 2; its partner is r ^ 1. `single`: 1 where the path is a single curve, its region red.
    """

    vertex_offsets: wp.array[int]
    vertex_items: wp.array[int]
    face_offsets: wp.array[int]
    face_items: wp.array[int]
    loose_offsets: wp.array[int]
    loose_items: wp.array[int]
    single: wp.array[int]


@wp.func
def has_item(offsets: wp.array[int], items: wp.array[int], list_number: int, item: int) -> bool:
    """Whether one of the lists contains an item."""
    for k in range(offsets[list_number], offsets[list_number + 1]):
        if items[k] == item:
            return True
    return False


@wp.func
def in_same_red(c: Colours, one: int, other: int) -> bool:
    """Are two vertices inside the red region of the same path?"""
    for k in range(c.vertex_offsets[one], c.vertex_offsets[one + 1]):
        region = c.vertex_items[k]
        if c.single[region // 2] == 1:
            if has_item(c.vertex_offsets, c.vertex_items, other, region):
                return True
            if has_item(c.vertex_offsets, c.vertex_items, other, region ^ 1):
                return True
    return False


@wp.func
def at_same_loose(c: Colours, one: int, other: int) -> bool:
    """Are two vertices at the same path that does not divide the mesh?"""
    for k in range(c.loose_offsets[one], c.loose_offsets[one + 1]):
        if has_item(c.loose_offsets, c.loose_items, other, c.loose_items[k]):
            return True
    return False


@wp.kernel
def classify_vertex_triangle(
    first: int, c: Colours, faces: wp.array[wp.vec3i], pairs: wp.array[wp.vec2i], kinds: wp.array[wp.int8]
):
    """Whether the vertex and the triangle of each pair attract each other, repel each other, or neither."""
    i = first + wp.tid()
    p = pairs[i][0]
    f = pairs[i][1]
    kind = wp.int8(REPEL)
    for k in range(3):
        if in_same_red(c, p, faces[f][k]) or at_same_loose(c, p, faces[f][k]):
            kind = wp.int8(NEITHER)
    for k in range(c.vertex_offsets[p], c.vertex_offsets[p + 1]):
        region = c.vertex_items[k]
        if c.single[region // 2] == 0:
            if has_item(c.face_offsets, c.face_items, f, region ^ 1):
                kind = wp.int8(ATTRACT)
    kinds[i] = kind


@wp.kernel
def classify_edge_edge(
    first: int, c: Colours, edges: wp.array[wp.vec2i], pairs: wp.array[wp.vec2i], kinds: wp.array[wp.int8]
):
    """Whether the two edges of each pair attract each other, repel each other, or neither."""
    i = first + wp.tid()
    one = edges[pairs[i][0]]
    other = edges[pairs[i][1]]
    kind = wp.int8(REPEL)
    for j in range(2):
        for k in range(2):
            if in_same_red(c, one[j], other[k]) or at_same_loose(c, one[j], other[k]):
                kind = wp.int8(NEITHER)
    # both ends of one edge inside a region, both ends of the other inside its partner
    for k in range(c.vertex_offsets[one[0]], c.vertex_offsets[one[0] + 1]):
        region = c.vertex_items[k]
        if c.single[region // 2] == 0:
            if has_item(c.vertex_offsets, c.vertex_items, one[1], region):
                if has_item(c.vertex_offsets, c.vertex_items, other[0], region ^ 1):
                    if has_item(c.vertex_offsets, c.vertex_items, other[1], region ^ 1):
                        kind = wp.int8(ATTRACT)
    kinds[i] = kind


@wp.kernel
def find_partner(
    first: int,
    mesh: CrossingMesh,
    vertices: wp.array[int],
    regions: wp.array[int],
    colour_offsets: wp.array[int],
    colours: wp.array[int],
    length: wp.float64,
    reach: wp.float64,
    found_face: wp.array[int],
    found_weights: wp.array[wp.vec3d],
):
    """For each vertex inside a region, the nearest triangle of the partner region within `reach`, and the nearest point on it.

    Boxes of growing size are searched until no nearer triangle can be outside. `length`: the first size.
    """
    i = first + wp.tid()
    v = vertices[i]
    partner = regions[i] ^ 1
    p = mesh.x[v]
    best = int(-1)
    best_distance = reach
    best_weights = wp.vec3d()
    radius = wp.min(length, reach)
    searching = bool(True)
    while searching:
        f = int(0)
        query = query_around(mesh, p, radius)
        while wp.bvh_query_next(query, f):
            face = mesh.faces[f]
            if face[0] != v and face[1] != v and face[2] != v:
                if has_item(colour_offsets, colours, f, partner):
                    a = mesh.x[face[0]]
                    b = mesh.x[face[1]]
                    c = mesh.x[face[2]]
                    w = nearest_point_triangle(p, a, b, c)
                    distance = wp.length(w[0] * a + w[1] * b + w[2] * c - p)
                    # equal distances: the triangle of lower index, so that the order of the tree does not matter
                    if distance < best_distance or (distance == best_distance and f < best):
                        best = f
                        best_distance = distance
                        best_weights = w
        if best_distance <= radius or radius >= reach:
            searching = False
        radius = wp.min(wp.float64(2.0) * radius, reach)
    found_face[i] = best
    found_weights[i] = best_weights


def colour_table(analysis: Analysis, device: wp.DeviceLike = "cpu") -> Colours:
    """The colours of an analysis on a device, for `vertex_triangle_kinds` and `edge_edge_kinds`."""
    table = Colours()
    lists = {"vertex": analysis.colours, "face": analysis.face_colours, "loose": _loose_paths(analysis)}
    for name, csr in lists.items():
        setattr(table, f"{name}_offsets", wp.array(csr.offsets, dtype=int, device=device))
        setattr(table, f"{name}_items", wp.array(csr.items, dtype=int, device=device))
    table.single = wp.array(analysis.single.astype(np.int32), dtype=int, device=device)
    return table


def _loose_paths(analysis: Analysis) -> Csr:
    """For every vertex: the paths with a crossing at it that do not divide both of their sheets."""
    divides = (analysis.status.reshape(-1, 2) == DIVIDES).all(axis=1)
    loose = ~(divides | (analysis.single & (analysis.status[::2] == DIVIDES)))[analysis.path_of]
    beside = np.column_stack([analysis.rows[loose, :2], analysis.topology.faces[analysis.face[loose]]])
    count = analysis.topology.vertex_count
    keys = np.unique(np.repeat(analysis.path_of[loose], 5).astype(np.int64) * count + beside.ravel())
    offsets = np.searchsorted(keys, np.arange(len(analysis) + 1) * count).astype(np.int32)
    return transpose(Csr(offsets, (keys % count).astype(np.int32)), count)


def vertex_triangle_kinds(table: Colours, faces: wp.array, pairs: wp.array, kinds: wp.array) -> None:
    """Write ATTRACT, NEITHER or REPEL into `kinds` (int8) for each pair (vertex, face)."""
    launch(classify_vertex_triangle, len(pairs), [table, faces, pairs, kinds], device=pairs.device)


def edge_edge_kinds(table: Colours, edges: wp.array, pairs: wp.array, kinds: wp.array) -> None:
    """Write ATTRACT, NEITHER or REPEL into `kinds` (int8) for each pair (edge, edge)."""
    launch(classify_edge_edge, len(pairs), [table, edges, pairs, kinds], device=pairs.device)


class Partners(NamedTuple):
    """Vertices inside a region, each with the nearest triangle of the other region of its path."""

    vertex: Ints
    region: Ints
    """(k,) the region that the vertex is in, as in `Analysis.region_vertices`"""
    face: Ints
    """(k,) the triangle; -1 if none is near enough"""
    weights: Floats
    """(k, 3) barycentric coordinates of the nearest point on it"""


def pulling_paths(analysis: Analysis) -> Bools:
    """(paths,) which paths have vertices to pull back: those that divide a sheet and have vertices inside on it.

    For a path with a red region, both halves must have vertices.
    """
    divides = analysis.status.reshape(-1, 2) == DIVIDES
    filled = np.diff(analysis.region_vertices.offsets).reshape(-1, 2) > 0
    two = (divides & filled).any(axis=1)
    return np.where(analysis.single, divides[:, 0] & filled.all(axis=1), two)


def find_partners(analyser: Analyser, analysis: Analysis, paths: Bools, reach: float) -> Partners:
    """For every vertex inside the chosen paths: the nearest triangle of the partner region within `reach` (metres).

    The analysis must come from this analyser, whose tree of triangles is rebuilt and searched.
    """
    sizes = np.diff(analysis.region_vertices.offsets)
    region = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    kept = paths[region // 2]
    vertex, region = analysis.region_vertices.items[kept], region[kept]
    analyser.finder.build_tree(analysis.positions)
    device = analyser.finder.device
    colours = analysis.face_colours
    face = wp.empty(len(vertex), dtype=int, device=device)
    weights = wp.empty(len(vertex), dtype=wp.vec3d, device=device)
    inputs = [
        analyser.finder.mesh,
        *(wp.array(values, dtype=int, device=device) for values in (vertex, region, colours.offsets, colours.items)),
        wp.float64(analysis.length),
        wp.float64(reach),
        face,
        weights,
    ]
    launch(find_partner, len(vertex), inputs, device=device, grain=64)
    return Partners(vertex, region, face.numpy(), weights.numpy())


def attraction_moves(analysis: Analysis, partners: Partners) -> tuple[Moves, Floats]:
    """Moves of each vertex towards the nearest point of its partner triangle, and the distances."""
    found = partners.face >= 0
    vertex, inner = partners.vertex[found], partners.weights[found]
    corners = analysis.topology.faces[partners.face[found]]
    x = analysis.positions
    offset = np.einsum("ij,ijk->ik", inner, x[corners]) - x[vertex]
    moves = Moves(np.column_stack([vertex, corners]), np.column_stack([np.ones(len(vertex)), -inner]), unit(offset))
    return moves, np.sqrt(np.einsum("ij,ij->i", offset, offset))
