"""The solver of the implicit step against sparse and dense solves, its filters, its patches and its coarse system."""

import itertools

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import bsr_array, csr_array
from scipy.sparse.linalg import spsolve

from weft.dynamics.air import Air
from weft.dynamics.implicit import elements as implicit_elements
from weft.dynamics.implicit.coarse_level import CoarseLevel
from weft.dynamics.implicit.coarse_structure import aggregate, eliminate
from weft.dynamics.implicit.model import Implicit
from weft.mesh import shapes
from weft.scene import Forces, Material

FRAME = 1.0 / 60.0


def vec(a, device="cpu"):
    return wp.array(a, dtype=wp.vec3d, device=device)


def assembled(cells=10, seed=0, material=None, device="cpu", **options):
    """A sheet in motion whose matrix and right-hand side for one frame are ready."""
    mesh = shapes.grid((0.5, 0.5), (cells, cells))
    rng = np.random.default_rng(seed)
    x = mesh.vertices + rng.normal(scale=0.02 / cells, size=mesh.vertices.shape)
    v = rng.normal(scale=0.3, size=x.shape)
    mass = np.full(len(x), 0.15 * 0.25 / len(x))
    air = Air(Forces(), mesh.faces, len(x), device=device)
    inverse = wp.array(1.0 / mass, dtype=wp.float64, device=device)
    elements = implicit_elements.from_mesh(mesh, Material() if material is None else material)
    m = Implicit(elements, mass, inverse, air, **options)
    there, moving = vec(x, device), vec(v, device)
    m.constraints.begin(inverse, there, there, FRAME)
    m._strain(there, moving, FRAME)
    m.matrix.assemble(m._terms, m._external, FRAME)
    m.matrix.right_hand_side(m._terms, m._external, moving, m.constraints.push, FRAME, m._b)
    return m, x, v


def sparse(matrix):
    """The block matrix as scipy has it, by rows."""
    blocks = matrix.blocks.numpy()
    return bsr_array((blocks, matrix.columns.numpy(), matrix.offsets.numpy()), shape=(3 * matrix.count,) * 2).tocsc()


def random_filters(m, rng, share=0.3):
    """Filters of rank 0, 1 and 2 on some vertices, with velocities to end at."""
    count = m.count
    held = np.where(rng.random(count) < share, rng.integers(1, 4, count), 0)
    filters = np.zeros((count, 3, 3))
    for i in np.flatnonzero(held):
        q, _ = np.linalg.qr(rng.normal(size=(3, 3)))
        kept = q[:, held[i] :]
        filters[i] = kept @ kept.T
    velocity = rng.normal(size=(count, 3))
    m.constraints.directions.assign(held.astype(np.int32))
    m.constraints.filters.assign(filters)
    m.constraints.velocity.assign(velocity)
    return held, np.where((held == 0)[:, None, None], np.eye(3), filters), velocity


def test_the_answer_is_that_of_a_direct_solve():
    m, _x, v = assembled(cells=16, tolerance=1e-12)
    solution = m.solver.solve(m._b, vec(v), m.constraints, m._change)
    assert solution.converged
    expected = spsolve(sparse(m.matrix), m._b.numpy().ravel()).reshape(-1, 3)
    # the solver stops at 1e-9 m/s whatever its tolerance
    assert np.abs(m._change.numpy() - expected).max() < 1e-8


def test_the_tolerance_bounds_the_error():
    """The residual in the preconditioner's norm tells the error in the matrix' norm within a factor of a few."""
    m, _x, v = assembled(cells=16)
    a = sparse(m.matrix)
    expected = spsolve(a, m._b.numpy().ravel())
    for tolerance in (1e-2, 1e-3, 1e-4):
        m.solver.tolerance = tolerance
        assert m.solver.solve(m._b, vec(v), m.constraints, m._change).converged
        error = m._change.numpy().ravel() - expected
        assert np.sqrt(error @ (a @ error) / (expected @ (a @ expected))) < 10.0 * tolerance


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10**6))
def test_filters_keep_their_directions_exactly_and_the_rest_is_solved(seed):
    m, _x, v = assembled(cells=6, seed=seed % 7, tolerance=1e-12)
    held, filters, velocity = random_filters(m, np.random.default_rng(seed))
    assert m.solver.solve(m._b, vec(v), m.constraints, m._change).converged
    order = m.matrix.order.numpy()
    change = m._change.numpy()

    # the constrained part is the one that was asked for
    kept = np.einsum("nij,nj->ni", np.eye(3) - filters[order], change - (velocity - v)[order])
    assert np.abs(kept).max() < 1e-12
    # and in the free directions the equation holds
    residual = (m._b.numpy().ravel() - sparse(m.matrix) @ change.ravel()).reshape(-1, 3)
    free = np.einsum("nij,nj->ni", filters[order], residual)
    assert np.abs(free).max() < 1e-9 * np.abs(residual).max()
    assert {0, 1, 2, 3} >= set(held)


