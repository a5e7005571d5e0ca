"""A scene that its caller steps: `weft.Simulation`, of which `simulate` is made.

The method is that of the scene. Positions, velocities and forces are views of the arrays that the method works with; bodies can
be steered, vertices held, forces added, and the whole can be saved and restored to the byte.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import Unstable, WeftError
from weft.run.contact_report import ContactForce, ContactReporter, Contacts, force_on
from weft.run.controls import Controls, ExternalForces, Floats, check_pose, placement_of
from weft.scene import Scene, load_scene
from weft.scene.messages import unknown
from weft.scene.motion import RigidMotion
from weft.scene.scene import check_scene
from weft.world import State

Callback = TypeVar("Callback", bound=Callable[[Any], object])

# what `Simulation(scene, worlds=...)` makes
BATCH = "weft.run.batch:SimulationBatch"

# limit of positions (m) and velocities (m/s), beyond which a simulation counts as unstable; NaN fails the test too
FARTHEST = 1e9


def compile_scene(scene: Scene) -> tuple[Any, Any]:
    """The world of a scene and the method that moves it."""
    from weft.methods import make_method
    from weft.world import World

    world = World(scene, scene.device)
    return world, make_method(world, scene.method)


@dataclass(frozen=True)
class SavedSimulation:
    """A moment of a simulation, as host arrays: a simulation of the same scene that restores it goes on with the same bytes."""

    scene: str
    """a hash of method, meshes and frame rate, which must be the same"""
    positions: Floats
    velocities: Floats
    forces: Floats
    time: float
    frame: int
    step: int
    method: dict[str, npt.NDArray[Any]]
    controls: dict[str, Any]


class Simulation:
    """A scene, its state, and the method that moves it, step by step.

        sim = weft.Simulation("flag.toml")
        hand = sim.bodies["hand"]
        while running:
            hand.pose = where_the_hand_is()
            sim.advance()
            draw(sim.positions)

    The method is the scene's, whichever that is. On the CPU `positions`, `velocities` and `forces` are numpy views of the
    arrays of the simulation, on a GPU Warp arrays, which torch, JAX and CuPy take without a copy.
    """

    def __new__(cls, scene: Any = None, *, worlds: int | None = None, **options: Any) -> Any:
        """With `worlds`, or with a list of scenes, a batch of simulations."""
        if worlds is None and not isinstance(scene, list | tuple):
            return super().__new__(cls)
        module, _, name = BATCH.partition(":")
        return getattr(import_module(module), name)(scene, worlds, **options)

    def __init__(
        self, scene: Scene | str | Path, *, device: str | None = None, worlds: None = None, method: Any = None
    ) -> None:
        """`device` and `method` replace those of the scene. With `worlds` this becomes a `SimulationBatch` of so many."""
        changes = {name: value for name, value in (("device", device), ("method", method)) if value is not None}
        found = load_scene(scene) if isinstance(scene, str | Path) else scene
        check_scene(found)
        if not isinstance(found, Scene):
            raise WeftError(f"a simulation needs a Scene or the path of a scene file, not {type(found).__name__}")
        scene = found.replace(**changes) if changes else found
        self._set_up(scene, *compile_scene(scene))
        self._knows_forces = self.method.note_forces()

    @classmethod
    def compiled(cls, scene: Scene, world: Any, method: Any) -> "Simulation":
        """A simulation of a world and a method that are made already."""
        made = cls.__new__(cls)
        made._set_up(scene, world, method)
        return made

    def _set_up(self, scene: Scene, world: Any, method: Any) -> None:
        self.scene, self.world, self.method = scene, world, method
        self.state: State = world.initial_state()
        self.moved: int = method.begin(self.state)
        """how many vertices of cloth touched something at the start and were moved off it"""
        self._kept_at_start = {name: np.array(values) for name, values in method.saved().items()}
        self.report: dict[str, Any] = {}
        """counts, the largest stretch and the status of the last complete frame; empty before the first"""
        self._views: dict[str, Any] = {}
        self._restored = 0, 0
        """frame and step of the last moment that no step led to, whose forces are unknown"""
        self._external: ExternalForces | None = None
        self._controls: Controls | None = None
        self._knows_forces = False
        self._reporter: ContactReporter | None = None
        self._after_steps: list[Callable[[Simulation], object]] = []
        self._after_frames: list[Callable[[Simulation], object]] = []
        self._reports: list[Any] = []

    def __repr__(self) -> str:
        cloths = sum(body.kind == "cloth" for body in self.world.bodies)
        bodies = f"{cloths} cloth{'s' * (cloths != 1)}, {len(self.world.bodies) - cloths} colliders"
        where = f"frame {self.frame}, {self.time:.4g} s"
        return f"<Simulation {self.scene.name!r}: {bodies}, {self.method.name} on {self.world.device}, {where}>"

    # time

    @property
    def time(self) -> float:
        """The time of the state, s."""
        return self.state.time

    @property
    def frame(self) -> int:
        """The last complete frame."""
        return self.state.frame

    @property
    def dt(self) -> float:
        """The length of a step, s. A method may divide it further where it must."""
        return 1.0 / self.scene.fps / self.method.steps_a_frame()

    def step(self) -> None:
        """Move forward by `dt`; so many steps as a frame has are the same as `advance()`, to the byte."""
        self._aim(self.state.frame / self.scene.fps + (self.state.step + 1) * self.dt)
        self._take_step()

    def _take_step(self) -> None:
        """A step of a frame that is counted step by step."""
        state, frame = self.state, self.state.frame
        if state.step == 0:
            self._reports = []
        self._reports += self.method.advance_step(state)
        self._step_done()
        if state.frame != frame:
            self._frame_done(self.method.frame_row(state, self._reports))

    def advance(self, frames: int = 1) -> None:
        """Move forward by whole frames; a frame that was begun by `step` counts as the first. Goals are reached at the end."""
        if not frames >= 1:
            raise WeftError(f"a simulation advances by at least one frame, not {frames}")
        self._aim((self.state.frame + frames) / self.scene.fps)
        after_step = [self._step_done] if self._after_steps else []
        last = self.state.frame + frames
        while self.state.step:
            self._take_step()
        while self.state.frame < last:
            self._frame_done(self.method.advance_frame(self.state, *after_step))

    def _aim(self, end: float) -> None:
        """Let bodies and held vertices reach their goals at a time."""
        if self._controls is not None:
            self._controls.aim(self.state.time, end)

    def _step_done(self) -> None:
        for callback in self._after_steps:
            callback(self)

    def _frame_done(self, row: dict[str, Any]) -> None:
        self.report = {"frame": self.state.frame, "time": self.state.time, **row}
        self.check_stable()
        for callback in self._after_frames:
            callback(self)

    def check_stable(self) -> None:
        """Raise an error that names the first vertex whose position or velocity is not finite or far too large."""
        for what, values in (("position", self.state.x.numpy()), ("velocity", self.state.v.numpy())):
            bad = np.flatnonzero(~(np.abs(values) < FARTHEST).all(axis=1))
            if not len(bad):
                continue
            vertex = int(bad[0])
            body = next(b for b in self.world.bodies if b.vertices.start <= vertex < b.vertices.stop)
            more = f" ({len(bad)} vertices in all)" if len(bad) > 1 else ""
            raise Unstable(
                f"frame {self.state.frame}: the {what} of vertex {vertex - body.vertices.start} of {body.kind} "
                f"{body.name!r} is ({', '.join(f'{v:.3g}' for v in values[vertex])}){more}: the simulation is unstable"
            )

    # arrays

    @property
    def positions(self) -> Any:
        """(n, 3) the vertices of all cloths, m: a view, numpy on the CPU, a Warp array on a GPU."""
        return self._view("positions", self.state.x)

    @property
    def velocities(self) -> Any:
        """(n, 3) the velocities of the vertices of all cloths, m/s: a view as `positions`."""
        return self._view("velocities", self.state.v)

    @property
    def forces(self) -> Any:
        """(n, 3) forces of the caller on the vertices of all cloths, N: write into it; they act until they are changed."""
        external = self._forces()
        external.used = True
        return self._view("forces", external.constant)

    def share_forces(self, array: wp.array) -> None:
        """Take the forces of the caller from this array from now on."""
        external = self._forces()
        wp.copy(array, external.constant)
        external.constant, external.used = array, True
        self.forget_views()

    def forget_views(self) -> None:
        """The arrays of the state have been replaced."""
        self._views = {}

    def _view(self, name: str, array: wp.array) -> Any:
        if name not in self._views:
            own = array[: self.world.cloth_vertex_count]
            self._views[name] = own.numpy() if self.world.device.is_cpu else own
        return self._views[name]

    @property
    def faces(self) -> npt.NDArray[np.int32]:
        """(m, 3) the triangles of all cloths, vertex numbers as in `positions`."""
        return np.asarray(self.world.cloth_faces, dtype=np.int32)

    @property
    def bodies(self) -> dict[str, "SimulatedBody"]:
        """Cloths and colliders by name."""
        if "bodies" not in self._views:
            self._views["bodies"] = {body.name: SimulatedBody(self, body) for body in self.world.bodies}
        return self._views["bodies"]

    def _body(self, name: str, kind: str | None = None) -> "SimulatedBody":
        known = [body.name for body in self.world.bodies if kind in (None, body.kind)]
        if name not in known:
            raise WeftError(unknown(kind or "body", name, known))
        return self.bodies[name]

    # contacts

    @property
    def contacts(self) -> Contacts:
        """Who touches whom, where, and, where the method knows it, with what force: the contacts of the last step."""
        if self._reporter is None:
            self._reporter = ContactReporter(self.world)
        if self._knows_forces and (self.state.frame, self.state.step) != self._restored:
            return self._reporter.with_forces(self.method.contact_forces(), self.state.x)
        return self._reporter.by_search(self.state.x)

    def contact_forces(self, name: str, *, about: npt.ArrayLike | None = None) -> ContactForce:
        """Force and torque of all contacts of a body with other bodies, averaged over the last step.

        The torque is about a point, by default the origin of a collider's pose, or of the world for a cloth.
        """
        body = self._body(name)
        if not self._knows_forces:
            raise WeftError(
                f"{self.method.name} does not know the forces of its contacts, only where they are (contacts): robust and "
                "guarded know them"
            )
        contacts = self.contacts
        if contacts.forces is None:
            raise WeftError("the forces of contacts are those of the last step: take a step first")
        if about is None:
            about = body.pose_now()[:3, 3] if body.kind == "collider" and body.rigid else np.zeros(3)
        return force_on(name, contacts, np.asarray(about, dtype=np.float64))

    # controls

    def controls(self) -> Controls:
        """The poses and held vertices of the caller."""
        if self._controls is None:
            self._controls = Controls(self.world)
        return self._controls

    def pin(self, cloth: str, vertices: npt.ArrayLike) -> "Hold":
        """Hold vertices of a cloth where they are; set `target` of what this returns to move them, `release()` lets go."""
        body = self._body(cloth, "cloth")
        count = body.vertices.stop - body.vertices.start
        chosen = np.atleast_1d(np.asarray(vertices))
        if chosen.ndim != 1 or not len(chosen) or not np.issubdtype(chosen.dtype, np.integer):
            raise WeftError(f"pin needs vertex numbers of cloth {cloth!r}, such as [0, 20], not {vertices!r}")
        outside = chosen[(chosen < 0) | (chosen >= count)]
        if len(outside):
            raise WeftError(f"cloth {cloth!r} has no vertex {outside[0]}: its {count} vertices are 0 to {count - 1}")
        if len(np.unique(chosen)) < len(chosen):
            raise WeftError(f"pin names a vertex of cloth {cloth!r} twice")
        own = body.vertices.start + chosen.astype(np.int64)
        return Hold(self, self.controls().hold(own, self.state.x.numpy()[own], self.time), cloth, chosen)

    def add_force(self, force: Any, inputs: Sequence[Any] = ()) -> None:
        """Add a force that is computed when a step begins and acts during it.

        force: a function that takes this simulation and returns (n, 3) forces on the vertices of all cloths in N (numpy, torch,
        Warp), or a Warp kernel with the parameters x, v: array of vec3d, mass: array of float64, time: float64, force: array of
        vec3d, and then `inputs`, which adds to force[wp.tid()].
        """
        external = self._forces()
        if isinstance(force, wp.Kernel):
            external.functions.append(self._kernel_force(force, inputs))
        elif callable(force):
            external.functions.append(self._function_force(force))
        else:
            raise WeftError(f"a force is a function of the simulation or a Warp kernel, not {type(force).__name__}")

    def _forces(self) -> ExternalForces:
        if self._external is None:
            self._external = ExternalForces(self.world, self.method.early_impulse)
            self.world.kick = self._external
        return self._external

    def _kernel_force(self, kernel: wp.Kernel, inputs: Sequence[Any]) -> Callable[[State, wp.array], None]:
        world, count = self.world, self.world.cloth_vertex_count
        mass: wp.array = wp.array(world.mass[:count], dtype=wp.float64, device=world.device)

        def add(state: State, total: wp.array) -> None:
            arguments = [state.x, state.v, mass, state.time, total, *inputs]
            wp.launch(kernel, count, inputs=arguments, device=world.device)

        return add

    def _function_force(self, function: Callable[["Simulation"], Any]) -> Callable[[State, wp.array], None]:
        count, device = self.world.cloth_vertex_count, self.world.device

        def add(state: State, total: wp.array) -> None:
            given = function(self)
            given = given.numpy() if isinstance(given, wp.array) else given.cpu() if hasattr(given, "cpu") else given
            found = np.asarray(given, dtype=np.float64)
            if found.shape != (count, 3) or not np.isfinite(found).all():
                name = getattr(function, "__name__", "a force")
                what = "numbers that are not finite" if found.shape == (count, 3) else f"an array {found.shape}"
                raise WeftError(f"the force {name!r} gave {what}; it must give ({count}, 3) finite numbers, N")
            total.assign(wp.array(total.numpy() + found, dtype=wp.vec3d, device=device))

        return add

    def on_step(self, callback: Callback) -> Callback:
        """Call a function with this simulation after every step; usable as a decorator."""
        self._after_steps.append(callback)
        return callback

    def on_frame(self, callback: Callback) -> Callback:
        """Call a function with this simulation after every frame; usable as a decorator."""
        self._after_frames.append(callback)
        return callback

    # moments

    def reset(self) -> None:
        """Go back to the start: held vertices are released, bodies follow the scene, forces in the array are zero."""
        if self._controls is not None:
            self._controls.clear()
        if self._external is not None:
            self._external.constant.zero_()
        state = self.world.initial_state()
        self.method.begin(state)
        self.set_state(state.x.numpy(), state.v.numpy(), time=0.0, frame=0)
        self.method.restore(dict(self._kept_at_start))

    def save(self) -> SavedSimulation:
        """This moment: `restore` goes on from it with the same bytes, here or in another process; pickles."""
        state = self.state
        forces = np.zeros((0, 3)) if self._external is None else self._external.constant.numpy().copy()
        return SavedSimulation(
            self._fingerprint(),
            state.positions(),
            state.velocities(),
            forces,
            state.time,
            state.frame,
            state.step,
            {name: np.array(values) for name, values in self.method.saved().items()},
            {} if self._controls is None else self._controls.saved(),
        )

    def restore(self, saved: SavedSimulation) -> None:
        """Go back to a saved moment of the same scene; callbacks and functions of forces stay as they are."""
        if not isinstance(saved, SavedSimulation):
            raise WeftError(f"restore needs what save gave, not {type(saved).__name__}")
        if saved.scene != self._fingerprint():
            raise WeftError("this was saved from another scene or another method, and cannot be restored here")
        if saved.controls or self._controls is not None:
            before = set(self.controls().poses)
            self.controls().restore(saved.controls or {"poses": {}, "holds": {}})
            if set(self.controls().poses) != before:
                self.method.collider_moves()
        if len(saved.forces) or self._external is not None:
            external = self._forces()
            external.constant.assign(saved.forces if len(saved.forces) else np.zeros(external.constant.shape + (3,)))
            external.used = external.used or bool(saved.forces.any())
        self.set_state(saved.positions, saved.velocities, time=saved.time, frame=saved.frame, step=saved.step)
        self.method.restore(dict(saved.method))

    def set_state(self, positions: Floats, velocities: Floats, *, time: float, frame: int, step: int = 0) -> None:
        """Take the positions and velocities of all vertices, in place, so that views stay valid."""
        state = self.state
        state.x.assign(positions)
        state.v.assign(velocities)
        state.time, state.frame, state.step = time, frame, step
        self._restored = frame, step
        self._reports, self.report = [], {}
        if self._external is not None:
            self._external.forget()

    def _fingerprint(self) -> str:
        """What two simulations must have in common to restore each other's moments."""
        if "fingerprint" not in self._views:
            digest = hashlib.sha256(self.world.faces.tobytes())
            digest.update(self.world.rest_positions.tobytes())
            digest.update(f"{self.scene.method!r} {self.scene.fps!r} {self.world.device.is_cpu}".encode())
            self._views["fingerprint"] = digest.hexdigest()
        return self._views["fingerprint"]


