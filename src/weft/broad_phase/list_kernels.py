"""The kernels of `lists`: where rows begin, how long they are, and how they come together."""

# mypy: disable-error-code="empty-body"

from typing import Any

import warp as wp

from weft.runtime.cooperative import on_gpu

wp.set_module_options({"enable_backward": False})

# entries up to which a row is sorted while it is copied
SORTED_ON_THE_WAY = 128

Tally = wp.types.vector(length=3, dtype=wp.int64)


@wp.func
def row_start(chosen: int, query: int, starts: wp.array[wp.int64], capacity: int) -> wp.int64:
    """Where the row of a query begins."""
    start = wp.int64(query) * wp.int64(capacity)
    if chosen == 1:
        start = starts[query]
    return start


@wp.func
def sorts_itself(chosen: int, count: int) -> bool:
    """Whether a search must leave a row of so many items ascending: on CUDA short rows are sorted when they are copied."""
    return not on_gpu() or chosen == 1 or count > SORTED_ON_THE_WAY


@wp.func
def sort_row(found: wp.array[int], start: wp.int64, count: int):
    """Sort found[start:start + count]: by insertion when short, else as a heap."""
    if count <= 48:
        for i in range(1, count):
            value = found[start + wp.int64(i)]
            j = i - 1
            while j >= 0 and found[start + wp.int64(wp.max(j, 0))] > value:
                found[start + wp.int64(j + 1)] = found[start + wp.int64(j)]
                j -= 1
            found[start + wp.int64(j + 1)] = value
    else:
        for i in range(count // 2):
            _sift(found, start, count // 2 - 1 - i, count)
        for i in range(count - 1):
            last = count - 1 - i
            value = found[start + wp.int64(last)]
            found[start + wp.int64(last)] = found[start]
            found[start] = value
            _sift(found, start, 0, last)


@wp.func
def _sift(found: wp.array[int], start: wp.int64, place: int, count: int):
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
def tally_counts(first: int, counts: wp.array[int], capacity: int, stop: int, tally: wp.array[Tally]):
    """What is summed: entries, items whose row was too short, items whose count is not known yet."""
    i = first + wp.tid()
    n = counts[i]
    too_short = wp.int64(0)
    unknown = wp.int64(0)
    if n > capacity:
        too_short = wp.int64(1)
    if n > stop:
        unknown = wp.int64(1)
    tally[i] = Tally(wp.int64(n), too_short, unknown)


@wp.kernel
def place_items(
    first: int,
    sums: wp.array[Tally],
    room: wp.int64,
    offsets: wp.array[wp.int64],
    too_short: wp.array[int],
    unknown: wp.array[int],
):
    """Offsets from the scan, and the items that need another search, in order."""
    i = first + wp.tid()
    before = Tally()
    if i > 0:
        before = sums[i - 1]
    offsets[i] = wp.min(before[0], room)
    here = sums[i]
    offsets[i + 1] = wp.min(here[0], room)
    if here[1] > before[1]:
        too_short[int(before[1])] = i
    if here[2] > before[2]:
        unknown[int(before[2])] = i


@wp.kernel
def add_up_in_order(
    first: int,
    count: int,
    counts: wp.array[int],
    capacity: int,
    stop: int,
    room: wp.int64,
    offsets: wp.array[wp.int64],
    too_short: wp.array[int],
    unknown: wp.array[int],
    sums: wp.array[Tally],
):
    """All of that by one thread, which is as fast as anything on a CPU; of the sums only the last counts."""
    total = wp.int64(0)
    short = int(0)
    more = int(0)
    offsets[first + wp.tid()] = total
    for i in range(count):
        n = counts[i]
        total += wp.int64(n)
        offsets[i + 1] = wp.min(total, room)
        if n > capacity:
            too_short[short] = i
            short += 1
        if n > stop:
            unknown[more] = i
            more += 1
    sums[count - 1] = Tally(total, wp.int64(short), wp.int64(more))


@wp.func_native(
    """
    const auto* from = slots.data + start;
    auto* to = found.data + place;
    if (lanes == 1)
        // what a compiler knows how to copy
        for (int k = 0; k < count; ++k)
            to[k] = from[k];
    else
        for (int k = lane; k < count; k += lanes)
            to[k] = from[k];
    """
)
def copy_row(
    slots: wp.array[Any], start: wp.int64, lane: int, lanes: int, count: int, found: wp.array[Any], place: wp.int64
):
    """One of some lanes copies its share of a row."""
    ...


@wp.func_native(
    """
    const int* row = slots.data + start;
    int below = 0, k = 0;
#if defined(__CUDA_ARCH__)
    // four at a time, where they lie as such loads want
    if (((size_t)row & 15) == 0)
        for (; k + 4 <= count; k += 4) {
            const int4 four = *(const int4*)(row + k);
            below += (four.x < item) + (four.y < item) + (four.z < item) + (four.w < item);
        }
#endif
    for (; k < count; ++k)
        below += row[k] < item;
    return below;
    """
)
def count_below(slots: wp.array[int], start: wp.int64, count: int, item: int) -> int:
    """How many items of a row are below one."""
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
    """Rows of pairs to their places."""
    thread = first + wp.tid()
    i = thread / lanes
    n = counts[i]
    place = offsets[i]
    if n <= capacity and place + wp.int64(n) <= wp.int64(found.shape[0]):
        copy_row(slots, wp.int64(i) * wp.int64(capacity), thread % lanes, lanes, n, found, place)


@wp.kernel
def copy_items(
    first: int,
    lanes: int,
    counts: wp.array[int],
    offsets: wp.array[wp.int64],
    capacity: int,
    slots: wp.array[int],
    found: wp.array[int],
):
    """Rows of items to their places; several lanes sort short ones on the way."""
    thread = first + wp.tid()
    i = thread / lanes
    n = counts[i]
    place = offsets[i]
    if n <= capacity and place + wp.int64(n) <= wp.int64(found.shape[0]):
        start = wp.int64(i) * wp.int64(capacity)
        if lanes > 1 and n <= SORTED_ON_THE_WAY:
            # no item comes twice, so that those below one tell its place
            for k in range(thread % lanes, n, lanes):
                item = slots[start + wp.int64(k)]
                found[place + wp.int64(count_below(slots, start, n, item))] = item
        else:
            copy_row(slots, start, thread % lanes, lanes, n, found, place)
    else:
        # nobody reads what is no item, even where a list turns out to be too short
        for k in range(thread % lanes, n, lanes):
            if place + wp.int64(k) < wp.int64(found.shape[0]):
                found[place + wp.int64(k)] = 0


@wp.kernel
def append_list(
    first: int,
    last: int,
    sums: wp.array[Tally],
    sums_too: wp.array[Tally],
    found: wp.array[wp.vec2i],
    found_too: wp.array[wp.vec2i],
):
    """One list behind another, as far as there is room."""
    i = first + wp.tid()
    place = sums[last][0] + wp.int64(i)
    if wp.int64(i) < sums_too[last][0] and place < wp.int64(found.shape[0]):
        found[place] = found_too[i]


@wp.func
def overflows(sums: wp.array[Tally], room: int) -> int:
    """1 where a list found no room for all."""
    last = sums[sums.shape[0] - 1]
    full = int(0)
    if last[0] > wp.int64(room) or last[1] != wp.int64(0) or last[2] != wp.int64(0):
        full = 1
    return full


@wp.kernel
def tell_totals(
    first: int,
    triangles: wp.array[Tally],
    triangle_room: int,
    carried: wp.array[Tally],
    carried_room: int,
    edges: wp.array[Tally],
    edge_room: int,
    totals: wp.array[int],
):
    """How many pairs there are of a vertex and a triangle, those with what is `carried` behind them, and of edges; none where
    a list found no room for all."""
    i = first + wp.tid()
    full = overflows(triangles, triangle_room)
    found = triangles[triangles.shape[0] - 1][0]
    if carried.shape[0] > 0:
        full = wp.max(full, overflows(carried, carried_room))
        found += carried[carried.shape[0] - 1][0]
    totals[i] = 0
    if full == 0 and found <= wp.int64(triangle_room):
        totals[i] = int(found)
    totals[i + 1] = 0
    if overflows(edges, edge_room) == 0:
        totals[i + 1] = int(edges[edges.shape[0] - 1][0])
