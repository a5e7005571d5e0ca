"""Rows of springs: which continue each other, that none is lost, and that a row is solved exactly."""

from dataclasses import replace

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.dynamics.air import Air
from weft.dynamics.position_based.membrane import Membrane
from weft.dynamics.position_based.model import PositionBased
from weft.dynamics.position_based.spring_lines import (
    BATCH,
    SIMD_BATCHES,
    SLOTS_A_THREAD,
    SpringLines,
    find_continuations,
    find_spring_lines,
)
from weft.dynamics.springs import BEND, STRUCTURAL, SpringNetwork, from_mesh, from_pairs
from weft.mesh import TriMesh, shapes
from weft.scene import Forces, Material
from weft.world import State

STILL = Forces(gravity=(0.0, 0.0, 0.0))


def stretching(network: SpringNetwork) -> np.ndarray:
    """The numbers of all springs that do not bend."""
    return np.flatnonzero(network.kind != BEND)


def rows_of(lines: SpringLines, begin: int, end: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """The slots of each batch from `begin` to `end`, together with those of the batches in which its lines go on."""
    rows = []
    for batch in range(begin, end):
        blocks = lines.blocks[batch // SIMD_BATCHES]
        its = batch + SIMD_BATCHES * np.arange(blocks)
        rows += [(lines.springs[its].reshape(-1), lines.vertices[its].reshape(-1, 2))] if blocks else []
    return rows


def check(network: SpringNetwork, vertex_count: int, align: int, batch: int = BATCH) -> SpringLines:
    """Every spring in one place, no vertex twice in a piece or in two rows of a colour; lines begin where they may."""
    chosen = stretching(network)
    spring_lines = find_spring_lines(network, chosen, vertex_count, align=align, batch=batch)
    there = spring_lines.springs >= 0
    np.testing.assert_array_equal(np.sort(spring_lines.springs[there]), chosen)
    np.testing.assert_array_equal(
        np.sort(spring_lines.vertices[there]), np.sort(network.pairs[spring_lines.springs[there]])
    )
    assert (spring_lines.vertices[~there] == -1).all()
    assert (spring_lines.offsets % SIMD_BATCHES == 0).all() and spring_lines.offsets[-1] == len(spring_lines.springs)
    found = 0
    for begin, end in zip(spring_lines.offsets[:-1], spring_lines.offsets[1:], strict=True):
        used: list[int] = []
        for springs, row in rows_of(spring_lines, begin, end):
            found += (springs >= 0).sum()
            before = -1
            for slot, (a, b) in enumerate(row):
                if a >= 0:
                    # a spring begins where the one before ended, or at a vertex that nobody has yet
                    used += [b] if a == before else [a, b]
                    assert a == before or slot % align == 0
                before = b
        assert len(used) == len(set(used))
    assert found == len(chosen)
    return spring_lines


@pytest.mark.parametrize("align", [1, SLOTS_A_THREAD])
@pytest.mark.parametrize(
    "mesh",
    [
        shapes.grid((1.0, 1.0), (1, 1)),
        shapes.grid((1.0, 1.0), (45, 70)),
        shapes.cylinder(0.3, 1.0, segments=20, rings=7),
        shapes.cylinder(0.3, 1.0, segments=100, rings=7),
        shapes.icosphere(0.5, subdivisions=3),
        shapes.grid((3.0, 0.1), (300, 9)),
    ],
)
def test_no_spring_is_lost_and_none_done_twice(mesh, align):
    check(from_mesh(mesh, Material()), len(mesh.vertices), align)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 40),
    st.integers(1, 120),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, SLOTS_A_THREAD]),
    st.sampled_from([SLOTS_A_THREAD, BATCH]),
)
def test_any_net_of_springs_is_taken_apart(vertices, springs, seed, align, batch):
    """Random nets have lines that cross themselves, loops, springs side by side."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, vertices, (springs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    place = rng.normal(size=(vertices, 3))
    network = from_pairs(pairs, np.ones(len(pairs)), np.ones(len(pairs)))
    network.courses[:] = place[pairs[:, 1]] - place[pairs[:, 0]]
    check(network, vertices, align, batch)


def test_threads_of_a_grid_are_rows():
    """Along a thread each spring continues the next, and a thread of any length is one row."""
    mesh = shapes.grid((1.0, 0.6), (50, 30))
    network = from_mesh(mesh, Material())
    chosen = stretching(network)
    partners = find_continuations(network.pairs[chosen], network.courses[chosen], network.kind[chosen])
    # 31 threads of 50 springs and 51 of 30: all ends but two a thread have a partner
    structural = network.kind[chosen[np.flatnonzero(partners >= 0) // 2]] == STRUCTURAL
    assert structural.sum() == 31 * (2 * 50 - 2) + 51 * (2 * 30 - 2)
    assert (partners[partners[partners >= 0]] == np.flatnonzero(partners >= 0)).all()
    spring_lines = find_spring_lines(network, chosen, len(mesh.vertices))
    of_threads = (network.kind[spring_lines.springs] == STRUCTURAL) & (spring_lines.springs >= 0)
    assert (of_threads.sum(axis=1)[of_threads.any(axis=1)] >= 30).all()
    long = shapes.grid((3.0, 0.1), (2 * BATCH + 44, 9))
    lines = check(from_mesh(long, Material()), len(long.vertices), 1)
    # ten threads, eight side by side
    assert sorted(lines.blocks[lines.blocks > 1]) == [3, 3] and (lines.blocks == 0).sum() == 4


def test_springs_of_unknown_direction_stand_alone():
    network = from_pairs(np.array([[0, 1], [1, 2], [2, 3]]), np.ones(3), np.ones(3))
    assert (find_continuations(network.pairs, network.courses, network.kind) == -1).all()


def random_mesh(seed: int) -> TriMesh:
    """A grid whose vertices are shifted about: lines that bend and end."""
    mesh = shapes.grid((1.0, 0.8), (12, 9))
    rng = np.random.default_rng(seed)
    shift = np.zeros_like(mesh.vertices)
    shift[:, [0, 2]] = rng.normal(scale=0.02, size=(len(shift), 2))
    return TriMesh(mesh.vertices + shift, mesh.faces)


@pytest.mark.parametrize(
    "mesh", [shapes.grid((1.0, 0.8), cells) for cells in ((1, 1), (2, 3), (9, 9), (40, 3), (300, 2))] + [random_mesh(3)]
)
def test_a_row_is_solved_at_once(mesh):
    """A substep beside dense solves, row by row in the order of colours: full, broken and long rows, pins, damping."""
    rng = np.random.default_rng(len(mesh.vertices))
    count, h = len(mesh.vertices), 1 / 2400
    x = mesh.vertices + rng.normal(scale=0.02, size=mesh.vertices.shape)
    v, mass = rng.normal(scale=0.1, size=x.shape), rng.uniform(1e-3, 3e-3, count)
    network = from_mesh(mesh, Material(bend=0.0, damping=0.002))
    inverse = 1.0 / mass
    inverse[[0, count - 1]] = 0.0
    air = Air(STILL, np.zeros((0, 3), np.int32), count)
    on_device = wp.array(inverse, dtype=wp.float64, device="cpu")
    dynamics = PositionBased(network, mass, on_device, air, longest_substep=h)
    target, x_end, v_end = (wp.array(x, dtype=wp.vec3d, device="cpu") for _ in range(3))
    substeps = dynamics.propose(State.from_numpy(x, v), target, h, x_end, v_end)

    h /= substeps
    firm = Membrane.of(network).stiffness
    network = replace(network, stiffness=firm, damping=0.002 * firm)
    spring_lines = find_spring_lines(network, stretching(network), count)
    speed = np.where(inverse[:, None] > 0.0, v, 0.0)
    # from half a substep after the start of the step to half a substep after its end
    expected = x + 0.5 * h * speed
    for _ in range(substeps):
        before = expected.copy()
        expected = expected + h * speed
        for springs, ends in rows_of(spring_lines, 0, len(spring_lines.springs)):
            solve(network, springs[springs >= 0], ends[springs >= 0], inverse, h, before, expected)
        speed = (expected - before) / h
    expected = 0.5 * (before + expected)
    assert np.abs(expected - x).max() > 1e-6
    np.testing.assert_allclose(x_end.numpy(), expected, atol=1e-12)


def solve(network, springs, ends, inverse, h, before, x) -> None:
    """XPBD's equation for some springs together: (J W J^T + soft) push = -lack, with damping, along their directions before."""
    d, then = (at[ends[:, 1]] - at[ends[:, 0]] for at in (x, before))
    n = then / np.linalg.norm(then, axis=1, keepdims=True)
    jacobian = np.zeros((len(springs), *x.shape))
    rows = np.arange(len(springs))
    jacobian[rows, ends[:, 1]] += n
    jacobian[rows, ends[:, 0]] -= n
    jacobian = jacobian.reshape(len(springs), x.size)
    gamma = network.damping[springs] / network.stiffness[springs] / h
    soft = 1.0 / network.stiffness[springs] / h**2
    lack = np.linalg.norm(d, axis=1) - network.rest[springs] + gamma * (jacobian @ (x - before).reshape(-1))
    weighted = jacobian * np.repeat(inverse, 3)
    system = (1.0 + gamma)[:, None] * (weighted @ jacobian.T) + np.diag(soft)
    x += (weighted.T @ np.linalg.solve(system, -lack)).reshape(x.shape)


