"""The elastic energy of cloth: known strains, a cylinder, seams, and a swing that keeps its energy."""

import numpy as np
import pytest

import weft
from weft.view.energy import ElasticEnergy
from weft.world import World

FREE = weft.Grid(size=(0.4, 0.3), cells=(16, 12))


def sheet(**material):
    """The world of one flat sheet of 0.12 m^2 in the plane of x and z."""
    numbers = {"density": 0.1, "stretch": 80.0, "shear": 30.0, "bend": 1e-5, **material}
    cloth = weft.Cloth(shape=FREE, material=weft.Material(**numbers))
    return World(weft.Scene(cloths=[cloth], method="plain"), "cpu")


def at_rest(world):
    return world.initial_state().positions()[: world.cloth_vertex_count], np.zeros(world.cloth_vertex_count, bool)


def test_a_strain_along_the_threads_and_a_shear_have_the_energy_of_the_material():
    world = sheet()
    x, free = at_rest(world)
    energy = ElasticEnergy(world)
    assert energy.of(x, free) == pytest.approx(0.0, abs=1e-15)
    assert energy.membrane(x * [1.05, 1.0, 1.0]) == pytest.approx(0.5 * 80.0 * 0.05**2 * 0.12, rel=1e-3)
    sheared = x + 1e-3 * x[:, [2, 1, 0]] * [1.0, 0.0, 1.0]
    # the angle of the threads changes by twice 1e-3
    assert energy.membrane(sheared) == pytest.approx(0.5 * 30.0 * (2e-3) ** 2 * 0.12, rel=5e-3)
    # a turn and a shift change nothing
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(3, 3)))[0]
    assert energy.of((x * [1.05, 1, 1]) @ turn + [1, 2, 3], free) == pytest.approx(energy.of(x * [1.05, 1, 1], free))


def test_threads_beyond_their_limit_store_more():
    world = sheet(stretch_limit=0.03)
    x, _ = at_rest(world)
    energy = ElasticEnergy(world)
    below = 0.5 * 80.0 * 0.03**2 * 0.12
    assert energy.membrane(x * [1.03, 1.0, 1.0]) == pytest.approx(below, rel=1e-3)
    assert energy.membrane(x * [1.05, 1.0, 1.0]) > 0.5 * 80.0 * 0.05**2 * 0.12 + 10.0 * 0.5 * 80.0 * 0.02**2 * 0.12


def test_a_rolled_sheet_has_the_energy_of_a_plate():
    world = sheet(bend=2e-5)
    x, free = at_rest(world)
    radius = 0.2
    angle = (x[:, 0] - x[:, 0].mean()) / radius
    rolled = np.column_stack([radius * np.sin(angle), radius * (1.0 - np.cos(angle)), x[:, 2]])
    # the last half cell at each of the two free ends is flat
    bent_area = 0.12 * 15.0 / 16.0
    found = ElasticEnergy(world).bending(rolled, free)
    assert found == pytest.approx(0.5 * 2e-5 / radius**2 * bent_area, rel=0.04)


def test_open_stitches_store_energy_and_closed_ones_none():
    strip = weft.Grid(size=(0.2, 0.2), cells=(4, 4))
    scene = weft.Scene(
        cloths=[
            weft.Cloth(name="left", shape=strip),
            weft.Cloth(name="right", shape=strip, placement={"position": (0.21, 0, 0)}),
        ],
        seams=[weft.Seam(cloth="left", to="right", vertices=[(5 * k + 4, 5 * k, 5 * k) for k in range(5)])],
        method="robust",
    )
    world = World(scene, "cpu")
    x = world.initial_state().positions()[: world.cloth_vertex_count].copy()
    energy = ElasticEnergy(world)
    finite = np.isfinite(world.seams.stiffness)
    assert energy.seams(x) == pytest.approx(0.5 * world.seams.stiffness[finite].sum() * 0.01**2, rel=1e-9)
    x[25:, 0] -= 0.01
    assert energy.seams(x) == pytest.approx(0.0, abs=1e-12)
