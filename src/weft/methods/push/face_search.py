"""Which triangles are near a point: octree, kd-tree or all of them, over the centroids of the triangles.

As in Draping on meshes, section 3.4. The octree gives the triangles whose centroid is in the same cell as the point, at
the depth whose cells are just larger than `close`; what lies behind a wall of that cell is missed. The kd-tree gives
the triangles of all leaves that come within its radius of the point along every axis; with a radius of `close` plus the
largest distance from a centroid to its corners that is every triangle that `brute` would find near.

Each of them is a walk over ranges of one list of triangles, so that a kernel has the same loop for all. All of it is
built on the device, and the host knows no number of it.
"""

import numpy as np
import warp as wp

from weft.runtime import launch
from weft.runtime.cooperative import BLOCK, CooperativeLauncher, barrier_between, clusterable, grid_barrier
from weft.runtime.partition import partition_begin, partition_end, partition_step
from weft.runtime.reduction import reduce_max

wp.set_module_options({"enable_backward": False})

BRUTE, OCTREE, KDTREE = range(3)
KINDS = {"brute": BRUTE, "octree": OCTREE, "kdtree": KDTREE}
# triangles in a leaf of the kd-tree, at most
LEAF = 8
# cells along an axis of the octree, at most: three times 20 bits fit into a key
MOST_CELLS = 1 << 20
# what `measures` of an index holds: the corner of the octree's root first
SCALE, CELLS, RADIUS = 3, 4, 5
# bits of a coordinate in a key
COORDINATE_BITS = 33


@wp.struct
class FaceIndex:
    """A list of triangles in the order of a search, and what finds ranges of it."""

    kind: int
    count: int
    order: wp.array[int]
    """the triangles, then as much room again for sorting"""
    keys: wp.array[wp.int64]
    """octree: the cell of each triangle, ascending, then room likewise"""
    measures: wp.array[wp.float64]
    """octree: corner of the root, cells a metre, cells along an axis; kd-tree: how far it looks along each axis"""
    levels: int
    """kd-tree: levels below the root"""
    node_low: wp.array[wp.vec3d]
    """kd-tree: the box of the centroids of each node; the children of node k are 2k and 2k + 1, the root is 1"""
    node_high: wp.array[wp.vec3d]


@wp.func
def cell_of(index: FaceIndex, p: wp.vec3d) -> wp.int64:
    """The octree's cell of a point, or -1 outside the root."""
    key = wp.int64(0)
    cells = index.measures[CELLS]
    for axis in range(3):
        place = wp.floor((p[axis] - index.measures[axis]) * index.measures[SCALE])
        if place < wp.float64(0.0) or place >= cells:
            return wp.int64(-1)
        key = key * wp.int64(cells) + wp.int64(place)
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
def start_of(node: int, count: int, level: int) -> int:
    """Where the triangles of a node of a level begin, counted from the first of the level."""
    return int((wp.int64(node) * wp.int64(count)) >> wp.int64(level))


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
    radius = index.measures[RADIUS]
    node = int(place)
    begin = int(0)
    end = int(0)
    while node > 0 and end == 0:
        low = index.node_low[node]
        high = index.node_high[node]
        hit = bool(True)
        for axis in range(3):
            if p[axis] < low[axis] - radius or p[axis] > high[axis] + radius:
                hit = False
        if hit and node < leaves:
            node *= 2
        else:
            if hit:
                begin = start_of(node - leaves, index.count, index.levels)
                end = start_of(node - leaves + 1, index.count, index.levels)
            # on to the next node of the walk: up while this is a right child, then one to the right
            while node % 2 == 1:
                node = node // 2
            if node > 0:
                node += 1
    return wp.vec3i(begin, end, node)


