# mypy: disable-error-code="arg-type"
"""Which pairs of triangles around a vertex can cross: none where their fan is nearly flat, as it is nearly everywhere.

Triangles that share one vertex have boxes that overlap, so that a broad phase would list all of them, three times as many as
other pairs. But the triangles of a fan that projects onto a plane without overlapping meet at their vertex alone.
"""

import numpy as np
import warp as wp

from weft.mesh.topology import Topology
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scan

wp.set_module_options({"enable_backward": False})

# sine of the angle of each projected triangle in a flat fan, at least: far more than rounding and the noise
LEAST_SINE = wp.constant(wp.float64(1e-3))
# edges in a flat fan are so many times longer than the noise can move vertices
LEAST_LENGTH = wp.constant(wp.float64(1e6))

# what is known of a vertex: its body does not meet itself, an edge at it is a boundary, or its triangles are around it
APART, OPEN, CLOSED = (wp.constant(wp.int8(number)) for number in range(3))


@wp.struct
class FanArrays:
    """The triangles around each vertex."""

    faces: wp.array[wp.vec3i]
    offsets: wp.array[int]
    around: wp.array[int]
    kinds: wp.array[wp.int8]
    """of each vertex: APART, OPEN or CLOSED"""


@wp.func
def spoke(x: wp.array[wp.vec3d], face: wp.vec3i, v: int, side: int) -> wp.vec3d:
    """The edge of a triangle from its vertex v to the next corner (side 1) or the one after it (2)."""
    place = int(0)
    for k in range(3):
        if face[k] == v:
            place = k
    return x[face[(place + side) % 3]] - x[v]


@wp.func
def is_flat(fans: FanArrays, x: wp.array[wp.vec3d], v: int, slack: wp.float64) -> bool:
    """Whether the triangles around v certainly project onto a plane without overlapping, with the noise added to all vertices.

    All of them are seen from the same side in the direction of their mean normal, and go around v once.
    """
    if fans.kinds[v] != CLOSED:
        return False
    mean = wp.vec3d()
    middle = wp.vec3d()
    for k in range(fans.offsets[v], fans.offsets[v + 1]):
        face = fans.faces[fans.around[k]]
        one = spoke(x, face, v, 1)
        other = spoke(x, face, v, 2)
        mean += wp.cross(one, other)
        if k == fans.offsets[v]:
            middle = one + other
    up = wp.normalize(mean)
    # a direction in the first triangle is in no other one
    across = wp.cross(up, middle)
    size = wp.length(middle)
    shortest = (LEAST_LENGTH * slack) * (LEAST_LENGTH * slack)
    for k in range(fans.offsets[v], fans.offsets[v + 1]):
        face = fans.faces[fans.around[k]]
        one = spoke(x, face, v, 1)
        other = spoke(x, face, v, 2)
        one_square = wp.dot(one, one)
        other_square = wp.dot(other, other)
        if one_square < shortest or other_square < shortest:
            return False
        if wp.dot(wp.cross(one, other), up) < LEAST_SINE * wp.sqrt(one_square * other_square):
            return False
        if k > fans.offsets[v]:
            margin = LEAST_SINE * size
            before = wp.dot(across, one) < margin * wp.sqrt(one_square)
            if before and wp.dot(across, other) > -margin * wp.sqrt(other_square):
                return False
    return True


@wp.func
def share_one(one: wp.vec3i, other: wp.vec3i) -> bool:
    """Whether two triangles with a common vertex have no other one in common."""
    number = int(0)
    for j in range(3):
        for k in range(3):
            if one[j] == other[k]:
                number += 1
    return number == 1


@wp.kernel
def count_fan_pairs(first: int, fans: FanArrays, x: wp.array[wp.vec3d], slack: wp.float64, counts: wp.array[int]):
    """How many pairs of triangles around each vertex may cross."""
    v = first + wp.tid()
    number = int(0)
    if fans.kinds[v] != APART and not is_flat(fans, x, v, slack):
        for j in range(fans.offsets[v], fans.offsets[v + 1]):
            for k in range(j + 1, fans.offsets[v + 1]):
                if share_one(fans.faces[fans.around[j]], fans.faces[fans.around[k]]):
                    number += 1
    counts[v] = number


@wp.kernel
def list_fan_pairs(
    first: int,
    fans: FanArrays,
    base: int,
    counts: wp.array[int],
    places: wp.array[int],
    pairs: wp.array[wp.vec2i],
):
    """Write the pairs that may cross around each vertex behind the first `base` pairs."""
    v = first + wp.tid()
    if counts[v] > 0:
        place = base + places[v]
        for j in range(fans.offsets[v], fans.offsets[v + 1]):
            for k in range(j + 1, fans.offsets[v + 1]):
                one = fans.around[j]
                other = fans.around[k]
                if share_one(fans.faces[one], fans.faces[other]):
                    pairs[place] = wp.vec2i(one, other)
                    place += 1


class Fans:
    """The pairs of triangles around the vertices of a mesh; those of vertices that are `apart` (n,) do not count."""

    def __init__(self, topology: Topology, apart: np.ndarray, device: wp.Device) -> None:
        self.device = device
        arrays = FanArrays()
        arrays.faces = wp.array(topology.faces, dtype=wp.vec3i, device=device)
        arrays.offsets = wp.array(topology.vertex_faces.offsets, dtype=int, device=device)
        arrays.around = wp.array(topology.vertex_faces.items, dtype=int, device=device)
        kinds = np.full(topology.vertex_count, int(CLOSED), np.int8)
        kinds[topology.edges[topology.edge_counts != 2]] = int(OPEN)
        kinds[apart] = int(APART)
        arrays.kinds = wp.array(kinds, dtype=wp.int8, device=device)
        self._arrays = arrays
        self._counts, self._places = (wp.zeros(len(kinds), dtype=int, device=device) for _ in range(2))
        self._pairs = Buffer(wp.vec2i, device)

    def add(self, pairs: wp.array, x: wp.array, slack: wp.float64) -> wp.array:
        """The pairs of triangles given, and those with a common vertex that may cross at positions x."""
        count = len(self._counts)
        launch(count_fan_pairs, count, [self._arrays, x, slack, self._counts], device=self.device)
        found, base = exclusive_scan(self._counts, self._places), len(pairs)
        if not found:
            return pairs
        both = self._pairs.at_least(base + found)
        if base:
            wp.copy(both, pairs, count=base)
        launch(list_fan_pairs, count, [self._arrays, base, self._counts, self._places, both], device=self.device)
        return both[: base + found]
