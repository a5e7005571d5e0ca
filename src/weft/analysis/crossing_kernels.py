# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know, and which evaluates both sides of `and`
# ruff: noqa: SIM110
"""The kernels behind `crossing`: signs of determinants that are never zero."""

import warp as wp

from weft.geometry.intersection_filter import certain, cross_size
from weft.runtime.reduction import block_max

# fused operations would spoil the error terms of the doubled precision below
wp.set_module_options({"enable_backward": False, "fuse_fp": False})

ZERO = wp.constant(wp.float64(0.0))
# error of a determinant of three rounded differences, relative to the sum of its terms' magnitudes
BOUND = wp.constant(wp.float64(24.0 * 2.0**-53))
# doubt about a determinant that need not be settled here: of the noise, and of rounding
MARGIN = wp.constant(wp.float64(1.5))
TINY = wp.constant(wp.float64(1e-14))
# splits a float64 into two halves of 26 bits (Dekker 1971)
SPLIT = wp.constant(wp.float64(134217729.0))
# outward rounding of boxes; coordinates lie in -1..1, where an ulp of float32 is at most half of this, and offsets are
# thousand times smaller
PAD = wp.constant(wp.float32(1.5e-7))


@wp.struct
class Crossing:
    """The mesh as the kernels read it."""

    x: wp.array[wp.vec3d]
    noise: wp.array[wp.vec3d]
    faces: wp.array[wp.vec3i]
    # more than any two vertices are moved towards one another
    slack: wp.float64
    # a tree of triangles for questions about nearness, and the space it lives in
    tree: wp.uint64
    centre: wp.vec3d
    scale: wp.float64


@wp.func
def two_sum(a: wp.float64, b: wp.float64) -> wp.vec2d:
    """a + b as a sum of two float64 without error."""
    s = a + b
    t = s - a
    return wp.vec2d(s, (a - (s - t)) + (b - t))


@wp.func
def two_product(a: wp.float64, b: wp.float64) -> wp.vec2d:
    """a b as a sum of two float64 without error."""
    p = a * b
    c = SPLIT * a
    a_high = c - (c - a)
    a_low = a - a_high
    d = SPLIT * b
    b_high = d - (d - b)
    b_low = b - b_high
    return wp.vec2d(p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low)


@wp.func
def add_double(a: wp.vec2d, b: wp.vec2d) -> wp.vec2d:
    """The sum of two numbers of twice the digits."""
    s = two_sum(a[0], b[0])
    t = two_sum(a[1], b[1])
    r = two_sum(s[0], s[1] + t[0])
    return two_sum(r[0], r[1] + t[1])


@wp.func
def multiply_double(a: wp.vec2d, b: wp.vec2d) -> wp.vec2d:
    """Their product."""
    p = two_product(a[0], b[0])
    return two_sum(p[0], p[1] + (a[0] * b[1] + a[1] * b[0]))


@wp.func
def offset_double(mesh: Crossing, origin: int, vertex: int, axis: int) -> wp.vec2d:
    """One coordinate of the way from one vertex to another, both with their noise, to 32 digits."""
    way = two_sum(mesh.x[vertex][axis], -mesh.x[origin][axis])
    return add_double(way, two_sum(mesh.noise[vertex][axis], -mesh.noise[origin][axis]))


@wp.func
def minor_double(mesh: Crossing, o: int, a: int, b: int, i: int, j: int) -> wp.vec2d:
    """The determinant of two offsets from vertex o along two axes."""
    left = multiply_double(offset_double(mesh, o, a, i), offset_double(mesh, o, b, j))
    right = multiply_double(offset_double(mesh, o, a, j), offset_double(mesh, o, b, i))
    return add_double(left, -right)


@wp.func
def sign_double(mesh: Crossing, quad: wp.vec4i) -> int:
    """The orientation of four vertices to 32 digits; from their ascending order, so that it is antisymmetric."""
    parity = int(1)
    for last in range(3):
        for k in range(3 - last):
            if quad[k] > quad[k + 1]:
                swap = quad[k]
                quad[k] = quad[k + 1]
                quad[k + 1] = swap
                parity = -parity
    o = quad[0]
    a = quad[1]
    b = quad[2]
    c = quad[3]
    total = multiply_double(minor_double(mesh, o, a, b, 1, 2), offset_double(mesh, o, c, 0))
    total = add_double(total, multiply_double(minor_double(mesh, o, a, b, 2, 0), offset_double(mesh, o, c, 1)))
    total = add_double(total, multiply_double(minor_double(mesh, o, a, b, 0, 1), offset_double(mesh, o, c, 2)))
    if total[0] < ZERO:
        return -parity
    return parity


