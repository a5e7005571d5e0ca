"""The limit of stretch: the force beyond it is the slope of an energy, in both models, on any mesh."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from test_implicit_forces import corners, force, gradient, matrix, triangle
from test_membrane import extensions, hang, irregular, strained

import weft
from weft.dynamics.air import Air
from weft.dynamics.position_based.membrane import follow_triangles
from weft.dynamics.position_based.model import PositionBased
from weft.dynamics.springs import FIRMNESS, from_mesh
from weft.errors import SceneError
from weft.mesh import shapes
from weft.runtime import launch
from weft.scene import Forces, Material, Scene
from weft.scene.resolve import resolve_scene
from weft.world import State

LIMIT = 0.05
MATERIAL_STRETCH = Material().stretch
SOFT = Material(stretch=3.0, shear=0.7, bend=0.0, damping=0.0, stretch_limit=LIMIT)
WOVEN = Material(stretch=[3000.0, 1200.0, 900.0], shear=400.0, damping=0.0, stretch_limit=LIMIT)


def limited_energy(mesh, x):
    """Stretch and shear of triangles of SOFT, straight from the deformation gradient."""
    f = mesh.faces
    rest = np.stack([mesh.uv[f[:, 1]] - mesh.uv[f[:, 0]], mesh.uv[f[:, 2]] - mesh.uv[f[:, 0]]], axis=2)
    now = np.stack([x[f[:, 1]] - x[f[:, 0]], x[f[:, 2]] - x[f[:, 0]]], axis=2)
    w = now @ np.linalg.inv(rest)
    strain = np.linalg.norm(w, axis=1) - 1.0
    beyond = np.maximum(strain - LIMIT, 0.0)
    shear = (w[:, :, 0] * w[:, :, 1]).sum(axis=1)
    stretch = SOFT.stretch * (strain**2 + (FIRMNESS - 1.0) * beyond**2).sum(axis=1)
    return 0.5 * (mesh.rest_areas * (stretch + SOFT.shear * shear**2)).sum()


@settings(max_examples=60, deadline=None)
@given(corners)
def test_the_implicit_force_is_the_slope_of_the_energy(noise):
    mesh, m, x = triangle(noise, SOFT)
    slope = gradient(lambda y: limited_energy(mesh, y), x).reshape(3, 3)
    # at the limit itself the slope has a corner
    assert force(m, x, np.zeros_like(x)) == pytest.approx(-slope, abs=5e-5)


def test_the_implicit_matrix_is_the_slope_of_the_force():
    mesh, m, _ = triangle([0.0] * 9, SOFT.replace(shear=0.0))
    # stretched along both threads, nothing of the Jacobian is dropped
    x = mesh.vertices * [1.3, 1.0, 1.2]
    slope = gradient(lambda y: force(m, y, np.zeros_like(y)).ravel(), x)
    assert matrix(m, x, np.zeros_like(x), 1.0) == pytest.approx(-slope, rel=1e-5, abs=1e-5 * np.abs(slope).max())


@pytest.mark.parametrize("strain", [(0.08, 0.0, 0.0), (0.0, 0.07, 0.02), (0.06, 0.09, -0.03), (0.04, -0.02, 0.0)])
def test_edges_pull_with_the_slope_of_the_energy(strain):
    """Position-based: the tension of each spring is that of the energy of its triangles over its extension."""
    mesh = irregular()
    network = from_mesh(mesh, WOVEN)
    count = len(mesh.edges)
    x = extensions(network, strained(mesh, np.array(strain)))[:count]

    def energy(x):
        at = x[network.face_springs]
        a, firm, limit = network.face_threads[:, :2], network.face_threads[:, 2, :2], network.face_threads[:, 2, 2]
        beyond = np.maximum(np.einsum("mti,mi->mt", a, at) - limit[:, None], 0.0)
        return 0.5 * (np.einsum("mi,mij,mj->", at, network.face_tension, at) + (firm * beyond**2).sum())

    sides = np.full((count, 2), -1, np.int32)
    for place, edge in enumerate(network.face_springs.ravel()):
        sides[edge, int(sides[edge, 0] >= 0)] = place
    given = np.full(count, 1e-3)
    arrays = [
        wp.array(values, dtype=dtype, device="cpu")
        for values, dtype in (
            (np.arange(count), int),
            (network.rest[:count], wp.float64),
            (given, wp.float64),
            (sides, wp.vec2i),
            (network.face_springs, wp.vec3i),
            (network.face_tension, wp.mat33d),
            (network.face_threads, wp.mat33d),
            (x, wp.float64),
            (given, wp.float64),
            (network.rest[:count], wp.float64),
        )
    ]
    launch(follow_triangles, count, arrays)
    compliance, rest = arrays[-2].numpy(), arrays[-1].numpy()
    tension = (x + network.rest[:count] - rest) / compliance
    for edge in range(0, count, 7):
        moved = [x.copy(), x.copy()]
        moved[0][edge] += 1e-8
        moved[1][edge] -= 1e-8
        slope = (energy(moved[0]) - energy(moved[1])) / 2e-8
        assert tension[edge] == pytest.approx(slope, rel=1e-5, abs=1e-4)
    limited = (np.einsum("mti,mi->mt", network.face_threads[:, :2], x[network.face_springs]) > LIMIT).any()
    assert (compliance < 0.99e-3).any() == limited == (max(strain[:2]) > LIMIT)


@pytest.mark.parametrize("axis", [0, 1])
def test_an_irregular_sheet_hangs_no_longer_than_its_limit(axis):
    stretch = 40.0
    material = Material(density=2.0, stretch=stretch, shear=20.0, stretch_limit=0.04)
    most = material.density * 9.81 * 0.3 / stretch
    assert most > 3.0 * material.stretch_limit
    limit = material.stretch_limit
    theory = limit * (1.0 - 0.5 * limit / most) + (most - limit) ** 2 / (2.0 * most * FIRMNESS)
    assert hang(irregular(), material, axis, seconds=3.0) == pytest.approx(theory, rel=0.03)


def snapped(damping=0.0):
    """A sheet in empty space that is stretched beyond its limits, with a spin."""
    mesh = shapes.grid((0.2, 0.2), (8, 8))
    material = Material(stretch_limit=0.03, bend=0.0, damping=damping)
    mass, still = np.full(len(mesh.vertices), 1e-4), np.zeros((0, 3), np.int32)
    inverse = wp.array(1.0 / mass, dtype=wp.float64, device="cpu")
    air = Air(Forces(gravity=(0.0, 0.0, 0.0), air_damping=0.0), still, len(mass))
    return mesh.vertices * [1.06, 1.0, 1.04], PositionBased(from_mesh(mesh, material), mass, inverse, air)


def test_a_sheet_beyond_its_limit_keeps_its_momentum_and_gains_no_energy():
    x, dynamics = snapped()
    v = np.cross([0.0, 2.0, 1.0], x)
    state = State.from_numpy(x, v)
    target, x_end, v_end = (wp.clone(state.x) for _ in range(3))
    spin = np.cross(x, v).sum(axis=0)
    stored = 0.5 * MATERIAL_STRETCH * 0.04 * (0.06**2 + 0.04**2 + (FIRMNESS - 1.0) * (0.03**2 + 0.01**2))
    fastest = 0.0
    for _ in range(30):
        dynamics.propose(state, target, 1 / 360, x_end, v_end)
        state.take(x_end, v_end)
        moving = 0.5e-4 * (state.velocities() ** 2).sum()
        fastest = max(fastest, moving)
    x, v = state.positions(), state.velocities()
    assert np.abs(v.sum(axis=0)).max() < 1e-10 * np.abs(v).sum()
    assert np.cross(x, v).sum(axis=0) == pytest.approx(spin, abs=0.02 * np.linalg.norm(spin))
    assert fastest < stored + 0.5e-4 * (np.cross([0.0, 2.0, 1.0], x) ** 2).sum() * 1.2


def test_a_run_beyond_the_limit_goes_on_from_what_was_saved():
    x, first = snapped()
    _, second = snapped()
    state = State.from_numpy(x, np.zeros_like(x))
    target, x_end, v_end, again, v_again = (wp.clone(state.x) for _ in range(5))
    for _ in range(3):
        first.propose(state, target, 1 / 360, x_end, v_end)
        state.take(x_end, v_end)
    assert "compliance" in first.saved()
    second.restore(first.saved())
    first.propose(state, target, 1 / 360, x_end, v_end)
    second.propose(state, target, 1 / 360, again, v_again)
    assert np.array_equal(x_end.numpy(), again.numpy()) and np.array_equal(v_end.numpy(), v_again.numpy())


def test_a_limit_needs_threads(tmp_path):
    mesh = shapes.grid((1.0, 1.0), (2, 2))
    np.savez(tmp_path / "sheet.npz", vertices=mesh.vertices, faces=mesh.faces)
    cloth = weft.Cloth(mesh=tmp_path / "sheet.npz", material={"stretch_limit": 0.02})
    with pytest.raises(SceneError) as caught:
        resolve_scene(Scene(cloths=[cloth]))
    assert "is along the threads, which are unknown for this cloth: leave it out" in str(caught.value)
    # a limit that only the preset has is left out
    assert np.isinf(from_mesh(shapes.icosphere(0.1), WOVEN).face_threads[:, 2, 2]).all()
