"""The analysis again, slowly and in the plainest way: exact numbers, dictionaries, whole floods."""

from fractions import Fraction
from itertools import combinations

import numpy as np

from weft.analysis.orientation import NOISE, unit_noise

Node = tuple[tuple[int, int], int]


def exact_points(vertices: np.ndarray, length: float) -> list[list[Fraction]]:
    """The vertices with their noise, as exact numbers."""
    noise = (NOISE * length) * unit_noise(len(vertices))
    return [
        [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(v, n, strict=True)]
        for v, n in zip(vertices, noise, strict=True)
    ]


def orientation(points: list[list[Fraction]], quad: tuple[int, int, int, int]) -> int:
    o, a, b, c = (points[i] for i in quad)
    u, v, w = ([p[k] - o[k] for k in range(3)] for p in (a, b, c))
    det = u[0] * (v[1] * w[2] - v[2] * w[1]) + u[1] * (v[2] * w[0] - v[0] * w[2]) + u[2] * (v[0] * w[1] - v[1] * w[0])
    return (det > 0) - (det < 0)


def exact_crossings(vertices: np.ndarray, faces: np.ndarray, length: float) -> set[Node]:
    """Every edge through every triangle without a common vertex, by rational arithmetic; none may be in a plane."""
    points = exact_points(vertices, length)
    edges = sorted({tuple(sorted(pair)) for face in faces.tolist() for pair in combinations(face, 2)})
    low = np.array([vertices[list(e)].min(axis=0) for e in edges]) - 1e-6
    high = np.array([vertices[list(e)].max(axis=0) for e in edges]) + 1e-6
    found: set[Node] = set()
    for number, (a, b, c) in enumerate(faces.tolist()):
        corners = vertices[[a, b, c]]
        near = (low <= corners.max(axis=0)).all(axis=1) & (high >= corners.min(axis=0)).all(axis=1)
        for k in np.flatnonzero(near):
            p, q = edges[k]
            if {p, q} & {a, b, c}:
                continue
            sides = orientation(points, (p, a, b, c)), orientation(points, (q, a, b, c))
            turns = {orientation(points, (p, q, s, t)) for s, t in ((a, b), (b, c), (c, a))}
            assert 0 not in sides
            if sides[0] != sides[1]:
                assert 0 not in turns
                if len(turns) == 1:
                    found.add(((p, q), number))
    return found


def edge_triangles(faces: np.ndarray) -> dict[tuple[int, int], list[int]]:
    beside: dict[tuple[int, int], list[int]] = {}
    for number, face in enumerate(faces.tolist()):
        for pair in combinations(sorted(face), 2):
            beside.setdefault(pair, []).append(number)
    return beside


def linked_paths(faces: np.ndarray, nodes: set[Node]) -> tuple[list[set[Node]], list[list[int]], int]:
    """The connected runs of nodes, the loop vertices of each, and how many ends are neither these nor boundaries."""
    beside = edge_triangles(faces)
    segments: dict[frozenset[int], list[Node]] = {}
    for node in nodes:
        for triangle in beside[node[0]]:
            segments.setdefault(frozenset((triangle, node[1])), []).append(node)
    neighbours: dict[Node, set[Node]] = {node: set() for node in nodes}
    loops: dict[Node, list[int]] = {node: [] for node in nodes}
    broken = 0
    for pair, ends in segments.items():
        if len(ends) == 2:
            neighbours[ends[0]].add(ends[1])
            neighbours[ends[1]].add(ends[0])
            continue
        shared = set.intersection(*(set(faces[t].tolist()) for t in pair))
        if len(ends) == 1 and len(shared) == 1:
            loops[ends[0]] += list(shared)
        else:
            broken += 1
    paths, open_nodes = [], set(nodes)
    while open_nodes:
        path, front = set(), [min(open_nodes)]
        while front:
            node = front.pop()
            if node not in path:
                path.add(node)
                front += neighbours[node]
        paths.append(path)
        open_nodes -= path
    return paths, [sorted(v for node in path for v in loops[node]) for path in paths], broken


def sheets_of(faces: np.ndarray, path: set[Node]) -> dict[Node, int]:
    """On which of the two sheets the edge of each node lies, up to exchange."""
    beside = edge_triangles(faces)
    sheet = {min(path): 0}
    front = [min(path)]
    while front:
        node = front.pop()
        for other in path:
            # one segment: the same pair of triangles; the same face again means the same sheet
            pairs = {frozenset((t, node[1])) for t in beside[node[0]]}
            if other not in sheet and pairs & {frozenset((t, other[1])) for t in beside[other[0]]}:
                sheet[other] = sheet[node] if other[1] == node[1] else 1 - sheet[node]
                front.append(other)
    return sheet


def parity_labels(faces: np.ndarray, cuts: dict[tuple[int, int], int], blocked: set[int], seed: int) -> dict[int, int]:
    """Labels of all vertices connected with the seed that differ across edges cut oddly often; none if impossible."""
    around: dict[int, set[int]] = {}
    for a, b in edge_triangles(faces):
        around.setdefault(a, set()).add(b)
        around.setdefault(b, set()).add(a)
    labels, front = {seed: 0}, [seed]
    while front:
        v = front.pop()
        for other in around[v] - blocked:
            label = labels[v] ^ (cuts.get((min(v, other), max(v, other)), 0) & 1)
            if other not in labels:
                labels[other] = label
                front.append(other)
            elif labels[other] != label:
                return {}
    return labels


def inside_of(faces: np.ndarray, edges: list[tuple[int, int]], passed: set[int], blocked: set[int]) -> list[set[int]]:
    """The two sides of a curve that cuts these edges and passes these triangles; none where it does not divide."""
    cuts: dict[tuple[int, int], int] = {}
    for edge in edges:
        cuts[edge] = cuts.get(edge, 0) + 1
    seed = min(v for t in passed for v in faces[t].tolist() if v not in blocked)
    labels = parity_labels(faces, cuts, blocked, seed)
    # a curve that ends inside a triangle cuts its border an odd number of times
    for t in passed:
        corners = faces[t].tolist()
        if not set(corners) & blocked and sum(cuts.get(p, 0) for p in combinations(sorted(corners), 2)) % 2:
            return []
    if not labels:
        return []
    return [{v for v, label in labels.items() if label == side} for side in (0, 1)]