class SimulatedBody:
    """A cloth or a collider of a simulation."""

    def __init__(self, simulation: Simulation, body: Any) -> None:
        self._simulation = simulation
        self.name: str = body.name
        self.kind: str = body.kind
        """"cloth" or "collider" """
        self.vertices: slice = body.vertices
        """its vertices among those of the world; cloths come first"""
        self._faces: slice = body.faces

    def __repr__(self) -> str:
        return f"<{self.kind} {self.name!r}, {self.vertices.stop - self.vertices.start} vertices>"

    @property
    def positions(self) -> Any:
        """(n, 3) m: a view, numpy on the CPU, a Warp array on a GPU."""
        return self._own(self._simulation.state.x)

    @property
    def velocities(self) -> Any:
        """(n, 3) m/s: a view."""
        return self._own(self._simulation.state.v)

    def _own(self, array: wp.array) -> Any:
        own = array[self.vertices.start : self.vertices.stop]
        return own.numpy() if self._simulation.world.device.is_cpu else own

    @property
    def faces(self) -> npt.NDArray[np.int32]:
        """(m, 3) its triangles, numbered from its first vertex."""
        return np.asarray(self._simulation.world.faces[self._faces] - self.vertices.start, dtype=np.int32)

    @property
    def pose(self) -> Floats:
        """Of a collider: the 4x4 matrix from its own frame (of its shape or mesh file) to the world.

        Set it to where the collider shall be at the end of the next `step` or `advance`, to which it goes at constant speed.
        From then on it no longer follows the motion that the scene gives it.
        """
        controls = self._simulation._controls
        if controls is not None and self.name in controls.poses:
            return controls.poses[self.name].goal
        pose = self.pose_now()
        pose.flags.writeable = False
        return pose

    @pose.setter
    def pose(self, value: npt.ArrayLike) -> None:
        pose = check_pose(self.name, value)
        simulation = self._simulation
        steered = self.name in simulation.controls().poses
        glide = simulation.controls().steer(self.name, self.pose_now(), simulation.time)
        glide.goal[...] = pose
        if not steered:
            simulation.method.collider_moves()

    @property
    def rigid(self) -> bool:
        """Whether it is a collider that does not deform."""
        simulation = self._simulation
        names = [collider.name for collider in simulation.scene.colliders]
        return self.kind == "collider" and isinstance(
            simulation.world.collider_motions[names.index(self.name)], RigidMotion
        )

    def pose_now(self) -> Floats:
        """Of a collider: its pose at the time of the state, which differs from the `pose` that it is on its way to."""
        simulation = self._simulation
        if self.kind != "collider":
            raise WeftError(
                f"{self.name!r} is a cloth and has no pose; hold vertices of it with pin({self.name!r}, [...])"
            )
        number = [collider.name for collider in simulation.scene.colliders].index(self.name)
        motion = simulation.world.collider_motions[number]
        if not isinstance(motion, RigidMotion):
            raise WeftError(f"collider {self.name!r} deforms by the files of its motion and has no pose")
        return motion.matrix(simulation.time) @ placement_of(simulation.scene.colliders[number])


