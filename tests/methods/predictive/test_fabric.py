"""Springs and stitches: cloth stretches and shears as its material says, whatever its mesh."""

from itertools import pairwise

import numpy as np
import pytest

import weft
from weft.methods.predictive.fabric import Fabric
from weft.scene import Forces, Predictive
from weft.validate import theory
from weft.validate.contact import FRICTION, belt
from weft.validate.elasticity import CLOTH, LENGTH, PANEL, PANEL_WIDTH, hanging_strain, sheared_sag
from weft.validate.materials import CREASE_DEG, crease_angle
from weft.world import World


@pytest.mark.parametrize("cells", [10, 40])
def test_a_strip_hangs_as_long_as_theory_says(cells):
    found = hanging_strain("predictive", cells, 0.0)
    expected = 100.0 * theory.hanging_strain(CLOTH.density, CLOTH.mean("stretch"), LENGTH)
    assert found == pytest.approx(expected, rel=0.005)


def test_a_strip_along_the_bias_and_a_panel_shear_as_theory_says():
    found = hanging_strain("predictive", 20, 0.25 * np.pi)
    stretch, shear = CLOTH.mean("stretch"), CLOTH.mean("shear")
    stiffness = theory.bias_stiffness(stretch, stretch, shear)
    assert found == pytest.approx(100.0 * theory.hanging_strain(CLOTH.density, stiffness, LENGTH), rel=0.01)
    sag = 1e3 * theory.sheared_sag(PANEL.density, PANEL.mean("shear"), PANEL_WIDTH)
    assert sheared_sag("predictive", 16) == pytest.approx(sag, rel=0.04)


def test_a_belt_round_a_cylinder_has_the_tensions_of_theory():
    # attachments to both ends would take over tension
    assert belt(Predictive(attachments=False), 60) == pytest.approx(theory.belt_ratio(FRICTION, np.pi), rel=0.03)


@pytest.mark.parametrize("dt", [1.0 / 60.0, 1.0 / 15.0])
def test_what_falls_freely_falls_exactly(dt):
    cloth = weft.Cloth(shape=weft.Grid(size=(0.2, 0.2), cells=(4, 4)))
    forces = Forces(air_damping=0.0)
    scene = weft.Scene(cloths=[cloth], forces=forces, method=Predictive())
    falling = weft.Realtime(scene)
    start = falling.positions.copy()
    for _ in range(round(0.4 / dt)):
        falling.step(dt)
    way = np.broadcast_to([0.0, -0.5 * 9.81 * 0.4**2, 0.0], start.shape)
    np.testing.assert_allclose(falling.positions - start, way, atol=1e-9)


def test_the_largest_stretch_is_that_of_the_longest_spring():
    cloth = weft.Cloth(shape=weft.Grid(size=(0.3, 0.2), cells=(6, 4)))
    world = World(weft.Scene(cloths=[cloth], method=Predictive()))
    state = world.initial_state()
    x = state.positions() + np.random.default_rng(0).normal(scale=0.02, size=(35, 3))
    state.x.assign(x)
    mesh = world.cloths[0].mesh
    lengths = np.linalg.norm(x[mesh.edges[:, 0]] - x[mesh.edges[:, 1]], axis=1)
    assert Fabric(world).largest_stretch(state.x) == pytest.approx((lengths / mesh.rest_lengths).max() - 1.0)


def test_springs_and_stitches_of_a_colour_share_no_vertex():
    grid = weft.Grid(size=(0.3, 0.3), cells=(9, 9))
    cloths = [weft.Cloth(name=name, shape=grid) for name in ("front", "back")]
    seam = weft.Seam(cloth="front", to="back", vertices=[(10 * k, 10 * k, 10 * k) for k in range(10)])
    world = World(weft.Scene(cloths=cloths, seams=[seam], method=Predictive()))
    fabric = Fabric(world).arrays[0]
    pairs, places = fabric.slots.pairs.numpy(), fabric.places.numpy()
    # each edge is in one slot
    edges = np.concatenate([part.mesh.edges + part.first for part in world.cloths])
    np.testing.assert_array_equal(np.unique(np.sort(pairs[places], axis=1), axis=0), np.unique(edges, axis=0))
    assert len(places) == len(edges) == (pairs[:, 0] >= 0).sum()
    # neighbours in a line share the vertex between them; lines of a colour share none
    for begin, end in pairwise(fabric.line_colours.numpy()):
        some = pairs[begin:end]
        ends = np.bincount(some[some >= 0])
        assert ends.max() == 2 and (ends == 1).sum() % 2 == 0
    stitches, weights = fabric.stitches.numpy(), fabric.stitch_weights.numpy()
    assert len(stitches) == 10
    for begin, end in pairwise(fabric.stitch_colours.numpy()):
        vertices = stitches[begin:end][weights[begin:end] != 0.0]
        assert len(np.unique(vertices)) == len(vertices) > 0


def test_warp_and_weft_and_creases_are_those_of_the_material():
    twice = CLOTH.replace(stretch={"warp": 2.0 * CLOTH.mean("stretch"), "weft": CLOTH.mean("stretch")})
    expected = 50.0 * theory.hanging_strain(CLOTH.density, CLOTH.mean("stretch"), LENGTH)
    assert hanging_strain("predictive", 10, 0.0, twice) == pytest.approx(expected, rel=0.01)
    assert crease_angle("predictive", 10) == pytest.approx(CREASE_DEG, rel=0.01)
