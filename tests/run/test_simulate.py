"""The loop over frames: what it keeps, what it refuses, how it stops and goes on."""

import errno
import json
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from fake_world import content, fake_compile, fake_scene, files
from glb_writer import GlbWriter

import weft
from weft.cache import CacheWriter, layout, open_cache
from weft.errors import CacheError, SceneError, WeftError
from weft.mesh import shapes
from weft.run import Interrupted, crossing_guard, simulate, simulation
from weft.run.origin import differences


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr(simulation, "compile_scene", fake_compile)


def run(out: Path, frames: int = 4, *, changes: dict | None = None, **options):
    return simulate(fake_scene(frames, **(changes or {})), out, progress=False, **options)


def test_frames_and_report(tmp_path):
    seen = []
    cache = run(tmp_path / "a.zarr", 4, on_frame=lambda frame, row: seen.append((frame, row["contacts"])))
    assert cache.frames == cache.planned == 5 and cache.complete and cache.fps == 60
    assert seen == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]
    # frame 0 is the initial state
    start = fake_compile(fake_scene())[0].initial_state()
    assert cache.positions(0).tobytes() == start.positions().tobytes()
    report = cache.report
    assert report.columns == [
        "frame", "time", "wall_time", "steps", "contacts", "collisions", "zones", "stretch", "stretch_99",
        "intersections", "status",
        "extra",
    ]  # fmt: skip
    assert list(report["intersections"]) == [-1] * 5
    assert report["status"][:3] == ["ok", "ok", "zone 3 gave up"]
    assert (report["wall_time"] >= 0).all()
    assert [b.name for b in cache.bodies] == ["sheet", "rock"]
    assert cache.scene == fake_scene(4)


def test_two_runs_are_equal(tmp_path):
    assert content(run(tmp_path / "a.zarr")) == content(run(tmp_path / "b.zarr"))
    assert content(run(tmp_path / "a.zarr", overwrite=True)) == content(open_cache(tmp_path / "b.zarr"))


@pytest.mark.parametrize("stop", range(5))
def test_resumed_run_is_the_uninterrupted_one(tmp_path, stop):
    whole = run(tmp_path / "whole.zarr")

    class Stopped(Exception):
        pass

    def at(frame: int, row: object) -> None:
        if frame == stop:
            raise Stopped

    with pytest.raises(Stopped):
        run(tmp_path / "part.zarr", on_frame=at)
    assert open_cache(tmp_path / "part.zarr").frames == stop + 1
    part = run(tmp_path / "part.zarr", resume=True)
    assert content(part) == content(whole)
    # the data files are the same to the byte as well; markers hold wall times
    same = {name: data for name, data in files(part.path).items() if "weft/frames" not in name}
    assert same == {name: data for name, data in files(whole.path).items() if "weft/frames" not in name}


def test_resume_of_what_is_not_there_starts(tmp_path):
    assert run(tmp_path / "a.zarr", resume=True).frames == 5


def test_resume_of_what_is_complete_changes_nothing(tmp_path):
    cache = run(tmp_path / "a.zarr")
    before = files(cache.path)
    assert run(cache.path, resume=True).frames == 5
    assert files(cache.path) == before


def test_longer_and_shorter(tmp_path):
    whole = run(tmp_path / "whole.zarr", 6)
    run(tmp_path / "a.zarr", 2)
    longer = run(tmp_path / "a.zarr", 6, resume=True)
    assert content(longer) == content(whole) and longer.scene.frames == 6
    shorter = run(tmp_path / "a.zarr", 3, resume=True)
    assert content(shorter) == content(whole) and shorter.complete


def test_frames_argument(tmp_path):
    cache = simulate(fake_scene(4), tmp_path / "a.zarr", frames=2, progress=False)
    assert cache.frames == 3 and cache.scene.frames == 2
    with pytest.raises(SceneError, match="frames"):
        simulate(fake_scene(4), tmp_path / "b.zarr", frames=0, progress=False)
    assert not (tmp_path / "b.zarr").exists()


def test_what_is_there_is_not_replaced_unless_asked(tmp_path):
    run(tmp_path / "a.zarr")
    before = files(tmp_path)
    with pytest.raises(CacheError, match="exists already, with 5 of 5 frames"):
        run(tmp_path / "a.zarr", 2)
    with pytest.raises(CacheError, match="choose one of them"):
        run(tmp_path / "a.zarr", resume=True, overwrite=True)
    assert files(tmp_path) == before
    assert run(tmp_path / "a.zarr", 2, overwrite=True).frames == 3


