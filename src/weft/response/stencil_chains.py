"""Colours of long lists of stencils on CUDA: each is told by those before it at its vertices when it is its turn.

The colours are those of the serial order (see `weft.response.stencil_colours`). A stencil waits for hundreds of rounds, so
that looking at all of them in every round would take too long.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.response.colour_words import BITS, COLOURS, FULL, WORDS
from weft.world.card import load_vec4i, store_four
from weft.world.together import BLOCK, meet, shared, spread, take_number, take_numbers

wp.set_module_options({"enable_backward": False})

# added to what is noted at a corner with others before it
FOLLOWS = wp.constant(2**30)


@wp.kernel
def list_corners(
    first: int,
    sequence: wp.array[int],
    vertex_count: int,
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    keys: wp.array[int],
    corners: wp.array[int],
):
    """The corners of all stencils in the order of these; corners that do not count have the last key."""
    place = first + wp.tid()
    i = sequence[place]
    q = load_vec4i(vertices, i)
    of_four = wp.vec4i()
    for k in range(4):
        key = q[k]
        if inverse_mass[key] == wp.float64(0.0):
            key = vertex_count
        for other in range(k):
            # stencils of fewer points name a vertex twice
            if q[other] == q[k]:
                key = vertex_count
        of_four[k] = key
    store_four(keys, place, of_four)
    store_four(corners, place, wp.vec4i(4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3))


# whoever is told is told before the colour is known, since each answer takes long to come: nobody listens before all have met
@wp.func_native(
    f"""
    wp::vec_t<4, int> freed;
    wp::int64* words[4];
    wp::int64 low[4], high[4];
    bool moves[4];
    for (int k = 0; k < 4; ++k) {{
        words[k] = used.data + (size_t){WORDS} * q[k];
        low[k] = words[k][0];
        high[k] = words[k][1];
        moves[k] = inverse_mass.data[q[k]] > 0.0;
    }}
    for (int k = 0; k < 4; ++k) {{
        const int follower = (noted[k] & {FOLLOWS - 1}) - 1;
        int told = 0;
        if (follower >= 0)
#if defined(__CUDA_ARCH__)
            told = atomicSub(pending.data + follower, 1);
#else
            told = pending.data[follower]--;
#endif
        freed[k] = told == 1 ? follower : -1;
    }}
    // the lowest that is free: mostly one of the first two words; no colour is taken where nothing moves
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
    int bit = 0;
#if defined(__CUDA_ARCH__)
    bit = __ffsll(~mask) - 1;
#else
    bit = __builtin_ctzll(~mask);
#endif
    const int colour = {BITS} * word + bit;
    keys.data[i] = colour;
    if (colour < {COLOURS})
        for (int k = 0; k < 4; ++k)
            if (moves[k]) words[k][word] = low[k] | (wp::int64)1 << bit;
    return freed;
    """
)
def take_and_tell(
    i: int,
    q: wp.vec4i,
    noted: wp.vec4i,
    inverse_mass: wp.array[wp.float64],
    used: wp.array2d[wp.int64],
    pending: wp.array[int],
    keys: wp.array[int],
) -> wp.vec4i:
    """Take the lowest free colour for a stencil, and tell those who come next at its corners; gives who waits for nobody
    now, -1 for the others."""
    ...


@shared
@wp.kernel(launch_bounds=BLOCK)
def colour_chains_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    vertex_count: int,
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    corner_keys: wp.array[int],
    corners: wp.array[int],
    followers: wp.array[wp.vec4i],
    pending: wp.array[int],
    ready: wp.array[int],
    used: wp.array2d[wp.int64],
    added: wp.array[int],
    keys: wp.array[int],
    order: wp.array[int],
):
    """The colours of the serial order, given the corners sorted by vertex, with nobody's colours taken: whoever takes one
    tells the next at each vertex."""
    t = first + wp.tid()
    for c in range(t, 3, threads):
        added[c] = 0
    # who comes next at each corner, and whether somebody is before
    last = 4 * count - 1
    for place in range(t, 4 * count, threads):
        corner = corners[place]
        key = corner_keys[place]
        found = int(0)
        if key < vertex_count:
            if place < last and corner_keys[wp.min(place + 1, last)] == key:
                found = corners[place + 1] // 4 + 1
            if place > 0 and corner_keys[wp.max(place - 1, 0)] == key:
                found += FOLLOWS
        followers[corner // 4][corner % 4] = found
    meet(arrivals)
    for i in range(t, count, threads):
        corner_of = load_vec4i(followers, i)
        waits = int(0)
        for k in range(4):
            if corner_of[k] >= FOLLOWS:
                waits += 1
        pending[i] = waits
        if waits == 0:
            ready[take_number(added, 0)] = i
    meet(arrivals)
    mine = spread(t, threads)
    begin = int(0)
    end = added[0]
    round_number = int(1)
    while end > begin:
        # counters of three rounds: one is read, one written, one cleared
        if t == 0:
            added[(round_number + 1) % 3] = 0
        for s in range(begin + mine, end, threads):
            i = ready[s]
            order[i] = i
            q = load_vec4i(vertices, i)
            others = take_and_tell(i, q, load_vec4i(followers, i), inverse_mass, used, pending, keys)
            freed = int(0)
            for k in range(4):
                if others[k] >= 0:
                    freed += 1
            place = end + take_numbers(added, round_number % 3, freed)
            for k in range(4):
                if others[k] >= 0:
                    ready[place] = others[k]
                    place += 1
        meet(arrivals)
        begin = end
        end = end + added[round_number % 3]
        round_number += 1
