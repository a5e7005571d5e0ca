"""Attract, leave alone or repel: against the rule written out with sets."""

import numpy as np
import pytest
import warp as wp

from weft.analysis import Analyser
from weft.analysis.attraction import ATTRACT, NEITHER, REPEL, colour_table, edge_edge_kinds, vertex_triangle_kinds
from weft.analysis.colour import DIVIDES
from weft.analysis.partners import attraction_moves, find_partners, pulling_paths
from weft.mesh import shapes


def hilly():
    """Closed paths, and some that end at boundaries."""
    grid = shapes.grid((1.0, 1.0), (12, 12))
    upper = np.array(grid.vertices) + [0.0031, 0.0, 0.0017]
    upper[:, 1] = 0.09 * np.sin(9.0 * upper[:, 0]) * np.cos(7.0 * upper[:, 2]) + 0.03
    count = len(grid.vertices)
    return np.concatenate([grid.vertices, upper]), np.concatenate([grid.faces, grid.faces + count])


def crumpled():
    """Red regions too."""
    grid = shapes.grid((1.0, 1.0), (10, 10))
    rng = np.random.default_rng(5)
    return grid.vertices + 0.12 * rng.normal(size=(121, 3)), np.array(grid.faces)


def analysed(shape):
    vertices, faces = shape()
    analyser = Analyser(faces, len(vertices))
    return analyser, analyser.analyse(vertices)


class Rule:
    """What is to be done, from the paths alone."""

    def __init__(self, analysis):
        self.faces = analysis.topology.faces
        rows = analysis.region_vertices
        self.inside = [set(rows.row(r).tolist()) for r in range(2 * len(analysis))]
        self.triangles = [set(analysis.region_faces.row(r).tolist()) for r in range(2 * len(analysis))]
        self.red = [
            self.inside[2 * p] | self.inside[2 * p + 1] if analysis.single[p] else set() for p in range(len(analysis))
        ]
        self.pulling = [r for r in range(2 * len(analysis)) if not analysis.single[r // 2]]
        self.loose = []
        for p in range(len(analysis)):
            status = analysis.status[2 * p : 2 * p + 2]
            divides = status[0] == DIVIDES if analysis.single[p] else (status == DIVIDES).all()
            nodes = slice(*analysis.path_offsets[p : p + 2])
            beside = set(analysis.rows[nodes, :2].ravel().tolist())
            beside |= set(self.faces[analysis.face[nodes]].ravel().tolist())
            self.loose.append(set() if divides else beside)

    def left_alone(self, one, others):
        groups = [*self.red, *self.loose]
        return any(one in group and others & group for group in groups)

    def vertex_triangle(self, p, f):
        for r in self.pulling:
            if p in self.inside[r] and f in self.triangles[r ^ 1]:
                return ATTRACT
        return NEITHER if self.left_alone(p, set(self.faces[f].tolist())) else REPEL

    def edge_edge(self, one, other):
        for r in self.pulling:
            if set(one) <= self.inside[r] and set(other) <= self.inside[r ^ 1]:
                return ATTRACT
        return NEITHER if any(self.left_alone(v, set(other)) for v in one) else REPEL


@pytest.mark.parametrize("shape", [hilly, crumpled])
def test_pairs_of_a_vertex_and_a_triangle(shape):
    _, analysis = analysed(shape)
    rule = Rule(analysis)
    rng = np.random.default_rng(0)
    faces = analysis.topology.faces
    pairs = np.column_stack([rng.integers(0, faces.max() + 1, 20000), rng.integers(0, len(faces), 20000)])
    # enough of those that matter
    inner = np.unique(analysis.region_vertices.items)
    close = np.array([(v, f) for v in inner[:60] for f in np.unique(analysis.region_faces.items)])
    pairs = np.concatenate([pairs, close]).astype(np.int32)
    kinds = wp.zeros(len(pairs), dtype=wp.int8, device="cpu")
    vertex_triangle_kinds(
        colour_table(analysis), wp.array(faces, dtype=wp.vec3i), wp.array(pairs, dtype=wp.vec2i), kinds
    )
    expected = [rule.vertex_triangle(int(p), int(f)) for p, f in pairs]
    assert kinds.numpy().tolist() == expected
    assert set(expected) == {REPEL, ATTRACT, NEITHER}


@pytest.mark.parametrize("shape", [hilly, crumpled])
def test_pairs_of_edges(shape):
    _, analysis = analysed(shape)
    rule = Rule(analysis)
    rng = np.random.default_rng(0)
    edges = analysis.topology.edges
    pairs = rng.integers(0, len(edges), (30000, 2)).astype(np.int32)
    inner = np.flatnonzero(np.isin(edges, analysis.region_vertices.items).all(axis=1))
    pairs = np.concatenate([pairs, rng.choice(inner, (5000, 2))]).astype(np.int32)
    kinds = wp.zeros(len(pairs), dtype=wp.int8, device="cpu")
    edge_edge_kinds(colour_table(analysis), wp.array(edges, dtype=wp.vec2i), wp.array(pairs, dtype=wp.vec2i), kinds)
    expected = [rule.edge_edge(tuple(edges[a].tolist()), tuple(edges[b].tolist())) for a, b in pairs]
    assert kinds.numpy().tolist() == expected
    assert {REPEL, NEITHER} <= set(expected) and (shape is crumpled or ATTRACT in expected)


def nearest_point(p, a, b, c):
    """The nearest of many points of a triangle, refined; slow and sure."""
    best = np.array([1.0, 0.0, 0.0])
    span = 1.0
    for _ in range(30):
        s, t = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9))
        weights = best + span * np.stack([s.ravel(), t.ravel(), -s.ravel() - t.ravel()], axis=1)
        weights = np.clip(weights, 0.0, None)
        weights /= weights.sum(axis=1, keepdims=True)
        distance = np.linalg.norm(weights @ np.array([a, b, c]) - p, axis=1)
        best = weights[distance.argmin()]
        span *= 0.6
    return np.linalg.norm(best @ np.array([a, b, c]) - p)


