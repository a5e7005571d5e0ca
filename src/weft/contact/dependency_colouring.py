"""Colours of stencils, found by all threads of a GPU: the same as if stencils were visited one after another.

Each stencil counts its predecessors, the stencils just before it at its vertices in the order of priority (see
`stencil_colours`), and takes the lowest free colour as soon as the last of them has decremented that counter.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.runtime.compaction import cooperative_scan
from weft.runtime.cooperative import BLOCK, grid_barrier
from weft.runtime.native import NativeHeader, load_vec4i, store_vec4i

wp.set_module_options({"enable_backward": False})

# colours used at a vertex are bits of some 64-bit words. Two bits of each stay clear, so that the lowest free one of a
# full word is still found; eight words are enough for 496 contacts at one vertex, the rest is solved serially
BITS = 62
WORDS = 8
COLOURS = BITS * WORDS
FULL = wp.constant(wp.int64(2**BITS - 1))
# sort key of list entries beyond the last stencil: the highest number of as many bits as colours have
NO_COLOUR = wp.constant(2 ** COLOURS.bit_length() - 1)
# bit of a follower that marks a corner with a predecessor, the end of a list of corners, and
# threads that share the corners of one vertex
HAS_PREDECESSOR = wp.constant(2**30)
NO_STENCIL = wp.constant(2**31 - 1)
LANES = wp.constant(8)

_native = NativeHeader(__file__, "colouring.h")


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


@wp.struct
class DependencyArrays:
    """What `colour_by_dependencies` works with; stencils are numbered by their places in the order of priority."""

    counts: wp.array[int]
    """for each vertex: how many corners of stencils are there"""
    starts: wp.array[int]
    """for each vertex: where its corners begin in `entries`"""
    sums: wp.array[int]
    corners: wp.array[wp.vec4i]
    slots: wp.array[wp.vec4i]
    entries: wp.array[int]
    """4 place + corner, vertex by vertex"""
    followers: wp.array[wp.vec4i]
    """for each corner of a stencil: the stencil that comes next at its vertex"""
    pending: wp.array[int]
    """how many predecessors of a stencil have no colour yet"""
    used: wp.array2d[wp.int64]
    """for each vertex: the colours that are taken, as bits"""


@wp.func
def link_corners(
    t: int, threads: int, arrivals: wp.array[int], count: int, vertex_count: int, arrays: DependencyArrays
):
    """From the corners of all stencils to their followers, and how many predecessors each stencil has."""
    # list the corners at each vertex, in any order
    cooperative_scan(t, threads, arrivals, arrays.counts, arrays.starts, vertex_count, arrays.sums)
    grid_barrier(arrivals)
    for place in range(t, count, threads):
        q = load_vec4i(arrays.corners, place)
        slot = load_vec4i(arrays.slots, place)
        for k in range(4):
            if slot[k] >= 0:
                arrays.entries[arrays.starts[q[k]] + slot[k]] = 4 * place + k
            else:
                arrays.followers[place][k] = 0
    grid_barrier(arrivals)
    lanes = wp.min(LANES, threads)
    for v in range(t // lanes, vertex_count, threads // lanes):
        begin = arrays.starts[v]
        end = begin + arrays.counts[v]
        for own in range(begin + t % lanes, end, lanes):
            find_follower(own, begin, end, arrays.entries, arrays.followers)
    grid_barrier(arrivals)
    for place in range(t, count, threads):
        of_corner = load_vec4i(arrays.followers, place)
        predecessors = int(0)
        for k in range(4):
            if of_corner[k] >= HAS_PREDECESSOR:
                predecessors += 1
        arrays.pending[place] = predecessors


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
    arrays: DependencyArrays,
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
    for i in range(t, launch_bound, threads):
        order[i] = i
    vertex_count = inverse_mass.shape[0]
    for v in range(t, vertex_count, threads):
        arrays.counts[v] = 0
        for word in range(WORDS):
            arrays.used[v, word] = wp.int64(0)
    grid_barrier(arrivals)
    for place in range(t, count, threads):
        q = load_vec4i(vertices, sequence[place])
        list_corners(place, q, inverse_mass, arrays.counts, arrays.corners, arrays.slots)
    grid_barrier(arrivals)
    link_corners(t, threads, arrivals, count, vertex_count, arrays)
    grid_barrier(arrivals)
    # the first of all uncoloured stencils has no predecessor and is the next one of its thread: some thread always advances
    place = int(t)
    q = load_vec4i(arrays.corners, wp.min(place, count - 1))
    next_ones = load_vec4i(arrays.followers, wp.min(place, count - 1))
    while place < count:
        if load_acquire(arrays.pending, place) == 0:
            keys[sequence[place]] = take_lowest_colour(q, next_ones, arrays.used, arrays.pending)
            place += threads
            q = load_vec4i(arrays.corners, wp.min(place, count - 1))
            next_ones = load_vec4i(arrays.followers, wp.min(place, count - 1))
