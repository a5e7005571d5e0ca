"""Push cloth that passes through colliders outside again, before it is smoothed (Bridson et al. 2002, section 8).

Methods that keep only the vertices of cloth outside leave edges and triangles that cut through a collider. Cloth that is
inside, or cuts through, is pushed to the nearest place on the collider's surface and a little beyond, by a motion that stops
before cloth collides with cloth. This is repeated with a growing distance until no intersection with a collider is left, or
until the number of intersections no longer decreases.
"""
# mypy: disable-error-code="attr-defined"
# the fields of a mesh query are only known inside kernels

from typing import Protocol

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.cache import Body
from weft.finish.levels import Level
from weft.finish.stop import SafeMove
from weft.geometry.crossing_curves import crossing_points
from weft.mesh.topology import area_vectors, unit_vectors
from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Indices = NDArray[np.integer]

# how far beyond the surface cloth is pushed: in the first round this multiple of the least distance of `SafeMove`, in each
# round GROWTH times as far, at most FARTHEST edge lengths. Small pushes change least; edges that cut corners need larger ones
BEYOND = 2.0
GROWTH = 1.5
FARTHEST = 0.5
# edge lengths behind an open collider from which cloth is still brought back: farther away it may be there on purpose
DEPTH = 3.0
# cosine of the angle to the collider's normal below which the nearest point counts as lying on the collider's border
BORDER = 0.3
# rounds at most
ROUNDS = 24
# layers of cloth that are pushed along by the one behind them in a round
LAYERS = 6
# rounds without fewer intersections after which the search ends: pushes grow from round to round, so a few may be in vain
PATIENCE = 8


@wp.kernel
def find_nearest(
    first: int,
    mesh: wp.uint64,
    points: wp.array[wp.vec3],
    away: wp.array[wp.vec3],
    face: wp.array[int],
    behind: wp.array[int],
):
    """The vector from each point to the nearest point of the mesh, its triangle, and whether the point is behind it."""
    i = first + wp.tid()
    query = wp.mesh_query_point_sign_normal(mesh, points[i], 1.0e6)
    away[i] = wp.mesh_eval_position(mesh, query.face, query.u, query.v) - points[i]
    face[i] = query.face
    behind[i] = 0
    if query.sign < 0.0:
        behind[i] = 1


class CoarseMeshes(Protocol):
    """What is needed of a `Finisher`: its meshes before subdivision (level 0), and their intersections."""

    levels: list[Level]
    near: float
    device: str

    def surface(self, number: int, *, colliders: bool = True) -> Surface: ...
    def intersections(self, positions: Floats, level: int = -1) -> Ints: ...
    def triangles_of(self, found: Ints) -> Ints: ...
    def owners(self, found: Ints, level: int) -> tuple[NDArray[np.int64], Ints]: ...


