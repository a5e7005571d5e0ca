"""Plates that close on cloth and leave it no place to go: `robust` says so, and the run says what crosses since."""

import numpy as np
import pytest

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


def pushed(*, ball):
    """Two small sheets whose pinned vertices pass each other, or one whose pins go through a ball."""

    def sheet(name, height, way):
        keys = [weft.Keyframe(time=0.0), weft.Keyframe(time=0.05, position=(0.0, way, 0.0))]
        pin = weft.Pin(boundary="all", motion=weft.Path(keyframes=keys))
        place = weft.Placement(position=(0.0, height, 0.0))
        return weft.Cloth(name=name, shape=weft.Grid(size=(0.1, 0.1), cells=(1, 1)), pins=[pin], placement=place)

    below = weft.Collider(shape=weft.Sphere(radius=0.05), placement=weft.Placement(position=(0.0, -0.06, 0.0)))
    turned = sheet("lower", -0.01, 0.3).replace(
        placement=weft.Placement(position=(0.0, -0.01, 0.0), rotation_deg=(0.0, 30.0, 0.0))
    )
    bodies = {"cloths": [sheet("upper", 0.0, -0.3)], "colliders": [below]} if ball else {}
    return weft.Scene(**({"cloths": [sheet("upper", 0.0, -0.3), turned]} | bodies), method="robust")


@pytest.mark.parametrize(
    ("ball", "words"),
    [(False, "pins that cross hold the cloth"), (True, "pins and colliders that meet hold the cloth")],
)
def test_who_holds_the_cloth_is_told(ball, words):
    world = World(pushed(ball=ball))
    method, state = make_method(world, world.scene.method), world.initial_state()
    method.begin(state)
    said = [method.advance_frame(state)["status"] for _ in range(3)]
    assert any(f"{words} between them" in text for text in said), said
    assert not any("colliders that close" in text for text in said)


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
