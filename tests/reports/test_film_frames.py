"""Films with frames lost, doubled, stale, or that were never frames."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
import torch

import twopass
from twopass.errors import EncoderError, PlaybackError
from twopass.testing import CounterEnv
from twopass.testing.hazards import (
    AliasFrame,
    Base,
    ListMode,
    NoneFrame,
    StaleFrame,
)

FORMATS = pytest.mark.parametrize("suffix", [".gif", ".mp4"])


def _act(observation):
    return 1


def _counter(length=10, fps=20.0):
    return lambda render_mode: CounterEnv(render_mode, length=length, fps=fps)


# https://github.com/Zulko/moviepy/issues/2507
@FORMATS
@pytest.mark.parametrize("length", [0, 1, 6, 7, 9, 29, 49])
@pytest.mark.parametrize("fps", [20, 30])
def test_every_step_has_its_frame_the_last_one_too(
    tmp_path, decode, suffix, length, fps
):
    """120 frames in, 119 out: the last one is missing."""
    film = tmp_path / f"a{suffix}"
    source = _counter(max(length, 1))
    tape = twopass.record(source, _act, seeds=[7], max_steps=length)
    report = twopass.render(tape, film, env=source, fps=fps)
    assert report.frames == length + 1
    decoded = decode(film)
    assert decoded.steps == list(range(length + 1))
    assert decoded.seconds == pytest.approx((length + 1) / fps, abs=0.01)


# https://github.com/Zulko/moviepy/issues/2507
@FORMATS
def test_the_terminal_frame_is_the_last_one(tmp_path, decode, suffix):
    """An environment that ends, and one that is cut: both show their last state."""
    for source in (
        _counter(8),
        lambda mode: gym.wrappers.TimeLimit(CounterEnv(mode), 8),
    ):
        tape = twopass.record(source, _act, seeds=[7])
        twopass.render(tape, tmp_path / f"a{suffix}", env=source, overwrite=True)
        assert decode(tmp_path / f"a{suffix}").steps[-1] == 8


# https://github.com/Genesis-Embodied-AI/genesis-world/issues/3105
@FORMATS
def test_extra_render_calls_put_no_frame_into_the_film(tmp_path, decode, suffix):
    """Rendering twice in one step puts the frame into the video twice."""
    env = CounterEnv("rgb_array")
    tape = twopass.record(CounterEnv, _act, seeds=[7])
    player = twopass.TapePlayback(env, tape)
    env.reset()
    player.render()

    def meddle(*_):
        player.render()
        env.render()

    report = player.play(tmp_path / f"a{suffix}", progress=meddle)
    assert (report.verdict, report.frames) == ("exact", 11)
    assert decode(tmp_path / f"a{suffix}").steps == list(range(11))
    assert env.renders == 1 + 11 + 2 * 10


# https://github.com/Genesis-Embodied-AI/genesis-world/issues/3099
@pytest.mark.parametrize("history", ["alone", "session"])
def test_the_first_frame_shows_the_start_of_its_own_episode(
    push, tmp_path, decode, history
):
    """The first picture after a reset still shows the scene from before it."""
    tape = twopass.record(StaleFrame, push, seeds=[1, 2, 3])
    levels = []
    for index in range(3):
        film = tmp_path / f"{index}.gif"
        twopass.render(tape, film, env=StaleFrame, episode=index, history=history)
        env = StaleFrame("rgb_array")
        env.reset(seed=index + 1)
        levels.append(int(decode(film).frames[0][0, 0, 0]))
        assert levels[-1] == env.level()
    assert len(set(levels)) == 3


# https://github.com/isaac-sim/IsaacLab/issues/6394
def test_the_stale_frame_would_be_seen(push, tmp_path, decode):
    """The check of the check: films in one environment, and no film is flagged."""
    tape = twopass.record(StaleFrame, push, seeds=[1, 2])
    env = StaleFrame("rgb_array")
    for index in range(2):
        player = twopass.TapePlayback(env, tape, index)
        assert player.play(tmp_path / f"{index}.gif").verdict == "exact"
    one, two = (decode(tmp_path / f"{index}.gif").frames[0] for index in range(2))
    assert np.array_equal(one, two)


def test_a_frame_that_is_redrawn_in_place_is_kept(push, tmp_path, decode):
    """The renderer hands out its one buffer: all frames would look like the last."""
    tape = twopass.record(AliasFrame, push, seeds=[7])
    twopass.render(tape, tmp_path / "a.gif", env=AliasFrame)
    levels = [int(frame[0, 0, 0]) for frame in decode(tmp_path / "a.gif").frames]
    assert levels == [8 * step for step in range(31)]


# https://github.com/Farama-Foundation/Gymnasium/pull/580
@pytest.mark.parametrize("mode", [None, "human", "ansi"])
def test_a_mode_without_arrays_is_refused_before_the_first_step(
    push, tmp_path, mode, taped
):
    """The missing render mode is noticed after hours, when the film is saved."""

    class Untouchable(Base):
        metadata = {"render_modes": ["human", "ansi"], "render_fps": 20}  # noqa: RUF012

        def reset(self, **passed):
            raise AssertionError("reset")

    tape = taped(Base())
    with pytest.raises(PlaybackError, match=f"render_mode is {mode!r}"):
        twopass.TapePlayback(Untouchable(mode), tape).play(tmp_path / "a.gif")
    with pytest.raises(PlaybackError, match=f"render_mode is {mode!r}"):
        twopass.render(tape, tmp_path / "a.gif", env=lambda asked: Untouchable(mode))
    assert list(tmp_path.iterdir()) == []


# https://github.com/Farama-Foundation/Gymnasium/pull/580
def test_an_id_without_a_mode_for_films_is_refused_before_the_first_pass(tmp_path):
    """The same with an id: not even the policy is asked."""
    gym.register("TwopassReports/Mute-v0", Mute)  # type: ignore[arg-type]
    calls: list[object] = []
    try:
        with pytest.raises(PlaybackError, match="cannot be filmed"):
            twopass.two_pass(
                "TwopassReports/Mute-v0", calls.append, video=tmp_path / "a.gif"
            )
    finally:
        del gym.registry["TwopassReports/Mute-v0"]
    assert calls == []


class Mute(Base):
    metadata = {"render_modes": ["ansi"], "render_fps": 20}  # noqa: RUF012


# https://github.com/Farama-Foundation/Gymnasium/pull/580
def test_recording_needs_no_render_mode(push):
    """The first pass draws nothing: nobody has to ask for a mode."""

    class Blind(Base):
        def render(self):
            raise AssertionError("rendered")

    tape = twopass.record(Blind, push, seeds=[7])
    assert tape.fingerprint["render_mode"] is None
    assert (tape[0].length, tape[0].render_calls) == (30, 0)


# https://github.com/openai/gym/pull/3040
def test_a_list_of_frames_gives_as_many_as_single_ones(push, tmp_path, decode):
    """``rgb_array`` meant a list in one release and a frame in the next."""
    films = {}
    for cls, mode in ((Base, "rgb_array"), (ListMode, "rgb_array_list")):
        tape = twopass.record(cls, push, seeds=[7])
        player = twopass.TapePlayback(cls(mode), tape)
        films[mode] = player.play(tmp_path / f"{mode}.gif")
        levels = [f[0, 0, 0] for f in decode(tmp_path / f"{mode}.gif").frames]
        assert levels == [8 * step for step in range(31)]
    assert films["rgb_array"].frames == films["rgb_array_list"].frames == 31


class Skipping(ListMode):
    """Draws a frame in between, as an environment that skips frames."""

    def _collect(self):
        if self.render_mode:
            self._frames.append(np.full((32, 48, 3), 255, np.uint8))
        super()._collect()


# https://github.com/openai/gym/pull/3040
def test_of_several_frames_of_a_step_the_last_one_counts(push, tmp_path, decode):
    """The same where a step gives more than one: the film stays one frame a step."""
    tape = twopass.record(Skipping, push, seeds=[7])
    player = twopass.TapePlayback(Skipping("rgb_array_list"), tape)
    assert player.play(tmp_path / "a.gif").frames == 31
    levels = [f[0, 0, 0] for f in decode(tmp_path / "a.gif").frames]
    assert levels == [8 * step for step in range(31)]


# https://github.com/openai/gym/pull/3040
def test_gymnasiums_own_list_of_frames_gives_as_many(registered, push, tmp_path):
    """The same through the wrapper that ``gymnasium.make`` puts around."""
    tape = twopass.record(registered, push, seeds=[7])
    env = gym.make(registered, render_mode="rgb_array_list")
    report = twopass.TapePlayback(env, tape).play(tmp_path / "a.gif")
    assert (report.verdict, report.frames) == ("exact", 31)


# https://github.com/openai/gym/pull/2998
def test_frames_taken_by_somebody_else_are_missed_by_name(push, tmp_path):
    """Two callers of a list-mode ``render`` steal each other's frames."""
    tape = twopass.record(ListMode, push, seeds=[7])
    env = ListMode("rgb_array_list")

    class Thief(gym.Wrapper):
        def step(self, action):
            result = super().step(action)
            env.render()
            return result

    with pytest.raises(EncoderError, match=r"step 1.*empty list"):
        twopass.TapePlayback(Thief(env), tape).play(tmp_path / "a.gif")
    assert list(tmp_path.iterdir()) == []


