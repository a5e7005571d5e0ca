"""Crossings of a step are undone by zones that go through it as rigid bodies; what is left is a tangle that comes free."""

import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.methods import make_method
from weft.methods.predictive.zones import HELD, Planes, Step, first_of_each, loose_vertices, rigid_zones, weights_of
from weft.scene import Predictive
from weft.world import World

sys.path.insert(0, str(Path(__file__).parents[3]))
from benchmarks import stability

NONE = Planes(*(np.zeros(shape) for shape in ((0,), (0,), (0,), (0, 3), (0,), (0,), (0,))))
NONE = NONE._replace(vertices=np.zeros(0, int), others=np.zeros(0, int))


def step_of(start, end, *, weight=None, velocity=None, edges=(), rest=(), planes=NONE):
    count = len(start)
    weight = np.ones(count) if weight is None else np.asarray(weight)
    velocity = np.zeros((count, 3)) if velocity is None else velocity
    edges = np.array(edges, int).reshape(-1, 2)
    return Step(start, end, velocity, weight, edges, np.asarray(rest, float), planes, 0.1)


def floor(vertices, height, thickness=0.01):
    """A half-space above a floor of this height, for vertices."""
    count = len(vertices)
    up = np.tile([0.0, 1.0, 0.0], (count, 1))
    return Planes(
        np.array(vertices), np.full(count, -1), np.ones(count), up, np.full(count, thickness),
        np.full(count, height + thickness), np.zeros(count),
    )  # fmt: skip


def test_zones_are_read_from_their_first_vertices():
    np.testing.assert_array_equal(first_of_each(np.array([0, 0, 1, 3, 3, 4])), [0, 0, 0, 3, 3, 3])


def test_a_zone_takes_the_mean_displacement_by_mass_and_the_rotation_of_all():
    rng = np.random.default_rng(1)
    start = rng.normal(size=(40, 3))
    c, s = np.cos(0.3), np.sin(0.3)
    turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    end = start @ turn.T + [0.1, 0.2, 0.3]
    velocity = rng.normal(size=(40, 3))
    weight = rng.uniform(0.5, 2.0, 40)
    zones = np.arange(40)
    zones[[3, 7, 9]] = 3
    # what would be a rigid motion anyway stays as it is
    moved, moving = rigid_zones(zones, step_of(start, end, weight=weight, velocity=velocity))
    np.testing.assert_allclose(moved, end, atol=1e-7)
    # and three vertices that moved against each other keep their places in that motion, and their momentum
    far = end.copy()
    far[3] += [0.01, 0.0, 0.0]
    step = step_of(start, far, weight=weight, velocity=velocity)
    moved, moving = rigid_zones(zones, step)
    w = weight[[3, 7, 9], None]
    gaps = moved[[3, 7]] - moved[9]
    np.testing.assert_allclose(np.linalg.norm(gaps, axis=1), np.linalg.norm(start[[3, 7]] - start[9], axis=1))
    np.testing.assert_allclose((w * moved[[3, 7, 9]]).sum(axis=0), (w * far[[3, 7, 9]]).sum(axis=0))
    np.testing.assert_allclose((w * moving[[3, 7, 9]]).sum(axis=0), (w * velocity[[3, 7, 9]]).sum(axis=0))
    others = np.setdiff1d(np.arange(40), [3, 7, 9])
    np.testing.assert_array_equal(moved[others], far[others])
    np.testing.assert_array_equal(moving[others], velocity[others])


def test_a_zone_goes_with_its_held_vertices():
    start = np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [5, 5, 5], [5, 0, 0]])
    end = start + [[0.5, 0, 0], [9, 9, 9], [9, 9, 9], [0.5, 0, 0], [0.5, 0, 0]]
    weight = weights_of(np.array([0.0, 2.0, 2.0, 0.0, 0.0]))
    assert weight[0] == HELD and weight[1] == 1.0
    moved, _ = rigid_zones(np.array([0, 0, 0, 3, 4]), step_of(start, end, weight=weight))
    np.testing.assert_allclose(moved, start + [0.5, 0, 0], atol=1e-4)
    np.testing.assert_array_equal(moved[[0, 3, 4]], end[[0, 3, 4]])