class Outside:
    """Pushes the cloth of one set of bodies out of the colliders."""

    def __init__(self, finisher: CoarseMeshes) -> None:
        self._finisher = finisher
        level = finisher.levels[0]
        self._faces = level.faces
        self._bodies = level.bodies
        self._body_of = np.zeros(level.vertex_count, dtype=np.int64)
        for number, body in enumerate(level.bodies):
            self._body_of[body.vertices] = number
        self._cloth = np.array([body.kind == "cloth" for body in level.bodies])[self._body_of]
        self._closed = {n: _is_closed(self._faces[b.faces]) for n, b in enumerate(level.bodies) if b.kind != "cloth"}
        surface = finisher.surface(0, colliders=False)
        self._edges = surface.edges.numpy().reshape(-1, 2)
        self._edges = self._edges[self._cloth[self._edges[:, 0]]]
        self._move = SafeMove(surface, near=finisher.near)

    def push(self, x: Floats, found: Ints) -> tuple[Floats, Ints]:
        """Given positions and their intersections: the positions with the fewest intersections with colliders, and all
        intersections there."""
        best, left = (x, found), self.with_colliders(found)
        held = np.zeros(len(x), bool)
        among = self._finisher.triangles_of(found[~self._with_collider(found)])
        held[self._faces[among]] = True
        beyond, idle = BEYOND * self._finisher.near, 0
        ends = x[self._edges]
        self._edge = float(np.median(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)))
        for _ in range(ROUNDS):
            wish = self._wishes(x, found[self._with_collider(found)], beyond)
            x = self._move_along(x, wish, held)
            found = self._finisher.intersections(x, 0)
            count = self.with_colliders(found)
            idle = 0 if count < left else idle + 1
            if count < left:
                best, left = (x, found), count
            if left == 0 or idle >= PATIENCE:
                break
            beyond = max(min(GROWTH * beyond, FARTHEST * self._edge), beyond)
        return best

    def _move_along(self, x: Floats, wish: Floats, held: Bools) -> Floats:
        """Move by the wished displacements; cloth in the way gets the same wish, layer by layer."""
        for _ in range(LAYERS):
            moved = self._move.go(x, x + wish, held=held | ~self._cloth)
            size = np.linalg.norm(wish, axis=1)
            before = size > 0.0
            for pair in moved.collided[np.argsort(size[moved.collided].max(axis=1), kind="stable")]:
                _keep_longest(wish, pair, np.tile(wish[pair[np.argmax(size[pair])]], (4, 1)))
            if ((np.linalg.norm(wish, axis=1) > 0.0) == before).all():
                break
        return moved.positions

    def with_colliders(self, found: Ints) -> int:
        """How many of these intersections are of cloth with a collider."""
        return int(self._with_collider(found).sum())

    def _with_collider(self, found: Ints) -> Bools:
        return ~(self._cloth[found[:, 0]] & self._cloth[self._faces[found[:, 2], 0]])

    def _wishes(self, x: Floats, found: Ints, beyond: float) -> Floats:
        """(n, 3) the wished displacement of each vertex: the longest of those below."""
        wish = np.zeros_like(x)
        edge_body, face_body = self._body_of[found[:, 0]], self._body_of[self._faces[found[:, 2], 0]]
        collider = np.where(self._cloth[found[:, 0]], face_body, edge_body)
        points = crossing_points(x, self._faces, found)
        normals = unit_vectors(area_vectors(x, self._faces))
        for number in np.unique(collider):
            body = self._bodies[number]
            cut = (collider == number) & (face_body == number)
            mesh = self._mesh(x, body)
            poked = (collider == number) & (edge_body == number)
            out = normals
            if self._closed[number]:
                self._push_vertices(x, body, mesh, beyond, wish)
                self._push_edges(found[cut], points[cut], mesh, beyond, wish)
            else:
                behind = self._return_through(x, found[cut], mesh, normals[body.faces], beyond, wish)
                out = -normals if behind else normals
            self._push_triangles(found[poked], out, beyond, wish)
        return wish

    def _push_vertices(self, x: Floats, body: "Body", mesh: "_Collider", beyond: float, wish: Floats) -> None:
        """Vertices inside a closed collider: to the nearest point of its surface, and `beyond` (metres) farther."""
        own = x[body.vertices]
        near = self._cloth & (x > own.min(axis=0)).all(axis=1) & (x < own.max(axis=0)).all(axis=1)
        vertices = np.flatnonzero(near)
        away, inside = mesh.nearest(x[vertices])
        _keep_longest(wish, vertices[inside], _lengthened(away[inside], beyond))

    def _push_edges(self, found: Ints, points: Floats, mesh: "_Collider", beyond: float, wish: Floats) -> None:
        """Edges that pass through a closed collider with both ends outside: by the depth of the middle of what is inside."""
        edges, which, counts = np.unique(found[:, :2], axis=0, return_inverse=True, return_counts=True)
        middle = _sums(which.ravel(), points, len(edges)) / counts[:, None]
        away, inside = mesh.nearest(middle)
        chosen = inside & (counts > 1)
        for end in edges[chosen].T:
            _keep_longest(wish, end, _lengthened(away[chosen], beyond))

    def _return_through(
        self, x: Floats, found: Ints, mesh: "_Collider", normals: Floats, beyond: float, wish: Floats
    ) -> bool:
        """Cloth that passed through an open collider moves back through it. True if the right side is behind the collider.

        Cloth may rightly lie on both sides of an open collider. So only vertices connected to an edge that passes
        through it count, up to a few edge lengths away and not beyond its border; the side with fewer of them is wrong.
        """
        vertices = np.flatnonzero(self._cloth)
        away, behind, face = mesh.nearest_with_face(x[vertices])
        depth = np.linalg.norm(away, axis=1)
        facing = np.abs(np.einsum("ij,ij->i", away, normals[face])) > BORDER * depth
        near = facing & (depth < DEPTH * self._edge)
        regions = []
        for side in (behind, ~behind):
            allowed = np.zeros(len(x), bool)
            allowed[vertices[near & side]] = True
            regions.append(self._spread(found[:, :2], allowed))
        most_behind = bool(regions[0].sum() > regions[1].sum())
        chosen = regions[int(most_behind)][vertices]
        _keep_longest(wish, vertices[chosen], _lengthened(away[chosen], beyond))
        return most_behind

    def _spread(self, start: Ints, allowed: Bools) -> Bools:
        """The allowed vertices that are connected to `start` by edges between allowed vertices."""
        region = np.zeros(len(allowed), bool)
        region[start] = True
        region &= allowed
        edges = self._edges[allowed[self._edges].all(axis=1)]
        while True:
            wider = region.copy()
            wider[edges[region[edges].any(axis=1)]] = True
            if (wider == region).all():
                return region
            region = wider

    def _push_triangles(self, found: Ints, normals: Floats, beyond: float, wish: Floats) -> None:
        """Triangles of cloth that an edge of a collider passes through: `beyond` metres along the collider's normal there."""
        number, owner = self._finisher.owners(found, 0)
        out = _sums(number, normals[owner], len(found))
        step = beyond * unit_vectors(out)
        for corner in self._faces[found[:, 2]].T:
            _keep_longest(wish, corner, step)

    def _mesh(self, x: Floats, body: Body) -> "_Collider":
        faces = self._faces[body.faces] - body.vertices.start
        return _Collider(x[body.vertices], faces, self._finisher.device)


