"""Tapes that cannot be opened again, or that say something else afterwards."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import sys

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.utils.env_checker import data_equivalence
from mcap.reader import make_reader

import twopass
from twopass.errors import (
    PlaybackError,
    TapeVersionError,
    UnsupportedValueError,
)
from twopass.testing.hazards import Base


def _messages(path):
    """Return every message of the file, decompressed by MCAP's own reader."""
    with path.open("rb") as stream:
        return [
            (channel.topic, message.data)
            for _, channel, message in make_reader(stream).iter_messages()
        ]


def _refused(constant):
    raise ValueError(f"{constant} is not JSON")


def _strict(data):
    return json.loads(data, parse_constant=_refused)


# https://github.com/vivek3141/gg-bench/issues/3
def test_a_file_names_no_module_of_numpy(push, tmp_path):
    """Pickled arrays name a private module, so that another NumPy cannot open them."""
    path = tmp_path / "run.mcap"
    options = {"goal": np.arange(3.0), "n": np.int64(2)}
    twopass.record(
        Base, push, seeds=[7, None], path=path, observations="full", options=options
    )
    topics = set()
    for topic, data in _messages(path):
        topics.add(topic)
        assert b"numpy._core" not in data
        assert b"numpy.core" not in data
        assert b"_reconstruct" not in data
        if topic != "/steps":
            assert isinstance(_strict(data), dict)
    assert {"/header", "/construction", "/reset", "/steps", "/end", "/seal"} == topics


# https://github.com/vivek3141/gg-bench/issues/3
def test_nothing_is_pickled(push, tmp_path, monkeypatch):
    """The same: neither writing nor reading ever asks for it."""

    def forbidden(*args, **kwargs):
        raise AssertionError("pickled")

    for module in ("pickle", "_pickle"):
        for name in ("dump", "dumps", "load", "loads", "Pickler", "Unpickler"):
            monkeypatch.setattr(importlib.import_module(module), name, forbidden)
    tape = twopass.record(
        Base, push, seeds=[7], path=tmp_path / "a.mcap", observations="full"
    )
    tape.save(tmp_path / "b.mcap")
    for name in ("a.mcap", "b.mcap"):
        assert twopass.verify(tmp_path / name, env=Base).verdict == "exact"


# https://github.com/vivek3141/gg-bench/issues/3
def test_a_newer_format_is_named_as_such(push, tmp_path):
    """A file of a later release: which version it has, and what to do."""
    tape = twopass.record(Base, push, seeds=[7])
    newer = dataclasses.replace(
        tape, header=dataclasses.replace(tape.header, format=tape.header.format + 1)
    )
    newer.save(tmp_path / "a.mcap")
    with pytest.raises(TapeVersionError, match="pip install -U twopass") as caught:
        twopass.Tape.load(tmp_path / "a.mcap")
    found = (caught.value.found, caught.value.supported)
    assert found == (tape.header.format + 1, tape.header.format)
    assert caught.value.path == str(tmp_path / "a.mcap")


# https://github.com/4DVLab/DexGrasp-Anything/issues/7
@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("reports_evil:Evil-v0", {}),
        ("CartPole-v1", {"sutton_barto_reward": "reports_evil:Evil-v0"}),
        ("../reports_evil", {}),
    ],
)
def test_a_hostile_tape_runs_nothing(push, tmp_path, monkeypatch, env_id, kwargs):
    """A file from somebody else names a module, and opening it imports that."""
    (tmp_path / "reports_evil.py").write_text("raise SystemExit('evil')")
    monkeypatch.syspath_prepend(tmp_path)
    tape = twopass.record(Base, push, seeds=[7])
    forged = {**tape.fingerprint, "env_id": env_id, "kwargs": kwargs}
    header = dataclasses.replace(tape.header, fingerprint=forged)
    dataclasses.replace(tape, header=header).save(tmp_path / "a.mcap")
    assert len(twopass.Tape.load(tmp_path / "a.mcap")) == 1
    with pytest.raises(PlaybackError, match="pass env"):
        twopass.verify(tmp_path / "a.mcap")
    assert "reports_evil" not in sys.modules


class Words(spaces.Text):
    """A space that no serialiser has heard of."""


