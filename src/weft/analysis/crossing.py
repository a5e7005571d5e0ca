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

from weft.analysis.fans import Fans
from weft.analysis.orientation import NOISE, unit_noise
from weft.analysis.pair_tests import CrossingMesh, compact_hits, test_pairs
from weft.broad_phase.interface import make_broad_phase
from weft.mesh.topology import Topology
from weft.runtime import launch
from weft.runtime.buffers import Buffer, read
from weft.runtime.compaction import block_max, exclusive_scans
from weft.runtime.cooperative import CooperativeLauncher
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# outward rounding of boxes: coordinates are scaled to -1..1, where an ulp of float32 is at most half of this, and the noise
# is a thousand times smaller
PAD = wp.constant(wp.float32(1.5e-7))
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# calls after which the tree is rebuilt rather than refitted: refitted boxes overlap more and more as the mesh deforms
REBUILD = 64


@wp.func
def boxed(mesh: CrossingMesh, vertex: int) -> wp.vec3:
    """A vertex in the float32 coordinates of the tree: centred and scaled, so that boxes far from the origin stay tight."""
    return wp.vec3(mesh.scale * (mesh.x[vertex] - mesh.centre))


@wp.func
def query_tree(mesh: CrossingMesh, tree: wp.uint64, root: int, p: wp.vec3d, radius: wp.float64):
    """A query of a tree, below a root, for padded boxes that come within the radius of p along every axis."""
    centre = mesh.scale * (p - mesh.centre)
    half = mesh.scale * radius
    side = wp.vec3d(half, half, half)
    return wp.bvh_query_aabb(tree, wp.vec3(centre - side), wp.vec3(centre + side), root)


@wp.func
def query_around(mesh: CrossingMesh, p: wp.vec3d, radius: wp.float64):
    """A query for triangles whose padded boxes come within the radius of p along every axis."""
    return query_tree(mesh, mesh.tree, -1, p, radius)


@wp.func
def store_box(mesh: CrossingMesh, face: wp.vec3i, i: int, lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3]):
    """Write the box of a triangle in float32, padded outwards."""
    a = boxed(mesh, face[0])
    b = boxed(mesh, face[1])
    c = boxed(mesh, face[2])
    lowers[i] = wp.min(a, wp.min(b, c)) - wp.vec3(PAD)
    uppers[i] = wp.max(a, wp.max(b, c)) + wp.vec3(PAD)


@wp.kernel
def box_triangles(first: int, mesh: CrossingMesh, lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3]):
    """The box of each triangle."""
    i = first + wp.tid()
    store_box(mesh, mesh.faces[i], i, lowers, uppers)


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
        bodies = self._surface.vertex_body.numpy()
        apart = self._surface.body_pairs.numpy().diagonal() == 0
        apart[list(passive)] = True
        self._fans = Fans(topology, apart[bodies], self.device)
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
        pairs = self._fans.add(self._broad_phase.triangle_pairs(), self.mesh.x, self.mesh.slack)
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
        self.frame_boxes(vertices)
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

    def frame_boxes(self, vertices: Floats | wp.array) -> None:
        """Take these positions, and choose the coordinates of boxes for them."""
        mesh = self.mesh
        self._take(vertices)
        self._cooperative.launch(find_bounds, 1, [mesh.faces, mesh.x, self._bounds])
        low, high = read((self._bounds, 0, 2))[0]
        # a power of two, so that scaling does not round
        mesh.scale = wp.float64(2.0 ** -float(np.frexp(max(float((high - low).max()), 1e-250))[1]))
        mesh.centre = wp.vec3d(*(low + 0.5 * (high - low)))

    def _take(self, vertices: Floats | wp.array) -> None:
        self.mesh.x = self._x
        if isinstance(vertices, wp.array):
            wp.copy(self._x, vertices, count=len(self._x))
        else:
            self._x.assign(vertices)
