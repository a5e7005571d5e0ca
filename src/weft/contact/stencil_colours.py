"""Colours of stencils that change in every step: no two of one colour share a vertex that can move.

The colouring is greedy in an order that depends only on the vertices of each stencil (see `colouring_kernels`). A stencil
that is there in the next step too is visited at the same place, whatever comes or goes elsewhere: cloth that lies on
cloth would never come to rest if its contacts were solved in another order in every step.
"""

import warp as wp

from weft.contact.colouring_kernels import (
    COLOURS,
    PRIORITIES,
    PRIORITY_BITS,
    REGIONS,
    WORDS,
    colour_by_dependencies,
    colour_in_order,
    find_offsets,
    find_priorities,
    rank_stencils,
    sort_by_priority,
    sort_by_region,
)
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.cooperative import CooperativeLauncher

__all__ = ["COLOURS", "StencilColouring"]


class StencilColouring:
    """Colours lists of stencils over the same vertices; buffers are kept between calls."""

    def __init__(self, vertex_count: int, inverse_mass: wp.array, *, by_dependencies: bool | None = None) -> None:
        """`by_dependencies`: by many threads, which is the default on CUDA; a CPU does that with one thread, for tests."""
        self.inverse_mass = inverse_mass
        device = self.device = wp.get_device(inverse_mass.device)
        self.by_dependencies = device.is_cuda if by_dependencies is None else by_dependencies
        self._cooperative = CooperativeLauncher(device)
        self.offsets = wp.zeros(COLOURS + 2, dtype=int, device=device)
        """where each colour begins in `order`; the last two enclose the stencils for which there was no colour"""
        self._size = wp.zeros(1, dtype=int, device=device)
        self._used = wp.zeros((vertex_count, WORDS), dtype=wp.int64, device=device)
        self._colour, self._order, self._keys, self._sorted_order, self._sequence = (
            Buffer(int, device) for _ in range(5)
        )
        # of the CPU's way
        self._priority_starts = wp.zeros(PRIORITIES + 1, dtype=int, device=device)
        self._region_counts = wp.zeros(REGIONS, dtype=int, device=device)
        # of dependencies
        self._counts, self._starts = (wp.zeros(vertex_count, dtype=int, device=device) for _ in range(2))
        self._sums = wp.zeros(max(1, device.sm_count), dtype=int, device=device)
        self._corners, self._slots, self._followers = (Buffer(wp.vec4i, device) for _ in range(3))
        self._entries, self._pending = (Buffer(int, device) for _ in range(2))
        # of ranks
        self._reservations = wp.zeros((2, vertex_count), dtype=wp.int64, device=device)
        self._waiting = wp.zeros(3, dtype=int, device=device)

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
            inputs = [count, vertices, self._priority_starts, self._keys.at_least(count)]
            launch(sort_by_priority, 1, [*inputs, self._sequence.at_least(count)], device=self.device)
            colour, order = self._colour.at_least(count), self._order.at_least(count)
            inputs = [count, self._sequence.array, vertices, self.inverse_mass, self._used, colour, offsets, order]
            launch(colour_in_order, 1, inputs, device=self.device)

    def sort_by_region(self, vertices: wp.array, count: int, offsets: wp.array) -> None:
        """Sort the stencils of each colour by where they lie in the mesh, on a CPU: it solves them from its cache."""
        sorted_order = self._sorted_order.at_least(count)
        inputs = [self._used.shape[0], offsets, vertices, self._region_counts, self.order, sorted_order]
        launch(sort_by_region, 1, inputs, device=self.device)
        self._order.array, self._sorted_order.array = sorted_order, self._order.array

    def rank(self, vertices: wp.array, count: int) -> None:
        """List stencils so that solving them by rank gives what solving the list one after another gives.

        A stencil comes as soon as those before it in the list at its vertices are done. There are more ranks than colours;
        stencils of the last ranks count as without a colour.
        """
        if count == 0:
            self.offsets.zero_()
            return
        keys, order = self._unsorted(count)
        inputs = [count, vertices, self.inverse_mass, self._reservations, self._waiting, keys, order]
        self._cooperative.launch(rank_stencils, count, inputs)
        self._sort(count, self._size_of(count), self.offsets)

    def _colour_by_dependencies(self, vertices: wp.array, count: int, offsets: wp.array, size: wp.array) -> None:
        # a radix sort needs twice the room
        priorities, sequence = self._keys.at_least(2 * count), self._sequence.at_least(2 * count)
        launch(find_priorities, count, [size, vertices, priorities, sequence], device=self.device)
        wp.utils.radix_sort_pairs(priorities, sequence, count, end_bit=PRIORITY_BITS)
        inputs = [size, count, sequence, vertices, self.inverse_mass, self._counts, self._starts, self._sums]
        inputs += [self._corners.at_least(count), self._slots.at_least(count), self._entries.at_least(4 * count)]
        inputs += [self._followers.at_least(count), self._pending.at_least(count), self._used]
        self._cooperative.launch(colour_by_dependencies, count, [*inputs, *self._unsorted(count)])
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
