"""The colliders of a scene, exact shapes and meshes, each with a pose that moves over a step; and rigid motions.

The rigid motions of a scene, of colliders, pins and goals, evaluated by one kernel for `weft.Realtime`.

`weft.scene.motion` evaluates a path in Python in 40 microseconds, which would add 0.8 ms to the 0.25 ms of a step of the
character among the examples, and 0.5 ms to the 0.1 ms of the skirt. Here all keyframes lie in one table, and a step is one
launch. A segment of a smooth path is the cubic of `weft.scene.motion`; one of a linear path, and a spin, is a rotation at a
constant rate.
"""

# mypy: disable-error-code="arg-type,return-value"

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from scipy.spatial import cKDTree

from weft.mesh import TriMesh
from weft.methods.predictive.collider_shapes import BOX, CAPSULE, MESH, PLANE, SPHERE, TAPERED, ColliderArrays, Shape
from weft.methods.predictive.guides import Goals
from weft.methods.predictive.state import fill
from weft.runtime import launch
from weft.runtime.buffers import HostMirror
from weft.scene import Collider, Path, Spin, Still, rotation
from weft.scene.bodies import AnalyticShape, analytic_shape
from weft.scene.motion import MotionModel
from weft.scene.placement import Placement
from weft.scene.resolved_motion import ResolvedMotion, RigidMotion, keyframe_rates
from weft.scene.rotation import euler_matrix
from weft.world import World
from weft.world.kinematics import TIME_SLACK

wp.set_module_options({"enable_backward": False})

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
        cores: list[Any] = []
        self._meshes: list[wp.Mesh] = []
        self._mesh_colliders: dict[str, _MeshCollider] = {}
        self.arriving: set[str] = set()
        """colliders that were not there in the last step"""
        self._given: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        """vertices of meshes that the caller deforms, at the start and the end of the step, in the frames of their poses"""
        vertices, ridges, sags = [np.zeros((0, 3))], [np.zeros((0, 3))], [np.zeros((0, 3))]
        first = first_face = 0
        edges = [part.mesh.rest_lengths for part in world.cloths]
        # nine of ten edges are shorter: longer ones would keep all cloth farther from ridges
        edge = float(np.quantile(np.concatenate(edges), 0.9)) if edges else 0.0
        chord = CHORD * edge
        for k, (collider, mesh) in enumerate(zip(world.scene.colliders, world.collider_meshes, strict=True)):
            exact = analytic_shape(collider)
            if exact is not None:
                shape = _exact(exact, chord)
                sizes = exact.half_size if exact.kind == "box" else (exact.radius, exact.end_radius or exact.radius)
                thin = exact.kind != "plane" and min(sizes) < chord
            else:
                local = (mesh.vertices - self.frames[k][:3, 3]) @ self.frames[k][:3, :3]
                shape, around = self._mesh(mesh, local, first)
                vertices.append(around)
                ridges.append(_ridges(mesh))
                shape.first_face, shape.edge = first_face, edge
                sags.append(_sags(mesh, chord))
                steepest = 0.25 * edge * float(np.abs(ridges[-1]).sum(axis=1).max(initial=0.0))
                shape.rise = max(steepest, float(sags[-1].max(initial=0.0)))
                thin = bool(shape.closed) and shape.depth < chord
                first_face += len(mesh.faces)
                place = slice(first, first + len(around))
                found = _MeshCollider(k, self._meshes[-1], place, mesh.vertices, np.array(shape.centre))
                self._mesh_colliders[collider.name] = found
                first = place.stop
            shape.number, shape.body = k, len(world.cloths) + k
            shape.span = LONGEST * float(np.concatenate(edges).max()) if thin and edges else 0.0
            shapes.append(shape)
            cores.append(_core(exact))

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
            sags=wp.array(np.concatenate(sags), dtype=wp.vec3d, device=device),
            sticking=world.friction_static,
            sliding=world.friction_kinetic,
            cores=wp.array(cores, dtype=wp.vec4d, device=device),
        )
        self._host = np.zeros((self.count, 4, 4))
        self.has_thin = any(shape.span > 0.0 for shape in shapes)
        """whether edges of cloth keep off a collider too"""

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
        start, end = self.start.numpy(), self.end.numpy()
        least = np.einsum("kij,kij->k", start[:, :3, :3], end[:, :3, :3]).min()
        return float(np.arccos(min(max(0.5 * (least - 1.0), -1.0), 1.0))) if least < 2.99 else 0.0

    def largest_shift(self) -> float:
        """How far a collider with a core goes in the step, in its radii."""
        shift = np.matmul(self.end.numpy() - self.start.numpy(), self._middles)[:, :, 0]
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


ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
THREE = wp.constant(wp.float64(3.0))
# a release at the very start of a step counts as done
SLACK = wp.constant(wp.float64(TIME_SLACK))


