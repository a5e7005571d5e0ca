"""The promise of guarded: what is free stays free, what crosses comes free, what bodies force is released, it alone."""

import guarded_scenes as scenes
import numpy as np
import pytest

import weft
from weft.run.simulation import compile_scene
from weft.view.marks import MarkFinder


def run(scene, tmp_path):
    return weft.simulate(scene, tmp_path / "out.zarr", progress=False)


def last_crossing(cache):
    """The last frame in which something crosses, -1 if none does."""
    return int(np.flatnonzero(np.append(cache.report["intersections"], 0) > 0).max(initial=-1))


def check_report(cache):
    """What the method reports agrees with the independent count of the run."""
    report = cache.report
    assert not report["newly_crossing"].any()
    crossing = report["released"] + report["crossing"] > 0
    # touching counts as an intersection for the run, and is nothing for the method
    assert not (crossing & (report["intersections"] == 0)).any()
    ok = np.array([status == "ok" for status in report["status"]])
    assert not (ok & (report["intersections"] > 0)).any()


def test_a_jaw_releases_only_where_its_plates_overlap(tmp_path):
    cache = run(scenes.jaw(), tmp_path)
    check_report(cache)
    report = cache.report
    assert report["released"][12:16].min() > 0
    # they stop to overlap in frame 20
    assert 16 < last_crossing(cache) <= 24
    assert report["stretch"].max() < 0.25
    # cloth that crosses is where the plates overlap
    x = cache.positions(14)
    finder_rows = weft.intersections(x, cache.faces)
    cloth = cache.bodies[0].vertices
    crossing = np.unique(finder_rows[:, :2])
    crossing = crossing[crossing < cloth.stop]
    assert (np.abs(x[crossing, 0]) < 0.15 + 0.06).all()
    assert (np.abs(x[crossing, 1] + 0.1) < 0.1 + 0.06).all()
    # every frame notes its released pairs, each of which crosses
    noted = [cache.noted(frame)["released"] for frame in range(cache.frames)]
    np.testing.assert_array_equal([len(pairs) for pairs in noted], report["released"])
    assert set(map(tuple, noted[14].tolist())) <= set(map(tuple, finder_rows.tolist()))
    marks = MarkFinder(cache).released(14)
    np.testing.assert_array_equal(marks.segments, x[noted[14][:, :2]])


def test_cloth_in_tongs_that_pass_through_themselves_comes_free(tmp_path):
    cache = run(scenes.tongs(tmp_path), tmp_path)
    check_report(cache)
    assert cache.report["released"].max() > 0
    assert last_crossing(cache) < 28
    assert cache.report["stretch"].max() < 0.25


def test_a_sleeve_between_a_motionless_arm_and_torso_is_motionless(tmp_path):
    cache = run(scenes.arm_in_torso(tmp_path), tmp_path)
    check_report(cache)
    x = np.array([cache.positions(frame)[cache.bodies[0].vertices] for frame in range(cache.frames)])
    moved = np.linalg.norm(np.diff(x, axis=0), axis=2).max(axis=1)
    # free parts of the sleeve fall onto the arm first
    assert moved[30:].max() < 5e-4
    assert cache.report["stretch"].max() < 0.25


@pytest.mark.parametrize(
    ("shape", "rotation"),
    [
        # two triangles a side: the nearest surface is at the sides of the box, not at its ends
        (weft.Box(size=(0.18, 0.09, 0.14)), (-72.0, -5.0, -10.0)),
        (weft.Capsule(radius=0.05, length=0.2, segments=16, rings=4), (10.0, 0.0, 15.0)),
    ],
)
def test_a_sheet_slides_off_the_end_of_a_solid_that_starts_across_it(shape, rotation, tmp_path):
    v, faces, rest = scenes.flat(20, size=0.5)
    at = weft.Placement(position=(-0.14, -0.009, -0.12), rotation_deg=rotation)
    solid = weft.Collider(name="solid", shape=shape, placement=at)
    sheet = scenes.cloth(tmp_path, "sheet", v, faces, rest).replace(material="linen")
    cache = run(scenes.floating([sheet], (solid,), frames=24), tmp_path)
    check_report(cache)
    assert cache.report["intersections"][0] > 0
    assert last_crossing(cache) < 20


