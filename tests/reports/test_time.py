"""Scores that depend on how long something took, or on which loop made them."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import twopass
from twopass.testing.hazards import (
    Base,
    Gated,
    ManualClock,
    SlowRender,
    WallClock,
)


@pytest.fixture
def clock(monkeypatch):
    """One clock for policy, environment and twopass; only ``sleep`` advances it."""
    clock = ManualClock()
    modules = [sys.modules[name] for name in sys.modules if name.startswith("twopass")]
    for real, manual in (
        (time.perf_counter, clock),
        (time.perf_counter_ns, clock.nanoseconds),
    ):
        for module in modules:
            for name in [n for n, value in vars(module).items() if value is real]:
                monkeypatch.setattr(module, name, manual)
        monkeypatch.setattr(time, real.__name__, manual)
    return clock


@pytest.fixture
def timed(clock):
    """Return a policy that watches the clock, and a source that spends it."""

    def make(cost):
        # 4 ms never add up to the 50 ms of a plan, so that rounding plays no part.
        policy = Gated(think=0.004, clock=clock, sleep=clock.sleep)
        source = lambda render_mode=None: SlowRender(  # noqa: E731
            render_mode, cost=cost, sleep=clock.sleep
        )
        return policy, source

    return make


# https://github.com/Unity-Technologies/obstacle-tower-source/issues/13
def test_physics_on_the_wall_clock_are_flagged_and_filmed(tmp_path, decode):
    """Physics depend on the time scale at which they run."""
    clock = ManualClock()
    source = lambda render_mode=None: WallClock(render_mode, clock=clock)  # noqa: E731

    def policy(observation):
        clock.sleep(0.005)
        return np.zeros(1, np.float32)

    tape = twopass.record(source, policy, seeds=[7])
    report = twopass.render(tape, tmp_path / "a.gif", env=source)
    assert (report.verdict, report.blame) == ("diverged", "environment")
    assert report.divergence is not None
    assert report.divergence.step == 1
    assert any("wall clock" in hint for hint in report.hints)
    assert report.frames == len(decode(tmp_path / "a.gif").frames) == 31


# https://github.com/Unity-Technologies/obstacle-tower-source/issues/13
def test_physics_on_a_real_clock_are_flagged(push):
    """The same with the clock that everybody has."""
    tape = twopass.record(WallClock, push, seeds=[7])
    report = twopass.verify(tape, env=WallClock)
    assert (report.verdict, report.blame) == ("diverged", "environment")
    assert report.replayed_length == 30


# https://github.com/huggingface/lerobot/pull/272
def test_a_loop_that_renders_makes_a_policy_with_a_timeout_act_differently(timed, roll):
    """The check of the check: what rendering while scoring does to this policy."""
    policy, source = timed(0.03)
    bare = roll(source(), policy, seed=7)
    inline, source = timed(0.03)
    env = source("rgb_array")

    def slowed(observation):
        env.render()
        return inline(observation)

    rendered = roll(env, slowed, seed=7)
    assert inline.plans > 2 * policy.plans
    assert rendered.total != bare.total


# https://github.com/huggingface/lerobot/pull/272
@pytest.mark.parametrize("cost", [0.0, 0.03, 60.0])
def test_the_score_is_that_of_the_unrendered_loop(timed, roll, tmp_path, cost):
    """A chunk policy with a time-out picks other actions when the loop is slower."""
    policy, source = timed(cost)
    bare = roll(source(), policy, seed=7)
    plans = policy.plans
    policy, source = timed(cost)
    result = twopass.two_pass(source, policy, seed=7, video=tmp_path / "a.gif")
    assert result.metrics["total_reward"] == bare.total
    assert result.tape[0].rewards.tolist() == bare.rewards
    assert (policy.plans, policy.calls) == (plans, result.tape[0].length)
    assert result.report is not None
    assert (result.report.verdict, result.report.frames) == ("exact", 31)


# https://github.com/huggingface/lerobot/pull/272
def test_the_reported_time_is_that_of_the_first_pass(timed, tmp_path):
    """Seconds of rendering and encoding are reported, but never as the policy's."""
    policy, source = timed(60.0)
    result = twopass.two_pass(source, policy, seed=7, video=tmp_path / "a.gif")
    assert result.metrics["seconds"] == {"policy": 0.12, "step": 0.0, "reset": 0.0}
    assert result.metrics["policy_ms"]["p50"] == pytest.approx(4.0)
    assert result.report is not None
    assert result.report.seconds["render"] == pytest.approx(31 * 60)
    assert result.report.seconds["step"] == result.report.seconds["reset"] == 0


# https://github.com/huggingface/lerobot/pull/272
def test_a_film_leaves_the_tape_as_it_is(tmp_path):
    """The same with real time: whatever pass 2 takes, the metrics are written."""
    policy = Gated(think=0.001)
    source = lambda render_mode=None: SlowRender(render_mode, cost=0.001)  # noqa: E731
    path = tmp_path / "run.mcap"
    result = twopass.two_pass(
        source, policy, seed=7, path=path, video=tmp_path / "a.gif"
    )
    before = path.read_bytes()
    assert policy.calls == result.tape[0].length
    assert result.report is not None
    assert result.report.verdict == "exact"
    assert result.report.seconds["render"] >= 31 * 0.001
    twopass.render(path, tmp_path / "b.gif", env=source)
    assert path.read_bytes() == before
    assert twopass.Tape.load(path)[0].metrics == result.metrics


class Sampling:
    """A policy that samples its actions from a generator of its own."""

    def __init__(self):
        self._generator = np.random.default_rng(0)

    def __call__(self, observation):
        noise = self._generator.normal(scale=0.1, size=1)
        return (noise - 0.1 * observation).astype(np.float32)


# https://github.com/hill-a/stable-baselines/issues/832
def test_scores_with_and_without_a_film_are_the_same_to_the_bit(tmp_path, roll):
    """The evaluation's score is far above what the visualised agent shows."""
    seeds = range(5)
    bare = twopass.record(Base, Sampling(), seeds=seeds)
    policy = Sampling()
    env = Base()
    plain = [roll(env, policy, seed=seed).total for seed in seeds]
    filmed = Sampling()
    tape = twopass.record(Base, filmed, seeds=seeds)
    for index in seeds:
        report = twopass.render(
            tape, tmp_path / f"{index}.gif", env=Base, episode=index
        )
        assert report.verdict == "exact"
    totals = [episode.metrics["total_reward"] for episode in tape]
    assert totals == [episode.metrics["total_reward"] for episode in bare] == plain


# https://github.com/DLR-RM/stable-baselines3/issues/1331
def test_the_tapes_metrics_are_those_of_the_replayed_steps(roll):
    """Sum, length and end in the tape are what pass 2 gets again."""
    tape = twopass.record(Base, Sampling(), seeds=range(3))
    for episode in tape:
        player = twopass.TapePlayback(Base(), tape, episode.index)
        again = roll(player, lambda observation: None)
        assert episode.metrics["total_reward"] == again.total
        assert episode.metrics["num_steps"] == len(again.rewards)
        last = (bool(episode.terminated[-1]), bool(episode.truncated[-1]))
        assert last == again.ends == (False, True)
