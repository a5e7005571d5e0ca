"""Gymnasium's own checks, scripts that do the tasks, and vectors of worlds with the bytes of single ones."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import weft
from weft.errors import WeftError
from weft.gym import TASKS, ClothEnv, ClothVectorEnv, RandomPolicy, ScriptedPolicy
from weft.gym.tasks import SIDE, covered_area


def play(env, policy, seed, actions=60):
    """The rewards of an episode, and the last info."""
    env.reset(seed=seed)
    policy = policy(env.episode)
    rewards = []
    for _ in range(actions):
        _, reward, terminated, truncated, info = env.step(policy(env.episode))
        rewards.append(reward)
        if terminated or truncated:
            break
    return rewards, info


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", TASKS)
def test_gymnasium_accepts_the_environment(name):
    env = gymnasium.make(f"weft/{TASKS[name].id}-v0")
    check_env(env.unwrapped, skip_render_check=True)


@pytest.mark.parametrize("name", TASKS)
def test_the_script_does_the_task_and_random_moves_do_not(name):
    env = ClothEnv(name)
    start = env.reset(seed=3) and env.episode.task.score(env.episode.sim)
    rewards, info = play(env, ScriptedPolicy, seed=3)
    assert info["success"] and info["score"] >= env.episode.task.success
    assert start + sum(rewards) == pytest.approx(info["score"], abs=1e-9)
    assert env.episode.sim.report["status"] == "ok"
    _, info = play(env, lambda e: RandomPolicy(e.task.grippers, seed=1), seed=3, actions=12)
    assert not info["success"]


@pytest.mark.parametrize("seed", [101, 106])
def test_the_fling_draws_sheets_flat_that_land_in_folds(seed):
    assert play(ClothEnv("fling"), ScriptedPolicy, seed)[1]["success"]


def test_a_seed_is_an_episode():
    one, other = ClothEnv("fold"), ClothEnv("fold")
    for env in (one, other):
        env.reset(seed=5)
        for _ in range(3):
            env.step(env.action_space.high)
    assert one.episode.sim.positions.tobytes() == other.episode.sim.positions.tobytes()
    assert not np.array_equal(one.reset(seed=6)[0], other.reset(seed=7)[0])


def test_a_vector_has_the_bytes_of_single_worlds():
    envs = gymnasium.make_vec("weft/Drape-v0", num_envs=2, vectorization_mode="vector_entry_point").unwrapped
    assert isinstance(envs, ClothVectorEnv) and envs.observation_space.shape == (2, 11 * 11 * 3 + 2 * 3 + 2)
    seen, _ = envs.reset(seed=10)
    policy = RandomPolicy(4, seed=2)
    actions = [policy(None).reshape(2, -1) for _ in range(3)]
    found = [envs.step(action) for action in actions]
    for k in range(2):
        env = ClothEnv("drape")
        assert np.array_equal(env.reset(seed=10 + k)[0], seen[k])
        for action, (observed, rewards, *_) in zip(actions, found, strict=True):
            observation, reward, *_ = env.step(action[k])
            assert observation.tobytes() == observed[k].tobytes() and reward == rewards[k]


def test_a_world_that_is_done_begins_again():
    class Short(TASKS["fold"]):
        actions = 2

    envs = ClothVectorEnv(Short(), 2)
    first, _ = envs.reset(seed=0)
    still = np.zeros((2, 4), np.float32)
    envs.episodes[1]._taken = -1
    ended = [envs.step(still)[3].tolist() for _ in range(3)]
    # the first world ends after two steps, the second, which had one more, after three
    assert ended == [[False, False], [True, False], [False, True]]
    observed, rewards, *_ = envs.step(still)
    assert rewards[1] == 0.0 and envs.sims.frame[1] == 0 and envs.sims.frame[0] == 4
    assert not np.array_equal(observed[1], first[1])


def test_grippers_take_only_what_is_within_reach():
    env = ClothEnv("fold")
    env.reset(seed=0)
    env.step(np.array([0.0, 1.0, 0.0, 1.0]))
    assert not env.episode.closed.any()
    low = env.episode.grippers.copy()
    env.step(np.array([0.0, -1.0, 0.0, -1.0]))
    assert env.episode.grippers[0, 1] == pytest.approx(low[0, 1] - 0.04)


def test_the_covered_area_is_that_of_the_shadow():
    x = np.array([[0.0, 0.0, 0.0], [0.5, 2.0, 0.0], [0.0, 0.0, 0.5], [0.5, 0.0, 0.5]])
    fine = weft.mesh.shapes.grid((0.5, 0.5), (20, 20))
    assert covered_area(fine.vertices, fine.faces) == pytest.approx(0.25, rel=0.05)
    # two triangles are one shadow
    faces = np.array([[0, 1, 2], [0, 2, 1]], np.int32)
    assert covered_area(x, faces) == covered_area(x, faces[:1]) and SIDE > 0.0


def test_mistakes_are_told():
    env = weft.gym.ClothEnv("fold")
    env.reset(seed=0)
    for action in (np.zeros(3), np.full(4, np.nan), np.zeros(8)):
        with pytest.raises(WeftError, match="an action is 4 finite numbers, 4 for each gripper, not a ndarray"):
            env.step(action)
    with pytest.raises(WeftError, match="no task is called 'fol', did you mean 'fold'"):
        ClothEnv("fol")
    with pytest.raises(WeftError, match="at least one world, not 0"):
        ClothVectorEnv("fold", 0)


def test_a_torch_policy_moves_the_grippers():
    torch = pytest.importorskip("torch")
    envs = ClothVectorEnv("fold", 2)
    observed, _ = envs.reset(seed=0)
    torch.manual_seed(0)
    policy = torch.nn.Sequential(
        torch.nn.Linear(envs.single_observation_space.shape[0], 16),
        torch.nn.Tanh(),
        torch.nn.Linear(16, envs.single_action_space.shape[0]),
        torch.nn.Tanh(),
    )
    # positions are shared with torch, not copied
    shared = torch.from_numpy(envs.sims.positions)
    with torch.no_grad():
        for _ in range(2):
            observed, *_ = envs.step(policy(torch.from_numpy(observed)).numpy())
    assert np.shares_memory(shared.numpy(), envs.sims.positions)
    assert torch.equal(shared[0, 0], torch.from_dlpack(envs.sims.positions)[0, 0]) and np.isfinite(observed).all()