@pytest.mark.parametrize(
    ("x", "rotation"),
    [
        # across the whole sheet near its rim: a strip goes back through the wall
        (0.19, (5.0, 10.0, 20.0)),
        # from a rim into the sheet: the wall leaves through the open end of the slit
        (0.157, (5.5, -27.6, -29.0)),
    ],
)
def test_a_sheet_comes_free_of_a_wall_thinner_than_its_edges(x, rotation, tmp_path):
    v, faces, rest = scenes.flat(24, size=0.4)
    at = weft.Placement(position=(x, 0.0, 0.01), rotation_deg=rotation)
    wall = weft.Collider(name="wall", shape=weft.Box(size=(0.003, 0.2, 0.5)), placement=at)
    cache = run(scenes.floating([scenes.cloth(tmp_path, "sheet", v, faces, rest)], (wall,), frames=24), tmp_path)
    check_report(cache)
    assert cache.report["intersections"][0] > 50
    assert last_crossing(cache) < 20
    assert cache.report["stretch"].max() < 0.35
    assert np.linalg.norm(cache.velocities(23)[cache.bodies[0].vertices], axis=1).max() < 1.0


@pytest.mark.parametrize("kind", ["hill", "corner", "cross", "rims", "flap", "roll", "layers"])
def test_cloth_that_starts_tangled_comes_free_and_is_calm(kind, tmp_path):
    cache = run(scenes.tangled_start(kind, tmp_path), tmp_path)
    check_report(cache)
    assert cache.report["intersections"][0] > 0
    assert last_crossing(cache) < 25
    assert cache.report["stretch"].max() < 0.25
    speed = np.linalg.norm(cache.velocities(cache.frames - 1)[cache.bodies[0].vertices], axis=1).max()
    assert speed < 1.0


@pytest.mark.parametrize("shape", [weft.Sphere(radius=0.1, subdivisions=2), weft.Box(size=(0.2, 0.2, 0.2))])
def test_a_solid_that_starts_in_a_sheet_comes_free(shape, tmp_path):
    v, faces, rest = scenes.flat(size=0.6)
    at = weft.Placement(position=(0.013, -0.06, 0.007), rotation_deg=(20.0, 10.0, 35.0))
    solid = weft.Collider(name="solid", shape=shape, placement=at)
    cache = run(scenes.floating([scenes.cloth(tmp_path, "sheet", v, faces, rest)], (solid,), frames=20), tmp_path)
    check_report(cache)
    assert cache.report["intersections"][0] > 0
    assert last_crossing(cache) < 15
    assert cache.report["stretch"].max() < 0.25


def test_a_ball_that_appears_inside_a_tube_gets_the_tube_around_it(tmp_path):
    tube = weft.mesh.shapes.cylinder(0.1, 0.3, segments=24, rings=14)
    sleeve = scenes.cloth(tmp_path, "tube", tube.vertices - tube.vertices.mean(axis=0), tube.faces)
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.105, subdivisions=3))
    cache = run(scenes.floating([sleeve], (ball,), frames=20), tmp_path)
    check_report(cache)
    assert last_crossing(cache) < 15
    # the tube is around the ball, not beside it
    x = cache.positions(20)[cache.bodies[0].vertices]
    assert np.linalg.norm(x, axis=1).min() > 0.1


