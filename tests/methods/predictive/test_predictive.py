"""The method `predictive`: stiffness, layers, tunnelling through cloth, caches, the report, the same bytes."""

import numpy as np
import pytest
import warp as wp
from sewn import gaps, sewn_panels

import weft
from weft.methods import make_method
from weft.runtime import get_threads, set_threads
from weft.scene import Follow, Predictive, Region
from weft.world import World


def go(scene, frames):
    """Positions at the end and the rows of the report."""
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    rows = [method.advance_frame(state) for _ in range(frames)]
    return state.positions()[: world.cloth_vertex_count].copy(), rows


def strip(fps=30, **options):
    """A strip that hangs from its upper edge, soft enough to stretch by a tenth."""
    return weft.Scene(
        fps=fps,
        cloths=[
            weft.Cloth(
                shape=weft.Grid(size=(0.1, 0.4), cells=(2, 8)),
                placement=weft.Placement(rotation_deg=(90, 0, 0)),
                pins=[weft.Pin(boundary="top")],
                material=weft.Material(density=0.5, stretch=12.0, shear=12.0, damping=0.0002),
            )
        ],
        forces=weft.Forces(air_damping=4.0),
        method=Predictive(self_contacts="none", attachments=False, **options),
    )


def length(x):
    return float(np.ptp(x[:, 1]))


def test_stiffness_does_not_depend_on_iterations_or_the_step():
    lengths = [
        length(go(strip(**options, fps=fps), round(4 * fps))[0])
        for fps, options in (
            (30, {"substeps": 20}),
            (30, {"substeps": 20, "iterations": 4}),
            (30, {"substeps": 80}),
            (60, {"substeps": 20}),
            (120, {"substeps": 10, "iterations": 2}),
        )
    ]
    stretched = np.array(lengths) - 0.4
    # it does stretch, and all within a tenth of each other
    assert stretched.min() > 0.02
    assert np.ptp(stretched) < 0.1 * stretched.mean()


def sheets(*heights, **options):
    """Sheets over each other, the first one lowest; held at their corners."""
    return weft.Scene(
        fps=30,
        thickness=0.006,
        cloths=[
            weft.Cloth(
                name=f"layer {k}",
                shape=weft.Grid(size=(0.3, 0.3), cells=(8, 8)),
                placement=weft.Placement(position=(0.0, height, 0.0)),
                pins=[weft.Pin(boundary="corners")],
            )
            for k, height in enumerate(heights)
        ],
        forces=weft.Forces(gravity=(0.0, -1.0, 0.0), air_damping=3.0),
        method=Predictive(**options),
    )


def heights_of(scene, x):
    count = len(x) // len(scene.cloths)
    return [x[k * count : (k + 1) * count, 1] for k in range(len(scene.cloths))]


@pytest.mark.parametrize("cache", [False, True])
def test_layers_that_start_crossed_come_apart_in_order(cache):
    # the upper layer hangs below the lower one in its middle, and is held above it at its corners
    scene = sheets(
        0.0, 0.008, layers=[["layer 0", "layer 1"]], cache=cache, **({"cache_radius": 0.04} if cache else {})
    )
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    x = state.positions().copy()
    upper = slice(81, 162)
    middle = np.abs(x[upper][:, [0, 2]]).max(axis=1) < 0.08
    x[upper, 1] -= np.where(middle, 0.02, 0.0)
    state.x.assign(x)
    assert len(weft.intersections(x, world.cloth_faces)) > 10
    for _ in range(30):
        method.advance_frame(state)
    lower, upper_y = heights_of(scene, state.positions())
    assert (upper_y > lower).all()
    assert len(weft.intersections(state.positions(), world.cloth_faces)) == 0


