"""Which colours are taken at each vertex, as bits of some words."""

import warp as wp

from weft.broad_phase.boxes import lowest_bit

wp.set_module_options({"enable_backward": False})

# colours that one word a vertex can tell apart, and words a vertex
BITS = 62
WORDS = 8
COLOURS = BITS * WORDS
# a number for what is no stencil, which is sorted last: there is no higher one of as many bits
NO_COLOUR = wp.constant(2 ** COLOURS.bit_length() - 1)
FULL = wp.constant(wp.int64(2**62 - 1))


@wp.func
def taken(q: wp.vec4i, word: int, inverse_mass: wp.array[wp.float64], used: wp.array2d[wp.int64]) -> wp.int64:
    """The colours of a word that are taken at the vertices that can move."""
    mask = wp.int64(0)
    for k in range(4):
        if inverse_mass[q[k]] > wp.float64(0.0):
            mask = mask | used[q[k], word]
    return mask


@wp.func
def lowest_free(q: wp.vec4i, inverse_mass: wp.array[wp.float64], used: wp.array2d[wp.int64]) -> int:
    """The lowest colour that is not taken; COLOURS if all are."""
    word = int(0)
    mask = taken(q, word, inverse_mass, used)
    while mask == FULL and word < WORDS - 1:
        word += 1
        mask = taken(q, word, inverse_mass, used)
    # the words have a bit to spare, so that one is always free
    return BITS * word + lowest_bit(wp.uint64(~mask))


@wp.func
def take(q: wp.vec4i, colour: int, inverse_mass: wp.array[wp.float64], used: wp.array2d[wp.int64]):
    """Mark a colour as taken at the vertices that can move; all stencils share the others."""
    if colour < COLOURS:
        bit = wp.int64(1) << wp.int64(colour % BITS)
        for k in range(4):
            if inverse_mass[q[k]] > wp.float64(0.0):
                used[q[k], colour // BITS] = used[q[k], colour // BITS] | bit


@wp.func
def forget(q: wp.vec4i, used: wp.array2d[wp.int64]):
    """No colour is taken at these vertices."""
    for k in range(4):
        for word in range(WORDS):
            used[q[k], word] = wp.int64(0)
