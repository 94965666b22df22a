"""A replay differs because the actions are not those that were sent."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import ClipAction, RescaleAction

import twopass
from twopass.errors import PlaybackError
from twopass.testing.hazards import Base, Chaos, Mut, SeedInInit, StickySeeded


# https://github.com/mees/calvin/issues/29
def test_the_tape_holds_an_action_as_it_was_before_the_step():
    """``step`` rewrites the array that it is given."""
    env = twopass.ReplayRecorder(Mut())
    env.reset(seed=7)
    for _ in range(3):
        env.step(np.array([0.8], np.float32))
    assert np.asarray(env.tape[0].actions) == pytest.approx(np.float32(0.8))


# https://github.com/mees/calvin/issues/29
def test_the_callers_array_is_handed_on_as_it_is():
    """What an environment does to the array, it does with and without the recorder."""
    action = np.array([0.8], np.float32)
    env = twopass.ReplayRecorder(Mut())
    env.reset(seed=7)
    for expected in (0.8, 0.4, 0.2):
        assert action[0] == np.float32(expected)
        env.step(action)
    assert np.asarray(env.tape[0].actions).ravel() == pytest.approx([0.8, 0.4, 0.2])


# https://github.com/mees/calvin/issues/29
def test_a_tape_is_not_used_up_by_playing_it(push):
    """The same: playback gives each environment a copy of its own."""
    tape = twopass.record(Mut, push, seeds=[7])
    before = np.asarray(tape[0].actions).copy()
    reports = [twopass.TapePlayback(Mut(), tape).play() for _ in range(2)]
    assert [report.verdict for report in reports] == ["exact", "exact"]
    assert np.array_equal(np.asarray(tape[0].actions), before)


def _chaotic(observation):
    return np.array([np.sin(12.9898 * observation[0]) ** 2])


# https://github.com/stanfordnmbl/osim-rl/issues/52
def test_a_chaotic_episode_is_exact_after_a_round_trip_through_a_file(tmp_path, roll):
    """Actions written as text with too few digits, or as float32."""
    sent = []

    def policy(observation):
        sent.append(_chaotic(observation))
        return sent[-1].copy()

    twopass.record(Chaos, policy, seeds=[0], path=tmp_path / "a.mcap")
    twopass.Tape.load(tmp_path / "a.mcap").save(tmp_path / "b.mcap")
    tape = twopass.Tape.load(tmp_path / "b.mcap")
    assert [a.tobytes() for a in tape[0].actions] == [a.tobytes() for a in sent]
    assert tape[0].actions[0].dtype == np.float64
    assert twopass.verify(tape, env=Chaos).verdict == "exact"


# https://github.com/stanfordnmbl/osim-rl/issues/52
@pytest.mark.parametrize(
    "lossy", [np.float32, lambda action: np.array([float(f"{action[0]:.12g}")])]
)
def test_the_chaotic_episode_would_show_the_loss_of_a_digit(lossy, roll, push):
    """The check of the check: what the test above would see."""
    exact = twopass.record(Chaos, _chaotic, seeds=[0])
    actions = iter(exact[0].actions)
    lost = roll(Chaos(), lambda observation: lossy(next(actions)), seed=0)
    assert abs(lost.rewards[-1] - exact[0].rewards[-1]) > 0.1


# https://github.com/nicklashansen/tdmpc2/issues/81
@pytest.mark.parametrize(
    "action",
    [
        0.1,
        1,
        True,
        np.float16(0.1),
        np.float64(0.1),
        np.int8(1),
        np.array([0.1], np.float64),
        np.array([0.1], ">f4"),
        np.array(0.1, np.float32),
        [0.1],
        (0.1,),
    ],
    ids=repr,
)
def test_an_action_keeps_its_kind_and_dtype(action, tmp_path):
    """Stored actions are cast to the space's dtype, and drift."""

    class Seeing(Base):
        def __init__(self, render_mode=None):
            super().__init__(render_mode)
            self.got = []

        def _move(self, action):
            self.got.append(action)
            super()._move(action)

    tape = twopass.record(
        Seeing, lambda observation: action, seeds=[7], path=tmp_path / "a.mcap"
    )
    env = Seeing()
    assert twopass.TapePlayback(env, tape).play().verdict == "exact"
    for got in env.got:
        assert type(got) is type(action)
        assert getattr(got, "dtype", None) == getattr(action, "dtype", None)
        assert np.shape(got) == np.shape(action)
        assert np.array_equal(got, action)


