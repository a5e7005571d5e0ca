"""Which vertices are near others along the edges of the mesh; each answer costs as much as it is large."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from weft.mesh.topology import Topology, ascending

Ints = NDArray[np.integer]


class Neighbourhood:
    """The vertices of a mesh with the edges between them."""

    def __init__(self, topology: Topology) -> None:
        rows, columns = np.concatenate([topology.edges, topology.edges[:, ::-1]]).T
        shape = (topology.vertex_count, topology.vertex_count)
        self.links = sparse.csr_array((np.ones(len(rows), np.int8), (rows, columns)), shape=shape)
        """1 between vertices that an edge joins"""

    def around(self, vertices: Ints, rings: int) -> NDArray[np.bool_]:
        """(n,) which are the vertices or in so many rings of vertices around them."""
        found = np.zeros(self.links.shape[0], dtype=bool)
        found[vertices] = True
        last = np.flatnonzero(found)
        for _ in range(rings):
            new = np.zeros(len(found), dtype=bool)
            new[self._beside(last)] = True
            new &= ~found
            found |= new
            last = np.flatnonzero(new)
        return found

    def widen(self, vertex: Ints, side: Ints, rings: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The entries (vertex, side), and the same for vertices in so many rings around theirs, each once."""
        most = int(side.max(initial=0)) + 1
        keys = new = ascending(vertex.astype(np.int64) * most + side)
        for _ in range(rings):
            vertex, side = new // most, new % most
            counts = self.links.indptr[vertex + 1] - self.links.indptr[vertex]
            beside = ascending(self._beside(vertex).astype(np.int64) * most + np.repeat(side, counts))
            known = keys[np.minimum(np.searchsorted(keys, beside), len(keys) - 1)] == beside
            new = beside[~known]
            keys = np.sort(np.concatenate([keys, new]), kind="stable")
        return keys // most, keys % most

    def connected(self, seeds: Ints, vertices: NDArray[Any]) -> NDArray[Any]:
        """Those of the vertices (ascending) that edges between them connect with the seeds, which are among them."""
        _, piece = sparse.csgraph.connected_components(self.links[vertices][:, vertices], directed=False)
        return vertices[np.isin(piece, piece[np.searchsorted(vertices, seeds)])]

    def _beside(self, vertices: Ints) -> Ints:
        """The neighbours of the vertices, one vertex after the other."""
        offsets, items = self.links.indptr, self.links.indices
        starts = offsets[vertices].astype(np.int64)
        counts = offsets[vertices + 1] - starts
        ends = np.cumsum(counts)
        places = np.repeat(starts - ends + counts, counts) + np.arange(ends[-1] if len(ends) else 0)
        found: Ints = items[places]
        return found
