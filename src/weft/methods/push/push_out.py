"""Move vertices that are too close to a triangle away from it, by small constant moves, until they are clear.

Draping on meshes, section 3.3: only vertices against triangles, only the vertex moves, always by close/16. It moves
along the normal of a collider's triangle, which faces outwards; from a triangle of cloth, which has no outside, it
moves back to the side that it came from, by its velocity relative to the triangle.

weft does more than the paper in three ways. The last move is only as long as needed, since a whole one would leave a vertex
at rest hopping. Of several triangles that are too close the nearest one pushes, so that the result does not depend on the
order in which they are found. And the velocity of a pushed vertex loses its component towards the triangle, with friction,
since otherwise a vertex at rest would gain speed from gravity until it falls through.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.errors import SceneError
from weft.methods.push.centroid_trees import CentroidTree
from weft.methods.push.kernels import (
    BEFORE_MOVE,
    ClothMesh,
    Colliders,
    Moves,
    PushStep,
    place_corners,
    push_vertices,
)
from weft.runtime import launch
from weft.runtime.buffers import read
from weft.runtime.cooperative import CooperativeLauncher
from weft.world import World
from weft.world.surface import surface_neighbours

# moves that make up `close`: the paper's number
MOVES_OF_CLOSE = 16
# triangles that colliders may be split into: some 500 MB of corners; more mean that a floor is huge or `close` tiny
MOST_FACES = 2_000_000
# steps after which kd-trees are sorted again. In between their boxes follow the triangles: results are the same, and boxes that
# have grown only make the search slower
SORT_EVERY = 64
# work of a vertex compared to that of an item of a light kernel, for the number of threads
WORK = {"brute": 64, "octree": 8, "kdtree": 8}


class SplitFaces(NamedTuple):
    """Small triangles that cover larger ones exactly; corners are given by weights in their large triangle."""

    owner: np.ndarray
    """(k,) the large triangle of each corner"""
    weights: np.ndarray
    """(k, 3)"""
    faces: np.ndarray
    """(m, 3) corners of the small triangles"""


def split_faces(corners: np.ndarray, largest: float) -> SplitFaces:
    """Split triangles (m, 3, 3) in four until no corner is farther than `largest` from the centroid."""
    owner, weights = np.arange(len(corners)), np.tile(np.eye(3), (len(corners), 1, 1))
    done: list[tuple[np.ndarray, np.ndarray]] = []
    while len(owner):
        points = weights @ corners[owner]
        reach = np.linalg.norm(points - points.mean(axis=1, keepdims=True), axis=2).max(axis=1)
        large = reach > largest
        done.append((owner[~large], weights[~large]))
        a, b, c = (weights[large][:, k] for k in range(3))
        ab, bc, ca = 0.5 * (a + b), 0.5 * (b + c), 0.5 * (c + a)
        quarters = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        weights = np.concatenate([np.stack(quarter, axis=1) for quarter in quarters])
        owner = np.tile(owner[large], 4)
        if len(owner) > MOST_FACES:
            raise SceneError(
                f"colliders would be split into more than {MOST_FACES:,} triangles of {largest:g} m: make them "
                "smaller, or give `close` or `largest_face` a larger value"
            )
    numbers = np.concatenate([numbers for numbers, _ in done]) if done else owner
    order = np.argsort(numbers, kind="stable")
    all_weights = np.concatenate([weights for _, weights in done])[order].reshape(-1, 3) if done else np.zeros((0, 3))
    faces = np.arange(3 * len(order), dtype=np.int32).reshape(-1, 3)
    return SplitFaces(np.repeat(numbers[order], 3), all_weights, faces)


class Pushed(NamedTuple):
    """Vertices that were pushed in a step, and those that are still too close after the last move."""

    vertices: int
    left: int


class PushOut:
    """Pushes the vertices of the cloths of a world away from triangles of colliders and of cloth."""

    def __init__(
        self,
        world: World,
        *,
        search: str,
        search_cloth: str | None = None,
        close: float,
        moves: int,
        largest_face: float,
        mesh: bool = True,
        cloth: bool = True,
    ) -> None:
        """`search` finds triangles of colliders, `search_cloth` (default: the same) those of cloth.

        `mesh` and `cloth`: whether triangles of colliders and of cloth push; colliders are split to `largest_face` (m).
        """
        search_cloth = search_cloth or search
        self.world, self.close, self.most_moves = world, close, moves
        self._work = max(WORK[search], WORK[search_cloth])
        device = world.device
        mesh_faces = world.faces[world.cloth_face_count :] if mesh else world.faces[:0]
        cloth_faces = world.cloth_faces if cloth else world.faces[:0]
        split = split_faces(world.rest_positions[mesh_faces], largest_face)
        self._owner = wp.array(mesh_faces[split.owner], dtype=wp.vec3i, device=device)
        self._weights = wp.array(split.weights, dtype=wp.vec3d, device=device)
        self._colliders = self._make_colliders(split)
        # floors have many small faces, so that colliders that stand still have a tree of their own, which is built once
        moving = self._moving(split, search)
        numbers = [np.flatnonzero(~moving), np.flatnonzero(moving)]
        self.mesh_searches = [CentroidTree(search, chosen, device) for chosen in numbers]
        self._corners = [wp.array(split.faces[chosen].ravel(), dtype=int, device=device) for chosen in numbers]
        self.cloth_search = CentroidTree(search_cloth, np.arange(len(cloth_faces)), device)
        self._cloth = self._make_cloth(cloth_faces)
        self._moves = self._make_moves()
        self.counts = self._moves.counts
        """first the vertices that the last step pushed, and those that it left too close"""
        self._steps = 0
        """how many steps were prepared"""
        self._cooperative = CooperativeLauncher(device)
        self._given: tuple[Any, ...] = ()
        self._inputs: tuple[Any, ...] = ()

    def apply(self, x: wp.array, v: wp.array, dt: float, *, fraction: float = 1.0) -> Pushed:
        """Push vertices of x until all are clear or the moves are used up, and stop their velocities.

        A move is this fraction of close/16.
        """
        self.prepare(x, v)
        self.push(x, v, dt, fraction=fraction)
        return Pushed(*(int(count) for count in read((self.counts, 0, 2))[0]))

    def prepare(self, x: wp.array, v: wp.array) -> None:
        """What is not done in every step: place the colliders that stand still once, and sort kd-trees now and then.

        Any recent positions will do, since the triangles that a tree finds do not depend on how it is sorted.
        """
        still, moving = self.mesh_searches
        faces, mesh_x = self._colliders.faces, self._colliders.x
        if self._steps == 0:
            self._place(0, x, v)
            still.sort(faces, mesh_x)
            still.build(faces, mesh_x, self.close)
        if self._steps % SORT_EVERY == 0:
            self._place(1, x, v)
            moving.sort(faces, mesh_x)
            self.cloth_search.sort(self._cloth.faces, x)
        self._steps += 1

    def push(self, x: wp.array, v: wp.array, dt: float, *, fraction: float = 1.0) -> None:
        """As `apply` after `prepare`: launches alone, which a CUDA graph can hold; the result is in `counts`."""
        self._place(1, x, v)
        self.mesh_searches[1].build(self._colliders.faces, self._colliders.x, self.close)
        slack = self.most_moves * self.close / MOVES_OF_CLOSE
        self.cloth_search.build(self._cloth.faces, x, self.close, slack)
        count = self.world.cloth_vertex_count
        # the launch does not look through a tuple that it knows
        given = x.ptr, v.ptr, dt, fraction
        if given != self._given:
            self._given, self._inputs = given, self._arguments(x, v, dt, fraction)
        self._cooperative.launch(push_vertices, count, self._inputs, work=self._work * count)

    def _arguments(self, x: wp.array, v: wp.array, dt: float, fraction: float) -> tuple[Any, ...]:
        """The arguments of `push_vertices`."""
        step: Any = PushStep()
        step.count, step.most_moves = self.world.cloth_vertex_count, self.most_moves
        step.close, step.move, step.dt = self.close, fraction * self.close / MOVES_OF_CLOSE, dt
        still, moving = (search.index for search in self.mesh_searches)
        bodies = (still, moving, self.cloth_search.index, self._colliders, self._cloth)
        return (step, *bodies, x, v, self._moves)

    def _place(self, which: int, x: wp.array, v: wp.array) -> None:
        """Take the positions of the colliders that stand still (0) or move (1)."""
        inputs = [self._corners[which], self._owner, self._weights, x, v, self._colliders.x, self._colliders.v]
        launch(place_corners, len(self._corners[which]), inputs, device=self.world.device)

    def _moving(self, split: SplitFaces, search: str) -> np.ndarray:
        """(m,) which small triangles are of colliders that move; an octree has one root, so that one moves all."""
        world = self.world
        moves = np.zeros(world.vertex_count, dtype=bool)
        for prescription in world.kinematics.prescriptions:
            moves[prescription.vertices] |= not prescription.still
        chosen = moves[world.faces[world.cloth_face_count + split.owner[::3], 0]]
        return chosen | (chosen.any() and search == "octree")

    def _make_colliders(self, split: SplitFaces) -> Any:
        world, device = self.world, self.world.device
        body = world.surface.face_body.numpy()[world.cloth_face_count + split.owner[::3]]
        # of several cloths the largest coefficient
        friction = world.friction_kinetic.numpy()[:, : len(world.cloths)].max(axis=1)[body]
        colliders: Any = Colliders()
        colliders.faces = wp.array(split.faces, dtype=wp.vec3i, device=device)
        colliders.x, colliders.v = (wp.zeros(len(split.owner), dtype=wp.vec3d, device=device) for _ in range(2))
        colliders.friction = wp.array(friction, dtype=wp.float64, device=device)
        return colliders

    def _make_cloth(self, faces: np.ndarray) -> Any:
        world, device, cloths = self.world, self.world.device, len(self.world.cloths)
        cloth: Any = ClothMesh()
        cloth.faces = wp.array(faces, dtype=wp.vec3i, device=device)
        cloth.friction = float(world.friction_kinetic.numpy()[:cloths, :cloths].max())
        cloth.inverse_mass = world.inverse_mass
        around = surface_neighbours(world.surface, world.seams.nearest())
        cloth.offsets, cloth.neighbours = (wp.array(a, dtype=int, device=device) for a in around)
        return cloth

    def _make_moves(self) -> Any:
        count, device = self.world.cloth_vertex_count, self.world.device
        moves: Any = Moves()
        moves.x, moves.normal, moves.carrier = (wp.zeros(count, dtype=wp.vec3d, device=device) for _ in range(3))
        moves.friction, moves.share = (wp.zeros(count, dtype=wp.float64, device=device) for _ in range(2))
        moves.too_close, moves.pushed = (wp.zeros(count, dtype=int, device=device) for _ in range(2))
        moves.counts = wp.zeros(BEFORE_MOVE + self.most_moves + 1, dtype=int, device=device)
        return moves
