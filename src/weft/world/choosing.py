"""Choosing some of many items on the device: flags, their places among the chosen, their number."""

import warp as wp

from weft.world.launch import launch
from weft.world.reading import read

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _place_in_order(first: int, count: int, counts: wp.array[int], places: wp.array[int], total: wp.array[int]):
    # one item: on a CPU that is as fast as anything
    begin = first + wp.tid()
    place = int(0)
    for i in range(begin, count):
        places[i] = place
        place += counts[i]
    total[begin] = place


class Placing:
    """Places of items in a list from how many each of them has; takes the first items of longer arrays."""

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self._total = wp.zeros(1, dtype=int, device=device)
        self._total_view = self._total.numpy() if device.is_cpu else None

    def place(self, counts: wp.array, places: wp.array, count: int) -> int:
        """Write where the items of each begin; gives how many there are. On the CPU this makes no object."""
        if self._total_view is None:
            return count_chosen(counts[:count], places[:count]) if count else 0
        launch(_place_in_order, 1, [count, counts, places, self._total], device=self.device)
        return int(self._total_view[0])


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
