"""A Python that has bpy: this one, or the one that WEFT_BLENDER_PYTHON names."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def python_with_bpy():
    """Its path; skips the test where there is none."""
    named = os.environ.get("WEFT_BLENDER_PYTHON")
    if named:
        return named
    if find_spec("bpy") is None:
        pytest.skip(
            "bpy is not installed (pip install 'weft-cloth[blender]') and WEFT_BLENDER_PYTHON names no Python with it"
        )
    return sys.executable


def run_in_blender(script, *words, timeout=300, **environment):
    """Run a script beside this file with bpy and give what it printed last, as JSON."""
    command = [python_with_bpy(), str(HERE / script), *map(str, words)]
    # our own packages are not for Blender's Python
    clean = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env={**clean, **environment})
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return json.loads(done.stdout.strip().splitlines()[-1])
