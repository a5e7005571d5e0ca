"""A run killed with SIGKILL at any moment and resumed gives the same bytes as one that was not."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("crashes.py")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def kills(mode: str, number: int) -> int:
    # memory, where there is some: what is tested is the order of writes, not the disk
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        command = [sys.executable, str(PROGRAM), folder, mode, str(number)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return int(done.stdout)


@pytest.mark.parametrize(("mode", "stride"), [("fresh", 6), ("overwrite", 9)])
def test_killed_before_many_file_operations(mode, stride):
    assert kills(mode, stride) > 8


@pytest.mark.long
@pytest.mark.parametrize("mode", ["fresh", "overwrite"])
def test_killed_before_every_file_operation(mode):
    assert kills(mode, 1) > 80


def test_killed_at_random_moments():
    assert kills("random", 1) >= 2


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 12))
def test_killed_at_many_random_moments(seed):
    assert kills("random", seed) >= 2
