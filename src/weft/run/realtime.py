"""Cloth in the loop of another program: set poses and targets, step, read positions."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.dynamics.air import Air
from weft.errors import WeftError
from weft.methods.predictive.motions import Motions
from weft.methods.predictive.solver import PredictiveSolver
from weft.runtime.buffers import HostMirror, copy_all_to_host
from weft.scene import Predictive, Scene, Wind, load_scene
from weft.scene.messages import suggest
from weft.scene.scene import check_scene
from weft.world import World
from weft.world.constraints import TIME_SLACK

Floats = npt.NDArray[np.float64]
# how far from 1 the squared lengths of the axes of a rigid pose may be: single precision, and some products of it
SCALED = 1e-3


class Realtime:
    """A scene that is stepped by its caller, with the method `predictive`.

    On the CPU `positions`, `velocities`, `targets` and `poses` are views of the arrays of the solver: read them after a
    step, write to `targets` and `poses` before it. Bodies that have a motion in the scene follow it, unless
    `motions=False`; all others are moved by the caller.

        cloth = weft.Realtime("flag.toml")
        pole = cloth.poses["pole"]
        while playing:
            pole[:3, 3] = where_the_pole_is()
            cloth.step(1 / 60)
            draw(cloth.positions, cloth.faces)
    """

    def __init__(self, scene: Scene | str | Path, *, motions: bool = True, device: str | None = None) -> None:
        scene = load_scene(scene) if isinstance(scene, str | Path) else scene
        check_scene(scene)
        if not isinstance(scene.method, Predictive):
            # another method without a word would show another cloth than the scene's
            raise WeftError(
                f"{scene.source or scene.name} is a scene of the method {scene.method.name!r}, and Realtime steps "
                "'predictive': choose that by scene.replace(method='predictive'), or step the scene's own method by "
                "weft.Simulation"
            )
        self.scene = scene
        self.world = World(scene, device or scene.device)
        self.device = self.world.device
        with wp.ScopedDevice(self.device):
            self.solver = PredictiveSolver(self.world, scene.method)
        self.motions = motions
        """whether bodies follow the motions that they have in the scene"""
        self.time = 0.0
        count = self.world.cloth_vertex_count
        self._x, self._v, self._target = (wp.zeros(count, dtype=wp.vec3d, device=self.device) for _ in range(3))
        self._on_cpu = self.device.is_cpu
        arrays = self._x, self._v, self._target, self.solver.colliders.end
        self._seen = [HostMirror(array) for array in arrays]
        """positions, velocities, targets and poses"""
        if self.solver.graph is not None:
            self.solver.graph.mirrors = self._seen[0], self._seen[1], self._seen[3]
        self.positions: Floats = self._seen[0].values
        """(n, 3) the vertices of all cloths"""
        self.velocities: Floats = self._seen[1].values
        """(n, 3)"""
        self.targets: Floats = self._seen[2].values
        """(n, 3) positions of held vertices at the end of the next step; other rows are ignored"""
        self.faces: npt.NDArray[np.int32] = self.world.cloth_faces
        """(m, 3) the triangles of all cloths"""
        self._poses = self._seen[3].values
        self.poses: dict[str, Floats] = dict(zip(self.solver.colliders.names, self._poses, strict=True))
        """for each collider a 4x4 matrix, from its own frame to the world at the end of the next step"""
        self._held = np.zeros(count, bool)
        self._by_hand: set[int] = set()
        self._phase = -1
        self._motions = Motions(self.world, self.solver.colliders, self.solver.goals)
        self.reset()

    def reset(self) -> None:
        """Return to the start of the scene."""
        self.time = 0.0
        state = self.world.initial_state()
        count = self.world.cloth_vertex_count
        wp.copy(self._x, state.x, count=count)
        wp.copy(self._v, state.v, count=count)
        wp.copy(self._target, self._x)
        colliders = self.solver.colliders
        poses = colliders.poses_at(0.0)
        colliders.start.assign(poses)
        colliders.end.assign(poses)
        copy_all_to_host(*self._seen)
        self.solver.forget_steps()
        self._by_hand.clear()
        self._phase = -1
        self._hold_pins()
        options = self.scene.method
        assert isinstance(options, Predictive)
        if options.cache and self.solver.search is not None:
            pose = self.solver.read_pose()
            self.solver.cache_contacts(self._x if pose is None else pose)

    def step(self, dt: float) -> None:
        """Move everything forward by dt seconds; 0 is a pause, in which nothing changes."""
        if not 0.0 <= dt < np.inf:
            raise WeftError(f"a step goes forward in time: dt must be 0 (a pause) or more, not {dt}")
        if dt == 0.0:
            return
        self._check_poses()
        positions, velocities, targets, poses = self._seen
        held = [targets] if self._held.any() else []
        if not self._on_cpu:
            for mirror in (poses, *held):
                mirror.copy_to_device()
        if self.motions:
            self._follow_motions(dt)
        self.solver.advance(self._x, self._v, self._target, self.time, dt)
        if not self._on_cpu:
            graph = self.solver.graph
            late = [] if graph is not None and graph.counted is not None else [positions, velocities, poses]
            copy_all_to_host(*late, *held)
        self.time += dt

    def teleport(self, transform: npt.ArrayLike) -> None:
        """Move cloth, colliders and targets at once by a rigid 4x4 matrix, as a character that is put elsewhere.

        Velocities turn along; nothing is swept from the old place to the new one. Motions of the scene are not moved: a body
        that follows one is back on it with the next step.
        """
        matrix = np.asarray(transform, dtype=float)
        problem = _rigid_problem(matrix) if matrix.shape == (4, 4) else f"has the shape {matrix.shape}, not (4, 4)"
        if problem:
            raise WeftError(f"the transform of teleport {problem}")
        turn, shift = matrix[:3, :3], matrix[:3, 3]
        self._x.assign(self._x.numpy() @ turn.T + shift)
        self._v.assign(self._v.numpy() @ turn.T)
        self._target.assign(self._target.numpy() @ turn.T + shift)
        colliders, goals = self.solver.colliders, self.solver.goals
        for poses in (colliders.start, colliders.end):
            poses.assign(matrix @ poses.numpy())
        for places in (goals.starts, goals.ends):
            places.assign(places.numpy() @ turn.T + shift)
        copy_all_to_host(*self._seen)
        self.solver.forget_steps()

    def reset_to(self, positions: npt.ArrayLike) -> None:
        """Put the vertices of all cloths at these positions (n, 3), at rest; colliders, pins and the time stay as they are."""
        x = np.asarray(positions, dtype=float)
        if x.shape != self.positions.shape:
            raise WeftError(f"positions have the shape {x.shape}, and the cloths {self.positions.shape}")
        if not np.isfinite(x).all():
            raise WeftError(
                f"the position of vertex {int(np.flatnonzero(~np.isfinite(x).all(axis=1))[0])} is not finite"
            )
        self._x.assign(x)
        self._v.zero_()
        copy_all_to_host(*self._seen[:2])
        self.solver.forget_steps()

    def save(self) -> dict[str, Any]:
        """The state between two steps, which `restore` goes on from with the same bytes, as plain arrays that pickle."""
        solver, arrays = self.solver, self._state_arrays()
        cached = {}
        if solver.cached:
            count = solver.contacts.count
            names = ("vertices", "kinds", "weights", "normals", "thickness", "friction", "triangles")
            cached = {name: getattr(solver.contacts.arrays, name).numpy()[:count].copy() for name in names}
        return {
            "time": self.time,
            "arrays": [array.numpy().copy() for array in arrays],
            "by_hand": sorted(self._by_hand),
            "cached": cached,
            "solver": {name: value.copy() for name, value in solver.saved().items()},
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Return to a state that `save` gave of this scene."""
        solver, arrays = self.solver, self._state_arrays()
        if [tuple(v.shape) for v in saved["arrays"]] != [tuple(a.numpy().shape) for a in arrays]:
            raise WeftError("this state is not of this scene: the numbers of vertices or colliders are others")
        for array, values in zip(arrays, saved["arrays"], strict=True):
            array.assign(values)
        self.time, self._by_hand = saved["time"], set(saved["by_hand"])
        self._phase = -1
        self._hold_pins()
        for name, values in saved["cached"].items():
            getattr(solver.contacts.arrays, name)[: len(values)].assign(values)
        solver.restore(saved["solver"])
        copy_all_to_host(*self._seen)

    def _state_arrays(self) -> list[wp.array]:
        """What a step changes, and what its caller may have set."""
        colliders, goals = self.solver.colliders, self.solver.goals
        return [self._x, self._v, self._target, colliders.start, colliders.end, goals.starts, goals.ends]

    def _check_poses(self) -> None:
        """Refuse a pose that is no rigid motion, by the name of its collider."""
        turns = self._poses[:, :3, :3]
        off = np.abs(np.einsum("kij,kil->kjl", turns, turns) - np.eye(3)).max(initial=0.0)
        if not (off < SCALED and np.isfinite(self._poses[:, :3, 3]).all()):
            for name, pose in self.poses.items():
                problem = _rigid_problem(pose)
                if problem:
                    raise WeftError(f"the pose of {name!r} {problem}")

    @property
    def report(self) -> dict[str, int]:
        """Numbers of contacts that the last step solved: all, generated, cached, with colliders, and pushed."""
        return self.solver.counts()

    @property
    def held(self) -> npt.NDArray[np.int64]:
        """The vertices that are held now."""
        return np.flatnonzero(self._held)

    def cloth(self, name: str) -> slice:
        """The range of a cloth in `positions`."""
        return self._body(name, "cloth").vertices

    def cloth_faces(self, name: str) -> npt.NDArray[np.int32]:
        """The triangles of one cloth, numbered from its first vertex."""
        body = self._body(name, "cloth")
        return np.asarray(self.world.faces[body.faces] - body.vertices.start, dtype=np.int32)

    def collider_mesh(self, name: str) -> tuple[Floats, npt.NDArray[np.int32]]:
        """Vertices and triangles of a collider at its current pose."""
        body = self._body(name, "collider")
        faces = np.asarray(self.world.faces[body.faces] - body.vertices.start, dtype=np.int32)
        return self.solver.colliders.vertices_of(name, self.poses[name], self.time), faces

    def move(self, name: str, position: npt.ArrayLike | None = None, rotation: npt.ArrayLike | None = None) -> None:
        """Set the pose of a collider at the end of the next step; `rotation` is a 3x3 matrix."""
        self._body(name, "collider")
        if position is not None:
            self.poses[name][:3, 3] = position
        if rotation is not None:
            self.poses[name][:3, :3] = rotation

    def hold(self, vertices: npt.ArrayLike, at: npt.ArrayLike | None = None) -> None:
        """Hold vertices, by their numbers in `positions`; they follow their `targets`, which start at their positions."""
        chosen = np.atleast_1d(np.asarray(vertices, dtype=np.int64))
        outside = chosen[(chosen < 0) | (chosen >= len(self.positions))]
        if len(outside):
            raise WeftError(f"there is no vertex {outside[0]} to hold: the cloths have 0 to {len(self.positions) - 1}")
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

    def cache_contacts(self) -> int:
        """Find the contacts of cloth with cloth in the current pose and solve these from now on; returns their number."""
        if self.solver.search is None:
            raise WeftError(
                "contacts of cloth with cloth are switched off (self_contacts = 'none'): there are none to cache"
            )
        return self.solver.cache_contacts(self._x)

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
    ) -> None:
        """Change parameters between steps; stretch, bend and friction are multiples of those of the materials."""
        solver, settings = self.solver, self.solver.settings
        for name, value in (("stretch", stretch), ("bend", bend)):
            if value is not None and not value > 0.0:
                raise WeftError(f"{name} is a multiple of the material's and must be more than 0, not {value}")
        if stretch is not None or bend is not None:
            self._stiffness = (stretch or self._stiffness[0], bend or self._stiffness[1])
            solver.fabric.scale(*self._stiffness)
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
        if gravity is not None:
            settings["gravity"][0] = _vector("gravity", gravity)
        if wind is not None:
            self._change_wind(_vector("wind", wind))

    _stiffness = (1.0, 1.0)

    def _change_wind(self, velocity: Floats) -> None:
        """Set the mean wind; gusts and coefficients stay those of the scene."""
        solver, forces = self.solver, self.scene.forces
        usual = forces.wind or Wind(velocity=(0.0, 0.0, 0.0))
        x, y, z = velocity.tolist()
        blowing = forces.replace(wind=usual.replace(velocity=(x, y, z)))
        solver.set_air(Air(blowing, self.faces, len(self.positions), seed=self.scene.seed, device=self.device))

    def _follow_motions(self, dt: float) -> None:
        """Set the poses, pins and goals of the scene at the end of the step."""
        solver, start, end = self.solver, self.time, self.time + dt
        self._motions.follow(start, end, solver.colliders.end, self._target)
        solver.colliders.deform(start, end)
        if not self._motions.goals_too:
            solver.goals.follow(start, end)
        self._hold_pins()
        for p in self._motions.rest:
            if p.until > start + TIME_SLACK:
                self.targets[p.vertices] = p.place(min(end, p.until))
                self._seen[2].copy_to_device()

    def _hold_pins(self) -> None:
        """Hold the vertices that are pinned now, and update the attachments when these change."""
        kinematics = self.world.kinematics
        phase = kinematics.phase(self.time)
        if phase != self._phase:
            self._phase = phase
            self._pinned = kinematics.fixed(self.world.vertex_count, self.time)[: len(self.positions)]
            self._set_held(attach=True)

    def _set_held(self, *, attach: bool) -> None:
        self._held[:] = self._pinned
        self._held[list(self._by_hand)] = True
        inverse = self.world.inverse_mass.numpy()
        mass = self.world.mass[: len(self._held)]
        inverse[: len(self._held)] = np.where(self._held, 0.0, 1.0 / mass)
        if not self._on_cpu:
            self.world.inverse_mass.assign(inverse)
        if attach:
            self.solver.attach(self._pinned)

    def _body(self, name: str, kind: str) -> Any:
        bodies = [body for body in self.world.bodies if body.kind == kind]
        for body in bodies:
            if body.name == name:
                return body
        names = [body.name for body in bodies]
        raise WeftError(f"no {kind} is called {name!r}, {suggest(name, names) if names else 'there is none'}")


def _rigid_problem(pose: Floats) -> str:
    """What keeps a 4x4 matrix from being a rigid motion; nothing if it is one."""
    if not np.isfinite(pose).all():
        return "has numbers that are not finite"
    turn = pose[:3, :3]
    if np.abs(turn.T @ turn - np.eye(3)).max() >= SCALED:
        lengths = np.linalg.norm(turn, axis=0).round(4).tolist()
        return f"is scaled or sheared (its axes have the lengths {lengths}); poses are rigid"
    return "mirrors" if np.linalg.det(turn) < 0.0 else ""


def _vector(name: str, value: npt.ArrayLike) -> Floats:
    """Three finite numbers."""
    vector = np.asarray(value, dtype=float)
    if vector.shape != (3,) or not np.isfinite(vector).all():
        raise WeftError(f"{name} is three numbers, not {value!r}")
    return vector
