"""Contacts of cloth with cloth (Lewin 2018, section 4): made once a step, kept apart in every sweep.

Three kinds, all of them stencils (four vertices, four weights of sum zero, a unit normal n from the second side to the
first), with the constraint C = n . sum w_k x_k - 2r >= 0:

- vertex p and triangle abc: only the side is kept. n is the triangle's normal as it is now, on that side; the weights
  are those of the foot of p in the triangle's plane, wherever that is: C = n . (p - a) - 2r, and its gradient with
  respect to a corner is minus the foot's barycentric coordinate there times n, for tilting the triangle moves its plane
  at p by just that. So one multiplication with n serves for all.
- edge and edge, vertex and vertex: n and the weights are those of the nearest points at the start of the step.

Contacts that are cached for many steps are of the first kind only.
"""

# mypy: disable-error-code="arg-type"

import warp as wp

from weft.dynamics.fabric import point
from weft.response.collider_contacts import rubbed
from weft.response.nearest import nearest_on_triangle
from weft.world.buffers import Buffer

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# where the foot is farther outside the triangle than this, in its barycentric coordinates, the plane is that of the
# start of the step: far from the triangle a plane that tilts with it would sweep along whatever is there
OUTSIDE = wp.constant(wp.float64(-0.2))

# how far a corner goes for a unit of depth at most; a free triangle under a held vertex takes 1.37
LEVER = wp.constant(wp.float64(1.5))
# a cached contact goes on to the next triangle when the foot is so far outside of its own
BORDER = wp.constant(wp.float64(-0.02))
# triangles that it passes in a step at most
WALK = wp.constant(4)

# what a contact is; the sign of the latter two is its side
FROZEN = wp.constant(0)
TRIANGLE = wp.constant(1)
ASLEEP = wp.constant(2)
# cosine of the largest angle between a normal and the direction across it where two things lie over each other
OVER = wp.constant(wp.float64(0.9))


@wp.struct
class Stencil:
    """A constraint as it is now."""

    weights: wp.vec4d
    normal: wp.vec3d
    gap: wp.float64


@wp.func
def foot_in_plane(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec3d:
    """Barycentric coordinates of the foot of p in the plane of a triangle; thirds where it has no area."""
    u = b - a
    v = c - a
    r = p - a
    m = wp.cross(u, v)
    squared = wp.dot(m, m)
    if squared == ZERO:
        return wp.vec3d(THIRD, THIRD, THIRD)
    wb = wp.dot(wp.cross(r, v), m) / squared
    wc = wp.dot(wp.cross(u, r), m) / squared
    return wp.vec3d(ONE - wb - wc, wb, wc)


@wp.func
def triangle_stencil(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, side: wp.float64) -> Stencil:
    """A vertex on one side of a triangle's plane; a triangle without area gives a normal of zero."""
    s = Stencil()
    m = wp.cross(b - a, c - a)
    squared = wp.dot(m, m)
    bary = foot_in_plane(p, a, b, c)
    s.weights = wp.vec4d(ONE, -bary[0], -bary[1], -bary[2])
    if squared > ZERO:
        s.normal = (side / wp.sqrt(squared)) * m
        s.gap = wp.dot(s.normal, p - a)
    return s


@wp.func
def distance_to(p: wp.vec3d, f: wp.vec3i, x: wp.array[wp.vec3d]) -> wp.float64:
    """Squared distance of a point and a triangle."""
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    bary = nearest_on_triangle(p, a, b, c)
    return wp.length_sq(p - bary[0] * a - bary[1] * b - bary[2] * c)


@wp.func
def walk_triangle(
    start: int, p: wp.vec3d, faces: wp.array[wp.vec3i], across: wp.array[wp.vec3i], x: wp.array[wp.vec3d]
) -> int:
    """From a triangle to the neighbour that is nearer to a point, and so on, a few steps."""
    face = int(start)
    for _step in range(WALK):
        f = faces[face]
        bary = foot_in_plane(p, x[f[0]], x[f[1]], x[f[2]])
        # the corner that the foot has left farthest behind
        least = wp.min(bary[0], wp.min(bary[1], bary[2]))
        other = across[face][0]
        if bary[1] == least:
            other = across[face][1]
        elif bary[2] == least:
            other = across[face][2]
        if least >= BORDER or other < 0:
            return face
        if distance_to(p, faces[other], x) >= distance_to(p, f, x):
            return face
        face = other
    return face


@wp.func
def vertex_normal(
    i: int, x: wp.array[wp.vec3d], faces: wp.array[wp.vec3i], offsets: wp.array[int], corners: wp.array[int]
) -> wp.vec3d:
    """The sum of the normals of the triangles at a vertex, each as long as twice its area."""
    total = wp.vec3d()
    for s in range(offsets[i], offsets[i + 1]):
        f = faces[corners[s] // 3]
        total += wp.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]])
    return total


@wp.func
def refresh_contact(
    i: int,
    faces: wp.array[wp.vec3i],
    across: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    triangles: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    offsets: wp.array[int],
    corners: wp.array[int],
):
    """A cached contact at the start of a step: layers slide, so a vertex goes on to the triangle that is under it now."""
    side = ONE
    if kinds[i] < 0:
        side = -ONE
    q = vertices[i]
    p = x[q[0]]
    face = triangles[i]
    f = faces[face]
    bary = foot_in_plane(p, x[f[0]], x[f[1]], x[f[2]])
    if wp.min(bary[0], wp.min(bary[1], bary[2])) < BORDER:
        face = walk_triangle(face, p, faces, across, x)
        f = faces[face]
        bary = nearest_on_triangle(p, x[f[0]], x[f[1]], x[f[2]])
        triangles[i] = face
        vertices[i] = wp.vec4i(q[0], f[0], f[1], f[2])
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    n = side * wp.normalize(wp.cross(b - a, c - a))
    r = p - bary[0] * a - bary[1] * b - bary[2] * c
    kinds[i] = TRIANGLE * int(side)
    if wp.dot(n, r) < ZERO:
        # through the layer: certain only right over the triangle, and where both face the same way
        facing = side * wp.dot(vertex_normal(q[0], x, faces, offsets, corners), n)
        if facing <= ZERO or -wp.dot(n, r) < OVER * wp.length(r):
            kinds[i] = ASLEEP * int(side)
    weights[i] = wp.vec4d(ONE, -bary[0], -bary[1], -bary[2])
    normals[i] = n


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
    start: wp.array[wp.vec4d],
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
    if kind == ASLEEP or kind == -ASLEEP:
        return
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
    if (kind != TRIANGLE and kind != -TRIANGLE) or wp.max(w[1], wp.max(w[2], w[3])) > -OUTSIDE:
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
    # where only a corner with little weight can move, it would have to go far: no corner goes farther than LEVER depths
    most = wp.max(wp.max(wp.abs(ga), wp.abs(gb)), wp.max(wp.abs(gc), wp.abs(gd)))
    mass = wp.max(mass, most / LEVER)
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
    undone = wp.vec3d()
    if known > ZERO:
        # all contacts together part the two sides by no more than `push`
        home = point(w[0] * start[q[0]] + w[1] * start[q[1]] + w[2] * start[q[2]] + w[3] * start[q[3]])
        undone = (wp.min(known, wp.max(push - wp.dot(n, was - home), ZERO)) / mass) * n
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
        self._pushed, self._triangles = Buffer(int, device), Buffer(int, device)
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
        self.triangles = self._triangles.at_least(count)
        """int: the triangle of a contact of a vertex with one"""
