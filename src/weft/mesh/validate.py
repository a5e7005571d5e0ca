"""Validation of triangle meshes, and the messages that say what is wrong."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import MeshError, WeftError
from weft.mesh.topology import Ints, Topology, following, sort_pairs

Floats = NDArray[np.float64]

# a triangle whose height is below this fraction of its longest edge counts as having no area
FLATNESS = 1e-12


class BadMeshError(MeshError):
    """A mesh that `TriMesh` refuses and `repair_mesh` can repair."""

    def __init__(self, problems: list[str]) -> None:
        self.summary = f"the mesh has {'; '.join(problems)}"
        super().__init__(f"{self.summary}. weft.mesh.repair_mesh(vertices, faces, uv) repairs such meshes")


def as_vertices(vertices: ArrayLike) -> Floats:
    """A float64 copy of shape (n, 3)."""
    return _as_coordinates(vertices, 3, "vertices")


def as_uv(uv: ArrayLike, vertex_count: int) -> Floats:
    """A float64 copy of shape (n, 2)."""
    result = _as_coordinates(uv, 2, "uv")
    if len(result) != vertex_count:
        raise MeshError(f"uv has {len(result)} rows for {vertex_count} vertices; give one row a vertex")
    return result


def as_faces(faces: ArrayLike) -> NDArray[np.int64]:
    """An int64 copy of shape (m, 3); indices are not checked."""
    array = _as_array(faces, "faces")
    if array.ndim != 2 or array.shape[1] != 3:
        raise MeshError(f"faces must have shape (m, 3), three vertex indices a triangle, not {array.shape}")
    if len(array) == 0:
        raise MeshError("the mesh has no triangles")
    if array.dtype.kind not in "iu":
        raise MeshError(f"faces must be integers (vertex indices), not {array.dtype}")
    return array.astype(np.int64)


def check_mesh(vertices: Floats, faces: NDArray[np.int64], uv: Floats | None) -> Topology:
    """Raise one `MeshError` that names everything wrong with the mesh; else give its topology."""
    problems = _coordinate_problems(vertices, uv)
    wrong_index = faces_out_of_range(faces, len(vertices))
    if wrong_index.any():
        example = faces[wrong_index.argmax()]
        problems.append(
            f"{_count(wrong_index, 'triangle')} with a vertex index outside 0..{len(vertices) - 1} "
            f"({_name(wrong_index)}; the first is {tuple(example.tolist())})"
        )
    # further checks need vertices that exist
    if problems:
        raise BadMeshError(problems)
    topology = Topology(faces.astype(np.int32), len(vertices))
    topology.faces.setflags(write=False)
    problems += _triangle_problems(vertices, topology, uv)
    edge_problems = _edge_problems(topology)
    problems += edge_problems
    # finding fans around a vertex needs manifold edges
    if not edge_problems and not faces_with_repeated_vertices(topology.faces).any():
        fans = topology.vertex_fans > 1
        if fans.any():
            problems.append(
                f"{_count(fans, 'bow-tie vertex', 'bow-tie vertices')} where separate fans of triangles meet "
                f"in one point ({_name(fans)})"
            )
    if problems:
        raise BadMeshError(problems)
    return topology


def check_finite(vertices: Floats) -> None:
    """Raise a `MeshError` that names the vertices with NaN or infinite coordinates."""
    problems = _coordinate_problems(vertices, None)
    if problems:
        raise BadMeshError(problems)


def faces_out_of_range(faces: NDArray[Any], vertex_count: int) -> NDArray[np.bool_]:
    """Which triangles name a vertex that does not exist."""
    return np.any((faces < 0) | (faces >= vertex_count), axis=1)


def faces_with_repeated_vertices(faces: NDArray[Any]) -> NDArray[np.bool_]:
    """Which triangles use a vertex twice."""
    a, b, c = faces.T
    return (a == b) | (b == c) | (c == a)


def faces_without_area(points: Floats, faces: NDArray[Any]) -> NDArray[np.bool_]:
    """Which triangles are flat to a line or a point, judged by shape, not by size. Points are (n, 2) or (n, 3)."""
    a, b, c = points[faces[:, 0]], points[faces[:, 1]], points[faces[:, 2]]
    ab, ac, bc = b - a, c - a, c - b
    longest = np.maximum(np.maximum(square(ab), square(ac)), square(bc))
    return twice_areas(ab, ac) <= FLATNESS * longest


def repeated_faces(topology: Topology) -> NDArray[np.bool_]:
    """Which triangles have the same three vertices as an earlier one."""
    # the key of a triangle is the edge opposite of its highest vertex, and that vertex
    faces = topology.faces
    rows = np.arange(len(faces))
    top = faces.argmax(axis=1)
    keys = topology.face_edges[rows, (top + 1) % 3].astype(np.int64) * topology.vertex_count + faces[rows, top]
    ordered = np.sort(keys)
    repeated = np.zeros(len(faces), dtype=bool)
    if (ordered[1:] == ordered[:-1]).any():
        order = np.argsort(keys, kind="stable")
        repeated[order[1:]] = keys[order[1:]] == keys[order[:-1]]
    return repeated


def edges_turned(topology: Topology) -> NDArray[np.bool_]:
    """Which edges have two triangles that run along them in the same direction."""
    tails = topology.faces.ravel()
    first, second = topology.edge_halves.T
    return (second >= 0) & (topology.edge_counts == 2) & (tails[first] == tails[second])


def torn_edges(vertices: Floats, topology: Topology, uv: Floats | None = None) -> NDArray[np.int32]:
    """(k, 2, 2) pairs of boundary edges at the same position: for both ends of the edge, its two vertices.

    The edges run in opposite directions, as in two triangles of one surface, and no third edge lies there; uv are equal.
    """
    place = place_numbers(vertices if uv is None else np.concatenate([vertices, uv], axis=1))
    ends = np.sort(place[topology.edges], axis=1)
    order, keys = sort_pairs(ends[:, 0], ends[:, 1], len(place))
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    starts = starts[np.diff(starts, append=len(keys)) == 2]
    pairs = np.stack([order[starts], order[starts + 1]], axis=1)
    pairs = pairs[(topology.edge_counts[pairs] == 1).all(axis=1)]

    # from a to b along the one, and from c to d along the other
    corners = topology.faces.ravel()
    first, second = topology.edge_halves[pairs, 0].T
    a, b, c, d = corners[first], corners[following(first)], corners[second], corners[following(second)]
    opposite = (place[a] == place[d]) & (place[b] == place[c])
    return np.stack([a, d, b, c], axis=1)[opposite].reshape(-1, 2, 2)


def place_numbers(points: Floats) -> NDArray[np.int64]:
    """(n,) numbers of the points, equal for points at exactly the same position."""
    # adding 0 makes -0 and 0 the same
    rows = points + 0.0
    order = np.lexsort(rows.T)
    is_first = np.ones(len(rows), dtype=bool)
    is_first[1:] = (rows[order[1:]] != rows[order[:-1]]).any(axis=1)
    place = np.empty(len(rows), dtype=np.int64)
    place[order] = np.cumsum(is_first) - 1
    return place


def square(vectors: Floats) -> Floats:
    """Squared lengths of the rows."""
    result: Floats = np.einsum("ij,ij->i", vectors, vectors)
    return result


def twice_areas(ab: Floats, ac: Floats) -> Floats:
    """Twice the areas of triangles given by two of their sides, in 2 or 3 dimensions."""
    if ab.shape[1] == 2:
        return np.abs(ab[:, 0] * ac[:, 1] - ab[:, 1] * ac[:, 0])
    return np.sqrt(square(cross(ab, ac)))


def cross(a: Floats, b: Floats) -> Floats:
    """Cross products of the rows (several times faster than `numpy.cross`)."""
    result = np.empty_like(a)
    result[:, 0] = a[:, 1] * b[:, 2] - a[:, 2] * b[:, 1]
    result[:, 1] = a[:, 2] * b[:, 0] - a[:, 0] * b[:, 2]
    result[:, 2] = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return result


def list_first(names: Sequence[Any] | NDArray[Any], most: int = 5) -> str:
    """The first few names: "1, 2, 3, ..."."""
    shown = ", ".join(str(name) for name in names[:most])
    return shown + (", ..." if len(names) > most else "")


def _coordinate_problems(vertices: Floats, uv: Floats | None) -> list[str]:
    problems = []
    for name, array in (("coordinate", vertices), ("uv", uv)):
        if array is None:
            continue
        bad: NDArray[np.bool_] = ~np.all(np.isfinite(array), axis=1)
        if bad.any():
            problems.append(f"{_count(bad, 'vertex', 'vertices')} with a NaN or infinite {name} ({_name(bad)})")
    return problems


def _triangle_problems(vertices: Floats, topology: Topology, uv: Floats | None) -> list[str]:
    faces = topology.faces
    problems = []
    repeats = faces_with_repeated_vertices(faces)
    if repeats.any():
        problems.append(f"{_count(repeats, 'triangle')} with the same vertex twice ({_name(repeats)})")
    rest = vertices if uv is None else uv
    flat = faces_without_area(rest, faces) & ~repeats
    if flat.any():
        where = "" if uv is None else " in uv"
        problems.append(f"{_count(flat, 'triangle')} without area{where} ({_name(flat)})")
    repeated = repeated_faces(topology) & ~repeats
    if repeated.any():
        problems.append(f"{_count(repeated, 'triangle')} with the vertices of an earlier one ({_name(repeated)})")
    used = np.zeros(topology.vertex_count, dtype=bool)
    used[faces] = True
    if not used.all():
        problems.append(f"{_count(~used, 'vertex', 'vertices')} in no triangle ({_name(~used)})")
    return problems


def _edge_problems(topology: Topology) -> list[str]:
    problems = []
    crowded = topology.edge_counts > 2
    if crowded.any():
        problems.append(
            f"{_count(crowded, 'edge')} with more than two triangles ({_name_edges(topology.edges[crowded])})"
        )
    turned = edges_turned(topology)
    # an edge from a vertex to itself belongs to a triangle that is reported already
    turned &= topology.edges[:, 0] != topology.edges[:, 1]
    if turned.any():
        problems.append(
            f"{_count(turned, 'edge')} whose two triangles face opposite ways ({_name_edges(topology.edges[turned])})"
        )
    return problems


def _as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    try:
        array = np.asarray(values)
    except ValueError:
        raise MeshError(f"{name} must be a rectangular array; its rows have different lengths") from None
    if array.dtype.kind not in "iufb":
        raise MeshError(f"{name} must be an array of numbers, not of {array.dtype}")
    return array


def _as_coordinates(values: ArrayLike, columns: int, name: str) -> Floats:
    array = _as_array(values, name)
    if array.ndim != 2 or array.shape[1] != columns:
        raise MeshError(f"{name} must have shape (n, {columns}), not {array.shape}")
    return np.array(array, dtype=np.float64, order="C")


def _count(mask: NDArray[np.bool_], one: str, many: str | None = None) -> str:
    number = int(np.count_nonzero(mask))
    return f"1 {one}" if number == 1 else f"{number} {many or one + 's'}"


def _name(mask: NDArray[np.bool_]) -> str:
    return list_first(np.flatnonzero(mask).tolist())


def _name_edges(edges: Ints) -> str:
    return list_first([f"{a}-{b}" for a, b in edges[:6].tolist()])


def read_positions(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """A float64 array of shape (n, 3), all finite."""
    positions = np.ascontiguousarray(values, dtype=np.float64)
    if positions.ndim != 2 or positions.shape[1] != 3:
        raise MeshError(f"{name} must have the shape (n, 3), got {positions.shape}")
    bad = np.flatnonzero(~np.isfinite(positions).all(axis=1))
    if len(bad):
        raise MeshError(f"{name} holds coordinates that are not finite numbers, at vertices {list_first(bad)}")
    return positions


def read_faces(values: ArrayLike, vertex_count: int) -> NDArray[np.int32]:
    """An int32 array of shape (m, 3) of vertices that exist; no triangle at all is fine."""
    faces = np.asarray(values)
    if faces.size == 0:
        return np.zeros((0, 3), np.int32)
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise MeshError(f"faces must be whole numbers of shape (m, 3), got {faces.dtype} of shape {faces.shape}")
    bad = np.flatnonzero(faces_out_of_range(faces, vertex_count))
    if len(bad):
        raise MeshError(
            f"triangles {list_first(bad)} name vertices outside 0 to {vertex_count - 1}; the first is "
            f"{tuple(faces[bad[0]].tolist())}"
        )
    return faces.astype(np.int32)


def read_length(value: float, name: str) -> float:
    """A length in metres, 0 or more."""
    length = float(value)
    if not 0.0 <= length < float("inf"):
        raise WeftError(f"{name} must be a length in metres, 0 or more, got {value}")
    return length
