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
from weft.mesh.topology import Topology
from weft.world import launch

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# size of the offsets relative to the length of an edge: larger ones change real crossings, smaller ones drown in
# the rounding of coordinates
NOISE = 1e-10
# calls after which the tree is built anew instead of refitted
REBUILD = 64
# edges worth a thread of their own
GRAIN = 128


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
        faces, edges = topology.faces, topology.edges
        self._noise = unit_noise(topology.vertex_count)
        used = np.zeros(topology.vertex_count, dtype=bool)
        used[faces] = True
        self._used = np.flatnonzero(used) if not used.all() else slice(None)
        mesh = kernels.Crossing()
        mesh.edges = wp.array(edges, dtype=wp.vec2i, device=self.device)
        mesh.faces = wp.array(faces, dtype=wp.vec3i, device=self.device)
        self.mesh = mesh
        self._lowers = wp.empty(len(faces), dtype=wp.vec3, device=self.device)
        self._uppers = wp.empty(len(faces), dtype=wp.vec3, device=self.device)
        self._counts = wp.empty(len(edges), dtype=wp.int32, device=self.device)
        self._tree: wp.Bvh | None = None
        self._calls = 0

    def find(self, vertices: Floats, length: float) -> tuple[Ints, Ints]:
        """The crossings (edge, face), sorted; `length` is that of a usual edge, by which the noise is measured."""
        if len(self.topology.faces) < 2:
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        mesh, device = self.mesh, self.device
        self.place(vertices, length)
        launch(kernels.count_crossings, len(mesh.edges), [mesh, self._counts], device=device, grain=GRAIN)

        # count, scan, fill; the second pass only asks for edges that found something
        counts = self._counts.numpy()
        chosen = np.flatnonzero(counts).astype(np.int32)
        if not len(chosen):
            return np.zeros(0, np.int32), np.zeros(0, np.int32)
        counts = counts[chosen]
        starts = np.cumsum(counts) - counts
        found = wp.empty(int(counts.sum()), dtype=wp.int32, device=device)
        inputs = [mesh, wp.array(chosen, dtype=int, device=device), wp.array(starts, dtype=wp.int64, device=device)]
        launch(kernels.fill_crossings, len(chosen), [*inputs, found], device=device, grain=GRAIN)
        edge, face = np.repeat(chosen, counts), found.numpy()
        order = np.lexsort((face, edge))
        return edge[order], face[order]

    def place(self, vertices: Floats, length: float) -> None:
        """Bring the positions to the device and the tree up to date with them."""
        mesh = self.mesh
        used = vertices[self._used]
        low, high = used.min(axis=0), used.max(axis=0)
        # a power of two, so that scaling does not round
        mesh.scale = wp.float64(2.0 ** -float(np.frexp(max(float((high - low).max()), 1e-250))[1]))
        mesh.centre = wp.vec3d(*(low + 0.5 * (high - low)))
        mesh.x = wp.array(vertices, dtype=wp.vec3d, device=self.device)
        mesh.noise = wp.array((NOISE * length) * self._noise, dtype=wp.vec3d, device=self.device)
        mesh.slack = wp.float64(4.0 * NOISE * length)
        launch(kernels.box_triangles, len(mesh.faces), [mesh, self._lowers, self._uppers], device=self.device)
        if self._tree is None or self._calls % REBUILD == 0:
            method = "cubql" if self.device.is_cpu else "lbvh"
            self._tree = wp.Bvh(self._lowers, self._uppers, constructor=method, leaf_size=4)
            mesh.tree = self._tree.id
        else:
            self._tree.refit()
        self._calls += 1
