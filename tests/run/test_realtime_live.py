"""What games set in every frame: animations with limits, a character's root, colliders that come, go and deform, sleep."""

import importlib
import pickle
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import weft
from weft.errors import WeftError, WeftWarning
from weft.mesh import shapes
from weft.mesh.anchors import Anchors
from weft.mesh.topology import vertex_normals

DT = 1 / 60


def napkin(*, pins=True, analytic=True, colliders=True, **options):
    """A napkin that hangs from its upper edge behind a ball."""
    ball = weft.Collider(
        name="ball",
        shape=weft.Sphere(radius=0.06),
        analytic=analytic,
        placement=weft.Placement(position=(0.0, -0.1, -0.1)),
    )
    return weft.Scene(
        fps=60,
        cloths=[
            weft.Cloth(
                name="napkin",
                shape=weft.Grid(size=(0.4, 0.4), cells=(8, 8)),
                placement=weft.Placement(rotation_deg=(90, 0, 0)),
                pins=[weft.Pin(boundary="top")] if pins else [],
            )
        ],
        colliders=[ball] if colliders else [],
        forces=weft.Forces(air_damping=options.pop("air_damping", 0.2)),
        method=weft.Predictive(**options),
    )


def moved(position=(0.0, 0.0, 0.0), rotation=(0.0, 0.0, 0.0)):
    matrix = np.eye(4)
    matrix[:3, :3] = Rotation.from_rotvec(rotation).as_matrix()
    matrix[:3, 3] = position
    return matrix


# the mesh for the screen


def test_a_render_mesh_is_where_its_anchors_are():
    cloth = weft.Realtime(napkin())
    rng = np.random.default_rng(0)
    fine = shapes.grid((0.38, 0.38), (31, 31))
    points = fine.vertices @ Rotation.from_euler("x", 90, degrees=True).as_matrix().T + 0.01 * rng.random(
        (len(fine.vertices), 1)
    )
    mesh = weft.TriMesh(points, fine.faces)
    anchors = Anchors(points, cloth.positions.copy(), cloth.faces)
    bound = cloth.bind("napkin", mesh)
    np.testing.assert_allclose(bound.positions, points, atol=1e-14)
    seen = bound.positions
    for _ in range(20):
        cloth.poses["ball"][2, 3] += 0.01
        cloth.step(DT)
        np.testing.assert_allclose(bound.positions, anchors.follow(cloth.positions), atol=1e-12)
        np.testing.assert_allclose(bound.normals, vertex_normals(bound.positions, fine.faces), atol=1e-12)
    assert bound.positions is seen
    assert np.abs(bound.positions - points).max() > 0.05
    cloth.reset()
    np.testing.assert_allclose(bound.positions, points, atol=1e-14)
    with pytest.raises(WeftError, match="no cloth is called 'cape'"):
        cloth.bind("cape", mesh)
    np.testing.assert_allclose(cloth.bind("napkin", (points, fine.faces)).positions, points, atol=1e-14)
    with pytest.warns(WeftWarning, match=r"lies [0-9.]+ m from the sheet, which is 0\.\d+ m large"):
        cloth.bind("napkin", (100.0 * points + 5.0, fine.faces))


def test_mistakes_about_time_and_vertices_are_told():
    cloth = weft.Realtime(napkin())
    for dt, message in (
        (-DT, "0 .a pause. or more"),
        ("a", "not 'a'"),
        (None, "not nothing"),
        (1e9, "in seconds, 3600"),
    ):
        with pytest.raises(WeftError, match=message):
            cloth.step(dt)
    for vertices, message in (("napkin", "are numbers, such as"), ([81], "no vertex 81"), ([], "not empty")):
        with pytest.raises(WeftError, match=message):
            cloth.hold(vertices)


# the animation


def test_no_vertex_leaves_the_animation_by_more_than_its_distance():
    cloth = weft.Realtime(napkin(pins=False, colliders=False))
    skin = cloth.positions.copy()
    limit = np.linspace(0.0, 0.1, len(skin))
    cloth.paint("napkin", max_distance=limit)
    assert set(cloth.held) == set()
    for k in range(60):
        place = skin + [0.3 * np.sin(0.2 * k), 0.0, 0.1 * np.cos(0.3 * k)]
        cloth.animate("napkin", place)
        cloth.step(DT)
        away = np.linalg.norm(cloth.positions - place, axis=1)
        assert (away <= limit + 0.01).all(), k
        assert away[0] < 1e-12
    assert set(cloth.held) == {0}
    # it hangs as far below the animation as it may
    assert away[-1] > 0.05


