"""Stretch, shear and bending of triangles: those of an orthotropic material, whatever the triangulation."""

import numpy as np
import pytest
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.position_based.membrane import MARGIN, Membrane
from weft.dynamics.position_based.model import PositionBased
from weft.dynamics.springs import from_mesh, join
from weft.mesh import TriMesh, shapes
from weft.scene import Forces, Material
from weft.world import State

WOVEN = Material(stretch=[3000.0, 1200.0, 900.0], shear=400.0, bend=[2e-5, 1e-5, 3e-5], damping=0.0)


def irregular(seed: int = 0) -> TriMesh:
    """A flat sheet in the plane of x and z whose inner vertices are shifted about."""
    mesh = shapes.grid((0.3, 0.3), (6, 6))
    rng = np.random.default_rng(seed)
    inner = np.abs(mesh.uv).max(axis=1) < 0.149
    uv = mesh.uv + np.where(inner[:, None], rng.uniform(-0.012, 0.012, mesh.uv.shape), 0.0)
    vertices = np.column_stack([uv[:, 0], np.zeros(len(uv)), -uv[:, 1]])
    return TriMesh(vertices, mesh.faces, uv=uv)


def strained(mesh: TriMesh, strain: np.ndarray) -> np.ndarray:
    """The sheet with a uniform strain (warp, weft, shear angle)."""
    stretch = np.eye(2) + np.array([[strain[0], 0.5 * strain[2]], [0.5 * strain[2], strain[1]]])
    uv = mesh.uv @ stretch
    return np.column_stack([uv[:, 0], np.zeros(len(uv)), -uv[:, 1]])


def extensions(network, x):
    ends = x[network.pairs]
    return np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) - network.rest


@pytest.mark.parametrize("strain", [(1e-5, 0.0, 0.0), (0.0, 1e-5, 0.0), (0.0, 0.0, 1e-5), (1e-5, -2e-5, 1.5e-5)])
def test_triangles_have_the_energy_of_the_membrane(strain):
    mesh = irregular()
    network = from_mesh(mesh, WOVEN)
    x = extensions(network, strained(mesh, np.array(strain)))[network.face_springs]
    energy = 0.5 * np.einsum("mi,mij,mj->", x, network.face_tension, x)
    expected = 0.5 * np.array(strain) @ WOVEN.membrane() @ np.array(strain) * 0.09
    assert energy == pytest.approx(expected, rel=1e-3)
    assert np.allclose(network.face_tension, network.face_tension.swapaxes(1, 2))


def test_painted_factors_scale_triangles():
    mesh = irregular()
    plain = from_mesh(mesh, WOVEN)
    twice = np.full(len(mesh.vertices), 2.0)
    double = from_mesh(mesh, WOVEN, {"stretch": twice, "shear": twice, "bend": 3.0 * twice})
    assert np.allclose(double.face_tension, 2.0 * plain.face_tension)
    assert np.allclose(double.face_coupling, 6.0 * plain.face_coupling)
    half = np.where(mesh.uv[:, 0] > 0.0, 1.0, 0.0)
    stiff = from_mesh(mesh, WOVEN, {"bend": half}).face_coupling
    left = (mesh.uv[mesh.faces][:, :, 0] <= 0.0).all(axis=1)
    right = (mesh.uv[mesh.faces][:, :, 0] > 0.0).all(axis=1)
    assert not stiff[left].any() and np.allclose(stiff[right], plain.face_coupling[right])


@pytest.mark.parametrize(("direction_deg", "rigidity"), [(0.0, 2e-5), (90.0, 1e-5), (45.0, 3e-5), (-45.0, 3e-5)])
def test_a_rolled_sheet_has_the_rigidity_of_its_direction(direction_deg, rigidity):
    radius, side = 0.5, 0.6
    mesh = shapes.grid((side, side), (60, 60), diagonals="same")
    network = from_mesh(mesh, WOVEN)
    turn = np.radians(direction_deg)
    u, v = mesh.uv.T
    along, aside = u * np.cos(turn) + v * np.sin(turn), v * np.cos(turn) - u * np.sin(turn)
    rolled = np.column_stack([radius * np.sin(along / radius), radius * (1.0 - np.cos(along / radius)), -aside])
    # each triangle takes half of a jump
    r = 0.5 * np.einsum("hk,hkd->hd", network.weights, rolled[network.quads])
    at_faces = np.where((network.face_hinges >= 0)[:, :, None], r[network.face_hinges], 0.0)
    # hinges are missing at the border
    whole = (network.face_hinges >= 0).all(axis=1)
    energy = 0.5 * np.einsum("mid,mij,mjd->m", at_faces, network.face_coupling, at_faces)[whole].sum()
    area = mesh.rest_areas[whole].sum()
    assert energy == pytest.approx(0.5 * rigidity / radius**2 * area, rel=0.02)


