"""Which edges pass through which triangles, as if no four points ever lay in a plane.

Global intersection analysis (Baraff, Witkin and Kass 2003, section 5) asks nothing but on which side of a plane a
point lies, and needs every answer to be one side or the other. So every vertex is moved by a tiny offset that hangs on
its index alone (general position), and signs of determinants that rounding could turn are computed again in twice the
precision, always from the vertices in the order of their indices. The same four vertices then have the same orientation
in every test, whichever edge and triangle ask, and paths of intersections have no holes.

Unlike `weft.intersections` this says nothing about touching: two surfaces that touch are either apart or crossing here.
"""

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis import crossing_kernels as kernels
from weft.broad_phase.interface import make_broad_phase
from weft.mesh.topology import Topology
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scans
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.readback import read
from weft.world import Surface

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# size of the offsets relative to the length of an edge: larger ones change real crossings, smaller ones drown in
# the rounding of coordinates
NOISE = 1e-10
# calls after which the tree is built anew instead of refitted
REBUILD = 64


def unit_noise(count: int) -> Floats:
    """Offsets in -1..1 for vertices 0, 1, ...: a hash of the index (splitmix64), the same on every machine."""
    with np.errstate(over="ignore"):
        z = np.arange(1, 3 * count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0).reshape(-1, 3)


class CrossingFinder:
    """Finds the crossings of one mesh again and again, as its vertices move."""

    def __init__(self, topology: Topology, *, device: wp.DeviceLike = "cpu") -> None:
        self.topology = topology
        self.device = wp.get_device(device)
        self.mesh = kernels.Crossing()
        """the positions of the last search, for kernels; `tree` is only there after `grow_tree`"""
        self._noise = unit_noise(topology.vertex_count)
        self._surface = Surface.from_arrays(topology.vertex_count, topology.faces, device=self.device)
        self.mesh.faces = self._surface.faces
        self._broad_phase = make_broad_phase("bvh", self._surface) if len(topology.faces) > 1 else None
        self._x = wp.zeros(topology.vertex_count, dtype=wp.vec3d, device=self.device)
        self._length = -1.0
        self._hits, self._rows = Buffer(wp.int8, self.device), Buffer(wp.vec3i, self.device)
        self._chosen, self._places = Buffer(int, self.device), Buffer(int, self.device)
        self._tree: wp.Bvh | None = None
        self._grown = 0
        self._bounds = wp.zeros(2, dtype=wp.vec3d, device=self.device)
        self._cooperative = CooperativeLauncher(self.device)

    def find(self, vertices: Floats | wp.array, length: float) -> tuple[Ints, Ints]:
        """The crossings (edge, face), sorted; `length` is that of a usual edge, by which the noise is measured.

        Of vertices on the device the first are taken, as many as the mesh has.
        """
        self._place(vertices, length)
        if self._broad_phase is None:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        self._broad_phase.update(self.mesh.x, self.mesh.x, float(self.mesh.slack), follow=False)
        pairs = self._broad_phase.triangle_pairs(share_vertex=True)
        count = len(pairs)
        hits, chosen, places = (buffer.at_least(count) for buffer in (self._hits, self._chosen, self._places))
        launch(kernels.test_pairs, count, [self.mesh, self._surface.owned, pairs, hits, chosen], device=self.device)
        found = exclusive_scans((chosen, places, count))[0]
        if not found:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        rows = self._rows.at_least(found)
        launch(kernels.take_hits, count, [pairs, hits, chosen, places, rows], device=self.device)

        # six bits a pair: the edges of one triangle through the other, and the reverse
        crossed = rows[:found].numpy()
        which, bit = np.nonzero(crossed[:, 2:] & (1 << np.arange(6)))
        row = np.arange(len(which))
        pair = crossed[which, :2]
        edge = self.topology.face_edges[pair[row, bit // 3], bit % 3]
        face = pair[row, 1 - bit // 3]
        order = np.lexsort((face, edge))
        return edge[order], face[order]

    def _place(self, vertices: Floats | wp.array, length: float) -> None:
        mesh = self.mesh
        self._take(vertices)
        if length != self._length:
            self._length = length
            mesh.noise = wp.array((NOISE * length) * self._noise, dtype=wp.vec3d, device=self.device)
            mesh.slack = wp.float64(4.0 * NOISE * length)

    def grow_tree(self, vertices: Floats | wp.array) -> None:
        """Make a tree of the triangles with their vertices here, for kernels that ask who is near a point."""
        mesh = self.mesh
        self._take(vertices)
        self._cooperative.launch(kernels.find_bounds, 1, [mesh.faces, mesh.x, self._bounds])
        low, high = read((self._bounds, 0, 2))[0]
        # a power of two, so that scaling does not round
        mesh.scale = wp.float64(2.0 ** -float(np.frexp(max(float((high - low).max()), 1e-250))[1]))
        mesh.centre = wp.vec3d(*(low + 0.5 * (high - low)))
        if self._tree is None:
            self._lowers, self._uppers = (wp.empty(len(mesh.faces), dtype=wp.vec3, device=self.device) for _ in "lu")
        launch(kernels.box_triangles, len(mesh.faces), [mesh, self._lowers, self._uppers], device=self.device)
        if self._tree is None or self._grown % REBUILD == 0:
            method = "cubql" if self.device.is_cpu else "lbvh"
            self._tree = wp.Bvh(self._lowers, self._uppers, constructor=method, leaf_size=4)
            mesh.tree = self._tree.id
        else:
            self._tree.refit()
        self._grown += 1

    def _take(self, vertices: Floats | wp.array) -> None:
        self.mesh.x = self._x
        if isinstance(vertices, wp.array):
            wp.copy(self._x, vertices, count=len(self._x))
        else:
            self._x.assign(vertices)
