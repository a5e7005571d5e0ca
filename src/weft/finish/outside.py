"""Bring cloth that passes through colliders outside again, before it is smoothed (paper, section 8).

Methods that keep only the vertices of cloth outside leave edges and triangles that cut through. What is inside, or
cuts through, is pushed to the nearest place on the surface of the collider and a little beyond, by a motion that stops
before cloth meets cloth; and again, a little farther, until nothing is left or nothing helps any more.
"""

from typing import TYPE_CHECKING

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.finish.nearest_kernels import find_nearest
from weft.finish.stop import SafeMove
from weft.geometry.intersection import crossing_points
from weft.runtime import launch

if TYPE_CHECKING:
    from weft.cache import Body
    from weft.finish.finisher import Finisher

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Indices = NDArray[np.integer]

# how far beyond the surface cloth is pushed: so many times the least distance at first, half as much again each round,
# at most this part of an edge
BEYOND = 2.0
GROWTH = 1.5
FARTHEST = 0.5
# cloth is brought back through an open collider from at most so many edges behind it
DEPTH = 3.0
# cosine to the collider's normal below which the nearest place counts as its border
BORDER = 0.3
ROUNDS = 24
# so many layers of cloth are asked to make room for each other in a round
LAYERS = 6
# rounds without getting better after which it is given up
PATIENCE = 8


class Outside:
    """Pushes the cloth of one set of bodies out of its colliders."""

    def __init__(self, finisher: "Finisher") -> None:
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

    def push(self, x: Floats, rows: Ints) -> tuple[Floats, Ints]:
        """The positions with as few intersections of cloth and colliders as could be reached, and what is left."""
        best, left = (x, rows), self.with_colliders(rows)
        held = np.zeros(len(x), bool)
        among = self._finisher.triangles_of(rows[~self._is_outer(rows)])
        held[self._faces[among]] = True
        beyond, idle = BEYOND * self._finisher.near, 0
        ends = x[self._edges]
        self._edge = float(np.median(np.linalg.norm(ends[:, 1] - ends[:, 0], axis=1)))
        for _ in range(ROUNDS):
            wish = self._wishes(x, rows[self._is_outer(rows)], beyond)
            x = self._go(x, wish, held)
            rows = self._finisher.intersections(x, 0)
            count = self.with_colliders(rows)
            idle = 0 if count < left else idle + 1
            if count < left:
                best, left = (x, rows), count
            if left == 0 or idle >= PATIENCE:
                break
            beyond = max(min(GROWTH * beyond, FARTHEST * self._edge), beyond)
        return best

    def _go(self, x: Floats, wish: Floats, held: Bools) -> Floats:
        """Move as wished; cloth that is in the way is asked to go along, layer by layer."""
        for _ in range(LAYERS):
            moved = self._move.go(x, x + wish, held=held | ~self._cloth)
            asked = np.linalg.norm(wish, axis=1)
            before = asked > 0.0
            for one in moved.met[np.argsort(asked[moved.met].max(axis=1), kind="stable")]:
                _ask(wish, one, np.tile(wish[one[np.argmax(asked[one])]], (4, 1)))
            if ((np.linalg.norm(wish, axis=1) > 0.0) == before).all():
                break
        return moved.positions

    def with_colliders(self, rows: Ints) -> int:
        """How many rows are between cloth and collider."""
        return int(self._is_outer(rows).sum())

    def _is_outer(self, rows: Ints) -> Bools:
        return ~(self._cloth[rows[:, 0]] & self._cloth[self._faces[rows[:, 2], 0]])

    def _wishes(self, x: Floats, rows: Ints, beyond: float) -> Floats:
        """Where each vertex should go: the farthest of what is asked of it."""
        wish = np.zeros_like(x)
        edge_body, face_body = self._body_of[rows[:, 0]], self._body_of[self._faces[rows[:, 2], 0]]
        collider = np.where(self._cloth[rows[:, 0]], face_body, edge_body)
        points = crossing_points(x, self._faces, rows)
        normals = self._normals(x)
        for number in np.unique(collider):
            body = self._bodies[number]
            cut = (collider == number) & (face_body == number)
            mesh = self._mesh(x, body)
            poked = (collider == number) & (edge_body == number)
            out = normals
            if self._closed[number]:
                self._bring_vertices(x, body, mesh, beyond, wish)
                self._lift_chords(rows[cut], points[cut], mesh, beyond, wish)
            else:
                behind = self._bring_back(x, rows[cut], mesh, normals[body.faces], beyond, wish)
                out = -normals if behind else normals
            self._lift_triangles(rows[poked], out, beyond, wish)
        return wish

    def _bring_vertices(self, x: Floats, body: "Body", mesh: "_Collider", beyond: float, wish: Floats) -> None:
        """Vertices inside a closed collider: to the nearest place on it, and beyond."""
        own = x[body.vertices]
        near = self._cloth & (x > own.min(axis=0)).all(axis=1) & (x < own.max(axis=0)).all(axis=1)
        vertices = np.flatnonzero(near)
        away, inside = mesh.nearest(x[vertices])
        _ask(wish, vertices[inside], _longer(away[inside], beyond))

    def _lift_chords(self, rows: Ints, points: Floats, mesh: "_Collider", beyond: float, wish: Floats) -> None:
        """Edges of cloth that pass through a closed collider with both ends outside: as far as their middle is deep."""
        edges, which, counts = np.unique(rows[:, :2], axis=0, return_inverse=True, return_counts=True)
        middle = _sums(which.ravel(), points, len(edges)) / counts[:, None]
        away, inside = mesh.nearest(middle)
        chosen = inside & (counts > 1)
        for end in edges[chosen].T:
            _ask(wish, end, _longer(away[chosen], beyond))

    def _bring_back(
        self, x: Floats, rows: Ints, mesh: "_Collider", normals: Floats, beyond: float, wish: Floats
    ) -> bool:
        """Cloth that went through an open collider goes back through it. True if the side to be on is behind it.

        Cloth may lie on both sides of an open collider and be right. So only what hangs together with an edge that
        passes through it counts, up to a few edges away and not beyond its border: on one side or on the other,
        whichever is less.
        """
        vertices = np.flatnonzero(self._cloth)
        away, behind, face = mesh.nearest_of(x[vertices])
        depth = np.linalg.norm(away, axis=1)
        facing = np.abs(np.einsum("ij,ij->i", away, normals[face])) > BORDER * depth
        near = facing & (depth < DEPTH * self._edge)
        regions = []
        for side in (behind, ~behind):
            allowed = np.zeros(len(x), bool)
            allowed[vertices[near & side]] = True
            regions.append(self._spread(rows[:, :2], allowed))
        most_behind = bool(regions[0].sum() > regions[1].sum())
        chosen = regions[int(most_behind)][vertices]
        _ask(wish, vertices[chosen], _longer(away[chosen], beyond))
        return most_behind

    def _spread(self, start: Ints, allowed: Bools) -> Bools:
        """The allowed vertices that hang together with the first ones along edges between allowed ones."""
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

    def _lift_triangles(self, rows: Ints, normals: Floats, beyond: float, wish: Floats) -> None:
        """Triangles of cloth that an edge of a collider pokes through: a step along the collider's normal there."""
        row, owner = self._finisher.owners(rows, 0)
        out = _sums(row, normals[owner], len(rows))
        length = np.linalg.norm(out, axis=1, keepdims=True)
        step = beyond * out / np.where(length > 0.0, length, 1.0)
        for corner in self._faces[rows[:, 2]].T:
            _ask(wish, corner, step)

    def _normals(self, x: Floats) -> Floats:
        a, b, c = x[self._faces].transpose(1, 0, 2)
        n = np.cross(b - a, c - a)
        length = np.linalg.norm(n, axis=1, keepdims=True)
        return n / np.where(length > 0.0, length, 1.0)

    def _mesh(self, x: Floats, body: "Body") -> "_Collider":
        faces = self._faces[body.faces] - body.vertices.start
        return _Collider(x[body.vertices], faces, self._finisher.device)


