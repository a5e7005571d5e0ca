"""What crosses goes a part of the way to the middle of its neighbours: most of it in small folds with nothing inside."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.analysis.analyser import Analyser
from weft.analysis.colour import DIVIDES
from weft.methods.untangle.corrections import FLATTENING, FOLD_FLATTENING, Unfolding
from weft.world import World


def folded_corner():
    """A sheet whose border is folded over and, at one vertex, through it again."""
    world = World(weft.Scene(cloths=[weft.Cloth(shape=weft.Grid(size=(1.0, 1.0), cells=(6, 6)))]), "cpu")
    x = world.initial_state().positions()
    border = np.flatnonzero(x[:, 0] > 0.49)
    x[border, 0] -= 0.27
    x[border, 1] += 0.02
    x[border[3], 1] -= 0.05
    return world, x


def poked_through():
    """Two sheets, a vertex of one through the other: a path with an inside."""
    sheets = [
        weft.Cloth(name=name, shape=weft.Grid(size=(1.0, 1.0), cells=(6, 6)), placement={"position": (0.03, y, 0.05)})
        for name, y in (("a", 0.0), ("b", 0.05))
    ]
    world = World(weft.Scene(cloths=sheets), "cpu")
    x = world.initial_state().positions()
    x[24, 1] += 0.1
    return world, x


@pytest.mark.parametrize(("make", "part"), [(folded_corner, FOLD_FLATTENING), (poked_through, FLATTENING)])
def test_it_goes_a_part_of_the_way(make, part):
    world, x = make()
    # says what is free to move
    world.begin_step(world.initial_state(), 0.01)
    analysis = Analyser(world.cloth_faces, len(x)).analyse(x)
    empty = analysis.single & (analysis.status[::2] != DIVIDES)
    assert len(analysis) and empty.all() == (part == FOLD_FLATTENING) and empty.any() == (part == FOLD_FLATTENING)
    chosen = analysis.crossing_vertices()
    held = chosen[:1]
    expected = x.copy()
    for i in chosen[1:]:
        edges = analysis.topology.edges
        near = edges[(edges == i).any(axis=1)].ravel()
        expected[i] += part * (x[near[near != i]].mean(axis=0) - x[i])
    moved, speed = (wp.array(a, dtype=wp.vec3d, device="cpu") for a in (x, np.ones_like(x)))
    Unfolding(world).flatten(moved, speed, analysis, held=held)
    np.testing.assert_allclose(moved.numpy(), expected, atol=1e-14)
    # what all have alike stays
    np.testing.assert_allclose(speed.numpy(), 1.0, atol=1e-14)
