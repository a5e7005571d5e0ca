"""Polygons of any number of corners: cut into triangles, concave ones too, and put together again from their triangles."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.mesh.topology import Floats
from weft.mesh.validate import FLATNESS, cross, square

Longs = NDArray[np.int64]


def triangulate(sizes: NDArray[Any], points: Floats) -> Longs:
    """Triangles of polygons with these numbers of corners: (t, 3) positions in the list of all corners, in file order.

    `points` are the positions of all corners. A polygon whose fan from its first corner covers it without overlap keeps
    that fan, which does not depend on rounding; others are cut ear by ear (Meisters 1975). A polygon of k corners gives
    k - 2 triangles, so that the triangles of several polygons follow each other as the polygons do.
    """
    sizes = np.asarray(sizes).astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    fans = sizes - 2
    first = np.repeat(starts, fans)
    step = np.arange(len(first)) - np.repeat(np.cumsum(fans) - fans, fans) + 1
    triangles = np.stack([first, first + step, first + step + 1], axis=1)
    large = sizes > 3
    if not large.any():
        return triangles

    # points that do not exist are found when the mesh is validated
    with np.errstate(all="ignore"):
        normals = _normals(sizes, starts, points)
        owner = np.repeat(np.arange(len(sizes)), fans)
        wrong = np.zeros(len(sizes), dtype=bool)
        wrong[owner[~_in_front(points, triangles, normals[owner])]] = True
        wrong &= large & np.isfinite(normals).all(axis=1) & normals.any(axis=1)
    places = np.cumsum(fans) - fans
    for polygon in np.flatnonzero(wrong).tolist():
        own = slice(int(starts[polygon]), int(starts[polygon] + sizes[polygon]))
        ears = _cut_ears(_flattened(points[own], normals[polygon]))
        if ears is not None:
            triangles[places[polygon] : places[polygon] + fans[polygon]] = ears + starts[polygon]
    return triangles


def polygon_numbers(sizes: NDArray[Any]) -> NDArray[np.int32] | None:
    """(t,) the polygon of each triangle of `triangulate`; None where all polygons are triangles."""
    sizes = np.asarray(sizes).astype(np.int64)
    return None if (sizes == 3).all() else np.repeat(np.arange(len(sizes)), sizes - 2).astype(np.int32)


def polygon_loops(faces: NDArray[Any], polygons: NDArray[Any] | None) -> tuple[Longs, Longs]:
    """The numbers of corners of all polygons, and their corners: numbers 3 f + k of corners of triangles.

    The boundary of the triangles of a polygon is walked once around, from the first corner of the first of them. Triangles
    of one number that do not make one closed loop (some were removed by a repair) stay triangles.
    """
    count = len(faces)
    corners = np.arange(3 * count).reshape(-1, 3)
    if polygons is None:
        return np.full(count, 3, dtype=np.int64), corners.ravel()
    starts = np.flatnonzero(np.diff(polygons, prepend=-1 if count else 0))
    lengths = np.diff(starts, append=count)
    sizes, loops = [], []
    pairs = _quads(faces, starts[lengths == 2])
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        rows = range(start, start + length)
        loop = pairs.get(start) if length == 2 else None
        if loop is None and length > 1:
            loop = _walk(faces, rows)
        own = [loop] if loop is not None else [corners[row].tolist() for row in rows]
        sizes += [len(piece) for piece in own]
        loops += own
    return np.array(sizes, dtype=np.int64), np.concatenate([np.zeros(0, np.int64), *loops]).astype(np.int64)


def _quads(faces: NDArray[Any], starts: NDArray[Any]) -> dict[int, list[int]]:
    """The loops of polygons of two triangles (a, b, c), (a, c, d) that share the edge ac as fans do, by the first triangle."""
    one, two = faces[starts], faces[starts + 1]
    good = (one[:, 0] == two[:, 0]) & (one[:, 2] == two[:, 1]) & (one[:, 1] != two[:, 2])
    chosen = starts[good]
    loops = np.stack([3 * chosen, 3 * chosen + 1, 3 * chosen + 2, 3 * chosen + 5], axis=1)
    return dict(zip(chosen.tolist(), loops.tolist(), strict=True))


def _walk(faces: NDArray[Any], rows: range) -> list[int] | None:
    """Once around the triangles of a polygon; None where their boundary is not one simple loop."""
    halves: dict[tuple[int, int], int] = {}
    for row in rows:
        a, b, c = faces[row].tolist()
        halves |= {(a, b): 3 * row, (b, c): 3 * row + 1, (c, a): 3 * row + 2}
    after = {a: (b, corner) for (a, b), corner in halves.items() if (b, a) not in halves}
    if len(after) != len(rows) + 2:
        return None
    start = vertex = int(faces[rows[0], 0])
    if start not in after:
        return None
    loop = []
    while True:
        vertex, corner = after.pop(vertex)
        loop.append(corner)
        if vertex == start:
            return loop if not after else None
        if vertex not in after:
            return None


def _normals(sizes: Longs, starts: Longs, points: Floats) -> Floats:
    """Normals of the polygons by Newell's sums, which concave and slightly bent polygons have too."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    following = np.arange(len(points)) + 1
    following[starts + sizes - 1] = starts
    origin = points[starts][owner]
    products = cross(points - origin, points[following] - origin)
    return np.stack([np.bincount(owner, weights=products[:, k], minlength=len(sizes)) for k in range(3)], axis=1)


