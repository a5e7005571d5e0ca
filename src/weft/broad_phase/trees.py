"""Broad phases over the patches: Warp's bounding volume hierarchy, two hierarchies of fixed shape, and brute force.

`bvh`, the default, is the hierarchy of Warp.
`topology_tree` is the hierarchy of Bridson, Fedkiw and Anderson 2002, section 4: the pairing tree of `patches`.
`material_tree` is that of Liu, Ko and Chang 1998: the cloth halved in its material coordinates, again and again. Both are
built once from the mesh, and only their boxes change. `brute` compares every triangle with every other: it is the oracle of
all other broad phases, and enough for a few hundred triangles.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.broad_phase.boxes import Box, load_box, lowest_bit, overlap_limit, overlap_mask, unite
from weft.broad_phase.list_kernels import Queries, first_slot, must_sort, query_of_item, sort_entries
from weft.broad_phase.patch_pairs import patch_of_query
from weft.broad_phase.patch_search import GRAIN, PatchSearch
from weft.broad_phase.patches import Patches
from weft.errors import WeftError
from weft.runtime import launch
from weft.runtime.compaction import WARP, threads_per_item
from weft.runtime.graph_cache import launch_fused
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# updates between two checks whether the tree has degraded, on the CPU: a check costs a launch and a look at 256 patches, and
# a degraded tree is only slower
CHECK_EVERY = 4
# updates after which the tree is rebuilt on CUDA, needed or not: a rebuild takes less time there than reading back a measure
REBUILD_EVERY_CUDA = 16
# the tree is rebuilt once patches have moved relative to the tree by this many times their size in the mean; a smaller value
# rebuilds more often (15 times the cost of a refit), a larger one searches longer in boxes that overlap
DEGRADED = 2.0
# patches that are measured: the square of this
SAMPLES = wp.constant(16)


@wp.kernel
def _find_overlaps(
    first: int,
    queries: Queries,
    found: wp.array[int],
    selected_patches: wp.array[int],
    bvh: wp.uint64,
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
    body: wp.array[int],
    searched_bodies: wp.array2d[int],
    passive: wp.array[int],
    group: wp.array[int],
    spacing: int,
):
    thread = first + wp.tid()
    # only every so manieth thread walks: walks in one warp diverge, and its threads wait for each other
    if thread % spacing != 0:
        return
    query = query_of_item(queries, thread // spacing)
    start = first_slot(queries, query)
    patch = patch_of_query(query, selected_patches)
    own = body[patch]
    if passive[own] != 0:
        queries.counts[query] = 0
        return
    n = int(0)
    other = int(0)
    root = int(-1)
    if group.shape[0] > 0:
        root = wp.bvh_get_group_root(bvh, group[patch])
    walk = wp.bvh_query_aabb(bvh, lower[patch], upper[patch], root)
    while wp.bvh_query_next(walk, other):
        if searched_bodies[own, body[other]] != 0:
            if n < queries.capacity:
                found[start + wp.int64(n)] = other
            n += 1
            if n > queries.stop:
                break
    if n <= queries.capacity and must_sort(queries, n):
        sort_entries(found, start, n)
    queries.counts[query] = n


@wp.kernel
def _measure(
    first: int,
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
    built_lower: wp.array[wp.vec3],
    built_upper: wp.array[wp.vec3],
    measures: wp.array[wp.vec2],
):
    # how far the sampled patches have moved since the tree was built, and how large they are
    i = first + wp.tid()
    moved = float(0.0)
    extent = float(0.0)
    for k in range(SAMPLES):
        patch = int(wp.int64(i * SAMPLES + k) * wp.int64(lower.shape[0]) / wp.int64(SAMPLES * SAMPLES))
        low = lower[patch]
        high = upper[patch]
        moved += wp.length(low - built_lower[patch] + high - built_upper[patch]) * 0.5
        extent += wp.length(high - low)
    measures[i] = wp.vec2(moved, extent)


class Bvh(PatchSearch):
    """Overlapping patches from a `wp.Bvh`, which is refitted at every update and rebuilt when it has degraded.

    A refitted tree stays good while neighbours stay neighbours. It counts as degraded once the patches have moved
    by `DEGRADED` times their size in the mean since it was built, in the frame of the boxes.

    Bodies that no chain of interacting bodies joins have subtrees of their own, in which alone their patches are searched:
    worlds that are simulated together lie in one place.
    """

    name = "bvh"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, **options)
        self._bvh: wp.Bvh | None = None
        sets = interacting_sets(self.surface.body_pairs.numpy())
        several = sets.max(initial=0) > 0
        self._group = wp.array(sets[self.patches.body.numpy()] if several else sets[:0], dtype=int, device=self.device)
        """of each patch, the subtree that it is in; empty if there is one alone"""
        self.builds = 0
        """how often the tree was built"""
        self._updates = 0
        self._built_lower = wp.empty_like(self.boxes.lower)
        self._built_upper = wp.empty_like(self.boxes.upper)
        self._measures = wp.empty(int(SAMPLES), dtype=wp.vec2, device=self.device)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        self._updates += 1
        if self._bvh is None or (self.device.is_cpu and self._updates % CHECK_EVERY == 0 and self._degraded()):
            self._build()
        elif self.device.is_cuda and self._updates % REBUILD_EVERY_CUDA == 0:
            launch_fused()
            self._bvh.rebuild()
            self.builds += 1
        else:
            self._graphs.run(self._bvh.refit, "refit")

    def refit(self, start: wp.array, end: wp.array, margin: float) -> None:
        """As `update`, without ever rebuilding the tree: launches alone, which a CUDA graph can hold."""
        assert self._bvh is not None
        self._reset(margin)
        self.boxes.update(start, end, margin, follow=True)
        self._bvh.refit()

    def rebuild_if_due(self) -> None:
        """Rebuild the tree on CUDA after some calls of `refit`, of which each comes with one of this."""
        self._updates += 1
        if self._updates % REBUILD_EVERY_CUDA == 0 and self._bvh is not None:
            self._bvh.rebuild()
            self.builds += 1

    def _degraded(self) -> bool:
        inputs = [self.boxes.lower, self.boxes.upper, self._built_lower, self._built_upper, self._measures]
        launch(_measure, int(SAMPLES), inputs, device=self.device)
        moved, extent = self._measures.numpy().sum(axis=0)
        return bool(moved > DEGRADED * extent)

    def _build(self) -> None:
        launch_fused()
        constructor = "sah" if self.device.is_cpu else "lbvh"
        groups = self._group if len(self._group) else None
        self._bvh = wp.Bvh(self.boxes.lower, self.boxes.upper, constructor=constructor, groups=groups)
        wp.copy(self._built_lower, self.boxes.lower)
        wp.copy(self._built_upper, self.boxes.upper)
        self.builds += 1

    def _find_overlaps(self, count: int, queries: Queries, found: wp.array, selected_patches: wp.array) -> None:
        assert self._bvh is not None
        spacing = threads_per_item(self.device, count, WARP)
        inputs = [queries, found, selected_patches, self._bvh.id, self.boxes.lower, self.boxes.upper]
        inputs += [self.patches.body, self.searched_bodies, self.passive, self._group, spacing]
        launch(_find_overlaps, count * spacing, inputs, device=self.device, grain=GRAIN)


def interacting_sets(body_pairs: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """A number for each body, the same for those that a chain of interacting bodies joins."""
    return np.asarray(connected_components(csr_array(body_pairs), directed=False)[1], np.int32)


@wp.struct
class Tree:
    """A binary tree without a stack: nodes in depth-first order, each with the node that follows its subtree."""

    skip: wp.array[int]
    """the node after the subtree of each node"""
    patch: wp.array[int]
    """the patch of a leaf; -1: an inner node, whose children are the next node and the one after that one's subtree"""
    boxes: wp.array[Box]


