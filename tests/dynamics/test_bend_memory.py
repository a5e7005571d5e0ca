"""Rest angles, yield and friction of bending, in both models that have them."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.dynamics.bend_memory import STICKING, BendMemory
from weft.dynamics.curvature import mean_normals, of_cloth, share_jumps, stencil_matrix
from weft.dynamics.implicit.bending import Bending as ImplicitBending
from weft.mesh import TriMesh, shapes
from weft.scene import Forces, Material, Scene

MODELS = [{"name": "plain"}, {"name": "plain", "dynamics": "implicit"}]


def hinge(angle: float) -> tuple[TriMesh, np.ndarray]:
    """Two triangles that are flat at rest, and their corners bent by an angle: positive where the edge is a ridge."""
    flat = np.array([[0.0, 0.0, -0.5], [0.0, 0.0, 0.5], [1.0, 0.0, 0.1], [-1.0, 0.0, -0.2]])
    mesh = TriMesh(flat, np.array([[0, 1, 2], [1, 0, 3]]), flat[:, [2, 0]])
    c, s = np.cos(0.5 * angle), np.sin(0.5 * angle)
    return mesh, flat * [c, 1.0, 1.0] + np.abs(flat[:, :1]) * [0.0, -s, 0.0]


@pytest.mark.parametrize("angle", [-3.1, -1.5, -0.2, 0.2, 1.5, 3.1])
def test_a_crease_has_no_moment_at_its_angle(angle):
    mesh, x = hinge(angle)
    # the normal of the flat rest shape is that of the cloth
    assert np.cross(x[1] - x[0], x[2] - x[0])[1] > 0.0 or abs(angle) > 3.0
    hinges = of_cloth(mesh, Material(), angles=np.array([angle]))
    r = hinges.weights[0] @ x
    assert r == pytest.approx(hinges.rest[0] * mean_normals(x[None])[0], abs=1e-9)


def creased_sheet(seed=0):
    """A sheet with two creases that cross, and a position near the one at rest."""
    mesh = shapes.grid((0.4, 0.4), (4, 4))
    angles = np.full(len(mesh.hinges), np.nan)
    ends = mesh.edges[mesh.hinge_edges]
    for axis, angle in ((0, 0.8), (1, -0.6)):
        angles[np.abs(mesh.uv[ends][:, :, axis] - mesh.uv[:, axis].mean()).max(axis=1) < 1e-9] = angle
    bumps = np.random.default_rng(seed).normal(0.0, 0.01, len(mesh.vertices))
    return mesh, angles, mesh.vertices + bumps[:, None] * [0.0, 1.0, 0.0]


def test_the_force_of_creases_is_the_slope_of_their_energy():
    """The energy is that of r - rest n; at a fixed mean normal, which turns with the cloth as a whole only."""
    mesh, angles, x = creased_sheet()
    hinges = of_cloth(mesh, Material(bend=0.3), angles=angles)
    pinned = np.zeros(len(x), bool)
    bending = ImplicitBending(hinges, np.zeros(len(hinges.quads)), len(x), "cpu")
    bending.pin(pinned)
    arrays = [wp.array(a, dtype=wp.vec3d, device="cpu") for a in (x, np.zeros_like(x), np.zeros_like(x))]
    bending.bend(*arrays, 1e-9)
    w = stencil_matrix(hinges, len(x))
    force = -(w.T @ bending.moment.numpy())

    shared = share_jumps(hinges, pinned)
    a, b, d = (shared.matrix(values).toarray() for values in (shared.a, shared.b, shared.d))
    stiffness = a - b @ np.linalg.solve(d, b.T)
    normals = mean_normals(x[hinges.quads])

    def energy(y):
        jump = w @ y - hinges.rest[:, None] * normals
        return 0.5 * np.einsum("hd,hk,kd->", jump, stiffness, jump)

    for corner, axis in ((7, 1), (12, 1), (12, 0), (18, 2)):
        moved = [x.copy(), x.copy()]
        moved[0][corner, axis] += 1e-6
        moved[1][corner, axis] -= 1e-6
        slope = (energy(moved[0]) - energy(moved[1])) / 2e-6
        assert force[corner, axis] == pytest.approx(-slope, rel=5e-3, abs=5e-3 * np.abs(force).max())
    # no push
    assert np.abs(force.sum(axis=0)).max() < 1e-12 * np.abs(force).sum()


def strip(method, material, bent=0.0, creases=(), **forces):
    """A strip of 10 cm along x in empty space, its rest shape flat, bent at the start to a curvature in 1/m."""
    mesh = shapes.grid((0.1, 0.02), (20, 4), diagonals="alternating")
    s, _, z = mesh.vertices.T
    x, y = (s, 0.0 * s) if bent == 0.0 else (np.sin(bent * s) / bent, (np.cos(bent * s) - 1.0) / bent)
    cloth = weft.Cloth(
        mesh=mesh.with_vertices(np.stack([x, y, z], axis=1)), rest="uv", material=material, creases=creases
    )
    still = Forces.model_validate({"gravity": (0.0, 0.0, 0.0), "air_damping": 10.0, **forces})
    return mesh, weft.Simulation(Scene(cloths=[cloth], method=method, forces=still))


def turn_of(mesh, x):
    """The angle in degrees by which the strip turns from one end to the other, positive for a ridge on its front."""
    middle = x[np.abs(mesh.vertices[:, 2]) < 1e-9]
    way = np.diff(middle[np.argsort(mesh.vertices[np.abs(mesh.vertices[:, 2]) < 1e-9][:, 0])], axis=0)
    return -np.degrees(np.unwrap(np.arctan2(way[:, 1], way[:, 0]))[-1] - np.arctan2(way[0, 1], way[0, 0]))


@pytest.mark.parametrize("method", [*MODELS, "robust", "untangle"])
@pytest.mark.parametrize("angle", [90.0, -60.0])
def test_a_flat_strip_folds_to_the_angle_of_its_crease(method, angle):
    crease = weft.Crease(line=((0.0, -0.01), (0.0, 0.01)), angle_deg=angle)
    mesh, sim = strip(method, Material(damping=0.002), creases=[crease])
    assert np.abs(mesh.uv.mean(axis=0)).max() < 1e-9
    start = np.average(sim.positions, axis=0, weights=sim.world.mass[: len(mesh.vertices)])
    sim.advance(80)
    assert turn_of(mesh, np.array(sim.positions)) == pytest.approx(angle, rel=0.01)
    assert np.abs(sim.velocities).max() < 1e-3
    end = np.average(sim.positions, axis=0, weights=sim.world.mass[: len(mesh.vertices)])
    assert end == pytest.approx(start, abs=1e-9)


def memory_of(material, angle=None):
    """The memory of one hinge of area 1 m^2, and a function that bends it and gives its rest jump."""
    mesh, _ = hinge(0.0)
    assert mesh.rest_areas.sum() == pytest.approx(1.0)
    angles = None if angle is None else np.array([angle])
    hinges = of_cloth(mesh, material, angles=angles)
    memory = BendMemory(hinges.quads, hinges.weights, hinges.rest, hinges.limits, "cpu")

    def bend(jump):
        x = hinge(2.0 * np.arcsin(0.5 * jump))[1]
        memory.follow(wp.array(x, dtype=wp.vec3d, device="cpu"))
        return float(memory.rest.numpy()[0])

    return memory, bend


def test_a_bend_beyond_yield_stays_on_either_side():
    _, bend = memory_of(Material(yield_curvature=0.5))
    # the edge is 1 m long: jump and curvature are the same number here
    assert [bend(j) for j in (0.4, 0.9, 0.2, -0.3, 0.0)] == pytest.approx([0.0, 0.4, 0.4, 0.2, 0.2])
    # to follow the same positions again changes nothing
    assert bend(1.4) == bend(1.4) == pytest.approx(0.9)


def test_a_crease_yields_about_its_own_angle():
    _, bend = memory_of(Material(yield_curvature=0.5), angle=1.0)
    start = 2.0 * np.sin(0.5)
    assert bend(start - 0.4) == pytest.approx(start) and bend(0.0) == pytest.approx(0.5)


def test_bending_to_and_fro_runs_round_a_loop():
    """The area of the loop of moment over curvature is that of a Prandtl element: what friction takes away."""
    friction, most = 0.2, 1.0
    material = Material(bend_hysteresis=friction)
    _, bend = memory_of(material)
    path = np.concatenate([np.linspace(0.0, most, 201), np.linspace(most, -most, 401), np.linspace(-most, most, 401)])
    moments = np.array([(1.0 + STICKING) * (k - bend(k)) for k in path])
    loading, unloading = moments[602:], moments[201:602]
    # between the turns the moment is that of the plate, more or less by friction
    assert loading[200] == pytest.approx(friction, rel=0.01) and unloading[200] == pytest.approx(-friction, rel=0.01)
    area = np.trapezoid(loading, path[602:]) + np.trapezoid(unloading, path[201:602])
    assert area == pytest.approx(4.0 * friction * (most - friction / STICKING), rel=0.02)


def test_what_follows_takes_energy_and_never_gives():
    rng = np.random.default_rng(2)
    material = Material(yield_curvature=0.6, bend_hysteresis=0.1)
    memory, bend = memory_of(material)
    jump = 0.0
    for _ in range(100):
        jump = float(np.clip(jump + rng.normal(0.0, 0.3), -1.8, 1.8))
        plate, yarns = memory.saved()["bends"][0]
        before = (jump - plate) ** 2 + STICKING * (jump - yarns) ** 2
        bend(jump)
        plate, yarns = memory.saved()["bends"][0]
        assert (jump - plate) ** 2 + STICKING * (jump - yarns) ** 2 <= before + 1e-12


def test_painted_factors_scale_the_limits():
    mesh, _ = hinge(0.0)
    painted = {"yield_curvature": np.full(4, 0.5), "bend_hysteresis": np.full(4, 2.0)}
    plain, scaled = (
        of_cloth(mesh, Material(yield_curvature=4.0, bend_hysteresis=1.0), factors).limits[0]
        for factors in (None, painted)
    )
    assert scaled == pytest.approx([0.5 * plain[0], 2.0 * plain[1]])
    # nothing to scale
    assert of_cloth(mesh, Material(), painted).limits[0].tolist() == [np.inf, -1.0]


@pytest.mark.parametrize("method", [*MODELS, "robust", "guarded", "untangle"])
def test_a_run_that_is_resumed_keeps_its_bends_to_the_byte(method, tmp_path):
    material = Material(yield_curvature=15.0, bend_hysteresis=5.0, stretch_limit=0.02)
    _, sim = strip(method, material, bent=25.0, gravity=(0.0, -9.81, 0.0))
    scene = sim.world.scene.replace(frames=6)
    whole = weft.simulate(scene, tmp_path / "whole.zarr", progress=False)
    weft.simulate(scene, tmp_path / "parts.zarr", progress=False, frames=3)
    parts = weft.simulate(scene, tmp_path / "parts.zarr", progress=False, resume=True)
    for frame in range(whole.frames):
        assert whole.positions(frame).tobytes() == parts.positions(frame).tobytes()
        assert whole.velocities(frame).tobytes() == parts.velocities(frame).tobytes()
    # a moment in memory too
    sim.advance(3)
    saved = sim.save()
    sim.advance(3)
    first = np.array(sim.positions)
    sim.restore(saved)
    sim.advance(3)
    assert np.array_equal(first, sim.positions)


@pytest.mark.parametrize("method", MODELS)
def test_free_cloth_that_yields_keeps_its_momentum(method):
    mesh, sim = strip(method, Material(yield_curvature=10.0, bend_hysteresis=4.0), bent=25.0, air_damping=0.0)
    mass = sim.world.mass[: len(mesh.vertices), None]
    sim.velocities[:] = [0.3, -0.2, 0.1]
    sim.advance(10)
    momentum = (mass * sim.velocities).sum(axis=0)
    assert momentum == pytest.approx(mass.sum() * np.array([0.3, -0.2, 0.1]), rel=1e-9)
