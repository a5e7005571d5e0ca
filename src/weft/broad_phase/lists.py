"""Lists of unknown length, one a query item, made on the device in one search.

The search writes what it finds for item i into a row of slots of its own and counts on when the row is full. A scan of
the counts gives every item its place, rows are copied there, and only the items whose row was too short are searched
again. So nothing is searched twice in the common case, nothing is ever dropped, and the order of the list depends
on the items alone, not on the threads. Buffers are kept and grow; what was returned stays valid until the next build.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.list_kernels import (
    Tally,
    add_up_in_order,
    append_list,
    copy_items,
    copy_pairs,
    place_items,
    tally_counts,
)
from weft.errors import WeftError
from weft.runtime import launch
from weft.runtime.buffers import log_growth
from weft.runtime.graph_cache import GraphCache
from weft.runtime.readback import read

# the longest list: 2 GB of pairs. What holds more is no cloth but everything in one place
LIMIT = 250_000_000
UNLIMITED = 2**31 - 1
# items counted to the end between two looks at the total
CHUNK = 256
# entries that there is room for on CUDA, whatever a list holds: 320 MB of pairs
SPARE = 40_000_000
# threads that copy a row there
LANES = 32

Find = Callable[[int, list[Any]], None]
"""Searches `count` items; the list holds the arguments `chosen, items, starts, capacity, stop, found, counts`:
with chosen = 0 item i is query i and its row begins at i * capacity; with chosen = 1 item i is query items[i] and its
row begins at starts[items[i]]. Entries beyond the capacity are counted but not written; the search of an item may end
once its count exceeds stop."""


class TooManyPairs(WeftError):
    """More pairs than there is room for: what moves less in a step has fewer."""


def build_lists(
    *searches: "tuple[Lists, int, Find]",
    also: tuple[wp.array, int, int] | None = None,
    replay: GraphCache | None = None,
    given: tuple[Any, ...] = (),
) -> list[Any]:
    """Build several lists with one wait for their sums; `also` is read with them, and its first item comes last.

    With a `replay` the searches depend on what is `given` besides the lists, and on nothing else.
    """
    running = [(lists, items, find) for lists, items, find in searches if items]
    for lists, items, _ in running:
        lists.make_room(items)

    def search_all() -> None:
        for lists, _, find in running:
            lists.search(find)

    if replay is None:
        search_all()
    else:
        replay.run(search_all, *given, *(part for lists, _, _ in running for part in lists.room))
    pieces = [lists.sums for lists, _, _ in running]
    read_too = [] if also is None else [also]
    found = [piece.copy() for piece in read(*pieces, *read_too)] if pieces or read_too else []
    sums = iter(found[: len(running)])
    built: list[Any] = [lists.finish(find, next(sums)[0]) if items else lists.none() for lists, items, find in searches]
    return built if also is None else [*built, int(found[-1][0])]


class Lists:
    """Reused buffers for lists of `dtype` (int or vec2i), one list an item."""

    def __init__(self, device: wp.Device, dtype: type, *, what: str, limit: int = LIMIT, capacity: int = 32) -> None:
        self.device = device
        self.dtype = dtype
        self.what = what
        self.limit = limit
        self.capacity = capacity
        self._spare = 0 if device.is_cpu else SPARE
        self.total = 0
        self.found = self._new(1, dtype)
        self.offsets = self._new(1, wp.int64)
        """(items + 1,) where each item's list begins"""
        self._slots = self._new(0, dtype)
        self._counts = self._new(0, int)
        self._short = self._new(0, int)
        self._unknown = self._new(0, int)
        self._tally = self._new(0, Tally)
        self._sums = self._new(0, Tally)

    def build(self, items: int, find: Find) -> wp.array:
        """Search all items and return the list of what was found, item after item."""
        return build_lists((self, items, find))[0]

    def make_room(self, items: int) -> None:
        """Have room for what a search of so many items finds."""
        if len(self._counts) != items:
            self._resize(items)
        slots = items * self.capacity
        if len(self._slots) < slots:
            self._slots = self._new(slots, self.dtype)
            log_growth(self._slots, slots)

    @property
    def room(self) -> tuple[Any, ...]:
        """What a search depends on besides what it searches."""
        items = len(self._counts)
        return items, self.capacity, self._stop(items), self._slots, self._counts, self.offsets

    def search(self, find: Find, room: int = UNLIMITED) -> None:
        """Search all items and add up what was found, for `finish`; nobody waits for it here.

        With a `room`, no item's list goes beyond it, for those who use the lists before they know whether they fit.
        """
        items = len(self._counts)
        stop = self._stop(items)
        find(items, [0, self._short, self.offsets, self.capacity, stop, self._slots, self._counts])
        self._add_up(stop, room)

    @property
    def sums(self) -> tuple[wp.array, int, int]:
        """Where `read` finds the sums of a search."""
        return self._sums, len(self._counts) - 1, 1

    def finish(self, find: Find, sums: np.ndarray) -> wp.array:
        """The list of what was found, given its sums."""
        items = len(self._counts)
        total, short, unknown = (int(value) for value in sums)
        if unknown:
            self._count_on(unknown, total, find)
            self._add_up(UNLIMITED, UNLIMITED)
            total, short, _ = (int(value) for value in read(self.sums)[0][0])
        if total > self.limit:
            raise self._too_many(total)

        if len(self.found) < total:
            # geometric growth: a list that creeps up is not reallocated every time
            self.reserve(min(max(total, len(self.found) * 3 // 2), self.limit))
        self.copy()
        if short:
            find(short, [1, self._short, self.offsets, UNLIMITED, UNLIMITED, self.found, self._counts])
            few = 50 * short <= items and self.device.is_cpu
            if not few and items * self.capacity <= max(2 * total, self._spare):
                # too short for more than 2 % of the items (any on CUDA, where a second search takes as long as the
                # first): longer rows next time, up to four times the list itself
                self.capacity *= 2
        self.total = total
        return self.found[:total]

    def copy(self) -> None:
        """Bring the rows of a search together, as far as there is room."""
        copy = copy_items if self.dtype is int else copy_pairs
        # on CUDA neighbouring threads copy neighbours
        lanes = 1 if self.device.is_cpu else LANES
        inputs = [lanes, self._counts, self.offsets, self.capacity, self._slots, self.found]
        launch(copy, len(self._counts) * lanes, inputs, device=self.device, grain=256)

    def reserve(self, count: int) -> None:
        """Have room for so many entries; what was there is lost."""
        if len(self.found) < count:
            self.found = self._new(count, self.dtype)
            log_growth(self.found, count)

    def append(self, other: "Lists") -> None:
        """Bring another list, of as many items, behind this one, as far as there is room for both."""
        inputs = [len(self._counts) - 1, self._sums, other._sums, self.found, other.found]
        launch(append_list, min(len(other.found), len(self.found)), inputs, device=self.device)

    def accept(self, sums: np.ndarray, more: int = 0) -> bool:
        """Whether all that a search found is there after `copy`, and `more` besides, given its sums."""
        total, short, unknown = (int(value) for value in sums)
        if short or unknown or total > self.limit or total + more > len(self.found):
            return False
        self.total = total + more
        return True

    def none(self) -> wp.array:
        """The list of no items."""
        self.total = 0
        return self.found[:0]

    def _stop(self, items: int) -> int:
        """Where the first search stops counting: an explosion of pairs is noticed after about `limit` of them.

        On CUDA, where pairs are counted fast and a second search takes as long as the first, after some times as many.
        """
        times = 1 if self.device.is_cpu else 16
        # a row that there was room for must not be cut off: it is not searched again
        return max(64, self.capacity, times * self.limit // items + 1)

    def _new(self, count: int, dtype: type) -> wp.array:
        return wp.empty(count, dtype=dtype, device=self.device)

    def _resize(self, items: int) -> None:
        self._counts, self._short, self._unknown = (self._new(items, int) for _ in range(3))
        self._tally, self._sums = self._new(items, Tally), self._new(items, Tally)
        self.offsets = self._new(items + 1, wp.int64)
        log_growth(self.offsets, items)

    def _add_up(self, stop: int, room: int) -> None:
        items = len(self._counts)
        if self.device.is_cpu:
            inputs = [
                items,
                self._counts,
                self.capacity,
                stop,
                room,
                self.offsets,
                self._short,
                self._unknown,
                self._sums,
            ]
            launch(add_up_in_order, 1, inputs, device=self.device)
            return
        launch(tally_counts, items, [self._counts, self.capacity, stop, self._tally], device=self.device)
        wp.utils.array_scan(self._tally, self._sums, inclusive=True)
        inputs = [self._sums, room, self.offsets, self._short, self._unknown]
        launch(place_items, items, inputs, device=self.device)

    def _count_on(self, unknown: int, total: int, find: Find) -> None:
        # the counts so far are too low, hence the total is a lower bound
        for first in range(0, unknown, CHUNK):
            if total > self.limit:
                raise self._too_many(total)
            part = self._unknown[first : min(first + CHUNK, unknown)]
            chosen = part.numpy()
            known = int(self._counts.numpy()[chosen].sum(dtype="int64"))
            find(len(part), [1, part, self.offsets, 0, UNLIMITED, self._slots, self._counts])
            total += int(self._counts.numpy()[chosen].sum(dtype="int64")) - known

    def _too_many(self, total: int) -> WeftError:
        return TooManyPairs(
            f"more than {self.limit:,} {self.what} overlap (at least {total:,}): too many triangles lie in one "
            "place, or the margin or the motion of one step is far larger than the triangles"
        )
