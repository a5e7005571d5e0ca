"""Springs that continue each other in straight lines, solved a line at a time.

One Gauss-Seidel sweep over single springs passes a pull on by an edge or two: cloth that hangs gives way as if its material
were ten to fifty times softer, the more the finer its mesh. So springs that lie in a line at rest (the threads of a grid, its
diagonals, about straight lines of any mesh) are solved together (Deul et al. 2018 do so for rods). With n_k the direction of
spring k at the start of the substep, C_k its rest length less its length, w_k the inverse mass of the vertex between springs
k - 1 and k, and l_k the push of the spring over one substep of XPBD, a line is the tridiagonal system

    -w_k (n_k-1 . n_k) l_k-1 + (w_k + w_k+1 + softness_k) l_k - w_k+1 (n_k . n_k+1) l_k+1 = C_k

Springs push along the directions that they had when the substep started, as in SHAKE (Ryckaert et al. 1977), and have no torque
then about the positions from which velocities are counted. Along those of the predicted positions (`now`) cloth that turns
loses spin in proportion to the length of a substep, but springs that turn far in a long one are still drawn the right way.

Lines fill batches of `BATCH` slots, the same on both devices, which so differ by rounding alone. The CPU eliminates
`SIMD_BATCHES` batches side by side. On CUDA a batch is a warp's, with neighbouring slots in one thread: that eliminates all of
them but one, and cyclic reduction halves the system of the warp five times. Longer lines have blocks: the batches at the same
place of several groups of `SIMD_BATCHES`. Forwards, a block is eliminated but for its last push, whose equation the next one
takes over, by two numbers; backwards, blocks are eliminated again, with the first push of the next one. So lines of any length
are solved exactly, in 2 m - 1 passes over m blocks. The C++ of both is `native/spring_lines.h`.
"""

# mypy: disable-error-code="empty-body"

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.packed_vertices import length_at
from weft.dynamics.springs import SpringNetwork
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import WARP
from weft.runtime.native import NativeHeader, load_vec2i

wp.set_module_options({"enable_backward": False})

# slots of a batch. Longer lines take nearly twice as many passes as blocks; on the CPU batches of 128 take as long as those of
# 32, since a batch ends with its last spring
BATCH = 128
# slots of a thread on CUDA, of a warp for each batch
SLOTS_A_THREAD = BATCH // WARP
# batches that the CPU solves side by side: the doubles of one AVX-512 register, or of two AVX2 ones
SIMD_BATCHES = 8
# two springs continue each other where the cosine of the angle between them is less, at 143 degrees and wider. Nearer to -1
# fewer springs of irregular meshes are in lines; nearer to 0 lines turn corners, across which springs hardly act on each other
STRAIGHT = -0.8
ONE = wp.constant(wp.float64(1.0))

_native = NativeHeader(__file__, "spring_lines.h")


class SpringLines(NamedTuple):
    """Batches of slots in the order of their colours; batches of one colour share no vertex (host arrays).

    Springs in neighbouring slots continue each other where the second begins at the vertex at which the first ends.
    """

    springs: np.ndarray
    """(b, slots) int32: the spring in each slot, or -1"""
    vertices: np.ndarray
    """(b, slots, 2) int32: its ends in the direction of the line; -1 in an empty slot"""
    offsets: np.ndarray
    """(c + 1,) int32: the first batch of each colour, a multiple of `SIMD_BATCHES`"""
    blocks: np.ndarray
    """(b / SIMD_BATCHES,) int32: how many groups of batches the lines of each group go through; 0 where they go on in it"""


@wp.struct
class SpringSlots:
    """All slots of all batches, in the order of their colours."""

    pairs: wp.array[wp.vec2i]
    rests: wp.array[wp.float64]
    elastics: wp.array[wp.float64]
    """see `prepare_springs`"""
    softness: wp.array[wp.float64]
    pushes: wp.array[wp.float64]
    """written: the push l_k of each spring; while lines are solved, what their blocks take over from those before"""
    blocks: wp.array[int]
    """of each group of batches, see `SpringLines`"""


@wp.struct
class ThreadSlots:
    """The slots of a CUDA thread, in the order of their line, and the vertices of the springs in them.

    A line begins in a thread's first slot, so that each of its other springs, if there is one, continues the spring before.
    """

    slot: int
    """the first of them; the others follow at a distance of `WARP`"""
    head: int
    """the first vertex of the first spring in the direction of the line, or -1"""
    tails: wp.vec4i
    """the second vertices, or -1"""
    blocks: int
    """of the lines that begin there; 0 where lines only go on"""


