"""The seams of a cache: its stitches, and the pairs of triangles that they join, which are meant to touch.

A cache from `weft subdivide` keeps the scene of its source, whose seams name triangles of the source; here these are turned
into triangles of the subdivided mesh. Subdivision replaces triangle i of a cloth by the triangles 4 i to 4 i + 3.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from weft.cache.reader import Body, Cache
from weft.errors import CacheError, WeftError
from weft.geometry.intersection import sewn_pairs
from weft.mesh import TriMesh
from weft.scene.seams import resolve_stitches

Ints = NDArray[np.int32]


def sewn_triangles(cache: Cache) -> Ints:
    """(k, 2) pairs of triangles that a seam joins directly; in a subdivided cache, all pairs of their descendants."""
    stitches, levels = stitches_of(cache), cache.origin.get("finish", {}).get("total", 0)
    if not len(stitches) or not levels:
        return sewn_pairs(cache.faces, stitches)
    coarse = source_faces(cache.bodies, cache.faces, levels)
    return subdivided_pairs(sewn_pairs(coarse, stitches), cache.bodies, levels)


def stitches_of(cache: Cache) -> Ints:
    """(s, 3) stitches of the cache's scene: vertex a is sewn to a point of edge bc. Empty if the cache has no scene."""
    none = np.zeros((0, 3), dtype=np.int32)
    if cache.meta["scene"] is None or not cache.scene.seams:
        return none
    scene, rest = cache.scene, cache.positions(0)
    by_name = {body.name: body for body in cache.bodies if body.kind == "cloth"}
    cloths = [by_name[cloth.name] for cloth in scene.cloths]
    meshes = [TriMesh(rest[b.vertices], cache.faces[b.faces] - b.vertices.start) for b in cloths]
    try:
        sewn = [resolve_stitches(scene, number, meshes) for number in range(len(scene.seams))]
    except WeftError as error:
        raise CacheError(f"{error}; to count intersections along seams too, check without seams") from error
    first = [body.vertices.start for body in cloths]
    return np.concatenate([none, *(s.vertices + np.array([first[s.cloth], first[s.to], first[s.to]]) for s in sewn)])


def source_faces(bodies: Sequence[Body], faces: Ints, levels: int) -> Ints:
    """The triangles before `levels` subdivisions: corner k of a triangle is corner k of the k-th of its four children."""
    result = []
    for body in bodies:
        own = faces[body.faces]
        for _ in range(levels if body.kind == "cloth" else 0):
            own = np.stack([own[0::4, 0], own[1::4, 1], own[2::4, 2]], axis=1)
        result.append(own)
    return np.concatenate(result)


def subdivided_pairs(pairs: Ints, bodies: Sequence[Body], levels: int) -> Ints:
    """For pairs of triangles, all pairs of their descendants after `levels` subdivisions; `bodies` are those after them."""
    firsts, counts = [], []
    for body in bodies:
        children = 4**levels if body.kind == "cloth" else 1
        triangles = (body.faces.stop - body.faces.start) // children
        firsts.append(body.faces.start + children * np.arange(triangles))
        counts.append(np.full(triangles, children))
    start, count = np.concatenate(firsts), np.concatenate(counts)
    grown = [
        np.stack(np.meshgrid(np.arange(a, a + m), np.arange(b, b + n)), axis=2).reshape(-1, 2)
        for a, b, m, n in zip(*(start[pairs].T), *(count[pairs].T), strict=True)
    ]
    return np.concatenate([np.zeros((0, 2), np.int64), *grown]).astype(np.int32)
