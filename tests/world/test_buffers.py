"""Buffers grow when they must, keep what they are told to keep, and stay where they are otherwise."""

import numpy as np
import pytest
import warp as wp

from weft.world.buffers import Buffer


def test_a_list_of_no_items_can_be_cut_out():
    # Warp refuses to slice an array of length 0
    buffer = Buffer(wp.vec3d, "cpu")
    assert buffer.at_least(0)[:0].shape == (0,)
    assert buffer.at_least(0) is buffer.array


@pytest.mark.parametrize("size", [1, 63, 64, 1000])
def test_there_is_room_for_what_is_asked(size):
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
