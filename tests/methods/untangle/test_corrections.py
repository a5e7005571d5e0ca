"""Corrections after an implicit step: collisions of untangled cloth are stopped, and folds that cross are flattened."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.analysis.analyser import Analyser
from weft.analysis.colour import DIVIDES
from weft.geometry.intersection import intersections, sewn_pairs
from weft.methods.untangle.cloth_contact import stitched
from weft.methods.untangle.corrections import (
    FLATTENING,
    FOLD_FLATTENING,
    AllowedCrossings,
    ClothCollisions,
    Unfolding,
    related,
    sides,
)
from weft.world import Surface, World
from weft.world.constraints import FLYPAPER, NOBODY

DT = 1.0 / 60.0


def two_sheets(gap=0.01, **more):
    def sheet(name, position):
        return weft.Cloth(
            name=name,
            shape=weft.Grid(size=(0.2, 0.2), cells=(6, 6)),
            placement=weft.Placement(position=position),
        )

    cloths = [sheet("lower", (0.0, 0.0, 0.0)), sheet("upper", (0.013, gap, 0.007))]
    return World(weft.Scene(cloths=cloths, thickness=0.002, **more))


def stop(world, x, end, *, owner=None, spared=None):
    """Where the vertices and their velocities end, and what was found and left."""
    surface = Surface.from_arrays(len(x), world.cloth_faces, device=world.device)
    world.begin_step(world.initial_state(), DT)
    held = np.full(len(x), int(NOBODY)) if owner is None else owner
    x_end, v_end = (wp.array(a, dtype=wp.vec3d, device="cpu") for a in (end, (end - x) / DT))
    found = ClothCollisions(world, surface).stop(
        wp.array(x, dtype=wp.vec3d, device="cpu"),
        DT,
        wp.array(held, dtype=int, device="cpu"),
        spared or AllowedCrossings(None, len(x)),
        x_end,
        v_end,
    )
    return x_end.numpy(), v_end.numpy(), found


def crossed(world, seed=0):
    """Two sheets apart, and where they go: the upper one through the lower one, crumpled."""
    x = world.initial_state().positions()
    upper = np.arange(len(x)) >= len(x) // 2
    end = x + np.random.default_rng(seed).normal(scale=0.004, size=x.shape)
    end[upper, 1] -= 0.02
    return x, end


@pytest.mark.parametrize("seed", range(4))
def test_sheets_that_would_pass_through_each_other_are_stopped(seed):
    world = two_sheets()
    x, end = crossed(world, seed)
    reached, v, (found, left) = stop(world, x, end)
    assert found > 0 and left == 0
    assert len(intersections(reached, world.cloth_faces)) == 0
    # no impulse from outside, and the velocity changes as the way does
    mass = world.mass[: len(x)]
    assert mass @ (v * DT) == pytest.approx(mass @ (end - x), abs=1e-12)
    assert v * DT == pytest.approx(reached - x, abs=1e-12)


def test_what_does_not_collide_is_left_as_it_is():
    world = two_sheets()
    x = world.initial_state().positions()
    end = x + np.random.default_rng(1).normal(scale=0.001, size=x.shape)
    reached, _, (found, _) = stop(world, x, end)
    assert found == 0
    assert (reached == end).all()


def test_pinched_vertices_go_where_they_must():
    world = two_sheets()
    x, end = crossed(world)
    owner = np.where(np.arange(len(x)) < len(x) // 2, int(FLYPAPER), int(NOBODY))
    reached, _, (found, left) = stop(world, x, end, owner=owner)
    assert found > 0 and left == 0
    assert (reached[owner == int(FLYPAPER)] == end[owner == int(FLYPAPER)]).all()
    assert len(intersections(reached, world.cloth_faces)) == 0


def test_what_has_passed_through_may_come_back():
    """Two sheets that cross go apart through each other; without the analysis they are held where they are."""
    world = two_sheets()
    end = world.initial_state().positions()
    x = end.copy()
    upper = np.arange(len(x)) >= len(x) // 2
    x[upper] = x[upper] @ [[1.0, 0.2, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    analysis = Analyser(world.cloth_faces, len(x)).analyse(x)
    assert len(analysis) > 0
    reached, _, _ = stop(world, x, end, spared=AllowedCrossings(analysis, len(x)))
    assert len(intersections(reached, world.cloth_faces)) == 0
    stuck, _, _ = stop(world, x, end)
    assert len(intersections(stuck, world.cloth_faces)) > 0


def test_sides_are_those_of_the_stencils():
    vertices = np.array([[0, 1, 2, 3], [4, 5, 6, 7]])
    weights = np.array([[1.0, -0.2, -0.3, -0.5], [0.4, 0.6, -0.1, -0.9]])
    found = [{(int(a[k]), int(b[k])) for a, b in sides(vertices, weights)} for k in range(2)]
    assert found == [{(0, 1), (0, 2), (0, 3)}, {(4, 6), (4, 7), (5, 6), (5, 7)}]


def test_triangles_that_are_sewn_together_may_cross_and_no_others():
    """Vertices joined by a third one that both are sewn to are not: a pleat must not pass through itself."""
    world = two_sheets(seams=[weft.Seam(cloth="lower", to="upper", vertices=[(0, 0, 1), (1, 0, 1)])])
    relation = stitched(world)
    half = world.cloth_vertex_count // 2
    rows = np.array([[0, half, half + 1, half + 7], [0, 1, 2, 8]])
    weights = np.tile([1.0, -0.3, -0.3, -0.4], (2, 1))
    assert related(relation, rows, weights).tolist() == [True, False]
    assert len(sewn_pairs(world.cloth_faces, world.seams.vertices)) > 0


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


@pytest.mark.parametrize(("make", "fraction"), [(folded_corner, FOLD_FLATTENING), (poked_through, FLATTENING)])
def test_crossing_vertices_move_a_fraction_towards_their_neighbours(make, fraction):
    world, x = make()
    # says what is free to move
    world.begin_step(world.initial_state(), 0.01)
    analysis = Analyser(world.cloth_faces, len(x)).analyse(x)
    empty = analysis.single & (analysis.status[::2] != DIVIDES)
    assert (
        len(analysis) and empty.all() == (fraction == FOLD_FLATTENING) and empty.any() == (fraction == FOLD_FLATTENING)
    )
    chosen = analysis.crossing_vertices()
    held = chosen[:1]
    expected = x.copy()
    for i in chosen[1:]:
        edges = analysis.topology.edges
        near = edges[(edges == i).any(axis=1)].ravel()
        expected[i] += fraction * (x[near[near != i]].mean(axis=0) - x[i])
    moved, speed = (wp.array(a, dtype=wp.vec3d, device="cpu") for a in (x, np.ones_like(x)))
    Unfolding(world).flatten(moved, speed, analysis, held=held)
    np.testing.assert_allclose(moved.numpy(), expected, atol=1e-14)
    # what all have alike stays
    np.testing.assert_allclose(speed.numpy(), 1.0, atol=1e-14)
