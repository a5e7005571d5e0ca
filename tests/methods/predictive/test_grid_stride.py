"""Spans of threads: every item is someone's, and what is done four at once is the same for any number of them."""

import numpy as np
import pytest
import warp as wp

from weft.methods.predictive.grid_stride import go_end, go_step, in_fours, span_begin, span_end
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def take_spans(first: int, threads: int, begin: int, end: int, taken: wp.array[int], begins: wp.array[int]):
    """How often each item is taken, and whether a span begins there."""
    t = first + wp.tid()
    start = span_begin(t, threads, begin, end)
    last = span_end(t, threads, begin, end)
    for i in range(start, last, go_step(threads, start, last)):
        begins[i] = begins[i] + 1
        for k in range(i, go_end(i, last)):
            taken[k] = taken[k] + 1


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 3, 4, 10, 29, 1000])
def test_spans_are_all_items_once_and_begin_at_every_fourth(threads, count):
    begin = 5
    taken, begins = (wp.zeros(begin + count + 5, dtype=int, device="cpu") for _ in range(2))
    launch(take_spans, threads, [threads, begin, begin + count, taken, begins], grain=10**9)
    assert taken.numpy().tolist() == [0] * begin + [1] * count + [0] * 5
    starts = np.flatnonzero(begins.numpy())
    assert ((starts - begin) % 4 == 0).all()
    assert begins.numpy().max() == min(count, 1) and len(starts) == min(threads, -(-count // 4))


@wp.kernel
def tell_fours(first: int, count: int, found: wp.array[int]):
    i = first + wp.tid()
    found[i] = in_fours(i, count)


def test_a_place_is_the_next_one_where_four_begin():
    found = wp.zeros(11, dtype=int, device="cpu")
    launch(tell_fours, 11, [10, found])
    assert found.numpy().tolist() == [0, 4, 4, 4, 4, 8, 8, 8, 8, 10, 10]
