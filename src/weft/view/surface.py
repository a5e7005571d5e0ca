"""The surface that is drawn for a body: its triangles, refined where they are coarse, with smooth normals.

Light is computed at vertices, so triangles must not be larger than the details of a shadow: coarse ones are split in
four, which does not change the shape. Cloth may be rounded as well, by Loop's subdivision: its normals are those of the round
surface, so that folds as narrow as a triangle do not show a zigzag, and its points move towards that surface, but only by a
part of the thickness, so that layers do not seem to cross. Sharp edges of colliders (of a box) stay sharp. Points are linear
in the body's vertices, so a frame costs a few sparse matrix products.
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from weft.cache import scene_of
from weft.mesh.subdivide import loop_matrix, split_in_four
from weft.mesh.topology import Floats, Ints, Topology, split_sharp, unique_edges, unit_vectors

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
            step, self.faces = split_matrix(faces, count)
            flat, round_ = step @ split, round_off(faces, count) @ split
        # normals are those of the triangles so far; finer triangles only interpolate them
        self._shading, self._shaded = round_, self.faces
        self._around = gather_faces(self.faces, flat.shape[0])
        finer = sparse.eye_array(flat.shape[0], format="csr")
        # split until typical edges are no longer than `detail`
        while len(self.faces) * 4 <= MAX_TRIANGLES and typical_edge(finer @ (flat @ vertices), self.faces) > detail:
            step, self.faces = split_matrix(self.faces, finer.shape[0])
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


def split_matrix(faces: Ints, count: int) -> tuple[sparse.csr_array, Ints]:
    """Split every triangle at its edges' middles: the matrix from old to new points, and the new triangles."""
    topology = Topology(faces, count)
    edges = topology.edges
    rows = np.concatenate([np.arange(count), np.repeat(count + np.arange(len(edges)), 2)])
    weights = np.concatenate([np.ones(count), np.full(2 * len(edges), 0.5)])
    step = sparse.csr_array(
        (weights, (rows, np.concatenate([np.arange(count), edges.ravel()]))), shape=(count + len(edges), count)
    )
    return step, split_in_four(topology)


def round_off(faces: Ints, count: int) -> sparse.csr_array:
    """One level of Loop's subdivision that does not shrink, as the matrix from the points to those of `split_matrix`.

    Loop's rules move vertices towards the inside of a bend. What they take away, x - V x with V the rule of the vertices, is
    added before: S (2 I - V). Gentle bends stay where they are to fourth order, and zigzags of single triangles are
    less than half as high.
    """
    smooth = loop_matrix(Topology(faces, count))
    return (smooth @ (2.0 * sparse.eye_array(count, format="csr") - smooth[:count])).tocsr()
