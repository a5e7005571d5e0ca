"""Springs from a triangle mesh and a material: structural, shear and bend, for any triangulation.

The stiffness of an edge of length L is Y * A / L^2 with A the area of its triangles (Van Gelder 1998), so that a strip of
cloth pulls with the same force however finely it is divided; on a square grid a structural edge gets exactly Y. Y is the
stretch stiffness for edges along the threads and the shear stiffness for edges at 45 degrees to them.

Bending has the two springs of Bridson et al. 2002, section 3, carried over from grids to hinges: one between the two
vertices opposite the hinge's edge, and the stabilising one between the hinge's edge and the line over it. The second is
the stencil r = sum w_k x_k with cotangent weights, of length 2 L sin(theta / 2) (Bergou et al. 2006). With the stiffness
bend / A, a sheet rolled to the radius R along its threads has the energy bend / (2 R^2) per area, as a plate does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from weft.dynamics import curvature
from weft.dynamics.bend_memory import NO_LIMITS
from weft.dynamics.seam_hinges import closed_welds, over_seams, vertex_groups
from weft.mesh import TriMesh
from weft.scene import Material
from weft.world import Seams, World

STRUCTURAL, SHEAR, BEND = range(3)

# bound of A / L^2 (1 for an edge of a square grid): the short edge of a needle triangle would else be so stiff that it alone
# sets the explicit time step
LARGEST_AREA_RATIO = 4.0
# fraction of the bending stiffness that acts along the line between the opposite vertices. Its force
# has a part in the plane of the cloth, so that more of it makes cloth stiffer against stretch across folds
OPPOSITE_FRACTION = 0.1
# stiffness along a thread beyond `stretch_limit` in units of that below: ten times the load at the limit exceeds it by a third.
# 30 times the stretch of cotton is that of its yarns, 10 to 20 kN/m
FIRMNESS = 30.0
# stiffness of a weld in units of the stiffest cloth; the explicit time step shrinks with its square root
WELD_FACTOR = 10.0


@dataclass(frozen=True)
class SpringNetwork:
    """Springs between two vertices, and stencil springs over four: hinges and stitches (host arrays)."""

    pairs: np.ndarray
    """(s, 2) int32"""
    rest: np.ndarray
    """(s,) rest lengths in m"""
    stiffness: np.ndarray
    """(s,) in N/m"""
    damping: np.ndarray
    """(s,) in N s/m"""
    kind: np.ndarray
    """(s,) STRUCTURAL, SHEAR, BEND"""
    courses: np.ndarray
    """(s, 3) the vector from the first to the second end at rest in m; 0 where it is unknown"""
    quads: np.ndarray
    """(h, 4) int32: the ends of the hinge's edge, then the two opposite vertices"""
    weights: np.ndarray
    """(h, 4), each row sums to zero"""
    quad_rest: np.ndarray
    """(h,) rest length of r in m; 0 where the rest shape is flat"""
    quad_memory: np.ndarray
    """(h, 3) m: r at rest along the mean normal of both triangles, and how far it may be from that before that follows (see
    `bend_memory`)"""
    quad_stiffness: np.ndarray
    """(h,) in N/m"""
    quad_damping: np.ndarray
    """(h,) in N s/m"""
    sewn: np.ndarray
    """(h,) bool: the stencil is a stitch of a seam, not a hinge"""
    faces: np.ndarray
    """(m, 3) int32: triangles"""
    face_hinges: np.ndarray
    """(m, 3) int32: the stencil of the hinge on each edge of a triangle, from corner k to k + 1; -1 on a boundary"""
    face_coupling: np.ndarray
    """(m, 3, 3) N/m: C of the bending energy of a triangle (see `curvature`)"""
    face_springs: np.ndarray
    """(m, 3) int32: the spring along each edge of a triangle, from corner k to k + 1"""
    face_tension: np.ndarray
    """(m, 3, 3) N/m: the tension of each edge of a triangle from the extensions of its three edges (see `_edge_tension`)"""
    face_threads: np.ndarray
    """(m, 3, 3): two rows, the strains along warp and weft from the extensions of the edges, 1/m; in the third the
    stiffness in J of what each thread is strained beyond its limit of stretch, and this limit, which may be inf"""
    welded: np.ndarray
    """(k, 2) int32: vertices that are at the same place, and welded, from the start"""

    def shifted(self, first: int) -> "SpringNetwork":
        """The same network on vertices numbered from `first`."""
        moved = {name: getattr(self, name) + np.int32(first) for name in ("pairs", "quads", "faces", "welded")}
        return replace(self, **moved)

    def hinges(self) -> curvature.Hinges:
        """The hinges alone, without stitches."""
        kept = ~self.sewn
        number = np.append(np.cumsum(kept) - 1, -1).astype(np.int32)
        memory = self.quad_memory[kept]
        return curvature.Hinges(
            self.quads[kept],
            self.weights[kept],
            memory[:, 0],
            memory[:, 1:],
            self.faces,
            number[self.face_hinges],
            self.face_coupling,
        )