# https://github.com/openai/gym/issues/349
def test_sticky_actions_from_the_seed_are_exact(push):
    """An emulator repeats actions at random: the tape holds those sent."""
    sent = iter(np.linspace(-1, 1, 30, dtype=np.float32))
    env = StickySeeded()
    recorder = twopass.ReplayRecorder(env)
    recorder.reset(seed=7)
    for value in sent:
        recorder.step(np.array([value]))
    tape = recorder.tape
    assert np.array_equal(
        np.asarray(tape[0].actions).ravel(), np.linspace(-1, 1, 30, dtype=np.float32)
    )
    assert not np.array_equal(np.asarray(tape[0].actions), env.executed)
    assert twopass.verify(tape, env=StickySeeded).verdict == "exact"


# https://github.com/openai/gym/issues/349
def test_sticky_actions_from_a_generator_of_the_constructor_are_flagged(taped):
    """The same where no seed reaches the generator, and nobody saw it made."""
    env = SeedInInit()
    tape = taped(env)
    assert twopass.TapePlayback(env, tape).play().verdict == "diverged"
    report = twopass.verify(tape, env=SeedInInit)
    assert (report.verdict, report.blame) == ("diverged", "environment")
    assert any("construction" in hint for hint in report.hints)


# https://github.com/openai/gym/issues/349
def test_sticky_actions_are_exact_when_the_construction_was_recorded(push):
    """The same, made by twopass: every episode of the session can be filmed."""
    tape = twopass.record(SeedInInit, push, seeds=[1, 2])
    reports = [twopass.verify(tape, env=SeedInInit, episode=n) for n in range(2)]
    assert [report.verdict for report in reports] == ["exact", "exact"]
    assert [report.plan for report in reports] == ["alone", "session"]


def _wrapped(render_mode=None):
    return ClipAction(RescaleAction(Base(render_mode), np.float32(-4), np.float32(4)))


# https://github.com/strands-labs/robots/pull/1100
def test_another_action_space_is_named_before_the_first_step(taped, events):
    """Units or limits of the replay's robot are not those of the recording's."""
    tape = taped(_wrapped(), lambda observation: np.array([3.0], np.float32))
    events.clear()
    player = twopass.TapePlayback(Base(), tape)
    fields = {entry["field"] for entry in events}
    assert {"wrappers", "action_space.repr"} <= fields
    assert {mismatch.field for mismatch in player.mismatches} == fields
    assert player.play().verdict == "diverged"


# https://github.com/strands-labs/robots/pull/1100
@pytest.mark.parametrize(
    "space",
    [gym.spaces.Box(-1, 1, (2,), np.float32), gym.spaces.Discrete(3)],
    ids=["shape", "type"],
)
def test_a_space_that_cannot_take_the_actions_is_refused(taped, space):
    """The same, where not one action could be sent."""

    class Other(Base):
        action_space = space

        def step(self, action):
            raise AssertionError("stepped")

    tape = taped(Base())
    with pytest.raises(PlaybackError, match="cannot take"):
        twopass.TapePlayback(Other(), tape)
    with pytest.raises(PlaybackError, match="cannot take"):
        twopass.verify(tape, env=Other)


# https://github.com/strands-labs/robots/pull/1100
def test_an_action_outside_the_space_is_replayed_unclipped():
    """What pass 1 accepted, pass 2 sends."""
    tape = twopass.record(
        Base, lambda observation: np.array([5.0], np.float32), seeds=[7]
    )
    assert np.asarray(tape[0].actions).max() == 5
    assert twopass.verify(tape, env=Base).verdict == "exact"
