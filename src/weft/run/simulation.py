"""A scene that its caller steps: `weft.Simulation`, of which `simulate` is made.

The method is that of the scene. Positions, velocities and forces are views of the arrays that the method works with; bodies can
be steered, vertices held, forces added, and the whole can be saved and restored to the byte.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import WeftError
from weft.lazy import shows
from weft.run import checks
from weft.run.contact_report import ContactForce, ContactReporter, Contacts, force_on
from weft.run.controls import CallerForces, Controls, Floats
from weft.run.handles import Hold, SavedSimulation, SimulatedBody
from weft.scene import Scene, load_scene
from weft.scene.messages import unknown
from weft.scene.scene import check_scene
from weft.world import State

Callback = TypeVar("Callback", bound=Callable[[Any], object])


def compile_scene(scene: Scene) -> tuple[Any, Any]:
    """The world of a scene and the method that moves it."""
    from weft.methods import make_method
    from weft.world import World

    world = World(scene, scene.device)
    return world, make_method(world, scene.method)


@shows(
    "add_force advance bodies contact_forces contacts dt faces forces frame method on_frame on_step pin positions report reset "
    "restore save scene step time velocities world"
)
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

    def __new__(cls, scene: Any, *, device: str | None = None, worlds: int | None = None, method: Any = None) -> Any:
        """With `worlds`, or with a list of scenes, a batch of simulations."""
        if worlds is None and not isinstance(scene, list | tuple):
            return super().__new__(cls)
        return import_module("weft.run.batch").SimulationBatch(scene, worlds, device=device, method=method)

    def __init__(
        self, scene: Scene | str | Path, *, device: str | None = None, worlds: None = None, method: Any = None
    ) -> None:
        """`device` and `method` replace those of the scene. With `worlds` this becomes a `SimulationBatch` of so many."""
        changes = {name: value for name, value in (("device", device), ("method", method)) if value is not None}
        found: Any = load_scene(scene) if isinstance(scene, str | Path) else scene
        check_scene(found)
        found = found.replace(**changes) if changes else found
        self._set_up(found, *compile_scene(found))
        self._knows_forces = self.method.note_forces()

    @classmethod
    def compiled(cls, scene: Scene, world: Any, method: Any) -> Simulation:
        """A simulation of a world and a method that are made already."""
        made: Simulation = object.__new__(cls)
        made._set_up(scene, world, method)
        return made

    def _set_up(self, scene: Scene, world: Any, method: Any) -> None:
        self.scene, self.world, self.method = scene, world, method
        self.state: State = world.initial_state()
        self.moved: int = method.begin(self.state)
        """how many vertices of cloth touched something at the start and were moved off it"""
        self._kept_at_start = {name: np.array(values) for name, values in method.saved().items()}
        self.counts: dict[str, Any] = {}
        """what the method says of the last complete frame; empty before the first"""
        self._report: dict[str, Any] = {}
        self._views: dict[str, Any] = {}
        self._restored = 0, 0
        """frame and step of the last moment that no step led to, whose forces are unknown"""
        self._external: CallerForces | None = None
        self.controls = Controls(world)
        """the poses and held vertices of the caller"""
        self._knows_forces = False
        self._reporter: ContactReporter | None = None
        self._after_steps: list[Callable[[Simulation], object]] = []
        self._after_frames: list[Callable[[Simulation], object]] = []
        self._reports: list[Any] = []

    def __repr__(self) -> str:
        cloths = sum(body.kind == "cloth" for body in self.world.bodies)
        others = len(self.world.bodies) - cloths
        bodies = f"{cloths} cloth{'s' * (cloths != 1)}, {others} collider{'s' * (others != 1)}"
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
        self.aim(0)
        if self.step_only():
            self.end_frame()

    def step_only(self) -> bool:
        """Take a step towards the goals that are set already; gives whether the frame ends with it: then call `end_frame`."""
        if self.state.step == 0:
            self._reports = []
        self._reports += self.method.advance_step(self.state)
        self._step_done()
        return self.state.step == 0

    def end_frame(self, stretch: float | None = None, *, checked: bool = False) -> None:
        """Report the frame; its largest stretch may be known, and that all numbers are finite may be `checked`."""
        self._frame_done(self.method.frame_row(self.state, self._reports, stretch), checked=checked)

    def advance(self, frames: int = 1) -> None:
        """Move forward by whole frames; a frame that was begun by `step` counts as the first. Goals are reached at the end."""
        self.aim(checks.check_count("a simulation advances by", frames, "one whole frame"))
        last = self.state.frame + int(frames)
        while self.state.step:
            if self.step_only():
                self.end_frame()
        while self.state.frame < last:
            self._frame_done(self.method.advance_frame(self.state, self._step_done))

    def aim(self, frames: int) -> None:
        """Let bodies and held vertices reach their goals after so many frames, or with 0 after a step."""
        frame, fps = self.state.frame, self.scene.fps
        self.controls.aim(
            self.time, (frame + frames) / fps if frames else frame / fps + (self.state.step + 1) * self.dt
        )

    def _step_done(self) -> None:
        for callback in self._after_steps:
            callback(self)

    def _frame_done(self, row: dict[str, Any], *, checked: bool = False) -> None:
        self.counts, self._report = {"frame": self.state.frame, "time": self.state.time, **row}, {}
        if not checked:
            checks.check_stable(self.world, self.state)
        for callback in self._after_frames:
            callback(self)

    @property
    def report(self) -> dict[str, Any]:
        """Counts, the largest stretch and the status of the last complete frame; empty before the first.

        `intersections` are counted, as often as the scene's `check` says, when the report is asked for the first time; -1
        where the cloth has moved on since. A frame that has some is not "ok", whatever the method says.
        """
        if self.counts and not self._report:
            here = (self.frame, 0) == (self.counts["frame"], self.state.step)
            due = here and self.scene.check and self.frame % self.scene.check == 0
            row = {**self.counts, "intersections": len(self.guard.find(self.state.x)) if due else -1}
            self._report = {**row, "status": checks.frame_status(row)}
        return self._report

    @cached_property
    def guard(self) -> Any:
        """What finds the edges that pass through triangles (`CrossingGuard`)."""
        from weft.run.crossing_guard import CrossingGuard

        return CrossingGuard(self.world)

    # arrays
    @property
    def positions(self) -> Any:
        """(n, 3) the vertices of all cloths, m: a view, numpy on the CPU, a Warp array on a GPU."""
        return self._view("positions", self.state.x)

    @positions.setter
    def positions(self, values: Any) -> None:
        """Put all vertices of cloth somewhere else; the method looks at them afresh."""
        checks.fill("the positions", self.positions, values)
        self.restore(self.save())

    @property
    def velocities(self) -> Any:
        """(n, 3) the velocities of the vertices of all cloths, m/s: a view as `positions`."""
        return self._view("velocities", self.state.v)

    @velocities.setter
    def velocities(self, values: Any) -> None:
        checks.fill("the velocities", self.velocities, values)
        self.restore(self.save())

    @property
    def forces(self) -> Any:
        """(n, 3) forces of the caller on the vertices of all cloths, N: write into it; they act until they are changed."""
        external = self._forces()
        external.used = True
        return self._view("forces", external.constant)

    @forces.setter
    def forces(self, values: Any) -> None:
        checks.fill("the forces", self.forces, values)

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
    def bodies(self) -> dict[str, SimulatedBody]:
        """Cloths and colliders by name."""
        if "bodies" not in self._views:
            self._views["bodies"] = checks.ByName({b.name: SimulatedBody(self, b) for b in self.world.bodies})
        return self._views["bodies"]

    def _body(self, name: str, kind: str | None = None) -> SimulatedBody:
        known = [body.name for body in self.world.bodies if kind in (None, body.kind)]
        if name not in known:
            raise WeftError(unknown(kind or "body", name, known))
        return self.bodies[name]

    # contacts

    @property
    def contacts(self) -> Contacts:
        """Who touches whom, where, and, where the method knows it, with what force: the contacts of the last step."""
        if self._reporter is None:
            self._reporter = ContactReporter(self.world, self.method.touching_distance())
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

    def pin(self, cloth: str, vertices: npt.ArrayLike) -> Hold:
        """Hold vertices of a cloth where they are; set `target` of what this returns to move them, `release()` lets go."""
        body = self._body(cloth, "cloth")
        chosen = checks.vertex_numbers(f"cloth {cloth!r}", vertices, body.vertices.stop - body.vertices.start)
        own = body.vertices.start + chosen
        return Hold(self, self.controls.hold(own, self.state.x.numpy()[own], self.time), cloth, chosen)

    def add_force(self, force: Any, inputs: Sequence[Any] = ()) -> None:
        """Add a force that is computed when a step begins and acts during it.

        force: a function that takes this simulation and returns (n, 3) forces on the vertices of all cloths in N (numpy, torch,
        Warp), or a Warp kernel with the parameters x, v: array of vec3d, mass: array of float64, time: float64, force: array of
        vec3d, and then `inputs`, which adds to force[wp.tid()].
        """
        self._forces().add(force, inputs, self)

    def _forces(self) -> CallerForces:
        if self._external is None:
            self._external = CallerForces(self.world, self.method.early_impulse)
            self.world.kick = self._external
        return self._external

    def on_step(self, callback: Callback) -> Callback:
        """Call a function with this simulation after every step; usable as a decorator."""
        self._after_steps.append(checks.check_callback(callback))
        return callback

    def on_frame(self, callback: Callback) -> Callback:
        """Call a function with this simulation after every frame; usable as a decorator."""
        self._after_frames.append(checks.check_callback(callback))
        return callback

    @property
    def calls_back(self) -> bool:
        """Whether steps call functions of the caller."""
        return bool(self._after_steps or self._after_frames or (self._external and self._external.functions))

    # moments

    def reset(self) -> None:
        """Go back to the start: held vertices are released, bodies follow the scene, forces in the array are zero."""
        self.controls.clear()
        if self._external is not None:
            self._external.constant.zero_()
        state = self.world.initial_state()
        self.method.begin(state)
        self.set_state(state.x.numpy(), state.v.numpy(), time=0.0, frame=0)
        self.method.restore(dict(self._kept_at_start))

    def save(self) -> SavedSimulation:
        """This moment: `restore` goes on from it with the same bytes, here or in another process; pickles."""
        state = self.state
        return SavedSimulation(
            self._fingerprint(),
            state.positions(),
            state.velocities(),
            np.zeros((0, 3)) if self._external is None else self._external.constant.numpy().copy(),
            state.time,
            state.frame,
            state.step,
            {name: np.array(values) for name, values in self.method.saved().items()},
            self.controls.saved(),
        )

    def __reduce__(self) -> Any:
        raise WeftError(
            "a Simulation does not pickle, and is not copied: what save() gives does, and another one restores it"
        )

    def restore(self, saved: SavedSimulation) -> None:
        """Go back to a saved moment of the same scene; callbacks and functions of forces stay as they are."""
        if not isinstance(saved, SavedSimulation):
            raise WeftError(f"restore needs what save gave, not {type(saved).__name__}")
        if saved.scene != self._fingerprint():
            raise WeftError("this was saved from another scene or another method, and cannot be restored here")
        before = set(self.controls.poses)
        self.controls.restore(saved.controls)
        if set(self.controls.poses) != before:
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
        self._reports, self.counts, self._report = [], {}, {}
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
