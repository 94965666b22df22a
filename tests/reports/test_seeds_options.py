"""Seeds and options that are lost, changed, or refused without a reason."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from mcap.reader import make_reader

import twopass
from twopass.errors import UnsupportedValueError
from twopass.testing.hazards import Base, Opt, RRng


class Untouched(Base):
    """Must not be reset."""

    def reset(self, **passed):
        raise AssertionError("reset")


# https://github.com/galilai-group/stable-worldmodel/issues/195
def test_an_unseeded_episode_is_replayed_from_its_file(push, tmp_path):
    """The environment's own seed has 128 bits, and overflows whatever stores it."""
    env = RRng()
    recorder = twopass.ReplayRecorder(env, tmp_path / "a.mcap")
    recorder.reset()
    own = env.np_random_seed
    assert own is not None
    assert own >= 2**64
    for _ in range(30):
        recorder.step(np.zeros(1, np.float32))
    recorder.close()
    tape = twopass.Tape.load(tmp_path / "a.mcap")
    assert tape[0].seed is None
    played = RRng()
    assert twopass.TapePlayback(played, tape).play().verdict == "exact"
    assert played.np_random_seed == own


# https://github.com/galilai-group/stable-worldmodel/issues/195
@pytest.mark.parametrize("seed", [2**31, 2**63, 2**64, 2**128 - 1])
def test_a_seed_of_any_size_survives_its_file(push, tmp_path, seed):
    """The same for seeds that somebody passes on."""
    twopass.record(RRng, push, seeds=[seed], path=tmp_path / "a.mcap")
    tape = twopass.Tape.load(tmp_path / "a.mcap")
    assert tape[0].seed == seed
    assert twopass.verify(tape, env=RRng).verdict == "exact"


# https://github.com/openai/gym/issues/2210
@pytest.mark.parametrize(
    "seed", [np.int64(3), np.uint32(3), np.uint8(3), np.int64(0)], ids=repr
)
def test_a_numpy_seed_is_a_seed_wherever_the_environment_takes_it(push, seed):
    """A NumPy integer is rejected with a message that shows an innocent number."""

    class Tolerant(Base):
        def reset(self, *, seed=None, options=None):
            self.got = seed
            return super().reset(
                seed=None if seed is None else int(seed), options=options
            )

    env = Tolerant()
    recorder = twopass.ReplayRecorder(env)
    recorder.reset(seed=seed)
    assert env.got is seed
    assert (type(recorder.tape[0].seed), recorder.tape[0].seed) == (int, int(seed))
    assert twopass.verify(recorder.tape, env=Base).verdict == "exact"


# https://github.com/openai/gym/issues/3127
@pytest.mark.parametrize(
    "seed", [True, np.bool_(True), -1, np.int64(-1), 3.0, "3", [3]], ids=repr
)
def test_what_is_no_seed_is_refused_by_name(seed):
    """Booleans, floats and negative numbers: nothing is reset, and nothing recorded."""
    recorder = twopass.ReplayRecorder(Untouched())
    with pytest.raises(UnsupportedValueError, match="seed=") as caught:
        recorder.reset(seed=seed)
    assert repr(seed) in str(caught.value)
    assert len(recorder.tape) == 0


# https://github.com/galilai-group/stable-worldmodel/issues/195
def test_the_json_of_a_tape_is_plain(push, tmp_path):
    """The same: every reader of JSON gets every digit of a seed."""
    path = tmp_path / "a.mcap"
    twopass.record(RRng, push, seeds=[None, 0, 2**127], path=path)
    resets = []
    with path.open("rb") as stream:
        for _, channel, message in make_reader(stream).iter_messages():
            if channel.topic != "/steps":
                fields = json.loads(message.data, parse_float=_finite)
                resets += [fields] if channel.topic == "/reset" else []
    assert [reset["seed"] for reset in resets] == [None, "0", str(2**127)]
    assert _largest(resets) <= 2**53


def _finite(text):
    value = float(text)
    assert np.isfinite(value)
    return value


def _largest(value):
    if isinstance(value, dict):
        return max(map(_largest, value.values()), default=0)
    if isinstance(value, list):
        return max(map(_largest, value), default=0)
    return abs(value) if type(value) is int else 0


# https://github.com/Farama-Foundation/Minari/pull/172
def test_seed_zero_is_a_seed(push, tmp_path, roll):
    """Seed 0 is stored as "no seed", by a test of truth."""
    twopass.record(RRng, push, seeds=[0], path=tmp_path / "a.mcap")
    tape = twopass.Tape.load(tmp_path / "a.mcap")
    assert tape[0].seed == 0
    assert tape[0].seed is not None
    assert tape[0].reset.generator is None
    assert twopass.verify(tape, env=RRng).verdict == "exact"
    assert roll(RRng(), push, seed=0).rewards == tape[0].rewards.tolist()
    injected = twopass.ReplayRecorder(RRng(), unseeded="inject")
    injected.reset(seed=0)
    assert injected.tape[0].seed == 0


