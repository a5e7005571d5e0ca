"""Broad phases over hierarchies of fixed shape, which are built once from the mesh: only their boxes change.

`topology_tree` is the hierarchy of Bridson, Fedkiw and Anderson 2002, section 4: the pairing tree of `patches`.
`material_tree` is that of Liu, Ko and Chang 1998: the cloth halved in its material coordinates, again and again.
"""

from abc import abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.broad_phase.boxes import Box, load_box, overlap_limit, unite
from weft.broad_phase.list_kernels import Queries, first_slot, query_of_item, sort_entries
from weft.broad_phase.patch_pairs import patch_of_query
from weft.broad_phase.patch_search import GRAIN, PatchSearch
from weft.errors import WeftError
from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})


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