class _Collider:
    """A collider at its position in one frame, in float32: the result of a push is tested exactly afterwards."""

    def __init__(self, x: Floats, faces: Ints, device: str) -> None:
        self._centre = x.mean(axis=0)
        self._device = device
        points = wp.array((x - self._centre).astype(np.float32), dtype=wp.vec3, device=device)
        self._mesh = wp.Mesh(points, wp.array(faces.ravel(), dtype=int, device=device))

    def nearest(self, points: Floats) -> tuple[Floats, Bools]:
        """The vectors to the nearest points of the surface, and which points are inside."""
        away, behind, _ = self.nearest_with_face(points)
        return away, behind

    def nearest_with_face(self, points: Floats) -> tuple[Floats, Bools, Ints]:
        """The vectors to the nearest points of the surface, which points are behind it, and the nearest triangles."""
        given = wp.array((points - self._centre).astype(np.float32), dtype=wp.vec3, device=self._device)
        away = wp.zeros(len(points), dtype=wp.vec3, device=self._device)
        face, behind = (wp.zeros(len(points), dtype=int, device=self._device) for _ in range(2))
        launch(find_nearest, len(points), [self._mesh.id, given, away, face, behind], device=self._device, grain=256)
        return away.numpy().astype(np.float64).reshape(-1, 3), behind.numpy() == 1, face.numpy()


def _is_closed(faces: Ints) -> bool:
    """Whether every edge has two triangles: no border."""
    ends = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    _, counts = np.unique(ends, axis=0, return_counts=True)
    return bool((counts == 2).all())


def _lengthened(vectors: Floats, more: float) -> Floats:
    """The vectors, each `more` metres longer."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors * (1.0 + more / np.maximum(length, 1e-9))


def _sums(groups: Indices, values: Floats, count: int) -> Floats:
    """(count, k) sums of (n, k) values by group."""
    sums = [np.bincount(groups, weights=column, minlength=count) for column in values.T]
    return np.stack(sums, axis=1).astype(np.float64)


def _keep_longest(wish: Floats, vertices: Indices, vectors: Floats) -> None:
    """Let each vertex have the longest of its wish and these vectors; of equal ones the last."""
    size = np.linalg.norm(vectors, axis=1)
    order = np.argsort(size, kind="stable")
    vertices, vectors, size = vertices[order], vectors[order], size[order]
    farther = size > np.linalg.norm(wish[vertices], axis=1)
    # with repeated indices the last one written stays, which is the longest
    wish[vertices[farther]] = vectors[farther]