def test_cloth_follows_the_animation_as_stiffly_as_it_is_painted():
    lags = []
    for stiffness in (0.5, 2.0, 8.0):
        cloth = weft.Realtime(napkin(pins=False, colliders=False))
        skin = cloth.positions.copy()
        cloth.paint("napkin", stiffness=stiffness, damping=1.0)
        for k in range(120):
            cloth.animate("napkin", skin + [0.01 * k, 0.0, 0.0])
            cloth.step(DT)
        lags.append(float((skin[:, 1] - cloth.positions[:, 1]).mean()))
        # a spring of f Hz carries the weight at g / (2 pi f)^2
        assert lags[-1] == pytest.approx(9.81 / (2.0 * np.pi * stiffness) ** 2, rel=0.1)
        assert (cloth.positions[:, 0] - skin[:, 0]).mean() == pytest.approx(0.01 * 119, abs=0.02)


@pytest.mark.parametrize("distance", [0.0, 0.02, -0.01])
def test_cloth_stays_in_front_of_its_backstop(distance):
    # the napkin lies flat, its normals point up, and it falls on its backstops
    scene = napkin(pins=False, colliders=False)
    flat = scene.cloths[0].replace(placement=weft.Placement())
    cloth = weft.Realtime(scene.replace(cloths=[flat]))
    skin = cloth.positions.copy()
    assert vertex_normals(skin, cloth.faces)[0, 1] == 1.0
    cloth.paint("napkin", backstop_distance=distance, backstop_radius=0.5)
    cloth.animate("napkin", skin)
    for _ in range(60):
        cloth.step(DT)
    np.testing.assert_allclose(cloth.positions[:, 1], -distance, atol=2e-3)
    np.testing.assert_allclose(cloth.positions[:, [0, 2]], skin[:, [0, 2]], atol=2e-2)


def test_mistakes_of_an_animation_are_told():
    cloth = weft.Realtime(napkin())
    x = cloth.positions.copy()
    with pytest.raises(WeftError, match=r"the animation has the shape \(2, 3\), and the cloth \(81, 3\)"):
        cloth.animate("napkin", x[:2])
    x[5] = np.inf
    with pytest.raises(WeftError, match="the animation of vertex 5 is not finite"):
        cloth.animate("napkin", x)
    with pytest.raises(WeftError, match="no cloth is called 'ball'"):
        cloth.paint("ball", stiffness=1.0)
    for wrong in ({"max_distance": -1.0}, {"stiffness": np.nan}, {"damping": np.inf}, {"backstop_distance": np.inf}):
        with pytest.raises(WeftError, match=f"{next(iter(wrong))} must be"):
            cloth.paint("napkin", **wrong)
    with pytest.raises(WeftError, match="max_distance is one number, or one for each of the 81 vertices"):
        cloth.paint("napkin", max_distance=[1.0, 2.0])


# the space of a character


def run(scales, frames=40, *, still=False, turn=0.0):
    """The napkin on a character that starts to run at once; positions in the space of the character."""
    cloth = weft.Realtime(napkin(air_damping=0.0), motions=False)
    cloth.change(**scales)
    start = cloth.positions.copy()
    ball = cloth.poses["ball"].copy()
    # the first root is where the character stands
    cloth.step(DT)
    for k in range(1, frames + 1):
        root = np.eye(4) if still else moved((0.02 * k, 0.0, -0.03 * k), (0.0, turn * k, 0.0))
        cloth.root[:] = root
        cloth.poses["ball"][:] = root @ ball
        cloth.targets[cloth.held] = start[cloth.held] @ root[:3, :3].T + root[:3, 3]
        cloth.step(DT)
    return (cloth.positions - root[:3, 3]) @ root[:3, :3]


@pytest.mark.parametrize("turn", [0.0, 0.05])
def test_a_character_whose_motion_is_not_felt_might_as_well_stand_still(turn):
    still = run({}, still=True)
    np.testing.assert_allclose(run({"velocity_scale": 0.0, "inertia_scale": 0.0}, turn=turn), still, atol=1e-6)


def test_inertia_is_felt_as_much_as_it_is_said():
    still = run({}, still=True)
    # just after the start, when the cloth lags behind
    lags = [
        np.abs(run({"velocity_scale": s, "inertia_scale": i}, 5) - run({}, 5, still=True)).max()
        for s, i in ((1, 1), (1, 0.5), (1, 0), (0.5, 0.5), (0, 1))
    ]
    assert lags[0] > 0.05
    assert lags[1] == pytest.approx(0.5 * lags[0], rel=0.2)
    assert lags[3] == pytest.approx(0.5 * lags[0], rel=0.2)
    assert lags[2] < 0.1 * lags[0]
    assert lags[4] == pytest.approx(lags[0], rel=0.2)
    assert np.isfinite(still).all()


