"""Subdivision: every triangle split in four, with new positions by midpoint or Loop's rules.

Both are linear in the positions, so one mesh serves many frames: `split_in_four` gives the triangles once, and
`midpoint_points` or `loop_points` the points of each frame. New vertices come after the old ones, one for each edge in
the order of `mesh.edges`.
"""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from weft.errors import MeshError
from weft.mesh.details import Details, Labels
from weft.mesh.topology import Ints, Topology, preceding
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import Floats

if TYPE_CHECKING:
    from scipy import sparse

Weights = Literal["loop", "bounded"]
"""Loop's weights of 1987, or weights that keep the curvature bounded at vertices that do not have six neighbours"""


def midpoint(mesh: TriMesh) -> TriMesh:
    """Split every triangle in four without changing the surface; uv is split the same way."""
    uv = None if mesh.uv is None else midpoint_points(mesh, mesh.uv)
    details = split_details(mesh, midpoint_points)
    return TriMesh(midpoint_points(mesh, mesh.vertices), split_in_four(mesh), uv, details=details)


def loop(mesh: TriMesh, *, weights: Weights = "loop") -> TriMesh:
    """Split every triangle in four and smooth (Loop 1987 or 2001, with boundaries as in Hoppe et al. 1994).

    Boundaries become cubic B-spline curves of their own vertices alone, so panels that were joined edge to edge stay joined.
    uv follows the same rules, so that a sheet at rest stays at rest.
    """
    points = partial(loop_points, weights=weights)
    uv = None if mesh.uv is None else points(mesh, mesh.uv)
    details = split_details(mesh, points)
    return TriMesh(points(mesh, mesh.vertices), split_in_four(mesh), uv, details=details)


def split_details(mesh: TriMesh, points: Callable[[TriMesh, Floats], Floats]) -> Details:
    """What the split mesh carries: texture coordinates cut at the middles of the edges, names of the triangles, attributes.

    `points` gives the values of attributes. Polygons end here, since their parts are triangles, and normals, since the
    surface is another one.
    """
    uv = mesh.corner_uv
    if uv is not None:
        a, b, c = uv[:, 0], uv[:, 1], uv[:, 2]
        ab, bc, ca = 0.5 * (a + b), 0.5 * (b + c), 0.5 * (c + a)
        uv = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3, 2)
    labels = {kind: Labels(own.names, np.repeat(own.index, 4)) for kind, own in mesh.labels.items()}
    attributes = {}
    for name, value in mesh.attributes.items():
        split = points(mesh, value.reshape(len(value), -1))
        attributes[name] = split.reshape(len(split), *value.shape[1:])
    return Details(uv, labels=labels, attributes=attributes)


def split_in_four(mesh: TriMesh | Topology) -> Ints:
    """The triangles of the split mesh: triangle f becomes 4 f .. 4 f + 3, its corners in order, then its middle."""
    topology = mesh if isinstance(mesh, Topology) else mesh.topology
    a, b, c = topology.faces.T
    ab, bc, ca = topology.face_edges.T + np.int32(topology.vertex_count)
    return np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3)


def midpoint_points(mesh: TriMesh, points: ArrayLike) -> Floats:
    """The vertices' points and the middles of the edges, (n + e, k) for points (n, k)."""
    old = _points(mesh, points)
    return np.concatenate([old, 0.5 * (old[mesh.edges[:, 0]] + old[mesh.edges[:, 1]])])


def loop_points(mesh: TriMesh, points: ArrayLike, *, weights: Weights = "loop") -> Floats:
    """Loop's points of the vertices, then of the edges, (n + e, k) for points (n, k)."""
    check_weights(weights)
    old = _points(mesh, points)
    new: Floats = loop_matrix(mesh.topology, bounded=weights == "bounded") @ old
    if weights == "bounded":
        _bound_curvature(mesh, old, new[len(old) :])
    return new


