"""A few numbers from the device to the host: one wait, however many pieces."""

from typing import Any

import numpy as np
import warp as wp

# items that are read at once at most
ROOM = 64

_rooms: dict[tuple[Any, str], tuple[wp.array, np.ndarray]] = {}


def read(*pieces: tuple[wp.array, int, int]) -> list[np.ndarray]:
    """Items of arrays of one device, each given by an array, its first item and their number.

    What comes back is valid until the next call.
    """
    device = wp.get_device(pieces[0][0].device)
    if device.is_cpu:
        return [array.numpy()[start : start + count] for array, start, count in pieces]
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
    wp.synchronize_stream(device.stream)
    return found
