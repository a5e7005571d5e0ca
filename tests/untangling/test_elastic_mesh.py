"""The operations of the untangler, each against something plain."""

from collections import deque

import numpy as np
import pytest
import tangled_shapes as tangled
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.analysis import Analyser
from weft.analysis.attraction import Moves
from weft.analysis.spreading import SPREAD_FACTOR, SPREAD_RINGS
from weft.geometry.intersection import IntersectionFinder, intersections
from weft.mesh import TriMesh, shapes
from weft.untangling.elastic_mesh import ElasticMesh
from weft.untangling.untangler import Settler

NO_SEAMS = np.zeros((0, 3), dtype=np.int32)


def elastic(mesh: TriMesh, seams: np.ndarray = NO_SEAMS, goal: np.ndarray | None = None) -> ElasticMesh:
    analyser = Analyser(mesh.faces, len(mesh.vertices))
    return ElasticMesh(analyser, np.array(mesh.vertices), np.array(mesh.edge_lengths if goal is None else goal), seams)


def rings(mesh: TriMesh, source: int) -> np.ndarray:
    """How many edges away every vertex is."""
    away = np.full(len(mesh.vertices), -1)
    away[source] = 0
    queue = deque([source])
    while queue:
        v = queue.popleft()
        for other in mesh.vertex_neighbours.row(v):
            if away[other] < 0:
                away[other] = away[v] + 1
                queue.append(other)
    return away


def test_values_widen_ring_by_ring() -> None:
    mesh = shapes.grid((1.0, 1.0), (9, 9))
    values = np.zeros(100)
    values[[3, 77]] = 4.0, 9.0
    expected = np.maximum(np.maximum(4.0 - 1.5 * rings(mesh, 3), 9.0 - 1.5 * rings(mesh, 77)), 0.0)
    assert np.allclose(elastic(mesh).widen(values, 1.5), expected)


def test_a_lone_move_carries_its_surroundings_along() -> None:
    mesh = shapes.grid((1.0, 1.0), (50, 50))
    centre = 25 * 51 + 25
    moves = Moves(np.array([[centre]]), np.array([[1.0]]), np.array([[0.0, 1.0, 0.0]]))
    moved = elastic(mesh).displacements([(moves, np.array([0.5]))])
    away = rings(mesh, centre)
    assert moved[centre].tolist() == [0.0, 0.5, 0.0] and not moved[:, [0, 2]].any()
    # less and less, and nothing beyond the last ring
    heights = [moved[away == ring, 1].mean() for ring in range(min(SPREAD_RINGS, away.max()) + 1)]
    assert np.diff(heights).max() < 0.0 and heights[1] > 0.5 * SPREAD_FACTOR * 0.5
    assert not moved[away > SPREAD_RINGS].any()


def test_moves_that_meet_are_averaged_by_weight() -> None:
    mesh = shapes.grid((1.0, 1.0), (2, 2))
    vertices, weights = np.array([[0, 1], [0, 2]]), np.array([[1.0, -1.0], [3.0, -0.5]])
    directions = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    moved = elastic(mesh).displacements([(Moves(vertices, weights, directions), np.array([1.0, 2.0]))])
    assert np.allclose(moved[0], (1.0 * np.array([1.0, 0.0, 0.0]) + 3.0 * np.array([0.0, 2.0, 0.0])) / 4.0)
    assert np.allclose(moved[1], [-1.0, 0.0, 0.0]) and np.allclose(moved[2], [0.0, -2.0, 0.0])


def test_flat_sheets_are_not_changed_by_bending_and_folds_are_flattened() -> None:
    mesh = shapes.grid((1.0, 1.0), (10, 10), diagonals="same")
    elastic_mesh = elastic(mesh)
    everywhere, nowhere = np.ones(121), np.zeros(121)
    inner = np.abs(mesh.vertices[:, [0, 2]]).max(axis=1) < 0.25
    flat = elastic_mesh.smooth(mesh.vertices, everywhere * inner, nowhere, 5)
    assert np.allclose(flat, mesh.vertices, atol=1e-12)
    spike = np.array(mesh.vertices)
    spike[60, 1] = 0.3
    heights = [elastic_mesh.smooth(spike, everywhere, nowhere, passes)[60, 1] for passes in (0, 5, 20)]
    assert heights[0] == 0.3 and heights[0] > heights[1] > heights[2] and heights[2] < 0.1
    # nothing moves where nothing gives way
    assert elastic_mesh.smooth(spike, nowhere, nowhere, 5) is spike


