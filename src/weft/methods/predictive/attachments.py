"""Long-range attachments (Kim, Chentanez and Mueller 2012): no vertex goes farther from a pin than cloth reaches.

The longest distance is the shortest way over the cloth at rest, along edges and across hinges. A vertex is attached to
the nearest vertex of each group of neighbouring pins, to the nearest few groups where there are many. The limit keeps
stiff cloth from sagging where a few sweeps cannot carry a load over many vertices; it only ever shortens.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.world import RestCloth, World

wp.set_module_options({"enable_backward": False})

# groups of pins that a vertex is attached to
GROUPS = 4
# the limit allows what this many times the weight of the cloth would do to the material, and at least a hundredth
LOAD = 5.0
LEAST_SLACK = 0.01
GRAVITY = 9.81


@wp.func_native(
    PACKED_VERTEX
    + """
    row4* rows = (row4*)p.data;
    for (int i = first; i < last; ++i) {
        const wp::vec_t<2, int> e = ends.data[i];
        const row4 a = rows[e[0]];
        row4 d = a - rows[e[1]];
        const double squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
        const double longest = lengths.data[i];
        if (squared > longest * longest && a[3] > 0.0) {
            d[3] = 0.0;
            rows[e[0]] = a - (1.0 - longest / sqrt(squared)) * d;
        }
    }
    """
)
def attach_vertices(
    first: int, last: int, ends: wp.array[wp.vec2i], lengths: wp.array[wp.float64], p: wp.array[wp.vec4d]
):
    """Long-range attachments: a vertex stays within its length of the pin."""
    ...


@dataclass(frozen=True)
class Attachments:
    """Vertex, pin and longest distance; first the nearest pin of every vertex, then the second nearest, and so on."""

    ends: np.ndarray
    """(k, 2) int32: vertex, pin"""
    lengths: np.ndarray
    """(k,) in m"""
    offsets: np.ndarray
    """where the nearest, second nearest... start"""


def attach_world(world: World, fixed: np.ndarray, reach: float | None = None) -> Attachments:
    """The attachments of all cloths; `fixed` says which vertices are held, `reach` is the limit in lengths at rest."""
    rows = [np.zeros((0, 4))]
    for part in world.cloths:
        own = fixed[part.first : part.first + len(part.mesh.vertices)]
        rows.append(_attach_part(part, own, reach))
    table = np.concatenate(rows)
    order = np.lexsort((table[:, 0], table[:, 3]))
    table = table[order]
    ranks = np.bincount(table[:, 3].astype(int), minlength=1) if len(table) else np.zeros(0, int)
    offsets = np.concatenate([[0], np.cumsum(ranks)]).astype(int)
    return Attachments(table[:, :2].astype(np.int32), table[:, 2].copy(), offsets)


def _attach_part(part: RestCloth, fixed: np.ndarray, reach: float | None) -> np.ndarray:
    """Rows (vertex, pin, length, rank) of one cloth."""
    from scipy.sparse.csgraph import connected_components, dijkstra

    pins = np.flatnonzero(fixed)
    if len(pins) == 0 or fixed.all():
        return np.zeros((0, 4))
    graph = _rest_graph(part)
    _, group = connected_components(graph[pins][:, pins], directed=False)
    distance = np.full((group.max() + 1, len(fixed)), np.inf)
    source = np.zeros(distance.shape, int)
    for g in range(len(distance)):
        distance[g], _, source[g] = dijkstra(
            graph, directed=False, indices=pins[group == g], return_predecessors=True, min_only=True
        )

    nearest = np.argsort(distance, axis=0, kind="stable")[:GROUPS]
    free = np.flatnonzero(~fixed)
    rows = []
    for rank, groups in enumerate(nearest[:, free]):
        length = distance[groups, free]
        there = np.isfinite(length)
        pin = source[groups, free][there]
        limit = _longest(length[there], part, reach)
        rows.append(np.column_stack([free[there] + part.first, pin + part.first, limit, np.full(len(pin), rank)]))
    return np.concatenate(rows)


def _longest(length: np.ndarray, part: RestCloth, reach: float | None) -> np.ndarray:
    if reach is not None:
        return reach * length
    # strain of a strip of this length under a multiple of its own weight
    strain = LOAD * part.material.density * GRAVITY * length / part.material.stretch
    return (1.0 + np.maximum(strain, LEAST_SLACK)) * length


def _rest_graph(part: RestCloth) -> Any:
    """Vertices joined by edges and across hinges, with lengths at rest (a sparse matrix)."""
    from scipy.sparse import coo_matrix

    mesh = part.mesh
    shape = mesh.vertices if mesh.uv is None else mesh.uv
    across, unfolded = _across_hinges(shape, mesh.hinges)
    pairs = np.concatenate([mesh.edges, across])
    lengths = np.concatenate([mesh.rest_lengths, unfolded])
    # the same two vertices can face each other over two edges: the shorter way counts
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    order = np.lexsort((lengths, high, low))
    low, high, lengths = low[order], high[order], lengths[order]
    first = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))
    count = len(mesh.vertices)
    return coo_matrix((lengths[first], (low[first], high[first])), shape=(count, count)).tocsr()


def _across_hinges(shape: np.ndarray, hinges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Opposite vertices of hinges whose straight line, with the hinge unfolded, crosses the edge; and its length."""
    a, b, c, d = (shape[hinges[:, k]] for k in range(4))
    edge = b - a
    length = np.linalg.norm(edge, axis=1)
    along_c, along_d = ((edge * (p - a)).sum(axis=1) / length for p in (c, d))
    off_c, off_d = (
        np.sqrt(np.maximum(((p - a) ** 2).sum(axis=1) - along**2, 0.0)) for p, along in ((c, along_c), (d, along_d))
    )
    crossing = (along_c * off_d + along_d * off_c) / np.maximum(off_c + off_d, 1e-300)
    inside = (crossing >= 0.0) & (crossing <= length)
    return hinges[inside, 2:], np.hypot(along_c - along_d, off_c + off_d)[inside]
