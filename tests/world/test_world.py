"""World: scenes of several bodies in one list of vertices, with the right masses, pins, seams and frictions."""

import numpy as np
import pytest

import weft
from weft.errors import SceneError
from weft.scene.resolve import resolve_cloth_mesh, resolve_collider
from weft.world import World

DT = 1.0 / 60.0


def sheet(name="sheet", cells=(4, 3), **more):
    return weft.Cloth(name=name, shape=weft.Grid(size=(1.0, 0.6), cells=cells), **more)


def ball(name="ball", **more):
    return weft.Collider(name=name, shape=weft.Sphere(radius=0.2, subdivisions=1), **more)


@pytest.fixture
def crowd():
    """Two cloths and two colliders, all different."""
    return weft.Scene(
        cloths=[
            sheet("low", placement=weft.Placement(position=(0.0, 1.0, 0.0)), velocity=(0.0, 0.0, 3.0)),
            sheet("high", cells=(2, 2), placement=weft.Placement(position=(0.0, 2.0, 0.0)), material="denim"),
        ],
        colliders=[
            ball("ball", placement=weft.Placement(position=(5.0, 0.0, 0.0)), friction=0.2),
            weft.Collider(name="floor", shape=weft.Plane(size=(4.0, 4.0)), friction=0.9, friction_kinetic=0.7),
        ],
    )


def test_a_gpu_that_is_not_there_is_one_sentence(crowd):
    with pytest.raises(
        SceneError, match=r"^device: 'cuda:99' needs an NVIDIA GPU|^device: there is no 'cuda:99' here, only"
    ):
        World(crowd, "cuda:99")


def test_bodies_follow_each_other_cloths_first(crowd):
    world = World(crowd)
    assert [(b.name, b.kind) for b in world.bodies] == [
        ("low", "cloth"),
        ("high", "cloth"),
        ("ball", "collider"),
        ("floor", "collider"),
    ]
    meshes = [resolve_cloth_mesh(crowd, c) for c in crowd.cloths]
    meshes += [resolve_collider(crowd, c)[0] for c in crowd.colliders]
    x, vertex, face = world.initial_state().positions(), 0, 0
    for body, mesh in zip(world.bodies, meshes, strict=True):
        assert body.vertices == slice(vertex, vertex + len(mesh.vertices))
        assert body.faces == slice(face, face + len(mesh.faces))
        assert np.array_equal(x[body.vertices], mesh.vertices)
        assert np.array_equal(world.faces[body.faces] - vertex, mesh.faces)
        vertex, face = body.vertices.stop, body.faces.stop
    assert (world.vertex_count, len(world.faces)) == (vertex, face)
    assert world.cloth_vertex_count == world.bodies[1].vertices.stop
    assert np.array_equal(world.cloth_faces, world.faces[: world.bodies[1].faces.stop])
    assert [part.first for part in world.cloths] == [0, len(meshes[0].vertices)]


def test_who_meets_whom(crowd):
    surface = World(crowd).surface
    assert surface.body_pairs.numpy().tolist() == [[1, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 0, 0]]
    world = World(crowd)
    for number, body in enumerate(world.bodies):
        assert (world.surface.vertex_body.numpy()[body.vertices] == number).all()
        assert (world.surface.face_body.numpy()[body.faces] == number).all()


def test_a_cloth_starts_with_its_velocity(crowd):
    world = World(crowd)
    v = world.initial_state().velocities()
    assert (v[world.bodies[0].vertices] == (0.0, 0.0, 3.0)).all()
    assert (v[world.bodies[0].vertices.stop :] == 0.0).all()