def join(networks: list[SpringNetwork]) -> SpringNetwork:
    """All springs of several networks in one."""
    if not networks:
        return from_pairs(np.zeros((0, 2)), np.zeros(0), np.zeros(0))
    starts = np.cumsum([[0, 0], *([len(n.quads), len(n.pairs)] for n in networks)], axis=0)
    networks = [
        replace(
            n,
            face_hinges=np.where(n.face_hinges >= 0, n.face_hinges + quads, -1).astype(np.int32),
            face_springs=(n.face_springs + pairs).astype(np.int32),
        )
        for n, (quads, pairs) in zip(networks, starts.tolist(), strict=False)
    ]
    names = SpringNetwork.__dataclass_fields__
    return SpringNetwork(*(np.concatenate([getattr(n, name) for n in networks]) for name in names))


def from_pairs(pairs: np.ndarray, rest: np.ndarray, stiffness: np.ndarray, damping: float = 0.0) -> SpringNetwork:
    """Plain springs without bending; `damping` is a time in s, multiplied with the stiffness."""
    stiffness = np.asarray(stiffness, float)
    return SpringNetwork(
        np.asarray(pairs, np.int32).reshape(-1, 2),
        np.asarray(rest, float),
        stiffness,
        damping * stiffness,
        np.full(len(stiffness), STRUCTURAL, np.int32),
        np.zeros((len(stiffness), 3)),
        np.zeros((0, 4), np.int32),
        np.zeros((0, 4)),
        np.zeros(0),
        np.zeros((0, 3)),
        np.zeros(0),
        np.zeros(0),
        np.zeros(0, bool),
        np.zeros((0, 3), np.int32),
        np.zeros((0, 3), np.int32),
        np.zeros((0, 3, 3)),
        np.zeros((0, 3), np.int32),
        np.zeros((0, 3, 3)),
        np.zeros((0, 3, 3)),
        np.zeros((0, 2), np.int32),
    )


def from_world(world: World) -> SpringNetwork:
    """The springs of all cloths of a world, and those that close its seams."""
    cloths = [
        from_mesh(cloth.mesh, cloth.material, cloth.painted, cloth.rest_angles).shifted(cloth.first)
        for cloth in world.cloths
    ]
    network = join(cloths)
    return join([_bent_across_seams(network, world), from_seams(world.seams)])


