"""Bending of position-based cloth: the energy of a plate, the solve of a step, and a strip that sags as the elastica says."""

import numpy as np
import pytest
import warp as wp
from scipy.sparse import csr_array, diags, random_array
from scipy.sparse.linalg import spsolve

from weft.dynamics.air import Air
from weft.dynamics.position_based.bending import MOST_ITERATIONS, TOLERANCE, Bending
from weft.dynamics.position_based.model import PositionBased
from weft.dynamics.position_based.sparse_rows import SparseRows, sliced_rows, times
from weft.dynamics.springs import from_mesh
from weft.mesh import TriMesh, shapes
from weft.runtime import launch
from weft.scene import Forces, Material
from weft.validate.elasticity import strip_mesh
from weft.world import State

BEND, DENSITY, GRAVITY = 2e-5, 0.2, 9.81
# drop over reach of the tip of a strip with density g L^3 / bend = 10
ELASTICA = 1.0668
STILL = Forces(gravity=(0.0, 0.0, 0.0))


def make(network, mass, fixed=(), forces=STILL):
    inverse = 1.0 / mass
    inverse[list(fixed)] = 0.0
    air = Air(forces, np.zeros((0, 3), np.int32), len(mass))
    return PositionBased(network, mass, wp.array(inverse, dtype=wp.float64, device="cpu"), air)


def run(dynamics, x, steps, dt=1.0 / 360.0):
    """Positions and velocities after so many steps from rest."""
    state = State.from_numpy(x, np.zeros_like(x))
    target, x_end, v_end = wp.clone(state.x), wp.zeros_like(state.x), wp.zeros_like(state.v)
    for _ in range(steps):
        dynamics.propose(state, target, dt, x_end, v_end)
        state.take(x_end, v_end)
    return state.positions(), state.velocities()


def lumped(mesh, density=DENSITY):
    mass = np.zeros(len(mesh.vertices))
    np.add.at(mass, mesh.faces.ravel(), np.repeat(density * mesh.rest_areas / 3.0, 3))
    return mass


def rolled(mesh, radius, angle):
    """A flat mesh on a cylinder whose axis lies at an angle to its rows."""
    u = mesh.uv @ [np.cos(angle), np.sin(angle)]
    along = mesh.uv @ [-np.sin(angle), np.cos(angle)]
    return np.column_stack([radius * np.sin(u / radius), radius * np.cos(u / radius), along])


@pytest.mark.parametrize("diagonals", ["same", "alternating"])
@pytest.mark.parametrize("axis", [0.0, 0.5 * np.pi])
def test_a_sheet_rolled_along_its_threads_has_the_energy_of_a_plate(diagonals, axis):
    mesh = shapes.grid((0.2, 0.2), (40, 40), diagonals=diagonals)
    bending = Bending(from_mesh(mesh, Material(bend=BEND)), lumped(mesh), "cpu")
    bending.pin(np.zeros(len(mesh.vertices), bool))
    x = rolled(mesh, 0.1, axis)
    k = bending.stiffness
    energy = 0.5 * sum(x[:, d] @ (k @ x[:, d]) for d in range(3))
    # the outermost rows of hinges are missing: half a cell at either end
    assert energy == pytest.approx(BEND / (2.0 * 0.1**2) * 0.2 * (0.2 - 0.005), rel=0.01)


@pytest.mark.parametrize(("kind", "within"), [("same", 0.001), ("alternating", 0.02), ("irregular", 0.05)])
def test_twist_has_the_energy_of_a_plate_on_any_mesh(kind, within):
    mesh = strip_mesh(0.2, 20, kind, across=20)
    bending = Bending(from_mesh(mesh, Material(bend=BEND)), lumped(mesh), "cpu")
    bending.pin(np.zeros(len(mesh.vertices), bool))
    z = mesh.uv[:, 0] * mesh.uv[:, 1]
    energy = 0.5 * z @ (bending.stiffness @ z)
    assert energy == pytest.approx(BEND * mesh.rest_areas.sum(), rel=within)


@pytest.mark.parametrize("bend", [(1.0, 1.0, 1.0), (1.0, 1.0, 0.6), (1.0, 0.2, 0.5)])
@pytest.mark.parametrize("cell", [1.0, 3.0])
@pytest.mark.parametrize("kind", ["alternating", "irregular"])
def test_no_shape_has_negative_energy_or_more_than_with_equal_shares(kind, cell, bend):
    mesh = strip_mesh(0.1, 10, kind, across=6)
    mesh = TriMesh(mesh.vertices, mesh.faces, uv=mesh.uv * (cell, 1.0))
    bending = Bending(from_mesh(mesh, Material(bend=bend)), lumped(mesh), "cpu")
    bending.pin(mesh.uv[:, 0] < mesh.uv[:, 0].min() + 0.011 * cell)
    k, equal = bending.stiffness.toarray(), bending.equal_shares.toarray()
    assert np.abs(k - k.T).max() < 1e-12 * np.abs(k).max()
    largest = np.linalg.eigvalsh(equal)[-1]
    assert np.linalg.eigvalsh(k)[0] > -1e-12 * largest
    assert np.linalg.eigvalsh(equal - k)[0] > -1e-12 * largest


