"""GIFs that run at another speed, lose their still parts, or flicker."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest

import twopass
from twopass.testing import CounterEnv, read_step
from twopass.testing.hazards import Base


def _filmed(source, path, steps, **options):
    if source is CounterEnv:
        source = functools.partial(CounterEnv, length=1000)
    tape = twopass.record(source, "random", seeds=[7], max_steps=steps)
    return twopass.render(tape, path, env=source, **options)


# https://github.com/Zulko/moviepy/issues/2151
@pytest.mark.parametrize("fps", [5, 10, 20, 25, 50])
def test_a_gif_runs_at_the_rate_that_was_asked_for(tmp_path, decode, fps):
    """Seconds became milliseconds, and the film runs at the viewer's fallback."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _filmed(CounterEnv, tmp_path / "a.gif", 11, fps=fps)
    film = decode(tmp_path / "a.gif")
    assert film.delays == [1000 // fps] * 12
    assert film.seconds == pytest.approx(12 / fps)


# https://github.com/imageio/imageio/issues/243
@pytest.mark.parametrize("fps", [12, 15, 24, 29.97, 30, 40])
def test_the_rounding_of_delays_does_not_add_up(tmp_path, decode, fps):
    """Delays are whole centiseconds: 30 fps are read back as 33.3."""
    report = _filmed(CounterEnv, tmp_path / "a.gif", 149, fps=fps)
    film = decode(tmp_path / "a.gif")
    assert film.seconds == pytest.approx(150 / fps, abs=0.006)
    assert max(film.delays) - min(film.delays) <= 10
    assert report.film is not None
    assert report.film["seconds"] == pytest.approx(film.seconds)


# https://github.com/imageio/imageio/issues/243
@pytest.mark.parametrize("fps", [60, 100, 240])
def test_no_delay_is_so_short_that_players_stretch_it(tmp_path, decode, fps):
    """Delays of 0 and 1 cs are shown as 10 cs: frames are dropped, with a warning."""
    with pytest.warns(UserWarning, match="50 frames per second"):
        report = _filmed(CounterEnv, tmp_path / "a.gif", 119, fps=fps)
    film = decode(tmp_path / "a.gif")
    assert min(film.delays) >= 20
    assert film.seconds == pytest.approx(120 / fps, abs=0.021)
    assert film.steps == sorted(set(film.steps))
    assert film.steps[-1] == 119
    assert report.frames == 120
    assert report.film is not None
    assert report.film["stored"] == len(film.frames) < 120


class Resting(CounterEnv):
    """Stands still for ten steps, moves for five, stands still for ten."""

    def render(self):
        steps, self.steps = self.steps, min(max(self.steps - 10, 0), 5)
        try:
            return super().render()
        finally:
            self.steps = steps


# https://github.com/python-pillow/Pillow/issues/2314
def test_standing_still_takes_its_time(tmp_path, decode):
    """100 frames in, 70 out: the still start and end disappear."""
    source = lambda mode: Resting(mode, length=25)  # noqa: E731
    tape = twopass.record(source, lambda observation: 0, seeds=[7])
    report = twopass.render(tape, tmp_path / "a.gif", env=source, fps=10)
    film = decode(tmp_path / "a.gif")
    assert report.frames == 26
    assert film.seconds == pytest.approx(2.6)
    for step in range(26):
        shown = read_step(film.at(step / 10 + 0.05))
        assert shown == min(max(step - 10, 0), 5)


class Still(Base):
    def _draw(self):
        return np.full((32, 48, 3), 77, np.uint8)


# https://github.com/python-pillow/Pillow/issues/2314
def test_an_episode_without_any_motion_is_a_film(tmp_path, decode):
    """The same where all frames are equal."""
    report = _filmed(Still, tmp_path / "a.gif", 19, fps=10)
    film = decode(tmp_path / "a.gif")
    assert report.frames == 20
    assert film.seconds == pytest.approx(2.0)
    assert (film.frames[0] == 77).all()


class Noisy(Base):
    """A noisy background that stands still, and a patch that moves over it."""

    def _draw(self):
        picture = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
        picture[4 * self.t : 4 * self.t + 10, 20:30] = 255
        return picture


# https://github.com/notnullnotvoid/msf_gif/issues/8
def test_what_stands_still_does_not_flicker(tmp_path, decode):
    """A palette chosen anew for every frame makes still areas flash."""
    _filmed(Noisy, tmp_path / "a.gif", 5)
    frames = np.array(decode(tmp_path / "a.gif").frames)
    outside = np.ones((48, 64), bool)
    outside[0:34, 20:30] = False
    assert (frames[:, outside] == frames[0, outside]).all()
    assert (frames[1:] != frames[:-1]).any(axis=(1, 2, 3)).all()
