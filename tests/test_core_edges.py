"""What odd environments, harnesses and arguments must not break."""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import random
import threading
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

import twopass
from twopass.errors import PlaybackError, TapeError, UnsupportedValueError
from twopass.frames import open_encoder
from twopass.testing.counter import CounterEnv
from twopass.testing.hazards import Base

PUSH = np.zeros(1, np.float32)


class Odd(Base):
    """Return what a test asks for, in place of observations and rewards."""

    def __init__(self, render_mode=None, *, see=None, pay=None, flag=None):
        super().__init__(render_mode)
        self.see, self.pay, self.flag = see, pay, flag

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return (self.see(observation) if self.see else observation), info

    def step(self, action):
        observation, reward, terminated, truncated, info = super().step(action)
        observation = self.see(observation) if self.see else observation
        reward = self.pay(self.t) if self.pay else reward
        terminated = self.flag(self.t) if self.flag else terminated
        return observation, reward, terminated, truncated, info


def odd(**kwargs):
    return functools.partial(Odd, **kwargs)


def rolled(env, *, seeds=(1,), steps=5, path=None, **kwargs):
    with twopass.ReplayRecorder(env, path, **kwargs) as recorder:
        for seed in seeds:
            recorder.reset(seed=seed)
            for _ in range(steps):
                recorder.step(PUSH)
    return recorder.tape if path is None else twopass.Tape.load(path)


def divergence(report):
    assert report.divergence is not None
    return report.divergence


# Rewards ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pay", "total"),
    [
        (lambda t: 3, 15.0),
        (lambda t: True, 5.0),
        (lambda t: np.float32(0.5), 2.5),
        (np.array, 15.0),
        (lambda t: np.array([t, 1.0]), [15.0, 5.0]),
        (lambda t: [1.0, 2], [5.0, 10.0]),
        (lambda t: 2**70, 5.0 * 2**70),
        (lambda t: torch.tensor(0.5), 2.5),
        (lambda t: torch.tensor(0.5, dtype=torch.bfloat16, requires_grad=True), 2.5),
    ],
)
def test_rewards_of_every_kind_are_kept(pay, total, tmp_path):
    tape = rolled(Odd(pay=pay), path=tmp_path / "x.mcap")
    assert tape.complete
    assert tape[0].metrics["total_reward"] == total
    assert twopass.verify(tape, env=odd(pay=pay)).verdict == "exact"


@pytest.mark.parametrize("kind", [np.zeros(()), np.zeros(2), torch.zeros(())])
def test_a_reward_that_is_changed_later_is_kept_as_it_was(kind):
    shared = kind.copy() if isinstance(kind, np.ndarray) else kind.clone()

    def pay(t):
        shared[...] = t
        return shared

    tape = rolled(Odd(pay=pay))
    assert np.reshape(tape[0].rewards, (5, -1))[:, 0].tolist() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "value", [None, "1", 1j, np.complex64(1), object(), np.ones((2, 2)), [[1], [2, 3]]]
)
def test_a_reward_that_is_no_number_is_refused_at_its_step(value, tmp_path):
    path = tmp_path / "x.mcap"
    env = twopass.ReplayRecorder(Odd(pay=lambda t: 1.0 if t < 3 else value), path)
    env.reset(seed=1)
    env.step(PUSH)
    env.step(PUSH)
    with pytest.raises(UnsupportedValueError, match="reward"):
        env.step(PUSH)
    env.close()
    tape = twopass.Tape.load(path, strict=True)
    assert tape[0].rewards.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("value", [None, "1.0", 10**400, object(), 1j])
def test_a_replayed_reward_that_is_no_number_diverges(value):
    tape = rolled(Odd(pay=lambda t: 1.0))
    report = twopass.verify(tape, env=odd(pay=lambda t: value))
    found = divergence(report)
    assert (found.step, found.field) == (1, "reward")
    json.dumps(report.to_dict(), allow_nan=False)


