"""Sums and maxima over all threads: each value counts once, in any order, and NaN stays."""

import numpy as np
import pytest
import warp as wp

from weft.runtime import get_threads, set_threads
from weft.runtime.compaction import reduce_max, reduce_sum
from weft.runtime.cooperative import BLOCK, CooperativeLauncher, partition_begin, partition_end, partition_step

NO_GPU = pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda:0", marks=[pytest.mark.cuda, NO_GPU])]


@wp.kernel(launch_bounds=BLOCK)
def reduce_all(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    values: wp.array[wp.float64],
    counts: wp.array[int],
    largest: wp.array[wp.float64],
):
    t = first + wp.tid()
    # often, so that threads collide
    for i in range(100):
        found = int(0)
        far = -wp.float64(wp.inf)
        for k in range(
            partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
        ):
            value = values[k] + wp.float64(i)
            if value > far or wp.isnan(value):
                far = value
            found += 1
        reduce_sum(counts, 1, found)
        reduce_max(largest, 1, far)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("count", "hole"), [(1, False), (5000, False), (5000, True)])
def test_values_of_all_threads_are_reduced(device, threads, count, hole):
    values = np.random.default_rng(count).normal(size=count) - 100.0
    if hole:
        values[count // 3] = -np.nan
    numbers = wp.array(values, dtype=wp.float64, device=device)
    counts = wp.zeros(3, dtype=int, device=device)
    largest = wp.array([1.0, -np.inf, 1.0], dtype=wp.float64, device=device)
    before = get_threads()
    try:
        set_threads(threads)
        CooperativeLauncher(device).launch(reduce_all, count, [count, numbers, counts, largest])
    finally:
        set_threads(before)
    assert counts.numpy().tolist() == [0, 100 * count, 0]
    expected = np.nan if hole else values.max() + 99.0
    assert np.array_equal(largest.numpy(), [1.0, expected, 1.0], equal_nan=True)
