"""Springs that continue each other, in rows that are solved at once.

One sweep over single springs passes a pull on by an edge or two: cloth that hangs gives way as if its material were ten or
fifty times softer, more so the finer its mesh. So springs that lie in a line at rest (the threads of a grid, its
diagonals, about straight lines of any mesh) are taken together: a row of up to `ROW` of them is a tridiagonal system, which
is solved exactly for about as much work as one spring after another (Deul et al. 2018 do so for rods).
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.springs import SpringNetwork
from weft.runtime import launch
from weft.runtime.colouring import colour_items

wp.set_module_options({"enable_backward": False})

# springs in a row: as many as a warp of a card has threads
ROW = 32
# rows that the vector units of a CPU do side by side
SIDE_BY_SIDE = 8
# springs continue each other where the angle between them is wider than this: its cosine
STRAIGHT = -0.8


class SpringLines(NamedTuple):
    """Rows of `ROW` places in the order of their colours; rows of one colour share no vertex.

    A place has a spring, or none. Springs in neighbouring places of a row continue each other where the second begins at
    the vertex where the first ends.
    """

    springs: np.ndarray
    """(r, ROW) int32: the number of the spring, or -1"""
    vertices: np.ndarray
    """(r, ROW, 2) int32: its ends in the direction of the row; -1 where there is none"""
    offsets: np.ndarray
    """(c + 1,) int32: where each colour starts, in rows: multiples of `SIDE_BY_SIDE`"""


def find_yarns(network: SpringNetwork, chosen: np.ndarray, vertex_count: int) -> SpringLines:
    """Rows for some of the springs of a network."""
    pairs = np.ascontiguousarray(network.pairs[chosen], np.int32)
    if len(pairs) == 0:
        return SpringLines(np.zeros((0, ROW), np.int32), np.zeros((0, ROW, 2), np.int32), np.zeros(1, np.int32))
    partners = link(pairs, network.courses[chosen], network.kind[chosen])
    pieces, piece_of, place_of, turned = _walk(pairs, partners, vertex_count)
    # pieces of one direction are coloured one after another: lines that cross would take colours from each other
    sizes = np.bincount(piece_of, minlength=pieces)
    by_direction = np.lexsort(_directions(network.courses[chosen], piece_of, pieces).T)
    piece_of, sizes = _ranks(by_direction)[piece_of], sizes[by_direction]

    # the vertices of each piece, the first of them before its first spring
    ends = np.where(turned[:, None], pairs[:, ::-1], pairs)
    vertices = np.full((pieces, ROW + 1), -1, np.int32)
    vertices[piece_of, place_of + 1] = ends[:, 1]
    starts = place_of == 0
    vertices[piece_of[starts], 0] = ends[starts, 0]
    order, offsets = colour_items(vertices, vertex_count)
    # in a colour those that lie beside each other are neighbours: they share cache lines, and threads have parts of the cloth
    where = np.bincount(piece_of, pairs.sum(axis=1)) / sizes
    order = order[np.lexsort((where[order], np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))))]

    row_of, first_of, row_offsets = _fill_rows(sizes[order], offsets)
    rank_of = _ranks(order)[piece_of]
    rows, places = row_of[rank_of], first_of[rank_of] + place_of
    springs = np.full((row_offsets[-1], ROW), -1, np.int32)
    springs[rows, places] = chosen
    row_vertices = np.full((row_offsets[-1], ROW, 2), -1, np.int32)
    row_vertices[rows, places] = ends
    return SpringLines(springs, row_vertices, row_offsets)


def _directions(courses: np.ndarray, piece_of: np.ndarray, pieces: int) -> np.ndarray:
    """The axis nearest to each piece and how it leans to the others, coarsely: (p, 3) numbers alike for like ones."""
    course = _unit(courses)
    main = np.abs(course).argmax(axis=1)
    # one and the same for both ways along a line
    course = course * np.where(course[np.arange(len(course)), main] < 0.0, -1.0, 1.0)[:, None]
    sums = np.stack([np.bincount(piece_of, course[:, axis], minlength=pieces) for axis in range(3)], axis=1)
    return np.round(2.0 * sums / np.bincount(piece_of, minlength=pieces)[:, None]).astype(np.int64)


def _unit(courses: np.ndarray) -> np.ndarray:
    """Directions of length one, and zero where none is known."""
    length = np.linalg.norm(courses, axis=1, keepdims=True)
    return courses / np.where(length > 0.0, length, 1.0)


def _ranks(order: np.ndarray) -> np.ndarray:
    """The place of each item in an order."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    return ranks


