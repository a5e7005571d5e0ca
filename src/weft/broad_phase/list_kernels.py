"""Kernels of `lists`, and the functions with which a search kernel writes the entries of its queries."""

# mypy: disable-error-code="empty-body"

from typing import Any

import warp as wp

from weft.runtime.cooperative import on_gpu
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# entries up to which the threads that copy the entries of a query on CUDA also sort them: each entry is compared with all
# others, which takes time with the square of their number but runs in parallel
MOST_SORTED_BY_COPY = 128
# entries up to which insertion sort is used: it beats a heap on short lists
MOST_SORTED_BY_INSERTION = 48

_native = NativeHeader(__file__, "lists.h")

ListSums = wp.types.vector(length=3, dtype=wp.int64)
"""of the queries up to one: their entries, how many had too few slots, how many of them were not counted to the end"""


@wp.struct
class Queries:
    """The queries that a launch of a search kernel answers, and the slots that each has for its entries.

    In the first pass (`selected` 0) item i is query i, and its `capacity` slots begin at i * capacity. In later passes
    (`selected` 1) item i is query items[i], and its slots begin at starts[items[i]].
    """

    selected: int
    items: wp.array[int]
    starts: wp.array[wp.int64]
    capacity: int
    """slots of each query; entries beyond it are counted and not written"""
    stop: int
    """once it has counted more entries than this a query may end its search"""
    counts: wp.array[int]
    """output: entries of each query"""


@wp.func
def query_of_item(queries: Queries, item: int) -> int:
    """The query that an item of the launch answers."""
    query = item
    if queries.selected == 1:
        query = queries.items[item]
    return query


@wp.func
def first_slot(queries: Queries, query: int) -> wp.int64:
    """Where the slots of a query begin."""
    start = wp.int64(query) * wp.int64(queries.capacity)
    if queries.selected == 1:
        start = queries.starts[query]
    return start


@wp.func
def slot_count(queries: Queries, query: int) -> int:
    """How many slots a query has."""
    count = queries.capacity
    if queries.selected == 1 and queries.capacity > 0:
        count = int(queries.starts[query + 1] - queries.starts[query])
    return count


@wp.func
def must_sort(queries: Queries, count: int) -> bool:
    """Whether a search must sort the entries of a query itself: on CUDA `copy_entries` sorts short lists."""
    return not on_gpu() or queries.selected == 1 or count > MOST_SORTED_BY_COPY


