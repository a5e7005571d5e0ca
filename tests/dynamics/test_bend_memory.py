"""Rest angles, yield and friction of bending, in both models that have them."""

import numpy as np
import pytest
import warp as wp

import weft
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