def test_a_zone_stays_out_of_a_collider():
    start = np.array([[0.0, 0.05, 0], [1, 0.3, 0], [0, 1, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]])
    end = start.copy()
    end[1:3] += [[0, -0.6, 0], [0.3, 0, 0]]
    step = step_of(start, end, weight=[1, 1, 1, 1e5, 1e5, 1e5], planes=floor([0, 1], 0.0))
    moved, _ = rigid_zones(np.array([0, 0, 0, 3, 4, 5]), step)
    # the lowest vertex stands on the floor, the others lie to it as at the start
    np.testing.assert_allclose(moved[:3] - start[:3], np.tile([0.1, -0.04, 0.0], (3, 1)), atol=1e-4)


def test_vertices_leave_zones_that_stretch_them_on_or_drive_them_in():
    start = np.array([[0.0, 0, 0], [1, 0, 0], [3, 0, 0], [3.5, 0, 0]])
    end = start.copy()
    end[2] = [1.8, 0, 0]
    zones = np.array([0, 1, 2, 2])
    edges, rest = [(1, 2), (2, 3)], [1.0, 0.5]
    # the edge was twice as long as at rest, and the zone keeps it so
    found = loose_vertices(zones, step_of(start, end, edges=edges, rest=rest), start)
    np.testing.assert_array_equal(found, [False, False, True, False])
    # so was an edge within the zone
    found = loose_vertices(zones, step_of(start, end, edges=[(2, 3)], rest=[0.2]), start)
    assert not found.any()
    found = loose_vertices(zones, step_of(start, start + [[0], [0], [0.2], [0]], edges=[(2, 3)], rest=[0.2]), start)
    np.testing.assert_array_equal(found, [False, False, True, True])
    # it comes back with its zone
    assert not loose_vertices(zones, step_of(start, end, edges=edges, rest=rest), end).any()
    # it is stretched in this step only
    assert not loose_vertices(zones, step_of(end, end, edges=edges, rest=rest), start).any()
    moved = start - [0, 0.02, 0]
    found = loose_vertices(zones, step_of(start, end, planes=floor([0, 2], 0.0)), moved)
    np.testing.assert_array_equal(found, [False, False, True, False])
    # within the thickness it is pushed out again
    assert not loose_vertices(zones, step_of(start, end, planes=floor([0, 2], -0.021)), moved).any()


def two_sheets(move, turn=(0, 0, 0), **options):
    """Two sheets of which the upper one starts clear of the other, after a step in which `move` moved the vertices.

    Gives all crossings as they were, those that are left, and how many the method knows of.
    """
    over = stability.sheet("over", (1, 1), (5, 5), (0, 0.05, 0), turn=turn)
    scene = weft.Scene(
        cloths=[stability.sheet("under", (1.0, 1.0), (6, 6), (0, 0, 0)), over], method=Predictive(**options)
    )
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    method.begin(state)
    world.begin_step(state, 0.03)
    tangles, crossings = method.solver.tangles, stability.Crossings(world)
    tangles.begin(state.x)
    moved = move(state.positions().copy())
    state.x.assign(moved)
    known = tangles.resolve(state.x, state.v, 0.03, 1.0, armed=True)
    return crossings.count(moved), crossings.count(state.positions()), known


@pytest.mark.parametrize("seed", range(4))
def test_whatever_crosses_in_a_step_is_undone(seed):
    # vertices are thrown about, so that triangles that share a vertex cross too
    before, after, known = two_sheets(lambda x: x + np.random.default_rng(seed).normal(scale=0.12, size=x.shape))
    assert sum(before) > 50
    assert after == (0, 0, 0) and known == 0