@pytest.mark.parametrize("speed", [200.0, 300.0, 500.0])
def test_a_ball_faster_than_the_critical_speed_passes_says_so_and_leaves_the_cloth_behind(speed, tmp_path):
    way = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=60.0 / speed, position=(0.0, 0.0, 60.0))])
    ball = weft.Collider(
        name="ball",
        shape=weft.Sphere(radius=0.1, subdivisions=2),
        placement=weft.Placement(position=(0.02, -0.05, -0.05 * speed)),
        motion=way,
    )
    scene = weft.Scene(name="ball", frames=8, method="guarded", cloths=[scenes.hanging()], colliders=[ball])
    cache = run(scene, tmp_path)
    check_report(cache)
    assert any("passed through" in status for status in cache.report["status"])
    assert cache.report["intersections"][-1] == 0
    # cloth that does not give way flies off with up to half the speed
    assert cache.report["stretch"].max() < 0.3
    assert np.linalg.norm(cache.velocities(7), axis=1)[cache.bodies[0].vertices].max() < 12.0


def test_a_ball_that_teleports_into_cloth_comes_free(tmp_path):
    keys = [weft.Keyframe(time=2 / 60), weft.Keyframe(time=3 / 60, position=(0.0, 0.0, 2.02))]
    ball = weft.Collider(
        name="ball",
        shape=weft.Sphere(radius=0.1, subdivisions=2),
        placement=weft.Placement(position=(0.02, -0.05, -2.0)),
        motion=weft.Path(keyframes=keys),
    )
    scene = weft.Scene(name="ball", frames=10, method="guarded", cloths=[scenes.hanging()], colliders=[ball])
    cache = run(scene, tmp_path)
    check_report(cache)
    assert cache.report["intersections"][-1] == 0


def test_a_resumed_run_gives_the_same_bytes(tmp_path):
    scene = scenes.tangled_start("corner", tmp_path).replace(frames=4)
    whole = weft.simulate(scene, tmp_path / "whole.zarr", progress=False)
    weft.simulate(scene, tmp_path / "part.zarr", frames=2, progress=False)
    resumed = weft.simulate(scene, tmp_path / "part.zarr", frames=4, resume=True, progress=False)
    assert whole.positions(4).tobytes() == resumed.positions(4).tobytes()


def test_free_cloth_moves_exactly_as_with_robust(tmp_path):
    scene = weft.Scene(
        name="drop",
        frames=10,
        cloths=[weft.Cloth(name="sheet", shape=weft.Grid(size=(0.4, 0.4), cells=(10, 10)), velocity=(0.0, -1.0, 0.0))],
        colliders=[
            weft.Collider(
                name="ball", shape=weft.Sphere(radius=0.1), placement=weft.Placement(position=(0.0, -0.12, 0.0))
            )
        ],
    )
    guarded = weft.simulate(scene, tmp_path / "guarded.zarr", method="guarded", progress=False)
    robust = weft.simulate(scene, tmp_path / "robust.zarr", method="robust", progress=False)
    assert guarded.positions(10).tobytes() == robust.positions(10).tobytes()


def test_coincident_sheets_are_free_from_the_start(tmp_path):
    v, faces, rest = scenes.flat(8)
    cache = run(scenes.floating([scenes.cloth(tmp_path, name, v, faces, rest) for name in "ab"], frames=2), tmp_path)
    assert not cache.report["intersections"].any()


@pytest.mark.filterwarnings("ignore:.*torn edges")
@pytest.mark.parametrize("layers", [2, 4])
def test_cloth_folded_exactly_onto_itself_is_free_from_the_start(layers, tmp_path):
    v, faces, rest = scenes.flat(8)
    along = (v[:, 0] + 0.15) * layers / 0.3
    folded = np.column_stack([0.3 / layers * np.abs((along + 1.0) % 2.0 - 1.0), v[:, 1:]])
    assert len(weft.intersections(folded, faces)) > 0
    cache = run(scenes.floating([scenes.cloth(tmp_path, "folded", folded, faces, rest)], frames=2), tmp_path)
    assert not cache.report["intersections"].any()
    assert cache.report["stretch"].max() < 1e-3


