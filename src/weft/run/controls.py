"""What the caller of a `Simulation` controls: poses of colliders, held vertices, and forces.

Poses and held vertices glide: from where they are to the goal that the caller sets, in the steps of the next call of `step` or
`advance`, at constant speed. To the methods they are prescribed motions as those of a scene are.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import WeftError
from weft.run.checks import to_array
from weft.runtime import launch
from weft.scene import rotation
from weft.scene.resolved_motion import RigidMotion
from weft.world import State, World
from weft.world.kinematics import TIME_SLACK, Prescription

wp.set_module_options({"enable_backward": False})

Floats = npt.NDArray[np.float64]
ForceFunction = Callable[[Any], Any]

# how far the axes of a pose may be from unit length and right angles; a pose that is computed in float32 is within
RIGID_WITHIN = 1e-5
# parameters of a kernel of a force before its inputs: x, v, mass, time, force
FORCE_PARAMETERS = 5


class Glide:
    """A value that goes from one array to another between two times, and stays there."""

    def __init__(self, value: npt.ArrayLike, time: float, mix: Callable[[Floats, Floats, float], Floats]) -> None:
        self.goal: Floats = np.array(value, dtype=np.float64)
        """where the caller wants it; may be written to"""
        self._mix = mix
        self._first, self._last = self.goal.copy(), self.goal.copy()
        self._begin = self._end = time
        self._known: tuple[float, Floats] | None = None
        """a time between the two, and the value then: it is asked for several times in a step"""

    def aim(self, begin: float, end: float) -> bool:
        """Go to the goal between these times; whether that is a change."""
        if np.array_equal(self._last, self.goal) and begin >= self._end - TIME_SLACK:
            return False
        self._first, self._last = self.at(begin), self.goal.copy()
        self._begin, self._end, self._known = begin, end, None
        return True

    def at(self, time: float) -> Floats:
        """The value at a time."""
        if time >= self._end - TIME_SLACK:
            return self._last.copy()
        if self._known is None or self._known[0] != time:
            fraction = max(0.0, (time - self._begin) / (self._end - self._begin))
            self._known = time, self._mix(self._first, self._last, fraction)
        return self._known[1].copy()

    def saved(self) -> dict[str, Any]:
        """All that `restore` needs."""
        return {
            "goal": self.goal.copy(),
            "first": self._first.copy(),
            "last": self._last.copy(),
            "begin": self._begin,
            "end": self._end,
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Take what `saved` gave."""
        self.goal[...] = saved["goal"]
        self._first, self._last = saved["first"].copy(), saved["last"].copy()
        self._begin, self._end, self._known = saved["begin"], saved["end"], None


def mix_points(first: Floats, last: Floats, fraction: float) -> Floats:
    """Points on straight lines."""
    return (1.0 - fraction) * first + fraction * last


def mix_poses(first: Floats, last: Floats, fraction: float) -> Floats:
    """The pose on the way from one to another: the origin on a straight line, the rotation at a constant rate."""
    pose = first.copy()
    pose[:3, 3] = mix_points(first[:3, 3], last[:3, 3], fraction)
    if not np.array_equal(first[:3, :3], last[:3, :3]):
        turn = rotation.logarithm(rotation.quaternion_of(last[:3, :3] @ first[:3, :3].T))
        pose[:3, :3] = rotation.matrix_of(rotation.exponential(fraction * turn)) @ first[:3, :3]
    return pose


def check_pose(name: str, pose: npt.ArrayLike) -> Floats:
    """The pose of a body as a 4x4 matrix; one that is not a rotation and a translation is refused."""
    found = to_array(f"the pose of {name!r}", pose)
    if found.shape != (4, 4) or not np.isfinite(found).all():
        raise WeftError(f"the pose of {name!r} is a 4x4 matrix of finite numbers, from its own frame to the world")
    turn = found[:3, :3]
    if np.abs(turn @ turn.T - np.eye(3)).max() > RIGID_WITHIN or np.linalg.det(turn) < 0.0:
        raise WeftError(f"the pose of {name!r} is not rigid: its 3x3 part must be a rotation, without scale or mirror")
    if not np.array_equal(found[3], [0.0, 0.0, 0.0, 1.0]):
        raise WeftError(f"the last row of the pose of {name!r} must be 0 0 0 1")
    return found


