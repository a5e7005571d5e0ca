"""The step of a card, whose launches a CPU can do too: the same bytes as the long way."""

import numpy as np
import pytest
import warp as wp
from cuda_order import method_of

import weft
from weft.mesh import TriMesh, save_mesh, shapes
from weft.methods import make_method
from weft.methods.predictive.plan import ExecutionPlan
from weft.runtime.cooperative import CLUSTER_BLOCKS
from weft.world import World


def scene(cells=19, height=0.4, mesh=None, **ball):
    form = {"shape": weft.Grid(size=(1.0, 1.0), cells=(cells, cells))} if mesh is None else {"mesh": str(mesh)}
    cloth = weft.Cloth(name="cloth", placement={"position": (0, height, 0)}, **form)
    turning = {"motion": weft.Spin(axis=(0.0, 1.0, 0.0), rate_deg=400.0)}
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.25), **(turning | ball))
    floor = weft.Collider(name="floor", shape=weft.Plane(size=(3.0, 3.0)), placement={"position": (0.0, -0.25, 0.0)})
    return weft.Scene(name="card", cloths=[cloth], colliders=[ball, floor], fps=30, method="predictive")


def steps(count, *, captured, monkeypatch):
    """Frames on the CPU by the kernels of CUDA; positions and reports, and how many steps were one graph."""
    world = World(scene(), "cpu")
    method, state = method_of(world, blocks=CLUSTER_BLOCKS, captured=captured), world.initial_state()
    done = []
    if captured:
        advance = method.solver.graph.advance
        monkeypatch.setattr(
            method.solver.graph, "advance", lambda *given, **how: done.append(advance(*given, **how)) or done[-1]
        )
    found = []
    for _ in range(count):
        report = method.advance_frame(state)
        found.append(
            (state.positions(), state.v.numpy().copy(), *(report[name] for name in ("contacts", "generated", "pushed")))
        )
    return found, done


def test_a_step_in_one_go_is_the_step_the_long_way(monkeypatch):
    expected, _ = steps(24, captured=False, monkeypatch=monkeypatch)
    found, done = steps(24, captured=True, monkeypatch=monkeypatch)
    for (x, v, *numbers), (same_x, same_v, *same) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, same_x)
        np.testing.assert_array_equal(v, same_v)
        assert numbers == same
    # where lists grow there is no room at first, and where cloth falls far steps are in parts
    assert done.count(0) > 6 and 1 in done and max(done) > 1
    assert max(numbers[0] for _, _, *numbers in expected) > 400


@pytest.mark.parametrize(
    "change", [{"predict": False}, {"self_contacts": "points"}, {"most_substeps": 60}, {"cache": True}]
)
def test_steps_that_are_others_are_no_graph(change):
    world = World(scene().replace(method={"name": "predictive", **change}), "cpu")
    assert not ExecutionPlan.make(world, world.scene.method, blocks=4).captured
    assert ExecutionPlan.make(world, scene().method, blocks=4).captured


@pytest.mark.parametrize(
    "options", [{"cache": True, "cache_radius": 0.02}, {"self_contacts": "points"}, {"predict": False}]
)
def test_cuda_goes_where_the_cpu_goes(options):
    found = []
    for blocks in (0, 4):
        still = scene(height=0.26, analytic=True, motion=weft.Spin(rate_deg=0.0))
        world = World(still.replace(method={"name": "predictive", **options}), "cpu")
        method, state = method_of(world, blocks=blocks), world.initial_state()
        # later the two are as far apart as any two orders of the contacts of cloth that collapses
        for _ in range(16):
            report = method.advance_frame(state)
        y = state.positions()[: world.cloth_vertex_count, 1]
        found.append((np.quantile(y, [0.0, 0.1, 0.5, 0.9, 1.0]), report))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=0.035)
    assert found[0][1]["with_colliders"] > 50


def test_half_spaces_get_room_where_they_need_it(monkeypatch):
    found = []
    for room in (2**22, 1):
        monkeypatch.setattr("weft.methods.predictive.half_spaces.MOST_ROOM", room)
        for blocks in (0, 4):
            world = World(scene(height=0.05, motion=weft.Spin(rate_deg=0.0)), "cpu")
            method, state = method_of(world, blocks=blocks), world.initial_state()
            assert method.solver.halves.arrays.room == (1 if room == 1 else 2)
            # within reach of the floor and of the ball, both
            method.solver.settings["radius"][0] = 0.6
            report = method.advance_frame(state)
            found.append((state.positions(), report["with_colliders"]))
            assert report["with_colliders"] > world.cloth_vertex_count and method.solver.halves.arrays.room == 2
    for (x, count), (y, same) in zip(found[:2], found[2:], strict=True):
        np.testing.assert_array_equal(x, y)
        assert count == same


