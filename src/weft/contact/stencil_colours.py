"""Colours for stencils that change in every step: no two of a colour share a vertex that can move.

Each stencil takes the lowest colour that none of those before it has at its vertices. "Before" is an order that a number
made of its vertices says, so that neighbours stand far apart in it, and those that are there in the next step too stand
as they did, whatever has come or gone elsewhere: cloth that lies on cloth would never come to rest if it were solved in
another order each time. One thread goes through that order on the CPU. On CUDA, rounds give the same colours: a stencil
takes its colour once it stands first among those without colour at all its vertices. In short lists integer minima tell
that, which do not depend on the threads; in long ones, where most stencils wait for hundreds of others, each is told by
those before it.
"""

import warp as wp

from weft.contact.colour_words import COLOURS, NO_COLOUR, WORDS, forget, lowest_free, take
from weft.contact.dependency_colouring import colour_chains_together
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.cooperative import BLOCK, CooperativeLauncher, clusterable, grid_barrier
from weft.runtime.partition import interleaved_thread

wp.set_module_options({"enable_backward": False})

# standings in the order are 2 to this power; stencils that share one stand as in the list
STANDING_BITS = 12
STANDINGS = wp.constant(2**STANDING_BITS)
NO_RESERVATION = wp.constant(wp.int64(2**62))
MOST_ROUNDS = wp.constant(2**29)
# stencils below which minima are found sooner than who follows whom; their numbers have fewer bits than this
FEW = 10_000
SHORT_BITS = 32 - STANDING_BITS
# parts of a mesh that stencils of a colour are sorted by on the CPU
REGIONS = 64


@wp.func
def region_of(q: wp.vec4i, vertex_count: int) -> int:
    """The part of the mesh, by the number of its first vertex, that a stencil is in."""
    return int(wp.int64(wp.min(q)) * wp.int64(REGIONS) / wp.int64(vertex_count))


@wp.func
def standing_of(q: wp.vec4i) -> int:
    """Where a stencil stands in the order: its vertices, mixed up."""
    mixed = wp.uint64(0)
    for k in range(4):
        mixed = (mixed ^ wp.uint64(q[k])) * wp.uint64(0x9E3779B97F4A7C15)
        mixed = mixed ^ (mixed >> wp.uint64(29))
    return int(mixed >> wp.uint64(64 - STANDING_BITS))


@wp.kernel
def find_standings(
    first: int, sizes: wp.array[int], vertices: wp.array[wp.vec4i], standings: wp.array[int], sequence: wp.array[int]
):
    """Stencils and where they stand in the order, for sorting; what is none stands last."""
    i = first + wp.tid()
    standings[i] = STANDINGS - 1
    if i < sizes[0]:
        standings[i] = standing_of(vertices[i])
    sequence[i] = i


@wp.kernel
def put_in_sequence(
    first: int,
    count: int,
    vertices: wp.array[wp.vec4i],
    starts: wp.array[int],
    standings: wp.array[int],
    sequence: wp.array[int],
):
    """All stencils by their standings; one item does all."""
    start = first + wp.tid()
    for k in range(STANDINGS + 1):
        starts[k] = 0
    for i in range(start, count):
        standing = standing_of(vertices[i])
        standings[i] = standing
        starts[standing + 1] = starts[standing + 1] + 1
    for k in range(STANDINGS):
        starts[k + 1] = starts[k + 1] + starts[k]
    for i in range(start, count):
        standing = standings[i]
        sequence[starts[standing]] = i
        starts[standing] = starts[standing] + 1


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
    """All stencils one after another, with one item; then their order by colour, where each begins in `offsets`.

    Stencils that find all colours taken stand last, behind offsets[COLOURS], and are solved one after another.
    """
    start = first + wp.tid()
    for c in range(COLOURS + 2):
        offsets[c] = 0
    for i in range(start, count):
        forget(vertices[i], used)
    for k in range(start, count):
        i = sequence[k]
        q = vertices[i]
        free = lowest_free(q, inverse_mass, used)
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
def gather_regions(
    first: int,
    vertex_count: int,
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    counts: wp.array[int],
    order: wp.array[int],
    gathered: wp.array[int],
):
    """Put the stencils of each colour in the order of the parts of the mesh that they are in. One item does all.

    So a thread that has the first half of each colour finds vertices in its own cache, not in that of another. Those
    without a colour stay in their order, since they are solved in it.
    """
    for k in range(offsets[COLOURS], offsets[COLOURS + 1]):
        gathered[k] = order[k]
    for colour in range(first + wp.tid(), COLOURS):
        begin = offsets[colour]
        end = offsets[colour + 1]
        for k in range(REGIONS):
            counts[k] = 0
        for k in range(begin, end):
            region = region_of(vertices[order[k]], vertex_count)
            counts[region] = counts[region] + 1
        place = begin
        for k in range(REGIONS):
            size = counts[k]
            counts[k] = place
            place += size
        for k in range(begin, end):
            region = region_of(vertices[order[k]], vertex_count)
            gathered[counts[region]] = order[k]
            counts[region] = counts[region] + 1