def test_all_is_felt_unless_it_is_said():
    np.testing.assert_array_equal(run({}), run({"velocity_scale": 1.0, "inertia_scale": 1.0}))
    cloth = weft.Realtime(napkin())
    with pytest.raises(WeftError, match="inertia_scale is a share from 0 to 1"):
        cloth.change(inertia_scale=2.0)
    cloth.root[:] *= np.nan
    with pytest.raises(WeftError, match="the pose of the root has numbers that are not finite"):
        cloth.step(DT)


# colliders at run time


def push(cloth, frames=25):
    for _ in range(frames):
        if "ball" in cloth.poses:
            cloth.poses["ball"][2, 3] += 0.01
        cloth.step(DT)
    return cloth.positions.copy()


@pytest.mark.parametrize("analytic", [True, False])
def test_a_collider_that_is_off_is_not_there(analytic):
    cloth = weft.Realtime(napkin(analytic=analytic))
    cloth.enable("ball", False)
    np.testing.assert_array_equal(push(cloth), push(weft.Realtime(napkin(colliders=False))))
    cloth.reset()
    cloth.enable("ball")
    np.testing.assert_array_equal(push(cloth), push(weft.Realtime(napkin(analytic=analytic))))


def test_a_collider_comes_back_where_it_is_without_a_sweep():
    cloth = weft.Realtime(napkin())
    cloth.enable("ball", False)
    cloth.step(DT)
    cloth.enable("ball")
    saved = cloth.save()
    for _ in range(2):
        cloth.poses["ball"][:3, 3] = 0.0, -0.1, 0.2
        cloth.step(DT)
        # a sweep from one side to the other would have carried the cloth along
        assert cloth.positions[:, 2].max() < 0.02
        cloth.restore(saved)
    # from then on it is swept
    cloth.step(DT)
    for _ in range(4):
        cloth.poses["ball"][2, 3] += 0.05
        cloth.step(DT)
    assert cloth.positions[:, 2].max() > 0.02


def test_a_collider_that_is_added_is_as_one_that_was_there():
    ball = napkin().colliders[0]
    cloth = weft.Realtime(napkin(colliders=False))
    pose = cloth.add(ball)
    assert pose is cloth.poses["ball"]
    expected = weft.Realtime(napkin())
    np.testing.assert_array_equal(push(cloth), push(expected))
    sword = weft.Collider(name="sword", shape=weft.Box(size=(0.01, 0.5, 0.01)), placement={"position": (0, 0, -1)})
    before = cloth.poses["ball"].copy()
    cloth.add(sword)
    np.testing.assert_array_equal(cloth.poses["ball"], before)
    cloth.remove("sword")
    np.testing.assert_array_equal(push(cloth), push(expected))
    cloth.remove("ball")
    push(cloth)
    assert list(cloth.poses) == []
    with pytest.raises(WeftError, match="no collider is called 'ball'"):
        cloth.remove("ball")
    with pytest.raises(WeftError, match="napkin"):
        cloth.add(ball.replace(name="napkin"))


def test_a_mesh_deforms_as_a_moved_one():
    cloth, expected = weft.Realtime(napkin(analytic=False)), weft.Realtime(napkin(analytic=False))
    start = cloth.collider_mesh("ball")[0]
    for k in range(1, 26):
        cloth.deform("ball", start + [0.0, 0.0, 0.01 * k])
        np.testing.assert_allclose(cloth.collider_mesh("ball")[0], start + [0.0, 0.0, 0.01 * k], atol=1e-12)
        cloth.step(DT)
        expected.poses["ball"][2, 3] += 0.01
        expected.step(DT)
    np.testing.assert_allclose(cloth.positions, expected.positions, atol=1e-4)
    # a mesh that nobody deforms any more stays as it is
    cloth.step(DT)
    expected.step(DT)
    np.testing.assert_allclose(cloth.positions, expected.positions, atol=1e-4)


def test_a_mesh_that_grows_pushes():
    cloth = weft.Realtime(napkin(analytic=False))
    start = cloth.collider_mesh("ball")[0]
    centre = start.mean(axis=0)
    for k in range(1, 41):
        cloth.deform("ball", centre + (1.0 + 0.04 * k) * (start - centre))
        cloth.step(DT)
    away = np.linalg.norm(cloth.positions - centre, axis=1)
    assert away.min() > 0.06 * 2.5


