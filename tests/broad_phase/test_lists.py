"""Lists of unknown length: every entry is there, in order, whatever the room, the limit and the lengths."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.broad_phase.list_kernels import Queries, first_slot, query_of_item
from weft.broad_phase.lists import QueryLists, TooManyPairs
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_numbers(
    first: int,
    queries: Queries,
    found: wp.array[int],
    lengths: wp.array[int],
):
    """Item q finds q, q + 1, q + 2... as many as its length."""
    query = query_of_item(queries, first + wp.tid())
    start = first_slot(queries, query)
    n = int(0)
    while n < lengths[query] and n <= queries.stop:
        if n < queries.capacity:
            found[start + wp.int64(n)] = query + n
        n += 1
    queries.counts[query] = n


def build(lists, lengths):
    device_lengths = wp.array(np.asarray(lengths, np.int32), dtype=int, device="cpu")

    def find(count, queries, found):
        launch(find_numbers, count, [queries, found, device_lengths])

    return lists.build(len(lengths), find).numpy()


def expected(lengths):
    return np.concatenate([q + np.arange(n) for q, n in enumerate(lengths)])


@settings(max_examples=60, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 400), min_size=1, max_size=40),
    capacity=st.sampled_from([1, 32, 128, 300]),
    spare=st.integers(0, 5000),
)
def test_no_entry_is_lost(lengths, capacity, spare):
    total = sum(lengths)
    lists = QueryLists(wp.get_device("cpu"), int, what="numbers", capacity=capacity, limit=max(1, total + spare))
    for _ in range(3):
        found = build(lists, lengths)
        assert np.array_equal(found, expected(lengths)) if total else len(found) == 0


def test_rows_may_be_longer_than_the_limit_allows_on_average():
    """The first search counts only so far on; what it has room for it must hold all the same."""
    lists = QueryLists(wp.get_device("cpu"), int, what="numbers", capacity=2048, limit=10_000)
    lengths = [1900] + [0] * 99
    assert np.array_equal(build(lists, lengths), expected(lengths))


def test_too_many_are_refused():
    lists = QueryLists(wp.get_device("cpu"), int, what="numbers", limit=1000)
    with pytest.raises(TooManyPairs, match="more than 1,000 numbers overlap"):
        build(lists, [600, 600])