def test_a_step_that_cannot_be_kept_leaves_no_part_of_it(tmp_path):
    path = tmp_path / "x.mcap"
    both = np.array([True, False])
    env = twopass.ReplayRecorder(Odd(flag=lambda t: both if t == 2 else False), path)
    env.reset(seed=1)
    env.step(PUSH)
    with pytest.raises(ValueError, match="ambiguous"):
        env.step(PUSH)
    env.step(PUSH)
    env.close()
    episode = twopass.Tape.load(path, strict=True)[0]
    assert episode.length == len(episode.rewards) == len(episode.actions) == 2


# Resets ----------------------------------------------------------------------------


class Picky(Base):
    """Draw from Python's generator in a reset, unless that refuses its options."""

    def reset(self, *, seed=None, options=None):
        if options:
            raise ValueError("bad options")
        super().reset(seed=seed)
        self.x = random.random()
        return self._observe(), {}


def test_a_reset_that_raises_takes_nothing_from_the_next_one():
    with twopass.ReplayRecorder(Picky()) as env:
        env.reset(seed=1)
        random.seed(5)
        with pytest.raises(ValueError, match="bad options"):
            env.reset(seed=2, options={"bad": True})
        env.reset(seed=2)
    verdicts = [twopass.verify(env.tape, episode=i, env=Picky).verdict for i in (0, 1)]
    assert verdicts == ["exact", "exact"]


def test_no_step_follows_a_reset_that_raised():
    with twopass.ReplayRecorder(Picky()) as env:
        env.reset(seed=1)
        env.step(PUSH)
        with pytest.raises(ValueError, match="bad options"):
            env.reset(seed=2, options={"bad": True})
        with pytest.raises(gym.error.ResetNeeded):
            env.step(PUSH)
        env.reset(seed=3)
        env.step(PUSH)
    assert [(e.seed, e.length) for e in env.tape] == [(1, 1), (3, 1)]


@pytest.mark.parametrize(
    "observation", [np.zeros(2, [("a", "f4")]), collections.Counter(a=1), object()]
)
def test_a_reset_whose_observation_cannot_be_kept_spares_the_tape(
    observation, tmp_path
):
    path, shown = tmp_path / "x.mcap", [None, observation, None, None]
    env = Odd(see=lambda o: o if (own := shown.pop(0)) is None else own)
    recorder = twopass.ReplayRecorder(env, path, observations="full")
    recorder.reset(seed=1)
    with pytest.raises(UnsupportedValueError, match="observation"):
        recorder.reset(seed=2)
    recorder.reset(seed=3)
    recorder.step(PUSH)
    recorder.close()
    tape = twopass.Tape.load(path, strict=True)
    assert [(e.seed, e.length) for e in tape] == [(1, 0), (3, 1)]


def test_what_reset_returns_comes_out():
    class Listed(Base):
        def reset(self, **kwargs):
            self.result = list(super().reset(**kwargs))
            return self.result

    env = Listed()
    result: object = twopass.ReplayRecorder(env).reset(seed=1)
    assert result is env.result


def test_options_that_hold_themselves_are_named():
    options: dict[str, object] = {}
    options["self"] = options
    with pytest.raises(UnsupportedValueError, match="options"):
        twopass.ReplayRecorder(Base()).reset(options=options)


def test_seeds_may_be_an_array():
    tape = twopass.record("CartPole-v1", "random", seeds=np.arange(2), max_steps=2)
    assert [episode.seed for episode in tape] == [0, 1]


def test_resets_in_threads_leave_entropy_as_it_was():
    source = np.random.bit_generator.randbits  # type: ignore[attr-defined]  # Cython
    inside, leave = [threading.Event() for _ in "ab"], [threading.Event() for _ in "ab"]

    class Slow(Base):
        def __init__(self, number):
            super().__init__()
            self.number = number

        def reset(self, **kwargs):
            inside[self.number].set()
            leave[self.number].wait(10)
            np.random.default_rng()
            return super().reset(**kwargs)

    recorders = [twopass.ReplayRecorder(Slow(number)) for number in (0, 1)]
    threads = [threading.Thread(target=r.reset, kwargs={"seed": 1}) for r in recorders]
    for thread, event in zip(threads, inside, strict=True):
        thread.start()
        event.wait(10)
    for thread, event in zip(threads, leave, strict=True):
        event.set()
        thread.join(10)
    assert np.random.bit_generator.randbits is source  # type: ignore[attr-defined]  # Cython
    assert [len(r.tape[0].reset.entropy) for r in recorders] == [1, 1]


