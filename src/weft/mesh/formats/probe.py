"""Read a file in a process of its own, with limits, before it is read here.

For formats whose libraries are C++ and crash on damaged files, or take all memory (USD, Alembic). The reader's module
is run as a program, `python -m <module> <file> <seconds>`, and prints what it found as JSON (`answer`).
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.errors import MeshError
from weft.mesh.formats.raw import UNPACKED_BYTES, UNPACKED_RATIO

# what reading a file may take beyond the library itself: bytes, or so many times the size of the file if that is more;
# and seconds of the processor, with one more for each 10 MB
PROBE_BYTES = UNPACKED_BYTES
PROBE_RATIO = UNPACKED_RATIO
PROBE_SECONDS = 60
# layers of the files that were probed, with the stamps that they had
_probed: dict[Path, dict[Path, tuple[int, int]]] = {}


def probe(path: Path, module: str) -> list[Path]:
    """Read a file in a process with limits, and return the paths of all its layers; an error if it cannot be read.

    A file whose layers have not changed since it was probed is not probed again.
    """
    path = path.absolute()
    known = _probed.get(path)
    if known is None or known != {layer: _stamp(layer) for layer in known}:
        layers = [Path(layer) for layer in _run_probe(path, module)]
        known = _probed[path] = {layer: _stamp(layer) for layer in layers}
    return list(known)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _run_probe(path: Path, module: str) -> list[str]:
    seconds = PROBE_SECONDS + path.stat().st_size // 10_000_000
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "PXR_WORK_THREAD_LIMIT": "1"}
    command = [sys.executable, "-P", "-m", module, str(path), str(seconds)]
    try:
        # the limit on processor time ends it earlier, unless the machine is busy or the file comes from a slow disk
        done = subprocess.run(command, env=environment, capture_output=True, timeout=10 * seconds)
    except subprocess.TimeoutExpired:
        raise MeshError(f"it is damaged, or too large: it was not read after {10 * seconds} s") from None
    try:
        answer = json.loads(done.stdout.splitlines()[-1])
    except (ValueError, IndexError):
        allowed = max(PROBE_BYTES, PROBE_RATIO * path.stat().st_size) / 1e9
        raise MeshError(
            f"it is damaged: reading it crashed, or took more than {allowed:.2g} GB of memory or {seconds} s (exit code "
            f"{done.returncode})"
        ) from None
    if "error" in answer:
        raise MeshError(answer["error"])
    return list(answer["layers"])


def answer(read: Callable[[Path], dict[str, Any]]) -> None:
    """In the process that `probe` starts: read a file under limits, and print what `read` returns."""
    path, seconds = Path(sys.argv[1]), int(sys.argv[2])
    _limit(max(PROBE_BYTES, PROBE_RATIO * path.stat().st_size), seconds)
    try:
        answer = read(path)
    except MeshError as error:
        answer = {"error": str(error)}
    print(json.dumps(answer))


def _limit(size: int, seconds: int) -> None:
    """Limit the memory that this process may take from here on, and its processor time, where the system can do so."""
    try:
        import resource
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    pages = Path("/proc/self/statm")
    if pages.exists():
        now = int(pages.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + size, now + size))
