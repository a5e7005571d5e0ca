"""The examples: their scenes can be written to a file and read again, and what they promise of their runs holds."""

import importlib.util
import sys
from pathlib import Path

import pytest

import weft

EXAMPLES = Path(__file__).parents[1] / "examples"
METHODS = ("guarded", "robust", "untangle", "predictive", "boxes", "push")
NAMES = sorted(path.stem for method in METHODS for path in EXAMPLES.glob(f"{method}_*.py"))


@pytest.fixture
def example(request, monkeypatch):
    """An example as a module; they import their neighbours by bare names."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(request.param, EXAMPLES / f"{request.param}.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, request.param, module)
    spec.loader.exec_module(module)
    return module


def quick_scene(module):
    return module.scene()


@pytest.mark.parametrize("example", NAMES, indirect=True)
def test_a_scene_survives_being_written_and_read(example, tmp_path):
    try:
        scene = quick_scene(example)
    except weft.WeftError as error:
        pytest.skip(f"its data is not here: {error}")
    if not isinstance(scene, weft.Scene):
        pytest.skip("gives several scenes")
    weft.save_scene(scene, tmp_path / "scene.toml")
    assert weft.load_scene(tmp_path / "scene.toml") == scene


# a few seconds each; of the others `long` sees the runs
QUICK = ("boxes_ground", "predictive_flaps", "push_tablecloth")


@pytest.mark.parametrize(
    "example", [name if name in QUICK else pytest.param(name, marks=pytest.mark.long) for name in NAMES], indirect=True
)
def test_what_it_promises_holds(example, tmp_path):
    try:
        scene = quick_scene(example)
    except weft.WeftError as error:
        pytest.skip(f"its data is not here: {error}")
    if not isinstance(scene, weft.Scene):
        pytest.skip("gives several scenes")
    # raises where it does not hold
    found = example.check(weft.simulate(scene, tmp_path / "run.zarr", progress=False))
    assert found
    if scene.method.name == "robust":
        assert found["intersections"] == 0
