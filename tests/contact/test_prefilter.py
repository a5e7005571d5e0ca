"""Long lists of candidates are prefiltered first on CUDA, which changes nothing."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.contact import batches, candidates
from weft.methods import make_method
from weft.runtime import get_threads, set_threads
from weft.world import World

CARD = pytest.param(
    "cuda:0", marks=[pytest.mark.cuda, pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")]
)


@pytest.fixture(autouse=True)
def one_thread():
    """Those that are left take numbers, which threads of a CPU would take at the same time."""
    threads = get_threads()
    set_threads(1)
    yield
    set_threads(threads)


def drape(monkeypatch, device, *, prefiltered):
    """Positions of a sheet that falls onto a ball, with all lists prefiltered first or none."""
    monkeypatch.setattr(batches, "LONG", 1 if prefiltered else 10**9)
    if device == "cpu":
        monkeypatch.setattr(candidates.Candidates, "prefiltered", prefiltered)
    sheet = weft.Cloth(shape=weft.Grid(size=(0.6, 0.6), cells=(29, 29)), placement={"position": (0.0, 0.26, 0.0)})
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.2))
    scene = weft.Scene(name="drape", cloths=[sheet], colliders=[ball], method="robust")
    world = World(scene, device)
    method, state = make_method(world, scene.method), world.initial_state()
    contacts = sum(method.advance_frame(state)["contacts"] for _ in range(25))
    return state.positions(), contacts


@pytest.mark.parametrize("device", ["cpu", CARD])
def test_sifting_changes_nothing(monkeypatch, device):
    (x, contacts), (found, contacts_too) = (
        drape(monkeypatch, device, prefiltered=prefiltered) for prefiltered in (False, True)
    )
    assert contacts == contacts_too > 0
    np.testing.assert_array_equal(x, found)
