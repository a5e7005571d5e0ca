"""What the forces of implicit cloth act on: triangles, hinges and stitches with their constants (host arrays)."""

from collections.abc import Mapping
from dataclasses import dataclass, fields

import numpy as np

from weft.dynamics import curvature
from weft.dynamics.curvature import Hinges
from weft.dynamics.springs import membranes, stretch_limits
from weft.mesh import TriMesh
from weft.scene import Material
from weft.world import Seams, World

# a weld is a stitch this much stiffer than the stiffest cloth: a load of 1 N opens it by 10 to 40 micrometres
IMPLICIT_WELD_FACTOR = 100.0


@dataclass(frozen=True)
class Elements:
    """Triangles, hinges and stitches of all cloths, with their constants (host arrays); vertices are those of the world."""

    faces: np.ndarray
    """(m, 3) int32"""
    p: np.ndarray
    """(m, 3): w_u = sum p_k x_k"""
    q: np.ndarray
    """(m, 3): w_v = sum q_k x_k"""
    moduli: np.ndarray
    """(m, 4) in J: area times the stiffnesses of stretch along u, along v, of both together, and of shear"""
    delay: np.ndarray
    """(m,) damping time in s"""
    limit: np.ndarray
    """(m,) strain along the threads beyond which they are firm; inf: never"""
    hinges: Hinges
    """what bends"""
    bend_delay: np.ndarray
    """(h,) damping time of each hinge in s"""
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
    cloths = [
        from_mesh(cloth.mesh, cloth.material, first=cloth.first, painted=cloth.painted, angles=cloth.rest_angles)
        for cloth in world.cloths
    ]
    stiffest = max((cloth.material.mean("stretch") for cloth in world.cloths), default=0.0)
    return join([*cloths, from_seams(world.seams, weld=IMPLICIT_WELD_FACTOR * stiffest)])


def from_mesh(
    mesh: TriMesh,
    material: Material,
    *,
    first: int = 0,
    painted: Mapping[str, np.ndarray] | None = None,
    angles: np.ndarray | None = None,
) -> Elements:
    """The elements of one cloth whose vertices are numbered from `first`.

    `painted` has factors of the material's numbers, one a vertex; `angles` are those of creases (see `curvature.of_cloth`).

    Without a flat rest shape the directions of the threads are unknown: the cloth is then equally stiff in all directions,
    which takes a shear stiffness of half the stretch stiffness.
    """
    p, q = _material_axes(mesh)
    factors = {name: values[mesh.faces].mean(axis=1) for name, values in (painted or {}).items()}
    tensors = mesh.rest_areas[:, None, None] * membranes(mesh, material, factors)
    moduli = np.column_stack([tensors[:, 0, 0], tensors[:, 1, 1], tensors[:, 0, 1], tensors[:, 2, 2]])
    delay = np.full(len(mesh.faces), material.damping)
    bends = any(material.rigidities())
    hinges = curvature.of_cloth(mesh, material, painted, angles).shifted(first) if bends else curvature.none()
    return Elements(
        (mesh.faces + first).astype(np.int32),
        p,
        q,
        moduli,
        delay,
        stretch_limits(mesh, material, factors),
        hinges,
        np.full(len(hinges.quads), material.damping),
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
    none, flat = np.zeros((0, 3)), np.zeros(0)
    return Elements(none.astype(np.int32), none, none, np.zeros((0, 4)), flat, flat, curvature.none(), flat, *stitches)


def join(elements: list[Elements]) -> Elements:
    """All elements of several cloths in one."""
    arrays = {
        f.name: np.concatenate([getattr(e, f.name) for e in elements]) for f in fields(Elements) if f.name != "hinges"
    }
    return Elements(**arrays, hinges=curvature.join([one.hinges for one in elements]))


def _no_stitches() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    return np.zeros((0, 3), np.int32), np.zeros((0, 3)), np.zeros(0), np.zeros(0)


def _material_axes(mesh: TriMesh) -> tuple[np.ndarray, np.ndarray]:
    """The weights p and q of each triangle, from its flat rest shape or from its own plane."""
    flat = mesh.flat_corners
    if flat is not None:
        first, second = (flat[:, k] - flat[:, 0] for k in (1, 2))
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
