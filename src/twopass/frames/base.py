"""The life of an encoder: open, add frames, close or give up."""

from __future__ import annotations

import abc
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from twopass.errors import EncoderError
from twopass.frames.info import FilmInfo
from twopass.frames.rate import checked_fps
from twopass.frames.staging import os_errors_named

__all__ = ["FrameEncoder"]


class FrameEncoder(abc.ABC):
    """Takes frames one by one and makes a film of them.

    Used in a ``with``: the film is finished at the end of the block, or given up if
    the block raises. A film that is given up leaves no file, and an older file of the
    same name as it was. Nothing is ever written by garbage collection.

    Args:
        path: Where the film goes; ``None`` for memory.
        fps: Frames per second, above 0.

    Attributes:
        format: Name of the format.
        path: Where the film goes, as text.
        fps: Frames per second.
        frames_added: Number of frames so far, those that were held included.

    Raises:
        EncoderError: If ``fps`` is not a frame rate or the target cannot be written.
    """

    format: ClassVar[str]

    def __init__(self, path: str | Path | None, *, fps: float) -> None:
        self.path = None if path is None else str(path)
        self.fps = checked_fps(fps, self.path)
        self.frames_added = 0
        self._size: tuple[int, int] | None = None
        self._state: Literal["open", "closed", "given up"] = "open"
        self._info: FilmInfo | None = None
        self._process = os.getpid()

    @classmethod
    @abc.abstractmethod
    def check(cls, path: str, *, overwrite: bool) -> None:
        """Find out, without writing, what would make the constructor fail.

        Args:
            path: Where the film would go.
            overwrite: Whether an existing film may be replaced.

        Raises:
            EncoderError: If the target exists and may not be replaced.
            MissingDependencyError: If a package is missing.
        """

    def add(self, frame: npt.NDArray[np.uint8]) -> None:
        """Add one frame, which is the caller's again when this returns.

        Args:
            frame: ``(H, W, 3) uint8``, the same size for the whole film.

        Raises:
            EncoderError: If the film is finished, the frame has another type or size,
                or it cannot be written. The film is then given up.
        """
        self._require_open()
        with self._given_up_on_error():
            self._check(frame)
            self._write(frame)
            self.frames_added += 1

    def hold(self) -> None:
        """Show the last frame for one more frame's time, as if it were added again.

        Raises:
            EncoderError: If the film is finished or has no frame yet.
        """
        self._require_open()
        self._require_frames()
        with self._given_up_on_error():
            self._hold()
            self.frames_added += 1

    def wants(self, index: int) -> bool:
        """Tell whether a frame is of use, unless it is the film's last.

        For callers to whom a frame is dear: where this is false they may :meth:`hold`
        instead of rendering and adding it.

        Args:
            index: Number of the frame, the first is 0.
        """
        return True

    def close(self) -> FilmInfo:
        """Finish the film, check it by reading it back, and give it its name.

        Returns:
            What was written. The same again on a later call.

        Raises:
            EncoderError: If no frame was added, the film was given up, it cannot be
                written, or it does not read back as what was given.
        """
        if self._info is not None:
            return self._info
        self._require_open()
        with self._given_up_on_error():
            self._require_frames()
            self._info = self._complete()
        self._state = "closed"
        return self._info

    def abort(self) -> None:
        """Give the film up and remove what was written. Does nothing after close."""
        if self._state == "open":
            self._state = "given up"
            if self._is_ours():
                self._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    @property
    def width(self) -> int:
        """Width of the frames in pixels; 0 before the first."""
        return self._size[1] if self._size else 0

    @property
    def height(self) -> int:
        """Height of the frames in pixels; 0 before the first."""
        return self._size[0] if self._size else 0

    @abc.abstractmethod
    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        """Take one checked frame; keep a copy if it is needed later.

        It is frame number ``frames_added``, and is shown until the next one's time.
        """

    @abc.abstractmethod
    def _complete(self) -> FilmInfo:
        """Finish the film and return what is in it."""

    @abc.abstractmethod
    def _discard(self) -> None:
        """Let go of everything and remove what was written."""

    def _hold(self) -> None:  # noqa: B027 - most formats keep numbers, not repetitions
        """Let one frame's time pass; the next frame's number tells as much."""

    @contextlib.contextmanager
    def _given_up_on_error(self) -> Iterator[None]:
        with contextlib.ExitStack() as undo, os_errors_named(self.path):
            undo.callback(self.abort)
            yield
            undo.pop_all()

    def _is_ours(self) -> bool:
        # Harnesses fork to enforce time-outs: what the child does with its copy must
        # not reach the file that its parent writes.
        return os.getpid() == self._process

    def _require_open(self) -> None:
        if not self._is_ours():
            raise EncoderError(
                f"{self.path}: the film belongs to process {self._process}, which "
                "opened it; open a new encoder in this one",
                self.path,
            )
        if self._state != "open":
            raise EncoderError(
                f"{self.path}: the film is {self._state} after {self.frames_added} "
                "frames; open a new encoder for another one",
                self.path,
            )

    def _require_frames(self) -> None:
        if self.frames_added == 0:
            raise EncoderError(
                f"{self.path}: no frame was added, so there is no film; add at least one",
                self.path,
            )

    def _check(self, frame: Any) -> None:
        if not _is_picture(frame):
            raise EncoderError(
                f"frame {self.frames_added} is {_describe(frame)}, not an (H, W, 3) uint8 "
                "array; pass it through twopass.frames.FrameNormaliser first",
                self.path,
            )
        self._check_size(*frame.shape[:2])

    def _check_size(self, height: int, width: int) -> None:
        if self._size is None:
            self._size = height, width
        elif self._size != (height, width):
            raise EncoderError(
                f"frame {self.frames_added} is {width}x{height} (width x height), but "
                f"the film began with {self.width}x{self.height}; resize the frames, "
                "start a new film, or open this one with pad=(WIDTH, HEIGHT), which "
                "surrounds smaller frames with black",
                self.path,
            )


def _is_picture(frame: Any) -> bool:
    return (
        isinstance(frame, np.ndarray)
        and frame.dtype == np.uint8
        and frame.ndim == 3
        and frame.shape[2] == 3
        and frame.size > 0
    )


def _describe(frame: Any) -> str:
    if isinstance(frame, np.ndarray):
        return f"a {frame.dtype} array of shape {frame.shape}"
    return f"a {type(frame).__name__}"