def link(pairs: np.ndarray, courses: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """What continues each end of each spring: (2 s,) numbers 2 * spring + end, or -1.

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
    met: wp.array[int],
    pieces: wp.array[int],
):
    """Follow all lines, and cut them into pieces of about the same size that meet no vertex twice. Serial by nature.

    Lines that end are begun at an end, closed ones anywhere.
    """
    count = pairs.shape[0]
    piece = first + wp.tid()
    for closed in range(2):
        for begin in range(count):
            for side in range(2):
                if piece_of[begin] < 0 and (closed == 1 or partners[2 * begin + side] < 0):
                    # how long it is, marking what belongs to it
                    size = int(0)
                    at = 2 * begin + side
                    while at >= 0 and piece_of[at // 2] == -1:
                        piece_of[at // 2] = -2
                        size += 1
                        at = partners[at ^ 1]
                    parts = (size + ROW - 1) // ROW
                    longest = (size + parts - 1) // parts
                    place = int(0)
                    at = 2 * begin + side
                    met[pairs[begin][side]] = piece
                    for _k in range(size):
                        i = at // 2
                        side_here = at % 2
                        to = pairs[i][1 - side_here]
                        if place > 0 and (place == longest or met[to] == piece):
                            piece += 1
                            place = 0
                            met[pairs[i][side_here]] = piece
                        met[to] = piece
                        piece_of[i] = piece
                        place_of[i] = place
                        turned[i] = side_here
                        place += 1
                        at = partners[at ^ 1]
                    piece += 1
    pieces[0] = piece


def _walk(pairs: np.ndarray, partners: np.ndarray, vertex_count: int) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    """The number of pieces, and of each spring: its piece, its place in it, whether it points backwards."""

    def filled(count: int, value: int) -> wp.array:
        return wp.array(np.full(count, value, np.int32), dtype=int, device="cpu")

    piece_of, place_of, turned = (filled(len(pairs), value) for value in (-1, 0, 0))
    met, pieces = filled(vertex_count, -1), filled(1, 0)
    given = [wp.array(pairs, dtype=wp.vec2i, device="cpu"), wp.array(partners, dtype=int, device="cpu")]
    launch(walk_along, 1, [*given, piece_of, place_of, turned, met, pieces])
    return int(pieces.numpy()[0]), piece_of.numpy(), place_of.numpy(), turned.numpy() != 0


@wp.kernel
def fill_rows(first: int, sizes: wp.array[int], row_of: wp.array[int], first_of: wp.array[int], rows: wp.array[int]):
    """Pieces one after another into rows of `ROW` places. Serial by nature."""
    row = first + wp.tid()
    used = int(0)
    for k in range(sizes.shape[0]):
        if used + sizes[k] > ROW:
            row += 1
            used = 0
        row_of[k] = row
        first_of[k] = used
        used += sizes[k]
    rows[0] = row + 1


def _fill_rows(sizes: np.ndarray, offsets: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The row and the first place of each piece; pieces lie in the order of colours that begin at `offsets`."""
    row_of, first_of = np.empty(len(sizes), np.int64), np.empty(len(sizes), np.int64)
    row_offsets = [0]
    for begin, end in pairwise(offsets.tolist()):
        size = wp.array(sizes[begin:end], dtype=int, device="cpu")
        row, place, rows = (wp.zeros(count, dtype=int, device="cpu") for count in (end - begin, end - begin, 1))
        launch(fill_rows, 1, [size, row, place, rows])
        row_of[begin:end] = row_offsets[-1] + row.numpy()
        first_of[begin:end] = place.numpy()
        count = int(rows.numpy()[0])
        row_offsets.append(row_offsets[-1] + -(-count // SIDE_BY_SIDE) * SIDE_BY_SIDE)
    return row_of, first_of, np.array(row_offsets, np.int32)
