"""Which frames of a cache somebody means, in the one way that commands and functions share."""

import operator
import re
from collections.abc import Iterable
from typing import Any

from weft.errors import CacheError, WeftError

Frames = str | int | slice | Iterable[int] | None


def choose_frames(cache: Any, frames: Frames = None) -> list[int]:
    """The numbers of frames, counted from 0: None is all, numbers below 0 count from the last.

    Text is "12", "10:20", ":100", "-30:" or "::5", as a slice of Python without the end. Numbers that the cache does not
    have, and a choice of no frame, are errors.
    """
    count = cache.frames
    if not count:
        raise CacheError(f"{cache.path} has no complete frame yet: wait for the first one, or resume the run")
    if isinstance(frames, str):
        frames = _read(frames)
    if frames is None or isinstance(frames, slice):
        chosen = list(range(count))[slice(None) if frames is None else frames]
    else:
        chosen = [_number(cache, frame) for frame in (frames if isinstance(frames, Iterable) else [frames])]
    if not chosen:
        raise WeftError(f"there are no frames left in this choice: {cache.path} has frames 0 to {count - 1}")
    return chosen


def _number(cache: Any, frame: Any) -> int:
    try:
        number = operator.index(frame)
    except TypeError:
        raise WeftError(f"frames are whole numbers, a slice, or text such as '10:20', not {frame!r}") from None
    if not -cache.frames <= number < cache.frames:
        raise CacheError(f"{cache.path} has no frame {number}: it has frames 0 to {cache.frames - 1}")
    return number % int(cache.frames)


def _read(text: str) -> int | slice:
    fields = [field.strip() for field in text.split(":")]
    if len(fields) > 3 or not all(re.fullmatch(r"([+-]?\d{1,18})?", field) for field in fields) or not text.strip():
        raise WeftError(
            f"frames {text!r}: write one number, or first:end or first:end:step, such as 10:20 for 10 to 19"
        )
    numbers = [int(field) if field else None for field in fields]
    if len(numbers) == 1:
        return int(numbers[0] or 0)
    if len(numbers) == 3 and numbers[2] == 0:
        raise WeftError(f"frames {text!r}: the step must not be 0")
    return slice(*numbers)
