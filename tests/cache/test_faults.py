"""Disks that are full and folders that cannot be written: real ones where the system lets a test make them."""

import os
import resource
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import weft.cache.writer as writer_module
from weft.cache import Body, CacheWriter, layout, open_cache
from weft.errors import CacheError

FACES = np.array([[0, 1, 2]])
VERTICES = 20_000
BODIES = [Body("sheet", "cloth", slice(0, VERTICES), slice(0, 1))]


def create(path: Path, **options) -> CacheWriter:
    return CacheWriter.create(path, frames=50, faces=FACES, bodies=BODIES, fps=30, **options)


def noise(frame: int) -> np.ndarray:
    """Does not compress."""
    return np.random.default_rng(frame).normal(size=(VERTICES, 3))


def fill_until_it_fails(path: Path) -> tuple[int, str]:
    with create(path) as writer:
        for frame in range(50):
            try:
                writer.append(noise(frame), noise(frame), {"frame": frame}, {"kept": noise(frame)})
            except CacheError as error:
                return frame, str(error)
    raise AssertionError("the disk was never full")


def check_intact(path: Path, frames: int) -> None:
    cache = open_cache(path)
    assert cache.frames == frames and cache.verify() == []
    for frame in range(frames):
        assert cache.positions(frame).tobytes() == noise(frame).tobytes()


@pytest.fixture
def small_disk(tmp_path):
    """A real file system of 8 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(place)], capture_output=True)
    if made.returncode:
        pytest.skip("cannot mount a small disk here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_full_disk(small_disk):
    path = small_disk / "a.zarr"
    failed, message = fill_until_it_fails(path)
    assert failed > 2
    assert message.startswith(f"frame {failed} of {path} could not be written: no space left on device")
    assert f"Frames 0 to {failed - 1} are intact" in message
    check_intact(path, failed)
    # no half frame takes up room, and with room the run goes on
    assert not list(path.rglob("*.partial")) and not list(path.rglob(f"c.{failed}.*"))
    with CacheWriter.resume(path, frames=failed) as writer:
        checkpoint, problems = writer.checkpoint()
        assert problems == [] and checkpoint is not None and checkpoint.frame == failed - 1


def test_full_disk_when_a_cache_is_made(small_disk):
    (small_disk / "ballast").write_bytes(bytes(8 * 1024 * 1024 - 8192))
    with pytest.raises(CacheError, match=r"a\.zarr could not be written: no space left on device"):
        create(small_disk / "a.zarr")
    assert [p.name for p in small_disk.iterdir()] == ["ballast"]


def test_limit_on_the_size_of_files(tmp_path):
    path = tmp_path / "a.zarr"
    with create(path) as writer:
        writer.append(noise(0), noise(0), {"frame": 0})
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, before[1]))
        try:
            with pytest.raises(CacheError, match=r"frame 1 of .* could not be written: file too large"):
                writer.append(noise(1), noise(1), {"frame": 1})
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        check_intact(path, 1)
        writer.append(noise(1), noise(1), {"frame": 1})
    check_intact(path, 2)


def test_a_folder_in_the_place_of_a_marker(tmp_path):
    path = tmp_path / "a.zarr"
    with create(path) as writer:
        for frame in range(4):
            writer.append(noise(frame), noise(frame), {"frame": frame}, {"kept": noise(frame)})
    layout.marker_path(path, 3).unlink()
    layout.marker_path(path, 3).mkdir()
    with CacheWriter.resume(path) as writer:
        checkpoint, _ = writer.checkpoint()
        assert checkpoint is not None and checkpoint.frame == 2 and writer.frames == 3
        writer.append(noise(3), noise(3), {"frame": 3}, {"kept": noise(3)})
    check_intact(path, 4)


@pytest.mark.parametrize(("array", "frame"), [("positions", 0), ("velocities", 1)])
def test_a_whole_file_of_another_frame_is_noticed(tmp_path, array, frame):
    """It fits its own checksum, but not that in the marker."""
    path = tmp_path / "a.zarr"
    with create(path) as writer:
        for number in range(3):
            writer.append(noise(number), noise(10 + number), {"frame": number})
    shutil.copy(layout.chunk_path(path, array, frame), layout.chunk_path(path, "positions", 1))
    cache = open_cache(path)
    with pytest.raises(CacheError, match="is not the file that was written for it"):
        cache.positions(1)
    assert cache.damaged() == [1]


def test_power_cut(tmp_path, monkeypatch):
    # frames 0 to 4 reached the disk; of what came after, a cut may leave any part: here all but a piece in the middle
    monkeypatch.setattr(writer_module, "SYNC_SECONDS", 1e9)
    path, after = tmp_path / "a.zarr", tmp_path / "after.zarr"
    with create(path) as writer:
        for frame in range(10):
            writer.append(noise(frame), noise(frame), {"frame": frame}, {"kept": noise(frame)})
            # the next one is synchronised if it is frame 4
            monkeypatch.setattr(writer_module, "SYNC_SECONDS", -1.0 if frame == 3 else 1e9)
        shutil.copytree(path, after)
    assert sorted(p.stem for p in layout.saved_folder(after).iterdir()) == ["00000004", "00000008", "00000009"]
    layout.chunk_path(after, "velocities", 7).write_bytes(b"")
    with CacheWriter.resume(after) as writer:
        checkpoint, [problem] = writer.checkpoint()
        assert checkpoint is not None and checkpoint.frame == 4 and writer.frames == 5
        assert "frame 7" in problem and checkpoint.saved["kept"].tobytes() == noise(4).tobytes()
        for frame in range(5, 10):
            writer.append(noise(frame), noise(frame), {"frame": frame}, {"kept": noise(frame)})
    check_intact(after, 10)
    # closed in order, only the last ones are kept
    assert sorted(p.stem for p in layout.saved_folder(path).iterdir()) == ["00000008", "00000009"]


@pytest.fixture
def nobody(tmp_path):
    """Rights that root does not skip: the test goes on as a user who may not write here."""
    tmp_path.chmod(0o755)
    parents = [p for p in tmp_path.parents if p.stat().st_uid == os.geteuid() and p != Path("/")]
    modes = [(p, p.stat().st_mode) for p in parents]
    if os.geteuid() != 0:
        tmp_path.chmod(0o555)
        yield
        tmp_path.chmod(0o755)
        return
    for parent, mode in modes:
        parent.chmod(mode | 0o055)
    os.seteuid(65534)
    yield
    os.seteuid(0)
    for parent, mode in modes:
        parent.chmod(mode)


def test_folder_that_cannot_be_written(tmp_path, nobody):
    with pytest.raises(CacheError, match=r"a\.zarr could not be written: permission denied"):
        create(tmp_path / "a.zarr")
    assert list(tmp_path.iterdir()) == []


def test_place_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CacheError, match=r"a\.zarr could not be written: (not a directory|file exists)"):
        create(tmp_path / "file" / "a.zarr")
