"""A step of `predictive` as one call: what it does is what the long way does, to the byte."""

import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.methods.predictive.at_once import AtOnce
from weft.methods.predictive.step_division import begin_parts
from weft.runtime import get_threads, launch, set_threads
from weft.runtime.thread_pool import Arguments
from weft.scene import Follow, Predictive


@pytest.fixture(autouse=True)
def one_thread():
    before = get_threads()
    set_threads(1)
    yield
    set_threads(before)


def crash(**options):
    """A sheet held by two moving pins and a crumpled one that falls on it beside a ball that turns, all of it fast."""
    sway = weft.Path(keyframes=[weft.Keyframe(time=0), weft.Keyframe(time=0.3, position=(0.02, 0.05, 0.0))])
    sheets = [
        weft.Cloth(
            name=f"sheet{i}",
            shape=weft.Grid(size=(0.6, 0.6), cells=(20, 20)),
            placement=weft.Placement(position=(0.0, 0.05 + 0.25 * i, 0.0), rotation_deg=(0, 0, 70 * i)),
            velocity=(0.0, -6.0 * i, 0.0),
            pins=[weft.Pin(boundary="left"), weft.Pin(boundary="right", motion=sway, until=0.21)] if i == 0 else [],
        )
        for i in range(2)
    ]
    ball = weft.Collider(
        name="ball",
        shape=weft.Sphere(radius=0.08),
        analytic=True,
        placement=weft.Placement(position=(0.0, -0.05, 0.0)),
        motion=weft.Spin(axis=(0, 1, 0.2), rate_deg=200.0),
    )
    given = {"static_radius": 0.01, "follow": [Follow(cloth="sheet1", motion=sway, frequency=0.5)], **options}
    method = Predictive(**given)
    return weft.Scene(fps=30, thickness=0.008, cloths=sheets, colliders=[ball], method=method)


def run(scene, monkeypatch, *, at_once, deeds=(), steps=10):
    """Positions, velocities and reports of each step; how many steps were done at once, in parts, or turned back in one."""
    cloth = weft.Realtime(scene)
    if not at_once:
        cloth.solver.prepare = lambda *given: None
    rows, deeds, counts = [], dict(deeds), {"at once": 0, "in parts": 0, "turned back": 0}
    real = AtOnce.step

    def step(self, *given):
        # who divides a step notes how long all of it is
        self._course.whole.zero_()
        done = real(self, *given)
        divided = bool(self._course.whole.numpy()["dt"][0] > 0.0)
        counts["at once"] += done
        counts["in parts"] += done and divided
        counts["turned back"] += divided and not done
        return done

    monkeypatch.setattr(AtOnce, "step", step)
    for k in range(steps):
        if k in deeds:
            deeds[k](cloth)
        cloth.step(1 / 30)
        rows.append((cloth.positions.copy(), cloth.velocities.copy(), cloth.report))
    monkeypatch.setattr(AtOnce, "step", real)
    return rows, counts


