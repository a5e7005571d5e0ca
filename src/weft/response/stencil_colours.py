"""Colours for stencils that change in every step: no two of a colour share a vertex that can move.

Each stencil takes the lowest colour that none of those before it has at its vertices. "Before" is an order that jumps
through the list by a stride, so that neighbours in the list stand far apart in it. One thread goes through that order
on the CPU. On CUDA, rounds of two kernels give the same colours: a stencil takes its colour once it stands first among
those without colour at all its vertices, as told by integer minima, which do not depend on the threads.
"""

from math import gcd

import warp as wp

from weft.world import launch
from weft.world.buffers import Buffer
from weft.world.choosing import count_chosen

wp.set_module_options({"enable_backward": False})

COLOURS = 62
# the stride, as a part of the list: the golden section spreads any run of it evenly
STRIDE = 0.6180339887
# rounds of claims between two looks at what is left
ROUNDS = 16
NO_CLAIM = wp.constant(wp.int64(2**62))
MOST_ROUNDS = wp.constant(2**29)


@wp.func
def lowest_free(mask: wp.int64) -> int:
    """The lowest colour that is not taken; COLOURS if all are."""
    free = int(0)
    rest = mask
    while free < COLOURS and (rest & wp.int64(1)) != wp.int64(0):
        rest = rest >> wp.int64(1)
        free += 1
    return free


@wp.func
def taken(q: wp.vec4i, inverse_mass: wp.array[wp.float64], used: wp.array[wp.int64]) -> wp.int64:
    """The colours that are taken at the vertices that can move."""
    mask = wp.int64(0)
    for k in range(4):
        if inverse_mass[q[k]] > wp.float64(0.0):
            mask = mask | used[q[k]]
    return mask


@wp.func
def take(q: wp.vec4i, colour: int, inverse_mass: wp.array[wp.float64], used: wp.array[wp.int64]):
    """Mark a colour as taken at the vertices that can move; all stencils share the others."""
    if colour < COLOURS:
        for k in range(4):
            if inverse_mass[q[k]] > wp.float64(0.0):
                used[q[k]] = used[q[k]] | (wp.int64(1) << wp.int64(colour))


@wp.kernel
def colour_in_order(
    first: int,
    count: int,
    stride: wp.int64,
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    used: wp.array[wp.int64],
    colour: wp.array[int],
    offsets: wp.array[int],
    order: wp.array[int],
):
    """All stencils one after another, with one item; then their order by colour, where each begins in `offsets`.

    Stencils that find all colours taken stand last, behind offsets[COLOURS], and are solved one after another.
    """
    start = first + wp.tid()
    for c in range(COLOURS + 2):
        offsets[c] = 0
    for i in range(start, count):
        q = vertices[i]
        for k in range(4):
            used[q[k]] = wp.int64(0)
    for k in range(start, count):
        i = int(wp.int64(k) * stride % wp.int64(count))
        q = vertices[i]
        free = lowest_free(taken(q, inverse_mass, used))
        colour[i] = free
        offsets[free + 1] = offsets[free + 1] + 1
        take(q, free, inverse_mass, used)
    for c in range(COLOURS + 1):
        offsets[c + 1] = offsets[c + 1] + offsets[c]
    # fill from the back, so that the offsets stand at each colour's start afterwards
    for back in range(start, count):
        i = count - 1 - back
        place = offsets[colour[i] + 1] - 1
        order[place] = i
        offsets[colour[i] + 1] = place
    for c in range(COLOURS + 1):
        offsets[c] = offsets[c + 1]
    offsets[COLOURS + 1] = count


@wp.kernel
def begin(
    first: int,
    vertices: wp.array[wp.vec4i],
    used: wp.array[wp.int64],
    claims: wp.array[wp.int64],
    colour: wp.array[int],
    waiting: wp.array[int],
):
    """Nothing is coloured, claimed or taken."""
    i = first + wp.tid()
    q = vertices[i]
    for k in range(4):
        used[q[k]] = wp.int64(0)
        claims[q[k]] = NO_CLAIM
    colour[i] = COLOURS
    waiting[i] = 1


@wp.func
def claim_of(i: int, count: int, inverse: wp.int64, round_number: int) -> wp.int64:
    """A stencil's place in the order; claims of later rounds are lower than all earlier ones."""
    place = wp.int64(i) * inverse % wp.int64(count)
    return (wp.int64(MOST_ROUNDS - round_number) << wp.int64(32)) + place