@wp.kernel
def prepare_springs(
    first: int,
    pairs: wp.array[wp.vec2i],
    compliance: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    lengths: wp.array[wp.float64],
    elastics: wp.array[wp.float64],
    softness: wp.array[wp.float64],
):
    """The constants of each slot for substeps of these lengths; compliance is 1/k, delay is damping / k.

    With gamma = delay / h, XPBD divides elastic force and damping by 1 + gamma: `elastics` has 1 / (1 + gamma), the fraction
    of the constraint that is elastic, the rest being damping, and `softness` has that times compliance / h^2.
    """
    i = first + wp.tid()
    # values of an empty slot that make it a regular equation without effect
    elastic = ONE
    soft = ONE
    if pairs[i][0] >= 0:
        h = length_at(lengths, pairs[i][0])
        elastic = ONE / (ONE + delay[i] / h)
        soft = elastic * compliance[i] / (h * h)
    elastics[i] = elastic
    softness[i] = soft


@wp.func_native(_native.body("slots_at_once", SLOTS=BATCH * SIMD_BATCHES))
def slots_at_once() -> int:
    """How many items of a pass a thread solves at once: one on CUDA, the slots of `SIMD_BATCHES` batches on the CPU.

    An item is a thread's slots on CUDA, and a slot on the CPU.
    """
    ...


