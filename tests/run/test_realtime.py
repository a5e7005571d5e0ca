"""`weft.Realtime`: cloth in a caller's loop."""

import gc
import tracemalloc

import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.scene import Follow, Predictive


def napkin(**options):
    """A napkin that hangs from its upper edge behind a ball."""
    return weft.Scene(
        fps=30,
        cloths=[
            weft.Cloth(
                name="napkin",
                shape=weft.Grid(size=(0.4, 0.4), cells=(8, 8)),
                placement=weft.Placement(rotation_deg=(90, 0, 0)),
                pins=[weft.Pin(boundary="top")],
            )
        ],
        colliders=[
            weft.Collider(
                name="ball",
                shape=weft.Sphere(radius=0.06),
                analytic=True,
                placement=weft.Placement(position=(0.0, -0.1, -0.1)),
            )
        ],
        method=Predictive(**options),
    )


def test_views_are_what_the_solver_works_on():
    cloth = weft.Realtime(napkin())
    x = cloth.positions
    before = x.copy()
    cloth.step(1 / 30)
    assert cloth.positions is x
    assert np.abs(x - before).max() > 0.0
    assert cloth.time == pytest.approx(1 / 30)
    np.testing.assert_array_equal(x[cloth.held], before[cloth.held])
    assert len(cloth.held) == 9
    assert cloth.cloth("napkin") == slice(0, 81)
    assert cloth.faces.shape == (128, 3)


def test_it_steps_as_a_run_does(tmp_path):
    scene = napkin().replace(frames=10)
    ran = weft.simulate(scene, tmp_path / "c.zarr", progress=False)
    cloth = weft.Realtime(scene)
    for _ in range(9):
        cloth.step(1 / 30)
    np.testing.assert_allclose(cloth.positions, ran.positions(9)[:81], atol=1e-9)


def test_poses_move_colliders_and_colliders_move_cloth():
    cloth = weft.Realtime(napkin())
    for _ in range(20):
        cloth.poses["ball"][2, 3] += 0.01
        cloth.step(1 / 30)
    assert cloth.positions[:, 2].max() > 0.08
    away = np.linalg.norm(cloth.positions - cloth.poses["ball"][:3, 3], axis=1)
    assert away.min() > 0.06
    cloth.move("ball", position=(0.0, 5.0, 0.0), rotation=np.eye(3))
    np.testing.assert_array_equal(cloth.poses["ball"][:3, 3], (0.0, 5.0, 0.0))
    vertices, faces = cloth.collider_mesh("ball")
    np.testing.assert_allclose(vertices.mean(axis=0), (0.0, 5.0, 0.0), atol=1e-3)
    assert faces.max() == len(vertices) - 1


def test_targets_hold_and_release():
    cloth = weft.Realtime(napkin())
    cloth.hold([80], at=cloth.positions[80] + [0.05, 0.1, 0.0])
    cloth.step(1 / 30)
    np.testing.assert_allclose(cloth.positions[80], cloth.targets[80], atol=1e-12)
    assert set(cloth.held) == {*range(9), 80}
    cloth.release()
    assert set(cloth.held) == set(range(9))
    with pytest.raises(WeftError, match="no vertex 81"):
        cloth.hold([81])


def test_reset_gives_the_same_bytes_again():
    cloth = weft.Realtime(napkin())
    runs = []
    for _ in range(2):
        for _ in range(8):
            cloth.step(1 / 30)
        runs.append(cloth.positions.tobytes())
        cloth.reset()
        assert cloth.time == 0.0
    assert runs[0] == runs[1]


