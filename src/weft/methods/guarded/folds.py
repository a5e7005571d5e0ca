"""Cloth that is folded exactly onto itself, layer on layer without any gap, gets gaps of a thousandth of a millimetre.

Layers at distance zero have no sides. A fold is an edge whose two triangles lie on each other, so folds divide the cloth into
facets. The facets are stacked in the order in which a walk over the folds visits them: each lies on the side of the one before
that the first one's normal points to, and folds around other layers bulge. A sheet that is folded once, as an accordion or into
quarters becomes free.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.analysis.attraction import unit
from weft.mesh.topology import Topology
from weft.mesh.validate import square

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]

# cosine of the angle between the normals of two triangles at a fold
FOLDED = -0.999
# edge lengths that a fold goes outwards for each layer between its two sides: a stretch of two thousandths where cloth is
# folded into quarters, and gaps between nested folds of a thousandth of those between layers
BULGE = 1e-3


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
    edges = np.flatnonzero((topology.edge_counts == 2) & chosen[topology.edge_faces[:, 0]])[folded]
    return moved + _bulge(x, topology, edges, level)


def _bulge(x: Floats, topology: Topology, folds: Ints, level: Floats) -> Floats:
    """(n, 3) how far the vertices of folds go outwards: farther, the more layers a fold goes around.

    Without it a fold around others would touch them where its two sides come together.
    """
    one, other = topology.edge_faces[folds].T
    ends = topology.edges[folds]
    a, b = x[ends[:, 0]], x[ends[:, 1]]
    along, inside = b - a, x[topology.faces[one]].mean(axis=1) - a
    outwards = unit(along * np.einsum("ij,ij->i", along, inside)[:, None] - inside * square(along)[:, None])
    between = np.abs(level[one] - level[other]) - 1.0
    way = BULGE * (between * np.sqrt(square(along)))[:, None] * outwards
    total, count = np.zeros_like(x), np.bincount(ends.ravel(), minlength=len(x))
    np.add.at(total, ends.ravel(), np.repeat(way, 2, axis=0))
    bulged: Floats = total / np.maximum(count, 1)[:, None]
    return bulged


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
