"""Many worlds of one scene: `weft.Simulation(scene, worlds=512)`, for learning and for studies.

Every world has its own state, method, poses, held vertices and, where scenes differ, materials. Nothing in one depends on
another: a world in a batch has the bytes that it has alone, with every method. Their positions, velocities and forces lie in
one array each. With `robust` and `guarded` the worlds take what their steps have in common together, in the same launches, see
`weft.methods.joined`; all else each world does alone, on the CPU side by side, each on a core.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import Unstable, WeftError
from weft.run.batch_handles import BatchBody, BatchHold, Mask
from weft.run.checks import ByName, check_callback, check_count, fill
from weft.run.contact_report import Contacts
from weft.run.controls import Floats
from weft.run.handles import SavedSimulation
from weft.run.simulation import Simulation
from weft.runtime.launch import get_threads
from weft.runtime.side_by_side import run_side_by_side
from weft.scene import Scene, load_scene
from weft.scene.scene import check_scene
from weft.scene.size import check_worlds

if TYPE_CHECKING:
    from weft.methods.joined import JoinedRobust

# worlds that take their steps together at most. Tables of pairs of bodies grow with the square of it; on the CPU more than a
# few gain nothing, and what a step works with falls out of the cache
MOST_JOINED, MOST_JOINED_CPU = 1024, 64


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
            other = _first_difference(world, first)
            if other:
                raise WeftError(f"the scene of world {k} has {other} than that of world 0")
        self.world, self.scene, self.method = first.world, first.scene, first.method
        self._count, self._cloth = first.world.vertex_count, first.world.cloth_vertex_count
        self._x, self._v = (self._gather(name) for name in ("x", "v"))
        self._force: wp.array | None = None
        self._groups: list[tuple[list[int], JoinedRobust]] | None = None
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

    @cached_property
    def _measures(self) -> Any:
        """What is measured at the end of a frame."""
        from weft.run.batch_measures import BatchMeasures

        return BatchMeasures([world.world for world in self.worlds], self._x, self._v)

    @property
    def report(self) -> tuple[dict[str, Any], ...]:
        """The `Simulation.report` of each world."""
        return tuple(world.report for world in self.worlds)

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
        self._advance_each(self._chosen(mask), frames=0)
        for callback in self._after_steps:
            callback(self)

    def advance(self, frames: int = 1, mask: Mask = None) -> None:
        """Move the chosen worlds forward by whole frames."""
        frames = check_count("a simulation advances by", frames, "one whole frame")
        self._advance_each(self._chosen(mask), frames=frames)
        for callback in self._after_frames:
            callback(self)

    def _advance_each(self, chosen: npt.NDArray[np.int64], frames: int) -> None:
        """Move the chosen worlds forward by so many frames, or by a step; the error of one comes when all are done."""
        # functions of the caller may share anything, and a GPU has one queue
        together = self.world.device.is_cpu and not any(self.worlds[k].calls_back for k in chosen)
        failed: dict[int, WeftError] = {}

        def in_each(act: Callable[[int], object], worlds: Sequence[int]) -> list[int]:
            """Act in these worlds; gives those in which the answer is true."""
            found: list[int] = []

            def act_in(k: int) -> None:
                try:
                    if act(k):
                        found.append(k)
                except WeftError as error:
                    failed[k] = error

            run_side_by_side(act_in, worlds, together=together)
            return sorted(found)

        groups = self._find_groups()
        if not groups:
            in_each(lambda k: self.worlds[k].advance(frames) if frames else self.worlds[k].step(), chosen.tolist())
        else:
            goals = {k: self._aim(self.worlds[k], frames) for k in chosen.tolist()}
            while going := [k for k, goal in goals.items() if self._steps_done(k) < goal and k not in failed]:
                self._take_common(groups, going, together=together)
                ended = in_each(lambda k: self.worlds[k].step_only(), going)
                if ended:
                    measured = self._measures.find()
                    in_each(partial(self._end_frame, measured), ended)
        if failed:
            k = min(failed)
            if isinstance(failed[k], Unstable):
                raise Unstable(f"world {k}: {failed[k].args[0]}") from None
            raise WeftError(f"world {k}: {failed[k]}") from None

    def _end_frame(self, measured: tuple[Floats, npt.NDArray[np.bool_]], k: int) -> None:
        """End the frame of a world, with the strains of all worlds and whether their numbers are sound."""
        stretch, sound = measured
        self.worlds[k].end_frame(float(stretch[k]), checked=bool(sound[k]))

    def _aim(self, world: Simulation, frames: int) -> int:
        """Let bodies and held vertices reach their goals after so many frames, or after a step; gives which step that is."""
        world.aim(frames)
        steps = world.method.steps_a_frame()
        return (world.frame + frames) * steps if frames else world.frame * steps + world.state.step + 1

    def _steps_done(self, k: int) -> int:
        """How many steps a world has done."""
        world = self.worlds[k]
        return world.frame * world.method.steps_a_frame() + world.state.step

    def _take_common(self, groups: list[tuple[list[int], JoinedRobust]], going: list[int], *, together: bool) -> None:
        """Take what the next step of the chosen worlds has in common."""
        chosen = set(going)

        def take(group: tuple[list[int], JoinedRobust]) -> None:
            numbers, joined = group
            joined.take_step([place for place, k in enumerate(numbers) if k in chosen])

        run_side_by_side(take, groups, together=together)

    def _find_groups(self) -> list[tuple[list[int], JoinedRobust]]:
        """The worlds that take steps together, found at the first step: only `robust` and `guarded` do that."""
        if self._groups is None:
            self._groups = []
            if self.method.name in ("robust", "guarded") and len(self) > 1:
                from weft.methods.joined import join_worlds

                most = (
                    MOST_JOINED if self.world.device.is_cuda else min(MOST_JOINED_CPU, -(-len(self) // get_threads()))
                )
                methods, states = [world.method for world in self.worlds], [world.state for world in self.worlds]
                self._groups = join_worlds(methods, states, most)
        return self._groups

    def reset(self, mask: Mask = None) -> None:
        """Set the chosen worlds back to the start of their scenes, see `Simulation.reset`."""
        for k in self._chosen(mask):
            self.worlds[k].reset()

    def save(self) -> tuple[SavedSimulation, ...]:
        """The moment of each world."""
        return tuple(world.save() for world in self.worlds)

    def restore(self, saved: SavedSimulation | Sequence[SavedSimulation], mask: Mask = None) -> None:
        """Set the chosen worlds to their saved moments, or all to the same one."""
        saved = [saved] * len(self) if isinstance(saved, SavedSimulation) else saved
        if len(saved) != len(self):
            raise WeftError(f"{len(saved)} worlds were saved, and this simulation has {len(self)}")
        for k in self._chosen(mask):
            self.worlds[k].restore(saved[k])

    def on_step(self, callback: Callable[[SimulationBatch], object]) -> Callable[[SimulationBatch], object]:
        """Call a function with this batch after every call of `step`."""
        self._after_steps.append(check_callback(callback))
        return callback

    def on_frame(self, callback: Callable[[SimulationBatch], object]) -> Callable[[SimulationBatch], object]:
        """Call a function with this batch after every call of `advance`."""
        self._after_frames.append(check_callback(callback))
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

    @positions.setter
    def positions(self, values: Any) -> None:
        fill("the positions", self.positions, values)
        self.restore(self.save())

    @property
    def velocities(self) -> Any:
        """(w, n, 3) m/s: a view."""
        return self._view(self._v)

    @velocities.setter
    def velocities(self, values: Any) -> None:
        fill("the velocities", self.velocities, values)
        self.restore(self.save())

    @property
    def forces(self) -> Any:
        """(w, n, 3) forces of the caller, N: write into it; they act until they are changed."""
        if self._force is None:
            self._force = wp.zeros((len(self), self._cloth), dtype=wp.vec3d, device=self.world.device)
            for k, world in enumerate(self.worlds):
                world.share_forces(self._force[k])
        return self._view(self._force)

    @forces.setter
    def forces(self, values: Any) -> None:
        fill("the forces", self.forces, values)

    def _view(self, array: wp.array) -> Any:
        own = array[:, : self._cloth]
        return own.numpy() if self.world.device.is_cpu else own

    @property
    def faces(self) -> npt.NDArray[np.int32]:
        """(m, 3) the triangles of all cloths of a world."""
        return self.worlds[0].faces

    @property
    def bodies(self) -> dict[str, BatchBody]:
        """Cloths and colliders by name."""
        return ByName({body.name: BatchBody(self, body.name) for body in self.world.bodies})

    # controls

    def pin(self, cloth: str, vertices: npt.ArrayLike) -> BatchHold:
        """Hold the same vertices of a cloth in every world; `target` is (w, k, 3). For others use `worlds[k].pin`."""
        return BatchHold(self, [world.pin(cloth, vertices) for world in self.worlds])

    def add_force(self, force: Any, inputs: Sequence[Any] = ()) -> None:
        """Add a force to every world, see `Simulation.add_force`; a function is called with the simulation of one world."""
        for world in self.worlds:
            world.add_force(force, inputs)

    @property
    def contacts(self) -> tuple[Contacts, ...]:
        """The contacts of the last step of each world, see `Simulation.contacts`."""
        return tuple(world.contacts for world in self.worlds)

    def contact_forces(self, name: str) -> tuple[Floats, Floats]:
        """(w, 3) forces in N and (w, 3) torques in N m of all contacts of a body, see `Simulation.contact_forces`."""
        found = [world.contact_forces(name) for world in self.worlds]
        return np.array([one.force for one in found]), np.array([one.torque for one in found])


def _scenes(scene: Scene | str | Path | Sequence[Scene], worlds: int | None) -> list[Scene]:
    """The scene of each world."""
    if not isinstance(scene, list | tuple):
        one: Any = load_scene(scene) if isinstance(scene, str | Path) else scene
        check_scene(one)
        return [one] * check_worlds(one, check_count("a simulation has", worlds, "one world"))
    scenes = list(scene)
    if not scenes or (worlds is not None and worlds != len(scenes)):
        raise WeftError(f"there is one scene a world: the scenes are {len(scenes)}, the worlds {worlds or 0}")
    return scenes


def _first_difference(one: Simulation, other: Simulation) -> str | None:
    """What two worlds have to have in common and do not."""
    layouts = [[(b.name, b.kind, b.vertices, b.faces) for b in world.world.bodies] for world in (one, other)]
    if layouts[0] != layouts[1] or not np.array_equal(one.world.faces, other.world.faces):
        return "other bodies or meshes"
    if one.method.name != other.method.name:
        return "another method"
    if one.scene.fps != other.scene.fps:
        return "another frame rate"
    # with some methods that follows from the material
    return f"other steps ({one.dt:.4g} s, not {other.dt:.4g} s)" if one.dt != other.dt else None