# https://github.com/Farama-Foundation/Gymnasium/pull/580
@FORMATS
def test_no_frame_is_missed_by_its_step(push, tmp_path, suffix):
    """``render`` returns ``None`` in the middle of an episode."""
    tape = twopass.record(NoneFrame, push, seeds=[7])
    with pytest.raises(EncoderError, match=r"step 3: render\(\) gave None"):
        twopass.render(tape, tmp_path / f"a{suffix}", env=NoneFrame)
    assert list(tmp_path.iterdir()) == []


# https://github.com/robfiras/loco-mujoco/issues/45
@FORMATS
def test_a_missing_frame_rate_is_warned_about(tmp_path, decode, suffix, events):
    """``render_fps`` is missing, so that a guess decides how fast the film runs."""
    source = _counter(9, fps=None)
    tape = twopass.record(source, _act, seeds=[7])
    events.clear()
    twopass.render(tape, tmp_path / f"a{suffix}", env=source)
    (warning,) = [entry for entry in events if entry["event"] == "no_render_fps"]
    assert (warning["log_level"], warning["used"]) == ("warning", 30.0)
    assert decode(tmp_path / f"a{suffix}").seconds == pytest.approx(10 / 30, abs=0.01)


# https://github.com/robfiras/loco-mujoco/issues/45
@FORMATS
@pytest.mark.parametrize(("fps", "seconds"), [(None, 0.4), (10, 1.0), (50, 0.2)])
def test_the_callers_frame_rate_wins(tmp_path, decode, suffix, fps, seconds, events):
    """The environment's rate is the default, and no more."""
    source = _counter(9, fps=25.0)
    tape = twopass.record(source, _act, seeds=[7])
    film = tmp_path / f"a{suffix}"
    report = twopass.render(tape, film, env=source, fps=fps)
    assert decode(film).seconds == pytest.approx(seconds, abs=0.01)
    assert report.film is not None
    assert report.film["seconds"] == pytest.approx(seconds, abs=0.01)
    assert "no_render_fps" not in {entry["event"] for entry in events}


