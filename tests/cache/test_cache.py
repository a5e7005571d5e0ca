"""Frames go in and come out bit for bit, and faults are sentences that leave the other frames alone."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import zarr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from weft.cache import Body, Cache, CacheWriter, Report, layout, open_cache
from weft.errors import CacheError

FACES = np.array([[0, 1, 2], [2, 1, 3], [4, 5, 6]])
BODIES = [Body("sheet", "cloth", slice(0, 4), slice(0, 2)), Body("rock", "collider", slice(4, 7), slice(2, 3))]


def create(path: Path, frames: int = 5, **options) -> CacheWriter:
    return CacheWriter.create(path, frames=frames, faces=FACES, bodies=BODIES, fps=30, **options)


def values(frame: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng((seed, frame))
    return random.normal(size=(7, 3)), random.normal(size=(7, 3))


def row(frame: int) -> dict:
    return {"frame": frame, "time": frame / 30, "steps": np.int64(4), "stretch": np.float64(0.1), "status": "ok"}


def fill(path: Path, frames: int = 5, count: int | None = None) -> Cache:
    """A cache planned for `frames`, with `count` of them written."""
    with create(path, frames) as writer:
        for frame in range(frames if count is None else count):
            writer.append(*values(frame), row(frame), {"counter": np.array([frame])})
    return open_cache(path)


def flip(path: Path, place: int = -3) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(bytes(data))


def test_round_trip(tmp_path):
    uv = np.full((7, 2), np.nan)
    uv[:4] = [[0, 0], [1, 0], [0, 1], [1, 1]]
    with create(tmp_path / "a.zarr", uv=uv, origin={"digest": "d"}) as writer:
        for frame in range(5):
            assert writer.append(*values(frame), row(frame), {"list": np.arange(frame)}) == frame
    cache = open_cache(str(tmp_path / "a.zarr"))
    assert (cache.frames, cache.planned, cache.complete, cache.fps) == (5, 5, True, 30.0)
    assert cache.bodies == BODIES and cache.origin == {"digest": "d"}
    assert cache.faces.dtype == np.int32 and np.array_equal(cache.faces, FACES)
    np.testing.assert_array_equal(cache.uv, uv)
    for frame in range(5):
        x, v = values(frame)
        assert cache.positions(frame).dtype == np.float64
        assert cache.positions(frame).tobytes() == x.tobytes()
        assert cache.velocities(frame).tobytes() == v.tobytes()
    assert cache.positions(-1).tobytes() == values(4)[0].tobytes()
    assert cache.verify() == []


def test_what_a_method_notes_of_a_frame_comes_back(tmp_path):
    with create(tmp_path / "a.zarr") as writer:
        writer.append(*values(0), row(0))
        writer.append(*values(1), row(1), noted={"released": np.array([(0, 1, 2)]), "other": np.zeros((0, 3))})
        writer.append(*values(2), row(2), noted={"released": [(0, 10**6, 0)]})
    cache = open_cache(tmp_path / "a.zarr")
    assert cache.noted(0) == {}
    assert cache.noted(1)["released"].tolist() == [[0, 1, 2]] and cache.noted(1)["other"].shape == (0, 3)
    with pytest.raises(CacheError, match=r"frame 2 .* damaged: what was noted"):
        cache.noted(2)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    hnp.arrays(np.float64, (7, 3), elements=st.floats(allow_nan=False, allow_infinity=False)),
    hnp.arrays(hnp.scalar_dtypes(), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)),
)
def test_any_bits_come_back(tmp_path, x, kept):
    path = tmp_path / "a.zarr"
    with create(path, 1, overwrite=True) as writer:
        writer.append(x, -x, {"time": 0.1 + 0.2}, {"file": kept})
    cache = open_cache(path)
    assert cache.positions(0).tobytes() == x.tobytes()
    assert cache.velocities(0).tobytes() == (-x).tobytes()
    assert cache.saved(0)["file"].tobytes() == kept.tobytes() and cache.saved(0)["file"].dtype == kept.dtype
    assert cache.row(0)["time"] == 0.1 + 0.2


def test_zeros_are_written(tmp_path):
    # a chunk that equals the fill value must be stored like any other
    with create(tmp_path / "a.zarr", 1) as writer:
        writer.append(np.zeros((7, 3)), np.zeros((7, 3)), row(0))
    assert not open_cache(tmp_path / "a.zarr").positions(0).any()


def test_other_programs_can_read_it(tmp_path):
    fill(tmp_path / "a.zarr", 4, count=2)
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert group["positions"].chunks == (1, 7, 3)
    np.testing.assert_array_equal(group["positions"][1], values(1)[0])
    assert np.isnan(group["positions"][2]).all()
    codecs = json.loads((tmp_path / "a.zarr/positions/zarr.json").read_text())["codecs"]
    assert [codec["name"] for codec in codecs] == ["bytes", "blosc", "crc32c"]


def test_report(tmp_path):
    cache = fill(tmp_path / "a.zarr", 4, count=3)
    report = cache.report
    assert report.columns == ["frame", "time", "steps", "stretch", "status"] and report.frames == 3
    np.testing.assert_array_equal(report["frame"], [0, 1, 2])
    assert report["steps"].dtype == np.int64 and report["stretch"].dtype == np.float64
    assert report["status"] == ["ok"] * 3
    assert report.rows()[2]["time"] == 2 / 30
    text = report.to_csv(tmp_path / "r.csv")
    assert (tmp_path / "r.csv").read_text() == text
    assert text.splitlines()[0] == "frame,time,steps,stretch,status" and len(text.splitlines()) == 4
    with pytest.raises(KeyError, match="no column 'speed'"):
        report["speed"]


def test_report_columns_may_differ_between_frames(tmp_path):
    with create(tmp_path / "a.zarr", 2) as writer:
        writer.append(*values(0), {"frame": 0, "status": "ok"})
        writer.append(*values(1), {"frame": 1, "status": 'two, "words"', "paths": 3})
    report = open_cache(tmp_path / "a.zarr").report
    assert report.rows()[0]["paths"] is None and np.isnan(report["paths"][0]) and report["paths"][1] == 3
    assert '"two, ""words"""' in report.to_csv()


