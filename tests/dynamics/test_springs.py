"""Springs from meshes: stiffness, bending weights, seams."""

import numpy as np
import pytest

from weft.dynamics import curvature, springs
from weft.mesh import TriMesh, shapes
from weft.scene import Material
from weft.world import Seams

COTTON = Material(stretch=800.0, shear=60.0, bend=2e-5, damping=1e-4)


def hinge(angle: float, width: float = 1.0) -> np.ndarray:
    """Corners a, b, c, d of two right triangles on the edge ab, folded by `angle`."""
    return np.array(
        [[0, 0, 0], [0, 0, width], [-1.0, 0, 0.3], [np.cos(angle), np.sin(angle), 0.6]],
        dtype=float,
    )


def test_structural_edges_of_a_square_grid_have_the_stretch_stiffness():
    mesh = shapes.grid((1.0, 1.0), (10, 10), diagonals="same")
    network = springs.from_mesh(mesh, COTTON)
    edges = len(mesh.edges)
    inner = (mesh.edge_faces >= 0).all(axis=1)
    straight = network.kind[:edges] == springs.STRUCTURAL
    assert np.allclose(network.stiffness[:edges][inner & straight], 800.0)
    # half the cloth is missing beside a border edge
    assert np.allclose(network.stiffness[:edges][~inner], 400.0)
    # a diagonal is longer by sqrt 2, and runs across the threads
    assert np.allclose(network.stiffness[:edges][~straight], 60.0 / 2.0)
    assert np.allclose(network.damping, 1e-4 * network.stiffness)


def test_a_pulled_strip_gives_the_same_force_however_fine_it_is():
    """Tension of a uniform stretch, summed over a cut across the strip."""
    strain, forces = 0.01, []
    for cells in ((8, 4), (16, 8), (32, 16)):
        mesh = shapes.grid((1.0, 0.5), cells, diagonals="same")
        network = springs.from_mesh(mesh, COTTON.replace(shear=0.0))
        moved = mesh.vertices * (1.0 + strain, 1.0, 1.0)
        ends = moved[network.pairs]
        cut = 0.01
        crossing = (ends[:, 0, 0] < cut) != (ends[:, 1, 0] < cut)
        d = ends[:, 1] - ends[:, 0]
        length = np.linalg.norm(d, axis=1)
        pull = network.stiffness * (length - network.rest) * np.abs(d[:, 0]) / length
        forces.append(pull[crossing & (network.kind == springs.STRUCTURAL)].sum())
    assert np.allclose(forces, 800.0 * strain * 0.5, rtol=1e-3)


@pytest.mark.parametrize("angle", [0.0, 0.1, 1.0, 2.5])
def test_bending_stencil_measures_the_fold(angle):
    corners = hinge(angle, width=0.7)
    weights = curvature.hinge_weights(hinge(0.0, width=0.7)[None])[0]
    assert weights.sum() == pytest.approx(0.0, abs=1e-12)
    r = weights @ corners
    assert np.linalg.norm(r) == pytest.approx(2.0 * 0.7 * np.sin(angle / 2.0), abs=1e-12)


@pytest.mark.parametrize("direction_deg", [0.0, 30.0, 45.0, 90.0])
def test_bending_energy_of_a_rolled_sheet(direction_deg):
    """A sheet rolled to radius R has the energy bend / (2 R^2) an area; exact along the threads."""
    radius, bend = 0.5, 3e-5
    mesh = shapes.grid((0.6, 0.6), (60, 60))
    network = springs.from_mesh(mesh, COTTON.replace(bend=bend))
    turn = np.radians(direction_deg)
    along = mesh.vertices[:, 0] * np.cos(turn) + mesh.vertices[:, 2] * np.sin(turn)
    aside = mesh.vertices[:, 2] * np.cos(turn) - mesh.vertices[:, 0] * np.sin(turn)
    angle = along / radius
    rolled = np.column_stack([radius * np.sin(angle), radius * (1.0 - np.cos(angle)), aside])
    r = np.einsum("hk,hkd->hd", network.weights, rolled[network.quads])
    energy = 0.5 * (network.quad_stiffness * (r**2).sum(axis=1)).sum()
    assert energy == pytest.approx(0.5 * bend / radius**2 * 0.36, rel=0.1 if direction_deg % 90 == 0 else 0.6)


def test_a_curved_rest_shape_has_no_bending_force():
    mesh = TriMesh(hinge(0.8), [[0, 1, 2], [1, 0, 3]])
    network = springs.from_mesh(mesh, COTTON)
    r = network.weights[0] @ mesh.vertices[network.quads[0]]
    assert network.quad_rest[0] == pytest.approx(np.linalg.norm(r))


def test_needles_do_not_make_springs_without_bound():
    needle = TriMesh([[0, 0, 0], [1e-5, 0, 0], [0, 0, 1.0]], [[0, 2, 1]])
    network = springs.from_mesh(needle, COTTON)
    assert network.stiffness.max() <= springs.LARGEST_AREA_RATIO * COTTON.stretch


def test_stitches_pull_the_vertex_to_the_edge_point():
    seams = Seams(np.array([[5, 1, 2]], np.int32), np.array([0.25]), np.array([700.0]), np.array([0.07]))
    network = springs.from_seams(seams)
    x = np.zeros((6, 3))
    x[1], x[2] = (1.0, 0.0, 0.0), (2.0, 0.0, 0.0)
    x[5] = 0.75 * x[1] + 0.25 * x[2]
    assert np.allclose(network.weights[0] @ x[network.quads[0]], 0.0)
    assert network.weights[0].sum() == 0.0
    assert network.quad_stiffness[0] == 700.0
