"""Environments for learning with Gymnasium: fold a sheet, fling it flat, drape it on a stand, pull a sleeve over an arm.

import gymnasium, weft.gym
env = gymnasium.make("weft/Fold-v0")
envs = gymnasium.make_vec("weft/Fold-v0", num_envs=16, vectorization_mode="vector_entry_point")
"""

from weft.errors import missing_extra

try:
    import gymnasium
except ImportError:
    raise missing_extra("gym", "gymnasium") from None

from weft.gym.environments import ClothEnv, ClothVectorEnv
from weft.gym.episode import Task
from weft.gym.tasks import TASKS, RandomPolicy, ScriptedPolicy

__all__ = ["TASKS", "ClothEnv", "ClothVectorEnv", "RandomPolicy", "ScriptedPolicy", "Task"]

for _name, _task in TASKS.items():
    gymnasium.register(
        id=f"weft/{_task.id}-v0",
        entry_point="weft.gym:ClothEnv",
        vector_entry_point="weft.gym:ClothVectorEnv",
        max_episode_steps=None,
        kwargs={"task": _name},
    )