def _bent_across_seams(network: SpringNetwork, world: World) -> SpringNetwork:
    """The network of all cloths with hinges over the welds between them that are closed at the start."""
    welded = closed_welds(world.seams, world.rest_positions)
    if not len(welded):
        return network
    corners = np.concatenate([cloth.mesh.rest_corners for cloth in world.cloths])
    border = network.face_hinges < 0
    sewn = over_seams(network.faces, border, corners, vertex_groups(welded, len(world.rest_positions)))
    count = len(sewn.quads)
    material = np.repeat(np.arange(len(world.cloths)), [len(cloth.mesh.faces) for cloth in world.cloths])
    bend, damping = (
        np.array([of(cloth.material) for cloth in world.cloths])[material[sewn.sides[:, 0] // 3]]
        for of in (lambda one: one.mean("bend"), lambda one: one.damping)
    )
    stiffness = bend / _area(*corners.transpose(1, 0, 2))[sewn.sides // 3].sum(axis=1)
    face_hinges = network.face_hinges.copy()
    face_hinges.ravel()[sewn.sides] = (len(network.quads) + np.arange(count))[:, None]
    return replace(
        network,
        quads=np.concatenate([network.quads, sewn.quads]),
        weights=np.concatenate([network.weights, sewn.weights]),
        quad_rest=np.concatenate([network.quad_rest, np.zeros(count)]),
        quad_memory=np.concatenate([network.quad_memory, np.tile([0.0, *NO_LIMITS], (count, 1))]),
        quad_stiffness=np.concatenate([network.quad_stiffness, stiffness]),
        quad_damping=np.concatenate([network.quad_damping, damping * stiffness]),
        sewn=np.concatenate([network.sewn, np.zeros(count, bool)]),
        face_hinges=face_hinges,
        welded=welded,
    )


def firm_welds(network: SpringNetwork, world: World) -> SpringNetwork:
    """The network with welds, whose stiffness is infinite, as very stiff springs: for models without constraints."""
    stiffest = max((cloth.material.mean("stretch") for cloth in world.cloths), default=0.0)
    stiffness = network.quad_stiffness
    return replace(network, quad_stiffness=np.where(np.isfinite(stiffness), stiffness, WELD_FACTOR * stiffest))


def from_seams(seams: Seams) -> SpringNetwork:
    """Stitches: springs of rest length 0 between a vertex a and the point (1 - w) b + w c of an edge."""
    w = seams.weights
    stitches = seams.vertices[:, [0, 1, 2, 2]]
    zeros = np.zeros(len(w))
    plain = from_pairs(np.zeros((0, 2)), zeros[:0], zeros[:0])
    return replace(
        plain,
        quads=stitches.astype(np.int32),
        weights=np.stack([np.ones(len(w)), w - 1.0, -w, zeros], axis=1),
        quad_rest=zeros,
        quad_memory=np.tile([0.0, *NO_LIMITS], (len(w), 1)),
        quad_stiffness=seams.stiffness,
        quad_damping=seams.damping,
        sewn=np.ones(len(w), bool),
    )


def from_mesh(
    mesh: TriMesh,
    material: Material,
    painted: Mapping[str, np.ndarray] | None = None,
    angles: np.ndarray | None = None,
) -> SpringNetwork:
    """The springs of one cloth. `painted` has factors of some of the material's numbers, one a vertex.

    `angles` are those of creases (see `curvature.of_cloth`).

    Triangles (`face_coupling`, `face_tension`) have the directions and painted factors of the material; springs and hinges
    alone, for models that do without triangles, its mean numbers.
    """
    factors = {name: values[mesh.faces].mean(axis=1) for name, values in (painted or {}).items()}

    # structural and shear springs along the edges
    rest = mesh.rest_lengths
    around = np.where(mesh.edge_faces >= 0, mesh.rest_areas[mesh.edge_faces], 0.0).sum(axis=1)
    ratio = np.minimum(around / rest**2, LARGEST_AREA_RATIO)
    along = _along_threads(mesh)
    edge_stiffness = ratio * (material.mean("stretch") * along + material.mean("shear") * (1.0 - along))
    edge_kind = np.where(along > 0.5, STRUCTURAL, SHEAR).astype(np.int32)

    # bend springs over the hinges
    bend = material.mean("bend")
    hinges = curvature.of_cloth(mesh, material, painted, angles)
    quads, weights = hinges.quads, hinges.weights
    corners = mesh.hinge_corners
    quad_area = _area(corners[:, 0], corners[:, 1], corners[:, 2]) + _area(corners[:, 0], corners[:, 1], corners[:, 3])
    quad_stiffness = bend / quad_area
    tensors = membranes(mesh, material, factors)
    opposite_rest = np.linalg.norm(corners[:, 2] - corners[:, 3], axis=1)
    opposite_stiffness = OPPOSITE_FRACTION * quad_stiffness * weights[:, 2] * weights[:, 3]

    stiffness = np.concatenate([edge_stiffness, np.maximum(opposite_stiffness, 0.0)])
    pairs = np.concatenate([mesh.edges, quads[:, 2:]]).astype(np.int32)
    return SpringNetwork(
        pairs,
        np.concatenate([rest, opposite_rest]),
        stiffness,
        material.damping * stiffness,
        np.concatenate([edge_kind, np.full(len(quads), BEND, np.int32)]),
        np.concatenate([mesh.rest_edges, corners[:, 3] - corners[:, 2]]),
        quads,
        weights,
        np.abs(hinges.rest),
        np.column_stack([hinges.rest, hinges.limits]),
        quad_stiffness,
        material.damping * quad_stiffness,
        np.zeros(len(quads), bool),
        hinges.faces,
        hinges.face_hinges,
        hinges.face_coupling,
        mesh.face_edges.astype(np.int32),
        _edge_tension(mesh.rest_corners, tensors),
        _thread_strains(mesh.rest_corners, tensors, stretch_limits(mesh, material, factors)),
        np.zeros((0, 2), np.int32),
    )


def _edge_directions(corners: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Areas (m,) of triangles, lengths of their edges (m, 3), and cosines and sines of the edges' angles with u.

    The directions u and v are those of the plane z = 0; in a triangle in space, those of its first edge and across.
    """
    edges = np.roll(corners, -1, axis=1) - corners
    lengths = np.linalg.norm(edges, axis=2)
    areas = _area(corners[:, 0], corners[:, 1], corners[:, 2])
    flat = not corners[:, :, 2].any()
    u = np.tile([1.0, 0.0, 0.0], (len(corners), 1)) if flat else edges[:, 0] / lengths[:, :1]
    normal = np.cross(edges[:, 0], edges[:, 1])
    v = np.cross(normal / np.linalg.norm(normal, axis=1, keepdims=True), u)
    c, s = (np.einsum("med,md->me", edges, axis) / lengths for axis in (u, v))
    return areas, lengths, c, s


def membranes(mesh: TriMesh, material: Material, factors: Mapping[str, np.ndarray]) -> np.ndarray:
    """The membrane tensor (m, 3, 3) of each triangle in N/m (see `Material.membrane`).

    Where the directions of threads are unknown, cloth is equally stiff in all directions: shear is half the stretch.
    """
    tensor = material.membrane()
    if mesh.flat_corners is None:
        tensor = material.mean("stretch") * np.diag([1.0, 1.0, 0.5])
    tensors = np.tile(tensor, (len(mesh.faces), 1, 1))
    tensors[:, :2, :2] *= factors.get("stretch", np.ones(1))[:, None, None]
    tensors[:, 2, 2] *= factors.get("shear" if mesh.flat_corners is not None else "stretch", np.ones(1))
    return tensors


def stretch_limits(mesh: TriMesh, material: Material, factors: Mapping[str, np.ndarray]) -> np.ndarray:
    """The strain of each triangle (m,) along its threads beyond which they are firm; inf where the threads are unknown."""
    if mesh.flat_corners is None or not np.isfinite(material.stretch_limit):
        return np.full(len(mesh.faces), np.inf)
    return np.asarray(material.stretch_limit * factors.get("stretch_limit", np.ones(len(mesh.faces))))


def _thread_strains(corners: np.ndarray, membranes: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """See `SpringNetwork.face_threads`; the strain of an edge is its extension over its length (see `_edge_tension`)."""
    areas, lengths, c, s = _edge_directions(corners)
    strains = np.linalg.inv(np.stack([c * c, s * s, c * s], axis=2)) / lengths[:, None, :]
    # exactly 0 where an edge says nothing about a thread
    strains[np.abs(strains) < 1e-9 * np.abs(strains).max(axis=2, keepdims=True)] = 0.0
    firm = (FIRMNESS - 1.0) * areas[:, None] * membranes[:, [0, 1], [0, 1]]
    # a needle would be stiff without bound
    firm *= np.minimum(1.0, LARGEST_AREA_RATIO / np.maximum(areas[:, None] * (strains[:, :2] ** 2).max(axis=2), 1e-300))
    strains[:, 2, :2], strains[:, 2, 2] = np.where(np.isfinite(limits)[:, None], firm, 0.0), limits
    return np.asarray(strains)


def _edge_tension(corners: np.ndarray, membranes: np.ndarray) -> np.ndarray:
    """How the tensions of the edges of triangles depend on their extensions: K (m, 3, 3) in N/m.

    The strains of its three edges determine the strain of a triangle: e = M (e_uu, e_vv, shear), with a row (c^2, s^2, c s)
    for an edge in the direction (c, s). So the energy A/2 e^T M^-T C M^-1 e of a membrane C is one of edges: K_ij is this
    matrix times A / (L_i L_j).
    """
    areas, lengths, c, s = _edge_directions(corners)
    inverse = np.linalg.inv(np.stack([c * c, s * s, c * s], axis=2))
    q = np.einsum("mai,mab,mbj->mij", inverse, membranes, inverse)
    k = q * (areas[:, None] / lengths)[:, :, None] / lengths[:, None, :]
    # a needle would be stiff without bound
    stiffest = LARGEST_AREA_RATIO * membranes[:, [0, 1], [0, 1]].max(axis=1, initial=0.0)
    return np.asarray(k * np.minimum(1.0, stiffest / np.maximum(_diagonal(k).max(axis=1), 1e-300))[:, None, None])


def _diagonal(matrices: np.ndarray) -> np.ndarray:
    return np.einsum("mii->mi", matrices)


def _area(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    return 0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1)


def _along_threads(mesh: TriMesh) -> np.ndarray:
    """1 for an edge along a thread, 0 for one at 45 degrees; 1 for all edges if the directions of threads are unknown."""
    if mesh.flat_corners is None:
        return np.ones(len(mesh.edges))
    d = mesh.rest_edges[:, :2]
    return ((d[:, 0] ** 2 - d[:, 1] ** 2) / (d**2).sum(axis=1)) ** 2
