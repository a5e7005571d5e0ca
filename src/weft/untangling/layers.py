"""Paths that part two layers only together: a skirt half inside and half outside of another one.

There the sheets cross along two paths from waist to hem. Neither of them alone has an inside, since a cut from rim to
rim does not part a tube; together they do. Shortening each for itself would drag the rims along the cloth, so all such
paths between two cloths that do not hang together are taken as one, and what they part is pulled like the inside of
any other path.

A path ends where the rim of one cloth passes through the other, which is near the rim of that one too, but seldom on
it. From there the curve is led on to the rim by the shortest way, if it is short.
"""

from collections import deque
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, spatial

from weft.analysis.analyser import Analysis, vertex_areas
from weft.analysis.colour import DIVIDES, Regions
from weft.analysis.walk import BOUNDARY, Walk
from weft.mesh.topology import Csr, Topology

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# triangles from the end of a curve to the rim, at most
TO_THE_RIM = 12
# and edges on these ways for each crossing of the paths, at most: else only rims cross, as where cuffs catch
LED_ON = 0.1
# sides of two layers belong together if this part of the vertices, at least, faces the side that it should
FACING = 0.6


class Joined(NamedTuple):
    """Paths taken together."""

    paths: Bools
    """(paths,) which ones of the analysis they are"""
    analysis: Analysis
    """with one path for each two cloths, that divides both"""


def join_paths(analysis: Analysis, paths: Bools) -> Joined | None:
    """Join those of the chosen paths that part two cloths only together; None where there are none."""
    topology = analysis.topology
    component = topology.components
    lies = component[topology.edges[analysis.edge, 0]]
    meets = component[topology.faces[analysis.face, 0]]
    low, high = np.minimum(lies, meets), np.maximum(lies, meets)
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
        led_on = [_way_to_rim(topology, int(face)) for face in analysis.face[ends]]
        more = np.concatenate(led_on)
        if len(more) > LED_ON * len(nodes):
            continue
        inside = _inside(analysis, np.concatenate([analysis.edge[nodes], more]), cloths)
        if inside is not None:
            joined |= members
            groups.append(nodes)
            insides.append([np.flatnonzero(inside & (component == cloth)) for cloth in cloths])
    if not groups:
        return None
    sheets = [(lies[nodes] != low[nodes]).astype(np.int32) for nodes in groups]
    return Joined(joined, _as_one(analysis, groups, sheets, insides))


def _inside(analysis: Analysis, cuts: Ints, cloths: tuple[int, int]) -> Bools | None:
    """(n,) the vertices on the smaller of the two sides into which curves part two cloths; None if they do not."""
    topology, x = analysis.topology, analysis.positions
    sides = _two_sides(topology, cuts)
    members = [np.flatnonzero(topology.components == cloth) for cloth in cloths]
    if any((sides[m] < 0).any() for m in members):
        return None
    # sides are numbered by chance on each cloth: those that face one another get the same number
    _, nearest = spatial.cKDTree(x[members[1]]).query(x[members[0]])
    facing = float((sides[members[0]] == sides[members[1]][nearest]).mean())
    if max(facing, 1.0 - facing) < FACING:
        return None
    if facing < 0.5:
        sides[members[1]] = 1 - sides[members[1]]
    both = np.concatenate(members)
    areas = np.bincount(sides[both], vertex_areas(topology, x)[both], 2)
    inside = np.zeros(topology.vertex_count, dtype=bool)
    inside[both] = sides[both] == np.argmin(areas)
    return inside


def _way_to_rim(topology: Topology, face: int) -> Ints:
    """The edges that the shortest way from a triangle out of the mesh crosses; none if it is long."""
    came: dict[int, tuple[int, int]] = {face: (-1, 0)}
    queue = deque([face])
    while queue:
        here = queue.popleft()
        for edge in topology.face_edges[here].tolist():
            beyond = [f for f in topology.edge_faces[edge].tolist() if f != here]
            if beyond == [-1]:
                # back from the rim
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
    """(n,) 0 or 1, different across an edge exactly where it is cut an odd number of times; -1 where that cannot be."""
    count = topology.vertex_count
    a, b = topology.edges.T.astype(np.int64)
    odd = np.bincount(cuts, minlength=len(topology.edges)) % 2
    # every vertex twice, once for each side: an edge that is cut leads from one to the other
    rows = np.concatenate([a, a + count])
    columns = np.concatenate([b + count * odd, b + count * (1 - odd)])
    graph = sparse.coo_array((np.ones(len(rows), np.int8), (rows, columns)), shape=(2 * count, 2 * count))
    _, labels = sparse.csgraph.connected_components(graph, directed=False)
    one, other = labels[:count], labels[count:]
    return np.where(one == other, -1, (one > other).astype(np.int32)).astype(np.int32)


def _as_one(
    analysis: Analysis, groups: list[NDArray[np.int64]], sheets: list[Ints], insides: list[list[NDArray[np.int64]]]
) -> Analysis:
    """The crossings of each group as one path, with what is inside on both sheets."""
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
    regions = Regions(np.full(2 * len(groups), DIVIDES, dtype=np.int32), _rows(vertices), _rows(faces))
    return Analysis(topology, analysis.positions, analysis.length, walk, regions, 0)


def _rows(rows: list[Ints]) -> Csr:
    return Csr(np.cumsum([0, *map(len, rows)]).astype(np.int32), np.concatenate(rows))
