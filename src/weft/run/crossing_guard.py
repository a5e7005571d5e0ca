# mypy: disable-error-code="arg-type,operator"
"""Whether a frame ends with intersections: a fast test of a whole world, and exact arithmetic where something may cross.

Pairs of triangles without a common vertex come from a broad phase of its own, at rest and without margin: those whose boxes
overlap. A pair passes if the floating-point filter is certain that neither triangle crosses the other. If all pass, as they
do in nearly every frame, nothing crosses; else exact arithmetic counts.

Most pairs whose boxes overlap share a vertex: with six triangles around each vertex, nine pairs a vertex share that vertex
alone. They pass at once if all these triangles face the same way, seen along some direction n, and go around the vertex
only once: then they lie side by side in that view, and no two of them meet but in the vertex and their common edges. That
takes two determinants a triangle, instead of four or more a pair. "Once" is seen in one ray r from the vertex, inside the
first triangle: no other triangle may have it. Around an inner vertex every ray is in equally many triangles, so that this
one speaks for all. At a boundary the first triangle is the one where the fan begins, and besides the fan must not end
between its beginning and the ray. Fans that are not so flat are tested pair by pair.
"""

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.broad_phase import make_broad_phase
from weft.geometry.intersection import IntersectionFinder, intersection_finder
from weft.geometry.intersection_filter import DISJOINT, cross_size, judge, shared_vertices, side_of_normal
from weft.runtime import launch
from weft.world import World

wp.set_module_options({"enable_backward": False})