def test_without_layers_crossed_sheets_are_drawn_apart():
    scene = sheets(0.0, 0.008)
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    x = state.positions().copy()
    middle = np.abs(x[81:162][:, [0, 2]]).max(axis=1) < 0.08
    x[81:162, 1] -= np.where(middle, 0.02, 0.0)
    state.x.assign(x)
    for _ in range(10):
        method.advance_frame(state)
    assert len(weft.intersections(state.positions(), world.cloth_faces)) == 0


@pytest.mark.parametrize("speed", [1.0, 10.0, 60.0])
@pytest.mark.parametrize("kind", ["triangles", "points"])
def test_a_sheet_that_falls_fast_stays_on_its_side_of_another(kind, speed):
    scene = sheets(0.0, self_contacts=kind, substeps=4)
    falling = weft.Cloth(
        name="falling",
        shape=weft.Grid(size=(0.2, 0.2), cells=(6, 6))
        if kind == "triangles"
        else weft.Grid(size=(0.3, 0.3), cells=(8, 8)),
        placement=weft.Placement(position=(0.0, 0.05, 0.0)),
        velocity=(0.0, -speed, 0.0),
    )
    held = scene.cloths[0].replace(pins=[weft.Pin(boundary="all"), weft.Pin(indices=list(range(81)))])
    scene = scene.replace(cloths=[held, falling], forces=weft.Forces(gravity=(0.0, 0.0, 0.0)))
    x, rows = go(scene, 4)
    assert (x[81:, 1] > 0.0).all()
    assert max(row["generated"] for row in rows) > 0


def test_the_report_tells_what_was_generated_and_what_was_cached():
    x, rows = go(sheets(0.0, 0.008, cache=True, cache_radius=0.03), 2)
    assert all(row["cached"] > 0 and row["generated"] == 0 for row in rows)
    assert all(row["contacts"] == row["cached"] for row in rows)
    assert all(0 <= row["pushed"] <= row["contacts"] for row in rows)
    _, rows = go(sheets(0.0, 0.008), 2)
    assert all(row["cached"] == 0 and row["generated"] == row["contacts"] > 0 for row in rows)
    assert {"steps", "contacts", "collisions", "zones", "stretch", "status"} <= set(rows[0])
    assert np.isfinite(x).all()


def test_regions_that_are_not_in_the_table_pass_through_each_other():
    scene = sheets(0.0, 0.05, collide=[["layer 0", "layer 0"]])
    fall = scene.cloths[1].replace(pins=[], velocity=(0.0, -2.0, 0.0))
    x, _ = go(scene.replace(cloths=[scene.cloths[0], fall]), 10)
    assert x[81:, 1].mean() < -0.1
    named = scene.method.replace(regions=[Region(name="left", cloth="layer 0", boundary="left")], collide=None)
    x, _ = go(scene.replace(cloths=[scene.cloths[0], fall], method=named), 10)
    assert x[81:, 1].mean() > -0.1


def test_cloth_follows_an_animation_within_its_reach():
    scene = strip(follow=[Follow(cloth="cloth", motion=weft.Spin(axis=(0, 1, 0), rate_deg=90.0), reach=0.02)])
    cloth = scene.cloths[0].replace(name="cloth", pins=[])
    x, _ = go(scene.replace(cloths=[cloth]), 30)
    world = World(scene.replace(cloths=[cloth]))
    goal = weft.Spin(axis=(0, 1, 0), rate_deg=90.0).resolve(placement=cloth.placement)
    assert np.linalg.norm(x - goal.positions(world.rest_positions, 1.0), axis=1).max() < 0.021


