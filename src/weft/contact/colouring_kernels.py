"""Kernels that colour stencils: no two stencils of one colour share a vertex that can move.

All of them give the same greedy colouring: stencils are visited in the order of a priority, a hash of their vertices, and
each takes the lowest colour that is free at its vertices. The CPU visits them one after another (`colour_in_order`). On
CUDA (`colour_by_dependencies`) threads take stencils in the order of priority as well; each stencil counts its
predecessors, the stencils just before it at its vertices, and takes its colour as soon as the last of them has
decremented that counter.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.runtime.compaction import cooperative_scan
from weft.runtime.cooperative import BLOCK, clusterable, grid_barrier
from weft.runtime.native import NativeHeader
from weft.runtime.partition import interleaved_thread
from weft.runtime.vector_loads import load_vec4i, store_vec4i

wp.set_module_options({"enable_backward": False})

# colours used at a vertex are bits of some 64-bit words. Two bits of each stay clear, so that the lowest free one of a
# full word is still found; eight words are enough for 496 contacts at one vertex, the rest is solved serially
BITS = 62
WORDS = 8
COLOURS = BITS * WORDS
FULL = wp.constant(wp.int64(2**BITS - 1))
# sort key of list entries beyond the last stencil: the highest number of as many bits as colours have
NO_COLOUR = wp.constant(2 ** COLOURS.bit_length() - 1)
# classes of priority are 2 to this power; stencils of one class keep the order of the list. Fewer bits sort faster,
# more bits spread neighbours farther apart in the order
PRIORITY_BITS = 12
PRIORITIES = wp.constant(2**PRIORITY_BITS)
# ranges of vertex numbers by which the CPU sorts the stencils of one colour
REGIONS = 64
# `rank_stencils`: no stencil has reserved a vertex; reservations of later rounds are lower than those of all earlier ones
NO_RESERVATION = wp.constant(wp.int64(2**62))
MOST_ROUNDS = wp.constant(2**29)
# `colour_by_dependencies`: bit of a follower that marks a corner with a predecessor, the end of a list of corners, and
# threads that share the corners of one vertex
HAS_PREDECESSOR = wp.constant(2**30)
NO_STENCIL = wp.constant(2**31 - 1)
LANES = wp.constant(8)

_native = NativeHeader(__file__, "colouring.h")


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


@wp.kernel
def find_priorities(
    first: int, size: wp.array[int], vertices: wp.array[wp.vec4i], priorities: wp.array[int], sequence: wp.array[int]
):
    """Keys and values for a sort by priority; entries beyond the last stencil come last."""
    i = first + wp.tid()
    priorities[i] = PRIORITIES - 1
    if i < size[0]:
        priorities[i] = priority_of(vertices[i])
    sequence[i] = i


@wp.kernel
def sort_by_priority(
    first: int,
    count: int,
    vertices: wp.array[wp.vec4i],
    starts: wp.array[int],
    priorities: wp.array[int],
    sequence: wp.array[int],
):
    """The numbers of all stencils in the order of priority, by a counting sort in one thread."""
    start = first + wp.tid()
    for k in range(PRIORITIES + 1):
        starts[k] = 0
    for i in range(start, count):
        priority = priority_of(vertices[i])
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


@wp.func
def region_of(q: wp.vec4i, vertex_count: int) -> int:
    """The range of vertex numbers that a stencil lies in, by its lowest vertex."""
    return int(wp.int64(wp.min(q)) * wp.int64(REGIONS) / wp.int64(vertex_count))


@wp.kernel
def sort_by_region(
    first: int,
    vertex_count: int,
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    counts: wp.array[int],
    order: wp.array[int],
    sorted_order: wp.array[int],
):
    """Sort the stencils of each colour by the region of the mesh that they lie in; one thread.

    Then the thread that solves the first half of every colour has the same vertices in its cache every time. Stencils
    without a colour keep their order, in which they are solved.
    """
    for k in range(offsets[COLOURS], offsets[COLOURS + 1]):
        sorted_order[k] = order[k]
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
            sorted_order[counts[region]] = order[k]
            counts[region] = counts[region] + 1


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


@wp.func_native(_native.body("load_acquire"))
def load_acquire(numbers: wp.array[int], i: int) -> int:
    """A counter that other threads decrement: if it is 0, what they wrote before is visible."""
    ...


@wp.func_native(
    _native.body(
        "take_lowest_colour", WORDS=WORDS, FULL=FULL, BITS=BITS, COLOURS=COLOURS, HAS_PREDECESSOR=HAS_PREDECESSOR
    )
)
def take_lowest_colour(q: wp.vec4i, followers: wp.vec4i, used: wp.array2d[wp.int64], pending: wp.array[int]) -> int:
    """Take the lowest colour that is free at all corners, then decrement the counters of the followers there."""
    ...


@wp.func
def list_corners(
    place: int,
    q: wp.vec4i,
    inverse_mass: wp.array[wp.float64],
    counts: wp.array[int],
    corners: wp.array[wp.vec4i],
    slots: wp.array[wp.vec4i],
):
    """Write the corners of a stencil, ~vertex where it cannot move, and its slot at each vertex, -1 where it needs none."""
    corner = q
    slot = wp.vec4i(-1, -1, -1, -1)
    for k in range(4):
        alone = bool(True)
        for other in range(k):
            # stencils with fewer than four vertices name one of them twice
            if q[other] == q[k]:
                alone = False
        if inverse_mass[q[k]] == wp.float64(0.0):
            corner[k] = ~q[k]
        elif alone:
            slot[k] = wp.atomic_add(counts, q[k], 1)
    store_vec4i(corners, place, corner)
    store_vec4i(slots, place, slot)


@wp.func
def find_follower(own: int, begin: int, end: int, entries: wp.array[int], followers: wp.array[wp.vec4i]):
    """Write which stencil comes next at the vertex of a corner, and whether one comes before; entries are 4 place + corner."""
    entry = entries[own]
    following = int(NO_STENCIL)
    found = int(0)
    for k in range(begin, end):
        other = entries[k]
        if other > entry:
            following = wp.min(following, other)
        elif other < entry:
            found = HAS_PREDECESSOR
    if following != NO_STENCIL:
        found += following // 4 + 1
    followers[entry // 4][entry % 4] = found


@wp.kernel(launch_bounds=BLOCK)
def colour_by_dependencies(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    size: wp.array[int],
    launch_bound: int,
    sequence: wp.array[int],
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    counts: wp.array[int],
    starts: wp.array[int],
    sums: wp.array[int],
    corners: wp.array[wp.vec4i],
    slots: wp.array[wp.vec4i],
    entries: wp.array[int],
    followers: wp.array[wp.vec4i],
    pending: wp.array[int],
    used: wp.array2d[wp.int64],
    keys: wp.array[int],
    order: wp.array[int],
):
    """The colours of all stencils, as keys for a sort; `sequence` is the order of priority, size[0] their number.

    Rounds, in which all stencils that are first at their vertices take a colour, would be hundreds, each with a barrier.
    """
    t = first + wp.tid()
    count = size[0]
    for i in range(count + t, launch_bound, threads):
        keys[i] = NO_COLOUR
        order[i] = i
    vertex_count = inverse_mass.shape[0]
    for v in range(t, vertex_count, threads):
        counts[v] = 0
        for word in range(WORDS):
            used[v, word] = wp.int64(0)
    grid_barrier(arrivals)
    for place in range(t, count, threads):
        list_corners(place, load_vec4i(vertices, sequence[place]), inverse_mass, counts, corners, slots)
    grid_barrier(arrivals)
    # list the corners at each vertex, in any order
    cooperative_scan(t, threads, arrivals, counts, starts, vertex_count, sums)
    grid_barrier(arrivals)
    for place in range(t, count, threads):
        q = load_vec4i(corners, place)
        slot = load_vec4i(slots, place)
        for k in range(4):
            if slot[k] >= 0:
                entries[starts[q[k]] + slot[k]] = 4 * place + k
            else:
                followers[place][k] = 0
    grid_barrier(arrivals)
    lanes = wp.min(LANES, threads)
    for v in range(t // lanes, vertex_count, threads // lanes):
        begin = starts[v]
        end = begin + counts[v]
        for own in range(begin + t % lanes, end, lanes):
            find_follower(own, begin, end, entries, followers)
    grid_barrier(arrivals)
    for place in range(t, count, threads):
        of_corner = load_vec4i(followers, place)
        predecessors = int(0)
        for k in range(4):
            if of_corner[k] >= HAS_PREDECESSOR:
                predecessors += 1
        pending[place] = predecessors
        order[place] = place
    grid_barrier(arrivals)
    # the first of all uncoloured stencils has no predecessor and is the next one of its thread: some thread always advances
    place = int(t)
    q = load_vec4i(corners, wp.min(place, count - 1))
    next_ones = load_vec4i(followers, wp.min(place, count - 1))
    while place < count:
        if load_acquire(pending, place) == 0:
            keys[sequence[place]] = take_lowest_colour(q, next_ones, used, pending)
            place += threads
            q = load_vec4i(corners, wp.min(place, count - 1))
            next_ones = load_vec4i(followers, wp.min(place, count - 1))


@wp.func
def reservation_of(i: int, round_number: int) -> wp.int64:
    """What stencil i reserves a vertex with: its place in the list, below all reservations of earlier rounds."""
    return (wp.int64(MOST_ROUNDS - round_number) << wp.int64(32)) + wp.int64(i)


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def rank_stencils(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    reservations: wp.array2d[wp.int64],
    waiting: wp.array[int],
    keys: wp.array[int],
    order: wp.array[int],
):
    """How many stencils before it in the list each stencil has to wait for, one after another, as keys for a sort.

    In each round all stencils without a rank reserve their movable vertices, the first in the list wins, and who wins all
    of its vertices has the number of the round as its rank.
    """
    t = first + wp.tid()
    place = interleaved_thread(t, threads)
    for c in range(t, 3, threads):
        waiting[c] = 0
    for i in range(place, count, threads):
        q = vertices[i]
        for k in range(4):
            reservations[0, q[k]] = NO_RESERVATION
            reservations[1, q[k]] = NO_RESERVATION
        keys[i] = -1
        order[i] = i
    grid_barrier(arrivals)
    # two lists of reservations: those of one round are made while threads still read those of the round before
    round_number = int(0)
    left = int(1)
    while left == 1:
        turn = round_number % 2
        for i in range(place, count, threads):
            if keys[i] < 0:
                q = vertices[i]
                for k in range(4):
                    if inverse_mass[q[k]] > wp.float64(0.0):
                        wp.atomic_min(reservations, turn, q[k], reservation_of(i, round_number))
        grid_barrier(arrivals)
        # flags of three rounds: one is written, that of the round before is read, one is cleared
        if t == 0:
            waiting[(round_number + 1) % 3] = 0
        if round_number > 0:
            left = waiting[(round_number + 2) % 3]
        for i in range(place, count, threads):
            if keys[i] < 0:
                q = vertices[i]
                first_everywhere = bool(True)
                for k in range(4):
                    if inverse_mass[q[k]] > wp.float64(0.0):
                        if reservations[turn, q[k]] != reservation_of(i, round_number):
                            first_everywhere = False
                if first_everywhere:
                    keys[i] = wp.min(round_number, COLOURS)
                else:
                    waiting[round_number % 3] = 1
        round_number += 1
