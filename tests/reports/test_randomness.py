"""A replay differs because a generator is not where it was."""

from __future__ import annotations

import functools
import random

import numpy as np
import pytest

import twopass
from twopass.testing.hazards import Base, Ctor, Glob, RRng, SeedInInit


def _global_state():
    legacy = np.random.get_state(legacy=True)  # noqa: NPY002 -- what is tested
    return random.getstate(), repr([np.asarray(part).tolist() for part in legacy])


def _set_global_state(python, legacy):
    random.setstate(python)
    np.random.set_state(legacy)  # noqa: NPY002 -- what is tested


@pytest.fixture(autouse=True)
def _other_global_state():
    """Start where no test and no plugin has put the generators."""
    own = np.random.RandomState().get_state(legacy=True)
    _set_global_state(random.Random(random.SystemRandom().random()).getstate(), own)


# https://github.com/MaximilianB2/pc-gym/issues/44
@pytest.mark.parametrize("episode", [0, 1, 2])
def test_noise_from_global_generators_is_replayed(push, tmp_path, episode):
    """A seed is accepted, and the noise comes from the module's generators."""
    tape = twopass.record(Glob, push, seeds=[1, 1, None])
    assert tape[0].rewards.tolist() != tape[1].rewards.tolist()
    report = twopass.verify(tape, env=Glob, episode=episode)
    film = twopass.render(tape, tmp_path / "a.gif", env=Glob, episode=episode)
    assert report.verdict == film.verdict == "exact"
    assert report.plan == film.plan == "alone"


# https://github.com/MaximilianB2/pc-gym/issues/44
def test_noise_from_global_generators_is_replayed_in_any_environment(taped):
    """The same around an environment made outside, played in another and in itself."""
    env = Glob()
    tape = taped(env)
    for played in (Glob(), env):
        assert twopass.TapePlayback(played, tape).play().verdict == "exact"


# https://github.com/MaximilianB2/pc-gym/issues/44
def test_recording_leaves_the_global_generators_to_the_environment(push, roll):
    """The recorder neither seeds nor draws: the run is the one without it."""
    before = _global_state()
    twopass.record(Base, push, seeds=[1, None])
    assert _global_state() == before
    start = random.getstate(), np.random.get_state(legacy=True)  # noqa: NPY002 -- what is tested
    bare = roll(Glob(), push, seed=1)
    after = _global_state()
    _set_global_state(*start)
    tape = twopass.record(Glob, push, seeds=[1])
    assert tape[0].rewards.tolist() == bare.rewards
    assert _global_state() == after


# https://github.com/MaximilianB2/pc-gym/issues/44
@pytest.mark.parametrize("cls", [Base, Glob, Ctor])
def test_playback_gives_the_global_generators_back(cls, push, tmp_path):
    """The caller's own random numbers go on as if nothing had been replayed."""
    tape = twopass.record(cls, push, seeds=[1, 2])
    before = _global_state()
    twopass.verify(tape, env=cls)
    twopass.render(tape, tmp_path / "a.gif", env=cls, episode=1)
    player = twopass.TapePlayback(cls("rgb_array"), tape)
    player.play(tmp_path / "b.gif")
    player.reset()
    player.step(None)
    player.render()
    assert _global_state() == before


# https://github.com/MaximilianB2/pc-gym/issues/44
def test_the_global_generators_come_back_from_a_crash_too(push, tmp_path):
    """The same when the environment raises in the middle of a film."""

    class Crashing(Glob):
        def _draw(self):
            raise RuntimeError("no GPU")

    tape = twopass.record(Crashing, push, seeds=[1])
    before = _global_state()
    with pytest.raises(twopass.errors.PlaybackError, match="no GPU"):
        twopass.render(tape, tmp_path / "a.gif", env=Crashing)
    assert _global_state() == before


# https://github.com/MaximilianB2/pc-gym/issues/44
def test_a_policy_that_disturbs_the_global_generators_is_hinted_at():
    """Policy and environment share the generator, and the policy is not replayed."""

    def policy(observation):
        return np.array([random.uniform(-1, 1)], np.float32)

    tape = twopass.record(Glob, policy, seeds=[1])
    report = twopass.verify(tape, env=Glob)
    assert (report.verdict, report.blame) == ("diverged", "environment")
    assert any("global RNG" in hint for hint in report.hints)