class Taking(gym.Env):
    """Takes any action, and observes and rewards what it got."""

    observation_space = spaces.Text(10_000)

    def __init__(self, action_space):
        self.action_space = action_space
        self.taken = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.taken = []
        return "", {}

    def step(self, action):
        self.taken.append(action)
        return repr(action), float(len(repr(action))), False, False, {}


SPACES = [
    spaces.Discrete(5, start=-2),
    spaces.MultiBinary([2, 3]),
    spaces.MultiDiscrete([3, 4], start=[-1, 2]),
    spaces.Box(-1, 1, (2,), np.float32),
    spaces.Box(0, 255, (2, 2), np.uint8),
    spaces.Text(8),
    Words(8),
    spaces.Dict(name=spaces.Text(4), n=spaces.Discrete(3)),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(0, 1, (1,), np.float64)]),
    spaces.Dict(a=spaces.Tuple([spaces.Dict(b=spaces.MultiBinary(2))])),
    spaces.Sequence(spaces.Discrete(4)),
    spaces.Sequence(spaces.Box(0, 1, (2,), np.float32), stack=True),
    spaces.OneOf([spaces.Discrete(3), spaces.Box(0, 1, (2,), np.float32)]),
    spaces.Graph(spaces.Box(0, 1, (2,)), spaces.Discrete(3)),
    spaces.Dict(
        plan=spaces.Sequence(spaces.Text(3)), map=spaces.Graph(spaces.Discrete(2), None)
    ),
]


# https://github.com/Farama-Foundation/Minari/issues/123
@pytest.mark.parametrize("space", SPACES, ids=repr)
def test_actions_of_every_space_come_back_as_they_were(space, tmp_path):
    """100 episodes are collected, and then one space has no serialiser."""
    space.seed(3)
    sent = [space.sample() for _ in range(12)]
    env = twopass.ReplayRecorder(Taking(space), tmp_path / "a.mcap")
    env.reset(seed=0)
    for action in sent:
        env.step(action)
    env.close()
    twopass.Tape.load(tmp_path / "a.mcap", strict=True).save(tmp_path / "b.mcap")
    for name in ("a.mcap", "b.mcap"):
        played = Taking(space)
        report = twopass.TapePlayback(played, tmp_path / name).play()
        assert (report.verdict, report.replayed_length) == ("exact", 12)
        for got, action in zip(played.taken, sent, strict=True):
            assert data_equivalence(got, action, exact=True)


class Chatty(Base):
    """Fills ``info`` with whatever it has, and never the same twice."""

    def __init__(self, render_mode=None):
        super().__init__(render_mode)
        values = [
            None,
            lambda: 0,
            np.float32(1),
            np.arange(3),
            torch.ones(2),
            float("nan"),
            {1: {2: object()}},
            {"a", "b"},
            b"\xff",
            self,
            np.array([object()]),
        ]
        keys = ["x", "success", "is_success", 3, "TimeLimit.truncated"]
        self.infos = [{key: value} for value in values for key in keys]
        self.horizon = len(self.infos)

    def step(self, action):
        observation, reward, terminated, truncated, _ = super().step(action)
        return observation, reward, terminated, truncated, self.infos[self.t - 1]


# https://github.com/Farama-Foundation/Minari/issues/246
def test_no_info_breaks_a_recording(push, tmp_path):
    """Collection crashes where ``info`` has other keys in ``step`` than in ``reset``."""
    tape = twopass.record(Chatty, push, seeds=[7], path=tmp_path / "a.mcap")
    assert (tape[0].length, tape[0].outcome) == (55, "truncated")
    assert twopass.verify(tmp_path / "a.mcap", env=Chatty).verdict == "exact"


# https://github.com/Farama-Foundation/Minari/issues/246
@pytest.mark.parametrize("key", ["success", "is_success"])
@pytest.mark.parametrize(
    ("value", "solved"),
    [
        (True, True),
        (np.bool_(False), False),
        (np.array([1.0]), True),
        (torch.tensor(0), False),
        (np.array([True, False]), None),
        (torch.ones(2), None),
        (torch.ones(2, 0), None),
    ],
    ids=repr,
)
def test_a_success_that_is_no_truth_value_is_no_crash(push, key, value, solved):
    """The same at the end of an episode, where ``info`` says whether it was solved."""

    class Ending(Base):
        def step(self, action):
            *result, _ = super().step(action)
            return (*result, {key: value} if self.t == self.horizon else {})

    tape = twopass.record(Ending, push, seeds=[7])
    assert tape[0].outcome == "truncated"
    assert tape[0].metrics["solved"] is solved


