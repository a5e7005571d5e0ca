"""Which edges pass through which triangles: an exact test of a mesh at one moment, independent of the methods.

An intersection is (edge vertex, edge vertex, face): an edge and a triangle that share no vertex but at least one point.
Both are closed sets and their float64 coordinates exact numbers, so touching counts (an end on the surface, edges that
cross, coplanar overlap), there is no tolerance, and the result is the same for every order of vertices and triangles.
A triangle without area counts as the segment or point that it is.

If there are no intersections, then of any two triangles with area: those that share no vertex have no point in common;
those that share one vertex have only that point in common (if there were more, their common segment would end on the edge
opposite to it in one of them, and that edge would be listed); those that share an edge have only that in common, or are
folded exactly flat onto one another. This last case is not listed: both lie in one plane, and neither passes through.

Method: a tree of triangle boxes is queried once for each edge, a floating-point filter decides nearly every pair
(`intersection_filter`), and exact predicates decide the rest. It shares no code with the detection inside the methods, so
that one can check the other. `weft.analysis.crossing` also tests edges against triangles, with another guarantee: there
coordinates are perturbed so that nothing ever just touches, and paths of crossings are complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from weft.errors import MeshError
from weft.geometry import intersection_filter as filter_kernels
from weft.geometry.predicates import orient2d, orient3d
from weft.runtime.launch import launch

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# metres; products of three differences of such coordinates are far from overflow
FARTHEST = 1e60
# undecided pairs per call of the exact predicates: bounds the memory, larger is not faster
_CHUNK = 1 << 16


class Body(Protocol):
    """What is read of a body of a world or of a cache."""

    @property
    def kind(self) -> str:
        """ "cloth" or something else."""
        ...

    @property
    def faces(self) -> slice:
        """Its triangles."""
        ...


def intersections(
    vertices: ArrayLike,
    faces: ArrayLike,
    *,
    face_body: ArrayLike | None = None,
    body_pairs: ArrayLike | None = None,
    ignore: ArrayLike | None = None,
    device: str = "cpu",
) -> Ints:
    """All intersections of edges with triangles they share no vertex with: (k, 3) rows (edge vertex, edge vertex, face).

    Touching counts, and the result is exact (see the module). Rows are sorted; the lower vertex of an edge comes first.

    face_body: the body of every triangle, given together with `body_pairs`, a symmetric square of booleans that says which
        bodies are tested against each other (the diagonal: a body against itself). Bodies share no vertices.
    ignore: (k, 2) pairs of triangles to leave out, such as `sewn_pairs` gives for seams. An intersection is left out if
        its face is paired so with every triangle that has its edge.
    """
    return IntersectionFinder(faces, face_body=face_body, body_pairs=body_pairs, ignore=ignore, device=device).find(
        vertices
    )


def face_bodies(bodies: Sequence[Body]) -> NDArray[np.int64]:
    """(m,) the body of every triangle."""
    return np.repeat(np.arange(len(bodies)), [body.faces.stop - body.faces.start for body in bodies])


def cloth_pairs(bodies: Sequence[Body], *, colliders: bool = True) -> Bools:
    """(b, b) which bodies are tested against each other: cloth against everything; without colliders, cloth only."""
    cloth = np.array([body.kind == "cloth" for body in bodies], dtype=bool)
    return cloth[:, None] | cloth[None, :] if colliders else cloth[:, None] & cloth[None, :]


def intersection_finder(world: Any) -> IntersectionFinder:
    """Finds intersections of cloth with itself, other cloth and colliders of a `World`, except where a seam joins them."""
    return IntersectionFinder(
        world.faces,
        face_body=face_bodies(world.bodies),
        body_pairs=cloth_pairs(world.bodies),
        ignore=sewn_pairs(world.faces, world.seams.vertices),
        device=world.scene.device,
    )


class IntersectionFinder:
    """Finds the intersections of one mesh at many positions of its vertices; see `intersections`."""

    def __init__(
        self,
        faces: ArrayLike,
        *,
        face_body: ArrayLike | None = None,
        body_pairs: ArrayLike | None = None,
        ignore: ArrayLike | None = None,
        device: str = "cpu",
    ) -> None:
        self.device = device
        self.faces = read_faces(faces)
        self.edges, self._edge_faces, self._edge_starts = edges_of(self.faces)
        self._ignored = _read_ignored(ignore, len(self.faces))
        body, allowed = _read_bodies(face_body, body_pairs, self.faces)
        # vertices that no triangle uses may be anywhere: they do not count for the box
        used = np.zeros(int(self.faces.max(initial=-1)) + 1, dtype=bool)
        used[self.faces] = True
        self._used = np.flatnonzero(used)

        pairs = filter_kernels.Pairs()
        pairs.edges = wp.array(self.edges, dtype=wp.vec2i, device=device)
        pairs.faces = wp.array(self.faces, dtype=wp.vec3i, device=device)
        pairs.face_body = wp.array(body, dtype=wp.int32, device=device)
        edge_body = body[self._edge_faces[self._edge_starts[:-1]]] if len(allowed) else body
        pairs.edge_body = wp.array(edge_body, dtype=wp.int32, device=device)
        pairs.body_pairs = wp.array2d(allowed, dtype=wp.int32, device=device)
        self._pairs = pairs
        self._lowers = wp.empty(len(self.faces), dtype=wp.vec3, device=device)
        self._uppers = wp.empty(len(self.faces), dtype=wp.vec3, device=device)
        self._counts = wp.empty(len(self.edges), dtype=wp.int32, device=device)

    def find(self, vertices: ArrayLike) -> Ints:
        """The intersections at these positions: sorted rows (edge vertex, edge vertex, face)."""
        x = _read_vertices(vertices, self.faces)
        if len(self.faces) < 2:
            return np.zeros((0, 3), dtype=np.int32)
        edge, face, verdict = self._candidates(x)
        # exact predicates decide what the filter left undecided
        crossing = verdict == int(filter_kernels.CROSSES)
        undecided = np.flatnonzero(~crossing)
        for start in range(0, len(undecided), _CHUNK):
            chunk = undecided[start : start + _CHUNK]
            ends, corners = x[self.edges[edge[chunk]]], x[self.faces[face[chunk]]]
            crossing[chunk] = have_common_point(*ends.transpose(1, 0, 2), *corners.transpose(1, 0, 2))
        edge, face = edge[crossing], face[crossing]
        kept = ~self._all_ignored(edge, face)
        edge, face = edge[kept], face[kept]
        # edges are numbered in the order of their vertices, so this sorts by vertices and face
        order = np.lexsort((face, edge))
        return np.column_stack([self.edges[edge[order]], face[order]]).astype(np.int32)

    def _candidates(self, x: Floats) -> tuple[Ints, Ints, NDArray[np.int8]]:
        """Pairs that are not certainly disjoint: edge, face and the verdict of the filter (CROSSES or UNDECIDED)."""
        used = x[self._used]
        low, high = used.min(axis=0), used.max(axis=0)
        # a power of two, so that scaling does not round
        scale = 2.0 ** -float(np.frexp(max(float((high - low).max()), 1e-250))[1])
        pairs = self._pairs
        pairs.x = wp.array(x, dtype=wp.vec3d, device=self.device)
        pairs.centre, pairs.scale = wp.vec3d(*(low + 0.5 * (high - low))), scale
        launch(
            filter_kernels.box_triangles,
            len(self.faces),
            [pairs.x, pairs.faces, pairs.centre, pairs.scale, self._lowers, self._uppers],
            device=self.device,
        )
        on_cpu = wp.get_device(self.device).is_cpu
        tree = wp.Bvh(self._lowers, self._uppers, constructor="cubql" if on_cpu else "lbvh", leaf_size=4)
        pairs.tree = tree.id

        # count, scan, fill; the second pass only visits edges that found something
        launch(filter_kernels.count_pairs, len(self.edges), [pairs, self._counts], device=self.device, grain=128)
        counts = self._counts.numpy()
        chosen = np.flatnonzero(counts).astype(np.int32)
        ends = np.cumsum(counts[chosen], dtype=np.int64)
        total = int(ends[-1]) if len(ends) else 0
        found_face = wp.empty(total, dtype=wp.int32, device=self.device)
        found_verdict = wp.empty(total, dtype=wp.int8, device=self.device)
        launch(
            filter_kernels.fill_pairs,
            len(chosen),
            [
                pairs,
                wp.array(chosen, dtype=wp.int32, device=self.device),
                wp.array(ends - counts[chosen], dtype=wp.int64, device=self.device),
                found_face,
                found_verdict,
            ],
            device=self.device,
            grain=128,
        )
        return np.repeat(chosen, counts[chosen]), found_face.numpy(), found_verdict.numpy()

    def _all_ignored(self, edge: Ints, face: Ints) -> Bools:
        """For each pair (edge, face): is the face paired in `ignore` with every triangle that has the edge?"""
        if not len(self._ignored):
            return np.zeros(len(edge), dtype=bool)
        per_edge = np.diff(self._edge_starts)[edge]
        slots = np.repeat(self._edge_starts[edge] - np.cumsum(per_edge) + per_edge, per_edge) + np.arange(
            per_edge.sum()
        )
        owners, faces = self._edge_faces[slots], np.repeat(face, per_edge)
        keys = _pair_keys(owners, faces, len(self.faces))
        known = self._ignored[np.minimum(np.searchsorted(self._ignored, keys), len(self._ignored) - 1)] == keys
        # are all the triangle pairs of an edge and face known?
        return np.bincount(np.repeat(np.arange(len(edge)), per_edge), weights=known, minlength=len(edge)) == per_edge


def have_common_point(p: Floats, q: Floats, a: Floats, b: Floats, c: Floats) -> Bools:
    """Do segments pq and triangles abc have a point in common? Exact, closed sets; all (n, 3) points, result (n,)."""
    near = (np.maximum(p, q) >= np.minimum(np.minimum(a, b), c)).all(axis=1)
    near &= (np.minimum(p, q) <= np.maximum(np.maximum(a, b), c)).all(axis=1)
    found = np.zeros(len(p), dtype=bool)
    left = np.flatnonzero(near)

    # both ends strictly on one side of the triangle's plane: disjoint
    side_p = orient3d(a[left], b[left], c[left], p[left])
    side_q = orient3d(a[left], b[left], c[left], q[left])
    across = side_p * side_q <= 0
    left, flat = left[across], ((side_p == 0) & (side_q == 0))[across]

    # the line of the segment passes through the triangle if it passes all three sides in the same sense of rotation
    turns = np.stack([orient3d(p[left], q[left], s[left], t[left]) for s, t in ((a, b), (b, c), (c, a))])
    through = (turns.min(axis=0) >= 0) | (turns.max(axis=0) <= 0)
    found[left[~flat]] = through[~flat]

    # all five points in a plane (or the triangle has no area and the segment is in a plane with its line): they have a
    # common point if and only if their projections along all three axes do, since one of these maps the plane one to one
    left = left[flat & ~turns.any(axis=0)]
    for axis in range(3):
        projection = [s[left][:, [k for k in range(3) if k != axis]] for s in (p, q, a, b, c)]
        left = left[_have_common_point_in_plane(*projection)]
    found[left] = True
    return found


def _have_common_point_in_plane(p: Floats, q: Floats, a: Floats, b: Floats, c: Floats) -> Bools:
    """Do a segment and a triangle in the plane, whose boxes overlap, have a point in common? Either may be degenerate.

    Two convex polygons are disjoint if a line along a side of one of them separates them; where all lies in one line, the
    boxes have decided.
    """
    disjoint = np.abs(orient2d(p, q, a) + orient2d(p, q, b) + orient2d(p, q, c)) == 3
    for s, t, third in ((a, b, c), (b, c, a), (c, a, b)):
        side_p, side_q = orient2d(s, t, p), orient2d(s, t, q)
        disjoint |= (side_p == side_q) & (side_p != 0) & (side_p != orient2d(s, t, third))
    return ~disjoint


def sewn_pairs(faces: ArrayLike, stitches: ArrayLike) -> Ints:
    """Pairs of triangles that a seam joins directly: (k, 2), for `ignore`.

    stitches: (s, 3) rows (a, b, c), vertex a sewn to a point of edge bc; or (s, 2), vertex sewn to vertex. Every
        triangle at a is paired with every triangle at b or c.
    """
    f, sewn = read_faces(faces), np.asarray(stitches, dtype=np.int64)
    around: dict[int, list[int]] = {int(vertex): [] for vertex in sewn.ravel()}
    for triangle, corner in zip(*np.nonzero(np.isin(f, sewn)), strict=True):
        around[int(f[triangle, corner])].append(int(triangle))
    pairs = {
        (min(one, other), max(one, other))
        for stitch in sewn.tolist()
        for vertex in stitch[1:]
        for one in around[stitch[0]]
        for other in around[vertex]
        if one != other
    }
    return np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)


def edges_of(faces: Ints) -> tuple[Ints, Ints, NDArray[np.int64]]:
    """The sorted edges (e, 2); the triangles that have them, edge by edge; (e + 1,) where the triangles of each edge start."""
    ends = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1).astype(np.int64)
    keys = (ends[:, 0] << 32) | ends[:, 1]
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    starts = (
        np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.zeros(0, dtype=np.int64)
    )
    edges = np.column_stack([keys[starts] >> 32, keys[starts] & 0xFFFFFFFF]).astype(np.int32)
    return edges, (order // 3).astype(np.int32), np.concatenate([starts, [len(keys)]])


def _pair_keys(one: NDArray[np.integer], other: NDArray[np.integer], count: int) -> NDArray[np.int64]:
    return np.minimum(one, other).astype(np.int64) * count + np.maximum(one, other)


def read_faces(faces: ArrayLike) -> Ints:
    """Triangles as (m, 3) int32, or a `MeshError` that says what they are instead."""
    read = np.asarray(faces)
    if read.size == 0:
        return np.zeros((0, 3), dtype=np.int32)
    if read.ndim != 2 or read.shape[1] != 3 or not np.issubdtype(read.dtype, np.integer):
        raise MeshError(f"faces must be an (m, 3) array of integers, got {read.shape} of {read.dtype}")
    twice = np.flatnonzero((read == np.roll(read, 1, axis=1)).any(axis=1))
    if len(twice):
        raise MeshError(f"triangle {twice[0]} names a vertex twice ({_list(read[twice[0]])}); {_count(twice)}")
    return np.ascontiguousarray(read, dtype=np.int32)


def _read_vertices(vertices: ArrayLike, faces: Ints) -> Floats:
    x = np.ascontiguousarray(vertices, dtype=np.float64)
    if x.size == 0:
        x = x.reshape(0, 3)
    if x.ndim != 2 or x.shape[1] != 3:
        raise MeshError(f"vertices must be an (n, 3) array, got {x.shape}")
    outside = np.flatnonzero(((faces < 0) | (faces >= len(x))).any(axis=1))
    if len(outside):
        raise MeshError(
            f"triangle {outside[0]} ({_list(faces[outside[0]])}) names a vertex that is not there: "
            f"there are {len(x)}; {_count(outside)}"
        )
    # one test that is false for NaN too
    wrong = np.flatnonzero(~(np.abs(x) <= FARTHEST).all(axis=1))
    if len(wrong):
        raise MeshError(
            f"vertex {wrong[0]} is at ({_list(x[wrong[0]])}): intersections need finite coordinates of at most "
            f"{FARTHEST:g} m; {_count(wrong)}"
        )
    return x


def _read_bodies(face_body: ArrayLike | None, body_pairs: ArrayLike | None, faces: Ints) -> tuple[Ints, Ints]:
    if face_body is None and body_pairs is None:
        return np.zeros(0, dtype=np.int32), np.zeros((0, 0), dtype=np.int32)
    if face_body is None or body_pairs is None:
        raise MeshError("face_body and body_pairs go together: the body of every triangle, and which bodies are tested")
    body, allowed = np.asarray(face_body), np.asarray(body_pairs, dtype=bool)
    if body.shape != (len(faces),) or not np.issubdtype(body.dtype, np.integer):
        raise MeshError(f"face_body must be {len(faces)} integers, one a triangle, got {body.shape} of {body.dtype}")
    if allowed.ndim != 2 or allowed.shape[0] != allowed.shape[1] or (allowed != allowed.T).any():
        raise MeshError(f"body_pairs must be a symmetric square of booleans, got {allowed.shape}")
    if len(body) and not (body.min() >= 0 and body.max() < len(allowed)):
        raise MeshError(f"face_body goes from {body.min()} to {body.max()}, but body_pairs has {len(allowed)} rows")
    owner = np.zeros(int(faces.max(initial=-1)) + 1, dtype=np.int64)
    owner[faces] = body[:, None]
    shared = np.flatnonzero((owner[faces] != body[:, None]).any(axis=1))
    if len(shared):
        raise MeshError(f"triangle {shared[0]} of body {body[shared[0]]} shares a vertex with another body")
    return body.astype(np.int32), allowed.astype(np.int32)


def _read_ignored(ignore: ArrayLike | None, count: int) -> NDArray[np.int64]:
    pairs = np.zeros((0, 2), dtype=np.int64) if ignore is None else np.asarray(ignore).reshape(-1, 2)
    if len(pairs) and not (pairs.min() >= 0 and pairs.max() < count):
        raise MeshError(f"ignore names triangle {pairs.max() if pairs.min() >= 0 else pairs.min()}, there are {count}")
    return np.unique(_pair_keys(pairs[:, 0], pairs[:, 1], count))


def _list(values: NDArray[np.generic]) -> str:
    return ", ".join(f"{value:g}" for value in values.tolist())


def _count(offenders: NDArray[np.int64]) -> str:
    if len(offenders) == 1:
        return "it is the only one"
    return f"{len(offenders)} are wrong so, the first: {', '.join(str(i) for i in offenders[:5])}"
