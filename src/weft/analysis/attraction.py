"""Attraction: what passed through one another is pulled together, so that it goes back (Baraff, Witkin and Kass 2003).

Their section 6, for a vertex p and a near triangle T: p black and T white by the same path (or the reverse): attract. p
red and any corner of T red by the same path: leave them alone. Otherwise: repel. Three things are done differently:

- A triangle counts as white when all its corners are, or when the path passes through it; without the latter, small
  regions would have no triangle at all.
- Around a path that does not divide the mesh, there is neither attraction nor repulsion: repulsion would hold it there.
- A red region is a fold whose two halves have passed through one another. Where nothing else will pull it apart,
  `find_partners` attracts each half, nearer to the curve of one sheet, to the other.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis import attraction_kernels as kernels
from weft.analysis.analyser import Analyser
from weft.analysis.colour import DIVIDES, transpose
from weft.analysis.contour import Moves, unit
from weft.analysis.result import Analysis
from weft.mesh.topology import Csr
from weft.runtime import launch

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# what to do about a near pair
REPEL = int(kernels.REPEL)
ATTRACT = int(kernels.ATTRACT)
NEITHER = int(kernels.NEITHER)


def colour_table(analysis: Analysis, device: wp.DeviceLike = "cpu") -> kernels.Colours:
    """The colours of an analysis on a device, for `vertex_triangle_kinds` and `edge_edge_kinds`."""
    table = kernels.Colours()
    rows = {"vertex": analysis.colours, "face": analysis.face_colours, "loose": _loose_paths(analysis)}
    for name, csr in rows.items():
        setattr(table, f"{name}_offsets", wp.array(csr.offsets, dtype=int, device=device))
        setattr(table, f"{name}_items", wp.array(csr.items, dtype=int, device=device))
    table.single = wp.array(analysis.single.astype(np.int32), dtype=int, device=device)
    return table


def _loose_paths(analysis: Analysis) -> Csr:
    """For every vertex: the paths beside it that do not divide both of their sheets."""
    divides = (analysis.status.reshape(-1, 2) == DIVIDES).all(axis=1)
    loose = ~(divides | (analysis.single & (analysis.status[::2] == DIVIDES)))[analysis.path_of]
    beside = np.column_stack([analysis.rows[loose, :2], analysis.topology.faces[analysis.face[loose]]])
    count = analysis.topology.vertex_count
    keys = np.unique(np.repeat(analysis.path_of[loose], 5).astype(np.int64) * count + beside.ravel())
    offsets = np.searchsorted(keys, np.arange(len(analysis) + 1) * count).astype(np.int32)
    return transpose(Csr(offsets, (keys % count).astype(np.int32)), count)


def vertex_triangle_kinds(table: kernels.Colours, faces: wp.array, pairs: wp.array, kinds: wp.array) -> None:
    """For each pair (vertex, face): ATTRACT, NEITHER or REPEL into `kinds` (int8)."""
    launch(kernels.classify_vertex_triangle, len(pairs), [table, faces, pairs, kinds], device=pairs.device)


def edge_edge_kinds(table: kernels.Colours, edges: wp.array, pairs: wp.array, kinds: wp.array) -> None:
    """For each pair (edge, edge): ATTRACT, NEITHER or REPEL into `kinds` (int8)."""
    launch(kernels.classify_edge_edge, len(pairs), [table, edges, pairs, kinds], device=pairs.device)


class Partners(NamedTuple):
    """Vertices inside a region, each with the nearest triangle of the other region of its path."""

    vertex: Ints
    region: Ints
    """(k,) the row of `Analysis.region_vertices`"""
    face: Ints
    """(k,) the triangle; -1: none is near enough"""
    weights: Floats
    """(k, 3) the nearest point of it, barycentric"""


def pulling_paths(analysis: Analysis) -> Bools:
    """(paths,) which paths have vertices to pull through the other sheet: those that divide one, with some inside.

    A red path counts if both of its halves have vertices.
    """
    divides = analysis.status.reshape(-1, 2) == DIVIDES
    filled = np.diff(analysis.region_vertices.offsets).reshape(-1, 2) > 0
    two = (divides & filled).any(axis=1)
    return np.where(analysis.single, divides[:, 0] & filled.all(axis=1), two)


def find_partners(analyser: Analyser, analysis: Analysis, paths: Bools, reach: float) -> Partners:
    """For every vertex inside the chosen paths: the nearest triangle on the other side of its path, within reach.

    The analysis must be one of this analyser, whose tree is grown and searched.
    """
    sizes = np.diff(analysis.region_vertices.offsets)
    region = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    kept = paths[region // 2]
    vertex, region = analysis.region_vertices.items[kept], region[kept]
    analyser.finder.grow_tree(analysis.positions)
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
    launch(kernels.find_partner, len(vertex), inputs, device=device, grain=64)
    return Partners(vertex, region, face.numpy(), weights.numpy())


def attraction_moves(analysis: Analysis, partners: Partners) -> tuple[Moves, Floats]:
    """Each vertex towards the nearest point of its partner, and how far that is."""
    found = partners.face >= 0
    vertex, inner = partners.vertex[found], partners.weights[found]
    corners = analysis.topology.faces[partners.face[found]]
    x = analysis.positions
    way = np.einsum("ij,ijk->ik", inner, x[corners]) - x[vertex]
    moves = Moves(np.column_stack([vertex, corners]), np.column_stack([np.ones(len(vertex)), -inner]), unit(way))
    return moves, np.sqrt(np.einsum("ij,ij->i", way, way))
