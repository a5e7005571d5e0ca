"""The binary tree of Liu, Ko and Chang 1998, section 3, over the triangles of cloth, in two launches on the CPU.

The cloth is halved in its material coordinates; the shape of the tree never changes, only its boxes do. The paper splits down
to single triangles; here a leaf has up to 16, which vector instructions compare at once.

The broad phase `material_tree` finds the same pairs with 18 launches, which is what its time goes to when there are few
triangles. The published table of docs/boxes.md is why this second implementation exists: on one thread, 21 x 21 points, a
step of `weft bench boxes` spends 0.21 ms in detection instead of 0.35 (table) and 0.12 instead of 0.25 (ground), and 7 to 10 %
less in all. At 51 x 51 points it is no longer faster: 1.15 ms and 0.95 (table), 0.62 and 0.57 (ground).
"""

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.boxes import (
    Box,
    load_box,
    lowest_bit,
    new_planes,
    overlap_limit,
    overlap_mask,
    round_down,
    unite,
)
from weft.broad_phase.patch_pairs import share_vertex
from weft.broad_phase.trees import split_evenly
from weft.runtime import get_threads, launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# triangles in a leaf, at most: as many as are compared at once
LEAF = 16
# ranges of leaves for each thread: with more, threads that have finished take over more of the work of slow ones
RANGES_PER_THREAD = 4


@wp.func
def box_triangle(
    i: int,
    f: wp.vec3i,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    growth: wp.float64,
    boxes: wp.array2d[wp.float32],
):
    """The box of a triangle as it sweeps through a step, grown on all sides."""
    a = start[f[0]]
    b = start[f[1]]
    c = start[f[2]]
    d = end[f[0]]
    e = end[f[1]]
    g = end[f[2]]
    low = wp.min(wp.min(wp.min(a, b), wp.min(c, d)), wp.min(e, g))
    high = wp.max(wp.max(wp.max(a, b), wp.max(c, d)), wp.max(e, g))
    for axis in range(3):
        boxes[axis, i] = round_down(low[axis] - growth)
        boxes[axis + 3, i] = round_down(-high[axis] - growth)


@wp.kernel
def refit_tree(
    first: int,
    skip: wp.array[int],
    begin: wp.array[int],
    size: wp.array[int],
    faces: wp.array[wp.vec3i],
    growth: wp.float64,
    boxes: wp.array2d[wp.float32],
    nodes: wp.array[Box],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
):
    """The boxes of all triangles, in the order of the tree, and of all nodes, children before parents; one thread."""
    count = skip.shape[0]
    for k in range(first + wp.tid(), count):
        node = count - 1 - k
        if size[node] <= LEAF:
            for i in range(begin[node], begin[node] + size[node]):
                box_triangle(i, faces[i], start, end, growth, boxes)
            box = load_box(boxes, begin[node])
            for i in range(begin[node] + 1, begin[node] + size[node]):
                box = unite(box, load_box(boxes, i))
            nodes[node] = box
        else:
            nodes[node] = unite(nodes[node + 1], nodes[skip[node + 1]])


@wp.func
def within(box: Box, limit: Box) -> bool:
    """Whether a box overlaps the one with this limit."""
    return (
        box[0] <= limit[0]
        and box[3] <= limit[3]
        and box[1] <= limit[1]
        and box[4] <= limit[4]
        and box[2] <= limit[2]
        and box[5] <= limit[5]
    )


