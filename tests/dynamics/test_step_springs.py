"""StepSprings: their part of the system against a dense one, how far they move, what they conserve, and how they rub."""

import numpy as np
import pytest
import warp as wp
from scipy.sparse.linalg import spsolve
from test_implicit_solver import FRAME, assembled, sparse, vec

from weft.dynamics.air import Air
from weft.dynamics.implicit import elements as implicit_elements
from weft.dynamics.implicit.model import Implicit
from weft.mesh import TriMesh
from weft.scene import Forces, Material
from weft.world import State


def add_random(m, rng, count):
    """Springs of two to five vertices whose weights sum to zero, with friction."""
    vertices = np.array([rng.choice(m.count, 5, replace=False) for _ in range(count)])
    weights = rng.normal(size=(count, 5))
    weights[: count // 2, 3:] = 0.0
    weights -= np.where(weights == 0.0, 0.0, weights.sum(axis=1, keepdims=True) / (weights != 0.0).sum(axis=1)[:, None])
    normals = rng.normal(size=(count, 3))
    normals /= np.linalg.norm(normals, axis=1, keepdims=True)
    m.step_springs.clear()
    m.step_springs.add(vertices, weights, normals, rest=1.0, speed=0.5, strength=30.0, friction=0.4)
    m.step_springs.close()
    return vertices, weights


def test_the_system_is_that_of_the_matrix_and_the_links_together():
    """J^T S J added to the matrix, and J^T of the pulls to the right-hand side."""
    m, x, v = assembled(cells=8, tolerance=1e-12)
    vertices, weights = add_random(m, np.random.default_rng(3), 60)
    shift = wp.zeros(m.count, dtype=wp.vec3d, device="cpu")
    m.step_springs.strain(vec(x), vec(v), shift, FRAME)
    before = m._b.numpy().copy()
    m.step_springs.pull(m._b)

    row_of = m.matrix.row_of.numpy()
    j = np.zeros((60, m.count))
    np.add.at(j, (np.repeat(np.arange(60), 5), row_of[vertices].ravel()), weights.ravel())
    wide = np.kron(j, np.eye(3))
    s = np.zeros((180, 180))
    for k, block in enumerate(m.step_springs.matrices.numpy()[:60]):
        s[3 * k : 3 * k + 3, 3 * k : 3 * k + 3] = block
        assert np.linalg.eigvalsh(block).min() >= -1e-12 * np.abs(block).max()
    added = m._b.numpy() - before
    assert added.ravel() == pytest.approx(wide.T @ m.step_springs._along.array.numpy()[:60].ravel(), abs=1e-15)
    assert np.abs(added).max() > 0.0

    assert m.solver.solve(m._b, vec(v), m.constraints, m._change).converged
    a = sparse(m.matrix).toarray() + wide.T @ s @ wide
    assert m._change.numpy().ravel() == pytest.approx(spsolve(a, m._b.numpy().ravel()), abs=1e-7)


def test_without_links_nothing_changes():
    answers = []
    for used in (False, True):
        m, _x, v = assembled(cells=6)
        if used:
            add_random(m, np.random.default_rng(0), 10)
            m.step_springs.clear()
        m.solver.solve(m._b, vec(v), m.constraints, m._change)
        answers.append(m._change.numpy().copy())
    assert np.array_equal(*answers)


def two_triangles(gap):
    """Two small triangles over one another, not in the same cloth, without gravity."""
    corners = np.array([[0.0, 0.0, 0.0], [0.1, 0.0, 0.0], [0.0, 0.0, 0.1]])
    vertices = np.concatenate([corners, corners + [0.0, gap, 0.0]])
    mesh = TriMesh(vertices, np.array([[0, 1, 2], [3, 4, 5]]))
    mass = np.full(6, 1e-4)
    inverse = wp.array(1.0 / mass, dtype=wp.float64, device="cpu")
    still = Forces(gravity=(0.0, 0.0, 0.0))
    return vertices, Implicit(implicit_elements.from_mesh(mesh, Material()), mass, inverse, Air(still, mesh.faces, 6))


def step(m, x, v, h=FRAME, **link):
    """One step with a link from each corner of the upper triangle to the lower one's."""
    state = State.from_numpy(x, v)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    m.step_springs.clear()
    vertices = np.array([[3, 0], [4, 1], [5, 2]])
    m.step_springs.add(vertices, np.tile([1.0, -1.0], (3, 1)), np.tile([0.0, 1.0, 0.0], (3, 1)), **link)
    m.step_springs.close()
    m.propose(state, state.x, h, x_end, v_end)
    return x_end.numpy().copy(), v_end.numpy().copy()


@pytest.mark.parametrize("strength", [1.0, 20.0, 1000.0])
@pytest.mark.parametrize("h", [FRAME, 0.25 * FRAME])
def test_a_link_goes_its_part_of_the_way_in_a_step_however_long(strength, h):
    x, m = two_triangles(0.001)
    end, _ = step(m, x, np.zeros((6, 3)), h, rest=0.003, speed=10.0, strength=strength)
    wanted = 0.001 + 0.002 * strength / (1.0 + strength)
    assert end[3:, 1] - end[:3, 1] == pytest.approx(wanted, rel=1e-4)


def test_the_speed_bounds_the_way():
    x, m = two_triangles(0.001)
    end, _ = step(m, x, np.zeros((6, 3)), rest=np.inf, speed=0.06, strength=1e6)
    assert end[3:, 1] - end[:3, 1] == pytest.approx(0.002, rel=1e-3)


def test_a_link_that_has_what_it_wants_does_nothing():
    x, m = two_triangles(0.004)
    v = np.zeros((6, 3))
    v[3:, 1] = 0.02
    end, v_end = step(m, x, v, rest=0.003, speed=1.0, strength=100.0)
    assert v_end == pytest.approx(v, abs=1e-9)
    assert end == pytest.approx(x + FRAME * v, abs=1e-11)


def test_links_conserve_momentum():
    x, m = two_triangles(0.001)
    v = np.random.default_rng(1).normal(scale=0.2, size=(6, 3))
    _, v_end = step(m, x, v, rest=0.02, speed=5.0, strength=50.0, friction=0.5)
    assert v_end.sum(axis=0) == pytest.approx(v.sum(axis=0), abs=1e-6)


def test_friction_slows_what_slides_and_never_turns_it_round():
    x, m = two_triangles(0.001)
    slid = np.zeros((6, 3))
    slid[3:, 0] = 0.3
    speeds = []
    for mu in (0.0, 0.1, 0.3, 100.0):
        _, v_end = step(m, x, slid, rest=0.002, speed=1.0, strength=20.0, friction=mu)
        speeds.append((v_end[3:, 0] - v_end[:3, 0]).mean())
    assert speeds[0] == pytest.approx(0.3, rel=1e-3)
    assert speeds[0] > speeds[1] > speeds[2] > speeds[3] >= -1e-9
    # Coulomb: the coefficient times the change of the normal velocity
    pushed = 20.0 / 21.0 * 0.001 / FRAME
    assert speeds[0] - speeds[1] == pytest.approx(0.1 * pushed, rel=0.05)
