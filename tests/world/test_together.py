"""What CUDA does in one launch, run here with one thread: the same bytes as colour by colour."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.methods import make_method
from weft.world import World
from weft.world.together import Together, take_number


@wp.kernel
def number(first: int, threads: int, arrivals: wp.array[int], count: int, counters: wp.array[int], out: wp.array[int]):
    t = first + wp.tid()
    for i in range(t, count, threads):
        out[i] = take_number(counters, i % 3)


def test_every_number_is_given_once():
    counters, out = wp.zeros(3, dtype=int, device="cpu"), wp.zeros(10, dtype=int, device="cpu")
    Together("cpu").launch(number, 10, [10, counters, out])
    assert counters.numpy().tolist() == [4, 3, 3]
    assert out.numpy().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def drape(method):
    """Two sheets over a ball."""
    sheet = weft.Grid(size=(0.4, 0.4), cells=(11, 11))
    return weft.Scene(
        method=method,
        cloths=[
            weft.Cloth(name="a", shape=sheet, placement={"position": (0, 0.13, 0)}),
            weft.Cloth(name="b", shape=sheet, placement={"position": (0, 0.14, 0)}),
        ],
        colliders=[weft.Collider(shape=weft.Sphere(radius=0.12), friction=0.5)],
    )


@pytest.mark.parametrize(
    ("method", "part", "expected"),
    [
        ("robust", "dynamics", {"substep_together", "pull_together", "part_together"}),
        ("predictive", "solver", {"advance_together"}),
    ],
)
def test_substeps_in_one_launch(monkeypatch, method, part, expected):
    launched = set()
    plain = Together.launch

    def launch(self, kernel, items, inputs):
        launched.add(kernel.key)
        plain(self, kernel, items, inputs)

    monkeypatch.setattr(Together, "launch", launch)
    world = World.compile(drape(method), "cpu")
    found = []
    for by_colours in (True, False):
        made, state = make_method(world, world.scene.method), world.initial_state()
        moving = getattr(made, part)
        moving.serial, moving.by_colours = False, by_colours
        for _ in range(8):
            made.advance_frame(state)
        found.append(state.positions())
    assert np.array_equal(*found)
    assert expected <= launched
