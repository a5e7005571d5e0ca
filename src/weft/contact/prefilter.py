# mypy: disable-error-code="arg-type"
"""Long lists of candidates on CUDA: first those are found that are worth a closer look, then these are looked at.

A kernel that can do all of it takes so many registers that a multiprocessor has room for few of its threads, and almost all
of them only find that their pair is far apart. So a light kernel goes through the list and notes who is left, in any order,
and a heavy one goes through what was noted. What comes out is the same: each pair has its own bit and numbers.
"""

import warp as wp

from weft.contact.batches import MOST, bit, edges_far_apart, triangle_far_apart
from weft.contact.ccd_tests import least_distance, may_meet, pairs_to_test, test_edges, test_triangle, units_left
from weft.contact.contact_tests import NEVER, Sheet, edge_contact, edges_sewn, triangle_contact, triangle_sewn
from weft.contact.displacement_bounds import relative_way
from weft.runtime.cooperative import take_ticket

wp.set_module_options({"enable_backward": False})

# threads of a heavy kernel: more than a card holds at once
THREADS = 2**16


@wp.func
def note(i: int, left: wp.array[int], number: wp.array[int]):
    """Put a pair on the list of those that are left."""
    left[take_ticket(number, 0)] = i


@wp.func
def choose(i: int, chosen: wp.array[wp.uint64]):
    """Set the bit of a pair."""
    wp.atomic_or(chosen, i // MOST, bit(i % MOST))


@wp.func
def clear(i: int, chosen: wp.array[wp.uint64]):
    """Nobody is chosen yet."""
    if i % MOST == 0:
        chosen[i // MOST] = wp.uint64(0)


@wp.kernel
def prefilter_vertex_triangle(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    left: wp.array[int],
    number: wp.array[int],
):
    """Who may be a contact, and a bound of the distance of the others."""
    i = first + wp.tid()
    clear(i, chosen)
    pair = pairs[i]
    if sheet.sewn != 0:
        if triangle_sewn(sheet, pair):
            near[i] = NEVER
            return
    apart = triangle_far_apart(pair, sheet.faces, sheet.x, sheet.vertex_moves, sheet.face_moves, sheet.largest)
    if apart > wp.float64(0.0):
        near[i] = apart
    else:
        note(i, left, number)


@wp.kernel
def prefilter_edge_edge(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    left: wp.array[int],
    number: wp.array[int],
):
    """The same for pairs of edges."""
    i = first + wp.tid()
    clear(i, chosen)
    pair = pairs[i]
    if sheet.sewn != 0:
        if edges_sewn(sheet, pair):
            near[i] = NEVER
            return
    apart = edges_far_apart(pair, sheet.edges, sheet.x, sheet.edge_moves, sheet.largest)
    if apart > wp.float64(0.0):
        near[i] = apart
    else:
        note(i, left, number)


@wp.kernel
def look_at_vertex_triangle(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    left: wp.array[int],
    number: wp.array[int],
):
    """Distance of each pair that is left, and whether it is a contact."""
    for s in range(first + wp.tid(), number[0], THREADS):
        i = left[s]
        distance, contact = triangle_contact(sheet, pairs[i])
        near[i] = distance
        if contact:
            choose(i, chosen)


@wp.kernel
def look_at_edge_edge(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    left: wp.array[int],
    number: wp.array[int],
):
    """The same for pairs of edges."""
    for s in range(first + wp.tid(), number[0], THREADS):
        i = left[s]
        distance, contact = edge_contact(sheet, pairs[i])
        near[i] = distance
        if contact:
            choose(i, chosen)


@wp.kernel
def prefilter_for_test(
    first: int,
    pairs: wp.array[wp.vec2i],
    moves: wp.array[wp.vec4d],
    moves_too: wp.array[wp.vec4d],
    scale: wp.float64,
    near: wp.array[wp.float64],
    again: int,
    turned: wp.array[int],
    turned_too: wp.array[int],
    units: wp.array[wp.int8],
    chosen: wp.array[wp.uint64],
    left: wp.array[int],
    number: wp.array[int],
):
    """Who may collide; `units` are what is left of distances."""
    i = first + wp.tid()
    clear(i, chosen)
    if pairs_to_test(pairs, i, 1, moves, moves_too, near, again, turned, turned_too, units, scale) != wp.uint64(0):
        pair = pairs[i]
        if may_meet(near[i], relative_way(moves[pair[0]], moves_too[pair[1]]), scale):
            note(i, left, number)


@wp.kernel
def test_vertex_triangle(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    again: int,
    units: wp.array[wp.int8],
    time: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    left: wp.array[int],
    number: wp.array[int],
):
    """Whether and when each pair that is left meets."""
    for s in range(first + wp.tid(), number[0], THREADS):
        i = left[s]
        apart, met, when = test_triangle(sheet, pairs[i], least_distance(near[i], sheet.scale))
        if again == 0 and apart > wp.float64(0.0):
            units[i] = units_left(apart)
        if met:
            choose(i, chosen)
            time[i] = when


@wp.kernel
def test_edge_edge(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    again: int,
    units: wp.array[wp.int8],
    time: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    left: wp.array[int],
    number: wp.array[int],
):
    """The same for pairs of edges."""
    for s in range(first + wp.tid(), number[0], THREADS):
        i = left[s]
        apart, met, when = test_edges(sheet, pairs[i], least_distance(near[i], sheet.scale))
        if again == 0 and apart > wp.float64(0.0):
            units[i] = units_left(apart)
        if met:
            choose(i, chosen)
            time[i] = when


@wp.kernel
def count_chosen_bits(first: int, chosen: wp.array[wp.uint64], counts: wp.array[int]):
    """How many are chosen of each batch."""
    i = first + wp.tid()
    rest = chosen[i]
    count = int(0)
    while rest != wp.uint64(0):
        rest &= rest - wp.uint64(1)
        count += 1
    counts[i] = count