# Files and metadata ----------------------------------------------------------------


def test_a_relative_path_is_where_the_recorder_was_made(tmp_path, monkeypatch):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    env = twopass.ReplayRecorder(Base(), "x.mcap")
    monkeypatch.chdir("other")
    env.reset(seed=1)
    env.step(PUSH)
    assert env.tape[0].length == 1
    env.close()
    monkeypatch.chdir(tmp_path)
    assert (env.path, env.tape.path) == ("x.mcap", "x.mcap")
    assert twopass.Tape.load("x.mcap", strict=True)[0].length == 1


@pytest.mark.parametrize("metadata", [[1], "text", 5, {1: "a"}, {"a": object()}])
def test_metadata_that_no_tape_can_hold_is_refused(metadata):
    with pytest.raises(UnsupportedValueError, match="metadata"):
        twopass.ReplayRecorder(Base(), metadata=metadata)


def test_metadata_are_kept_as_they_were_given():
    metadata = {"run": [1]}
    env = twopass.ReplayRecorder(Base(), metadata=metadata)
    metadata["run"].append(2)
    env.reset(seed=1)
    assert env.tape.header.metadata == {"run": [1]}


def test_a_recorders_own_spec_makes_no_second_recorder(tmp_path):
    path = tmp_path / "x.mcap"
    env = twopass.ReplayRecorder(gym.make("CartPole-v1"), path, overwrite=True)
    env.reset(seed=1)
    env.step(1)
    env.close()
    before = path.read_bytes()
    assert twopass.verify(path, env=env.spec).verdict == "exact"
    assert path.read_bytes() == before


# Comparison ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("recorded", "replayed", "verdict"),
    [
        (lambda o: {"a": o}, lambda o: {"a": o + 1e-9}, "close"),
        (lambda o: {"a": o}, lambda o: {"a": o + 1e-9, "new": o}, "diverged"),
        (lambda o: {"a": o, "b": o}, lambda o: {"a": o + 1e-9}, "diverged"),
        (lambda o: {"a": (o, 1)}, lambda o: {"a": (o + 1e-9, 2)}, "diverged"),
        (
            lambda o: np.array([0, 255], np.uint8),
            lambda o: np.array([255, 0], np.uint8),
            "diverged",
        ),
        (lambda o: np.array([True]), lambda o: np.array([False]), "diverged"),
        (lambda o: o * np.nan, lambda o: o * np.nan, "exact"),
        (lambda o: o * np.nan, lambda o: o, "diverged"),
        (lambda o: [np.inf, 1.0], lambda o: [np.inf, 1 + 1e-9], "close"),
        (lambda o: o, lambda o: np.stack([o, o]), "diverged"),
        (torch.tensor, lambda o: torch.tensor(o + 1e-9), "close"),
    ],
)
def test_a_tolerance(recorded, replayed, verdict):
    tape = rolled(Odd(see=recorded), observations="full")
    report = twopass.verify(tape, env=odd(see=replayed), rtol=1e-6, atol=1e-8)
    assert report.verdict == verdict


@pytest.mark.parametrize(
    ("recorded", "replayed", "apart"),
    [
        (np.array([np.inf, 1.0]), np.array([np.inf, 3.0]), 2.0),
        (np.array([np.inf]), np.array([-np.inf]), np.inf),
        (np.ones(1), np.ones(1, np.float32), 0.0),
        (np.ones(1), torch.ones(1), 0.0),
        (b"ab", b"ac", None),
        (np.array([1j]), np.array([2j]), None),
        (np.array(["2020"], "M8[Y]"), np.array(["2021"], "M8[Y]"), None),
        (None, np.ones(1), None),
    ],
)
def test_a_divergence_says_what_differs_as_json(recorded, replayed, apart):
    tape = rolled(Odd(see=lambda o: recorded), observations="full")
    report = twopass.verify(tape, env=odd(see=lambda o: replayed))
    found = divergence(report)
    assert (found.step, found.field, found.error) == (0, "observation", apart)
    assert str(found.recorded) != str(found.replayed)
    json.dumps(report.to_dict(), allow_nan=False)


