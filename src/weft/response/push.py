"""Move vertices that are too close to a triangle away from it, by small constant moves, until they are clear.

Draping on meshes, section 3.3: only vertices against triangles, only the vertex moves, always by close/16. It moves
along the normal of a collider's triangle, which faces outwards; from a triangle of cloth, which has no outside, it
moves back to where it came from, as its velocity relative to the triangle tells.

What is done beyond the paper: the last move is only as long as needed, since a whole one would leave a vertex at rest
hopping; of several triangles that are too close the nearest one pushes, so that the result does not
depend on the order in which they are found; and the velocity of a pushed vertex loses its part towards the triangle,
with friction, since otherwise a vertex at rest would gain speed from gravity until it falls through.
"""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.errors import SceneError
from weft.response.bounding_planes import vertex_neighbours
from weft.response.face_search import FaceIndex, FaceSearch, next_range
from weft.world import World, launch

wp.set_module_options({"enable_backward": False})

# of `close`, how far a vertex moves at once
FRACTION = 16
# faces of colliders that may come from splitting
MOST_FACES = 2_000_000


@wp.struct
class Nearest:
    """The nearest triangle found so far."""

    distance: wp.float64
    needed: wp.float64
    """how far the vertex has to go along the direction to be clear"""
    face: int
    is_cloth: int
    direction: wp.vec3d
    velocity: wp.vec3d


@wp.func
def plane_distance(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, n: wp.vec3d) -> wp.float64:
    """Distance above the plane of a triangle for a point over it; infinite for a point beside it."""
    d = wp.dot(n, p - a)
    q = p - d * n
    # the foot is inside when it lies on the inner side of all edges
    inside = (
        wp.dot(n, wp.cross(b - a, q - a)) >= wp.float64(0.0)
        and wp.dot(n, wp.cross(c - b, q - b)) >= wp.float64(0.0)
        and wp.dot(n, wp.cross(a - c, q - c)) >= wp.float64(0.0)
    )
    if inside:
        return d
    return wp.float64(wp.inf)


@wp.func
def next_to(i: int, f: wp.vec3i, offsets: wp.array[int], neighbours: wp.array[int]) -> bool:
    """Whether a vertex belongs to a triangle, or an edge leads from one to the other."""
    if f[0] == i or f[1] == i or f[2] == i:
        return True
    for s in range(offsets[i], offsets[i + 1]):
        n = neighbours[s]
        if f[0] == n or f[1] == n or f[2] == n:
            return True
    return False


@wp.func
def look(
    nearest: Nearest,
    against: wp.vec3d,
    i: int,
    p: wp.vec3d,
    velocity: wp.vec3d,
    close: wp.float64,
    dt: wp.float64,
    is_cloth: int,
    offsets: wp.array[int],
    neighbours: wp.array[int],
    index: FaceIndex,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
) -> Nearest:
    """The nearest triangle of a list over which the point lies, if it is nearer than what was found before.

    Only triangles that push against the given direction count; a zero vector admits all.
    """
    result = nearest
    place = int(1)
    if index.count == 0:
        place = 0
    while place > 0:
        span = next_range(index, p, place)
        place = span[2]
        for k in range(span[0], span[1]):
            number = index.order[k]
            f = faces[number]
            if is_cloth == 0 or not next_to(i, f, offsets, neighbours):
                a = x[f[0]]
                b = x[f[1]]
                c = x[f[2]]
                n = wp.normalize(wp.cross(b - a, c - a))
                d = plane_distance(p, a, b, c, n)  # type: ignore[arg-type]
                far = wp.abs(d)
                if far < result.distance or (
                    far == result.distance and result.is_cloth == is_cloth and number < result.face
                ):
                    third = wp.float64(1.0) / wp.float64(3.0)
                    carrier = third * (v[f[0]] + v[f[1]] + v[f[2]])
                    away = wp.float64(1.0)
                    # from cloth back to the side on which the vertex was a step ago
                    if is_cloth == 1 and d < dt * wp.dot(n, velocity - carrier):
                        away = wp.float64(-1.0)
                    if away * wp.dot(n, against) <= wp.float64(0.0):
                        result.distance = far
                        result.face = number
                        result.is_cloth = is_cloth
                        result.velocity = carrier
                        result.direction = away * n
                        result.needed = close - away * d
    return result