def test_the_solve_is_that_of_the_whole_system_and_keeps_momentum():
    mesh = shapes.grid((0.1, 0.08), (20, 16))
    mass = lumped(mesh)
    count = len(mass)
    bending = Bending(from_mesh(mesh, Material(bend=BEND, damping=0.002)), mass, "cpu")
    pinned = np.zeros(count, bool)
    bending.pin(pinned)
    rng = np.random.default_rng(0)
    # long and short waves
    x = mesh.vertices + np.column_stack([np.zeros((count, 2)), 0.01 * np.sin(40.0 * mesh.vertices[:, 0])])[:, [0, 2, 1]]
    x += 1e-4 * rng.normal(size=x.shape)
    v, dt = 0.1 * rng.normal(size=x.shape), 1.0 / 360.0
    ahead = wp.array(np.column_stack([x + (dt + 0.002) * v, 1.0 / mass]), dtype=wp.vec4d, device="cpu")
    push = wp.zeros(count, dtype=wp.vec3d, device="cpu")
    bending.solve(dt, ahead, push)
    k = bending.stiffness
    a = (diags(mass) + dt * (dt + 0.002) * bending.equal_shares).tocsc()
    expected = spsolve(a, -dt * (k @ (x + (dt + 0.002) * v))) / dt
    found = push.numpy()
    error = np.sqrt((mass[:, None] * (found - expected) ** 2).sum() / (mass[:, None] * expected**2).sum())
    assert error < 2.0 * TOLERANCE
    momentum = (mass[:, None] * found).sum(axis=0)
    assert np.abs(momentum).max() < 1e-10 * np.abs(mass[:, None] * found).sum()


def test_a_curved_rest_shape_is_at_rest():
    mesh = shapes.cylinder(0.05, 0.1, segments=24, rings=6)
    dynamics = make(from_mesh(mesh, Material(bend=1e-3)), lumped(mesh))
    x, v = run(dynamics, mesh.vertices, 20)
    assert np.abs(x - mesh.vertices).max() < 1e-9 and np.abs(v).max() < 1e-7


def test_a_triangle_bends_once_its_pins_are_released():
    mesh = shapes.grid((0.1, 0.1), (4, 4))
    bending = Bending(from_mesh(mesh, Material(bend=BEND)), lumped(mesh), "cpu")
    bending.pin(np.ones(25, bool))
    assert bending.stiffness.count_nonzero() == 0
    bending.pin(np.zeros(25, bool))
    assert bending.stiffness.count_nonzero() > 0


@pytest.mark.parametrize(("cells", "within"), [(6, 0.13), (10, 0.07), (20, 0.04)])
@pytest.mark.parametrize("diagonals", ["same", "alternating"])
def test_a_strip_sags_like_the_elastica_on_any_mesh(cells, within, diagonals):
    length = (10.0 * BEND / (DENSITY * GRAVITY)) ** (1.0 / 3.0)
    h = length / cells
    mesh = shapes.grid((length + h, 4.0 * h), (cells + 1, 4), diagonals=diagonals)
    clamped = [j * (cells + 2) + i for j in range(5) for i in range(2)]
    material = Material(bend=BEND, density=DENSITY, stretch=2000.0, shear=800.0, damping=0.0)
    forces = Forces(gravity=(0.0, -GRAVITY, 0.0), air_damping=8.0)
    dynamics = make(from_mesh(mesh, material), lumped(mesh), fixed=clamped, forces=forces)
    x, v = run(dynamics, mesh.vertices, 720)
    tip = np.flatnonzero(mesh.vertices[:, 0] > 0.5 * (length + h) - 1e-6)
    drop, reach = -x[tip, 1].mean(), x[tip, 0].mean() - mesh.vertices[clamped, 0].max()
    assert drop / reach == pytest.approx(ELASTICA, rel=within)
    # 2 s of strong damping: it hangs still
    assert np.abs(v).max() < 5e-4


@wp.kernel
def multiply(first: int, matrix: SparseRows, x: wp.array[wp.vec4d], product: wp.array[wp.vec4d]):
    i = first + wp.tid()
    product[i] = times(i, matrix, x)


@pytest.mark.parametrize("side", [1, 4, 32])
@pytest.mark.parametrize("count", [1, 31, 70])
def test_rows_in_slices_are_the_same_matrix(side, count):
    rng = np.random.default_rng(count)
    # some rows are empty
    matrix = csr_array(random_array((count, count), density=0.1, rng=rng, format="csr"))
    x, product = rng.normal(size=(count, 4)), wp.zeros(count, dtype=wp.vec4d, device="cpu")
    rows = sliced_rows(matrix, "cpu", side)
    launch(multiply, count, [rows, wp.array(x, dtype=wp.vec4d, device="cpu"), product], device="cpu")
    np.testing.assert_allclose(product.numpy(), matrix @ x, rtol=0.0, atol=1e-14)


def test_minute_cloth_in_long_steps_is_solved_with_the_most_iterations():
    """The stiffest waves are 10^17 times as stiff as cloth is heavy: 1 + 2 / 10^17 rounds to 1."""
    mesh = shapes.grid((5e-6, 5e-6), (4, 4))
    bending = Bending(from_mesh(mesh, Material(bend=BEND)), lumped(mesh), "cpu")
    bending.pin(np.zeros(25, bool))
    plan = bending.plan(0.03)
    assert plan.half > 1e17 and plan.iterations == MOST_ITERATIONS