def test_filters_agree_with_a_dense_solve_in_the_free_directions():
    m, _x, v = assembled(cells=5, tolerance=1e-13)
    _held, filters, velocity = random_filters(m, np.random.default_rng(5))
    m.solver.solve(m._b, vec(v), m.constraints, m._change)
    order = m.matrix.order.numpy()
    a, b = sparse(m.matrix).toarray(), m._b.numpy().ravel()
    s = np.zeros_like(a)
    for r, i in enumerate(order):
        s[3 * r : 3 * r + 3, 3 * r : 3 * r + 3] = filters[i]
    given_part = (np.eye(len(a)) - s) @ (velocity - v)[order].ravel()
    free = np.linalg.lstsq(s @ a @ s, s @ (b - a @ given_part), rcond=1e-12)[0]
    assert m._change.numpy().ravel() == pytest.approx(given_part + s @ free, abs=1e-8)


def test_everything_held_takes_no_iteration():
    m, _x, v = assembled(cells=4)
    m.constraints.directions.fill_(3)
    m.constraints.filters.zero_()
    target = np.random.default_rng(0).normal(size=v.shape)
    m.constraints.velocity.assign(target)
    solution = m.solver.solve(m._b, vec(v), m.constraints, m._change)
    assert solution.iterations == 0 and solution.converged
    assert np.array_equal(m._change.numpy()[m.matrix.row_of.numpy()], target - v)


def test_position_corrections_enter_the_right_hand_side():
    """b = h (F + dF/dx (h v + y)): the matrix of an undamped step is M + h^2 K with K = -dF/dx, but for bending."""
    m, x, v = assembled(cells=6, material=Material(damping=0.0, bend=0.0))
    without = m._b.numpy().copy()
    y = np.random.default_rng(2).normal(scale=1e-3, size=x.shape)
    m.constraints.shift.assign(y)
    m._strain(vec(x), vec(v), FRAME)
    m.matrix.right_hand_side(m._terms, m._external, vec(v), m.constraints.push, FRAME, m._b)
    order = m.matrix.order.numpy()
    mass = np.repeat(m._external.mass.numpy()[order], 3)
    stiffness = sparse(m.matrix).toarray() - np.diag(mass)
    expected = without.ravel() - stiffness @ y[order].ravel() / FRAME
    assert m._b.numpy().ravel() == pytest.approx(expected, abs=1e-12)


def test_the_matrix_is_symmetric_and_moves_nothing_by_translation():
    m, _x, _v = assembled(cells=8)
    a = sparse(m.matrix)
    assert abs(a - a.T).max() == 0.0
    mass = np.repeat(m._external.mass.numpy()[m.matrix.order.numpy()], 3)
    for axis in range(3):
        along = np.tile(np.eye(3)[axis], m.count)
        assert a @ along == pytest.approx(mass * along, abs=1e-14 * abs(a).max())


def test_the_coarse_level_saves_iterations():
    """Without news from afar the number of iterations grows with the width of the cloth."""
    counts = []
    for cells in (16, 48):
        m, _x, v = assembled(cells=cells, material=Material(stretch=2000.0))
        counts.append(m.solver.solve(m._b, vec(v), m.constraints, m._change).iterations)
    assert counts[1] < 90
    assert counts[1] < 2 * counts[0]


