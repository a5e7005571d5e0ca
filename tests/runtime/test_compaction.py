"""Exclusive prefix sums of integers on the device: the offsets and totals that numpy has."""

import numpy as np
import pytest
import warp as wp

from weft.runtime.compaction import exclusive_scan, exclusive_scans

NO_GPU = pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")
DEVICES = ["cpu", pytest.param("cuda:0", marks=[pytest.mark.cuda, NO_GPU])]


def make_lists(sizes, device):
    """Random counts, and for each of them the values and offsets on the device."""
    rng = np.random.default_rng(len(sizes))
    counts = [rng.integers(0, 4, size) for size in sizes]
    lists = [
        (wp.array(count, dtype=int, device=device), wp.full(len(count), -1, dtype=int, device=device), len(count))
        for count in counts
    ]
    return counts, lists


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sizes", [(1,), (511, 0, 513), (3, 70_000, 0, 12, 2049), (2_000_000, 5)])
def test_several_lists_at_once(sizes, device):
    counts, lists = make_lists(sizes, device)
    totals = [int(count.sum()) for count in counts]
    assert exclusive_scans(*lists) == totals
    for count, (_, offsets, _) in zip(counts, lists, strict=True):
        assert np.array_equal(offsets.numpy(), np.cumsum(count) - count)
    assert exclusive_scans(*lists, extra=wp.array([7], dtype=int, device=device)) == [*totals, 7]


@pytest.mark.parametrize("device", DEVICES)
def test_the_first_items_of_longer_arrays(device):
    (count,), ((values, offsets, _),) = make_lists((100,), device)
    assert exclusive_scan(values, offsets, 40) == count[:40].sum()
    found = offsets.numpy()
    assert np.array_equal(found[:40], np.cumsum(count[:40]) - count[:40]) and (found[40:] == -1).all()
    assert exclusive_scan(values, offsets) == count.sum()
    assert exclusive_scan(values, offsets, 0) == 0 and exclusive_scan(values[:0], offsets[:0]) == 0
