"""One round of static untangling: pull back, shorten paths, spread the displacements, restore lengths and gaps.

Even rounds pull vertices inside a path back through the other sheet, and shorten the paths that have no inside; odd rounds
shorten all paths. The displacements spread over the mesh, and edge lengths are restored. What is free keeps its gaps: the
cloth around a tangle that is parted would else go through the next layer, whose tangle would push it back. Where the same
place stays tangled, the cloth around it yields step by step, in an area that grows: first its folds are flattened, then its
lengths are no longer restored, at last it contracts like a soap film. Stretched cloth is restored when nothing crosses any
more (`Settler`).

Some paths divide two layers only together: where a skirt is half inside and half outside of another one, the sheets cross
along two paths from waist to hem. A cut from rim to rim does not divide a tube, so neither path has an inside; both together
do. Shortening each of them would drag the rims along the cloth. So all such paths between two unconnected cloths are treated
as one, and its inside is pulled back like that of any other path. Such a path ends where the rim of one cloth passes through
the other, usually a few triangles away from the other's own rim; the curve is extended to that rim by the shortest way, if
that is short.
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, spatial

from weft.analysis.analyser import Analysis
from weft.analysis.attraction import Moves, contour_moves
from weft.analysis.colour import DIVIDES, Regions
from weft.analysis.partners import attraction_moves, find_partners, pulling_paths
from weft.analysis.walk import BOUNDARY, Walk
from weft.mesh.topology import Csr, Topology
from weft.untangling.elastic_mesh import ElasticMesh
from weft.untangling.sides import Sides

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# joined paths: most triangles between the end of a curve and the rim
TO_THE_RIM = 12
# joined paths: most edges on the extensions to the rims, as a fraction of the number of crossings; with more of them only
# rims cross, as where cuffs catch each other
MOST_EXTENSION = 0.1
# joined paths: least fraction of the vertices of one cloth whose nearest vertex of the other is on the same side; below it
# the sides of the two layers cannot be matched
MATCHING_SIDES = 0.6
# edge lengths by which shortening a path moves each of its two sides in a round; longer steps overshoot and cross again
CONTOUR_STEP = 0.6
# a vertex that is pulled moves this fraction of the way to its partner, and a little beyond; beyond, least and most are in
# edge lengths
PULL_FRACTION, PULL_BEYOND, PULL_LEAST, PULL_MOST = 0.5, 0.1, 0.25, 2.0
# round from which paths are no longer joined: what is tangled then is freed sooner by shortening each path
JOIN_ROUNDS = 24
# edge lengths: the gap that free cloth keeps in a round, and how far off other cloth is looked for
KEPT_GAP, GAP_REACH = 0.2, 1.0
# sweeps over the edge lengths in a round
LENGTH_SWEEPS = 6
# rounds for which a place has been tangled before its folds are flattened, its lengths are given up, and it contracts; each
# begins gradually and is complete after twice as many rounds. Earlier means fewer rounds but more distorted cloth
BENDS_AFTER, GIVES_AFTER, SHRINKS_AFTER = 3.0, 30.0, 80.0
# rounds after which the next ring of neighbours yields too
ROUNDS_A_RING = 10.0
# passes of smoothing in a round, while the yielding area is small
SMOOTHING_PASSES = 6
# open paths of at most so many crossings are smoothed from the first round: too short for their direction to be reliable
SMALL_PATH = 6
# rounds after which edges begin to aim at the lengths of the rest shape, completely after twice as many; the area grows by a
# ring a round
RESTS_AFTER = 4.0


class JoinedPaths(NamedTuple):
    """Paths that are treated as one."""

    paths: Bools
    """(paths,) which paths of the analysis were joined"""
    analysis: Analysis
    """an analysis with one path for each pair of cloths, which divides both"""


def join_paths(analysis: Analysis, paths: Bools, areas: Floats) -> JoinedPaths | None:
    """Join those of the chosen paths that divide two cloths only together; None if there are none.

    `areas` (n,) are those of the vertices: the inside is the smaller side.
    """
    topology = analysis.topology
    component = topology.components
    edge_cloth = component[topology.edges[analysis.edge, 0]]
    face_cloth = component[topology.faces[analysis.face, 0]]
    low, high = np.minimum(edge_cloth, face_cloth), np.maximum(edge_cloth, face_cloth)
    first = analysis.path_offsets[:-1]
    able = paths & ~analysis.closed & ~analysis.single & (low != high)[first]
    pair_of = np.where(able, low[first].astype(np.int64) * (component.max(initial=0) + 1) + high[first], -1)

    joined = np.zeros(len(analysis), dtype=bool)
    groups, insides = [], []
    for pair in np.unique(pair_of[able]):
        members = pair_of == pair
        nodes = np.flatnonzero(members[analysis.path_of])
        cloths = int(low[nodes[0]]), int(high[nodes[0]])
        ends = np.concatenate([first[members], analysis.path_offsets[1:][members] - 1])
        extensions = [_way_to_rim(topology, int(face)) for face in analysis.face[ends]]
        extension = np.concatenate(extensions)
        if len(extension) > MOST_EXTENSION * len(nodes):
            continue
        inside = _inside(analysis, np.concatenate([analysis.edge[nodes], extension]), cloths, areas)
        if inside is not None:
            joined |= members
            groups.append(nodes)
            insides.append([np.flatnonzero(inside & (component == cloth)) for cloth in cloths])
    if not groups:
        return None
    sheets = [(edge_cloth[nodes] != low[nodes]).astype(np.int32) for nodes in groups]
    return JoinedPaths(joined, _as_one(analysis, groups, sheets, insides))


def _inside(analysis: Analysis, cuts: Ints, cloths: tuple[int, int], areas: Floats) -> Bools | None:
    """(n,) the vertices on the smaller of the two sides into which the cut edges divide two cloths; None if they do not."""
    topology, x = analysis.topology, analysis.positions
    sides = _two_sides(topology, cuts)
    members = [np.flatnonzero(topology.components == cloth) for cloth in cloths]
    if any((sides[m] < 0).any() for m in members):
        return None
    # sides are numbered arbitrarily on each cloth: give sides next to one another the same number
    _, nearest = spatial.cKDTree(x[members[1]]).query(x[members[0]])
    facing = float((sides[members[0]] == sides[members[1]][nearest]).mean())
    if max(facing, 1.0 - facing) < MATCHING_SIDES:
        return None
    if facing < 0.5:
        sides[members[1]] = 1 - sides[members[1]]
    both = np.concatenate(members)
    total = np.bincount(sides[both], areas[both], 2)
    inside = np.zeros(topology.vertex_count, dtype=bool)
    inside[both] = sides[both] == np.argmin(total)
    return inside


def _way_to_rim(topology: Topology, face: int) -> Ints:
    """The edges that the shortest way from a triangle to the rim of the mesh crosses; empty if it is too long."""
    came: dict[int, tuple[int, int]] = {face: (-1, 0)}
    queue = deque([face])
    while queue:
        here = queue.popleft()
        for edge in topology.face_edges[here].tolist():
            beyond = [f for f in topology.edge_faces[edge].tolist() if f != here]
            if beyond == [-1]:
                # back from the rim to the start
                edges = [edge]
                while came[here][0] >= 0:
                    here, edge = came[here][0], _common_edge(topology, here, came[here][0])
                    edges.append(edge)
                return np.array(edges, dtype=np.int32)
            for other in beyond:
                if other not in came and came[here][1] < TO_THE_RIM:
                    came[other] = (here, came[here][1] + 1)
                    queue.append(other)
    return np.zeros(0, dtype=np.int32)


def _common_edge(topology: Topology, one: int, other: int) -> int:
    return int(np.intersect1d(topology.face_edges[one], topology.face_edges[other])[0])


def _two_sides(topology: Topology, cuts: Ints) -> Ints:
    """(n,) labels 0 and 1 that differ across an edge exactly where it is cut an odd number of times; -1 where impossible."""
    count = topology.vertex_count
    a, b = topology.edges.T.astype(np.int64)
    odd = np.bincount(cuts, minlength=len(topology.edges)) % 2
    # a graph with every vertex twice, once for each side: a cut edge leads from one side to the other
    rows = np.concatenate([a, a + count])
    columns = np.concatenate([b + count * odd, b + count * (1 - odd)])
    graph = sparse.coo_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(2 * count, 2 * count))
    _, labels = sparse.csgraph.connected_components(graph, directed=False)
    one, other = labels[:count], labels[count:]
    return np.where(one == other, -1, (one > other).astype(np.int32)).astype(np.int32)


def _as_one(
    analysis: Analysis, groups: list[NDArray[np.int64]], sheets: list[Ints], insides: list[list[NDArray[np.int64]]]
) -> Analysis:
    """An analysis in which the crossings of each group are one path with these insides on both sheets."""
    topology = analysis.topology
    vertices: list[Ints] = []
    faces: list[Ints] = []
    for nodes, sheet, inside in zip(groups, sheets, insides, strict=True):
        for side in range(2):
            mask = np.zeros(topology.vertex_count, dtype=bool)
            mask[inside[side]] = True
            own, other = nodes[sheet == side], nodes[sheet != side]
            passed = np.concatenate([topology.edge_faces[analysis.edge[own]].ravel(), analysis.face[other]])
            whole = np.flatnonzero(mask[topology.faces].all(axis=1))
            vertices.append(inside[side].astype(np.int32))
            faces.append(np.unique(np.concatenate([passed[passed >= 0], whole])).astype(np.int32))
    kept = np.concatenate(groups)
    walk = Walk(
        analysis.edge[kept],
        analysis.face[kept],
        np.concatenate(sheets),
        np.cumsum([0, *map(len, groups)]).astype(np.int32),
        np.full((len(groups), 2), BOUNDARY, dtype=np.int32),
    )
    regions = Regions(np.full(2 * len(groups), DIVIDES, dtype=np.int32), _lists(vertices), _lists(faces))
    return Analysis(topology, analysis.positions, analysis.length, walk, regions, 0)


def _lists(lists: list[Ints]) -> Csr:
    return Csr(np.cumsum([0, *map(len, lists)]).astype(np.int32), np.concatenate(lists))


class Yielding:
    """Where and how much the cloth yields, from the number of rounds for which each vertex has been tangled."""

    def __init__(self, mesh: ElasticMesh) -> None:
        self.mesh = mesh
        self.rounds = np.zeros(mesh.count)
        self._wide = self.rounds

    def count(self, vertices: Ints) -> None:
        """Count one more round in which these vertices are tangled."""
        self.rounds[vertices] += 1.0
        self._wide = self.mesh.widen(self.rounds, ROUNDS_A_RING)
        near = self.mesh.widen(self.rounds, 1.0)
        self.mesh.aim(np.clip(near / RESTS_AFTER - 1.0, 0.0, 1.0))

    def _since(self, limit: float) -> Floats:
        return np.clip(self._wide / limit - 1.0, 0.0, 1.0)

    @property
    def bending(self) -> Floats:
        """(n,) 0 to 1: how much folds are flattened."""
        return self._since(BENDS_AFTER)

    @property
    def membrane(self) -> Floats:
        """(n,) 0 to 1: how much the cloth contracts."""
        return self._since(SHRINKS_AFTER)

    @property
    def stiffness(self) -> Floats:
        """(edges,) 0 to 1: how much lengths are restored."""
        given = self._since(GIVES_AFTER)
        stiff: Floats = 1.0 - given[self.mesh.edges].max(axis=1)
        return stiff

    @property
    def smoothing_passes(self) -> int:
        """Passes of smoothing: more as the yielding area grows."""
        return SMOOTHING_PASSES + int(self.rounds.max() / ROUNDS_A_RING)


def one_round(mesh: ElasticMesh, analysis: Analysis, yielding: Yielding, number: int, sides: Sides) -> Floats:
    """The positions after round `number`, from those of the analysis; the sides are those at the same positions."""
    paths = np.ones(len(analysis), dtype=bool)
    moves: list[tuple[Moves, Floats]] = []
    known, in_solids = sides.known(analysis)
    early = number < JOIN_ROUNDS
    joined = join_paths(analysis, ~pulling_paths(analysis) & ~in_solids, sides.areas) if early else None
    if joined is not None:
        paths &= ~joined.paths
        moves.append(_pull(mesh, joined.analysis, np.ones(len(joined.analysis), dtype=bool)))
    # a path that gets shorter may pass to the wrong side: at first it is pulled in all rounds where the side is known
    pulled = paths & pulling_paths(analysis) & (known | (number % 2 == 0) if early else number % 2 == 0)
    if in_solids.any() and (early or number % 2 == 0):
        pulled &= ~in_solids | sides.wholly_inside(analysis)
        paths &= ~in_solids
        moves.append(_leave(mesh, *sides.ways_out(analysis, pulled)))
    paths &= ~pulled
    if pulled.any():
        moves.append(_pull(mesh, analysis, pulled))
    if paths.any():
        shorten = contour_moves(analysis, paths)
        moves.append((shorten, CONTOUR_STEP * mesh.step_lengths(shorten)))
    displacement = mesh.displacements(moves)
    x = analysis.positions + displacement

    yielding.count(analysis.crossing_vertices())
    bending = yielding.bending
    small = analysis.crossing_vertices(_small_paths(analysis))
    bending[small] = np.maximum(bending[small], 0.5)
    x = mesh.smooth(x, bending, yielding.membrane, yielding.smoothing_passes)
    tangles = [analysis] if joined is None else [analysis, joined.analysis]
    return mesh.relax(x, yielding.stiffness, LENGTH_SWEEPS, _free_gaps(mesh, tangles, displacement))


def _free_gaps(mesh: ElasticMesh, tangles: list[Analysis], displacement: Floats) -> Any:
    """The gaps (`Gaps`) that cloth outside of tangles keeps, so that what is parted is not pushed through what is near."""
    most = KEPT_GAP * mesh.length
    farthest = float(np.sqrt(np.einsum("ij,ij->i", displacement, displacement).max()))
    radius = min(most + 2.0 * farthest, GAP_REACH * mesh.length)
    return mesh.find_gaps(tangles[0].positions, radius, np.zeros(mesh.count), most, tangles)


def _pull(mesh: ElasticMesh, analysis: Analysis, paths: NDArray[np.bool_]) -> tuple[Moves, Floats]:
    """Moves of the vertices inside the chosen paths towards their partners, and the lengths of the moves."""
    partners = find_partners(mesh.analyser, analysis, paths, mesh.length)
    pull, distance = attraction_moves(analysis, partners)
    here = mesh.step_lengths(pull)
    step = np.clip(PULL_FRACTION * distance + PULL_BEYOND * here, PULL_LEAST * here, PULL_MOST * here)
    return pull, step


def _leave(mesh: ElasticMesh, ways: Moves, distance: Floats) -> tuple[Moves, Floats]:
    """The ways out of solids, and the lengths of the moves: a little beyond the surface."""
    here = mesh.step_lengths(ways)
    return ways, np.clip(distance + PULL_BEYOND * here, PULL_LEAST * here, PULL_MOST * here)


def _small_paths(analysis: Analysis) -> NDArray[np.bool_]:
    small: NDArray[np.bool_] = (np.diff(analysis.path_offsets) <= SMALL_PATH) & (analysis.single | ~analysis.closed)
    return small