@pytest.mark.parametrize("cells", [20, 120, BATCH + 1, 400])
def test_hanging_cloth_is_as_stiff_as_its_material(cells):
    """A strip of 1 m hangs from its top: its threads stretch by density g / (2 k), whatever their number of springs."""
    mesh = shapes.grid((4 / cells, 1.0), (4, cells))
    material = Material(stretch=500.0, shear=1.0, bend=0.0)
    network = from_mesh(mesh, material)
    count = len(mesh.vertices)
    # vertices at the border have half as much cloth around them, corners a quarter
    border = np.isclose(np.abs(mesh.vertices[:, [0, 2]]), np.abs(mesh.vertices[:, [0, 2]]).max(axis=0))
    mass = material.density / cells**2 * 0.5 ** border.sum(axis=1)
    top = np.flatnonzero(mesh.vertices[:, 2] < mesh.vertices[:, 2].min() + 1e-9)
    inverse = 1.0 / mass
    inverse[top] = 0.0
    air = Air(Forces(gravity=(0.0, 0.0, 9.81), air_damping=3.0), np.zeros((0, 3), np.int32), count)
    dynamics = PositionBased(network, mass, wp.array(inverse, dtype=wp.float64, device="cpu"), air)
    state = State.from_numpy(mesh.vertices, np.zeros_like(mesh.vertices))
    target, x_end, v_end = (wp.clone(state.x) for _ in range(3))
    for _ in range(400):
        dynamics.propose(state, target, 1 / 240, x_end, v_end)
        state.take(x_end, v_end)
    stretched = np.ptp(state.positions()[:, 2]) - 1.0
    expected = 0.5 * material.density * 9.81 / material.stretch
    assert stretched == pytest.approx(expected, rel=0.01)
    # nowhere does an edge give way for all that hangs below it
    strain = np.diff(state.positions()[:, 2].reshape(cells + 1, 5), axis=0) * cells - 1.0
    assert strain.max() < 1.01 * 2.0 * expected