# https://github.com/isaac-sim/IsaacLab/issues/904
def test_a_constructor_that_randomises_is_replayed(push, tmp_path):
    """Randomisation before the seed is set: twopass makes the environment itself."""
    gains = [twopass.record(Ctor, push, seeds=[1])[0].rewards[5] for _ in range(2)]
    assert gains[0] != gains[1]
    tape = twopass.record(Ctor, push, seeds=[1], path=tmp_path / "a.mcap")
    assert twopass.verify(tape, env=Ctor).verdict == "exact"
    report = twopass.render(tmp_path / "a.mcap", tmp_path / "a.gif", env=Ctor)
    assert report.verdict == "exact"


# https://github.com/isaac-sim/IsaacLab/issues/904
def test_a_constructor_that_nobody_saw_is_named_as_a_cause(taped):
    """The same around an environment made outside: exact there, flagged elsewhere."""
    env = Ctor()
    tape = taped(env)
    assert tape.construction is None
    assert twopass.TapePlayback(env, tape).play().verdict == "exact"
    report = twopass.verify(tape, env=Ctor)
    assert report.divergence is not None
    assert (report.divergence.step, report.blame) == (1, "environment")
    assert any("construction not captured" in hint for hint in report.hints)


# https://github.com/isaac-sim/IsaacLab/issues/904
def test_a_source_may_pass_the_constructors_seed_on(taped):
    """The same where the constructor takes a seed, kept with the tape."""
    tape = taped(SeedInInit(chance=11), metadata={"chance": 11})
    chance = tape.header.metadata["chance"]
    right = functools.partial(SeedInInit, chance=chance)
    wrong = functools.partial(SeedInInit, chance=chance + 1)
    assert twopass.verify(tape, env=right).verdict == "exact"
    assert twopass.verify(tape, env=wrong).verdict == "diverged"


# https://github.com/markub3327/flappy-bird-gymnasium/pull/6
@pytest.mark.parametrize("first", [3, 10])
def test_an_unseeded_second_episode_is_exact_alone(roll, push, first, tmp_path):
    """The generator goes on from an episode of any length into the next reset."""
    env = twopass.ReplayRecorder(RRng(), tmp_path / "a.mcap")
    roll(env, push, seed=5, steps=first)
    roll(env, push)
    env.close()
    tape = twopass.Tape.load(tmp_path / "a.mcap")
    assert [(e.seed, e.length) for e in tape] == [(5, first), (None, 30)]
    report = twopass.verify(tape, env=RRng, episode=1, history="alone")
    assert report.verdict == "exact"
    alone = twopass.TapePlayback(RRng("rgb_array"), tape, episode=1)
    assert alone.play(tmp_path / "a.gif").verdict == "exact"


# https://github.com/markub3327/flappy-bird-gymnasium/pull/6
def test_the_length_of_the_first_episode_changes_the_second(roll, push):
    """The check of the check: without the generator's state it would be flagged."""
    env = RRng()
    seconds = []
    for steps in (3, 10):
        roll(env, push, seed=5, steps=steps)
        seconds.append(roll(env, push).rewards)
    assert seconds[0] != seconds[1]


# https://github.com/markub3327/flappy-bird-gymnasium/pull/6
def test_an_injected_seed_is_in_the_tape(roll, push):
    """The other choice: every unseeded reset gets a seed of its own."""
    env = twopass.ReplayRecorder(RRng(), unseeded="inject")
    for _ in range(2):
        roll(env, push)
    one, two = (episode.seed for episode in env.tape)
    assert one != two
    for index, seed in enumerate((one, two)):
        assert roll(RRng(), push, seed=seed).rewards == env.tape[index].rewards.tolist()
        assert twopass.verify(env.tape, env=RRng, episode=index).verdict == "exact"


# https://github.com/markub3327/flappy-bird-gymnasium/pull/6
def test_unseeded_resets_can_be_refused(roll, push):
    """A harness that wants every episode to have a seed hears it at once."""
    env = twopass.ReplayRecorder(RRng(), unseeded="error")
    with pytest.raises(twopass.errors.UnsupportedValueError, match="seed"):
        env.reset()
    assert len(env.tape) == 0
    assert roll(env, push, seed=0).ends == (False, True)
