"""Contacts of cloth with cloth (Lewin 2018, section 4): made once a step, kept apart in every sweep.

Three kinds, all of them stencils (four vertices, four weights of sum zero, a unit normal n from the second side to the
first), with the constraint C = n . sum w_k x_k - 2r >= 0:

- vertex p and triangle abc: only the side is kept. n is the triangle's normal as it is now, on that side; the weights
  are those of the foot of p in the triangle's plane, wherever that is: C = n . (p - a) - 2r, and its gradient with
  respect to a corner is minus the foot's barycentric coordinate there times n, for tilting the triangle moves its plane
  at p by just that. So one multiplication with n serves for all.
- edge and edge, vertex and vertex: n and the weights are those of the nearest points at the start of the step.
- cached edges: the weights are kept, n is found anew at the start of each step as the normal of both edges on the
  side that is kept.
"""

# mypy: disable-error-code="arg-type"

import warp as wp

from weft.dynamics.fabric import point
from weft.response.collider_contacts import rubbed
from weft.world.buffers import Buffer

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# a foot farther outside the triangle than this, in its barycentric coordinates, moves the triangle without tilting it:
# beyond its edges the plane is a guess, and a lever that long would turn the triangle over
OUTSIDE = wp.constant(wp.float64(-0.5))

# what a contact is; the sign of the latter two is its side
FROZEN = wp.constant(0)
TRIANGLE = wp.constant(1)
EDGES = wp.constant(2)


@wp.struct
class Stencil:
    """A constraint as it is now."""

    weights: wp.vec4d
    normal: wp.vec3d
    gap: wp.float64


@wp.func
def triangle_stencil(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, side: wp.float64) -> Stencil:
    """A vertex on one side of a triangle's plane; a triangle without area gives a normal of zero."""
    s = Stencil()
    u = b - a
    v = c - a
    r = p - a
    m = wp.cross(u, v)
    squared = wp.dot(m, m)
    s.weights = wp.vec4d(ONE, -THIRD, -THIRD, -THIRD)
    if squared > ZERO:
        wb = wp.dot(wp.cross(r, v), m) / squared
        wc = wp.dot(wp.cross(u, r), m) / squared
        wa = ONE - wb - wc
        if wp.min(wa, wp.min(wb, wc)) >= OUTSIDE:
            s.weights = wp.vec4d(ONE, -wa, -wb, -wc)
        s.normal = (side / wp.sqrt(squared)) * m
        s.gap = wp.dot(s.normal, r)
    return s


@wp.func
def edges_normal(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d, side: wp.float64) -> wp.vec3d:
    """The normal of two edges on one side; zero where they are parallel."""
    m = wp.cross(b - a, d - c)
    squared = wp.dot(m, m)
    if squared <= wp.float64(1e-12) * wp.length_sq(b - a) * wp.length_sq(d - c):
        return wp.vec3d()
    return (side / wp.sqrt(squared)) * m


@wp.func
def refresh_contact(
    i: int,
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    x: wp.array[wp.vec3d],
    normals: wp.array[wp.vec3d],
):
    """The normal of cached edges at the start of a step."""
    kind = kinds[i]
    if kind == EDGES or kind == -EDGES:
        q = vertices[i]
        side = ONE
        if kind < 0:
            side = -ONE
        normals[i] = edges_normal(x[q[0]], x[q[1]], x[q[2]], x[q[3]], side)


@wp.func
def solve_contact(
    i: int,
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    rub: wp.float64,
    push: wp.float64,
    pushed: wp.array[int],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Keep the two sides of a contact apart, and rub; overlap from before the substep is undone as by half-spaces."""
    q = vertices[i]
    kind = kinds[i]
    thick = thickness[i]
    a = p[q[0]]
    b = p[q[1]]
    c = p[q[2]]
    d = p[q[3]]
    pushed[i] = 0
    n = wp.vec3d()
    w = wp.vec4d()
    gap = ZERO
    if kind == TRIANGLE or kind == -TRIANGLE:
        # most contacts are far enough apart: seen without roots and divisions
        m = wp.cross(point(c - b), point(d - b))
        height = wp.float64(kind) * wp.dot(m, point(a - b))
        if height > ZERO and height * height >= thick * thick * wp.dot(m, m):
            return
        s = triangle_stencil(point(a), point(b), point(c), point(d), wp.float64(kind))
        n = s.normal
        w = s.weights
        gap = s.gap
    else:
        n = normals[i]
        w = weights[i]
        gap = wp.dot(n, point(w[0] * a + w[1] * b + w[2] * c + w[3] * d))
    depth = thick - gap
    if depth <= ZERO:
        return
    # way that each corner makes for a unit of depth
    ga = w[0] * a[3]
    gb = w[1] * b[3]
    gc = w[2] * c[3]
    gd = w[3] * d[3]
    mass = w[0] * ga + w[1] * gb + w[2] * gc + w[3] * gd
    if mass <= ZERO:
        return
    pushed[i] = 1
    was_a = before[q[0]]
    was_b = before[q[1]]
    was_c = before[q[2]]
    was_d = before[q[3]]
    was = point(w[0] * was_a + w[1] * was_b + w[2] * was_c + w[3] * was_d)
    known = wp.clamp(thick - wp.dot(n, was), ZERO, depth)
    met = depth - known
    undone = (wp.min(known, push) / mass) * n
    step = (met / mass) * n + undone
    mu = rub * friction[i]
    if mu[0] > ZERO and met > ZERO:
        slip = point(w[0] * a + w[1] * b + w[2] * c + w[3] * d) - was
        slip -= wp.dot(n, slip) * n
        step -= rubbed(slip, met, mu) / mass
    ahead = wp.vec4d(step[0], step[1], step[2], ZERO)
    back = wp.vec4d(undone[0], undone[1], undone[2], ZERO)
    shift = known > ZERO
    # corners without weight stand for nothing, and may repeat another corner
    if w[0] != ZERO:
        p[q[0]] = a + ga * ahead
        if shift:
            before[q[0]] = was_a + ga * back
    if w[1] != ZERO:
        p[q[1]] = b + gb * ahead
        if shift:
            before[q[1]] = was_b + gb * back
    if w[2] != ZERO:
        p[q[2]] = c + gc * ahead
        if shift:
            before[q[2]] = was_c + gc * back
    if w[3] != ZERO:
        p[q[3]] = d + gd * ahead
        if shift:
            before[q[3]] = was_d + gd * back


class Contacts:
    """The contacts of a step, in the order in which they are solved; arrays grow and are kept."""

    def __init__(self, device: wp.Device) -> None:
        self.count = 0
        self._vertices, self._kinds = Buffer(wp.vec4i, device), Buffer(int, device)
        self._weights, self._normals = Buffer(wp.vec4d, device), Buffer(wp.vec3d, device)
        self._thickness, self._friction = Buffer(wp.float64, device), Buffer(wp.vec2d, device)
        self._pushed = Buffer(int, device)
        self.arrays: list[wp.array] = []
        self.grow(0)

    def grow(self, count: int) -> None:
        """Make room for so many contacts; what was there is lost."""
        self.count = count
        buffers = [self._vertices, self._kinds, self._weights, self._normals, self._thickness, self._friction]
        self.arrays = [buffer.at_least(count) for buffer in buffers]
        """vertices (vec4i), kinds (int), weights (vec4d), normals (vec3d), thickness, friction (vec2d)"""
        self.pushed = self._pushed.at_least(count)
        """int: whether each contact pushed in the last sweep"""
