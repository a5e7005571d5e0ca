"""Contact lists made by hand, for the tests of what is done about contacts."""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.contact.lists import ContactList

CPU = wp.get_device("cpu")
POINT_TRIANGLE, EDGE_EDGE = range(2)


class Pairs(NamedTuple):
    """Stencils as host arrays, and where their vertices are."""

    x: np.ndarray
    vertices: np.ndarray
    weights: np.ndarray
    normals: np.ndarray
    gaps: np.ndarray


def random_pairs(rng: np.random.Generator, count: int, points: int, *, gap: float | None = None) -> Pairs:
    """Stencils of random kinds between random vertices, each with its normal along its relative position.

    With a `gap`, each stencil has four vertices of its own, moved so that its relative position has that length.
    """
    x = rng.normal(size=(points, 3))
    vertices = np.array([rng.choice(points, 4, replace=False) for _ in range(count)])
    if gap is not None:
        assert points == 4 * count
        vertices = rng.permutation(points).reshape(count, 4)
    weights = np.empty((count, 4))
    for row in weights:
        if rng.integers(2) == POINT_TRIANGLE:
            row[:] = 1.0, *(-rng.dirichlet(np.ones(3)))
        else:
            s, t = rng.uniform(size=2)
            row[:] = 1.0 - s, s, t - 1.0, -t
    r = np.einsum("ik,ikd->id", weights, x[vertices])
    normals = r / np.linalg.norm(r, axis=1, keepdims=True)
    if gap is not None:
        # the first two corners move alike: their weights together say how far
        first = weights[:, :2].sum(axis=1)
        first, moved = np.where(weights[:, 1] < 0.0, 1.0, first), np.where(weights[:, 1] < 0.0, 1, 2)
        for row, n, way, corners, length in zip(
            vertices, normals, first, moved, gap - np.linalg.norm(r, axis=1), strict=True
        ):
            x[row[:corners]] += length / way * n
        r = np.einsum("ik,ikd->id", weights, x[vertices])
    return Pairs(x, vertices, weights, normals, np.einsum("id,id->i", r, normals))


def upload(
    pairs: Pairs,
    speeds: np.ndarray | float = 0.0,
    friction: tuple[float, float] = (0.0, 0.0),
    thickness: float = 1e-3,
    device: wp.Device = CPU,
) -> ContactList:
    """The same on the device, no impulse given yet."""
    contacts, count = ContactList(device), len(pairs.vertices)
    contacts.grow(count)
    contacts.vertices[:count].assign(pairs.vertices.astype(np.int32))
    contacts.weights[:count].assign(pairs.weights)
    contacts.normals[:count].assign(pairs.normals)
    contacts.gaps[:count].assign(pairs.gaps)
    contacts.thickness[:count].assign(np.full(count, thickness))
    contacts.least_speeds[:count].assign(np.broadcast_to(speeds, count).astype(float))
    contacts.friction[:count].assign(np.broadcast_to(friction, (count, 2)).astype(float))
    contacts.normal_impulses[:count].zero_()
    contacts.least_impulses[:count].zero_()
    contacts.tangential_impulses[:count].zero_()
    return contacts


def vectors(values: np.ndarray, device: wp.Device = CPU) -> wp.array:
    return wp.array(np.ascontiguousarray(values, dtype=float), dtype=wp.vec3d, device=device)


def packed_vertices(values: np.ndarray, inverse_mass: np.ndarray, device: wp.Device = CPU) -> wp.array:
    """Vectors of vertices beside their inverse masses."""
    return wp.array(np.column_stack([values, inverse_mass]), dtype=wp.vec4d, device=device)


def numbers(values: np.ndarray, device: wp.Device = CPU) -> wp.array:
    return wp.array(np.ascontiguousarray(values, dtype=float), dtype=wp.float64, device=device)


def relative(pairs: Pairs, values: np.ndarray) -> np.ndarray:
    """The stencils' sums of a quantity of the vertices."""
    return np.einsum("ik,ikd->id", pairs.weights, values[pairs.vertices])


def momenta(mass: np.ndarray, x: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Linear and angular momentum."""
    return np.concatenate([(mass[:, None] * v).sum(axis=0), (mass[:, None] * np.cross(x, v)).sum(axis=0)])
