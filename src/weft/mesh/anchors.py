"""Points that are anchored to a sheet, and move with it.

Every point finds the nearest point of the sheet. Its offset from there is kept in a frame that moves with the sheet: the
normal, blended between the normals of the vertices so that it turns smoothly from triangle to triangle, and the two edges of
the triangle.
"""

import warnings
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftWarning
from weft.mesh.topology import vertex_normals
from weft.mesh.trimesh import TriMesh

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# points that are anchored at once: limits the memory for their candidates
CHUNK = 4096
# half of the points farther than this from the sheet, in extents of it, do not lie on it: hems and collars stand off by less
FAR = 0.25


class Anchors:
    """Points by their places on a sheet: a triangle, weights of its corners, and the offset in a frame that moves along."""

    def __init__(self, points: Floats, sheet: Floats, faces: Ints) -> None:
        triangle, weights = nearest_on_mesh(points, sheet, faces)
        self.faces = faces
        self.corners = faces[triangle]
        self.weights = weights
        foot, normal, edges = self._frames(sheet)
        offset = points - foot
        _warn_if_far(offset, sheet)
        self.height = np.einsum("nk,nk->n", offset, normal)
        across = offset - self.height[:, None] * normal
        # across = p e1 + q e2, the least-squares solution in the plane of the two edges
        gram = np.einsum("nik,njk->nij", edges, edges)
        right = np.einsum("nik,nk->ni", edges, across)
        self.sideways = np.linalg.solve(gram, right[..., None])[..., 0]
        rest = across - np.einsum("ni,nik->nk", self.sideways, edges)
        self.leans = np.einsum("nij,ni->nj", _rotations(edges), rest)
        """in the frame of the triangle: what neither normal nor edges can say, for the blended normal leans a little"""

    def follow(self, sheet: Floats) -> Floats:
        """The points where the sheet has these vertices."""
        foot, normal, edges = self._frames(sheet)
        moved = foot + self.height[:, None] * normal + np.einsum("ni,nik->nk", self.sideways, edges)
        result: Floats = moved + np.einsum("nij,nj->ni", _rotations(edges), self.leans)
        return result

    def _frames(self, sheet: Floats) -> tuple[Floats, Floats, Floats]:
        """The point on the sheet, the unit normal there, and the two edges of the triangle, for each point."""
        x = sheet[self.corners]
        foot = np.einsum("nk,nki->ni", self.weights, x)
        normals = vertex_normals(sheet, self.faces)[self.corners]
        normal = np.einsum("nk,nki->ni", self.weights, normals)
        length = np.linalg.norm(normal, axis=1, keepdims=True)
        edges = x[:, 1:] - x[:, :1]
        own = np.cross(edges[:, 0], edges[:, 1])
        own /= np.maximum(np.linalg.norm(own, axis=1, keepdims=True), 1e-300)
        # on a sharp fold the normals of the corners can cancel
        return foot, np.where(length > 1e-9, normal / np.maximum(length, 1e-300), own), edges


def _rotations(edges: Floats) -> Floats:
    """(n, 3, 3) orthonormal frames along the first edge of each triangle, columns: edge, across it, normal."""
    first = edges[:, 0] / np.maximum(np.linalg.norm(edges[:, 0], axis=1, keepdims=True), 1e-300)
    normal = np.cross(edges[:, 0], edges[:, 1])
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
    return np.stack([first, np.cross(normal, first), normal], axis=2)


def _warn_if_far(offset: Floats, sheet: Floats) -> None:
    """Points that somebody means to lie on the sheet lie near it, unless units or axes differ."""
    away, extent = float(np.median(np.linalg.norm(offset, axis=1))), float(np.linalg.norm(np.ptp(sheet, axis=0)))
    if away > FAR * extent:
        warnings.warn(
            f"the mesh lies {away:.3g} m from the sheet, which is {extent:.3g} m large: it follows from there. Does it lie on "
            "the sheet at this frame, in metres and with the same axis up?",
            WeftWarning,
            stacklevel=4,
        )


