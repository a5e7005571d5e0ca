"""Hard contact with solids: nearest points and sides, rest, release, friction, moving and turning surfaces."""

import numpy as np
import pytest
import trimesh
import warp as wp

import weft
from weft.dynamics.implicit.model import Implicit
from weft.mesh import shapes
from weft.methods.untangle.solid_contact import SolidContact
from weft.methods.untangle.solid_surfaces import SolidSurfaces
from weft.scene import Forces
from weft.world import World

FRAME = 1.0 / 60.0
THICKNESS = 0.002


def sheet(position=(0.0, 0.0, 0.0), cells=6, size=0.3, friction=0.0, **more):
    return weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(size, size), cells=(cells, cells)),
        placement=weft.Placement(position=position, rotation_deg=more.pop("rotation_deg", (0.0, 0.0, 0.0))),
        material=weft.Material(friction=friction),
        **more,
    )


def world_of(cloth, *colliders, forces=None):
    return World(weft.Scene(cloths=[cloth], colliders=colliders, forces=forces or Forces(), thickness=THICKNESS))


class Runner:
    """A world with implicit cloth and contact, moved step by step."""

    def __init__(self, world, **options):
        self.world = world
        self.state = world.initial_state()
        self.model = Implicit.from_world(world)
        self.contact = SolidContact(world, **options)
        self.x_end, self.v_end = wp.zeros_like(self.state.x), wp.zeros_like(self.state.v)

    def step(self, dt=FRAME):
        world, state = self.world, self.state
        world.begin_step(state, dt)
        self.model.propose(state, world.target, dt, self.x_end, self.v_end, restraints=[self.contact])
        world.carry_colliders(state, dt, self.x_end, self.v_end)
        state.take(self.x_end, self.v_end)
        state.time += dt

    @property
    def x(self):
        return self.state.positions()[: self.world.cloth_vertex_count]

    @property
    def v(self):
        return self.state.velocities()[: self.world.cloth_vertex_count]


def floor(**more):
    return weft.Collider(name="floor", shape=weft.Plane(size=(4.0, 4.0)), **more)


@pytest.mark.parametrize(
    "collider, signed",
    [
        (weft.Collider(shape=weft.Box(size=(0.4, 0.2, 0.3))), lambda p: box_distance(p, (0.2, 0.1, 0.15))),
        (weft.Collider(shape=weft.Sphere(radius=0.2)), None),
    ],
    ids=["box", "sphere"],
)
def test_nearest_points_and_sides_are_those_of_the_whole_surface(collider, signed):
    """Against all triangles, and against the box in closed form: corners and edges are where sides go wrong."""
    world = world_of(sheet(cells=9, size=0.5), collider)
    found = SolidSurfaces(world)
    state = world.initial_state()
    rng = np.random.default_rng(4)
    count = world.cloth_vertex_count
    x = state.positions()
    x[:count] = rng.uniform(-0.28, 0.28, (count, 3))
    state.x.assign(x)
    world.begin_step(state, FRAME)
    found.find(state.x, state.v, reach=1.0)
    faces, weights = found.nearest.face.numpy()[0], found.nearest.weights.numpy()[0]
    gaps, normals = found.nearest.gaps.numpy()[0], found.nearest.normals.numpy()[0]
    assert (faces >= 0).all()
    q = np.einsum("nk,nkd->nd", weights, x[found.faces[faces]])
    assert q + gaps[:, None] * normals == pytest.approx(x[:count], abs=1e-12)
    # no triangle is nearer
    corners = x[found.faces]
    samples = rng.dirichlet(np.ones(3), 12)
    cloud = np.einsum("sk,fkd->fsd", samples, corners).reshape(-1, 3)
    least = np.sqrt(((x[:count, None] - cloud[None]) ** 2).sum(axis=2)).min(axis=1)
    assert (np.abs(gaps) <= least + 1e-6).all()
    if signed is None:
        assert ((gaps < 0.0) == (np.linalg.norm(x[:count], axis=1) < 0.199))[np.abs(gaps) > 2e-3].all()
    else:
        assert gaps == pytest.approx([signed(p) for p in x[:count]], abs=1e-12)