@pytest.mark.parametrize("sharing", ["equal", "area"])
@pytest.mark.parametrize("shape", [weft.Grid(size=(1.0, 0.6), cells=(4, 3)), weft.Cylinder(radius=0.3, height=1.0)])
def test_masses(sharing, shape):
    cloth = weft.Cloth(shape=shape, masses=sharing, material=weft.Material(density=0.2))
    scene = weft.Scene(cloths=[cloth], colliders=[ball()])
    world = World(scene)
    mesh = resolve_cloth_mesh(scene, cloth)
    mass = world.mass[: world.cloth_vertex_count]
    corners = mesh.vertices[mesh.faces]
    areas = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    assert mass.sum() == pytest.approx(0.2 * areas.sum(), rel=1e-12)
    for vertex in range(len(mesh.vertices)):
        around = areas[(mesh.faces == vertex).any(axis=1)].sum()
        expected = 0.2 * (areas.sum() / len(mesh.vertices) if sharing == "equal" else around / 3.0)
        assert mass[vertex] == pytest.approx(expected, rel=1e-12)
    assert np.isinf(world.mass[world.cloth_vertex_count :]).all()


def test_grids_share_weight_equally_and_others_by_area():
    grid = World(weft.Scene(cloths=[sheet()])).mass
    assert np.ptp(grid) == 0.0
    tube = weft.Cloth(shape=weft.Cylinder(radius=0.3, height=1.0, rings=4))
    assert np.ptp(World(weft.Scene(cloths=[tube])).mass) > 0.0


def test_a_scaled_cloth_weighs_more():
    big = sheet(placement=weft.Placement(scale=(2.0, 1.0, 3.0)), material=weft.Material(density=0.1))
    assert World(weft.Scene(cloths=[big])).mass.sum() == pytest.approx(0.1 * 2.0 * 1.8)


def test_what_is_prescribed_has_no_inverse_mass(crowd):
    pinned = crowd.replace(cloths=[crowd.cloths[0].replace(pins=[weft.Pin(indices=[0, 7])]), crowd.cloths[1]])
    world = World(pinned)
    world.begin_step(world.initial_state(), DT)
    inverse = world.inverse_mass.numpy()
    free = np.ones(world.vertex_count, bool)
    free[[0, 7]] = False
    free[world.cloth_vertex_count :] = False
    assert (inverse[~free] == 0.0).all()
    assert np.allclose(inverse[free] * world.mass[free], 1.0)


def test_pins_of_the_second_cloth_hold_its_own_vertices():
    scene = weft.Scene(cloths=[sheet("one"), sheet("two", pins=[weft.Pin(boundary="left")])])
    world = World(scene)
    state = world.initial_state()
    world.begin_step(state, DT)
    held = np.flatnonzero(world.inverse_mass.numpy() == 0.0)
    x = state.positions()
    two = world.bodies[1].vertices
    left = two.start + np.flatnonzero(np.isclose(x[two][:, 0], -0.5))
    assert held.tolist() == left.tolist()
    assert np.array_equal(world.target.numpy()[held], x[held])


def test_a_pin_lets_go_at_its_time():
    pins = [weft.Pin(indices=[0], until=0.5), weft.Pin(indices=[4])]
    world = World(weft.Scene(cloths=[sheet(pins=pins)]))
    state = world.initial_state()
    held = {}
    for time in (0.0, 0.25, 0.5, 0.75):
        state.time = time
        world.begin_step(state, 0.25)
        held[time] = np.flatnonzero(world.inverse_mass.numpy() == 0.0).tolist()
    assert held == {0.0: [0, 4], 0.25: [0, 4], 0.5: [4], 0.75: [4]}
    assert world.inverse_mass.numpy()[0] == pytest.approx(1.0 / world.mass[0])
    # and a world that goes back in time, as a run that is resumed may, holds it again
    state.time = 0.25
    world.begin_step(state, 0.25)
    assert np.flatnonzero(world.inverse_mass.numpy() == 0.0).tolist() == [0, 4]


def test_moving_pins_go_to_where_their_motion_says():
    lift = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=1.0, position=(0.0, 2.0, 0.0))])
    cloth = sheet(pins=[weft.Pin(boundary="left", motion=lift, until=0.8), weft.Pin(indices=[4])])
    world = World(weft.Scene(cloths=[cloth]))
    state = world.initial_state()
    start = state.positions()
    left = np.flatnonzero(np.isclose(start[:, 0], -0.5))
    for time, height in ((0.0, 0.2), (0.4, 0.6), (0.7, 0.8)):
        # in the last of these steps the pin lets go at 0.8 s: it carries that far and no farther
        state.time = time
        world.begin_step(state, 0.2)
        target = world.target.numpy()
        assert np.allclose(target[left] - start[left], (0.0, 2.0 * height, 0.0))
        assert np.array_equal(target[4], start[4])


