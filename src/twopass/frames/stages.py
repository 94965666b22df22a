"""What can stand before an encoder: frames left out, frames padded."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from twopass.errors import EncoderError
from twopass.frames.base import FrameEncoder
from twopass.frames.info import FilmInfo

__all__ = ["Padded", "Stage", "Thinned"]


class Stage(FrameEncoder):
    """Hands frames on to an encoder, which makes the film.

    Args:
        encoder: The next stage, or the encoder itself.

    Attributes:
        encoder: The same.
    """

    def __init__(self, encoder: FrameEncoder) -> None:
        super().__init__(encoder.path, fps=encoder.fps)
        self.encoder = encoder
        # The class of a stage says nothing of the film.
        self.format = encoder.format  # type: ignore[misc]

    @classmethod
    def check(cls, path: str, *, overwrite: bool) -> None:
        """Do nothing: a stage asks for nothing of its own."""

    def wants(self, index: int) -> bool:
        """Tell whether the encoder wants the frame."""
        return self.encoder.wants(index)

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        self.encoder.add(frame)

    def _hold(self) -> None:
        self.encoder.hold()

    def _complete(self) -> FilmInfo:
        return self.encoder.close()

    def _discard(self) -> None:
        self.encoder.abort()


class Thinned(Stage):
    """Leaves frames out: the first, every ``every``-th after it and the last stay.

    Each is shown until the next, so that the film lasts as long as with all of them.

    Args:
        encoder: The next stage.
        every: 1 for all frames, 2 for every other, and so on.

    Raises:
        EncoderError: If ``every`` is no whole number from 1 on.
    """

    def __init__(self, encoder: FrameEncoder, every: int) -> None:
        super().__init__(encoder)
        if type(every) is not int or every < 1:
            raise EncoderError(
                f"every={every!r} leaves out nothing that can be counted; give a whole "
                "number: 1 for all frames, 2 for every other",
                self.path,
            )
        self._every = every
        self._waiting: npt.NDArray[np.uint8] | None = None

    def wants(self, index: int) -> bool:
        """Tell whether the frame stays, even if others follow."""
        return index % self._every == 0 and self.encoder.wants(index)

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        self._drop()
        if self.frames_added % self._every == 0:
            self.encoder.add(frame)
        else:
            # It may be the last, which is known at the end.
            self._waiting = frame.copy()

    def _hold(self) -> None:
        self._drop()
        self.encoder.hold()

    def _drop(self) -> None:
        if self._waiting is not None:
            self._waiting = None
            self.encoder.hold()

    def _complete(self) -> FilmInfo:
        if self._waiting is not None:
            self.encoder.add(self._waiting)
        return self.encoder.close()


class Padded(Stage):
    """Surrounds frames that are smaller than the film with black, never scales them.

    Args:
        encoder: The next stage.
        size: Width and height of the film in pixels; ``True`` for those of the first
            frame.

    Raises:
        EncoderError: If ``size`` is no such pair, or a frame is larger.
    """

    def __init__(self, encoder: FrameEncoder, size: tuple[int, int] | bool) -> None:
        super().__init__(encoder)
        if size is not True:
            self._size = _checked_size(size, self.path)

    def _check_size(self, height: int, width: int) -> None:
        if self._size is None:
            self._size = height, width
        if height > self.height or width > self.width:
            raise EncoderError(
                f"frame {self.frames_added} is {width}x{height} (width x height), "
                f"larger than the film's {self.width}x{self.height}; pass pad=(WIDTH, "
                "HEIGHT) of the largest frame",
                self.path,
            )

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        height, width = frame.shape[:2]
        if (height, width) == self._size:
            self.encoder.add(frame)
            return
        above, left = (self.height - height) // 2, (self.width - width) // 2
        padding = (
            (above, self.height - height - above),
            (left, self.width - width - left),
            (0, 0),
        )
        self.encoder.add(np.pad(frame, padding))


def _checked_size(size: Any, path: str | None) -> tuple[int, int]:
    """Return height and width."""
    pair = isinstance(size, tuple | list) and len(size) == 2
    if not pair or not all(type(side) is int and side > 0 for side in size):
        raise EncoderError(
            f"pad={size!r} is no size; give (WIDTH, HEIGHT) in pixels, or True for the "
            "size of the first frame",
            path,
        )
    return size[1], size[0]