@wp.kernel
def _refit_level(first: int, nodes: wp.array[int], patch_boxes: wp.array2d[wp.float32], tree: Tree):
    # nodes of one level: a leaf has the box of its patch, an inner node that of its two children
    i = first + wp.tid()
    node = nodes[i]
    patch = tree.patch[node]
    if patch >= 0:
        tree.boxes[node] = load_box(patch_boxes, patch)
    else:
        tree.boxes[node] = unite(tree.boxes[node + 1], tree.boxes[tree.skip[node + 1]])


@wp.kernel
def _find_in_tree(
    first: int,
    queries: Queries,
    found: wp.array[int],
    selected_patches: wp.array[int],
    patch_boxes: wp.array2d[wp.float32],
    tree: Tree,
    body: wp.array[int],
    searched_bodies: wp.array2d[int],
):
    query = query_of_item(queries, first + wp.tid())
    start = first_slot(queries, query)
    patch = patch_of_query(query, selected_patches)
    limit = overlap_limit(load_box(patch_boxes, patch))
    own = body[patch]
    n = int(0)
    node = int(0)
    last = tree.skip[0]
    while node < last:
        box = tree.boxes[node]
        if (
            box[0] <= limit[0]
            and box[1] <= limit[1]
            and box[2] <= limit[2]
            and box[3] <= limit[3]
            and box[4] <= limit[4]
            and box[5] <= limit[5]
        ):
            other = tree.patch[node]
            if other >= 0 and searched_bodies[own, body[other]] != 0:
                if n < queries.capacity:
                    found[start + wp.int64(n)] = other
                n += 1
                if n > queries.stop:
                    break
            node += 1
        else:
            node = tree.skip[node]
    if n <= queries.capacity:
        sort_entries(found, start, n)
    queries.counts[query] = n


