"""One writer a cache: a lock file that the system releases when its process ends, and the path that a cache may take."""

import errno
import glob
import os
import shutil
import socket
import sys
import time
from pathlib import Path

from weft.cache import layout
from weft.errors import CacheError

# errors of file systems without locks; there the process named in the lock file must still run
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
# seconds that a new writer waits for a reader that tests the lock at the same moment
_PATIENCE = 0.3

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        # lock a byte far behind the text, which others must still be able to read
        os.lseek(handle, 1 << 20, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            raise BlockingIOError(str(error)) from error

else:
    import fcntl

    def _take(handle: int) -> None:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class WriterLock:
    """Held until `release`; a second lock of the same file is refused with the holder's process id."""

    def __init__(self, path: Path, cache: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            deadline = time.monotonic() + _PATIENCE
            while not _try_take(self._handle):
                if time.monotonic() > deadline:
                    raise CacheError(
                        f"{cache} is being written by {_holder(self._handle)}: "
                        "wait until it is done, or stop it, or choose another output"
                    )
                time.sleep(0.02)
            os.ftruncate(self._handle, 0)
            _write(self._handle, f"{os.getpid()} {socket.gethostname()}\n")
        except BaseException:
            os.close(self._handle)
            raise

    def release(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = -1


def writer_of(path: Path) -> str | None:
    """The process that holds the lock ("process 4711"), or None."""
    try:
        handle = os.open(path, os.O_RDWR)
    except OSError:
        return None
    try:
        return None if _try_take(handle) else _holder(handle)
    finally:
        os.close(handle)


def _try_take(handle: int) -> bool:
    try:
        _take(handle)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
        return not _alive(_read(handle))
    return True


def _alive(text: str) -> bool:
    """Whether the process that a lock file names still runs; one on another machine is assumed to."""
    pid, _, host = text.strip().partition(" ")
    return is_running(pid) or (pid != "" and host != socket.gethostname())


def is_running(pid: str) -> bool:
    """Whether a process with this number runs on this machine."""
    if not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except OSError:
        # it runs, but belongs to someone else
        return True
    return True


def _holder(handle: int) -> str:
    pid, _, host = _read(handle).strip().partition(" ")
    where = f" on {host}" if host and host != socket.gethostname() else ""
    return f"process {pid}{where}" if pid else "another process"


def _read(handle: int) -> str:
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, 200).decode(errors="replace")


def _write(handle: int, text: str) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    os.write(handle, text.encode())


def check_free(path: Path, overwrite: bool) -> None:
    """Refuse a path that exists; with `overwrite`, refuse one that is not a cache."""
    if not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir())):
        return
    try:
        planned = int(layout.read_meta(path)["frames"])
    except CacheError as error:
        if path.is_dir() and overwrite and (path / "zarr.json").is_file() and (path / "weft" / "frames").is_dir():
            return
        raise CacheError(f"{path} exists and is not a readable weft cache, so it is left alone ({error})") from None
    if not overwrite:
        raise CacheError(
            f"{path} exists already, with {layout.complete_frames(path)} of {planned} frames: continue it with --resume, "
            "replace it with --overwrite (resume=True, overwrite=True in Python), or choose another output"
        )


def move_in(made: Path, path: Path, overwrite: bool) -> None:
    """Rename the new cache to its path; an old one is removed afterwards, and only if no process writes it."""
    old = aside(path, "old")
    if path.is_dir() and not any(path.iterdir()):
        path.rmdir()
    if path.exists() and overwrite:
        lock = WriterLock(layout.lock_path(path), path)
        lock.release()
        path.rename(old)
    try:
        made.rename(path)
    except OSError:
        if old.exists():
            old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def aside(path: Path, what: str) -> Path:
    """A temporary path beside a cache, with the id of this process."""
    return path.with_name(f".{path.name}.{os.getpid()}.{what}{layout.PARTIAL}")


def remove_leftovers(path: Path) -> None:
    """Remove temporary folders beside a cache that processes left which no longer run."""
    for left in path.parent.glob(f".{glob.escape(path.name)}.*{layout.PARTIAL}"):
        pid = left.name.removeprefix(f".{path.name}.").split(".")[0]
        if not is_running(pid) or pid == str(os.getpid()):
            shutil.rmtree(left, ignore_errors=True)
