"""Worlds that take their steps together: each has the bytes that it has alone, and what can be taken together is."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.methods.joined import JoinedRobust
from weft.methods.joined.cloth import most_together
from weft.runtime import get_threads, set_threads


def gripped(method="robust", *, wind=None, **material):
    """A sheet that hangs upright between two boxes at its upper edge."""
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.2, 0.2), cells=(8, 8)),
        placement=weft.Placement(rotation_deg=(90, 0, 0)),
        material=weft.Material(**{"friction": 0.5, "friction_kinetic": 0.5, **material}),
    )
    boxes = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=(0.12, 0.05, 0.02)),
            friction=0.5,
            friction_kinetic=0.5,
            placement=weft.Placement(position=(0.0, 0.07, side * 0.0125)),
        )
        for name, side in (("front", 1.0), ("back", -1.0))
    ]
    forces = weft.Forces(wind=wind)
    return weft.Scene(fps=60, method=method, thickness=0.002, cloths=[sheet], colliders=boxes, forces=forces)


def move(sim, gap, rise):
    """Move the boxes of one world."""
    for name, side in (("front", 1.0), ("back", -1.0)):
        pose = sim.bodies[name].pose.copy()
        pose[2, 3] = side * (0.01 + 0.5 * gap)
        pose[1, 3] += rise
        sim.bodies[name].pose = pose


@pytest.fixture
def one_thread():
    """All worlds in one group: a batch has a group a thread."""
    threads = get_threads()
    set_threads(1)
    yield
    set_threads(threads)


def count_steps(monkeypatch):
    """How many steps of worlds were asked for, how many of them were taken together, and with how many numbers of substeps."""
    counts = np.zeros(3, int)
    take = JoinedRobust.take_step

    def counted(joined, chosen):
        take(joined, chosen)
        counts[:2] += len(chosen), sum(joined.methods[k].joined_report is not None for k in chosen)
        counts[2] = max(counts[2], len(np.unique(joined.dynamics._substeps_between)))

    monkeypatch.setattr(JoinedRobust, "take_step", counted)
    return counts


def assert_same(together, alone):
    for k, one in enumerate(alone):
        assert together.positions[k].tobytes() == one.positions.tobytes(), k
        assert together.velocities[k].tobytes() == one.velocities.tobytes(), k
        assert together.worlds[k].report == one.report


@pytest.mark.parametrize("method", ["robust", "guarded"])
def test_worlds_with_different_substeps_and_contacts(method, monkeypatch):
    """One world is torn upwards, collides, goes on alone, and comes back with more substeps; one does not touch at all."""
    counts = count_steps(monkeypatch)
    gaps, rises = [0.0039, 0.0037, 0.0043, 0.006], [0.1, 0.01, 0.0, 0.001]
    together = weft.Simulation(gripped(method), worlds=4)
    alone = [weft.Simulation(gripped(method)) for _ in range(4)]
    for frame in range(8):
        for k in range(4):
            for sim in (together.worlds[k], alone[k]):
                move(sim, gaps[k], rises[k] if frame > 1 else 0.0)
        together.advance()
        for one in alone:
            one.advance()
        assert_same(together, alone)
    assert alone[0].method.dynamics.substeps.refined > 1.1 and alone[1].method.dynamics.substeps.refined == 1.0
    assert 0.9 * 4 * 8 * 6 < counts[1] < counts[0] == 4 * 8 * 6 and counts[2] > 1
    forces, torques = together.contact_forces("front")
    for k, one in enumerate(alone):
        found = one.contact_forces("front")
        assert np.array_equal(forces[k], found.force) and np.array_equal(torques[k], found.torque)
    assert (forces[0] != 0.0).any() and not forces[3].any()
    assert {name: values.tobytes() for name, values in together.worlds[1].method.saved().items()} == {
        name: values.tobytes() for name, values in alone[1].method.saved().items()
    }


def test_pins_materials_and_masks():
    """Worlds differ in material, in what is held and when, and in which of them take a step."""
    materials = [
        {"density": 0.1, "bend": 1e-5},
        {"density": 0.2, "bend": 1e-4, "stretch": 500.0},
        {"bend": 1e-3, "shear": 9.0},
    ]
    scenes = [gripped(**material) for material in materials]
    together, alone = weft.Simulation(scenes), [weft.Simulation(scene) for scene in scenes]
    assert_same(together, alone)
    for frame in range(6):
        for sims in (together.worlds, alone):
            for k, sim in enumerate(sims):
                if frame == k:
                    sim.held = sim.pin("sheet", [0, 8])
                    sim.held.target = sim.held.target + [0.0, 0.01, 0.0]
                if frame == k + 3:
                    sim.held.release()
        mask = np.arange(3) != frame % 3 if frame else np.ones(3, bool)
        together.advance(mask=mask)
        for k in np.flatnonzero(mask):
            alone[k].advance()
        assert_same(together, alone)
        # contacts are those of the last step of each world, whenever that was
        for k, one in enumerate(alone):
            found, expected = together.worlds[k].contacts, one.contacts
            assert np.array_equal(found.points, expected.points) and np.array_equal(found.forces, expected.forces)


def test_a_world_with_many_substeps_goes_alone():
    """All worlds together cost as much as the one that needs most: 0.4 of what they cost alone."""
    assert most_together(np.full(64, 6)) == 6
    assert most_together(np.append(np.full(63, 6), 48)) == 6
    assert most_together(np.append(np.full(7, 6), 8)) == 8
    assert most_together(np.append(np.full(10, 6), np.full(54, 48))) == 48


def test_few_worlds_are_not_worth_computing_all(monkeypatch, one_thread):
    counts = count_steps(monkeypatch)
    together = weft.Simulation(gripped(), worlds=5)
    together.step(mask=np.arange(5) < 2)
    assert counts[:2].tolist() == [2, 0] and (together.frame == 0).all()
    together.step(mask=np.arange(5) < 3)
    assert counts[:2].tolist() == [5, 3]


def test_wind_blows_at_the_time_of_each_world():
    wind = weft.Wind(velocity=(0.0, 0.0, 4.0), gust=0.5)
    together = weft.Simulation(gripped(wind=wind), worlds=3)
    together.advance(2)
    together.reset(np.array([False, True, False]))
    together.advance(2)
    alone = [weft.Simulation(gripped(wind=wind)) for _ in range(2)]
    alone[0].advance(4)
    alone[1].advance(2)
    assert_same(together, [alone[0], alone[1], alone[0]])


def test_lines_of_several_blocks():
    """A strip with more springs in a row than a batch has slots."""
    strip = weft.Cloth(name="strip", shape=weft.Grid(size=(1.5, 0.02), cells=(150, 2)))
    scene = weft.Scene(fps=60, method="robust", thickness=0.002, cloths=[strip])
    together, alone = weft.Simulation(scene, worlds=3), [weft.Simulation(scene) for _ in range(3)]
    for k in range(3):
        for sims in (together.worlds, alone):
            sims[k].pin("strip", [k])
    together.advance(2)
    for one in alone:
        one.advance(2)
    assert max(alone[0].method.dynamics._blocks.numpy()) > 1
    assert_same(together, alone)


def test_sleeves_whose_rest_shapes_are_curved():
    sleeve = weft.Cloth(name="sleeve", shape=weft.Cylinder(radius=0.05, height=0.2, segments=12, rings=6))
    scene = weft.Scene(fps=60, method="robust", thickness=0.002, cloths=[sleeve])
    together, alone = weft.Simulation(scene, worlds=3), [weft.Simulation(scene) for _ in range(3)]
    for k in range(3):
        for sims in (together.worlds, alone):
            sims[k].pin("sleeve", [k, 5])
    together.advance(2)
    for one in alone:
        one.advance(2)
    assert alone[0].method.dynamics.bending.memory.curved
    assert_same(together, alone)


def test_worlds_with_too_many_pairs_take_halved_steps(monkeypatch, one_thread):
    """What a world alone would halve its step for, it halves it for in company; the others do not."""
    counts = count_steps(monkeypatch)
    together, alone = weft.Simulation(gripped(), worlds=3), [weft.Simulation(gripped()) for _ in range(3)]
    # as many pairs as a sheet at rest has, and fewer than one that flies
    for method in (sim.method for sim in (*together.worlds, *alone)):
        method.many_pairs = 6_000
    for sims in (together.worlds, alone):
        sims[1].velocities = np.linspace(-9.0, 9.0, 81)[:, None] * [0.0, 0.0, 1.0]
    together.advance()
    for one in alone:
        one.advance()
    assert_same(together, alone)
    assert [one.report["steps"] > 6 for one in alone] == [False, True, False]
    assert 12 <= counts[1] < 18


def test_groups_of_worlds_side_by_side(monkeypatch):
    """Two threads have two groups of worlds, whose steps do not depend on each other."""
    counts = count_steps(monkeypatch)
    before = weft.runtime.get_threads()
    weft.runtime.set_threads(2)
    try:
        together = weft.Simulation(gripped("guarded"), worlds=5)
        for k, world in enumerate(together.worlds):
            move(world, 0.0037 + 0.0002 * k, 0.0)
        together.advance(2)
    finally:
        weft.runtime.set_threads(before)
    assert [len(numbers) for numbers, _ in together._groups] == [3, 2]
    assert counts[1] == counts[0]
    alone = [weft.Simulation(gripped("guarded")) for _ in range(5)]
    for k, one in enumerate(alone):
        move(one, 0.0037 + 0.0002 * k, 0.0)
        one.advance(2)
    assert_same(together, alone)


def test_an_error_in_one_world_leaves_the_others_alone():
    """The others take their step, together, and the error names its world."""
    together, alone = weft.Simulation(gripped(), worlds=3), weft.Simulation(gripped())
    together.velocities[1, 0] = np.nan
    with pytest.raises(weft.WeftError, match="world 1"):
        together.advance()
    alone.advance()
    for k in (0, 2):
        assert together.positions[k].tobytes() == alone.positions.tobytes()

    def broken(sim):
        raise ZeroDivisionError

    together = weft.Simulation(gripped(), worlds=3)
    together.worlds[2].add_force(broken)
    with pytest.raises(ZeroDivisionError):
        together.step()
    alone = weft.Simulation(gripped())
    alone.step()
    for k in (0, 1):
        assert together.positions[k].tobytes() == alone.positions.tobytes()


@pytest.mark.cuda
@pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
def test_on_a_gpu(monkeypatch):
    """Steps together on CUDA: as those of each world alone there, and near those of the CPU."""
    counts = count_steps(monkeypatch)
    together = weft.Simulation(gripped(), worlds=4, device="cuda")
    alone, on_cpu = weft.Simulation(gripped(), device="cuda"), weft.Simulation(gripped())
    for sim in (*together.worlds, alone, on_cpu):
        move(sim, 0.0039, 0.0)
        hold = sim.pin("sheet", [0])
        hold.target = hold.target + [0.0, 0.0, 0.01]
    together.advance(3)
    alone.advance(3)
    on_cpu.advance(3)
    assert counts[1] == counts[0] > 0
    for k in range(4):
        assert np.allclose(together.positions.numpy()[k], alone.positions.numpy(), rtol=0.0, atol=1e-9)
    assert np.allclose(alone.positions.numpy(), on_cpu.positions, rtol=0.0, atol=1e-6)
