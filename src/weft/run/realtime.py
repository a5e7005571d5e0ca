"""Cloth in the loop of another program: set poses and targets, step, read positions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import WeftError
from weft.methods.predictive.budget import StepBudget
from weft.methods.predictive.solver import PredictiveSolver
from weft.run.character_space import SCALED, rigid_problem
from weft.run.checks import check_time
from weft.run.live_animation import LiveAnimation
from weft.run.realtime_controls import Floats, RealtimeControls
from weft.run.rigid_motions import Motions
from weft.runtime.buffers import HostMirror, copy_all_to_host
from weft.runtime.side_by_side import run_side_by_side
from weft.scene import Predictive, Scene, load_scene
from weft.scene.scene import check_scene
from weft.world import World
from weft.world.kinematics import TIME_SLACK


class Realtime(RealtimeControls):
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

    def __init__(
        self,
        scene: Scene | str | Path,
        *,
        motions: bool = True,
        sleep: bool = False,
        budget_ms: float | None = None,
        device: str | None = None,
    ) -> None:
        """`sleep`: leave out steps while cloth is at rest and nothing is moved.

        `budget_ms` is how long a step may take, on the CPU: what does not fit is left out, and `report` says what. The same
        steps need not give the same bytes then.
        """
        super().__init__()
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
        self.solver.budget = None if budget_ms is None else StepBudget.of(budget_ms, self.device)
        self.motions = motions
        """whether bodies follow the motions that they have in the scene"""
        self.sleep = sleep
        """whether steps are left out while cloth is at rest and nothing is moved; `asleep` says whether they are"""
        self.time = 0.0
        count = self.world.cloth_vertex_count
        self._x, self._v, self._target = (wp.zeros(count, dtype=wp.vec3d, device=self.device) for _ in range(3))
        self._on_cpu = self.device.is_cpu
        self._seen = [HostMirror(array) for array in (self._x, self._v, self._target)]
        """positions, velocities, targets and poses"""
        self.positions: Floats = self._seen[0].values
        """(n, 3) the vertices of all cloths"""
        self.velocities: Floats = self._seen[1].values
        """(n, 3)"""
        self.targets: Floats = self._seen[2].values
        """(n, 3) positions of held vertices at the end of the next step; other rows are ignored"""
        self.faces: npt.NDArray[np.int32] = self.world.cloth_faces
        """(m, 3) the triangles of all cloths"""
        self.poses: dict[str, Floats] = {}
        """for each collider a 4x4 matrix, from its own frame to the world at the end of the next step"""
        self._find_poses()
        self._held = np.zeros(count, bool)
        self._by_hand: set[int] = set()
        self._phase = -1
        self._motions, self._rigid = None, b""
        self.reset()

    def reset(self) -> None:
        """Return to the start of the scene."""
        self.time = 0.0
        state = self.world.initial_state()
        count = self.world.cloth_vertex_count
        for own, start in ((self._x, state.x), (self._v, state.v), (self._target, state.x)):
            wp.copy(own, start, count=count)
        colliders = self.solver.colliders
        poses = colliders.poses_at(0.0)
        colliders.start.assign(poses)
        colliders.end.assign(poses)
        copy_all_to_host(*self._seen)
        colliders.restore_given({})
        self._by_hand.clear()
        self._phase = -1
        self.character.root[:] = np.eye(4)
        if self._animation is not None:
            self._animation.restart(self.positions)
        self._hold_pins()
        self._put_elsewhere()
        options = self.scene.method
        assert isinstance(options, Predictive)
        if options.cache and self.solver.search is not None:
            pose = self.solver.read_pose()
            self.solver.cache_contacts(self._x if pose is None else pose)

    def step(self, dt: float) -> None:
        """Move everything forward by dt seconds; 0 is a pause, in which nothing changes."""
        check_time(dt)
        if dt == 0.0:
            return
        budget = self.solver.budget
        if budget is not None:
            budget.begin()
        self._check_poses()
        if self._animation is not None:
            self._hold_animated(self._animation)
        positions, velocities, targets, poses = self._seen
        held = [targets] if not self._on_cpu and self._held.any() else []
        if not self._on_cpu:
            for mirror in (poses, *held):
                mirror.copy_to_device()
        if self.motions:
            self._follow_motions(dt)
        self._rigid = self._poses.tobytes() + self.root.tobytes()
        if not (self.sleep and self._is_at_rest()):
            self._carry_unfelt(dt)
            self.solver.colliders.arrive()
            self.solver.colliders.deform_given()
            self.solver.advance(self._x, self._v, self._target, self.time, dt)
            if not self._on_cpu:
                graph = self.solver.graph
                late = [] if graph is not None and graph.counted is not None else [positions, velocities, poses]
                copy_all_to_host(*late, *held)
            self._end_step(dt)
        if budget is not None:
            budget.end()
        self.time += dt

    @staticmethod
    def step_all(cloths: Sequence[Realtime], dt: float) -> None:
        """Step many scenes at once, on all cores: a crowd of characters. Each has the bytes that it has alone."""
        if len({id(cloth) for cloth in cloths}) < len(cloths):
            raise WeftError("step_all got the same scene twice")
        run_side_by_side(lambda cloth: cloth.step(dt), cloths, together=all(cloth._on_cpu for cloth in cloths))

    @property
    def asleep(self) -> bool:
        """Whether the cloth is at rest, so that steps are left out."""
        return self.sleep and self.watch.asleep

    @property
    def root(self) -> Floats:
        """4x4: where the root of a character is at the end of the next step; `change` says how much of its motion is felt."""
        return self.character.root

    def _is_at_rest(self) -> bool:
        """Whether nothing moves, and nothing is moved."""
        solver = self.solver
        if solver.settings["windy"][0]:
            return False
        deformed = [x for _, x in sorted(solver.colliders.given().items())]
        met = solver.colliders.shapes.numpy()["off"] == 0
        given = [self._poses[met], self.targets[self._held], self.root, solver.goals.ends.numpy(), *deformed]
        if solver.colliders.deforming:
            given.append(solver.colliders.vertices_end.numpy())
        return self.watch.may_skip_step(given, self.positions)

    def _hold_animated(self, animation: LiveAnimation) -> None:
        """Hold the vertices that may not leave the animation."""
        held = animation.held
        if animation.repainted:
            animation.repainted = False
            self._set_held(attach=True)
        self.targets[held] = animation.places[held]
        animation.place_backstops()

    def _carry_unfelt(self, dt: float) -> None:
        """Put cloth, and the starts of colliders and goals, along with what is not felt of the character's motion."""
        root = self.root[:3, 3] if self.character.before is None else self.character.before[:3, 3].copy()
        motion = self.character.take_motion(dt)
        if motion is None:
            return
        matrix, linear, angular = motion
        kick = linear + np.cross(angular, self._x.numpy() - root)
        turn, colliders, goals = matrix[:3, :3], self.solver.colliders, self.solver.goals
        self._v.assign((self._v.numpy() + kick) @ turn.T)
        for places in (self._x, goals.starts):
            places.assign(places.numpy() @ turn.T + matrix[:3, 3])
        colliders.start.assign(matrix @ colliders.start.numpy())

    def _end_step(self, dt: float) -> None:
        """What follows the cloth."""
        if self._animation is not None:
            self._animation.end_step()
        for bound in self._render_meshes:
            bound.follow()
        if self.sleep and self.watch.step_done(self.positions, dt):
            self._v.zero_()
            copy_all_to_host(self._seen[1])

    def _put_elsewhere(self) -> None:
        """The cloth was put where no step has led it."""
        self.solver.forget_steps()
        self.watch.wake()
        self.character.forget()
        for bound in self._render_meshes:
            bound.follow()

    def teleport(self, transform: npt.ArrayLike) -> None:
        """Move cloth, colliders and targets at once by a rigid 4x4 matrix, as a character that is put elsewhere.

        Velocities turn along; nothing is swept from the old place to the new one. Motions of the scene are not moved: a body
        that follows one is back on it with the next step.
        """
        matrix = np.asarray(transform, dtype=float)
        problem = rigid_problem(matrix) if matrix.shape == (4, 4) else f"has the shape {matrix.shape}, not (4, 4)"
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
        if self._animation is not None:
            self._animation.restart(goals.ends.numpy())
        self.root[:] = matrix @ self.root
        copy_all_to_host(*self._seen)
        self._put_elsewhere()

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
        self._put_elsewhere()

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
            "character": self.character.saved(),
            "animation": None if self._animation is None else self._animation.saved(),
            "enabled": solver.colliders.enabled(),
            "arriving": sorted(solver.colliders.arriving),
            "deformed": solver.colliders.given(),
            "solver": {name: value.copy() for name, value in solver.saved().items()},
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Return to a state that `save` gave of this scene, with the colliders that it had."""
        solver = self.solver
        if saved["animation"] is not None:
            self._live_animation()
        elif self._animation is not None:
            raise WeftError(
                "this state was saved before the animation began: call animate or paint before the first save"
            )
        arrays = self._state_arrays()
        if [tuple(v.shape) for v in saved["arrays"]] != [tuple(a.numpy().shape) for a in arrays]:
            raise WeftError("this state is not of this scene: the numbers of vertices or colliders are others")
        for array, values in zip(arrays, saved["arrays"], strict=True):
            array.assign(values)
        self.character.restore(saved["character"])
        if self._animation is not None:
            self._animation.restore(saved["animation"])
        for name, on in saved["enabled"].items():
            solver.colliders.enable(name, on)
        solver.colliders.restore_given(saved["deformed"])
        solver.colliders.arriving = set(saved["arriving"])
        self.time, self._by_hand = saved["time"], set(saved["by_hand"])
        self._phase = -1
        self._hold_pins()
        for name, values in saved["cached"].items():
            getattr(solver.contacts.arrays, name)[: len(values)].assign(values)
        solver.restore(saved["solver"])
        copy_all_to_host(*self._seen)
        self.watch.wake()
        for bound in self._render_meshes:
            bound.follow()

    def _state_arrays(self) -> list[wp.array]:
        """What a step changes, and what its caller may have set."""
        colliders, goals = self.solver.colliders, self.solver.goals
        return [self._x, self._v, self._target, colliders.start, colliders.end, goals.starts, goals.ends]

    def _check_poses(self) -> None:
        """Refuse a pose that is no rigid motion, by the name of its collider, where the caller has changed one."""
        if self._poses.tobytes() + self.root.tobytes() == self._rigid:
            return
        named = {"the root": self.root, **{repr(name): pose for name, pose in self.poses.items()}}
        poses = np.array(list(named.values()))
        off = np.abs(poses[:, :3, :3].swapaxes(1, 2) @ poses[:, :3, :3] - np.eye(3)).max()
        if not (off < SCALED and np.isfinite(poses[:, :3, 3]).all()):
            for name, pose in named.items():
                if problem := rigid_problem(pose):
                    raise WeftError(f"the pose of {name} {problem}")

    @property
    def report(self) -> dict[str, float]:
        """Numbers of contacts that the last step solved: all, generated, cached, with colliders, and pushed.

        With a budget also its substeps, how many there would have been without, whether all cloth was frozen in its shape, for
        want of time, and milliseconds.
        """
        tangles, budget = self.solver.tangles, self.solver.budget
        frozen = tangles is not None and tangles.frozen
        return self.solver.counts() | ({} if budget is None else budget.report(frozen=frozen))

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

    def cache_contacts(self) -> int:
        """Find the contacts of cloth with cloth in the current pose and solve these from now on; returns their number."""
        if self.solver.search is None:
            raise WeftError(
                "contacts of cloth with cloth are switched off (self_contacts = 'none'): there are none to cache"
            )
        return self.solver.cache_contacts(self._x)

    def _follow_motions(self, dt: float) -> None:
        """Set the poses, pins and goals of the scene at the end of the step."""
        solver, start, end = self.solver, self.time, self.time + dt
        if self._motions is None:
            self._motions = Motions(self.world, solver.colliders, solver.goals)
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
