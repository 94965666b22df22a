"""A replay differs because it is another environment, machine or time limit."""

from __future__ import annotations

import dataclasses

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.wrappers import TimeLimit

import twopass
from twopass.testing.hazards import Base, WallClock


def _with_fingerprint(tape, **changed):
    fingerprint = {**tape.fingerprint, **changed}
    header = dataclasses.replace(tape.header, fingerprint=fingerprint)
    return dataclasses.replace(tape, header=header)


# https://github.com/Farama-Foundation/Minari/issues/301
def test_another_keyword_argument_is_named_before_the_first_step(
    registered, push, events
):
    """Actions of one variant of an environment are replayed in another."""
    tape = twopass.record(registered, push, seeds=[7])

    class Logged(gym.Wrapper):
        def reset(self, **passed):
            events.append({"event": "reset"})
            return super().reset(**passed)

    events.clear()
    player = twopass.TapePlayback(Logged(gym.make(registered, gain=2.0)), tape)
    player.play()
    names = [entry["event"] for entry in events]
    assert names.index("fingerprint_mismatch") < names.index("reset")
    named = {entry.get("field"): entry for entry in events}
    assert named["kwargs.gain"]["found"] == 2.0
    assert player.report.verdict == "diverged"


# https://github.com/Farama-Foundation/Minari/issues/301
def test_the_fingerprint_is_blamed_for_another_variant(registered, push):
    """The same through the functions: the hint names what is different."""
    tape = twopass.record(registered, push, seeds=[7])
    other = gym.spec(registered)
    other.kwargs = {"gain": 2.0}
    report = twopass.verify(tape, env=other)
    assert (report.verdict, report.blame) == ("diverged", "fingerprint")
    assert any("kwargs.gain" in hint for hint in report.hints)


# https://github.com/Farama-Foundation/Minari/issues/301
def test_a_render_mode_is_no_other_environment(registered, push, tmp_path, events):
    """Pass 2 draws and pass 1 does not: that alone is no warning."""
    tape = twopass.record(registered, push, seeds=[7])
    events.clear()
    report = twopass.render(tape, tmp_path / "a.gif")
    assert (report.verdict, report.mismatches) == ("exact", ())
    assert [e["event"] for e in events if e["log_level"] == "warning"] == []


# https://github.com/Farama-Foundation/Minari/issues/301
def test_the_tape_rebuilds_the_variant_that_it_recorded(registered, push, tmp_path):
    """Arguments are kept, so that nobody has to remember them."""
    spec = gym.spec(registered)
    spec.kwargs = {"gain": 2.0, "horizon": 12}
    twopass.record(spec, push, seeds=[7], path=tmp_path / "a.mcap")
    tape = twopass.Tape.load(tmp_path / "a.mcap")
    assert (tape.fingerprint["env_id"], tape[0].length) == (registered, 12)
    assert tape.fingerprint["kwargs"] == {"gain": 2.0, "horizon": 12}
    assert tape.fingerprint["versions"]["numpy"] == np.__version__
    assert twopass.verify(tape).verdict == "exact"


class Start(Base):
    """Begins elsewhere, as an environment that a script resets once more."""

    def _start(self, options):
        super()._start(options)
        self.x += 1


# https://github.com/ARISE-Initiative/robomimic/issues/40
@pytest.mark.parametrize("observations", ["digest", "full"])
def test_another_start_is_flagged_at_the_reset(push, observations):
    """The start state is not restored, or one script resets once more."""
    tape = twopass.record(Base, push, seeds=[7], observations=observations)
    report = twopass.verify(tape, env=Start)
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.field) == (0, "observation")
    if observations == "full":
        assert report.divergence.error == pytest.approx(1.0)


# https://github.com/Farama-Foundation/Minari/issues/301
@pytest.mark.parametrize(("horizon", "replayed"), [(20, 20), (40, None)])
def test_another_length_is_flagged_as_such(push, horizon, replayed, tmp_path):
    """The replayed episode ends before the tape does, or goes on after it."""
    tape = twopass.record(Base, push, seeds=[7])
    report = twopass.render(
        tape,
        tmp_path / "a.gif",
        env=lambda render_mode: Base(render_mode, horizon=horizon),
    )
    assert report.divergence is not None
    found = report.divergence
    assert (found.field, found.recorded, found.replayed) == ("length", 30, replayed)
    assert report.replayed_length == min(horizon, 30)
    assert report.frames == min(horizon, 30) + 1


# https://github.com/openai/gym/issues/410
@pytest.mark.parametrize(
    ("wrap", "source"),
    [
        (
            lambda env: twopass.ReplayRecorder(TimeLimit(env, 10)),
            lambda render_mode: TimeLimit(Base(render_mode), 10),
        ),
        (lambda env: TimeLimit(twopass.ReplayRecorder(env), 10), Base),
    ],
    ids=["outside", "inside"],
)
def test_scores_are_the_same_with_and_without_the_recorder(wrap, source, roll, push):
    """A time limit that only the monitor enforces, or that it misses."""
    bare = roll(TimeLimit(Base(), 10), push, seed=7)
    env = wrap(Base())
    seen = roll(env, push, seed=7)
    assert (seen.rewards, seen.ends) == (bare.rewards, (False, True))
    env.close()
    tape = env.get_wrapper_attr("tape")
    assert tape[0].rewards.tolist() == bare.rewards
    assert tape[0].metrics["total_reward"] == bare.total
    assert tape[0].metrics["num_steps"] == tape[0].length == 10
    assert twopass.verify(tape, env=source).verdict == "exact"