def box_distance(p, half):
    d = np.abs(p) - half
    return np.linalg.norm(np.maximum(d, 0.0)) + min(d.max(), 0.0)


@pytest.mark.parametrize("noise", [0.0, 1e-7])
def test_of_the_triangles_that_are_equally_near_the_first_is_touched(noise, monkeypatch):
    """However the tree rounds: which of them it finds on an edge or a corner is chance."""
    rng = np.random.default_rng(6)
    refit = wp.Mesh.refit

    def refit_roughly(mesh):
        points = mesh.points.numpy()
        mesh.points.assign(points + noise * rng.uniform(-1.0, 1.0, points.shape))
        refit(mesh)

    monkeypatch.setattr(wp.Mesh, "refit", refit_roughly)
    world = world_of(sheet(cells=19, size=0.5), weft.Collider(shape=weft.Box(size=(0.4, 0.2, 0.3))))
    found, state = SolidSurfaces(world), world.initial_state()
    x, count = state.positions(), world.cloth_vertex_count
    # beside faces, edges and corners, most of them nearer than counts as touching
    half, side = np.array([0.2, 0.1, 0.15]), rng.choice([-1.0, 0.0, 1.0], (count, 3))
    beside = side * (half + rng.uniform(0.0, 0.003, (count, 3)))
    x[:count] = np.where(side == 0.0, rng.uniform(-0.8, 0.8, (count, 3)) * half, beside)
    state.x.assign(x)
    world.begin_step(state, FRAME)
    found.find(state.x, state.v, reach=0.1)
    triangles = x[found.faces]
    closest = [trimesh.triangles.closest_point(triangles, np.tile(p, (len(triangles), 1))) for p in x[:count]]
    distances = np.linalg.norm(x[:count, None] - closest, axis=2)
    least = distances.min(axis=1, keepdims=True)
    near = least[:, 0] < 2.0 * THICKNESS
    ties = (distances < least + 1e-12).sum(axis=1)
    assert near.sum() > 100 and (ties[near] > 1).sum() > 50
    first = np.argmax(distances < least + 1e-12, axis=1)
    np.testing.assert_array_equal(found.nearest.face.numpy()[0][near], first[near])


def test_reach_and_motion_bound_the_search_and_nothing_is_behind_a_border():
    world = world_of(sheet(position=(0.0, 0.1, 0.0)), weft.Collider(shape=weft.Plane(size=(0.22, 0.22))))
    state = world.initial_state()
    world.begin_step(state, FRAME)
    found = SolidSurfaces(world)
    found.find(state.x, state.v, reach=0.09)
    assert (found.nearest.face.numpy() == -1).all()
    v = state.velocities()
    v[:, 1] = -1.3
    state.v.assign(v)
    found.find(state.x, state.v, reach=0.09, time=FRAME)
    near = found.nearest.face.numpy()[0] >= 0
    assert near.any() and not near.all()
    # below the plane: inside where the plane is above, nothing beside its border
    x = state.positions()
    x[: world.cloth_vertex_count, 1] = -0.01
    state.x.assign(x)
    found.find(state.x, state.v, reach=0.5)
    below = np.abs(x[: world.cloth_vertex_count, [0, 2]]).max(axis=1) < 0.11
    assert ((found.nearest.face.numpy()[0] >= 0) == below).all()
    assert found.nearest.gaps.numpy()[0][below] == pytest.approx(-0.01)


def test_falling_cloth_comes_to_rest_at_the_thickness():
    run = Runner(world_of(sheet(position=(0.0, 0.2, 0.0)), floor()))
    for _ in range(40):
        run.step()
        assert run.x[:, 1].min() > THICKNESS - 1e-5
    assert run.x[:, 1] == pytest.approx(THICKNESS, abs=1e-5)
    assert np.abs(run.v).max() < 1e-3
    assert run.contact.closed == run.world.cloth_vertex_count
    # and lies perfectly still
    before = run.x
    run.step()
    assert np.abs(run.x - before).max() < 1e-9