@wp.kernel
def push_vertices(
    first: int,
    inverse_mass: wp.array[wp.float64],
    close: wp.float64,
    move: wp.float64,
    dt: wp.float64,
    still_index: FaceIndex,
    moving_index: FaceIndex,
    mesh_faces: wp.array[wp.vec3i],
    mesh_x: wp.array[wp.vec3d],
    mesh_v: wp.array[wp.vec3d],
    mesh_friction: wp.array[wp.float64],
    offsets: wp.array[int],
    neighbours: wp.array[int],
    cloth_index: FaceIndex,
    cloth_faces: wp.array[wp.vec3i],
    cloth_friction: wp.float64,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    x_out: wp.array[wp.vec3d],
    normal: wp.array[wp.vec3d],
    carrier: wp.array[wp.vec3d],
    friction: wp.array[wp.float64],
    pushed: wp.array[int],
):
    """One move of every vertex that is closer than `close` to a triangle."""
    i = first + wp.tid()
    p = x[i]
    x_out[i] = p
    pushed[i] = 0
    if inverse_mass[i] == wp.float64(0.0):
        return
    found = Nearest()
    found.distance = close
    found.face = -1
    found.is_cloth = -1
    none = found
    u = v[i]
    all = wp.vec3d()
    found = look(found, all, i, p, u, close, dt, 0, offsets, neighbours, still_index, mesh_faces, mesh_x, mesh_v)
    found = look(found, all, i, p, u, close, dt, 0, offsets, neighbours, moving_index, mesh_faces, mesh_x, mesh_v)
    found = look(found, all, i, p, u, close, dt, 1, offsets, neighbours, cloth_index, cloth_faces, x, v)
    if found.face < 0:
        return
    # between two triangles: no farther than the middle
    n = found.direction
    other = look(none, n, i, p, u, close, dt, 0, offsets, neighbours, still_index, mesh_faces, mesh_x, mesh_v)
    other = look(other, n, i, p, u, close, dt, 0, offsets, neighbours, moving_index, mesh_faces, mesh_x, mesh_v)
    other = look(other, n, i, p, u, close, dt, 1, offsets, neighbours, cloth_index, cloth_faces, x, v)
    length = wp.min(move, found.needed)
    if other.face >= 0:
        length = wp.min(length, wp.max(wp.float64(0.0), wp.float64(0.5) * (found.needed - other.needed)))
    x_out[i] = p + length * found.direction
    normal[i] = found.direction
    carrier[i] = found.velocity
    friction[i] = cloth_friction
    if found.is_cloth == 0:
        friction[i] = mesh_friction[found.face]
    pushed[i] = 1


@wp.kernel
def stop_vertices(
    first: int,
    touched: wp.array[int],
    normal: wp.array[wp.vec3d],
    carrier: wp.array[wp.vec3d],
    friction: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
):
    """Take from the velocity of pushed vertices what leads towards the triangle, and rub along it."""
    i = first + wp.tid()
    if touched[i] == 0:
        return
    n = normal[i]
    u = v[i] - carrier[i]
    towards = wp.dot(u, n)
    if towards < wp.float64(0.0):
        along = u - towards * n
        speed = wp.length(along)
        if speed > wp.float64(0.0):
            along = along * wp.max(wp.float64(0.0), wp.float64(1.0) + friction[i] * towards / speed)
        v[i] = carrier[i] + along


@wp.kernel
def mark_touched(first: int, pushed: wp.array[int], touched: wp.array[int]):
    """Remember who was pushed in any of the moves."""
    i = first + wp.tid()
    if pushed[i] != 0:
        touched[i] = 1