def test_bad_scene_does_not_cost_the_old_cache(tmp_path, monkeypatch):
    run(tmp_path / "a.zarr")
    before = files(tmp_path)

    def refuse(scene: weft.Scene) -> None:
        raise WeftError("no")

    monkeypatch.setattr(simulation, "compile_scene", refuse)
    with pytest.raises(WeftError, match="no"):
        run(tmp_path / "a.zarr", overwrite=True)
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"fps": 30}, r"fps was 60\.0, is 30\.0"),
        ({"seed": 5}, "seed was 0, is 5"),
        ({"forces": {"gravity": [0, -1, 0]}}, r"forces\.gravity was \[0\.0, -9\.81, 0\.0\], is \[0\.0, -1\.0, 0\.0\]"),
        ({"thickness": 0.002}, r"thickness was 0\.001, is 0\.002"),
        ({"colliders": [weft.Collider(shape=weft.Sphere())]}, r"colliders was \[\], is a list of 1"),
    ],
)
def test_cache_of_another_scene(tmp_path, changes, said):
    run(tmp_path / "a.zarr")
    before = files(tmp_path)
    with pytest.raises(CacheError, match=f"comes from another scene and cannot be continued.*{said}"):
        run(tmp_path / "a.zarr", 8, resume=True, changes=changes)
    assert files(tmp_path) == before


def test_what_is_not_physics_may_change(tmp_path):
    run(tmp_path / "a.zarr", 2)
    cloth = weft.Cloth(name="sheet", shape=weft.Grid(cells=(1, 1)), colour="#112233")
    changes = {"camera": {"fov_deg": 20}, "cloths": [cloth]}
    assert content(run(tmp_path / "a.zarr", resume=True, changes=changes)) == content(run(tmp_path / "b.zarr"))


def test_changed_file_is_another_scene(tmp_path):
    mesh = tmp_path / "cloth.obj"
    mesh.write_text("v 0 0 0\nv 1 0 0\nv 0 0 1\nf 1 2 3\n")
    changes = {"cloths": [weft.Cloth(name="sheet", mesh=str(mesh))]}
    run(tmp_path / "a.zarr", 2, changes=changes)
    run(tmp_path / "a.zarr", 3, resume=True, changes=changes)
    mesh.write_text("v 0 0 0\nv 2 0 0\nv 0 0 1\nf 1 2 3\n")
    with pytest.raises(CacheError, match=r"the file .*cloth\.obj has changed"):
        run(tmp_path / "a.zarr", 4, resume=True, changes=changes)


def test_changed_files_that_a_mesh_file_names_are_another_scene(tmp_path):
    box = shapes.box()
    glb = GlbWriter()
    glb.animate(glb.node(mesh=glb.mesh(box.vertices, box.faces)), "translation", [0.0, 1.0], np.zeros((2, 3)))
    glb.save_text(tmp_path / "box.gltf")
    moving = weft.Collider(mesh=str(tmp_path / "box.gltf"), motion=weft.Sequence(file=str(tmp_path / "box.gltf")))
    changes = {"colliders": [moving]}
    run(tmp_path / "a.zarr", 2, changes=changes)
    run(tmp_path / "a.zarr", 3, resume=True, changes=changes)
    data = tmp_path / "the buffer.bin"
    data.write_bytes(data.read_bytes()[:-4] + np.array([0.25], "<f4").tobytes())
    with pytest.raises(CacheError, match=r"the file .*box\.gltf has changed"):
        run(tmp_path / "a.zarr", 4, resume=True, changes=changes)


def test_changed_layers_of_a_stage_are_another_scene(tmp_path):
    pytest.importorskip("pxr")
    (tmp_path / "a.usda").write_text("#usda 1.0\n(\n    subLayers = [@./b.usda@]\n    metersPerUnit = 1\n)\n")
    text = """#usda 1.0
def Mesh "m" {
    int[] faceVertexCounts = [3]
    int[] faceVertexIndices = [0, 1, 2]
    point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0)]
}
"""
    (tmp_path / "b.usda").write_text(text)
    changes = {"colliders": [weft.Collider(mesh=str(tmp_path / "a.usda"))]}
    run(tmp_path / "a.zarr", 2, changes=changes)
    run(tmp_path / "a.zarr", 3, resume=True, changes=changes)
    (tmp_path / "b.usda").write_text(text.replace("(1, 0, 0)", "(2, 0, 0.0)"))
    with pytest.raises(CacheError, match=r"the file .*a\.usda has changed"):
        run(tmp_path / "a.zarr", 4, resume=True, changes=changes)


