"""Plates that close on cloth and leave it no place to go: `robust` says so, and what crosses since."""

import numpy as np

import weft
from weft.geometry.intersection import intersection_finder
from weft.methods import make_method
from weft.world import World


def press(*ways, cells):
    """A sheet between two plates, each of which goes so far towards the other, or back, at each time in s."""
    plates = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=(0.4, 0.02, 0.4)),
            placement=weft.Placement(position=(0.0, side * 0.02, 0.0)),
            motion=weft.Path(
                keyframes=[weft.Keyframe(time=time, position=(0, -side * way, 0)) for time, way in ((0.0, 0.0), *ways)]
            ),
        )
        for name, side in (("above", 1.0), ("below", -1.0))
    ]
    sheet = weft.Cloth(shape=weft.Grid(size=(0.2, 0.2), cells=(cells, cells)))
    return World(weft.Scene(method="robust", cloths=[sheet], colliders=plates))


def test_what_two_closing_colliders_hold_between_them_is_told():
    """A press that closes to half the thickness cannot be right; the run says so and goes on."""
    world = press((0.2, 0.00999), cells=4)
    method, state = make_method(world, world.scene.method), world.initial_state()
    said = [method.advance_frame(state)["status"] for _ in range(14)]
    assert all(s == "ok" for s in said[:9])
    assert any("colliders" in s or "collisions" in s for s in said)
    assert np.isfinite(state.positions()).all()


def test_what_crosses_since_collisions_were_left_is_told_in_every_frame():
    """Plates whose paths overlap force cloth through itself or them; whoever looks at later frames must hear of it."""
    world = press((0.1, 0.02), (0.2, -0.1), cells=8)
    method, state = make_method(world, world.scene.method), world.initial_state()
    finder, crossing = intersection_finder(world), []
    for _ in range(20):
        status = method.advance_frame(state)["status"]
        crossing.append(len(finder.find(state.positions())))
        told = f"{crossing[-1]} edges pass through triangles since collisions were left"
        assert (told in status) == (crossing[-1] > 0)
    assert crossing[0] == 0 and max(crossing) > 0
    # whoever goes on from there knows it too
    other = make_method(world, world.scene.method)
    other.restore(method.saved())
    assert other.crossed == (crossing[-1] > 0)
