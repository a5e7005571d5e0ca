"""The broad phases `octree` and `kdtree`: triangles are found by their centroids, which is simple, quick and not exact.

Both trees are built again at every update (Draping on meshes, section 3.4). They list pairs of a vertex and a triangle and no
pairs of edges. Pairs of triangles are listed when their centroids fulfil the same condition:

- `octree`: at the start of the step the vertex and the centroid are in the same cell. The root is the smallest cube that holds
  all centroids and the margin around them, and the cells are the smallest ones that are at least as wide as the margin. Pairs
  on two sides of a wall between cells are missed.
- `kdtree`: during the step the centroid comes within the margin of the vertex along every axis, by the boxes of their motions.
  Vertices that touch a triangle farther than the margin from its centroid are missed: large triangles must be split.
"""

from typing import Any, ClassVar

import numpy as np
import warp as wp

from weft.broad_phase.centroid_trees import KDTREE, CentroidIndex, CentroidTree, centroid_of, next_range
from weft.broad_phase.interface import BroadPhase, Candidates
from weft.broad_phase.list_kernels import Queries, first_slot, query_of_item, sort_entries
from weft.broad_phase.lists import LIMIT, QueryLists
from weft.broad_phase.patch_pairs import share_vertex
from weft.broad_phase.patches import Patches
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# queries that are worth a thread of the CPU
GRAIN = 64


@wp.struct
class Motion:
    """The motion of a step, and the triangles by rank."""

    start: wp.array[wp.vec3d]
    end: wp.array[wp.vec3d]
    frame: wp.array[wp.vec3d]
    """a position, and the common displacement that is taken off"""
    faces: wp.array[wp.vec3i]
    vertex_ids: wp.array[int]


@wp.struct
class PairRules:
    """Which pairs may be listed."""

    by_face: int
    """1: queries are triangles, else vertices, by rank"""
    with_shared_vertex: int
    query_body: wp.array[int]
    face_body: wp.array[int]
    body_pairs: wp.array2d[int]


@wp.func
def may_pair(rules: PairRules, motion: Motion, query: int, f: int) -> bool:
    """Whether a query may be listed with triangle f: their bodies interact, and they share no vertex."""
    if rules.body_pairs[rules.query_body[query], rules.face_body[f]] == 0:
        return False
    face = motion.faces[f]
    if rules.by_face == 1:
        return f > query and (rules.with_shared_vertex == 1 or not share_vertex(motion.faces[query], face))
    vertex = motion.vertex_ids[query]
    return vertex != face[0] and vertex != face[1] and vertex != face[2]


@wp.kernel
def _find_triangles(
    first: int,
    queries: Queries,
    found: wp.array[int],
    index: CentroidIndex,
    motion: Motion,
    rules: PairRules,
    margin: wp.float64,
):
    query = query_of_item(queries, first + wp.tid())
    start = first_slot(queries, query)
    p = wp.vec3d()
    q = wp.vec3d()
    if rules.by_face == 1:
        p = centroid_of(motion.faces[query], motion.start)
        q = centroid_of(motion.faces[query], motion.end) - motion.frame[1]
    else:
        p = motion.start[motion.vertex_ids[query]]
        q = motion.end[motion.vertex_ids[query]] - motion.frame[1]
    grown = wp.vec3d(margin, margin, margin)
    low = wp.min(p, q) - grown
    high = wp.max(p, q) + grown
    n = int(0)
    place = int(1)
    while place > 0 and n <= queries.stop:
        span = next_range(index, p, low, high, place)
        place = span[2]
        for k in range(span[0], span[1]):
            f = index.order[k]
            near = bool(True)
            if index.kind == KDTREE:
                a = centroid_of(motion.faces[f], motion.start)
                b = centroid_of(motion.faces[f], motion.end) - motion.frame[1]
                for axis in range(3):
                    if wp.min(a[axis], b[axis]) > high[axis] or wp.max(a[axis], b[axis]) < low[axis]:
                        near = False
            if near and may_pair(rules, motion, query, f):
                if n < queries.capacity:
                    found[start + wp.int64(n)] = f
                n += 1
    if n <= queries.capacity:
        sort_entries(found, start, n)
    queries.counts[query] = n


