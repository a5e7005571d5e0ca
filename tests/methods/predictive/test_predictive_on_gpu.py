"""The step of a card, whose launches a CPU can do too: the same bytes as the long way."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.contact.stencil_colours import StencilColouring
from weft.mesh import TriMesh, save_mesh, shapes
from weft.methods import make_method
from weft.methods.predictive.cuda_graph_step import OnCard
from weft.methods.predictive.fabric import Fabric
from weft.methods.predictive.search_ahead import SearchAhead
from weft.runtime.cooperative import CLUSTER_BLOCKS
from weft.world import World


def scene(cells=19, height=0.4, mesh=None, **ball):
    form = {"shape": weft.Grid(size=(1.0, 1.0), cells=(cells, cells))} if mesh is None else {"mesh": str(mesh)}
    cloth = weft.Cloth(name="cloth", placement={"position": (0, height, 0)}, **form)
    turning = {"motion": weft.Spin(axis=(0.0, 1.0, 0.0), rate_deg=400.0)}
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.25), **(turning | ball))
    floor = weft.Collider(name="floor", shape=weft.Plane(size=(3.0, 3.0)), placement={"position": (0.0, -0.25, 0.0)})
    return weft.Scene(name="card", cloths=[cloth], colliders=[ball, floor], fps=30, method="predictive")


def imitate_card(solver, blocks=CLUSTER_BLOCKS):
    """Let the CPU go the way of a card with large cloth."""
    solver.serial, solver.blocks = False, blocks
    solver.fabric = Fabric(solver.world, blocks=blocks)
    solver.search.quick = None


def step_as_a_card_does(solver):
    """Let it do a step in one go."""
    halves, search = solver.halves, solver.search
    halves.has_room = True
    halves.places.assign(np.arange(solver.count, dtype=np.int32) * solver.colliders.count)
    halves.arrays = [buffer.at_least(solver.count * solver.colliders.count) for buffer in halves._buffers]
    solver.on_gpu = OnCard(solver, SearchAhead(search.broad_phase, search.sheet, search.friction))


def steps(count, *, card, monkeypatch):
    """Frames on the CPU with the threads of a card's kernel; positions and reports, and how many steps were done in one go."""
    world = World(scene(), "cpu")
    method, state = make_method(world, world.scene.method), world.initial_state()
    solver = method.solver
    imitate_card(solver)
    done = []
    if card:
        step_as_a_card_does(solver)
        advance = solver.on_gpu.advance
        monkeypatch.setattr(
            solver.on_gpu, "advance", lambda *given, **how: done.append(advance(*given, **how)) or done[-1]
        )
    found = []
    for _ in range(count):
        report = method.advance_frame(state)
        found.append(
            (state.positions(), state.v.numpy().copy(), *(report[name] for name in ("contacts", "generated", "pushed")))
        )
    return found, done


def test_a_step_in_one_go_is_the_step_the_long_way(monkeypatch):
    expected, _ = steps(24, card=False, monkeypatch=monkeypatch)
    found, done = steps(24, card=True, monkeypatch=monkeypatch)
    for (x, v, *numbers), (same_x, same_v, *same) in zip(found, expected, strict=True):
        np.testing.assert_array_equal(x, same_x)
        np.testing.assert_array_equal(v, same_v)
        assert numbers == same
    # where lists grow there is no room at first, and where cloth falls far steps are in parts
    assert done.count(0) > 6 and 1 in done and max(done) > 1
    assert max(numbers[0] for _, _, *numbers in expected) > 400


@pytest.mark.parametrize("change", [{"predict": False}, {"self_contacts": "points"}, {"most_substeps": 60}])
def test_steps_that_are_others_go_the_long_way(change):
    world = World(scene().replace(method={"name": "predictive", **change}), "cpu")
    assert make_method(world, world.scene.method).solver.on_gpu is None


def test_small_cloth_is_solved_in_the_order_of_the_cpu():
    found = []
    for on_gpu in (False, True):
        world = World(scene(), "cpu")
        method, state = make_method(world, world.scene.method), world.initial_state()
        if on_gpu:
            method.solver.serial = False
            method.solver.search.in_turn = True
        contacts = [method.advance_frame(state)["contacts"] for _ in range(20)]
        found.append((state.positions(), contacts))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=0.0, atol=1e-9)
    assert found[0][1] == found[1][1] and max(found[0][1]) > 400