@pytest.mark.parametrize("shape", [hilly, crumpled])
def test_partners_are_the_nearest_triangles_of_the_other_side(shape):
    analyser, analysis = analysed(shape)
    paths = pulling_paths(analysis)
    assert paths.any()
    partners = find_partners(analyser, analysis, paths, 10.0)
    x, faces = analysis.positions, analysis.topology.faces
    assert len(partners.vertex) == sum(
        len(analysis.region_vertices.row(r)) for r in range(2 * len(analysis)) if paths[r // 2]
    )
    for k in range(0, len(partners.vertex), max(1, len(partners.vertex) // 12)):
        v, other = partners.vertex[k], analysis.region_faces.row(partners.region[k] ^ 1)
        other = other[~(faces[other] == v).any(axis=1)]
        if not len(other):
            assert partners.face[k] == -1
            continue
        expected = min(nearest_point(x[v], *x[faces[f]]) for f in other)
        found = np.linalg.norm(partners.weights[k] @ x[faces[partners.face[k]]] - x[v])
        assert partners.face[k] in other
        assert found == pytest.approx(expected, abs=1e-6)
    # nothing is found beyond the reach
    near = find_partners(analyser, analysis, paths, 1e-8)
    assert (near.face == -1).sum() > 0.9 * len(near.face)


def test_vertices_are_moved_towards_their_partners():
    analyser, analysis = analysed(hilly)
    partners = find_partners(analyser, analysis, pulling_paths(analysis), 10.0)
    moves, distance = attraction_moves(analysis, partners)
    found = partners.face >= 0
    assert len(distance) == found.sum() and distance.min() > 0.0
    x = analysis.positions
    targets = np.einsum("ij,ijk->ik", partners.weights[found], x[analysis.topology.faces[partners.face[found]]])
    assert np.allclose(x[partners.vertex[found]] + distance[:, None] * moves.directions, targets)
    assert np.allclose(moves.weights.sum(axis=1), 0.0) and np.allclose(moves.weights[:, 0], 1.0)


def test_which_paths_pull():
    _, analysis = analysed(hilly)
    paths = pulling_paths(analysis)
    sizes = np.diff(analysis.region_vertices.offsets).reshape(-1, 2)
    divides = analysis.status.reshape(-1, 2) == DIVIDES
    assert np.array_equal(paths, (divides & (sizes > 0)).any(axis=1))
