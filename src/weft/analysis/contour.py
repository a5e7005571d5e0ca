"""Contour minimisation: the relative motion of two sheets that shortens the path along which they cross.

Where a path does not divide the mesh there is no inside to pull back (a cuff through a cuff, say), but the path itself
can be made shorter until nothing is left (Volino and Magnenat-Thalmann 2006). With p the point where edge E crosses a
triangle of normal N, and R the sum of the unit vectors from p to its two neighbours along the path, moving the edge by
u and the triangle by v moves p by u - E N.(u - v) / N.E, and the path grows by -R . dp. The steepest descent moves the
edge by R - g N and the triangle by g N with g = R.E / N.E; against the triangle, the edge goes R - 2 g N.

Along a straight path R is zero and only the ends pull. So the directions of a path are also averaged, by sheet: that
is the way in which one sheet as a whole has to move against the other.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.analysis.result import Analysis
from weft.analysis.walk import LOOP
from weft.mesh.validate import cross

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# an edge that is nearly parallel to its triangle would be sent to infinity
LEAST_SLOPE = 0.1
# how much the direction of the whole path counts beside that of each crossing
PATH_PART = 1.5
# directions shorter than this are not scaled to 1: on a straight path they are nothing but rounding
LEAST_PULL = 1e-3


class Crossings(NamedTuple):
    """Crossings as stencils of five vertices: the two of the edge, then the three of the triangle."""

    vertices: Ints
    """(k, 5)"""
    weights: Floats
    """(k, 5) barycentric coordinates of the crossing: positive on the edge, negative on the triangle; sum zero"""
    along: Floats
    """(k, 3) unit vector of the edge"""
    normal: Floats
    """(k, 3) unit normal of the triangle"""


class Moves(NamedTuple):
    """Where vertices ought to go: each row moves one point against another, by the weights of its vertices."""

    vertices: Ints
    """(k, c)"""
    weights: Floats
    """(k, c) positive for vertices that go along the direction, negative for those that go against it"""
    directions: Floats
    """(k, 3) unit vectors, or zero"""


def crossing_stencils(analysis: Analysis) -> Crossings:
    """The stencils of all crossings, in the order of the paths."""
    x = analysis.positions
    ends, corners = analysis.rows[:, :2], analysis.topology.faces[analysis.face]
    a, b, c = x[corners].transpose(1, 0, 2)
    area = cross(b - a, c - a)
    square = np.einsum("ij,ij->i", area, area)
    # barycentric coordinates of the crossing in the triangle; a triangle without area takes its middle
    point = analysis.points
    safe = np.where(square > 0.0, square, 1.0)
    weight_b = np.einsum("ij,ij->i", cross(point - a, c - a), area) / safe
    weight_c = np.einsum("ij,ij->i", cross(b - a, point - a), area) / safe
    inner = np.clip(np.column_stack([1.0 - weight_b - weight_c, weight_b, weight_c]), 0.0, 1.0)
    inner[square <= 0.0] = 1.0
    inner /= inner.sum(axis=1, keepdims=True)
    part = analysis.fractions
    return Crossings(
        np.column_stack([ends, corners]),
        np.column_stack([1.0 - part, part, -inner]),
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
        # a path that ends at a loop vertex goes on to it
        codes = analysis.path_ends[:, end]
        loop = codes <= LOOP
        towards[border[loop]] = analysis.positions[LOOP - codes[loop]] - points[border[loop]]
        total += unit(towards)
    return total


def contour_directions(analysis: Analysis, crossings: Crossings) -> tuple[Floats, Floats]:
    """Where each edge has to go against its triangle to shorten the path: by itself, and with the whole path.

    Both are (k, 3); the second is the mean of the first over the path, as seen from the sheet of the edge.
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
    """How to shorten the paths (or those chosen): each edge against its triangle."""
    crossings = crossing_stencils(analysis)
    own, whole = contour_directions(analysis, crossings)
    directions = unit(unit(own, LEAST_PULL) + PATH_PART * unit(whole, LEAST_PULL), LEAST_PULL)
    if paths is not None:
        chosen = paths[analysis.path_of]
        return Moves(crossings.vertices[chosen], crossings.weights[chosen], directions[chosen])
    return Moves(crossings.vertices, crossings.weights, directions)


def unit(vectors: Floats, least: float = 0.0) -> Floats:
    """The rows divided by their lengths, or by the least length if that is more; zero stays zero."""
    lengths = np.maximum(np.sqrt(np.einsum("ij,ij->i", vectors, vectors)), least)[:, None]
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0.0)