@pytest.mark.parametrize("tolerance", [-1, "x", float("nan"), None])
def test_a_tolerance_is_a_number_from_0_on(tolerance):
    tape = rolled(Base(), steps=1)
    with pytest.raises(UnsupportedValueError, match="rtol"):
        twopass.verify(tape, env=Base, rtol=tolerance)


def test_a_tolerance_for_digests_gets_a_hint():
    report = twopass.verify(rolled(Base()), env=odd(see=lambda o: o + 1e-9), rtol=1e-6)
    assert any('observations="full"' in hint for hint in report.hints)


class Fails(CounterEnv):
    """Raise at one step of its life; at 0 in the reset."""

    at = 0

    def reset(self, **kwargs):
        if not self.at:
            raise RuntimeError("lost")
        return super().reset(**kwargs)

    def step(self, action):
        if self.steps + 1 == self.at:
            raise RuntimeError("lost")
        return super().step(action)


def play_by_hand(player):
    player.reset()
    for _ in range(player.tape[0].length):
        player.step(None)


@pytest.mark.parametrize("at", [0, 1, 4])
def test_what_an_environment_raises_is_a_divergence_of_its_step(at, monkeypatch):
    monkeypatch.setattr(Fails, "at", at)
    tape = rolled(CounterEnv())
    whole = divergence(twopass.verify(tape, env=Fails))
    player = twopass.TapePlayback(Fails(), tape)
    with pytest.raises(RuntimeError, match="lost"):
        play_by_hand(player)
    for found in (whole, divergence(player.report)):
        assert (found.step, found.field) == (at, "error")


# Playback --------------------------------------------------------------------------


@pytest.mark.parametrize("episode", [True, 1.0, "1", None, 3, -4, np.float64(0)])
@pytest.mark.parametrize(
    "play", [twopass.TapePlayback, twopass.verify, twopass.PlaybackAgent]
)
def test_an_episode_that_the_tape_has_not(play, episode):
    tape = rolled(Base(), seeds=(1, 2, 3), steps=1)
    given = (Base(), tape) if play is twopass.TapePlayback else (tape,)
    with pytest.raises(PlaybackError, match="episode"):
        play(*given, episode=episode)


def test_an_agent_plays_on_from_an_episode_counted_from_the_end():
    tape = rolled(Base(), seeds=(1, 2, 3), steps=1)
    agent = twopass.PlaybackAgent(tape, -2)
    for number in (1, 2):
        agent.reset(np.zeros(1), {})
        assert agent.report.episode == number
    agent.close()
    assert agent.report == agent.reports[-1]


def test_a_film_goes_to_one_place():
    player = twopass.TapePlayback(CounterEnv("rgb_array"), rolled(CounterEnv()))
    with pytest.raises(PlaybackError, match="not both"):
        player.play("x.gif", encoder=open_encoder(None, fps=9, format="memory"))


def test_a_render_that_raises_draws_nothing_either():
    class Broken(Base):
        def render(self):
            self.np_random.random()
            raise RuntimeError("no display")

    player = twopass.TapePlayback(Broken("rgb_array"), rolled(Base()))
    player.reset()
    for _ in range(5):
        with pytest.raises(RuntimeError, match="no display"):
            player.render()
        player.step(None)
    before = player.np_random.bit_generator.state
    with pytest.raises(RuntimeError, match="no display"):
        player.render()
    assert player.np_random.bit_generator.state == before


@pytest.mark.parametrize("fps", [np.int64(20), np.float32(20), 20])
def test_a_rate_may_be_of_numpy(fps, tmp_path):
    make = functools.partial(CounterEnv, fps=fps)
    report = twopass.render(rolled(CounterEnv()), tmp_path / "x.gif", env=make)
    assert report.film is not None
    assert report.film["seconds"] == pytest.approx(6 / 20)


def test_a_preview_may_be_counted_by_numpy():
    two: Any = np.int64(2)
    report = twopass.verify(rolled(Base()), env=Base, steps=two)
    assert (report.replayed_length, report.to_dict()["preview"]) == (2, True)