def test_lengths_are_restored() -> None:
    mesh = shapes.grid((1.0, 1.0), (8, 8))
    elastic_mesh = elastic(mesh)
    stretched = mesh.vertices * [1.2, 1.0, 1.2]
    relaxed = elastic_mesh.relax(stretched, np.ones(len(mesh.edges)), 200)
    assert np.abs(elastic_mesh.strains(relaxed)).max() < 0.01 < np.abs(elastic_mesh.strains(stretched)).max()
    assert np.allclose(relaxed.mean(axis=0), stretched.mean(axis=0))
    assert np.array_equal(elastic_mesh.relax(stretched, np.zeros(len(mesh.edges)), 5), stretched)


def test_rest_lengths_are_aimed_at_where_it_was_tangled() -> None:
    mesh = shapes.grid((1.0, 1.0), (4, 4))
    elastic_mesh = elastic(mesh, goal=2.0 * mesh.edge_lengths)
    activity = np.where(mesh.vertices[:, 0] > 0.2, 1.0, 0.0)
    elastic_mesh.aim(activity)
    ends = activity[elastic_mesh.edges].min(axis=1)
    start = np.linalg.norm(mesh.vertices[elastic_mesh.edges[:, 1]] - mesh.vertices[elastic_mesh.edges[:, 0]], axis=1)
    assert np.allclose(elastic_mesh.lengths, np.where(ends == 1.0, 2.0, 1.0) * start)


def test_stitches_hold_their_places() -> None:
    grid = shapes.grid((1.0, 1.0), (4, 4))
    vertices, faces = tangled.join((grid.vertices, grid.faces), (grid.vertices + [1.01, 0.0, 0.05], grid.faces))
    mesh = TriMesh(vertices, faces)
    a = np.flatnonzero(grid.vertices[:, 0] > 0.49)[1:]
    rim = np.flatnonzero(grid.vertices[:, 0] < -0.49) + 25
    seams = np.column_stack([a, rim[:-1], rim[1:]]).astype(np.int32)
    elastic_mesh = elastic(mesh, seams)
    away = vertices + np.where(np.arange(50) < 25, 0.0, 0.2)[:, None]
    back = elastic_mesh.relax(away, np.ones(len(mesh.edges)), 100)
    part = np.einsum("ij,ij->i", vertices[a] - vertices[rim[:-1]], vertices[rim[1:]] - vertices[rim[:-1]])
    part /= ((vertices[rim[1:]] - vertices[rim[:-1]]) ** 2).sum(axis=1)
    for x in (vertices, back):
        gap = x[a] - (1.0 - part[:, None]) * x[rim[:-1]] - part[:, None] * x[rim[1:]]
        assert np.allclose(gap, [-0.01, 0.0, 0.0], atol=1e-3)
    assert set(elastic_mesh.sewn_to(np.array([a[0]])).tolist()) == {rim[0], rim[1]}


@pytest.mark.parametrize("distance", [0.05, 0.15])
def test_gaps_are_kept_and_opened(distance: float) -> None:
    grid = shapes.grid((1.0, 1.0), (6, 6))
    vertices, faces = tangled.join((grid.vertices, grid.faces), (grid.vertices + [0.01, distance, 0.02], grid.faces))
    elastic_mesh = elastic(TriMesh(vertices, faces))
    gaps = elastic_mesh.find_gaps(vertices, 0.2, np.full(len(vertices), 0.1), 0.12)
    # every vertex sees triangles of the other sheet, none sees its own
    pairs = gaps.pairs.numpy()
    assert set(pairs[:, 0].tolist()) == set(range(len(vertices)))
    assert ((pairs[:, 0] < 49) != (faces[pairs[:, 1], 0] < 49)).all()
    assert np.allclose(gaps.gaps.numpy().min(), np.clip(distance, 0.1, 0.12))
    pressed = vertices * [1.0, 0.2, 1.0]
    relaxed = elastic_mesh.relax(pressed, np.ones(len(elastic_mesh.edges)), 50, gaps)
    # pairs that see one another aslant ask for a little more
    opened = relaxed[49:, 1] - relaxed[:49, 1]
    assert opened.min() > 0.95 * np.clip(distance, 0.1, 0.12) and opened.max() < 0.16


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 0.5))
def test_safe_moves_never_cross(seed: int, strength: float) -> None:
    rng = np.random.default_rng(seed)
    grid = shapes.grid((1.0, 1.0), (8, 8))
    vertices, faces = tangled.join((grid.vertices, grid.faces), (grid.vertices + [0.003, 0.02, 0.001], grid.faces))
    elastic_mesh = elastic(TriMesh(vertices, faces))
    settler = Settler(elastic_mesh, IntersectionFinder(faces), vertices, 0.0)
    wanted = vertices + strength * rng.normal(size=vertices.shape)
    moved = settler.move_safely(vertices, wanted)
    assert len(intersections(moved, faces)) == 0
    again = settler.move_safely(moved, wanted)
    assert len(intersections(again, faces)) == 0
    assert (moved != vertices).any()
