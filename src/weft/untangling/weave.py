"""The mesh as the untangler handles it: lengths to keep, who hangs together with whom, and what moves along."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray
from scipy import sparse

from weft.analysis import Analyser
from weft.analysis.contour import Moves
from weft.mesh.topology import make_csr
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.untangling import kernels

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# a displacement reaches this many rings of neighbours and loses this part a ring
SPREAD_RINGS, SPREAD_PART = 20, 0.95
# the largest stable steps of the two kinds of smoothing are 0.5 and 1
BENDING_STEP, MEMBRANE_STEP = 0.2, 0.5


class Gaps(NamedTuple):
    """Vertices near triangles, and how far they are to stay apart."""

    pairs: wp.array
    weights: wp.array
    normals: wp.array
    gaps: wp.array


class Weave:
    """Topology, lengths and the operations of the untangler on them; the positions are kept outside.

    goal: lengths of the edges of the mesh to be aimed at where it was tangled; elsewhere they keep those of `start`.
    seams: (s, 3) rows (a, b, c): vertex a keeps its place against the nearest point of bc as in `start`.
    """

    def __init__(self, analyser: Analyser, start: Floats, goal: Floats, seams: Ints) -> None:
        self.analyser = analyser
        self.topology = analyser.topology
        self.count = len(start)
        edges = self.topology.edges
        sewn = np.unique(np.sort(np.concatenate([seams[:, [0, 1]], seams[:, [0, 2]]]), axis=1), axis=0)
        sewn = sewn[sewn[:, 0] != sewn[:, 1]].astype(np.int32)

        # edges in an order in which neighbours do not follow one another
        order = colour_items(edges, self.count).order
        self.edges, self._goals = np.ascontiguousarray(edges[order]), goal[order]
        self.lengths = self._start_lengths = np.linalg.norm(start[self.edges[:, 1]] - start[self.edges[:, 0]], axis=1)
        self._edges = wp.array(self.edges, dtype=wp.vec2i, device="cpu")
        self._lengths = wp.array(self.lengths, dtype=wp.float64, device="cpu")
        self.seams = seams
        self.on_seam = np.zeros(self.count, dtype=bool)
        self.on_seam[seams] = True
        self._stitches = _stitch(start, seams)

        # who hangs together: neighbours and stitches
        links = np.concatenate([edges, sewn])
        rows, items = np.concatenate([links[:, 0], links[:, 1]]), np.concatenate([links[:, 1], links[:, 0]])
        self.neighbours = make_csr(rows, items, self.count, self.count)
        self._device_neighbours = [wp.array(part, dtype=int, device="cpu") for part in self.neighbours]
        weights = np.ones(len(self.neighbours.items))
        self._sum = sparse.csr_array(
            (weights, self.neighbours.items, self.neighbours.offsets), shape=(self.count, self.count)
        )
        self._mean = sparse.diags_array(1.0 / np.diff(self.neighbours.offsets)) @ self._sum
        # the length of an edge here: steps are measured by it
        around = np.bincount(edges.ravel(), np.repeat(goal, 2), self.count)
        self.scale = around / np.bincount(edges.ravel(), minlength=self.count)
        self.length = float(np.median(goal))
        # strain is measured by the length of an edge, of a very short one by that of its neighbours
        self._measure = np.maximum(self._goals, 0.1 * self.scale[self.edges].min(axis=1))
        self._start_strains = np.abs(self._start_lengths - self._goals) / self._measure
        self._counts = wp.empty(self.count, dtype=int, device="cpu")

    def mean_of_neighbours(self, values: Floats) -> Floats:
        """The mean of the neighbours of every vertex."""
        mean: Floats = self._mean @ values
        return mean

    def sewn_to(self, vertices: Ints) -> Ints:
        """The vertices that are sewn to these, without them."""
        mask = np.zeros(self.count, dtype=bool)
        mask[vertices] = True
        partners = mask.copy()
        partners[self.seams[mask[self.seams].any(axis=1)]] = True
        return np.flatnonzero(partners & ~mask).astype(np.int32)

    def aim(self, activity: Floats) -> None:
        """Aim at the goal lengths where vertices are active (1), at those of the start where they are not (0)."""
        part = activity[self.edges].min(axis=1)
        self.lengths = self._start_lengths + part * (self._goals - self._start_lengths)
        self._lengths = wp.array(self.lengths, dtype=wp.float64, device="cpu")

    def widen(self, values: Floats, fall: float) -> Floats:
        """Every value spreads over the mesh, losing `fall` a ring; where several arrive, the highest counts."""
        wide = values
        while True:
            highest = np.maximum.reduceat(wide[self.neighbours.items], self.neighbours.offsets[:-1])
            wider = np.maximum(wide, highest - fall)
            if np.array_equal(wider, wide):
                return wide
            wide = wider

    def displacements(self, moves: Sequence[tuple[Moves, Floats]]) -> Floats:
        """What the moves, each with the lengths of its steps, make of all vertices: averaged where they meet.

        The vertices around follow: what is not told to move takes a part of the mean of its neighbours, ring by ring.
        """
        total, weight = np.zeros((self.count, 3)), np.zeros(self.count)
        for one, steps in moves:
            size = np.abs(one.weights)
            pull = np.where(one.weights > 0.0, size, -size)[:, :, None] * (steps[:, None] * one.directions)[:, None, :]
            flat = one.vertices.ravel()
            weight += np.bincount(flat, size.ravel(), self.count)
            for axis in range(3):
                total[:, axis] += np.bincount(flat, pull[:, :, axis].ravel(), self.count)
        told = weight > 0.0
        own = np.divide(total, weight[:, None], out=np.zeros_like(total), where=told[:, None])
        moved, known = own, told.astype(np.float64)
        for _ in range(SPREAD_RINGS):
            # vertices that have not been reached do not count in the mean
            reached = self._sum @ known
            follow = np.divide(
                SPREAD_PART * (self._sum @ moved),
                reached[:, None],
                out=np.zeros_like(own),
                where=reached[:, None] > 0.0,
            )
            moved = np.where(told[:, None], own, follow)
            known = np.where(reached > 0.0, 1.0, known)
        return moved

    def step_lengths(self, moves: Moves) -> Floats:
        """The length of an edge where each move happens."""
        size = np.abs(moves.weights)
        return (size * self.scale[moves.vertices]).sum(axis=1) / np.maximum(size.sum(axis=1), 1e-300)

    def smooth(self, x: Floats, bending: Floats, membrane: Floats, passes: int) -> Floats:
        """Flatten folds (bending) and pull together (membrane), each as far as its weight says, vertex by vertex."""
        if not bending.any() and not membrane.any():
            return x
        bend, pull = BENDING_STEP * bending[:, None], MEMBRANE_STEP * membrane[:, None]
        for _ in range(passes):
            curvature = self._mean @ x - x
            x = x - bend * (self._mean @ curvature - curvature) + pull * curvature
        return x

    def relax(self, x: Floats, stiffness: Floats, sweeps: int, gaps: Gaps | None = None) -> Floats:
        """Bring edges to their lengths, each with its stiffness in 0..1; hold the stitches and keep the gaps."""
        moved = wp.array(x, dtype=wp.vec3d, device="cpu")
        if gaps is None:
            none = wp.empty(0, dtype=wp.vec3d, device="cpu")
            gaps = Gaps(wp.empty(0, dtype=wp.vec2i, device="cpu"), none, none, self._lengths)
        inputs = [
            sweeps,
            self._edges,
            self._lengths,
            wp.array(stiffness, dtype=wp.float64, device="cpu"),
            *self._stitches,
            gaps.pairs,
            self.analyser.finder.mesh.faces,
            gaps.weights,
            gaps.normals,
            gaps.gaps,
            moved,
        ]
        launch(kernels.relax, 1, inputs)
        return moved.numpy().copy()

    def find_gaps(self, x: Floats, radius: float, least: Floats, most: float) -> Gaps:
        """The vertices nearer than the radius to triangles that are not next to them.

        They are to stay as far apart as they are, up to `most`, and to part to the `least` gap of their vertices.
        """
        finder = self.analyser.finder
        finder.build_tree(x)
        inputs = [finder.mesh, *self._device_neighbours, wp.float64(radius)]
        launch(kernels.count_near, self.count, [*inputs, self._counts], grain=128)
        counts = self._counts.numpy()
        chosen = np.flatnonzero(counts).astype(np.int32)
        counts = counts[chosen]
        total = int(counts.sum())
        pairs = wp.empty(total, dtype=wp.vec2i, device="cpu")
        starts = wp.array(np.cumsum(counts) - counts, dtype=wp.int64, device="cpu")
        launch(
            kernels.fill_near,
            len(chosen),
            [*inputs, wp.array(chosen, dtype=int, device="cpu"), starts, pairs],
            grain=128,
        )
        # the order of the tree is not that of the mesh
        found = pairs.numpy()
        pairs = wp.array(found[np.lexsort((found[:, 1], found[:, 0]))], dtype=wp.vec2i, device="cpu")
        weights, normals = (wp.empty(total, dtype=wp.vec3d, device="cpu") for _ in range(2))
        gaps = wp.empty(total, dtype=wp.float64, device="cpu")
        floor = wp.array(least, dtype=wp.float64, device="cpu")
        launch(kernels.measure_gaps, total, [pairs, finder.mesh, floor, wp.float64(most), weights, normals, gaps])
        return Gaps(pairs, weights, normals, gaps)

    def strains(self, x: Floats) -> Floats:
        """(edges,) how much longer or shorter each edge is than aimed at."""
        a, b = self.edges.T
        strains: Floats = (np.linalg.norm(x[b] - x[a], axis=1) - self.lengths) / self._measure
        return strains

    def worst_strain(self, x: Floats) -> Floats:
        """(n,) the largest strain in magnitude of the edges of each vertex, beyond what there was at the start."""
        strains = np.abs(self.strains(x)) - self._start_strains
        worst = np.zeros(self.count)
        np.maximum.at(worst, self.edges.ravel(), np.repeat(strains, 2))
        return worst


def _stitch(start: Floats, seams: Ints) -> list[wp.array]:
    """The stitches on the device: vertices, where along bc vertex a is, and how far from there."""
    a, b, c = start[seams].transpose(1, 0, 2)
    along = c - b
    square = np.einsum("ij,ij->i", along, along)
    part = np.einsum("ij,ij->i", a - b, along) / np.where(square > 0.0, square, 1.0)
    part = np.clip(part, 0.0, 1.0)
    return [
        wp.array(seams, dtype=wp.vec3i, device="cpu"),
        wp.array(part, dtype=wp.float64, device="cpu"),
        wp.array(a - b - part[:, None] * along, dtype=wp.vec3d, device="cpu"),
    ]
