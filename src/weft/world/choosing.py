"""Choosing some of many items on the device: flags, their places among the chosen, their number."""

import warp as wp

from weft.world.reading import read


def count_chosen(chosen: wp.array, places: wp.array) -> int:
    """Write the place of each chosen item (flag 1) among the chosen ones; gives how many there are."""
    return count_each((chosen, places))[0]


def count_each(*lists: tuple[wp.array, wp.array], also: wp.array | None = None) -> list[int]:
    """As `count_chosen` for several lists, with one wait; the first item of `also` comes last."""
    full = [(chosen, places) for chosen, places in lists if len(chosen)]
    for chosen, places in full:
        wp.utils.array_scan(chosen, places, inclusive=False)
    pieces = [(array, len(array) - 1, 1) for pair in full for array in pair]
    if also is not None:
        pieces.append((also, 0, 1))
    numbers = [int(found[0]) for found in read(*pieces)] if pieces else []
    sums = iter([a + b for a, b in zip(numbers[: 2 * len(full) : 2], numbers[1::2], strict=False)])
    counts = [next(sums) if len(chosen) else 0 for chosen, _ in lists]
    return counts if also is None else [*counts, numbers[-1]]
