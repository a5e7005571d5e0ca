"""The colliders of a scene, exact shapes and meshes, each with a pose that moves over a step."""

# mypy: disable-error-code="arg-type,return-value"

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from scipy.spatial import cKDTree

from weft.mesh import TriMesh
from weft.methods.predictive.collider_shapes import BOX, CAPSULE, MESH, PLANE, SPHERE, TAPERED, ColliderArrays, Shape
from weft.methods.predictive.state import fill
from weft.scene import Collider
from weft.scene.bodies import AnalyticShape, analytic_shape
from weft.scene.resolved_motion import ResolvedMotion, RigidMotion
from weft.scene.rotation import euler_matrix
from weft.world import World

# largest slope 2 tan(w / 2) of a ridge, that of a right angle: sharper ridges would keep cloth far off
SHARPEST = 2.0
# half the width of the triangles of cloth, in lengths of long edges: the radius of the circle through the corners of a right
# triangle is half of its longest edge, and a third more where cloth that falls is stretched
CHORD = 0.65
# a mesh that falls away by more than this share of a chord within a chord has ridges, which are treated as such
STEEPEST = 0.4
# an edge of cloth is at most that many times as long as the longest one at rest
LONGEST = 1.5

_KINDS = {"plane": int(PLANE), "sphere": int(SPHERE), "capsule": int(CAPSULE), "box": int(BOX)}


class _MeshCollider(NamedTuple):
    """A mesh that may deform: number of the collider, tree, vertices among those of all meshes, placement, centre."""

    collider: int
    mesh: wp.Mesh
    vertices: slice
    placed: np.ndarray
    centre: np.ndarray


class _MeshTables(NamedTuple):
    """The vertices of all meshes, and numbers of the corners of all their triangles (see `ColliderArrays`)."""

    vertices: list[np.ndarray]
    ridges: list[np.ndarray]
    sags: list[np.ndarray]