# https://github.com/isaac-sim/IsaacLab/pull/894
@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf"), "30", True, [30]])
def test_what_is_no_frame_rate_is_refused(tmp_path, fps):
    """A rate that makes no sense is refused before a step is played."""

    class Untouchable(CounterEnv):
        def reset(self, **passed):
            raise AssertionError("reset")

    tape = twopass.record(CounterEnv, _act, seeds=[7])
    with pytest.raises(EncoderError, match="is not a frame rate"):
        twopass.render(tape, tmp_path / "a.gif", env=Untouchable, fps=fps)
    assert list(tmp_path.iterdir()) == []


def _drawing(picture):
    class Drawing(Base):
        def _draw(self):
            return picture

    return Drawing


_PICTURE = np.full((63, 65, 3), 128, np.uint8)
_BUFFER = np.full((63, 130, 3), 128, np.uint8)


# https://github.com/computed-axial-lithography/VAMToolbox/issues/5
@FORMATS
@pytest.mark.parametrize(
    "picture",
    [
        _PICTURE,
        _PICTURE[..., 0],
        _PICTURE[..., :1],
        np.dstack([_PICTURE, np.zeros((63, 65), np.uint8)]),
        _PICTURE / 255,
        _PICTURE.astype(np.float32),
        _PICTURE.astype(np.uint16) * 257,
        _PICTURE.astype(np.int64),
        torch.from_numpy(_PICTURE),
        torch.from_numpy(_PICTURE / 255),
        _BUFFER[:, ::2],
        np.broadcast_to(np.uint8(128), (63, 65, 3)),
    ],
    ids=lambda picture: f"{type(picture).__name__}-{picture.dtype}-{picture.ndim}",
)
def test_a_gray_picture_is_gray_whatever_it_is_made_of(
    push, tmp_path, decode, picture, suffix
):
    """Float frames become black videos, gray ones fail when the film is saved."""
    cls = _drawing(picture)
    tape = twopass.record(cls, push, seeds=[7], max_steps=2)
    report = twopass.render(tape, tmp_path / f"a{suffix}", env=cls)
    frames = decode(tmp_path / f"a{suffix}").frames
    assert (report.verdict, len(frames)) == ("exact", 3)
    odd = (63, 65, 3) if suffix == ".gif" else (64, 66, 3)
    for frame in frames:
        assert frame.shape == odd
        assert np.abs(frame.astype(int) - 128).max() <= 2


