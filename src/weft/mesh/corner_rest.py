"""The flat rest shape of panels that share the vertices of their seams: each triangle as it lies in its panel.

A side is that of a triangle from one corner to the next: 3 t + k for triangle t from its corner k, as half-edges are numbered.
"""

import numpy as np

from weft.mesh.topology import Ints
from weft.mesh.validate import Floats, square, twice_areas


def in_plane(points: Floats) -> Floats:
    """Points of the plane as those of space with z = 0."""
    return np.concatenate([points, np.zeros((*points.shape[:-1], 1))], axis=-1)


def side_lengths(corners: Floats) -> Floats:
    """(3 m,) the lengths of the sides of triangles with these corners (m, 3, 2)."""
    return np.sqrt(square((np.roll(corners, -1, axis=1) - corners).reshape(-1, 2)))


def unfold_hinges(corners: Floats, sides: Ints, lengths: Floats) -> Floats:
    """(h, 4, 2) hinges in the plane of their first triangle: the ends of the edge, then the two opposite vertices.

    corners: (m, 3, 2) of all triangles. sides: (h, 2) the two sides of each hinge. lengths: (h,) of their edges, to which both
    triangles are scaled, since the sides of an eased seam differ.
    """
    a, b, c = _from_sides(corners, sides[:, 0])
    along = (b - a) / np.sqrt(square(b - a))[:, None]
    across = np.stack([-along[:, 1], along[:, 0]], axis=1)
    across *= np.sign((across * (c - a)).sum(axis=1))[:, None]
    flat = np.tile(a[:, None], (1, 4, 1))
    flat[:, 1] += lengths[:, None] * along
    for k in range(2):
        p, q, opposite = _from_sides(corners, sides[:, k])
        own = square(q - p)
        part = ((opposite - p) * (q - p)).sum(axis=1) / own
        height = lengths * twice_areas(q - p, opposite - p) / own
        # the second triangle has the edge the other way round, and is on the other side of it
        part, height = (part, height) if k == 0 else (1.0 - part, -height)
        flat[:, 2 + k] += (lengths * part)[:, None] * along + height[:, None] * across
    return flat


def _from_sides(corners: Floats, sides: Ints) -> Floats:
    """(3, h, 2) the corners of triangles, beginning with the ends of a side."""
    face, corner = sides // 3, sides % 3
    return np.stack([corners[face, (corner + i) % 3] for i in range(3)])
