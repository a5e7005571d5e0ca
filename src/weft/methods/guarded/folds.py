"""Cloth that is folded exactly onto itself, layer on layer without any gap, gets gaps of a thousandth of a millimetre.

Layers at distance zero have no sides. A fold is an edge whose two triangles lie on each other, so folds divide the cloth into
facets. The facets are stacked in the order in which a walk over the folds visits them: each lies on the side of the one before
that the first one's normal points to. A sheet that is folded once, or as an accordion, becomes free.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.analysis.attraction import unit
from weft.mesh.topology import Topology

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

# cosine of the angle between the normals of two triangles at a fold
FOLDED = -0.999


def stack_facets(x: Floats, faces: Ints, touching: Ints, distance: float) -> Floats:
    """Positions with the facets of all pieces that have touching vertices moved apart by a distance (m)."""
    topology = Topology(np.ascontiguousarray(faces, np.int32), len(x))
    piece = topology.components
    chosen = np.isin(piece[faces[:, 0]], np.unique(piece[touching]))
    a, b, c = (x[faces[:, k]] for k in range(3))
    normals = unit(np.cross(b - a, c - a))
    inner = topology.edge_faces[(topology.edge_counts == 2) & chosen[topology.edge_faces[:, 0]]]
    folded = np.einsum("ij,ij->i", normals[inner[:, 0]], normals[inner[:, 1]]) < FOLDED
    if not folded.any():
        return x
    level, side = _walk(inner[~folded], inner[folded], len(faces))
    # each vertex by the mean of its triangles: those at a fold lie between the layers
    move = (level * side)[:, None] * normals
    total, count = np.zeros_like(x), np.bincount(faces.ravel(), minlength=len(x))
    np.add.at(total, faces.ravel(), np.repeat(move, 3, axis=0))
    moved: Floats = x + distance * total / np.maximum(count, 1)[:, None]
    return moved


def _walk(flat: Ints, folds: Ints, count: int) -> tuple[Floats, Floats]:
    """The level and the side, 1 or -1, of each triangle, from pairs of triangles that are flat and those that are folded."""
    links = coo_array((np.ones(len(flat)), (flat[:, 0], flat[:, 1])), shape=(count, count))
    _, facet = connected_components(links, directed=False)
    neighbours: dict[int, set[int]] = {}
    for one, other in facet[folds].tolist():
        neighbours.setdefault(one, set()).add(other)
        neighbours.setdefault(other, set()).add(one)
    level, side = np.zeros(facet.max() + 1), np.ones(facet.max() + 1)
    seen: set[int] = set()
    for first in sorted(neighbours):
        if first in seen:
            continue
        stack, number = [(first, 1.0)], 0
        while stack:
            here, sign = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            level[here], side[here] = number, sign
            number += 1
            stack += [(other, -sign) for other in sorted(neighbours[here], reverse=True)]
    return level[facet], side[facet]