def nearest_on_mesh(points: Floats, vertices: Floats, faces: Ints) -> tuple[NDArray[np.int64], Floats]:
    """For each point the triangle that is nearest to it, the lowest number of several, and the weights of its corners.

    Exact: the nearest vertex bounds the distance, and all triangles whose bounding spheres come within the bound are tried.
    """
    from scipy.spatial import cKDTree

    corners = vertices[faces]
    centres = corners.mean(axis=1)
    radii = np.linalg.norm(corners - centres[:, None], axis=2).max(axis=1)
    tree, used = cKDTree(centres), np.unique(faces)
    bound = cKDTree(vertices[used]).query(points)[0]
    triangle = np.zeros(len(points), dtype=np.int64)
    weights = np.zeros((len(points), 3))
    for first in range(0, len(points), CHUNK):
        rows = slice(first, first + CHUNK)
        reach = bound[rows] * (1.0 + 1e-9) + radii.max()
        lists = tree.query_ball_point(points[rows], reach, return_sorted=True)
        counts = np.array([len(found) for found in lists])
        candidates = np.concatenate([np.asarray(found, dtype=np.int64) for found in lists])
        owner = np.repeat(np.arange(len(counts)), counts)
        own_weights, distance = _closest(points[rows][owner], corners[candidates])
        # by owner, then by distance, then by number
        order = np.lexsort((candidates, distance, owner))
        best = order[np.concatenate([[0], np.cumsum(counts)[:-1]])]
        triangle[rows], weights[rows] = candidates[best], own_weights[best]
    return triangle, weights


def _closest(p: Floats, triangles: Floats) -> tuple[Floats, Floats]:
    """Weights of the point of each triangle that is nearest to each point, and its distance."""
    a, b, c = triangles[:, 0], triangles[:, 1], triangles[:, 2]
    ab, ac = b - a, c - a
    dot: Callable[[Floats, Floats], Floats] = lambda u, v: np.einsum("nk,nk->n", u, v)  # noqa: E731
    # inside the triangle, where the weights of the plane's nearest point are positive
    d00, d01, d11 = dot(ab, ab), dot(ab, ac), dot(ac, ac)
    d20, d21 = dot(p - a, ab), dot(p - a, ac)
    area = np.maximum(d00 * d11 - d01 * d01, 1e-300)
    v, w = (d11 * d20 - d01 * d21) / area, (d00 * d21 - d01 * d20) / area
    inside = np.column_stack([1.0 - v - w, v, w])
    options = [np.where((inside >= 0.0).all(axis=1, keepdims=True), inside, np.nan)]
    # or on one of its edges
    for start, end in ((0, 1), (1, 2), (2, 0)):
        along = triangles[:, end] - triangles[:, start]
        s = np.clip(dot(p - triangles[:, start], along) / np.maximum(dot(along, along), 1e-300), 0.0, 1.0)
        option = np.zeros((len(p), 3))
        option[:, start], option[:, end] = 1.0 - s, s
        options.append(option)
    found = np.stack(options)
    distance = np.linalg.norm(np.einsum("onk,nki->oni", found, triangles) - p, axis=2)
    best = np.nanargmin(distance, axis=0)
    rows = np.arange(len(p))
    return found[best, rows], distance[best, rows]


def rigid_pieces(mesh: TriMesh, size: float) -> list[NDArray[np.intp]]:
    """The vertices of each connected piece with an extent below `size`."""
    component = np.asarray(mesh.components)
    pieces = [np.flatnonzero(component == number) for number in range(int(component.max()) + 1)]
    return [p for p in pieces if len(p) > 2 and float(np.linalg.norm(np.ptp(mesh.vertices[p], axis=0))) < size]


def fit_rigidly(rest: Floats, moved: Floats) -> Floats:
    """`rest` under the rotation and translation that bring it nearest to `moved`, in the sense of least squares."""
    centre, target = rest.mean(axis=0), moved.mean(axis=0)
    u, _, vt = np.linalg.svd((rest - centre).T @ (moved - target))
    flip = np.diag([1.0, 1.0, np.sign(np.linalg.det(u @ vt)) or 1.0])
    result: Floats = (rest - centre) @ (u @ flip @ vt) + target
    return result
