# mypy: disable-error-code="arg-type,operator"
"""Triangles around a vertex that certainly have nothing else in common, all at once.

Most pairs of triangles whose boxes overlap share a vertex: with six triangles around each vertex, nine pairs a vertex share
that vertex alone. If all of these triangles face the same way, seen along some direction n, and go around the vertex only
once, then they lie side by side in that view, and no two of them meet but in the vertex and their common edges. That takes two
determinants a triangle, instead of four or more a pair.

"Once" is seen in one ray r from the vertex, inside the first triangle: no other triangle may have it. Around an inner vertex
every ray is in equally many triangles, so that this one speaks for all. At a boundary the first triangle is the one where the
fan begins, and besides the fan must not end between its beginning and the ray.
"""

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.geometry.intersection_filter import cross_size, side_of_normal

wp.set_module_options({"enable_backward": False})


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
    """Whether the triangles around a vertex certainly lie side by side in some view; see the module."""
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
