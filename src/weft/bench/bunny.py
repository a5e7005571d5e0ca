"""A small closed mesh in the shape of a rabbit, made from ellipsoids: it stands in for the bunny of the papers."""

import numpy as np

from weft.mesh import TriMesh

# middle, half axes and tilt about x in degrees of each ellipsoid; the rabbit looks along +z, y is up
PARTS = (
    ((0.0, 0.36, -0.05), (0.36, 0.34, 0.46), 0.0),
    ((0.0, 0.52, 0.22), (0.24, 0.28, 0.24), 0.0),
    ((0.0, 0.84, 0.36), (0.21, 0.20, 0.25), 0.0),
    ((-0.13, 1.18, 0.22), (0.085, 0.30, 0.075), -14.0),
    ((0.13, 1.18, 0.22), (0.085, 0.30, 0.075), -14.0),
    ((-0.26, 0.20, -0.12), (0.16, 0.22, 0.28), 0.0),
    ((0.26, 0.20, -0.12), (0.16, 0.22, 0.28), 0.0),
    ((-0.16, 0.10, 0.38), (0.10, 0.10, 0.17), 0.0),
    ((0.16, 0.10, 0.38), (0.10, 0.10, 0.17), 0.0),
    ((0.0, 0.30, -0.54), (0.12, 0.12, 0.11), 0.0),
)
# how sharply the ellipsoids stay apart where they meet
SHARPNESS = 3.0
# where the lattice begins and ends: chosen with the default cell so that the mesh is manifold
LOW, HIGH = np.array([-0.78, -0.325, -0.95]), np.array([0.75, 1.75, 0.9])


def field(points: np.ndarray) -> np.ndarray:
    """Positive inside the rabbit, negative outside, smooth."""
    total = np.zeros(points.shape[:-1])
    for middle, axes, tilt in PARTS:
        angle = np.radians(tilt)
        q = points - np.array(middle)
        y = np.cos(angle) * q[..., 1] + np.sin(angle) * q[..., 2]
        z = -np.sin(angle) * q[..., 1] + np.cos(angle) * q[..., 2]
        square = (q[..., 0] / axes[0]) ** 2 + (y / axes[1]) ** 2 + (z / axes[2]) ** 2
        total += np.exp(-SHARPNESS * (square - 1.0))
    return np.log(total + 1e-300)


def bunny(height: float = 1.0, *, cell: float = 0.1) -> TriMesh:
    """The rabbit, standing on y = 0; with the default cell it has about 1,000 triangles."""
    points, faces = _surface_net(cell)
    for _ in range(4):
        points = _onto_surface(_smoothed(points, faces))
    points = points * (height / np.ptp(points[:, 1]))
    middle = 0.5 * (points.min(axis=0) + points.max(axis=0))
    return TriMesh(points - (middle[0], points[:, 1].min(), middle[2]), faces)


def _surface_net(cell: float) -> tuple[np.ndarray, np.ndarray]:
    """A point in every cell of a lattice through which the surface passes, joined across the edges that it cuts."""
    shape = np.ceil((HIGH - LOW) / cell).astype(int)
    lattice = LOW + cell * np.stack(np.meshgrid(*(np.arange(n + 1) for n in shape), indexing="ij"), axis=-1)
    inside = field(lattice) > 0.0
    corners = np.stack(
        [inside[i : i + shape[0], j : j + shape[1], k : k + shape[2]] for i, j, k in np.ndindex(2, 2, 2)]
    )
    mixed = corners.any(axis=0) & ~corners.all(axis=0)
    number = np.cumsum(mixed).reshape(mixed.shape) - 1
    points = LOW + cell * (np.argwhere(mixed) + 0.5)

    faces = []
    for axis in range(3):
        one, two = (axis + 1) % 3, (axis + 2) % 3
        ahead = np.roll(inside, -1, axis=axis)
        for place in np.argwhere(inside != ahead):
            if place[axis] >= shape[axis] or min(place[one], place[two]) == 0:
                continue
            steps = np.zeros((4, 3), int)
            steps[[1, 2], one] = -1
            steps[[2, 3], two] = -1
            a, b, c, d = (number[tuple(place + step)] for step in steps)
            # from inside to outside along the edge the quad turns one way, else the other
            quad = (a, b, c, d) if inside[tuple(place)] else (d, c, b, a)
            faces += [(quad[0], quad[1], quad[2]), (quad[0], quad[2], quad[3])]
    return _onto_surface(points), np.array(faces, np.int32)


def _onto_surface(points: np.ndarray) -> np.ndarray:
    """Some steps of Newton's method along the gradient."""
    for _ in range(8):
        value, h = field(points), 1e-5
        slope = np.stack([field(points + h * e) - value for e in np.eye(3)], axis=1) / h
        points = points - 0.7 * (value / np.maximum((slope**2).sum(axis=1), 1e-9))[:, None] * slope
    return points


def _smoothed(points: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Every point halfway to the mean of its neighbours."""
    ends = np.concatenate([faces[:, [k, (k + 1) % 3]] for k in range(3)])
    total = np.zeros_like(points)
    np.add.at(total, ends[:, 0], points[ends[:, 1]])
    count = np.bincount(ends[:, 0], minlength=len(points))
    return 0.5 * points + 0.5 * total / count[:, None]