@wp.func
def beside_plane(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> bool:
    """Whether the corners of triangle f that g does not have are certainly on one side of the plane of g.

    Then the two triangles have no other point in common than a corner that they share: neither crosses the other.
    """
    a = x[g[0]]
    u = x[g[1]] - a
    v = x[g[2]] - a
    normal = wp.cross(u, v)
    size = cross_size(u, v)
    found = int(0)
    for k in range(3):
        if f[k] != g[0] and f[k] != g[1] and f[k] != g[2]:
            side = side_of_normal(normal, size, x[f[k]] - a)
            if side == 0 or side * found < 0:
                return False
            found = side
    return True


@wp.func
def may_cross(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> bool:
    """Whether an edge of triangle f may cross triangle g, with which it has no vertex in common."""
    a = x[g[0]]
    b = x[g[1]]
    c = x[g[2]]
    for k in range(3):
        p = f[k]
        q = f[(k + 1) % 3]
        if p != g[0] and p != g[1] and p != g[2] and q != g[0] and q != g[1] and q != g[2]:
            if judge(x[p], x[q], a, b, c) != DISJOINT:
                return True
    return False


@wp.func
def pass_each_other(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> bool:
    """Whether certainly neither of two triangles crosses the other."""
    if beside_plane(f, g, x) or beside_plane(g, f, x):
        return True
    return not may_cross(f, g, x) and not may_cross(g, f, x)


@wp.struct
class Fans:
    """Of each chosen vertex the opposite sides (a, b) of its triangles, such that (vertex, a, b) goes around the triangle."""

    vertices: wp.array[int]
    offsets: wp.array[int]
    sides: wp.array[wp.vec2i]
    faces: wp.array[int]
    ends: wp.array[int]
    """the last vertex of a fan at a boundary; -1: the fan is closed; -2: neither, which nothing is known of"""


@wp.func
def is_flat_fan(fans: Fans, i: int, x: wp.array[wp.vec3d]) -> bool:
    """Whether the triangles around a vertex certainly lie side by side in some view (see the module)."""
    end = fans.ends[i]
    if end == -2:
        return False
    centre = x[fans.vertices[i]]
    begin = fans.offsets[i]
    stop = fans.offsets[i + 1]
    n = wp.vec3d()
    for k in range(begin, stop):
        n += wp.cross(x[fans.sides[k][0]] - centre, x[fans.sides[k][1]] - centre)
    r = (x[fans.sides[begin][0]] - centre) + (x[fans.sides[begin][1]] - centre)
    # which side of the plane through n and r
    w = wp.cross(n, r)
    size_w = cross_size(n, r)
    for k in range(begin, stop):
        a = x[fans.sides[k][0]] - centre
        b = x[fans.sides[k][1]] - centre
        if side_of_normal(wp.cross(a, b), cross_size(a, b), n) != 1:
            return False
        before = side_of_normal(w, size_w, a)
        behind = side_of_normal(w, size_w, b)
        if k == begin:
            if before != -1 or behind != 1:
                return False
        elif before != 1 and behind != -1:
            return False
    if end >= 0:
        a = x[fans.sides[begin][0]] - centre
        e = x[end] - centre
        turned = wp.cross(n, a)
        if side_of_normal(w, size_w, e) != 1 and side_of_normal(turned, cross_size(n, a), e) != -1:
            return False
    return True


@wp.kernel
def check_pairs(
    first: int, pairs: wp.array[wp.vec2i], faces: wp.array[wp.vec3i], x: wp.array[wp.vec3d], crossing: wp.array[int]
):
    """Set crossing[0] where a pair of triangles may cross."""
    pair = pairs[first + wp.tid()]
    if not pass_each_other(faces[pair[0]], faces[pair[1]], x):
        crossing[0] = 1


@wp.kernel
def check_fans(first: int, fans: Fans, faces: wp.array[wp.vec3i], x: wp.array[wp.vec3d], crossing: wp.array[int]):
    """Set crossing[0] where two triangles that share just one vertex may cross."""
    i = first + wp.tid()
    if not is_flat_fan(fans, i, x):
        stop = fans.offsets[i + 1]
        for k in range(fans.offsets[i], stop):
            f = faces[fans.faces[k]]
            for m in range(k + 1, stop):
                g = faces[fans.faces[m]]
                if shared_vertices(f, g) == 1:
                    if not pass_each_other(f, g, x):
                        crossing[0] = 1


class CrossingGuard:
    """Finds the intersections of a world's cloths with themselves, each other and colliders, frame after frame."""

    def __init__(self, world: World) -> None:
        self.world = world
        colliders = range(len(world.cloths), len(world.bodies))
        self._broad_phase = make_broad_phase("bvh", world.surface, passive=colliders)
        surface = world.surface
        itself = np.diagonal(surface.body_pairs.numpy())[surface.face_body.numpy()] != 0
        self._fans = make_fans(surface.faces.numpy(), itself, world.device)
        self._crossing = wp.zeros(1, dtype=int, device=world.device)
        self._finder: IntersectionFinder | None = None

    def find(self, x: wp.array) -> np.ndarray:
        """The intersections at the positions x: rows (edge vertex, edge vertex, face), as `IntersectionFinder.find` gives."""
        self._broad_phase.update(x, x, 0.0)
        pairs = self._broad_phase.triangle_pairs()
        self._crossing.zero_()
        device, inputs = self.world.device, [self.world.surface.faces, x, self._crossing]
        launch(check_pairs, len(pairs), [pairs, *inputs], device=device, grain=256)
        launch(check_fans, len(self._fans.vertices), [self._fans, *inputs], device=device, grain=64)
        if not int(self._crossing.numpy()[0]):
            return np.zeros((0, 3), dtype=np.int32)
        if self._finder is None:
            self._finder = intersection_finder(self.world)
        return self._finder.find(x.numpy())


def make_fans(faces: NDArray[np.int32], chosen: NDArray[np.bool_], device: wp.DeviceLike) -> Fans:
    """The fans of these triangles around all vertices in which two of the chosen triangles share nothing else."""
    owner = np.flatnonzero(chosen).astype(np.int32)
    corners = faces[owner]
    tables = np.concatenate([np.column_stack([np.roll(corners, -k, axis=1), owner]) for k in range(3)])
    vertex, a, b = tables[:, 0], tables[:, 1], tables[:, 2]

    # where a fan begins no other triangle ends, and where it ends none begins; a side twice: not a manifold
    count = int(faces.max(initial=-1)) + 1
    first, last = vertex.astype(np.int64) * count + a, vertex.astype(np.int64) * count + b
    begins, ends = ~np.isin(first, last), ~np.isin(last, first)
    unknown = np.zeros(count, dtype=bool)
    for keys in (first, last):
        unique, times = np.unique(keys, return_counts=True)
        unknown[unique[times > 1] // count] = True
    unknown |= np.bincount(vertex[begins], minlength=count) > 1
    end = np.full(count, -1, dtype=np.int32)
    end[vertex[ends]] = b[ends]
    end[unknown] = -2

    # the beginning comes first
    order = np.lexsort((tables[:, 3], ~begins, vertex))
    sizes = np.bincount(vertex, minlength=count)
    some = np.flatnonzero(sizes > 2).astype(np.int32)
    kept = order[sizes[vertex[order]] > 2]
    fans = Fans()
    fans.vertices = wp.array(some, dtype=int, device=device)
    offsets = np.concatenate([[0], np.cumsum(sizes[some])])
    fans.offsets = wp.array(offsets.astype(np.int32), dtype=int, device=device)
    fans.sides = wp.array(tables[kept, 1:3], dtype=wp.vec2i, device=device)
    fans.faces = wp.array(tables[kept, 3], dtype=int, device=device)
    fans.ends = wp.array(end[some], dtype=int, device=device)
    return fans