@wp.kernel
def _compare_all(
    first: int,
    queries: Queries,
    found: wp.array[int],
    selected_patches: wp.array[int],
    count: int,
    patch_boxes: wp.array2d[wp.float32],
    body: wp.array[int],
    searched_bodies: wp.array2d[int],
):
    query = query_of_item(queries, first + wp.tid())
    start = first_slot(queries, query)
    patch = patch_of_query(query, selected_patches)
    limit = overlap_limit(load_box(patch_boxes, patch))
    own = body[patch]
    n = int(0)
    for begin in range(0, count, 64):
        hits = overlap_mask(patch_boxes, begin, wp.min(64, count - begin), limit)
        while hits != wp.uint64(0):
            other = begin + lowest_bit(hits)
            hits &= hits - wp.uint64(1)
            if searched_bodies[own, body[other]] != 0:
                if n < queries.capacity:
                    found[start + wp.int64(n)] = other
                n += 1
        if n > queries.stop:
            break
    queries.counts[query] = n


class Brute(PatchSearch):
    """No hierarchy at all: patches of one triangle, each compared with all."""

    name = "brute"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, patches=Patches(surface, largest=1), **options)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        pass

    def _find_overlaps(self, count: int, queries: Queries, found: wp.array, selected_patches: wp.array) -> None:
        inputs = [queries, found, selected_patches, self.patches.count, self.boxes.patch]
        launch(_compare_all, count, [*inputs, self.patches.body, self.searched_bodies], device=self.device, grain=GRAIN)