@pytest.mark.filterwarnings("ignore:.*torn edges")
@pytest.mark.parametrize("cells", [8, 12])
def test_cloth_folded_exactly_into_quarters_is_free_from_the_start(cells, tmp_path):
    v, faces, rest = scenes.flat(cells)
    folded = np.column_stack([-np.abs(v[:, 0]), v[:, 1], -np.abs(v[:, 2])])
    assert len(weft.intersections(folded, faces)) > 0
    cache = run(scenes.floating([scenes.cloth(tmp_path, "folded", folded, faces, rest)], frames=4), tmp_path)
    assert not cache.report["intersections"].any()
    assert cache.report["stretch"].max() < 0.05


def test_two_sheets_that_fall_onto_a_floor_never_gain_energy(tmp_path):
    floor = weft.Collider(
        name="floor", shape=weft.Box(size=(1.0, 0.1, 1.0)), placement=weft.Placement(position=(0.0, -0.05, 0.0))
    )
    sheets = [
        weft.Cloth(
            name=name,
            shape=weft.Grid(size=(0.3, 0.3), cells=(12, 12)),
            placement=weft.Placement(position=(0.0, height, 0.0), rotation_deg=(0.0, angle, 0.0)),
        )
        for name, height, angle in (("lower", 0.008, 0.0), ("upper", 0.010, 20.0))
    ]
    scene = weft.Scene(name="drop", frames=20, method="guarded", cloths=sheets, colliders=[floor])
    cache = run(scene, tmp_path)
    cloth = slice(0, cache.bodies[1].vertices.stop)
    energy = [
        float((9.81 * cache.positions(k)[cloth, 1] + 0.5 * (cache.velocities(k)[cloth] ** 2).sum(axis=1)).mean())
        for k in range(cache.frames)
    ]
    assert np.diff(energy).max() < 1e-4 * energy[0]
    assert not cache.report["intersections"].any()


@pytest.mark.parametrize("thin", ["fin", "rod"])
def test_thin_things_do_not_pass(thin, tmp_path):
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.2, 0.2), cells=(20, 20)),
        placement=weft.Placement(position=(0.0, 0.106, 0.0)),
    )
    colliders = {
        # 3 mm thick, below cloth with edges of 10 mm
        "fin": weft.Collider(name="fin", shape=weft.Box(size=(0.003, 0.2, 0.3))),
        # 8 mm thick, at 0.5 m/s
        "rod": weft.Collider(
            name="rod",
            shape=weft.Capsule(radius=0.004, length=0.3, segments=8, rings=2),
            placement=weft.Placement(rotation_deg=(90.0, 0.0, 0.0), position=(0.0, 0.09, 0.0)),
            motion=weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=1.0, position=(0.0, 0.5, 0.0))]),
        ),
    }
    scene = weft.Scene(name="thin", frames=20, method="guarded", cloths=[sheet], colliders=[colliders[thin]])
    cache = run(scene, tmp_path)
    assert not cache.report["intersections"].any()
    # it still hangs over the thing
    x, top = cache.positions(20)[cache.bodies[0].vertices], cache.positions(20)[cache.bodies[1].vertices, 1].max()
    assert x[:, 1].max() > top


def test_crossings_that_no_step_noticed_are_counted_and_parted(tmp_path):
    """The caller moves cloth through other cloth in the middle of a run."""
    v, faces, rest = scenes.flat(8)
    sheets = [scenes.cloth(tmp_path, name, v + [0, y, 0], faces, rest) for name, y in (("a", 0.0), ("b", 0.03))]
    world, method = compile_scene(scenes.floating(sheets))
    state = world.initial_state()
    method.begin(state)
    method.advance_frame(state)
    x = state.positions()
    x[len(v) + len(v) // 2, 1] -= 0.05
    state.x.assign(x)
    columns = method.columns_after_check(state)
    assert columns["newly_crossing"] == columns["crossing"] > 0
    for _ in range(10):
        columns = method.advance_frame(state)
    assert columns["newly_crossing"] == columns["crossing"] == columns["released"] == 0
