"""Flypapering: still surfaces hold exactly, common motion carries exactly, weights share out what differs."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

import weft
from weft.dynamics.implicit.model import Implicit
from weft.errors import WeftError
from weft.methods.untangle.flypaper import Flypaper, SurfacePoints
from weft.methods.untangle.solid_contact import SolidContact
from weft.methods.untangle.solid_surfaces import SolidSurfaces
from weft.world import World
from weft.world.constraints import Constraints

FRAME = 1.0 / 60.0


def pinched_world(upper=None, lower=None, extra=()):
    """A sheet between two boxes that come within 2 mm of it."""
    still = weft.Still()
    gap = 0.002
    boxes = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=(0.3, 0.1, 0.3), cells=(3, 3, 3)),
            placement=weft.Placement(position=(0.0, side * (0.05 + gap), 0.0)),
            motion=motion or still,
        )
        for name, side, motion in (("upper", 1.0, upper), ("lower", -1.0, lower))
    ]
    cloth = weft.Cloth(name="sheet", shape=weft.Grid(size=(0.2, 0.2), cells=(5, 5)))
    return World(weft.Scene(cloths=[cloth], colliders=[*boxes, *extra]))


def near_points(world, x, reach=0.02):
    """Every collider within reach of every vertex."""
    found = SolidSurfaces(world)
    state = world.initial_state()
    if not world.inverse_mass.numpy().any():
        world.begin_step(state, FRAME)
    found.find(wp.array(x, dtype=wp.vec3d, device="cpu"), state.v, reach=reach)
    faces, weights = found.nearest.face.numpy(), found.nearest.weights.numpy()
    vertices, points, bary, offsets = [], [], [], [0]
    for i in range(world.cloth_vertex_count):
        near = np.flatnonzero(faces[:, i] >= 0)
        if len(near):
            vertices.append(i)
            points += [world.cloth_face_count + faces[k, i] for k in near]
            bary += [weights[k, i] for k in near]
            offsets.append(len(points))
    return SurfacePoints(np.array(vertices), np.array(offsets), np.array(points), np.array(bary))


def carried(world, start, goal, points, **options):
    """Where each vertex is constrained to go, from the constraints themselves."""
    paper = Flypaper(world, **options)
    paper.take(points)
    constraints = Constraints(world.cloth_vertex_count, "cpu")
    arrays = [wp.array(a, dtype=wp.vec3d, device="cpu") for a in (start, np.zeros_like(start), goal)]
    paper.begin(*arrays, FRAME, constraints)
    assert (constraints.directions.numpy()[points.vertices] == 3).all()
    assert (constraints.filters.numpy()[points.vertices] == 0.0).all()
    return constraints.velocity.numpy() * FRAME


def run(world, steps, restraints_of, dt=FRAME):
    """The world with implicit cloth, step by step; yields positions and velocities of all vertices."""
    state = world.initial_state()
    world.begin_step(state, dt)
    model = Implicit.from_world(world)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    yield state.positions(), state.velocities()
    for _ in range(steps):
        world.begin_step(state, dt)
        model.propose(state, world.target, dt, x_end, v_end, restraints=restraints_of(state))
        world.carry_colliders(state, dt, x_end, v_end)
        state.take(x_end, v_end)
        state.time += dt
        yield state.positions(), state.velocities()


def flypaper_anew(world, **options):
    """A restraint whose points are found anew at the start of each step, as the method does."""
    paper = Flypaper(world, **options)

    def restraints(state):
        paper.take(near_points(world, state.positions()))
        return [paper]

    return restraints


def test_between_still_surfaces_nothing_moves_at_all():
    world = pinched_world()
    states = list(run(world, 5, flypaper_anew(world)))
    for x, v in states[1:]:
        assert np.array_equal(x, states[0][0])
        assert (v == 0.0).all()


def test_a_moving_vertex_is_stopped_at_once_by_still_surfaces():
    world = pinched_world()
    restraints = flypaper_anew(world)
    state = world.initial_state()
    v = state.velocities()
    v[: world.cloth_vertex_count] = (0.3, 0.0, 0.1)
    state.v.assign(v)
    world.begin_step(state, FRAME)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    before = state.positions()
    Implicit.from_world(world).propose(state, world.target, FRAME, x_end, v_end, restraints=restraints(state))
    count = world.cloth_vertex_count
    assert np.array_equal(x_end.numpy()[:count], before[:count])
    assert (v_end.numpy()[:count] == 0.0).all()


rigid = st.tuples(
    st.tuples(*[st.floats(-2.0, 2.0)] * 3),
    st.tuples(*[st.floats(-0.1, 0.1)] * 3),
)


@settings(max_examples=40, deadline=None)
@given(rigid)
def test_surfaces_that_move_as_one_carry_the_vertex_like_one_of_their_points(motion):
    world = pinched_world()
    start = world.initial_state().positions()
    points = near_points(world, start)
    turn, shift = Rotation.from_rotvec(motion[0]), np.array(motion[1])
    goal = turn.apply(start) + shift
    way = carried(world, start, goal, points)
    expected = (goal - start)[: world.cloth_vertex_count]
    assert way == pytest.approx(expected, abs=1e-13)


def test_the_whole_step_carries_the_cloth_with_surfaces_that_move_as_one():
    path = weft.Path(keyframes=[{"time": 0.0}, {"time": 1.0, "position": (0.0, 0.3, 0.6)}])
    world = pinched_world(path, path)
    *_, (x, v) = run(world, 6, flypaper_anew(world))
    count = world.cloth_vertex_count
    moved = x[:count] - world.rest_positions[:count]
    assert moved == pytest.approx(np.tile([0.0, 0.3, 0.6], (count, 1)) * 6 * FRAME, abs=1e-12)
    assert v[:count] == pytest.approx(np.tile([0.0, 0.3, 0.6], (count, 1)), abs=1e-10)


def test_one_moving_surface_gives_half_of_its_motion():
    path = weft.Path(keyframes=[{"time": 0.0}, {"time": 1.0, "position": (0.0, -0.02, 0.0)}])
    world = pinched_world(upper=path)
    *_, (x, _v) = run(world, 6, flypaper_anew(world))
    count = world.cloth_vertex_count
    moved = x[:count] - world.rest_positions[:count]
    assert moved == pytest.approx(np.tile([0.0, -0.01, 0.0], (count, 1)) * 6 * FRAME, abs=1e-12)


@pytest.mark.parametrize("share", [0.1, 0.5, 1.0])
def test_weights_share_out_the_motion(share):
    world = pinched_world()
    start = world.initial_state().positions()
    goal = start.copy()
    upper = world.bodies[1].vertices
    goal[upper] += (0.01, 0.0, 0.02)
    points = near_points(world, start)
    weights = {"upper": 3.0 * share, "lower": 3.0 * (1.0 - share)}
    way = carried(world, start, goal, points, weights=weights)
    assert way == pytest.approx(np.tile([0.01, 0.0, 0.02], (len(way), 1)) * share, abs=1e-14)


def test_maps_vary_from_vertex_to_vertex():
    world = pinched_world()
    start = world.initial_state().positions()
    goal = start.copy()
    goal[world.bodies[1].vertices] += (0.01, 0.0, 0.0)
    count = world.cloth_vertex_count
    share = np.linspace(0.0, 1.0, count)
    way = carried(
        world,
        start,
        goal,
        near_points(world, start),
        weights={"lower": 0.5},
        maps={"upper": share, "lower": 2 - 2 * share},
    )
    assert way[:, 0] == pytest.approx(0.01 * share, abs=1e-14)


def test_a_collider_that_pinches_with_two_portions_still_has_one_weight():
    world = pinched_world()
    start = world.initial_state().positions()
    goal = start.copy()
    goal[world.bodies[1].vertices] += (0.01, 0.0, 0.0)
    one = near_points(world, start)
    # the upper box twice, the lower once
    vertex = 7
    upper, lower = one.faces[2 * vertex], one.faces[2 * vertex + 1]
    bary = one.weights[[2 * vertex, 2 * vertex, 2 * vertex + 1]]
    points = SurfacePoints(np.array([vertex]), np.array([0, 3]), np.array([upper, upper, lower]), bary)
    assert carried(world, start, goal, points)[vertex, 0] == pytest.approx(0.005)
    way = carried(world, start, goal, points, weights={"upper": 1.0, "lower": 9.0})
    assert way[vertex, 0] == pytest.approx(0.001)
    # all weights nothing: the points count alike
    way = carried(world, start, goal, points, weights={"upper": 0.0, "lower": 0.0})
    assert way[vertex, 0] == pytest.approx(0.01 * 2.0 / 3.0)


def test_a_turning_surface_carries_a_vertex_at_a_distance_around_its_axis():
    """Body coordinates hold the offset from the surface too, not only the point on it."""
    world = pinched_world()
    start = world.initial_state().positions()
    both = near_points(world, start)
    only = SurfacePoints(both.vertices, np.arange(len(both.vertices) + 1), both.faces[::2], both.weights[::2])
    turn = Rotation.from_rotvec([0.3, 0.0, 0.1])
    goal = start.copy()
    upper = world.bodies[1].vertices
    goal[upper] = turn.apply(start[upper])
    way = carried(world, start, goal, only)
    count = world.cloth_vertex_count
    assert way == pytest.approx(turn.apply(start[:count]) - start[:count], abs=1e-13)


def test_flypaper_overrides_contact_and_contact_leaves_it_alone():
    world = pinched_world()
    contact = SolidContact(world)
    paper = flypaper_anew(world)
    states = list(run(world, 3, lambda state: [contact, *paper(state)]))
    assert np.array_equal(states[-1][0], states[0][0])
    assert contact.closed == 0


def test_nobody_held_is_fine():
    world = pinched_world()
    paper = Flypaper(world)
    none = np.zeros(0, np.int32)
    paper.take(SurfacePoints(none, np.zeros(1, np.int32), none, np.zeros((0, 3))))
    *_, (x, _v) = run(world, 1, lambda state: [paper])
    assert x[0, 1] == pytest.approx(-9.81 * FRAME**2)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"weights": {"hand": 1.0}}, "none is called 'hand'; there are: upper, lower"),
        ({"weights": {"upper": -1.0}}, "'upper' must be finite and not negative"),
        ({"weights": {"upper": np.nan}}, "'upper' must be finite and not negative"),
        ({"maps": {"upper": [1.0, 2.0]}}, "one number for each of the 36 cloth vertices"),
        ({"maps": {"sheet": np.ones(36)}}, "none is called 'sheet'"),
    ],
)
def test_wrong_weights_are_refused(options, message):
    with pytest.raises(WeftError, match=message):
        Flypaper(pinched_world(), **options)


def test_a_vertex_without_a_surface_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        Flypaper(pinched_world()).take(
            SurfacePoints(np.array([0]), np.array([0, 0]), np.zeros(0, np.int32), np.zeros((0, 3)))
        )
