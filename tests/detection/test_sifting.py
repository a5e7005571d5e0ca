"""Long lists of candidates on CUDA are sifted first, which changes nothing."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.detection import batches
from weft.methods import make_method
from weft.world import World

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device"),
]


def drape(monkeypatch, long):
    """Positions of a sheet that falls onto a ball, with lists that count as long from so many candidates on."""
    monkeypatch.setattr(batches, "LONG", long)
    sheet = weft.Cloth(shape=weft.Grid(size=(0.6, 0.6), cells=(29, 29)), placement={"position": (0.0, 0.26, 0.0)})
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.2))
    scene = weft.Scene(name="drape", cloths=[sheet], colliders=[ball], method="robust")
    world = World(scene, "cuda:0")
    method, state = make_method(world, scene.method), world.initial_state()
    contacts = sum(method.advance_frame(state)["contacts"] for _ in range(25))
    return state.positions(), contacts


def test_sifting_changes_nothing(monkeypatch):
    (x, contacts), (sifted, contacts_too) = (drape(monkeypatch, long) for long in (10**9, 1))
    assert contacts == contacts_too > 0
    np.testing.assert_array_equal(x, sifted)
