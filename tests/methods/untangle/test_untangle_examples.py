"""The examples of `untangle` at their quick size, each by its own check."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

import weft
from weft.methods import make_method
from weft.world import World

EXAMPLES = Path(__file__).parents[3] / "examples"


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


@pytest.mark.parametrize("name", ["untangle_arm", "untangle_belly", "untangle_elbow", "untangle_shirt"])
def test_the_first_step_ends_alike_however_it_is_rounded(name, example):
    """Vertices that are stirred by less than an atom's size stand for the rounding of another device."""
    scene = example(name).scene()
    ends = []
    for stir in (0.0, 1e-15):
        world = World(scene, "cpu")
        method, state = make_method(world, scene.method), world.initial_state()
        x = state.positions()
        x[: world.cloth_vertex_count] += stir * np.random.default_rng(0).uniform(
            -1.0, 1.0, (world.cloth_vertex_count, 3)
        )
        state.x.assign(x)
        method.step(state, 1.0 / scene.fps / method.steps_a_frame())
        ends.append(state.positions())
    assert 0.0 < np.abs(ends[0] - ends[1]).max() < 1e-9


@pytest.mark.long
def test_the_shirt_follows_the_hand_in_the_order_of_its_weights(example, tmp_path):
    belly = example("untangle_belly")
    belly.check(weft.simulate(belly.scene(), tmp_path / "belly.zarr", frames=48, progress=False))


@pytest.mark.long
def test_the_sleeve_between_arm_and_torso_stands_still(example, tmp_path):
    arm = example("untangle_arm")
    arm.check(weft.simulate(arm.scene(), tmp_path / "arm.zarr", progress=False))


@pytest.mark.long
def test_the_tortured_shirt_is_free_within_two_seconds(example, tmp_path):
    shirt = example("untangle_shirt")
    shirt.check(weft.simulate(shirt.scene(), tmp_path / "shirt.zarr", progress=False))


@pytest.mark.long
def test_a_fold_at_a_border_is_flattened(example, tmp_path, monkeypatch):
    """From this start, an atom's size apart, a fold of two crossings at a cuff was pulled to and fro for ever."""
    shirt = example("untangle_shirt")
    start = World.initial_state

    def stirred(world):
        state = start(world)
        x = state.positions()
        x += 1e-13 * np.random.default_rng(24).uniform(-1.0, 1.0, x.shape)
        state.x.assign(x)
        return state

    monkeypatch.setattr(World, "initial_state", stirred)
    shirt.check(weft.simulate(shirt.scene(), tmp_path / "shirt.zarr", progress=False))


@pytest.mark.long
def test_a_pinched_sleeve_holds_still_where_plain_contact_flutters(example, tmp_path):
    elbow = example("untangle_elbow")
    cache = weft.simulate(elbow.scene(), tmp_path / "elbow.zarr", progress=False)
    elbow.check(cache)
    pinched, moved = elbow.held_motion(cache)
    assert moved[:, 0].max() < 1e-9
    # the same vertices with contact constraints alone, while the arms hold still
    last = round(60 * elbow.TIMES[2])
    plain = weft.simulate(elbow.scene(pinch=False), tmp_path / "plain.zarr", frames=last, progress=False)
    _, fluttered = elbow.held_motion(plain, pinched)
    assert np.median(fluttered[:, 0]) > 1e-3


@pytest.mark.long
def test_a_dress_does_not_pass_through_itself_where_it_is_gathered(example, tmp_path):
    dress = example("untangle_dress")
    try:
        scene = dress.scene()
    except weft.WeftError as error:
        pytest.skip(f"its data is not here: {error}")
    found = dress.check(weft.simulate(scene, tmp_path / "dress.zarr", progress=False))
    assert found["most self-intersections"] == 0
    assert found["largest stretch anywhere"] < 0.2


def test_an_example_without_its_data_says_where_it_looked(example, tmp_path, monkeypatch):
    monkeypatch.setenv("WEFT_DATA", str(tmp_path))
    with pytest.raises(weft.WeftError, match=r"dress\.npz is not in"):
        example("untangle_dress").scene()
