"""What the forces of Baraff and Witkin act on: triangles, hinges and stitches of all cloths, with their constants."""

from dataclasses import dataclass, fields

import numpy as np

from weft.mesh import TriMesh
from weft.scene import Material
from weft.world import Seams, World

# a hinge whose triangle has less than this part of its rest area has no usable normal and does not bend
LEAST_AREA_PART = 1e-3
# a weld is a stitch this much stiffer than the stiffest cloth: a load of 1 N opens it by 10 to 40 micrometres
WELD_FACTOR = 100.0


@dataclass(frozen=True)
class Elements:
    """Host arrays; vertices are those of the world."""

    faces: np.ndarray
    """(m, 3) int32"""
    p: np.ndarray
    """(m, 3): w_u = sum p_k x_k"""
    q: np.ndarray
    """(m, 3): w_v = sum q_k x_k"""
    moduli: np.ndarray
    """(m, 3): stretch stiffness * area, shear stiffness * area (J), damping time (s)"""
    hinges: np.ndarray
    """(h, 4) int32: the edge, then the two opposite vertices"""
    rest_angle: np.ndarray
    """(h,) rad"""
    least: np.ndarray
    """(h,) twice the area of a triangle below which the hinge does not bend"""
    bend: np.ndarray
    """(h,) stiffness in N m"""
    bend_delay: np.ndarray
    """(h,) damping time in s"""
    stitches: np.ndarray
    """(k, 3) int32"""
    stitch_weights: np.ndarray
    """(k, 3), each row sums to zero"""
    stitch_stiffness: np.ndarray
    """(k,) N/m"""
    stitch_damping: np.ndarray
    """(k,) N s/m"""


def from_world(world: World) -> Elements:
    """The elements of all cloths of a world, and its seams."""
    parts = [from_mesh(part.mesh, part.material, first=part.first) for part in world.cloths]
    stiffest = max((part.material.stretch for part in world.cloths), default=0.0)
    return join([*parts, from_seams(world.seams, weld=WELD_FACTOR * stiffest)])


def from_mesh(mesh: TriMesh, material: Material, *, first: int = 0) -> Elements:
    """The elements of one cloth whose vertices are numbered from `first`.

    Without a flat rest shape no threads are known: the cloth is then as stiff in all directions, which takes a shear
    stiffness of half the stretch stiffness.
    """
    p, q = _material_axes(mesh)
    shear = material.shear if mesh.uv is not None else 0.5 * material.stretch
    areas = mesh.rest_areas
    moduli = np.column_stack([material.stretch * areas, shear * areas, np.full(len(areas), material.damping)])

    rest_shape = mesh.vertices if mesh.uv is None else np.column_stack([mesh.uv, np.zeros(len(mesh.uv))])
    hinges = mesh.hinges if material.bend > 0.0 else np.zeros((0, 4), np.int32)
    a, b, c, d = (rest_shape[column] for column in hinges.T)
    edge = b - a
    n1, n2 = np.cross(edge, c - a), np.cross(d - a, edge)
    doubled = np.sqrt([(n1**2).sum(axis=1), (n2**2).sum(axis=1)])
    square = (edge**2).sum(axis=1)
    if mesh.uv is None:
        rest_angle = -np.arctan2((np.cross(n1, n2) * edge).sum(axis=1) / np.sqrt(square), (n1 * n2).sum(axis=1))
    else:
        rest_angle = np.zeros(len(hinges))
    return Elements(
        (mesh.faces + first).astype(np.int32),
        p,
        q,
        moduli,
        (hinges + first).astype(np.int32),
        rest_angle,
        LEAST_AREA_PART * doubled.min(axis=0),
        material.bend * square / (0.5 * doubled.sum(axis=0)),
        np.full(len(hinges), material.damping),
        *_no_stitches(),
    )


def from_seams(seams: Seams, *, weld: float) -> Elements:
    """A stitch is a spring without length between vertex a and the edge point (1 - w) b + w c."""
    w = seams.weights
    stitches = (
        seams.vertices.astype(np.int32),
        np.stack([np.ones(len(w)), w - 1.0, -w], axis=1),
        np.where(np.isfinite(seams.stiffness), seams.stiffness, weld),
        seams.damping,
    )
    none = np.zeros((0, 3))
    flat = np.zeros(0)
    triangles = (none.astype(np.int32), none, none, none)
    return Elements(*triangles, np.zeros((0, 4), np.int32), flat, flat, flat, flat, *stitches)


def join(parts: list[Elements]) -> Elements:
    """All elements of several parts in one."""
    return Elements(*(np.concatenate([getattr(part, f.name) for part in parts]) for f in fields(Elements)))


def _no_stitches() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros((0, 3), np.int32), np.zeros((0, 3)), np.zeros(0), np.zeros(0)


def _material_axes(mesh: TriMesh) -> tuple[np.ndarray, np.ndarray]:
    """The weights p and q of each triangle, from its flat rest shape or from its own plane."""
    if mesh.uv is not None:
        first, second = (mesh.uv[mesh.faces[:, k]] - mesh.uv[mesh.faces[:, 0]] for k in (1, 2))
    else:
        one, two = (mesh.vertices[mesh.faces[:, k]] - mesh.vertices[mesh.faces[:, 0]] for k in (1, 2))
        length = np.linalg.norm(one, axis=1)
        height = np.linalg.norm(np.cross(one, two), axis=1) / length
        first = np.column_stack([length, np.zeros(len(length))])
        second = np.column_stack([(one * two).sum(axis=1) / length, height])
    # w_u and w_v solve w_u du_k + w_v dv_k = x_k - x_0 for k = 1, 2
    determinant = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    p1, p2 = second[:, 1] / determinant, -first[:, 1] / determinant
    q1, q2 = -second[:, 0] / determinant, first[:, 0] / determinant
    return np.column_stack([-p1 - p2, p1, p2]), np.column_stack([-q1 - q2, q1, q2])
