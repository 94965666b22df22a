"""What is known about a film once it is written."""

from __future__ import annotations

import dataclasses
from typing import Any

__all__ = ["FilmInfo", "Measured"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FilmInfo:
    """A finished film, as found by reading it back.

    Attributes:
        path: The file or folder as text; ``None`` for frames kept in memory.
        frames: Number of frames that the encoder was given, held ones included.
        stored: Number of pictures in the film. Smaller than ``frames`` where frames
            were held or left out, as a GIF does above 50 frames per second; larger
            where a GIF shows a picture for more than 655 s.
        seconds: How long the film plays.
        width: Width of the stored picture in pixels. H.264 in 4:2:0 needs even sides:
            an odd one is one pixel larger here than in the frames given.
        height: Height of the stored picture in pixels.
        bytes: Size on disk, or in memory for ``path=None``.
        format: Name of the format, such as ``"gif"``.
    """

    path: str | None
    frames: int
    stored: int
    seconds: float
    width: int
    height: int
    bytes: int
    format: str

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a dictionary of plain JSON values."""
        return dataclasses.asdict(self)


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """What an encoder meant to write, or what a reader found in the file.

    Attributes:
        stored: Number of frames.
        seconds: How long the film plays.
        width: Width in pixels.
        height: Height in pixels.
    """

    stored: int
    seconds: float
    width: int
    height: int

    def differs(self, other: Measured, *, tolerance: float) -> bool:
        """Tell whether two measurements disagree.

        Args:
            other: The measurement to compare with.
            tolerance: Seconds by which the durations may differ.
        """
        return (
            (self.stored, self.width, self.height)
            != (other.stored, other.width, other.height)
        ) or abs(self.seconds - other.seconds) > tolerance
