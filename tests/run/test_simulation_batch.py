"""Many worlds: each has the bytes that it has alone, whatever the others do."""

import numpy as np
import pytest

import weft
from weft.errors import WeftError

METHODS = ["plain", "robust", "guarded", "untangle", "predictive", "boxes", "push"]


def scene(method="robust", **material):
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.2, 0.2), cells=(5, 5)),
        material=weft.Material(**{"stretch": 50.0, "damping": 0.01, **material}),
    )
    ball = weft.Collider(
        name="ball",
        shape=weft.Sphere(radius=0.06, subdivisions=2),
        placement=weft.Placement(position=(0.0, -0.064, 0.0)),
    )
    return weft.Scene(fps=60, method=method, thickness=0.002, cloths=[sheet], colliders=[ball])


def shifted(pose, shift):
    moved = pose.copy()
    moved[..., :3, 3] += shift
    return moved


@pytest.fixture(params=[1, 4], ids="{} threads".format)
def threads(request):
    before = weft.runtime.get_threads()
    weft.runtime.set_threads(request.param)
    yield request.param
    weft.runtime.set_threads(before)


@pytest.mark.parametrize("method", METHODS)
def test_a_world_has_the_bytes_that_it_has_alone(method, threads):
    sims = weft.Simulation(scene(method), worlds=3)
    assert len(sims) == 3 and sims.positions.shape == (3, 36, 3)
    shifts = np.array([[0.0, 0.0, 0.0], [0.0, 0.01, 0.0], [0.01, -0.01, 0.0]])
    sims.bodies["ball"].pose = shifted(sims.bodies["ball"].pose, shifts)
    corner = sims.pin("sheet", [0])
    corner.target = corner.target + shifts[:, None]
    sims.forces[2] = (0.0, 1e-3, 0.0)
    sims.advance(2)
    sims.step()
    for k, shift in enumerate(shifts):
        alone = weft.Simulation(scene(method))
        alone.bodies["ball"].pose = shifted(alone.bodies["ball"].pose, shift)
        hold = alone.pin("sheet", [0])
        hold.target = hold.target + shift
        if k == 2:
            alone.forces[:] = (0.0, 1e-3, 0.0)
        alone.advance(2)
        alone.step()
        assert sims.positions[k].tobytes() == alone.positions.tobytes()
        assert sims.velocities[k].tobytes() == alone.velocities.tobytes()
    assert not np.array_equal(sims.positions[0], sims.positions[1])


def test_materials_differ_by_scenes():
    sims = weft.Simulation([scene(density=0.1), scene(density=0.2), scene(density=0.1)])
    sims.pin("sheet", [0, 5])
    sims.advance(4)
    assert np.array_equal(sims.positions[0], sims.positions[2])
    assert not np.array_equal(sims.positions[0], sims.positions[1])


def test_a_masked_reset_leaves_the_others_alone():
    sims = weft.Simulation(scene(), worlds=3)
    hold = sims.pin("sheet", [0])
    start = sims.positions.copy()
    sims.advance(2)
    before = sims.positions.copy()
    sims.reset(np.array([False, True, False]))
    assert np.array_equal(sims.positions[1], start[1]) and np.array_equal(sims.frame, [2, 0, 2])
    assert np.array_equal(sims.positions[[0, 2]], before[[0, 2]])
    assert list(hold.held) == [True, False, True]
    sims.advance(1, mask=np.array([False, True, False]))
    assert np.array_equal(sims.frame, [2, 1, 2]) and np.array_equal(sims.positions[[0, 2]], before[[0, 2]])
    # a world that was reset goes on as a new one
    alone = weft.Simulation(scene())
    alone.advance()
    assert np.array_equal(alone.positions, sims.positions[1])


