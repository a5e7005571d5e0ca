"""CUDA graphs that are captured and replayed, and readbacks that are requested early."""

import numpy as np
import pytest
import warp as wp

from weft.runtime import launch
from weft.runtime.buffers import AsyncReadback
from weft.runtime.graph_cache import GraphCache, fork_join

wp.set_module_options({"enable_backward": False})

CUDA = pytest.param(
    "cuda:0", marks=[pytest.mark.cuda, pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")]
)


@wp.kernel
def add(first: int, amount: int, x: wp.array[int]):
    i = first + wp.tid()
    x[i] = x[i] + amount


@wp.kernel
def double(first: int, x: wp.array[int]):
    i = first + wp.tid()
    x[i] = 2 * x[i]


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_work_is_done_every_time(device):
    graphs, x, y = GraphCache(device), *(wp.zeros(100, dtype=int, device=device) for _ in range(2))

    def work(array, amount):
        launch(add, 100, [amount, array], device=device)
        launch(add, 50, [1, array], device=device)

    # the second time it is captured, from the third on replayed; other arrays and numbers are other work
    for _ in range(4):
        graphs.run(lambda: work(x, 2), x, 2)
        graphs.run(lambda: work(y, 3), y, 3)
        graphs.run(lambda: work(y, 2), y, 2)
    assert x.numpy().tolist() == [12] * 50 + [8] * 50
    assert y.numpy().tolist() == [28] * 50 + [20] * 50


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_fused_work_is_done_in_order_before_what_is_launched_and_read(device):
    first, other, x = GraphCache(device), GraphCache(device), wp.zeros(100, dtype=int, device=device)
    readback = AsyncReadback(x, 0, 1)
    for turn in range(4):
        with first.fuse():
            first.run(lambda: launch(double, 100, [x], device=device), "double", x)
            # work that replays something itself
            other.run(lambda: first.run(lambda: launch(add, 100, [1, x], device=device), "add", x), "add", x)
            launch(double, 50, [x], device=device)
            other.run(lambda: launch(add, 100, [3, x], device=device), "add more", x)
            other.run(readback.copy_to_host, "copy_to_host", x)
            readback.mark_launched()
            assert readback.values()[0] == 5 * sum(4**k for k in range(turn + 1))
            first.run(lambda: launch(add, 50, [0, x], device=device), "nothing", x)
    assert GraphCache._fused is None
    found = x.numpy()
    assert found[0] == 5 * (1 + 4 + 16 + 64) and found[99] == 4 * (1 + 2 + 4 + 8)


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_readbacks_are_there_whether_anybody_waited_or_not(device):
    x = wp.array([1.5, 2.5], dtype=wp.float64, device=device)
    readback = AsyncReadback(x)
    readback.request()
    assert np.array_equal(readback.values(), [1.5, 2.5])
    x.fill_(4.0)
    readback.request()
    wp.synchronize()
    assert np.array_equal(readback.values(), [4.0, 4.0])


@pytest.mark.parametrize("device", ["cpu", CUDA])
def test_branches_join_before_what_comes_after(device):
    graphs, x, y = GraphCache(device), *(wp.zeros(1000, dtype=int, device=device) for _ in range(2))

    def double():
        launch(add, 1000, [1, x], device=device)
        fork_join(
            device,
            lambda: launch(add, 500, [10, x], device=device),
            lambda: [launch(add, 1000, [1, y], device=device) for _ in range(20)],
        )
        wp.copy(x, y, dest_offset=500, src_offset=500, count=500)

    for _ in range(4):
        graphs.run(double, x, y)
    assert x.numpy().tolist() == [44] * 500 + [80] * 500
