"""Whole caches: in parallel, interrupted, continued, and by the command."""

import pickle
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from finish_scenes import draped, write_cache
from typer.testing import CliRunner

import weft
from weft.cache import open_cache
from weft.check import check_cache
from weft.cli.main import app
from weft.errors import CacheError, WeftError
from weft.finish import finish_frame, subdivide
from weft.finish.batch import start_of
from weft.finish.stop import NEAR
from weft.finish.workers import Plan
from weft.mesh import shapes


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A sheet that sinks a little onto a box, eight frames; smoothing alone would draw it into the box."""
    bodies, faces, x = draped(cells=10)
    x[: bodies[0].vertices.stop, 1] += 0.002
    frames = []
    for frame in range(8):
        y = x.copy()
        y[: bodies[0].vertices.stop, 1] -= 0.0002 * frame
        frames.append(y)
    uv = np.full((len(x), 2), np.nan)
    uv[bodies[0].vertices] = shapes.grid((1.0, 1.0), (10, 10)).uv
    return write_cache(tmp_path_factory.mktemp("caches") / "sheet.zarr", bodies, faces, frames, uv=uv)


@pytest.fixture(scope="module")
def finished(source, tmp_path_factory):
    out = tmp_path_factory.mktemp("finished") / "fine.zarr"
    return subdivide(source, out, levels=2, processes=1, compare=True)


def same(a, b):
    """The same frames, byte for byte, and the same report but for the time it took."""
    assert a.frames == b.frames
    for frame in range(a.frames):
        assert a.positions(frame).tobytes() == b.positions(frame).tobytes()
        assert a.velocities(frame).tobytes() == b.velocities(frame).tobytes()
        rows = [{k: v for k, v in c.row(frame).items() if k != "wall_time"} for c in (a, b)]
        assert rows[0] == rows[1]
    return True


def test_every_frame_is_finer_and_clean(source, finished):
    assert finished.frames == source.frames and finished.complete and finished.fps == source.fps
    assert [b.name for b in finished.bodies] == ["sheet", "box"]
    sheet = finished.bodies[0]
    assert sheet.faces.stop - sheet.faces.start == 16 * 200
    assert check_cache(finished).clean
    report = finished.report
    assert (report["intersections"] == 0).all()
    assert (report["stopped"] == report["stopped_1"] + report["stopped_2"]).all()
    assert report["stopped"].sum() > 0 and report["plain_intersections"].sum() > 0
    assert report["status"] == ["ok"] * 8
    np.testing.assert_allclose(report["time"], np.arange(8) / 30.0)
    assert np.isfinite(finished.uv[sheet.vertices]).all()
    # the sheet sinks at 6 mm/s, finer or not
    np.testing.assert_allclose(finished.velocities(3)[sheet.vertices][:, 1], -0.006, atol=1e-12)


def test_processes_give_the_same(source, finished, tmp_path):
    assert same(subdivide(source, tmp_path / "two.zarr", levels=2, processes=2, compare=True), finished)


def test_a_frame_by_itself(source, finished):
    """A plan and a number are all it takes, in any order; whoever has them gets the same bytes."""
    plan = Plan(source.path.absolute(), start_of(source), 2, NEAR, True, True, "cpu")
    for frame in (5, 0):
        result = finish_frame(pickle.loads(pickle.dumps(plan)), frame)
        assert result.positions.tobytes() == finished.positions(frame).tobytes()
        assert result.velocities.tobytes() == finished.velocities(frame).tobytes()
        known = finished.row(frame)
        assert all(known[name] == value for name, value in result.row.items() if name != "wall_time")


def test_another_run_at_the_same_place_is_seen(source, tmp_path):
    place = tmp_path / "again.zarr"
    for cells in (4, 6):
        bodies, faces, x = draped(cells=cells)
        cache = write_cache(place, bodies, faces, [x])
        fine = subdivide(cache, tmp_path / "fine.zarr", levels=1, processes=1, overwrite=True)
        assert fine.bodies[0].faces.stop == 4 * 2 * cells**2
        shutil.rmtree(place)


def test_a_growing_cache_is_continued(source, finished, tmp_path):
    out = tmp_path / "part.zarr"
    part = subdivide(source, out, frames=range(3), processes=1, compare=True)
    assert part.frames == 3
    told = []
    whole = subdivide(source, out, resume=True, processes=1, compare=True, progress=lambda *at: told.append(at))
    assert same(whole, finished)
    assert told == [(n, 8) for n in range(3, 9)]
    # once more: nothing is left to do
    assert same(subdivide(source, out, resume=True), finished)


def test_chosen_frames(source, finished, tmp_path):
    some = subdivide(source, tmp_path / "some.zarr", frames=[-1, 2], processes=1)
    assert some.frames == 2
    np.testing.assert_array_equal(some.positions(0), finished.positions(7))
    np.testing.assert_array_equal(some.positions(1), finished.positions(2))
    np.testing.assert_allclose(some.report["time"], [7 / 30, 2 / 30])
    # every third frame lasts three times as long
    third = subdivide(source, tmp_path / "third.zarr", frames=range(1, 8, 3), levels=1, processes=1)
    assert (third.frames, third.fps) == (3, 10.0)


def test_a_killed_run_goes_on(source, finished, tmp_path):
    out = tmp_path / "killed.zarr"
    command = [sys.executable, "-m", "weft", "subdivide", str(source.path), "-o", str(out), "-p", "2", "--compare"]
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    children = []
    try:
        deadline = time.monotonic() + 120.0
        while not (out.exists() and open_cache(out).frames > 1):
            assert time.monotonic() < deadline and run.poll() is None
            time.sleep(0.01)
        children = workers_of(run.pid)
    finally:
        run.send_signal(signal.SIGKILL)
        run.wait()
    # the processes end by themselves when nobody listens any more
    deadline = time.monotonic() + 60.0
    while any(Path(f"/proc/{pid}").exists() for pid in children):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert open_cache(out).frames > 1
    assert same(subdivide(source, out, resume=True, processes=1, compare=True), finished)


def workers_of(parent):
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def test_ctrl_c_keeps_what_is_finished(source, finished, tmp_path):
    out = tmp_path / "stopped.zarr"

    def stop(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match="keeps all frames up to it"):
        subdivide(source, out, processes=1, compare=True, progress=stop)
    assert open_cache(out).frames == 2
    assert same(subdivide(source, out, processes=1, compare=True, resume=True), finished)


def test_again_finer(finished, tmp_path):
    finest = subdivide(finished, tmp_path / "finest.zarr", levels=1, frames=[0], processes=1)
    assert finest.origin["finish"]["total"] == 3
    assert check_cache(finest).clean


def test_a_worker_that_fails_says_why(source, tmp_path):
    from weft.finish.workers import Worker

    worker = Worker(Plan(tmp_path / "nothing.zarr", "", 1, 1e-4, True, False, "cpu"), 1)
    try:
        with pytest.raises(WeftError, match=r"nothing.zarr does not exist"):
            worker.run(0)
    finally:
        worker.close()
    worker = Worker(Plan(source.path, "", 1, 1e-4, True, False, "cpu"), 1)
    try:
        with pytest.raises(WeftError, match="has no frame 99"):
            worker.run(99)
        worker._process.kill()
        with pytest.raises(WeftError, match="ended early: it was killed"):
            worker.run(0)
    finally:
        worker.close()


def test_mistakes(source, finished, tmp_path):
    with pytest.raises(CacheError, match="choose one of them"):
        subdivide(source, tmp_path / "a.zarr", resume=True, overwrite=True)
    with pytest.raises(CacheError, match="is the cache that is to be subdivided"):
        subdivide(source, source.path)
    with pytest.raises(CacheError, match="has no frame 12: it has frames 0 to 7"):
        subdivide(source, tmp_path / "a.zarr", frames=[12])
    with pytest.raises(WeftError, match="no frames left in this choice"):
        subdivide(source, tmp_path / "a.zarr", frames=[])
    with pytest.raises(WeftError, match="processes must be at least 1"):
        subdivide(source, tmp_path / "a.zarr", processes=0)
    with pytest.raises(CacheError, match="exists already"):
        subdivide(source, finished.path)
    with pytest.raises(CacheError, match=r"cannot be continued: levels was 2, is 1\."):
        subdivide(source, finished.path, levels=1, resume=True)
    with pytest.raises(CacheError, match=r"cannot be continued: near was 0\.0001, is 1e-05"):
        subdivide(source, finished.path, near=1e-5, resume=True)
    with pytest.raises(CacheError, match="was not made by subdivision"):
        subdivide(finished, source.path, resume=True)
    assert not (tmp_path / "a.zarr").exists()


def test_the_command(source, tmp_path):
    out = tmp_path / "fine.zarr"
    options = ["-o", str(out), "--levels", "1", "-p", "1", "--frames", "2:4", "--compare"]
    result = CliRunner().invoke(app, ["subdivide", str(source.path), *options])
    assert result.exit_code == 0, result.output
    assert "2 frames with 441 vertices of cloth" in result.output
    assert "vertices were stopped before a collision" in result.output
    assert "Loop subdivision alone makes" in result.output
    assert "no intersections (2 frames checked)" in result.output
    # twice: one line, no traceback
    result = CliRunner().invoke(app, ["subdivide", str(source.path), *options])
    assert result.exit_code == 1
    assert "exists already" in result.stderr and len(result.stderr.strip().splitlines()) == 1


def test_sewn_cloths_are_clean_along_their_seam(tmp_path):
    """A seam of a scene: its triangles may touch, at every level, and `weft check` knows it."""
    left = weft.Cloth(name="left", shape=weft.Grid(size=(0.5, 0.5), cells=(5, 5)))
    right = left.model_copy(update={"name": "right", "placement": weft.Placement(position=(0.5, 0.0, 0.0))})
    seam = weft.Seam(cloth="left", to="right", vertices=[(6 * j + 5, 6 * j, 6 * j) for j in range(6)])
    scene = weft.Scene(name="sewn", cloths=[left, right], seams=[seam], frames=2, method="plain")
    cache = weft.simulate(scene, tmp_path / "sewn.zarr", progress=False)
    fine = subdivide(cache, tmp_path / "fine.zarr", levels=2, processes=1)
    assert (fine.report["intersections"] == 0).all()
    assert check_cache(fine).clean
    assert not check_cache(fine, seams=False).clean


def test_bounded_weights(source, finished, tmp_path):
    """As clean as with Loop's own weights, and another surface; a cache of other weights is not continued."""
    fine = subdivide(source, tmp_path / "bounded.zarr", levels=2, weights="bounded", processes=1, frames=[0, 1])
    assert check_cache(fine).clean and (fine.report["intersections"] == 0).all()
    assert not np.array_equal(fine.positions(0), finished.positions(0))
    with pytest.raises(CacheError, match="weights was bounded, is loop"):
        subdivide(source, fine.path, levels=2, resume=True)
    result = CliRunner().invoke(
        app, ["subdivide", str(source.path), "-o", str(tmp_path / "a.zarr"), "-p", "1", "--weights", "butterfly"]
    )
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1 and "weights must be one of loop, bounded" in result.stderr