@pytest.mark.parametrize("interpolation", ["linear", "smooth"])
def test_the_kernel_follows_motions_as_they_are(interpolation):
    rng = np.random.default_rng(1)
    keys = [
        weft.Keyframe(time=0.1 + 0.2 * k, position=tuple(rng.normal(size=3)), rotation_deg=tuple(rng.normal(0, 120, 3)))
        for k in range(5)
    ]
    path = weft.Path(keyframes=keys, interpolation=interpolation)
    spin = weft.Spin(axis=(1.0, 2.0, 0.5), rate_deg=200.0, start=0.2, stop=0.6, centre=(0.1, 0.2, 0.3))
    scene = napkin(follow=[Follow(cloth="napkin", motion=spin)])
    sheet = scene.cloths[0].replace(
        pins=[weft.Pin(boundary="top", motion=path), weft.Pin(boundary="bottom", motion=spin, until=0.5)]
    )
    ball = scene.colliders[0]
    turned = weft.Placement(position=(0.2, 0.1, 0.0), rotation_deg=(10, 20, 30))
    colliders = [ball.replace(motion=path), ball.replace(name="other", motion=spin, placement=turned)]
    cloth = weft.Realtime(scene.replace(cloths=[sheet], colliders=colliders))
    for k in range(40):
        start, end = k / 30, (k + 1) / 30
        cloth.time = start
        cloth._follow_motions(1 / 30)
        np.testing.assert_allclose(cloth._poses, cloth.solver.colliders.poses_at(end), atol=1e-12)
        for p in cloth.world.kinematics.prescriptions[:2]:
            if p.until > start + 1e-9:
                np.testing.assert_allclose(cloth.targets[p.vertices], p.place(min(end, p.until)), atol=1e-12)
        np.testing.assert_allclose(cloth.solver.goals.starts.numpy(), cloth.solver.goals.at(start), atol=1e-12)
        np.testing.assert_allclose(cloth.solver.goals.ends.numpy(), cloth.solver.goals.at(end), atol=1e-12)


@pytest.mark.parametrize("kind", ["none", "triangles", "points"])
def test_a_step_allocates_nothing_after_warm_up(kind):
    # two napkins, which search for each other where there are contacts of cloth with cloth
    scene = napkin(self_contacts=kind)
    behind = weft.Placement(position=(0.0, 0.0, 0.01), rotation_deg=(90, 0, 0))
    two = [scene.cloths[0], scene.cloths[0].replace(name="second", placement=behind)]
    cloth = weft.Realtime(scene.replace(cloths=two))
    for _ in range(60):
        cloth.step(1 / 30)
    assert kind == "none" or cloth.report["generated"] > cloth.report["with_colliders"]
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        before = tracemalloc.take_snapshot()
        for _ in range(200):
            cloth.step(1 / 30)
        # there are no cycles, but Python keeps tuples that are free until it is told to look
        assert gc.collect() == 0
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
        gc.enable()
    grown = sum(stat.size_diff for stat in after.compare_to(before, "filename") if "tracemalloc" not in str(stat))
    # numbers of the clock come and go; an array for each step would be 200 times two kilobytes
    assert grown < 40_000


def test_numbers_change_while_it_runs():
    cloth = weft.Realtime(napkin())
    cloth.change(stretch=10.0, friction=0.0, gravity=(0.0, 0.0, 0.0), substeps=2, iterations=3, wind=(0.0, 0.0, 5.0))
    settings = cloth.solver.settings
    assert (settings["friction"][0], settings["substeps"][0], settings["sweeps"][0]) == (0.0, 2, 3)
    for _ in range(10):
        cloth.step(1 / 30)
    assert cloth.positions[:, 2].max() > 0.01
    with pytest.raises(WeftError, match="stretch is a multiple"):
        cloth.change(stretch=0.0)
    for wrong in ({"gravity": (0, 0)}, {"wind": 3.0}, {"substeps": 0}, {"iterations": -1}, {"friction": np.nan}):
        with pytest.raises(WeftError, match=next(iter(wrong))):
            cloth.change(**wrong)


