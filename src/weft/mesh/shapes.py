"""Meshes of simple shapes: sheets that face up, closed bodies that face outwards."""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import MeshError
from weft.mesh.topology import Ints
from weft.mesh.trimesh import TriMesh

Diagonals = Literal["alternating", "same"]
BOUNDARIES = ("left", "right", "top", "bottom", "corners", "all")


def grid(size: tuple[float, float], cells: tuple[int, int], *, diagonals: Diagonals = "alternating") -> TriMesh:
    """A rectangular sheet in the xz plane, centred, facing +y, with its rest shape as uv.

    `size` is its extent along x and z, `cells` the number of cells along each. Vertex (i, j) has the index
    `j * (cells[0] + 1) + i`. Diagonals all run the same way, or alternate like the squares of a chessboard, which
    gives the sheet no preferred direction. uv is (x, -z), so that the front of the pattern is the front of the sheet.
    """
    _positive(size=(size, 2))
    _at_least(1, cells=(cells, 2))
    points = _lattice(size, cells)
    vertices = np.stack([points[:, 0], np.zeros(len(points)), points[:, 1]], axis=1)
    faces = _lattice_faces(*cells, alternating=_alternates(diagonals))
    return TriMesh(vertices, faces, uv=points * (1.0, -1.0))


def grid_boundary(cells: tuple[int, int], name: str) -> Ints:
    """The vertices of a named side of a grid (and strip) with these cells, in ascending order.

    Seen from above with x to the right, and -z up: left, right, top (lowest z), bottom (highest z), corners, all.
    """
    _at_least(1, cells=(cells, 2))
    across, along = cells
    index = np.arange((across + 1) * (along + 1), dtype=np.int32).reshape(along + 1, across + 1)
    sides = {"left": index[:, 0], "right": index[:, -1], "top": index[0], "bottom": index[-1]}
    sides["corners"] = index[[0, 0, -1, -1], [0, -1, 0, -1]]
    sides["all"] = np.unique(np.concatenate([sides[side] for side in ("left", "right", "top", "bottom")]))
    if name not in sides:
        raise MeshError(f"a grid has no boundary {name!r}; it has {', '.join(BOUNDARIES)}")
    return np.ascontiguousarray(sides[name])


def strip(
    length: float, width: float, cells: int, *, cells_across: int = 1, diagonals: Diagonals = "alternating"
) -> TriMesh:
    """A ribbon: a grid whose length runs along x."""
    return grid((length, width), (cells, cells_across), diagonals=diagonals)


def plane(size: tuple[float, float] = (10.0, 10.0), *, cells: tuple[int, int] = (1, 1), height: float = 0.0) -> TriMesh:
    """A floor: a rectangle at y = height, centred, facing +y, split into cells; without uv."""
    sheet = grid(size, cells, diagonals="same")
    return TriMesh(sheet.vertices + np.array([0.0, height, 0.0]), sheet.faces)


def uv_sphere(radius: float = 1.0, *, segments: int = 32, rings: int = 16) -> TriMesh:
    """A sphere of meridians and parallels, its poles on the y axis: `rings` bands from pole to pole."""
    _positive(radius=(radius, 1))
    _at_least(3, segments=(segments, 1))
    _at_least(2, rings=(rings, 1))
    angles = np.pi * np.arange(1, rings) / rings
    return _revolve(radius * np.sin(angles), radius * np.cos(angles), segments, poles=(radius, -radius))


def capsule(
    radius: float = 0.5,
    length: float = 1.0,
    *,
    end_radius: float | None = None,
    segments: int = 32,
    rings: int = 8,
    bands: int = 1,
) -> TriMesh:
    """A cylinder along y with half spheres on both ends; with an `end_radius` at its upper end a cone that touches two spheres.

    `length` is the distance between the centres of the spheres; each of them has `rings` bands, the cylinder
    between them `bands`.
    """
    upper = radius if end_radius is None else end_radius
    _positive(radius=(radius, 1), length=(length, 1), end_radius=(upper, 1))
    _at_least(3, segments=(segments, 1))
    _at_least(1, rings=(rings, 1), bands=(bands, 1))
    if abs(radius - upper) >= length:
        raise MeshError(
            f"the radii of a capsule must differ by less than its length {length:g}, or one end is inside the other"
        )
    # the cone touches both spheres where their normals have this angle with the axis
    slope = (radius - upper) / length
    tangent = np.arccos(slope)
    steps = np.arange(1, rings + 1) / rings
    top_cap, bottom_cap = tangent * steps, (np.pi - tangent) * steps
    top = upper * np.cos(top_cap) + 0.5 * length
    bottom = radius * np.cos(bottom_cap) + 0.5 * length
    across, first, last = np.sin(tangent), 0.5 * length + upper * slope, -0.5 * length + radius * slope
    between = np.arange(1, bands) / bands
    radii = [upper * np.sin(top_cap), across * (upper + (radius - upper) * between), radius * np.sin(bottom_cap[::-1])]
    heights = [top, first - (first - last) * between, -bottom[::-1]]
    poles = upper + 0.5 * length, -radius - 0.5 * length
    return _revolve(np.concatenate(radii), np.concatenate(heights), segments, poles=poles)


