"""Frames into films: one encoder a format, all with ``add`` and ``close``.

Knows neither tapes nor environments: an encoder takes arrays. Encoders stream, hold a
bounded number of frames, write under a temporary name and are read back before the
film gets its own.

Example:
    >>> import numpy as np
    >>> from twopass.frames import FrameNormaliser, open_encoder
    >>> normalise = FrameNormaliser()
    >>> with open_encoder(None, fps=20) as film:
    ...     for step in range(3):
    ...         film.add(normalise(np.full((2, 2), step / 2), step))
    >>> film.close().seconds
    0.15
"""

from __future__ import annotations

from twopass.frames.base import FrameEncoder
from twopass.frames.formats import check_film, open_encoder
from twopass.frames.info import FilmInfo
from twopass.frames.normalise import FrameNormaliser

__all__ = [
    "FilmInfo",
    "FrameEncoder",
    "FrameNormaliser",
    "check_film",
    "open_encoder",
]
