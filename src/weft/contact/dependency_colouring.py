"""Colours of long lists of stencils on CUDA: each is told by those before it at its vertices when it is its turn.

The colours are those of the serial order (see `weft.contact.stencil_colours`). Most stencils wait for hundreds of others,
one after another, so that rounds in which all are looked at would take too long. Here each thread takes every so many
stencils in that order, and each of them as soon as those before it at its corners have counted it down.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.contact.colour_words import BITS, COLOURS, FULL, NO_COLOUR, WORDS
from weft.runtime.compaction import cooperative_scan
from weft.runtime.cooperative import BLOCK, grid_barrier
from weft.runtime.vector_loads import load_vec4i, store_vec4i

wp.set_module_options({"enable_backward": False})

# added to what is noted at a corner with others before it
FOLLOWS = wp.constant(2**30)
# threads that look at the corners of a vertex
LANES = wp.constant(8)
NOBODY = wp.constant(2**31 - 1)


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    int number;
    asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(number) : "l"(numbers.data + i) : "memory");
    return number;
#else
    return numbers.data[i];
#endif
    """
)
def now(numbers: wp.array[int], i: int) -> int:
    """A number that others count down: if it is 0, what they did before is known."""
    ...


# on a card colours are seen by all before anybody is told
@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    #define SEEN volatile wp::int64
#else
    #define SEEN wp::int64
#endif
    SEEN* words[4];
    wp::int64 low[4], high[4];
    for (int k = 0; k < 4; ++k) {{
        words[k] = used.data + (size_t){WORDS} * (q[k] < 0 ? ~q[k] : q[k]);
        low[k] = words[k][0];
        high[k] = words[k][1];
    }}
    // the lowest that is free: mostly one of the first two words
    int word = 0;
    wp::int64 mask = low[0] | low[1] | low[2] | low[3];
    if (mask == {FULL}) {{
        word = 1;
        mask = high[0] | high[1] | high[2] | high[3];
        for (int k = 0; k < 4; ++k) low[k] = high[k];
        while (mask == {FULL} && word < {WORDS - 1}) {{
            ++word;
            for (int k = 0; k < 4; ++k) low[k] = words[k][word];
            mask = low[0] | low[1] | low[2] | low[3];
        }}
    }}
    #undef SEEN
    int bit = 0;
#if defined(__CUDA_ARCH__)
    bit = __ffsll(~mask) - 1;
#else
    bit = __builtin_ctzll(~mask);
#endif
    const int colour = {BITS} * word + bit;
    if (colour < {COLOURS})
        for (int k = 0; k < 4; ++k)
            // no colour is taken where nothing moves
            if (q[k] >= 0) words[k][word] = low[k] | (wp::int64)1 << bit;
#if defined(__CUDA_ARCH__)
    asm volatile("fence.acq_rel.gpu;" : : : "memory");
#endif
    for (int k = 0; k < 4; ++k) {{
        const int follower = (noted[k] & {FOLLOWS - 1}) - 1;
        if (follower >= 0)
#if defined(__CUDA_ARCH__)
            atomicSub(pending.data + follower, 1);
#else
            --pending.data[follower];
#endif
    }}
    return colour;
    """
)
def take_and_tell(q: wp.vec4i, noted: wp.vec4i, used: wp.array2d[wp.int64], pending: wp.array[int]) -> int:
    """Take the lowest colour that is free at all corners, and tell those who come next there."""
    ...


@wp.func
def note_corners(
    place: int,
    q: wp.vec4i,
    inverse_mass: wp.array[wp.float64],
    counts: wp.array[int],
    corners: wp.array[wp.vec4i],
    slots: wp.array[wp.vec4i],
):
    """The corners of a stencil, as ~vertex where it cannot move, and a slot at each vertex, -1 where it needs none."""
    noted = q
    slot = wp.vec4i(-1, -1, -1, -1)
    for k in range(4):
        alone = bool(True)
        for other in range(k):
            # stencils of fewer points name a vertex twice
            if q[other] == q[k]:
                alone = False
        if inverse_mass[q[k]] == wp.float64(0.0):
            noted[k] = ~q[k]
        elif alone:
            slot[k] = wp.atomic_add(counts, q[k], 1)
    store_vec4i(corners, place, noted)
    store_vec4i(slots, place, slot)


@wp.func
def follow(own: int, begin: int, end: int, entries: wp.array[int], followers: wp.array[wp.vec4i]):
    """Note for a corner at a vertex who comes next of all who have one there, and whether somebody is before."""
    entry = entries[own]
    following = int(NOBODY)
    found = int(0)
    for k in range(begin, end):
        other = entries[k]
        if other > entry:
            following = wp.min(following, other)
        elif other < entry:
            found = FOLLOWS
    if following != NOBODY:
        found += following // 4 + 1
    followers[entry // 4][entry % 4] = found


@wp.kernel(launch_bounds=BLOCK)
def colour_chains_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sizes: wp.array[int],
    most: int,
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
    """The colours of stencils one after another in a sequence, in which each has its place; what is none stands last."""
    t = first + wp.tid()
    count = sizes[0]
    for i in range(count + t, most, threads):
        keys[i] = NO_COLOUR
        order[i] = i
    vertex_count = inverse_mass.shape[0]
    for v in range(t, vertex_count, threads):
        counts[v] = 0
        for word in range(WORDS):
            used[v, word] = wp.int64(0)
    grid_barrier(arrivals)
    for place in range(t, count, threads):
        note_corners(place, load_vec4i(vertices, sequence[place]), inverse_mass, counts, corners, slots)
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
            follow(own, begin, end, entries, followers)
    grid_barrier(arrivals)
    for place in range(t, count, threads):
        of_corner = load_vec4i(followers, place)
        waits = int(0)
        for k in range(4):
            if of_corner[k] >= FOLLOWS:
                waits += 1
        pending[place] = waits
        order[place] = place
    grid_barrier(arrivals)
    # the first of all that are left waits for nobody, and is the next of its thread
    place = int(t)
    q = load_vec4i(corners, wp.min(place, count - 1))
    noted = load_vec4i(followers, wp.min(place, count - 1))
    while place < count:
        if now(pending, place) == 0:
            keys[sequence[place]] = take_and_tell(q, noted, used, pending)
            place += threads
            q = load_vec4i(corners, wp.min(place, count - 1))
            noted = load_vec4i(followers, wp.min(place, count - 1))
