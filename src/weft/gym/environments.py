"""Tasks as Gymnasium environments: one world, or a vector of worlds that are stepped as a batch. They run on the CPU."""

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from weft.errors import WeftError
from weft.gym.episode import ACTION_SIZE, FARTHEST_SEEN, FRAMES, Episode, Task
from weft.gym.tasks import TASKS
from weft.run.batch import SimulationBatch
from weft.run.simulation import Simulation
from weft.scene.messages import unknown

Observation = npt.NDArray[np.float32]


def _task(task: str | Task) -> Task:
    if isinstance(task, Task):
        return task
    if task not in TASKS:
        raise WeftError(unknown("task", task, list(TASKS)))
    return TASKS[task]()


def _spaces(episode: Episode) -> tuple[gymnasium.spaces.Box, gymnasium.spaces.Box]:
    """The spaces of observations and of actions."""
    count = len(episode.observe())
    observation = gymnasium.spaces.Box(-FARTHEST_SEEN, FARTHEST_SEEN, (count,), np.float32)
    action = gymnasium.spaces.Box(-1.0, 1.0, (ACTION_SIZE * episode.task.grippers,), np.float32)
    return observation, action


class ClothEnv(gymnasium.Env):
    """A task in one world.

    Observation: the positions of all vertices, of the grippers, and whether each of these holds something. Action: for each
    gripper a move along x, y and z in units of 4 cm, and a number above 0 to close it. Reward: the change of the task's score,
    so that the rewards of an episode sum to its score. An action takes four frames of 1/60 s.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  (as Gymnasium has it)

    def __init__(self, task: str | Task, *, method: Any = "robust") -> None:
        made = _task(task)
        self.episode = Episode(made, Simulation(made.scene(method)))
        self.observation_space, self.action_space = _spaces(self.episode)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode; a seed gives the same one again."""
        super().reset(seed=seed)
        self.episode.begin(self.np_random)
        return self.episode.observe(), {}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Move the grippers."""
        self.episode.act(action)
        self.episode.sim.advance(FRAMES)
        return tuple(self.episode.result())  # type: ignore[return-value]


class ClothVectorEnv(gymnasium.vector.VectorEnv):
    """A task in many worlds. World k with seed s has the bytes of a `ClothEnv` with seed s + k.

    A world whose episode has ended begins another with the next step, whose action it ignores.
    """

    metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012

    def __init__(self, task: str | Task, num_envs: int = 1, *, method: Any = "robust") -> None:
        made = _task(task)
        self.num_envs = num_envs
        self.sims = SimulationBatch(made.scene(method), num_envs)
        self.episodes = [Episode(made, sim) for sim in self.sims.worlds]
        self.single_observation_space, self.single_action_space = _spaces(self.episodes[0])
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._random: list[np.random.Generator] = []
        self._ended = np.zeros(num_envs, bool)

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode in every world."""
        if seed is not None or not self._random:
            seeds = (
                seed if isinstance(seed, list) else [None if seed is None else seed + k for k in range(self.num_envs)]
            )
            self._random = [gymnasium.utils.seeding.np_random(one)[0] for one in seeds]
        for episode, random in zip(self.episodes, self._random, strict=True):
            episode.begin(random)
        self._ended[:] = False
        return self._observe(), {}

    def step(self, actions: Any) -> tuple[Observation, Any, Any, Any, dict[str, Any]]:
        """Move the grippers of all worlds."""
        going = ~self._ended
        for k, episode in enumerate(self.episodes):
            if going[k]:
                episode.act(actions[k])
            else:
                episode.begin(self._random[k])
        self.sims.advance(FRAMES, mask=going)
        rewards, scores = np.zeros(self.num_envs), np.zeros(self.num_envs)
        terminated, truncated = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        for k in np.flatnonzero(going).tolist():
            found = self.episodes[k].result()
            rewards[k], terminated[k], truncated[k] = found.reward, found.terminated, found.truncated
            scores[k] = found.info["score"]
        self._ended = terminated | truncated
        return self._observe(), rewards, terminated, truncated, {"score": scores, "_score": going}

    def _observe(self) -> Observation:
        return np.stack([episode.observe() for episode in self.episodes])
