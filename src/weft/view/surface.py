"""The surface that is drawn for a body: its triangles, refined where they are coarse, with smooth normals.

Light is computed at vertices, so triangles must not be larger than the details of a shadow: coarse ones are split in
four, which does not change the shape. Cloth may be rounded as well, by Loop's subdivision: its normals are those of the round
surface, so that folds as narrow as a triangle do not show a zigzag, and its points move towards that surface, but only by a
part of the thickness, so that layers do not seem to cross. Sharp edges of colliders (of a box) stay sharp. Points are linear
in the body's vertices, so a frame costs a few sparse matrix products.
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from weft.cache import scene_of
from weft.mesh.topology import Floats, Ints, split_sharp, unique_edges, unit_vectors

if TYPE_CHECKING:
    from weft.cache import Cache

# refinement stops before a body has more triangles than this: each is drawn into every depth map
MAX_TRIANGLES = 150_000
# fraction of the thickness that rounding may move a point
ROUNDING = 0.4
# m; of caches that do not know their scene
USUAL_THICKNESS = 1e-3


class Surface:
    """The drawn surface of one body. `faces` index its points; `lift` is the matrix from the body's vertices to them."""

    def __init__(self, vertices: Floats, faces: Ints, *, smooth: bool, detail: float, rounding: float = 0.0) -> None:
        """`detail`: length of edges from which on they are split; `rounding`: how far rounding moves a point; both in m."""
        corners = np.arange(len(vertices)) if smooth else None
        if corners is None:
            corners, faces = split_sharp(vertices, faces)
        count = len(corners)
        split = sparse.csr_array((np.ones(count), (np.arange(count), corners)), shape=(count, len(vertices)))
        flat = round_ = split
        self.faces, self._rounding = faces, rounding
        if rounding > 0.0 and 4 * len(faces) <= MAX_TRIANGLES:
            step, self.faces = split_in_four(faces, count)
            flat, round_ = step @ split, round_off(faces, count) @ split
        # normals are those of the triangles so far; finer triangles only interpolate them
        self._shading, self._shaded = round_, self.faces
        self._around = gather_faces(self.faces, flat.shape[0])
        finer = sparse.eye_array(flat.shape[0], format="csr")
        # split until typical edges are no longer than `detail`
        while len(self.faces) * 4 <= MAX_TRIANGLES and typical_edge(finer @ (flat @ vertices), self.faces) > detail:
            step, self.faces = split_in_four(self.faces, finer.shape[0])
            finer = step @ finer
        self._finer = finer
        self.lift = (finer @ flat).tocsr()
        self._bulge = (finer @ (round_ - flat)).tocsr()

    def shape(self, vertices: Floats) -> tuple[Floats, Floats]:
        """Points and unit normals of the drawn surface for the body's vertices at a frame."""
        shaded = self._shading @ vertices
        a, b, c = (shaded[self._shaded[:, k]] for k in range(3))
        normals = self._finer @ unit_vectors(self._around @ np.cross(b - a, c - a))
        points = self.lift @ vertices
        if self._rounding > 0.0:
            bulge = self._bulge @ vertices
            length = np.linalg.norm(bulge, axis=1, keepdims=True)
            points += bulge * np.minimum(1.0, self._rounding / np.maximum(length, self._rounding))
        return points, unit_vectors(normals)


def drawn_rounding(cache: "Cache") -> float:
    """How far cloth of a cache may be moved for the eye, m: less than half of what is between two layers."""
    return ROUNDING * float(getattr(scene_of(cache), "thickness", USUAL_THICKNESS))


def gather_faces(faces: Ints, count: int) -> sparse.csr_array:
    """The matrix that sums a quantity of the triangles around each vertex."""
    items = np.repeat(np.arange(len(faces)), 3)
    return sparse.csr_array((np.ones(len(items)), (faces.ravel(), items)), shape=(count, len(faces)))


