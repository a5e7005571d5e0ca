"""Contacts with colliders: nearest points of every shape, planes that move with it, and nothing that gets through."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.methods.predictive.collider_shapes import (
    ColliderArrays,
    Shape,
    Touch,
    place_shape,
    rotation_vector,
    touch_shape,
)
from weft.methods.predictive.colliders import Colliders
from weft.methods.predictive.solver import PredictiveSolver
from weft.runtime import launch
from weft.scene import Predictive
from weft.scene.rotation import axis_matrix
from weft.world import World

wp.set_module_options({"enable_backward": False})

SHAPES = {
    "plane": weft.Plane(),
    "sphere": weft.Sphere(radius=0.3),
    "capsule": weft.Capsule(radius=0.15, length=0.4),
    "tapered": weft.Capsule(radius=0.25, end_radius=0.15, length=0.4),
    "box": weft.Box(size=(0.3, 0.5, 0.7)),
}
PLACE = weft.Placement(position=(0.1, 0.4, -0.2), rotation_deg=(20, 30, 40))


@wp.kernel
def touch_all(
    first: int,
    shapes: wp.array[Shape],
    start: wp.array[wp.mat44d],
    end: wp.array[wp.mat44d],
    x: wp.array[wp.vec3d],
    move: wp.array[wp.vec3d],
    reach: wp.float64,
    colliders: ColliderArrays,
    out: wp.array[Touch],
):
    i = first + wp.tid()
    out[i] = touch_shape(place_shape(shapes[0], start[0], end[0]), x[i], move[i], reach, colliders)


@wp.kernel
def find_vector(first: int, turn: wp.array[wp.mat33d], out: wp.array[wp.vec3d]):
    i = first + wp.tid()
    out[i] = rotation_vector(turn[i])


def world_with(collider, **scene):
    cloth = weft.Cloth(shape=weft.Grid(size=(0.1, 0.1), cells=(1, 1)), placement=weft.Placement(position=(0, 9, 0)))
    return World(weft.Scene(cloths=[cloth], colliders=[collider], **scene))


def touches(collider, x, move=None, *, reach=1e3, times=(0.0, 0.0)):
    """Nearest points of a collider."""
    colliders = Colliders(world_with(collider))
    colliders.follow(*times)
    out = wp.zeros(len(x), dtype=Touch)
    x = wp.array(x, dtype=wp.vec3d)
    move = wp.zeros_like(x) if move is None else wp.array(move, dtype=wp.vec3d)
    inputs = [colliders.shapes, colliders.start, colliders.end, x, move, reach]
    launch(touch_all, len(x), [*inputs, colliders.arrays, out])
    return out.numpy()


def samples(shape, rng, count=20_000):
    """Points on the surface of a shape in its own frame, dense."""
    if isinstance(shape, weft.Sphere):
        n = rng.normal(size=(count, 3))
        return shape.radius * n / np.linalg.norm(n, axis=1)[:, None]
    if isinstance(shape, weft.Capsule) and shape.end_radius:
        # the surface of the union of all spheres between the two at the ends
        t, n = rng.uniform(-0.3, 1.3, (3 * count, 1)).clip(0.0, 1.0), rng.normal(size=(3 * count, 3))
        n /= np.linalg.norm(n, axis=1)[:, None]
        radius = (1.0 - t) * shape.radius + t * shape.end_radius
        p = radius * n + (t - 0.5) * shape.length * np.array([0, 1, 0])
        return p[~is_inside(shape, 1.001 * p)]
    if isinstance(shape, weft.Capsule):
        n = rng.normal(size=(count, 3))
        n /= np.linalg.norm(n, axis=1)[:, None]
        caps = shape.radius * n + np.where(n[:, 1:2] > 0, 0.5, -0.5) * shape.length * np.array([0, 1, 0])
        ring = n * [1, 0, 1]
        ring *= shape.radius / np.linalg.norm(ring, axis=1)[:, None]
        return np.vstack([caps, ring + rng.uniform(-0.5, 0.5, (count, 1)) * shape.length * np.array([0, 1, 0])])
    half = np.array(shape.size) / 2
    p = rng.uniform(-1, 1, (count, 3))
    axis = rng.integers(0, 3, count)
    p[np.arange(count), axis] = np.sign(p[np.arange(count), axis])
    return p * half


def is_inside(shape, q):
    if isinstance(shape, weft.Sphere):
        return np.linalg.norm(q, axis=1) < shape.radius
    if isinstance(shape, weft.Capsule) and shape.end_radius:
        t = np.linspace(0.0, 1.0, 51)
        radius = (1.0 - t) * shape.radius + t * shape.end_radius
        away = np.linalg.norm(q[:, None] - (t[:, None] - 0.5) * shape.length * np.array([0, 1, 0]), axis=2)
        return (away < radius).any(axis=1)
    if isinstance(shape, weft.Capsule):
        axis = np.clip(q[:, 1], -shape.length / 2, shape.length / 2)
        return np.linalg.norm(q - axis[:, None] * [0, 1, 0], axis=1) < shape.radius
    return (np.abs(q) < np.array(shape.size) / 2).all(axis=1)


@pytest.mark.parametrize("name", ["sphere", "capsule", "tapered", "box"])
@pytest.mark.parametrize("analytic", [True, False])
def test_nearest_points_against_samples(name, analytic):
    rng = np.random.default_rng(1)
    shape = SHAPES[name]
    collider = weft.Collider(shape=shape, analytic=analytic, placement=PLACE)
    matrix = PLACE.matrix()
    q = rng.uniform(-0.6, 0.6, (300, 3))
    x = q @ matrix[:3, :3].T + matrix[:3, 3]
    found = touches(collider, x)
    surface = samples(shape, rng) @ matrix[:3, :3].T + matrix[:3, 3]
    brute = np.array([np.linalg.norm(surface - p, axis=1).min() for p in x])
    inside = is_inside(shape, q)
    # the triangles of a mesh lie a little within the shape
    slack = 0.02 if analytic else 0.03
    assert found["found"].all()
    np.testing.assert_allclose(np.abs(found["gap"]), brute, atol=slack)
    clear = np.abs(found["gap"]) > slack
    assert ((found["gap"] < 0) == inside)[clear].all()
    np.testing.assert_allclose(np.linalg.norm(found["normal"], axis=1), 1.0)
    # from the nearest point the gap leads to the vertex, along the normal
    np.testing.assert_allclose(found["nearest"] + found["gap"][:, None] * found["normal"], x, atol=1e-9)


def test_a_plane_has_no_end():
    collider = weft.Collider(shape=weft.Plane(), analytic=True, placement=weft.Placement(position=(0, 0.5, 0)))
    found = touches(collider, np.array([[100.0, 0.7, -50], [3, 0.1, 0]]))
    np.testing.assert_allclose(found["gap"], [0.2, -0.4])
    np.testing.assert_allclose(found["normal"], [[0, 1, 0], [0, 1, 0]])


@pytest.mark.parametrize("name", ["sphere", "capsule", "tapered", "box"])
def test_the_very_middle_has_a_way_out(name):
    collider = weft.Collider(shape=SHAPES[name], analytic=True, placement=PLACE)
    x = np.array([PLACE.position, PLACE.position])
    found = touches(collider, x, np.array([[0.0, 0, 0], [0.3, 0.1, 0.2]]))
    np.testing.assert_allclose(np.linalg.norm(found["normal"], axis=1), 1.0)
    np.testing.assert_allclose(found["gap"], {"sphere": -0.3, "tapered": -0.2}.get(name, -0.15))


def test_open_meshes_have_no_inside():
    collider = weft.Collider(shape=weft.Cylinder(radius=0.3, height=1.0, segments=64))
    found = touches(collider, np.array([[0.1, 0, 0], [0.5, 0, 0], [-0.25, 0.1, 0]]))
    assert (found["gap"] > 0).all()
    assert found["normal"][0, 0] < -0.9
    assert found["normal"][1, 0] > 0.9


def test_rotation_vectors():
    rng = np.random.default_rng(0)
    axes = rng.normal(size=(40, 3))
    axes /= np.linalg.norm(axes, axis=1)[:, None]
    angles = np.append(rng.uniform(-175, 175, 39), 0.0)
    turns = np.array([axis_matrix(a, d) for a, d in zip(axes, angles, strict=True)])
    out = wp.zeros(40, dtype=wp.vec3d)
    launch(find_vector, 40, [wp.array(turns, dtype=wp.mat33d), out])
    np.testing.assert_allclose(out.numpy(), axes * np.radians(angles)[:, None], atol=1e-9)


@pytest.mark.parametrize("analytic", [True, False])
@pytest.mark.parametrize("name", ["sphere", "capsule", "tapered", "box"])
def test_the_way_of_a_point_is_that_of_the_motion(name, analytic):
    spin = weft.Spin(axis=(1, 2, 0.5), rate_deg=30.0, centre=(0.0, 0.1, 0.0))
    collider = weft.Collider(shape=SHAPES[name], analytic=analytic, placement=PLACE, motion=spin)
    rng = np.random.default_rng(2)
    x = rng.uniform(-1, 1, (50, 3)) + PLACE.position
    dt = 1e-3
    found = touches(collider, x, times=(0.5, 0.5 + dt))
    moving = spin.resolve(placement=PLACE)
    step = moving.matrix(0.5 + dt) @ np.linalg.inv(moving.matrix(0.5))
    expected = found["nearest"] @ step[:3, :3].T + step[:3, 3] - found["nearest"]
    np.testing.assert_allclose(found["way"], expected, atol=1e-6)
    assert np.abs(expected).max() > 1e-4


def test_a_spinning_sphere_does_not_lift_its_planes():
    # a turn of 20 degrees a step: the chord would lower the plane by 2 cm
    spin = weft.Spin(axis=(0, 0, 1), rate_deg=20.0)
    for analytic in (True, False):
        collider = weft.Collider(shape=SHAPES["sphere"], analytic=analytic, placement=PLACE, motion=spin)
        top = np.array([PLACE.position]) + [0, 0.3, 0]
        found = touches(collider, top, times=(0.0, 1.0))
        assert abs(found["normal"][0] @ found["way"][0]) < (1e-12 if analytic else 5e-3)
        assert np.linalg.norm(found["way"][0]) == pytest.approx(0.3 * np.radians(20), rel=0.01)


def test_a_mesh_that_changes_its_form_carries_its_planes(tmp_path):
    mesh = weft.mesh.shapes.icosphere(0.2, subdivisions=3)
    grown = np.array([mesh.vertices, 2.0 * mesh.vertices])
    np.savez(tmp_path / "ball.npz", vertices=grown, faces=mesh.faces)
    motion = weft.Sequence(file=str(tmp_path / "ball.npz"), fps=1.0)
    collider = weft.Collider(motion=motion, placement=weft.Placement(position=(0, 1, 0)))
    found = touches(collider, np.array([[0.5, 1.0, 0.0]]), times=(0.0, 0.5))
    assert found["gap"][0] == pytest.approx(0.3, abs=0.01)
    np.testing.assert_allclose(found["way"][0], [0.1, 0, 0], atol=0.01)
    found = touches(collider, np.array([[0.5, 1.0, 0.0]]), times=(0.5, 1.0))
    assert found["gap"][0] == pytest.approx(0.2, abs=0.01)


def contact_made(gap, move, *, reach=0.1, name="sphere"):
    collider = weft.Collider(shape=SHAPES[name], analytic=True)
    x = np.array([[0, 0.3 + gap, 0]])
    return bool(touches(collider, x, np.array([move]), reach=reach)["found"][0])


def test_what_gets_a_contact():
    assert contact_made(-0.2, (0, 0, 0))
    assert contact_made(0.09, (0, 0, 0))
    # the cloth keeps 14 mm farther off, so that its triangles do not cut the sphere
    assert contact_made(0.11, (0, 0, 0))
    assert not contact_made(0.12, (0, 0, 0))
    assert contact_made(5.0, (0, -6.0, 0))
    assert contact_made(5.0, (0, -4.95, 0))
    assert not contact_made(5.0, (0, -4.85, 0))
    assert not contact_made(0.2, (0, 3.0, 0))
    # passing by: only the motion along the direction at the start counts
    assert not contact_made(0.2, (3.0, 0, 0))


SPEEDS = (1.0, 3.0, 10.0, 30.0, 100.0)
WAYS = {
    **{name: (shape, True) for name, shape in SHAPES.items()},
    "sphere mesh": (SHAPES["sphere"], False),
    "capsule mesh": (SHAPES["capsule"], False),
    "box mesh": (SHAPES["box"], False),
    "sheet mesh": (weft.Plane(size=(2, 2), cells=(4, 4)), False),
}


def clothes(position, velocity, *, pins=(), size=0.02):
    return weft.Cloth(
        shape=weft.Grid(size=(size, size), cells=(1, 1)),
        placement=weft.Placement(position=position),
        velocity=velocity,
        pins=pins,
        material=weft.Material(stretch=50.0),
    )


def run(cloth, shape, analytic, *, frames=6, motion=None, gravity=(0.0, 0.0, 0.0), **options):
    """Positions of the cloth, frame by frame, in the frame of the collider."""
    collider = weft.Collider(shape=shape, analytic=analytic, motion=motion or weft.Still())
    scene = weft.Scene(
        fps=30,
        cloths=[cloth],
        colliders=[collider],
        thickness=0.002,
        forces=weft.Forces(gravity=gravity),
        method=Predictive(self_contacts="none", **options),
    )
    from weft.methods import make_method

    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    result = []
    for _ in range(frames):
        method.advance_frame(state)
        pose = world.collider_motions[0].matrix(state.time)
        x = state.positions()[: world.cloth_vertex_count]
        result.append((x - pose[:3, 3]) @ pose[:3, :3])
    return np.array(result)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("speed", SPEEDS)
def test_case_a_a_fast_vertex_stays_on_its_side(way, speed):
    shape, analytic = WAYS[way]
    # starts 0.5 m over the middle, in step with nothing, and flies straight down
    x = run(clothes((0.004, 0.9, 0.006), (0, -speed, 0)), shape, analytic, frames=12)
    top = {"Plane": 0.0, "Sphere": 0.3, "Capsule": 0.35, "Box": 0.25}[type(shape).__name__]
    assert (x[..., 1] > top - 0.02).all()
    if speed >= 3.0:
        assert x[-1, :, 1].min() < top + 0.05


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("speed", SPEEDS)
def test_case_a_a_fast_collider_takes_the_vertex_along(way, speed):
    shape, analytic = WAYS[way]
    path = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=1.0, position=(0, speed, 0))])
    x = run(clothes((0.004, 0.9, 0.006), (0, 0, 0)), shape, analytic, frames=12, motion=path)
    top = {"Plane": 0.0, "Sphere": 0.3, "Capsule": 0.35, "Box": 0.25}[type(shape).__name__]
    assert (x[..., 1] > top - 0.02).all()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("speed", SPEEDS)
def test_case_b_neighbours_cannot_pull_a_vertex_through(way, speed):
    shape, analytic = WAYS[way]
    top = {"Plane": 0.0, "Sphere": 0.3, "Capsule": 0.35, "Box": 0.25}[type(shape).__name__]
    # a strip rests on the collider; a pin at one corner is dragged straight through it
    drag = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=1.0, position=(0, -speed, 0))])
    cloth = clothes((0.0, top + 0.01, 0.0), (0, 0, 0), pins=[weft.Pin(indices=[0], motion=drag)])
    x = run(cloth, shape, analytic, frames=1, static_radius=0.02)
    assert x[0, 0, 1] < top + 0.01 - speed / 31
    assert (x[0, 1:, 1] > top - 0.02).all()


def scaled(shape, scale):
    """The shape, so many times as large."""
    sizes = {
        name: getattr(shape, name) for name in ("radius", "end_radius", "length", "size") if getattr(shape, name, None)
    }
    return shape.replace(
        **{n: tuple(scale * v for v in s) if isinstance(s, tuple) else scale * s for n, s in sizes.items()}
    )


@pytest.mark.filterwarnings("ignore:.*lengths are in metres")
@pytest.mark.parametrize("moving", ["vertex", "collider"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("speed", SPEEDS)
def test_case_c_a_vertex_past_the_middle_goes_back_where_it_came_from(way, speed, moving):
    shape, analytic = WAYS[way]
    top = {"Plane": 0.0, "Sphere": 0.3, "Capsule": 0.35, "Box": 0.25}[type(shape).__name__]
    # a collider of such a size that one step takes the vertex past its middle, but not out again: pushing it out the
    # shorter way would let it through
    scale = speed / 30 / (top + 0.25)
    fall, rise = (speed, 0.0) if moving == "vertex" else (0.0, speed)
    path = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=1.0, position=(0, rise, 0))])
    place = scale * np.array([0.004, top + 0.1, 0.006])
    cloth = clothes(tuple(place), (0, -fall, 0), size=0.02 * scale)
    x = run(cloth, scaled(shape, scale), analytic, frames=1, motion=path)
    np.testing.assert_allclose(x[0, :, 1], scale * top, atol=0.004 + 0.02 * scale)


@pytest.mark.parametrize("way", WAYS)
def test_a_vertex_inside_comes_out_and_gains_no_speed(way):
    shape, analytic = WAYS[way]
    if way == "sheet mesh":
        pytest.skip("a sheet has no inside")
    top = {"Plane": 0.0, "Sphere": 0.3, "Capsule": 0.35, "Box": 0.25}[type(shape).__name__]
    x = run(clothes((0.004, top - 0.06, 0.006), (0, 0, 0)), shape, analytic, frames=12, push_speed=0.6)
    assert (x[-1, :, 1] > top - 0.02).all()
    # at the speed it is given, two centimetres a step, and then it rests; what is left is the cloth's own springs
    assert (np.diff(x[..., 1], axis=0) < 1.05 * 0.6 / 30).all()
    np.testing.assert_allclose(x[-1], x[-2], atol=2e-3)


def test_friction_carries_cloth_with_a_moving_floor():
    path = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=1.0, position=(1.0, 0, 0))])
    # standing still on a floor that starts to move at 1 m/s: friction mu g reaches that in about 0.2 s
    x = run(clothes((0, 0.002, 0), (0, 0, 0)), weft.Plane(), True, frames=20, motion=path, gravity=(0, -9.81, 0))
    slip = np.diff(x[..., 0].mean(axis=1)) * 30
    assert slip[0] < -0.7
    mu = np.sqrt(0.4 * 0.3)
    expected = -1.0 + mu * 9.81 * np.arange(1.5, 20.5) / 30
    np.testing.assert_allclose(slip, np.minimum(expected, 0.0)[: len(slip)], atol=0.08)
    assert abs(slip[-1]) < 1e-3


def test_a_block_on_a_slope_sticks_or_slides_by_its_friction():
    for angle, slides in ((15.0, False), (45.0, True)):
        slope = np.radians(angle)
        gravity = (9.81 * np.sin(slope), -9.81 * np.cos(slope), 0.0)
        x = run(clothes((0, 0.002, 0), (0, 0, 0)), weft.Plane(), True, frames=30, gravity=gravity)
        way = x[-1, :, 0].mean() - x[0, :, 0].mean()
        if slides:
            mu = np.sqrt(0.4 * 0.3)
            free = 9.81 * (np.sin(slope) - mu * np.cos(slope))
            assert way == pytest.approx(0.5 * free * (1.0 - 1 / 900), rel=0.05)
        else:
            assert abs(way) < 1e-3


def test_solver_keeps_the_poses_of_its_colliders():
    world = world_with(weft.Collider(shape=SHAPES["box"], analytic=True, placement=PLACE))
    solver = PredictiveSolver(world, Predictive())
    pose = PLACE.matrix()
    np.testing.assert_allclose(solver.colliders.poses_at(0.0)[0], pose, atol=1e-12)


@pytest.mark.parametrize("angle", [0.1, 0.8, 1.5])
def test_edges_between_vertices_that_keep_off_do_not_cut_a_ridge(angle, tmp_path):
    # a roof whose ridge is the z axis, and pairs of vertices on both sides of it
    slope = np.tan(angle / 2)
    vertices = [(0, 0, -9), (0, 0, 9), (-9, -9 * slope, 0), (9, -9 * slope, 0)]
    weft.save_mesh(weft.TriMesh(np.array(vertices, float), np.array([(0, 2, 1), (0, 1, 3)])), tmp_path / "roof.obj")
    collider = weft.Collider(mesh=str(tmp_path / "roof.obj"))
    # the cloth of this world has four edges of 0.1 m and a diagonal; those that are longer than nine tenths may cut
    length = float(np.quantile([0.1] * 4 + [0.1 * np.sqrt(2)], 0.9))
    for far in np.linspace(0.02, 0.98, 9) * length:
        run = np.array([-far, length - far]) * np.cos(angle / 2)
        x = np.column_stack([run, -np.abs(run) * slope + 1e-6, np.zeros(2)])
        found = touches(collider, x)
        assert (found["rise"] > 0.0).all() and (found["normal"][:, 1] > 0.0).all()
        ends = x + found["rise"][:, None] * found["normal"]
        share = -ends[0, 0] / (ends[1, 0] - ends[0, 0])
        height = (1 - share) * ends[0, 1] + share * ends[1, 1]
        # nearly exact, though raised vertices are a little farther apart
        assert -0.04 * length * angle < height < 0.3 * length * angle
    # in the valley under it nothing keeps off farther
    assert (touches(collider, x - [0, 2e-6, 0])["rise"] == 0.0).all()
