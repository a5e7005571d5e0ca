"""A kd-tree over the centroids of the triangles.

A pair is listed when the centroid comes within the margin of the vertex along every axis, the boxes of their motions
taken. What touches a triangle farther than the margin from its centroid is missed: split large triangles.
"""

from typing import Any

import warp as wp

from weft.broad_phase.boxes import Box, load_box, new_planes, reach, store_box, swept_box, unite
from weft.broad_phase.centroids import CentroidSearch, centroid, may_pair
from weft.broad_phase.list_kernels import row_start, sort_row
from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# centroids in a leaf, at most
LEAF = 8


@wp.kernel
def _box_centroids(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    vertex_ids: wp.array[int],
    faces: wp.array[wp.vec3i],
    frame: wp.array[wp.vec3d],
    growth: wp.float64,
    boxes: wp.array2d[wp.float32],
    order: wp.array[int],
):
    i = first + wp.tid()
    face = faces[i]
    store_box(boxes, i, swept_box(centroid(start, vertex_ids, face), centroid(end, vertex_ids, face), frame, growth))
    order[i] = i


@wp.kernel
def _key_level(
    first: int,
    level: int,
    count: int,
    boxes: wp.array2d[wp.float32],
    order: wp.array[int],
    keys: wp.array[wp.int64],
):
    # by node, then by coordinate: node k of a level holds the places from count k / 2^level on
    i = first + wp.tid()
    node = ((wp.int64(i) << wp.int64(level)) + (wp.int64(1) << wp.int64(level)) - wp.int64(1)) / wp.int64(count)
    while (node * wp.int64(count)) >> wp.int64(level) > wp.int64(i):
        node -= wp.int64(1)
    while ((node + wp.int64(1)) * wp.int64(count)) >> wp.int64(level) <= wp.int64(i):
        node += wp.int64(1)
    f = order[i]
    axis = level % 3
    # the bits of a float in an order that integers have, too
    bits = wp.int64(wp.cast(boxes[axis, f] - boxes[axis + 3, f], int))
    if bits < wp.int64(0):
        bits = wp.int64(-2147483648) - bits
    keys[i] = (node << wp.int64(33)) + bits + wp.int64(4294967296)


@wp.kernel
def _box_nodes(
    first: int,
    level: int,
    leaves: int,
    count: int,
    boxes: wp.array2d[wp.float32],
    order: wp.array[int],
    nodes: wp.array[Box],
):
    # nodes of one level: leaves hold a run of centroids, the others their two children
    i = first + wp.tid()
    node = (1 << level) + i
    if node >= leaves:
        begin = int((wp.int64(i) * wp.int64(count)) >> wp.int64(level))
        end = int((wp.int64(i + 1) * wp.int64(count)) >> wp.int64(level))
        box = load_box(boxes, order[begin])
        for k in range(begin + 1, end):
            box = unite(box, load_box(boxes, order[k]))
        nodes[node] = box
    else:
        nodes[node] = unite(nodes[2 * node], nodes[2 * node + 1])


@wp.func
def _within(box: Box, limit: Box) -> bool:
    result = bool(True)
    for k in range(6):
        result = result and box[k] <= limit[k]
    return result


@wp.kernel
def _find_in_tree(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[int],
    counts: wp.array[int],
    by_face: int,
    item_boxes: wp.array2d[wp.float32],
    levels: int,
    count: int,
    boxes: wp.array2d[wp.float32],
    order: wp.array[int],
    nodes: wp.array[Box],
    item_body: wp.array[int],
    faces: wp.array[wp.vec3i],
    face_body: wp.array[int],
    body_pairs: wp.array2d[int],
    share_vertex: int,
):
    i = first + wp.tid()
    item = i
    if chosen == 1:
        item = items[i]
    start = row_start(chosen, item, starts, capacity)
    limit = reach(load_box(item_boxes, item))
    leaves = 1 << levels
    n = int(0)
    node = int(1)
    while node > 0 and n <= stop:
        hit = _within(nodes[node], limit)
        if hit and node < leaves:
            node *= 2
        else:
            if hit:
                leaf = wp.int64(node - leaves)
                begin = int((leaf * wp.int64(count)) >> wp.int64(levels))
                end = int(((leaf + wp.int64(1)) * wp.int64(count)) >> wp.int64(levels))
                for k in range(begin, end):
                    f = order[k]
                    if _within(load_box(boxes, f), limit) and may_pair(
                        by_face, item, f, item_body, faces, face_body, body_pairs, share_vertex
                    ):
                        if n < capacity:
                            found[start + wp.int64(n)] = f
                        n += 1
            # on to the next node of the walk: up while this is a right child, then one to the right
            while node % 2 == 1:
                node = node // 2
            if node > 0:
                node += 1
    if n <= capacity:
        sort_row(found, start, n)
    counts[item] = n


class KdTree(CentroidSearch):
    """A balanced kd-tree, split at the median of the centroids along x, y and z in turn."""

    name = "kdtree"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, **options)
        count, device = len(self.patches.face_ids), self.device
        self._levels = max(0, (max(count - 1, 0) // LEAF).bit_length())
        self._boxes = new_planes(count, device)
        self._nodes = wp.empty(2 << self._levels, dtype=Box, device=device)
        self._keys = wp.empty(2 * count, dtype=wp.int64, device=device)
        self._order = wp.empty(2 * count, dtype=int, device=device)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        patches, device = self.patches, self.device
        count = len(patches.face_ids)
        inputs = [start, end, patches.vertex_ids, patches.faces, self.boxes.frame, 0.5 * margin]
        launch(_box_centroids, count, [*inputs, self._boxes, self._order], device=device)
        for level in range(self._levels):
            launch(_key_level, count, [level, count, self._boxes, self._order, self._keys], device=device)
            wp.utils.radix_sort_pairs(self._keys, self._order, count)
        for level in reversed(range(self._levels + 1)):
            inputs = [level, 1 << self._levels, count, self._boxes, self._order, self._nodes]
            launch(_box_nodes, 1 << level, inputs, device=device)

    def _find_triangles(self, count: int, slots: list[Any], by_face: bool, filter: list[Any]) -> None:
        boxes = self._boxes if by_face else self.boxes.vertices
        inputs = [*slots, int(by_face), boxes, self._levels, len(self.patches.face_ids)]
        inputs += [self._boxes, self._order, self._nodes, *filter]
        launch(_find_in_tree, count, inputs, device=self.device, grain=64)
