"""Cloth and the rigid bodies of another program: the example weighs a cloth with a scale of MuJoCo."""

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_a_scale_of_mujoco_shows_the_weight_of_the_cloth(monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    spec = importlib.util.spec_from_file_location("coupled_scale", EXAMPLES / "coupled_scale.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    measured, theory = example.weigh(0.9)
    assert measured == pytest.approx(theory, rel=2e-3)
