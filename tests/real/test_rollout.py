"""The two passes as functions, on real environments."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import twopass
from twopass.errors import EncoderError, PlaybackError, TwoPassError


class Counting:
    """A policy that counts its calls, and may fail at one of them."""

    def __init__(self, fail_at: int | None = None):
        self.calls = 0
        self._fail_at = fail_at

    def __call__(self, observation):
        self.calls += 1
        if self.calls == self._fail_at:
            raise ZeroDivisionError(f"call {self.calls}")
        return self.calls % 2


class Predicting:
    """A model: ``predict`` gives the action and a state."""

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        state = 0 if state is None or episode_start[0] else state
        return np.int64(state % 2), state + 1


class Acting:
    """An agent with a life of its own."""

    def reset(self, observation, info):
        self.log = [observation.copy()]

    def step(self):
        return len(self.log) % 2

    def update(self, observation, reward, done, info):
        self.log.append(observation.copy())


# Recording ---------------------------------------------------------------------------


def test_seeds_may_come_from_a_generator():
    tape = twopass.record("CartPole-v1", "random", seeds=(2 * n for n in range(3)))
    assert [episode.seed for episode in tape] == [0, 2, 4]


def test_max_steps_abandons_an_episode_and_truncates_nothing():
    tape = twopass.record("CartPole-v1", Counting(), seeds=[0, None], max_steps=5)
    assert [(e.length, e.outcome) for e in tape] == [(5, "abandoned")] * 2
    assert not any(e.truncated.any() or e.terminated.any() for e in tape)
    assert twopass.verify(tape, episode=1).verdict == "exact"


@pytest.mark.parametrize(
    "policy",
    [Counting(), Predicting(), Acting(), "random"],
    ids=lambda p: type(p).__name__,
)
def test_every_kind_of_policy_is_recorded(policy):
    tape = twopass.record("CartPole-v1", policy, seeds=[1, 2], max_steps=20)
    assert min(episode.length for episode in tape) > 5
    for episode in range(2):
        assert twopass.verify(tape, episode=episode).verdict == "exact"


def test_a_predicting_policy_gets_its_memory_back_and_loses_it_at_a_reset():
    tape = twopass.record("CartPole-v1", Predicting(), seeds=[1, 2], max_steps=6)
    for episode in tape:
        assert list(episode.actions) == [0, 1, 0, 1, 0, 1]


def test_what_is_no_policy_is_refused():
    with pytest.raises(twopass.errors.UnsupportedValueError, match="callable"):
        twopass.record("CartPole-v1", 3, seeds=[0])  # type: ignore[arg-type]  # on purpose


def test_a_policy_that_raises_loses_nothing(tmp_path):
    path = tmp_path / "run.mcap"
    with pytest.raises(ZeroDivisionError, match="call 4"):
        twopass.record("CartPole-v1", Counting(fail_at=4), seeds=[6, 7], path=path)
    check_broken_off(path, 3, {"type": "ZeroDivisionError", "text": "call 4"})


class Fragile(CartPoleEnv):
    """A cart that breaks when it is made to break."""

    broken = True

    def step(self, action):
        self.age = getattr(self, "age", 0) + 1
        if self.broken and self.age == 5:
            raise OSError("the pole broke")
        return super().step(action)


@pytest.mark.parametrize("broken", [True, False])
def test_an_environment_that_raises_loses_nothing(broken, tmp_path, monkeypatch):
    path = tmp_path / "run.mcap"
    with pytest.raises(OSError, match="the pole broke"):
        twopass.record(Fragile, Counting(), seeds=[6], path=path)
    monkeypatch.setattr(Fragile, "broken", broken)
    error = {"type": "OSError", "text": "the pole broke"}
    check_broken_off(path, 4, error, env=Fragile)


def check_broken_off(path, length: int, error: dict[str, str], **options: Any) -> None:
    tape = twopass.Tape.load(path, strict=True)
    [episode] = tape
    assert (episode.length, episode.outcome) == (length, "error")
    assert episode.error == error
    report = twopass.verify(path, **options)
    assert (report.verdict, report.replayed_length) == ("exact", length)


def test_progress_is_told_of_every_step():
    told: list[Any] = []
    tape = twopass.record(
        "CartPole-v1",
        Counting(),
        seeds=[1, 2],
        max_steps=4,
        progress=lambda *said: told.append(said),
    )
    assert told == 2 * [("record", n, 4) for n in range(1, 5)]
    told.clear()
    twopass.verify(tape, progress=lambda *said: told.append(said))
    assert told == [("play", n, 4) for n in range(1, 5)]


# Playing -----------------------------------------------------------------------------


def test_a_preview_is_named_so_and_exact_as_far_as_it_goes(tmp_path, read_gif):
    tape = twopass.record("CartPole-v1", Counting(), seeds=[1], max_steps=12)
    report = twopass.render(tape, tmp_path / "run.gif", steps=4)
    assert report.path == str(tmp_path / "run.preview.gif")
    assert (report.verdict, report.preview) == ("exact", True)
    assert (report.replayed_length, report.recorded_length) == (4, 12)
    assert len(read_gif(report.path)) == report.frames == 5
    assert not (tmp_path / "run.gif").exists()


@pytest.mark.parametrize("steps", [12, 13, None])
def test_a_horizon_that_is_no_shorter_is_no_preview(steps, tmp_path, read_gif):
    tape = twopass.record("CartPole-v1", Counting(), seeds=[1], max_steps=12)
    report = twopass.render(tape, tmp_path / "run.gif", steps=steps)
    assert (report.path, report.preview) == (str(tmp_path / "run.gif"), False)
    assert len(read_gif(report.path)) == 13


def test_a_film_of_the_reset_alone(tmp_path, read_gif):
    tape = twopass.record("CartPole-v1", Counting(), seeds=[1], max_steps=3)
    report = twopass.render(tape, tmp_path / "run.gif", steps=0)
    assert (report.verdict, report.frames) == ("exact", 1)
    assert len(read_gif(report.path)) == 1


def test_an_mp4_has_every_frame(tmp_path):
    av = pytest.importorskip("av")
    tape = twopass.record("CartPole-v1", Counting(), seeds=[1], max_steps=9)
    report = twopass.render(tape, tmp_path / "run.mp4")
    with av.open(report.path) as container:
        frames = list(container.decode(video=0))
    assert (len(frames), report.frames, report.verdict) == (10, 10, "exact")


def test_another_environment_diverges_and_is_named():
    tape = twopass.record("CartPole-v1", Counting(), seeds=[1])
    heavy = copy.deepcopy(gym.spec("CartPole-v1"))  # the registry's own is shared
    heavy.kwargs = {"sutton_barto_reward": True}
    report = twopass.verify(tape, env=heavy)
    assert (report.verdict, report.blame) == ("diverged", "fingerprint")
    assert [m.field for m in report.mismatches] == ["kwargs.sutton_barto_reward"]
    assert report.divergence is not None
    assert (report.divergence.field, report.divergence.step) == ("reward", 1)
    with pytest.raises(twopass.errors.DivergenceError) as caught:
        twopass.verify(tape, env=heavy, on_divergence="raise")
    assert caught.value.report.divergence == report.divergence


def test_another_action_space_is_an_error():
    tape = twopass.record("CartPole-v1", Counting(), seeds=[1])
    with pytest.raises(PlaybackError, match="cannot"):
        twopass.verify(tape, env="Pendulum-v1")


def test_an_episode_that_is_not_there_is_an_error():
    tape = twopass.record("CartPole-v1", Counting(), seeds=[1])
    with pytest.raises(PlaybackError, match="1 episodes"):
        twopass.verify(tape, episode=1)


# Both --------------------------------------------------------------------------------


def test_two_passes_score_once_and_film_the_same_episode(tmp_path, read_gif):
    policy = Counting()
    film, path = tmp_path / "run.gif", tmp_path / "run.mcap"
    result = twopass.two_pass("CartPole-v1", policy, seed=3, video=film, path=path)
    assert result.report is not None
    assert result.report.verdict == "exact"
    length = result.tape[0].length
    assert policy.calls == length == result.metrics["num_steps"]
    assert len(read_gif(film)) == length + 1
    assert twopass.Tape.load(path, strict=True)[0].length == length


def test_an_existing_film_is_refused_before_the_policy_runs(tmp_path):
    film = tmp_path / "run.gif"
    film.write_bytes(b"mine")
    policy = Counting()
    with pytest.raises(EncoderError, match="exists"):
        twopass.two_pass("CartPole-v1", policy, seed=0, video=film)
    assert policy.calls == 0
    assert film.read_bytes() == b"mine"
    assert list(tmp_path.iterdir()) == [film]


def test_an_unknown_film_is_refused_before_the_policy_runs(tmp_path):
    policy = Counting()
    with pytest.raises(EncoderError, match="webm"):
        twopass.two_pass("CartPole-v1", policy, seed=0, video=tmp_path / "run.webm")
    assert policy.calls == 0


class NoPictures(CartPoleEnv):
    """A cart that prints."""

    metadata = {"render_modes": ["ansi"], "render_fps": 50}  # noqa: RUF012 -- Gymnasium's


@pytest.fixture
def no_pictures():
    entry_point: Any = NoPictures
    gym.register("tests/NoPictures-v0", entry_point)
    yield "tests/NoPictures-v0"
    del gym.registry["tests/NoPictures-v0"]


def test_an_environment_without_pictures_is_refused_before_the_policy_runs(
    no_pictures, tmp_path
):
    policy = Counting()
    with pytest.raises(PlaybackError, match="cannot be filmed"):
        twopass.two_pass(no_pictures, policy, seed=0, video=tmp_path / "run.gif")
    assert policy.calls == 0
    assert list(tmp_path.iterdir()) == []
    result = twopass.two_pass(no_pictures, policy, seed=0)
    assert result.report is not None
    assert result.report.verdict == "exact"


class Shrinking(CartPoleEnv):
    """Draws a smaller picture each time, which no film can hold."""

    drawn = 0

    def render(self):
        self.drawn += 1
        return np.zeros((64 - 2 * self.drawn, 64, 3), np.uint8)


def test_a_film_that_fails_late_leaves_the_score_and_the_tape(tmp_path):
    film = tmp_path / "run.gif"
    with pytest.raises(TwoPassError) as caught:
        twopass.two_pass(Shrinking, Counting(), seed=0, video=film)
    result = caught.value.result
    assert isinstance(result, twopass.rollout.TwoPassResult)
    assert result.report is None
    assert result.metrics["num_steps"] == result.tape[0].length > 5
    assert list(tmp_path.iterdir()) == []
    assert twopass.verify(result.tape, env=Shrinking).verdict == "exact"