@pytest.mark.parametrize("kind", ["spring", "weld"])
def test_seams_hold(kind):
    grid = weft.Grid(size=(0.2, 0.2), cells=(5, 5))
    # vertices of the right cloth, and last a point in the middle of an edge, which pulls against its neighbour
    vertices, weights = [(6 * j + 5, 6 * j, 6 * j) for j in range(5)] + [(35, 24, 30)], [0.0] * 5 + [0.5]
    scene = weft.Scene(
        fps=30,
        cloths=[
            weft.Cloth(name="left", shape=grid, pins=[weft.Pin(boundary="left")]),
            weft.Cloth(name="right", shape=grid, placement=weft.Placement(position=(0.205, 0, 0))),
        ],
        seams=[weft.Seam(cloth="left", to="right", vertices=vertices, weights=weights, kind=kind)],
        method=Predictive(self_contacts="none", substeps=20),
    )
    x, _ = go(scene, 30)
    gaps = np.linalg.norm(x[[6 * j + 5 for j in range(5)]] - x[[36 + 6 * j for j in range(5)]], axis=1)
    assert gaps.max() < 0.006
    assert np.linalg.norm(x[35] - (x[36 + 24] + x[36 + 30]) / 2) < 0.006
    assert x[:, 1].min() > -0.5


def crowd(monkeypatch, shared, threads, **options):
    """A run with everything in it, whose steps threads share or not."""
    before = get_threads()
    set_threads(threads)
    try:
        with monkeypatch.context() as patch:
            patch.setattr("weft.methods.predictive.plan.SHARED_FROM", 0 if shared else 10**9)
            scene = sheets(0.0, 0.01, 0.02, layers=[["layer 0", "layer 1"]], **options)
            ball = weft.Collider(
                shape=weft.Sphere(radius=0.08),
                analytic=True,
                placement=weft.Placement(position=(0.0, -0.1, 0.0)),
                motion=weft.Path(keyframes=[weft.Keyframe(time=0), weft.Keyframe(time=0.3, position=(0.02, 0.1, 0.0))]),
            )
            return go(scene.replace(colliders=[ball]), 8)[0].tobytes()
    finally:
        set_threads(before)


@pytest.mark.parametrize("iterations", [1, 3])
def test_the_same_bytes_on_every_run_and_with_any_number_of_threads(iterations, monkeypatch):
    first = crowd(monkeypatch, False, 1, iterations=iterations)
    assert crowd(monkeypatch, False, 1, iterations=iterations) == first
    assert all(crowd(monkeypatch, True, threads, iterations=iterations) == first for threads in (1, 2, 3))


def test_a_run_that_stops_goes_on_with_the_same_bytes():
    scene = sheets(0.0, 0.01)
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    for _ in range(3):
        method.advance_frame(state)
    again, other = make_method(World(scene), scene.method), World(scene).initial_state()
    wp.copy(other.x, state.x)
    wp.copy(other.v, state.v)
    other.time, other.frame = state.time, state.frame
    again.restore(method.saved())
    for _ in range(3):
        method.advance_frame(state)
        again.advance_frame(other)
    assert other.positions().tobytes() == state.positions().tobytes()


def test_hinges_bend_alike_however_many_substeps_leave_them_out():
    droops = []
    for substeps in (6, 8, 16, 25):
        scene = weft.Scene(
            fps=30,
            cloths=[
                weft.Cloth(
                    shape=weft.Grid(size=(0.2, 0.1), cells=(8, 4)),
                    pins=[weft.Pin(box=((-0.11, -1, -1), (-0.07, 1, 1)))],
                    material=weft.Material(preset="denim"),
                )
            ],
            forces=weft.Forces(air_damping=5.0),
            method=Predictive(substeps=substeps, self_contacts="none"),
        )
        droops.append(go(scene, 60)[0][:, 1].min())
    assert max(droops) < -0.01
    np.testing.assert_allclose(droops, droops[0], rtol=0.1)


def test_contacts_do_not_open_a_seam():
    """Two panels that hang side by side and are sewn together: what is sewn is nearer than the thickness, and may be."""
    scene = weft.Scene(**sewn_panels(), thickness=0.004, method="predictive")
    x, _ = go(scene, 60)
    open_by = gaps(x)
    pinned = np.isclose(open_by, 0.006)
    assert pinned.sum() == 1 and open_by[~pinned].max() < 5e-4
