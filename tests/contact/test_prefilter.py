"""Long lists of candidates are prefiltered on CUDA, which changes nothing; a plan lets a CPU with one thread do it too."""

from dataclasses import replace

import numpy as np
import pytest
import warp as wp

import weft
from weft.contact.execution_plan import ExecutionPlan
from weft.methods import make_method
from weft.runtime import get_threads, set_threads
from weft.world import World

GPU = pytest.param(
    "cuda:0", marks=[pytest.mark.cuda, pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")]
)


@pytest.fixture(autouse=True)
def one_thread():
    """Pairs that are left take tickets from a counter, which is not atomic on a CPU."""
    threads = get_threads()
    set_threads(1)
    yield
    set_threads(threads)


def drape(monkeypatch, device, *, prefilter_from):
    """Positions of a sheet that falls onto a ball, and how many contacts it had."""
    plan = replace(ExecutionPlan.for_device(wp.get_device(device)), prefilter_from=prefilter_from)
    monkeypatch.setattr(ExecutionPlan, "for_device", lambda _: plan)
    sheet = weft.Cloth(shape=weft.Grid(size=(0.6, 0.6), cells=(29, 29)), placement={"position": (0.0, 0.26, 0.0)})
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.2))
    scene = weft.Scene(name="drape", cloths=[sheet], colliders=[ball], method="robust")
    world = World(scene, device)
    method, state = make_method(world, scene.method), world.initial_state()
    contacts = sum(method.advance_frame(state)["contacts"] for _ in range(25))
    assert method.search.candidates[0].prefiltered == (prefilter_from is not None)
    return state.positions(), contacts


@pytest.mark.parametrize("device", ["cpu", GPU])
def test_prefiltering_changes_nothing(monkeypatch, device):
    found = []
    for prefilter_from in (None, 1):
        with monkeypatch.context() as patch:
            found.append(drape(patch, device, prefilter_from=prefilter_from))
    (x, contacts), (x_prefiltered, contacts_prefiltered) = found
    assert contacts == contacts_prefiltered > 0
    np.testing.assert_array_equal(x, x_prefiltered)