def test_position_and_velocity_are_right_after_one_step():
    """A vertex inside the floor ends at the thickness with the floor's velocity, not with what it took to get there."""
    run = Runner(world_of(sheet(position=(0.0, -0.01, 0.0)), floor()))
    run.step()
    assert run.x[:, 1] == pytest.approx(THICKNESS, abs=1e-12)
    assert run.v[:, 1] == pytest.approx(0.0, abs=1e-12)


def test_a_vertex_deeper_than_the_limit_is_left_alone():
    run = Runner(world_of(sheet(position=(0.0, -0.05, 0.0)), floor()), depth=0.02)
    run.step()
    assert (run.x[:, 1] < -0.05).all()


def test_cloth_that_moves_away_is_let_go():
    run = Runner(world_of(sheet(position=(0.0, THICKNESS, 0.0), velocity=(0.0, 1.0, 0.0)), floor()))
    run.step()
    assert run.v[:, 1] == pytest.approx(1.0 - 9.81 * FRAME, abs=1e-9)
    assert run.contact.closed == 0


def test_fast_cloth_is_stopped_within_the_step():
    """5 m/s crosses the floor's thickness forty times over in one step."""
    run = Runner(world_of(sheet(position=(0.0, 0.05, 0.0), velocity=(0.0, -5.0, 0.0)), floor()))
    run.step()
    assert run.x[:, 1] == pytest.approx(THICKNESS, abs=1e-5)


@pytest.mark.parametrize("steps", [1, 12])
def test_a_rising_floor_carries_the_cloth(steps):
    motion = weft.Path(keyframes=[{"time": 0.0}, {"time": 1.0, "position": (0.0, 0.5, 0.0)}])
    run = Runner(world_of(sheet(position=(0.0, THICKNESS, 0.0)), floor(motion=motion)))
    for _ in range(steps):
        run.step()
    assert run.x[:, 1] == pytest.approx(THICKNESS + 0.5 * steps * FRAME, abs=1e-6)
    assert run.v[:, 1] == pytest.approx(0.5, abs=1e-6)


def slope(degrees, friction):
    """A sheet lying on a tilted plane with all friction at its border to the plane."""
    turn = np.radians(degrees)
    normal = np.array([-np.sin(turn), np.cos(turn), 0.0])
    cloth = sheet(position=tuple(THICKNESS * normal), rotation_deg=(0.0, 0.0, degrees), friction=friction)
    plane = weft.Collider(
        name="floor",
        shape=weft.Plane(size=(8.0, 8.0)),
        friction=friction,
        placement=weft.Placement(rotation_deg=(0.0, 0.0, degrees)),
    )
    return Runner(world_of(cloth, plane)), np.array([-np.cos(turn), -np.sin(turn), 0.0])


@pytest.mark.parametrize("friction", [0.2, 0.6])
def test_cloth_stays_below_the_angle_of_friction_and_slides_above_it(friction):
    limit = np.degrees(np.arctan(friction))
    run, down = slope(limit - 1.0, friction)
    start = run.x
    for _ in range(30):
        run.step()
    assert np.abs(run.x - start).max() < 1e-9

    run, down = slope(limit + 1.0, friction)
    for _ in range(30):
        run.step()
    turn = np.radians(limit + 1.0)
    expected = 9.81 * (np.sin(turn) - friction * np.cos(turn)) * 30 * FRAME
    assert (run.v @ down).mean() == pytest.approx(expected, rel=0.05)


def test_without_friction_cloth_slides_freely():
    run, down = slope(30.0, 0.0)
    for _ in range(20):
        run.step()
    assert run.v @ down == pytest.approx(9.81 * 0.5 * 20 * FRAME, rel=0.01)


