"""Which triangles are near a point: octree, kd-tree or all of them, over the centroids of the triangles.

As in Draping on meshes, section 3.4. The octree gives the triangles whose centroid is in the same cell as the point, at
the depth whose cells are just larger than `close`; what lies behind a wall of that cell is missed. The kd-tree gives
the triangles of all leaves that come within its radius of the point along every axis; with a radius of `close` plus the
largest distance from a centroid to its corners that is every triangle that `brute` would find near.

Each of them is a walk over ranges of one list of triangles, so that a kernel has the same loop for all.
"""

import numpy as np
import warp as wp

wp.set_module_options({"enable_backward": False})

BRUTE, OCTREE, KDTREE = range(3)
KINDS = {"brute": BRUTE, "octree": OCTREE, "kdtree": KDTREE}
# triangles in a leaf of the kd-tree, at most
LEAF = 8
# cells along an axis of the octree, at most: three times 20 bits fit into a key
MOST_CELLS = 1 << 20


@wp.struct
class FaceIndex:
    """A list of triangles in the order of a search, and what finds ranges of it."""

    kind: int
    count: int
    order: wp.array[int]
    low: wp.vec3d
    """octree: corner of the root"""
    scale: wp.float64
    """octree: cells a metre"""
    cells: int
    """octree: cells along an axis"""
    keys: wp.array[wp.int64]
    """octree: the cell of each triangle, ascending"""
    levels: int
    """kd-tree: levels below the root"""
    radius: wp.float64
    """kd-tree: how far it looks along each axis"""
    node_low: wp.array[wp.vec3d]
    """kd-tree: the box of the centroids of each node; the children of node k are 2k and 2k + 1, the root is 1"""
    node_high: wp.array[wp.vec3d]


@wp.func
def cell_of(index: FaceIndex, p: wp.vec3d) -> wp.int64:
    """The octree's cell of a point, or -1 outside the root."""
    key = wp.int64(0)
    for axis in range(3):
        place = wp.floor((p[axis] - index.low[axis]) * index.scale)
        if place < wp.float64(0.0) or place >= wp.float64(index.cells):
            return wp.int64(-1)
        key = key * wp.int64(index.cells) + wp.int64(place)
    return key


@wp.func
def first_at_least(keys: wp.array[wp.int64], count: int, key: wp.int64) -> int:
    """Where a key would stand in an ascending list."""
    low = int(0)
    high = int(count)
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low


@wp.func
def next_range(index: FaceIndex, p: wp.vec3d, place: int) -> wp.vec3i:
    """From a place in the walk, 1 at first: a range of the order to look at, and the next place, 0 when it is over."""
    if index.kind == 0:
        return wp.vec3i(0, index.count, 0)
    if index.kind == 1:
        key = cell_of(index, p)
        if key < wp.int64(0):
            return wp.vec3i(0, 0, 0)
        begin = first_at_least(index.keys, index.count, key)
        end = first_at_least(index.keys, index.count, key + wp.int64(1))
        return wp.vec3i(begin, end, 0)
    leaves = 1 << index.levels
    node = int(place)
    begin = int(0)
    end = int(0)
    while node > 0 and end == 0:
        low = index.node_low[node]
        high = index.node_high[node]
        hit = bool(True)
        for axis in range(3):
            if p[axis] < low[axis] - index.radius or p[axis] > high[axis] + index.radius:
                hit = False
        if hit and node < leaves:
            node *= 2
        else:
            if hit:
                begin = ((node - leaves) * index.count) >> index.levels
                end = ((node - leaves + 1) * index.count) >> index.levels
            # on to the next node of the walk: up while this is a right child, then one to the right
            while node % 2 == 1:
                node = node // 2
            if node > 0:
                node += 1
    return wp.vec3i(begin, end, node)


class FaceSearch:
    """An index over triangles that can be built again as they move."""

    def __init__(self, name: str, numbers: np.ndarray, device: wp.DeviceLike = "cpu") -> None:
        """`numbers` are what the index calls the triangles."""
        count = len(numbers)
        self.kind, self.count, self.numbers = KINDS[name], count, numbers
        self.index = FaceIndex()
        self.index.kind, self.index.count = self.kind, count
        levels = max(0, (max(count - 1, 0) // LEAF).bit_length())
        while levels and (count >> levels) == 0:
            levels -= 1
        self.index.levels = levels
        for name, size, dtype in (("order", count, int), ("keys", count, wp.int64)):
            setattr(self.index, name, wp.zeros(max(size, 1), dtype=dtype, device=device))
        for name in ("node_low", "node_high"):
            setattr(self.index, name, wp.zeros(2 << levels, dtype=wp.vec3d, device=device))
        self._set_order(np.arange(count))

    def build(self, corners: np.ndarray, close: float, slack: float = 0.0) -> None:
        """Take triangles (m, 3, 3), to look for pairs nearer than `close` while triangles move by `slack` at most."""
        if self.count == 0 or self.kind == BRUTE:
            return
        centroids = corners.mean(axis=1)
        if self.kind == OCTREE:
            self._build_octree(centroids, close)
        else:
            reach = np.sqrt(((corners - centroids[:, None]) ** 2).sum(axis=2).max())
            self._build_kdtree(centroids)
            self.index.radius = wp.float64(1.000001 * (close + reach + slack))

    def _build_octree(self, centroids: np.ndarray, close: float) -> None:
        index = self.index
        # room for a point that is close to the outermost triangles
        low, high = centroids.min(axis=0) - close, centroids.max(axis=0) + close
        side = float((high - low).max())
        index.cells = int(min(2 ** int(np.floor(np.log2(max(side / close, 1.0)))), MOST_CELLS))
        index.low, index.scale = wp.vec3d(*low), wp.float64(index.cells / side)
        places = np.clip(np.floor((centroids - low) * (index.cells / side)), 0, index.cells - 1).astype(np.int64)
        keys = (places[:, 0] * index.cells + places[:, 1]) * index.cells + places[:, 2]
        order = np.argsort(keys, kind="stable")
        index.keys.assign(keys[order])
        self._set_order(order)

    def _build_kdtree(self, centroids: np.ndarray) -> None:
        """Halve at the median along x, y and z in turn, one level after the other."""
        index, count, levels = self.index, self.count, self.index.levels
        order = np.arange(count)
        for level in range(levels):
            starts = (np.arange(1 << level) * count) >> level
            node = np.repeat(np.arange(1 << level), np.diff([*starts, count]))
            order = order[np.lexsort((centroids[order, level % 3], node))]
        low, high = np.zeros((2 << levels, 3)), np.zeros((2 << levels, 3))
        for level in range(levels + 1):
            starts = (np.arange(1 << level) * count) >> level
            low[1 << level : 2 << level] = np.minimum.reduceat(centroids[order], starts)
            high[1 << level : 2 << level] = np.maximum.reduceat(centroids[order], starts)
        self._set_order(order)
        index.node_low.assign(low)
        index.node_high.assign(high)

    def _set_order(self, order: np.ndarray) -> None:
        if self.count:
            self.index.order.assign(self.numbers[order].astype(np.int32))
