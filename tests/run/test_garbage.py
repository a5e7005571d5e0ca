"""What stays is left out by the garbage collector while frames are computed, and only then."""

import gc
import weakref

import pytest

from weft.run.runner import WARM_FRAMES, FrozenGarbage


class Node:
    """Something that refers to itself."""

    def __init__(self):
        self.own = self


def test_it_is_left_out_once_frames_are_warm():
    with FrozenGarbage() as garbage:
        for _ in range(WARM_FRAMES):
            assert gc.get_freeze_count() == 0
            garbage.frame_done()
        assert gc.get_freeze_count() > 1000
        # what comes later is still collected
        node = weakref.ref(Node())
        gc.collect()
        assert node() is None
    assert gc.get_freeze_count() == 0


def test_it_is_given_back_after_an_error():
    with pytest.raises(ValueError, match="stop"), FrozenGarbage() as garbage:
        for _ in range(WARM_FRAMES):
            garbage.frame_done()
        raise ValueError("stop")
    assert gc.get_freeze_count() == 0


def test_what_others_have_frozen_stays_so():
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        with FrozenGarbage() as garbage:
            for _ in range(2 * WARM_FRAMES):
                garbage.frame_done()
        assert gc.get_freeze_count() == count
    finally:
        gc.unfreeze()
