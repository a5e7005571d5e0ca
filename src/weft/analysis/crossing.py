# ruff: noqa: SIM110 (kernels have no generator expressions)
"""Which edges pass through which triangles, in general position: as if no four vertices were ever coplanar.

Global intersection analysis (Baraff, Witkin and Kass 2003, section 5) is built on the sign of one determinant, the side of
a plane on which a vertex lies, and needs every sign to be 1 or -1. So signs that rounding could change are computed again
by `orientation`. The same four vertices then have the same orientation in every test, whichever edge and triangle ask, and
paths of crossings have no holes.

This is not the test of `weft.intersections` (`weft.geometry.intersection`), which takes coordinates as they are and counts
touching: here two surfaces that touch are either apart or crossing.
"""

from collections.abc import Sequence

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.orientation import NOISE, sign_double, unit_noise
from weft.broad_phase.interface import make_broad_phase
from weft.geometry.intersection_filter import certain, cross_size, shared_vertices
from weft.mesh.topology import Topology
from weft.runtime import launch
from weft.runtime.buffers import Buffer, read
from weft.runtime.compaction import block_max, exclusive_scans
from weft.runtime.cooperative import CooperativeLauncher
from weft.world import Surface

# fused operations would spoil the error terms of `orientation`
wp.set_module_options({"enable_backward": False, "fuse_fp": False})

# error bound of a determinant of three rounded differences, relative to the sum of the magnitudes of its terms
BOUND = wp.constant(wp.float64(24.0 * 2.0**-53))
# by how much the noise (a factor on its bound) and rounding (a fraction of the product of lengths) can change a determinant;
# larger values only send more pairs to the full test
MARGIN = wp.constant(wp.float64(1.5))
TINY = wp.constant(wp.float64(1e-14))
# outward rounding of boxes: coordinates are scaled to -1..1, where an ulp of float32 is at most half of this, and the noise
# is a thousand times smaller
PAD = wp.constant(wp.float32(1.5e-7))
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# calls after which the tree is rebuilt rather than refitted: refitted boxes overlap more and more as the mesh deforms
REBUILD = 64


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
def boxed(mesh: CrossingMesh, vertex: int) -> wp.vec3:
    """A vertex in the float32 coordinates of the tree: centred and scaled, so that boxes far from the origin stay tight."""
    return wp.vec3(mesh.scale * (mesh.x[vertex] - mesh.centre))


@wp.func
def query_around(mesh: CrossingMesh, p: wp.vec3d, radius: wp.float64):
    """A query of the tree for triangles whose padded boxes come within the radius of p along every axis."""
    centre = mesh.scale * (p - mesh.centre)
    half = mesh.scale * radius
    side = wp.vec3d(half, half, half)
    return wp.bvh_query_aabb(mesh.tree, wp.vec3(centre - side), wp.vec3(centre + side))


@wp.kernel
def box_triangles(first: int, mesh: CrossingMesh, lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3]):
    """The box of each triangle in float32, padded outwards."""
    i = first + wp.tid()
    face = mesh.faces[i]
    a = boxed(mesh, face[0])
    b = boxed(mesh, face[1])
    c = boxed(mesh, face[2])
    lowers[i] = wp.min(a, wp.min(b, c)) - wp.vec3(PAD)
    uppers[i] = wp.max(a, wp.max(b, c)) + wp.vec3(PAD)


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


@wp.kernel
def find_bounds(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    bounds: wp.array[wp.vec3d],
):
    """The lowest and highest coordinates of all triangles; runs as one block."""
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


