"""What a `Simulation` gives its caller to work with: its bodies, vertices that it holds, and saved states."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import WeftError
from weft.run.checks import to_array
from weft.run.controls import Floats, check_pose, placement_of
from weft.scene.resolved_motion import RigidMotion


class SimulatedBody:
    """A cloth or a collider of a simulation."""

    def __init__(self, simulation: Any, body: Any) -> None:
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
        poses = self._simulation.controls.poses
        if self.name in poses:
            return poses[self.name].goal
        pose = self.pose_now()
        pose.flags.writeable = False
        return pose

    @pose.setter
    def pose(self, value: npt.ArrayLike) -> None:
        pose = check_pose(self.name, value)
        simulation = self._simulation
        glide = simulation.controls.poses.get(self.name)
        if glide is None:
            glide = simulation.controls.steer(self.name, self.pose_now(), simulation.time)
            simulation.method.collider_moves()
        glide.goal[...] = pose

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

    def __init__(self, simulation: Any, number: int, cloth: str, vertices: npt.NDArray[np.int64]) -> None:
        self._simulation, self._number, self._cloth = simulation, number, cloth
        self.vertices = vertices
        """numbers within the cloth"""

    def __repr__(self) -> str:
        return f"<Hold of {len(self.vertices)} vertices{'' if self.held else ', released'}>"

    @property
    def held(self) -> bool:
        """Whether they are still held."""
        return self._number in self._simulation.controls.holds

    @property
    def positions(self) -> Floats:
        """(k, 3) where the vertices are now, m: a copy."""
        first = self._simulation.bodies[self._cloth].vertices.start
        return np.array(self._simulation.state.x.numpy()[first + self.vertices])

    @property
    def target(self) -> Floats:
        """(k, 3) where the vertices shall be at the end of the next `step` or `advance`, m."""
        holds = self._simulation.controls.holds
        if self._number not in holds:
            raise WeftError("these vertices have been released: hold them again by pin")
        return holds[self._number][1].goal

    @target.setter
    def target(self, value: npt.ArrayLike) -> None:
        goal = self.target
        found = to_array("the target of held vertices", value)
        if found.shape != goal.shape and not (found.shape == (3,) and len(goal) == 1):
            raise WeftError(f"the target of {len(goal)} held vertices is an array {goal.shape}, not {found.shape}")
        goal[...] = found

    def release(self) -> None:
        """Let the vertices go, with the velocity that they have."""
        self._simulation.controls.release(self._number)


@dataclass(frozen=True)
class SavedSimulation:
    """The state of a simulation, as host arrays: another one of the same scene that restores it goes on with the same bytes."""

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
