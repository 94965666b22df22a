"""A replay differs because the environment's state is not where it began."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import twopass
from twopass.errors import DivergenceError
from twopass.testing.hazards import (
    Base,
    ModeChangesObs,
    RenderUsesEnvRng,
    RenderUsesGlobalRng,
    RFwd,
    SameObs,
    Warm,
)


def test_the_control_is_exact_wherever_it_is_played(push, taped, tmp_path):
    """Without a hazard nothing is ever flagged."""
    env = Base("rgb_array")
    tape = taped(env)
    assert twopass.TapePlayback(env, tape).play().verdict == "exact"
    assert twopass.TapePlayback(Base(), tape).play().verdict == "exact"
    report = twopass.render(tape, tmp_path / "a.gif", env=Base)
    assert (report.verdict, report.divergence, report.blame) == ("exact", None, None)
    assert (report.recorded_length, report.replayed_length) == (30, 30)


@pytest.mark.parametrize(
    "env_id", ["LunarLander-v3", "BipedalWalker-v3", "HalfCheetah-v5", "Ant-v5"]
)
def test_engines_that_were_mended_are_not_flagged(env_id, taped):
    """Physics engines whose resets are complete today: in a used environment too."""
    env = gym.make(env_id)
    space = env.action_space
    space.seed(3)
    tape = taped(env, lambda observation: space.sample(), steps=60)
    assert twopass.verify(tape).verdict == "exact"
    assert twopass.TapePlayback(env, tape).play().verdict == "exact"
    env.close()


# https://github.com/google-deepmind/dm_control/issues/64
def test_a_warm_cache_is_exact_in_a_fresh_environment(push, tmp_path):
    """Solver warm starts and contact caches that no state setter carries."""
    tape = twopass.record(Warm, push, seeds=[7])
    verified = twopass.verify(tape, env=Warm)
    filmed = twopass.render(tape, tmp_path / "a.gif", env=Warm)
    assert verified.verdict == filmed.verdict == "exact"
    assert verified.plan == filmed.plan == "alone"


# https://github.com/google-deepmind/dm_control/issues/64
def test_a_warm_cache_diverges_at_the_first_step_of_the_same_environment(taped):
    """Solver warm starts and contact caches that survive a reset."""
    env = Warm()
    report = twopass.TapePlayback(env, taped(env)).play()
    assert report.verdict == "diverged"
    assert report.divergence is not None
    found = report.divergence
    assert (found.episode, found.step, found.field) == (0, 1, "observation")
    assert found.recorded != found.replayed


# https://github.com/Farama-Foundation/Gymnasium-Robotics/issues/207
def test_an_equal_reset_does_not_hide_a_used_environment(taped, roll, push):
    """The reset observation is the same and the first step is not."""
    env = Warm()
    roll(env, push, steps=10, seed=1)
    tape = taped(env, observations="full")
    player = twopass.TapePlayback(Warm(), tape)
    observation, _ = player.reset()
    assert np.array_equal(observation, tape[0].reset.observation)
    assert (player.report.verdict, player.report.divergence) == ("exact", None)
    player.step(None)
    assert player.report.verdict == "diverged"
    assert player.report.divergence is not None
    assert player.report.divergence.step == 1
    assert player.report.divergence.error is not None
    assert 0 < player.report.divergence.error < 1e-4


# https://github.com/Genesis-Embodied-AI/genesis-world/issues/3229
def test_a_later_episode_is_exact_after_the_whole_session(push, tmp_path):
    """Solver arrays survive a reset, so an episode depends on those before it."""
    tape = twopass.record(Warm, push, seeds=[1, 2, 3])
    report = twopass.render(tape, tmp_path / "a.gif", env=Warm, episode=2)
    assert (report.verdict, report.plan, report.blame) == ("exact", "session", None)
    assert report.frames == tape[2].length + 1


# https://github.com/Genesis-Embodied-AI/genesis-world/issues/3229
def test_history_is_blamed_when_the_session_may_not_be_played(push):
    """The same, where the caller asks for the episode alone."""
    tape = twopass.record(Warm, push, seeds=[1, 2])
    report = twopass.verify(tape, env=Warm, episode=1, history="alone")
    assert (report.verdict, report.blame) == ("diverged", "history")
    assert any('history="auto"' in hint for hint in report.hints)


# https://github.com/openai/gym/issues/2255
def test_rendering_is_blamed_when_the_unrendered_replay_is_exact(push, tmp_path):
    """A render callback runs a forward pass that changes solver state."""
    tape = twopass.record(RFwd, push, seeds=[7])
    report = twopass.render(tape, tmp_path / "a.gif", env=RFwd)
    assert (report.verdict, report.blame) == ("diverged", "rendering")
    assert report.divergence is not None
    assert report.divergence.step == 1
    assert report.frames == tape[0].length + 1
    assert "rendering" in report.summary()
    assert twopass.verify(tape, env=RFwd).verdict == "exact"


# https://github.com/openai/gym/issues/2255
def test_a_raised_divergence_names_its_blame(push, tmp_path):
    """The same, where the caller wants an exception."""
    tape = twopass.record(RFwd, push, seeds=[7])
    with pytest.raises(DivergenceError, match="rendering") as caught:
        twopass.render(tape, tmp_path / "a.gif", env=RFwd, on_divergence="raise")
    assert caught.value.report.blame == "rendering"
    assert list(tmp_path.iterdir()) == []


# https://github.com/openai/gym/issues/2255
def test_the_tape_counts_the_render_calls_of_the_first_pass(push, tmp_path):
    """A harness that renders while it scores: the film repeats that, and is exact."""
    env = twopass.ReplayRecorder(RFwd("rgb_array"))
    observation, _ = env.reset(seed=7)
    env.render()
    for _ in range(30):
        observation, *_ = env.step(push(observation))
        env.render()
    env.close()
    assert env.tape[0].render_calls == 31
    report = twopass.render(env.tape, tmp_path / "a.gif", env=RFwd)
    assert (report.verdict, report.blame) == ("exact", None)
    assert twopass.verify(env.tape, env=RFwd).verdict == "diverged"


# https://github.com/openai/gym/issues/2255
@pytest.mark.parametrize("cls", [RenderUsesEnvRng, RenderUsesGlobalRng])
def test_what_render_draws_does_not_reach_the_episode(cls, push, tmp_path):
    """Drawing takes random numbers that the next step would have had."""
    tape = twopass.record(cls, push, seeds=[7])
    report = twopass.render(tape, tmp_path / "a.gif", env=cls)
    assert (report.verdict, report.guarded) == ("exact", True)
    bare = twopass.TapePlayback(cls("rgb_array"), tape, guard=False)
    assert bare.play(tmp_path / "b.gif").verdict == "diverged"


# https://github.com/openai/gym/issues/2255
def test_a_mode_that_changes_the_observation_is_named(push, tmp_path):
    """The environment observes by its renderer: both passes need one mode."""
    blind = twopass.record(ModeChangesObs, push, seeds=[7])
    report = twopass.render(blind, tmp_path / "a.gif", env=ModeChangesObs)
    assert report.divergence is not None
    assert (report.divergence.step, report.blame) == (0, "rendering")
    assert any('render_mode="rgb_array"' in hint for hint in report.hints)
    assert twopass.verify(blind, env=ModeChangesObs).verdict == "exact"
    tape = twopass.record(ModeChangesObs, push, seeds=[7], render_mode="rgb_array")
    assert tape[0].render_calls == 0
    film = twopass.render(tape, tmp_path / "b.gif", env=ModeChangesObs)
    assert (film.verdict, film.blame) == ("exact", None)
    assert twopass.verify(tape, env=ModeChangesObs).verdict == "exact"


# https://github.com/openai/gym/issues/2255
@pytest.mark.parametrize(
    ("cls", "mode"),
    [
        (ModeChangesObs, "rgb_array"),
        (RFwd, "rgb_array"),
        (RenderUsesEnvRng, "rgb_array_list"),  # drawn inside `step`, out of reach
    ],
)
def test_rendering_is_blamed_in_an_environment_of_the_users(push, tmp_path, cls, mode):
    """The same with the wrapper: the control replay has the mode of pass 1."""
    env_id = "TwopassReports/Drawn-v0"
    gym.register(env_id, f"{cls.__module__}:{cls.__name__}")
    try:
        tape = twopass.record(env_id, push, seeds=[7])
        player = twopass.TapePlayback(gym.make(env_id, render_mode=mode), tape)
        report = player.play(tmp_path / "a.gif")
    finally:
        del gym.registry[env_id]
    assert (report.verdict, report.mismatches) == ("diverged", ())
    assert report.blame == "rendering"


# https://github.com/google-deepmind/dm_control/issues/34
def test_an_observation_that_is_rewritten_is_not_flagged(push, roll):
    """The environment hands out a view of its live buffer."""
    tape = twopass.record(SameObs, push, seeds=[7], observations="full")
    assert twopass.verify(tape, env=SameObs).verdict == "exact"
    honest = roll(Base(), push, seed=7).observations
    assert np.array_equal(np.asarray(tape[0].observations), honest[1:])
    assert np.array_equal(tape[0].reset.observation, honest[0])


class Bumped(SameObs):
    def _move(self, action):
        super()._move(action)
        self.x += 1e-3 * (self.t == 5)


# https://github.com/google-deepmind/dm_control/issues/34
@pytest.mark.parametrize("observations", ["digest", "full"])
def test_an_observation_that_is_rewritten_is_compared_with_the_tape(push, observations):
    """A recorder that keeps the view compares an array with itself, and never flags."""
    tape = twopass.record(SameObs, push, seeds=[7], observations=observations)
    report = twopass.verify(tape, env=Bumped)
    assert report.divergence is not None
    assert (report.divergence.step, report.divergence.field) == (5, "observation")
    apart = report.divergence.error
    assert apart is None if observations == "digest" else apart == pytest.approx(1e-3)
