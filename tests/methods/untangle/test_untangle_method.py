"""`untangle`: tangles go away while it simulates, pinched cloth holds still, runs go on from what was saved."""

import numpy as np
import pytest

import weft
from weft.geometry.intersection import intersection_finder
from weft.methods import make_method
from weft.methods.untangle.locking import LARGEST_STRETCH
from weft.runtime import get_threads, set_threads
from weft.scene import Flypaper, Untangle
from weft.world import World

FRAME = 1.0 / 60.0


class Run:
    """A scene in motion."""

    def __init__(self, scene):
        self.world = World(scene)
        self.method = make_method(self.world, scene.method)
        self.state = self.world.initial_state()
        self.cloth = slice(0, self.world.cloth_vertex_count)
        self._finder = intersection_finder(self.world)

    def frames(self, count):
        for _ in range(count):
            yield self.method.advance_frame(self.state)

    @property
    def x(self):
        return self.state.positions()[self.cloth]

    @property
    def intersections(self):
        return len(self._finder.find(self.state.positions()))


def sheet(name, *, size=0.3, cells=12, position=(0.0, 0.0, 0.0), **more):
    return weft.Cloth(
        name=name,
        shape=weft.Grid(size=(size, size), cells=(cells, cells)),
        placement=weft.Placement(position=position, rotation_deg=more.pop("rotation_deg", (0.0, 0.0, 0.0))),
        **more,
    )


def pierced(method="untangle"):
    """A sheet held at its border, and another that stands on its edge and has gone through it; nothing pulls at them."""
    return weft.Scene(
        method=method,
        thickness=0.002,
        forces=weft.Forces(gravity=(0.0, 0.0, 0.0)),
        cloths=[
            sheet("lower", cells=8, size=0.2, pins=[weft.Pin(boundary="all")]),
            sheet("upper", cells=6, size=0.1, position=(0.003, 0.034, 0.002), rotation_deg=(90.0, 3.0, 2.0)),
        ],
    )


def test_a_run_that_starts_tangled_untangles():
    """The edge that has gone through comes back; then both are free, and stay so."""
    run = Run(pierced())
    counts = [run.intersections]
    for row in run.frames(30):
        counts.append(run.intersections)
        assert row["status"] == "ok" and row["stretch"] < 0.2
    assert counts[0] > 10 and counts[-1] == 0
    assert max(counts) <= 1.5 * counts[0]
    assert max(k for k, n in enumerate(counts) if n) < 25


def test_without_attraction_it_stays_tangled():
    run = Run(pierced(Untangle(attract=False)))
    for _ in run.frames(30):
        pass
    assert run.intersections > 0


def test_the_report_tells_of_tangles_pinches_and_the_solver(tmp_path):
    cache = weft.simulate(pierced(), tmp_path / "run.zarr", frames=1, progress=False)
    report = cache.report
    assert report["crossings"][1] > 10 and report["paths"][1] == 1 and report["pinched"][1] == 0
    assert report["iterations"][1] > 0 and report["intersections"][0] > 0


def test_layers_that_fall_on_each_other_keep_apart():
    """Two sheets on a floor: neither goes through the other or the floor."""
    scene = weft.Scene(
        method="untangle",
        thickness=0.004,
        cloths=[
            sheet("lower", cells=8, position=(0.0, 0.01, 0.0)),
            sheet("upper", cells=9, position=(0.02, 0.05, 0.01), rotation_deg=(2.0, 10.0, 1.0)),
        ],
        colliders=[weft.Collider(name="floor", shape=weft.Plane(size=(2.0, 2.0), cells=(3, 3)))],
    )
    run = Run(scene)
    for _ in run.frames(60):
        assert run.intersections == 0
    upper = run.x[81:, 1]
    assert upper.min() > 0.003 and upper.max() < 0.02
    # and they come to rest
    assert np.abs(run.state.velocities()).max() < 1e-3


def squeezed(*, weight=None, pinch=True, top_motion=None):
    """A strip of cloth between two boxes that overlap, its ends hanging out."""
    options = {"pinch": pinch}
    if weight is not None:
        options["flypaper"] = [Flypaper(collider="top", weight=weight), Flypaper(collider="base", weight=1.0 - weight)]
    return weft.Scene(
        method=Untangle(**options),
        thickness=0.002,
        cloths=[sheet("cloth", size=0.3, cells=10, position=(0.0, 0.0, 0.0))],
        colliders=[
            weft.Collider(
                name="base",
                shape=weft.Box(size=(0.15, 0.1, 0.4), cells=(3, 2, 6)),
                placement=weft.Placement(position=(0.0, -0.05, 0.0)),
            ),
            weft.Collider(
                name="top",
                shape=weft.Box(size=(0.15, 0.1, 0.4), cells=(3, 2, 6)),
                placement=weft.Placement(position=(0.0, 0.045, 0.0)),
                motion=top_motion or weft.scene.Still(),
            ),
        ],
    )


def test_what_still_solids_pinch_does_not_move_at_all():
    run = Run(squeezed())
    before = run.x
    for k, row in enumerate(run.frames(20)):
        held = run.method.pinched_vertices
        assert row["pinched"] == len(held) > 20
        moved = np.abs(run.x - before).max(axis=1)
        assert moved[held].max() < 1e-12
        assert k > 10 or moved.max() > 1e-6
        before = run.x


@pytest.mark.parametrize("weight", [0.1, 0.5, 1.0])
def test_pinched_cloth_goes_with_a_solid_by_its_weight(weight):
    way = weft.Path(keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=0.1, position=(0.0, 0.0, 0.05))])
    run = Run(squeezed(weight=weight, top_motion=way))
    start = run.x
    for _ in run.frames(6):
        pass
    held = run.method.pinched_vertices
    assert (run.x - start)[held, 2] == pytest.approx(0.05 * weight, abs=1e-9)