def test_a_score_survives_an_environment_that_cannot_be_drawn(tmp_path):
    def make(render_mode):
        if render_mode:
            raise RuntimeError("no display")
        return CounterEnv()

    with pytest.raises(PlaybackError, match="no display") as caught:
        twopass.two_pass(make, lambda o: 0, seed=1, video=tmp_path / "x.gif")
    assert caught.value.result.metrics["total_reward"] == 10
    assert not list(tmp_path.iterdir())


# Sources and policies --------------------------------------------------------------


def sized(size=3, **kwargs):
    assert size == 3
    return CounterEnv(**kwargs)


def by_position(mode):
    return CounterEnv(mode)


def by_default(mode=None):
    return CounterEnv(mode)


def by_any_position(*modes):
    return CounterEnv(*modes)


def by_any_name(**kwargs):
    return CounterEnv(**kwargs)


def by_both(mode, **kwargs):
    return CounterEnv(mode, **kwargs)


def without():
    return CounterEnv()


@pytest.mark.parametrize(
    "make",
    [
        CounterEnv,
        sized,
        functools.partial(CounterEnv, length=4),
        functools.partial(CounterEnv, render_mode="rgb_array"),
        by_position,
        by_default,
        by_any_position,
        by_any_name,
        by_both,
    ],
)
def test_callables_that_take_a_render_mode(make, tmp_path):
    tape = twopass.record(make, lambda o: 0, seeds=[1])
    report = twopass.render(tape, tmp_path / "x.gif", env=make)
    assert (report.verdict, report.frames) == ("exact", tape[0].length + 1)


@pytest.mark.parametrize(
    "make",
    [
        without,
        lambda size=5: CounterEnv(length=size),
        lambda *, size=5: CounterEnv(length=size),
        lambda mode: None,
        "no_such_module:Nope-v0",
        "Nope-v0",
        5,
    ],
)
def test_a_source_that_makes_no_environment(make):
    with pytest.raises(PlaybackError):
        twopass.record(make, "random", seeds=[1])


class Model:
    def predict(self, observation):
        return 0


@pytest.mark.parametrize("policy", [Model, np.zeros(2), None, "rand", 3])
def test_what_is_no_policy(policy):
    with pytest.raises(UnsupportedValueError, match="policy"):
        twopass.record("CartPole-v1", policy, seeds=[1])


# Agents ----------------------------------------------------------------------------

SEEN = np.zeros(4)


def agent_of(path=None):
    return twopass.RecordingAgent(lambda o: 1, path, seeds=[1, 2])


def test_an_agent_that_was_not_reset_is_not_asked():
    agent = agent_of()
    with pytest.raises(gym.error.ResetNeeded):
        agent.step()
    with pytest.raises(PlaybackError, match="step before update"):
        agent.update(SEEN, 1.0, False, {})
    agent.reset(SEEN, {})
    agent.step()
    agent.update(SEEN, 1.0, False, {})
    with pytest.raises(PlaybackError, match="step before update"):
        agent.update(SEEN, 1.0, False, {})
    agent.close()
    assert [e.length for e in agent.tape] == [1]


def test_a_random_agent_needs_a_space_to_sample():
    with pytest.raises(UnsupportedValueError, match="pass env"):
        twopass.RecordingAgent("random")


@pytest.mark.parametrize("name", [None, "x.mcap"])
def test_a_closed_agent_records_nothing(name, tmp_path):
    agent = agent_of(name and tmp_path / name)
    agent.reset(SEEN, {})
    agent.close()
    with pytest.raises(TapeError, match="closed"):
        agent.reset(SEEN, {})
    with pytest.raises(gym.error.ResetNeeded):
        agent.step()
    assert (len(agent.tape), agent.tape.complete) == (1, True)


def test_an_agent_is_told_options_that_a_tape_can_hold():
    agent = agent_of()
    with pytest.raises(UnsupportedValueError, match=r"options\['goal'\]"):
        agent.expect(seed=1, options={"goal": object()})


