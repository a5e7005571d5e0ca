"""One writer a cache: a lock file that the system lets go of when its process dies, however it dies."""

import errno
import os
import socket
import sys
import time
from pathlib import Path

from weft.errors import CacheError

# a system that cannot lock files says so with one of these; then the process named in the file decides
_NO_LOCKS = {errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK}
# how long a new writer waits for a reader that looks at the lock at the same moment
_PATIENCE = 0.3

if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> None:
        # far behind the text, which others must still be able to read
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
    """Held from its making to `release`; a second one for the same file is refused with the holder's process id."""

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
        """Let others write. Safe to call twice."""
        if self._handle >= 0:
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = -1


def writer_of(path: Path) -> str | None:
    """Who holds the lock now, in words, or None."""
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
    """Whether the process that a lock file names still runs (one on another machine is believed to)."""
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
