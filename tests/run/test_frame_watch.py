"""Runs that would not end stop with what they are waiting for; force waits."""

from types import SimpleNamespace

import numpy as np
import pytest

import weft
from weft.errors import SceneError, WeftError
from weft.run import progress
from weft.run.progress import FrameWatch
from weft.scene import size


class Clock:
    """A time that the test sets."""

    now = 0.0

    def perf_counter(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


def go(watch, clock, seconds, steps, frame=1):
    """A frame of so many steps that takes so many seconds, at 60 frames a second."""
    watch.begin(frame)
    for k in range(steps):
        watch.on_step(SimpleNamespace(time=(frame - 1 + k / steps) / 60.0, frame=frame - 1))
        clock.now += seconds / steps
    watch.end()


def test_a_first_frame_of_hours_is_stopped_at_once(clock):
    said = []
    watch = FrameWatch(60.0, say=said.append)
    with pytest.raises(WeftError, match=r"frame 1 would take about 27 h 46 min .*--force"):
        go(watch, clock, 1e5, 100_000)
    assert clock.now < 30.0
    clock.now = 0.0
    go(FrameWatch(60.0, say=said.append, force=True), clock, 1e5, 1000)
    assert said == []


def test_a_long_frame_is_announced_once(clock):
    said = []
    go(FrameWatch(60.0, say=said.append), clock, 600.0, 100)
    assert said == ["frame 1 will take about 10 min 00 s"]


def test_a_frame_of_a_hundred_times_the_usual_is_stopped(clock):
    watch = FrameWatch(60.0, say=lambda _: None)
    for frame in range(1, 4):
        go(watch, clock, 2.0, 6, frame)
    go(watch, clock, 190.0, 6, 4)
    with pytest.raises(WeftError, match=r"frame 5 would take about .* instead of 2.00 s"):
        go(watch, clock, 500.0, 60, 5)


def test_compiling_in_the_first_step_does_not_count(clock):
    watch = FrameWatch(60.0, say=lambda _: None)
    watch.begin(1)
    watch.on_step(SimpleNamespace(time=0.0, frame=0))
    clock.now += 100.0
    for k in range(1, 1000):
        watch.on_step(SimpleNamespace(time=k / 60_000.0, frame=0))
        clock.now += 0.01


def test_every_method_is_watched(tmp_path):
    for method in ("robust", "untangle", "predictive", "boxes", "push", "plain"):
        calls = []
        scene = weft.Scene(frames=1, method=method, cloths=[weft.Cloth(name="a", shape=weft.Grid(cells=(2, 2)))])
        from weft.run.simulation import compile_scene

        world, solver = compile_scene(scene)
        world.on_step = lambda state, calls=calls: calls.append(state.time)
        solver.advance_frame(world.initial_state())
        assert calls and calls[0] == 0.0, method


def test_a_scene_that_does_not_fit_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(size, "machine_memory", lambda: 20_000)
    monkeypatch.setattr(size, "MESH_BYTES", 1)
    scene = weft.Scene(frames=1, method="plain", cloths=[weft.Cloth(name="a", shape=weft.Grid(cells=(2, 2)))])
    with pytest.raises(SceneError, match=r"its 9 vertices need about .* GB of memory, .*--force"):
        weft.simulate(scene, tmp_path / "a.zarr", progress=False)
    assert weft.simulate(scene, tmp_path / "a.zarr", progress=False, force=True).complete


def test_cloth_stretched_beyond_reason_is_not_ok(tmp_path):
    pins = [
        {"boundary": "left"},
        {
            "boundary": "right",
            "motion": {"kind": "path", "keyframes": [{"time": 0}, {"time": 0.1, "position": [50, 0, 0]}]},
        },
    ]
    cloth = weft.Cloth(name="a", shape=weft.Grid(cells=(2, 2)), pins=pins)
    cache = weft.simulate(weft.Scene(frames=6, method="plain", cloths=[cloth]), tmp_path / "a.zarr", progress=False)
    assert np.max(cache.report["stretch"]) > 10
    assert "times as long as at rest" in cache.report["status"][-1]
