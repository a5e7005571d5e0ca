"""Edges that stay on the body: waistbands and collars whose vertices follow the triangles of the body below them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from weft.errors import WeftError
from weft.garment import CutGarment, Pattern
from weft.mesh import TriMesh

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]


def check_labels(patterns: Sequence[Pattern], labels: Sequence[str]) -> None:
    """Refuse a label that no edge has."""
    known = sorted({label for pattern in patterns for label in pattern.labels})
    for label in labels:
        if label not in known:
            have = f"there are {', '.join(known)}" if known else "no edge of these patterns has a label"
            raise WeftError(
                f"no edge is labelled {label!r}, so that nothing can be attached or drawn together by it; {have}"
            )


def follow_body(points: Floats, body: TriMesh, frames: Floats) -> Floats:
    """(f, k, 3) where points are in each frame of a body, each fixed to the triangle nearest to it.

    A point keeps its coordinates along two edges of the triangle and its height in metres above it.
    """
    nearest = cKDTree(body.vertices[body.faces].mean(axis=1)).query(points)[1]
    corners = body.faces[nearest]
    origin, axes = _frame(body.vertices, corners)
    weights = np.linalg.solve(axes.transpose(0, 2, 1), (points - origin)[:, :, None])[:, :, 0]
    moved = []
    for frame in frames:
        origin, axes = _frame(np.asarray(frame, dtype=np.float64), corners)
        moved.append(origin + np.einsum("ij,ijk->ik", weights, axes))
    return np.stack(moved)


def _frame(x: Floats, corners: Ints) -> tuple[Floats, Floats]:
    """The first corner of each triangle, and (k, 3, 3) two of its edges and its unit normal."""
    a, b, c = x[corners].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    return a, np.stack([b - a, c - a, normal], axis=1)


def held_vertices(cut: CutGarment, labels: Sequence[str]) -> tuple[int, ...]:
    """The vertices of a garment that stay on the body."""
    return tuple(cut.labelled(labels).tolist())