class Hold:
    """Vertices of a cloth that the caller holds: move them by their `target`, let them go by `release()`."""

    def __init__(self, simulation: Simulation, number: int, cloth: str, vertices: npt.NDArray[np.int64]) -> None:
        self._simulation, self._number, self._cloth = simulation, number, cloth
        self.vertices = vertices
        """numbers within the cloth"""

    def __repr__(self) -> str:
        return f"<Hold of {len(self.vertices)} vertices{'' if self.held else ', released'}>"

    @property
    def held(self) -> bool:
        """Whether they are still held."""
        return self._number in self._simulation.controls().holds

    @property
    def positions(self) -> Floats:
        """(k, 3) where the vertices are now, m: a copy."""
        first = self._simulation.bodies[self._cloth].vertices.start
        return np.array(self._simulation.state.x.numpy()[first + self.vertices])

    @property
    def target(self) -> Floats:
        """(k, 3) where the vertices shall be at the end of the next `step` or `advance`, m."""
        holds = self._simulation.controls().holds
        if self._number not in holds:
            raise WeftError("these vertices have been released: hold them again by pin")
        return holds[self._number][1].goal

    @target.setter
    def target(self, value: npt.ArrayLike) -> None:
        goal = self.target
        found = np.asarray(value, dtype=np.float64)
        if found.shape != goal.shape and not (found.shape == (3,) and len(goal) == 1):
            raise WeftError(f"the target of {len(goal)} held vertices is an array {goal.shape}, not {found.shape}")
        goal[...] = found

    def release(self) -> None:
        """Let the vertices go, with the velocity that they have."""
        self._simulation.controls().release(self._number)
