"""Colours of stencils that change in every step: no two of one colour share a vertex that can move.

The colouring is greedy: stencils are visited in the order of a priority, a hash of their vertices, and each takes the lowest
colour that is free at its vertices. So a stencil that is there in the next step too is visited at the same place,
whatever comes or goes elsewhere: cloth that lies on cloth would never come to rest if its contacts were solved in another
order in every step.

The CPU visits stencils one after another (`colour_in_order`). On CUDA all threads take part (see `dependency_colouring`).
Both give the same colours.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact.dependency_colouring import (
    BITS,
    COLOURS,
    FULL,
    WORDS,
    DependencyArrays,
    colour_by_dependencies,
)
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.cooperative import CooperativeLauncher

wp.set_module_options({"enable_backward": False})

# classes of priority are 2 to this power; stencils of one class keep the order of the list. Fewer bits sort faster,
# more bits spread neighbours farther apart in the order
PRIORITY_BITS = 12
PRIORITIES = wp.constant(2**PRIORITY_BITS)


@wp.func
def used_colours(q: wp.vec4i, word: int, inverse_mass: wp.array[wp.float64], used: wp.array2d[wp.int64]) -> wp.int64:
    """The colours of a word that are used at the movable vertices of a stencil."""
    mask = wp.int64(0)
    for k in range(4):
        if inverse_mass[q[k]] > wp.float64(0.0):
            mask = mask | used[q[k], word]
    return mask


@wp.func
def lowest_free_colour(q: wp.vec4i, inverse_mass: wp.array[wp.float64], used: wp.array2d[wp.int64]) -> int:
    """The lowest colour that is free at the movable vertices; COLOURS if none is."""
    word = int(0)
    mask = used_colours(q, word, inverse_mass, used)
    while mask == FULL and word < WORDS - 1:
        word += 1
        mask = used_colours(q, word, inverse_mass, used)
    return BITS * word + lowest_bit(wp.uint64(~mask))


@wp.func
def use_colour(q: wp.vec4i, colour: int, inverse_mass: wp.array[wp.float64], used: wp.array2d[wp.int64]):
    """Mark a colour as used at the movable vertices of a stencil."""
    if colour < COLOURS:
        bit = wp.int64(1) << wp.int64(colour % BITS)
        for k in range(4):
            if inverse_mass[q[k]] > wp.float64(0.0):
                used[q[k], colour // BITS] = used[q[k], colour // BITS] | bit


@wp.func
def priority_of(q: wp.vec4i) -> int:
    """A hash of the vertices of a stencil."""
    mixed = wp.uint64(0)
    for k in range(4):
        mixed = (mixed ^ wp.uint64(q[k])) * wp.uint64(0x9E3779B97F4A7C15)
        mixed = mixed ^ (mixed >> wp.uint64(29))
    return int(mixed >> wp.uint64(64 - PRIORITY_BITS))


@wp.func
def own_numbers(q: wp.vec4i, numbers: wp.array[int]) -> wp.vec4i:
    """The numbers of the vertices of a stencil in their own world; without `numbers` there is one world alone."""
    own = q
    if numbers.shape[0] > 0:
        own = wp.vec4i(numbers[q[0]], numbers[q[1]], numbers[q[2]], numbers[q[3]])
    return own


@wp.kernel
def find_priorities(
    first: int,
    size: wp.array[int],
    vertices: wp.array[wp.vec4i],
    numbers: wp.array[int],
    priorities: wp.array[int],
    sequence: wp.array[int],
):
    """Keys and values for a sort by priority; entries beyond the last stencil come last."""
    i = first + wp.tid()
    priorities[i] = PRIORITIES - 1
    if i < size[0]:
        priorities[i] = priority_of(own_numbers(vertices[i], numbers))
    sequence[i] = i


@wp.kernel
def sort_by_priority(
    first: int,
    count: int,
    vertices: wp.array[wp.vec4i],
    numbers: wp.array[int],
    starts: wp.array[int],
    priorities: wp.array[int],
    sequence: wp.array[int],
):
    """The numbers of all stencils in the order of priority, by a counting sort in one thread."""
    start = first + wp.tid()
    for k in range(PRIORITIES + 1):
        starts[k] = 0
    for i in range(start, count):
        priority = priority_of(own_numbers(vertices[i], numbers))
        priorities[i] = priority
        starts[priority + 1] = starts[priority + 1] + 1
    for k in range(PRIORITIES):
        starts[k + 1] = starts[k + 1] + starts[k]
    for i in range(start, count):
        priority = priorities[i]
        sequence[starts[priority]] = i
        starts[priority] = starts[priority] + 1


@wp.kernel
def colour_in_order(
    first: int,
    count: int,
    sequence: wp.array[int],
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    used: wp.array2d[wp.int64],
    colour: wp.array[int],
    offsets: wp.array[int],
    order: wp.array[int],
):
    """Colour all stencils in the order of `sequence`, then list them by colour; one thread.

    `offsets` are where the colours begin in `order`. Stencils for which there was no colour come last, from
    offsets[COLOURS] on.
    """
    start = first + wp.tid()
    for c in range(COLOURS + 2):
        offsets[c] = 0
    for i in range(start, count):
        q = vertices[i]
        for k in range(4):
            for word in range(WORDS):
                used[q[k], word] = wp.int64(0)
    for k in range(start, count):
        i = sequence[k]
        q = vertices[i]
        free = lowest_free_colour(q, inverse_mass, used)
        colour[i] = free
        offsets[free + 1] = offsets[free + 1] + 1
        use_colour(q, free, inverse_mass, used)
    for c in range(COLOURS + 1):
        offsets[c + 1] = offsets[c + 1] + offsets[c]
    # fill each colour from its end, after which the offsets are at its start
    for back in range(start, count):
        i = count - 1 - back
        place = offsets[colour[i] + 1] - 1
        order[place] = i
        offsets[colour[i] + 1] = place
    for c in range(COLOURS + 1):
        offsets[c] = offsets[c + 1]
    offsets[COLOURS + 1] = count


@wp.kernel
def find_offsets(first: int, size: wp.array[int], keys: wp.array[int], offsets: wp.array[int]):
    """Where each colour begins among the sorted keys of the stencils; one item more than there are stencils."""
    i = first + wp.tid()
    count = size[0]
    if i > count:
        return
    before = int(-1)
    if i > 0:
        before = keys[i - 1]
    here = int(COLOURS + 1)
    if i < count:
        here = keys[i]
    for c in range(before + 1, here + 1):
        offsets[c] = i


class StencilColouring:
    """Colours lists of stencils over the same vertices; buffers are kept between calls."""

    def __init__(
        self,
        vertex_count: int,
        inverse_mass: wp.array,
        *,
        by_dependencies: bool | None = None,
        numbers: np.ndarray | None = None,
    ) -> None:
        """`by_dependencies`: by many threads, which is the default on CUDA; a CPU does that with one thread, for tests.

        `numbers` are those of the vertices in the worlds that they belong to, where there are several worlds: then each has the
        colours that it has alone.
        """
        self.inverse_mass = inverse_mass
        device = self.device = wp.get_device(inverse_mass.device)
        self.by_dependencies = device.is_cuda if by_dependencies is None else by_dependencies
        self._cooperative = CooperativeLauncher(device)
        self.offsets = wp.zeros(COLOURS + 2, dtype=int, device=device)
        """where each colour begins in `order`; the last two enclose the stencils for which there was no colour"""
        self._numbers = wp.array(np.zeros(0) if numbers is None else numbers, dtype=int, device=device)
        self._size = wp.zeros(1, dtype=int, device=device)
        self._used = wp.zeros((vertex_count, WORDS), dtype=wp.int64, device=device)
        self._colour, self._order, self._keys, self._sequence = (Buffer(int, device) for _ in range(4))
        # of the CPU's way
        self._priority_starts = wp.zeros(PRIORITIES + 1, dtype=int, device=device)
        # of dependencies
        self._counts, self._starts = (wp.zeros(vertex_count, dtype=int, device=device) for _ in range(2))
        self._sums = wp.zeros(max(1, device.sm_count), dtype=int, device=device)
        self._corners, self._slots, self._followers = (Buffer(wp.vec4i, device) for _ in range(3))
        self._entries, self._pending = (Buffer(int, device) for _ in range(2))

    @property
    def order(self) -> wp.array:
        """The numbers of the stencils, colour by colour."""
        return self._order.array

    def colour(
        self, vertices: wp.array, count: int, offsets: wp.array | None = None, size: wp.array | None = None
    ) -> None:
        """List the first `count` stencils by colour in `order`; where colours begin is written to `offsets`.

        With `size`, a device array with the number of stencils, there may be fewer of them on CUDA.
        """
        offsets = self.offsets if offsets is None else offsets
        if count == 0:
            offsets.zero_()
        elif self.by_dependencies:
            self._colour_by_dependencies(vertices, count, offsets, self._size_of(count) if size is None else size)
        else:
            inputs = [count, vertices, self._numbers, self._priority_starts, self._keys.at_least(count)]
            launch(sort_by_priority, 1, [*inputs, self._sequence.at_least(count)], device=self.device)
            colour, order = self._colour.at_least(count), self._order.at_least(count)
            inputs = [count, self._sequence.array, vertices, self.inverse_mass, self._used, colour, offsets, order]
            launch(colour_in_order, 1, inputs, device=self.device)

    def _colour_by_dependencies(self, vertices: wp.array, count: int, offsets: wp.array, size: wp.array) -> None:
        # a radix sort needs twice the room
        priorities, sequence = self._keys.at_least(2 * count), self._sequence.at_least(2 * count)
        launch(find_priorities, count, [size, vertices, self._numbers, priorities, sequence], device=self.device)
        wp.utils.radix_sort_pairs(priorities, sequence, count, end_bit=PRIORITY_BITS)
        arrays: Any = DependencyArrays()
        arrays.counts, arrays.starts, arrays.sums, arrays.used = self._counts, self._starts, self._sums, self._used
        arrays.corners, arrays.slots = self._corners.at_least(count), self._slots.at_least(count)
        arrays.entries, arrays.followers = self._entries.at_least(4 * count), self._followers.at_least(count)
        arrays.pending = self._pending.at_least(count)
        inputs = [size, count, sequence, vertices, self.inverse_mass, arrays, *self._unsorted(count)]
        self._cooperative.launch(colour_by_dependencies, count, inputs)
        self._sort(count, size, offsets)

    def _size_of(self, count: int) -> wp.array:
        """A device array with the number of stencils."""
        self._size.fill_(count)
        return self._size

    def _unsorted(self, count: int) -> list[wp.array]:
        """Keys and stencil numbers to be sorted by them, with room for a radix sort."""
        return [self._keys.at_least(2 * count), self._order.at_least(2 * count)]

    def _sort(self, count: int, size: wp.array, offsets: wp.array) -> None:
        """Sort by colour; a stable sort keeps the order of the list within a colour, as on the CPU."""
        keys, order = self._unsorted(count)
        wp.utils.radix_sort_pairs(keys, order, count, end_bit=COLOURS.bit_length())
        launch(find_offsets, count + 1, [size, keys, offsets], device=self.device)
