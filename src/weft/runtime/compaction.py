"""Choosing some of many items on the device: flags, their places among the chosen, their number."""

# mypy: disable-error-code="empty-body"

from typing import Any

import warp as wp

from weft.runtime.cooperative import BLOCK, CooperativeLauncher, grid_barrier, on_gpu
from weft.runtime.launch import launch
from weft.runtime.readback import PinnedResult

wp.set_module_options({"enable_backward": False})

# lists that are counted with one wait
MOST_LISTS = 6
# items of a list that are worth a thread of a card
ITEMS = 16


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


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    __shared__ int parts[{BLOCK // 32}];
    int sum = 0;
    for (int i = begin + threadIdx.x; i < end; i += {BLOCK})
        sum += values.data[i];
    for (int far = 16; far > 0; far /= 2)
        sum += __shfl_xor_sync(0xffffffffu, sum, far);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int k = 0; k < {BLOCK // 32}; ++k)
        sum += parts[k];
    __syncthreads();
    return sum;
#else
    return 0;
#endif
    """
)
def add_up(begin: int, end: int, values: wp.array[int]) -> int:
    """The sum of some numbers, by a block of a card."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    __shared__ int parts[{BLOCK // 32}];
    const int lane = threadIdx.x & 31;
    for (; begin < end; begin += {BLOCK}) {{
        const int i = begin + threadIdx.x, value = i < end ? values.data[i] : 0;
        int sum = value;
        for (int far = 1; far < 32; far *= 2) {{
            const int other = __shfl_up_sync(0xffffffffu, sum, far);
            sum += lane >= far ? other : 0;
        }}
        if (lane == 31) parts[threadIdx.x / 32] = sum;
        __syncthreads();
        int place = start + sum - value;
        for (int k = 0; k < {BLOCK // 32}; ++k) {{
            place += k < threadIdx.x / 32 ? parts[k] : 0;
            start += parts[k];
        }}
        if (i < end) places.data[i] = place;
        __syncthreads();
    }}
#endif
    """
)
def place_each(begin: int, end: int, start: int, values: wp.array[int], places: wp.array[int]):
    """Where the items of each begin, the first of which begin at `start`, by a block of a card."""
    ...


@wp.func
def tally_part(number: int, block: int, blocks: int, values: wp.array[int], count: int, sums: wp.array[int]):
    """Add up the block's part of a list."""
    sums[number * blocks + block] = add_up(part_of(count, block, blocks), part_of(count, block + 1, blocks), values)


@wp.func
def place_part(
    number: int,
    block: int,
    blocks: int,
    values: wp.array[int],
    places: wp.array[int],
    count: int,
    sums: wp.array[int],
    totals: wp.array[int],
):
    """Place the items of the block's part of a list, given the sums of all parts."""
    begin = number * blocks
    start = add_up(begin, begin + block, sums)
    place_each(part_of(count, block, blocks), part_of(count, block + 1, blocks), start, values, places)
    if block == blocks - 1:
        totals[number] = start + sums[begin + block]


@wp.func
def place_all(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    values: wp.array[int],
    places: wp.array[int],
    count: int,
    sums: wp.array[int],
):
    """Where the items of each of so many begin, for a kernel whose threads wait for each other; `sums` has room for a number
    of each block."""
    if on_gpu():
        block = t // BLOCK
        blocks = threads // BLOCK
        tally_part(0, block, blocks, values, count, sums)
        grid_barrier(arrivals)
        start = add_up(0, block, sums)
        place_each(part_of(count, block, blocks), part_of(count, block + 1, blocks), start, values, places)
    elif t == 0:
        place = int(0)
        for i in range(count):
            places[i] = place
            place += values[i]


@wp.func
def part_of(count: int, block: int, blocks: int) -> int:
    """Where the block's part of a list begins."""
    each = (count + blocks - 1) // blocks
    return wp.min(each * block, count)


@wp.kernel(launch_bounds=BLOCK)
def count_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
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
    sums: wp.array[int],
    totals: wp.array[int],
):
    """Places and totals of several lists, by blocks of a card, which tell the host."""
    t = first + wp.tid()
    block = t // BLOCK
    blocks = threads // BLOCK
    tally_part(0, block, blocks, a, a_count, sums)
    tally_part(1, block, blocks, b, b_count, sums)
    tally_part(2, block, blocks, c, c_count, sums)
    tally_part(3, block, blocks, d, d_count, sums)
    tally_part(4, block, blocks, e, e_count, sums)
    tally_part(5, block, blocks, f, f_count, sums)
    grid_barrier(arrivals)
    place_part(0, block, blocks, a, a_places, a_count, sums, totals)
    place_part(1, block, blocks, b, b_places, b_count, sums, totals)
    place_part(2, block, blocks, c, c_places, c_count, sums, totals)
    place_part(3, block, blocks, d, d_places, d_count, sums, totals)
    place_part(4, block, blocks, e, e_places, e_count, sums, totals)
    place_part(5, block, blocks, f, f_places, f_count, sums, totals)
    if t == 0:
        totals[MOST_LISTS] = also[0]


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
    return count_each((chosen, places, len(chosen)))[0]


def count_each(*lists: tuple[wp.array, wp.array, int], also: wp.array | None = None) -> list[int]:
    """As `count_chosen` for the first items of at most six lists, with one wait; the first item of `also` comes last."""
    full = [one for one in lists if one[2]]
    if not full and also is None:
        return [0] * len(lists)
    device = wp.get_device(full[0][0].device if also is None else also.device)
    if device.alias not in _counters:
        _counters[device.alias] = Counter(device)
    _counters[device.alias].start(*lists, also=also)
    *counts, besides = _counters[device.alias].numbers(len(lists))
    return counts if also is None else [*counts, besides]


class Counter:
    """Counts what is chosen in several lists: begins at once, and says later what it found."""

    def __init__(self, device: wp.Device) -> None:
        self._device = device
        self._cooperative = CooperativeLauncher(device)
        self._told = PinnedResult(MOST_LISTS + 1, int, device)
        self._sums = wp.zeros(MOST_LISTS * max(1, int(device.sm_count)), dtype=int, device=device)
        self._found: list[int] = []

    def start(self, *lists: tuple[wp.array, wp.array, int], also: wp.array | None = None) -> None:
        """Place and count the first items of at most six lists; launches only."""
        if self._device.is_cpu:
            found = [_count_on_cpu(*one) for one in lists]
            self._found = found + [0] * (MOST_LISTS - len(lists)) + [0 if also is None else int(also.numpy()[0])]
            return
        self._told.forget()
        totals = self._told.array
        inputs: list[Any] = [part for one in lists for part in (one if one[2] else (totals, totals, 0))]
        inputs += [totals, totals, 0] * (MOST_LISTS - len(lists))
        largest = max((count for _, _, count in lists), default=0)
        inputs += [totals if also is None else also, self._sums, totals]
        self._cooperative.launch(count_together, 1 + largest // ITEMS, inputs)

    def expect(self) -> None:
        """Know that it was started: whoever waits for the device from now on has it counted."""
        self._told.expect()

    def numbers(self, lists: int) -> list[int]:
        """How many are chosen in each of so many lists, then what came besides; waits for it if nobody has."""
        told = self._found if self._device.is_cpu else self._told.numbers().tolist()
        return [*told[:lists], told[MOST_LISTS]]


def _count_on_cpu(chosen: wp.array, places: wp.array, count: int) -> int:
    if count == 0:
        return 0
    wp.utils.array_scan(chosen[:count], places[:count], inclusive=False)
    return int(chosen.numpy()[count - 1] + places.numpy()[count - 1])


_counters: dict[str, Counter] = {}