@pytest.mark.parametrize("inverted", [False, True])
def test_the_coarse_factor_solves_the_summed_system(inverted):
    m, _x, v = assembled(cells=14)
    random_filters(m, np.random.default_rng(1), share=0.1)
    level = CoarseLevel(m.matrix, inverted=inverted)
    level.factor(m.constraints)
    count = m.matrix.aggregates.count
    right = np.random.default_rng(0).normal(size=(count, 3))
    answer = wp.zeros(count, dtype=wp.vec3d, device="cpu")
    level.solve(vec(right), answer)

    # the same by hand: P^T S A S P, and the stand-in of what is filtered away
    order = m.matrix.order.numpy()
    held = m.constraints.directions.numpy()[order]
    filters = np.where((held == 0)[:, None, None], np.eye(3), m.constraints.filters.numpy()[order])
    s = np.zeros((3 * m.count, 3 * m.count))
    stand_in = np.zeros_like(s)
    a = sparse(m.matrix).toarray()
    for r in range(m.count):
        here = slice(3 * r, 3 * r + 3)
        s[here, here] = filters[r]
        stand_in[here, here] = 1e-4 * np.trace(a[here, here]) * (np.eye(3) - filters[r])
    p = np.zeros((3 * m.count, 3 * count))
    for r, patch in enumerate(m.matrix.patch_of.numpy()):
        p[3 * r : 3 * r + 3, 3 * patch : 3 * patch + 3] = np.eye(3)
    expected = np.linalg.solve(p.T @ (s @ a @ s + stand_in) @ p, right.ravel())
    assert answer.numpy().ravel() == pytest.approx(expected, rel=1e-8, abs=1e-12)
    assert len(v) == m.count


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 80), st.integers(0, 10**6))
def test_any_structure_is_eliminated(count, links, seed):
    """The products of the factor and the columns of its inverse, done by hand on the lists."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, count, (links, 2))
    ends = np.concatenate([pairs, pairs[:, ::-1], np.arange(count)[:, None].repeat(2, axis=1)])
    pattern = csr_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(count, count))
    pattern.sum_duplicates()
    e = eliminate(pattern)
    values = rng.normal(size=(count, count)) * (pattern.toarray() != 0.0)
    a = values + values.T + 10.0 * count * np.eye(count)
    row, column = np.nonzero(a)
    slots = e.slots_of(row, column)
    below = slots >= 0
    held = np.zeros(len(e.column_of))
    held[slots[below]] = a[row[below], column[below]]
    factor, pivots = np.zeros(len(e.rows)), np.zeros(count)
    seen = np.zeros(len(held), bool)
    for first, last in itertools.pairwise(e.heights):
        own = e.slots[first:last]
        for slot in own:
            for left, right in e.products[e.offsets[slot] : e.offsets[slot + 1]]:
                assert seen[count + left] and seen[count + right]
                held[slot] -= factor[left] * held[count + right]
        for slot in own:
            pivot = 1.0 / held[e.column_of[slot]]
            if slot < count:
                pivots[slot] = pivot
            else:
                factor[slot - count] = held[slot] * pivot
        seen[own] = True
    assert seen.all()
    lower = np.eye(count)
    lower[e.rows, e.column_of[count:]] = factor
    moved = np.empty_like(a)
    moved[np.ix_(e.place, e.place)] = a
    assert lower @ np.diag(1.0 / pivots) @ lower.T == pytest.approx(moved, abs=1e-9 * count)

    # an inverse of L has entries at the ancestors alone, in both lists the same
    reach = e.inverse()
    inverse = np.linalg.inv(lower)
    pattern = np.zeros((count, count), bool)
    pattern[reach.rows, np.repeat(np.arange(count), np.diff(reach.offsets))] = True
    assert not inverse[~pattern].any()
    again = np.zeros_like(pattern)
    again[np.repeat(np.arange(count), np.diff(reach.row_offsets)), reach.columns] = True
    assert np.array_equal(again, pattern)
    assert np.array_equal(reach.rows[reach.entries], np.repeat(np.arange(count), np.diff(reach.row_offsets)))


@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
@pytest.mark.parametrize("cells", [3, 16, 70])
def test_a_card_solves_as_the_cpu_does(cells):
    found = []
    for device in ("cpu", "cuda:0", "cuda:0"):
        m, _x, v = assembled(cells=cells, device=device)
        random_filters(m, np.random.default_rng(3), share=0.1)
        moving = vec(v, device)
        solution = m.solver.solve(m._b, moving, m.constraints, m._change)
        # a similar system from there: graphs are replayed
        again = m.solver.solve(m._b, moving, m.constraints, m._change, warm=True, tolerance=1e-6)
        found.append((m._change.numpy(), solution.iterations, again.iterations))
    (x, *numbers), (y, *same), (z, *twice) = found
    assert numbers == same == twice and numbers[1] > 0
    assert np.abs(x - y).max() < 1e-11 * np.abs(x).max()
    assert np.array_equal(y, z)


def connected(label, pairs, patch):
    """Whether the vertices of a patch hang together."""
    inside = np.flatnonzero(label == patch)
    reached = {int(inside[0])}
    inner = pairs[(label[pairs] == patch).all(axis=1)]
    while True:
        touching = inner[np.isin(inner, list(reached)).any(axis=1)]
        more = reached | set(touching.ravel().tolist())
        if more == reached:
            return len(reached) == len(inside)
        reached = more


@pytest.mark.parametrize("diagonals", ["alternating", "same"])
def test_patches_cover_the_mesh_and_hang_together(diagonals):
    mesh = shapes.grid((1.0, 1.0), (20, 13), diagonals=diagonals)
    pairs = np.concatenate([mesh.edges, mesh.hinges[:, 2:]])
    parts = aggregate(mesh.edges, pairs, len(mesh.vertices))
    sizes = np.bincount(parts.label, minlength=parts.count)
    assert sizes.min() >= 1 and sizes.sum() == len(mesh.vertices)
    assert 10 < sizes.mean() < 40
    assert all(connected(parts.label, mesh.edges, k) for k in range(parts.count))
    assert sorted(parts.elimination.place) == list(range(parts.count))


def test_patches_of_separate_vertices_and_of_nothing():
    lonely = aggregate(np.array([[1, 2]]), np.array([[1, 2]]), 4)
    assert lonely.label[1] == lonely.label[2]
    assert len(set(lonely.label)) == lonely.count == 3
    nothing = np.zeros((0, 2), np.int64)
    assert aggregate(nothing, nothing, 0).count == 0