class CrossingFinder:
    """Finds the crossings of one mesh at many positions of its vertices."""

    def __init__(
        self,
        topology: Topology,
        *,
        device: wp.DeviceLike = "cpu",
        surface: Surface | None = None,
        passive: Sequence[int] = (),
        still: int = 0,
    ) -> None:
        """`surface` has the same triangles, and says which bodies interact; `passive` bodies do not with each other.

        Without a surface, the last triangles, `still` of them, belong to things that do not interact with each other.
        """
        self.topology = topology
        self.device = wp.get_device(device)
        self.mesh = CrossingMesh()
        """the positions of the last search, for kernels; its tree is valid after `build_tree` only"""
        self._noise = unit_noise(topology.vertex_count)
        if surface is None:
            body = (np.arange(len(topology.faces)) >= len(topology.faces) - still).astype(np.int32)
            pairs = [[1, 1], [1, 0]] if still else [[1]]
            surface = Surface.from_arrays(
                topology.vertex_count, topology.faces, face_body=body, body_pairs=pairs, device=self.device
            )
            passive = (1,) if still else ()
        self._surface = surface
        self.mesh.faces = self._surface.faces
        many = len(topology.faces) > 1
        self._broad_phase = make_broad_phase("bvh", self._surface, passive=passive) if many else None
        self._x = wp.zeros(topology.vertex_count, dtype=wp.vec3d, device=self.device)
        self._length = -1.0
        self._hits, self._found = Buffer(wp.int8, self.device), Buffer(wp.vec3i, self.device)
        self._chosen, self._places = Buffer(int, self.device), Buffer(int, self.device)
        self._tree: wp.Bvh | None = None
        self._builds = 0
        self._bounds = wp.zeros(2, dtype=wp.vec3d, device=self.device)
        self._cooperative = CooperativeLauncher(self.device)

    def find(self, vertices: Floats | wp.array, length: float) -> tuple[Ints, Ints]:
        """The crossings (edges, faces), sorted; `length` (metres) is that of a usual edge, by which the noise is scaled.

        Of a longer device array the first vertices are used, as many as the mesh has.
        """
        self._place(vertices, length)
        if self._broad_phase is None:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._broad_phase.update(self.mesh.x, self.mesh.x, float(self.mesh.slack), follow=False)
        pairs = self._broad_phase.triangle_pairs(share_vertex=True)
        count = len(pairs)
        hits, chosen, places = (buffer.at_least(count) for buffer in (self._hits, self._chosen, self._places))
        launch(test_pairs, count, [self.mesh, self._surface.owned, pairs, hits, chosen], device=self.device)
        found = exclusive_scans((chosen, places, count))[0]
        if not found:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        compacted = self._found.at_least(found)
        launch(compact_hits, count, [pairs, hits, chosen, places, compacted], device=self.device)

        # six bits a pair: the edges of one triangle that cross the other, and the reverse
        crossed = compacted[:found].numpy()
        which, bit = np.nonzero(crossed[:, 2:] & (1 << np.arange(6)))
        number = np.arange(len(which))
        pair = crossed[which, :2]
        edge = self.topology.face_edges[pair[number, bit // 3], bit % 3]
        face = pair[number, 1 - bit // 3]
        order = np.lexsort((face, edge))
        return edge[order], face[order]

    def _place(self, vertices: Floats | wp.array, length: float) -> None:
        mesh = self.mesh
        self._take(vertices)
        if length != self._length:
            self._length = length
            mesh.noise = wp.array((NOISE * length) * self._noise, dtype=wp.vec3d, device=self.device)
            mesh.slack = wp.float64(4.0 * NOISE * length)

    def build_tree(self, vertices: Floats | wp.array) -> None:
        """Build or refit the tree of triangle boxes at these positions, for `query_around`."""
        mesh = self.mesh
        self._take(vertices)
        self._cooperative.launch(find_bounds, 1, [mesh.faces, mesh.x, self._bounds])
        low, high = read((self._bounds, 0, 2))[0]
        # a power of two, so that scaling does not round
        mesh.scale = wp.float64(2.0 ** -float(np.frexp(max(float((high - low).max()), 1e-250))[1]))
        mesh.centre = wp.vec3d(*(low + 0.5 * (high - low)))
        if self._tree is None:
            self._lowers, self._uppers = (wp.empty(len(mesh.faces), dtype=wp.vec3, device=self.device) for _ in "lu")
        launch(box_triangles, len(mesh.faces), [mesh, self._lowers, self._uppers], device=self.device)
        if self._tree is None or self._builds % REBUILD == 0:
            method = "cubql" if self.device.is_cpu else "lbvh"
            self._tree = wp.Bvh(self._lowers, self._uppers, constructor=method, leaf_size=4)
            mesh.tree = self._tree.id
        else:
            self._tree.refit()
        self._builds += 1

    def _take(self, vertices: Floats | wp.array) -> None:
        self.mesh.x = self._x
        if isinstance(vertices, wp.array):
            wp.copy(self._x, vertices, count=len(self._x))
        else:
            self._x.assign(vertices)