# https://github.com/Farama-Foundation/Minari/issues/123
def test_an_action_that_cannot_be_stored_is_refused_before_its_step():
    """Support is checked only when the data set is saved."""
    env = twopass.ReplayRecorder(Taking(spaces.Discrete(2)))
    env.reset(seed=0)
    env.step(1)
    with pytest.raises(UnsupportedValueError, match=r"action\['tool'\]") as caught:
        env.step({"tool": object()})
    assert caught.value.tree_path == "action['tool']"
    assert env.unwrapped.taken == [1]  # type: ignore[attr-defined]
    assert env.tape[0].length == 1


class NanFrom3(Base):
    """Observes and rewards NaN from step 3 on, and takes NaN."""

    start = 3

    def step(self, action):
        observation, reward, *ends = super().step(np.nan_to_num(action))
        if self.t >= self.start:
            observation, reward = observation * math.nan, math.nan
        return (observation, reward, *ends)


class NanFrom4(NanFrom3):
    start = 4


def _nan_at_3():
    steps = iter(range(1, 100))
    return lambda _: np.array([math.nan if next(steps) == 3 else 0.5], np.float32)


# https://github.com/openai/gym/issues/1212
@pytest.mark.parametrize("observations", ["digest", "full"])
def test_nan_is_kept_and_equals_nan(tmp_path, observations):
    """NaN actions are taken without complaint, and spread."""
    path = tmp_path / "a.mcap"
    twopass.record(
        NanFrom3, _nan_at_3(), seeds=[7], path=path, observations=observations
    )
    tape = twopass.Tape.load(path)
    assert np.flatnonzero(np.isnan(np.asarray(tape[0].actions).ravel())).tolist() == [2]
    assert np.flatnonzero(np.isnan(tape[0].rewards)).tolist() == list(range(2, 30))
    report = twopass.verify(tape, env=NanFrom3)
    assert (report.verdict, report.divergence) == ("exact", None)


class OtherNan(NanFrom3):
    """Gets its NaN from another instruction, with another sign bit."""

    def step(self, action):
        observation, reward, *ends = super().step(action)
        return (observation, -reward if math.isnan(reward) else reward, *ends)


# https://github.com/openai/gym/issues/1212
def test_the_bits_of_a_nan_reward_do_not_matter():
    """The same: which NaN it is depends on the compiler."""
    tape = twopass.record(NanFrom3, _nan_at_3(), seeds=[7])
    assert twopass.verify(tape, env=OtherNan).verdict == "exact"


# https://github.com/openai/gym/issues/1212
@pytest.mark.parametrize(
    ("recorded", "replayed"), [(NanFrom3, NanFrom4), (NanFrom4, NanFrom3)]
)
@pytest.mark.parametrize("observations", ["full", "none"])
def test_nan_on_one_side_is_flagged(recorded, replayed, observations):
    """The same where only one of the two passes has it; a tolerance does not help."""
    tape = twopass.record(recorded, _nan_at_3(), seeds=[7], observations=observations)
    for tolerance in (0.0, 1e9):
        report = twopass.verify(tape, env=replayed, atol=tolerance)
        assert report.divergence is not None
        field = "reward" if observations == "none" else "observation"
        assert (report.divergence.step, report.divergence.field) == (3, field)
        text = json.dumps(report.to_dict(), allow_nan=False)
        assert "NaN" in text


# https://github.com/google-deepmind/mujoco_playground/issues/240
def test_metrics_with_nan_are_strict_json(tmp_path):
    """NaN rewards make files that no strict reader takes."""
    path = tmp_path / "a.mcap"
    twopass.record(NanFrom3, _nan_at_3(), seeds=[7], path=path)
    ends = [_strict(data) for topic, data in _messages(path) if topic == "/end"]
    assert ends[-1]["metrics"]["total_reward"] == "NaN"
    assert twopass.Tape.load(path)[0].metrics["total_reward"] == "NaN"