@wp.func
def crosses(mesh: Crossing, edge: wp.vec2i, face: wp.vec3i) -> bool:
    """Does the edge pass through the triangle, noise included? They share no vertex."""
    p = edge[0]
    q = edge[1]
    xp = mesh.x[p]
    xq = mesh.x[q]
    xa = mesh.x[face[0]]
    xb = mesh.x[face[1]]
    xc = mesh.x[face[2]]
    # most candidates are apart by far along an axis
    for k in range(3):
        if wp.max(xp[k], xq[k]) + mesh.slack < wp.min(xa[k], wp.min(xb[k], xc[k])):
            return False
        if wp.min(xp[k], xq[k]) - mesh.slack > wp.max(xa[k], wp.max(xb[k], xc[k])):
            return False

    # ways from p, and the magnitudes that their rounding is measured by
    noise = mesh.noise[p]
    nd = mesh.noise[q] - noise
    na = mesh.noise[face[0]] - noise
    nb = mesh.noise[face[1]] - noise
    nc = mesh.noise[face[2]] - noise
    d = (xq - xp) + nd
    a = (xa - xp) + na
    b = (xb - xp) + nb
    c = (xc - xp) + nc
    size_d = wp.abs(xq - xp) + wp.abs(nd)
    size_a = wp.abs(xa - xp) + wp.abs(na)
    size_b = wp.abs(xb - xp) + wp.abs(nb)
    size_c = wp.abs(xc - xp) + wp.abs(nc)

    # the line of the edge must turn the same way round all three sides
    ab = wp.cross(a, b)
    bc = wp.cross(b, c)
    ca = wp.cross(c, a)
    size_ab = cross_size(size_a, size_b)
    size_bc = cross_size(size_b, size_c)
    turn_ab = certain(wp.dot(ab, d), BOUND * wp.dot(size_ab, size_d))
    turn_bc = certain(wp.dot(bc, d), BOUND * wp.dot(size_bc, size_d))
    if turn_ab * turn_bc == -1:
        return False
    turn_ca = certain(wp.dot(ca, d), BOUND * wp.dot(cross_size(size_c, size_a), size_d))
    if turn_ca * turn_ab == -1 or turn_ca * turn_bc == -1:
        return False
    # and the ends lie on different sides of the plane
    side_p = certain(wp.dot(ab, c), BOUND * wp.dot(size_ab, size_c))
    size = size_d + size_a
    size_plane = cross_size(size_d + size_b, size_d + size_c)
    side_q = certain(wp.dot(wp.cross(b - d, c - d), a - d), BOUND * wp.dot(size_plane, size))
    if side_p * side_q == 1:
        return False
    # what is in doubt, again with twice the precision
    if turn_ab == 0:
        turn_ab = sign_double(mesh, wp.vec4i(p, face[0], face[1], q))
    if turn_bc == 0:
        turn_bc = sign_double(mesh, wp.vec4i(p, face[1], face[2], q))
    if turn_ca == 0:
        turn_ca = sign_double(mesh, wp.vec4i(p, face[2], face[0], q))
    if turn_ab != turn_bc or turn_bc != turn_ca:
        return False
    if side_p == 0:
        side_p = sign_double(mesh, wp.vec4i(p, face[0], face[1], face[2]))
    if side_q == 0:
        side_q = sign_double(mesh, wp.vec4i(q, face[0], face[1], face[2]))
    return side_p != side_q


@wp.func
def boxed(mesh: Crossing, vertex: int) -> wp.vec3:
    """A vertex in the float32 space of the tree; centred and scaled, so that large coordinates keep small boxes."""
    return wp.vec3(mesh.scale * (mesh.x[vertex] - mesh.centre))


@wp.kernel
def box_triangles(first: int, mesh: Crossing, lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3]):
    i = first + wp.tid()
    face = mesh.faces[i]
    a = boxed(mesh, face[0])
    b = boxed(mesh, face[1])
    c = boxed(mesh, face[2])
    lowers[i] = wp.min(a, wp.min(b, c)) - wp.vec3(PAD)
    uppers[i] = wp.max(a, wp.max(b, c)) + wp.vec3(PAD)