class Colliders:
    """All colliders of a world.

    A pose is the rigid 4x4 matrix that takes the collider's own frame, that of its shape or of its mesh file, to the
    world; it starts as the placement. A step goes from `start` to `end`.
    """

    def __init__(self, world: World) -> None:
        device = world.device
        self.device = device
        self.names = [collider.name for collider in world.scene.colliders]
        self.count = len(self.names)
        self._motions: list[ResolvedMotion] = world.collider_motions
        self._placed = [mesh.vertices for mesh in world.collider_meshes]
        self.frames = [_frame(collider) for collider in world.scene.colliders]
        """the pose of each collider where it is placed"""

        self.arriving: set[str] = set()
        """colliders that were not there in the last step"""
        self._given: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        """vertices of meshes that the caller deforms, at the start and the end of the step, in the frames of their poses"""
        self._meshes: list[wp.Mesh] = []
        self._mesh_colliders: dict[str, _MeshCollider] = {}
        tables = _MeshTables(*([np.zeros((0, 3))] for _ in _MeshTables._fields))
        exact = [analytic_shape(collider) for collider in world.scene.colliders]
        edges = _edge_lengths(world)
        shapes = [self._shape(k, one, world, edges, tables) for k, one in enumerate(exact)]
        cores = [_core(one) for one in exact]

        identity = np.tile(np.eye(4), (self.count, 1, 1))
        self.centres = np.array([shape.centre for shape in shapes]).reshape(-1, 3)
        """the middle of each collider in the frame of its pose"""
        self._middles = np.concatenate([self.centres, np.ones((self.count, 1))], axis=1)[:, :, None]
        radii = np.array(cores).reshape(-1, 4)[:, 3]
        # one over the square of the radius; 0 for those without a core
        self._per_radius = np.divide(1.0, radii**2, out=np.zeros_like(radii), where=radii > 0.0)
        self.shapes = wp.array(shapes, dtype=Shape, device=device)
        self.start = wp.array(identity, dtype=wp.mat44d, device=device)
        self.end = wp.array(identity, dtype=wp.mat44d, device=device)
        self.vertices_start = wp.array(np.concatenate(tables.vertices), dtype=wp.vec3d, device=device)
        self.vertices_end = wp.clone(self.vertices_start)
        self.arrays = fill(
            ColliderArrays,
            shapes=self.shapes,
            start=self.start,
            end=self.end,
            mesh_start=self.vertices_start,
            mesh_end=self.vertices_end,
            ridges=wp.array(np.concatenate(tables.ridges), dtype=wp.vec3d, device=device),
            sags=wp.array(np.concatenate(tables.sags), dtype=wp.vec3d, device=device),
            sticking=world.friction_static,
            sliding=world.friction_kinetic,
            cores=wp.array(cores, dtype=wp.vec4d, device=device),
        )
        self._host = np.zeros((self.count, 4, 4))
        self._views = (self.start.numpy(), self.end.numpy()) if self.device.is_cpu else None
        self.has_thin = any(shape.span > 0.0 for shape in shapes)
        """whether edges of cloth keep off a collider too"""

    def _shape(
        self, k: int, exact: AnalyticShape | None, world: World, edges: tuple[float, float], tables: _MeshTables
    ) -> Any:
        """Collider k as kernels take it: an exact shape, or a mesh, which goes to the end of the tables."""
        edge, longest = edges
        chord = CHORD * edge
        if exact is not None:
            shape = _exact(exact, chord)
            sizes = exact.half_size if exact.kind == "box" else (exact.radius, exact.end_radius or exact.radius)
            thin = exact.kind != "plane" and min(sizes) < chord
        else:
            shape = self._mesh_shape(k, world.collider_meshes[k], edge, tables)
            thin = bool(shape.closed) and shape.depth < chord
        shape.number, shape.body = k, len(world.cloths) + k
        shape.span = LONGEST * longest if thin else 0.0
        return shape

    def _mesh_shape(self, k: int, mesh: TriMesh, edge: float, tables: _MeshTables) -> Any:
        """The mesh of collider k, whose vertices, ridges and sags go to the end of the tables."""
        first = sum(map(len, tables.vertices))
        shape, around = self._mesh(mesh, (mesh.vertices - self.frames[k][:3, 3]) @ self.frames[k][:3, :3], first)
        ridges, sags = _ridges(mesh), _sags(mesh, CHORD * edge)
        shape.first_face, shape.edge = sum(map(len, tables.ridges)), edge
        shape.rise = max(0.25 * edge * float(np.abs(ridges).sum(axis=1).max(initial=0.0)), float(sags.max(initial=0.0)))
        for table, rows in zip(tables, (around, ridges, sags), strict=True):
            table.append(rows)
        place = slice(first, first + len(around))
        found = _MeshCollider(k, self._meshes[-1], place, mesh.vertices, np.array(shape.centre))
        self._mesh_colliders[self.names[k]] = found
        return shape

    def _mesh(self, mesh: TriMesh, local: np.ndarray, first: int) -> tuple[Any, np.ndarray]:
        """A mesh about the middle of its vertices, and a tree over it."""
        centre = 0.5 * (local.min(axis=0) + local.max(axis=0))
        around = local - centre
        points = wp.array(around, dtype=wp.vec3, device=self.device)
        self._meshes.append(wp.Mesh(points, wp.array(mesh.faces.ravel(), dtype=int, device=self.device)))
        shape: Any = Shape()
        shape.kind = int(MESH)
        shape.mesh = self._meshes[-1].id
        shape.first_vertex = first
        shape.closed = int((mesh.edge_faces >= 0).all())
        shape.centre = wp.vec3d(*centre)
        shape.bound = float(np.linalg.norm(around, axis=1).max())
        shape.depth = 0.5 * float(np.ptp(local, axis=0).min())
        return shape, around

    @property
    def deforming(self) -> bool:
        """Whether a mesh deforms."""
        return bool(self._given) or any(True for _ in self._by_motion())

    def _by_motion(self) -> Iterator[_MeshCollider]:
        """Meshes that a motion of the scene deforms."""
        for name, found in self._mesh_colliders.items():
            if name not in self._given and not isinstance(self._motions[found.collider], RigidMotion):
                yield found

    def enable(self, name: str, on: bool) -> None:
        """Let cloth meet a collider, or pass through it; one that comes back does not move in the next step."""
        k, shapes = self.names.index(name), self.shapes.numpy()
        if on and shapes["off"][k]:
            self.arriving.add(name)
        shapes["off"][k] = int(not on)
        self.shapes.assign(shapes)

    def arrive(self) -> None:
        """Let colliders that are new begin the step where they end it."""
        if self.arriving:
            start, end = self.start.numpy(), self.end.numpy()
            for name in self.arriving:
                k = self.names.index(name)
                start[k] = end[k]
            self.start.assign(start)
            self.arriving.clear()

    def enabled(self) -> dict[str, bool]:
        """Whether cloth meets each collider."""
        return {name: not off for name, off in zip(self.names, self.shapes.numpy()["off"], strict=True)}

    def give_vertices(self, name: str, vertices: np.ndarray, pose: np.ndarray) -> None:
        """Let a mesh end the step with these vertices, in the world, instead of following a motion."""
        found = self._mesh_colliders[name]
        end = (vertices - pose[:3, 3]) @ pose[:3, :3] - found.centre
        start = self._given[name][0] if name in self._given else self.vertices_end.numpy()[found.vertices].copy()
        self._given[name] = start, end

    def given(self) -> dict[str, np.ndarray]:
        """The vertices of each mesh that the caller deforms, about its centre in the frame of its pose."""
        return {name: end.copy() for name, (_, end) in self._given.items()}

    def restore_given(self, given: dict[str, np.ndarray]) -> None:
        """Take up what `given` gave, as at the end of a step."""
        self._given = {name: (end.copy(), end.copy()) for name, end in given.items()}

    def can_deform(self, name: str) -> int:
        """How many vertices a mesh has; 0 for an exact shape."""
        found = self._mesh_colliders.get(name)
        return len(found.placed) if found else 0

    def largest_turn(self) -> float:
        """The largest angle by which a collider turns in the step, rad."""
        start, end = self._views or (self.start.numpy(), self.end.numpy())
        least = min(np.einsum("kij,kij->k", start[:, :3, :3], end[:, :3, :3]).tolist())
        return float(np.arccos(min(max(0.5 * (least - 1.0), -1.0), 1.0))) if least < 2.99 else 0.0

    def largest_shift(self) -> float:
        """How far a collider with a core goes in the step, in its radii."""
        start, end = self._views or (self.start.numpy(), self.end.numpy())
        shift = np.matmul(end - start, self._middles)[:, :, 0]
        return float(np.sqrt((np.square(shift).sum(axis=1) * self._per_radius).max()))

    def poses_at(self, time: float) -> np.ndarray:
        """The pose of each collider at a time by its motion, (k, 4, 4); a deforming mesh keeps its placement."""
        for k, (motion, frame) in enumerate(zip(self._motions, self.frames, strict=True)):
            self._host[k] = motion.matrix(time) @ frame if isinstance(motion, RigidMotion) else frame
        return self._host

    def follow(self, start: float, end: float) -> None:
        """Take the poses at the start and the end of a step from the motions of the scene."""
        self.start.assign(self.poses_at(start))
        self.end.assign(self.poses_at(end))
        self.deform(start, end)

    def deform(self, start: float, end: float) -> None:
        """Take the vertices of deforming meshes at the start and the end of a step."""
        for found in self._by_motion():
            k, frame = found.collider, self.frames[found.collider]
            first, last = (
                (self._motions[k].positions(found.placed, time) - frame[:3, 3]) @ frame[:3, :3] - found.centre
                for time in (start, end)
            )
            self._place(found, first, last)

    def deform_given(self) -> None:
        """Take the vertices that the caller gave; those at the end of this step are the start of the next."""
        for name, (first, last) in self._given.items():
            self._place(self._mesh_colliders[name], first, last)
            self._given[name] = last, last

    def vertices_of(self, name: str, pose: np.ndarray, time: float) -> np.ndarray:
        """The vertices of a collider in a pose; those of a deforming mesh are where its motion has them."""
        k = self.names.index(name)
        if name in self._given:
            own = self._given[name][1] + self._mesh_colliders[name].centre
            return own @ pose[:3, :3].T + pose[:3, 3]
        if not isinstance(self._motions[k], RigidMotion):
            return self._motions[k].positions(self._placed[k], time)
        frame = self.frames[k]
        local = (self._placed[k] - frame[:3, 3]) @ frame[:3, :3]
        return local @ pose[:3, :3].T + pose[:3, 3]

    def _place(self, found: _MeshCollider, first: np.ndarray, last: np.ndarray) -> None:
        """Vertices of a mesh at the start and the end of the step, about its centre in the frame of its pose."""
        k = found.collider
        self.vertices_start[found.vertices].assign(first)
        self.vertices_end[found.vertices].assign(last)
        found.mesh.points.assign(first.astype(np.float32))
        found.mesh.refit()
        shapes = self.shapes.numpy()
        shapes["bound"][k] = np.linalg.norm(first, axis=1).max()
        shapes["change"][k] = np.linalg.norm(last - first, axis=1).max()
        self.shapes.assign(shapes)


