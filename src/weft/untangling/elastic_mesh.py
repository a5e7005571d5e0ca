"""The mesh as the static untangler handles it: lengths to keep, neighbours, stitches, and the operations that move vertices.

The operations spread displacements over the mesh, smooth it, find vertices that are near triangles, and restore edge lengths,
stitches and gaps by sweeps over these constraints. They take positions and give new ones; none is stored here.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray
from scipy import sparse

from weft.analysis import Analyser, Analysis
from weft.analysis.attraction import REPEL, Moves, colour_table, vertex_triangle_kinds
from weft.analysis.spreading import Spreading, mean_displacements
from weft.mesh.topology import make_csr
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.untangling.gaps import Gaps, count_near, fill_near, measure_gaps

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# step sizes of smoothing by the bilaplacian (bending) and the Laplacian (membrane); the largest stable ones are 0.5 and 1
BENDING_STEP, MEMBRANE_STEP = 0.2, 0.5
# rings of vertices around what crosses that are near it
TANGLE_RINGS = 2


@wp.struct
class Stitches:
    """Vertices a, b, c: vertex a keeps its offset from a point of the edge bc."""

    vertices: wp.array[wp.vec3i]
    along: wp.array[wp.float64]
    """the position of the point on bc, from 0 to 1"""
    offsets: wp.array[wp.vec3d]
    """metres; from that point to a"""


@wp.kernel
def relax(
    first: int,
    sweeps: int,
    edges: wp.array[wp.vec2i],
    lengths: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    stitches: Stitches,
    faces: wp.array[wp.vec3i],
    near: Gaps,
    mobility: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
):
    """Gauss-Seidel sweeps: edges to their lengths, pairs to their gaps, stitches closed; all vertices weigh the same.

    Those with a mobility of 0 instead of 1 stay; edges and stitches have none of them, and triangles all three or none.

    Launched with one item: serial code on the CPU.
    """
    start = first + wp.tid()
    for _sweep in range(sweeps):
        for k in range(start, edges.shape[0]):
            a = edges[k][0]
            b = edges[k][1]
            along = x[b] - x[a]
            length = wp.length(along)
            if length > ZERO:
                move = (HALF * stiffness[k] * (length - lengths[k]) / length) * along
                x[a] = x[a] + move
                x[b] = x[b] - move
        for k in range(start, near.pairs.shape[0]):
            v = near.pairs[k][0]
            face = faces[near.pairs[k][1]]
            w = near.weights[k]
            n = near.normals[k]
            gap = wp.dot(n, x[v] - w[0] * x[face[0]] - w[1] * x[face[1]] - w[2] * x[face[2]])
            if gap < near.gaps[k]:
                other = mobility[face[0]]
                push = (near.gaps[k] - gap) / (mobility[v] + other * wp.dot(w, w))
                x[v] = x[v] + (mobility[v] * push) * n
                for j in range(3):
                    x[face[j]] = x[face[j]] - (other * w[j] * push) * n
        for k in range(start, stitches.vertices.shape[0]):
            s = stitches.vertices[k]
            t = stitches.along[k]
            off = (x[s[0]] - (ONE - t) * x[s[1]] - t * x[s[2]] - stitches.offsets[k]) / (
                ONE + (ONE - t) * (ONE - t) + t * t
            )
            x[s[0]] = x[s[0]] - off
            x[s[1]] = x[s[1]] + (ONE - t) * off
            x[s[2]] = x[s[2]] + t * off


class ElasticMesh:
    """Topology, edge lengths and stitches of a mesh, and the operations of the untangler on positions.

    goal: edge lengths to restore where the mesh was tangled; elsewhere edges keep their lengths in `start`.
    seams: (s, 3) stitches (a, b, c): vertex a keeps its offset from the nearest point of edge bc in `start`.
    still: (n,) the vertices of colliders, which stay where they are; by default none.
    """

    def __init__(
        self, analyser: Analyser, start: Floats, goal: Floats, seams: Ints, still: NDArray[np.bool_] | None = None
    ) -> None:
        self.analyser = analyser
        self.topology = analyser.topology
        self.count = len(start)
        self.still = np.zeros(self.count, dtype=bool) if still is None else still
        self._mobility = wp.array(1.0 - self.still, dtype=wp.float64, device="cpu")
        edges = self.topology.edges
        sewn = np.unique(np.sort(np.concatenate([seams[:, [0, 1]], seams[:, [0, 2]]]), axis=1), axis=0)
        sewn = sewn[sewn[:, 0] != sewn[:, 1]].astype(np.int32)

        # edges by colour: edges next to each other in the sweep share no vertex
        own = np.flatnonzero(~self.still[edges[:, 0]])
        order = own[colour_items(edges[own], self.count).order]
        self.edges, self._goals = np.ascontiguousarray(edges[order]), goal[order]
        self.lengths = self._start_lengths = np.linalg.norm(start[self.edges[:, 1]] - start[self.edges[:, 0]], axis=1)
        self._edges = wp.array(self.edges, dtype=wp.vec2i, device="cpu")
        self._lengths = wp.array(self.lengths, dtype=wp.float64, device="cpu")
        self.seams = seams
        self.on_seam = np.zeros(self.count, dtype=bool)
        self.on_seam[seams] = True
        self._stitches = _stitch(start, seams)

        # neighbours of a vertex: along edges and stitches
        links = np.concatenate([edges, sewn])
        vertices, items = np.concatenate([links[:, 0], links[:, 1]]), np.concatenate([links[:, 1], links[:, 0]])
        self.neighbours = make_csr(vertices, items, self.count, self.count)
        self._device_neighbours = [wp.array(values, dtype=int, device="cpu") for values in self.neighbours]
        self._spreading = Spreading(self.neighbours)
        sizes, shape = np.diff(self.neighbours.offsets), (self.count, self.count)
        weights = np.repeat(1.0 / sizes, sizes)
        self._mean = sparse.csr_array((weights, self.neighbours.items, self.neighbours.offsets), shape=shape)
        # the mean edge length around each vertex, by which moves are measured
        around = np.bincount(edges.ravel(), np.repeat(goal, 2), self.count)
        self.scale = around / np.bincount(edges.ravel(), minlength=self.count)
        self.length = float(np.median(goal[own]))
        # strain is relative to the length of the edge; of a very short edge, relative to the edges around it
        self._measure = np.maximum(self._goals, 0.1 * self.scale[self.edges].min(axis=1))
        self._start_strains = np.abs(self._start_lengths - self._goals) / self._measure
        self._counts = wp.empty(self.count, dtype=int, device="cpu")

    def mean_of_neighbours(self, values: Floats) -> Floats:
        """The mean of the neighbours of every vertex."""
        mean: Floats = self._mean @ values
        return mean

    def sewn_to(self, vertices: Ints) -> Ints:
        """The vertices that are sewn to these, without these themselves."""
        mask = np.zeros(self.count, dtype=bool)
        mask[vertices] = True
        partners = mask.copy()
        partners[self.seams[mask[self.seams].any(axis=1)]] = True
        return np.flatnonzero(partners & ~mask).astype(np.int32)

    def aim(self, activity: Floats) -> None:
        """Set the lengths to restore: the goal where vertices are active (1), those of the start where they are not (0)."""
        active = activity[self.edges].min(axis=1)
        self.lengths = self._start_lengths + active * (self._goals - self._start_lengths)
        self._lengths = wp.array(self.lengths, dtype=wp.float64, device="cpu")

    def widen(self, values: Floats, fall: float) -> Floats:
        """Spread values over the mesh: each vertex gets the highest of all values, less `fall` for each ring between."""
        wide = values
        while True:
            highest = np.maximum.reduceat(wide[self.neighbours.items], self.neighbours.offsets[:-1])
            wider = np.maximum(wide, highest - fall)
            if np.array_equal(wider, wide):
                return wide
            wide = wider

    def displacements(self, moves: Sequence[tuple[Moves, Floats]]) -> Floats:
        """(n, 3) displacements by moves and the lengths of their steps; where several move a vertex, their weighted mean.

        Vertices that no move names follow their neighbours: ring by ring they take a fraction of their mean. Colliders
        stay, and what moves against them goes the whole way.
        """
        whole = [(one, np.where(self.still[one.vertices].any(axis=1), 2.0, 1.0) * steps) for one, steps in moves]
        own, named = mean_displacements(whole, self.count)
        return np.where(self.still[:, None], 0.0, self._spreading.spread(own, named))

    def step_lengths(self, moves: Moves) -> Floats:
        """The mean edge length at the vertices of each move."""
        size = np.abs(moves.weights)
        return (size * self.scale[moves.vertices]).sum(axis=1) / np.maximum(size.sum(axis=1), 1e-300)

    def smooth(self, x: Floats, bending: Floats, membrane: Floats, passes: int) -> Floats:
        """Flatten folds (bending) and contract (membrane), with a weight from 0 to 1 for each vertex."""
        if not bending.any() and not membrane.any():
            return x
        moves = ~self.still[:, None]
        bend, pull = BENDING_STEP * bending[:, None] * moves, MEMBRANE_STEP * membrane[:, None] * moves
        for _ in range(passes):
            curvature = self._mean @ x - x
            x = x - bend * (self._mean @ curvature - curvature) + pull * curvature
        return x

    def relax(self, x: Floats, stiffness: Floats, sweeps: int, gaps: Any = None) -> Floats:
        """Restore edge lengths, each with a stiffness from 0 to 1, the stitches and the gaps (`Gaps`)."""
        moved = wp.array(x, dtype=wp.vec3d, device="cpu")
        if gaps is None:
            gaps = Gaps()
        inputs = [
            sweeps,
            self._edges,
            self._lengths,
            wp.array(stiffness, dtype=wp.float64, device="cpu"),
            self._stitches,
            self.analyser.finder.mesh.faces,
            gaps,
            self._mobility,
            moved,
        ]
        launch(relax, 1, inputs)
        return moved.numpy().copy()

    def find_gaps(self, x: Floats, radius: float, least: Floats, most: float, tangles: Sequence[Analysis] = ()) -> Any:
        """`Gaps` of vertices and triangles nearer than the radius (metres) that are not next to each other in the mesh.

        They are to keep their gap, at most `most`, and to open it to at least `least` of their vertices. Pairs within one of
        the tangles, which are to pass through each other, are left out, and pairs that are both near what crosses.
        """
        finder = self.analyser.finder
        finder.build_tree(x)
        inputs = [finder.mesh, *self._device_neighbours, wp.float64(radius)]
        launch(count_near, self.count, [*inputs, self._counts], grain=128)
        counts = self._counts.numpy()
        chosen = np.flatnonzero(counts).astype(np.int32)
        counts = counts[chosen]
        total = int(counts.sum())
        pairs = wp.empty(total, dtype=wp.vec2i, device="cpu")
        starts = wp.array(np.cumsum(counts) - counts, dtype=wp.int64, device="cpu")
        launch(
            fill_near,
            len(chosen),
            [*inputs, wp.array(chosen, dtype=int, device="cpu"), starts, pairs],
            grain=128,
        )
        # sorted, so that the order of the tree does not matter
        found = pairs.numpy()
        found = found[~(self.still[found[:, 0]] & self.still[self.topology.faces[found[:, 1], 0]])]
        for tangle in tangles:
            crossing = np.zeros(self.count)
            crossing[tangle.crossing_vertices()] = TANGLE_RINGS + 1.0
            beside = self.widen(crossing, 1.0) > 0.0
            found = found[~(beside[found[:, 0]] & beside[self.topology.faces[found[:, 1]]].any(axis=1))]
            kinds = wp.empty(len(found), dtype=wp.int8, device="cpu")
            left = wp.array(found, dtype=wp.vec2i, device="cpu")
            vertex_triangle_kinds(colour_table(tangle), finder.mesh.faces, left, kinds)
            found = found[kinds.numpy() == REPEL]
        near: Any = Gaps()
        near.pairs = wp.array(found[np.lexsort((found[:, 1], found[:, 0]))], dtype=wp.vec2i, device="cpu")
        near.weights, near.normals = (wp.empty(len(found), dtype=wp.vec3d, device="cpu") for _ in range(2))
        near.gaps = wp.empty(len(found), dtype=wp.float64, device="cpu")
        floor = wp.array(least, dtype=wp.float64, device="cpu")
        launch(measure_gaps, len(found), [finder.mesh, floor, wp.float64(most), near])
        return near

    def strains(self, x: Floats) -> Floats:
        """(edges,) relative difference of each edge from the length to restore."""
        a, b = self.edges.T
        strains: Floats = (np.linalg.norm(x[b] - x[a], axis=1) - self.lengths) / self._measure
        return strains

    def worst_strain(self, x: Floats) -> Floats:
        """(n,) the largest magnitude of strain of the edges at each vertex, minus the strain at the start."""
        strains = np.abs(self.strains(x)) - self._start_strains
        worst = np.zeros(self.count)
        np.maximum.at(worst, self.edges.ravel(), np.repeat(strains, 2))
        return worst


def _stitch(start: Floats, seams: Ints) -> Any:
    """Stitches as arrays: vertices, position of the nearest point along bc (0 to 1), offset of a from there."""
    a, b, c = start[seams].transpose(1, 0, 2)
    along = c - b
    square = np.einsum("ij,ij->i", along, along)
    along_edge = np.einsum("ij,ij->i", a - b, along) / np.where(square > 0.0, square, 1.0)
    along_edge = np.clip(along_edge, 0.0, 1.0)
    stitches: Any = Stitches()
    stitches.vertices = wp.array(seams, dtype=wp.vec3i, device="cpu")
    stitches.along = wp.array(along_edge, dtype=wp.float64, device="cpu")
    stitches.offsets = wp.array(a - b - along_edge[:, None] * along, dtype=wp.vec3d, device="cpu")
    return stitches