@wp.func
def load_slots(item: int, slots: SpringSlots) -> ThreadSlots:
    """CUDA: the slots of a thread. On the CPU `solve_native` loads them itself, all but the number of blocks."""
    mine = ThreadSlots()
    mine.slot = item
    if slots_at_once() == 1:
        mine.slot = item // WARP * BATCH + item % WARP
    mine.blocks = slots.blocks[mine.slot // (BATCH * SIMD_BATCHES)]
    if slots_at_once() == 1:
        for k in range(SLOTS_A_THREAD):
            pair = load_vec2i(slots.pairs, mine.slot + k * WARP)
            if k == 0:
                mine.head = pair[0]
            mine.tails[k] = pair[1]
    return mine


@wp.func_native(_native.body("solve_lines", BATCH=BATCH, SIMD_BATCHES=SIMD_BATCHES, SLOTS_A_THREAD=SLOTS_A_THREAD))
def solve_native(
    slot: int,
    blocks: int,
    head: int,
    tails: wp.vec4i,
    pairs: wp.array[wp.vec2i],
    rests: wp.array[wp.float64],
    elastics: wp.array[wp.float64],
    softnesses: wp.array[wp.float64],
    pushes: wp.array[wp.float64],
    now: bool,
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
): ...


@wp.func
def solve_lines(mine: ThreadSlots, slots: SpringSlots, now: bool, before: wp.array[wp.vec4d], p: wp.array[wp.vec4d]):
    """Solve the lines of a batch and move their vertices p, which were `before` at the start of the substep.

    Springs push along their directions `now`, or those before. On CUDA all threads of a warp call this, each with its
    slots; on the CPU one thread solves `slots_at_once` slots.
    """
    solve_native(
        mine.slot, mine.blocks, mine.head, mine.tails, slots.pairs, slots.rests, slots.elastics, slots.softness,
        slots.pushes, now, before, p,
    )  # fmt: skip


def find_spring_lines(
    network: SpringNetwork, chosen: np.ndarray, vertex_count: int, *, align: int = 1, batch: int = BATCH
) -> SpringLines:
    """Batches of so many slots with lines of some of the springs of a network; lines begin at multiples of `align` slots."""
    pairs = np.ascontiguousarray(network.pairs[chosen], np.int32)
    if len(pairs) == 0:
        none = np.zeros(0, np.int32)
        return SpringLines(
            np.zeros((0, batch), np.int32), np.zeros((0, batch, 2), np.int32), np.zeros(1, np.int32), none
        )
    partners = find_continuations(pairs, network.courses[chosen], network.kind[chosen])
    pieces, piece_of, place_of, turned = _walk(pairs, partners, vertex_count)
    # pieces of one direction are coloured one after another: lines that cross would take colours from each other
    sizes = np.bincount(piece_of, minlength=pieces)
    by_direction = np.lexsort(_directions(network.courses[chosen], piece_of, pieces).T)
    piece_of, sizes = _ranks(by_direction)[piece_of], sizes[by_direction]

    # the vertices of each piece, the first of them before its first spring
    ends = np.where(turned[:, None], pairs[:, ::-1], pairs)
    begins = np.append(0, np.cumsum(sizes + 1))
    vertices = np.empty(begins[-1], np.int32)
    vertices[begins[piece_of] + place_of + 1] = ends[:, 1]
    starts = place_of == 0
    vertices[begins[piece_of[starts]]] = ends[starts, 0]
    order, offsets = colour_items(vertices, vertex_count, begins)
    # in a colour, long pieces come first; pieces beside each other in the cloth are neighbours: they share cache lines, and a
    # thread has one region
    where = np.bincount(piece_of, pairs.sum(axis=1)) / sizes
    blocks = -(-sizes[order] // batch)
    order = order[np.lexsort((where[order], -blocks, np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))]

    batch_of, first_of, batch_offsets, group_blocks = _fill_batches(sizes[order], offsets, batch, align)
    rank_of = _ranks(order)[piece_of]
    further, slots = np.divmod(first_of[rank_of] + place_of, batch)
    batches = batch_of[rank_of] + SIMD_BATCHES * further
    springs = np.full((batch_offsets[-1], batch), -1, np.int32)
    springs[batches, slots] = chosen
    slot_vertices = np.full((batch_offsets[-1], batch, 2), -1, np.int32)
    slot_vertices[batches, slots] = ends
    return SpringLines(springs, slot_vertices, batch_offsets, group_blocks)


def interleaved(values: np.ndarray, device: wp.Device) -> np.ndarray:
    """The values (b, slots, ...) of all slots as a device has them: those that are read at the same time are neighbours.

    On the CPU these are slots of `SIMD_BATCHES` batches, on CUDA the first slots of all threads of a warp, then the second.
    """
    slots = values.shape[1]
    side, along = (SIMD_BATCHES, slots) if device.is_cpu else (slots // SLOTS_A_THREAD, SLOTS_A_THREAD)
    return values.reshape(-1, side, along, *values.shape[2:]).swapaxes(1, 2).reshape(-1, *values.shape[2:])


def _directions(courses: np.ndarray, piece_of: np.ndarray, pieces: int) -> np.ndarray:
    """The mean direction of each piece, rounded to halves: (p, 3) integers that are the same for about parallel pieces."""
    course = _unit(courses)
    main = np.abs(course).argmax(axis=1)
    # the same for both senses of a line
    course = course * np.where(course[np.arange(len(course)), main] < 0.0, -1.0, 1.0)[:, None]
    sums = np.stack([np.bincount(piece_of, course[:, axis], minlength=pieces) for axis in range(3)], axis=1)
    return np.round(2.0 * sums / np.bincount(piece_of, minlength=pieces)[:, None]).astype(np.int64)


def _unit(courses: np.ndarray) -> np.ndarray:
    """Vectors scaled to length one; zero stays zero."""
    length = np.linalg.norm(courses, axis=1, keepdims=True)
    return courses / np.where(length > 0.0, length, 1.0)


def _ranks(order: np.ndarray) -> np.ndarray:
    """The inverse of a permutation: the position of each item in an order."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def find_continuations(pairs: np.ndarray, courses: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """Which end of which other spring continues each end of each spring: (2 s,) numbers 2 * spring + end, or -1.

    Two springs of one kind continue each other at a vertex where each is the straightest way on for the other.
    """
    course = _unit(courses)
    leaving = np.stack([course, -course], axis=1).reshape(-1, 3)
    ends = pairs.reshape(-1)
    partners = np.full(len(ends), -1, np.int64)
    at_vertex = np.argsort(ends, kind="stable")
    valences = np.bincount(ends)
    starts = np.cumsum(valences) - valences
    for valence in np.unique(valences[valences > 1]):
        ends_here = at_vertex[starts[valences == valence][:, None] + np.arange(valence)]
        ways, kinds = leaving[ends_here], kind[ends_here // 2]
        cosines = np.einsum("vid,vjd->vij", ways, ways)
        cosines[kinds[:, :, None] != kinds[:, None, :]] = 1.0
        best = cosines.argmin(axis=2)
        straight = np.take_along_axis(cosines, best[:, :, None], 2)[:, :, 0] < STRAIGHT
        good = straight & (np.take_along_axis(best, best, 1) == np.arange(valence))
        partners[ends_here[good]] = np.take_along_axis(ends_here, best, 1)[good]
    return partners


@wp.kernel
def walk_along(
    first: int,
    pairs: wp.array[wp.vec2i],
    partners: wp.array[int],
    piece_of: wp.array[int],
    place_of: wp.array[int],
    turned: wp.array[int],
    passed: wp.array[int],
    pieces: wp.array[int],
):
    """Follow all lines, and cut each into pieces that pass no vertex twice. Serial by nature.

    Lines that end are followed from one of their ends, closed ones from any spring.
    """
    count = pairs.shape[0]
    piece = first + wp.tid()
    for closed in range(2):
        for begin in range(count):
            for side in range(2):
                if piece_of[begin] < 0 and (closed == 1 or partners[2 * begin + side] < 0):
                    place = int(0)
                    at = 2 * begin + side
                    passed[pairs[begin][side]] = piece
                    while at >= 0 and piece_of[at // 2] < 0:
                        i = at // 2
                        side_here = at % 2
                        to = pairs[i][1 - side_here]
                        if place > 0 and passed[to] == piece:
                            piece += 1
                            place = 0
                            passed[pairs[i][side_here]] = piece
                        passed[to] = piece
                        piece_of[i] = piece
                        place_of[i] = place
                        turned[i] = side_here
                        place += 1
                        at = partners[at ^ 1]
                    piece += 1
    pieces[0] = piece


def _walk(pairs: np.ndarray, partners: np.ndarray, vertex_count: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """The number of pieces; of each spring its piece, its place there, whether it points back."""

    def filled(count: int, value: int) -> wp.array:
        return wp.array(np.full(count, value, np.int32), dtype=int, device="cpu")

    piece_of, place_of, turned = (filled(len(pairs), value) for value in (-1, 0, 0))
    passed, pieces = filled(vertex_count, -1), filled(1, 0)
    given = [wp.array(pairs, dtype=wp.vec2i, device="cpu"), wp.array(partners, dtype=int, device="cpu")]
    launch(walk_along, 1, [*given, piece_of, place_of, turned, passed, pieces])
    return int(pieces.numpy()[0]), piece_of.numpy(), place_of.numpy(), turned.numpy() != 0


@wp.kernel
def fill_batches(
    first: int,
    sizes: wp.array[int],
    slots: int,
    align: int,
    batch_of: wp.array[int],
    first_of: wp.array[int],
    batches: wp.array[int],
):
    """Pieces one after another into batches of so many slots, each from a multiple of `align` on. Serial by nature."""
    batch = first + wp.tid()
    used = int(0)
    for k in range(sizes.shape[0]):
        if used + sizes[k] > slots:
            batch += 1
            used = 0
        batch_of[k] = batch
        first_of[k] = used
        used += (sizes[k] + align - 1) // align * align
    batches[0] = batch + 1


def _fill_batches(
    sizes: np.ndarray, offsets: np.ndarray, slots: int, align: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The batch and the first slot of each piece, the first batch of each colour, and the blocks of each group of batches.

    `offsets` are the colours of pieces. Those that have more springs than a batch has slots are the first of their colour, by
    falling length, and have batches of their own.
    """
    batch_of, first_of = np.zeros(len(sizes), np.int64), np.zeros(len(sizes), np.int64)
    batch_offsets = [0]
    blocks: list[int] = []
    for begin, end in pairwise(offsets.tolist()):
        short = begin + int(np.count_nonzero(sizes[begin:end] > slots))
        for k in range(begin, short, SIMD_BATCHES):
            side = np.arange(min(SIMD_BATCHES, short - k))
            batch_of[k + side] = SIMD_BATCHES * len(blocks) + side
            longest = -(-int(sizes[k]) // slots)
            blocks += [longest, *[0] * (longest - 1)]
        if short < end:
            batch, first_of[short:end], batches = _fill_evenly(sizes[short:end], slots, align)
            batch_of[short:end] = SIMD_BATCHES * len(blocks) + batch
            blocks += [1] * -(-batches // SIMD_BATCHES)
        batch_offsets.append(SIMD_BATCHES * len(blocks))
    return batch_of, first_of, np.array(batch_offsets, np.int32), np.array(blocks, np.int32)


def _fill_evenly(sizes: np.ndarray, slots: int, align: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Batches and first slots of pieces that fit into batches, and how many batches there are, about equally full ones."""
    aligned = (sizes + align - 1) // align * align
    groups = -(-int(aligned.sum()) // (slots * SIMD_BATCHES))
    room = min(max(int(aligned.max()), -(-int(aligned.sum()) // (groups * SIMD_BATCHES))), slots)
    size, batch, slot = (wp.array(values, dtype=int, device="cpu") for values in (sizes, 0 * sizes, 0 * sizes))
    batches = wp.zeros(1, dtype=int, device="cpu")
    while True:
        launch(fill_batches, 1, [size, room, align, batch, slot, batches])
        if room == slots or batches.numpy()[0] <= groups * SIMD_BATCHES:
            return batch.numpy(), slot.numpy(), int(batches.numpy()[0])
        room = min(room + max(room // 16, 1), slots)
