"""Buffers grow when they must, keep the items that survive growing, and stay where they are otherwise."""

import logging

import numpy as np
import pytest
import warp as wp

from weft.runtime.buffers import HEADROOM, MANY, MIN_LOGGED_BYTES, TOO_HIGH, Buffer, LaunchBound, allocation_epoch


def test_a_list_of_no_items_can_be_cut_out():
    # Warp refuses to slice an array of length 0
    buffer = Buffer(wp.vec3d, "cpu")
    assert buffer.at_least(0)[:0].shape == (0,)
    assert buffer.at_least(0) is buffer.array


@pytest.mark.parametrize("size", [1, 63, 64, 1000])
def test_there_is_room_for_the_size(size):
    array = Buffer(wp.int32, "cpu").at_least(size)
    assert array.shape[0] >= size and array.dtype is wp.int32
    # every item is real memory
    array.fill_(7)
    assert (array.numpy() == 7).all()


def test_no_new_array_while_there_is_room():
    buffer = Buffer(wp.float64, "cpu")
    first = buffer.at_least(100)
    assert buffer.at_least(50) is first
    assert buffer.at_least(first.shape[0]) is first
    assert buffer.at_least(first.shape[0] + 1) is not first


def test_a_list_that_creeps_upwards_is_seldom_reallocated():
    buffer = Buffer(wp.int32, "cpu")
    arrays = {id(buffer.at_least(size)): buffer.array for size in range(10_000)}
    assert len(arrays) < 20


def test_kept_items_survive_growing():
    buffer = Buffer(wp.vec2i, "cpu")
    rows = np.arange(20, dtype=np.int32).reshape(10, 2)
    wp.copy(buffer.at_least(10), wp.array(rows, dtype=wp.vec2i, device="cpu"), count=10)
    before = buffer.array
    grown = buffer.at_least(5000, keep=10)
    assert grown is not before
    assert np.array_equal(grown.numpy()[:10], rows)


def test_growing_begins_a_new_allocation_epoch():
    buffer = Buffer(wp.int32, "cpu")
    before = allocation_epoch()
    buffer.at_least(10)
    assert allocation_epoch() == before
    buffer.at_least(1000)
    assert allocation_epoch() == before + 1


class Gpu:
    """What a launch bound asks of a device."""

    is_cpu = False


def test_a_launch_bound_stays_while_the_count_changes_a_little():
    bound, counts = LaunchBound(Gpu()), np.random.default_rng(1).integers(900, 1200, 100)
    height = bound.for_count(1000)
    assert 1000 < height <= HEADROOM * 1000
    assert {bound.for_count(int(count)) for count in counts} == {height}
    # a count of 0 does not change the bound
    assert bound.for_count(0) == 0 and bound.for_count(1000) == height


@pytest.mark.parametrize("count", [1, 2, 7, 63, 100_000, MANY, 3 * MANY])
def test_a_launch_bound_is_over_the_count_and_not_far_too_high(count):
    bound = LaunchBound(Gpu())
    for before in (1, count, 100 * count):
        bound.for_count(before)
        assert count <= bound.for_count(count) <= TOO_HIGH * count


def test_on_the_cpu_the_bound_is_the_count():
    bound = LaunchBound(wp.get_device("cpu"))
    assert [bound.for_count(count) for count in (5, 1000, 0, 7)] == [5, 1000, 0, 7]


def test_large_buffers_log_that_they_grow(caplog):
    buffer = Buffer(wp.vec3d, "cpu")
    with caplog.at_level(logging.INFO, logger="weft.memory"):
        buffer.at_least(100)
        assert not caplog.messages
        buffer.at_least(MIN_LOGGED_BYTES // 24)
        buffer.at_least(MIN_LOGGED_BYTES // 24)
    assert caplog.messages == ["a buffer of vec3d on cpu grows to 1.6 MB for 43690 items"]
