"""What the exact broad phases share: find the patches that overlap each patch, then compare their features."""

from abc import abstractmethod
from typing import Any

import warp as wp

from weft.detection.boxes import new_planes
from weft.detection.broad_phase import BroadPhase, Candidates
from weft.detection.compare import find_edge_edge, find_triangles, find_vertex_triangle, gather_row_boxes
from weft.detection.compare_strays import (
    find_stray_edge_edge,
    find_stray_vertex_triangle,
    grow_strays,
    list_marked,
    mark_patches,
)
from weft.detection.lists import LIMIT, Lists
from weft.detection.patches import PADDING, Patches
from weft.world import Surface, launch
from weft.world.choosing import count_chosen

# patches worth a thread of their own: each costs microseconds
GRAIN = 16


class Strays:
    """Which vertices (by rank) and patches strayed, and room for their pairs."""

    def __init__(self, device: wp.Device, vertices: int, patches: int, limit: int) -> None:
        self.vertices = wp.zeros(vertices, dtype=int, device=device)
        self.patches, self.places, self.items = (wp.zeros(patches, dtype=int, device=device) for _ in range(3))
        self.vertex_triangle = Lists(device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self.edge_edge = Lists(device, wp.vec2i, what="pairs of edges", limit=limit)


class PatchSearch(BroadPhase):
    """An exact broad phase; the ways to find the rows of patches differ, all else is here."""

    def __init__(self, surface: Surface, *, patches: Patches | None = None, limit: int = LIMIT) -> None:
        super().__init__(surface, Patches(surface) if patches is None else patches)
        self._rows = Lists(self.device, int, what="pairs of patches", limit=limit)
        self._rows_known = False
        self._row_boxes = new_planes(0, self.device)
        self._vertex_triangle = Lists(self.device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self._edge_edge = Lists(self.device, wp.vec2i, what="pairs of edges", limit=limit)
        self._triangles = Lists(self.device, wp.vec2i, what="pairs of triangles", limit=limit)
        self._strays = Strays(self.device, len(self.patches.vertex_ids), self.patches.count, limit)

    def update(self, start: wp.array, end: wp.array, margin: float = 0.0, *, follow: bool = True) -> None:
        self._rows_known = False
        self._margin = margin
        super().update(start, end, margin, follow=follow)

    def grow(self, start: wp.array, end: wp.array, strayed: wp.array) -> None:
        """Some vertices (flags 1) go to `end` instead of where the last update said: their boxes hold both ways."""
        if self.patches.count == 0:
            return
        self._rows_known = False
        patches, boxes, strays = self.patches, self.boxes, self._strays
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
        vertex_triangle = self._compare(self._vertex_triangle, find_vertex_triangle, inputs)
        if not edges:
            return Candidates(vertex_triangle, self._edge_edge.found[:0])
        inputs = [*rows, patches.edge_start, boxes.edges, patches.ends, patches.edge_ids]
        return Candidates(vertex_triangle, self._compare(self._edge_edge, find_edge_edge, inputs))

    def triangle_pairs(self, *, share_vertex: bool = False) -> wp.array:
        rows = self._find_all_rows()
        faces = [self.patches.face_start, self.boxes.faces, self.patches.faces, self.patches.face_ids]
        return self._compare(self._triangles, find_triangles, [*rows, *faces, int(share_vertex)])

    def stray_pairs(self) -> Candidates:
        """Of `feature_pairs`, those with a vertex that strayed in the last `grow`; in no particular order."""
        strays, patches, boxes = self._strays, self.patches, self.boxes
        count = count_chosen(strays.patches, strays.places)
        launch(list_marked, patches.count, [strays.patches, strays.places, strays.items], device=self.device)
        inputs = [strays.items, strays.patches, strays.vertices, *self._find_all_rows()]

        def compare(lists: Lists, kernel: wp.Kernel, features: list[Any]) -> wp.array:
            def find(count: int, slots: list[Any]) -> None:
                launch(kernel, count, [*slots, *inputs, *features], device=self.device, grain=GRAIN)

            return lists.build(count, find)

        features = [patches.vertex_start, boxes.vertices, patches.vertex_ids]
        features += [patches.face_start, boxes.faces, patches.faces, patches.corners, patches.face_ids]
        vertex_triangle = compare(strays.vertex_triangle, find_stray_vertex_triangle, features)
        features = [patches.edge_start, boxes.edges, patches.ends, patches.edge_ids]
        return Candidates(vertex_triangle, compare(strays.edge_edge, find_stray_edge_edge, features))

    @abstractmethod
    def _find_rows(self, count: int, slots: list[Any]) -> None:
        """Find the ascending row of patches that each patch overlaps, itself included (see `lists.Find`)."""

    def _find_all_rows(self) -> list[wp.array]:
        if not self._rows_known:
            rows = self._rows.build(self.patches.count, self._find_rows)
            if self._row_boxes.shape[1] < len(rows) + PADDING:
                self._row_boxes = new_planes(len(rows) * 3 // 2, self.device)
            inputs = [rows, self.boxes.patch, self._row_boxes]
            launch(gather_row_boxes, len(rows), inputs, device=self.device)
            self._rows_known = True
        return [self._rows.offsets, self._rows.found, self._row_boxes]

    def _compare(self, lists: Lists, kernel: wp.Kernel, inputs: list[Any]) -> wp.array:
        def find(count: int, slots: list[Any]) -> None:
            launch(kernel, count, [*slots, *inputs], device=self.device, grain=GRAIN)

        return lists.build(self.patches.count, find)
