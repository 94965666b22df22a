"""Frames kept in memory, behind the same interface as a film."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from twopass.errors import EncoderError
from twopass.frames.base import FrameEncoder
from twopass.frames.info import FilmInfo

__all__ = ["MemoryEncoder"]


class MemoryEncoder(FrameEncoder):
    """Keeps a copy of every frame in a list: for tests and for showing frames inline.

    Args:
        path: Only ``None``.
        fps: Frames per second, above 0.
        overwrite: Without effect.

    Attributes:
        frames: The frames so far, each ``(H, W, 3) uint8``; empty once given up.

    Raises:
        EncoderError: If a path is given or ``fps`` is not a frame rate.

    Example:
        >>> import numpy as np
        >>> with MemoryEncoder(None, fps=10) as film:
        ...     film.add(np.zeros((4, 6, 3), np.uint8))
        >>> len(film.frames), film.close().seconds
        (1, 0.1)
    """

    format = "memory"

    def __init__(
        self, path: None = None, *, fps: float, overwrite: bool = False
    ) -> None:
        super().__init__(path, fps=fps)
        if self.path is not None:
            raise EncoderError(
                f"frames in memory have no path, not even {self.path!r}; pass None",
                self.path,
            )
        self.frames: list[npt.NDArray[np.uint8]] = []

    @classmethod
    def check(cls, path: str, *, overwrite: bool) -> None:
        """Do nothing: memory can always be opened."""

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        self.frames.append(frame.copy(order="C"))

    def _complete(self) -> FilmInfo:
        return FilmInfo(
            path=None,
            frames=self.frames_added,
            stored=len(self.frames),
            seconds=self.frames_added / self.fps,
            width=self.width,
            height=self.height,
            bytes=sum(frame.nbytes for frame in self.frames),
            format=self.format,
        )

    def _discard(self) -> None:
        self.frames.clear()
