"""Move vertices that are too close to a triangle away from it, by small constant moves, until they are clear.

Draping on meshes, section 3.3: only vertices against triangles, only the vertex moves, always by close/16. It moves
along the normal of a collider's triangle, which faces outwards; from a triangle of cloth, which has no outside, it
moves back to where it came from, as its velocity relative to the triangle tells.

What is done beyond the paper: the last move is only as long as needed, since a whole one would leave a vertex at rest
hopping; of several triangles that are too close the nearest one pushes, so that the result does not
depend on the order in which they are found; and the velocity of a pushed vertex loses its part towards the triangle,
with friction, since otherwise a vertex at rest would gain speed from gravity until it falls through.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.broad_phase.centroid_trees import CentroidTree
from weft.errors import SceneError
from weft.methods.push.push_kernels import LOOKS, place_corners, push_together
from weft.runtime import launch
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.readback import read
from weft.world import World
from weft.world.rings import surface_neighbours

# of `close`, how far a vertex moves at once
FRACTION = 16
# faces of colliders that may come from splitting
MOST_FACES = 2_000_000
# steps after which trees are sorted anew: until then their boxes follow what moves
AGAIN = 64
# how much more work a vertex is than what threads usually share
HEAVY = {"brute": 64, "octree": 8, "kdtree": 8}


class SplitFaces(NamedTuple):
    """Small triangles that cover larger ones exactly: each corner lies at some weights in its large triangle."""

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
        parts = [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
        weights = np.concatenate([np.stack(part, axis=1) for part in parts])
        owner = np.tile(owner[large], 4)
        if len(owner) > MOST_FACES:
            raise SceneError(
                f"colliders would be split into more than {MOST_FACES:,} triangles of {largest:g} m: make them "
                "smaller, or give `close` or `largest_face` a larger value"
            )
    numbers = np.concatenate([part[0] for part in done]) if done else owner
    order = np.argsort(numbers, kind="stable")
    all_weights = np.concatenate([part[1] for part in done])[order].reshape(-1, 3) if done else np.zeros((0, 3))
    faces = np.arange(3 * len(order), dtype=np.int32).reshape(-1, 3)
    return SplitFaces(np.repeat(numbers[order], 3), all_weights, faces)


class Pushed(NamedTuple):
    """How many vertices were pushed in a step, and how many are still too close after the last move."""

    vertices: int
    left: int


class Push:
    """Pushes the vertices of the cloths of a world out of its triangles."""

    def __init__(
        self,
        world: World,
        *,
        search: str,
        close: float,
        moves: int,
        largest_face: float,
        mesh: bool = True,
        cloth: bool = True,
    ) -> None:
        """`mesh` and `cloth` say whether triangles of colliders and of cloth push."""
        self.world, self.close, self.moves, self._heavy = world, close, moves, HEAVY[search]
        device, count = world.device, world.cloth_vertex_count
        mesh_faces = world.faces[world.cloth_face_count :] if mesh else world.faces[:0]
        cloth_faces = world.cloth_faces if cloth else world.faces[:0]
        split = split_faces(world.rest_positions[mesh_faces], largest_face)
        self.mesh_faces = wp.array(split.faces, dtype=wp.vec3i, device=device)
        self._owner = wp.array(mesh_faces[split.owner], dtype=wp.vec3i, device=device)
        self._weights = wp.array(split.weights, dtype=wp.vec3d, device=device)
        self._mesh_x, self._mesh_v = (wp.zeros(len(split.owner), dtype=wp.vec3d, device=device) for _ in range(2))
        # floors have many small faces, so what stands still is not sorted along with what moves
        moving = self._moving(split, search)
        numbers = [np.flatnonzero(~moving), np.flatnonzero(moving)]
        self.mesh_searches = [CentroidTree(search, part, device) for part in numbers]
        self._corners = [wp.array(split.faces[part].ravel(), dtype=int, device=device) for part in numbers]
        self._age = 0
        """steps that were prepared"""

        self.cloth_faces = wp.array(cloth_faces, dtype=wp.vec3i, device=device)
        self.cloth_search = CentroidTree(search, np.arange(len(cloth_faces)), device)
        around = surface_neighbours(world.surface, world.seams.nearest())
        self._neighbours = tuple(wp.array(a, dtype=int, device=device) for a in around)
        self._mesh_friction = wp.array(self._friction(split), dtype=wp.float64, device=device)
        self._cloth_friction = float(world.friction_kinetic.numpy()[: len(world.cloths), : len(world.cloths)].max())
        self._x, self._normal, self._carrier = (wp.zeros(count, dtype=wp.vec3d, device=device) for _ in range(3))
        self._rub = wp.zeros(count, dtype=wp.float64, device=device)
        self._pushed, self._touched = (wp.zeros(count, dtype=int, device=device) for _ in range(2))
        self.counts = wp.zeros(LOOKS + moves + 1, dtype=int, device=device)
        """how many vertices the last step pushed, and how many it left too close, first"""
        self._cooperative = CooperativeLauncher(device)
        self._given: tuple[Any, ...] = ()
        self._inputs: tuple[Any, ...] = ()

    def apply(self, x: wp.array, v: wp.array, dt: float, *, part: float = 1.0) -> Pushed:
        """Push vertices of x until all are clear or the moves are used up, and stop their velocities.

        part: of close/16, how far a vertex moves at once.
        """
        self.prepare(x, v)
        self.push(x, v, dt, part=part)
        return Pushed(*(int(count) for count in read((self.counts, 0, 2))[0]))

    def prepare(self, x: wp.array, v: wp.array) -> None:
        """What is not done in every step: place what stands still, and sort trees now and then.

        Any positions from about that time will do, since what is found does not depend on how a tree is sorted.
        """
        still, moving = self.mesh_searches
        if self._age == 0:
            self._place(0, x, v)
            still.sort(self.mesh_faces, self._mesh_x)
            still.build(self.mesh_faces, self._mesh_x, self.close)
        if self._age % AGAIN == 0:
            self._place(1, x, v)
            moving.sort(self.mesh_faces, self._mesh_x)
            self.cloth_search.sort(self.cloth_faces, x)
        self._age += 1

    def push(self, x: wp.array, v: wp.array, dt: float, *, part: float = 1.0) -> None:
        """As `apply`, once all is prepared: launches alone, which can be replayed; what they count is in `counts`."""
        self._place(1, x, v)
        self.mesh_searches[1].build(self.mesh_faces, self._mesh_x, self.close)
        self.cloth_search.build(self.cloth_faces, x, self.close, self.moves * self.close / FRACTION)
        count = self.world.cloth_vertex_count
        # the same tuple for the same arguments, which is then not looked through
        given = x.ptr, v.ptr, dt, part
        if given != self._given:
            self._given, self._inputs = given, self._arguments(x, v, dt, part)
        self._cooperative.launch(push_together, count, self._inputs, work=self._heavy * count)

    def _arguments(self, x: wp.array, v: wp.array, dt: float, part: float) -> tuple[Any, ...]:
        """What the kernel of all moves takes."""
        still, moving = (search.index for search in self.mesh_searches)
        mesh = (self.mesh_faces, self._mesh_x, self._mesh_v, self._mesh_friction)
        cloth = (self.cloth_search.index, self.cloth_faces, self._cloth_friction)
        found = (self._x, self._normal, self._carrier, self._rub, self._pushed, self._touched, self.counts)
        lengths = (self.world.inverse_mass, self.close, part * self.close / FRACTION, dt)
        before = (self.world.cloth_vertex_count, self.moves, *lengths)
        return (*before, still, moving, *mesh, *self._neighbours, *cloth, x, v, *found)

    def _place(self, which: int, x: wp.array, v: wp.array) -> None:
        """Bring the triangles of colliders that stand still (0) or move (1) up to date."""
        inputs = [self._corners[which], self._owner, self._weights, x, v, self._mesh_x, self._mesh_v]
        launch(place_corners, len(self._corners[which]), inputs, device=self.world.device)

    def _moving(self, split: SplitFaces, search: str) -> np.ndarray:
        """(m,) which small triangles are of colliders that move; an octree has one root, so there all go with them."""
        world = self.world
        moves = np.zeros(world.vertex_count, dtype=bool)
        for prescription in world.kinematics.prescriptions:
            moves[prescription.vertices] |= not prescription.still
        chosen = moves[world.faces[world.cloth_face_count + split.owner[::3], 0]]
        return chosen | (chosen.any() and search == "octree")

    def _friction(self, split: SplitFaces) -> np.ndarray:
        """The coefficient of each collider triangle with the cloth (of several cloths: the largest)."""
        world = self.world
        body = world.surface.face_body.numpy()[world.cloth_face_count + split.owner[::3]]
        table = world.friction_kinetic.numpy()[:, : len(world.cloths)].max(axis=1)
        return table[body]
