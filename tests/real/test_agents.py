"""Recording and playback in a harness that makes the environment and owns the loop."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import twopass
from twopass import PlaybackAgent, RecordingAgent, ReplayRecorder, TapePlayback

SEEDS = [4, 8, 15]
ENV_IDS = ["CartPole-v1", "FrozenLake-v1", "LunarLander-v3", "MountainCarContinuous-v0"]


def harness(
    env: Any, agent: Any, resets: list[Any], *, limit: int = 10**9
) -> list[Any]:
    """Drive an agent through episodes; return each one's total and length."""
    scores = []
    for arguments in resets:
        passed = arguments if isinstance(arguments, dict) else {"seed": arguments}
        observation, info = env.reset(**passed)
        agent.reset(observation, info)
        total, steps, done = 0.0, 0, False
        while not done and steps < limit:
            observation, reward, terminated, truncated, info = env.step(agent.step())
            done = terminated or truncated
            agent.update(observation, reward, done, info)
            total, steps = total + reward, steps + 1
        scores.append((total, steps))
    env.close()
    return scores


def recorded(env_id: str = "CartPole-v1", path=None, **options: Any) -> twopass.Tape:
    env = gym.make(env_id)
    with RecordingAgent("random", path, env=env, seeds=SEEDS) as agent:
        harness(env, agent, SEEDS, **options)
    return agent.tape


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_a_harness_scores_the_same_and_its_tape_plays_everywhere(env_id, tmp_path):
    limit = 30
    plain = twopass.policies.as_agent("random", gym.make(env_id).action_space)
    expected = harness(gym.make(env_id), plain, SEEDS, limit=limit)
    path = tmp_path / "run.mcap"
    assert recorded(env_id, path, limit=limit).complete
    tape = twopass.Tape.load(path, strict=True)
    scores = [(e.metrics["total_reward"], e.metrics["num_steps"]) for e in tape]
    assert scores == expected
    assert [episode.seed for episode in tape] == SEEDS
    player = PlaybackAgent(tape)
    assert harness(gym.make(env_id), player, SEEDS, limit=limit) == expected
    player.close()
    assert [report.verdict for report in player.reports] == ["exact"] * 3
    assert [report.recorded_length for report in player.reports] == [
        n for _, n in scores
    ]
    for episode in range(3):
        assert twopass.verify(tape, episode=episode).verdict == "exact"
        with gym.make(env_id) as env:
            assert TapePlayback(env, tape, episode).play().verdict == "exact"


def test_a_harness_tape_makes_a_film(tmp_path, read_gif):
    tape = recorded()
    film = tmp_path / "film.gif"
    report = twopass.render(tape, film, episode=2, env="CartPole-v1")
    assert report.verdict == "exact"
    assert len(read_gif(film)) == tape[2].length + 1


def test_the_end_is_done_unless_the_time_limit_says_more():
    assert {episode.outcome for episode in recorded()} == {"done"}
    assert [e.outcome for e in recorded(limit=3)] == ["abandoned"] * 3


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_a_recorders_tape_plays_in_a_harness(env_id):
    tape = twopass.record(env_id, "random", seeds=SEEDS, max_steps=30)
    player = PlaybackAgent(tape)
    harness(gym.make(env_id), player, SEEDS, limit=30)
    player.close()
    assert [report.verdict for report in player.reports] == ["exact"] * 3
    assert {report.plan for report in player.reports} == {"harness"}


def test_playback_may_begin_at_any_episode():
    player = PlaybackAgent(recorded(), episode=1)
    harness(gym.make("CartPole-v1"), player, SEEDS[1:])
    assert player.report.episode == 2
    player.close()
    assert [report.episode for report in player.reports] == [1, 2]
    with pytest.raises(twopass.errors.PlaybackError, match="no episode 3"):
        player.reset(np.zeros(4), {})


def test_a_harness_that_goes_on_too_long_diverges_in_length():
    tape = recorded(limit=3)
    player = PlaybackAgent(tape)
    [(_, steps), *_] = harness(gym.make("CartPole-v1"), player, SEEDS[:1])
    player.close()
    [report] = player.reports
    assert steps > 3
    assert report.verdict == "diverged"
    assert report.divergence is not None
    assert (report.divergence.field, report.divergence.step) == ("length", 3)