@wp.func
def reservation_of(i: int, q: wp.vec4i, ranks: int, round_number: int) -> wp.int64:
    """A stencil's place in the order, or in the list for ranks; later rounds have lower ones than all earlier rounds."""
    place = wp.int64(i)
    if ranks == 0:
        place += wp.int64(standing_of(q)) << wp.int64(SHORT_BITS)
    return (wp.int64(MOST_ROUNDS - round_number) << wp.int64(32)) + place


@wp.func
def stands_first(
    q: wp.vec4i, mine: wp.int64, inverse_mass: wp.array[wp.float64], reservations: wp.array2d[wp.int64], turn: int
) -> bool:
    """Whether a stencil's claim is the lowest at all its vertices that can move."""
    first = bool(True)
    for k in range(4):
        if inverse_mass[q[k]] > wp.float64(0.0) and reservations[turn, q[k]] != mine:
            first = False
    return first


@wp.kernel
def find_offsets(first: int, sizes: wp.array[int], keys: wp.array[int], offsets: wp.array[int]):
    """Where each colour begins among stencils in the order of their colours; one item more than there are stencils."""
    i = first + wp.tid()
    count = sizes[0]
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


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def colour_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sizes: wp.array[int],
    most: int,
    ranks: int,
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    used: wp.array2d[wp.int64],
    reservations: wp.array2d[wp.int64],
    waiting: wp.array[int],
    keys: wp.array[int],
    order: wp.array[int],
):
    """The same colours by many threads: as keys of the stencils, for sorting; what is none stands last.

    With `ranks` the key is instead how many stencils before it in the list a stencil has to wait for, one after another.
    """
    t = first + wp.tid()
    count = sizes[0]
    place = interleaved_thread(t, threads)
    for i in range(count + t, most, threads):
        keys[i] = NO_COLOUR
        order[i] = i
    for c in range(t, 3, threads):
        waiting[c] = 0
    for i in range(place, count, threads):
        q = vertices[i]
        forget(q, used)
        for k in range(4):
            reservations[0, q[k]] = NO_RESERVATION
            reservations[1, q[k]] = NO_RESERVATION
        keys[i] = -1
        order[i] = i
    grid_barrier(arrivals)

    # every vertex learns who is first among the stencils without colour; those first at all their vertices take one.
    # reservations of one round are made while others still read those of the round before, so there are two lists of them
    round_number = int(0)
    left = int(1)
    while left == 1:
        turn = round_number % 2
        for i in range(place, count, threads):
            if keys[i] < 0:
                q = vertices[i]
                mine = reservation_of(i, q, ranks, round_number)
                for k in range(4):
                    if inverse_mass[q[k]] > wp.float64(0.0):
                        wp.atomic_min(reservations, turn, q[k], mine)
        grid_barrier(arrivals)
        # flags of three rounds: one is written, that of the round before is read, one is cleared
        if t == 0:
            waiting[(round_number + 1) % 3] = 0
        if round_number > 0:
            left = waiting[(round_number + 2) % 3]
        for i in range(place, count, threads):
            if keys[i] < 0:
                q = vertices[i]
                if stands_first(q, reservation_of(i, q, ranks, round_number), inverse_mass, reservations, turn):
                    free = wp.min(round_number, COLOURS)
                    if ranks == 0:
                        free = lowest_free(q, inverse_mass, used)
                        take(q, free, inverse_mass, used)
                    keys[i] = free
                else:
                    waiting[round_number % 3] = 1
        round_number += 1


