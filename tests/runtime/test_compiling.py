"""Where compiled kernels are kept, and who is told when one is compiled."""

import os
import subprocess
import sys
from pathlib import Path

import warp as wp

from weft.runtime import compiling

ROOT = Path(__file__).parents[2]


def call(code, **environment):
    given = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    done = subprocess.run([sys.executable, "-c", code], env=given, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_a_home_that_cannot_be_written_is_replaced_and_said(tmp_path):
    code = "import weft.runtime, warp; print(warp.config.kernel_cache_dir)"
    environment = {"HOME": "/proc/nowhere", "XDG_CACHE_HOME": "/proc/nowhere", "TMPDIR": str(tmp_path)}
    environment |= {"WARP_CACHE_PATH": "/proc/nowhere"}
    done = call(code, **environment)
    assert done.stdout.startswith(str(tmp_path / "weft-kernels-"))
    assert "compiled kernels cannot be kept in /proc/nowhere" in done.stderr
    assert "WARP_CACHE_PATH names another folder" in done.stderr
    # one line at the command line
    done = call(
        "import sys; sys.argv = ['weft', 'warmup', '--help']; from weft.cli.main import main; main()", **environment
    )
    assert "Traceback" not in done.stderr


# a module of one kernel, whose number makes it one that was never compiled
KERNEL = """
import warp as wp
from weft.runtime import launch

@wp.kernel(enable_backward=False)
def add(first: int, values: wp.array(dtype=float)):
    i = first + wp.tid()
    values[i] = values[i] + {number}
"""


def test_a_module_is_announced_once(tmp_path):
    (tmp_path / "fresh.py").write_text(KERNEL.format(number="3.0"))
    code = """
import warp as wp
from weft.runtime import launch, compiling
import fresh
told = []
with compiling.listening(lambda name, seconds: told.append((name, seconds is None))):
    for _ in range(2):
        values = wp.zeros(4, dtype=float, device="cpu")
        launch(fresh.add, 4, [values])
print(told, values.numpy()[0])
"""
    environment = {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{tmp_path}", "WARP_CACHE_PATH": str(tmp_path / "cache")}
    # compiled in the first process, found on the disk in the second
    assert call(code, **environment).stdout == "[('fresh', True), ('fresh', False)] 3.0\n"
    assert call(code, **environment).stdout == "[] 3.0\n"


def test_what_this_warp_does_not_say_counts_as_compiled():
    assert compiling.is_compiled(object(), wp.get_device("cpu"))


def test_all_imported_modules_are_compiled(monkeypatch):
    from weft.geometry import intersection_filter

    assert intersection_filter
    with compiling.listening(lambda name, seconds: None):
        compiling.compile_modules(wp.get_device("cpu"))
    module = wp.get_module("weft.geometry.intersection_filter")
    assert compiling.is_compiled(module, wp.get_device("cpu"))
    assert compiling._listeners == []
