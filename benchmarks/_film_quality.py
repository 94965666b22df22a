"""What of the frames is still there in a film."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from _film_sets import Frames, Stored
from PIL import Image

__all__ = ["Quality", "judged"]


@dataclass(frozen=True, slots=True)
class Quality:
    """Of a film beside its frames.

    Attributes:
        psnr: dB, of all frames together; infinite when none differs.
        worst: dB, of the frame that differs most.
        stored: How many pictures the file has; equal neighbours may be one.
        seconds: How long it plays, by its own delays.
        matched: How pictures were matched with frames: by ``time`` or, where the film
            does not last as long as it should, by each delay ``rounded`` to a number of
            frames or, if that gives another number than there are, by ``stretched``
            time.
    """

    psnr: float
    worst: float
    stored: int
    seconds: float
    matched: str

    @property
    def lossless(self) -> bool:
        """Whether no pixel of no frame differs."""
        return self.psnr == math.inf


def judged(film: Path, stored: Stored) -> Quality:
    """Decode a film and compare every frame with what is shown in its time."""
    frames = stored.frames
    delays = list(_delays(film.read_bytes()))
    matched, shown = _match(delays, stored)
    errors = list(_errors(film, frames, shown))
    size = frames[0].size
    return Quality(
        psnr=_decibels(sum(errors) / len(errors) / size),
        worst=_decibels(max(errors) / size),
        stored=len(delays),
        seconds=sum(delays) / 100,
        matched=matched,
    )


def _decibels(error: float) -> float:
    return 10 * math.log10(255**2 / error) if error else math.inf


def _delays(data: bytes) -> Iterator[int]:
    """Read each picture's delay, in centiseconds.

    By hand, since readers raise the delays that players would raise.
    """
    at, delay = 13 + _table(data[10]), 0
    while data[at] != 0x3B:
        if data[at] == 0x2C:
            yield delay
            at += 11 + _table(data[at + 9])
            delay = 0
        else:
            if data[at + 1] == 0xF9:
                delay = int.from_bytes(data[at + 4 : at + 6], "little")
            at += 2
        while data[at]:
            at += data[at] + 1
        at += 1


def _table(flags: int) -> int:
    return 3 * 2 << (flags & 7) if flags & 0x80 else 0


def _match(delays: list[int], stored: Stored) -> tuple[str, list[int]]:
    """Return which picture is shown in the middle of each frame's time."""
    off = abs(sum(delays) / 100 - stored.seconds)
    if off < 0.5 / stored.fps:
        return "time", _by_time(delays, stored, 1)
    counts = [max(1, round(delay * stored.fps / 100)) for delay in delays]
    if sum(counts) == stored.count:
        return "rounded", [i for i, count in enumerate(counts) for _ in range(count)]
    stretch = sum(delays) / 100 / stored.seconds
    return "stretched", _by_time(delays, stored, stretch)


def _by_time(delays: list[int], stored: Stored, stretch: float) -> list[int]:
    middles = (np.arange(stored.count) + 0.5) * 100 / stored.fps * stretch
    ends = list(accumulate(delays))
    found = np.searchsorted(ends, middles, side="right")
    return [int(i) for i in np.minimum(found, len(delays) - 1)]


def _errors(film: Path, frames: Frames, shown: list[int]) -> Iterator[int]:
    """Return the sum of squared differences of each frame."""
    with Image.open(film) as image:
        at = -1
        for frame, wanted in zip(frames, shown, strict=True):
            while at < wanted:
                at += 1
                image.seek(at)  # each in turn: a picture builds on the one before
            picture = np.asarray(image.convert("RGB"))
            yield _squares(frame, picture)


def _squares(frame: Frames, picture: Frames) -> int:
    difference = np.subtract(frame, picture, dtype=np.int16).ravel()
    return int(np.square(difference, dtype=np.int32).sum(dtype=np.int64))
