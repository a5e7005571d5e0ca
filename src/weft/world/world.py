"""A scene compiled to flat arrays: one list of vertices and one of triangles, all cloths first, then all colliders.

`State` has the positions and velocities of all vertices at one moment.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal, Protocol

import numpy as np
import warp as wp

from weft.errors import SceneError
from weft.mesh import TriMesh
from weft.runtime.launch import launch
from weft.scene import Cloth, Grid, Material, Scene, Strip
from weft.scene.resolve import Resolved, resolve_collider, resolve_scene
from weft.scene.resolved_motion import ResolvedMotion, RigidMotion
from weft.world.kinematics import Kinematics, Prescription
from weft.world.seams import join_seams
from weft.world.stretch import largest_stretch
from weft.world.surface import Surface

wp.set_module_options({"enable_backward": False})


@dataclass
class State:
    """All that a step passes on to the next one: positions in m, velocities in m/s, time in s, and how far the run is.

    `frame` is the number of the last complete frame, `step` how many steps of the next one are done.
    """

    x: wp.array
    v: wp.array
    time: float = 0.0
    frame: int = 0
    step: int = 0

    @classmethod
    def from_numpy(
        cls, x: np.ndarray, v: np.ndarray, *, time: float = 0.0, frame: int = 0, device: wp.DeviceLike = "cpu"
    ) -> "State":
        return cls(wp.array(x, dtype=wp.vec3d, device=device), wp.array(v, dtype=wp.vec3d, device=device), time, frame)

    def take(self, x: wp.array, v: wp.array) -> None:
        """Copy positions and velocities from other arrays."""
        wp.copy(self.x, x)
        wp.copy(self.v, v)

    def positions(self) -> np.ndarray:
        """A copy, (n, 3) float64."""
        return self.x.numpy().copy()

    def velocities(self) -> np.ndarray:
        """A copy, (n, 3) float64."""
        return self.v.numpy().copy()


@wp.kernel
def move_prescribed(
    first: int,
    offset: int,
    x: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    dt: wp.float64,
    x_end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
):
    """Positions and velocities at the end of a step of vertices that move linearly to their targets."""
    i = offset + first + wp.tid()
    x_end[i] = target[i]
    v_end[i] = (target[i] - x[i]) / dt


class Kick(Protocol):
    """What changes velocities around a step, as forces of the caller do."""

    def __call__(self, state: State, dt: float) -> None:
        """Before a step of dt. A step that is tried again with another length calls it again, at the same time."""

    def finish(self, state: State) -> None:
        """After a step, or after the last of the parts that it was divided into."""


@dataclass(frozen=True)
class Body:
    """A cloth or a collider, and which vertices and triangles of the world it owns."""

    name: str
    kind: Literal["cloth", "collider"]
    vertices: slice
    faces: slice


@dataclass(frozen=True)
class RestCloth:
    """What dynamics build their model of a cloth from: its rest mesh, its material, and its first vertex in the world."""

    mesh: TriMesh
    material: Material
    first: int
    painted: Mapping[str, np.ndarray] = field(default_factory=dict)
    """factors of some of the material's numbers (stretch, shear, bend), one a vertex"""
    rest_angles: np.ndarray | None = None
    """angle of each hinge at rest in radians, NaN where that of the rest mesh counts; None: that counts everywhere"""


