"""Subdivision: every triangle split in four, with new positions by midpoint or Loop's rules.

Both are linear in the positions, so one mesh serves many frames: `split_in_four` gives the triangles once, and
`midpoint_points` or `loop_points` the points of each frame. New vertices come after the old ones, one for each edge in
the order of `mesh.edges`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import MeshError
from weft.mesh.details import Details, Labels
from weft.mesh.topology import Ints
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import Floats


def midpoint(mesh: TriMesh) -> TriMesh:
    """Split every triangle in four without changing the surface; uv is split the same way."""
    uv = None if mesh.uv is None else midpoint_points(mesh, mesh.uv)
    details = split_details(mesh, midpoint_points)
    return TriMesh(midpoint_points(mesh, mesh.vertices), split_in_four(mesh), uv, details=details)


def loop(mesh: TriMesh) -> TriMesh:
    """Split every triangle in four and smooth (Loop 1987, with boundaries as in Hoppe et al. 1994).

    Boundaries become cubic B-spline curves of their own vertices alone, so panels that were joined edge to edge stay joined.
    uv follows the same rules, so that a sheet at rest stays at rest.
    """
    uv = None if mesh.uv is None else loop_points(mesh, mesh.uv)
    details = split_details(mesh, loop_points)
    return TriMesh(loop_points(mesh, mesh.vertices), split_in_four(mesh), uv, details=details)


def split_details(mesh: TriMesh, points: Callable[[TriMesh, Floats], Floats]) -> Details:
    """What the split mesh carries: texture coordinates cut at the middles of the edges, names of the triangles, attributes.

    `points` gives the values of attributes. Polygons end here, since their parts are triangles, and normals, since the
    surface is another one.
    """
    uv = mesh.corner_uv
    if uv is not None:
        a, b, c = uv[:, 0], uv[:, 1], uv[:, 2]
        ab, bc, ca = 0.5 * (a + b), 0.5 * (b + c), 0.5 * (c + a)
        uv = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3, 2)
    labels = {kind: Labels(own.names, np.repeat(own.index, 4)) for kind, own in mesh.labels.items()}
    attributes = {}
    for name, value in mesh.attributes.items():
        split = points(mesh, value.reshape(len(value), -1))
        attributes[name] = split.reshape(len(split), *value.shape[1:])
    return Details(uv, labels=labels, attributes=attributes)


def split_in_four(mesh: TriMesh) -> Ints:
    """The triangles of the split mesh: triangle f becomes 4 f .. 4 f + 3, its corners in order, then its middle."""
    a, b, c = mesh.faces.T
    ab, bc, ca = mesh.face_edges.T + np.int32(len(mesh.vertices))
    return np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)


def midpoint_points(mesh: TriMesh, points: ArrayLike) -> Floats:
    """The vertices' points and the middles of the edges, (n + e, k) for points (n, k)."""
    old = _points(mesh, points)
    return np.concatenate([old, 0.5 * (old[mesh.edges[:, 0]] + old[mesh.edges[:, 1]])])


def loop_points(mesh: TriMesh, points: ArrayLike) -> Floats:
    """Loop's points of the vertices, then of the edges, (n + e, k) for points (n, k)."""
    old = _points(mesh, points)

    # edges: 3/8 of the ends and 1/8 of the opposite corners, on the boundary the middle
    new = midpoint_points(mesh, old)
    middles = new[len(old) :]
    a, b, c, d = (old[column] for column in mesh.hinges.T)
    middles[mesh.hinge_edges] = 0.375 * (a + b) + 0.125 * (c + d)

    # inner vertices: pulled towards the mean of their n neighbours
    offsets, items = mesh.vertex_neighbours
    valence = np.diff(offsets)[:, None]
    pull = 0.625 - (0.375 + 0.25 * np.cos(2.0 * np.pi / valence)) ** 2
    around = np.add.reduceat(old[items], offsets[:-1], axis=0) / valence
    smooth = (1.0 - pull) * old + pull * around

    # boundary vertices: 3/4 of themselves and 1/8 of both neighbours on the boundary
    low, high = mesh.edges[mesh.edge_faces[:, 1] < 0].T
    beside = np.zeros_like(old)
    np.add.at(beside, low, old[high])
    np.add.at(beside, high, old[low])
    border = np.zeros((len(old), 1), dtype=bool)
    border[low] = border[high] = True
    new[: len(old)] = np.where(border, 0.75 * old + 0.125 * beside, smooth)
    return new


def _points(mesh: TriMesh, points: ArrayLike) -> Floats:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or len(array) != len(mesh.vertices):
        raise MeshError(f"points must have one row for each of the {len(mesh.vertices)} vertices, not {array.shape}")
    return array