def test_an_agent_keeps_a_reward_as_it_was_and_needs_no_info():
    agent, reward = agent_of(), np.zeros(())
    agent.reset(SEEN, None)
    for step in range(3):
        agent.step()
        reward[...] = step
        agent.update(SEEN, reward, step == 2, None)
    agent.close()
    assert agent.tape[0].rewards.tolist() == [0, 1, 2]
    assert agent.tape[0].outcome == "done"


class TestAFilmAndItsTape:
    """A film never takes the place of the tape that it is made of."""

    def test_render_refuses_the_tape_itself(self, tmp_path):
        path = tmp_path / "run.mcap"
        tape = twopass.record("CartPole-v1", "random", seeds=[1], path=path)
        before = path.read_bytes()
        with pytest.raises(twopass.errors.EncoderError, match="the tape itself"):
            twopass.render(tape, path, format="gif", overwrite=True)
        link = tmp_path / "link.gif"
        link.symlink_to(path)
        with pytest.raises(twopass.errors.EncoderError, match="the tape itself"):
            twopass.render(path, link, overwrite=True)
        assert path.read_bytes() == before

    def test_two_pass_refuses_one_name_for_both_before_pass_one(self, tmp_path):
        asked = []

        def policy(observation):
            asked.append(observation)
            return 1

        with pytest.raises(twopass.errors.EncoderError, match="the tape itself"):
            twopass.two_pass(
                "CartPole-v1",
                policy,
                path=tmp_path / "same.gif",
                video=tmp_path / "same.gif",
                overwrite=True,
            )
        assert asked == []


@pytest.mark.parametrize(
    "changed",
    [{"kwargs": {"no_such_argument": 1}}, {"render_mode": ["x"], "kwargs": {"a": 1}}],
)
def test_an_environment_that_cannot_be_made_is_a_playback_error(changed):
    """A tape of another version, or one that nobody recorded."""
    tape = twopass.record("CartPole-v1", "random", seeds=[1])
    forged = {**tape.fingerprint, **changed}
    header = dataclasses.replace(tape.header, fingerprint=forged)
    with pytest.raises(twopass.errors.PlaybackError, match="pass env"):
        twopass.verify(dataclasses.replace(tape, header=header))


def test_a_render_mode_that_is_no_text_is_none():
    tape = twopass.record("CartPole-v1", "random", seeds=[1])
    forged = {**tape.fingerprint, "render_mode": ["x"]}
    header = dataclasses.replace(tape.header, fingerprint=forged)
    report = twopass.verify(dataclasses.replace(tape, header=header))
    assert report.verdict == "exact"


def test_two_pass_takes_the_options_of_both_passes(tmp_path):
    result = twopass.two_pass(
        "CartPole-v1",
        "random",
        seed=1,
        video=tmp_path / "run.gif",
        steps=5,
        fps=10,
        on_divergence="raise",
        history="alone",
    )
    assert result.report is not None
    assert (result.report.preview, result.report.frames) == (True, 6)
    assert (tmp_path / "run.preview.gif").exists()


def test_an_agent_that_was_told_no_seed_says_so():
    env = gym.make("CartPole-v1")
    agent = twopass.RecordingAgent(lambda observation: 1, env=env)
    agent.reset(*env.reset(seed=4))
    observation, reward, *_, info = env.step(agent.step())
    agent.update(observation, reward, False, info)
    agent.close()
    report = twopass.verify(agent.tape)
    assert report.verdict == "diverged"
    assert "expect()" in report.hints[0]


def test_what_is_not_installed_is_no_divergence(tmp_path):
    class Drawn(CounterEnv):
        def reset(self, *, seed=None, options=None):
            if self.render_mode is not None:
                raise twopass.errors.MissingDependencyError("pygame", None, "Drawing")
            return super().reset(seed=seed, options=options)

    tape = twopass.record(Drawn, "random", seeds=[1], max_steps=3)
    with pytest.raises(
        twopass.errors.MissingDependencyError, match="pip install pygame"
    ):
        twopass.render(tape, tmp_path / "out.gif", env=Drawn)
    assert list(tmp_path.iterdir()) == []
    assert twopass.verify(tape, env=Drawn).verdict == "exact"
