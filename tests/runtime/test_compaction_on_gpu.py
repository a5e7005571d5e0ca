"""Several lists counted at once on a card: places and totals as numpy has them."""

import numpy as np
import pytest
import warp as wp

from weft.runtime.compaction import count_each

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device"),
]


@pytest.mark.parametrize("sizes", [(1,), (511, 0, 513), (3, 70_000, 0, 12, 2049), (2_000_000, 5)])
def test_lists_are_counted_at_once(sizes):
    rng = np.random.default_rng(len(sizes))
    counts = [rng.integers(0, 4, size) for size in sizes]
    lists = [
        (wp.array(count, dtype=int, device="cuda:0"), wp.zeros(len(count), dtype=int, device="cuda:0"), len(count))
        for count in counts
    ]
    also = wp.array([7], dtype=int, device="cuda:0")
    assert count_each(*lists, also=also) == [*(int(count.sum()) for count in counts), 7]
    for count, (_, places, _) in zip(counts, lists, strict=True):
        assert np.array_equal(places.numpy(), np.cumsum(count) - count)