def _in_front(points: Floats, triangles: Longs, normals: Floats) -> NDArray[np.bool_]:
    """Which triangles face along the normal and have an area."""
    a, b, c = (points[column] for column in triangles.T)
    ab, ac, bc = b - a, c - a, c - b
    longest = np.maximum(np.maximum(square(ab), square(ac)), square(bc))
    along: Floats = np.einsum("ij,ij->i", cross(ab, ac), normals)
    result: NDArray[np.bool_] = along > FLATNESS * longest * np.sqrt(square(normals))
    return result


def _flattened(points: Floats, normal: Floats) -> Floats:
    """(k, 2) the corners seen along the normal, so that they run counter-clockwise."""
    unit = normal / np.linalg.norm(normal)
    side = np.cross(unit, np.eye(3)[np.abs(unit).argmin()])
    side /= np.linalg.norm(side)
    return np.stack([points @ side, points @ np.cross(unit, side)], axis=1)


def _cut_ears(points: Floats) -> Longs | None:
    """(k - 2, 3) triangles of a simple polygon in the plane; None where its sides cross each other."""
    left = list(range(len(points)))
    ears: list[tuple[int, int, int]] = []
    at = tried = 0
    while len(left) > 3:
        if tried == len(left):
            return None
        at %= len(left)
        trio = (left[at - 1], left[at], left[(at + 1) % len(left)])
        if _is_ear(points, trio, left):
            ears.append(trio)
            del left[at]
            # the corner before it may have become an ear; thin slices of one corner after the other are avoided
            tried = 0
        else:
            at += 1
            tried += 1
    if _twice_area(points, *left) <= 0.0:
        return None
    return np.array([*ears, tuple(left)], dtype=np.int64)


def _twice_area(points: Floats, a: int, b: int, c: int) -> float:
    (ax, ay), (bx, by), (cx, cy) = points[[a, b, c]].tolist()
    return float((bx - ax) * (cy - ay) - (by - ay) * (cx - ax))


def _is_ear(points: Floats, trio: tuple[int, int, int], left: list[int]) -> bool:
    """Whether the triangle of three corners in a row lies in the polygon and holds no other corner of it."""
    a, b, c = points[list(trio)]
    longest = max(float(np.sum((p - q) ** 2)) for p, q in ((a, b), (b, c), (c, a)))
    if _twice_area(points, *trio) <= FLATNESS * longest:
        return False
    others = points[[k for k in left if k not in trio]]
    # corners of other indices at the same place (a polygon that touches itself) do not count
    others = others[~((others == a).all(axis=1) | (others == b).all(axis=1) | (others == c).all(axis=1))]
    inside = np.ones(len(others), dtype=bool)
    for p, q in ((a, b), (b, c), (c, a)):
        inside &= (q[0] - p[0]) * (others[:, 1] - p[1]) - (q[1] - p[1]) * (others[:, 0] - p[0]) >= 0.0
    return not inside.any()