def test_views_stay_and_saving_restores_all():
    sims = weft.Simulation(scene(), worlds=2)
    x = sims.positions
    sims.advance()
    saved = sims.save()
    sims.advance()
    end = x.copy()
    sims.restore(saved)
    sims.advance()
    assert np.array_equal(x, end) and np.shares_memory(x, sims.positions)
    assert np.shares_memory(sims.worlds[1].positions, x)
    assert sims.bodies["ball"].positions.shape[0] == 2
    assert [row["frame"] for row in sims.report] == [2, 2]
    assert len(sims.contacts) == 2 and len(sims.contacts[0]) == len(sims.worlds[0].contacts)
    hold = sims.pin("sheet", [0, 5])
    assert np.array_equal(hold.positions, sims.positions[:, [0, 5]])
    hold.release(np.array([True, False]))
    assert repr(hold) == "<Hold of 2 vertices in 1 of 2 worlds>"
    force, torque = sims.contact_forces("ball")
    assert force.shape == torque.shape == (2, 3) and np.array_equal(force[0], force[1])


def test_mistakes_are_told():
    sims = weft.Simulation(scene(), worlds=2)
    other = scene().replace(cloths=[scene().cloths[0].replace(shape=weft.Grid(size=(0.2, 0.2), cells=(4, 4)))])
    cases = [
        (lambda: weft.Simulation(scene(), worlds=0), "at least one world, not 0"),
        (
            lambda: weft.Simulation([scene(), other]),
            "the scene of world 1 has other bodies or meshes than that of world 0",
        ),
        (lambda: weft.Simulation([scene(), scene().replace(fps=30)]), "world 1 has another frame rate than that of"),
        (
            lambda: weft.Simulation([scene(), scene().replace(method=weft.methods.Robust(steps=8))]),
            r"world 1 has other steps \(0\.\d+ s, not 0\.\d+ s\) than that of world 0",
        ),
        (lambda: weft.Simulation([scene()], worlds=2), "one scene a world: the scenes are 1, the worlds 2"),
        (lambda: sims.advance(mask=[1, 0]), "a truth value for each of the 2 worlds"),
        (
            lambda: weft.Simulation(scene(), worlds=10**9),
            r"worlds of this scene need [0-9.e+]+ GB .* for [0-9,]+ worlds at most",
        ),
        (
            lambda: weft.Simulation({"frames": 3}, worlds=2),
            "a scene is a weft.Scene or the name of a TOML file, not a dict",
        ),
        (lambda: sims.restore(sims.save()[:1]), "1 worlds were saved, and this simulation has 2"),
        (lambda: setattr(sims.bodies["ball"], "pose", np.eye(3)), r"an array \(2, 4, 4\) or \(4, 4\), not \(3, 3\)"),
        (lambda: setattr(sims.pin("sheet", [1]), "target", np.zeros(3)), r"are an array \(2, 1, 3\), not \(3,\)"),
    ]
    for act, message in cases:
        with pytest.raises(WeftError, match=message):
            act()
    sims.velocities[1] = np.nan
    with pytest.raises(WeftError, match=r"world 1: .* vertices"):
        sims.advance()


def test_all_worlds_go_on_from_one_moment():
    sims, alone = weft.Simulation(scene(), worlds=2), weft.Simulation(scene())
    alone.advance(3)
    sims.restore(alone.save())
    sims.advance()
    alone.advance()
    assert all(np.array_equal(x, alone.positions) for x in sims.positions)


def test_functions_of_the_caller_run_one_after_the_other(threads):
    sims = weft.Simulation(scene(), worlds=6)
    running, called = [], []

    def wind(sim):
        running.append(sim)
        called.append(sims.worlds.index(sim))
        assert len(running) == 1
        running.clear()
        return np.full(sim.positions.shape, 1e-4)

    sims.add_force(wind)
    sims.step()
    assert called == sorted(called) and set(called) == set(range(6))


def test_what_is_not_finite_in_a_world_is_named_and_the_others_are_measured():
    sims = weft.Simulation(scene(), worlds=3)
    alone = weft.Simulation(scene())
    alone.advance(2)
    sims.advance(1)
    x = sims.positions
    x[1, 4, 0] = np.nan
    with pytest.raises(WeftError, match="world 1"):
        sims.advance(1)
    assert sims.worlds[0].report["stretch"] == alone.report["stretch"] == sims.worlds[2].report["stretch"]
