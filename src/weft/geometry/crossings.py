"""Where intersections are, for the eye: the points and curves at which edges and triangles cross. Not exact."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.geometry.intersection import edges_of, read_faces

Floats = NDArray[np.float64]


def crossing_points(vertices: ArrayLike, faces: ArrayLike, rows: ArrayLike) -> Floats:
    """Where each row's edge meets its triangle: (k, 3) points on the edges; in a plane, the middle of the overlap."""
    x, f, r = np.asarray(vertices, dtype=np.float64), np.asarray(faces), np.asarray(rows, dtype=np.int64).reshape(-1, 3)
    p, q = x[r[:, 0]], x[r[:, 1]]
    a, b, c = x[f[r[:, 2]]].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    height_p, height_q = _dot(normal, p - a), _dot(normal, q - a)
    gap = height_p - height_q
    # across the plane: by similar triangles
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.clip(np.where(gap != 0.0, height_p / gap, np.nan), 0.0, 1.0)
    # in the plane: clip the edge by the triangle's sides and take the middle of what is left
    first, last = np.zeros(len(r)), np.ones(len(r))
    for s, t in ((a, b), (b, c), (c, a)):
        inward = np.cross(normal, t - s)
        depth_p, depth_q = _dot(inward, p - s), _dot(inward, q - s)
        with np.errstate(divide="ignore", invalid="ignore"):
            meet = depth_p / (depth_p - depth_q)
        first = np.where((depth_p < 0.0) & (depth_q >= 0.0), np.maximum(first, meet), first)
        last = np.where((depth_p >= 0.0) & (depth_q < 0.0), np.minimum(last, meet), last)
    part = np.where(np.isnan(part), np.clip(0.5 * (first + last), 0.0, 1.0), part)
    return p + part[:, None] * (q - p)


def crossing_segments(vertices: ArrayLike, faces: ArrayLike, rows: ArrayLike) -> Floats:
    """The curves along which triangles cross, for drawing: (s, 2, 3) segments, one a pair of crossing triangles.

    A segment joins the two crossings of a pair, or its only crossing and the vertex that the two share. Where a pair
    has one crossing and shares nothing (a touch), the segment is the edge that touches.
    """
    x, f, r = (
        np.asarray(vertices, dtype=np.float64),
        read_faces(faces),
        np.asarray(rows, dtype=np.int64).reshape(-1, 3),
    )
    if not len(r):
        return np.zeros((0, 2, 3))
    points = crossing_points(x, f, r)
    edges, edge_faces, edge_starts = edges_of(f)
    keys = edges[:, 0].astype(np.int64) * (int(f.max()) + 1) + edges[:, 1]
    edge = np.searchsorted(keys, r[:, 0] * (int(f.max()) + 1) + r[:, 1])
    found: dict[tuple[int, int], list[int]] = {}
    for row, (e, face) in enumerate(zip(edge, r[:, 2], strict=True)):
        for owner in edge_faces[edge_starts[e] : edge_starts[e + 1]]:
            found.setdefault((min(owner, face), max(owner, face)), []).append(row)
    segments = []
    for (one, other), crossings in sorted(found.items()):
        shared = np.intersect1d(f[one], f[other])
        ends = [points[row] for row in crossings] + [x[vertex] for vertex in shared]
        if len(ends) == 1:
            ends = [x[r[crossings[0], 0]], x[r[crossings[0], 1]]]
        # the two farthest apart, where coplanar overlap gives more
        from_first = [float(np.linalg.norm(end - ends[0])) for end in ends]
        start = ends[int(np.argmax(from_first))]
        from_start = [float(np.linalg.norm(end - start)) for end in ends]
        segments.append((start, ends[int(np.argmax(from_start))]))
    return np.array(segments)


def _dot(a: Floats, b: Floats) -> Floats:
    return np.einsum("ij,ij->i", a, b)
