"""Choosing some of many items on the device: flags, their places among the chosen, their number."""

import warp as wp

from weft.world.reading import read


def count_chosen(chosen: wp.array, places: wp.array) -> int:
    """Write the place of each chosen item (flag 1) among the chosen ones; gives how many there are."""
    count = len(chosen)
    if count == 0:
        return 0
    wp.utils.array_scan(chosen, places, inclusive=False)
    before, last = read((places, count - 1, 1), (chosen, count - 1, 1))
    return int(before[0] + last[0])
