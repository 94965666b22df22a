"""Frames per second, and the instants at which a GIF can show a frame."""

from __future__ import annotations

import numbers
from fractions import Fraction
from typing import Any

from twopass.errors import EncoderError

__all__ = ["FASTEST_FPS", "SHORTEST_CS", "FrameClock", "checked_fps", "tidy_fraction"]

# Beyond, FFmpeg's time bases and tick counts overflow.
_LOWEST_FPS, _HIGHEST_FPS = 1e-4, 1e6
# Players raise a delay of 0 or 1 cs to 10 cs, so 2 cs is the shortest that is kept.
SHORTEST_CS = 2
FASTEST_FPS = 100 // SHORTEST_CS


def checked_fps(fps: Any, path: str | None) -> float:
    """Return ``fps`` as a float.

    Args:
        fps: Frames per second, a real number from 0.0001 to 1,000,000.
        path: The film, for the error.

    Raises:
        EncoderError: If it is not such a number.

    Example:
        >>> checked_fps(30, None)
        30.0
    """
    number = isinstance(fps, numbers.Real) and not isinstance(fps, bool)
    if number and _LOWEST_FPS <= fps <= _HIGHEST_FPS:
        return float(fps)
    raise EncoderError(
        f"fps={fps!r} is not a frame rate; give a number from {_LOWEST_FPS} to "
        f"{_HIGHEST_FPS:g}, such as fps=30",
        path,
    )


def tidy_fraction(fps: float) -> Fraction:
    """Return the simple fraction that a frame rate stands for.

    Example:
        >>> tidy_fraction(30000 / 1001), tidy_fraction(0.1)
        (Fraction(30000, 1001), Fraction(1, 10))
    """
    if fps < 1:
        return 1 / tidy_fraction(1 / fps)
    return Fraction(fps).limit_denominator(10_000)


class FrameClock:
    """When each frame of a film starts, in whole centiseconds.

    The rounding error is carried from frame to frame, so the total is right. Above
    50 frames per second several frames share a start: the last of them is shown.

    Args:
        fps: Frames per second.

    Example:
        >>> clock = FrameClock(30)
        >>> [clock.start(i) for i in range(4)], clock.end(300)
        ([0, 3, 7, 10], 1000)
    """

    def __init__(self, fps: float) -> None:
        self._fps = tidy_fraction(fps)
        self.drops = self._fps > FASTEST_FPS

    def start(self, index: int) -> int:
        """Return the start of frame ``index`` in centiseconds."""
        if not self.drops:
            return self.end(index)
        # The last slot that still ends within 1 cs of the end of this frame, so that
        # a film may stop after any frame without playing too long.
        slot = (100 * (index + 1) / self._fps - 1) // SHORTEST_CS
        return SHORTEST_CS * max(0, int(slot))

    def end(self, frames: int) -> int:
        """Return how long ``frames`` frames last in centiseconds."""
        return round(100 * frames / self._fps)
