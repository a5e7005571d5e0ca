"""What the exact broad phases share: find the patches that overlap each patch, then compare their features."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from weft.detection.boxes import new_planes
from weft.detection.broad_phase import BroadPhase, Candidates
from weft.detection.compare import (
    find_edge_edge,
    find_triangle_vertex,
    find_triangles,
    find_vertex_triangle,
    gather_row_boxes,
)
from weft.detection.compare_strays import (
    find_stray_edge_edge,
    find_stray_vertex_triangle,
    grow_strays,
    list_marked,
    mark_patches,
)
from weft.detection.lists import LIMIT, Find, Lists, build_lists
from weft.detection.patches import PADDING, Patches
from weft.world import Surface, launch
from weft.world.buffers import Buffer
from weft.world.choosing import count_chosen

# patches worth a thread of their own: each costs microseconds
GRAIN = 16
# how often strays may be listed without those of the time before
WAVES = 2


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
        """`carried` are bodies whose motion is prescribed, the last ones: no pair of them counts, and none strays.

        Others find them and they find nobody: a large triangle of a collider would have thousands of fine ones in its row,
        which one thread would have to compare.
        """
        super().__init__(surface, Patches(surface) if patches is None else patches)
        self.looks_at_once = self.device.is_cpu
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
        self._triangle_vertex = Lists(self.device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self._joined = Buffer(wp.vec2i, self.device)
        self._rows = Lists(self.device, int, what="pairs of patches", limit=limit)
        self._rows_known = False
        self._none = wp.empty(0, dtype=int, device=self.device)
        self._row_boxes = new_planes(0, self.device)
        self._vertex_triangle = Lists(self.device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self._edge_edge = Lists(self.device, wp.vec2i, what="pairs of edges", limit=limit)
        self._triangles = Lists(self.device, wp.vec2i, what="pairs of triangles", limit=limit)
        sizes = len(self.patches.vertex_ids), self.patches.count
        self._waves = tuple(Strays(self.device, *sizes, limit) for _ in range(WAVES))

    def set_limit(self, limit: int) -> None:
        """Refuse longer lists than this from now on."""
        own = (self._rows, self._vertex_triangle, self._edge_edge, self._triangles, self._triangle_vertex)
        of_strays = [lists for wave in self._waves for lists in (wave.vertex_triangle, wave.edge_edge, wave.rows)]
        for lists in (*own, *of_strays):
            lists.limit = limit

    def update(self, start: wp.array, end: wp.array, margin: float = 0.0, *, follow: bool = True) -> None:
        self._rows_known = False
        self._margin = margin
        super().update(start, end, margin, follow=follow)

    def grow(self, start: wp.array, end: wp.array, strayed: wp.array, *, wave: int = 0) -> None:
        """Some vertices (flags 1) go to `end` instead of where the last update said: their boxes hold both ways.

        They may come in two waves, each with lists of its own.
        """
        if self.patches.count == 0:
            return
        self._rows_known = False
        patches, boxes, strays = self.patches, self.boxes, self._waves[wave]
        inputs = [start, end, strayed, patches.vertex_ids, boxes.frame, 0.5 * self._margin, boxes.vertices]
        launch(grow_strays, len(strays.vertices), [*inputs, strays.vertices], device=self.device)
        inputs = [patches.face_start, patches.faces, strays.vertices, strays.patches]
        launch(mark_patches, patches.count, inputs, device=self.device, grain=128)
        boxes.unite_features()
        self._prepare(start, end, self._margin)

    def feature_pairs(self, *, edges: bool = True) -> Candidates:
        rows = self._find_all_rows()
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
        vertex_triangle, edge_pairs, *others = build_lists(*searches)
        return Candidates(self._join(vertex_triangle, *others), edge_pairs)

    def _join(self, first: wp.array, other: wp.array | None = None) -> wp.array:
        """One list after another."""
        if other is None or len(other) == 0:
            return first
        count = len(first) + len(other)
        joined = self._joined.at_least(count)
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

    def stray_pairs(self, *, wave: int = 0) -> Candidates:
        """Of `feature_pairs`, those with a vertex that strayed in the wave's last `grow`; in no particular order."""
        strays, patches, boxes = self._waves[wave], self.patches, self.boxes
        count = count_chosen(strays.patches, strays.places)
        launch(list_marked, patches.count, [strays.patches, strays.places, strays.items], device=self.device)
        if count == 0:
            return Candidates(strays.vertex_triangle.none(), strays.edge_edge.none())
        rows = build_lists((strays.rows, count, self._search_rows(strays.items)))[0]
        strays.row_boxes = self._gather(rows, strays.row_boxes)
        inputs = [
            strays.items,
            strays.patches,
            strays.vertices,
            strays.rows.offsets,
            strays.rows.found,
            strays.row_boxes,
        ]

        def compare(lists: Lists, kernel: wp.Kernel, features: list[Any]) -> tuple[Lists, int, Find]:
            def find(count: int, slots: list[Any]) -> None:
                launch(kernel, count, [*slots, *inputs, *features], device=self.device, grain=GRAIN)

            return lists, count, find

        features = [patches.vertex_start, boxes.vertices, patches.vertex_ids]
        features += [patches.face_start, boxes.faces, patches.faces, patches.corners, patches.face_ids]
        vertex_triangle = compare(strays.vertex_triangle, find_stray_vertex_triangle, features)
        features = [patches.edge_start, boxes.edges, patches.ends, patches.edge_ids]
        return Candidates(*build_lists(vertex_triangle, compare(strays.edge_edge, find_stray_edge_edge, features)))

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
            rows, flag = build_lists(search, also=self.boxes.flag)
            self.boxes.check(flag)
            self._row_boxes = self._gather(rows, self._row_boxes)
            self._rows_known = True
        return [self._rows.offsets, self._rows.found, self._row_boxes]

    def _gather(self, rows: wp.array, room: wp.array) -> wp.array:
        """The boxes of the patches in rows, side by side, in an array that is kept if it has room for them."""
        if room.shape[1] < len(rows) + PADDING:
            room = new_planes(len(rows) * 3 // 2, self.device)
        launch(gather_row_boxes, len(rows), [rows, self.boxes.patch, room], device=self.device)
        return room

    def _compare(self, lists: Lists, kernel: wp.Kernel, inputs: list[Any]) -> tuple[Lists, int, Find]:
        """A search of all patches by a kernel."""

        def find(count: int, slots: list[Any]) -> None:
            launch(kernel, count, [*slots, *inputs], device=self.device, grain=GRAIN)

        return lists, self.patches.count, find

    def _by_rank(self, of_body: np.ndarray) -> np.ndarray:
        """A number of each body, for every patch."""
        numbers: np.ndarray = of_body[self.patches.body.numpy()]
        return numbers
