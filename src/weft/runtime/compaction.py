"""Reductions, prefix sums and compaction.

Sums and maxima are computed over the lanes of a warp, over a block, or over all threads of a launch:

- Warp lanes. A kernel whose items are sums over dozens of terms is launched with `lanes_on(device)` threads an item: thread
  i is lane `i % lanes()` of item `i // lanes()`, runs every `lanes()`-th term, and `lane_sum` gives the sum to all lanes. On
  the CPU a thread runs an item alone, in order.
- Block. `block_sum` and `block_max` reduce over the `BLOCK` threads of a cooperative kernel; on the CPU they return the value.
- Launch. `reduce_sum` and `reduce_max` add the result of every block, or thread of the CPU, to an array.

Floating-point sums have a fixed order, and only integers and maxima go through atomics: results are the same bytes every time.

Compaction computes exclusive prefix sums (scans) on the device: from flags or counts of items it gives the offsets at which
the chosen items are written, and their total.
"""

# mypy: disable-error-code="empty-body"

import threading

import warp as wp

from weft.runtime.buffers import PinnedResult
from weft.runtime.cooperative import BLOCK, WARP, CooperativeLauncher, grid_barrier, on_gpu
from weft.runtime.launch import launch
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# threads that a large GPU keeps resident at once (an H200: 132 multiprocessors of 2048 threads)
RESIDENT_THREADS = 2**18

_native = NativeHeader(__file__, "reduction.h")


@wp.func_native(_native.body("lanes", WARP=WARP))
def lanes() -> int:
    """How many threads share an item: a warp on CUDA, 1 on the CPU."""
    ...


@wp.func_native(_native.body("lane_sum", WARP=WARP))
def lane_sum(value: wp.float64) -> wp.float64:
    """The sum of `value` over the lanes of an item, in all lanes."""
    ...


@wp.func_native(_native.body("lane_max", WARP=WARP))
def lane_max(value: wp.float64) -> wp.float64:
    """The maximum of `value` over the lanes of an item, in all lanes."""
    ...


@wp.func_native(_native.body("sync_lanes"))
def sync_lanes():
    """A barrier of the lanes of an item: what a lane wrote before it is visible to the others after it."""
    ...


@wp.func
def lane_sum_vector(value: wp.vec3d) -> wp.vec3d:
    """`lane_sum` of a vector."""
    return wp.vec3d(lane_sum(value[0]), lane_sum(value[1]), lane_sum(value[2]))


@wp.func
def lane_sum_matrix(value: wp.mat33d) -> wp.mat33d:
    """`lane_sum` of a matrix."""
    total = wp.mat33d()
    for i in range(3):
        for j in range(3):
            total[i, j] = lane_sum(value[i, j])
    return total


@wp.func_native(_native.body("block_sum", BLOCK=BLOCK, WARP=WARP))
def block_sum(value: wp.float64) -> wp.float64:
    """The sum of `value` over all threads of the block, in all of them."""
    ...


@wp.func
def block_sum_vector(value: wp.vec3d) -> wp.vec3d:
    """`block_sum` of a vector."""
    return wp.vec3d(block_sum(value[0]), block_sum(value[1]), block_sum(value[2]))


@wp.func_native(_native.body("block_max", BLOCK=BLOCK, WARP=WARP))
def block_max(value: wp.float64) -> wp.float64:
    """The maximum of `value` over all threads of the block, in all of them."""
    ...


@wp.func_native(_native.body("reduce_sum", BLOCK=BLOCK, WARP=WARP))
def reduce_sum(counts: wp.array[int], index: int, value: int):
    """Add the sum of `value` over all threads to counts[index]; on CUDA all threads of a block must call it."""
    ...


@wp.func_native(_native.body("reduce_max", BLOCK=BLOCK, WARP=WARP))
def reduce_max(maxima: wp.array[wp.float64], index: int, value: wp.float64):
    """Raise maxima[index] to the largest `value` of all threads, NaN counting as the largest; otherwise as `reduce_sum`."""
    ...


def lanes_on(device: wp.DeviceLike) -> int:
    """What `lanes()` is in kernels on a device."""
    return 1 if wp.get_device(device).is_cpu else WARP


