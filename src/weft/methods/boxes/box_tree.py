"""The binary tree of Liu, Ko and Chang 1998, section 3, over the triangles of cloth, in few launches.

The cloth is split evenly in its material coordinates; the shape of the tree never changes, only its boxes do. The paper
splits down to single triangles; here the last four levels are a run of triangles that are compared at once. The broad
phase `material_tree` does the same for vertices and edges too; for the few thousand triangles of this method launching
all of its kernels costs more than running them. That is so on a CPU, for which this is: it has few threads.
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
# parts of the list of leaves that a thread of a CPU gets on average
PARTS_A_THREAD = 4


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
def build_tree(
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
    """Boxes of all triangles, in the order of the tree, and of all nodes, children before parents: one thread."""
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
    """Whether a box overlaps the one whose `reach` is the limit."""
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
    parts: int,
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
    """Pairs between a part of the leaves and the leaves from there on, in the order of the tree."""
    part = first + wp.tid()
    count = leaves.shape[0]
    n = int(0)
    for k in range(part * count // parts, (part + 1) * count // parts):
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
                                    found[part, n] = wp.vec2i(wp.min(order[i], order[j]), wp.max(order[i], order[j]))
                                n += 1
            node += 1
    counts[part] = n


class BoxTree:
    """Finds pairs of triangles whose boxes overlap during a step, as a broad phase does, on the CPU."""

    def __init__(self, surface: Surface, material: np.ndarray) -> None:
        """`material` holds a point a vertex."""
        self.surface, self.device = surface, surface.device
        count = surface.face_count
        corners = surface.faces.numpy().reshape(-1, 3)
        order, start, size = _split_bodies(material[corners].mean(axis=1), surface.face_body.numpy())

        # the order of a depth-first walk, by first triangle and larger nodes before smaller ones, down to the leaves
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
        self._parts = PARTS_A_THREAD * threads if threads > 1 else 1
        self._counts = wp.zeros(self._parts, dtype=int, device=self.device)
        self._grow(max(64, 8 * count // self._parts))

    def _grow(self, capacity: int) -> None:
        self._capacity = capacity
        self._found: Any = wp.zeros((self._parts, capacity), dtype=wp.vec2i, device=self.device)
        # the same tuple at every launch costs less than a new list
        tree = (self._parts, self._leaves, *self._shape, self._nodes, self._boxes, self._order, self._faces)
        self._finding = (*tree, self._body, self.surface.body_pairs, capacity, self._found, self._counts)

    def update(self, start: wp.array, end: wp.array, margin: float) -> None:
        """Take new positions; what comes nearer than the margin is found."""
        inputs = [*self._shape, self._faces, 0.5 * margin, self._boxes, self._nodes, start, end]
        launch(build_tree, min(1, len(self._nodes)), inputs, device=self.device)

    def triangle_pairs(self) -> wp.array:
        """Pairs of triangles without a common vertex whose boxes overlap, smaller index first."""
        while True:
            launch(find_pairs, self._parts, self._finding, device=self.device, grain=1)
            counts = self._counts.numpy()
            if counts.max(initial=0) <= self._capacity:
                break
            self._grow(2 * int(counts.max()))
        found = self._found.numpy()
        rows = np.concatenate([found[part, :n] for part, n in enumerate(counts)])
        # the rows are ours: no need to copy them
        return wp.array(rows, dtype=wp.vec2i, device=self.device, copy=False)


def _split_bodies(points: np.ndarray, body: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A tree a body, one after the other: a floor would make every box that it shares too large."""
    orders, starts, sizes = [np.zeros(0, int)], [np.zeros(0, int)], [np.zeros(0, int)]
    for number in np.unique(body):
        members = np.flatnonzero(body == number)
        order, start, size = split_evenly(points[members])
        starts.append(start + sum(map(len, orders)))
        orders.append(members[order])
        sizes.append(size)
    return np.concatenate(orders), np.concatenate(starts), np.concatenate(sizes)