def test_a_harness_that_stops_too_early_diverges_in_length():
    tape = recorded()
    player = PlaybackAgent(tape)
    harness(gym.make("CartPole-v1"), player, SEEDS[:1], limit=5)
    assert player.report.verdict == "exact"  # so far
    player.close()
    [report] = player.reports
    assert report.divergence is not None
    assert (report.divergence.field, report.divergence.step) == ("length", 5)
    assert report.divergence.recorded == tape[0].length


def test_another_seed_diverges_at_the_reset():
    player = PlaybackAgent(recorded())
    harness(gym.make("CartPole-v1"), player, [99], limit=4)
    player.close()
    divergence = player.reports[0].divergence
    assert divergence is not None
    assert (divergence.field, divergence.step) == ("observation", 0)


def test_seeds_and_options_may_be_said_before_each_episode():
    resets: list[dict[str, Any]] = [
        {"seed": 3, "options": {"low": -0.01, "high": 0.01}},
        {"seed": 2**70},
        {"seed": 5, "options": None},
    ]
    env = gym.make("CartPole-v1")
    agent = RecordingAgent("random", env=env, seeds=[7])
    for arguments in resets:
        agent.expect(**arguments)
        harness(env, agent, [arguments])
    harness(env, agent, [7])  # nothing said: the list's turn
    agent.close()
    assert [e.seed for e in agent.tape] == [3, 2**70, 5, 7]
    assert [e.options for e in agent.tape] == [resets[0]["options"], None, None, None]
    for episode in range(4):
        assert twopass.verify(agent.tape, episode=episode).verdict == "exact"


def test_an_episode_without_a_seed_is_recorded_as_such():
    env = gym.make("CartPole-v1")
    agent = RecordingAgent("random", env=env)
    harness(env, agent, [None])
    agent.close()
    assert agent.tape[0].seed is None
    report = twopass.verify(agent.tape)
    assert report.verdict == "diverged"
    assert report.divergence is not None
    assert report.divergence.step == 0


def test_a_tape_without_an_environment_asks_for_one():
    agent = RecordingAgent(lambda _: 1, seeds=SEEDS)
    harness(gym.make("CartPole-v1"), agent, SEEDS)
    agent.close()
    with pytest.raises(twopass.errors.PlaybackError, match="pass env"):
        twopass.verify(agent.tape)
    assert twopass.verify(agent.tape, env="CartPole-v1").verdict == "exact"


class GivesUp:
    """An agent that fails at its third step."""

    def reset(self, observation, info):
        self.steps = 0

    def step(self):
        self.steps += 1
        if self.steps == 3:
            raise TimeoutError("too slow")
        return 1

    def update(self, observation, reward, done, info):
        pass


def test_an_agent_that_raises_is_in_the_tape(tmp_path):
    env = gym.make("CartPole-v1")
    path = tmp_path / "run.mcap"
    with (
        pytest.raises(TimeoutError, match="too slow"),
        RecordingAgent(GivesUp(), path, env=env, seeds=SEEDS) as agent,
    ):
        harness(env, agent, SEEDS)
    tape = twopass.Tape.load(path, strict=True)
    assert [(e.length, e.outcome) for e in tape] == [(2, "error")]
    assert tape[0].error == {"type": "TimeoutError", "text": "too slow"}
    assert twopass.verify(tape).verdict == "exact"


def test_a_harness_may_use_a_recorder_and_an_agent_at_once():
    env = ReplayRecorder(gym.make("CartPole-v1"))
    agent = RecordingAgent("random", env=env, seeds=SEEDS)
    harness(env, agent, SEEDS)
    agent.close()
    for ours, theirs in zip(agent.tape, env.tape, strict=True):
        np.testing.assert_array_equal(ours.actions, theirs.actions)
        np.testing.assert_array_equal(ours.digests, theirs.digests)
        assert ours.metrics["total_reward"] == theirs.metrics["total_reward"]


def test_a_recording_agent_is_not_copied(tmp_path):
    """Two copies would write one tape."""
    agent = RecordingAgent(lambda observation: 1, tmp_path / "a.mcap")
    with pytest.raises(TypeError, match="not copied"):
        copy.deepcopy(agent)
    agent.close()