@wp.func
def sort_entries(found: wp.array[int], start: wp.int64, count: int):
    """Sort found[start : start + count]: by insertion when short, else by heapsort."""
    if count <= MOST_SORTED_BY_INSERTION:
        for i in range(1, count):
            value = found[start + wp.int64(i)]
            j = i - 1
            while j >= 0 and found[start + wp.int64(wp.max(j, 0))] > value:
                found[start + wp.int64(j + 1)] = found[start + wp.int64(j)]
                j -= 1
            found[start + wp.int64(j + 1)] = value
    else:
        for i in range(count // 2):
            _sift_down(found, start, count // 2 - 1 - i, count)
        for i in range(count - 1):
            last = count - 1 - i
            value = found[start + wp.int64(last)]
            found[start + wp.int64(last)] = found[start]
            found[start] = value
            _sift_down(found, start, 0, last)


@wp.func
def _sift_down(found: wp.array[int], start: wp.int64, place: int, count: int):
    value = found[start + wp.int64(place)]
    hole = int(place)
    child = int(2 * place + 1)
    while child < count:
        if child + 1 < count and found[start + wp.int64(child + 1)] > found[start + wp.int64(child)]:
            child += 1
        if found[start + wp.int64(child)] <= value:
            break
        found[start + wp.int64(hole)] = found[start + wp.int64(child)]
        hole = child
        child = 2 * hole + 1
    found[start + wp.int64(hole)] = value


@wp.kernel
def scan_counts_serially(
    first: int,
    count: int,
    queries: Queries,
    room: wp.int64,
    offsets: wp.array[wp.int64],
    too_short: wp.array[int],
    unknown: wp.array[int],
    sums: wp.array[ListSums],
):
    """Prefix sum of the counts and the queries that need another pass, by one thread: the fastest way on a CPU.

    The sums are 64-bit, since counts may add up to more than the limit of a list before it is refused, and are written for
    the last query alone.
    """
    total = wp.int64(0)
    short = int(0)
    more = int(0)
    offsets[first + wp.tid()] = total
    for i in range(count):
        n = queries.counts[i]
        total += wp.int64(n)
        offsets[i + 1] = wp.min(total, room)
        if n > queries.capacity:
            too_short[short] = i
            short += 1
        if n > queries.stop:
            unknown[more] = i
            more += 1
    sums[count - 1] = ListSums(total, wp.int64(short), wp.int64(more))


@wp.kernel
def prepare_scan(first: int, queries: Queries, terms: wp.array[ListSums]):
    """The terms that CUDA scans: a count, and flags for too few slots and for a count that is not known to the end."""
    i = first + wp.tid()
    n = queries.counts[i]
    too_short = wp.int64(0)
    unknown = wp.int64(0)
    if n > queries.capacity:
        too_short = wp.int64(1)
    if n > queries.stop:
        unknown = wp.int64(1)
    terms[i] = ListSums(wp.int64(n), too_short, unknown)


@wp.kernel
def take_scan(
    first: int,
    sums: wp.array[ListSums],
    room: wp.int64,
    offsets: wp.array[wp.int64],
    too_short: wp.array[int],
    unknown: wp.array[int],
):
    """Offsets and the queries that need another pass, in order, from the inclusive scan."""
    i = first + wp.tid()
    before = ListSums()
    if i > 0:
        before = sums[i - 1]
    offsets[i] = wp.min(before[0], room)
    here = sums[i]
    offsets[i + 1] = wp.min(here[0], room)
    if here[1] > before[1]:
        too_short[int(before[1])] = i
    if here[2] > before[2]:
        unknown[int(before[2])] = i


@wp.func_native(_native.body("copy_slots"))
def copy_slots(
    slots: wp.array[Any], start: wp.int64, lane: int, lanes: int, count: int, found: wp.array[Any], place: wp.int64
):
    """Copy `count` entries to their place in the list; each of `lanes` threads copies one in `lanes`."""
    ...


@wp.func_native(_native.body("count_below"))
def count_below(slots: wp.array[int], start: wp.int64, count: int, entry: int) -> int:
    """How many of the entries in `count` slots are smaller than an entry."""
    ...


@wp.kernel
def copy_pairs(
    first: int,
    lanes: int,
    counts: wp.array[int],
    offsets: wp.array[wp.int64],
    capacity: int,
    slots: wp.array[wp.vec2i],
    found: wp.array[wp.vec2i],
):
    """The pairs of each query from its slots to their place in the list, if all of them fit there."""
    thread = first + wp.tid()
    i = thread / lanes
    n = counts[i]
    place = offsets[i]
    if n <= capacity and place + wp.int64(n) <= wp.int64(found.shape[0]):
        copy_slots(slots, wp.int64(i) * wp.int64(capacity), thread % lanes, lanes, n, found, place)


@wp.kernel
def copy_entries(
    first: int,
    lanes: int,
    counts: wp.array[int],
    offsets: wp.array[wp.int64],
    capacity: int,
    slots: wp.array[int],
    found: wp.array[int],
):
    """The integers of each query from its slots to their place in the list; several lanes sort short ones on the way."""
    thread = first + wp.tid()
    i = thread / lanes
    n = counts[i]
    place = offsets[i]
    if n <= capacity and place + wp.int64(n) <= wp.int64(found.shape[0]):
        start = wp.int64(i) * wp.int64(capacity)
        if lanes > 1 and n <= MOST_SORTED_BY_COPY:
            # entries are distinct, so that the number of smaller ones is the place of an entry
            for k in range(thread % lanes, n, lanes):
                entry = slots[start + wp.int64(k)]
                found[place + wp.int64(count_below(slots, start, n, entry))] = entry
        else:
            copy_slots(slots, start, thread % lanes, lanes, n, found, place)
    else:
        # a search that was captured reads the list before anybody knows that it is too short: 0 is a valid index
        for k in range(thread % lanes, n, lanes):
            if place + wp.int64(k) < wp.int64(found.shape[0]):
                found[place + wp.int64(k)] = 0


@wp.func
def overflows(sums: wp.array[ListSums], room: int) -> int:
    """1 if a captured search did not fit: the list is longer than `room`, or a query had too few slots."""
    last = sums[sums.shape[0] - 1]
    full = int(0)
    if last[0] > wp.int64(room) or last[1] != wp.int64(0) or last[2] != wp.int64(0):
        full = 1
    return full
