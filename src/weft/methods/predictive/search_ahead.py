"""The search for contacts of a step as launches alone, as if all lists had the room that they took before.

Nobody waits for the length of a list: kernels read it, and note where there was no room. So a whole step can be one graph.
"""

# mypy: disable-error-code="arg-type, assignment"

from functools import partial
from typing import Any, NamedTuple

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.broad_phase.bvh import Bvh
from weft.broad_phase.list_kernels import ListSums, overflows
from weft.broad_phase.patch_search import CapturableSearch
from weft.methods.predictive.candidates import choose_some, corners_of, count_bits, write_contact_of
from weft.methods.predictive.contacts import Contacts
from weft.methods.predictive.pairs import EDGE_EDGE, POINT_TRIANGLE, Sheet
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import scan_total
from weft.runtime.graph_cache import fork_join

wp.set_module_options({"enable_backward": False})

# candidates an item: few, so that many threads share them
FEW = wp.constant(4)
# what a search tells: whether there was no room, and how many contacts there are
NO_ROOM, FOUND = (wp.constant(k) for k in range(2))
# room for this, and for what others tell
TOLD = wp.constant(5)


@wp.func
def candidates_of(pairs: wp.array[wp.vec2i], sums: wp.array[ListSums]) -> int:
    """How many candidates are in a list; none where it is not whole."""
    count = int(0)
    if overflows(sums, pairs.shape[0]) == 0:
        count = int(sums[sums.shape[0] - 1][0])
    return count


@wp.kernel
def choose_ahead(
    first: int,
    kind: int,
    offset: int,
    pairs: wp.array[wp.vec2i],
    sums: wp.array[ListSums],
    sheet: Sheet,
    reach: wp.float64,
    places: wp.array[wp.vec4d],
    first_ways: wp.array[wp.vec4d],
    second_ways: wp.array[wp.vec4d],
    chosen: wp.array[wp.uint32],
    counts: wp.array[int],
):
    """Which candidates make a contact, a few an item; items of this kind begin at the offset."""
    item = first + wp.tid()
    size = wp.min(candidates_of(pairs, sums) - item * FEW, FEW)
    found = wp.uint32(0)
    if size > 0:
        found = choose_some(kind, item * FEW, size, pairs, sheet, reach, places, first_ways, second_ways)
    chosen[offset + item] = found
    counts[offset + item] = count_bits(found)


@wp.kernel
def write_ahead(
    first: int,
    kind: int,
    offset: int,
    pairs: wp.array[wp.vec2i],
    chosen: wp.array[wp.uint32],
    places: wp.array[int],
    sheet: Sheet,
    sticking: wp.array2d[wp.float64],
    sliding: wp.array2d[wp.float64],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    triangles: wp.array[int],
):
    """The contacts of what was chosen, one after another, as far as there is room."""
    item = first + wp.tid()
    left = wp.uint64(chosen[offset + item])
    place = places[offset + item]
    while left != wp.uint64(0):
        pair = pairs[item * FEW + lowest_bit(left)]
        left = left & (left - wp.uint64(1))
        if place < kinds.shape[0]:
            write_contact_of(
                place, wp.vec3i(pair[0], pair[1], kind), corners_of(kind, pair, sheet), sheet, sticking, sliding, vertices,
                kinds, weights, normals, thickness, friction, triangles,
            )  # fmt: skip
        place += 1


@wp.kernel
def tell_ahead(
    first: int,
    rows: wp.array[ListSums],
    row_room: int,
    triangle_pairs: wp.array[ListSums],
    triangle_room: int,
    edge_pairs: wp.array[ListSums],
    edge_room: int,
    too_far: wp.array[int],
    items: int,
    counts: wp.array[int],
    places: wp.array[int],
    room: int,
    told: wp.array[int],
):
    """How many contacts there are, and whether there was room for them and for all lists before: one item."""
    i = first + wp.tid()
    found = scan_total(counts, places, items)
    full = overflows(rows, row_room) + overflows(triangle_pairs, triangle_room) + overflows(edge_pairs, edge_room)
    if found > room:
        full += 1
    told[i + NO_ROOM] = full + too_far[i]
    told[i + FOUND] = found


class Room(NamedTuple):
    """Room for a search, and what it depends on besides the boxes."""

    ahead: CapturableSearch
    items: int
    given: tuple[Any, ...]


class SearchAhead:
    """Such a search of a broad phase's surface; buffers are kept."""

    def __init__(self, broad_phase: Bvh, sheet: Any, friction: tuple[wp.array, wp.array]) -> None:
        self.broad_phase, self.sheet, self.friction = broad_phase, sheet, friction
        device = broad_phase.device
        self.told = wp.zeros(int(TOLD), dtype=int, device=device)
        """whether there was no room, and the number of contacts; others may tell more"""
        self._chosen, self._counts, self._places = Buffer(wp.uint32, device), Buffer(int, device), Buffer(int, device)

    def make_room(self) -> Room | None:
        """Room for a search as large as the last one; None where there was none."""
        ahead = self.broad_phase.capturable_search()
        if ahead is None:
            return None
        items = sum(-(-len(lists.found) // int(FEW)) for lists in ahead.lists[1:])
        buffers = [buffer.at_least(items) for buffer in (self._chosen, self._counts, self._places)]
        return Room(ahead, items, (*ahead.given, *buffers))

    def find_pairs(self, room: Room, x: wp.array, end: wp.array, reach: float) -> None:
        """List the candidates of a step from x to `end`."""
        self.broad_phase.refit(x, end, reach)
        room.ahead.search()

    def find(self, room: Room, ways: list[wp.array], reach: float, contacts: Contacts) -> None:
        """Write the contacts; candidates, and places and ways of all features, are there."""
        sheet, (rows, triangles, edges) = self.sheet, room.ahead.lists
        chosen, counts, places = self._chosen.array, self._counts.array, self._places.array
        where, of_vertices, of_edges, of_faces = ways
        size = -(-len(triangles.found) // int(FEW))
        kinds = [
            (int(POINT_TRIANGLE), 0, size, triangles, [of_vertices, of_faces]),
            (int(EDGE_EDGE), size, room.items - size, edges, [of_edges, of_edges]),
        ]
        choices = [
            (items, [kind, offset, lists.found, lists.sums[0], sheet, reach, where, *both, chosen, counts])
            for kind, offset, items, lists, both in kinds
        ]
        self._launch_both(choose_ahead, choices)
        wp.utils.array_scan(counts[: room.items], places[: room.items], inclusive=False)
        tables = [*self.friction, *contacts.arrays, contacts.triangles]
        written = [
            (items, [kind, offset, lists.found, chosen, places, sheet, *tables])
            for kind, offset, items, lists, _ in kinds
        ]
        self._launch_both(write_ahead, written)
        sums = [rows.sums[0], room.ahead.overlap_room]
        sums += [triangles.sums[0], len(triangles.found), edges.sums[0], len(edges.found)]
        flag, most = self.broad_phase.boxes.flag[0], len(contacts.triangles)
        self._launch(tell_ahead, 1, [*sums, flag, room.items, counts, places, most, self.told])

    def _launch_both(self, kernel: wp.Kernel, works: list[tuple[int, list[Any]]]) -> None:
        fork_join(self.broad_phase.device, *(partial(self._launch, kernel, count, inputs) for count, inputs in works))

    def _launch(self, kernel: wp.Kernel, count: int, inputs: list[Any]) -> None:
        launch(kernel, count, inputs, device=self.broad_phase.device)
