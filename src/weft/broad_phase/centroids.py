"""What octree and kd-tree share: triangles are found by their centroids, which is simple, quick and not exact.

Both are built anew at every update and know a triangle by its centroid alone (Draping on meshes, section 3.4). So they
promise less than the other broad phases, and only for pairs of a vertex and a triangle; each says what. Neither lists
pairs of edges. Pairs of triangles are listed when their centroids fulfil the same condition.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.interface import BroadPhase, Candidates
from weft.broad_phase.lists import LIMIT, Lists
from weft.broad_phase.patch_pairs import meet
from weft.broad_phase.patches import Patches
from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

THIRD = wp.constant(wp.float64(1.0 / 3.0))


@wp.func
def may_pair(
    by_face: int,
    item: int,
    f: int,
    item_body: wp.array[int],
    faces: wp.array[wp.vec3i],
    face_body: wp.array[int],
    body_pairs: wp.array2d[int],
    share_vertex: int,
) -> bool:
    """Whether an item (vertex or triangle, by rank) may be listed with triangle f: bodies, order, incidence."""
    if body_pairs[item_body[item], face_body[f]] == 0:
        return False
    face = faces[f]
    if by_face == 1:
        return f > item and (share_vertex == 1 or not meet(faces[item], face))
    return item != face[0] and item != face[1] and item != face[2]


@wp.func
def centroid(positions: wp.array[wp.vec3d], vertex_ids: wp.array[int], face: wp.vec3i) -> wp.vec3d:
    total = positions[vertex_ids[face[0]]] + positions[vertex_ids[face[1]]] + positions[vertex_ids[face[2]]]
    return total * THIRD


@wp.kernel
def _expand(
    first: int,
    by_face: int,
    offsets: wp.array[wp.int64],
    rows: wp.array[int],
    item_ids: wp.array[int],
    face_ids: wp.array[int],
    pairs: wp.array[wp.vec2i],
):
    i = first + wp.tid()
    id = item_ids[i]
    for place in range(int(offsets[i]), int(offsets[i + 1])):
        partner = face_ids[rows[place]]
        pair = wp.vec2i(id, partner)
        if by_face == 1:
            pair = wp.vec2i(wp.min(id, partner), wp.max(id, partner))
        pairs[place] = pair


class CentroidSearch(BroadPhase):
    """Rows of triangles, found by their centroids, for each vertex or each triangle."""

    exact = False

    def __init__(self, surface: Surface, *, limit: int = LIMIT) -> None:
        super().__init__(surface, Patches(surface))
        patches = self.patches
        body = patches.body.numpy()
        by_rank = (np.repeat(body, np.diff(start.numpy())) for start in (patches.vertex_start, patches.face_start))
        self._vertex_body, self._face_body = (wp.array(values, dtype=int, device=self.device) for values in by_rank)
        self._rows = Lists(self.device, int, what="pairs", limit=limit)
        self._vertex_triangle = wp.empty(1, dtype=wp.vec2i, device=self.device)
        self._triangles = wp.empty(1, dtype=wp.vec2i, device=self.device)
        self._no_edges = wp.empty(0, dtype=wp.vec2i, device=self.device)

    def feature_pairs(self, *, edges: bool = True) -> Candidates:
        self._vertex_triangle, found = self._search(self._vertex_triangle, by_face=False, share_vertex=False)
        return Candidates(found, self._no_edges)

    def triangle_pairs(self, *, share_vertex: bool = False) -> wp.array:
        self._triangles, found = self._search(self._triangles, by_face=True, share_vertex=share_vertex)
        return found

    @abstractmethod
    def _find_triangles(self, count: int, slots: list[Any], by_face: bool, filter: list[Any]) -> None:
        """Find the ascending row of triangles for each vertex or triangle (see `lists.Find` and `may_pair`)."""

    def _search(self, pairs: wp.array, *, by_face: bool, share_vertex: bool) -> tuple[wp.array, wp.array]:
        patches = self.patches
        ids = patches.face_ids if by_face else patches.vertex_ids
        item_body = self._face_body if by_face else self._vertex_body
        filter = [item_body, patches.faces, self._face_body, self.surface.body_pairs, int(share_vertex)]

        def find(count: int, slots: list[Any]) -> None:
            self._find_triangles(count, slots, by_face, filter)

        rows = self._rows.build(len(ids), find)
        if len(pairs) < len(rows):
            pairs = wp.empty(len(rows) * 3 // 2, dtype=wp.vec2i, device=self.device)
        inputs = [int(by_face), self._rows.offsets, rows, ids, patches.face_ids, pairs]
        launch(_expand, len(ids), inputs, device=self.device)
        return pairs, pairs[: len(rows)]
