"""Run the property tests of meshes, scenes, caches and files again and again with new examples: part of `make test-long`.

`python tests/property_hour.py [MINUTES]` stops at the first failure, whose message names the seed that shows it again.
"""

import itertools
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("tests/mesh", "tests/scene", "tests/cache", "tests/exchange")


def main(minutes: float = 60.0) -> int:
    """Go on until the time is over; the exit status of the first run of pytest that fails, or 0."""
    end = time.monotonic() + 60.0 * minutes
    for run in itertools.count():
        seed = time.time_ns() % 2**32
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "hypothesis and not long"]
        done = subprocess.run([*command, f"--hypothesis-seed={seed}", *FOLDERS], cwd=ROOT)
        if done.returncode:
            print(f"run {run} fails with --hypothesis-seed={seed}")
            return done.returncode
        if time.monotonic() > end:
            print(f"{run + 1} runs without a find")
            break
    return 0


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
