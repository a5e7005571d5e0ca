# ruff: noqa: SIM110 (kernels have no generator expressions)
"""The test of two triangles: which edges of one pass through the other, in general position (see `crossing`)."""

import warp as wp

from weft.analysis.orientation import sign_double
from weft.geometry.intersection_filter import certain, cross_size, shared_vertices

# fused operations would spoil the error terms of `orientation`
wp.set_module_options({"enable_backward": False, "fuse_fp": False})

# error bound of a determinant of three rounded differences, relative to the sum of the magnitudes of its terms
BOUND = wp.constant(wp.float64(24.0 * 2.0**-53))
# by how much the noise (a factor on its bound) and rounding (a fraction of the product of lengths) can change a determinant;
# larger values only send more pairs to the full test
MARGIN = wp.constant(wp.float64(1.5))
TINY = wp.constant(wp.float64(1e-14))


@wp.struct
class CrossingMesh:
    """The mesh as the kernels read it, at the positions of the last search."""

    x: wp.array[wp.vec3d]
    noise: wp.array[wp.vec3d]
    faces: wp.array[wp.vec3i]
    # metres; more than the noise can move any two vertices towards one another
    slack: wp.float64
    # a tree of triangle boxes for proximity queries, and its coordinates: scale * (x - centre)
    tree: wp.uint64
    centre: wp.vec3d
    scale: wp.float64


@wp.func
def apart_along_axis(xp: wp.vec3d, xq: wp.vec3d, xa: wp.vec3d, xb: wp.vec3d, xc: wp.vec3d, slack: wp.float64) -> bool:
    """Whether an edge pq and a triangle abc are more than the slack apart along a coordinate axis, as most pairs are."""
    for k in range(3):
        if wp.max(xp[k], xq[k]) + slack < wp.min(xa[k], wp.min(xb[k], xc[k])):
            return True
        if wp.min(xp[k], xq[k]) - slack > wp.max(xa[k], wp.max(xb[k], xc[k])):
            return True
    return False


@wp.func
def crosses(mesh: CrossingMesh, edge: wp.vec2i, face: wp.vec3i) -> bool:
    """Does the edge pass through the triangle, with the noise added to all vertices? They share no vertex.

    The same test as `weft.geometry.intersection_filter.judge`, but signs that are uncertain are computed again in
    double-double precision, so that the answer is always yes or no, and consistent between neighbouring triangles.
    """
    p = edge[0]
    q = edge[1]
    xp = mesh.x[p]
    xq = mesh.x[q]
    xa = mesh.x[face[0]]
    xb = mesh.x[face[1]]
    xc = mesh.x[face[2]]
    if apart_along_axis(xp, xq, xa, xb, xc, mesh.slack):
        return False

    # differences to p, and the magnitudes by which their rounding errors are measured
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

    # the line of the edge must pass all three sides in the same sense of rotation
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
    # and the ends must lie on different sides of the plane
    side_p = certain(wp.dot(ab, c), BOUND * wp.dot(size_ab, size_c))
    size = size_d + size_a
    size_plane = cross_size(size_d + size_b, size_d + size_c)
    side_q = certain(wp.dot(wp.cross(b - d, c - d), a - d), BOUND * wp.dot(size_plane, size))
    if side_p * side_q == 1:
        return False
    # uncertain signs again, in twice the precision
    if turn_ab == 0:
        turn_ab = sign_double(mesh.x, mesh.noise, wp.vec4i(p, face[0], face[1], q))
    if turn_bc == 0:
        turn_bc = sign_double(mesh.x, mesh.noise, wp.vec4i(p, face[1], face[2], q))
    if turn_ca == 0:
        turn_ca = sign_double(mesh.x, mesh.noise, wp.vec4i(p, face[2], face[0], q))
    if turn_ab != turn_bc or turn_bc != turn_ca:
        return False
    if side_p == 0:
        side_p = sign_double(mesh.x, mesh.noise, wp.vec4i(p, face[0], face[1], face[2]))
    if side_q == 0:
        side_q = sign_double(mesh.x, mesh.noise, wp.vec4i(q, face[0], face[1], face[2]))
    return side_p != side_q


@wp.func
def share_no_vertex(edge: wp.vec2i, face: wp.vec3i) -> bool:
    """Whether an edge and a triangle have no vertex in common."""
    for k in range(3):
        if face[k] == edge[0] or face[k] == edge[1]:
            return False
    return True


@wp.func
def on_one_side(mesh: CrossingMesh, one: wp.vec3i, other: wp.vec3i) -> bool:
    """Do the corners of triangle `other` that `one` does not share certainly lie on one side of the plane of `one`?

    This decides most pairs of neighbours. The noise changes a determinant of three differences u, v, w by at most the
    slack times |u||v| + |v||w| + |w||u|, with the slack added to each length, for triangles that are almost a point.
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


@wp.func
def beside(mesh: CrossingMesh, one: wp.vec3i, other: wp.vec3i) -> bool:
    """Is triangle `other` beyond an edge of triangle `one`, seen along the normal of `one`, farther than the noise can move it?

    So are most triangles of a smooth surface whose boxes overlap: each cuts the plane of the other.
    """
    a = mesh.x[one[0]]
    normal = wp.cross(mesh.x[one[1]] - a, mesh.x[one[2]] - a)
    for k in range(3):
        end = mesh.x[one[k]]
        along = mesh.x[one[(k + 1) % 3]] - end
        outwards = wp.cross(along, normal)
        low = wp.min(
            wp.dot(outwards, mesh.x[other[0]] - end),
            wp.min(wp.dot(outwards, mesh.x[other[1]] - end), wp.dot(outwards, mesh.x[other[2]] - end)),
        )
        if low > wp.length(outwards) * (MARGIN * mesh.slack + TINY * wp.length(mesh.x[other[0]] - end)):
            return True
    return False


@wp.kernel
def test_pairs(
    first: int,
    mesh: CrossingMesh,
    owned: wp.array[int],
    pairs: wp.array[wp.vec2i],
    hits: wp.array[wp.int8],
    chosen: wp.array[int],
):
    """For each pair of triangles: which edges of the first cross the second (bits 0 to 2), and the reverse (bits 3 to 5).

    Only the triangle that owns an edge tests it, so that each crossing is found once.
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
        possible = not beside(mesh, mesh.faces[pair[0]], mesh.faces[pair[1]])
    if possible:
        possible = not beside(mesh, mesh.faces[pair[1]], mesh.faces[pair[0]])
    if possible:
        for side in range(2):
            one = mesh.faces[pair[side]]
            other = mesh.faces[pair[1 - side]]
            for k in range(3):
                if (owned[pair[side]] >> (k + 3)) & 1 == 1:
                    edge = wp.vec2i(one[k], one[(k + 1) % 3])
                    if share_no_vertex(edge, other):
                        if crosses(mesh, edge, other):
                            found = found | (1 << (3 * side + k))
    hits[i] = wp.int8(found)
    chosen[i] = wp.min(found, 1)


@wp.kernel
def compact_hits(
    first: int,
    pairs: wp.array[wp.vec2i],
    hits: wp.array[wp.int8],
    chosen: wp.array[int],
    places: wp.array[int],
    found: wp.array[wp.vec3i],
):
    """Compact the chosen pairs and their bits."""
    i = first + wp.tid()
    if chosen[i] == 1:
        found[places[i]] = wp.vec3i(pairs[i][0], pairs[i][1], int(hits[i]))