@wp.func
def within_reach(index: FaceIndex, p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> bool:
    """Whether a triangle is worth a look from a point: a kd-tree, whose leaves have some beyond its radius, knows."""
    if index.kind != 2:
        return True
    third = wp.float64(1.0) / wp.float64(3.0)
    d = p - third * (a + b + c)
    radius = index.measures[RADIUS]
    return wp.abs(d[0]) <= radius and wp.abs(d[1]) <= radius and wp.abs(d[2]) <= radius


@wp.func
def centroid_of(f: wp.vec3i, x: wp.array[wp.vec3d]) -> wp.vec3d:
    """The middle of a triangle."""
    return (x[f[0]] + x[f[1]] + x[f[2]]) / wp.float64(3.0)


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def key_cells_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    index: FaceIndex,
    numbers: wp.array[int],
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    close: wp.float64,
    bounds: wp.array[wp.float64],
):
    """The root of an octree and the cell of each triangle in it, to be sorted.

    `bounds` are the largest coordinates of centroids, and what the smallest ones are less than zero.
    """
    t = first + wp.tid()
    if t == 0:
        for k in range(6):
            bounds[k] = -wp.float64(wp.inf)
    grid_barrier(arrivals)
    begin = partition_begin(t, threads, index.count)
    end = partition_end(t, threads, index.count)
    step = partition_step(threads, index.count)
    low = wp.vec3d(wp.float64(wp.inf))
    high = -low
    for k in range(begin, end, step):
        c = centroid_of(faces[numbers[k]], x)
        low = wp.min(low, c)
        high = wp.max(high, c)
    for axis in range(3):
        reduce_max(bounds, axis, high[axis])
        reduce_max(bounds, 3 + axis, -low[axis])
    grid_barrier(arrivals)
    # room for a point that is close to the outermost triangles
    side = wp.float64(0.0)
    for axis in range(3):
        low[axis] = -bounds[3 + axis] - close
        side = wp.max(side, bounds[axis] + close - low[axis])
    cells = wp.float64(1.0)
    while cells < wp.float64(MOST_CELLS) and wp.float64(2.0) * cells <= side / close:
        cells = wp.float64(2.0) * cells
    scale = cells / side
    for k in range(begin, end, step):
        c = centroid_of(faces[numbers[k]], x)
        key = wp.int64(0)
        for axis in range(3):
            place = wp.clamp(wp.floor((c[axis] - low[axis]) * scale), wp.float64(0.0), cells - wp.float64(1.0))
            key = key * wp.int64(cells) + wp.int64(place)  # type: ignore[arg-type]
        index.keys[k] = key
        index.order[k] = numbers[k]
    if t == 0:
        for axis in range(3):
            index.measures[axis] = low[axis]
        index.measures[SCALE] = scale
        index.measures[CELLS] = cells


