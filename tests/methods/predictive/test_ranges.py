"""Ranges of threads: every item is one thread's."""

import pytest
import warp as wp

from weft.methods.predictive.state import range_begin, span_end
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_begins(first: int, threads: int, count: int, begins: wp.array[int], ends: wp.array[int]):
    t = first + wp.tid()
    begins[t] = range_begin(t, threads, count)
    ends[t] = span_end(t, threads, count)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 10, 29, 1000, 2**30])
def test_ranges_are_all_items_once_and_equally_long(threads, count):
    found = [wp.zeros(threads, dtype=int, device="cpu") for _ in range(2)]
    launch(find_begins, threads, [threads, count, *found])
    begins, ends = (array.numpy() for array in found)
    assert begins[0] == 0 and ends[-1] == count and (begins[1:] == ends[:-1]).all()
    sizes = ends - begins
    assert (sizes >= 0).all() and sizes.max() - sizes.min() <= 1