def _edge_lengths(world: World) -> tuple[float, float]:
    """The length of long edges of cloth at rest, and of the longest; 0 without cloth."""
    lengths = np.concatenate([np.zeros(0), *(cloth.mesh.rest_lengths for cloth in world.cloths)])
    # nine of ten edges are shorter: longer ones would keep all cloth farther from ridges
    return (float(np.quantile(lengths, 0.9)), float(lengths.max())) if len(lengths) else (0.0, 0.0)


def _frame(collider: Collider) -> np.ndarray:
    """Position and rotation of the placement as a matrix; its scale is in the shape."""
    frame = np.eye(4)
    frame[:3, :3] = euler_matrix(collider.placement.rotation_deg)
    frame[:3, 3] = collider.placement.position
    return frame


def _sags(mesh: TriMesh, chord: float) -> np.ndarray:
    """How far a curved mesh falls away from each corner of each triangle within a chord's length of it, (m, 3).

    Cloth whose triangles are larger than those of the mesh would cut it by that much, were its vertices on the surface.
    """
    normals = np.zeros_like(mesh.vertices)
    corners = mesh.vertices[mesh.faces]
    for k in range(3):
        np.add.at(normals, mesh.faces[:, k], np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]))
    normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-300)[:, None]
    sag = np.zeros(len(mesh.vertices))
    pairs = cKDTree(mesh.vertices).query_pairs(chord, output_type="ndarray")
    for one, two in (pairs.T, pairs.T[::-1]) if len(pairs) else ():
        away = mesh.vertices[two] - mesh.vertices[one]
        fall = -(away * normals[one]).sum(axis=1)
        length = np.linalg.norm(away, axis=1)
        # the fall grows with the square of the distance
        np.maximum.at(sag, one, fall * (chord / np.maximum(length, 0.25 * chord)) ** 2)
    return np.clip(sag, 0.0, STEEPEST * chord)[mesh.faces]


