"""Lists of unknown length, one for each query, built on the device with one search in the common case.

The search writes the entries of a query into slots of its own and only counts on when these are full. A prefix sum of
the counts gives each query its place in the whole list, the entries are copied there, and only queries with too few slots are
searched again. So nothing is dropped, and the order of the list depends on the queries alone, not on the threads. Buffers are
kept and grow; a list that was returned is valid until the next build.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.list_kernels import (
    ListSums,
    Queries,
    copy_entries,
    copy_pairs,
    prepare_scan,
    scan_counts_serially,
    take_scan,
)
from weft.errors import WeftError
from weft.runtime import launch
from weft.runtime.buffers import log_growth, read
from weft.runtime.graph_cache import GraphCache

# entries of the longest list: 2 GB of pairs. More of them mean that everything is in one place, which is no cloth
LIMIT = 250_000_000
UNLIMITED = 2**31 - 1
# slots of a query at first: enough for the patches and pairs around a patch of cloth that lies in few layers; they double
# where they are too few
FIRST_CAPACITY = 32
# queries that are counted to the end between two checks of the limit: what is refused is noticed after at most so many
CHUNK = 256
# on the CPU, slots double when they are too few for more than this fraction of the queries: a few are searched again sooner
FEW_TOO_SHORT = 0.02
# slots that a list may have on CUDA however short it is, where searching again takes as long as the first time: 320 MB of pairs
CUDA_SPARE_SLOTS = 40_000_000
# CUDA threads that copy the entries of a query: a warp, so that neighbouring threads copy neighbouring entries
COPY_LANES = 32
# how many times the limit of a list is counted on CUDA before a query may stop, for the same reason
COUNTED_LIMITS = 16

Find = Callable[[int, Queries, wp.array], None]
"""find(count, queries, found) launches a search kernel over `count` items; see `list_kernels.Queries`."""


class TooManyPairs(WeftError):
    """More pairs than the limit of a list: a shorter step, in which everything moves less, has fewer."""


def build_lists(
    *searches: "tuple[QueryLists, int, Find]",
    also: tuple[wp.array, int, int] | None = None,
    graphs: GraphCache | None = None,
    given: tuple[Any, ...] = (),
) -> list[Any]:
    """Build several lists, each from a number of queries and a search, and wait for the device once.

    also: a piece of device memory that is read along; its first item comes last in the result.
    graphs: replay the searches as a CUDA graph; they depend on the lists and on what is `given`, on nothing else.
    """
    running = [(lists, count, find) for lists, count, find in searches if count]
    for lists, count, _ in running:
        lists.make_room(count)

    def search_all() -> None:
        for lists, _, find in running:
            lists.search(find)

    if graphs is None:
        search_all()
    else:
        graphs.run(search_all, *given, *(value for lists, _, _ in running for value in lists.buffers))
    pieces = [lists.sums for lists, _, _ in running]
    read_too = [] if also is None else [also]
    values = [piece.copy() for piece in read(*pieces, *read_too)] if pieces or read_too else []
    sums = iter(values[: len(running)])
    built: list[Any] = [
        lists.finish(find, next(sums)[0]) if count else lists.clear() for lists, count, find in searches
    ]
    return built if also is None else [*built, int(values[-1][0])]


class QueryLists:
    """Buffers for lists of `dtype` (int or vec2i), one list for each query."""

    def __init__(
        self, device: wp.Device, dtype: type, *, what: str, limit: int = LIMIT, capacity: int = FIRST_CAPACITY
    ) -> None:
        """`what` names the entries in error messages."""
        self.device = device
        self.dtype = dtype
        self.what = what
        self.limit = limit
        self.capacity = capacity
        """slots of each query"""
        self._spare = 0 if device.is_cpu else CUDA_SPARE_SLOTS
        self.total = 0
        self.found = self._new(1, dtype)
        self.offsets = self._new(1, wp.int64)
        """(queries + 1,) where the list of each query begins"""
        self._slots = self._new(0, dtype)
        self._counts = self._new(0, int)
        self._short = self._new(0, int)
        self._unknown = self._new(0, int)
        self._terms = self._new(0, ListSums)
        self._sums = self._new(0, ListSums)
        self._first_pass = Queries()

    def build(self, count: int, find: Find) -> wp.array:
        """Search `count` queries and return their entries, query after query."""
        return build_lists((self, count, find))[0]

    def make_room(self, count: int) -> None:
        """Have slots for so many queries."""
        if len(self._counts) != count:
            self._resize(count)
        slots = count * self.capacity
        if len(self._slots) < slots:
            self._slots = self._new(slots, self.dtype)
            log_growth(self._slots, slots)

    @property
    def buffers(self) -> tuple[Any, ...]:
        """The sizes and arrays that a search depends on, for a graph cache."""
        count = len(self._counts)
        return count, self.capacity, self._stop(count), self._slots, self._counts, self.offsets

    def search(self, find: Find, room: int = UNLIMITED) -> None:
        """Search all queries and scan their counts, for `finish`; launches only.

        With a `room`, no offset goes beyond it, for kernels that read the lists before it is known whether they fit.
        """
        queries = self._first_pass
        queries.capacity, queries.stop = self.capacity, self._stop(len(self._counts))
        find(len(self._counts), queries, self._slots)
        self._scan(queries, room)

    @property
    def sums(self) -> tuple[wp.array, int, int]:
        """The piece of device memory, as `read` takes it, with the `ListSums` of all queries."""
        return self._sums, len(self._counts) - 1, 1

    def finish(self, find: Find, sums: np.ndarray) -> wp.array:
        """The list, given the sums of its search."""
        count = len(self._counts)
        total, short, unknown = (int(value) for value in sums)
        if unknown:
            self._count_to_the_end(unknown, total, find)
            self._scan(self._queries(self._short, capacity=self.capacity), UNLIMITED)
            total, short, _ = (int(value) for value in read(self.sums)[0][0])
        if total > self.limit:
            raise self._too_many(total)

        if len(self.found) < total:
            # geometric growth: a list that creeps up is not reallocated every time
            self.reserve(min(max(total, len(self.found) * 3 // 2), self.limit))
        self.copy()
        if short:
            find(short, self._queries(self._short), self.found)
            few = short <= FEW_TOO_SHORT * count and self.device.is_cpu
            if not few and count * self.capacity <= max(2 * total, self._spare):
                # more slots next time, up to four times the length of the list
                self.capacity *= 2
        self.total = total
        return self.found[:total]

    def copy(self) -> None:
        """Copy the entries of all queries from their slots into the list, as far as it has room."""
        copy = copy_entries if self.dtype is int else copy_pairs
        lanes = 1 if self.device.is_cpu else COPY_LANES
        inputs = [lanes, self._counts, self.offsets, self.capacity, self._slots, self.found]
        launch(copy, len(self._counts) * lanes, inputs, device=self.device, grain=256)

    def reserve(self, count: int) -> None:
        """Have room for so many entries; the list is lost."""
        if len(self.found) < count:
            self.found = self._new(count, self.dtype)
            log_growth(self.found, count)

    def clear(self) -> wp.array:
        """The list of no queries."""
        self.total = 0
        return self.found[:0]

    def _stop(self, count: int) -> int:
        """How many entries of a query the first search counts: an explosion of pairs is noticed after about `limit` of them."""
        limit = self.limit if self.device.is_cpu else COUNTED_LIMITS * self.limit
        # a query whose entries fit into its slots is not searched again, so that it must not stop before
        return max(64, self.capacity, limit // count + 1)

    def _new(self, count: int, dtype: type) -> wp.array:
        return wp.empty(count, dtype=dtype, device=self.device)

    def _resize(self, count: int) -> None:
        self._counts, self._short, self._unknown = (self._new(count, int) for _ in range(3))
        self._terms, self._sums = self._new(count, ListSums), self._new(count, ListSums)
        self.offsets = self._new(count + 1, wp.int64)
        self._first_pass = self._queries(self._short, selected=0)
        log_growth(self.offsets, count)

    def _queries(self, items: wp.array, *, capacity: int = UNLIMITED, selected: int = 1) -> Queries:
        """A pass that counts all entries of some queries; by default their slots are their places in the list."""
        queries = Queries()
        queries.selected, queries.items, queries.starts, queries.counts = selected, items, self.offsets, self._counts
        queries.capacity, queries.stop = capacity, UNLIMITED
        return queries

    def _scan(self, queries: Queries, room: int) -> None:
        """The offsets of all queries, and those that need another pass, from the counts."""
        count = len(self._counts)
        lists = [self.offsets, self._short, self._unknown]
        if self.device.is_cpu:
            launch(scan_counts_serially, 1, [count, queries, room, *lists, self._sums], device=self.device)
            return
        launch(prepare_scan, count, [queries, self._terms], device=self.device)
        wp.utils.array_scan(self._terms, self._sums, inclusive=True)
        launch(take_scan, count, [self._sums, room, *lists], device=self.device)

    def _count_to_the_end(self, unknown: int, total: int, find: Find) -> None:
        """Count the entries of queries that stopped; `total` is a lower bound, since their counts so far are too low."""
        for first in range(0, unknown, CHUNK):
            if total > self.limit:
                raise self._too_many(total)
            items = self._unknown[first : min(first + CHUNK, unknown)]
            chosen = items.numpy()
            known = int(self._counts.numpy()[chosen].sum(dtype="int64"))
            find(len(items), self._queries(items, capacity=0), self._slots)
            total += int(self._counts.numpy()[chosen].sum(dtype="int64")) - known

    def _too_many(self, total: int) -> WeftError:
        return TooManyPairs(
            f"more than {self.limit:,} {self.what} overlap (at least {total:,}): too many triangles lie in one "
            "place, or the margin or the motion of one step is far larger than the triangles"
        )
