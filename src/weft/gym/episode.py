"""One episode of a task in one world: grippers that hold vertices, observations, and the score from which rewards come."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.run.simulation import Simulation
from weft.scene import Scene
from weft.scene.messages import shown

Floats = npt.NDArray[np.float64]

# frames of 1/60 s that an action takes
FRAMES = 4
# how far a gripper moves at most in an action, m: 0.6 m/s
FARTHEST_MOVE = 0.04
# a gripper that closes takes the nearest vertex, if it is within this distance, m: half an edge of the cloths of the tasks
GRASP_REACH = 0.03
# numbers of an action for each gripper: a move along x, y, z, and whether it is closed
ACTION_SIZE = 4
# largest coordinate of an observation, m; the tasks take place within one metre
FARTHEST_SEEN = 10.0


class Task(ABC):
    """What is to be done with a cloth: its scene, its grippers, its start and its score."""

    id: ClassVar[str]
    grippers: ClassVar[int]
    actions: ClassVar[int]
    """in an episode at most"""
    success: ClassVar[float]
    """score from which on the task is done"""
    low: ClassVar[tuple[float, float, float]]
    high: ClassVar[tuple[float, float, float]]
    """the corners of the space in which grippers move, m"""

    @abstractmethod
    def scene(self, method: Any) -> Scene:
        """The scene; its first cloth is the one that is handled."""

    @abstractmethod
    def start(self, sim: Simulation, random: np.random.Generator) -> Floats:
        """Vary the start, and give the positions of the grippers; vertices within their reach can be held by them."""

    @abstractmethod
    def score(self, sim: Simulation) -> float:
        """How far the task is done: about 0 at the start, 1 at best."""

    def closed_at_start(self) -> bool:
        """Whether grippers hold the cloth when an episode begins."""
        return False

    def done(self, sim: Simulation, score: float, *, holding: bool) -> bool:
        """Whether the task is done, with the cloth let go."""
        return score >= self.success and not holding


class Result(NamedTuple):
    """What an action led to."""

    observation: npt.NDArray[np.float32]
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class Episode:
    """A task in one world; the caller advances the simulation between `act` and `result`."""

    def __init__(self, task: Task, sim: Simulation) -> None:
        self.task, self.sim = task, sim
        self._cloth = sim.scene.cloths[0].name
        self.grippers = np.zeros((task.grippers, 3))
        """(g, 3) where the grippers are, m"""
        self._holds: list[Any] = [None] * task.grippers
        self._taken, self._score = 0, 0.0

    @property
    def closed(self) -> npt.NDArray[np.bool_]:
        """(g,) which grippers hold a vertex."""
        return np.array([hold is not None for hold in self._holds])

    def begin(self, random: np.random.Generator) -> None:
        """Set the world back and begin an episode; the same numbers give the same episode, to the byte."""
        self.sim.reset()
        self._holds = [None] * self.task.grippers
        self.grippers = np.array(self.task.start(self.sim, random), dtype=np.float64)
        if self.task.closed_at_start():
            for k in range(self.task.grippers):
                self._grasp(k)
        self._taken, self._score = 0, self.task.score(self.sim)

    def act(self, action: npt.ArrayLike) -> None:
        """Open, close and move the grippers: they are there when the simulation has advanced by `FRAMES`."""
        numbers = np.asarray(action, dtype=np.float64)
        count = ACTION_SIZE * self.task.grippers
        if numbers.size != count or not np.isfinite(numbers).all():
            raise WeftError(f"an action is {count} finite numbers, {ACTION_SIZE} for each gripper, not {shown(action)}")
        moves = np.clip(numbers, -1.0, 1.0).reshape(-1, ACTION_SIZE)
        for k, (*direction, grasp) in enumerate(moves):
            if grasp > 0.0 and self._holds[k] is None:
                self._grasp(k)
            elif grasp <= 0.0 and self._holds[k] is not None:
                self._holds[k].release()
                self._holds[k] = None
            before = self.grippers[k].copy()
            self.grippers[k] = np.clip(before + FARTHEST_MOVE * np.array(direction), self.task.low, self.task.high)
            if self._holds[k] is not None:
                self._holds[k].target += self.grippers[k] - before

    def _grasp(self, k: int) -> None:
        """Hold the vertex nearest to a gripper, if one is within its reach."""
        x = self.sim.bodies[self._cloth].positions
        distance = np.linalg.norm(x - self.grippers[k], axis=1)
        taken = [hold.vertices[0] for hold in self._holds if hold is not None]
        distance[taken] = np.inf
        nearest = int(distance.argmin())
        if distance[nearest] <= GRASP_REACH:
            self._holds[k] = self.sim.pin(self._cloth, [nearest])

    def observe(self) -> npt.NDArray[np.float32]:
        """Positions of all vertices of the cloth, positions of the grippers, and 1 for each that holds something."""
        x = self.sim.bodies[self._cloth].positions
        seen = np.concatenate([x.ravel(), self.grippers.ravel(), self.closed])
        return np.clip(seen, -FARTHEST_SEEN, FARTHEST_SEEN).astype(np.float32)

    def result(self) -> Result:
        """The observation, and as reward the change of the score."""
        self._taken += 1
        score = self.task.score(self.sim)
        reward, self._score = score - self._score, score
        terminated = self.task.done(self.sim, score, holding=bool(self.closed.any()))
        truncated = not terminated and self._taken >= self.task.actions
        return Result(self.observe(), reward, terminated, truncated, {"score": score, "success": terminated})
