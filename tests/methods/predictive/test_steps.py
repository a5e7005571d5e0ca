"""Steps of `weft.Realtime` in a scene with all that a step can have: fast cloth, moving pins, a turning ball, goals, wind."""

import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.runtime import get_threads, set_threads
from weft.scene import Follow, Predictive


@pytest.fixture(autouse=True)
def restore_threads():
    before = get_threads()
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


def run(scene, deeds=(), steps=10, threads=1):
    """Positions, velocities and report of each step; `deeds` are what the caller does before a step."""
    set_threads(threads)
    cloth, deeds, found = weft.Realtime(scene), dict(deeds), []
    divided = cloth.solver.division.advance
    fractions = []
    cloth.solver.division.advance = lambda number, *rest: (fractions.append(number), divided(number, *rest))
    for k in range(steps):
        if k in deeds:
            deeds[k](cloth)
        cloth.step(1 / 30)
        found.append((cloth.positions.copy(), cloth.velocities.copy(), cloth.report))
    return found, fractions


def are_the_same(found, other):
    for (x, v, report), (y, w, another) in zip(found, other, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(v, w)
        assert report == another


@pytest.mark.parametrize(
    "options", [{}, {"cache": True}, {"self_contacts": "points"}, {"self_contacts": "none", "most_substeps": 40}]
)
@pytest.mark.parametrize("windy", [False, True])
def test_steps_do_not_depend_on_the_number_of_threads(windy, options):
    scene = crash(**options)
    if windy:
        scene = scene.replace(forces=weft.Forces(wind=weft.Wind(velocity=(1.0, 0.0, 2.0), gust=0.5)))
    found, fractions = run(scene)
    assert bool(fractions) == ("cache" not in options and options.get("self_contacts") != "none")
    are_the_same(found, run(scene, threads=2)[0])
    if not options:
        # lists grow on the way
        assert max(report["generated"] for _, _, report in found) > 2 * len(found[0][0])


def test_what_the_caller_does_between_steps_is_seen():
    def lift(cloth):
        cloth.poses["ball"][1, 3] += 0.1

    def pull(cloth):
        cloth.targets[cloth.held] += [0.0, 0.02, 0.0]

    def throw(cloth):
        cloth.velocities[:] = [0.0, 1.0, 0.0]

    deeds = {
        0: lambda cloth: setattr(cloth, "motions", False),
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
    found, _ = run(crash(), deeds, 14)
    # each of them matters from its step on, and not before
    for k in (1, 2, 3, 4, 5, 7, 9, 10):
        without, _ = run(crash(), {j: deed for j, deed in deeds.items() if j < k}, 14)
        are_the_same(found[:k], without[:k])
        assert np.abs(found[k][1] - without[k][1]).max() > 0.0, k


def test_a_vertex_that_is_nowhere_is_an_error():
    cloth = weft.Realtime(crash())
    for _ in range(3):
        cloth.step(1 / 30)
    cloth.positions[500] = np.nan
    with pytest.raises(WeftError):
        cloth.step(1 / 30)