def convex_hull(points: ArrayLike) -> TriMesh:
    """The convex hull of points (n, 3), closed, facing outwards."""
    from scipy.spatial import ConvexHull, QhullError

    given = np.asarray(points, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != 3 or not np.isfinite(given).all():
        raise MeshError(f"a convex hull needs finite points (n, 3), not {given.shape}")
    try:
        hull = ConvexHull(given)
    except (QhullError, ValueError):
        raise MeshError("a convex hull needs four points or more that are not in one plane") from None
    corners = given[hull.simplices]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    inwards = np.einsum("nk,nk->n", normals, hull.equations[:, :3]) < 0.0
    faces = np.where(inwards[:, None], hull.simplices[:, ::-1], hull.simplices)
    used, index = np.unique(faces, return_inverse=True)
    return TriMesh(given[used], index.reshape(-1, 3).astype(np.int32))


def cylinder(radius: float = 0.5, height: float = 1.0, *, segments: int = 32, rings: int = 1) -> TriMesh:
    """An open tube along y, without its ends, facing outwards, in `rings` bands."""
    _positive(radius=(radius, 1), height=(height, 1))
    _at_least(3, segments=(segments, 1))
    _at_least(1, rings=(rings, 1))
    heights = 0.5 * height - height * np.arange(rings + 1) / rings
    return _revolve(np.full(rings + 1, radius), heights, segments, poles=None)


def box(size: tuple[float, float, float] = (1.0, 1.0, 1.0), *, cells: int | tuple[int, int, int] = 1) -> TriMesh:
    """A box, centred, closed, facing outwards, each side split into cells (one number, or one for x, y and z)."""
    counts = (cells, cells, cells) if isinstance(cells, int) else cells
    _positive(size=(size, 3))
    _at_least(1, cells=(counts, 3))

    # each side is a lattice of integer points; sides share the points of their common edges
    sides = []
    for axis in range(3):
        across, along = (axis + 1) % 3, (axis + 2) % 3
        faces = _lattice_faces(counts[across], counts[along], alternating=True)
        steps = np.indices((counts[along] + 1, counts[across] + 1)).reshape(2, -1)
        for level, front in ((0, False), (counts[axis], True)):
            corners = np.full((steps.shape[1], 3), level)
            corners[:, along], corners[:, across] = steps
            # lattice faces turn from the second direction to the first: that is inwards on the far side
            sides.append(corners[faces[:, ::-1] if front else faces])
    lattice = np.concatenate(sides).reshape(-1, 3)
    points, index = np.unique(lattice, axis=0, return_inverse=True)
    vertices = (points / np.asarray(counts) - 0.5) * np.asarray(size)
    return TriMesh(vertices, index.reshape(-1, 3))


def icosphere(radius: float = 1.0, *, subdivisions: int = 3) -> TriMesh:
    """A sphere of nearly equal triangles: an icosahedron split `subdivisions` times, 20 * 4^subdivisions triangles."""
    from weft.mesh.subdivide import split_in_four

    _positive(radius=(radius, 1))
    _at_least(0, subdivisions=(subdivisions, 1))
    golden = (1.0 + 5.0**0.5) / 2.0
    signs = np.array([(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0)]) * (1.0, golden)
    zero = np.zeros((4, 1))
    vertices = np.concatenate(
        [np.hstack([zero, signs]), np.hstack([signs, zero]), np.hstack([signs[:, 1:], zero, signs[:, :1]])]
    )
    mesh = TriMesh(vertices / np.linalg.norm(vertices[0]), _icosahedron_faces(vertices))
    for _ in range(subdivisions):
        middles = mesh.vertices[mesh.edges].sum(axis=1)
        middles /= np.linalg.norm(middles, axis=1, keepdims=True)
        mesh = TriMesh(np.concatenate([mesh.vertices, middles]), split_in_four(mesh))
    return mesh.with_vertices(mesh.vertices * radius)


def _icosahedron_faces(vertices: NDArray[np.float64]) -> Ints:
    """All triples of mutual neighbours, facing outwards."""
    near = np.linalg.norm(vertices[:, None] - vertices[None], axis=2) < 2.1
    a, b, c = np.array([(a, b, c) for a in range(12) for b in range(a) for c in range(b)]).T
    keep = near[a, b] & near[b, c] & near[a, c]
    faces = np.stack([a, b, c], axis=1)[keep].astype(np.int32)
    inwards = np.linalg.det(vertices[faces]) < 0.0
    faces[inwards] = faces[inwards][:, ::-1]
    return faces


def _lattice(size: tuple[float, float], cells: tuple[int, int]) -> NDArray[np.float64]:
    """The points of a centred lattice, the first direction fastest."""
    first, second = ((np.arange(n + 1) / n - 0.5) * extent for n, extent in zip(cells, size, strict=True))
    return np.stack([np.tile(first, len(second)), np.repeat(second, len(first))], axis=1)


def _lattice_faces(across: int, along: int, *, alternating: bool) -> Ints:
    """Two triangles a cell; they turn from the second direction to the first (z to x: front is +y)."""
    i, j = np.tile(np.arange(across), along), np.repeat(np.arange(along), across)
    near = j * (across + 1) + i
    a, b, c, d = near, near + 1, near + across + 1, near + across + 2
    first = np.stack([a, c, d, a, d, b], axis=1)
    if alternating:
        other = np.stack([a, c, b, b, c, d], axis=1)
        first = np.where(((i + j) % 2 == 1)[:, None], other, first)
    return first.reshape(-1, 3).astype(np.int32)


def _revolve(
    radii: NDArray[np.float64],
    heights: NDArray[np.float64],
    segments: int,
    *,
    poles: tuple[float, float] | None,
) -> TriMesh:
    """Circles around the y axis from top to bottom, joined by bands, closed with a pole at each end if given."""
    angles = 2.0 * np.pi * np.arange(segments) / segments
    circle = np.stack([np.cos(angles), np.zeros(segments), -np.sin(angles)], axis=1)
    vertices = (radii[:, None, None] * circle + heights[:, None, None] * np.array([0.0, 1.0, 0.0])).reshape(-1, 3)

    # bands: seen from outside with y up, the angle grows to the right
    here = np.arange(segments)
    right = (here + 1) % segments
    rows = segments * np.arange(len(radii) - 1)[:, None]
    upper, upper_right = rows + here, rows + right
    lower, lower_right = upper + segments, upper_right + segments
    faces = np.stack([upper, lower, lower_right, upper, lower_right, upper_right], axis=-1).reshape(-1, 3)
    if poles is not None:
        top, bottom = len(vertices), len(vertices) + 1
        last = segments * (len(radii) - 1)
        caps = [
            np.stack([np.full(segments, top), here, right], axis=1),
            np.stack([np.full(segments, bottom), last + right, last + here], axis=1),
        ]
        faces = np.concatenate([faces, *caps])
        vertices = np.concatenate([vertices, [(0.0, poles[0], 0.0), (0.0, poles[1], 0.0)]])
    return TriMesh(vertices, faces)


def _alternates(diagonals: str) -> bool:
    if diagonals not in ("alternating", "same"):
        raise MeshError(f"diagonals are 'alternating' or 'same', not {diagonals!r}")
    return diagonals == "alternating"


def _positive(**lengths: tuple[object, int]) -> None:
    """Check lengths by name: what was given, and how many numbers it must be."""
    for name, (value, count) in lengths.items():
        array = np.asarray(value)
        if array.size != count or array.dtype.kind not in "iuf" or not np.all(np.isfinite(array) & (array > 0.0)):
            many = "a positive number" if count == 1 else f"{count} positive numbers"
            raise MeshError(f"{name} must be {many}, not {value}")


def _at_least(lowest: int, **numbers: tuple[object, int]) -> None:
    """Check whole numbers by name: what was given, and how many numbers it must be."""
    for name, (value, count) in numbers.items():
        array = np.asarray(value)
        if array.size != count or array.dtype.kind not in "iu" or np.any(array < lowest):
            many = "a whole number" if count == 1 else f"{count} whole numbers"
            raise MeshError(f"{name} must be {many} from {lowest} up, not {value}")
