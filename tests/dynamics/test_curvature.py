"""The bending energy of curvature tensors: plates that bend and twist as theory says, and the implicit force of that energy."""

import numpy as np
import pytest
import warp as wp
from scipy.sparse import csr_array
from scipy.sparse.linalg import spsolve

from weft.dynamics import curvature
from weft.dynamics.implicit.bending import TOLERANCE, Bending
from weft.mesh import shapes
from weft.validate.elasticity import strip_mesh


def energy_matrix(mesh, bend, pinned):
    """K with the shares of all hinges at equilibrium, dense, and K' with equal ones."""
    hinges = curvature.from_mesh(mesh, (bend, bend, 0.5 * bend))
    shared = curvature.share_jumps(hinges, pinned)
    a, b, c, d = (shared.matrix(v).toarray() for v in (shared.a, shared.b, shared.b_transposed, shared.d))
    assert (b == c.T).all()
    w = curvature.stencil_matrix(hinges, len(mesh.vertices)).toarray()
    return w.T @ (a - b @ np.linalg.solve(d, b.T)) @ w, w.T @ a @ w


@pytest.mark.parametrize("kind", ["same", "alternating", "irregular"])
def test_a_clamped_strip_bends_and_twists_as_a_plate_does(kind):
    length, cells, across = 1.0, 20, 4
    mesh = strip_mesh(length, cells, kind, across)
    x, z = mesh.vertices[:, 0], mesh.vertices[:, 2]
    pinned, tip = x < 1e-9, x > length - 1e-9
    k = csr_array(energy_matrix(mesh, 1.0, pinned)[0])
    # an even load bends the tip by load L^4 / (8 bend)
    load = np.zeros(len(x))
    np.add.at(load, mesh.faces.ravel(), np.repeat(mesh.rest_areas / 3.0, 3))
    sag = np.zeros(len(x))
    sag[~pinned] = spsolve(k[~pinned][:, ~pinned].tocsc(), load[~pinned])
    assert sag[tip].mean() == pytest.approx(1.0 / 8.0, rel=0.005)
    # a twist of the tip by one radian has the energy 2 bend width / (2 L), and a little more as both ends cannot warp
    free = ~(pinned | tip)
    turned = np.where(tip, z, 0.0)
    turned[free] = spsolve(k[free][:, free].tocsc(), -(k[free][:, tip] @ z[tip]))
    energy = 0.5 * turned @ (k @ turned)
    assert 1.0 < energy / (across / cells) < 1.06


def test_a_sheet_without_pins_does_not_resist_being_moved_turned_and_stretched():
    mesh = shapes.grid((0.3, 0.2), (6, 5), diagonals="alternating")
    k, _ = energy_matrix(mesh, 1.0, np.zeros(len(mesh.vertices), bool))
    flat = np.column_stack([np.ones(len(mesh.vertices)), mesh.vertices])
    assert np.abs(k @ flat).max() < 1e-9 * np.abs(k).max()


@pytest.mark.parametrize("kind", ["same", "irregular"])
def test_the_moments_of_the_implicit_step_are_those_of_the_energy(kind):
    mesh = strip_mesh(0.5, 8, kind)
    count = len(mesh.vertices)
    rng = np.random.default_rng(1)
    x = mesh.vertices + rng.normal(scale=0.02, size=(count, 3))
    pinned = mesh.vertices[:, 0] < 1e-9
    hinges = curvature.from_mesh(mesh, (2.0, 2.0, 1.0))
    bending = Bending(hinges, np.zeros(len(hinges.quads)), count, "cpu")
    rough = bending.pin(pinned).toarray()
    still = wp.zeros(count, dtype=wp.vec3d, device="cpu")
    bending.bend(wp.array(x, dtype=wp.vec3d, device="cpu"), still, still, 0.01)
    found = curvature.stencil_matrix(hinges, count).T @ bending.moment.numpy()
    k, equal = energy_matrix(mesh, 2.0, pinned)
    assert np.abs(found - k @ x).max() < TOLERANCE * np.abs(k @ x).max()
    # the matrix of the step is that of equal shares, never less than the exact one
    assert rough == pytest.approx(equal)
    assert np.linalg.eigvalsh(rough - k).min() > -1e-12 * np.abs(k).max()
    assert np.linalg.eigvalsh(k).min() > -1e-9 * np.abs(k).max()
    # all pairs of the matrix are announced
    pairs = {tuple(pair) for pair in bending.pairs()}
    assert pairs >= {(i, j) for i, j in zip(*np.nonzero(np.triu(rough, 1)), strict=True)}


@pytest.mark.parametrize("turn", [0.0, 1.3])
def test_a_curved_rest_shape_has_no_moments_and_keeps_its_side(turn):
    mesh = shapes.icosphere(0.5, subdivisions=2)
    hinges = curvature.from_mesh(mesh, (0.1, 0.1, 0.05))
    bending = Bending(hinges, np.full(len(hinges.quads), 0.1), len(mesh.vertices), "cpu")
    bending.pin(np.zeros(len(mesh.vertices), bool))
    rotation = np.array([[np.cos(turn), np.sin(turn), 0.0], [-np.sin(turn), np.cos(turn), 0.0], [0.0, 0.0, 1.0]])

    def moments(x, v):
        arrays = [wp.array(a, dtype=wp.vec3d, device="cpu") for a in (x, v, np.zeros_like(x))]
        bending.bend(*arrays, 1e-9)
        return np.abs(bending.moment.numpy()).max()

    x = mesh.vertices @ rotation
    spin = np.cross([0.0, 1.0, 0.0], x)
    inside_out = moments(-x, 0.0 * x)
    assert moments(x, 0.0 * x) < 1e-12 * inside_out
    # damping does not brake a body that turns
    assert moments(x, spin) < 1e-6 * inside_out
