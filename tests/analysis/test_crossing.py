"""Crossings in general position, against rational arithmetic and against the exact finder."""

import analysis_cases as cases
import numpy as np
import pytest
from analysis_oracles import exact_crossings
from hypothesis import example, given, settings
from hypothesis import strategies as st

from weft.analysis.crossing import CrossingFinder
from weft.analysis.orientation import unit_noise
from weft.geometry.intersection import intersections
from weft.mesh.topology import Topology
from weft.runtime import get_threads, set_threads


def found(vertices: np.ndarray, faces: np.ndarray, length: float) -> set[tuple[tuple[int, int], int]]:
    topology = Topology(np.ascontiguousarray(faces, dtype=np.int32), len(vertices))
    edge, face = CrossingFinder(topology).find(np.ascontiguousarray(vertices), length)
    assert np.array_equal(np.lexsort((face, edge)), np.arange(len(edge)))
    return {(tuple(pair), f) for pair, f in zip(topology.edges[edge].tolist(), face.tolist(), strict=True)}


@pytest.mark.parametrize("seed", range(4))
def test_agrees_with_the_exact_finder_on_generic_surfaces(seed: int) -> None:
    tangle = cases.crumpled(seed, cells=20)
    rows = intersections(tangle.vertices, tangle.faces)
    assert len(rows) > 20
    assert found(tangle.vertices, tangle.faces, 0.05) == {((a, b), f) for a, b, f in rows.tolist()}


def degenerate(name: str) -> tuple[np.ndarray, np.ndarray]:
    flat, faces = cases.sheet(4)
    if name == "coincident":
        other = flat
    elif name == "shifted in its plane by half a cell":
        other = flat + [0.125, 0.0, 0.0]
    elif name == "shifted along the diagonal":
        other = flat + [0.25, 0.0, 0.25]
    elif name == "upright through a row of vertices":
        other = flat[:, [1, 0, 2]]
    elif name == "turned in its plane":
        other = flat[:, [2, 1, 0]]
    else:
        other = np.where(flat[:, :1] > 0.0, flat * [-1.0, 1.0, 1.0], flat)
    joined = cases.join((flat, faces), (other, faces))
    return joined.vertices, joined.faces


NAMES = [
    "coincident",
    "shifted in its plane by half a cell",
    "shifted along the diagonal",
    "upright through a row of vertices",
    "turned in its plane",
    "folded flat",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("offset", [0.0, 1000.0])
def test_degenerate_positions_are_decided_as_rational_arithmetic_decides_them(name: str, offset: float) -> None:
    vertices, faces = degenerate(name)
    vertices = vertices + offset
    assert found(vertices, faces, 0.25) == exact_crossings(vertices, faces, 0.25)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
@example(2449, 1)
def test_points_of_a_lattice(seed: int, levels: int) -> None:
    """Triangles with corners on a small lattice: nearly every test is degenerate."""
    rng = np.random.default_rng(seed)
    vertices = rng.integers(0, levels + 1, size=(12, 3)).astype(np.float64)
    faces = np.array([rng.permutation(12)[:3] for _ in range(8)], dtype=np.int32)
    assert found(vertices, faces, 1.0) == exact_crossings(vertices, faces, 1.0)


def test_noise_is_the_same_on_every_machine() -> None:
    noise = unit_noise(1000)
    assert noise.shape == (1000, 3) and np.abs(noise).max() <= 1.0
    assert len(np.unique(noise)) == 3000
    assert abs(noise.mean()) < 0.05 and abs(noise.std() - 3**-0.5) < 0.02
    # splitmix64 from 0 begins with this number
    assert noise[0, 0] == (0xE220A8397B1DCDAF >> 11) * 2.0**-52 - 1.0
    # a longer mesh has the same noise where it is the same
    assert np.array_equal(unit_noise(2000)[:1000], noise)


def test_the_number_of_threads_and_earlier_calls_do_not_matter() -> None:
    tangle = cases.crumpled(1, cells=30, strength=0.15)
    other = cases.crumpled(2, cells=30, strength=0.15)
    topology = Topology(tangle.faces, len(tangle.vertices))
    fresh = CrossingFinder(topology).find(tangle.vertices, 0.03)
    threads = get_threads()
    try:
        for count in (1, 2, 3):
            set_threads(count)
            finder = CrossingFinder(topology)
            # a tree that was built for other positions and refitted finds the same
            finder.find(other.vertices, 0.03)
            again = finder.find(tangle.vertices, 0.03)
            assert all(np.array_equal(a, b) for a, b in zip(fresh, again, strict=True))
    finally:
        set_threads(threads)


def test_a_mesh_of_one_triangle_has_no_crossings() -> None:
    assert found(np.eye(3), np.array([[0, 1, 2]]), 1.0) == set()
