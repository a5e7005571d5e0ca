"""Where meshes pass through each other, for drawing and rough positions: computed in float64, not exact."""

import numpy as np
from numpy.typing import ArrayLike

from weft.geometry.intersection import Floats, edges_of, read_faces


def crossing_points(vertices: ArrayLike, faces: ArrayLike, found: ArrayLike) -> Floats:
    """(k, 3) where the edge of each intersection passes through its triangle; coplanar: the middle of the overlap. For display
    and rough positions: computed in float64, not exact."""
    x, f, r = (
        np.asarray(vertices, dtype=np.float64),
        np.asarray(faces),
        np.asarray(found, dtype=np.int64).reshape(-1, 3),
    )
    p, q = x[r[:, 0]], x[r[:, 1]]
    a, b, c = x[f[r[:, 2]]].transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    height_p, height_q = _dot(normal, p - a), _dot(normal, q - a)
    gap = height_p - height_q
    # the edge crosses the plane: by similar triangles
    with np.errstate(divide="ignore", invalid="ignore"):
        fraction = np.clip(np.where(gap != 0.0, height_p / gap, np.nan), 0.0, 1.0)
    # the edge is in the plane: clip it by the triangle's sides and take the middle of what is left
    first, last = np.zeros(len(r)), np.ones(len(r))
    for s, t in ((a, b), (b, c), (c, a)):
        inward = np.cross(normal, t - s)
        depth_p, depth_q = _dot(inward, p - s), _dot(inward, q - s)
        with np.errstate(divide="ignore", invalid="ignore"):
            border = depth_p / (depth_p - depth_q)
        first = np.where((depth_p < 0.0) & (depth_q >= 0.0), np.maximum(first, border), first)
        last = np.where((depth_p >= 0.0) & (depth_q < 0.0), np.minimum(last, border), last)
    fraction = np.where(np.isnan(fraction), np.clip(0.5 * (first + last), 0.0, 1.0), fraction)
    return p + fraction[:, None] * (q - p)


def crossing_segments(vertices: ArrayLike, faces: ArrayLike, found: ArrayLike) -> Floats:
    """The curves along which triangles intersect, for drawing: (s, 2, 3) segments, one for each pair of such triangles.

    A segment joins the two intersections of a pair, or its only one and the vertex that the two triangles share. Where a
    pair has one intersection and shares no vertex (a touch), the segment is the edge that touches.
    """
    x, f, r = (
        np.asarray(vertices, dtype=np.float64),
        read_faces(faces),
        np.asarray(found, dtype=np.int64).reshape(-1, 3),
    )
    if not len(r):
        return np.zeros((0, 2, 3))
    points = crossing_points(x, f, r)
    edges, edge_faces, edge_starts = edges_of(f)
    keys = edges[:, 0].astype(np.int64) * (int(f.max()) + 1) + edges[:, 1]
    edge = np.searchsorted(keys, r[:, 0] * (int(f.max()) + 1) + r[:, 1])
    by_pair: dict[tuple[int, int], list[int]] = {}
    for number, (e, face) in enumerate(zip(edge, r[:, 2], strict=True)):
        for owner in edge_faces[edge_starts[e] : edge_starts[e + 1]]:
            by_pair.setdefault((min(owner, face), max(owner, face)), []).append(number)
    segments = []
    for (one, other), crossings in sorted(by_pair.items()):
        shared = np.intersect1d(f[one], f[other])
        ends = [points[number] for number in crossings] + [x[vertex] for vertex in shared]
        if len(ends) == 1:
            ends = [x[r[crossings[0], 0]], x[r[crossings[0], 1]]]
        # coplanar overlap gives more than two points: take two that are far apart
        from_first = [float(np.linalg.norm(end - ends[0])) for end in ends]
        start = ends[int(np.argmax(from_first))]
        from_start = [float(np.linalg.norm(end - start)) for end in ends]
        segments.append((start, ends[int(np.argmax(from_start))]))
    return np.array(segments)


def _dot(a: Floats, b: Floats) -> Floats:
    return np.einsum("ij,ij->i", a, b)