@wp.kernel
def find_pairs(
    first: int,
    ranges: int,
    leaves: wp.array[int],
    skip: wp.array[int],
    begin: wp.array[int],
    size: wp.array[int],
    nodes: wp.array[Box],
    boxes: wp.array2d[wp.float32],
    order: wp.array[int],
    faces: wp.array[wp.vec3i],
    body: wp.array[int],
    body_pairs: wp.array2d[int],
    capacity: int,
    found: wp.array2d[wp.vec2i],
    counts: wp.array[int],
):
    """Pairs of the triangles of a range of leaves with those of the same and of later leaves, in the order of the tree."""
    own = first + wp.tid()
    count = leaves.shape[0]
    n = int(0)
    for k in range(own * count // ranges, (own + 1) * count // ranges):
        leaf = leaves[k]
        leaf_limit = overlap_limit(nodes[leaf])
        node = int(leaf)
        while node < skip.shape[0]:
            if not within(nodes[node], leaf_limit):
                node = skip[node]
                continue
            if size[node] <= LEAF:
                for i in range(begin[leaf], begin[leaf] + size[leaf]):
                    limit = overlap_limit(load_box(boxes, i))
                    if within(nodes[node], limit):
                        face = faces[i]
                        later = wp.max(i + 1, begin[node])
                        hits = overlap_mask(boxes, later, begin[node] + size[node] - later, limit)
                        while hits != wp.uint64(0):
                            j = later + lowest_bit(hits)
                            hits &= hits - wp.uint64(1)
                            if not share_vertex(face, faces[j]) and body_pairs[body[i], body[j]] != 0:
                                if n < capacity:
                                    found[own, n] = wp.vec2i(wp.min(order[i], order[j]), wp.max(order[i], order[j]))
                                n += 1
            node += 1
    counts[own] = n


class BoxTree:
    """Finds pairs of triangles whose boxes overlap during a step; a broad phase for triangles alone, on the CPU."""

    def __init__(self, surface: Surface, material: np.ndarray) -> None:
        """`material` is one point for each vertex."""
        self.surface, self.device = surface, surface.device
        count = surface.face_count
        corners = surface.faces.numpy().reshape(-1, 3)
        order, start, size = _split_bodies(material[corners].mean(axis=1), surface.face_body.numpy())

        # depth-first order: by first triangle, larger nodes before smaller ones, down to the leaves
        walk = np.lexsort((-size, start))
        start, size = start[walk], size[walk]
        after = np.searchsorted(start, start + size, side="left")
        kept, node = [], 0
        while node < len(start):
            kept.append(node)
            node = int(after[node]) if size[node] <= LEAF else node + 1
        skip = np.searchsorted(kept, after[kept])

        def upload(values: np.ndarray) -> wp.array:
            return wp.array(np.asarray(values, np.int32), dtype=int, device=self.device)

        # everything about triangles in the order of the tree
        self._order, self._body = upload(order), upload(surface.face_body.numpy()[order])
        self._faces = wp.array(corners[order], dtype=wp.vec3i, device=self.device)
        self._shape = upload(skip), upload(start[kept]), upload(size[kept])
        self._leaves = upload(np.flatnonzero(size[kept] <= LEAF))
        self._nodes = wp.zeros(len(kept), dtype=Box, device=self.device)
        self._boxes = new_planes(count, self.device)
        threads = get_threads()
        self._ranges = RANGES_PER_THREAD * threads if threads > 1 else 1
        self._counts = wp.zeros(self._ranges, dtype=int, device=self.device)
        self._grow(max(64, 8 * count // self._ranges))

    def _grow(self, capacity: int) -> None:
        """Have room for so many pairs of each range."""
        self._capacity = capacity
        self._found: Any = wp.zeros((self._ranges, capacity), dtype=wp.vec2i, device=self.device)
        # the same tuple at every launch costs less than a new list
        tree = (self._ranges, self._leaves, *self._shape, self._nodes, self._boxes, self._order, self._faces)
        self._finding = (*tree, self._body, self.surface.body_pairs, capacity, self._found, self._counts)

    def update(self, start: wp.array, end: wp.array, margin: float) -> None:
        """Take new positions; triangles whose boxes come nearer than the margin (m) are found."""
        inputs = [*self._shape, self._faces, 0.5 * margin, self._boxes, self._nodes, start, end]
        launch(refit_tree, min(1, len(self._nodes)), inputs, device=self.device)

    def triangle_pairs(self) -> wp.array:
        """Pairs of triangles without a common vertex whose boxes overlap, smaller index first."""
        while True:
            launch(find_pairs, self._ranges, self._finding, device=self.device, grain=1)
            counts = self._counts.numpy()
            if counts.max(initial=0) <= self._capacity:
                break
            self._grow(2 * int(counts.max()))
        found = self._found.numpy()
        pairs = np.concatenate([found[k, :n] for k, n in enumerate(counts)])
        # memory of our own, which the array may use without a copy
        return wp.array(pairs, dtype=wp.vec2i, device=self.device, copy=False)


def _split_bodies(points: np.ndarray, body: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tree for each body, one after the other: a floor would make the box of every node that it is in too large."""
    orders, starts, sizes = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0, int)]
    for number in np.unique(body):
        members = np.flatnonzero(body == number)
        order, start, size = split_evenly(points[members])
        starts.append(start + sum(map(len, orders)))
        orders.append(members[order])
        sizes.append(size)
    return np.concatenate(orders), np.concatenate(starts), np.concatenate(sizes)
