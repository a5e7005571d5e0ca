"""The stencil: point-triangle and edge-edge pairs as one type, so that every response is written once.

A stencil is four vertices k, four weights w_k that sum to zero, and a unit normal n. Point p at barycentric coordinates b of
a triangle has the weights (1, -b1, -b2, -b3); edge ab at s against edge cd at t has (1 - s, s, t - 1, -t). Then

    relative position  r = sum w_k x_k          gap             g = n . r, never negative
    relative velocity  u = sum w_k v_k          normal speed    n . u
    inverse mass       W = sum w_k^2 / m_k      an impulse j:   v_k += (j w_k / m_k) n   changes n . u by j W

for any masses; a vertex of a collider or a pinned one has 1/m = 0.
"""

from enum import IntEnum
from typing import Any

import warp as wp

from weft.geometry.proximity import edge_weights, triangle_weights
from weft.runtime.buffers import Buffer

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# a vector shorter than this fraction of the stencil's longest edge is rounding error and has no direction
NO_DIRECTION = wp.constant(wp.float64(1e-12))


class Kind(IntEnum):
    """Which features a stencil connects, and so the order of its four vertices."""

    POINT_TRIANGLE = 0
    """the point, then the triangle's corners"""
    EDGE_EDGE = 1
    """the ends of the one edge, then those of the other"""


POINT_TRIANGLE = wp.constant(int(Kind.POINT_TRIANGLE))


@wp.func
def pair_vertices(kind: int, pair: wp.vec2i, faces: wp.array[wp.vec3i], edges: wp.array[wp.vec2i]) -> wp.vec4i:
    """The four vertices of a pair (vertex, face) or (edge, edge)."""
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
    """The weights of the nearest points: r becomes the shortest vector between the two features."""
    result = wp.vec4d()
    if kind == POINT_TRIANGLE:
        result = triangle_weights(x0, x1, x2, x3)
    else:
        result = edge_weights(x0, x1, x2, x3)
    return result


@wp.func
def stencil_normal(kind: int, r: wp.vec3d, x0: wp.vec3d, x1: wp.vec3d, x2: wp.vec3d, x3: wp.vec3d) -> wp.vec3d:
    """The unit vector along r; where the features touch, perpendicular to both, with a sign that makes n . r not negative."""
    # two tangents: two sides of the triangle, or the two edges
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
        # parallel: anything perpendicular to the longer of the two
        across = _across(one)
        if wp.length(other) > wp.length(one):
            across = _across(other)
    if wp.dot(across, r) < ZERO:
        across = -across
    return across / wp.length(across)


@wp.func
def _across(v: wp.vec3d) -> wp.vec3d:
    # the axis along which v is shortest, made perpendicular to v; y where v is zero
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
    """A list of stencils in device arrays that grow and are reused; the first `count` entries are in use."""

    def __init__(self, device: wp.DeviceLike) -> None:
        self.count = 0
        self._buffers = [Buffer(dtype, device) for dtype in (int, wp.vec4i, wp.vec4d, wp.vec3d, wp.float64)]

    def resize(self, count: int) -> None:
        """Make the list `count` stencils long; its contents are lost."""
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
        """vec3d, unit length, from the second feature to the first"""
        return self._used(3)

    @property
    def gap(self) -> wp.array:
        """float64: the distance along the normal, never negative"""
        return self._used(4)

    @property
    def columns(self) -> list[wp.array]:
        """The whole arrays of kind, vertices, weights, normal and gap, as kernels take them."""
        return [buffer.array for buffer in self._buffers]
