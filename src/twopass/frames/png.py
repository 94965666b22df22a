"""A folder of numbered PNG files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from twopass.frames.info import Measured
from twopass.frames.staged import StagedEncoder
from twopass.frames.staging import StagedFolder

__all__ = ["PngFolderEncoder"]


class PngFolderEncoder(StagedEncoder):
    """Writes ``PATH/frame-000000.png`` and so on, without loss.

    ``path`` is the folder, whatever its suffix. It appears complete or not at all;
    ``overwrite=True`` replaces a folder only if nothing else is in it. A file has the
    number of its frame: the numbers of frames that were left out or held are missing.

    Args:
        path: The folder to make. Missing parent folders are made.
        fps: Frames per second, above 0. Not stored: the film's duration is computed.
        overwrite: Whether an existing folder of frames may be replaced.

    Raises:
        EncoderError: If ``fps`` is not a frame rate, the target exists and may not be
            replaced, or its parent cannot be written to.
    """

    format = "png"
    staging = StagedFolder

    def __init__(
        self, path: str | Path, *, fps: float, overwrite: bool = False
    ) -> None:
        super().__init__(path, fps=fps, overwrite=overwrite)
        self._stored = 0

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        name = f"frame-{self.frames_added:06d}.png"
        # The file is opened here: Pillow would remove a half-written one by itself.
        with (self._temporary / name).open("xb") as file:
            Image.fromarray(frame).save(file, format="PNG")
        self._stored += 1

    def _finish(self) -> Measured:
        return Measured(self._stored, self._seconds, self.width, self.height)

    @property
    def _seconds(self) -> float:
        return self.frames_added / self.fps

    def _measure(self) -> Measured:
        stored = 0
        width, height = self.width, self.height
        for file in sorted(self._temporary.iterdir()):
            with Image.open(file) as image:
                width, height = min(width, image.width), min(height, image.height)
                image.verify()
            stored += 1
        return Measured(stored, self._seconds, width, height)

    def _release(self) -> None:
        """Nothing stays open between two frames."""
