"""The bending energy of a triangle mesh: curvature tensors of triangles from the hinges on their edges (host arrays).

The stencil r = sum w_k x_k of a hinge, with cotangent weights, is the jump of the cloth's slope across its edge times the
length of the edge: zero where the hinge is flat, and of the length 2 L sin(theta / 2) (Bergou et al. 2006). A triangle of
area A takes a share s_e of the jump at each of its edges; its curvature tensor is S = 1/A sum s_e t_e t_e^T, with t_e the
unit normal of edge e in the plane of the triangle, and its energy is that of a plate, A/2 times a quadratic form of S: 1/2
sum C_ef s_e.s_f.

How a jump is shared by the two triangles of an edge is a matter of equilibrium: s = r/2 + q in one of them and r/2 - q in the
other, with the q that makes the energy least. This is Morley's plate element, whose slopes at the middles of edges are free,
with these slopes eliminated; bending and twist are then right on any mesh (to 0.1 % for strips of 4 x 40 cells). With q = 0, a
slope that is the mean of those of both triangles, bending along the threads of a grid is right too, but twist is twice too
stiff where diagonals alternate, and bending 5 to 8 % too stiff on irregular meshes.

At the border no moment acts: the share of a border edge is the one of least energy, and is eliminated within its triangle.
A triangle with three pinned vertices does not bend: its neighbour across an edge takes all of the jump there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_array, csr_array, diags_array

from weft.dynamics.bend_memory import NO_LIMITS, bend_limits, stiffening
from weft.mesh import TriMesh
from weft.scene import Material


@dataclass(frozen=True)
class Hinges:
    """The hinges of a mesh with their stencils, and the coupling of those of each triangle."""

    quads: np.ndarray
    """(h, 4) int32: the ends of the edge, then the two opposite vertices"""
    weights: np.ndarray
    """(h, 4), each row sums to zero"""
    rest: np.ndarray
    """(h,) r at rest along the mean normal of both triangles, m; 0 where the rest shape is flat"""
    limits: np.ndarray
    """(h, 2) m: how far r may be from rest before that follows (see `bend_memory`)"""
    faces: np.ndarray
    """(m, 3) int32: triangles"""
    face_hinges: np.ndarray
    """(m, 3) int32: the hinge on each edge of a triangle, from corner k to k + 1; -1 on a border"""
    face_coupling: np.ndarray
    """(m, 3, 3) N/m: C of the energy 1/2 sum C_ef s_e.s_f of a triangle"""

    def shifted(self, first: int) -> "Hinges":
        """The same hinges on vertices numbered from `first`."""
        return replace(self, quads=self.quads + np.int32(first), faces=self.faces + np.int32(first))


@dataclass(frozen=True)
class SharedJumps:
    """The energy 1/2 r.A r + r.B q + 1/2 q.D q of all hinges: sparse matrices (h, h) with entries at the same places."""

    offsets: np.ndarray
    columns: np.ndarray
    a: np.ndarray
    b: np.ndarray
    b_transposed: np.ndarray
    d: np.ndarray
    """1 on the diagonal where no q is free"""
    diagonal: np.ndarray
    """(h,) of D"""
    lowest: float
    """bounds of the eigenvalues of D divided by its diagonal"""
    highest: float

    def matrix(self, values: np.ndarray) -> csr_array:
        """The matrix with these values."""
        count = len(self.diagonal)
        return csr_array((values, self.columns, self.offsets), shape=(count, count))

    def relaxed(self) -> csr_array:
        """C of the energy 1/2 r.C r in which the shares q = -P B^T r are those of one Jacobi step from q = 0: sparse.

        C = A - B (2 P - P D P) B^T, the energy at a q that is nearly the best, is never less than that at the best one, so
        it is positive semidefinite on any mesh. On square cells, where twist moves shares whose eigenvalue is 1, twist is
        right to 1 %, on irregular meshes to 5 % and bending to 2 %. P is 1 / diag D, or so much less that C does not exceed A.
        """
        b, d, b_transposed = (self.matrix(values) for values in (self.b, self.d, self.b_transposed))
        p = diags_array(1.0 / (self.diagonal * max(1.0, 0.5 * self.highest)))
        relaxed = csr_array(self.matrix(self.a) - b @ (2.0 * p - p @ d @ p) @ b_transposed)
        # entries that cancel but for rounding
        relaxed.data[np.abs(relaxed.data) < 1e-12 * np.abs(relaxed.data).max(initial=0.0)] = 0.0
        relaxed.eliminate_zeros()
        return relaxed


def of_cloth(
    mesh: TriMesh,
    material: Material,
    painted: Mapping[str, np.ndarray] | None = None,
    angles: np.ndarray | None = None,
) -> Hinges:
    """The hinges of a cloth. `painted` has factors of its material's numbers, one a vertex.

    `angles` (h,) are those of creases at rest in radians, positive where the edge is a ridge on the side of the normals; NaN
    where the hinge is as in the rest shape.
    """
    hinges = from_mesh(mesh, material.rigidities())
    factor = np.full(len(mesh.faces), stiffening(material))
    if painted and "bend" in painted:
        factor *= painted["bend"][mesh.faces].mean(axis=1)
    rest = hinges.rest
    if angles is not None:
        lengths = mesh.rest_lengths[mesh.hinge_edges]
        rest = np.where(np.isnan(angles), rest, 2.0 * lengths * np.sin(0.5 * angles))
    coupling = hinges.face_coupling * factor[:, None, None]
    return replace(hinges, rest=rest, limits=bend_limits(mesh, material, painted), face_coupling=coupling)


def from_mesh(mesh: TriMesh, rigidities: tuple[float, float, float]) -> Hinges:
    """The hinges of a mesh of cloth with these rigidities of an orthotropic plate, in N m: warp, weft and twist.

    Without a flat rest shape the directions of the threads are unknown: the cloth then bends equally in all directions.
    """
    corners = mesh.hinge_corners
    weights = hinge_weights(corners)
    rest = np.zeros(len(mesh.hinges))
    if mesh.flat_corners is None:
        stretch = np.einsum("hk,hkd->hd", weights, corners)
        rest = (stretch * mean_normals(corners)).sum(axis=1)
        rest[np.abs(rest) < 1e-9 * np.linalg.norm(corners[:, 1] - corners[:, 0], axis=1)] = 0.0
    hinge_of = np.full(len(mesh.edges), -1, np.int32)
    hinge_of[mesh.hinge_edges] = np.arange(len(mesh.hinges))
    if mesh.flat_corners is None:
        bend = 0.5 * (rigidities[0] + rigidities[1])
        rigidities = (bend, bend, 0.5 * bend)
    coupling = curvature_coupling(mesh, rigidities)
    limits = np.tile(NO_LIMITS, (len(rest), 1))
    faces = mesh.faces.astype(np.int32), hinge_of[mesh.face_edges]
    return Hinges(mesh.hinges.astype(np.int32), weights, rest, limits, *faces, coupling)


def join(cloths: list[Hinges]) -> Hinges:
    """All hinges of several cloths in one."""
    starts = np.cumsum([0, *(len(cloth.quads) for cloth in cloths)])
    cloths = [
        replace(cloth, face_hinges=np.where(cloth.face_hinges >= 0, cloth.face_hinges + start, -1).astype(np.int32))
        for cloth, start in zip(cloths, starts, strict=False)
    ]
    return Hinges(*(np.concatenate([getattr(cloth, name) for cloth in cloths]) for name in Hinges.__dataclass_fields__))


def none() -> Hinges:
    """No hinges."""
    three = np.zeros((0, 3), np.int32)
    hinges = np.zeros((0, 4), np.int32), np.zeros((0, 4)), np.zeros(0), np.zeros((0, 2))
    return Hinges(*hinges, three, three, np.zeros((0, 3, 3)))


def hinge_weights(corners: np.ndarray) -> np.ndarray:
    """Weights of r = sum w_k x_k over hinges with corners (h, 4, 3) at rest; r = 0 exactly where the hinge is flat."""
    a, b, c, d = (corners[:, k] for k in range(4))

    def cotangent(at: np.ndarray, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        u, v = p - at, q - at
        return (u * v).sum(axis=1) / np.maximum(np.linalg.norm(np.cross(u, v), axis=1), 1e-300)

    ca, cb = cotangent(a, b, c), cotangent(b, a, c)
    da, db = cotangent(a, b, d), cotangent(b, a, d)
    return np.stack([cb + db, ca + da, -(ca + cb), -(da + db)], axis=1)


def mean_normals(corners: np.ndarray) -> np.ndarray:
    """The unit vectors between the normals of both triangles of hinges (h, 4, 3)."""
    a, b, c, d = (corners[:, k] for k in range(4))
    normals = np.cross(b - a, c - a), np.cross(d - a, b - a)
    total = sum(n / np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-300) for n in normals)
    return np.asarray(total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-300))


def curvature_coupling(mesh: TriMesh, rigidities: tuple[float, float, float]) -> np.ndarray:
    """C (m, 3, 3) of the triangles of a mesh.

    With S = 1/A sum s_e t_e t_e^T and the energy A/2 (warp S_uu^2 + weft S_vv^2 + 4 twist S_uv^2) of an orthotropic plate
    without Poisson effect, C_ef = 1/A (warp t_eu^2 t_fu^2 + weft t_ev^2 t_fv^2 + 4 twist t_eu t_ev t_fu t_fv): for equal
    rigidities bend / A (t_e.t_f)^2.
    """
    corners = _flat_corners(mesh)
    edges = np.roll(corners, -1, axis=1) - corners
    areas = 0.5 * np.abs(edges[:, 0, 0] * edges[:, 1, 1] - edges[:, 0, 1] * edges[:, 1, 0])
    along = edges / np.linalg.norm(edges, axis=2, keepdims=True)
    # exactly 0 where edges are along the threads: the matrix of a grid has fewer entries
    along[np.abs(along) < 1e-9] = 0.0
    u, v = along[:, :, 1], -along[:, :, 0]
    warp, weft, twist = rigidities
    curvatures = ((warp, u * u), (weft, v * v), (4.0 * twist, u * v))
    total = sum(stiffness * of[:, :, None] * of[:, None, :] for stiffness, of in curvatures)
    # at right angles these cancel but for rounding
    total = np.where(np.abs(total) < 1e-12 * max(rigidities), 0.0, total)
    return np.asarray(total / areas[:, None, None])


def _flat_corners(mesh: TriMesh) -> np.ndarray:
    """The corners (m, 3, 2) of triangles in their flat rest shape, or each in its own plane."""
    if mesh.flat_corners is not None:
        return mesh.flat_corners
    one, two = (mesh.vertices[mesh.faces[:, k]] - mesh.vertices[mesh.faces[:, 0]] for k in (1, 2))
    length = np.linalg.norm(one, axis=1)
    height = np.linalg.norm(np.cross(one, two), axis=1) / length
    second = np.column_stack([(one * two).sum(axis=1) / length, height])
    return np.stack([np.zeros_like(second), np.column_stack([length, np.zeros(len(length))]), second], axis=1)


def share_jumps(hinges: Hinges, pinned: np.ndarray) -> SharedJumps:
    """The energy of all hinges in terms of r and q, for the vertices that are pinned now (n,) bool."""
    count = len(hinges.quads)
    number = hinges.face_hinges
    still = pinned[hinges.faces].all(axis=1)
    coupling = _without_borders(hinges.face_coupling, number)
    coupling[still] = 0.0
    # the other triangle of a hinge is still: all of the jump is taken here
    at_clamp = np.zeros(count + 1, bool)
    at_clamp[number[still]] = True
    at_clamp[count] = False
    half = np.where(at_clamp[number], 1.0, 0.5) * (number >= 0)
    # q counts positive in the first of the two triangles of a hinge, in the order of triangles
    _, first = np.unique(number, return_index=True)
    sign = np.full(number.size, -1.0)
    sign[first] = 1.0
    sign = sign.reshape(number.shape) * ((number >= 0) & ~at_clamp[number])

    # entries of the triangles, sorted by row and column; several triangles may have the same
    rows, columns = np.repeat(number, 3, axis=1).ravel(), np.tile(number, (1, 3)).ravel()
    kept = (rows >= 0) & (columns >= 0) & ((hinges.face_coupling != 0.0).ravel() | (rows == columns))
    keys, place = np.unique(rows[kept].astype(np.int64) * count + columns[kept], return_inverse=True)

    def gather(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        values = (coupling * left[:, :, None] * right[:, None, :]).ravel()
        return np.bincount(place, values[kept], minlength=len(keys))

    row, column = keys // max(count, 1), keys % max(count, 1)
    d = gather(sign, sign)
    own = np.flatnonzero(row == column)
    d[own] = np.where(d[own] > 0.0, d[own], 1.0)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=count))])
    matrices = gather(half, half), gather(half, sign), gather(sign, half), d
    return SharedJumps(offsets, column, *matrices, d[own], *_eigenvalue_bounds(coupling))


def stencil_matrix(hinges: Hinges, vertex_count: int) -> csr_array:
    """W, (h, n): r = W x."""
    rows = np.repeat(np.arange(len(hinges.quads)), 4)
    entries = (hinges.weights.ravel(), (rows, hinges.quads.ravel()))
    return csr_array(coo_array(entries, shape=(len(hinges.quads), vertex_count)))


def _without_borders(coupling: np.ndarray, face_hinges: np.ndarray) -> np.ndarray:
    """C of triangles when the shares of their border edges are those of least energy."""
    result = coupling.copy()
    for edge in range(3):
        chosen = np.flatnonzero((face_hinges[:, edge] < 0) & (result[:, edge, edge] > 0.0))
        c = result[chosen]
        column = c[:, :, edge]
        result[chosen] = c - column[:, :, None] * column[:, None, :] / c[:, edge, edge][:, None, None]
        result[chosen, edge, :] = result[chosen, :, edge] = 0.0
    return result


def _eigenvalue_bounds(coupling: np.ndarray) -> tuple[float, float]:
    """Bounds of the eigenvalues of D divided by its diagonal: those of the triangles, of which D is the sum."""
    diagonal = np.einsum("mee->me", coupling)
    root = np.sqrt(np.where(diagonal > 0.0, diagonal, 1.0))
    scaled = coupling / (root[:, :, None] * root[:, None, :])
    values = np.linalg.eigvalsh(scaled[(diagonal > 0.0).all(axis=1)])
    return float(values.min(initial=1.0)), float(values.max(initial=1.0))
