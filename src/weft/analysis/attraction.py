# ruff: noqa: SIM110 (kernels have no generator expressions)
"""How cloth that has passed through is pulled apart: contour minimisation, and attraction by colours.

Contour minimisation: the relative motion of two sheets that shortens the path along which they cross.

Where a path does not divide the mesh there is no inside to pull back (a cuff through a cuff, say), but the path itself
can be shortened until it vanishes (Volino and Magnenat-Thalmann 2006). With p the point where edge E crosses a
triangle of normal N, and R the sum of the unit vectors from p to its two neighbours along the path, moving the edge by
u and the triangle by v moves p by u - E N.(u - v) / N.E, and the path grows by -R . dp. The steepest descent moves the
edge by R - g N and the triangle by g N with g = R.E / N.E; against the triangle, the edge goes R - 2 g N.

Along a straight path R is zero, and only the ends would move. So the directions are also averaged over the path, as seen
from one sheet: the direction in which that sheet as a whole has to move against the other.

Attraction and repulsion by colours: cloth that has passed through other cloth is pulled back through it.

Baraff, Witkin and Kass 2003, section 6, for a vertex p and a triangle T near it. If p is black and T white by the same path
(or the reverse), they attract. If p and any corner of T are red by the same path, they are left alone. Otherwise they
repel. Three things differ from the paper:

- A triangle is white also if the path passes through it, not only if all its corners are: small regions would otherwise
  have no triangle at all.
- At a path that does not divide the mesh, there is neither attraction nor repulsion: repulsion would hold it in place.
- A red region is a fold whose two halves have passed through one another. Where nothing else pulls it apart,
  `partners` pairs the vertices of each half with triangles of the other.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.analyser import Analysis
from weft.analysis.colour import DIVIDES, transpose
from weft.analysis.walk import LOOP
from weft.mesh.topology import Csr
from weft.mesh.validate import cross
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# N.E is at least this in magnitude: an edge nearly parallel to its triangle would otherwise move without bound
LEAST_SLOPE = 0.1
# weight of the mean direction of the path beside the direction of each crossing: 0 lets straight paths stand still, large
# values move whole sheets where single crossings would come free by themselves
PATH_WEIGHT = 1.5
# directions shorter than this are not normalised: on a straight path they are mere rounding
LEAST_PULL = 1e-3


class Crossings(NamedTuple):
    """Crossings as stencils of five vertices: the two of the edge, then the three of the triangle."""

    vertices: Ints
    """(k, 5)"""
    weights: Floats
    """(k, 5) barycentric coordinates of the crossing: positive for the edge, negative for the triangle; their sum is zero"""
    along: Floats
    """(k, 3) unit vector of the edge"""
    normal: Floats
    """(k, 3) unit normal of the triangle"""


class Moves(NamedTuple):
    """Wanted relative motions: each moves one weighted mean of vertices against another."""

    vertices: Ints
    """(k, c)"""
    weights: Floats
    """(k, c) positive for vertices that move along the direction, negative for those that move against it"""
    directions: Floats
    """(k, 3) unit vectors, or zero"""


def crossing_stencils(analysis: Analysis) -> Crossings:
    """The stencils of all crossings, in the order of the paths."""
    x = analysis.positions
    ends, corners = analysis.rows[:, :2], analysis.topology.faces[analysis.face]
    a, b, c = x[corners].transpose(1, 0, 2)
    area = cross(b - a, c - a)
    square = np.einsum("ij,ij->i", area, area)
    # barycentric coordinates of the crossing in the triangle; its centre if the triangle has no area
    point = analysis.points
    safe = np.where(square > 0.0, square, 1.0)
    weight_b = np.einsum("ij,ij->i", cross(point - a, c - a), area) / safe
    weight_c = np.einsum("ij,ij->i", cross(b - a, point - a), area) / safe
    inner = np.clip(np.column_stack([1.0 - weight_b - weight_c, weight_b, weight_c]), 0.0, 1.0)
    inner[square <= 0.0] = 1.0
    inner /= inner.sum(axis=1, keepdims=True)
    fraction = analysis.fractions
    return Crossings(
        np.column_stack([ends, corners]),
        np.column_stack([1.0 - fraction, fraction, -inner]),
        unit(x[ends[:, 1]] - x[ends[:, 0]]),
        unit(area),
    )


def contour_tangents(analysis: Analysis) -> Floats:
    """(k, 3) R: the sum of the unit vectors from each crossing to its neighbours along the path."""
    points, offsets = analysis.points, analysis.path_offsets
    total = np.zeros_like(points)
    if not len(points):
        return total
    here = np.arange(len(points))
    first, last = offsets[:-1], offsets[1:] - 1
    for step, border, opposite, end in ((-1, first, last, 0), (1, last, first, 1)):
        neighbour = here + step
        neighbour[border] = np.where(analysis.closed, opposite, border)
        towards = points[neighbour] - points
        # a path that ends at a loop vertex continues to it
        codes = analysis.path_ends[:, end]
        loop = codes <= LOOP
        towards[border[loop]] = analysis.positions[LOOP - codes[loop]] - points[border[loop]]
        total += unit(towards)
    return total


def contour_directions(analysis: Analysis, crossings: Crossings) -> tuple[Floats, Floats]:
    """(k, 3) twice: how each edge has to move against its triangle to shorten the path, and the mean of that over the path.

    The mean is as seen from the sheet of the edge.
    """
    tangents = contour_tangents(analysis)
    slope = np.einsum("ij,ij->i", crossings.along, crossings.normal)
    slope = np.where(slope < 0.0, np.minimum(slope, -LEAST_SLOPE), np.maximum(slope, LEAST_SLOPE))
    push = np.einsum("ij,ij->i", tangents, crossings.along) / slope
    own = tangents - 2.0 * push[:, None] * crossings.normal
    if not len(own):
        return own, own
    sign = np.where(analysis.sheet == 0, 1.0, -1.0)[:, None]
    sizes = np.diff(analysis.path_offsets)[:, None]
    mean = np.add.reduceat(sign * own, analysis.path_offsets[:-1], axis=0) / sizes
    return own, sign * mean[analysis.path_of]


def contour_moves(analysis: Analysis, paths: Bools | None = None) -> Moves:
    """The moves that shorten all paths, or the chosen ones: each edge against its triangle."""
    crossings = crossing_stencils(analysis)
    own, whole = contour_directions(analysis, crossings)
    directions = unit(unit(own, LEAST_PULL) + PATH_WEIGHT * unit(whole, LEAST_PULL), LEAST_PULL)
    if paths is not None:
        chosen = paths[analysis.path_of]
        return Moves(crossings.vertices[chosen], crossings.weights[chosen], directions[chosen])
    return Moves(crossings.vertices, crossings.weights, directions)


def unit(vectors: Floats, least: float = 0.0) -> Floats:
    """Each vector divided by its length, or by `least` if that is more; zero stays zero."""
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), least)[:, None]
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0.0)


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
