"""Device arrays that are kept between steps and grow when they must, launch bounds that seldom change, and readbacks.

A readback gives numbers from the device to the host, with as few waits as possible. Whoever waits for a CUDA stream waits
for all that was launched before. So a readback may be started early and read later without a wait of its own:
`AsyncReadback` notes how often the host had waited for the device when the copy was launched, and waits only if that has
not happened again since. On the CPU nothing is copied, and the arrays themselves are read.
"""

import logging
from typing import Any

import numpy as np
import warp as wp

from weft.runtime.graph_cache import launch_fused

log = logging.getLogger("weft.memory")

# bytes from which on a buffer that grows is worth a line in the log
MIN_LOGGED_BYTES = 2**20
# items that a buffer always has room for: Warp cannot take a slice of no items from an array without any
MIN_CAPACITY = 64
# a launch bound is this many times the count that it was made for, and made again once it is `TOO_HIGH` times the count: more
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


# items of one type that `read` copies at once at most
STAGING_ITEMS = 64

_staging: dict[tuple[Any, str], tuple[wp.array, np.ndarray]] = {}
# how often the host has waited for each device
_waits: dict[str, int] = {}


def read(*pieces: tuple[wp.array, int, int]) -> list[np.ndarray]:
    """Items of arrays of one device, each piece given as array, first item and number of items; waits once for all.

    What comes back is valid until the next call.
    """
    device = wp.get_device(pieces[0][0].device)
    if device.is_cpu:
        return [array.numpy()[start : start + count] for array, start, count in pieces]
    launch_fused()
    used: dict[Any, int] = {}
    found = []
    for array, start, count in pieces:
        key = array.dtype, device.alias
        if key not in _staging:
            pinned = wp.empty(STAGING_ITEMS, dtype=array.dtype, device="cpu", pinned=True)
            _staging[key] = pinned, pinned.numpy()
        pinned, values = _staging[key]
        begin = used.get(key, 0)
        used[key] = begin + count
        wp.copy(pinned, array, begin, start, count)
        found.append(values[begin : begin + count])
    _wait(device)
    return found


def _wait(device: wp.Device) -> None:
    launch_fused()
    wp.synchronize_stream(device.stream)
    _waits[device.alias] = _waits.get(device.alias, 0) + 1


class PinnedResult:
    """Numbers that kernels write straight into pinned memory of the host: no copy is launched."""

    def __init__(self, count: int, dtype: Any, device: wp.Device) -> None:
        self._pinned = wp.zeros(count, dtype=dtype, device="cpu", pinned=device.is_cuda)
        self._host: np.ndarray = self._pinned.numpy()
        self._device = device
        pointer = self._pinned.ptr
        self.array = self._pinned if device.is_cpu else wp.array(ptr=pointer, dtype=dtype, shape=count, device=device)
        """what kernels write"""

    def wait(self) -> np.ndarray:
        """What all kernels launched so far wrote."""
        if not self._device.is_cpu:
            _wait(self._device)
        return self._host


class HostMirror:
    """A copy of a whole array in pinned memory of the host, for both directions; on the CPU the array itself."""

    def __init__(self, array: wp.array) -> None:
        self.array, self._pinned = array, array
        if not wp.get_device(array.device).is_cpu:
            self._pinned = wp.empty(array.shape, dtype=array.dtype, device="cpu", pinned=True)
        self.values: np.ndarray = self._pinned.numpy()
        """what the host reads and writes; undefined on CUDA before the first copy to the host"""

    def copy_to_device(self) -> None:
        """Launch the copy of what the host wrote; the host must wait for the device before it writes again."""
        if self._pinned is not self.array:
            launch_fused()
            wp.copy(self.array, self._pinned)

    def copy_to_host(self) -> None:
        """Launch the copy to the host; `copy_all_to_host` waits for it too."""
        if self._pinned is not self.array:
            launch_fused()
            wp.copy(self._pinned, self.array)


def copy_all_to_host(*mirrors: HostMirror) -> None:
    """Copy arrays of one device to the host, with one wait."""
    for mirror in mirrors:
        mirror.copy_to_host()
    device = wp.get_device(mirrors[0].array.device) if mirrors else None
    if device is not None and not device.is_cpu:
        _wait(device)


class AsyncReadback:
    """Items of an array that the host reads later, without a wait of its own if somebody waits for the device meanwhile."""

    def __init__(self, array: wp.array, start: int = 0, count: int | None = None) -> None:
        """`count` items from `start` on; all of the array by default."""
        self.array, self._device = array, wp.get_device(array.device)
        self._start, self._count = start, len(array) if count is None else count
        self._pinned = array
        self._host: np.ndarray
        if self._device.is_cpu:
            self._host = array.numpy()[self._start : self._start + self._count]
        else:
            self._pinned = wp.empty(self._count, dtype=array.dtype, device="cpu", pinned=True)
            self._host = self._pinned.numpy()
        self._waits_at_launch = -1

    def request(self) -> None:
        """Launch the copy of the items as they are now."""
        self.copy_to_host()
        self.mark_launched()

    def copy_to_host(self) -> None:
        """The half of `request` that a CUDA graph may replay: the copy."""
        if not self._device.is_cpu:
            launch_fused()
            wp.copy(self._pinned, self.array, 0, self._start, self._count)

    def mark_launched(self) -> None:
        """The half of `request` that is no part of a CUDA graph: from now on, whoever waits for the device waits for it."""
        self._waits_at_launch = _waits.get(self._device.alias, 0)

    def values(self) -> np.ndarray:
        """What was requested; waits for it unless somebody has."""
        if not self._device.is_cpu and _waits.get(self._device.alias, 0) == self._waits_at_launch:
            _wait(self._device)
        return self._host
