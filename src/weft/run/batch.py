"""Many worlds of one scene: `weft.Simulation(scene, worlds=512)`, for learning and for studies.

Every world has its own state, method, poses, held vertices and, where scenes differ, materials. Nothing in one depends on
another: a world in a batch has the bytes that it has alone, with every method. Their positions, velocities and forces lie in
one array each. On the CPU worlds are stepped side by side, each on a core: methods decide about the length of steps, search
radii and convergence for all that they simulate, and in one solve for all worlds each would depend on the others.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import Unstable, WeftError
from weft.run.controls import Floats
from weft.run.simulation import SavedSimulation, Simulation
from weft.runtime.side_by_side import run_side_by_side
from weft.scene import Scene, load_scene

Mask = npt.ArrayLike | None


class SimulationBatch:
    """Worlds that are stepped together; arrays have the world as their first axis.

    `worlds[k]` is the `Simulation` of one world, with all that it can do. A `mask` chooses worlds by a truth value each;
    without one all of them are meant.
    """

    def __init__(
        self,
        scene: Scene | str | Path | Sequence[Scene],
        worlds: int | None = None,
        *,
        device: str | None = None,
        method: Any = None,
    ) -> None:
        """`scene`: one for all `worlds`, or one for each, which may differ in all but meshes, method and frame rate."""
        scenes = _scenes(scene, worlds)
        self.worlds = [Simulation(one, device=device, method=method) for one in scenes]
        first = self.worlds[0]
        for k, world in enumerate(self.worlds):
            if not _same_layout(world, first):
                raise WeftError(
                    f"the scene of world {k} has other meshes, bodies, frames or another method than world 0"
                )
        self.world, self.scene, self.method = first.world, first.scene, first.method
        self._count, self._cloth = first.world.vertex_count, first.world.cloth_vertex_count
        self._x, self._v = (self._gather(name) for name in ("x", "v"))
        self._force: wp.array | None = None
        self._after_steps: list[Callable[[SimulationBatch], object]] = []
        self._after_frames: list[Callable[[SimulationBatch], object]] = []

    def __len__(self) -> int:
        return len(self.worlds)

    def __repr__(self) -> str:
        return f"<Simulation of {len(self)} worlds of {self.scene.name!r}: {self.method.name} on {self.world.device}>"

    def _gather(self, name: str) -> wp.array:
        """One array for all worlds, whose rows become the arrays of their states."""
        together: wp.array = wp.zeros((len(self), self._count), dtype=wp.vec3d, device=self.world.device)
        for k, world in enumerate(self.worlds):
            wp.copy(together[k], getattr(world.state, name))
            setattr(world.state, name, together[k])
            world.forget_views()
        return together

    # time

    @property
    def frame(self) -> npt.NDArray[np.int64]:
        """(w,) the last complete frame of each world."""
        return np.array([world.frame for world in self.worlds])

    @property
    def time(self) -> Floats:
        """(w,) s"""
        return np.array([world.time for world in self.worlds])

    @property
    def dt(self) -> float:
        """The length of a step, s."""
        return self.worlds[0].dt

    def step(self, mask: Mask = None) -> None:
        """Move the chosen worlds forward by `dt`."""
        self._in_each(self._chosen(mask), lambda world: world.step())
        for callback in self._after_steps:
            callback(self)

    def advance(self, frames: int = 1, mask: Mask = None) -> None:
        """Move the chosen worlds forward by whole frames."""
        self._in_each(self._chosen(mask), lambda world: world.advance(frames))
        for callback in self._after_frames:
            callback(self)

    def _in_each(self, chosen: npt.NDArray[np.int64], act: Callable[[Simulation], None]) -> None:
        """Do something in the chosen worlds; the error of one gets its number, and comes when all are done."""

        def act_in(k: int) -> None:
            try:
                act(self.worlds[k])
            except Unstable as error:
                raise Unstable(f"world {k}: {error.args[0]}") from None
            except WeftError as error:
                raise WeftError(f"world {k}: {error}") from None

        # functions of the caller may share anything, and a GPU has one queue
        together = self.world.device.is_cpu and not any(self.worlds[k].calls_back for k in chosen)
        run_side_by_side(act_in, chosen.tolist(), together=together)

    def reset(self, mask: Mask = None) -> None:
        """Set the chosen worlds back to the start of their scenes, see `Simulation.reset`."""
        for k in self._chosen(mask):
            self.worlds[k].reset()

    def save(self) -> tuple[SavedSimulation, ...]:
        """The moment of each world."""
        return tuple(world.save() for world in self.worlds)

    def restore(self, saved: Sequence[SavedSimulation], mask: Mask = None) -> None:
        """Set the chosen worlds to their saved moments."""
        if len(saved) != len(self):
            raise WeftError(f"{len(saved)} worlds were saved, and this simulation has {len(self)}")
        for k in self._chosen(mask):
            self.worlds[k].restore(saved[k])

    def on_step(self, callback: Callable[["SimulationBatch"], object]) -> Callable[["SimulationBatch"], object]:
        """Call a function with this batch after every call of `step`."""
        self._after_steps.append(callback)
        return callback

    def on_frame(self, callback: Callable[["SimulationBatch"], object]) -> Callable[["SimulationBatch"], object]:
        """Call a function with this batch after every call of `advance`."""
        self._after_frames.append(callback)
        return callback

    def _chosen(self, mask: Mask) -> npt.NDArray[np.int64]:
        if mask is None:
            return np.arange(len(self))
        chosen = np.asarray(mask)
        if chosen.shape != (len(self),) or chosen.dtype != bool:
            raise WeftError(
                f"a mask has a truth value for each of the {len(self)} worlds, and this is {chosen.dtype} {chosen.shape}"
            )
        return np.flatnonzero(chosen)

    # arrays

    @property
    def positions(self) -> Any:
        """(w, n, 3) the vertices of all cloths of each world, m: a view, numpy on the CPU, a Warp array on a GPU."""
        return self._view(self._x)

    @property
    def velocities(self) -> Any:
        """(w, n, 3) m/s: a view."""
        return self._view(self._v)

    @property
    def forces(self) -> Any:
        """(w, n, 3) forces of the caller, N: write into it; they act until they are changed."""
        if self._force is None:
            self._force = wp.zeros((len(self), self._cloth), dtype=wp.vec3d, device=self.world.device)
            for k, world in enumerate(self.worlds):
                world.share_forces(self._force[k])
        return self._view(self._force)

    def _view(self, array: wp.array) -> Any:
        own = array[:, : self._cloth]
        return own.numpy() if self.world.device.is_cpu else own

    @property
    def faces(self) -> npt.NDArray[np.int32]:
        """(m, 3) the triangles of all cloths of a world."""
        return self.worlds[0].faces

    @property
    def bodies(self) -> dict[str, "BatchBody"]:
        """Cloths and colliders by name."""
        return {body.name: BatchBody(self, body.name) for body in self.world.bodies}

    # controls

    def pin(self, cloth: str, vertices: npt.ArrayLike) -> "BatchHold":
        """Hold the same vertices of a cloth in every world; `target` is (w, k, 3). For others use `worlds[k].pin`."""
        return BatchHold(self, [world.pin(cloth, vertices) for world in self.worlds])

    def add_force(self, force: Any, inputs: Sequence[Any] = ()) -> None:
        """Add a force to every world, see `Simulation.add_force`; a function is called with the simulation of one world."""
        for world in self.worlds:
            world.add_force(force, inputs)

    def contact_forces(self, name: str) -> tuple[Floats, Floats]:
        """(w, 3) forces in N and (w, 3) torques in N m of all contacts of a body, see `Simulation.contact_forces`."""
        found = [world.contact_forces(name) for world in self.worlds]
        return np.array([one.force for one in found]), np.array([one.torque for one in found])


class BatchBody:
    """A cloth or a collider of every world."""

    def __init__(self, batch: SimulationBatch, name: str) -> None:
        self._batch, self.name = batch, name
        self._of = [world.bodies[name] for world in batch.worlds]
        self.kind, self.vertices, self.faces = self._of[0].kind, self._of[0].vertices, self._of[0].faces

    @property
    def positions(self) -> Any:
        """(w, n, 3) m: a view."""
        return self._own(self._batch._x)

    @property
    def velocities(self) -> Any:
        """(w, n, 3) m/s: a view."""
        return self._own(self._batch._v)

    def _own(self, array: wp.array) -> Any:
        own = array[:, self.vertices.start : self.vertices.stop]
        return own.numpy() if self._batch.world.device.is_cpu else own

    @property
    def pose(self) -> Floats:
        """(w, 4, 4) a copy; set it to (w, 4, 4), or to one (4, 4) for all worlds, see `SimulatedBody.pose`."""
        return np.array([body.pose for body in self._of])

    @pose.setter
    def pose(self, value: npt.ArrayLike) -> None:
        poses = np.asarray(value, dtype=np.float64)
        if poses.shape not in ((4, 4), (len(self._of), 4, 4)):
            raise WeftError(
                f"the poses of {self.name!r} are an array ({len(self._of)}, 4, 4) or (4, 4), not {poses.shape}"
            )
        for body, pose in zip(self._of, np.broadcast_to(poses, (len(self._of), 4, 4)), strict=True):
            body.pose = pose


class BatchHold:
    """The same vertices of a cloth, held in every world."""

    def __init__(self, batch: SimulationBatch, holds: list[Any]) -> None:
        self._batch, self._holds = batch, holds
        self.vertices = holds[0].vertices

    @property
    def held(self) -> npt.NDArray[np.bool_]:
        """(w,) whether they are still held."""
        return np.array([hold.held for hold in self._holds])

    @property
    def target(self) -> Floats:
        """(w, k, 3) a copy of the targets; where a world has released its vertices, where they are."""
        return np.array([hold.target if hold.held else hold.positions for hold in self._holds])

    @target.setter
    def target(self, value: npt.ArrayLike) -> None:
        shape = (len(self._holds), len(self.vertices), 3)
        targets = np.asarray(value, dtype=np.float64)
        if targets.shape != shape:
            raise WeftError(f"the targets are an array {shape}, not {targets.shape}")
        for hold, target in zip(self._holds, targets, strict=True):
            if hold.held:
                hold.target = target

    def release(self, mask: Mask = None) -> None:
        """Let go in the chosen worlds."""
        for k in self._batch._chosen(mask):
            self._holds[k].release()


def _scenes(scene: Scene | str | Path | Sequence[Scene], worlds: int | None) -> list[Scene]:
    """The scene of each world."""
    if isinstance(scene, str | Path | Scene):
        one = load_scene(scene) if isinstance(scene, str | Path) else scene
        if worlds is None or worlds < 1:
            raise WeftError(f"a simulation has at least one world, not {worlds}")
        return [one] * worlds
    scenes = list(scene)
    if not scenes or (worlds is not None and worlds != len(scenes)):
        raise WeftError(f"there is one scene a world: {len(scenes)} scenes, {worlds or 'no'} worlds")
    return scenes


def _same_layout(one: Simulation, other: Simulation) -> bool:
    """Whether two worlds have the same bodies, triangles, method and steps."""
    names = [(body.name, body.kind, body.vertices, body.faces) for body in one.world.bodies]
    return (
        names == [(body.name, body.kind, body.vertices, body.faces) for body in other.world.bodies]
        and np.array_equal(one.world.faces, other.world.faces)
        and (one.method.name, one.dt, one.scene.fps) == (other.method.name, other.dt, other.scene.fps)
    )
