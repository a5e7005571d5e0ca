"""Buffers that grow say so."""

import logging

import warp as wp

from weft.runtime.buffers import MIN_LOGGED_BYTES, Buffer


def test_large_buffers_tell_that_they_grow(caplog):
    buffer = Buffer(wp.vec3d, "cpu")
    with caplog.at_level(logging.INFO, logger="weft.memory"):
        buffer.at_least(100)
        assert not caplog.messages
        buffer.at_least(MIN_LOGGED_BYTES // 24)
        buffer.at_least(MIN_LOGGED_BYTES // 24)
    assert caplog.messages == ["a buffer of vec3d on cpu grows to 1.6 MB for 43690 items"]
