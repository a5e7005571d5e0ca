"""The language of detection: point-triangle and edge-edge pairs as one type (see DESIGN.md, 'The stencil').

A stencil is four vertices, four weights that sum to zero, and a unit normal. The relative position is r = sum of
w_k x_k, from the second side to the first, and the gap n . r is never negative.
"""

from enum import IntEnum
from typing import Any

import warp as wp

from weft.geometry.proximity import edge_weights, triangle_weights
from weft.runtime.buffers import Buffer

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# a vector shorter than this part of its stencil's edges has no direction to speak of
NO_DIRECTION = wp.constant(wp.float64(1e-12))


class Kind(IntEnum):
    """Which features a stencil joins; also the order of its four vertices."""

    POINT_TRIANGLE = 0
    """the point, then the triangle's corners"""
    EDGE_EDGE = 1
    """the ends of the one edge, then those of the other"""


POINT_TRIANGLE = wp.constant(int(Kind.POINT_TRIANGLE))


@wp.func
def pair_vertices(kind: int, pair: wp.vec2i, faces: wp.array[wp.vec3i], edges: wp.array[wp.vec2i]) -> wp.vec4i:
    """The four vertices of a candidate (vertex, face) or (edge, edge)."""
    result = wp.vec4i()
    if kind == POINT_TRIANGLE:
        face = faces[pair[1]]
        result = wp.vec4i(pair[0], face[0], face[1], face[2])
    else:
        a = edges[pair[0]]
        b = edges[pair[1]]
        result = wp.vec4i(a[0], a[1], b[0], b[1])
    return result


@wp.func
def nearest_weights(kind: int, x0: wp.vec3d, x1: wp.vec3d, x2: wp.vec3d, x3: wp.vec3d) -> wp.vec4d:
    """The weights that make r the shortest vector between the two sides."""
    result = wp.vec4d()
    if kind == POINT_TRIANGLE:
        result = triangle_weights(x0, x1, x2, x3)
    else:
        result = edge_weights(x0, x1, x2, x3)
    return result


@wp.func
def stencil_normal(kind: int, r: wp.vec3d, x0: wp.vec3d, x1: wp.vec3d, x2: wp.vec3d, x3: wp.vec3d) -> wp.vec3d:
    """The unit vector along r; where the sides touch, across both of them, on the side where r is not negative."""
    # two directions of the surfaces there: two edges of the triangle, or the two edges
    one = x2 - x1
    other = x3 - x1
    if kind != POINT_TRIANGLE:
        one = x1 - x0
        other = x3 - x2
    size = wp.max(wp.length(one), wp.length(other))
    distance = wp.length(r)
    if distance > NO_DIRECTION * size:
        return r / distance
    across = wp.vec3d(wp.cross(one, other))
    if wp.length(across) <= NO_DIRECTION * size * size:
        # no area: anything across the longer of the two
        across = _across(one)
        if wp.length(other) > wp.length(one):
            across = _across(other)
    if wp.dot(across, r) < ZERO:
        across = -across
    return across / wp.length(across)


@wp.func
def _across(v: wp.vec3d) -> wp.vec3d:
    # the axis that v has least of, made perpendicular to v; up where v is nothing
    axis = wp.vec3d(ZERO, wp.float64(1.0), ZERO)
    x = wp.abs(v[0])
    y = wp.abs(v[1])
    z = wp.abs(v[2])
    if x < y and x <= z:
        axis = wp.vec3d(wp.float64(1.0), ZERO, ZERO)
    elif z < y:
        axis = wp.vec3d(ZERO, ZERO, wp.float64(1.0))
    length = wp.dot(v, v)
    if length > ZERO:
        axis = axis - v * (wp.dot(axis, v) / length)
    return axis


class Stencils:
    """Stencils in device arrays that are kept and grow; the first `count` rows are in use."""

    def __init__(self, device: wp.DeviceLike) -> None:
        self.count = 0
        self._buffers = [Buffer(dtype, device) for dtype in (int, wp.vec4i, wp.vec4d, wp.vec3d, wp.float64)]

    def resize(self, count: int) -> None:
        """Make room for `count` rows and take them into use; what they held is lost."""
        for buffer in self._buffers:
            buffer.at_least(max(count, 1))
        self.count = count

    def _used(self, column: int) -> Any:
        return self._buffers[column].at_least(1)[: self.count]

    @property
    def kind(self) -> wp.array:
        """int: see `Kind`"""
        return self._used(0)

    @property
    def vertices(self) -> wp.array:
        """vec4i"""
        return self._used(1)

    @property
    def weights(self) -> wp.array:
        """vec4d, sum zero"""
        return self._used(2)

    @property
    def normal(self) -> wp.array:
        """vec3d, unit length, from the second side to the first"""
        return self._used(3)

    @property
    def gap(self) -> wp.array:
        """float64: the distance along the normal, never negative"""
        return self._used(4)

    @property
    def columns(self) -> list[wp.array]:
        """Kind, vertices, weights, normal, gap: all rows there is room for, as kernels want them."""
        return [buffer.array for buffer in self._buffers]
