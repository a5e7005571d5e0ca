"""Launches of work that becomes a CUDA graph depend on nothing but the key of the graph."""

import numpy as np
import pytest
import warp as wp
from checked_graphs import checked_graphs
from cuda_order import method_of

import weft
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.cooperative import CLUSTER_BLOCKS
from weft.runtime.graph_cache import GraphCache
from weft.world import World

wp.set_module_options({"enable_backward": False})


@wp.kernel
def add(first: int, amount: int, x: wp.array[int]):
    i = first + wp.tid()
    x[i] = x[i] + amount


def test_work_that_hides_an_argument_is_found():
    graphs, x, y = GraphCache("cpu"), *(wp.zeros(10, dtype=int, device="cpu") for _ in range(2))
    with checked_graphs() as check:
        for amount, array in ((1, x), (1, x), (1, x), (2, x), (2, y)):
            graphs.run(lambda n=amount, a=array: launch(add, 10, [n, a], device="cpu"), "key", x)
        assert len(check.changed) == 1 and check.replayed == 3
    with checked_graphs() as check:
        for amount in (1, 1, 1, 2, 2, 2):
            graphs.run(lambda n=amount: launch(add, 10, [n, x], device="cpu"), "key", x, amount)
        assert not check.changed and check.replayed == 2
    np.testing.assert_array_equal(x.numpy(), 3 + 2 + 9)


def two_sheets(method):
    """Two sheets that lie on each other and on a ball from the first step on."""
    sheets = [
        weft.Cloth(
            name=f"sheet {k}",
            shape=weft.Grid(size=(0.4, 0.4), cells=(12, 12)),
            placement={"position": (0, 0.1515 + 0.0015 * k, 0), "rotation_deg": (0, 20 * k, 0)},
        )
        for k in range(2)
    ]
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.15), friction=0.5)
    return weft.Scene(method=method, thickness=0.002, cloths=sheets, colliders=[ball])


@pytest.mark.parametrize(("name", "frames"), [("robust", 10), ("untangle", 10), ("predictive", 16), ("push", 1)])
def test_replayed_launches_would_be_the_same(name, frames):
    with checked_graphs() as check:
        world = World(two_sheets(name), "cpu")
        method, state = method_of(world, blocks=CLUSTER_BLOCKS, captured=True), world.initial_state()
        for _ in range(frames):
            method.advance_frame(state)
    assert check.changed == {} and check.replayed > 5


def test_springs_that_grow_are_no_stale_argument():
    """Any of their buffers may grow alone, between steps with as many springs."""
    with checked_graphs() as check:
        world = World(two_sheets("untangle"), "cpu")
        method, state = method_of(world), world.initial_state()
        method.advance_frame(state)
        x, v, time = state.positions(), state.velocities(), state.time

        def step_again():
            state.x.assign(x)
            state.v.assign(v)
            state.time = time
            method.advance_frame(state)

        for _ in range(3):
            step_again()
        springs = method.dynamics.step_springs
        assert springs.count > 100 and check.replayed > 100
        kept = []
        for buffer in [value for value in vars(springs).values() if isinstance(value, Buffer)]:
            # so that no other array gets its address
            kept.append(buffer.array)
            buffer.array = wp.clone(buffer.array)
            step_again()
    assert check.changed == {}