def test_ranks_keep_the_order_of_the_list():
    rng = np.random.default_rng(2)
    count, vertices = 400, 300
    q = np.array([rng.choice(vertices, 4, replace=False) for _ in range(count)], np.int32)
    masses = rng.choice([0.0, 1.0], vertices, p=[0.2, 0.8])
    colouring = StencilColouring(vertices, wp.array(masses, dtype=wp.float64, device="cpu"))
    colouring.rank(wp.array(q, dtype=wp.vec4i, device="cpu"), count)
    order, offsets = colouring.order.numpy()[:count], colouring.offsets.numpy()
    place = np.empty(count, int)
    place[order] = np.searchsorted(offsets, np.arange(count), side="right")
    for i in range(count):
        for j in range(i):
            if any(masses[v] > 0.0 for v in set(q[i]) & set(q[j])):
                assert place[j] < place[i]
    # those that nobody waits for come as early as they can
    assert 5 < len(set(place)) < 60


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
        method, state = make_method(world, world.scene.method), world.initial_state()
        if device == "cpu":
            imitate_card(method.solver, blocks)
        assert method.solver.blocks == blocks
        contacts.append([method.advance_frame(state)["contacts"] for _ in range(6)])
        found.append(state.positions())
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], found[2], rtol=0.0, atol=1e-9)
    assert contacts[0] == contacts[2] and contacts[0][-1] > 800


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
    assert found[0][1] == found[1][1] and max(found[0][1]) > 40_000


@pytest.mark.parametrize("numbered", [True, False])
def test_cloth_in_parts_hangs_as_other_cloth_does(numbered, tmp_path):
    mesh = None if numbered else shuffled(tmp_path / "sheet.obj", 29)
    depths = []
    for blocks in (0, 4):
        world = World(scene(29, height=0.26, mesh=mesh, analytic=True, motion=weft.Spin(rate_deg=0.0)), "cpu")
        method, state = make_method(world, world.scene.method), world.initial_state()
        if blocks:
            imitate_card(method.solver, blocks)
        for _ in range(45):
            method.advance_frame(state)
        y = np.sort(state.positions()[: world.cloth_vertex_count, 1])
        depths.append((y[0], y.mean(), y[-1]))
    np.testing.assert_allclose(depths[0], depths[1], atol=0.01)
    assert depths[0][0] < -0.1 < 0.24 < depths[0][2]


@pytest.mark.parametrize(("stretch", "bend"), [(1.0, 1e-9), (1e-9, 1.0)])
@pytest.mark.parametrize("numbered", [True, False])
def test_cloth_in_parts_is_pulled_by_all_springs_and_hinges(numbered, stretch, bend, tmp_path):
    mesh = None if numbered else shuffled(tmp_path / "sheet.obj", 29)
    pulls = []
    # these parts are so small that some constraints reach farther
    for blocks in (0, CLUSTER_BLOCKS):
        still = {"gravity": (0.0, 0.0, 0.0), "air_damping": 0.0}
        world = World(scene(29, height=2.0, mesh=mesh).replace(forces=still), "cpu")
        method, state = make_method(world, world.scene.method), world.initial_state()
        if blocks:
            imitate_card(method.solver, blocks)
            assert all(len(stages.far) for stages in method.solver.fabric.stages)
        method.solver.fabric.scale(stretch, bend)
        x = state.positions()
        x[: world.cloth_vertex_count] += np.random.default_rng(1).normal(scale=1e-5, size=(world.cloth_vertex_count, 3))
        state.x.assign(x)
        # so short that the order of springs does not matter
        method.step(state, 1e-6)
        pulls.append(state.v.numpy()[: world.cloth_vertex_count])
    scale = np.abs(pulls[0]).max()
    np.testing.assert_allclose(pulls[1], pulls[0], atol=1e-3 * scale)
    assert scale > 0.0