def test_colliders_are_carried_to_their_targets():
    spin = weft.Spin(axis=(0.0, 1.0, 0.0), rate_deg=90.0)
    moved = ball("moved", placement=weft.Placement(position=(3.0, 0.0, 0.0)), motion=spin.replace(centre=(0, 0, 0)))
    world = World(weft.Scene(cloths=[sheet()], colliders=[ball("still"), moved]))
    state = world.initial_state()
    state.time = 0.5
    world.begin_step(state, 0.5)
    x_end, v_end = (type(state.x)(np.full((world.vertex_count, 3), -7.0), dtype=state.x.dtype) for _ in range(2))
    world.carry_colliders(state, 0.5, x_end, v_end)
    still, turned = world.bodies[1].vertices, world.bodies[2].vertices
    x, end = state.positions(), x_end.numpy()
    # a quarter turn about y takes x to -z
    expected = np.stack([x[turned][:, 2], x[turned][:, 1], -x[turned][:, 0]], axis=1)
    assert np.allclose(end[turned], expected, atol=1e-12)
    assert np.allclose(v_end.numpy()[turned], (expected - x[turned]) / 0.5)
    assert np.array_equal(end[still], x[still]) and (v_end.numpy()[still] == 0.0).all()
    # the cloth's part is not its business
    assert (end[world.bodies[0].vertices] == -7.0).all()


def test_motions_that_are_under_way_at_the_start_place_their_bodies():
    late = weft.Path(keyframes=[weft.Keyframe(time=-1.0), weft.Keyframe(time=1.0, position=(4.0, 0.0, 0.0))])
    scene = weft.Scene(cloths=[sheet(pins=[weft.Pin(indices=[2], motion=late)])], colliders=[ball(motion=late)])
    world = World(scene)
    x = world.initial_state().positions()
    moved = x - world.rest_positions
    assert np.allclose(moved[2], (2.0, 0.0, 0.0))
    assert np.allclose(moved[world.bodies[1].vertices], (2.0, 0.0, 0.0))
    assert (np.delete(moved[world.bodies[0].vertices], 2, axis=0) == 0.0).all()


def test_a_still_world_is_placed_once():
    world = World(weft.Scene(cloths=[sheet(pins=[weft.Pin(boundary="corners")])], colliders=[ball()]))
    state = world.initial_state()
    world.begin_step(state, DT)
    before = world.target.numpy().copy()
    world.target.fill_(0.0)
    state.time = DT
    world.begin_step(state, DT)
    assert (world.target.numpy() == 0.0).all(), "nothing moves, so nothing is uploaded again"
    assert np.array_equal(before[world.bodies[1].vertices], state.positions()[world.bodies[1].vertices])


def test_seams_are_joined_by_the_vertices_of_the_world():
    one, two = sheet("one"), sheet("two", cells=(2, 2), material=weft.Material(stretch=80.0, damping=0.0025))
    seams = [
        weft.Seam(cloth="two", to="one", vertices=[[0, 1, 2], [3, 4, 5]], weights=[0.25, 1.0]),
        weft.Seam(cloth="one", vertices=[[0, 19, 18]], kind="weld"),
        weft.Seam(cloth="one", to="two", vertices=[[7, 8, 8]], stiffness=12.0),
    ]
    world = World(weft.Scene(cloths=[one, two], seams=seams))
    shift = world.bodies[1].vertices.start
    assert shift == 20
    expected = [[shift, 1, 2], [shift + 3, 4, 5], [0, 19, 18], [7, shift + 8, shift + 8]]
    assert world.seams.vertices.tolist() == expected
    assert world.seams.weights.tolist() == [0.25, 1.0, 0.0, 0.0]
    assert world.seams.stiffness.tolist() == [80.0, 80.0, np.inf, 12.0]
    cotton = weft.Material().damping
    assert np.allclose(world.seams.damping[[0, 1, 3]], [0.2, 0.2, 12.0 * cotton])