def test_mistakes_about_colliders_are_told():
    cloth = weft.Realtime(napkin())
    with pytest.raises(WeftError, match=r"'ball' is an exact shape .*cannot deform"):
        cloth.deform("ball", np.zeros((4, 3)))
    cloth = weft.Realtime(napkin(analytic=False))
    with pytest.raises(WeftError, match=r"the vertices of 'ball' are an array \(\d+, 3\), not \(4, 3\)"):
        cloth.deform("ball", np.zeros((4, 3)))
    x = cloth.collider_mesh("ball")[0]
    x[2] = np.nan
    with pytest.raises(WeftError, match="vertex 2 of 'ball' is not finite"):
        cloth.deform("ball", x)
    with pytest.raises(WeftError, match="no collider is called 'bal'"):
        cloth.enable("bal")


# crowds


@pytest.mark.parametrize("kind", ["triangles", "points", "none"])
def test_a_crowd_has_the_bytes_that_each_has_alone(kind):
    def begin():
        scenes = [napkin(self_contacts=kind, analytic=k % 2 == 0, air_damping=0.1 * k) for k in range(7)]
        return [weft.Realtime(scene) for scene in scenes]

    before = weft.runtime.get_threads()
    weft.runtime.set_threads(4)
    try:
        crowd, alone = begin(), begin()
        for k in range(40):
            for number, (one, other) in enumerate(zip(crowd, alone, strict=True)):
                for cloth in (one, other):
                    cloth.poses["ball"][2, 3] += 0.002 * number
                other.step(DT)
            weft.Realtime.step_all(crowd, DT)
            for one, other in zip(crowd, alone, strict=True):
                assert one.positions.tobytes() == other.positions.tobytes(), k
        crowd[3].poses["ball"][0, 0] = np.nan
        with pytest.raises(WeftError, match="the pose of 'ball'"):
            weft.Realtime.step_all(crowd, DT)
        with pytest.raises(WeftError, match="the same scene twice"):
            weft.Realtime.step_all([crowd[0], crowd[0]], DT)
    finally:
        weft.runtime.set_threads(before)


# sleep


def test_cloth_at_rest_sleeps_and_wakes():
    cloth = weft.Realtime(napkin(air_damping=3.0), sleep=True)
    while not cloth.asleep and cloth.time < 10.0:
        cloth.step(DT)
    assert cloth.asleep and cloth.time > 0.5
    x = cloth.positions.copy()
    assert not cloth.velocities.any()
    time = cloth.time
    cloth.step(DT)
    np.testing.assert_array_equal(cloth.positions, x)
    assert cloth.time == time + DT
    # a collider that moves wakes it
    push(cloth)
    assert not cloth.asleep
    assert np.abs(cloth.positions - x).max() > 0.02
    for _ in range(600):
        cloth.step(DT)
    assert cloth.asleep
    cloth.positions[40] += 0.01
    cloth.step(DT)
    assert not cloth.asleep


# rollback


def test_all_of_it_is_saved():
    def play(cloth, frames, start, mesh):
        for k in frames:
            root = moved((0.02 * k, 0.0, 0.0), (0.0, 0.03 * k, 0.0))
            cloth.root[:] = root
            cloth.animate("napkin", start @ root[:3, :3].T + root[:3, 3])
            cloth.deform("ball", mesh + [0.0, 0.0, 0.005 * k])
            cloth.step(DT)
        return cloth.positions.tobytes(), cloth.velocities.tobytes()

    def begin():
        cloth = weft.Realtime(napkin(analytic=False))
        cloth.change(velocity_scale=0.3, inertia_scale=0.6)
        cloth.paint("napkin", max_distance=np.linspace(0, 0.2, 81), stiffness=1.0, damping=1.0, backstop_radius=0.1)
        return cloth

    cloth = begin()
    start, mesh = cloth.positions.copy(), cloth.collider_mesh("ball")[0]
    play(cloth, range(10), start, mesh)
    saved = pickle.loads(pickle.dumps(cloth.save()))
    first = play(cloth, range(10, 20), start, mesh)
    cloth.restore(saved)
    assert play(cloth, range(10, 20), start, mesh) == first
    other = begin()
    other.restore(saved)
    assert play(other, range(10, 20), start, mesh) == first
    plain = weft.Realtime(napkin(analytic=False)).save()
    with pytest.raises(WeftError, match="before the animation began"):
        cloth.restore(plain)


def test_the_example_of_a_game_keeps_its_promises(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "examples"))
    found = importlib.import_module("realtime_cape").play()
    assert found["vertices of the cape, of the mesh on the screen"] == "496, 7381"
