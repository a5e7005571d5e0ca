"""The colliders of a scene: exact shapes and meshes, each with a pose that moves over a step."""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.mesh import TriMesh
from weft.methods.predictive.collider_shapes import BOX, CAPSULE, MESH, PLANE, SPHERE, ColliderArrays, Shape
from weft.methods.predictive.state import fill
from weft.scene import Collider
from weft.scene.bodies import AnalyticShape, analytic_shape
from weft.scene.motion import ResolvedMotion, RigidMotion
from weft.scene.rotation import euler_matrix
from weft.world import World

# largest slope 2 tan(w / 2) of a ridge, that of a right angle: sharper ridges would keep cloth far off
SHARPEST = 2.0

_KINDS = {"plane": int(PLANE), "sphere": int(SPHERE), "capsule": int(CAPSULE), "box": int(BOX)}


class _Deforming(NamedTuple):
    """A mesh that deforms: number of the collider, tree, vertices among those of all meshes, placement, centre."""

    collider: int
    mesh: wp.Mesh
    vertices: slice
    placed: np.ndarray
    centre: np.ndarray


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

        shapes: list[Any] = []
        self._meshes: list[wp.Mesh] = []
        self._deforming: list[_Deforming] = []
        vertices, ridges = [np.zeros((0, 3))], [np.zeros((0, 3))]
        first = first_face = 0
        edges = [part.mesh.rest_lengths for part in world.cloths]
        # nine of ten edges are shorter: longer ones would keep all cloth farther from ridges
        edge = float(np.quantile(np.concatenate(edges), 0.9)) if edges else 0.0
        for k, (collider, mesh) in enumerate(zip(world.scene.colliders, world.collider_meshes, strict=True)):
            exact = analytic_shape(collider)
            if exact is not None:
                shape = _exact(exact)
            else:
                local = (mesh.vertices - self.frames[k][:3, 3]) @ self.frames[k][:3, :3]
                shape, around = self._mesh(mesh, local, first)
                vertices.append(around)
                ridges.append(_ridges(mesh))
                shape.first_face, shape.edge = first_face, edge
                shape.rise = 0.25 * edge * float(np.abs(ridges[-1]).sum(axis=1).max(initial=0.0))
                first_face += len(mesh.faces)
                place = slice(first, first + len(around))
                if not isinstance(self._motions[k], RigidMotion):
                    deforming = _Deforming(k, self._meshes[-1], place, mesh.vertices, np.array(shape.centre))
                    self._deforming.append(deforming)
                first = place.stop
            shape.body = len(world.cloths) + k
            shapes.append(shape)

        identity = np.tile(np.eye(4), (self.count, 1, 1))
        self.centres = np.array([shape.centre for shape in shapes]).reshape(-1, 3)
        """the middle of each collider in the frame of its pose"""
        self.shapes = wp.array(shapes, dtype=Shape, device=device)
        self.start = wp.array(identity, dtype=wp.mat44d, device=device)
        self.end = wp.array(identity, dtype=wp.mat44d, device=device)
        self.vertices_start = wp.array(np.concatenate(vertices), dtype=wp.vec3d, device=device)
        self.vertices_end = wp.clone(self.vertices_start)
        self.arrays = fill(
            ColliderArrays,
            shapes=self.shapes,
            start=self.start,
            end=self.end,
            mesh_start=self.vertices_start,
            mesh_end=self.vertices_end,
            ridges=wp.array(np.concatenate(ridges), dtype=wp.vec3d, device=device),
            sticking=world.friction_static,
            sliding=world.friction_kinetic,
        )
        self._host = np.zeros((self.count, 4, 4))

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
        return bool(self._deforming)

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
        for deforming in self._deforming:
            self._deform(deforming, start, end)

    def vertices_of(self, name: str, pose: np.ndarray, time: float) -> np.ndarray:
        """The vertices of a collider in a pose; those of a deforming mesh are where its motion has them."""
        k = self.names.index(name)
        if not isinstance(self._motions[k], RigidMotion):
            return self._motions[k].positions(self._placed[k], time)
        frame = self.frames[k]
        local = (self._placed[k] - frame[:3, 3]) @ frame[:3, :3]
        return local @ pose[:3, :3].T + pose[:3, 3]

    def _deform(self, deforming: _Deforming, start: float, end: float) -> None:
        k, frame = deforming.collider, self.frames[deforming.collider]
        first, last = (
            (self._motions[k].positions(deforming.placed, time) - frame[:3, 3]) @ frame[:3, :3] - deforming.centre
            for time in (start, end)
        )
        self.vertices_start[deforming.vertices].assign(first)
        self.vertices_end[deforming.vertices].assign(last)
        deforming.mesh.points.assign(first.astype(np.float32))
        deforming.mesh.refit()
        shapes = self.shapes.numpy()
        shapes["bound"][k] = np.linalg.norm(first, axis=1).max()
        shapes["change"][k] = np.linalg.norm(last - first, axis=1).max()
        self.shapes.assign(shapes)


def _frame(collider: Collider) -> np.ndarray:
    """Position and rotation of the placement as a matrix; its scale is in the shape."""
    frame = np.eye(4)
    frame[:3, :3] = euler_matrix(collider.placement.rotation_deg)
    frame[:3, 3] = collider.placement.position
    return frame


def _exact(exact: AnalyticShape) -> Any:
    shape: Any = Shape()
    shape.kind = _KINDS[exact.kind]
    if exact.kind == "box":
        shape.size = wp.vec3d(*exact.half_size)
        shape.bound = float(np.linalg.norm(exact.half_size))
    else:
        shape.size = wp.vec3d(exact.radius, exact.half_length, 0.0)
        shape.bound = exact.radius + exact.half_length
    if exact.kind == "plane":
        shape.bound = -1.0
    return shape


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