def test_a_world_without_seams():
    seams = World(weft.Scene(cloths=[sheet()])).seams
    assert seams.vertices.shape == (0, 3) and len(seams.weights) == len(seams.stiffness) == len(seams.damping) == 0


def test_friction_is_the_geometric_mean_of_both(crowd):
    world = World(crowd)
    cotton, denim = crowd.cloths[0].material, crowd.cloths[1].material
    static = [cotton.friction, denim.friction, 0.2, 0.9]
    kinetic = [cotton.friction_kinetic, denim.friction_kinetic, 0.2, 0.7]
    for table, values in ((world.friction_static, static), (world.friction_kinetic, kinetic)):
        table = table.numpy()
        assert np.allclose(np.diag(table), values)
        for i, a in enumerate(values):
            for j, b in enumerate(values):
                assert table[i, j] == pytest.approx((a * b) ** 0.5)


def test_ice_is_slippery_to_all():
    world = World(weft.Scene(cloths=[sheet()], colliders=[ball(friction=0.0)]))
    assert world.friction_static.numpy()[0, 1] == world.friction_static.numpy()[1, 0] == 0.0


def test_thickness_is_the_materials_or_the_scenes():
    thick = sheet("thick", material=weft.Material(preset="leather", thickness=0.004))
    scene = weft.Scene(cloths=[sheet("thin"), thick], colliders=[ball()], thickness=0.0015)
    world = World(scene)
    thickness = world.thickness.numpy()
    for body, expected in zip(world.bodies, (0.0015, 0.004, 0.0015), strict=True):
        assert (thickness[body.vertices] == expected).all()
    assert world.largest_thickness == 0.004


def test_rest_shapes_are_flat_where_there_is_uv(crowd):
    world = World(crowd)
    rest = world.rest_shape.numpy()
    for part, body in zip(world.cloths, world.bodies, strict=False):
        assert np.array_equal(rest[body.vertices][:, :2], part.mesh.uv) and (rest[body.vertices][:, 2] == 0.0).all()
    ball_vertices = world.bodies[2].vertices
    assert np.array_equal(rest[ball_vertices], world.rest_positions[ball_vertices])


def test_two_worlds_of_a_scene_are_the_same(crowd):
    one, two = World(crowd), World(crowd)
    for name in ("mass", "faces", "rest_positions"):
        assert getattr(one, name).tobytes() == getattr(two, name).tobytes()
    first, second = one.initial_state(), two.initial_state()
    assert first.positions().tobytes() == second.positions().tobytes()


def test_a_state_gives_copies():
    state = World(weft.Scene(cloths=[sheet()])).initial_state()
    state.positions()[:] = np.nan
    state.velocities()[:] = np.nan
    assert np.isfinite(state.positions()).all() and np.isfinite(state.velocities()).all()


def test_a_scene_without_cloth_is_refused():
    with pytest.raises(weft.WeftError, match="no cloth"):
        World(weft.Scene(colliders=[ball()]))


def test_a_collider_that_rests_for_a_while_goes_where_it_should_before_and_after():
    ball = weft.Collider(
        name="ball", shape=weft.Box(size=(1, 1, 1)), motion=weft.Spin(rate_deg=90.0, start=1.0, stop=2.0)
    )
    world = World(weft.Scene(cloths=[weft.Cloth(shape=weft.Grid(cells=(2, 2)))], colliders=[ball]))
    state, other = world.initial_state(), World(world.scene)
    for time in (0.0, 0.5, 0.9, 1.2, 1.7, 2.0, 2.5, 0.2):
        state.time = time
        world.begin_step(state, 0.2)
        fresh = other.collider_motions[0].positions(other.collider_meshes[0].vertices, time + 0.2)
        assert np.array_equal(world.target.numpy()[world.cloth_vertex_count :], fresh)