@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
@pytest.mark.parametrize(
    "mesh", [shapes.grid((1.0, 0.8), cells) for cells in ((1, 1), (9, 9), (70, 40), (300, 9))] + [random_mesh(3)]
)
def test_a_row_is_solved_alike_on_a_card(mesh):
    """A warp halves the system, a CPU eliminates: a step differs by rounding."""
    rng = np.random.default_rng(len(mesh.vertices))
    x = mesh.vertices + rng.normal(scale=0.002, size=mesh.vertices.shape)
    v, mass = rng.normal(scale=0.1, size=x.shape), rng.uniform(1e-3, 3e-3, len(x))
    network = from_mesh(mesh, Material(bend=0.0, damping=0.002))
    inverse = 1.0 / mass
    inverse[[0, len(x) - 1]] = 0.0
    ends = []
    for device in ("cpu", "cuda:0"):
        air = Air(STILL, np.zeros((0, 3), np.int32), len(x), device=device)
        dynamics = PositionBased(network, mass, wp.array(inverse, dtype=wp.float64, device=device), air)
        state = State.from_numpy(x, v, device=device)
        target, x_end, v_end = (wp.clone(state.x) for _ in range(3))
        dynamics.propose(state, target, 1 / 360, x_end, v_end)
        ends.append(x_end.numpy())
    assert np.abs(ends[0] - x).max() > 1e-6
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-12)
