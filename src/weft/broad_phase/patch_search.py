"""What the exact broad phases share: find the patches that overlap each patch, then compare the features of both."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.broad_phase.boxes import LANES, new_planes
from weft.broad_phase.escaped_pairs import (
    Marks,
    enlarge_boxes,
    find_escaped_edge_edge,
    find_escaped_vertex_triangle,
    list_marked,
    mark_patches,
)
from weft.broad_phase.interface import BroadPhase, Candidates
from weft.broad_phase.list_kernels import Queries
from weft.broad_phase.lists import LIMIT, Find, QueryLists, build_lists
from weft.broad_phase.patch_pairs import (
    PatchOverlaps,
    find_edge_edge,
    find_triangle_vertex,
    find_triangles,
    find_vertex_triangle,
    gather_overlap_boxes,
)
from weft.broad_phase.patches import PADDING, Patches
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scan, threads_per_item
from weft.runtime.graph_cache import GraphCache, fork_join
from weft.world import Surface

# patches that are worth a thread of the CPU: each costs microseconds, as much as handing work to a thread
GRAIN = 16
# sets of escaped vertices that can be listed in a step, each with lists of its own: those of the first test of a motion, and
# those of all later tests
WAVES = 2
# queries that the features of a patch are divided among at most, on a GPU with threads to spare: a patch has four triangles
MOST_QUERIES_PER_PATCH = 3


class CapturableSearch(NamedTuple):
    """A search of everything that waits for nothing, so that a CUDA graph can hold it.

    The lists keep the sizes that they had before. Whoever uses them finds out afterwards whether they were long enough
    (`list_kernels.overflows`).
    """

    search: Callable[[], None]
    """launches the search; the boxes are up to date"""
    lists: tuple[QueryLists, QueryLists, QueryLists]
    """overlapping patches, pairs of a vertex and a triangle, pairs of edges"""
    overlap_room: int
    """how many overlapping patches there may be"""
    given: tuple[Any, ...]
    """the arrays and sizes that the launches depend on, for a graph cache"""


class EscapedLists:
    """The marks of escaped vertices, and the lists of their pairs."""

    def __init__(self, device: wp.Device, vertices: int, patches: int, limit: int) -> None:
        self.marks = Marks()
        self.marks.vertices = wp.zeros(vertices, dtype=int, device=device)
        self.marks.patches, self.marks.queries, self.places = (
            wp.zeros(patches, dtype=int, device=device) for _ in range(3)
        )
        self.overlaps = OverlapLists(device, limit)
        self.vertex_triangle = QueryLists(device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self.edge_edge = QueryLists(device, wp.vec2i, what="pairs of edges", limit=limit)


class OverlapLists:
    """The lists of overlapping patches, and their boxes side by side."""

    def __init__(self, device: wp.Device, limit: int) -> None:
        self.lists = QueryLists(device, int, what="pairs of patches", limit=limit)
        self.boxes = new_planes(0, device)

    @property
    def room(self) -> int:
        """How many overlapping patches there is room for."""
        return min(len(self.lists.found), self.boxes.shape[1] - PADDING)

    @property
    def arrays(self) -> PatchOverlaps:
        arrays: Any = PatchOverlaps()
        arrays.offsets, arrays.patches, arrays.boxes = self.lists.offsets, self.lists.found, self.boxes
        return arrays

    def gather(self, queries: int, patch_boxes: wp.array) -> PatchOverlaps:
        """Copy the boxes of the patches that so many queries overlap side by side."""
        total, device = self.lists.total, self.lists.device
        if self.boxes.shape[1] < total + PADDING:
            self.boxes = new_planes(total * 3 // 2, device)
        arrays = self.arrays
        launch(gather_overlap_boxes, total, [queries, patch_boxes, arrays], device=device)
        return arrays


class PatchSearch(BroadPhase):
    """An exact broad phase. Implementations differ in how they find overlapping patches; all else is here."""

    def __init__(
        self, surface: Surface, *, patches: Patches | None = None, limit: int = LIMIT, passive: Sequence[int] = ()
    ) -> None:
        """`passive` bodies have a prescribed motion; they are the last ones, and pairs of two of them do not count.

        Other bodies find them, and they do not search themselves: a large triangle of a collider would overlap
        thousands of fine ones of a cloth, which one thread would have to compare. `limit` is the longest list.
        """
        super().__init__(surface, Patches(surface) if patches is None else patches)
        self.checks_at_update = self.device.is_cpu
        self._threads_per_query = 1 if self.device.is_cpu else LANES
        self.queries_per_patch = threads_per_item(self.device, LANES * self.patches.count, MOST_QUERIES_PER_PATCH)
        """queries that the features of a patch are divided among: where patches are few, a GPU has threads for more"""
        self._set_passive(passive)
        self._graphs = GraphCache(self.device)
        self._all_patches = wp.empty(0, dtype=int, device=self.device)
        self._overlaps = OverlapLists(self.device, limit)
        self._overlaps_known: PatchOverlaps | None = None
        of_vertices, pairs = "pairs of a vertex and a triangle", partial(QueryLists, self.device, wp.vec2i, limit=limit)
        self._vertex_triangle, self._triangle_vertex = pairs(what=of_vertices), pairs(what=of_vertices)
        self._edge_edge, self._triangles = pairs(what="pairs of edges"), pairs(what="pairs of triangles")
        self._concatenated = Buffer(wp.vec2i, self.device)
        sizes = len(self.patches.vertex_ids), self.patches.count
        self._waves = tuple(EscapedLists(self.device, *sizes, limit) for _ in range(WAVES))

    def _set_passive(self, passive: Sequence[int]) -> None:
        table = self.surface.body_pairs.numpy().copy()
        flags = np.zeros(len(table), np.int32)
        flags[list(passive)] = 1
        in_order = (np.diff(flags[self.patches.body.numpy()]) >= 0).all()
        if len(passive) and (table[np.ix_(flags == 1, flags == 1)].any() or not in_order):
            raise ValueError("passive bodies must come last and must not interact with each other")
        table[flags == 1] = 0
        self.passive = wp.array(flags, dtype=int, device=self.device)
        """of each body: whether it is passive"""
        self.searched_bodies = wp.array(table, dtype=int, ndim=2, device=self.device)
        """of each body: which bodies its patches are compared with"""
        self._any_passive = bool(flags.any())

    def set_limit(self, limit: int) -> None:
        """Refuse longer lists than this from now on."""
        own = (self._overlaps.lists, self._vertex_triangle, self._edge_edge, self._triangles, self._triangle_vertex)
        escaped = [
            lists for wave in self._waves for lists in (wave.vertex_triangle, wave.edge_edge, wave.overlaps.lists)
        ]
        for lists in (*own, *escaped):
            lists.limit = limit

    def _reset(self, margin: float) -> None:
        self._overlaps_known = None
        self._margin = margin

    def feature_pairs(self, *, edges: bool = True) -> Candidates:
        arrays = self._find_all_overlaps()
        given = ("features", edges, arrays.offsets, arrays.patches, arrays.boxes)
        vertex_triangle, edge_edge, *of_passive = build_lists(
            *self._feature_searches(arrays, edges), graphs=self._graphs, given=given
        )
        return Candidates(self._concatenate(vertex_triangle, *of_passive), edge_edge)

    def triangle_pairs(self, *, share_vertex: bool = False) -> wp.array:
        search = self._compare(self._triangles, find_triangles, self._find_all_overlaps(), int(share_vertex))
        found: wp.array = build_lists(search)[0]
        return found

    def capturable_search(self) -> CapturableSearch | None:
        """The search of all feature pairs as launches alone; None before the first ordinary search, or with passive bodies."""
        overlaps, count = self._overlaps.lists, self.patches.count
        room = self._overlaps.room
        if overlaps.total == 0 or room <= 0 or self._any_passive:
            return None
        arrays = self._overlaps.arrays
        searches = self._feature_searches(arrays, True)
        overlaps.make_room(count)
        for lists, queries, _ in searches:
            lists.make_room(queries)

        def search_and_copy(lists: QueryLists, find: Find) -> None:
            lists.search(find)
            lists.copy()

        def search_all() -> None:
            overlaps.search(self._search_overlaps(self._all_patches), room)
            overlaps.copy()
            launch(gather_overlap_boxes, room, [count, self.boxes.patch, arrays], device=self.device)
            fork_join(self.device, *(partial(search_and_copy, lists, find) for lists, _, find in searches))

        all_lists = overlaps, self._vertex_triangle, self._edge_edge
        given = (arrays.boxes, *(value for lists in all_lists for value in (lists.found, *lists.buffers)))
        return CapturableSearch(search_all, all_lists, room, given)

    def enlarge_boxes(self, start: wp.array, end: wp.array, escaped: wp.array, *, wave: int = 0) -> None:
        """Have the boxes of escaped vertices (flags 1) hold their motion to `end` besides that of the last update.

        They may come in two waves, each with lists of its own.
        """
        if self.patches.count == 0:
            return
        self._overlaps_known = None
        patches, boxes, marks = self.patches, self.boxes, self._waves[wave].marks
        inputs = [start, end, escaped, patches.vertex_ids, boxes.frame, 0.5 * self._margin, boxes.vertices]
        launch(enlarge_boxes, len(marks.vertices), [*inputs, marks], device=self.device)
        launch(mark_patches, patches.count, [patches.arrays, marks], device=self.device, grain=128)
        boxes.unite_features()
        self._prepare(start, end, self._margin)

    def escaped_pairs(self, *, wave: int = 0) -> Candidates:
        """Of `feature_pairs`, those with a vertex that escaped in the wave's `enlarge_boxes`; in no particular order."""
        escaped, patches = self._waves[wave], self.patches
        marks, overlaps = escaped.marks, escaped.overlaps
        count = exclusive_scan(marks.patches, escaped.places)
        launch(list_marked, patches.count, [escaped.places, marks], device=self.device)
        if count == 0:
            return Candidates(escaped.vertex_triangle.clear(), escaped.edge_edge.clear())
        build_lists((overlaps.lists, count, self._search_overlaps(marks.queries)))
        inputs = [overlaps.gather(count, self.boxes.patch), patches.arrays, self.boxes.planes, marks]

        def search(lists: QueryLists, kernel: wp.Kernel) -> tuple[QueryLists, int, Find]:
            def find(items: int, queries: Queries, found: wp.array) -> None:
                threads = self._threads_per_query * items
                launch(kernel, threads, [queries, found, *inputs], device=self.device, grain=GRAIN)

            return lists, count, find

        vertex_triangle = search(escaped.vertex_triangle, find_escaped_vertex_triangle)
        return Candidates(*build_lists(vertex_triangle, search(escaped.edge_edge, find_escaped_edge_edge)))

    @abstractmethod
    def _find_overlaps(self, count: int, queries: Queries, found: wp.array, selected_patches: wp.array) -> None:
        """Find the patches that overlap each queried patch, itself included, ascending (see `lists.Find`).

        The queries are the selected patches, or all patches where that array is empty.
        """

    def _search_overlaps(self, selected_patches: wp.array) -> Find:
        return lambda count, queries, found: self._find_overlaps(count, queries, found, selected_patches)

    def _find_all_overlaps(self) -> PatchOverlaps:
        """The overlapping patches of all patches, searched once after each update."""
        if self._overlaps_known is None:
            count = self.patches.count
            search = self._overlaps.lists, count, self._search_overlaps(self._all_patches)
            _, flag = build_lists(search, also=self.boxes.flag, graphs=self._graphs, given=("overlaps",))
            self.boxes.check(flag)
            self._overlaps_known = self._overlaps.gather(count, self.boxes.patch)
        return self._overlaps_known

    def _feature_searches(self, overlaps: PatchOverlaps, edges: bool) -> list[tuple[QueryLists, int, Find]]:
        """Vertices with triangles, edges with edges and, where there are passive bodies, triangles with their vertices."""
        searches = [self._compare(self._vertex_triangle, find_vertex_triangle, overlaps)]
        lists, count, find = self._compare(self._edge_edge, find_edge_edge, overlaps)
        searches.append((lists, count if edges else 0, find))
        if self._any_passive:
            searches.append(self._compare(self._triangle_vertex, find_triangle_vertex, overlaps, self.passive))
        return searches

    def _compare(
        self, lists: QueryLists, kernel: wp.Kernel, overlaps: PatchOverlaps, *more: Any
    ) -> tuple[QueryLists, int, Find]:
        """The search of all patches by one of the kernels of `patch_pairs`."""
        inputs = [self.queries_per_patch, overlaps, self.patches.arrays, self.boxes.planes, *more]

        def find(count: int, queries: Queries, found: wp.array) -> None:
            threads = self._threads_per_query * count
            launch(kernel, threads, [queries, found, *inputs], device=self.device, grain=GRAIN)

        return lists, self.patches.count * self.queries_per_patch, find

    def _concatenate(self, first: wp.array, other: wp.array | None = None) -> wp.array:
        """One list of pairs behind another."""
        if other is None or len(other) == 0:
            return first
        count = len(first) + len(other)
        both = self._concatenated.at_least(count)
        if len(first):
            wp.copy(both, first, count=len(first))
        wp.copy(both, other, len(first), 0, len(other))
        return both[:count]