def test_empty_report(tmp_path):
    create(tmp_path / "a.zarr").close()
    report = open_cache(tmp_path / "a.zarr").report
    assert report.frames == 0 and report.rows() == [] and list(report) == []


def test_readable_while_written(tmp_path):
    with create(tmp_path / "a.zarr", 3) as writer:
        cache = open_cache(tmp_path / "a.zarr")
        for frame in range(3):
            assert cache.frames == frame and not cache.complete
            assert cache.report.frames == frame
            assert f"process {os.getpid()}" == cache.writer
            with pytest.raises(CacheError, match=f"no frame {frame}"):
                cache.positions(frame)
            writer.append(*values(frame), row(frame))
            assert cache.positions(frame).tobytes() == values(frame)[0].tobytes()
    assert cache.complete and cache.writer is None


def test_frame_without_marker_is_not_seen(tmp_path):
    cache = fill(tmp_path / "a.zarr", 3)
    layout.marker_path(cache.path, 1).unlink()
    assert cache.frames == 1
    with pytest.raises(CacheError, match="no frame 2: it has frames 0 to 0"):
        cache.positions(2)


def test_saved_is_kept_for_the_last_frames_only(tmp_path):
    cache = fill(tmp_path / "a.zarr", 5)
    assert len(list((cache.path / "weft/saved").iterdir())) == 2
    assert cache.saved(4)["counter"] == [4] and cache.saved(3)["counter"] == [3]
    with pytest.raises(CacheError, match="after frame 2"):
        cache.saved(2)


@pytest.mark.parametrize("name", ["positions", "velocities"])
@pytest.mark.parametrize("place", [0, 20, -1])
def test_damaged_chunk(tmp_path, name, place):
    cache = fill(tmp_path / "a.zarr")
    flip(layout.chunk_path(cache.path, name, 2), place)
    with pytest.raises(CacheError, match=rf"frame 2 of .*a\.zarr is damaged: .*{name}/c\.2\.0\.0 cannot be read"):
        getattr(cache, name)(2)
    for frame in (0, 1, 3, 4):
        assert cache.positions(frame).tobytes() == values(frame)[0].tobytes()
    [problem] = cache.verify()
    assert "frame 2" in problem


