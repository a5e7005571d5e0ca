"""The meshes of all levels of subdivision, and the pairs of triangles that seams join at each of them.

At each level every triangle of a cloth is split in four; colliders stay as they are. What depends on the triangles alone is
computed once and serves all frames. Within a body the vertices of the coarser level come first, so that pins and seams,
which name vertices by number, stay valid. Triangles that a seam joins directly are meant to touch, and so are those that they
were split into: intersections and collisions between them are ignored.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.cache import Body
from weft.errors import MeshError, WeftError
from weft.finish.stop import Skip
from weft.mesh import Details, TriMesh
from weft.mesh.subdivide import Weights, loop_points, midpoint_points, split_details, split_in_four
from weft.mesh.topology import incidence
from weft.world import Surface

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Rule = Callable[[TriMesh, Floats], Floats]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Level:
    """All bodies at one level of subdivision."""

    number: int
    bodies: tuple[Body, ...]
    faces: Ints
    source: Ints
    """(m,) the triangle of level 0 from which each one was split"""
    meshes: tuple[TriMesh | None, ...]
    """the mesh of each body, which the next level splits; None for colliders"""
    weights: Weights = "loop"
    """Loop's weights that smooth the surface"""

    @property
    def vertex_count(self) -> int:
        return self.bodies[-1].vertices.stop if self.bodies else 0

    def split(self, points: Floats) -> Floats:
        """The points of the next level on the triangles of this one: its vertices and the midpoints of its edges."""
        return self._each(midpoint_points, points)

    def smooth(self, points: Floats) -> Floats:
        """The points of the next level by Loop's rule, which smooths the surface."""
        return self._each(self.rule, points)

    @property
    def rule(self) -> Rule:
        """Loop's rule with the weights of this level."""
        return partial(loop_points, weights=self.weights)

    def _each(self, rule: Rule, points: Floats) -> Floats:
        by_body = [
            points[body.vertices] if mesh is None else rule(mesh, points[body.vertices])
            for body, mesh in zip(self.bodies, self.meshes, strict=True)
        ]
        return np.concatenate(by_body)


def refine(
    bodies: Sequence[Body], faces: Ints, positions: Floats, levels: int, *, weights: Weights = "loop"
) -> list[Level]:
    """Level 0, as given, and the finer ones. `positions`: of any frame in which no triangle of the cloth lacks area."""
    start = _first(bodies, faces, positions, weights)
    result = [start]
    points = positions
    for _ in range(levels):
        points = result[-1].split(points)
        result.append(_next(result[-1], points))
    return result


def split_uv(levels: Sequence[Level], uv: Floats | None) -> Floats | None:
    """The flat rest coordinates of the last level, by the rule of the surface, so that a printed pattern stays in place."""
    if uv is None:
        return None
    for level in levels[:-1]:
        uv = level.smooth(uv)
    return uv


def split_all_details(levels: Sequence[Level], details: Sequence[Details]) -> list[Details]:
    """Names, texture coordinates and attributes of each body at the last level."""
    result = list(details)
    for level in levels[:-1]:
        for number, mesh in enumerate(level.meshes):
            if mesh is not None:
                result[number] = split_details(TriMesh(mesh.vertices, mesh.faces, details=result[number]), level.rule)
    return result


def _first(bodies: Sequence[Body], faces: Ints, positions: Floats, weights: Weights) -> Level:
    meshes: list[TriMesh | None] = []
    for body in bodies:
        own = faces[body.faces] - body.vertices.start
        if body.kind != "cloth":
            meshes.append(None)
            continue
        try:
            meshes.append(TriMesh(positions[body.vertices], own))
        except MeshError as error:
            raise WeftError(f"cloth {body.name!r} cannot be subdivided: {error}") from None
    return Level(0, tuple(bodies), np.asarray(faces), np.arange(len(faces), dtype=np.int32), tuple(meshes), weights)