class FixedTree(PatchSearch):
    """Overlapping patches from a binary tree; each node holds consecutive patches of some order."""

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, **options)
        order, start, size = self._shape()

        # depth-first order: by first patch, larger nodes before smaller ones
        walk = np.lexsort((-size, start))
        start, size = start[walk], size[walk]
        skip = np.searchsorted(start, start + size, side="left").astype(np.int32)
        patch_of = np.where(size == 1, order[start], -1).astype(np.int32)
        self._tree = Tree()
        self._tree.skip = wp.array(skip, dtype=int, device=self.device)
        self._tree.patch = wp.array(patch_of, dtype=int, device=self.device)
        self._tree.boxes = wp.empty(len(start), dtype=Box, device=self.device)
        levels = [wp.array(level, dtype=int, device=self.device) for level in _by_depth(skip, size)]
        self._levels = levels[::-1]

    @abstractmethod
    def _shape(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """An order of the patches, and for each node the place of its first patch and its number of patches."""

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        for level in self._levels:
            launch(_refit_level, len(level), [level, self.boxes.patch, self._tree], device=self.device)

    def _find_overlaps(self, count: int, queries: Queries, found: wp.array, selected_patches: wp.array) -> None:
        inputs = [queries, found, selected_patches, self.boxes.patch, self._tree]
        launch(
            _find_in_tree, count, [*inputs, self.patches.body, self.searched_bodies], device=self.device, grain=GRAIN
        )


class TopologyTree(FixedTree):
    """The pairing tree, from the patches upwards."""

    name = "topology_tree"

    def _shape(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        tree, patches = self.patches.tree, self.patches
        # keep the patches and all nodes above them, and count in patches instead of triangles
        kept = np.zeros(len(tree.parent), bool)
        kept[patches.nodes] = True
        above = tree.parent[patches.nodes]
        while len(above := np.unique(above[above >= 0])):
            above = above[~kept[above]]
            kept[above] = True
            above = tree.parent[above]
        nodes = np.flatnonzero(kept)
        face_start = patches.face_start.numpy()
        start = np.searchsorted(face_start, tree.start[nodes])
        end = np.searchsorted(face_start, tree.start[nodes] + tree.size[nodes])
        return np.arange(patches.count), start, end - start


class MaterialTree(FixedTree):
    """The patches halved by their middle in material coordinates, across the longest side, again and again."""

    name = "material_tree"

    def __init__(self, surface: Surface, *, material: npt.ArrayLike | None = None, **options: Any) -> None:
        """`material` is one point for each vertex, (n, 2) or (n, 3): uv, or rest positions where there is no uv."""
        if material is None:
            raise WeftError("material_tree needs the material coordinates of the vertices: uv, or rest positions")
        self._material = np.asarray(material, np.float64)
        if self._material.ndim != 2 or len(self._material) != surface.vertex_count:
            raise WeftError(
                f"material coordinates must be one row a vertex ({surface.vertex_count}), got an array of shape "
                f"{self._material.shape}"
            )
        super().__init__(surface, **options)

    def _shape(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        faces = self.surface.faces.numpy().reshape(-1, 3)[self.patches.face_ids.numpy()]
        middle = self._material[faces].mean(axis=1)
        face_start = self.patches.face_start.numpy()
        count = self.patches.count
        if count:
            middle = np.add.reduceat(middle, face_start[:-1], axis=0) / np.diff(face_start)[:, None]
        return split_evenly(middle[:count])


def split_evenly(points: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A binary tree that halves points across the longest side of their box, down to single points.

    Gives an order of the points, and for each node its first place in that order and its number of points.
    """
    count = len(points)
    order = np.arange(count)
    begin, end = (np.array([0]), np.array([count])) if count else (np.zeros(0, int), np.zeros(0, int))
    starts, sizes = [], []
    while len(begin):
        starts.append(begin)
        sizes.append(end - begin)
        wide = end - begin > 1
        begin, end = begin[wide], end[wide]
        if not len(begin):
            break
        # sort the points of all nodes that are split at once: by node, then along the longest axis of the node
        places = np.concatenate([np.arange(a, b) for a, b in zip(begin, end, strict=True)])
        node = np.repeat(np.arange(len(begin)), end - begin)
        inside = points[order[places]]
        first = np.concatenate([[0], np.cumsum(end - begin)[:-1]])
        extent = np.maximum.reduceat(inside, first) - np.minimum.reduceat(inside, first)
        along = inside[np.arange(len(inside)), extent.argmax(axis=1)[node]]
        order[places] = order[places][np.lexsort((order[places], along, node))]
        middle = (begin + end) // 2
        begin, end = np.stack([begin, middle], 1).ravel(), np.stack([middle, end], 1).ravel()
    if not starts:
        return order, np.zeros(0, int), np.zeros(0, int)
    return order, np.concatenate(starts), np.concatenate(sizes)


def _by_depth(skip: np.ndarray, size: np.ndarray) -> list[np.ndarray]:
    """The nodes of each level, from the root down."""
    levels = []
    level = np.zeros(min(len(skip), 1), np.int64)
    while len(level):
        levels.append(level.astype(np.int32))
        left = level[size[level] > 1] + 1
        level = np.concatenate([left, skip[left]])
    return levels