def test_contacts_are_cached_as_the_cloth_lies():
    scene = napkin()
    behind = weft.Placement(position=(0.0, 0.0, 0.01), rotation_deg=(90, 0, 0))
    two = [scene.cloths[0], scene.cloths[0].replace(name="second", placement=behind)]
    cloth = weft.Realtime(scene.replace(cloths=two))
    assert cloth.cache_contacts() > 0
    cloth.step(1 / 30)
    report = cloth.report
    assert report["cached"] > 0
    assert report["contacts"] == report["cached"] + report["generated"]
    with pytest.raises(WeftError, match="switched off"):
        weft.Realtime(napkin(self_contacts="none")).cache_contacts()


def test_mistakes_are_told():
    cloth = weft.Realtime(napkin())
    with pytest.raises(WeftError, match="dt must be 0"):
        cloth.step(-0.01)
    with pytest.raises(WeftError, match="no collider is called 'bal'"):
        cloth.move("bal")


def test_a_scene_of_another_method_is_refused():
    message = r"a scene of the method 'robust', .*or step the scene's own method by weft.Simulation"
    with pytest.raises(WeftError, match=message):
        weft.Realtime(napkin().replace(method="robust"))


@pytest.mark.parametrize("cache", [False, True])
def test_a_state_goes_on_with_the_same_bytes(cache):
    cloth = weft.Realtime(napkin(cache=True) if cache else napkin())
    for _ in range(8):
        cloth.step(1 / 60)
    saved = cloth.save()
    runs = []
    for dts in ((1 / 60, 1 / 30, 1 / 8), (1 / 240, 1 / 240), (1 / 60, 1 / 30, 1 / 8)):
        cloth.restore(saved)
        for dt in dts:
            cloth.step(dt)
        runs.append((cloth.time, cloth.positions.tobytes(), cloth.velocities.tobytes()))
    assert runs[0] == runs[2] != runs[1]


def test_a_pause_changes_nothing():
    cloth = weft.Realtime(napkin())
    cloth.step(1 / 60)
    before = cloth.save()
    cloth.step(0.0)
    np.testing.assert_array_equal(cloth.positions, before["arrays"][0])
    assert cloth.time == before["time"]


def test_a_teleport_moves_everything_and_sweeps_nothing():
    here, there = weft.Realtime(napkin(), motions=False), weft.Realtime(napkin(), motions=False)
    far = np.eye(4)
    far[:3, 3] = 5.0, 0.0, -3.0
    for k in range(12):
        if k == 6:
            there.teleport(far)
        here.step(1 / 60)
        there.step(1 / 60)
    np.testing.assert_allclose(there.positions - far[:3, 3], here.positions, atol=1e-6)
    np.testing.assert_allclose(there.velocities, here.velocities, atol=1e-4)


def test_cloth_is_put_where_it_shall_be():
    cloth = weft.Realtime(napkin())
    start = cloth.positions.copy()
    for _ in range(5):
        cloth.step(1 / 60)
    cloth.reset_to(start + [0.0, 0.1, 0.0])
    np.testing.assert_array_equal(cloth.positions, start + [0.0, 0.1, 0.0])
    assert not cloth.velocities.any()
    with pytest.raises(WeftError, match=r"positions have the shape \(2, 3\)"):
        cloth.reset_to(np.zeros((2, 3)))
    wrong = start.copy()
    wrong[3] = np.nan
    with pytest.raises(WeftError, match="vertex 3 is not finite"):
        cloth.reset_to(wrong)


@pytest.mark.parametrize(("value", "text"), [(np.nan, "not finite"), (2.0, "is scaled or sheared")])
def test_a_pose_that_is_not_rigid_is_refused_by_name(value, text):
    cloth = weft.Realtime(napkin(), motions=False)
    name = next(iter(cloth.poses))
    cloth.poses[name][:3, :3] *= value
    with pytest.raises(WeftError, match=f"the pose of '{name}' .*{text}"):
        cloth.step(1 / 60)
    with pytest.raises(WeftError, match="transform of teleport is scaled"):
        cloth.teleport(2.0 * np.eye(4))
