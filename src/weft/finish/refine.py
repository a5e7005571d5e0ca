"""The meshes of all levels: every triangle of a cloth split in four, again and again; colliders stay as they are.

What depends on the triangles alone is made once and serves all frames. Within a body the vertices that were there come
first, at every level, so that what names vertices by number (pins, seams) still finds them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.cache import Body
from weft.errors import MeshError, WeftError
from weft.mesh import TriMesh
from weft.mesh.subdivide import loop_points, midpoint_points, split_in_four

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Rule = Callable[[TriMesh, Floats], Floats]


@dataclass(frozen=True)
class Level:
    """All bodies at one level."""

    number: int
    bodies: tuple[Body, ...]
    faces: Ints
    source: Ints
    """(m,) which triangle of level 0 each one is a part of"""
    meshes: tuple[TriMesh | None, ...]
    """one a body: what the next level splits; None for colliders"""

    @property
    def vertex_count(self) -> int:
        return self.bodies[-1].vertices.stop if self.bodies else 0

    def split(self, points: Floats) -> Floats:
        """Points of the next level that lie on the triangles of this one: vertices and middles of edges."""
        return self._each(midpoint_points, points)

    def smooth(self, points: Floats) -> Floats:
        """Loop's points of the next level, which smooth the surface."""
        return self._each(loop_points, points)

    def _each(self, rule: Rule, points: Floats) -> Floats:
        parts = [
            points[body.vertices] if mesh is None else rule(mesh, points[body.vertices])
            for body, mesh in zip(self.bodies, self.meshes, strict=True)
        ]
        return np.concatenate(parts)


def refine(bodies: Sequence[Body], faces: Ints, positions: Floats, levels: int) -> list[Level]:
    """Level 0, as given, and the finer ones. `positions` are those of any frame in which the cloth is not flattened."""
    start = _first(bodies, faces, positions)
    result = [start]
    points = positions
    for _ in range(levels):
        points = result[-1].split(points)
        result.append(_next(result[-1], points))
    return result


def split_uv(levels: Sequence[Level], uv: Floats | None) -> Floats | None:
    """The flat rest coordinates of the last level, smoothed as the surface is, so that a pattern stays where it was."""
    if uv is None:
        return None
    for level in levels[:-1]:
        uv = level.smooth(uv)
    return uv


def _first(bodies: Sequence[Body], faces: Ints, positions: Floats) -> Level:
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
    return Level(0, tuple(bodies), np.asarray(faces), np.arange(len(faces), dtype=np.int32), tuple(meshes))


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
    return Level(coarse.number + 1, tuple(bodies), np.concatenate(faces), np.concatenate(source), tuple(meshes))
