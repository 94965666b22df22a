"""Films that are a row of still pictures: each the part that changed, and its time."""

from __future__ import annotations

import abc
import contextlib
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageChops

from twopass.errors import EncoderError
from twopass.frames.info import Measured
from twopass.frames.rate import tidy_fraction
from twopass.frames.staged import StagedEncoder

__all__ = ["AnimationEncoder", "Box", "changed", "check_loop"]

#: Left, upper, right and lower edge in pixels; the last two are outside.
Box = tuple[int, int, int, int]

# Browsers show what is shorter for 100 ms, in every format.
_SHORTEST_MS = 11


class AnimationEncoder(StagedEncoder):
    """Stores one picture for each frame given, as soon as its time is known.

    Of each picture only the rectangle that changed is stored. Two frames are in
    memory, whatever the length of the film.

    Args:
        path: The file to make. Missing parent folders are made.
        fps: Frames per second, above 0.
        overwrite: Whether an existing film may be replaced.
        loop: How often the film repeats after it was shown; 0 is for ever, ``None``
            plays it once.

    Raises:
        EncoderError: If ``fps`` is not a frame rate, ``loop`` cannot be kept, the
            target exists and may not be replaced, or its folder cannot be written to.
    """

    longest_side: ClassVar[int]
    longest_seconds: ClassVar[int]
    most_plays: ClassVar[int]

    def __init__(
        self,
        path: str | Path,
        *,
        fps: float,
        overwrite: bool = False,
        loop: int | None = 0,
    ) -> None:
        check_loop(loop, most=self.most_plays - 1, path=str(path))
        # The first showing counts; 0 is for ever.
        self._plays = 1 if loop is None else loop + 1 if loop else 0
        self._file: BinaryIO | None = None
        super().__init__(path, fps=fps, overwrite=overwrite)
        self._rate = tidy_fraction(self.fps)
        self._pending: Image.Image | None = None
        self._screen: Image.Image | None = None
        self._stored = 0
        self._shown = Fraction(0)

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        if self._file is None:
            self._check_sides(self.longest_side)
            self._file = self._temporary.open("r+b")
            self._start(self._file)
        else:
            # How long a picture is shown is known when the next one comes.
            self._store(self._file)
            self._warn_of_speed()
        self._pending = Image.fromarray(frame)

    def _store(self, file: BinaryIO) -> None:
        assert self._pending is not None
        wanted = self.frames_added / self._rate - self._shown
        if wanted > self.longest_seconds:
            raise EncoderError(
                f"frame {self.frames_added}: the picture before it lasts "
                f"{float(wanted):.0f} s, but a picture of a film of format "
                f"{self.format!r} lasts at most {self.longest_seconds} s; add the "
                "frame again meanwhile, or raise fps",
                self.path,
            )
        delay = self._picture(
            file, self._pending, self._screen, delay=max(Fraction(0), wanted)
        )
        # Where times are rounded, the sum would be a fraction of thousands of digits.
        self._shown = (self._shown + delay).limit_denominator(10**12)
        # Nothing stays in a buffer that a forked child would write a second time.
        file.flush()
        self._stored += 1
        self._screen = self._pending

    def _finish(self) -> Measured:
        assert self._file is not None
        self._store(self._file)
        self._end(self._file)
        self._file.close()
        seconds = float(self._shown)
        return Measured(self._stored, seconds, self.width, self.height)

    def _release(self) -> None:
        if self._file is not None:
            # Closing writes what is buffered, which a full disk refuses again.
            with contextlib.suppress(OSError):
                self._file.close()

    def _warn_of_speed(self) -> None:
        if self._stored == 1 and self._shown * 1000 < _SHORTEST_MS:
            warnings.warn(
                f"{self.path}: browsers show a picture of less than {_SHORTEST_MS} ms "
                f"for 100 ms, so that {self.fps:g} frames per second play slowly "
                "there; store fewer of them (every=2), or write an mp4",
                stacklevel=4,
            )

    @abc.abstractmethod
    def _start(self, file: BinaryIO) -> None:
        """Write what comes before the first picture."""

    @abc.abstractmethod
    def _picture(
        self,
        file: BinaryIO,
        picture: Image.Image,
        screen: Image.Image | None,
        *,
        delay: Fraction,
    ) -> Fraction:
        """Write one picture.

        Args:
            file: Where to.
            picture: What is to be seen.
            screen: What is seen before; ``None`` for the first picture.
            delay: For how many seconds.

        Returns:
            For how many seconds the file says; the difference is made up for later.
        """

    @abc.abstractmethod
    def _end(self, file: BinaryIO) -> None:
        """Write what comes after the last picture, and what was left open before."""


def changed(picture: Image.Image, screen: Image.Image | None) -> Box:
    """Return the rectangle that holds every pixel that differs.

    It has at least one pixel, as pictures do; without a screen it is the whole picture.

    Example:
        >>> from PIL import Image
        >>> black, dotted = Image.new("RGB", (9, 9)), Image.new("RGB", (9, 9))
        >>> dotted.putpixel((3, 5), (0, 0, 1))
        >>> changed(dotted, black), changed(black, black), changed(black, None)
        ((3, 5, 4, 6), (0, 0, 1, 1), (0, 0, 9, 9))
    """
    if screen is None:
        return 0, 0, *picture.size
    return ImageChops.difference(picture, screen).getbbox() or (0, 0, 1, 1)


def check_loop(loop: Any, *, most: int, path: str) -> None:
    """Refuse what is no number of repeats.

    Raises:
        EncoderError: If it is neither 0 to ``most`` nor ``None``.
    """
    if loop is None or (type(loop) is int and 0 <= loop <= most):
        return
    raise EncoderError(
        f"loop={loop!r} is no number of repeats; give 0 (for ever) to {most}, or None "
        "to play once",
        path,
    )