# https://github.com/Farama-Foundation/Minari/pull/172
def test_what_is_empty_is_not_what_is_missing(tmp_path):
    """Empty options and empty texts are kept apart from ``None``."""
    env = twopass.ReplayRecorder(
        Opt(), tmp_path / "a.mcap", metadata={"episode_id": "", "note": None}
    )
    env.reset(seed=1, options={})
    env.reset(seed=1, options=None)
    env.reset(seed=1)
    env.close()
    tape = twopass.Tape.load(tmp_path / "a.mcap")
    assert [e.options for e in tape] == [{}, None, None]
    assert tape.header.metadata == {"episode_id": "", "note": None}
    played = Opt()
    for index in range(3):
        twopass.TapePlayback(played, tape, index).reset()
    assert played.seen == [{}, None, None]


OPTIONS = {
    "goal": np.array([0.5, 0.25]),
    "n": np.int64(2),
    "mask": None,
    "half": np.float16(0.1),
    "nested": ({"deep": [1, 2.5, "x", b"y"]}, True),
    7: "a key that is no text",
}


def _same(one, two):
    if isinstance(one, dict):
        return list(one) == list(two) and all(_same(one[k], two[k]) for k in one)
    if isinstance(one, tuple | list):
        return len(one) == len(two) and all(map(_same, one, two))
    if type(one) is not type(two) or getattr(one, "dtype", 0) != getattr(
        two, "dtype", 0
    ):
        return False
    return np.array_equal(one, two) if isinstance(one, np.ndarray) else one == two


# https://github.com/DLR-RM/stable-baselines3/issues/1790
def test_options_reach_both_environments_as_they_were(push, roll, tmp_path):
    """Reset options are ignored, or arrive in another type."""
    env = Opt()
    recorder = twopass.ReplayRecorder(env, tmp_path / "a.mcap")
    bare = roll(Opt(), push, seed=7, options=OPTIONS)
    seen = roll(recorder, push, seed=7, options=OPTIONS)
    recorder.close()
    assert env.seen[0] is OPTIONS
    assert seen.rewards == bare.rewards != roll(Opt(), push, seed=7).rewards
    tape = twopass.Tape.load(tmp_path / "a.mcap")
    assert _same(tape[0].options, OPTIONS)
    played = Opt()
    assert twopass.TapePlayback(played, tape).play().verdict == "exact"
    assert _same(played.seen[0], OPTIONS)


# https://github.com/DLR-RM/stable-baselines3/issues/1790
def test_changing_the_options_later_does_not_change_the_tape(push, roll):
    """The caller goes on using the dictionary, and the environment rewrites it."""

    class Rewriting(Opt):
        def _start(self, options):
            super()._start(options)
            options["goal"] += 1.0
            options["new"] = 1

    options: dict[str, Any] = {"goal": np.array([0.5]), "list": [1]}
    recorder = twopass.ReplayRecorder(Rewriting())
    roll(recorder, push, seed=7, options=options)
    options["goal"][:] = 9
    options["list"].append(2)
    assert _same(recorder.tape[0].options, {"goal": np.array([0.5]), "list": [1]})
    for _ in range(2):
        assert twopass.TapePlayback(Rewriting(), recorder.tape).play().verdict == (
            "exact"
        )


# https://github.com/bryanoliveira/sliding-puzzles-gym/issues/4
@pytest.mark.parametrize(
    "passed",
    [{}, {"seed": 3}, {"options": None}, {"seed": None, "options": {"a": 1}}],
    ids=repr,
)
def test_only_what_was_passed_is_passed_on(passed):
    """An environment crashes when a wrapper passes ``options=None`` by itself."""

    class Strict(gym.Wrapper):
        def reset(self, **found):
            calls.append(found)
            return super().reset(**found)

    calls: list[dict[str, object]] = []
    recorder = twopass.ReplayRecorder(Strict(Base()))
    recorder.reset(**passed)
    recorder.step(np.zeros(1, np.float32))
    report = twopass.TapePlayback(Strict(Base()), recorder.tape).play()
    assert report.verdict == "exact"
    assert calls == [passed, passed]


# https://github.com/mani-skill/ManiSkill/issues/1456
def test_options_that_cannot_be_stored_are_refused_before_the_reset():
    """Options that fail only when the data set is saved."""
    recorder = twopass.ReplayRecorder(Untouched())
    with pytest.raises(UnsupportedValueError) as caught:
        recorder.reset(seed=1, options={"goal": [0, object()]})
    assert caught.value.tree_path == "options['goal'][1]"
    assert len(recorder.tape) == 0


# https://github.com/DLR-RM/stable-baselines3/issues/1790
def test_options_of_a_recording_reach_every_episode(push, tmp_path):
    """Options are not forwarded on automatic resets."""
    tape = twopass.record(
        Opt, push, seeds=[1, 2], options={"goal": 3.0}, path=tmp_path / "a.mcap"
    )
    assert [episode.options for episode in tape] == [{"goal": 3.0}] * 2
    reports = [twopass.verify(tape, env=Opt, episode=index) for index in range(2)]
    assert {report.verdict for report in reports} == {"exact"}
