"""Device arrays that are kept between steps and grow when they must, and launch bounds that seldom change."""

import logging
from typing import Any

import warp as wp

log = logging.getLogger("weft.memory")

# bytes from which on a buffer that grows is worth a line in the log
MIN_LOGGED_BYTES = 2**20
# items that a buffer always has room for: Warp cannot take a slice of no items from an array without any
MIN_CAPACITY = 64
# a launch bound is this many times the count that it was made for, and made anew once it is `TOO_HIGH` times the count: more
# launches threads that find nothing to do, less changes the bound, and so captures CUDA graphs, more often
HEADROOM, TOO_HIGH = 1.5, 16.0
# the same from so many items on, where idle threads cost more than a capture
MANY, HEADROOM_OF_MANY = 2**17, 1.125

_epoch = 0


class Buffer:
    """An array with room to spare."""

    def __init__(self, dtype: Any, device: wp.DeviceLike) -> None:
        self.array = wp.empty(MIN_CAPACITY, dtype=dtype, device=device)
        self._dtype, self._device = dtype, device

    def at_least(self, size: int, *, keep: int = 0) -> wp.array:
        """The array, with room for `size` items; the first `keep` of them survive growing."""
        if self.array.shape[0] < size:
            # half as much again, so that a list that grows a little every step is seldom reallocated
            larger = wp.empty(size + size // 2 + MIN_CAPACITY, dtype=self._dtype, device=self._device)
            log_growth(larger, size)
            if keep:
                wp.copy(larger, self.array, count=keep)
            self.array = larger
        return self.array


class LaunchBound:
    """An upper bound of a count that changes every step, for launches whose kernels read the count itself on the device.

    The bound seldom changes, so that launches with it can be replayed as a CUDA graph. On the CPU it is the count.
    """

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self._bound = 0

    def for_count(self, count: int) -> int:
        """How many items to launch for so many."""
        if self.device.is_cpu or count == 0:
            return count
        if not count <= self._bound <= TOO_HIGH * count:
            self._bound = int((HEADROOM if count < MANY else HEADROOM_OF_MANY) * count)
        return self._bound


def allocation_epoch() -> int:
    """How often buffers have grown: a CUDA graph that was captured in an earlier epoch must not be replayed."""
    return _epoch


def log_growth(array: wp.array, needed: int) -> None:
    """Begin a new allocation epoch, and log a large array that was allocated for so many items."""
    global _epoch
    _epoch += 1
    if array.capacity >= MIN_LOGGED_BYTES:
        name = getattr(array.dtype, "__name__", str(array.dtype))
        log.info("a buffer of %s on %s grows to %.1f MB for %d items", name, array.device, array.capacity / 1e6, needed)
