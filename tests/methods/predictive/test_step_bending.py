"""Bending in the substeps: the solve against that of the whole system, shared by threads; cloth bends alike on any mesh."""

import numpy as np
import pytest
import warp as wp
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import spsolve
from structs import struct_of

import weft
from weft.dynamics.position_based.sparse_rows import SparseRows
from weft.methods import make_method
from weft.methods.predictive.bending import INTERVAL, BendingArrays, StepBending, find_lacks, lack_of, solve_bending
from weft.methods.predictive.state import Pace, Settings, VertexArrays
from weft.runtime import launch
from weft.runtime.cooperative import CooperativeLauncher
from weft.scene import Predictive
from weft.validate.elasticity import cantilever, edge_tilt
from weft.world import World

wp.set_module_options({"enable_backward": False})

DT, SUBSTEPS = 1.0 / 30.0, 24


@wp.kernel
def solve_once(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    settings: wp.array[Settings],
    pace: Pace,
    vertices: VertexArrays,
    bending: BendingArrays,
):
    t = first + wp.tid()
    solve_bending(t, threads, arrivals, settings[0], pace, vertices, bending)


def strip_world(method="predictive", **more):
    cloth = weft.Cloth(
        shape=weft.Grid(size=(0.1, 0.06), cells=(20, 12)),
        material=weft.Material(bend=2e-5, damping=0.002),
        pins=[weft.Pin(boundary="left")],
        **more,
    )
    return World(weft.Scene(fps=30, cloths=[cloth], method=method))


def solve(world, threads=1, factor=1.0):
    """The change of velocity of a solve from a waved sheet that moves, and the right one."""
    rng = np.random.default_rng(0)
    world.begin_step(world.initial_state(), DT)
    bending = StepBending(world)
    bending.scale(factor)
    bending.plan(DT, SUBSTEPS)
    h, count = DT / SUBSTEPS, world.cloth_vertex_count
    interval = int(bending.arrays.intervals.numpy()[0])
    dt = interval * h
    assert bending.arrays.plans.numpy()[0]["dt"] == pytest.approx(dt)
    x = world.initial_state().positions()[:count] + 0.003 * rng.normal(size=(count, 3))
    inverse = world.inverse_mass.numpy()[:count]
    free = inverse > 0.0
    v = np.where(free[:, None], rng.normal(size=(count, 3)), 0.0)
    force = 1e-4 * rng.normal(size=(count, 3))
    gravity = np.array([0.0, -9.81, 0.0])
    arrays = {"p": np.hstack([x, inverse[:, None]]), "before": np.hstack([x - h * v, inverse[:, None]])}
    pull = wp.zeros(count, dtype=wp.vec3d, device="cpu")
    vertices = struct_of(VertexArrays, x=x, target=x, force=force, pull=pull, **arrays)
    settings = struct_of(Settings, gravity=wp.vec3d(*gravity), vertices=count)
    pace = struct_of(Pace, h=h, per_h=1.0 / h, share=1.0 / SUBSTEPS)
    inputs = (wp.array([settings], dtype=Settings, device="cpu"), pace, vertices, bending.arrays)
    CooperativeLauncher("cpu").launch(solve_once, count, inputs, threads=threads)
    found = dt * inverse[:, None] * (pull.numpy() - force)

    def matrix_of(rows):
        values, columns, begins, ends = (a.numpy() for a in (rows.values, rows.columns, rows.begins, rows.ends))
        places = [np.arange(begin, end, rows.step) for begin, end in zip(begins, ends, strict=True)]
        row, entries = np.repeat(np.arange(count), [len(k) for k in places]), np.concatenate(places)
        return csr_array((values[entries], (row, columns[entries])), shape=(count, count))

    k, iterated = matrix_of(bending.arrays.matrix), matrix_of(bending.arrays.iterated)
    delay = bending.arrays.delay.numpy()
    ahead = x + (dt + delay)[:, None] * (v + free[:, None] * dt * (gravity + inverse[:, None] * force))
    own = iterated[free][:, free]
    system = diags_array(1.0 / inverse[free]) + dt * diags_array(dt + delay[free]) @ own
    right = np.zeros((count, 3))
    right[free] = spsolve(system.tocsc(), -dt * (k @ ahead)[free])
    return found, right, free, interval


