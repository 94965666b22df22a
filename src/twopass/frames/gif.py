"""A streaming GIF encoder."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from twopass.errors import EncoderError
from twopass.frames.animation import check_loop
from twopass.frames.canvas import STILL, Canvas
from twopass.frames.gif_file import LONGEST_DELAY, GifBlocks, scan
from twopass.frames.info import Measured
from twopass.frames.rate import FASTEST_FPS, SHORTEST_CS, FrameClock
from twopass.frames.staged import StagedEncoder

__all__ = ["GifEncoder"]

_LONGEST_SIDE = 0xFFFF
_MOST_LOOPS = 0xFFFF


class GifEncoder(StagedEncoder):
    """Writes a GIF, one stored frame for each frame given, or more for one held long.

    Without loss while the film has at most 255 colours; beyond, without dithering and
    without flicker: a pixel that does not change never changes on the screen. Delays
    are whole centiseconds with the rounding error carried on, so the total is right.
    Above 50 frames per second, which players cannot show, frames are dropped evenly,
    never the last. Memory: the 16 MB of a colour index and a few frames, whatever the
    length.

    Args:
        path: The file to make. Missing parent folders are made.
        fps: Frames per second, above 0.
        overwrite: Whether an existing film may be replaced.
        loop: How often the film repeats, up to 65535; 0 is for ever, ``None`` plays
            once.

    Raises:
        EncoderError: If ``fps`` or ``loop`` cannot be kept by a GIF, the target exists
            and may not be replaced, or its folder cannot be written to.
    """

    format = "gif"

    def __init__(
        self,
        path: str | Path,
        *,
        fps: float,
        overwrite: bool = False,
        loop: int | None = 0,
    ) -> None:
        check_loop(loop, most=_MOST_LOOPS, path=str(path))
        self._loop = loop
        self._file: BinaryIO | None = None
        super().__init__(path, fps=fps, overwrite=overwrite)
        with contextlib.ExitStack() as undo:
            undo.callback(self.abort)
            self._clock = self._checked_clock()
            undo.pop_all()
        self._stored = 0
        self._start = 0
        self._pending: npt.NDArray[np.uint8] | None = None

    def _checked_clock(self) -> FrameClock:
        clock = FrameClock(self.fps)
        if clock.end(1) > LONGEST_DELAY:
            raise EncoderError(
                f"fps={self.fps}: a GIF shows a frame for at most "
                f"{LONGEST_DELAY / 100} s; repeat frames at a higher rate",
                self.path,
            )
        if clock.drops:
            warnings.warn(
                f"{self.path}: a GIF plays at most {FASTEST_FPS} frames per second, so "
                f"frames are dropped evenly from the {self.fps:g} that were asked for; "
                "write an mp4 to keep every frame",
                stacklevel=4,
            )
        return clock

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        if self._file is None:
            self._open()
        start = self._clock.start(self.frames_added)
        if start > self._start:
            self._store(start)
        # How long a frame is shown is known when the next one starts.
        self._pending = frame.copy()

    def _open(self) -> None:
        self._check_sides(_LONGEST_SIDE)
        self._file = self._temporary.open("r+b")
        self._canvas = Canvas(self.height, self.width)
        self._blocks = GifBlocks(
            self._file, width=self.width, height=self.height, loop=self._loop
        )

    def _store(self, end: int) -> None:
        assert self._pending is not None
        assert self._file is not None
        drawing = self._canvas.draw(self._pending)
        for delay in _storable(end - self._start):
            self._blocks.image(
                drawing.indices,
                corner=drawing.corner,
                delay=delay,
                table=drawing.table,
            )
            self._stored += 1
            drawing = STILL
        # Nothing stays in a buffer that a forked child would write a second time.
        self._file.flush()
        self._start = end

    def _finish(self) -> Measured:
        end = max(self._clock.end(self.frames_added), self._start + SHORTEST_CS)
        self._store(end)
        self._blocks.finish(self._canvas.table.colours)
        assert self._file is not None
        self._file.close()
        return Measured(self._stored, end / 100, self.width, self.height)

    def _measure(self) -> Measured:
        with self._temporary.open("rb") as file:
            images, delays = scan(file)
        with Image.open(self._temporary) as image:
            stored = image.n_frames if images else 0
            return Measured(min(stored, images), delays / 100, *image.size)

    def _release(self) -> None:
        if self._file is not None:
            # Closing writes what is buffered, which a full disk refuses again.
            with contextlib.suppress(OSError):
                self._file.close()


def _storable(delay: int) -> Iterator[int]:
    """Split a delay in centiseconds into some that a GIF can say and players keep."""
    while delay > LONGEST_DELAY:
        yield LONGEST_DELAY - SHORTEST_CS
        delay -= LONGEST_DELAY - SHORTEST_CS
    yield delay