class World:
    """A scene compiled for one device: what does not change during a run, and the prescribed motion of each step.

    Vertices and triangles of all bodies are concatenated, cloths before colliders; `bodies` says which are whose. For every
    vertex there are mass (kg, infinite for colliders), inverse mass (1/kg, 0 where the motion is prescribed), thickness (m)
    and, for prescribed vertices, `target`, the position at the end of the current step, which `begin_step` sets. What changes
    from step to step is in a `State`.
    """

    def __init__(self, scene: Scene, device: wp.DeviceLike = "cpu") -> None:
        self.scene = scene
        self.device = _find_device(scene, device)
        resolved = resolve_scene(scene)
        meshes = [*resolved.cloth_meshes, *resolved.collider_meshes]
        self.bodies = _lay_out(scene, meshes)
        self.cloths = [
            RestCloth(mesh, cloth.material, body.vertices.start, painted, angles)
            for mesh, cloth, body, painted, angles in zip(
                resolved.cloth_meshes, scene.cloths, self.bodies, resolved.painted, resolved.rest_angles, strict=False
            )
        ]
        self.collider_meshes, self.collider_motions = resolved.collider_meshes, resolved.collider_motions
        self.kinematics = Kinematics(_prescriptions(resolved, self.bodies))

        self.rest_positions = np.concatenate([np.zeros((0, 3)), *(m.vertices for m in meshes)])
        starts = [*resolved.starts, *(m.vertices for m in resolved.collider_meshes)]
        self.start_positions = np.concatenate([np.zeros((0, 3)), *starts])
        """where everything is when the simulation starts, before pins and colliders have moved"""
        self.seams = join_seams(
            resolved.seams, self.start_positions, [c.first for c in self.cloths], [c.material for c in self.cloths]
        )
        self.faces = np.concatenate(
            [
                np.zeros((0, 3), np.int32),
                *(m.faces + b.vertices.start for m, b in zip(meshes, self.bodies, strict=True)),
            ]
        ).astype(np.int32)
        self.vertex_count = len(self.rest_positions)
        self.cloth_vertex_count = sum(len(cloth.mesh.vertices) for cloth in self.cloths)
        self.cloth_face_count = sum(len(cloth.mesh.faces) for cloth in self.cloths)
        self.cloth_faces = self.faces[: self.cloth_face_count]
        self.surface = self._make_surface()

        self.mass = np.concatenate(
            [_lumped_mass(rest, cloth) for rest, cloth in zip(self.cloths, scene.cloths, strict=True)]
            + [np.full(self.vertex_count - self.cloth_vertex_count, np.inf)]
        )
        self.inverse_mass = wp.array(np.zeros(self.vertex_count), dtype=wp.float64, device=self.device)
        self.thickness = wp.array(self._thickness(), dtype=wp.float64, device=self.device)
        self.largest_thickness = float(self.thickness.numpy().max(initial=0.0))
        halves = [0.5 * float(np.median(cloth.mesh.rest_lengths)) for cloth in self.cloths]
        self.finest_length = min([float(self.thickness.numpy().min(initial=np.inf)), *halves])
        """the least of all thicknesses and of half the median edge of each cloth, m: tolerances of contact scale with it"""
        self.rest_shape = wp.array(self._rest_shape(), dtype=wp.vec3d, device=self.device)
        self.friction_static, self.friction_kinetic = self._friction()
        self.target = wp.zeros(self.vertex_count, dtype=wp.vec3d, device=self.device)
        self.host_target = np.zeros((self.vertex_count, 3))
        """where prescribed vertices will be, on the host (see `prescribe`); may be a part of an array of several worlds"""
        self._target_due = False
        self._phase = -1
        # called with the state when a step begins; a run watches its frames with it
        self.on_step: Callable[[State], None] | None = None
        self.kick: Kick | None = None
        """forces of the caller, which change velocities"""
        # the phase and the poses that `target` was set for
        self._placed: tuple[int, list[bytes] | None] = -1, None
        self._pinned = True

    def initial_state(self) -> State:
        """The scene at time 0: cloth where it was placed, pins and colliders where their motions start."""
        x = self.start_positions.copy()
        self.kinematics.place(x, 0.0, 0.0)
        v = np.zeros_like(x)
        for cloth, body in zip(self.scene.cloths, self.bodies, strict=False):
            v[body.vertices] = cloth.velocity
        return State.from_numpy(x, v, device=self.device)

    def begin_step(self, state: State, dt: float) -> None:
        """Set `inverse_mass` for the pins that hold now, and `target` to where prescribed vertices will be after dt."""
        self.prescribe(state, dt)
        if not self._target_due:
            return
        self._target_due = False
        # without pinned vertices no cloth vertex has a target: copy those of the colliders alone
        first = 0 if self._pinned else self.cloth_vertex_count
        if self.device.is_cpu:
            self.target.numpy()[first:] = self.host_target[first:]
        elif first < self.vertex_count:
            source = wp.array(self.host_target, dtype=wp.vec3d, device="cpu", copy=False)
            wp.copy(self.target, source, first, first, self.vertex_count - first)

    def prescribe(self, state: State, dt: float) -> None:
        """As `begin_step`, but set `host_target` alone: steps of several worlds upload all of these at once."""
        if self.on_step is not None:
            self.on_step(state)
        if self.kick is not None:
            self.kick(state, dt)
        phase = self.kinematics.phase(state.time)
        if phase != self._phase:
            self._phase = phase
            fixed = self.kinematics.fixed(self.vertex_count, state.time)
            self._pinned = bool(fixed[: self.cloth_vertex_count].any())
            self.inverse_mass.assign(np.where(fixed, 0.0, 1.0 / self.mass))
        elif not self.kinematics.moving:
            return
        poses = self.kinematics.poses(state.time, state.time + dt)
        if poses is not None and self._placed == (phase, poses):
            return
        self._placed = phase, poses
        self.kinematics.place(self.host_target, state.time, state.time + dt)
        self._target_due = True

    def set_colliders(self, scene: Scene) -> None:
        """Have the colliders of another scene with the same cloths; a name that both have is the same collider.

        What is as long as all vertices stays as it was, and says nothing about the new colliders.
        """
        old = {c.name: k for k, c in enumerate(self.scene.colliders)}
        known = list(zip(self.collider_meshes, self.collider_motions, strict=True))
        found = [known[old[c.name]] if c.name in old else resolve_collider(scene, c) for c in scene.colliders]
        pins = self.kinematics.prescriptions[: len(self.kinematics.prescriptions) - len(old)]
        self.scene = scene
        self.collider_meshes, self.collider_motions = [mesh for mesh, _ in found], [motion for _, motion in found]
        meshes = [*(cloth.mesh for cloth in self.cloths), *self.collider_meshes]
        self.bodies = _lay_out(scene, meshes)
        own, count = self.cloth_vertex_count, self.cloth_face_count
        placed = [m.vertices for m in self.collider_meshes]
        self.rest_positions = np.concatenate([self.rest_positions[:own], *placed])
        self.start_positions = np.concatenate([self.start_positions[:own], *placed])
        bodies = self.bodies[len(self.cloths) :]
        offset = [m.faces + b.vertices.start for m, b in zip(self.collider_meshes, bodies, strict=True)]
        self.faces = np.concatenate([self.faces[:count], *offset]).astype(np.int32)
        self.vertex_count = len(self.rest_positions)
        self.friction_static, self.friction_kinetic = self._friction()
        self.kinematics.change([*pins, *_move_colliders(found, bodies)])

    def contact_stiffness(self) -> np.ndarray:
        """(bodies,) N/m: of the springs that push the two sides of contacts apart, that of the stiffest cloth."""
        return np.full(len(self.bodies), max((cloth.material.mean("stretch") for cloth in self.cloths), default=0.0))

    def end_step(self, state: State) -> None:
        """The state is at the end of a step."""
        if self.kick is not None:
            self.kick.finish(state)

    def carry_colliders(self, state: State, dt: float, x_end: wp.array, v_end: wp.array) -> None:
        """Write where colliders are at the end of a step, and how fast they move: straight to the target."""
        count = self.vertex_count - self.cloth_vertex_count
        inputs = [self.cloth_vertex_count, state.x, self.target, dt, x_end, v_end]
        launch(move_prescribed, count, inputs, device=self.device)

    def largest_stretch(self, x: wp.array) -> float:
        """The largest ratio of an edge's length to its rest length, over all cloths."""
        return largest_stretch(*self.cloth_edges, x)

    @cached_property
    def cloth_edges(self) -> tuple[wp.array, wp.array]:
        """The edges of all cloths and their rest lengths."""
        edges = [np.zeros((0, 2), np.int32), *(cloth.first + cloth.mesh.edges for cloth in self.cloths)]
        rest = [np.zeros(0), *(cloth.mesh.rest_lengths for cloth in self.cloths)]
        return (
            wp.array(np.concatenate(edges), dtype=wp.vec2i, device=self.device),
            wp.array(np.concatenate(rest), dtype=wp.float64, device=self.device),
        )

    def _make_surface(self) -> Surface:
        face_body = np.concatenate(
            [np.zeros(0, np.int32), *(np.full(b.faces.stop - b.faces.start, i) for i, b in enumerate(self.bodies))]
        )
        # cloth interacts with everything, colliders do not interact with each other
        is_cloth = np.array([body.kind == "cloth" for body in self.bodies], bool)
        pairs = (is_cloth[:, None] | is_cloth[None, :]).astype(np.int32)
        return Surface.from_arrays(
            self.vertex_count, self.faces, face_body=face_body, body_pairs=pairs, device=self.device
        )

    def _thickness(self) -> np.ndarray:
        thickness = np.full(self.vertex_count, self.scene.thickness)
        for cloth, body in zip(self.cloths, self.bodies, strict=False):
            if cloth.material.thickness is not None:
                thickness[body.vertices] = cloth.material.thickness
        return thickness

    def _rest_shape(self) -> np.ndarray:
        """The rest position of each vertex: in the plane where its cloth has uv coordinates, else where it was placed."""
        shape = self.rest_positions.copy()
        for cloth, body in zip(self.cloths, self.bodies, strict=False):
            if cloth.mesh.uv is not None:
                shape[body.vertices] = np.column_stack([cloth.mesh.uv, np.zeros(len(cloth.mesh.uv))])
        return shape

    def _friction(self) -> tuple[wp.array, wp.array]:
        """Static and kinetic coefficients of each pair of bodies: the geometric mean of theirs, 0 if one of them is 0."""
        static = [cloth.material.friction for cloth in self.cloths] + [c.friction for c in self.scene.colliders]
        kinetic = [cloth.material.friction_kinetic for cloth in self.cloths]
        kinetic += [c.friction_kinetic for c in self.scene.colliders]
        tables = (np.sqrt(np.outer(mu, mu)) for mu in (static, kinetic))
        first, second = (wp.array(t, dtype=wp.float64, ndim=2, device=self.device) for t in tables)
        return first, second


