"""Memory that grows with the length of an episode, or from film to film."""

from __future__ import annotations

import gc
import tracemalloc

import numpy as np
import pytest

import twopass
from twopass.testing.hazards import Base

SIDE = 128
FRAME = SIDE * SIDE * 3


class Large(Base):
    def __init__(self, render_mode=None):
        super().__init__(render_mode, horizon=10_000)

    def _draw(self):
        return np.full((SIDE, SIDE, 3), self.t % 256, np.uint8)


@pytest.fixture
def peak(push, tmp_path):
    """Return the most bytes that Python held while a film was made."""
    env = Large("rgb_array")
    films = iter(range(1000))

    def measure(steps, suffix):
        tape = twopass.record(Large, push, seeds=[7], max_steps=steps)
        player = twopass.TapePlayback(env, tape)
        film = tmp_path / f"{next(films)}{suffix}"
        player.play(film, steps=0)  # what is loaded once is not the film's
        gc.collect()
        tracemalloc.start()
        try:
            player.play(film)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return measure


# https://github.com/Farama-Foundation/Gymnasium/issues/714
@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_frames_are_not_collected(peak, suffix):
    """Every frame is kept in a list until the end: gigabytes for one episode."""
    short, long = peak(20, suffix), peak(220, suffix)
    assert long - short < 20 * FRAME


# https://github.com/python-pillow/Pillow/issues/2093
def test_a_gif_holds_its_index_and_a_few_frames(peak):
    """Saving a few megabytes of GIF takes one gigabyte."""
    assert peak(100, ".gif") < 16e6 + 2e6 + 20 * FRAME


# https://github.com/Farama-Foundation/Gymnasium/issues/1377
@pytest.mark.parametrize("suffix", [".gif", ".mp4"])
def test_nothing_is_left_of_a_film(push, tmp_path, suffix):
    """Clip objects are never freed, and the process dies after many episodes."""
    tape = twopass.record(Large, push, seeds=[7], max_steps=10)
    held = []
    tracemalloc.start()
    try:
        for index in range(8):
            twopass.render(tape, tmp_path / f"{index}{suffix}", env=Large)
            gc.collect()
            held.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert held[-1] - held[2] < 2 * FRAME
