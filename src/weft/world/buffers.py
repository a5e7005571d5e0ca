"""Device arrays that are kept between steps and grow when they must."""

from typing import Any

import warp as wp


class Buffer:
    """An array with room to spare."""

    def __init__(self, dtype: Any, device: wp.DeviceLike) -> None:
        self.array = wp.empty(0, dtype=dtype, device=device)
        self._dtype, self._device = dtype, device

    def at_least(self, size: int, *, keep: int = 0) -> wp.array:
        """The array, with room for `size` items; the first `keep` of them survive growing."""
        if self.array.shape[0] < size:
            # half as much again, so that a list that creeps upwards is not reallocated each step
            larger = wp.empty(size + size // 2 + 64, dtype=self._dtype, device=self._device)
            if keep:
                wp.copy(larger, self.array, count=keep)
            self.array = larger
        return self.array
