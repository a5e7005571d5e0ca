"""Device arrays that are kept between steps and grow when they must."""

import logging
from typing import Any

import warp as wp

log = logging.getLogger("weft.memory")

# buffers from so many bytes on are worth a line when they grow
MIN_LOGGED_BYTES = 2**20
# items that there is always room for: Warp can cut a list of no items out of an array only if that has some
SPARE = 64
# a roof is so many times as high as what it is over when it is put up, and put up anew where it is so many times too high;
# from so many items on, whose memory and time count, it is lower
HEADROOM, TOO_HIGH = 1.5, 16.0
MANY, ROOM_OF_MANY = 2**17, 1.125

_growths = 0


class Buffer:
    """An array with room to spare."""

    def __init__(self, dtype: Any, device: wp.DeviceLike) -> None:
        self.array = wp.empty(SPARE, dtype=dtype, device=device)
        self._dtype, self._device = dtype, device

    def at_least(self, size: int, *, keep: int = 0) -> wp.array:
        """The array, with room for `size` items; the first `keep` of them survive growing."""
        if self.array.shape[0] < size:
            # half as much again, so that a list that creeps upwards is not reallocated each step
            larger = wp.empty(size + size // 2 + SPARE, dtype=self._dtype, device=self._device)
            log_growth(larger, size)
            if keep:
                wp.copy(larger, self.array, count=keep)
            self.array = larger
        return self.array


class LaunchBound:
    """How many items there are at most, for launches whose kernels know how many there are.

    It seldom changes, so that these come again. On a CPU, where nothing is replayed, it is the number of items.
    """

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self._height = 0

    def over(self, count: int) -> int:
        """A number from this count on."""
        if self.device.is_cpu or count == 0:
            return count
        if not count <= self._height <= TOO_HIGH * count:
            self._height = int((HEADROOM if count < MANY else ROOM_OF_MANY) * count)
        return self._height


def allocation_epoch() -> int:
    """How often buffers have grown: what was captured with those of before must not be replayed."""
    return _growths


def log_growth(array: wp.array, needed: int) -> None:
    """A line of the log about a buffer that grew, for those who look for where memory goes."""
    global _growths
    _growths += 1
    if array.capacity >= MIN_LOGGED_BYTES:
        name = getattr(array.dtype, "__name__", str(array.dtype))
        log.info("a buffer of %s on %s grows to %.1f MB for %d items", name, array.device, array.capacity / 1e6, needed)