def _next(coarse: Level, points: Floats) -> Level:
    bodies, meshes, faces, source = [], [], [], []
    vertex = face = 0
    for body, mesh in zip(coarse.bodies, coarse.meshes, strict=True):
        if mesh is None:
            own, parents = coarse.faces[body.faces] - body.vertices.start, coarse.source[body.faces]
            count = body.vertices.stop - body.vertices.start
            finer = None
        else:
            own, parents = split_in_four(mesh), np.repeat(coarse.source[body.faces], 4)
            count = len(mesh.vertices) + len(mesh.edges)
            finer = TriMesh(points[vertex : vertex + count], own)
        bodies.append(Body(body.name, body.kind, slice(vertex, vertex + count), slice(face, face + len(own))))
        meshes.append(finer)
        faces.append(own + np.int32(vertex))
        source.append(parents)
        vertex, face = vertex + count, face + len(own)
    joined = np.concatenate(faces), np.concatenate(source)
    return Level(coarse.number + 1, tuple(bodies), *joined, tuple(meshes), coarse.weights)


class SewnPairs:
    """Pairs of triangles of level 0 that a seam joins; at finer levels, all pairs of their descendants."""

    def __init__(self, face_count: int, pairs: ArrayLike) -> None:
        self._count = face_count
        one, other = np.asarray(pairs, dtype=np.int64).reshape(-1, 2).T
        self._keys = np.sort(np.minimum(one, other) * face_count + np.maximum(one, other))
        self._sides: dict[int, tuple[NDArray[np.int64], Ints]] = {}

    def __len__(self) -> int:
        return len(self._keys)

    def without(self, found: Ints, level: Level) -> Ints:
        """Of intersections (edge vertex, edge vertex, face), those whose face is not sewn to every triangle of the edge."""
        if not len(self) or not len(found):
            return found
        number, owner = self.owners(found, level)
        sewn = self._are_sewn(level.source[owner], level.source[found[number, 2]])
        not_sewn = np.bincount(number, weights=~sewn, minlength=len(found))
        return found[not_sewn > 0]

    def owners(self, found: Ints, level: Level) -> tuple[NDArray[np.int64], Ints]:
        """The triangles that have the edges of intersections: (number of the intersection, triangle), one or two for each."""
        if level.number not in self._sides:
            f = level.faces
            ends = np.sort(np.stack([f, np.roll(f, -1, axis=1)], axis=2).reshape(-1, 2), axis=1).astype(np.int64)
            keys = ends[:, 0] << 32 | ends[:, 1]
            order = np.argsort(keys, kind="stable")
            self._sides[level.number] = keys[order], (order // 3).astype(np.int32)
        keys, faces = self._sides[level.number]
        wanted = found[:, 0].astype(np.int64) << 32 | found[:, 1]
        first, last = np.searchsorted(keys, wanted), np.searchsorted(keys, wanted, side="right")
        counts = last - first
        number = np.repeat(np.arange(len(found)), counts)
        place = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
        return number, faces[place]

    def skip(self, level: Level, surface: Surface) -> Skip:
        """For `SafeMove`: ignore pairs of features where all triangles of one are sewn to all triangles of the other."""
        triangles = [incidence(level.faces, level.vertex_count)]
        triangles.append(incidence(surface.face_edges.numpy().reshape(-1, 3), surface.edge_count))

        def of_pairs(kind: int, pairs: Ints) -> Bools:
            one = _around(triangles[kind], pairs[:, 0])
            other = _around(triangles[1], pairs[:, 1]) if kind else [np.array([face]) for face in pairs[:, 1]]
            counts = np.array([len(a) * len(b) for a, b in zip(one, other, strict=True)], dtype=np.int64)
            left = np.concatenate([np.repeat(a, len(b)) for a, b in zip(one, other, strict=True)])
            right = np.concatenate([np.tile(b, len(a)) for a, b in zip(one, other, strict=True)])
            sewn = self._are_sewn(level.source[left], level.source[right])
            not_sewn = np.bincount(np.repeat(np.arange(len(pairs)), counts), weights=~sewn, minlength=len(pairs))
            return not_sewn == 0

        return of_pairs

    def _are_sewn(self, one: Ints, other: Ints) -> Bools:
        """Whether two triangles of level 0 are sewn together; a triangle is not sewn to itself."""
        keys = np.minimum(one, other).astype(np.int64) * self._count + np.maximum(one, other)
        if not len(self):
            return np.zeros(len(keys), bool)
        return self._keys[np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)] == keys


def _around(lists: tuple[Ints, Ints], items: Ints) -> list[Ints]:
    """The triples that have each of the items, by the incidence lists of the triples."""
    offsets, entries = lists
    return [entries[offsets[i] : offsets[i + 1]] // 3 for i in items.tolist()]