def test_what_layers_bring_back_is_not_undone():
    def tilt(x):
        x[49:, 1] = 0.3 * x[49:, 0]
        return x

    layers = [("under", "over")]
    assert two_sheets(tilt)[1:] == ((0, 0, 0), 0)
    before, after, known = two_sheets(tilt, layers=layers)
    assert before[1] > 10 and after[1] > 10 and known > 10
    # layers know nothing of cloth whose other side is up: the two may face each other, as the arm and the torso of a shirt
    assert two_sheets(tilt, layers=layers, turn=(180, 0, 0))[1:] == ((0, 0, 0), 0)


def test_a_tube_that_falls_upright_does_not_cross_itself():
    found = stability.measure(stability.fallen())
    assert found["own"] <= 5 and found["solid"] == 0
    assert found["stretch"] < 0.6


def test_tangles_are_saved():
    # two sheets that start through each other, and nobody knows which is to be where
    sheets = [stability.sheet("flat", (0.6, 0.6), (12, 12), (0, 0, 0)),
              stability.sheet("steep", (0.3, 0.3), (7, 7), (0.01, 0.02, 0), turn=(80, 20, 0))]  # fmt: skip
    cloth = weft.Realtime(weft.Scene(cloths=sheets, method=Predictive()))
    for _ in range(3):
        cloth.step(1 / 30)
    tangles = cloth.solver.tangles
    assert tangles.count > 0 and tangles.arrays.marks.numpy().any()
    saved = cloth.save()
    ends = []
    for _ in range(2):
        for _ in range(4):
            cloth.step(1 / 30)
        ends.append(cloth.positions.tobytes())
        cloth.restore(saved)
    assert ends[0] == ends[1]
    cloth.reset_to(cloth.positions)
    assert tangles.count == 0 and not tangles.arrays.marks.numpy().any()


def test_contacts_at_tangles_sleep():
    sheets = [stability.sheet("flat", (0.6, 0.6), (12, 12), (0, 0, 0)),
              stability.sheet("steep", (0.3, 0.3), (7, 7), (0.01, 0.02, 0), turn=(80, 20, 0))]  # fmt: skip
    cloth = weft.Realtime(weft.Scene(cloths=sheets, method=Predictive()))
    cloth.step(1 / 30)
    solver = cloth.solver
    cloth.step(1 / 30)
    contacts = solver.contacts
    count = int(solver.settings["contacts"][0])
    solver.tangles.arrays.marks.fill_(1)
    kinds = contacts.arrays.kinds.numpy()[:count].copy()
    solver.tangles.let_go(contacts)
    triangle = contacts.arrays.triangles.numpy()[:count] >= 0
    np.testing.assert_array_equal(np.abs(contacts.arrays.kinds.numpy()[:count][triangle]), 2 * np.abs(kinds[triangle]))
    assert (contacts.arrays.thickness.numpy()[:count][~triangle] < 0.0).all() and (~triangle).any()


def test_flat_cloth_that_is_off_its_plane_by_next_to_nothing_does_not_cross_itself():
    """Distances from triangles are then so small that their products are 0."""
    sheet = weft.Cloth(
        shape=weft.Grid(size=(1.0, 0.5), cells=(20, 10)),
        placement=weft.Placement(rotation_deg=(0, 0, 90)),
        pins=[weft.Pin(boundary="right")],
    )
    scene = weft.Scene(cloths=[sheet], fps=30, method="predictive")
    found = []
    for scale in (0.0, 1e-226):
        world = World(scene, "cpu")
        method, state = make_method(world, scene.method), world.initial_state()
        x = state.positions()
        x[:, 0] = scale * np.random.default_rng(0).normal(size=len(x))
        state.x.assign(x)
        method.advance_frame(state)
        found.append(state.positions())
    np.testing.assert_allclose(found[1], found[0], atol=1e-12)
