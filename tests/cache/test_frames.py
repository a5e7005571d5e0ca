"""Which frames of a cache text, slices and numbers mean."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.cache import choose_frames
from weft.errors import WeftError


def cache(frames):
    return SimpleNamespace(path=Path("run.zarr"), frames=frames)


parts = st.one_of(st.just(""), st.integers(-12, 12).map(str))


@given(st.lists(parts, min_size=2, max_size=3), st.integers(1, 10))
def test_text_is_chosen_as_python_slices_are(fields, count):
    text = ":".join(fields)
    if len(fields) == 3 and fields[2] and int(fields[2]) == 0:
        with pytest.raises(WeftError, match="must not be 0"):
            choose_frames(cache(count), text)
        return
    bounds = slice(*(int(f) if f else None for f in fields))
    expected = list(range(count))[bounds]
    for choice in (text, bounds):
        if expected:
            assert choose_frames(cache(count), choice) == expected
        else:
            with pytest.raises(WeftError, match="no frames left"):
                choose_frames(cache(count), choice)


@pytest.mark.parametrize(
    "choice, expected",
    [
        (None, [0, 1, 2]),
        ("2", [2]),
        ("-1", [2]),
        (1, [1]),
        (np.int64(-3), [0]),
        ([2, -3, 1], [2, 0, 1]),
        (np.array([0, 2]), [0, 2]),
        ((k for k in (1, 2)), [1, 2]),
        (range(0, 3, 2), [0, 2]),
    ],
)
def test_numbers_in_any_form(choice, expected):
    assert choose_frames(cache(3), choice) == expected


@pytest.mark.parametrize(
    "choice", ["a", "1-2", "1:2:3:4", "1.5", "", "-", "+:3", "7", "9" * 30, 5, -6, 1.5, [0, 5], [0, "1"], [], object()]
)
def test_what_is_no_choice_of_frames(choice):
    with pytest.raises(WeftError, match="frame"):
        choose_frames(cache(5), choice)


def test_a_cache_without_frames_says_so():
    with pytest.raises(WeftError, match="no complete frame yet"):
        choose_frames(cache(0), "2:3")
