"""Policies that are not learned: random moves, and for each task a script that does it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.gym.episode import ACTION_SIZE, FARTHEST_MOVE, Episode, Floats
from weft.gym.tasks import Drape, Dress, Fling, Fold

Action = npt.NDArray[np.float32]


class RandomPolicy:
    """Random moves, the same for the same seed."""

    def __init__(self, grippers: int, seed: int = 0) -> None:
        self._random, self._size = np.random.default_rng(seed), ACTION_SIZE * grippers

    def __call__(self, episode: Episode) -> Action:
        return self._random.uniform(-1.0, 1.0, self._size).astype(np.float32)


class ScriptedPolicy:
    """Does a task by way points: each is where the grippers go, and whether they are closed there."""

    def __init__(self, episode: Episode) -> None:
        """The episode must have begun: way points depend on where the cloth is."""
        task = episode.task
        for kind, script in ((Fold, _fold), (Fling, _fling), (Drape, _drape), (Dress, _dress)):
            if isinstance(task, kind):
                self._points = script(episode)
                break
        else:
            raise WeftError(f"there is no script for the task {task.id}")
        self._goal, self._closed = next(self._points)

    def __call__(self, episode: Episode) -> Action:
        way = self._goal - episode.grippers
        if np.abs(way).max() < 1e-3 and (episode.closed == self._closed).all():
            self._goal, self._closed = next(self._points, (episode.grippers.copy(), False))
            way = self._goal - episode.grippers
        moves = way / FARTHEST_MOVE
        # all grippers arrive together, so that what they hold between them keeps its length
        moves /= max(1.0, float(np.abs(moves).max()))
        grasp = np.full((len(moves), 1), 1.0 if self._closed else -1.0)
        return np.concatenate([moves, grasp], axis=1).ravel().astype(np.float32)


def _fold(episode: Episode) -> Iterator[tuple[Floats, bool]]:
    """Down to the corner, close, over to the opposite corner in an arc, open."""
    x, task = episode.sim.positions, episode.task
    assert isinstance(task, Fold)
    corner, goal = x[[task.corner]].copy(), x[[task.opposite]].copy()
    yield corner, False
    yield corner, True
    middle = 0.5 * (corner + goal)
    yield 0.7 * corner + 0.3 * middle + [0.0, 0.15, 0.0], True
    yield middle + [0.0, 0.21, 0.0], True
    yield 0.3 * middle + 0.7 * goal + [0.0, 0.12, 0.0], True
    yield goal + [0.0, 0.015, 0.0], True
    yield goal + [0.0, 0.015, 0.0], False


def _fling(episode: Episode) -> Iterator[tuple[Floats, bool]]:
    """Apart, forward in a swing, back and down, open."""
    apart = np.array([[-0.148, 0.0, 0.0], [0.148, 0.0, 0.0]])
    for height, forward in ((0.4, 0.0), (0.42, -0.2), (0.42, 0.25), (0.3, 0.3), (0.12, 0.2), (0.02, 0.1), (0.008, 0.0)):
        yield apart + [0.0, height, forward], True
    yield apart + [0.0, 0.008, 0.0], False


def _drape(episode: Episode) -> Iterator[tuple[Floats, bool]]:
    """Against the stand, with the lower edge below its top, over it, down on its far side, open."""
    apart = np.array([[-0.148, 0.0, 0.0], [0.148, 0.0, 0.0]])
    for height, forward in ((0.42, -0.14), (0.42, -0.04), (0.38, 0.06), (0.28, 0.12), (0.14, 0.115)):
        yield apart + [0.0, height, forward], True
    yield apart + [0.0, 0.14, 0.115], False


def _dress(episode: Episode) -> Iterator[tuple[Floats, bool]]:
    """Along the arm, open."""
    start = episode.grippers.copy()
    for along in (0.02, 0.1, 0.2, 0.24):
        yield start * [0.0, 1.0, 1.0] + [along, 0.0, 0.0], True
    yield start * [0.0, 1.0, 1.0] + [0.24, 0.0, 0.0], False
