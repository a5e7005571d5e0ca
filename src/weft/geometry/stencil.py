"""Nearest points and the stencil.

The nearest points of a point and a triangle, and of two edges, are computed here for every room. Both are least squares
over a convex region (the triangle; the square of the two edge parameters), so the nearest point is the free minimum if that
lies inside, and otherwise lies on the border: on one of the three edges, or at one of the four ends. The free minimum is
computed from cross products, which lose far fewer digits than dot products where a triangle is thin or edges are nearly
parallel. Where even that is in doubt, the better of inside and border is taken. The result always is a point of the
triangle or the edge, without NaN, so a distance is never too small, whatever the shape: collapsed edges, triangles without
area and single points included.

A stencil makes point-triangle and edge-edge pairs one type, so that every response is written once. It is four vertices k,
four weights w_k that sum to zero, and a unit normal n. Point p at barycentric coordinates b of a triangle has the weights
(1, -b1, -b2, -b3); edge ab at s against edge cd at t has (1 - s, s, t - 1, -t). Then

    relative position  r = sum w_k x_k          gap             g = n . r, never negative
    relative velocity  u = sum w_k v_k          normal speed    n . u
    inverse mass       W = sum w_k^2 / m_k      an impulse j:   v_k += (j w_k / m_k) n   changes n . u by j W

for any masses; a vertex of a collider or a pinned one has 1/m = 0.
"""

# mypy: disable-error-code="empty-body"

from enum import IntEnum
from typing import Any

import warp as wp

from weft.runtime.buffers import Buffer
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# squared sine of an angle below which a triangle counts as a needle and two edges as parallel: inside and border are then
# both evaluated. At a sine of 1e-4 cross products still have about 12 correct digits; larger only costs time
THIN = wp.constant(wp.float64(1e-8))

_native = NativeHeader(__file__, "nearest_point_triangle.h")
# C++ that defines the lambda nearest_on_triangle(p, a, b, c) of vec3d, for native functions of other modules
NEAREST_ON_TRIANGLE = _native.body("triangle", THIN=THIN)


@wp.func_native(_native.body("on_segment"))
def on_segment(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d) -> wp.float64:
    """Where on the segment ab the point nearest to p lies, from 0 to 1; 0 for a segment without length."""
    ...


@wp.func_native(_native.body("nearest_point_triangle", THIN=THIN))
def nearest_point_triangle(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """Barycentric coordinates of the point of triangle abc nearest to p: none negative, their sum 1."""
    ...


@wp.func
def nearest_edge_edge(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec2d:
    """Places s on edge ab and t on edge cd, from 0 to 1, of their nearest points."""
    ab = b - a
    cd = d - c
    ac = c - a
    n = wp.cross(ab, cd)
    area = wp.dot(n, n)
    s = wp.dot(wp.cross(ac, cd), n)
    length = wp.dot(cd, cd)
    if area <= THIN * wp.dot(ab, ab) * length:
        return _nearest_of_parallel(a, b, c, d, s, wp.dot(wp.cross(ac, ab), n), area)

    # the best place on the first line, cut to its edge; then the best on the second; where that is beyond an end, the
    # best for that end
    s = wp.clamp(s / area, ZERO, ONE)
    along = wp.dot(s * ab - ac, cd)
    if along <= ZERO:
        return wp.vec2d(on_segment(c, a, b), ZERO)
    if along >= length:
        return wp.vec2d(on_segment(d, a, b), ONE)
    return wp.vec2d(s, along / length)


@wp.func
def _nearest_of_parallel(
    a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d, s: wp.float64, t: wp.float64, area: wp.float64
) -> wp.vec2d:
    ends = nearest_at_ends(a, b, c, d)
    if s >= ZERO and s <= area and t >= ZERO and t <= area and area > ZERO:
        inside = wp.vec2d(s / area, t / area)
        if _gap(a, b, c, d, inside) <= _gap(a, b, c, d, ends):
            return inside
    return ends


@wp.func
def _gap(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d, w: wp.vec2d) -> wp.float64:
    return wp.length_sq(a - c + w[0] * (b - a) - w[1] * (d - c))


@wp.func
def nearest_at_ends(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec2d:
    """As `nearest_edge_edge`, but one of the two points is an end of its edge."""
    t = on_segment(a, c, d)
    best = wp.vec2d(ZERO, t)
    least = wp.length_sq(a - c - t * (d - c))
    t = on_segment(b, c, d)
    distance = wp.length_sq(b - c - t * (d - c))
    if distance < least:
        least = distance
        best = wp.vec2d(ONE, t)
    s = on_segment(c, a, b)
    distance = wp.length_sq(c - a - s * (b - a))
    if distance < least:
        least = distance
        best = wp.vec2d(s, ZERO)
    s = on_segment(d, a, b)
    if wp.length_sq(d - a - s * (b - a)) < least:
        best = wp.vec2d(s, ONE)
    return best


@wp.func
def triangle_weights(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec4d:
    """The stencil's weights of point p against triangle abc; they sum to zero."""
    w = nearest_point_triangle(p, a, b, c)
    return wp.vec4d(ONE, -w[0], -w[1], -w[2])


@wp.func
def edge_weights(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec4d:
    """The stencil's weights of edge ab against edge cd; they sum to zero."""
    w = nearest_edge_edge(a, b, c, d)
    return wp.vec4d(ONE - w[0], w[0], w[1] - ONE, -w[1])


@wp.func
def relative_position(w: wp.vec4d, x0: wp.vec3d, x1: wp.vec3d, x2: wp.vec3d, x3: wp.vec3d) -> wp.vec3d:
    """The stencil's r = sum of w_k x_k, from differences: exact enough far from the origin."""
    return w[0] * (x0 - x3) + w[1] * (x1 - x3) + w[2] * (x2 - x3)


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


@wp.struct
class StencilArrays:
    """The arrays of `Stencils` as kernels take them."""

    kind: wp.array[int]
    vertices: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    normal: wp.array[wp.vec3d]
    gap: wp.array[wp.float64]


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
    def arrays(self) -> Any:
        """A `StencilArrays`; its arrays may be longer than the list."""
        made: Any = StencilArrays()
        for name, buffer in zip(StencilArrays.__annotations__, self._buffers, strict=True):
            setattr(made, name, buffer.array)
        return made
