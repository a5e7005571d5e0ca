"""Triangles that intersect at the end of a step: their vertices are held where they were at the start of the step.

This is the older avoidance that Liu, Ko and Chang 1998 compare with (their S1). Used on all pairs it makes cloth stick, so
that `boxes` uses it for neighbouring triangles alone, which have no plane between them. It always ends: at the latest when
all vertices are held.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.methods.boxes.elastic_kernels import hold_at
from weft.methods.boxes.elastic_surface import Limits
from weft.runtime import launch
from weft.runtime.buffers import read
from weft.runtime.compaction import exclusive_scan
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# fraction of the triangle's size below which a distance counts as zero: far more than the rounding of float64
ZERO_DISTANCE = wp.constant(wp.float64(1e-12))


@wp.func
def has(f: wp.vec3i, vertex: int) -> bool:
    """Whether a triangle has a vertex."""
    return f[0] == vertex or f[1] == vertex or f[2] == vertex


@wp.func
def separates(axis: Any, u: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, tolerance: wp.float64) -> bool:
    """Whether an axis separates segment 0u from triangle abc."""
    da = wp.dot(axis, a)
    db = wp.dot(axis, b)
    dc = wp.dot(axis, c)
    du = wp.dot(axis, u)
    far = tolerance * wp.length(axis)
    low = wp.min(wp.min(da, db), dc)
    high = wp.max(wp.max(da, db), dc)
    return low > wp.max(du, wp.float64(0.0)) + far or high < wp.min(du, wp.float64(0.0)) - far


@wp.func
def segment_intersects(p: wp.vec3d, q: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> bool:
    """Whether segment pq intersects triangle abc, by the separating axis theorem; within the tolerance it does."""
    u = q - p
    ra = a - p
    rb = b - p
    rc = c - p
    tolerance = ZERO_DISTANCE * wp.max(wp.max(wp.length(u), wp.length(ra)), wp.max(wp.length(rb), wp.length(rc)))
    n = wp.cross(rb - ra, rc - ra)
    if separates(n, u, ra, rb, rc, tolerance) or separates(wp.cross(n, u), u, ra, rb, rc, tolerance):
        return False
    for k in range(3):
        e = rb - ra
        if k == 1:
            e = rc - rb
        if k == 2:
            e = ra - rc
        if separates(wp.cross(u, e), u, ra, rb, rc, tolerance) or separates(wp.cross(n, e), u, ra, rb, rc, tolerance):
            return False
    return True


@wp.func
def edges_intersect(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> bool:
    """Whether an edge of f without a vertex of g intersects g."""
    for k in range(3):
        a = f[k]
        b = f[(k + 1) % 3]
        if not has(g, a) and not has(g, b) and segment_intersects(x[a], x[b], x[g[0]], x[g[1]], x[g[2]]):
            return True
    return False


@wp.func
def boxes_overlap(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> bool:
    """Whether the boxes of two triangles have a point in common."""
    low_f = wp.min(wp.min(x[f[0]], x[f[1]]), x[f[2]])
    high_f = wp.max(wp.max(x[f[0]], x[f[1]]), x[f[2]])
    low_g = wp.min(wp.min(x[g[0]], x[g[1]]), x[g[2]])
    high_g = wp.max(wp.max(x[g[0]], x[g[1]]), x[g[2]])
    return (
        low_f[0] <= high_g[0]
        and low_g[0] <= high_f[0]
        and low_f[1] <= high_g[1]
        and low_g[1] <= high_f[1]
        and low_f[2] <= high_g[2]
        and low_g[2] <= high_f[2]
    )


@wp.kernel
def hold_intersecting(
    first: int,
    pairs: wp.array[wp.vec2i],
    last: int,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    held: wp.array[int],
    found: wp.array[int],
):
    """Hold the vertices of pairs of triangles, both before `last`, that intersect beyond the vertices that they share.

    found: 1 if there are such pairs, 1 if one of their vertices was not held before. All threads that write write 1.
    """
    i = first + wp.tid()
    p = pairs[i]
    if p[0] >= last or p[1] >= last:
        return
    f = faces[p[0]]
    g = faces[p[1]]
    if boxes_overlap(f, g, x) and (edges_intersect(f, g, x) or edges_intersect(g, f, x)):
        found[0] = 1
        for k in range(6):
            v = f[k % 3]
            if k >= 3:
                v = g[k % 3]
            if held[v] == 0:
                held[v] = 1
                found[1] = 1


@wp.kernel
def hold_vertices(
    first: int,
    held: wp.array[int],
    start: wp.array[wp.vec3d],
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
):
    """Limit held vertices to their positions at the start of the step."""
    i = first + wp.tid()
    if held[i] != 0:
        hold_at(i, start[i], lower, upper)


class Intersecting(NamedTuple):
    """Whether triangles intersect, and whether one of their vertices was not held before."""

    some: bool
    new: bool


class HeldTriangles:
    """The vertices that are held in a step, since their triangles would intersect others."""

    def __init__(self, surface: Surface, last: int) -> None:
        """Only triangles before the index `last` are tested."""
        self.surface, self.last = surface, last
        self._held, self._places = (wp.zeros(surface.vertex_count, dtype=int, device=surface.device) for _ in range(2))
        self._found = wp.zeros(2, dtype=int, device=surface.device)
        self._any = False

    def reset(self) -> None:
        """Release all vertices, at the start of a step."""
        if self._any:
            self._held.zero_()
        self._any = False

    def find(self, x: wp.array, *lists: wp.array) -> Intersecting:
        """Find the pairs of some lists that intersect at x, and hold their vertices."""
        self._found.zero_()
        for pairs in lists:
            inputs = [pairs, self.last, self.surface.faces, x, self._held, self._found]
            launch(hold_intersecting, len(pairs), inputs, device=self.surface.device, grain=512)
        some, new = (bool(flag) for flag in read((self._found, 0, 2))[0])
        self._any |= some
        return Intersecting(some, new)

    def write(self, start: wp.array, limits: Limits) -> None:
        """Limit the held vertices to their positions at the start."""
        if self._any:
            inputs = [self._held, start, limits.lower, limits.upper]
            launch(hold_vertices, limits.lower.shape[1], inputs, device=self.surface.device)

    @property
    def count(self) -> int:
        """How many vertices are held."""
        return exclusive_scan(self._held, self._places) if self._any else 0


def near_pairs(surface: Surface, faces: int) -> np.ndarray:
    """Pairs of the first `faces` triangles that share a vertex or that an edge joins, (k, 2), smaller index first.

    Two triangles that share an edge are left out: they intersect in it alone, or are folded exactly flat.
    """
    from scipy import sparse

    corners = surface.faces.numpy().reshape(-1, 3)[:faces]
    edges = surface.edges.numpy().reshape(-1, 2)
    n = surface.vertex_count
    of_face = sparse.csr_matrix((np.ones(3 * faces), (np.repeat(np.arange(faces), 3), corners.ravel())), (faces, n))
    steps = sparse.csr_matrix((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), (n, n))
    reach = of_face @ (steps + steps.T + sparse.identity(n, format="csr")) @ of_face.T
    shared = (of_face @ of_face.T).tocoo()
    beside = shared.row.astype(np.int64)[shared.data >= 2] * faces + shared.col[shared.data >= 2]
    pairs = sparse.triu(reach, k=1).tocoo()
    keys = pairs.row.astype(np.int64) * faces + pairs.col
    keys = np.sort(keys[~np.isin(keys, beside)])
    return np.stack(np.divmod(keys, faces), axis=1).astype(np.int32)