def shuffled(path, cells):
    """A file of a sheet whose vertices are numbered at random."""
    grid = shapes.grid((1.0, 1.0), (cells, cells))
    place = np.random.default_rng(4).permutation(len(grid.vertices))
    vertices = np.empty_like(grid.vertices)
    vertices[place] = grid.vertices
    save_mesh(TriMesh(vertices, place[grid.faces]), path)
    return path


# those of a cluster; more than one has room for; rows that stay where they are
@pytest.mark.parametrize(
    ("cells", "blocks", "numbered"), [(69, CLUSTER_BLOCKS, True), (110, 20, True), (69, CLUSTER_BLOCKS, False)]
)
@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
def test_large_cloth_is_solved_as_the_cpu_would_in_that_order(cells, blocks, numbered, tmp_path):
    found, contacts = [], []
    mesh = None if numbered else shuffled(tmp_path / "sheet.obj", cells)
    for device in ("cuda:0", "cuda:0", "cpu"):
        # which triangle of a mesh is the nearest is found in single precision, not the same everywhere
        world = World(scene(cells, height=0.252, mesh=mesh, analytic=True), device)
        method = method_of(world, blocks=blocks)
        state = world.initial_state()
        assert method.solver.plan.blocks == blocks
        # later the cloth buckles where it is compressed, which makes 1e-15 m a millimetre within a frame
        contacts.append([method.advance_frame(state)["contacts"] for _ in range(3)])
        found.append(state.positions())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], rtol=0.0, atol=1e-8)
    assert contacts[0] == contacts[2] and contacts[0][-1] > 400


@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
def test_cloth_that_collapses_gives_the_same_bytes_again():
    # blocks have more contacts that are near than threads
    found = []
    for _ in range(2):
        world = World(scene(99, height=0.26, analytic=True), "cuda:0")
        method, state = make_method(world, world.scene.method), world.initial_state()
        contacts = [method.advance_frame(state)["contacts"] for _ in range(24)]
        found.append((state.positions(), contacts))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1] and max(found[0][1]) > 30_000


@pytest.mark.parametrize("numbered", [True, False])
def test_cloth_hangs_by_the_kernel_of_the_gpu_as_by_that_of_the_cpu(numbered, tmp_path):
    mesh = None if numbered else shuffled(tmp_path / "sheet.obj", 29)
    depths = []
    for blocks in (0, 4):
        world = World(scene(29, height=0.26, mesh=mesh, analytic=True, motion=weft.Spin(rate_deg=0.0)), "cpu")
        method, state = method_of(world, blocks=blocks), world.initial_state()
        for _ in range(45):
            method.advance_frame(state)
        y = np.sort(state.positions()[: world.cloth_vertex_count, 1])
        # which corner hangs lowest after the collapse of a symmetrical sheet is chance
        depths.append((y[len(y) // 20], y.mean(), y[-1]))
    np.testing.assert_allclose(depths[0], depths[1], atol=0.01)
    assert depths[0][0] < -0.1 < 0.24 < depths[0][2]


@pytest.mark.parametrize("numbered", [True, False])
def test_springs_and_bending_have_the_same_order_in_both_kernels(numbered, tmp_path):
    mesh = None if numbered else shuffled(tmp_path / "sheet.obj", 29)
    found = []
    for blocks in (0, CLUSTER_BLOCKS):
        world = World(scene(29, height=2.0, mesh=mesh), "cpu")
        method, state = method_of(world, blocks=blocks), world.initial_state()
        x = state.positions()
        x[: world.cloth_vertex_count] += np.random.default_rng(1).normal(scale=1e-3, size=(world.cloth_vertex_count, 3))
        state.x.assign(x)
        for _ in range(2):
            method.step(state, 1.0 / 60.0)
        found.append((state.positions()[: world.cloth_vertex_count], state.v.numpy()[: world.cloth_vertex_count]))
    np.testing.assert_allclose(found[1][0], found[0][0], atol=1e-12)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=1e-9)
    assert found[0][1].std() > 0.01
