"""Paths that part two layers only together: sides, ways to the rim, and what they do for skirts and capes."""

from collections import deque
from itertools import pairwise

import numpy as np
import pytest
import tangled_shapes as tangled
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.analysis import Analyser
from weft.analysis.analyser import vertex_areas
from weft.analysis.partners import pulling_paths
from weft.mesh import TriMesh, shapes
from weft.mesh.topology import Topology
from weft.untangling import untangle
from weft.untangling.rounds import _two_sides, _way_to_rim, join_paths


def skirt(waist: float, hem: float, around: int = 40, rows: int = 12) -> TriMesh:
    """A tube that widens downwards."""
    tube = shapes.cylinder(1.0, 0.5, segments=around, rings=rows)
    part = (tube.vertices[:, 1].max() - tube.vertices[:, 1]) / 0.5
    radius = (waist + (hem - waist) * part)[:, None]
    return tube.with_vertices(tube.vertices * np.concatenate([radius, np.ones_like(radius), radius], axis=1))


def two_skirts() -> tuple[np.ndarray, np.ndarray]:
    """One half inside and half outside of the other: they cross along two lines from waist to hem."""
    inner, outer = skirt(0.15, 0.4), skirt(0.15, 0.4)
    shifted = outer.vertices + [0.012, 0.004, 0.0023]
    return tangled.join((inner.vertices, inner.faces), (shifted, outer.faces))


def test_skirts_cross_in_paths_that_divide_only_together() -> None:
    vertices, faces = two_skirts()
    analysis = Analyser(faces, len(vertices)).analyse(vertices)
    alone = pulling_paths(analysis)
    assert analysis.crossings > 20 and (~alone).any()
    together = join_paths(analysis, ~alone, vertex_areas(analysis.topology, vertices))
    assert together is not None and len(together.analysis) == 1
    assert together.paths.any() and not (together.paths & alone).any()
    # about a half of each skirt, and the halves face one another
    black, white = (
        together.analysis.region_vertices.items[slice(*together.analysis.region_vertices.offsets[k : k + 2])]
        for k in range(2)
    )
    half = len(vertices) // 2
    assert (black < half).all() and (white >= half).all()
    assert 0.25 * half < len(black) < 0.75 * half and 0.25 * half < len(white) < 0.75 * half
    assert np.sign(vertices[black, 0].mean()) == np.sign(vertices[white, 0].mean())


def test_skirts_come_apart_and_keep_their_shape() -> None:
    vertices, faces = two_skirts()
    result = untangle(vertices, faces)
    assert result.free and len(result.rounds) <= 15
    assert result.moved.max() < 0.1 and max(map(abs, result.strain)) < 0.35


def test_three_capes_at_once() -> None:
    grid = shapes.grid((1.0, 1.0), (24, 24))
    cape = np.array(grid.vertices)
    cape[:, 1] = -0.8 * (cape[:, 0] ** 2 + cape[:, 2] ** 2)
    rng = np.random.default_rng(3)
    layers = [cape + 0.02 * tangled.smooth_noise(rng, 24, 3.0, 3) for _ in range(3)]
    vertices, faces = tangled.join(*((layer, grid.faces) for layer in layers))
    result = untangle(vertices, faces)
    assert result.rounds[0].intersections > 300
    assert result.free and result.moved.max() < 0.2 and max(map(abs, result.strain)) < 0.5


@pytest.mark.parametrize("shape", [tangled.crumpled, tangled.cuffs])
def test_one_cloth_and_cuffs_are_left_alone(shape: object) -> None:
    case = shape(1)  # type: ignore[operator]
    analysis = Analyser(case.faces, len(case.vertices)).analyse(case.vertices)
    assert join_paths(analysis, np.ones(len(analysis), dtype=bool), np.ones(len(case.vertices))) is None


def sides_by_walking(topology: Topology, odd: np.ndarray) -> np.ndarray | None:
    """Labels of a connected mesh by walking over its edges, 0 at the first vertex; None where they contradict."""
    around: list[list[tuple[int, int]]] = [[] for _ in range(topology.vertex_count)]
    for (a, b), flip in zip(topology.edges.tolist(), odd.tolist(), strict=True):
        around[a].append((b, flip))
        around[b].append((a, flip))
    label = np.full(topology.vertex_count, -1)
    label[0] = 0
    queue = deque([0])
    while queue:
        v = queue.popleft()
        for other, flip in around[v]:
            if label[other] < 0:
                label[other] = label[v] ^ flip
                queue.append(other)
            elif label[other] != label[v] ^ flip:
                return None
    return label


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 1000), consistent=st.booleans())
def test_sides_are_those_of_walking(seed: int, consistent: bool) -> None:
    rng = np.random.default_rng(seed)
    topology = Topology(np.array(shapes.grid((1.0, 1.0), (4, 3)).faces), 20)
    odd = rng.integers(0, 2, len(topology.edges))
    if consistent:
        wanted = rng.integers(0, 2, 20)
        odd = wanted[topology.edges[:, 0]] ^ wanted[topology.edges[:, 1]]
    # twice more changes nothing
    cuts = np.concatenate([np.flatnonzero(odd), [0, 0]]).astype(np.int32)
    expected, found = sides_by_walking(topology, odd), _two_sides(topology, cuts)
    if expected is None:
        assert (found == -1).all()
    else:
        assert np.array_equal(found ^ found[0], expected)


def test_ways_lead_out_of_the_mesh() -> None:
    mesh = shapes.grid((1.0, 1.0), (40, 40))
    topology = Topology(np.array(mesh.faces), len(mesh.vertices))
    middle = mesh.vertices[mesh.faces].mean(axis=1)
    away = 0.5 - np.abs(middle[:, [0, 2]]).max(axis=1)
    for face in (0, int(np.argmin(np.abs(away - 0.06)))):
        way = _way_to_rim(topology, face)
        # it starts at the rim, ends at the triangle, and each edge shares a triangle with the next
        assert topology.edge_counts[way[0]] == 1 and (topology.edge_counts[way[1:]] == 2).all()
        assert way[-1] in topology.face_edges[face]
        for one, other in pairwise(way):
            assert np.intersect1d(topology.edge_faces[one], topology.edge_faces[other]).size
        assert len(way) <= 2 + 2 * round(float(away[face]) / 0.025)
    # from the middle it is too far; a ball has no rim
    assert not len(_way_to_rim(topology, int(np.argmax(away))))
    ball = shapes.icosphere(1.0, subdivisions=2)
    assert not len(_way_to_rim(Topology(np.array(ball.faces), len(ball.vertices)), 0))
