"""Encoders that write to disk: checked under a temporary name, then renamed."""

from __future__ import annotations

import abc
from pathlib import Path
from typing import ClassVar

import structlog

from twopass.errors import EncoderError
from twopass.frames.base import FrameEncoder
from twopass.frames.info import FilmInfo, Measured
from twopass.frames.staging import StagedFile, Staging

__all__ = ["StagedEncoder"]

_log = structlog.get_logger(__name__)


class StagedEncoder(FrameEncoder):
    """A :class:`FrameEncoder` whose film appears complete or not at all.

    Args:
        path: Where the film goes. Missing parent folders are made.
        fps: Frames per second, above 0.
        overwrite: Whether an existing film may be replaced.

    Raises:
        EncoderError: If ``fps`` is not a frame rate, the target exists and may not be
            replaced, or its folder cannot be written to.
    """

    staging: ClassVar[type[Staging]] = StagedFile
    #: Seconds by which the duration of the file may differ from what was given.
    tolerance: ClassVar[float] = 1e-6

    def __init__(
        self, path: str | Path, *, fps: float, overwrite: bool = False
    ) -> None:
        super().__init__(path, fps=fps)
        self._staged = self.staging(str(path), overwrite=overwrite)
        self._staged.create()

    @classmethod
    def check(cls, path: str, *, overwrite: bool) -> None:
        """Find out, without writing, what would make the constructor fail.

        Args:
            path: Where the film would go.
            overwrite: Whether an existing film may be replaced.

        Raises:
            EncoderError: If the target exists and may not be replaced.
            MissingDependencyError: If what the format needs is not installed.
        """
        cls._require()
        cls.staging(path, overwrite=overwrite)

    @classmethod
    def _require(cls) -> None:
        """Raise a ``MissingDependencyError`` if what the format needs is missing."""

    @property
    def _temporary(self) -> Path:
        return self._staged.temporary

    def _complete(self) -> FilmInfo:
        expected = self._finish()
        found = self._measure()
        if found.differs(expected, tolerance=self.tolerance):
            raise EncoderError(
                f"{self.path}: the film reads back as {found}, but {expected} was "
                "written; nothing was kept. This is a bug in twopass or in its encoder",
                self.path,
            )
        info = self._describe_film(found)
        self._staged.publish()
        _log.info("film_written", **info.to_dict())
        return info

    def _describe_film(self, found: Measured) -> FilmInfo:
        return FilmInfo(
            path=self.path,
            frames=self.frames_added,
            stored=found.stored,
            seconds=found.seconds,
            width=found.width,
            height=found.height,
            bytes=self._staged.size(),
            format=self.format,
        )

    def _check_sides(self, longest: int) -> None:
        if max(self.width, self.height) > longest:
            raise EncoderError(
                f"{self.width}x{self.height} frames: a film of format "
                f"{self.format!r} has sides of at most {longest} pixels",
                self.path,
            )

    def _discard(self) -> None:
        self._release()
        self._staged.discard()

    @abc.abstractmethod
    def _finish(self) -> Measured:
        """Write the rest, close the temporary, and return what should be in it."""

    @abc.abstractmethod
    def _measure(self) -> Measured:
        """Open the temporary with a reader and return what is in it."""

    @abc.abstractmethod
    def _release(self) -> None:
        """Close whatever is open, whether or not the film is complete."""
