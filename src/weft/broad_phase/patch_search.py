"""What the exact broad phases share: find the patches that overlap each patch, then compare their features."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.broad_phase.boxes import SHARED, new_planes
from weft.broad_phase.escaped_pairs import (
    find_escaped_edge_edge,
    find_escaped_vertex_triangle,
    grow_escaped,
    list_marked,
    mark_patches,
)
from weft.broad_phase.interface import BroadPhase, Candidates
from weft.broad_phase.list_kernels import Tally, tell_totals
from weft.broad_phase.lists import LIMIT, Find, Lists, build_lists
from weft.broad_phase.patch_pairs import (
    find_edge_edge,
    find_triangle_vertex,
    find_triangles,
    find_vertex_triangle,
    gather_row_boxes,
)
from weft.broad_phase.patches import PADDING, Patches
from weft.runtime import launch
from weft.runtime.buffers import Buffer, LaunchBound
from weft.runtime.compaction import exclusive_scan
from weft.runtime.graph_cache import GraphCache, fork_join
from weft.runtime.readback import AsyncReadback
from weft.runtime.reduction import threads_per_item
from weft.world import Surface

# patches worth a thread of their own: each costs microseconds
GRAIN = 16
# how often escaped may be listed without those of the time before
WAVES = 2
# queries that share the features of a patch at most
SHARES = 3


class Ahead(NamedTuple):
    """A search of everything before it is known whether there is room for it."""

    search: Callable[[], None]
    used: tuple[Lists, ...]
    """rows of patches, pairs of a vertex and a triangle, pairs of edges..."""
    room: int
    """of the rows"""
    given: tuple[Any, ...]
    """what the search depends on besides the boxes"""
    searches: list[tuple[Lists, int, Find]]


class Strays:
    """Which vertices (by rank) and patches strayed, and room for their pairs."""

    def __init__(self, device: wp.Device, vertices: int, patches: int, limit: int) -> None:
        self.vertices = wp.zeros(vertices, dtype=int, device=device)
        self.patches, self.places, self.items = (wp.zeros(patches, dtype=int, device=device) for _ in range(3))
        self.vertex_triangle = Lists(device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self.edge_edge = Lists(device, wp.vec2i, what="pairs of edges", limit=limit)
        self.rows = Lists(device, int, what="pairs of patches", limit=limit)
        self.row_boxes = new_planes(0, device)


class PatchSearch(BroadPhase):
    """An exact broad phase; the ways to find the rows of patches differ, all else is here."""

    def __init__(
        self, surface: Surface, *, patches: Patches | None = None, limit: int = LIMIT, carried: Sequence[int] = ()
    ) -> None:
        """`carried` are bodies whose motion is prescribed, the last ones: no pair of them counts, and none escaped.

        Others find them and they find nobody: a large triangle of a collider would have thousands of fine ones in its row,
        which one thread would have to compare.
        """
        super().__init__(surface, Patches(surface) if patches is None else patches)
        self.looks_at_once = self.device.is_cpu
        self._threads = 1 if self.device.is_cpu else SHARED
        """that a query has"""
        self.shares = threads_per_item(self.device, SHARED * self.patches.count, SHARES)
        """queries that share the features of a patch: where patches are few, a card has threads for more"""
        table = surface.body_pairs.numpy().copy()
        flags = np.zeros(len(table), np.int32)
        flags[list(carried)] = 1
        if len(carried) and (table[np.ix_(flags == 1, flags == 1)].any() or (np.diff(self._by_rank(flags)) < 0).any()):
            raise ValueError("carried bodies must come last and must not meet each other")
        table[flags == 1] = 0
        self.carried = wp.array(flags, dtype=int, device=self.device)
        """of each body: whether it is carried"""
        self.row_pairs = wp.array(table, dtype=int, ndim=2, device=self.device)
        """of each body: whose patches stand in the rows of its own"""
        self._any_carried = bool(flags.any())
        self._no_sums = wp.empty(0, dtype=Tally, device=self.device)
        self._triangle_vertex = Lists(self.device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self._fused = Buffer(wp.vec2i, self.device)
        self._rows = Lists(self.device, int, what="pairs of patches", limit=limit)
        self._rows_known = False
        self._graphs = GraphCache(self.device)
        self._asked: list[AsyncReadback] = []
        self._none = wp.empty(0, dtype=int, device=self.device)
        self._row_boxes = new_planes(0, self.device)
        self._vertex_triangle = Lists(self.device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self._edge_edge = Lists(self.device, wp.vec2i, what="pairs of edges", limit=limit)
        self._roofs = LaunchBound(self.device), LaunchBound(self.device)
        self._triangles = Lists(self.device, wp.vec2i, what="pairs of triangles", limit=limit)
        sizes = len(self.patches.vertex_ids), self.patches.count
        self._waves = tuple(Strays(self.device, *sizes, limit) for _ in range(WAVES))

    def set_limit(self, limit: int) -> None:
        """Refuse longer lists than this from now on."""
        own = (self._rows, self._vertex_triangle, self._edge_edge, self._triangles, self._triangle_vertex)
        of_strays = [lists for wave in self._waves for lists in (wave.vertex_triangle, wave.edge_edge, wave.rows)]
        for lists in (*own, *of_strays):
            lists.limit = limit

    def _start_afresh(self, margin: float) -> None:
        self._rows_known = False
        self._margin = margin

    def grow(self, start: wp.array, end: wp.array, strayed: wp.array, *, wave: int = 0) -> None:
        """Some vertices (flags 1) go to `end` instead of where the last update said: their boxes hold both ways.

        They may come in two waves, each with lists of its own.
        """
        if self.patches.count == 0:
            return
        self._rows_known = False
        patches, boxes, escaped = self.patches, self.boxes, self._waves[wave]
        inputs = [start, end, strayed, patches.vertex_ids, boxes.frame, 0.5 * self._margin, boxes.adaptive_margin]
        inputs.append(boxes.vertices)
        launch(grow_escaped, len(escaped.vertices), [*inputs, escaped.vertices], device=self.device)
        inputs = [patches.face_start, patches.faces, escaped.vertices, escaped.patches]
        launch(mark_patches, patches.count, inputs, device=self.device, grain=128)
        boxes.unite_features()
        self._prepare(start, end, self._margin)

    def feature_pairs(self, *, edges: bool = True) -> Candidates:
        found = self._look_ahead(edges)
        if found is not None:
            return found
        rows = self._find_all_rows()
        given = ("features", edges, *rows)
        searches = self._feature_searches(rows, edges)
        vertex_triangle, edge_pairs, *others = build_lists(*searches, replay=self._graphs, given=given)
        return Candidates(self._join(vertex_triangle, *others), edge_pairs)

    def look_ahead(self) -> Ahead | None:
        """All searches as one run of launches, as if lists had the room that they took before; None at first."""
        rows, count = self._rows, self.patches.count
        room = min(len(rows.found), self._row_boxes.shape[1] - PADDING)
        if rows.total == 0 or room <= 0:
            return None
        searches = self._feature_searches([rows.offsets, rows.found, self._row_boxes], True)
        used = (rows, *(lists for lists, _, _ in searches))
        rows.make_room(count)
        for lists, items, _ in searches:
            lists.make_room(items)

        def search_and_copy(lists: Lists, find: Find) -> None:
            lists.search(find)
            lists.copy()

        def search_all() -> None:
            rows.search(self._search_rows(self._none), room)
            rows.copy()
            inputs = [count, rows.offsets, rows.found, self.boxes.patch, self._row_boxes]
            launch(gather_row_boxes, room, inputs, device=self.device)
            fork_join(self.device, *(partial(search_and_copy, lists, find) for lists, _, find in searches))
            if self._any_carried:
                self._vertex_triangle.append(self._triangle_vertex)

        given = (self._row_boxes, *(part for lists in used for part in (lists.found, *lists.room)))
        return Ahead(search_all, used, room, given, searches)

    def _look_ahead(self, edges: bool) -> Candidates | None:
        """Such a run on CUDA, if there can be one; None also where something had no room."""
        ahead = None if self.device.is_cpu or self._rows_known or not edges else self.seek()
        return None if ahead is None else self.found(ahead)

    def seek(self) -> Ahead | None:
        """Such a run, started, if there can be one: `found` waits for it."""
        ahead = self.look_ahead()
        if ahead is None:
            return None
        asked = self._ask_for([self.boxes.flag, *(lists.sums for lists in ahead.used)])

        def search_and_tell() -> None:
            ahead.search()
            for one in asked:
                one.copy_to_host()

        self._graphs.run(search_and_tell, "ahead", *ahead.given)
        for one in asked:
            one.mark_launched()
        return ahead

    def likely(self) -> tuple[int, int]:
        """How many pairs of each kind there will be at most, if a search finds about as many as the last."""
        kinds = zip(self._roofs, (self._vertex_triangle, self._edge_edge), strict=True)
        of_triangles, of_edges = (
            min(len(lists.found), roof.for_count(lists.total * 9 // 8 + 1)) for roof, lists in kinds
        )
        return of_triangles, of_edges

    def tell_totals(self, ahead: Ahead, rooms: tuple[int, int], totals: wp.array) -> None:
        """Have kernels know how many pairs of each kind were found; none where there was no room for all. Launches only."""
        triangles, edges, *carried = [lists for lists, _, _ in ahead.searches]
        behind = [carried[0].sums[0], len(carried[0].found)] if carried else [self._no_sums, 0]
        inputs = [triangles.sums[0], rooms[0], *behind, edges.sums[0], rooms[1], totals]
        launch(tell_totals, 1, inputs, device=self.device)

    def fits(self, ahead: Ahead, rooms: tuple[int, int]) -> bool:
        """Whether there was room for all pairs; waits for that."""
        of_rows, *sums = self._read_sums()
        triangles, edges, *carried = [lists for lists, _, _ in ahead.searches]
        more = sum(int(one[0]) for one in sums[2:])
        if int(sums[0][0]) + more > rooms[0] or int(sums[1][0]) > rooms[1]:
            return False
        fit = of_rows[0] <= ahead.room and self._rows.accept(of_rows) and edges.accept(sums[1])
        fit = fit and all(lists.accept(one) for lists, one in zip(carried, sums[2:], strict=True))
        self._rows_known = fit and triangles.accept(sums[0], more)
        return self._rows_known

    def found(self, ahead: Ahead) -> Candidates | None:
        """What was found, searched again where lists had no room; None where patches had none."""
        of_rows, *sums = self._read_sums()
        if of_rows[0] > ahead.room or not self._rows.accept(of_rows):
            return None
        self._rows_known = True
        return self._take_pairs(ahead.searches, sums)

    def _read_sums(self) -> list[np.ndarray]:
        """The sums of the rows and of all lists; waits for them."""
        flag, *sums = [one.values()[0].copy() for one in self._asked]
        self.boxes.check(int(flag))
        return sums

    def _ask_for(self, pieces: list[tuple[wp.array, int, int]]) -> list[AsyncReadback]:
        """The same as before where the arrays are."""
        if len(self._asked) != len(pieces) or any(
            a.array is not b[0] for a, b in zip(self._asked, pieces, strict=True)
        ):
            self._asked = [AsyncReadback(*piece) for piece in pieces]
        return self._asked

    def _take_pairs(self, searches: list[tuple[Lists, int, Find]], sums: list[np.ndarray]) -> Candidates:
        """What was found ahead, where there was room for it; else it is brought together now."""

        def finish(number: int) -> wp.array:
            lists, _, find = searches[number]
            return lists.found[: lists.total] if lists.accept(sums[number]) else lists.finish(find, sums[number])

        edge_pairs, vertex_triangle = finish(1), self._vertex_triangle
        if not self._any_carried:
            return Candidates(finish(0), edge_pairs)
        # what was too short for the other list is not behind the first
        if self._triangle_vertex.accept(sums[2]) and vertex_triangle.accept(sums[0], int(sums[2][0])):
            return Candidates(vertex_triangle.found[: vertex_triangle.total], edge_pairs)
        joined = self._join(finish(0), finish(2))
        # both fit next time
        vertex_triangle.reserve(len(joined) + len(joined) // 4)
        return Candidates(joined, edge_pairs)

    def _feature_searches(self, rows: list[wp.array], edges: bool) -> list[tuple[Lists, int, Find]]:
        """The searches of pairs of features, given the rows."""
        patches, boxes = self.patches, self.boxes
        inputs = [*rows, patches.vertex_start, boxes.vertices, patches.vertex_ids]
        inputs += [patches.face_start, boxes.faces, patches.corners, patches.face_ids]
        searches = [self._compare(self._vertex_triangle, find_vertex_triangle, inputs)]
        inputs = [*rows, patches.edge_start, boxes.edges, patches.ends, patches.edge_ids]
        edge_edge = self._compare(self._edge_edge, find_edge_edge, inputs)
        searches.append(edge_edge if edges else (self._edge_edge, 0, edge_edge[2]))
        if self._any_carried:
            inputs = [*rows, patches.body, self.carried, patches.vertex_start, boxes.vertices, patches.vertex_ids]
            inputs += [patches.face_start, boxes.faces, patches.face_ids]
            searches.append(self._compare(self._triangle_vertex, find_triangle_vertex, inputs))
        return searches

    def _join(self, first: wp.array, other: wp.array | None = None) -> wp.array:
        """One list after another."""
        if other is None or len(other) == 0:
            return first
        count = len(first) + len(other)
        joined = self._fused.at_least(count)
        if len(first):
            wp.copy(joined, first, count=len(first))
        wp.copy(joined, other, len(first), 0, len(other))
        return joined[:count]

    def triangle_pairs(self, *, share_vertex: bool = False) -> wp.array:
        rows = self._find_all_rows()
        faces = [self.patches.face_start, self.boxes.faces, self.patches.faces, self.patches.face_ids]
        found: wp.array = build_lists(
            self._compare(self._triangles, find_triangles, [*rows, *faces, int(share_vertex)])
        )[0]
        return found

    def escaped_pairs(self, *, wave: int = 0) -> Candidates:
        """Of `feature_pairs`, those with a vertex that strayed in the wave's last `grow`; in no particular order."""
        escaped, patches, boxes = self._waves[wave], self.patches, self.boxes
        count = exclusive_scan(escaped.patches, escaped.places)
        launch(list_marked, patches.count, [escaped.patches, escaped.places, escaped.items], device=self.device)
        if count == 0:
            return Candidates(escaped.vertex_triangle.none(), escaped.edge_edge.none())
        build_lists((escaped.rows, count, self._search_rows(escaped.items)))
        escaped.row_boxes = self._gather(escaped.rows, count, escaped.row_boxes)
        inputs = [
            escaped.items,
            escaped.patches,
            escaped.vertices,
            escaped.rows.offsets,
            escaped.rows.found,
            escaped.row_boxes,
        ]

        def compare(lists: Lists, kernel: wp.Kernel, features: list[Any]) -> tuple[Lists, int, Find]:
            def find(count: int, slots: list[Any]) -> None:
                launch(kernel, self._threads * count, [*slots, *inputs, *features], device=self.device, grain=GRAIN)

            return lists, count, find

        features = [patches.vertex_start, boxes.vertices, patches.vertex_ids]
        features += [patches.face_start, boxes.faces, patches.faces, patches.corners, patches.face_ids]
        vertex_triangle = compare(escaped.vertex_triangle, find_escaped_vertex_triangle, features)
        features = [patches.edge_start, boxes.edges, patches.ends, patches.edge_ids]
        return Candidates(*build_lists(vertex_triangle, compare(escaped.edge_edge, find_escaped_edge_edge, features)))

    @abstractmethod
    def _find_rows(self, count: int, slots: list[Any], asked: wp.array) -> None:
        """Find the ascending row of patches that each patch overlaps, itself included (see `lists.Find`).

        Queries are the patches that are `asked`; all of them where that is empty.
        """

    def _search_rows(self, asked: wp.array) -> Find:
        return lambda count, slots: self._find_rows(count, slots, asked)

    def _find_all_rows(self) -> list[wp.array]:
        if not self._rows_known:
            search = self._rows, self.patches.count, self._search_rows(self._none)
            _, flag = build_lists(search, also=self.boxes.flag, replay=self._graphs, given=("rows",))
            self.boxes.check(flag)
            self._row_boxes = self._gather(self._rows, self.patches.count, self._row_boxes)
            self._rows_known = True
        return [self._rows.offsets, self._rows.found, self._row_boxes]

    def _gather(self, rows: Lists, count: int, room: wp.array) -> wp.array:
        """The boxes of the patches in so many rows, side by side, in an array that is kept if it has room for them."""
        if room.shape[1] < rows.total + PADDING:
            room = new_planes(rows.total * 3 // 2, self.device)
        inputs = [count, rows.offsets, rows.found, self.boxes.patch, room]
        launch(gather_row_boxes, rows.total, inputs, device=self.device)
        return room

    def _compare(self, lists: Lists, kernel: wp.Kernel, inputs: list[Any]) -> tuple[Lists, int, Find]:
        """A search of all patches by a kernel."""
        shares = self.shares

        def find(count: int, slots: list[Any]) -> None:
            launch(kernel, self._threads * count, [*slots, shares, *inputs], device=self.device, grain=GRAIN)

        return lists, self.patches.count * shares, find

    def _by_rank(self, of_body: np.ndarray) -> np.ndarray:
        """A number of each body, for every patch."""
        numbers: np.ndarray = of_body[self.patches.body.numpy()]
        return numbers
