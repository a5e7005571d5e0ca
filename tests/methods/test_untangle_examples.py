"""The examples of `untangle` at their quick size, each by its own check."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import weft

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def example(monkeypatch, tmp_path):
    """Imports an example by name; what it writes goes to a folder of the test."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.chdir(tmp_path)
    loaded = []

    def load(name):
        loaded.append(name)
        return importlib.import_module(name)

    yield load
    for name in ("common", *loaded):
        sys.modules.pop(name, None)


@pytest.mark.long
def test_the_shirt_follows_the_hand_in_the_order_of_its_weights(example, tmp_path):
    belly = example("untangle_belly")
    belly.check(weft.simulate(belly.build(True), tmp_path / "belly.zarr", frames=48, progress=False))


@pytest.mark.long
def test_the_tortured_shirt_is_free_within_two_seconds(example, tmp_path):
    shirt = example("untangle_shirt")
    shirt.check(weft.simulate(shirt.build(True), tmp_path / "shirt.zarr", progress=False))


@pytest.mark.long
def test_a_pinched_sleeve_holds_still_where_plain_contact_flutters(example, tmp_path):
    elbow = example("untangle_elbow")
    cache = weft.simulate(elbow.build(True), tmp_path / "elbow.zarr", progress=False)
    elbow.check(cache)
    pinched, moved = elbow.held_motion(cache)
    assert moved[:, 0].max() < 1e-9
    # the same vertices with contact constraints alone, while the arms hold still
    last = round(60 * elbow.TIMES[2])
    plain = weft.simulate(elbow.build(True, pinch=False), tmp_path / "plain.zarr", frames=last, progress=False)
    _, fluttered = elbow.held_motion(plain, pinched)
    assert np.median(fluttered[:, 0]) > 1e-3
