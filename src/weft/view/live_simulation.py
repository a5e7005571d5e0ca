"""A `Simulation` as `weft play` drives it: the scene's own method, with vertices and colliders in the hand."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.run.handles import Hold
from weft.run.simulation import Simulation
from weft.scene import Scene

Floats = npt.NDArray[np.float64]


class LiveSimulation:
    """What `LiveView` needs of a simulation, by the names that `weft.Realtime` has for it.

    A step is a frame. Stiffness, friction and wind stay those of the scene, and its motions go on.
    """

    adjustable = False
    """whether `change` and `motions` do something"""
    motions = True

    def __init__(self, scene: Scene | str | Path) -> None:
        self.simulation = Simulation(scene)
        self.scene, self.world = self.simulation.scene, self.simulation.world
        self.targets: dict[int, Floats] = {}
        """where held vertices go, by their numbers in `positions`"""
        self._holds: dict[int, Hold] = {}

    @property
    def positions(self) -> Floats:
        """(n, 3) the vertices of all cloths."""
        found = self.simulation.positions
        return found if isinstance(found, np.ndarray) else found.numpy()

    @property
    def time(self) -> float:
        """s"""
        return self.simulation.time

    @property
    def report(self) -> dict[str, Any]:
        """The report of the last frame."""
        return self.simulation.report

    @property
    def held(self) -> npt.NDArray[np.int64]:
        """The vertices in the hand."""
        return np.array(sorted(self._holds), dtype=np.int64)

    @property
    def poses(self) -> dict[str, Floats]:
        """The poses of rigid colliders."""
        bodies = self.simulation.bodies.values()
        return {body.name: body.pose_now() for body in bodies if body.kind == "collider" and body.rigid}

    def cloth(self, name: str) -> slice:
        """The range of a cloth in `positions`."""
        return self.simulation.bodies[name].vertices

    def cloth_faces(self, name: str) -> npt.NDArray[np.int32]:
        """The triangles of one cloth, numbered from its first vertex."""
        return self.simulation.bodies[name].faces

    def collider_mesh(self, name: str) -> tuple[Floats, npt.NDArray[np.int32]]:
        """Vertices and triangles of a collider."""
        body = self.simulation.bodies[name]
        found = body.positions
        return np.array(found if isinstance(found, np.ndarray) else found.numpy()), body.faces

    def hold(self, vertices: list[int]) -> None:
        """Take vertices in the hand."""
        for vertex in vertices:
            bodies = self.simulation.bodies.values()
            body = next(b for b in bodies if b.vertices.start <= vertex < b.vertices.stop)
            self._holds[vertex] = self.simulation.pin(body.name, [vertex - body.vertices.start])
            self.targets[vertex] = self._holds[vertex].target[0].copy()

    def release(self, vertices: list[int]) -> None:
        """Let vertices go."""
        for vertex in vertices:
            self._holds.pop(vertex).release()
            del self.targets[vertex]

    def move(self, name: str, position: npt.ArrayLike) -> None:
        """Move a collider to a place, with the next step."""
        pose = self.simulation.bodies[name].pose_now()
        pose[:3, 3] = position
        self.simulation.bodies[name].pose = pose

    def step(self, dt: float) -> None:
        """A frame; `dt` is its length."""
        for vertex, hold in self._holds.items():
            hold.target = self.targets[vertex]
        self.simulation.advance()

    def reset(self) -> None:
        """Return to the start."""
        self.release(list(self._holds))
        self.simulation.reset()