def test_saved_arrays_that_do_not_fit_the_method(tmp_path):
    run(tmp_path / "a.zarr", 2)
    marker = layout.marker_path(tmp_path / "a.zarr", 2)
    content = json.loads(marker.read_text())["content"]
    del content["row"]["time"]
    marker.write_text(json.dumps(layout.seal(content)))
    with pytest.raises(CacheError, match="what it keeps of frame 2 does not fit the method"):
        run(tmp_path / "a.zarr", 4, resume=True)


def test_differences_of_geometry_and_device():
    one = {"physics": "{}", "geometry": "a", "files": {}, "device": "cpu"}
    assert differences(one, one) == []
    assert differences(one, {**one, "geometry": "b"}) == ["the meshes are not the same"]
    with_method = [{**one, "physics": json.dumps({"method": {"name": name, "n": 1}})} for name in ("a", "b")]
    assert differences(*with_method) == ['method.name was "a", is "b"']
    [device] = differences(one, {**one, "device": "cuda"})
    assert "device was cpu, is cuda" in device


@pytest.mark.parametrize(("value", "shown"), [(np.nan, "nan"), (-np.inf, "-inf"), (1e12, r"1e\+12")])
def test_numbers_that_run_away_stop_the_run_with_the_vertex(tmp_path, monkeypatch, value, shown):
    def compile_exploding(scene: weft.Scene) -> tuple:
        world, method = fake_compile(scene)
        method.explode_at, method.explode_to = 3, value
        return world, method

    monkeypatch.setattr(simulation, "compile_scene", compile_exploding)
    message = rf"frame 3: the position of vertex 1 of collider 'rock' is \(.*, {shown}, .*frames 0 to 2 are kept"
    with pytest.raises(WeftError, match=message):
        run(tmp_path / "a.zarr")
    assert open_cache(tmp_path / "a.zarr").frames == 3 and open_cache(tmp_path / "a.zarr").verify() == []