@wp.struct
class Segment:
    """The motion from one keyframe to the next."""

    start: wp.float64
    per_gap: wp.float64
    """1 / its duration"""
    straight: int
    shift: wp.vec3d
    shift_end: wp.vec3d
    leave: wp.vec3d
    """displacement over the segment at the velocity of its start, and at that of its end"""
    arrive: wp.vec3d
    turn: wp.quatd
    """rotation at the start"""
    first: wp.vec3d
    """rotation vectors of the cumulative cubic; of a straight one the first is all of it"""
    middle: wp.vec3d
    last: wp.vec3d


@wp.struct
class Mover:
    """A collider, pins or goals that move rigidly: its segments, and the times between which it moves."""

    first_segment: int
    segments: int
    begin: wp.float64
    end: wp.float64
    centre: wp.vec3d
    collider: int
    """its number, or -1 for vertices"""
    goal: int
    """1 where the vertices are goals"""
    frame: wp.mat44d
    """the collider's own frame, placed"""
    until: wp.float64
    """when the pin lets go"""
    first_vertex: int
    """in the list of vertices, which for goals are the goals' numbers"""
    vertices: int


@wp.func
def turn_by(vector: wp.vec3d) -> wp.quatd:
    """The rotation about a vector by its length."""
    return wp.quat_from_axis_angle(wp.normalize(vector), wp.length(vector))


@wp.func
def transform_at(m: Mover, time: wp.float64, segments: wp.array[Segment]) -> wp.transformd:
    """From where a mover's vertices are placed to where they are at a time."""
    at = wp.clamp(time, m.begin, m.end)
    # the last segment that starts at or before the time, by bisection
    low = m.first_segment
    high = m.first_segment + m.segments
    while high - low > 1:
        middle = (low + high) // 2
        if segments[middle].start <= at:
            low = middle
        else:
            high = middle
    s = segments[low]
    u = (at - s.start) * s.per_gap
    turn = s.turn * turn_by(u * s.first)
    shift = (ONE - u) * s.shift + u * s.shift_end
    if s.straight == 0:
        rest = ONE - u
        blend = u * u * (THREE - TWO * u)
        turn = s.turn * turn_by((ONE - rest * rest * rest) * s.first) * turn_by(blend * s.middle)
        turn = turn * turn_by(u * u * u * s.last)
        shift = (ONE - blend) * s.shift + blend * s.shift_end + u * rest * (rest * s.leave - u * s.arrive)
    turn = wp.normalize(turn)
    return wp.transformd(m.centre - wp.quat_rotate(turn, m.centre) + shift, turn)


@wp.kernel
def follow_movers(
    first: int,
    count: int,
    now: wp.array[wp.vec2d],
    movers: wp.array[Mover],
    segments: wp.array[Segment],
    vertices: wp.array[int],
    placed: wp.array[wp.vec3d],
    goal_starts: wp.array[wp.vec3d],
    goal_ends: wp.array[wp.vec3d],
    poses: wp.array[wp.mat44d],
    target: wp.array[wp.vec3d],
):
    """Poses of colliders and targets of pins at the end of a step, goals at both: one item.

    Of two pins that hold a vertex the later one counts.
    """
    time = now[first + wp.tid()]
    for k in range(count):
        m = movers[k]
        if m.until > time[0] + SLACK:
            end = transform_at(m, wp.min(time[1], m.until), segments)
            begin = transform_at(m, time[0], segments)
            if m.collider >= 0:
                poses[m.collider] = wp.transform_to_matrix(end) * m.frame
            for i in range(m.first_vertex, m.first_vertex + m.vertices):
                if m.goal != 0:
                    goal_starts[vertices[i]] = wp.transform_point(begin, placed[i])
                    goal_ends[vertices[i]] = wp.transform_point(end, placed[i])
                else:
                    target[vertices[i]] = wp.transform_point(end, placed[i])


