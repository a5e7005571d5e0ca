"""The surface that is drawn for a body: its triangles, refined where they are coarse, with smooth normals.

Light is computed at vertices, so triangles must not be larger than the details of a shadow: coarse ones are split in
four, which does not change the shape. Sharp edges of colliders (of a box) stay sharp. The drawn points are linear in
the body's vertices, so a frame costs one sparse matrix product.
"""

import numpy as np
from scipy import sparse

from weft.mesh.topology import Floats, Ints, split_sharp, unique_edges, unit_vectors

# refinement stops before a body has more triangles than this: each is drawn into every depth map
MAX_TRIANGLES = 150_000


class Surface:
    """The drawn surface of one body. `faces` index its points; `lift` is the matrix from the body's vertices to them."""

    def __init__(self, vertices: Floats, faces: Ints, *, smooth: bool, detail: float) -> None:
        corners = np.arange(len(vertices)) if smooth else None
        if corners is None:
            corners, faces = split_sharp(vertices, faces)
        self._split = sparse.csr_array(
            (np.ones(len(corners)), (np.arange(len(corners)), corners)), shape=(len(corners), len(vertices))
        )
        self._around = gather_faces(faces, len(corners))
        self._coarse = faces
        self.faces = faces
        self._fine = sparse.eye_array(len(corners), format="csr")
        x = vertices[corners]
        # split until typical edges are no longer than `detail`
        while len(self.faces) * 4 <= MAX_TRIANGLES and typical_edge(self._fine @ x, self.faces) > detail:
            step, self.faces = split_in_four(self.faces, self._fine.shape[0])
            self._fine = step @ self._fine
        self.lift = (self._fine @ self._split).tocsr()

    def shape(self, vertices: Floats) -> tuple[Floats, Floats]:
        """Points and unit_vectors normals of the drawn surface for the body's vertices at a frame."""
        coarse = self._split @ vertices
        a, b, c = (coarse[self._coarse[:, k]] for k in range(3))
        normals = self._fine @ unit_vectors(self._around @ np.cross(b - a, c - a))
        return self.lift @ vertices, unit_vectors(normals)


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
