"""A few numbers from the device to the host: one wait, however many pieces."""

from typing import Any

import numpy as np
import warp as wp

from weft.runtime.graph_cache import launch_fused

# items that are read at once at most
ROOM = 64

_rooms: dict[tuple[Any, str], tuple[wp.array, np.ndarray]] = {}
# how often the host has waited for each device
_waits: dict[str, int] = {}


def read(*pieces: tuple[wp.array, int, int]) -> list[np.ndarray]:
    """Items of arrays of one device, each given by an array, its first item and their number.

    What comes back is valid until the next call.
    """
    device = wp.get_device(pieces[0][0].device)
    if device.is_cpu:
        return [array.numpy()[start : start + count] for array, start, count in pieces]
    launch_fused()
    places: dict[Any, int] = {}
    found = []
    for array, start, count in pieces:
        key = array.dtype, device.alias
        if key not in _rooms:
            room = wp.empty(ROOM, dtype=array.dtype, device="cpu", pinned=True)
            _rooms[key] = room, room.numpy()
        room, numbers = _rooms[key]
        place = places.get(key, 0)
        places[key] = place + count
        wp.copy(room, array, place, start, count)
        found.append(numbers[place : place + count])
    _wait(device)
    return found


def _wait(device: wp.Device) -> None:
    launch_fused()
    wp.synchronize_stream(device.stream)
    _waits[device.alias] = _waits.get(device.alias, 0) + 1


class PinnedResult:
    """Numbers that kernels of a card write into memory of the host, so that nothing needs to be copied."""

    def __init__(self, count: int, dtype: Any, device: wp.Device) -> None:
        """So many numbers."""
        self._room = wp.zeros(count, dtype=dtype, device="cpu", pinned=device.is_cuda)
        self._numbers: np.ndarray = self._room.numpy()
        self._device = device
        self._then = -1
        self.array = wp.array(ptr=self._room.ptr, dtype=dtype, shape=count, device=device)
        """what kernels write"""

    def expect(self) -> None:
        """Know that they are at it: whoever waits for the device from now on waits for them."""
        self._then = _waits.get(self._device.alias, 0)

    def forget(self) -> None:
        """Others are at it, which nobody has waited for yet."""
        self._then = -1

    def numbers(self) -> np.ndarray:
        """What they wrote; waits for them if nobody has since they were expected."""
        if self._then in (-1, _waits.get(self._device.alias, 0)):
            _wait(self._device)
        self.forget()
        return self._numbers


class Mirror:
    """What the host sees of an array: itself on the CPU, elsewhere a copy in memory that the device can reach by itself."""

    def __init__(self, array: wp.array) -> None:
        self.array, self._room = array, array
        if not wp.get_device(array.device).is_cpu:
            self._room = wp.empty(array.shape, dtype=array.dtype, device="cpu", pinned=True)
        self.values: np.ndarray = self._room.numpy()
        """undefined before something is brought, elsewhere than on the CPU"""

    def send(self) -> None:
        """Have the array be what the host wrote; the host waits for the device before it writes again."""
        if self._room is not self.array:
            launch_fused()
            wp.copy(self.array, self._room)

    def copy_to_host(self) -> None:
        """Have what the array is copied; `copy_all_to_host` waits for that."""
        if self._room is not self.array:
            launch_fused()
            wp.copy(self._room, self.array)


def copy_all_to_host(*mirrors: Mirror) -> None:
    """What arrays of one device are now, with one wait if there are any."""
    for mirror in mirrors:
        mirror.copy_to_host()
    device = wp.get_device(mirrors[0].array.device) if mirrors else None
    if device is not None and not device.is_cpu:
        _wait(device)


class RequestedResult:
    """Numbers that the host wants to know later: whoever waits for the device meanwhile has them brought along."""

    def __init__(self, array: wp.array, start: int = 0, count: int | None = None) -> None:
        """Some items of an array, or all of them."""
        self.array, self._device = array, wp.get_device(array.device)
        self._start, self._count = start, len(array) if count is None else count
        self._room = array
        self._numbers: np.ndarray
        if self._device.is_cpu:
            self._numbers = array.numpy()[self._start : self._start + self._count]
        else:
            self._room = wp.empty(self._count, dtype=array.dtype, device="cpu", pinned=True)
            self._numbers = self._room.numpy()
        self._then = -1

    def ask(self) -> None:
        """Want to know them as they are now."""
        self.copy_to_host()
        self.expect()

    def copy_to_host(self) -> None:
        """Have them copied; of `ask` what may be replayed."""
        if not self._device.is_cpu:
            launch_fused()
            wp.copy(self._room, self.array, 0, self._start, self._count)

    def expect(self) -> None:
        """Know that they are on their way; of `ask` what is not replayed."""
        self._then = _waits.get(self._device.alias, 0)

    def numbers(self) -> np.ndarray:
        """What was asked for; waits if nobody has."""
        if not self._device.is_cpu and _waits.get(self._device.alias, 0) == self._then:
            _wait(self._device)
        return self._numbers
