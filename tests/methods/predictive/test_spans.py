"""Spans of threads: every item is one thread's."""

import numpy as np
import pytest
import warp as wp

from weft.methods.predictive.substeps import span_begin
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_spans(first: int, threads: int, count: int, begins: wp.array[int]):
    t = first + wp.tid()
    begins[t] = span_begin(t, threads, count)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 10, 29, 1000, 2**30])
def test_spans_are_all_items_once_and_equally_long(threads, count):
    found = wp.zeros(threads + 1, dtype=int, device="cpu")
    launch(find_spans, threads + 1, [threads, count, found])
    begins = found.numpy()
    assert begins[0] == 0 and begins[-1] == count
    sizes = np.diff(begins)
    assert (sizes >= 0).all() and sizes.max() - sizes.min() <= 1
