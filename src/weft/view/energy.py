"""The elastic energy of cloth in given positions, by its material: of the membrane, of bending, and of open seams.

It is that of the springs and hinges of `springs`, whichever way a method computes forces. Shapes at rest are those of the
start: bends that have set in during a run (see `bend_memory`) are not known from positions.
"""

import numpy as np
from scipy.sparse import csr_array

from weft.dynamics import curvature, springs
from weft.world import World


class ElasticEnergy:
    """The elastic energy of all cloths of a world."""

    def __init__(self, world: World) -> None:
        self._network = springs.from_world(world)
        self._hinges = self._network.hinges()
        self._stencils = curvature.stencil_matrix(self._hinges, world.cloth_vertex_count)
        self._bending: tuple[bytes, csr_array] | None = None

    def of(self, x: np.ndarray, pinned: np.ndarray) -> float:
        """The energy at positions x (n, 3) of the cloth, of which `pinned` (n,) are held, in J."""
        return self.membrane(x) + self.bending(x, pinned) + self.seams(x)

    def membrane(self, x: np.ndarray) -> float:
        """Of stretch and shear, and of threads beyond their limit of stretch, in J."""
        network = self._network
        ends = x[network.pairs]
        extension = (np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) - network.rest)[network.face_springs]
        energy = 0.5 * float(np.einsum("mi,mij,mj->", extension, network.face_tension, extension))
        threads = network.face_threads
        limited = np.isfinite(threads[:, 2, 2])
        if limited.any():
            strain = np.einsum("mti,mi->mt", threads[limited, :2], extension[limited])
            beyond = np.maximum(strain - threads[limited, 2, 2][:, None], 0.0)
            energy += 0.5 * float((threads[limited, 2, :2] * beyond**2).sum())
        return energy

    def bending(self, x: np.ndarray, pinned: np.ndarray) -> float:
        """Of bending away from the shape at rest, in J."""
        hinges = self._hinges
        if len(hinges.quads) == 0:
            return 0.0
        key = pinned.tobytes()
        if self._bending is None or self._bending[0] != key:
            self._bending = key, curvature.share_jumps(hinges, pinned).relaxed()
        bent = self._stencils @ x
        bent -= hinges.rest[:, None] * curvature.mean_normals(x[hinges.quads])
        return 0.5 * float((bent * (self._bending[1] @ bent)).sum())

    def seams(self, x: np.ndarray) -> float:
        """Of stitches that are not closed, in J; welds have none."""
        network = self._network
        kept = network.sewn & np.isfinite(network.quad_stiffness)
        apart = np.einsum("hk,hkd->hd", network.weights[kept], x[network.quads[kept]])
        return 0.5 * float(network.quad_stiffness[kept] @ (apart**2).sum(axis=1))