def test_a_turning_disc_takes_the_cloth_along():
    """Friction against a surface that spins: the cloth ends up turning with it."""
    disc = weft.Collider(
        name="disc",
        shape=weft.Box(size=(1.0, 0.2, 1.0)),
        placement=weft.Placement(position=(0.0, -0.1, 0.0)),
        motion=weft.Spin(axis=(0.0, 1.0, 0.0), rate_deg=60.0),
        friction=0.8,
    )
    run = Runner(world_of(sheet(position=(0.0, THICKNESS, 0.0), friction=0.8), disc))
    for _ in range(30):
        run.step()
    rate = np.cross(run.x, run.v)[:, 1].sum() / (run.x[:, [0, 2]] ** 2).sum()
    assert rate == pytest.approx(np.radians(60.0), rel=0.03)


def test_cloth_drapes_over_a_ball_without_going_in():
    ball = weft.Collider(shape=weft.Sphere(radius=0.15), friction=0.5)
    run = Runner(world_of(sheet(position=(0.0, 0.16, 0.0), cells=14, size=0.5, friction=0.5), ball))
    deepest = []
    for _ in range(60):
        run.step()
        deepest.append(np.linalg.norm(run.x, axis=1).min())
        assert not run.model.problems
    # triangles of a mesh ball lie inside the sphere, its vertices on it
    flat = shapes.uv_sphere(0.15)
    inner = np.linalg.norm(flat.vertices[flat.faces].mean(axis=1), axis=1).min()
    assert min(deepest) > inner
    assert run.contact.closed > 10
    assert run.x[:, 1].min() < 0.0


def test_pinned_vertices_are_not_the_contacts_business():
    cloth = sheet(position=(0.0, 0.0, 0.0), pins=[weft.Pin(boundary="all")])
    run = Runner(world_of(cloth, floor()))
    start = run.x
    run.step()
    border = np.abs(start[:, [0, 2]]).max(axis=1) > 0.149
    assert np.array_equal(run.x[border], start[border])
    assert run.x[~border, 1] == pytest.approx(THICKNESS, abs=1e-9)


def test_contact_gives_the_same_bytes_on_any_number_of_threads():
    from weft.runtime import get_threads, set_threads

    before, ends = get_threads(), []
    try:
        for threads in (1, 2):
            set_threads(threads)
            ball = weft.Collider(shape=weft.Sphere(radius=0.15), friction=0.5)
            run = Runner(world_of(sheet(position=(0.0, 0.16, 0.0), cells=40, size=0.5, friction=0.5), ball))
            for _ in range(4):
                run.step()
            ends.append(run.x.tobytes() + run.v.tobytes())
    finally:
        set_threads(before)
    assert ends[0] == ends[1]


def test_dragged_cloth_is_not_torn_by_friction():
    """Light vertices that stick must yield to the pull of stiff cloth: the whole sheet slides behind its pins."""
    pull = weft.Path(keyframes=[{"time": 0.0}, {"time": 1.0, "position": (-0.5, 0.0, 0.0)}])
    cloth = sheet(position=(0.0, THICKNESS, 0.0), cells=12, friction=0.8, pins=[weft.Pin(boundary="left", motion=pull)])
    run = Runner(world_of(cloth, floor(friction=0.8)))
    mesh = run.world.cloths[0].mesh
    for _ in range(30):
        run.step()
        ends = run.x[mesh.edges]
        strain = np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1) / mesh.rest_lengths - 1.0
        # the jerk of the start; a first row that stuck would be stretched by a third
        assert strain.max() < 0.12
    assert strain.max() < 0.01
    assert run.v[:, 0] == pytest.approx(-0.5, abs=0.1)