def threads_per_item(device: wp.DeviceLike, items: int, most: int) -> int:
    """How many threads, up to `most`, each of so many items can have while a GPU runs all of them at once; 1 on the CPU."""
    return 1 if wp.get_device(device).is_cpu else min(max(RESIDENT_THREADS // max(items, 1), 1), most)


# lists that one launch scans
MAX_LISTS = 6
# items of a list that are worth a thread on CUDA: fewer launch more blocks, whose barrier takes longer
ITEMS_PER_THREAD = 16

_native_compaction = NativeHeader(__file__, "compaction.h")


@wp.func_native(_native_compaction.body("block_sum_of_range", BLOCK=BLOCK, WARP=WARP))
def block_sum_of_range(begin: int, end: int, values: wp.array[int]) -> int:
    """The sum of values[begin:end], by a block on CUDA."""
    ...


@wp.func_native(_native_compaction.body("block_scan_of_range", BLOCK=BLOCK, WARP=WARP))
def block_scan_of_range(begin: int, end: int, start: int, values: wp.array[int], offsets: wp.array[int]):
    """The exclusive prefix sums of values[begin:end], the first of which is `start`, by a block on CUDA."""
    ...


@wp.func_native(_native_compaction.body("serial_scan"))
def serial_scan(values: wp.array[int], offsets: wp.array[int], count: int) -> int:
    """The exclusive prefix sums of the first `count` values, by one thread; returns their total."""
    ...


@wp.struct
class ScanList:
    """A list to scan: values, where their prefix sums go, and how many there are."""

    values: wp.array[int]
    offsets: wp.array[int]
    count: int


@wp.func
def range_begin(count: int, block: int, blocks: int) -> int:
    """Where the range of a block begins in a list of so many items."""
    each = (count + blocks - 1) // blocks
    return wp.min(each * block, count)


@wp.func
def sum_range(index: int, block: int, blocks: int, given: ScanList, sums: wp.array[int]):
    """First pass: the sum over the block's range of list `index`."""
    begin = range_begin(given.count, block, blocks)
    end = range_begin(given.count, block + 1, blocks)
    sums[index * blocks + block] = block_sum_of_range(begin, end, given.values)


@wp.func
def scan_range(index: int, block: int, blocks: int, given: ScanList, sums: wp.array[int], totals: wp.array[int]):
    """Second pass: the prefix sums of the block's range of list `index`, given the sums of all ranges."""
    start = block_sum_of_range(index * blocks, index * blocks + block, sums)
    begin = range_begin(given.count, block, blocks)
    end = range_begin(given.count, block + 1, blocks)
    block_scan_of_range(begin, end, start, given.values, given.offsets)
    if block == blocks - 1:
        totals[index] = start + sums[index * blocks + block]


@wp.func
def cooperative_scan(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    values: wp.array[int],
    offsets: wp.array[int],
    count: int,
    sums: wp.array[int],
):
    """The exclusive prefix sums of so many values, inside a cooperative kernel; `sums` has an item for each block. The caller
    needs a grid barrier before it reads `offsets`."""
    if on_gpu():
        block = t // BLOCK
        blocks = threads // BLOCK
        begin = range_begin(count, block, blocks)
        end = range_begin(count, block + 1, blocks)
        sums[block] = block_sum_of_range(begin, end, values)
        grid_barrier(arrivals)
        start = block_sum_of_range(0, block, sums)
        block_scan_of_range(begin, end, start, values, offsets)
    elif t == 0:
        serial_scan(values, offsets, count)


@wp.func
def scan_total(values: wp.array[int], offsets: wp.array[int], count: int) -> int:
    """The sum of so many values, given their exclusive prefix sums."""
    total = int(0)
    if count > 0:
        total = values[count - 1] + offsets[count - 1]
    return total


@wp.kernel
def scan_serially(
    first: int, count: int, values: wp.array[int], offsets: wp.array[int], index: int, totals: wp.array[int]
):
    """The prefix sums of one list and totals[index], on one thread of the CPU: launched with one item."""
    if first + wp.tid() == 0:
        totals[index] = serial_scan(values, offsets, count)


@wp.kernel(launch_bounds=BLOCK)
def scan_lists(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    a: ScanList,
    b: ScanList,
    c: ScanList,
    d: ScanList,
    e: ScanList,
    f: ScanList,
    extra: wp.array[int],
    sums: wp.array[int],
    totals: wp.array[int],
):
    """Prefix sums of six lists on CUDA; their totals and extra[0] go to pinned memory of the host."""
    t = first + wp.tid()
    block = t // BLOCK
    blocks = threads // BLOCK
    sum_range(0, block, blocks, a, sums)
    sum_range(1, block, blocks, b, sums)
    sum_range(2, block, blocks, c, sums)
    sum_range(3, block, blocks, d, sums)
    sum_range(4, block, blocks, e, sums)
    sum_range(5, block, blocks, f, sums)
    grid_barrier(arrivals)
    scan_range(0, block, blocks, a, sums, totals)
    scan_range(1, block, blocks, b, sums, totals)
    scan_range(2, block, blocks, c, sums, totals)
    scan_range(3, block, blocks, d, sums, totals)
    scan_range(4, block, blocks, e, sums, totals)
    scan_range(5, block, blocks, f, sums, totals)
    if t == 0:
        totals[MAX_LISTS] = extra[0]


Scanned = tuple[wp.array, wp.array, int]
"""values, offsets to write, and how many items of both count"""


def exclusive_scan(values: wp.array, offsets: wp.array, count: int | None = None) -> int:
    """Write the exclusive prefix sums of the first `count` values (all by default) to `offsets`; returns the total.

    With flags 0 and 1 as values, the offsets are where the chosen items go, and the total is how many there are.
    """
    return exclusive_scans((values, offsets, len(values) if count is None else count))[0]


def exclusive_scans(*lists: Scanned, extra: wp.array | None = None) -> list[int]:
    """`exclusive_scan` of at most `MAX_LISTS` lists of one device, with one wait; returns their totals.

    The integer extra[0], if given, is read back with them and comes last.
    """
    if extra is None and not any(count for _, _, count in lists):
        return [0] * len(lists)
    device = wp.get_device((lists[0][0] if extra is None else extra).device)
    # Python threads that work side by side have memory of their own
    scans: dict[str, _Scans] = _of_thread.__dict__
    if device.alias not in scans:
        scans[device.alias] = _Scans(device)
    totals = scans[device.alias].run(lists, extra)
    return totals[: len(lists)] if extra is None else [*totals[: len(lists)], totals[MAX_LISTS]]


class _Scans:
    """The memory for scans on a device."""

    def __init__(self, device: wp.Device) -> None:
        self._device = device
        self._cooperative = CooperativeLauncher(device)
        self._totals = PinnedResult(MAX_LISTS + 1, int, device)
        self._sums = wp.zeros(MAX_LISTS * max(1, int(device.sm_count)), dtype=int, device=device)
        self._lists = [ScanList() for _ in range(MAX_LISTS)]

    def run(self, lists: tuple[Scanned, ...], extra: wp.array | None) -> list[int]:
        """Scan; returns `MAX_LISTS` totals and extra[0], undefined where there is no list or no extra."""
        totals = self._totals.array
        if self._device.is_cpu:
            for index, (values, offsets, count) in enumerate(lists):
                launch(scan_serially, 1, [count, values, offsets, index, totals])
            if extra is not None:
                totals.numpy()[MAX_LISTS] = extra.numpy()[0]
        else:
            for index, given in enumerate(self._lists):
                values, offsets, count = lists[index] if index < len(lists) else (totals, totals, 0)
                # setting a field costs more than comparing it
                if given.values is not values or given.offsets is not offsets:
                    given.values, given.offsets = values, offsets
                given.count = count
            inputs = [*self._lists, totals if extra is None else extra, self._sums, totals]
            largest = max((count for _, _, count in lists), default=0)
            self._cooperative.launch(scan_lists, 1 + largest // ITEMS_PER_THREAD, inputs)
        return self._totals.wait().tolist()


_of_thread = threading.local()
