"""Real schedulers and workers for tests, and accidents that happen to them at a chosen moment."""

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import weft
from weft.cache import open_cache

HERE = Path(__file__).parent
SCENE = """
frames = {frames}
method = "plain"

[[cloth]]
name = "sheet"
shape = {{kind = "grid", size = [1.0, 1.0], cells = [4, 4]}}
material = "silk"
pins = [{{boundary = "left"}}]

[forces]
gravity = [0.0, -9.81, 0.0]
"""


def write_scene(folder: Path, frames: int = 6) -> Path:
    path = folder / "scene.toml"
    path.write_text(SCENE.format(frames=frames))
    return path


class Cluster:
    """A scheduler and workers with nannies, each a process group of its own."""

    def __init__(self, folder: Path, workers: int = 2, **options: str) -> None:
        self.folder = folder
        self.accidents = folder / "accidents"
        self.accidents.mkdir(parents=True, exist_ok=True)
        self._processes: list[subprocess.Popen] = []
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        self.address = self._find(self.folder / "scheduler.log", r"Scheduler at:\s+(tcp://\S+)")
        self.start_workers(workers, **options)

    def start_workers(self, count: int, name: str = "workers", resources: str = "") -> subprocess.Popen:
        more = ["--resources", resources] if resources else []
        return self._start(
            "worker", self.address, "--nworkers", str(count), "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1",
            "--preload", str(HERE / "accidents.py"), "--local-directory", str(self.folder / "scratch"), *more, log=name,
        )  # fmt: skip

    def stop(self) -> None:
        for process in reversed(self._processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def order(self, what: str, run: str, frame: int) -> None:
        """Let something happen when a worker writes a frame of a run: see `accidents.py`."""
        (self.accidents / f"{what} {frame} {run}").touch()

    def left(self) -> list[str]:
        """The accidents that have not happened."""
        return sorted(path.name for path in self.accidents.iterdir())

    def _start(self, *arguments: str, log: str = "") -> subprocess.Popen:
        environment = {**os.environ, "WEFT_ACCIDENTS": str(self.accidents), "WEFT_THREADS": "1"}
        file = (self.folder / f"{log or arguments[0]}.log").open("wb")
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments],
            stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
            preexec_fn=end_with_parent,
        )  # fmt: skip
        self._processes.append(process)
        return process

    def _find(self, log: Path, pattern: str) -> str:
        end = time.monotonic() + 120.0
        while time.monotonic() < end:
            found = re.search(pattern, log.read_text(errors="replace"))
            if found:
                return found[1]
            time.sleep(0.05)
        raise AssertionError(f"nothing like {pattern} in {log}: {log.read_text(errors='replace')}")


def end_with_parent() -> None:
    """Have the system end this process when the test run is killed, so that nothing is left."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def wait_until(true, seconds: float = 120.0) -> None:
    """Wait for something that will happen; the time is only a limit for what never does."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.05)


def processes_marked(mark: str) -> list[str]:
    """What still runs with the mark in its environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if f"WEFT_TEST_MARK={mark}".encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def content(cache: Path) -> dict:
    """All that a cache says, by file; of report rows all but the time that they took."""
    found: dict = {}
    for path in sorted(cache.rglob("*")):
        name = path.relative_to(cache).as_posix()
        if path.is_dir() or name == "weft/lock":
            continue
        if name.startswith("weft/frames/"):
            found[name] = {k: v for k, v in json.loads(path.read_bytes())["content"]["row"].items() if k != "wall_time"}
        elif name == "zarr.json":
            meta = dict(open_cache(cache).meta)
            found[name] = {k: v for k, v in meta.items() if k != "scene"}
        else:
            found[name] = path.read_bytes()
    return found


def simulate_alone(folder: Path, run) -> Path:
    """A run without any farm."""
    return weft.simulate(run.scene, folder / f"{run.name}.zarr", progress=False).path
