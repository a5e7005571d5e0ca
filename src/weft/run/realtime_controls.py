"""What a caller of `weft.Realtime` sets between two steps: held vertices, colliders, the animation, numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.dynamics.air import Air
from weft.errors import WeftError
from weft.lazy import shows
from weft.mesh import as_mesh
from weft.methods.predictive.solver import PredictiveSolver
from weft.run.character_space import CharacterSpace
from weft.run.checks import vertex_numbers
from weft.run.live_animation import LiveAnimation
from weft.run.render_mesh import RenderMesh
from weft.run.rigid_motions import Motions
from weft.runtime.buffers import HostMirror
from weft.scene import Collider, Scene, Wind
from weft.scene.messages import suggest
from weft.scene.scene import check_scene
from weft.world import World

Floats = npt.NDArray[np.float64]


# for how long nothing may move, s: longer than the highest point of a swing lasts
REST_SECONDS = 0.5
# how far a vertex may move within that time, m: contacts jitter by less, and a millimetre a second is hard to see
REST_DISTANCE = 5e-4


class RestWatch:
    """Whether cloth is at rest: for a while no vertex has moved, nor anything that could move it."""

    def __init__(self) -> None:
        self.asleep = False
        self._since = 0.0
        self._first: Floats = np.zeros((0, 3))
        self._given: list[bytes] = []

    def wake(self) -> None:
        """Begin to watch again."""
        self.asleep, self._first, self._since = False, np.zeros((0, 3)), 0.0

    def may_skip_step(self, given: Sequence[Floats], positions: Floats) -> bool:
        """Whether the next step can be left out; `given` is all that the caller moves, as it is at the end of the step."""
        now = [values.tobytes() for values in given]
        if now != self._given or (self.asleep and not np.array_equal(positions, self._first)):
            self._given = now
            self.wake()
        return self.asleep

    def step_done(self, positions: Floats, dt: float) -> bool:
        """Look at the cloth after a step; whether it falls asleep now."""
        if not len(self._first) or np.abs(positions - self._first).max(initial=0.0) > REST_DISTANCE:
            self._first, self._since = positions.copy(), 0.0
            return False
        self._since += dt
        self.asleep = self._since >= REST_SECONDS
        if self.asleep:
            self._first = positions.copy()
        return self.asleep


@shows(
    "add animate asleep bind change deform enable faces hold motions move paint poses positions release remove report reset "
    "reset_to restore root save scene sleep step step_all targets teleport time velocities"
)
class RealtimeControls:
    """The part of `weft.Realtime` that changes what a step gets."""

    time: float
    scene: Scene
    world: World
    device: wp.Device
    solver: PredictiveSolver
    positions: Floats
    targets: Floats
    poses: dict[str, Floats]
    faces: npt.NDArray[np.int32]
    _x: wp.array
    _seen: list[HostMirror]
    _poses: Floats
    _pinned: npt.NDArray[np.bool_]
    _held: npt.NDArray[np.bool_]
    _by_hand: set[int]
    _on_cpu: bool
    _motions: Motions | None
    """made when they are followed"""
    _stiffness = (1.0, 1.0)

    def __init__(self) -> None:
        self.character = CharacterSpace()
        """root of a character, and how much of its motion cloth feels"""
        self.watch = RestWatch()
        self._animation: LiveAnimation | None = None
        self._render_meshes: list[RenderMesh] = []

    def __repr__(self) -> str:
        return f"<Realtime {self.scene.name!r}: {len(self.positions)} vertices, on {self.device}, {self.time:.4g} s>"

    # colliders

    def enable(self, name: str, on: bool = True) -> None:
        """Let cloth meet a collider, or (`on=False`) pass through it, which costs nothing.

        One that comes back is where its pose says in the next step, without a sweep from where it was.
        """
        self._body(name, "collider")
        if self.solver.colliders.enabled()[name] != on:
            self.solver.colliders.enable(name, on)
            self.watch.wake()

    def deform(self, name: str, vertices: npt.ArrayLike) -> None:
        """Give the vertices of the mesh of a collider, in the world, at the end of the next step: a skinned body.

        It no longer follows the motion of the scene. Cloth keeps off by the curvature that the mesh has in the scene.
        """
        self._body(name, "collider")
        colliders, x = self.solver.colliders, np.asarray(vertices, dtype=float)
        count = colliders.can_deform(name)
        if not count:
            raise WeftError(f"{name!r} is an exact shape (analytic = true), which cannot deform: leave analytic out")
        if x.shape != (count, 3):
            raise WeftError(f"the vertices of {name!r} are an array ({count}, 3), not {x.shape}")
        if not np.isfinite(x).all():
            vertex = int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])
            raise WeftError(f"vertex {vertex} of {name!r} is not finite")
        colliders.give_vertices(name, x, self.poses[name])

    def add(self, collider: Collider) -> Floats:
        """Add a collider where it is placed; gives its pose. All poses are in other arrays then: take them from `poses` again.

        That takes some milliseconds; where colliders come and go all the time, have them in the scene and `enable` them.
        """
        self._set_colliders((*self.scene.colliders, collider))
        return self.poses[collider.name]

    def remove(self, name: str) -> None:
        """Remove a collider; take poses from `poses` again."""
        self._body(name, "collider")
        self._set_colliders(tuple(one for one in self.scene.colliders if one.name != name))

    def _set_colliders(self, chosen: tuple[Collider, ...]) -> None:
        """Have these colliders; those that were there before go on as they are."""
        scene = self.scene.replace(colliders=chosen)
        check_scene(scene)
        old = self.solver.colliders
        before = dict(zip(old.names, zip(old.start.numpy(), old.end.numpy(), strict=True), strict=True))
        enabled, given = old.enabled(), old.given()
        self.world.set_colliders(scene)
        self.scene = scene
        self.solver.set_colliders(self.world)
        colliders = self.solver.colliders
        usual = colliders.poses_at(self.time)
        both = [before.get(name, (pose, pose)) for name, pose in zip(colliders.names, usual, strict=True)]
        poses = np.array(both).reshape(-1, 2, 4, 4)
        colliders.start.assign(poses[:, 0])
        colliders.end.assign(poses[:, 1])
        for name in colliders.names:
            colliders.enable(name, enabled.get(name, True))
        colliders.arriving = (old.arriving | (set(colliders.names) - set(old.names))) & set(colliders.names)
        colliders.restore_given({name: x for name, x in given.items() if name in colliders.names})
        self._find_poses()
        self._motions = None
        self.watch.wake()

    def _find_poses(self) -> None:
        """Have the poses of the colliders that there are now."""
        self._seen[3:] = [HostMirror(self.solver.colliders.end)]
        self._seen[3].copy_to_host()
        if self.solver.graph is not None:
            self.solver.graph.mirrors = self._seen[0], self._seen[1], self._seen[3]
        self._poses = self._seen[3].values
        self.poses.clear()
        self.poses.update(zip(self.solver.colliders.names, self._poses, strict=True))

    # animation

    def animate(self, name: str, positions: npt.ArrayLike) -> None:
        """Give where the animation has the vertices of a cloth (n, 3) at the end of the next step: its skinned mesh.

        How closely cloth follows is what `paint` says. From the first call of either on, `follow` of the scene is left out.
        """
        self._live_animation().pose(self._body(name, "cloth").vertices, positions)

    def paint(
        self,
        name: str,
        *,
        max_distance: npt.ArrayLike | None = None,
        stiffness: npt.ArrayLike | None = None,
        damping: npt.ArrayLike | None = None,
        backstop_distance: npt.ArrayLike | None = None,
        backstop_radius: npt.ArrayLike | None = None,
    ) -> None:
        """Say how the vertices of a cloth follow the animation: one number for all of them, or one each.

        `max_distance` is how far from the animation a vertex may be, m: 0 holds it, inf lets it go. `stiffness` is the
        frequency of a spring to the animation, Hz, with the ratio `damping` (1: it does not swing). The backstop is a ball of
        `backstop_radius` behind the animated vertex, against its normal, that the vertex stays out of; it begins
        `backstop_distance` behind the vertex, m.
        """
        values = {
            "max_distance": max_distance,
            "stiffness": stiffness,
            "damping": damping,
            "backstop_distance": backstop_distance,
            "backstop_radius": backstop_radius,
        }
        self._live_animation().paint(self._body(name, "cloth").vertices, values)
        self.watch.wake()

    def _live_animation(self) -> LiveAnimation:
        if self._animation is None:
            start = self.positions.copy()
            goals = self.solver.goals
            start[goals.vertices.numpy()] = goals.ends.numpy()
            self._animation = LiveAnimation(self.solver, self.faces, start)
            self._motions = None
        return self._animation

    def bind(self, name: str, mesh: Any) -> RenderMesh:
        """Bind a detailed mesh, as it lies on a cloth now, to that cloth: every step writes its positions and normals.

        `mesh`: a TriMesh, (vertices, faces), a trimesh or a pyvista mesh.
        """
        body = self._body(name, "cloth")
        sheet = self._x[body.vertices.start : body.vertices.stop]
        bound = RenderMesh(
            as_mesh(mesh), sheet, np.asarray(self.world.faces[body.faces] - body.vertices.start, dtype=np.int32)
        )
        self._render_meshes.append(bound)
        return bound

    # vertices

    def move(self, name: str, position: npt.ArrayLike | None = None, rotation: npt.ArrayLike | None = None) -> None:
        """Set the pose of a collider at the end of the next step; `rotation` is a 3x3 matrix."""
        self._body(name, "collider")
        if position is not None:
            self.poses[name][:3, 3] = position
        if rotation is not None:
            self.poses[name][:3, :3] = rotation

    def hold(self, vertices: npt.ArrayLike, at: npt.ArrayLike | None = None) -> None:
        """Hold vertices, by their numbers in `positions`; they follow their `targets`, which start at their positions."""
        chosen = vertex_numbers("the scene", vertices, len(self.positions), twice=True)
        self.targets[chosen] = self.positions[chosen] if at is None else at
        self._by_hand.update(chosen.tolist())
        self._set_held(attach=False)

    def release(self, vertices: npt.ArrayLike | None = None) -> None:
        """Release vertices that `hold` holds, all of them by default; pins of the scene stay."""
        if vertices is None:
            self._by_hand.clear()
        else:
            self._by_hand.difference_update(np.atleast_1d(np.asarray(vertices, dtype=np.int64)).tolist())
        self._set_held(attach=False)

    # numbers

    def change(
        self,
        *,
        stretch: float | None = None,
        bend: float | None = None,
        friction: float | None = None,
        gravity: npt.ArrayLike | None = None,
        air_damping: float | None = None,
        wind: npt.ArrayLike | None = None,
        substeps: int | None = None,
        iterations: int | None = None,
        velocity_scale: float | None = None,
        inertia_scale: float | None = None,
    ) -> None:
        """Change parameters between steps; stretch, bend and friction are multiples of those of the materials.

        The last two are shares, 0 to 1, of the speed and of the acceleration of `root` that cloth feels.
        """
        self.watch.wake()
        solver, settings = self.solver, self.solver.settings
        for name, value in (("stretch", stretch), ("bend", bend)):
            if value is not None and not value > 0.0:
                raise WeftError(f"{name} is a multiple of the material's and must be more than 0, not {value}")
        if stretch is not None or bend is not None:
            self._stiffness = (stretch or self._stiffness[0], bend or self._stiffness[1])
            solver.fabric.scale(self._stiffness[0])
            solver.bending.scale(self._stiffness[1])
        numbers: dict[str, tuple[float | None, float]] = {
            "friction": (friction, 0),
            "air_damping": (air_damping, 0),
            "substeps": (substeps, 1),
            "iterations": (iterations, 1),
        }
        for name, (value, least) in numbers.items():
            if value is not None and not least <= value < np.inf:
                raise WeftError(f"{name} must be at least {least}, not {value}")
            if value is not None:
                settings["sweeps" if name == "iterations" else name][0] = value
        for name, value in (("velocity_scale", velocity_scale), ("inertia_scale", inertia_scale)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise WeftError(f"{name} is a share from 0 to 1, not {value}")
            if value is not None:
                setattr(self.character, name, float(value))
        if gravity is not None:
            settings["gravity"][0] = _vector("gravity", gravity)
        if wind is not None:
            self._change_wind(_vector("wind", wind))

    def _change_wind(self, velocity: Floats) -> None:
        """Set the mean wind; gusts and coefficients stay those of the scene."""
        solver, forces = self.solver, self.scene.forces
        usual = forces.wind or Wind(velocity=(0.0, 0.0, 0.0))
        x, y, z = velocity.tolist()
        blowing = forces.replace(wind=usual.replace(velocity=(x, y, z)))
        solver.set_air(Air(blowing, self.faces, len(self.positions), seed=self.scene.seed, device=self.device))

    def _set_held(self, *, attach: bool) -> None:
        self._held[:] = self._pinned
        if self._animation is not None:
            self._held |= self._animation.held
        attached = self._held.copy()
        self._held[list(self._by_hand)] = True
        inverse = self.world.inverse_mass.numpy()
        mass = self.world.mass[: len(self._held)]
        inverse[: len(self._held)] = np.where(self._held, 0.0, 1.0 / mass)
        if not self._on_cpu:
            self.world.inverse_mass.assign(inverse)
        if attach:
            self.solver.attach(attached)

    def _body(self, name: str, kind: str) -> Any:
        bodies = [body for body in self.world.bodies if body.kind == kind]
        for body in bodies:
            if body.name == name:
                return body
        names = [body.name for body in bodies]
        raise WeftError(f"no {kind} is called {name!r}, {suggest(name, names) if names else 'there is none'}")


def _vector(name: str, value: npt.ArrayLike) -> Floats:
    """Three finite numbers."""
    vector = np.asarray(value, dtype=float)
    if vector.shape != (3,) or not np.isfinite(vector).all():
        raise WeftError(f"{name} is three numbers, not {value!r}")
    return vector