@wp.kernel
def _write_pairs(
    first: int,
    by_face: int,
    offsets: wp.array[wp.int64],
    triangles: wp.array[int],
    query_ids: wp.array[int],
    face_ids: wp.array[int],
    pairs: wp.array[wp.vec2i],
):
    i = first + wp.tid()
    id = query_ids[i]
    for place in range(int(offsets[i]), int(offsets[i + 1])):
        partner = face_ids[triangles[place]]
        pair = wp.vec2i(id, partner)
        if by_face == 1:
            pair = wp.vec2i(wp.min(id, partner), wp.max(id, partner))
        pairs[place] = pair


class CentroidSearch(BroadPhase):
    """For each vertex or triangle the triangles whose centroid a tree finds near."""

    exact = False

    def __init__(self, surface: Surface, *, limit: int = LIMIT) -> None:
        super().__init__(surface, Patches(surface))
        patches, device = self.patches, self.device
        body = patches.body.numpy()
        by_rank = (np.repeat(body, np.diff(start.numpy())) for start in (patches.vertex_start, patches.face_start))
        self._vertex_body, self._face_body = (wp.array(values, dtype=int, device=device) for values in by_rank)
        self._motion = Motion()
        self._motion.frame, self._motion.vertex_ids = self.boxes.frame, patches.vertex_ids
        corners = surface.faces.numpy().reshape(-1, 3)[patches.face_ids.numpy()]
        self._motion.faces = wp.array(corners, dtype=wp.vec3i, device=device)
        self._tree = CentroidTree(self.name, np.arange(len(corners)), device)
        self._found = QueryLists(device, int, what="pairs", limit=limit)
        self._vertex_triangle, self._triangles = Buffer(wp.vec2i, device), Buffer(wp.vec2i, device)
        self._no_edges = wp.empty(0, dtype=wp.vec2i, device=device)

    def feature_pairs(self, *, edges: bool = True) -> Candidates:
        return Candidates(self._search(self._vertex_triangle, by_face=False, share_vertex=False), self._no_edges)

    def triangle_pairs(self, *, share_vertex: bool = False) -> wp.array:
        return self._search(self._triangles, by_face=True, share_vertex=share_vertex)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        self._margin = margin
        self._motion.start, self._motion.end = start, end
        self._tree.sort(self._motion.faces, start)
        self._tree.build(self._motion.faces, start, margin, motion=(end, self.boxes.frame))

    def _search(self, buffer: Buffer, *, by_face: bool, share_vertex: bool) -> wp.array:
        patches = self.patches
        ids = patches.face_ids if by_face else patches.vertex_ids
        rules: Any = PairRules()
        rules.by_face, rules.with_shared_vertex = int(by_face), int(share_vertex)
        rules.query_body = self._face_body if by_face else self._vertex_body
        rules.face_body, rules.body_pairs = self._face_body, self.surface.body_pairs

        def find(count: int, queries: Queries, found: wp.array) -> None:
            inputs = [queries, found, self._tree.index, self._motion, rules, self._margin]
            launch(_find_triangles, count, inputs, device=self.device, grain=GRAIN)

        found = self._found.build(len(ids), find)
        pairs = buffer.at_least(len(found))
        inputs = [int(by_face), self._found.offsets, found, ids, patches.face_ids, pairs]
        launch(_write_pairs, len(ids), inputs, device=self.device)
        return pairs[: len(found)]


class Octree(CentroidSearch):
    """A vertex sees the triangles whose centroid is in its own cell."""

    name: ClassVar[str] = "octree"


class KdTree(CentroidSearch):
    """A balanced kd-tree, split at the median of the centroids along x, y and z in turn."""

    name: ClassVar[str] = "kdtree"