def _exact(exact: AnalyticShape, chord: float) -> Any:
    shape: Any = Shape()
    shape.kind = _KINDS[exact.kind]
    if exact.kind == "box":
        shape.size = wp.vec3d(*exact.half_size)
        shape.bound = float(np.linalg.norm(exact.half_size))
    else:
        radii = exact.radius, exact.end_radius or exact.radius
        if radii[0] != radii[1]:
            shape.kind = int(TAPERED)
        shape.size = wp.vec3d(exact.radius, exact.half_length, radii[1])
        shape.bound = max(radii) + exact.half_length
        if min(radii) >= chord:
            shape.rise = float(np.hypot(min(radii), chord)) - min(radii)
    if exact.kind == "plane":
        shape.bound = -1.0
    return shape


def _core(exact: AnalyticShape | None) -> tuple[float, float, float, float]:
    """Half of the axis of a round shape, and its least radius; others have no core."""
    if exact is None or exact.kind in ("plane", "box"):
        return 0.0, 0.0, 0.0, 0.0
    return 0.0, exact.half_length, 0.0, min(exact.radius, exact.end_radius or exact.radius)


def _ridges(mesh: TriMesh) -> np.ndarray:
    """2 tan(w / 2) of the angle w by which the surface turns at the edge opposite each corner, (m, 3); ridges have w > 0."""
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-300)[:, None]
    found = np.zeros((len(mesh.faces), 3))
    pairs = mesh.edge_faces
    inner = np.flatnonzero((pairs >= 0).all(axis=1))
    one, two = pairs[inner].T
    cosine = np.clip((normals[one] * normals[two]).sum(axis=1), -1.0, 1.0)
    slope = np.minimum(2.0 * np.sqrt((1.0 - cosine) / np.maximum(1.0 + cosine, 1e-12)), SHARPEST)
    for face, other in ((one, two), (two, one)):
        # the corner that is not on the edge
        corner = (mesh.faces[face][:, :, None] != mesh.edges[inner][:, None, :]).all(axis=2).argmax(axis=1)
        # a ridge turns away from the normal
        across = corners[other].mean(axis=1) - corners[face].mean(axis=1)
        found[face, corner] = np.where((across * normals[face]).sum(axis=1) < 0.0, slope, -slope)
    return found