def typical_edge(points: Floats, faces: Ints) -> float:
    """The 90th percentile of the lengths of the edges."""
    edges = unique_edges(faces)
    return float(np.percentile(np.linalg.norm(points[edges[:, 0]] - points[edges[:, 1]], axis=1), 90.0))


def split_in_four(faces: Ints, count: int) -> tuple[sparse.csr_array, Ints]:
    """Split every triangle at its edges' middles: the matrix from old to new points, and the new triangles."""
    edges = unique_edges(faces)
    keys = edges[:, 0].astype(np.int64) * count + edges[:, 1]
    middles = []
    for k in range(3):
        side = np.sort(faces[:, [k, (k + 1) % 3]].astype(np.int64), axis=1)
        middles.append(count + np.searchsorted(keys, side[:, 0] * count + side[:, 1]))
    (a, b, c), (ab, bc, ca) = faces.T, middles
    finer = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3).astype(np.int32)
    rows = np.concatenate([np.arange(count), np.repeat(count + np.arange(len(edges)), 2)])
    weights = np.concatenate([np.ones(count), np.full(2 * len(edges), 0.5)])
    step = sparse.csr_array(
        (weights, (rows, np.concatenate([np.arange(count), edges.ravel()]))), shape=(count + len(edges), count)
    )
    return step, finer


def round_off(faces: Ints, count: int) -> sparse.csr_array:
    """One level of Loop's subdivision that does not shrink, as the matrix from the points to those of `split_in_four`.

    Loop's rules move vertices towards the inside of a bend. What they take away, x - V x with V the rule of the vertices, is
    added before: S (2 I - V). Gentle bends stay where they are to fourth order, and zigzags of single triangles are
    less than half as high.
    """
    smooth = loop_rules(faces, count)
    return (smooth @ (2.0 * sparse.eye_array(count, format="csr") - smooth[:count])).tocsr()


def loop_rules(faces: Ints, count: int) -> sparse.csr_array:
    """Loop's subdivision as the matrix from the points to those of `split_in_four`.

    Edges that do not have two triangles are boundaries, whose points depend on the boundary alone.
    """
    edges = unique_edges(faces)
    keys = edges[:, 0].astype(np.int64) * count + edges[:, 1]
    sides = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]]).astype(np.int64)
    opposite = np.concatenate([faces[:, 2], faces[:, 0], faces[:, 1]])
    low, high = sides.min(axis=1), sides.max(axis=1)
    place = np.searchsorted(keys, low * count + high)
    inner = np.bincount(place, minlength=len(edges)) == 2

    # points of edges: half of both ends, inside 3/8 and 1/8 of the opposite corners
    ends = np.where(inner, 0.375, 0.5)
    of_inner = inner[place]
    blocks: list[tuple[Any, Any, Any]] = [(count + np.arange(len(edges)), edges[:, k], ends) for k in range(2)]
    blocks.append((count + place[of_inner], opposite[of_inner], np.full(int(of_inner.sum()), 0.125)))

    # points of vertices: inside towards the mean of all neighbours, on a boundary of the two along it
    one, other = np.concatenate([edges, edges[:, ::-1]]).T
    along = np.tile(~inner, 2)
    border = np.bincount(one[along], minlength=count)
    valence = np.maximum(np.bincount(one, minlength=count), 1)
    pull = 0.625 - (0.375 + 0.25 * np.cos(2.0 * np.pi / valence)) ** 2
    kept = np.where(border == 0, 1.0 - pull, np.where(border == 2, 0.75, 1.0))
    given = np.where(border[one] == 0, pull[one] / valence[one], np.where((border[one] == 2) & along, 0.125, 0.0))
    blocks += [(np.arange(count), np.arange(count), np.where(np.bincount(one, minlength=count) == 0, 1.0, kept))]
    blocks.append((one, other, given))
    rows, columns, values = (np.concatenate(part) for part in zip(*blocks, strict=True))
    matrix = sparse.csr_array((values, (rows, columns)), shape=(count + len(edges), count))
    matrix.eliminate_zeros()
    return matrix