@pytest.mark.parametrize("material", [WOVEN, Material(), Material(stretch=100.0, shear=400.0), Material(shear=0.0)])
def test_twice_the_springs_are_stiffer_than_the_membrane(material):
    """So that rest lengths which follow the triangles from step to step come to rest."""
    mesh = irregular(3)
    network = from_mesh(mesh, material)
    springs, count = Membrane.of(network).stiffness, len(mesh.edges)
    whole = np.zeros((count, count))
    for edges, k in zip(network.face_springs, network.face_tension, strict=True):
        whole[np.ix_(edges, edges)] += k
    assert np.linalg.eigvalsh(2.0 * np.diag(springs[:count]) - MARGIN * whole).min() > -1e-9 * springs.max()


def hang(mesh: TriMesh, material: Material, axis: int, seconds: float = 1.0) -> float:
    """The mean strain of a sheet that hangs along u (0) or v (1) by its upper border."""
    flat = mesh.uv
    x = np.column_stack([flat[:, 1 - axis], -flat[:, axis], np.zeros(len(flat))])
    thirds = np.repeat(mesh.rest_areas / 3.0, 3)
    mass = material.density * np.bincount(mesh.faces.ravel(), weights=thirds, minlength=len(x))
    top, bottom = (np.isclose(x[:, 1], edge) for edge in (x[:, 1].max(), x[:, 1].min()))
    inverse = wp.array(np.where(top, 0.0, 1.0 / mass), dtype=wp.float64, device="cpu")
    air = Air(Forces(air_damping=20.0), np.zeros((0, 3), np.int32), len(x))
    dynamics = PositionBased(join([from_mesh(mesh, material)]), mass, inverse, air)
    state = State.from_numpy(x, np.zeros_like(x))
    target, x_end, v_end = (wp.clone(state.x) for _ in range(3))
    for _ in range(round(seconds * 360)):
        dynamics.propose(state, target, 1 / 360, x_end, v_end)
        state.take(x_end, v_end)
    assert np.abs(state.velocities()).max() < 1e-4
    return float((x[bottom, 1].mean() - state.positions()[bottom, 1].mean()) / np.ptp(x[:, 1]))


@pytest.mark.parametrize(("axis", "stiffness"), [(0, 3000.0), (1, 1200.0)])
def test_an_irregular_sheet_hangs_as_its_warp_or_weft_says(axis, stiffness):
    strain = hang(irregular(), WOVEN, axis)
    # the upper border, which is held, cannot narrow
    assert strain == pytest.approx(0.5 * WOVEN.density * 9.81 * 0.3 / stiffness, rel=0.06)


def test_a_run_goes_on_from_what_was_saved():
    mesh = irregular()
    count = len(mesh.vertices)
    mass, still = np.full(count, 1e-4), np.zeros((0, 3), np.int32)
    inverse = wp.array(np.where(mesh.uv[:, 1] > 0.14, 0.0, 1e4), dtype=wp.float64, device="cpu")

    def make() -> PositionBased:
        return PositionBased(from_mesh(mesh, WOVEN), mass, inverse, Air(Forces(), still, count))

    state = State.from_numpy(mesh.vertices, np.zeros_like(mesh.vertices))
    target, x_end, v_end, again, v_again = (wp.clone(state.x) for _ in range(5))
    first, second = make(), make()
    for _ in range(5):
        first.propose(state, target, 1 / 360, x_end, v_end)
        state.take(x_end, v_end)
    second.restore(first.saved())
    first.propose(state, target, 1 / 360, x_end, v_end)
    second.propose(state, target, 1 / 360, again, v_again)
    assert np.array_equal(x_end.numpy(), again.numpy()) and np.array_equal(v_end.numpy(), v_again.numpy())