@wp.kernel
def key_level(first: int, level: int, index: FaceIndex, faces: wp.array[wp.vec3i], x: wp.array[wp.vec3d]):
    """Keys that sort the triangles of each node of a level of a kd-tree along its axis."""
    i = first + wp.tid()
    node = int((wp.int64(i) << wp.int64(level)) / wp.int64(index.count))
    while start_of(node + 1, index.count, level) <= i:
        node += 1
    c = centroid_of(faces[index.order[i]], x)
    # the bits of a float in an order that integers have, too
    bits = wp.int64(wp.cast(wp.float32(c[level % 3]), int))
    if bits < wp.int64(0):
        bits = wp.int64(-2147483648) - bits
    index.keys[i] = (wp.int64(node) << wp.int64(COORDINATE_BITS)) + bits + wp.int64(4294967296)


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def box_nodes_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    index: FaceIndex,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    margin: wp.float64,
    reach: wp.array[wp.float64],
):
    """The boxes of a kd-tree from the leaves up, and how far it looks: the margin and the farthest corner of a triangle.

    `reach` is that squared; it is 0 before and after.
    """
    t = first + wp.tid()
    leaves = 1 << index.levels
    far = wp.float64(0.0)
    for leaf in range(
        partition_begin(t, threads, leaves), partition_end(t, threads, leaves), partition_step(threads, leaves)
    ):
        low = wp.vec3d(wp.float64(wp.inf))
        high = -low
        for k in range(start_of(leaf, index.count, index.levels), start_of(leaf + 1, index.count, index.levels)):
            f = faces[index.order[k]]
            c = centroid_of(f, x)
            low = wp.min(low, c)
            high = wp.max(high, c)
            for corner in range(3):
                far = wp.max(far, wp.length_sq(x[f[corner]] - c))
        index.node_low[leaves + leaf] = low
        index.node_high[leaves + leaf] = high
    reduce_max(reach, 0, far)
    grid_barrier(arrivals)
    if t == 0:
        index.measures[RADIUS] = wp.float64(1.000001) * (margin + wp.sqrt(reach[0]))
        reach[0] = wp.float64(0.0)
    size = leaves // 2
    while size > 0:
        for node in range(
            size + partition_begin(t, threads, size),
            size + partition_end(t, threads, size),
            partition_step(threads, size),
        ):
            index.node_low[node] = wp.min(index.node_low[2 * node], index.node_low[2 * node + 1])
            index.node_high[node] = wp.max(index.node_high[2 * node], index.node_high[2 * node + 1])
        if size > 1:
            barrier_between(arrivals, size, size // 2)
        size = size // 2


class FaceSearch:
    """An index over triangles that can be built again as they move."""

    def __init__(self, name: str, numbers: np.ndarray, device: wp.DeviceLike = "cpu") -> None:
        """`numbers` are what the index calls the triangles."""
        self.device = wp.get_device(device)
        count = len(numbers)
        self.kind, self.count = KINDS[name], count
        self.index = FaceIndex()
        self.index.kind, self.index.count = self.kind, count
        levels = max(0, (max(count - 1, 0) // LEAF).bit_length())
        while levels and (count >> levels) == 0:
            levels -= 1
        self.index.levels = levels
        # a sort needs as much room again
        room = max(2 * count, 1)
        order = np.zeros(room, np.int32)
        order[:count] = numbers
        self.index.order = wp.array(order, dtype=int, device=device)
        self.index.keys = wp.zeros(room, dtype=wp.int64, device=device)
        self.index.measures = wp.zeros(RADIUS + 1, dtype=wp.float64, device=device)
        for name in ("node_low", "node_high"):
            setattr(self.index, name, wp.zeros(2 << levels, dtype=wp.vec3d, device=device))
        self._numbers = wp.array(order[:count], dtype=int, device=device)
        self._largest = wp.zeros(6, dtype=wp.float64, device=device)
        self._cooperative = CooperativeLauncher(device)

    def sort(self, faces: wp.array, x: wp.array) -> None:
        """Halve a kd-tree at the median along x, y and z in turn, one level after the other.

        It stays right while triangles move, only its boxes grow. `faces` and `x` are as for `build`.
        """
        if self.kind != KDTREE:
            return
        for level in range(self.index.levels):
            launch(key_level, self.count, [level, self.index, faces, x], device=self.device)
            bits = COORDINATE_BITS + level
            wp.utils.radix_sort_pairs(self.index.keys, self.index.order, self.count, end_bit=bits)

    def build(self, faces: wp.array, x: wp.array, close: float, slack: float = 0.0) -> None:
        """Look at triangles, given by their vertices, to find pairs nearer than `close` while they move by `slack` at most."""
        if self.count == 0 or self.kind == BRUTE:
            return
        if self.kind == KDTREE:
            inputs = [self.index, faces, x, close + slack, self._largest]
            self._cooperative.launch(box_nodes_together, 1 << self.index.levels, inputs, work=self.count)
            return
        inputs = [self.index, self._numbers, faces, x, close, self._largest]
        self._cooperative.launch(key_cells_together, self.count, inputs)
        self._sort_cells()

    def _sort_cells(self) -> None:
        """Bring an octree's triangles in the order of their cells; what is in a cell stays in its order."""
        keys, order = self.index.keys, self.index.order
        if not self.device.is_cpu:
            wp.utils.radix_sort_pairs(keys, order, self.count)
            return
        # the same order, ten times as fast for the few hundred triangles of a small cloth
        places = np.argsort(keys.numpy()[: self.count], kind="stable")
        for array in (keys, order):
            values = array.numpy()[: self.count]
            values[:] = values[places]