# the frames of a run have one mesh for each cloth and level
@lru_cache(maxsize=16)
def loop_matrix(topology: Topology, *, bounded: bool = False) -> "sparse.csr_array":
    """Loop's rules as the matrix from the vertices to the points of the vertices, then of the edges.

    The mesh need not be a manifold: edges that do not have two triangles are boundaries, whose points depend on the boundary
    alone, and a vertex with another number of them than two stays where it is. `bounded` vertices are pulled as
    `shrinkage` says; their edges, which depend on the order of the neighbours, are those of Loop (1987) here.
    """
    # slow to import, and most scenes subdivide nothing
    from scipy import sparse

    count, edges = topology.vertex_count, topology.edges
    inner = topology.edge_counts == 2
    hinges, of_hinge = topology.hinges, inner[topology.hinge_edges]
    middles = count + topology.hinge_edges[of_hinge]

    # edges: 3/8 of the ends and 1/8 of the opposite corners, on the boundary the middle
    ends = np.where(inner, 0.375, 0.5)
    blocks: list[tuple[Any, Any, Any]] = [(count + np.arange(len(edges)), edges[:, k], ends) for k in range(2)]
    blocks += [(middles, hinges[of_hinge, k], np.full(len(middles), 0.125)) for k in (2, 3)]

    # inner vertices: pulled towards the mean of their n neighbours; on the boundary 3/4 of themselves and 1/8 of both
    # neighbours along it
    one, other = np.concatenate([edges, edges[:, ::-1]]).T
    along = np.tile(~inner, 2)
    border = np.bincount(one[along], minlength=count)
    valence = np.bincount(one, minlength=count)
    some = np.maximum(valence, 1)
    pull = 0.625 - (shrinkage(some) if bounded else 0.375 + 0.25 * np.cos(2.0 * np.pi / some)) ** 2
    pull[valence == 0] = 0.0
    kept = np.where(border == 0, 1.0 - pull, np.where(border == 2, 0.75, 1.0))
    given = np.where(border[one] == 0, pull[one] / some[one], np.where((border[one] == 2) & along, 0.125, 0.0))
    blocks += [(np.arange(count), np.arange(count), kept), (one, other, given)]

    rows, columns, values = (np.concatenate(part) for part in zip(*blocks, strict=True))
    matrix = sparse.csr_array((values, (rows, columns)), shape=(count + len(edges), count))
    matrix.eliminate_zeros()
    return matrix


def check_weights(weights: str) -> None:
    """Refuse weights of another name."""
    if weights not in get_args(Weights):
        raise MeshError(f"weights must be one of {', '.join(get_args(Weights))}, not {weights!r}")


def shrinkage(valence: ArrayLike) -> Floats:
    """By what factor a level shrinks the tangent plane at a vertex of this valence, with bounded curvature.

    1/2 as in a regular mesh; at valences 4 and 5 that of Loop (1987), since 1/2 would ask for negative weights.
    """
    n = np.asarray(valence)
    return np.where((n == 4) | (n == 5), 0.375 + 0.25 * np.cos(2.0 * np.pi / n), 0.5)


def edge_weights(valence: ArrayLike, place: ArrayLike) -> Floats:
    """With bounded curvature: what an edge at a vertex takes from the vertex's neighbour `place` steps around it.

    The vertex itself gives 3/8 and its n neighbours 5/8 in all. The Fourier coefficients of the weights are eigenvalues of
    subdivision: 5/8, s, s^2, ... with s = `shrinkage(n)`; the coefficient s^2 of the saddle is what bounds the curvature
    (Loop 2001). From six neighbours on the weights are a cubic in c = cos(2 pi place / n) with a double root, so that none is
    negative; at six they are 3/8, 1/8, 0, 0, 0, 1/8 as everywhere in a regular mesh.
    """
    n = np.asarray(valence)
    angle = 2.0 * np.pi * np.asarray(place) / n
    c, s = np.cos(angle), shrinkage(n)
    # with three neighbours there is no saddle, with four it is a single wave, with five a pair of them
    saddle = np.choose(np.clip(n - 3, 0, 2), [0.0, 1.0, 2.0]) * s**2 * np.cos(2.0 * angle)
    return np.where(n >= 6, (1.0 + c) * (2.0 * c + 1.0) ** 2 / 8.0, 0.625 + 2.0 * s * c + saddle) / n


def _bound_curvature(mesh: TriMesh, old: Floats, middles: Floats) -> None:
    """Replace the points of edges at inner vertices that do not have six neighbours; between two such, their mean."""
    valence = np.diff(mesh.vertex_neighbours.offsets)
    irregular = valence != 6
    irregular[mesh.edges[mesh.edge_faces[:, 1] < 0]] = False
    tails = mesh.faces.ravel()
    halves = np.flatnonzero(irregular[tails])
    if not len(halves):
        return
    edges, centres = mesh.face_edges.ravel()[halves], tails[halves]
    heads = np.roll(mesh.faces, -1, axis=1).ravel()

    # once around the vertex of each half-edge; those of fewer neighbours have finished sooner
    total, at = 0.375 * old[centres], halves.copy()
    for place in range(int(valence[centres].max())):
        turning = place < valence[centres]
        weight = np.where(turning, edge_weights(valence[centres], place), 0.0)
        total += weight[:, None] * old[heads[at]]
        at = np.where(turning, mesh.twins[preceding(at)], at)

    count = np.bincount(edges, minlength=len(middles))
    points = np.zeros_like(middles)
    np.add.at(points, edges, total)
    middles[count > 0] = points[count > 0] / count[count > 0, None]


def _points(mesh: TriMesh, points: ArrayLike) -> Floats:
    array = np.asarray(points, dtype=np.float64)
    if array.ndim != 2 or len(array) != len(mesh.vertices):
        raise MeshError(f"points must have one row for each of the {len(mesh.vertices)} vertices, not {array.shape}")
    return array