class _Collider:
    """One collider where it stands in a frame; single precision will do, since what comes of it is checked exactly."""

    def __init__(self, x: Floats, faces: Ints, device: str) -> None:
        self._centre = x.mean(axis=0)
        self._device = device
        points = wp.array((x - self._centre).astype(np.float32), dtype=wp.vec3, device=device)
        self._mesh = wp.Mesh(points, wp.array(faces.ravel(), dtype=int, device=device))

    def nearest(self, points: Floats) -> tuple[Floats, Bools]:
        """The ways to the nearest points of the surface, and which points are inside."""
        away, behind, _ = self.nearest_of(points)
        return away, behind

    def nearest_of(self, points: Floats) -> tuple[Floats, Bools, Ints]:
        """The same, and the triangles on which the nearest points lie."""
        given = wp.array((points - self._centre).astype(np.float32), dtype=wp.vec3, device=self._device)
        away = wp.zeros(len(points), dtype=wp.vec3, device=self._device)
        face, behind = (wp.zeros(len(points), dtype=int, device=self._device) for _ in range(2))
        launch(find_nearest, len(points), [self._mesh.id, given, away, face, behind], device=self._device, grain=256)
        return away.numpy().astype(np.float64).reshape(-1, 3), behind.numpy() == 1, face.numpy()


def _is_closed(faces: Ints) -> bool:
    """Whether every edge has two triangles."""
    ends = np.sort(np.stack([faces, np.roll(faces, -1, axis=1)], axis=2).reshape(-1, 2), axis=1)
    _, counts = np.unique(ends, axis=0, return_counts=True)
    return bool((counts == 2).all())


def _longer(ways: Floats, more: float) -> Floats:
    """Ways that go a little farther in their own direction."""
    length = np.linalg.norm(ways, axis=1, keepdims=True)
    return ways * (1.0 + more / np.maximum(length, 1e-9))


def _sums(groups: Indices, values: Floats, count: int) -> Floats:
    """The sums of rows by group."""
    sums = [np.bincount(groups, weights=column, minlength=count) for column in values.T]
    return np.stack(sums, axis=1).astype(np.float64)


def _ask(wish: Floats, vertices: Indices, ways: Floats) -> None:
    """Keep the longest way that is asked of each vertex; of equal ones the last."""
    asked = np.linalg.norm(ways, axis=1)
    order = np.argsort(asked, kind="stable")
    vertices, ways, asked = vertices[order], ways[order], asked[order]
    farther = asked > np.linalg.norm(wish[vertices], axis=1)
    # with repeated indices the last one written stays, which is the longest
    wish[vertices[farther]] = ways[farther]
