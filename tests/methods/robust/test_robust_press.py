"""Plates that close on cloth and leave it no place to go: `robust` says so, and the run says what crosses since."""

import numpy as np

import weft
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


def test_every_frame_with_intersections_says_so(tmp_path):
    """Plates whose paths overlap force cloth through itself or them: no frame that crosses is ok."""
    scene = press((0.1, 0.02), (0.2, -0.1), cells=8).scene.replace(frames=20)
    report = weft.simulate(scene, tmp_path / "whole.zarr", progress=False).report
    crossing = np.array(report["intersections"])
    assert crossing[0] == 0 and crossing.max() > 0
    for count, status in zip(crossing, report["status"], strict=True):
        assert (f"{count:,} edges pass through triangles" in status) == (count > 1)
        assert count == 0 or status != "ok"
    # whoever resumes the run is told the same, new ones included
    weft.simulate(scene, tmp_path / "parts.zarr", progress=False, frames=9)
    again = weft.simulate(scene, tmp_path / "parts.zarr", progress=False, resume=True).report
    assert list(again["status"]) == list(report["status"])