def test_truncated_empty_and_missing_chunk(tmp_path):
    cache = fill(tmp_path / "a.zarr")
    path = layout.chunk_path(cache.path, "positions", 1)
    for content in (path.read_bytes()[:-5], b""):
        path.write_bytes(content)
        with pytest.raises(CacheError, match=r"frame 1 of .* cannot be read"):
            cache.positions(1)
    path.unlink()
    with pytest.raises(CacheError, match=r"frame 1 of .* is damaged: .*c\.1\.0\.0 is missing"):
        cache.positions(1)


def test_damaged_marker(tmp_path):
    cache = fill(tmp_path / "a.zarr")
    path = layout.marker_path(cache.path, 1)
    text = path.read_text()
    assert '"steps": 4' in text
    path.write_text(text.replace('"steps": 4', '"steps": 5'))
    with pytest.raises(CacheError, match=r"00000001\.json is damaged"):
        _ = cache.report
    path.write_text(text[:-10])
    with pytest.raises(CacheError, match=r"00000001\.json is damaged"):
        cache.row(1)
    assert cache.positions(1).tobytes() == values(1)[0].tobytes()


@pytest.mark.parametrize("name", ["faces", "uv"])
def test_damaged_faces_and_uv(tmp_path, name):
    create(tmp_path / "a.zarr", uv=np.zeros((7, 2))).close()
    flip(tmp_path / "a.zarr" / name / "c.0.0")
    with pytest.raises(CacheError, match=f"a.zarr/{name} is damaged"):
        getattr(open_cache(tmp_path / "a.zarr"), name)
    (tmp_path / "a.zarr" / name / "c.0.0").unlink()
    with pytest.raises(CacheError, match=f"a.zarr/{name} is damaged: its data file is missing"):
        getattr(open_cache(tmp_path / "a.zarr"), name)


def test_damaged_metadata(tmp_path):
    cache = fill(tmp_path / "a.zarr")
    meta, text = cache.path / "zarr.json", (cache.path / "zarr.json").read_text()
    meta.write_text(text.replace('"fps": 30.0', '"fps": 31.0'))
    with pytest.raises(CacheError, match=r"a\.zarr/zarr\.json is damaged"):
        open_cache(cache.path)
    meta.write_text(text[:100])
    with pytest.raises(CacheError, match="not JSON"):
        open_cache(cache.path)
    meta.write_text('{"zarr_format": 3, "node_type": "group"}')
    with pytest.raises(CacheError, match="is not a weft cache"):
        open_cache(cache.path)
    meta.unlink()
    with pytest.raises(CacheError, match=r"zarr\.json is missing"):
        open_cache(cache.path)


def test_missing_array_metadata(tmp_path):
    cache = fill(tmp_path / "a.zarr")
    (cache.path / "positions/zarr.json").unlink()
    with pytest.raises(CacheError, match=r"positions/zarr\.json is missing"):
        open_cache(cache.path).positions(0)
    with pytest.raises(CacheError, match=r"positions/zarr\.json is missing"):
        CacheWriter.resume(cache.path)
    (cache.path / "positions/zarr.json").write_text("{}")
    with pytest.raises(CacheError, match=r"positions/zarr\.json is damaged"):
        open_cache(cache.path).positions(0)


def test_newer_format(tmp_path):
    cache = fill(tmp_path / "a.zarr")
    layout.write_meta(cache.path, {**cache.meta, "format": 99})
    with pytest.raises(CacheError, match="cache format 99; this weft reads format 1"):
        open_cache(cache.path)


def test_not_a_cache(tmp_path):
    with pytest.raises(CacheError, match="does not exist"):
        open_cache(tmp_path / "none.zarr")
    (tmp_path / "file.zarr").write_text("")
    with pytest.raises(CacheError, match="is a file"):
        open_cache(tmp_path / "file.zarr")
    with pytest.raises(CacheError, match="is not a weft cache"):
        open_cache(tmp_path)