@wp.kernel
def claim(
    first: int,
    count: int,
    inverse: wp.int64,
    round_number: int,
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    waiting: wp.array[int],
    claims: wp.array[wp.int64],
):
    """Every vertex learns who is first among the stencils without colour."""
    i = first + wp.tid()
    if waiting[i] == 0:
        return
    mine = claim_of(i, count, inverse, round_number)
    q = vertices[i]
    for k in range(4):
        if inverse_mass[q[k]] > wp.float64(0.0):
            wp.atomic_min(claims, q[k], mine)


@wp.kernel
def settle(
    first: int,
    count: int,
    inverse: wp.int64,
    round_number: int,
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    claims: wp.array[wp.int64],
    used: wp.array[wp.int64],
    colour: wp.array[int],
    waiting: wp.array[int],
):
    """Those who are first at all their vertices take their colour: no two of them share one."""
    i = first + wp.tid()
    if waiting[i] == 0:
        return
    mine = claim_of(i, count, inverse, round_number)
    q = vertices[i]
    for k in range(4):
        if inverse_mass[q[k]] > wp.float64(0.0) and claims[q[k]] != mine:
            return
    free = lowest_free(taken(q, inverse_mass, used))
    colour[i] = free
    waiting[i] = 0
    take(q, free, inverse_mass, used)


@wp.kernel
def number(first: int, colour: wp.array[int], keys: wp.array[int], order: wp.array[int]):
    """What is sorted: colours, and the stencils that have them."""
    i = first + wp.tid()
    keys[i] = colour[i]
    order[i] = i


@wp.kernel
def find_offsets(first: int, count: int, keys: wp.array[int], offsets: wp.array[int]):
    """Where each colour begins in the sorted list."""
    i = first + wp.tid()
    before = int(-1)
    if i > 0:
        before = keys[i - 1]
    for c in range(before + 1, keys[i] + 1):
        offsets[c] = i
    if i == count - 1:
        for c in range(keys[i] + 1, COLOURS + 2):
            offsets[c] = count


class StencilColouring:
    """Colours lists of stencils over the same vertices; buffers are kept."""

    def __init__(self, vertex_count: int, inverse_mass: wp.array) -> None:
        self.inverse_mass = inverse_mass
        self.device = wp.get_device(inverse_mass.device)
        self._used, self._claims = (wp.zeros(vertex_count, dtype=wp.int64, device=self.device) for _ in range(2))
        self._offsets = wp.zeros(COLOURS + 2, dtype=int, device=self.device)
        self._colour, self._order, self._keys = (Buffer(int, self.device) for _ in range(3))
        self._waiting, self._places = (Buffer(int, self.device) for _ in range(2))

    @property
    def order(self) -> wp.array:
        """The stencils colour by colour."""
        return self._order.array

    def colour(self, vertices: wp.array, count: int) -> list[int]:
        """Put the first `count` stencils in the order of their colours; gives where each colour begins.

        The last two numbers enclose the stencils for which there was no colour.
        """
        if count == 0:
            return [0] * (COLOURS + 2)
        stride = max(1, int(STRIDE * count))
        while gcd(stride, count) != 1:
            stride += 1
        if self.device.is_cpu:
            colour, order = self._colour.at_least(count), self._order.at_least(count)
            inputs = [count, stride, vertices, self.inverse_mass, self._used, colour, self._offsets, order]
            launch(colour_in_order, 1, inputs, device=self.device)
        else:
            self._colour_in_rounds(vertices, count, pow(stride, -1, count))
        return [int(k) for k in self._offsets.numpy()]

    def _colour_in_rounds(self, vertices: wp.array, count: int, inverse: int) -> None:
        colour, waiting = self._colour.at_least(count), self._waiting.at_least(count)[:count]
        places = self._places.at_least(count)[:count]
        launch(begin, count, [vertices, self._used, self._claims, colour, waiting], device=self.device)
        round_number = 0
        while round_number == 0 or count_chosen(waiting, places) > 0:
            for _ in range(ROUNDS):
                inputs = [count, inverse, round_number, vertices, self.inverse_mass]
                launch(claim, count, [*inputs, waiting, self._claims], device=self.device)
                launch(settle, count, [*inputs, self._claims, self._used, colour, waiting], device=self.device)
                round_number += 1
        # sorting needs as much room again
        keys, order = self._keys.at_least(2 * count), self._order.at_least(2 * count)
        launch(number, count, [colour, keys, order], device=self.device)
        wp.utils.radix_sort_pairs(keys, order, count)
        launch(find_offsets, count, [count, keys, self._offsets], device=self.device)