@wp.func
def shared_vertices(one: wp.vec3i, other: wp.vec3i) -> int:
    """How many corners two triangles have in common."""
    count = int(0)
    for k in range(3):
        if one[k] == other[0] or one[k] == other[1] or one[k] == other[2]:
            count += 1
    return count


@wp.func
def apart(edge: wp.vec2i, face: wp.vec3i) -> bool:
    """No common vertex."""
    for k in range(3):
        if face[k] == edge[0] or face[k] == edge[1]:
            return False
    return True


@wp.func
def on_one_side(mesh: Crossing, one: wp.vec3i, other: wp.vec3i) -> bool:
    """Do all corners of the second triangle, but those of the first, certainly lie on one side of its plane?

    Most pairs of neighbours are settled by this. The noise can change a determinant of three ways u, v, w by no more
    than the slack times |u||v| + |v||w| + |w||u|, each length taken with the slack, for triangles that are a point.
    """
    a = mesh.x[one[0]]
    u = mesh.x[one[1]] - a
    v = mesh.x[one[2]] - a
    normal = wp.cross(u, v)
    size_u = wp.length(u) + mesh.slack
    size_v = wp.length(v) + mesh.slack
    low = int(0)
    high = int(0)
    for k in range(3):
        if other[k] != one[0] and other[k] != one[1] and other[k] != one[2]:
            w = mesh.x[other[k]] - a
            size = wp.length(w) + mesh.slack
            doubt = MARGIN * mesh.slack * (size_u * size_v + (size_u + size_v) * size) + TINY * size_u * size_v * size
            height = wp.dot(normal, w)
            if height < doubt:
                low += 1
            if height > -doubt:
                high += 1
    return low == 0 or high == 0


@wp.kernel
def test_pairs(
    first: int,
    mesh: Crossing,
    owned: wp.array[int],
    pairs: wp.array[wp.vec2i],
    hits: wp.array[wp.int8],
    chosen: wp.array[int],
):
    """For each pair of triangles: which edges of the first pass through the second (bits 0 to 2), and the reverse.

    Every edge is asked for by the triangle that owns it, so that each crossing is found once.
    """
    i = first + wp.tid()
    pair = pairs[i]
    found = int(0)
    possible = shared_vertices(mesh.faces[pair[0]], mesh.faces[pair[1]]) < 2
    if possible:
        possible = not on_one_side(mesh, mesh.faces[pair[0]], mesh.faces[pair[1]])
    if possible:
        possible = not on_one_side(mesh, mesh.faces[pair[1]], mesh.faces[pair[0]])
    if possible:
        for side in range(2):
            one = mesh.faces[pair[side]]
            other = mesh.faces[pair[1 - side]]
            for k in range(3):
                if (owned[pair[side]] >> (k + 3)) & 1 == 1:
                    edge = wp.vec2i(one[k], one[(k + 1) % 3])
                    if apart(edge, other):
                        if crosses(mesh, edge, other):
                            found = found | (1 << (3 * side + k))
    hits[i] = wp.int8(found)
    chosen[i] = wp.min(found, 1)


@wp.kernel
def take_hits(
    first: int,
    pairs: wp.array[wp.vec2i],
    hits: wp.array[wp.int8],
    chosen: wp.array[int],
    places: wp.array[int],
    rows: wp.array[wp.vec3i],
):
    """The chosen pairs and their bits, side by side."""
    i = first + wp.tid()
    if chosen[i] == 1:
        rows[places[i]] = wp.vec3i(pairs[i][0], pairs[i][1], int(hits[i]))


@wp.kernel
def find_bounds(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    bounds: wp.array[wp.vec3d],
):
    """The lowest and highest coordinates of all triangles. One block."""
    t = first + wp.tid()
    low = x[faces[0][0]]
    high = low
    for k in range(t, faces.shape[0], threads):
        for c in range(3):
            p = x[faces[k][c]]
            low = wp.min(low, p)
            high = wp.max(high, p)
    for axis in range(3):
        least = -block_max(-low[axis])
        most = block_max(high[axis])
        if t == 0:
            bounds[0][axis] = least
            bounds[1][axis] = most