def test_nothing_is_overwritten_without_a_word(tmp_path):
    path = tmp_path / "a.zarr"
    fill(path, 5, count=3)
    with pytest.raises(CacheError, match="exists already, with 3 of 5 frames"):
        create(path)
    assert open_cache(path).frames == 3
    create(path, 2, overwrite=True).close()
    assert open_cache(path).frames == 0 and open_cache(path).planned == 2
    assert [p.name for p in tmp_path.iterdir()] == ["a.zarr"]


def test_what_is_not_a_cache_is_never_removed(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/only-copy.txt").write_text("words")
    (tmp_path / "thesis/zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
    for place in (tmp_path / "thesis", tmp_path / "thesis/only-copy.txt"):
        with pytest.raises(CacheError, match="left alone"):
            create(place, overwrite=True)
    assert (tmp_path / "thesis/only-copy.txt").read_text() == "words"


def test_empty_folder_and_missing_parents_are_fine(tmp_path):
    (tmp_path / "empty.zarr").mkdir()
    create(tmp_path / "empty.zarr").close()
    create(tmp_path / "some/where/a.zarr").close()
    assert open_cache(tmp_path / "some/where/a.zarr").frames == 0


def test_damaged_cache_can_be_overwritten(tmp_path):
    cache = fill(tmp_path / "a.zarr")
    (cache.path / "zarr.json").write_text("{")
    with pytest.raises(CacheError, match="left alone"):
        create(cache.path)
    create(cache.path, overwrite=True).close()
    assert open_cache(cache.path).frames == 0


def test_second_writer_is_refused(tmp_path):
    with create(tmp_path / "a.zarr") as writer:
        writer.append(*values(0), row(0))
        for attempt in (
            lambda: CacheWriter.resume(tmp_path / "a.zarr"),
            lambda: create(tmp_path / "a.zarr", overwrite=True),
        ):
            with pytest.raises(CacheError, match=f"is being written by process {os.getpid()}"):
                attempt()
        writer.append(*values(1), row(1))
    with CacheWriter.resume(tmp_path / "a.zarr") as writer:
        assert writer.frames == 2


def test_lock_of_a_dead_process_does_not_bind(tmp_path):
    # a process that holds the lock and is killed: alive it binds, dead it does not, whatever the file says
    fill(tmp_path / "a.zarr", 5, count=2)
    code = (
        "import sys, time\nfrom weft.cache import CacheWriter\n"
        f"writer = CacheWriter.resume({str(tmp_path / 'a.zarr')!r})\nprint('held', flush=True)\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == "held\n"
            with pytest.raises(CacheError, match=f"is being written by process {process.pid}"):
                CacheWriter.resume(tmp_path / "a.zarr")
            assert open_cache(tmp_path / "a.zarr").frames == 2
        finally:
            process.kill()
    assert layout.lock_path(tmp_path / "a.zarr").read_text().startswith(str(process.pid))
    with CacheWriter.resume(tmp_path / "a.zarr") as writer:
        writer.append(*values(2), row(2))


def test_locks_on_a_system_without_them(tmp_path, monkeypatch):
    # then the process that the file names decides
    def unsupported(handle: int) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr("weft.cache.lock._take", unsupported)
    path = tmp_path / "a.zarr"
    with create(path), pytest.raises(CacheError, match="is being written by process"):
        CacheWriter.resume(path)
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    layout.lock_path(path).write_text(f"{child.pid} {os.uname().nodename}\n")
    CacheWriter.resume(path).close()
    layout.lock_path(path).write_text("1 elsewhere\n")
    with pytest.raises(CacheError, match="process 1 on elsewhere"):
        CacheWriter.resume(path)


def test_resume_gives_the_last_frame_back(tmp_path):
    path = tmp_path / "a.zarr"
    fill(path, 5, count=3)
    with CacheWriter.resume(path) as writer:
        checkpoint, problems = writer.checkpoint()
        assert problems == [] and checkpoint is not None and checkpoint.frame == 2
        assert checkpoint.positions.tobytes() == values(2)[0].tobytes()
        assert checkpoint.velocities.tobytes() == values(2)[1].tobytes()
        assert checkpoint.row["time"] == 2 / 30 and checkpoint.saved["counter"] == [2]
        assert writer.append(*values(3), row(3)) == 3


def test_resume_of_an_empty_cache(tmp_path):
    create(tmp_path / "a.zarr").close()
    with CacheWriter.resume(tmp_path / "a.zarr") as writer:
        assert writer.checkpoint() == (None, []) and writer.frames == 0


@pytest.mark.parametrize("where", ["positions", "velocities", "saved", "marker"])
def test_resume_takes_a_damaged_last_frame_back(tmp_path, where):
    path = tmp_path / "a.zarr"
    fill(path, 5, count=4)
    files = {
        "positions": layout.chunk_path(path, "positions", 3),
        "velocities": layout.chunk_path(path, "velocities", 3),
        "saved": layout.saved_path(path, 3),
        "marker": layout.marker_path(path, 3),
    }
    flip(files[where], 40)
    with CacheWriter.resume(path) as writer:
        checkpoint, [problem] = writer.checkpoint()
        assert checkpoint is not None and checkpoint.frame == 2 and files[where].name in problem
        assert writer.frames == 3
        writer.append(*values(3), row(3), {"counter": np.array([3])})
    assert open_cache(path).verify() == [] and open_cache(path).frames == 4


def test_resume_without_anything_to_go_on_from(tmp_path):
    path = tmp_path / "a.zarr"
    fill(path, 5, count=4)
    for frame in (2, 3):
        flip(layout.chunk_path(path, "positions", frame))
    with CacheWriter.resume(path) as writer, pytest.raises(CacheError, match="cannot be continued: frame 2 of"):
        writer.checkpoint()
    assert open_cache(path).frames == 4
    # a hole: frames that cannot be continued are not thrown away either
    layout.marker_path(path, 0).unlink()
    with CacheWriter.resume(path) as writer, pytest.raises(CacheError, match=r"00000000\.json is missing"):
        writer.checkpoint()
    assert layout.marker_path(path, 3).is_file()


def test_a_run_can_grow(tmp_path):
    cache = fill(tmp_path / "a.zarr", 2)
    with CacheWriter.resume(cache.path) as writer, pytest.raises(CacheError, match="is complete"):
        writer.append(*values(2), row(2))
    with CacheWriter.resume(cache.path, frames=4) as writer:
        writer.append(*values(2), row(2))
        writer.append(*values(3), row(3))
    # the reader that was open before sees the new frames
    assert cache.planned == 4 and cache.complete
    assert cache.positions(3).tobytes() == values(3)[0].tobytes()
    # and no frame is lost by planning fewer
    with CacheWriter.resume(cache.path, frames=1) as writer:
        assert writer.frames == 4
    assert cache.planned == 4 and cache.positions(3).tobytes() == values(3)[0].tobytes()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [0, 1])
def test_frames_that_are_not_finite_are_refused(tmp_path, bad, which):
    with create(tmp_path / "a.zarr") as writer:
        arrays = values(0)
        arrays[which][5, 1] = bad
        with pytest.raises(CacheError, match="of vertex 5 are not finite at frame 0"):
            writer.append(*arrays, row(0))
        assert writer.append(*values(0), row(0)) == 0


def test_wrong_shapes_are_refused(tmp_path):
    with create(tmp_path / "a.zarr") as writer:
        with pytest.raises(CacheError, match=r"positions have the shape \(6, 3\)"):
            writer.append(np.zeros((6, 3)), np.zeros((7, 3)), row(0))
        with pytest.raises(CacheError, match="Python objects"):
            writer.append(*values(0), row(0), {"x": np.array([None])})
        assert writer.frames == 0
    with pytest.raises(CacheError, match="vertex 6, but there are 3 vertices"):
        CacheWriter.create(tmp_path / "b.zarr", frames=1, faces=FACES, bodies=BODIES, fps=30, vertices=3)
    assert not (tmp_path / "b.zarr").exists()


def test_what_is_written_is_flushed_to_the_disk(tmp_path, monkeypatch):
    """Nothing else notices when it is not, short of a power cut."""
    flushed = set()
    monkeypatch.setattr(os, "fsync", lambda handle: flushed.add(os.fstat(handle).st_ino))
    fill(tmp_path / "a.zarr", 3)
    names = [path for path in (tmp_path / "a.zarr").rglob("*") if path.is_file()]
    frames = [path for path in names if path.parent.name in ("positions", "velocities") and path.name != "zarr.json"]
    frames += [
        path for path in names if path.suffix == ".npz" or path.parent == layout.marker_folder(tmp_path / "a.zarr")
    ]
    assert len(frames) == 2 * 3 + 2 + 3
    for path in [*frames, *{path.parent for path in frames}, layout.meta_path(tmp_path / "a.zarr")]:
        assert path.stat().st_ino in flushed, path


def test_a_stop_while_frames_are_removed_leaves_no_gap(tmp_path, monkeypatch):
    path = tmp_path / "a.zarr"
    with create(path, 6) as writer:
        for frame in range(6):
            writer.append(*values(frame), row(frame), {"counter": np.array([frame])})
            if frame == 1:
                early = layout.saved_path(path, 1).read_bytes()
    layout.saved_path(path, 1).write_bytes(early)
    for frame in (4, 5):
        layout.saved_path(path, frame).write_bytes(b"damaged")
    unlink, removed = Path.unlink, []

    def stopped(self, missing_ok=False):
        removed.append(self.name)
        if len(removed) == 3:
            raise OSError(errno.EIO, "stopped here")
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", stopped)
    with pytest.raises(OSError, match="stopped"), CacheWriter.resume(path) as writer:
        writer.checkpoint()
    monkeypatch.undo()
    assert len(removed) >= 3 and open_cache(path).frames == len(list(layout.marker_folder(path).glob("*.json"))) == 4
    with CacheWriter.resume(path) as writer:
        found, _ = writer.checkpoint()
    assert found is not None and found.frame == 1


def test_a_report_is_a_pandas_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    rows = [
        {"frame": f, "time": f / 30, "status": "ok" if f else "cold", "extra": None if f else 1.5} for f in range(3)
    ]
    report = Report(rows)
    table = pandas.DataFrame(report)
    assert list(table.columns) == ["frame", "time", "status", "extra"] and len(table) == 3
    assert table["status"].tolist() == ["cold", "ok", "ok"]
    assert table["extra"].isna().tolist() == [False, True, True]
    own = report.to_pandas()
    assert own.loc[2, "time"] == pytest.approx(2 / 30)
    pandas.testing.assert_frame_equal(own.reset_index(drop=True), table)


def test_frames_and_bodies_by_number_and_name(tmp_path):
    cache = fill(tmp_path / "a.zarr")
    assert len(cache) == cache.frames and bool(cache)
    assert cache[-1].number == cache.frames - 1 and cache[1].time == pytest.approx(1 / cache.fps)
    assert np.array_equal(cache[1].positions, cache.positions(1))
    assert np.array_equal(cache[1].velocities, cache.velocities(1))
    assert [frame.number for frame in cache[::2]] == list(range(0, cache.frames, 2))
    assert [frame.number for frame in cache] == list(range(cache.frames))
    for body in cache.bodies:
        own = cache[body.name]
        assert np.array_equal(own.positions(-1), cache.positions(-1)[body.vertices])
        assert np.array_equal(cache[1][body.name], own.positions(1))
        assert own.faces.max() < len(own.positions(0)) and body.name in repr(own)
        assert body.name in cache
    assert cache[1].row == cache.row(1) and "Frame(1" in repr(cache[1])
    with pytest.raises(CacheError, match="has no frame 99"):
        cache[99]
    with pytest.raises(CacheError, match="has no body 'shirt'; it has "):
        cache["shirt"]
    with pytest.raises(TypeError):
        cache[1.5]