class Controls:
    """The glides of a world: poses of colliders by name, and held vertices by number."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._of_scene = list(world.kinematics.prescriptions)
        self._motions_of_scene = list(world.collider_motions)
        self.poses: dict[str, Glide] = {}
        self.holds: dict[int, tuple[npt.NDArray[np.int64], Glide]] = {}
        self._next = 0

    def steer(self, name: str, pose: Floats, time: float) -> Glide:
        """The glide of a collider, which from now on is where the caller says; `pose` is where it is."""
        if name not in self.poses:
            self.poses[name] = Glide(pose, time, mix_poses)
            self._apply()
        return self.poses[name]

    def hold(self, vertices: npt.NDArray[np.int64], positions: Floats, time: float) -> int:
        """Hold vertices of the world where they are; gives the number of the hold."""
        number = self._next
        self._next += 1
        self.holds[number] = vertices, Glide(positions, time, mix_points)
        self._apply()
        return number

    def release(self, number: int) -> None:
        """Let held vertices go."""
        if self.holds.pop(number, None) is not None:
            self._apply()

    def aim(self, begin: float, end: float) -> None:
        """Let everything go to its goal between two times."""
        for name, glide in self.poses.items():
            check_pose(name, glide.goal)
        for vertices, glide in self.holds.values():
            if not np.isfinite(glide.goal).all():
                vertex = int(vertices[~np.isfinite(glide.goal).all(axis=1)][0])
                raise WeftError(f"the target of the held vertex {vertex} is not finite")
        glides = [*self.poses.values(), *(glide for _, glide in self.holds.values())]
        aimed = [glide.aim(begin, end) for glide in glides]
        if any(aimed):
            self.world.kinematics.forget_poses()

    def clear(self) -> None:
        """Follow the scene alone."""
        self.restore({})

    def saved(self) -> dict[str, Any]:
        """All that `restore` needs; pickles."""
        holds = {number: (vertices.copy(), glide.saved()) for number, (vertices, glide) in self.holds.items()}
        return {"poses": {name: glide.saved() for name, glide in self.poses.items()}, "holds": holds}

    def restore(self, saved: dict[str, Any]) -> None:
        """Take what `saved` gave, or nothing; handles of poses and holds stay valid."""
        kept_poses, kept_holds = saved.get("poses", {}), saved.get("holds", {})
        if not (self.poses or self.holds or kept_poses or kept_holds):
            return
        # glides that are there already keep their goal arrays, which the caller may have kept
        poses = {name: self.poses.get(name, Glide(kept["goal"], 0.0, mix_poses)) for name, kept in kept_poses.items()}
        holds = {}
        for number, (vertices, kept) in kept_holds.items():
            _, glide = self.holds.get(number, (vertices, Glide(kept["goal"], 0.0, mix_points)))
            holds[number] = vertices, glide
            glide.restore(kept)
        for name, glide in poses.items():
            glide.restore(kept_poses[name])
        self.poses, self.holds = poses, holds
        self._next = max([self._next, *(number + 1 for number in holds)])
        self._apply()

    def _apply(self) -> None:
        """Prescribe motions to the world: those of the scene, of steered colliders instead of theirs, then of held vertices."""
        world = self.world
        world.collider_motions[:] = self._motions_of_scene
        prescriptions = list(self._of_scene)
        first = len(prescriptions) - len(world.collider_motions)
        for k, collider in enumerate(world.scene.colliders):
            if collider.name in self.poses:
                motion = SteeredMotion(self.poses[collider.name], placement_of(collider))
                place = _place(motion, world.collider_meshes[k].vertices)
                world.collider_motions[k] = motion
                prescriptions[first + k] = Prescription(
                    prescriptions[first + k].vertices, place, False, np.inf, motion.matrix
                )
        for vertices, glide in self.holds.values():
            prescriptions.append(Prescription(vertices, glide.at, False, np.inf, glide.at))
        world.kinematics.change(prescriptions)


def placement_of(collider: Any) -> Floats:
    """Position and rotation of the placement of a collider as a matrix; its scale is in the shape."""
    frame = np.eye(4)
    frame[:3, :3] = rotation.euler_matrix(collider.placement.rotation_deg)
    frame[:3, 3] = collider.placement.position
    return frame


def _place(motion: RigidMotion, placed: Floats) -> Callable[[float], Floats]:
    return lambda time: motion.positions(placed, time)


class SteeredMotion(RigidMotion):
    """The motion of a collider that its caller steers: from its placement to the pose of a glide."""

    def __init__(self, glide: Glide, placement: Floats) -> None:
        back = np.eye(4)
        back[:3, :3] = placement[:3, :3].T
        back[:3, 3] = -placement[:3, :3].T @ placement[:3, 3]
        super().__init__(lambda time: glide.at(time) @ back)


@wp.kernel
def kick_vertices(
    first: int,
    force: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    dt: wp.float64,
    early: wp.float64,
    v: wp.array[wp.vec3d],
    late: wp.array[wp.vec3d],
):
    """Give each vertex the fraction `early` of the velocity that a force gives it in a step, and note the rest in `late`."""
    i = first + wp.tid()
    change = (dt * inverse_mass[i]) * force[i]
    v[i] = v[i] + early * change
    late[i] = (wp.float64(1.0) - early) * change


@wp.kernel
def add_late(first: int, late: wp.array[wp.vec3d], v: wp.array[wp.vec3d]):
    """Add what `kick_vertices` has left of the change of velocity, at the end of the step."""
    i = first + wp.tid()
    v[i] = v[i] + late[i]


class CallerForces:
    """Forces of the caller on the vertices of the cloths: an array, functions and Warp kernels.

    A step gets one fraction of their impulse at its start and the rest at its end, such that a constant force displaces a
    vertex as much as gravity of the same strength does: the method says which fraction that is (`Method.early_impulse`).
    """

    def __init__(self, world: World, early_impulse: Callable[[float], float]) -> None:
        self.world, self._early_impulse = world, early_impulse
        count = world.cloth_vertex_count
        self.constant = wp.zeros(count, dtype=wp.vec3d, device=world.device)
        """N on each vertex, which the caller writes"""
        self.functions: list[Callable[[State, wp.array], None]] = []
        """each adds to the array of forces"""
        self._total = wp.zeros(count, dtype=wp.vec3d, device=world.device)
        self._before = wp.zeros(count, dtype=wp.vec3d, device=world.device)
        self._late = wp.zeros(count, dtype=wp.vec3d, device=world.device)
        self._owed = False
        """whether the impulse at the end of the step has not been given yet"""
        self._kicked: tuple[int, float] | None = None
        """frame and time of the step that has last got its impulse"""
        self._inverse_mass = wp.zeros(0, dtype=wp.float64, device=world.device)
        self._phase = -1
        self.used = False
        """whether the caller has ever asked for the array of forces"""

    def add(self, force: Any, inputs: Sequence[Any], simulation: Any) -> None:
        """Add a Warp kernel with its inputs, or a function of the simulation."""
        if isinstance(force, wp.Kernel):
            self.functions.append(self._from_kernel(force, inputs))
        elif callable(force):
            self.functions.append(self._from_function(force, simulation))
        else:
            raise WeftError(f"a force is a function of the simulation or a Warp kernel, not {type(force).__name__}")

    def _from_kernel(self, kernel: wp.Kernel, inputs: Sequence[Any]) -> Callable[[State, wp.array], None]:
        world, count, wanted = self.world, self.world.cloth_vertex_count, len(kernel.adj.args)
        if wanted != FORCE_PARAMETERS + len(inputs):
            raise WeftError(
                f"the kernel {kernel.key!r} of a force takes x, v, mass, time, force and {len(inputs)} inputs, and has "
                f"{wanted} parameters"
            )
        mass: wp.array = wp.array(world.mass[:count], dtype=wp.float64, device=world.device)

        def add(state: State, total: wp.array) -> None:
            arguments = [state.x, state.v, mass, state.time, total, *inputs]
            wp.launch(kernel, count, inputs=arguments, device=world.device)

        return add

    def _from_function(self, function: ForceFunction, simulation: Any) -> Callable[[State, wp.array], None]:
        count, device = self.world.cloth_vertex_count, self.world.device

        def add(state: State, total: wp.array) -> None:
            found = to_array(f"the force {getattr(function, '__name__', 'of a function')!r}", function(simulation))
            if found.shape != (count, 3) or not np.isfinite(found).all():
                name = getattr(function, "__name__", "a force")
                what = "numbers that are not finite" if found.shape == (count, 3) else f"an array {found.shape}"
                raise WeftError(f"the force {name!r} gave {what}; it must give ({count}, 3) finite numbers, N")
            total.assign(wp.array(total.numpy() + found, dtype=wp.vec3d, device=device))

        return add

    def forget(self) -> None:
        """The state has been replaced: the next step is not one that is tried again."""
        self._kicked, self._owed = None, False

    def finish(self, state: State) -> None:
        """Give what is left of the impulse, at the end of a step."""
        if self._owed:
            launch(add_late, self.world.cloth_vertex_count, [self._late, state.v], device=self.world.device)
            self._owed = False

    def __call__(self, state: State, dt: float) -> None:
        """Change the velocities by what the forces give them in a step of dt."""
        if not self.used and not self.functions:
            return
        count = self.world.cloth_vertex_count
        # a step that is tried again, with half its length, starts from the velocities before the first try
        moment = state.frame, state.time
        if self._kicked == moment:
            wp.copy(state.v, self._before, count=count)
        else:
            self.finish(state)
        self._kicked = moment
        wp.copy(self._before, state.v, count=count)
        wp.copy(self._total, self.constant)
        for function in self.functions:
            function(state, self._total)
        early = self._early_impulse(dt)
        inputs = [self._total, self._free_mass(state), dt, early, state.v, self._late]
        launch(kick_vertices, count, inputs, device=self.world.device)
        self._owed = True

    def _free_mass(self, state: State) -> wp.array:
        """The inverse mass of each vertex in the step that begins, 0 for those that are held."""
        world, phase = self.world, self.world.kinematics.phase(state.time)
        if phase != self._phase:
            self._phase = phase
            fixed = world.kinematics.fixed(world.vertex_count, state.time)[: world.cloth_vertex_count]
            inverse = np.where(fixed, 0.0, 1.0 / world.mass[: world.cloth_vertex_count])
            self._inverse_mass = wp.array(inverse, dtype=wp.float64, device=world.device)
        return self._inverse_mass