@pytest.mark.parametrize(("factor", "substeps"), [(0.01, INTERVAL), (1.0, 1), (8.0, 1)])
def test_the_solve_is_that_of_the_whole_system(factor, substeps):
    """Of several substeps at once where that takes few iterations."""
    found, right, free, interval = solve(strip_world(), factor=factor)
    assert interval == substeps
    assert np.abs(right).max() > 0.1
    np.testing.assert_allclose(found[free], right[free], atol=0.04 * np.abs(right).max())
    assert (found[~free] == 0.0).all()


def test_threads_share_a_solve_to_the_byte():
    np.testing.assert_array_equal(solve(strip_world())[0], solve(strip_world(), threads=3)[0])


def test_stiffer_cloth_is_bent_by_another_solve():
    soft, stiff = solve(strip_world(), factor=0.01)[0], solve(strip_world(), factor=0.04)[0]
    assert np.linalg.norm(stiff) > 1.5 * np.linalg.norm(soft)


@wp.kernel
def find_stretches(first: int, begin: int, end: int, bending: BendingArrays, found: wp.array[wp.vec4d]):
    if first + wp.tid() == 0:
        find_lacks(begin, end, bending)
    for i in range(begin, end):
        found[i] = lack_of(i, bending)


@pytest.mark.parametrize(("begin", "end", "welded"), [(0, 7, True), (3, 61, False), (5, 5, False)])
def test_rest_shapes_of_four_hinges_are_those_of_one_at_a_time(begin, end, welded):
    """Bent ones, flat ones, ones that are folded up and ones without area."""
    rng, count = np.random.default_rng(1), 62
    quads = np.arange(4 * count).reshape(-1, 4)
    x = rng.normal(size=(count, 4, 4))
    # folded up: the two triangles are the same
    x[::3, 3] = x[::3, 2] + 1e-9 * rng.normal(size=(len(x[::3]), 4))
    x[1::9, 2] = x[1::9, 1]
    weights = rng.normal(size=(count, 4))
    weights -= weights.mean(axis=1, keepdims=True)
    rest = np.where(np.arange(count) % 5 == 0, 0.0, rng.normal(size=count))
    bending = StepBending(strip_world()).arrays
    if not welded:
        bending.matrix = SparseRows()
    given = {"quads": quads, "weights": weights, "rest": rest, "ahead": x.reshape(-1, 4), "lacks": 0.0 * weights}
    for name, values in given.items():
        setattr(bending, name, wp.array(values, dtype=getattr(bending, name).dtype, device="cpu"))
    found = wp.zeros(count, dtype=wp.vec4d, device="cpu")
    launch(find_stretches, 1, [begin, end, bending, found])
    np.testing.assert_allclose(bending.lacks.numpy(), found.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("cells", [10, 20])
def test_a_strip_hangs_as_theory_says_on_any_mesh(cells):
    assert cantilever("predictive", cells, 10.0, "alternating") == pytest.approx(1.0668, rel=0.05)


def test_pins_that_let_go_change_the_matrix():
    scene = strip_world().scene
    held = scene.cloths[0].replace(pins=[weft.Pin(boundary="left", until=0.1)])
    scene = scene.replace(cloths=[held], method=Predictive())
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    method.begin(state)
    method.advance_frame(state)
    before = method.solver.bending.arrays
    method.advance_frame(state)
    assert method.solver.bending.arrays is before
    for _ in range(4):
        method.advance_frame(state)
    assert method.solver.bending.arrays is not before
    # it falls freely, as a whole
    assert state.velocities()[: world.cloth_vertex_count, 1].max() < -0.3


@pytest.mark.parametrize(
    ("cells", "options", "expected"),
    [((6, 4), {}, 24), ((60, 36), {}, 72), ((60, 36), {"substeps": 5}, 5)],
)
def test_stiff_bending_on_a_fine_mesh_has_shorter_substeps(cells, options, expected):
    cloth = weft.Cloth(
        shape=weft.Grid(size=(0.1, 0.06), cells=cells),
        material=weft.Material(bend=2e-5),
        pins=[weft.Pin(boundary="left")],
    )
    strip = weft.Realtime(weft.Scene(fps=30, cloths=[cloth], method=Predictive(**options)))
    strip.step(1.0 / 30.0)
    assert strip.solver.settings["substeps"][0] == expected
    # a number that the caller chooses stays when other vertices are held
    strip.change(substeps=7)
    strip.solver.attach(np.zeros(len(strip.positions), bool))
    assert strip.solver.settings["substeps"][0] == 7


def test_a_strip_on_its_edge_stays_upright_below_the_critical_load():
    assert edge_tilt("predictive", 20, 0.95) < 0.05
    assert 0.1 < edge_tilt("predictive", 20, 1.05) < 0.8
