"""Contour minimisation: the relative motion of two sheets that shortens the path along which they cross.

Where a path does not divide the mesh there is no inside to pull back (a cuff through a cuff, say), but the path itself
can be shortened until it vanishes (Volino and Magnenat-Thalmann 2006). With p the point where edge E crosses a
triangle of normal N, and R the sum of the unit vectors from p to its two neighbours along the path, moving the edge by
u and the triangle by v moves p by u - E N.(u - v) / N.E, and the path grows by -R . dp. The steepest descent moves the
edge by R - g N and the triangle by g N with g = R.E / N.E; against the triangle, the edge goes R - 2 g N.

Along a straight path R is zero, and only the ends would move. So the directions are also averaged over the path, as seen
from one sheet: the direction in which that sheet as a whole has to move against the other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.analysis.analyser import Analysis
from weft.analysis.walk import LOOP
from weft.mesh.validate import cross

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