def _find_device(scene: Scene, device: wp.DeviceLike) -> wp.Device:
    """The device of that name, or an error that says which devices there are."""
    name = str(device)
    # without a driver Warp would print errors before it raises one
    if name.startswith("cuda") and not wp.is_cuda_available():
        raise SceneError(
            scene.problem(("device",), f"{name!r} needs an NVIDIA GPU and its driver, and none is found here")
        )
    try:
        return wp.get_device(device)
    except (RuntimeError, ValueError):
        known = ", ".join(known.alias for known in wp.get_devices())
        raise SceneError(scene.problem(("device",), f"there is no {name!r} here, only {known}")) from None


def _lay_out(scene: Scene, meshes: list[TriMesh]) -> list[Body]:
    bodies = []
    vertex = face = 0
    names = [cloth.name for cloth in scene.cloths] + [collider.name for collider in scene.colliders]
    for i, (name, mesh) in enumerate(zip(names, meshes, strict=True)):
        kind: Literal["cloth", "collider"] = "cloth" if i < len(scene.cloths) else "collider"
        vertices = slice(vertex, vertex + len(mesh.vertices))
        faces = slice(face, face + len(mesh.faces))
        bodies.append(Body(name, kind, vertices, faces))
        vertex, face = vertices.stop, faces.stop
    return bodies