# https://github.com/openai/gym/issues/410
def test_a_time_limit_outside_the_recorder_is_not_the_episodes_end(roll, push):
    """What the recorder did not see end is abandoned, never marked truncated."""
    env = TimeLimit(twopass.ReplayRecorder(Base()), 10)
    roll(env, push, seed=7)
    env.close()
    tape = env.get_wrapper_attr("tape")
    assert tape[0].outcome == "abandoned"
    assert not tape[0].truncated.any()
    assert twopass.verify(tape, env=Base).verdict == "exact"


# https://github.com/openai/gym/issues/410
def test_a_time_limit_of_another_length_is_flagged(taped):
    """The replay's own limit ends the episode where the tape's did not."""
    tape = taped(TimeLimit(Base(), 10))
    report = twopass.verify(tape, env=lambda mode: TimeLimit(Base(mode), 8))
    assert report.divergence is not None
    assert report.divergence.field == "length"
    assert (report.divergence.recorded, report.divergence.replayed) == (10, 8)
    unlimited = twopass.verify(tape, env=Base)
    assert unlimited.divergence is not None
    assert unlimited.divergence.field == "length"


# https://github.com/robocasa/robocasa/issues/124
def test_an_episode_that_is_left_early_has_the_steps_that_were_taken(roll, push):
    """The user stops at step 7: nothing is padded, nothing is marked as ended."""
    env = twopass.ReplayRecorder(Base())
    roll(env, push, seed=7, steps=7)
    env.close()
    (episode,) = env.tape
    assert (episode.length, len(episode.actions)) == (7, 7)
    assert (episode.terminated[-1], episode.truncated[-1]) == (False, False)
    assert episode.outcome == "abandoned"
    report = twopass.verify(env.tape, env=Base)
    assert (report.verdict, report.replayed_length) == ("exact", 7)


class Grainy(Base):
    """Pictures differ in some pixels from one rendering to the next."""

    def _draw(self):
        noise = np.random.default_rng().integers(0, 2, (32, 48, 3), np.uint8)
        return super()._draw() + noise


# https://github.com/Farama-Foundation/Gymnasium/issues/690
def test_pixels_are_never_compared(push, tmp_path):
    """Two renders of one state differ with the driver."""
    tape = twopass.record(Grainy, push, seeds=[7])
    films = []
    for name in ("a.gif", "b.gif"):
        report = twopass.render(tape, tmp_path / name, env=Grainy)
        assert (report.verdict, report.blame) == ("exact", None)
        films.append((tmp_path / name).read_bytes())
    assert films[0] != films[1]


# https://github.com/google-deepmind/mujoco/issues/2659
def test_another_machine_is_named(push):
    """Other CPU features change returns on the same software."""
    tape = twopass.record(Base, push, seeds=[7])
    platform = {**tape.fingerprint["platform"], "machine": "riscv128"}
    report = twopass.verify(_with_fingerprint(tape, platform=platform), env=Start)
    assert report.blame == "fingerprint"
    assert "platform.machine" in {mismatch.field for mismatch in report.mismatches}
    assert any("other machine" in hint for hint in report.hints)


class Rounded(Base):
    """Rounds as another machine does."""

    def _move(self, action):
        super()._move(action)
        self.x *= 1 + 1e-12


# https://github.com/google-deepmind/mujoco/issues/2659
def test_near_values_are_close_only_where_a_tolerance_is_asked_for(push):
    """The same: exact is the default, and a tolerance has its own verdict."""
    tape = twopass.record(Base, push, seeds=[7], observations="full")
    assert twopass.verify(tape, env=Rounded).verdict == "diverged"
    assert twopass.verify(tape, env=Rounded, atol=1e-14).verdict == "diverged"
    assert twopass.verify(tape, env=Base, atol=1e-9).verdict == "exact"
    for atol, rtol in ((1e-9, 0.0), (0.0, 1e-9)):
        report = twopass.verify(tape, env=Rounded, atol=atol, rtol=rtol)
        assert (report.verdict, report.divergence) == ("close", None)


# https://github.com/google-deepmind/mujoco/issues/2659
def test_a_digest_cannot_be_close(push):
    """A tape of digests: the digits are given, and the values are not known."""
    tape = twopass.record(Base, push, seeds=[7])
    report = twopass.verify(tape, env=Rounded, atol=1e-9)
    assert report.divergence is not None
    found = report.divergence
    assert (found.step, found.field, found.error) == (1, "observation", None)
    assert len(found.recorded) == len(found.replayed) == 16


def test_each_mismatch_is_said_once_however_many_replays_it_takes(push, events):
    """A ladder makes many environments, and each would warn of the same difference."""
    tape = twopass.record(Base, push, seeds=[7, 8])
    other = {**tape.fingerprint["versions"], "numpy": "0.1"}
    tape = _with_fingerprint(tape, versions=other)
    events.clear()
    report = twopass.verify(tape, env=WallClock, episode=1)
    said = [e["field"] for e in events if e["event"] == "fingerprint_mismatch"]
    assert report.verdict == "diverged"
    assert "versions.numpy" in said
    assert len(said) == len(set(said))