@wp.kernel
def place_corners(
    first: int,
    chosen: wp.array[int],
    owner: wp.array[wp.vec3i],
    weights: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    corner_x: wp.array[wp.vec3d],
    corner_v: wp.array[wp.vec3d],
):
    """The chosen corners of split triangles from those they were split from."""
    i = chosen[first + wp.tid()]
    f = owner[i]
    w = weights[i]
    corner_x[i] = w[0] * x[f[0]] + w[1] * x[f[1]] + w[2] * x[f[2]]
    corner_v[i] = w[0] * v[f[0]] + w[1] * v[f[1]] + w[2] * v[f[2]]


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
        self.world, self.close, self.moves = world, close, moves
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
        self.mesh_searches = [FaceSearch(search, part, device) for part in numbers]
        self._corners = [wp.array(split.faces[part].ravel(), dtype=int, device=device) for part in numbers]
        self._placed = False
        """whether what stands still has been placed"""

        self._cloth_faces_host = cloth_faces
        self.cloth_faces = wp.array(cloth_faces, dtype=wp.vec3i, device=device)
        self.cloth_search = FaceSearch(search, np.arange(len(cloth_faces)), device)
        self._neighbours = tuple(wp.array(a, dtype=int, device=device) for a in vertex_neighbours(world.surface))
        self._mesh_friction = wp.array(self._friction(split), dtype=wp.float64, device=device)
        self._cloth_friction = float(world.friction_kinetic.numpy()[: len(world.cloths), : len(world.cloths)].max())
        self._x, self._normal, self._carrier = (wp.zeros(count, dtype=wp.vec3d, device=device) for _ in range(3))
        self._rub = wp.zeros(count, dtype=wp.float64, device=device)
        self._pushed, self._touched = (wp.zeros(count, dtype=int, device=device) for _ in range(2))

    def apply(self, x: wp.array, v: wp.array, dt: float, *, part: float = 1.0) -> Pushed:
        """Push vertices of x until all are clear or the moves are used up, and stop their velocities.

        part: of close/16, how far a vertex moves at once.
        """
        world, device, count = self.world, self.world.device, self.world.cloth_vertex_count
        self._follow(x, v)
        corners = x.numpy()[self._cloth_faces_host]
        self.cloth_search.build(corners, self.close, self.moves * self.close / FRACTION)
        self._touched.zero_()
        indices = [search.index for search in self.mesh_searches]
        mesh = [*indices, self.mesh_faces, self._mesh_x, self._mesh_v, self._mesh_friction]
        cloth = [*self._neighbours, self.cloth_search.index, self.cloth_faces, self._cloth_friction]
        found = [self._normal, self._carrier, self._rub, self._pushed]
        inputs = [
            world.inverse_mass,
            self.close,
            part * self.close / FRACTION,
            dt,
            *mesh,
            *cloth,
            x,
            v,
            self._x,
            *found,
        ]
        for move in range(self.moves + 1):
            launch(push_vertices, count, inputs, device=device, grain=32)
            left = int(self._pushed.numpy().sum())
            # the last look only counts who is still too close
            if left == 0 or move == self.moves:
                break
            wp.copy(x, self._x, count=count)
            launch(mark_touched, count, [self._pushed, self._touched], device=device)
        launch(stop_vertices, count, [self._touched, self._normal, self._carrier, self._rub, v], device=device)
        return Pushed(int(self._touched.numpy().sum()), left)

    def _follow(self, x: wp.array, v: wp.array) -> None:
        """Bring the triangles of colliders up to date; those that stand still are placed and sorted once."""
        parts = list(zip(self.mesh_searches, self._corners, strict=True))
        for search, corners in parts[1:] if self._placed else parts:
            if search.count:
                inputs = [corners, self._owner, self._weights, x, v, self._mesh_x, self._mesh_v]
                launch(place_corners, len(corners), inputs, device=self.world.device)
                search.build(self._mesh_x.numpy().reshape(-1, 3, 3)[search.numbers], self.close)
        self._placed = True

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