def _lumped_mass(rest: RestCloth, cloth: Cloth) -> np.ndarray:
    """The mass of each vertex in kg: the same for all, or a third of each triangle around it."""
    mesh, density = rest.mesh, rest.material.density
    count = len(mesh.vertices)
    lumping = cloth.masses or ("equal" if isinstance(cloth.shape, Grid | Strip) else "area")
    if lumping == "equal":
        return np.full(count, density * mesh.rest_areas.sum() / count)
    thirds = np.repeat(mesh.rest_areas / 3.0, 3)
    return density * np.bincount(mesh.faces.ravel(), weights=thirds, minlength=count)


def _prescriptions(resolved: Resolved, bodies: list[Body]) -> list[Prescription]:
    """The motions of pins and colliders, with vertex numbers of the world."""
    result = []
    for start, pins, body in zip(resolved.starts, resolved.pins, bodies, strict=False):
        for pin in pins:
            vertices = body.vertices.start + pin.vertices
            result.append(_prescription(pin.motion, vertices, start[pin.vertices], pin.until))
    colliders = list(zip(resolved.collider_meshes, resolved.collider_motions, strict=True))
    return [*result, *_move_colliders(colliders, bodies[len(resolved.cloth_meshes) :])]


def _move_colliders(colliders: list[tuple[TriMesh, ResolvedMotion]], bodies: list[Body]) -> list[Prescription]:
    """The motions of colliders, with vertex numbers of the world."""
    return [
        _prescription(motion, np.arange(body.vertices.start, body.vertices.stop), mesh.vertices, np.inf)
        for (mesh, motion), body in zip(colliders, bodies, strict=True)
    ]


def _prescription(motion: ResolvedMotion, vertices: np.ndarray, placed: np.ndarray, until: float) -> Prescription:
    pose = motion.matrix if isinstance(motion, RigidMotion) else None
    return Prescription(vertices, partial(motion.positions, placed), motion.still, until, pose)