def are_the_same(found, other):
    for (x, v, report), (y, w, another) in zip(found, other, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(v, w)
        assert report == another


@pytest.mark.parametrize("windy", [False, True])
def test_it_is_the_long_way(windy, monkeypatch):
    scene = crash()
    if windy:
        scene = scene.replace(forces=weft.Forces(wind=weft.Wind(velocity=(1.0, 0.0, 2.0), gust=0.5)))
    found, counts = run(scene, monkeypatch, at_once=True)
    other, none = run(scene, monkeypatch, at_once=False)
    # lists that are too short and pins that let go are for the long way
    assert 4 < counts["at once"] < 10 and counts["in parts"] > 1 and counts["turned back"] > 0
    assert not any(none.values())
    assert max(report["generated"] for _, _, report in found) > 2 * len(found[0][0])
    are_the_same(found, other)
    # with threads that share the search, too
    set_threads(2)
    shared, none = run(scene, monkeypatch, at_once=True)
    assert not any(none.values())
    are_the_same(found, shared)


@pytest.mark.parametrize("options", [{"cache": True}, {"self_contacts": "none", "most_substeps": 40}])
def test_without_a_search_it_is_the_long_way(options, monkeypatch):
    scene = crash(**options)
    found, counts = run(scene, monkeypatch, at_once=True)
    other, none = run(scene, monkeypatch, at_once=False)
    assert (counts["at once"], none["at once"]) == (8, 0)
    are_the_same(found, other)
    # it is one thread's work anyway
    set_threads(2)
    shared, counts = run(scene, monkeypatch, at_once=True)
    assert counts["at once"] == 8
    are_the_same(found, shared)


def test_what_the_caller_does_between_steps_is_seen(monkeypatch):
    def lift(cloth):
        cloth.poses["ball"][1, 3] += 0.1

    def pull(cloth):
        cloth.targets[cloth.held] += [0.0, 0.02, 0.0]

    def throw(cloth):
        cloth.velocities[:] = [0.0, 1.0, 0.0]

    deeds = {
        1: lift,
        2: pull,
        3: lambda cloth: cloth.hold([100, 700]),
        4: lambda cloth: cloth.change(stretch=0.5, friction=0.1, gravity=(1.0, -3.0, 0.0), substeps=11),
        5: throw,
        6: lambda cloth: cloth.release(),
        7: lambda cloth: cloth.change(wind=(0.0, 0.0, 5.0)),
        9: lambda cloth: setattr(cloth, "motions", True),
        10: lambda cloth: cloth.cache_contacts(),
        12: lambda cloth: cloth.reset(),
    }

    def play(chosen, *, at_once):
        def begin(cloth):
            cloth.motions = False

        return run(crash(), monkeypatch, at_once=at_once, deeds={0: begin, **chosen}, steps=14)

    found, counts = play(deeds, at_once=True)
    other, _ = play(deeds, at_once=False)
    assert counts["at once"] > 6
    are_the_same(found, other)
    # each of them matters from its step on, and not before
    for k in (1, 2, 3, 4, 5, 7, 9, 10):
        without, _ = play({j: deed for j, deed in deeds.items() if j < k}, at_once=True)
        are_the_same(found[:k], without[:k])
        assert np.abs(found[k][1] - without[k][1]).max() > 0.0, k


def test_a_usual_step_is_one_call(monkeypatch):
    cloth = weft.Realtime(crash())
    calls = []
    real = Arguments.call
    monkeypatch.setattr(Arguments, "call", lambda self, *given: (calls.append(self), real(self, *given)))
    for _ in range(5):
        calls.clear()
        cloth.step(1 / 30)
    assert calls == [cloth.solver.at_once.all]


def test_a_step_that_turns_back_in_a_part_has_not_happened():
    cloth = weft.Realtime(crash())
    for _ in range(3):
        cloth.step(1 / 30)
    at_once = cloth.solver.at_once
    assert at_once is not None
    colliders, goals = cloth.solver.colliders, cloth.solver.goals
    watched = [cloth.positions, cloth.velocities]
    watched += [array.numpy() for array in (colliders.start, colliders.end, goals.starts, goals.ends)]
    numbers = cloth.solver.settings
    before, told = [array.copy() for array in watched], numbers.copy()
    course = at_once._course
    launch(begin_parts, 1, [1, 3, course])
    for array in watched:
        array += 1.0
    numbers["dt"][0], numbers["substeps"][0] = 0.001, 1
    cloth.solver.division.undo(course)
    for array, was in zip(watched, before, strict=True):
        np.testing.assert_array_equal(array, was)
    assert (numbers["dt"][0], numbers["substeps"][0]) == (told["dt"][0], told["substeps"][0])
    # only once
    cloth.positions += 1.0
    cloth.solver.division.undo(course)
    np.testing.assert_array_equal(cloth.positions, before[0] + 1.0)


def test_what_goes_wrong_is_told():
    cloth = weft.Realtime(crash())
    for _ in range(3):
        cloth.step(1 / 30)
    assert cloth.solver.at_once is not None
    cloth.positions[500] = np.nan
    with pytest.raises(WeftError):
        cloth.step(1 / 30)