@pytest.fixture
def ctrl_c():
    """Ctrl-C is heard, also where the tests run in the background, to whom shells give deaf ears."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_stops_at_a_frame(tmp_path):
    def press(frame: int, row: object) -> None:
        if frame == 2:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(Interrupted, match=r"stopped after frame 2 of 4; .*a\.zarr keeps .* resume=True"):
        run(tmp_path / "a.zarr", on_frame=press)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert open_cache(tmp_path / "a.zarr").writer is None
    assert content(run(tmp_path / "a.zarr", resume=True)) == content(run(tmp_path / "b.zarr"))


@pytest.mark.skipif(os.name == "nt", reason="signals")
@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_within_a_frame(tmp_path, monkeypatch):
    # once: the frame is completed; twice: it is given up at once
    def pressing(times: int):
        def compile_pressed(scene: weft.Scene) -> tuple:
            world, method = fake_compile(scene)
            advance = method.advance_frame

            def press(state, after_step):
                row = advance(state, after_step)
                if state.frame == 2:
                    for _ in range(times):
                        os.kill(os.getpid(), signal.SIGINT)
                return row

            method.advance_frame = press
            return world, method

        return compile_pressed

    for times, frames in ((1, 3), (2, 2)):
        monkeypatch.setattr(simulation, "compile_scene", pressing(times))
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / f"{times}.zarr")
        assert open_cache(tmp_path / f"{times}.zarr").frames == frames


def test_runs_in_a_thread(tmp_path):
    # only the main thread may handle signals
    done = []
    thread = threading.Thread(target=lambda: done.append(run(tmp_path / "a.zarr").frames))
    thread.start()
    thread.join()
    assert done == [5]


def test_two_runs_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.cache.lock._PATIENCE", 0.0)

    def again(frame: int, row: object) -> None:
        for options in ({"resume": True}, {"overwrite": True}):
            with pytest.raises(CacheError, match=f"is being written by process {os.getpid()}"):
                run(tmp_path / "a.zarr", **options)

    assert content(run(tmp_path / "a.zarr", on_frame=again)) == content(run(tmp_path / "b.zarr"))


def test_read_while_it_runs(tmp_path):
    reference = run(tmp_path / "b.zarr")

    def read(frame: int, row: object) -> None:
        cache = open_cache(tmp_path / "a.zarr")
        assert cache.frames == frame + 1 and cache.complete == (frame == 4)
        assert cache.positions(frame).tobytes() == reference.positions(frame).tobytes()
        assert cache.report.frames == frame + 1

    run(tmp_path / "a.zarr", on_frame=read)


def test_damaged_last_frame_is_computed_again(tmp_path, capsys):
    whole = run(tmp_path / "b.zarr")
    cache = run(tmp_path / "a.zarr", 3)
    path = layout.chunk_path(cache.path, "velocities", 3)
    path.write_bytes(path.read_bytes()[:-1])
    again = simulate(fake_scene(4), cache.path, resume=True)
    assert content(again) == content(whole)
    assert "frame 3 of" in capsys.readouterr().err


def test_full_disk(tmp_path, monkeypatch):
    reference = run(tmp_path / "b.zarr")
    write = CacheWriter.append.__globals__["layout"].write_atomic

    def full(path: Path, *arguments):
        if path.name == "00000003.npz":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        write(path, *arguments)

    monkeypatch.setattr(layout, "write_atomic", full)
    with pytest.raises(CacheError, match=r"frame 3 of .* no space left on device .*Frames 0 to 2 are intact"):
        run(tmp_path / "a.zarr")
    cache = open_cache(tmp_path / "a.zarr")
    assert cache.frames == 3 and cache.verify() == []
    assert not layout.chunk_path(cache.path, "positions", 3).exists()
    monkeypatch.setattr(layout, "write_atomic", write)
    assert content(run(tmp_path / "a.zarr", resume=True)) == content(reference)


def test_progress_and_summary(tmp_path, capsys):
    simulate(fake_scene(4), tmp_path / "a b.zarr")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{tmp_path}/a b.zarr: 5 frames, 5 computed now in ") and "median" in lines[0]
    assert lines[1] == (
        "not ok: 2 frames with a status, first frame 2: zone 3 gave up; intersections were not counted; "
        "stretch 0.0 % at the 99th percentile, worst edge 4.0 % (frame 4)"
    )
    assert lines[2] == f"look at it:  weft view '{tmp_path}/a b.zarr'"
    run(tmp_path / "b.zarr")
    assert capsys.readouterr() == ("", "")


def test_intersections_are_counted_when_asked(tmp_path, monkeypatch):
    class Guard:
        def find(self, x: object) -> np.ndarray:
            return np.zeros((2, 3))

    monkeypatch.setattr(crossing_guard, "CrossingGuard", lambda world: Guard())
    scene = fake_scene(5).replace(check=2)
    cache = simulate(scene, tmp_path / "a.zarr", progress=False)
    assert list(cache.report["intersections"]) == [2, -1, 2, -1, 2, -1]


@pytest.mark.parametrize(
    ("error", "asked"),
    [(RuntimeError("Failed to allocate 3400000000 bytes on device 'cuda:0'"), " for 3.4 GB more"), (MemoryError(), "")],
)
def test_out_of_memory_is_one_line_and_the_frames_stand(tmp_path, monkeypatch, error, asked):
    def compile_small(scene):
        world, method = fake_compile(scene)
        advance = method.advance_frame

        def advance_frame(state, after_step):
            if state.frame == 2:
                raise error
            return advance(state, after_step)

        method.advance_frame = advance_frame
        return world, method

    monkeypatch.setattr(simulation, "compile_scene", compile_small)
    out = tmp_path / "a.zarr"
    with pytest.raises(WeftError) as raised:
        run(out)
    message = str(raised.value)
    assert message.startswith(
        f"frame 3: the memory of device 'cpu' is too small{asked}; frames 0 to 2 are kept in {out}"
    )
    assert "\n" not in message and open_cache(out).frames == 3
    # with more memory it goes on
    monkeypatch.setattr(simulation, "compile_scene", fake_compile)
    assert content(run(out, resume=True)) == content(run(tmp_path / "whole.zarr"))


def test_out_of_memory_before_the_first_frame(tmp_path, monkeypatch):
    def compile_none(scene):
        raise RuntimeError("Failed to allocate 1000000000 bytes on device 'cuda:0'")

    monkeypatch.setattr(simulation, "compile_scene", compile_none)
    with pytest.raises(
        WeftError, match="frame 0: the memory of device 'cpu' is too small for 1 GB more; there is no frame"
    ):
        run(tmp_path / "a.zarr")


def test_other_errors_stay_what_they_are(tmp_path, monkeypatch):
    def compile_broken(scene):
        raise RuntimeError("something else")

    monkeypatch.setattr(simulation, "compile_scene", compile_broken)
    with pytest.raises(RuntimeError, match="something else"):
        run(tmp_path / "a.zarr")


def test_without_an_output_the_cache_has_the_name_of_the_scene(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scene = fake_scene().replace(name="napkin", frames=1)
    assert len(weft.simulate(scene, progress=False)) == 2
    weft.save_scene(scene, "of_a_file.toml")
    weft.simulate("of_a_file.toml", progress=False)
    assert sorted(p.name for p in tmp_path.glob("*.zarr")) == ["napkin.zarr", "of_a_file.zarr"]
    with pytest.raises(SceneError, match="not a dict"):
        weft.simulate({"frames": 1})