class StencilColouring:
    """Colours lists of stencils over the same vertices; buffers are kept."""

    def __init__(self, vertex_count: int, inverse_mass: wp.array) -> None:
        self.inverse_mass = inverse_mass
        self.device = wp.get_device(inverse_mass.device)
        self._cooperative = CooperativeLauncher(self.device)
        self._used = wp.zeros((vertex_count, WORDS), dtype=wp.int64, device=self.device)
        self._claims = wp.zeros((2, vertex_count), dtype=wp.int64, device=self.device)
        self._waiting = wp.zeros(3, dtype=int, device=self.device)
        self._sizes = wp.zeros(1, dtype=int, device=self.device)
        self.offsets = wp.zeros(COLOURS + 2, dtype=int, device=self.device)
        """where each colour begins; the last two enclose the stencils for which there was no colour"""
        self._colour, self._order, self._keys, self._gathered, self._sequence = (
            Buffer(int, self.device) for _ in range(5)
        )
        self._starts = wp.zeros(STANDINGS + 1, dtype=int, device=self.device)
        self._region_counts = wp.zeros(REGIONS, dtype=int, device=self.device)
        self._counts, self._begins = (wp.zeros(vertex_count, dtype=int, device=self.device) for _ in range(2))
        self._sums = wp.zeros(max(1, self.device.sm_count), dtype=int, device=self.device)
        self._corners, self._slots, self._followers = (Buffer(wp.vec4i, self.device) for _ in range(3))
        self._entries, self._pending = (Buffer(int, self.device) for _ in range(2))

    @property
    def order(self) -> wp.array:
        """The stencils colour by colour."""
        return self._order.array

    def colour(
        self, vertices: wp.array, count: int, offsets: wp.array | None = None, sizes: wp.array | None = None
    ) -> None:
        """Put the first `count` stencils in the order of their colours; where these begin stands in `offsets`, if given.

        With `sizes`, of which the first says how many there are, these may be fewer on a card.
        """
        offsets = self.offsets if offsets is None else offsets
        if count == 0:
            offsets.zero_()
            return
        if self.device.is_cpu:
            inputs = [count, vertices, self._starts, self._keys.at_least(count), self._sequence.at_least(count)]
            launch(put_in_sequence, 1, inputs, device=self.device)
            colour, order = self._colour.at_least(count), self._order.at_least(count)
            inputs = [count, self._sequence.array, vertices, self.inverse_mass, self._used, colour, offsets, order]
            launch(colour_in_order, 1, inputs, device=self.device)
        elif count < FEW:
            self.colour_in_rounds(vertices, count, offsets, sizes)
        else:
            self.colour_in_chains(vertices, count, offsets, sizes)

    def gather(self, vertices: wp.array, count: int, offsets: wp.array) -> None:
        """Let stencils of a colour that are near each other in the mesh be neighbours. Only on a CPU."""
        gathered = self._gathered.at_least(count)
        inputs = [self._used.shape[0], offsets, vertices, self._region_counts, self.order, gathered]
        launch(gather_regions, 1, inputs, device=self.device)
        self._order.array, self._gathered.array = gathered, self._order.array

    def colour_in_rounds(
        self, vertices: wp.array, count: int, offsets: wp.array, sizes: wp.array | None = None
    ) -> None:
        """The way of CUDA for short lists, which the CPU can go too."""
        sizes = self._told(count) if sizes is None else sizes
        self._colour_together(vertices, count, sizes, ranks=0)
        self._sort(count, sizes, offsets)

    def rank(self, vertices: wp.array, count: int) -> None:
        """Put stencils in an order that gives the same as the order of the list: each as soon as those before it at its
        vertices are done. There are more ranks than colours, and what has a rank beyond the last colour stands last."""
        if count == 0:
            self.offsets.zero_()
            return
        sizes = self._told(count)
        self._colour_together(vertices, count, sizes, ranks=1)
        self._sort(count, sizes, self.offsets)

    def _told(self, count: int) -> wp.array:
        """Where kernels find how many stencils there are."""
        self._sizes.fill_(count)
        return self._sizes

    def _colour_together(self, vertices: wp.array, count: int, sizes: wp.array, *, ranks: int) -> None:
        inputs = [sizes, count, ranks, vertices, self.inverse_mass, self._used, self._claims, self._waiting]
        self._cooperative.launch(colour_together, count, [*inputs, *self._unsorted(count)])

    def colour_in_chains(
        self, vertices: wp.array, count: int, offsets: wp.array, sizes: wp.array | None = None
    ) -> None:
        """The way of CUDA for long lists, likewise."""
        sizes = self._told(count) if sizes is None else sizes
        # sorting needs as much room again
        standings, sequence = self._keys.at_least(2 * count), self._sequence.at_least(2 * count)
        launch(find_standings, count, [sizes, vertices, standings, sequence], device=self.device)
        wp.utils.radix_sort_pairs(standings, sequence, count, end_bit=STANDING_BITS)
        inputs = [sizes, count, sequence, vertices, self.inverse_mass, self._counts, self._begins, self._sums]
        inputs += [self._corners.at_least(count), self._slots.at_least(count), self._entries.at_least(4 * count)]
        inputs += [self._followers.at_least(count), self._pending.at_least(count), self._used]
        self._cooperative.launch(colour_chains_together, count, [*inputs, *self._unsorted(count)])
        self._sort(count, sizes, offsets)

    def _unsorted(self, count: int) -> list[wp.array]:
        """Room for colours and the stencils that have them, and for sorting both."""
        return [self._keys.at_least(2 * count), self._order.at_least(2 * count)]

    def _sort(self, count: int, sizes: wp.array, offsets: wp.array) -> None:
        """The order is that of the CPU: within a colour that of the list."""
        keys, order = self._unsorted(count)
        wp.utils.radix_sort_pairs(keys, order, count, end_bit=COLOURS.bit_length())
        launch(find_offsets, count + 1, [sizes, keys, offsets], device=self.device)
