"""Kill a run, resume it, and compare: a program for test_crash.py that says how often it killed.

    python crashes.py FOLDER fresh|overwrite STRIDE     before each file operation in turn
    python crashes.py FOLDER random SEED                at random moments

Each attempt is a forked child that kills itself with SIGKILL. The parent never touches Zarr, whose threads do not
survive a fork.
"""

import itertools
import os
import pickle
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path

from fake_world import content, fake_compile, fake_scene

import weft
import weft.methods.base
import weft.run.simulation
from weft.cache import Cache
from weft.run import simulate

weft.run.simulation.compile_scene = fake_compile
CHANGES = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree"}


def start_child(work: Callable[[], object]) -> int:
    """Run in a child that never comes back here; gives its process id."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


def status_of(pid: int) -> int:
    """Wait for a child; gives its exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def in_child(work: Callable[[], object]) -> int:
    return status_of(start_child(work))


def kill_before(operation: int, folder: Path) -> None:
    """Die before the n-th file operation below the folder."""
    seen = 0

    def watch(event: str, arguments: tuple) -> None:
        nonlocal seen
        if event in CHANGES and arguments and str(arguments[0]).startswith(str(folder)):
            if seen == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            seen += 1

    sys.addaudithook(watch)


class Run:
    """One run, again and again: what it should give, and attempts at it in children."""

    def __init__(self, folder: Path, frames: int, overwrite: bool = False) -> None:
        self.frames, self.overwrite = frames, overwrite
        self.reference, self.kept = folder / "reference.zarr", folder / "reference.pickle"
        self.out = folder / "work" / "out.zarr"
        self.must(self.make_reference)
        self.clear()

    def must(self, work: Callable[[], None], when: str = "") -> None:
        status = in_child(work)
        assert status == 0, f"{work.__name__} {when}: exit status {status}"

    def clear(self) -> None:
        shutil.rmtree(self.out.parent, ignore_errors=True)
        self.out.parent.mkdir()
        if self.overwrite:
            shutil.copytree(self.reference, self.out)

    def simulate(self, place: Path, pause: float = 0.0) -> Cache:
        return simulate(
            fake_scene(self.frames),
            place,
            resume=not self.overwrite,
            overwrite=self.overwrite,
            progress=False,
            on_frame=lambda frame, row: time.sleep(pause),
        )

    def make_reference(self) -> None:
        self.kept.write_bytes(pickle.dumps(content(self.simulate(self.reference))))

    def look(self) -> None:
        """What a killed run leaves is whole, and the beginning of what it should give."""
        if self.out.exists() and not self.overwrite:
            cache = weft.open_cache(self.out)
            assert cache.verify() == []
            known = pickle.loads(self.kept.read_bytes())[1][: cache.frames]
            assert [cache.positions(f).tobytes() for f in range(cache.frames)] == [x for x, _ in known]

    def finish(self) -> None:
        """Resumed, it gives what it should, and nothing is left over."""
        cache = self.simulate(self.out)
        assert cache.complete and content(cache) == pickle.loads(self.kept.read_bytes())
        assert [p.name for p in self.out.parent.iterdir()] == ["out.zarr"], list(self.out.parent.iterdir())
        assert not list(self.out.rglob("*.partial"))


def kill_everywhere(run: Run, stride: int) -> int:
    """Killed before each file operation in turn; gives how often."""
    for killed, operation in enumerate(itertools.count(0, stride)):
        run.clear()

        def attempt(operation: int = operation) -> None:
            kill_before(operation, run.out.parent)
            run.simulate(run.out)

        status = in_child(attempt)
        if status == 0:
            return killed
        assert status == -signal.SIGKILL, f"operation {operation}: exit status {status}"
        run.must(run.look, f"after a kill before operation {operation}")
        run.must(run.finish, f"after a kill before operation {operation}")
    raise AssertionError


def kill_at_random(run: Run, seed: int) -> int:
    """Killed at random moments and resumed until it is complete; gives how often."""
    moments = random.Random(seed)
    killed = 0
    while True:
        pid = start_child(lambda: run.simulate(run.out, pause=0.005))
        time.sleep(moments.uniform(0.02, 0.1 + 0.01 * killed))
        os.kill(pid, signal.SIGKILL)
        status = status_of(pid)
        if status == 0:
            run.must(run.finish, "at the end")
            return killed
        assert status == -signal.SIGKILL, f"after {killed} kills: exit status {status}"
        killed += 1
        run.must(run.look, f"after {killed} kills at random moments")


if __name__ == "__main__":
    folder, mode, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    if mode == "random":
        print(kill_at_random(Run(folder, frames=60), number))
    else:
        print(kill_everywhere(Run(folder, frames=3, overwrite=mode == "overwrite"), number))