class Motions:
    """All rigid motions of a world; `rest` are the moving pins that are not rigid, which the caller moves."""

    def __init__(self, world: World, colliders: Colliders, goals: Goals) -> None:
        scene, self.device = world.scene, world.device
        self._movers: list[Any] = []
        self._segments: list[Any] = []
        self._vertices, self._placed = [np.zeros(0, np.int32)], [np.zeros((0, 3))]
        pins = [(pin.motion, cloth.placement) for cloth in scene.cloths for pin in cloth.pins]
        self.rest = []
        for (motion, placement), p in zip(pins, world.kinematics.prescriptions, strict=False):
            if not p.still and isinstance(motion, Path | Spin):
                mover = self._add(motion, placement, p.vertices, world.start_positions[p.vertices])
                mover.until = p.until
            elif not p.still:
                self.rest.append(p)
        for k, collider in enumerate(scene.colliders):
            if isinstance(collider.motion, Path | Spin):
                mover = self._add(collider.motion, collider.placement)
                mover.collider = k
                mover.frame = wp.mat44d(colliders.frames[k])
        self.goals_too = all(isinstance(group.motion, Path | Spin | Still) for group in goals.groups)
        """whether all goals are moved here; else the caller moves all of them"""
        for group in goals.groups:
            if self.goals_too and not isinstance(group.motion, Still):
                self._add(group.motion, group.placement, group.numbers, group.placed).goal = 1

        def upload(values: Any, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=self.device)

        now = wp.zeros(1, dtype=wp.vec2d, device=self.device)
        self._clock = HostMirror(now)
        tables = upload(self._movers, Mover), upload(self._segments, Segment)
        vertices = upload(np.concatenate(self._vertices).astype(np.int32), int)
        placed = upload(np.concatenate(self._placed), wp.vec3d)
        self._given = (len(self._movers), now, *tables, vertices, placed, goals.starts, goals.ends)
        self._inputs: tuple[Any, ...] = ()

    def follow(self, start: float, end: float, poses: wp.array, target: wp.array) -> None:
        """Write the poses of colliders, the targets of pins and the goals of a step from `start` to `end`."""
        if not self._movers:
            return
        self._clock.values[0] = start, end
        self._clock.copy_to_device()
        if not self._inputs or self._inputs[-1] is not target or self._inputs[-2] is not poses:
            self._inputs = (*self._given, poses, target)
        launch(follow_movers, 1, self._inputs, device=self.device)

    def _add(
        self,
        motion: MotionModel,
        placement: Placement,
        vertices: np.ndarray | None = None,
        placed: np.ndarray | None = None,
    ) -> Any:
        """A mover for something with this placement, and the vertices that it moves."""
        mover: Any = Mover()
        mover.first_segment = len(self._segments)
        mover.collider, mover.until = -1, np.inf
        centre = placement.position
        if isinstance(motion, Spin):
            centre = motion.centre or centre
            mover.begin, mover.end = motion.start, np.inf if motion.stop is None else motion.stop
            axis = np.array(motion.axis) / np.linalg.norm(motion.axis)
            self._segments.append(_segment(motion.start, 1.0, first=axis * np.radians(motion.rate_deg)))
        elif isinstance(motion, Path):
            mover.begin, mover.end = motion.keyframes[0].time, motion.keyframes[-1].time
            self._segments.extend(_path_segments(motion))
        mover.segments = len(self._segments) - mover.first_segment
        mover.centre = wp.vec3d(*centre)
        if vertices is not None and placed is not None:
            mover.first_vertex, mover.vertices = sum(map(len, self._vertices)), len(vertices)
            self._vertices.append(vertices)
            self._placed.append(placed)
        self._movers.append(mover)
        return mover


def _segment(start: float, gap: float, turn: Any = (1.0, 0.0, 0.0, 0.0), **vectors: Any) -> Any:
    """A straight segment without motion, but for what is given; `turn` is a quaternion (w, x, y, z)."""
    segment: Any = Segment()
    segment.start, segment.per_gap, segment.straight = start, 1.0 / gap, 1
    segment.turn = wp.quatd(*turn[1:], turn[0])
    for name, value in vectors.items():
        setattr(segment, name, wp.vec3d(*value))
    return segment


def _path_segments(path: Path) -> list[Any]:
    """The segments of a path."""
    times = np.array([k.time for k in path.keyframes])
    shifts = np.array([k.position for k in path.keyframes])
    turns = rotation.euler_quaternion([k.rotation_deg for k in path.keyframes])
    if len(times) == 1:
        return [_segment(times[0], 1.0, shift=shifts[0], shift_end=shifts[0], turn=turns[0])]
    steps = rotation.logarithm(rotation.product(rotation.inverse(turns[:-1]), turns[1:]))
    gaps = np.diff(times)[:, None]
    shift_rates = keyframe_rates(np.diff(shifts, axis=0) / gaps, gaps)
    turn_rates = keyframe_rates(steps / gaps, gaps)
    segments = []
    for i, gap in enumerate(gaps[:, 0]):
        segment = _segment(times[i], gap, shift=shifts[i], shift_end=shifts[i + 1], turn=turns[i], first=steps[i])
        if path.interpolation == "smooth":
            segment.straight = 0
            first, last = gap * turn_rates[i] / 3.0, gap * turn_rates[i + 1] / 3.0
            leave, arrive = (rotation.inverse(rotation.exponential(v)) for v in (first, last))
            middle = rotation.product(
                rotation.product(leave, rotation.inverse(turns[i])), rotation.product(turns[i + 1], arrive)
            )
            segment.first, segment.middle = wp.vec3d(*first), wp.vec3d(*rotation.logarithm(middle))
            segment.last = wp.vec3d(*last)
            segment.leave, segment.arrive = wp.vec3d(*(gap * shift_rates[i])), wp.vec3d(*(gap * shift_rates[i + 1]))
        segments.append(segment)
    return segments