def test_friction_pulls_a_sheet_with_the_right_force():
    """The pins of a sheet dragged steadily carry mu m g along the floor, whatever the cloth does between."""
    pull = weft.Path(keyframes=[{"time": 0.0}, {"time": 1.0, "position": (-0.5, 0.0, 0.0)}])
    cloth = sheet(position=(0.0, THICKNESS, 0.0), cells=8, friction=0.4, pins=[weft.Pin(boundary="left", motion=pull)])
    run = Runner(world_of(cloth, floor(friction=0.4)))
    for _ in range(40):
        run.step()
    count = run.world.cloth_vertex_count
    pinned = run.world.inverse_mass.numpy()[:count] == 0.0
    along = run.model._force.numpy()[pinned, 0].sum()
    weight = 9.81 * run.world.mass[:count][~pinned].sum()
    assert along == pytest.approx(-0.4 * weight, rel=0.05)


def test_contact_goes_on_from_what_it_saved():
    def start():
        ball = weft.Collider(shape=weft.Sphere(radius=0.15), friction=0.5)
        return Runner(world_of(sheet(position=(0.0, 0.16, 0.0), cells=10, size=0.5, friction=0.5), ball))

    run = start()
    for _ in range(14):
        run.step()
    kept = run.state.positions(), run.state.velocities(), run.state.time, run.contact.saved()
    assert run.contact.closed > 0
    for _ in range(3):
        run.step()
    again = start()
    again.state.x.assign(kept[0])
    again.state.v.assign(kept[1])
    again.state.time = kept[2]
    again.contact.restore(kept[3])
    for _ in range(3):
        again.step()
    assert np.array_equal(run.x, again.x) and np.array_equal(run.v, again.v)


def test_a_solid_that_would_tear_the_cloth_passes_through():
    """A ball that rises far through a sheet held at its border; around pinched vertices it would take the cloth along."""
    places = [{"time": 0.0, "position": (0.0, -0.04, 0.0)}, {"time": 0.5, "position": (0.0, 0.21, 0.0)}]
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.03), motion=weft.Path(keyframes=places))
    worst = []
    for pinched in (False, True):
        world = world_of(sheet(cells=12, pins=[weft.Pin(boundary="all")]), ball)
        run = Runner(world)
        if pinched:
            run.contact.pinch(np.arange(world.cloth_vertex_count))
        mesh = world.cloths[0].mesh
        longest = 0.0
        for _ in range(24):
            run.step()
            way = run.x[mesh.edges]
            longest = max(longest, (np.linalg.norm(way[:, 1] - way[:, 0], axis=1) / mesh.rest_lengths).max())
        worst.append(longest - 1.0)
    assert worst[0] < 0.5 and worst[1] > 1.0


def test_cloth_in_the_crease_between_two_colliders_touches_both_and_is_at_rest():
    """A sheet laid into a V of two boxes: in the crease, where it touches both, it neither trembles nor comes too near."""
    size, half = 0.4, 0.5**0.5

    def side(name, sign):
        # the upper face of a box that leans by 45 degrees, its lower edge at the bottom of the V
        middle = 0.5 * size * np.array([sign * half, half, 0.0]) - 0.5 * size * np.array([-sign * half, half, 0.0])
        placement = weft.Placement(position=tuple(middle.tolist()), rotation_deg=(0.0, 0.0, sign * 45.0))
        return weft.Collider(name=name, shape=weft.Box(size=(size, size, size)), placement=placement, friction=0.1)

    runner = Runner(world_of(sheet(size=0.1, cells=6, friction=0.3), side("left", -1), side("right", 1)))
    flat = runner.state.positions()
    laid = flat.copy()
    cloth = slice(0, runner.world.cloth_vertex_count)
    laid[cloth, 0] *= half
    laid[cloth, 1] = half * np.abs(flat[cloth, 0]) + THICKNESS / half
    runner.state.x.assign(laid)
    creased = 0
    for _ in range(90):
        runner.step()
        creased = max(creased, np.count_nonzero(runner.contact._touch.second.numpy().any(axis=1)))
    gaps = [(runner.x @ np.array([sign * half, half, 0.0])).min() for sign in (-1.0, 1.0)]
    assert creased > 3
    assert min(gaps) > 0.95 * THICKNESS
    assert np.abs(runner.v).max() < 0.005
