"""`boxes`: no intersections in any frame, whatever the search; runs, friction, pins, resuming."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.bench.boxes import ground_scene, table_scene
from weft.errors import SceneError
from weft.geometry.intersection import intersection_finder, intersections
from weft.methods import make_method
from weft.scene import Boxes
from weft.world import World


def compiled(scene, device="cpu"):
    world = World(scene, device)
    return world, make_method(world, scene.method), world.initial_state()


def frames_of(scene, frames, device="cpu"):
    """Positions and report rows, frame by frame."""
    world, method, state = compiled(scene, device)
    for _ in range(frames):
        row = method.advance_frame(state)
        yield world, state.positions(), row


def own_intersections(world, x):
    """Of the cloth with itself and with colliders, by the independent check."""
    bodies = np.repeat(np.arange(len(world.bodies)), [b.faces.stop - b.faces.start for b in world.bodies])
    cloth = np.array([b.kind == "cloth" for b in world.bodies])
    return len(intersections(x, world.faces, face_body=bodies, body_pairs=cloth[:, None] | cloth[None, :]))


@pytest.mark.parametrize("scene", [table_scene(9), ground_scene(9)], ids=["table", "ground"])
def test_no_frame_has_intersections(scene):
    runs = []
    for world, x, row in frames_of(scene, 50):
        assert own_intersections(world, x) == 0
        assert row["status"] == "ok"
        runs.append(row["most_runs"])
    assert 2 <= max(runs) <= 12
    # it lies on what it fell on, and did not stop in the air
    height = x[: world.cloth_vertex_count, 1]
    assert height.min() > 0.0
    assert row["contacts"] > 0


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("points", [21, 51])
@pytest.mark.parametrize("make", [table_scene, ground_scene])
def test_the_four_runs_of_the_paper_have_no_intersections(make, points):
    worst = []
    for world, x, row in frames_of(make(points), 100):
        assert own_intersections(world, x) == 0
        worst.append(row["most_runs"])
    assert max(worst) <= 12


def test_every_search_gives_the_same_bytes():
    ends = []
    for search in ("material_tree", "topology_tree", "bvh", "brute"):
        *_, (_, x, row) = frames_of(ground_scene(7, search=search), 22)
        ends.append((x.tobytes(), row))
    assert all(end == ends[0] for end in ends)


def test_holding_triangles_instead_of_boxes_is_clean_too():
    for world, x, _ in frames_of(ground_scene(7, avoid="triangles"), 40):
        assert own_intersections(world, x) == 0


def sheets(**options):
    """A sheet that falls flat on another one, which lies on the floor at an angle."""
    return weft.Scene(
        fps=50,
        method=Boxes(steps=5, **options),
        cloths=[
            weft.Cloth(
                name="low", shape=weft.Grid(size=(0.5, 0.5), cells=(6, 6)), placement={"position": (0, 0.01, 0)}
            ),
            weft.Cloth(
                name="high",
                shape=weft.Grid(size=(0.5, 0.5), cells=(6, 6)),
                placement={"position": (0.03, 0.06, 0.02), "rotation_deg": (0, 20, 0)},
            ),
        ],
        colliders=[weft.Collider(name="floor", shape=weft.Plane(size=(4.0, 4.0)))],
    )


def test_cloths_pile_up_on_the_floor():
    for world, x, row in frames_of(sheets(), 20):
        assert own_intersections(world, x) == 0
        assert row["status"] == "ok"
    low, high = (x[b.vertices, 1] for b in world.bodies[:2])
    # one thickness above the floor, and the other above it
    assert low.min() == pytest.approx(0.001, rel=1e-3)
    assert high.mean() == pytest.approx(low.mean() + 0.001, abs=5e-4)


def over_a_ball():
    """A sheet of 40 x 40 vertices just above a ball."""
    return weft.Scene(
        fps=50,
        method=Boxes(steps=5),
        cloths=[
            weft.Cloth(
                shape=weft.Grid(size=(0.6, 0.6), cells=(39, 39)),
                placement={"position": (0.01, 0.204, 0.02), "rotation_deg": (0, 15, 0)},
            )
        ],
        colliders=[weft.Collider(name="ball", shape=weft.Sphere(radius=0.2, subdivisions=3), friction=0.3)],
    )


@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
def test_a_sheet_over_a_ball_on_a_card_is_that_of_the_cpu():
    both = [frames_of(over_a_ball(), 6, device) for device in ("cpu", "cuda:0")]
    for (_, x, row), (_, y, other) in zip(*both, strict=True):
        assert [other[key] for key in ("contacts", "runs", "held")] == [
            row[key] for key in ("contacts", "runs", "held")
        ]
        assert np.abs(x - y).max() < 1e-9
    assert row["contacts"] > 0


def slope(mu, angle_deg=20.0):
    """A sheet on the floor with gravity at an angle: friction against sliding."""
    angle = np.radians(angle_deg)
    gravity = (9.81 * np.sin(angle), -9.81 * np.cos(angle), 0.0)
    return weft.Scene(
        fps=50,
        method=Boxes(steps=5),
        forces=weft.Forces(gravity=gravity),
        cloths=[
            weft.Cloth(
                shape=weft.Grid(size=(0.4, 0.4), cells=(4, 4)),
                placement={"position": (0, 0.001, 0)},
                material=weft.Material(friction=mu),
            )
        ],
        colliders=[weft.Collider(name="floor", shape=weft.Plane(size=(9.0, 9.0)), friction=mu)],
    )


def test_friction_holds_on_a_slope_and_lets_go_when_it_is_too_steep():
    steep = np.tan(np.radians(20.0))
    *_, (world, x, _) = frames_of(slope(1.1 * steep), 25)
    start = world.rest_positions
    assert np.abs(x - start)[:25, 0].max() < 2e-3
    *_, (_, x, _) = frames_of(slope(0.5 * steep), 25)
    slid = (x - start)[:25, 0]
    pull = 9.81 * (np.sin(np.radians(20.0)) - 0.5 * steep * np.cos(np.radians(20.0)))
    assert slid == pytest.approx(0.5 * pull * 0.5**2, rel=0.06)


def test_a_floor_that_moves_carries_the_cloth_along():
    path = {
        "kind": "path",
        "keyframes": [{"time": 0.0, "position": (0, 0, 0)}, {"time": 1.0, "position": (0.3, 0.1, 0)}],
    }
    rough = slope(1.0, 0.0)
    moving = rough.replace(colliders=[rough.colliders[0].replace(motion=path)])
    *_, (world, x, row) = frames_of(moving, 25)
    travelled = (x - world.rest_positions)[:25]
    assert travelled[:, 1] == pytest.approx(0.05, abs=1e-3)
    # it slips a little until friction has set it in motion
    assert travelled[:, 0] == pytest.approx(0.15, abs=0.03)
    assert row["status"] == "ok"


def test_pins_hold_and_cloth_hangs():
    scene = weft.Scene(
        fps=50,
        method=Boxes(steps=5),
        cloths=[weft.Cloth(shape=weft.Grid(size=(0.5, 0.5), cells=(8, 8)), pins=[weft.Pin(boundary="top")])],
    )
    lowest = 0.0
    for world, x, row in frames_of(scene, 30):  # noqa: B007
        lowest = min(lowest, x[:, 1].min())
        assert row["stretch"] < 0.1
    held = np.arange(9)
    assert x[held] == pytest.approx(world.rest_positions[held])
    # it swung through, nearly as long as it is: its end lags behind
    assert lowest == pytest.approx(-0.5, abs=0.06)


def test_a_resumed_run_gives_the_same_bytes(tmp_path):
    scene = sheets().replace(frames=12)
    whole = weft.simulate(scene, tmp_path / "whole.zarr", progress=False)
    weft.simulate(scene, tmp_path / "parts.zarr", progress=False, frames=7)
    parts = weft.simulate(scene, tmp_path / "parts.zarr", progress=False, resume=True)
    for frame in (8, 12):
        assert whole.positions(frame).tobytes() == parts.positions(frame).tobytes()


def test_other_meshes_and_seams_are_refused():
    ball = weft.Cloth(name="ball", shape=weft.Sphere(subdivisions=1))
    with pytest.raises(SceneError, match="grid"):
        compiled(weft.Scene(method="boxes", cloths=[ball]))
    grids = [weft.Cloth(name=name, shape=weft.Grid(cells=(2, 2))) for name in ("a", "b")]
    seam = weft.Seam(cloth="a", to="b", vertices=[(0, 0, 1)])
    with pytest.raises(SceneError, match="seams"):
        compiled(weft.Scene(method="boxes", cloths=grids, seams=[seam]))


@pytest.mark.parametrize("tilt_deg", [35.0, 60.0])
def test_cloth_touches_a_slope_at_the_thickness_and_slides_as_theory_says(tilt_deg):
    tilt, mu = np.radians(tilt_deg), 0.5
    normal, down = np.array([np.sin(tilt), np.cos(tilt), 0.0]), np.array([np.cos(tilt), -np.sin(tilt), 0.0])
    turned = {"rotation_deg": (0, 0, -tilt_deg)}
    sheet = weft.Cloth(
        shape=weft.Grid(size=(0.4, 0.4), cells=(8, 8)),
        placement={"position": tuple(0.001 * normal), **turned},
        material=weft.Material(friction=mu),
    )
    floor = weft.Collider(shape=weft.Plane(size=(9.0, 9.0)), placement=turned, friction=mu)
    scene = weft.Scene(fps=50, thickness=1e-3, method="boxes", cloths=[sheet], colliders=[floor])
    *_, (world, x, row) = frames_of(scene, 20)
    count = world.cloth_vertex_count
    slid = (x - world.rest_positions)[:count] @ down
    acceleration = 9.81 * (np.sin(tilt) - mu * np.cos(tilt))
    steps = 200
    # a step moves with the velocity at its end
    assert slid == pytest.approx(0.5 * acceleration * 0.4**2 * (1.0 + 1.0 / steps), rel=2e-3)
    assert x[:count] @ normal == pytest.approx(1e-3, rel=1e-3) and row["status"] == "ok"


def test_no_plate_of_a_press_comes_through_and_one_that_leaves_no_room_says_so():
    sheet = weft.Cloth(
        shape=weft.Grid(size=(0.4, 0.4), cells=(10, 10)),
        placement={"position": (0, 0.06, 0), "rotation_deg": (90, 0, 0)},
    )
    lower = weft.Collider(name="lower", shape=weft.Box(size=(1, 0.1, 1)), placement={"position": (0, -0.25, 0)})

    def pressed(way):
        keys = [weft.Keyframe(time=0), weft.Keyframe(time=0.5, position=(0, -way, 0))]
        upper = lower.replace(name="upper", placement={"position": (0, 0.42, 0)}, motion=weft.Path(keyframes=keys))
        return weft.Scene(fps=50, method="boxes", cloths=[sheet], colliders=[lower, upper])

    for world, x, row in frames_of(pressed(0.49), 30):
        found = intersection_finder(world).find(x)
        edges_of, face_of = world.surface.vertex_body.numpy()[found[:, 0]], world.surface.face_body.numpy()[found[:, 2]]
        # the cloth may be crushed, which its status tells, but no plate comes through it
        assert ((edges_of == 0) & (face_of == 0)).all() and (len(found) == 0 or row["status"] != "ok")
    assert any("press cloth together" in row["status"] for _, _, row in frames_of(pressed(0.57), 30))
