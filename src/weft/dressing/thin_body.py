"""A thin body for sewing: the part of a body that a garment will cover, shrunk towards its skeleton.

Panels that hang in front of and behind a body can be sewn together around a thin one without a seam that is caught on a
shoulder or closes on the wrong side of an arm. Then the body grows to its true shape and pushes the garment into place.
Shrinking is diffusion of the positions with cotangent weights (mean curvature flow, linearised at the body), which
flattens a limb of radius r by exp(-t / r^2): arms and legs become thin, the trunk slender. Vertices away from the garment
keep their place, so that hands need not pass through cuffs.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu
from scipy.spatial import cKDTree

from weft.mesh import TriMesh

Floats = NDArray[np.float64]

# m^2: how long the positions diffuse. With 0.006 an arm of 5 cm radius shrinks to a tenth and shoulders sink by 4 cm; with
# 0.01 legs became as thin as a thread, which cloth is caught on
DIFFUSION = 0.006
# implicit steps of the diffusion
STEPS = 4
# m: as far as this beyond the garment, seen from the front, the body is thin, and from there over the second length it comes
# back to its true shape
REACH, RETURN = 0.22, 0.10
# how strongly vertices out of reach are held, in units of their mass
HOLD = 200.0
# bounds of a cotangent: triangles without area would give infinite ones
LEAST_COTANGENT, LARGEST_COTANGENT = 0.02, 20.0


def thin_body(body: TriMesh, garment: Floats) -> Floats:
    """(n, 3) the vertices of a body that is thin where, seen from the front, these vertices of a garment cover it."""
    away = cKDTree(garment[:, :2]).query(body.vertices[:, :2])[0]
    hold = HOLD * np.clip((away - REACH) / RETURN, 0.0, 1.0)
    stiffness, mass = _laplacian(body)
    system = sparse.diags_array(mass * (1.0 + hold)) + (DIFFUSION / STEPS) * stiffness
    solver = splu(system.tocsc())
    x = body.vertices
    for _ in range(STEPS):
        x = solver.solve(mass[:, None] * (x + hold[:, None] * body.vertices))
    return np.asarray(x)


def _laplacian(mesh: TriMesh) -> tuple[sparse.csr_array, Floats]:
    """The cotangent matrix of a mesh, positive semi-definite, and the area that belongs to each vertex."""
    x, count = mesh.vertices, len(mesh.vertices)
    rows, columns, weights = [], [], []
    for k in range(3):
        a, b, c = (mesh.faces[:, (k + i) % 3] for i in range(3))
        to_a, to_b = x[a] - x[c], x[b] - x[c]
        area = np.maximum(np.linalg.norm(np.cross(to_a, to_b), axis=1), 1e-12)
        cotangent = np.clip((to_a * to_b).sum(axis=1) / area, LEAST_COTANGENT, LARGEST_COTANGENT)
        rows += [a, b]
        columns += [b, a]
        weights += [0.5 * cotangent, 0.5 * cotangent]
    entries = (np.concatenate(weights), (np.concatenate(rows), np.concatenate(columns)))
    adjacency = sparse.coo_array(entries, shape=(count, count)).tocsr()
    mass = np.bincount(mesh.faces.ravel(), np.repeat(mesh.face_areas / 3.0, 3), count).astype(np.float64)
    # vertices without triangles stay
    mass[mass == 0.0] = mass.max()
    return sparse.diags_array(np.asarray(adjacency.sum(axis=1)).ravel()) - adjacency, mass
