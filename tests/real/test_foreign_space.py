"""Actions of a space that somebody else wrote, which only it can read and write."""

from __future__ import annotations

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import pytest

import twopass
from twopass.errors import PlaybackError, UnsupportedValueError


@dataclass(frozen=True)
class Move:
    """An action that is no number."""

    name: str
    far: float


class Moves(gym.Space[Move]):
    """The space of moves."""

    def __init__(self):
        super().__init__(None, None)

    def sample(self, mask=None, probability=None):
        name = "left" if self.np_random.random() < 0.5 else "right"
        return Move(name, float(self.np_random.random()))

    def contains(self, x):
        return isinstance(x, Move)

    def to_jsonable(self, sample_n):
        return [[move.name, move.far] for move in sample_n]

    def from_jsonable(self, sample_n):
        return [Move(name, far) for name, far in sample_n]


class Walk(gym.Env):
    """Walks as it is told, and keeps what it was told."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (1,), np.float64)
    told: list[object]

    def __init__(self, render_mode=None, action_space=None):
        self.action_space = action_space or Moves()

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.told = 0.0, []
        return np.array([self.place]), {}

    def step(self, action):
        self.told.append(action)
        move = action["move"] if isinstance(action, dict) else action
        self.place += move.far if move.name == "right" else -move.far
        return np.array([self.place]), self.place, len(self.told) == 20, False, {}


def nested(render_mode=None):
    return Walk(action_space=gym.spaces.Dict(move=Moves(), turn=gym.spaces.Discrete(3)))


@pytest.mark.parametrize("make", [Walk, nested])
def test_actions_come_back_through_their_own_space(make, tmp_path):
    sent, played = make(), make()
    tape = twopass.record(lambda render_mode: sent, "random", seeds=[3])
    path = tape.save(tmp_path / "moves.mcap")
    report = twopass.verify(path, env=lambda render_mode: played)
    assert report.verdict == "exact"
    assert played.told == sent.told
    assert len(played.told) == 20


def test_an_agent_that_plays_needs_the_space():
    tape = twopass.record(Walk, "random", seeds=[3])
    env = Walk()
    player = twopass.PlaybackAgent(tape)
    player.reset(*env.reset(seed=3))
    with pytest.raises(PlaybackError, match="action_space"):
        player.step()
    player = twopass.PlaybackAgent(tape, action_space=env.action_space)
    player.reset(*env.reset(seed=3))
    over = False
    while not over:
        observation, reward, over, _, info = env.step(player.step())
        player.update(observation, reward, over, info)
    assert player.report.verdict == "exact"


def test_an_object_in_a_space_of_gymnasium_is_refused_by_name():
    env = twopass.ReplayRecorder(Walk(action_space=gym.spaces.Discrete(2)))
    env.reset(seed=0)
    with pytest.raises(UnsupportedValueError, match="Move"):
        env.step(Move("left", 1.0))