# https://github.com/computed-axial-lithography/VAMToolbox/issues/5
def test_a_mask_is_black_and_white(push, tmp_path, decode):
    """The same for booleans."""
    cls = _drawing(np.eye(64, dtype=bool))
    tape = twopass.record(cls, push, seeds=[7], max_steps=1)
    twopass.render(tape, tmp_path / "a.gif", env=cls)
    frame = decode(tmp_path / "a.gif").frames[0]
    assert np.array_equal(frame[..., 0], np.eye(64, dtype=np.uint8) * 255)


# https://github.com/roboflow/trackers/pull/514
@pytest.mark.parametrize(
    "picture",
    [
        np.full((8, 8, 3), np.nan),
        np.full((8, 8, 3), 256.0),
        np.full((8, 8, 3), -1),
        np.zeros((3, 8, 8), np.uint8),
        np.zeros((2, 8, 8, 3), np.uint8),
        np.zeros((0, 8, 3), np.uint8),
        np.full((8, 8, 3), "x"),
        "a picture",
        {"front": np.zeros((8, 8, 3), np.uint8)},
    ],
    ids=range(9),
)
def test_what_is_no_picture_is_refused_by_its_step(push, tmp_path, picture):
    """Frames that cannot be shown vanish silently."""
    cls = _drawing(picture)
    tape = twopass.record(cls, push, seeds=[7])
    with pytest.raises(EncoderError, match="step 0: render"):
        twopass.render(tape, tmp_path / "a.gif", env=cls)
    assert list(tmp_path.iterdir()) == []
