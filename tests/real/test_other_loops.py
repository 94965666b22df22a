"""Loops that other people wrote, unchanged, around and inside a recorder."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

import twopass
from twopass import ReplayRecorder, TapePlayback

sb3 = pytest.importorskip("stable_baselines3")
from stable_baselines3.common.evaluation import evaluate_policy  # noqa: E402
from stable_baselines3.common.monitor import Monitor  # noqa: E402


def assert_exact(tape: twopass.Tape, **options: Any) -> None:
    assert len(tape) > 0
    for episode in tape:
        report = twopass.verify(tape, episode=episode.index, **options)
        assert report.verdict == "exact", report.summary()


@pytest.fixture(scope="module")
def ppo():
    import torch

    torch.set_num_threads(1)  # more of them only get in each other's way here
    model = sb3.PPO(
        "MlpPolicy", "CartPole-v1", n_steps=64, batch_size=64, seed=0, device="cpu"
    )
    return model.learn(512)


# Stable-Baselines3 ----------------------------------------------------------------


def evaluated(model, env) -> Any:
    env.reset(seed=11)  # every later reset of evaluate_policy has no seed
    with env:
        return evaluate_policy(model, env, 3, return_episode_rewards=True)


ORDERS = {
    "monitor-outside": lambda env, record: Monitor(record(env)),
    "monitor-inside": lambda env, record: record(Monitor(env)),
}


@pytest.mark.parametrize("order", ORDERS)
def test_evaluate_policy_scores_the_same_and_its_tape_is_exact(order, ppo, tmp_path):
    def made(record):
        return ORDERS[order](gym.make("CartPole-v1"), record)

    path = tmp_path / "run.mcap"
    alone = evaluated(ppo, made(lambda env: env))
    recorded = evaluated(ppo, made(lambda env: ReplayRecorder(env, path)))
    assert recorded == alone
    tape = twopass.Tape.load(path, strict=True)
    with_steps = [episode for episode in tape if episode.length]
    assert [e.metrics["total_reward"] for e in with_steps] == alone[0]
    assert [e.length for e in with_steps] == alone[1]
    if order == "monitor-outside":
        assert_exact(tape)
    else:
        assert_exact(tape, env=lambda render_mode: Monitor(gym.make("CartPole-v1")))


def test_evaluate_policy_takes_a_recorder_without_monitor(ppo):
    env = ReplayRecorder(gym.make("CartPole-v1"))
    with env, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own: no Monitor
        rewards, lengths = evaluate_policy(ppo, env, 2, return_episode_rewards=True)
    ended = [episode for episode in env.tape if episode.length]
    assert [episode.length for episode in ended] == lengths
    assert [episode.metrics["total_reward"] for episode in ended] == rewards


def test_a_model_trains_on_a_recorder(tmp_path):
    env = ReplayRecorder(gym.make("CartPole-v1"), tmp_path / "train.mcap")
    model = sb3.PPO("MlpPolicy", env, n_steps=32, batch_size=32, seed=1, device="cpu")
    model.learn(96)
    env.close()
    tape = twopass.Tape.load(tmp_path / "train.mcap", strict=True)
    assert tape.num_steps == 96
    assert_exact(tape)


def test_a_model_is_a_policy(ppo):
    tape = twopass.record("CartPole-v1", ppo, seeds=[1, 2], max_steps=80)
    assert_exact(tape)
    action = tape[0].actions[0]
    assert type(action) is np.ndarray
    assert action.shape == ()


def test_two_passes_with_a_model(ppo, tmp_path, read_gif):
    film = tmp_path / "run.gif"
    result = twopass.two_pass("CartPole-v1", ppo, seed=5, video=film, max_steps=40)
    assert result.report is not None
    assert result.report.verdict == "exact"
    assert result.metrics["num_steps"] == result.tape[0].length
    assert len(read_gif(film)) == result.tape[0].length + 1


# Gymnasium's wrappers --------------------------------------------------------------

WRAPPERS: dict[str, Callable[[gym.Env], gym.Env]] = {
    "statistics": RecordEpisodeStatistics,
    "time-limit": lambda env: TimeLimit(env, 7),
    "both": lambda env: RecordEpisodeStatistics(TimeLimit(env, 7)),
}


def rolled(env) -> list[Any]:
    """Play three episodes; return what a harness would log."""
    seen = []
    env.action_space.seed(4)
    for seed in (8, None, 9):
        env.reset(seed=seed)
        terminated = truncated = False
        steps, info = 0, {}
        while not terminated and not truncated:
            _, _, terminated, truncated, info = env.step(env.action_space.sample())
            steps += 1
        statistics = dict(info.get("episode", {}))
        statistics.pop("t", None)  # the wall clock
        seen.append((steps, terminated, truncated, statistics))
    env.close()
    return seen


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("side", ["inside", "outside"])
def test_wrappers_on_either_side_see_the_same(name, side):
    wrapper = WRAPPERS[name]
    recorder: list[ReplayRecorder[Any, Any]] = []

    def record(env):
        recorder.append(ReplayRecorder(env))
        return recorder[0]

    plain = gym.make("CartPole-v1")
    expected = rolled(wrapper(gym.make("CartPole-v1")))
    env = record(wrapper(plain)) if side == "inside" else wrapper(record(plain))
    assert rolled(env) == expected
    tape = recorder[0].tape
    assert [e.length for e in tape] == [steps for steps, *_ in expected]
    if side == "inside":
        assert [bool(e.truncated[-1]) for e in tape] == [t for _, _, t, _ in expected]
        assert_exact(tape, env=lambda mode: wrapper(gym.make("CartPole-v1")))
    else:
        assert_exact(tape)


def test_a_time_limit_outside_leaves_the_episode_abandoned_never_truncated():
    recorder = ReplayRecorder(gym.make("Pendulum-v1"))
    env = TimeLimit(recorder, 4)
    env.reset(seed=0)
    truncated = False
    while not truncated:
        truncated = env.step(np.zeros(1, np.float32))[3]
    env.close()
    assert recorder.tape[0].length == 4
    assert recorder.tape[0].outcome == "abandoned"
    assert not recorder.tape[0].truncated.any()


def test_the_limit_of_make_is_rebuilt_from_the_tape():
    with ReplayRecorder(gym.make("CartPole-v1", max_episode_steps=5)) as env:
        rolled(env)
    assert [episode.outcome for episode in env.tape] == ["truncated"] * 3
    assert_exact(env.tape)


# Vector environments ----------------------------------------------------------------


def vector_rollout(mode: str, template: str | None) -> list[Any]:
    wrappers = []
    if template:
        wrappers = [lambda env: ReplayRecorder(env, template)]
    vectorization, _, context = mode.partition("-")
    vector = gym.make_vec(
        "CartPole-v1",
        4,
        vectorization_mode=vectorization,
        wrappers=wrappers,
        vector_kwargs={"context": context} if context else {},
    )
    vector.action_space.seed(2)
    seen: list[Any] = [vector.reset(seed=3)[0].copy()]
    for _ in range(90):
        observation, *ends, _ = vector.step(vector.action_space.sample())
        seen += [observation.copy(), *(np.copy(end) for end in ends)]
    vector.close()
    return seen


@pytest.mark.parametrize(
    ("mode", "placeholder"),
    [("async-fork", "pid"), ("async-forkserver", "pid"), ("sync", "uuid")],
)
# Python 3.12 and later say this of every fork of a process with threads (torch's).
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_each_worker_of_a_vector_environment_writes_a_tape(mode, placeholder, tmp_path):
    expected = vector_rollout(mode, None)
    recorded = vector_rollout(mode, f"{tmp_path}/run-{{{placeholder}}}.mcap")
    for ours, theirs in zip(recorded, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    files = sorted(tmp_path.glob("run-*.mcap"))
    assert len(files) == 4
    tapes = [twopass.Tape.load(file, strict=True) for file in files]
    assert all(tape.complete for tape in tapes)
    assert sorted(tape[0].seed or 0 for tape in tapes) == [3, 4, 5, 6]
    for tape in tapes:
        assert len(tape) > 2
        assert {episode.seed for episode in tape[1:]} == {None}  # autoreset
        assert_exact(tape)


def test_a_vector_environment_itself_is_refused_with_advice():
    vector: Any = gym.make_vec("CartPole-v1", 2, vectorization_mode="sync")
    with pytest.raises(twopass.errors.UnsupportedValueError, match="make_vec"):
        ReplayRecorder(vector)
    vector.close()


# Gymnasium's own checks --------------------------------------------------------------


def complaints(env: gym.Env) -> list[str]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        check_env(env)
    return sorted(str(warning.message) for warning in found)


@pytest.mark.parametrize("env_id", ["CartPole-v1", "FrozenLake-v1", "LunarLander-v3"])
def test_the_environment_checker_finds_no_more_than_without(env_id):
    with gym.make(env_id, render_mode="rgb_array") as env:
        before = complaints(env.unwrapped)
        after = complaints(ReplayRecorder(env.unwrapped))
    # The checker says the first of every wrapper; we say the second of a window, which
    # the checker opens in passing.
    ours = ["different from the unwrapped", 'render_mode="human" draws']
    assert [text for text in after if not any(o in text for o in ours)] == before


def constructor_arguments(cls: Any) -> set[str]:
    return set(inspect.signature(cls.__init__).parameters) - {"self", "env"}


def other_values(cls: Any, tmp_path: Path) -> dict[str, Any]:
    """Give every constructor argument a value that is not its default."""
    if cls is ReplayRecorder:
        return {
            "path": str(tmp_path / "again.mcap"),
            "observations": "full",
            "unseeded": "inject",
            "overwrite": True,
            "metadata": {"run": [1, None]},
        }
    tape = twopass.record(
        "CartPole-v1", "random", seeds=[1, 2], path=tmp_path / "t.mcap"
    )
    return {
        "tape": tape.path,
        "episode": 1,
        "on_divergence": "stop",
        "rtol": 0.5,
        "atol": 0.25,
        "guard": False,
    }


@pytest.mark.parametrize("cls", [ReplayRecorder, TapePlayback])
def test_every_constructor_argument_is_recorded_and_rebuilt(cls, tmp_path):
    arguments = other_values(cls, tmp_path)
    assert set(arguments) == constructor_arguments(cls)
    env = cls(gym.make("CartPole-v1"), **arguments)
    assert env.spec is not None
    wrapper = env.spec.additional_wrappers[-1]
    assert wrapper.kwargs == arguments
    spec = gym.envs.registration.EnvSpec.from_json(env.spec.to_json())
    rebuilt = gym.make(spec)
    assert type(rebuilt) is cls
    assert rebuilt.spec is not None
    assert rebuilt.spec.additional_wrappers[-1].kwargs == arguments


def test_a_rebuilt_recorder_records(tmp_path):
    first = ReplayRecorder(gym.make("CartPole-v1"), observations="full")
    assert first.spec is not None
    with gym.make(first.spec) as env:
        env.reset(seed=1)
        env.step(0)
        tape = env.get_wrapper_attr("tape")
    assert tape[0].observations is not None
    assert_exact(tape)
