"""A `Simulation` as `weft play` drives it: the scene's own method, whose vertices and colliders can be dragged."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.run.handles import Hold
from weft.run.realtime import Realtime
from weft.run.simulation import Simulation
from weft.scene import MATERIALS, Predictive, Scene, Wind

Floats = npt.NDArray[np.float64]


class LiveSimulation:
    """What `LiveView` needs of a simulation, by the names that `weft.Realtime` has for it.

    A step is a frame, and the motions of the scene go on.
    """

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
    def velocities(self) -> Floats:
        """(n, 3) of the vertices of all cloths."""
        found = self.simulation.velocities
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


def adjusted(
    scene: Scene,
    *,
    method: str,
    material: str,
    factors: tuple[float, float, float],
    gravity: float,
    wind: tuple[float, float, float],
    cut: bool,
) -> Scene:
    """The scene with another method, material, gravity (m/s^2, in the scene's direction) and wind; `cut` removes its pins.

    `factors` multiply stretch with shear, bend and friction. The empty name of a method or a material is that of the scene.
    """
    stretch, bend, friction = factors
    cloths = []
    for cloth in scene.cloths:
        own = MATERIALS[material] if material else cloth.material
        changed = {"stretch": stretch, "shear": stretch, "bend": bend, "friction": friction}
        if own.friction_kinetic is not None:
            changed["friction_kinetic"] = friction
        made = own.replace(**{name: _times(getattr(own, name), factor) for name, factor in changed.items()})
        cloths.append(cloth.replace(material=made, pins=() if cut else cloth.pins))
    forces = scene.forces.replace(gravity=tuple((gravity * direction_of_gravity(scene)).tolist()))
    if any(wind) or forces.wind is not None:
        forces = forces.replace(wind=(forces.wind or Wind(velocity=wind)).replace(velocity=wind))
    found = scene.replace(cloths=tuple(cloths), forces=forces)
    return found.replace(method=method) if method and method != scene.method.name else found


def direction_of_gravity(scene: Scene) -> Floats:
    """The unit vector along the scene's gravity; down the y axis where it has none."""
    usual = np.asarray(scene.forces.gravity, dtype=np.float64)
    size = np.linalg.norm(usual)
    return usual / size if size > 0.0 else np.array([0.0, -1.0, 0.0])


def _times(value: Any, factor: float) -> Any:
    """A stiffness, or one for each direction of the cloth, times a factor."""
    if isinstance(value, int | float):
        return value * factor
    return value.replace(**{name: factor * getattr(value, name) for name in value.model_fields_set})


def make_live(scene: Scene) -> "LiveSimulation | Realtime":
    """What steps a scene: the form of `predictive` for games, or the scene's own method."""
    return Realtime(scene) if isinstance(scene.method, Predictive) else LiveSimulation(scene)


def go_on(fresh: "LiveSimulation | Realtime", old: "LiveSimulation | Realtime") -> None:
    """Put a simulation into the state of another one of the same bodies."""
    if isinstance(fresh, Realtime):
        fresh.reset_to(old.positions)
        fresh.velocities[:] = old.velocities
        fresh.time = old.time
        return
    state = fresh.simulation.state
    x, v = state.x.numpy(), state.v.numpy()
    count = len(old.positions)
    x[:count], v[:count] = old.positions, old.velocities
    for body in fresh.simulation.bodies.values():
        if body.kind == "collider":
            x[body.vertices] = old.collider_mesh(body.name)[0]
    frame = round(old.time * fresh.scene.fps)
    fresh.simulation.set_state(x, v, time=frame / fresh.scene.fps, frame=frame)