def one_body(folder, grips):
    """The same two boxes as one mesh, whose vertices have these weights: of the base, and of the top, which moves."""
    boxes = [weft.mesh.shapes.box((0.15, 0.1, 0.4), cells=(3, 2, 6)) for _ in range(2)]
    heights = (-0.05, 0.045)
    x = np.concatenate([box.vertices + [0.0, y, 0.0] for box, y in zip(boxes, heights, strict=True)])
    own = np.repeat([0, 1], len(boxes[0].vertices))
    poses = x + 0.05 * np.linspace(0.0, 1.0, 7)[:, None, None] * own[:, None] * [0.0, 0.0, 1.0]
    file = folder / "body.npz"
    np.savez(
        file,
        vertices=x,
        faces=np.concatenate([boxes[0].faces, boxes[1].faces + len(boxes[0].vertices)]),
        poses=poses,
        grip=np.array(grips)[own],
    )
    scene = squeezed()
    motion = weft.Sequence(file=str(file), array="poses", fps=60.0)
    return scene.replace(colliders=[weft.Collider(name="body", mesh=str(file), motion=motion)])


@pytest.mark.parametrize("weight", [0.1, 1.0])
def test_places_on_one_body_have_weights_of_their_own(weight, tmp_path):
    options = Untangle(flypaper=[Flypaper(collider="body", surface="grip")])
    run = Run(one_body(tmp_path, (1.0 - weight, weight)).replace(method=options))
    start = run.x
    for _ in run.frames(6):
        pass
    held = run.method.pinched_vertices
    inner = held[np.abs(start[held, 0]) < 0.04]
    assert len(inner) > 20
    assert (run.x - start)[inner, 2] == pytest.approx(0.05 * weight, abs=1e-9)


@pytest.mark.parametrize(
    ("surface", "message"),
    [
        ("grasp", "the mesh has no vertex attribute 'grasp'; it has grip"),
        ((1.0, 2.0), "there are 2 values, and 'body' has 148 vertices"),
    ],
)
def test_weights_of_places_that_do_not_fit_the_body_are_a_mistake(surface, message, tmp_path):
    scene = one_body(tmp_path, (1.0, 1.0))
    with pytest.raises(weft.WeftError, match=rf"method\.flypaper\[0\]\.surface.*{message}"):
        Run(scene.replace(method=Untangle(flypaper=[Flypaper(collider="body", surface=surface)])))


def test_weights_of_colliders_that_are_not_there_are_a_mistake():
    with pytest.raises(weft.WeftError, match=r"method\.flypaper\[0\]\.collider: no collider is called 'roof'"):
        squeezed().replace(method=Untangle(flypaper=[Flypaper(collider="roof")]))


def test_a_run_goes_on_with_the_same_bytes(tmp_path):
    scene = pierced().replace(
        colliders=[
            weft.Collider(
                name="ball",
                shape=weft.Sphere(radius=0.05, subdivisions=2),
                placement=weft.Placement(position=(0.05, 0.056, 0.0)),
            )
        ]
    )
    straight = weft.simulate(scene, tmp_path / "straight.zarr", frames=8, progress=False)
    weft.simulate(scene, tmp_path / "parts.zarr", frames=3, progress=False)
    parts = weft.simulate(scene, tmp_path / "parts.zarr", frames=8, resume=True, progress=False)
    for frame in range(9):
        assert np.array_equal(straight.positions(frame), parts.positions(frame))
        assert np.array_equal(straight.velocities(frame), parts.velocities(frame))


def test_the_number_of_threads_changes_no_byte():
    before = get_threads()
    ends = []
    try:
        for threads in (1, 3):
            set_threads(threads)
            run = Run(pierced())
            for _ in run.frames(4):
                pass
            ends.append(run.x)
    finally:
        set_threads(before)
    assert np.array_equal(*ends)


def test_cloth_takes_no_notice_of_cloth_before_it_begins():
    run = Run(pierced(Untangle(begin=0.1)))
    rows = list(run.frames(8))
    assert [row["paths"] for row in rows[:6]] == [0] * 6 and rows[6]["paths"] > 0


def test_long_frames_are_divided():
    scene = weft.Scene(method="untangle", fps=25, cloths=[sheet("cloth", cells=2)])
    assert [row["steps"] for row in Run(scene).frames(1)] == [3]


@pytest.mark.parametrize("times", [0, 1, 2])
def test_what_stopping_pulls_out_is_shortened_and_stopped_again(times, monkeypatch):
    """Where collisions are stopped in a step and edges are too long after it, both come again."""
    run = Run(weft.Scene(method="untangle", cloths=[sheet("cloth", cells=4)]))
    method, stops = run.method, []

    def stop(*_):
        """Pull a corner out by half an edge, so many times."""
        stops.append(method.x_end.numpy()[0].copy())
        if len(stops) > times:
            return 0
        x = method.x_end.numpy()
        x[0] += 0.5 * (x[0] - x[1])
        method.x_end.assign(x)
        return 1

    monkeypatch.setattr(method, "_stop", stop)
    row = method.step(run.state, FRAME / method.steps_a_frame())
    assert len(stops) == times + 1 and row.collisions == times
    mesh = run.world.cloths[0].mesh
    lengths = np.linalg.norm(np.diff(run.x[mesh.edges], axis=1)[:, 0], axis=1)
    assert (lengths / mesh.rest_lengths).max() < 1.0 + LARGEST_STRETCH + 1e-4
