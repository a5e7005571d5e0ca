"""Choosing some of many items on the device: flags, their places among the chosen, their number."""

import warp as wp

from weft.world.launch import launch
from weft.world.reading import read

wp.set_module_options({"enable_backward": False})

# lists that are counted with one wait
MOST_LISTS = 6


@wp.kernel
def _place_in_order(first: int, count: int, counts: wp.array[int], places: wp.array[int], total: wp.array[int]):
    # one item: on a CPU that is as fast as anything
    begin = first + wp.tid()
    place = int(0)
    for i in range(begin, count):
        places[i] = place
        place += counts[i]
    total[begin] = place


@wp.func
def total_of(chosen: wp.array[int], places: wp.array[int], count: int) -> int:
    """How many of so many items are chosen, given the places of all."""
    total = int(0)
    if count > 0:
        total = chosen[count - 1] + places[count - 1]
    return total


@wp.kernel
def _gather_totals(
    first: int,
    a: wp.array[int],
    a_places: wp.array[int],
    a_count: int,
    b: wp.array[int],
    b_places: wp.array[int],
    b_count: int,
    c: wp.array[int],
    c_places: wp.array[int],
    c_count: int,
    d: wp.array[int],
    d_places: wp.array[int],
    d_count: int,
    e: wp.array[int],
    e_places: wp.array[int],
    e_count: int,
    f: wp.array[int],
    f_places: wp.array[int],
    f_count: int,
    also: wp.array[int],
    totals: wp.array[int],
):
    # one item; what is read in one go lies side by side then
    i = first + wp.tid()
    totals[i] = total_of(a, a_places, a_count)
    totals[i + 1] = total_of(b, b_places, b_count)
    totals[i + 2] = total_of(c, c_places, c_count)
    totals[i + 3] = total_of(d, d_places, d_count)
    totals[i + 4] = total_of(e, e_places, e_count)
    totals[i + 5] = total_of(f, f_places, f_count)
    totals[i + 6] = also[0]


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
    """As `count_chosen` for at most six lists, with one wait; the first item of `also` comes last."""
    full = [(chosen, places) for chosen, places in lists if len(chosen)]
    for chosen, places in full:
        wp.utils.array_scan(chosen, places, inclusive=False)
    if not full and also is None:
        return [0] * len(lists)
    device = wp.get_device(full[0][0].device if also is None else also.device)
    if device.is_cpu:
        counts = [int(chosen.numpy()[-1] + places.numpy()[-1]) if len(chosen) else 0 for chosen, places in lists]
        return counts if also is None else [*counts, int(also.numpy()[0])]
    if device.alias not in _totals:
        _totals[device.alias] = wp.zeros(MOST_LISTS + 1, dtype=int, device=device)
    totals = _totals[device.alias]
    # those that are there come first, so that launches are alike however many are empty
    inputs = [part for chosen, places in full for part in (chosen, places, len(chosen))]
    inputs += [totals, totals, 0] * (MOST_LISTS - len(full))
    launch(_gather_totals, 1, [*inputs, totals if also is None else also, totals], device=device)
    numbers = read((totals, 0, MOST_LISTS + 1))[0].tolist()
    found = iter(numbers)
    counts = [next(found) if len(chosen) else 0 for chosen, _ in lists]
    return counts if also is None else [*counts, numbers[-1]]


_totals: dict[str, wp.array] = {}
