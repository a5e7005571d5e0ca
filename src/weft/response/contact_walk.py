"""Cached contacts at the start of a step (Lewin 2018, section 5.2): layers slide, so contacts go on to other triangles."""

# mypy: disable-error-code="arg-type, empty-body"

import warp as wp

from weft.response.nearest import nearest_on_triangle
from weft.response.predictive_contacts import ASLEEP, FOUR, OVER, TRIANGLE
from weft.world.rows import ROW

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
THIRD = wp.constant(wp.float64(1.0 / 3.0))
# a cached contact goes on to the next triangle when the foot is so far outside of its own
BORDER = wp.constant(wp.float64(-0.02))
# triangles that it passes in a step at most
WALK = wp.constant(4)
# how many contacts are looked at together
LANES = wp.constant(4)


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


@wp.func_native(
    ROW
    + """
#if defined(__CUDACC__)
    return 15;
#else
    """
    + FOUR
    + """
    // barycentric coordinates of the foot, times the square
    const row4 wb = (ry * vz - rz * vy) * mx + (rz * vx - rx * vz) * my + (rx * vy - ry * vx) * mz;
    const row4 wc = (uy * rz - uz * ry) * mx + (uz * rx - ux * rz) * my + (ux * ry - uy * rx) * mz;
    const row4 wa = squared - wb - wc;
    const row4 least = border * squared;
    const auto stays = (wa >= least) & (wb >= least) & (wc >= least) & (height >= 0.0);
    int left = 0;
    for (int j = 0; j < 4; ++j) {
        kinds.data[i + j] = k[j] < 0 ? -awake : awake;
        weights.data[i + j][0] = 0.0;
        left |= stays[j] ? 0 : 1 << j;
    }
    return left;
#endif
    """
)
def refresh_lanes(
    i: int,
    border: wp.float64,
    awake: int,
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
) -> int:
    """Four cached contacts from i on, of which those whose vertices are still over their triangles are done with this.

    Their planes are not looked at until they are needed. Gives a bit for each of the others.
    """
    ...


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
