"""An octree over the centroids of the triangles.

A pair is listed when at the start of the step the vertex and the centroid lie in the same cell. The root is the least
cube around all vertices, the cells are those of the greatest depth at which their side is at least the margin (depth 20
at most). What lies close together on two sides of a wall between cells is missed.
"""

from typing import Any

import warp as wp

from weft.broad_phase.centroids import CentroidSearch, centroid, may_pair
from weft.broad_phase.list_kernels import row_start
from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# three times 20 bits fit into a key
DEEPEST = wp.constant(20)
# threads that look for the root
PARTS = 128


@wp.struct
class Root:
    """The cube of an octree and its cells at the depth that is searched."""

    low: wp.vec3d
    cells: int
    """cells an axis"""
    scale: wp.float64
    """cells a metre"""


@wp.kernel
def _bound(first: int, parts: int, start: wp.array[wp.vec3d], vertex_ids: wp.array[int], bounds: wp.array2d[wp.vec3d]):
    i = first + wp.tid()
    low = start[vertex_ids[0]]
    high = low
    for k in range(i, vertex_ids.shape[0], parts):
        p = start[vertex_ids[k]]
        low = wp.min(low, p)
        high = wp.max(high, p)
    bounds[i, 0] = low
    bounds[i, 1] = high


@wp.kernel
def _find_root(first: int, parts: int, bounds: wp.array2d[wp.vec3d], margin: wp.float64, root: wp.array[Root]):
    i = first + wp.tid()
    low = bounds[0, 0]
    high = bounds[0, 1]
    for k in range(1, parts):
        low = wp.min(low, bounds[k, 0])
        high = wp.max(high, bounds[k, 1])
    side = wp.max(high - low)
    # halve while the cells stay as large as the margin
    cells = int(1)
    for _depth in range(DEEPEST):
        if side >= margin * wp.float64(2 * cells):
            cells *= 2
    result = Root()
    result.low = low
    result.cells = cells
    result.scale = wp.float64(0.0)
    if side > wp.float64(0.0):
        result.scale = wp.float64(cells) / side
    root[i] = result


@wp.func
def _cell(position: wp.vec3d, root: Root) -> wp.int64:
    # the children of one cell stand together: the bits of the three axes are mixed
    key = wp.int64(0)
    for axis in range(3):
        place = wp.int64(wp.floor((position[axis] - root.low[axis]) * root.scale))
        place = wp.clamp(place, wp.int64(0), wp.int64(root.cells - 1))
        for bit in range(DEEPEST):
            key |= ((place >> wp.int64(bit)) & wp.int64(1)) << wp.int64(3 * bit + axis)
    return key


@wp.kernel
def _key_centroids(
    first: int,
    start: wp.array[wp.vec3d],
    vertex_ids: wp.array[int],
    faces: wp.array[wp.vec3i],
    root: wp.array[Root],
    face_keys: wp.array[wp.int64],
    keys: wp.array[wp.int64],
    order: wp.array[int],
):
    i = first + wp.tid()
    key = _cell(centroid(start, vertex_ids, faces[i]), root[0])
    face_keys[i] = key
    keys[i] = key
    order[i] = i


@wp.kernel
def _key_vertices(
    first: int,
    start: wp.array[wp.vec3d],
    vertex_ids: wp.array[int],
    root: wp.array[Root],
    vertex_keys: wp.array[wp.int64],
):
    i = first + wp.tid()
    vertex_keys[i] = _cell(start[vertex_ids[i]], root[0])


@wp.kernel
def _find_in_cell(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[int],
    counts: wp.array[int],
    by_face: int,
    item_keys: wp.array[wp.int64],
    face_count: int,
    keys: wp.array[wp.int64],
    order: wp.array[int],
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
    key = item_keys[item]
    # the first centroid of the cell, by bisection
    low = int(0)
    high = int(face_count)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    # the sort is stable, so that the triangles of a cell ascend
    n = int(0)
    while low < face_count and keys[low] == key and n <= stop:
        f = order[low]
        if may_pair(by_face, item, f, item_body, faces, face_body, body_pairs, share_vertex):
            if n < capacity:
                found[start + wp.int64(n)] = f
            n += 1
        low += 1
    counts[item] = n


class Octree(CentroidSearch):
    """Centroids sorted by the octree's cells; a vertex sees those of its own cell."""

    name = "octree"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, **options)
        count, device = len(self.patches.face_ids), self.device
        self._bounds = wp.empty((PARTS, 2), dtype=wp.vec3d, device=device)
        self._root = wp.empty(1, dtype=Root, device=device)
        self._vertex_keys = wp.empty(len(self.patches.vertex_ids), dtype=wp.int64, device=device)
        self._face_keys = wp.empty(count, dtype=wp.int64, device=device)
        # radix sort wants room for twice the items
        self._keys = wp.empty(2 * count, dtype=wp.int64, device=device)
        self._order = wp.empty(2 * count, dtype=int, device=device)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        patches, device = self.patches, self.device
        launch(_bound, PARTS, [PARTS, start, patches.vertex_ids, self._bounds], device=device)
        launch(_find_root, 1, [PARTS, self._bounds, margin, self._root], device=device)
        inputs = [start, patches.vertex_ids, self._root, self._vertex_keys]
        launch(_key_vertices, len(patches.vertex_ids), inputs, device=device)
        inputs = [start, patches.vertex_ids, patches.faces, self._root, self._face_keys, self._keys, self._order]
        launch(_key_centroids, len(patches.face_ids), inputs, device=device)
        wp.utils.radix_sort_pairs(self._keys, self._order, len(patches.face_ids))

    def _find_triangles(self, count: int, slots: list[Any], by_face: bool, filter: list[Any]) -> None:
        keys = self._face_keys if by_face else self._vertex_keys
        inputs = [*slots, int(by_face), keys, len(self.patches.face_ids), self._keys, self._order, *filter]
        launch(_find_in_cell, count, inputs, device=self.device, grain=64)
