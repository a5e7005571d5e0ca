"""Creases: edges of a cloth that are bent at rest."""

from collections.abc import Iterable
from typing import Annotated

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from weft.errors import MeshError
from weft.mesh import TriMesh
from weft.mesh.topology import following
from weft.scene.model import Index, Number, SceneModel, one_or_more, unwrap

# an edge lies on a line if its ends are nearer to it than this fraction of its length
ON_LINE = 0.05

Edge = Annotated[tuple[Index, Index], BeforeValidator(unwrap)]
Edges = Annotated[tuple[Edge, ...], BeforeValidator(unwrap), Field(min_length=1)]
RestPoint = Annotated[tuple[Number, Number], BeforeValidator(unwrap)]


class Crease(SceneModel):
    """Edges of the mesh that are bent at rest: a fold line, a pleat. Selected by their ends or by a line, one of the two."""

    edges: Edges | None = Field(default=None, description="pairs of vertex numbers, from 0, each the ends of an edge")
    line: tuple[RestPoint, RestPoint] | None = Field(
        default=None, description="all edges on the line between two points (u, v) of the flat rest shape, m"
    )
    angle_deg: Annotated[Number, Field(ge=-180, le=180)] = Field(
        default=90.0,
        description="angle between the normals of the two triangles at rest, 0 is flat; positive: a ridge on the front of the "
        "cloth (the side of its normals), negative: a valley",
    )

    @model_validator(mode="after")
    def _check_choice(self) -> "Crease":
        if (self.edges is None) == (self.line is None):
            raise ValueError(f"needs either edges or a line, and has {'neither' if self.edges is None else 'both'}")
        if self.line is not None and self.line[0] == self.line[1]:
            raise ValueError("the two points of line are the same")
        return self


Creases = Annotated[tuple[Crease, ...], BeforeValidator(one_or_more)]


def fold_creases(folds: Iterable[tuple[np.ndarray, float]]) -> tuple[Crease, ...]:
    """The creases of the folds of a pattern: the ends of each in the flat rest shape, and its angle in degrees."""
    return tuple(
        Crease(line=((a[0], a[1]), (b[0], b[1])), angle_deg=angle)
        for (a, b), angle in ((e.tolist(), d) for e, d in folds)
    )


def rest_angles(creases: tuple[Crease, ...], mesh: TriMesh) -> np.ndarray:
    """The angle at rest of each hinge of a mesh in radians; NaN where no crease says it. The last crease of an edge counts."""
    angles = np.full(len(mesh.hinges), np.nan)
    for crease in creases:
        angles[_hinges_of(crease, mesh)] = np.radians(crease.angle_deg)
    return angles


def _hinges_of(crease: Crease, mesh: TriMesh) -> np.ndarray:
    """The numbers of the hinges on the edges of a crease."""
    ends = np.sort(mesh.edges[mesh.hinge_edges], axis=1).astype(np.int64)
    if crease.line is not None:
        return _on_line(crease.line, mesh, ends)
    count = len(mesh.vertices)
    wanted = np.sort(np.array(crease.edges), axis=1)
    if wanted.max() >= count:
        raise MeshError(f"edges: there is no vertex {wanted.max()}, the cloth has vertices 0 to {count - 1}")
    keys = ends[:, 0] * count + ends[:, 1]
    order = np.argsort(keys)
    place = np.searchsorted(keys[order], wanted[:, 0] * count + wanted[:, 1])
    found = order[np.minimum(place, len(order) - 1)] if len(order) else np.zeros(len(wanted), np.int64)
    there = (ends[found] == wanted).all(axis=1) if len(order) else np.zeros(len(wanted), bool)
    if not there.all():
        a, b = wanted[int((~there).argmax())]
        raise MeshError(f"edges: vertices {a} and {b} are not the ends of an edge between two triangles")
    return np.asarray(found)


def _on_line(line: tuple[RestPoint, RestPoint], mesh: TriMesh, ends: np.ndarray) -> np.ndarray:
    if mesh.flat_corners is None:
        raise MeshError('line is in the flat rest shape, which this cloth does not have: give edges, or rest = "uv"')
    start, end = (np.array(point) for point in line)
    length = float(np.linalg.norm(end - start))
    along = (end - start) / length
    # at a seam of uv, as the edge lies in one of its two panels
    sides = mesh.edge_sides[mesh.hinge_edges, 0]
    corner = mesh.flat_corners.reshape(-1, 2)
    points = np.stack([corner[sides], corner[following(sides)]], axis=1) - start
    slack = ON_LINE * np.linalg.norm(points[:, 1] - points[:, 0], axis=1)[:, None]
    away = np.abs(points @ [-along[1], along[0]])
    where = points @ along
    chosen = np.flatnonzero(((away < slack) & (where > -slack) & (where < length + slack)).all(axis=1))
    if len(chosen) == 0:
        raise MeshError("line: no edge between two triangles lies on it; let the mesh have edges there, or give edges")
    return chosen
