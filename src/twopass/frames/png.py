"""A folder of numbered PNG files."""

from __future__ import annotations

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
    ``overwrite=True`` replaces a folder only if nothing else is in it.

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

    def _write(self, frame: npt.NDArray[np.uint8]) -> None:
        name = f"frame-{self.frames_added:06d}.png"
        # The file is opened here: Pillow would remove a half-written one by itself.
        with (self._temporary / name).open("xb") as file:
            Image.fromarray(frame).save(file, format="PNG")

    def _finish(self) -> Measured:
        seconds = self.frames_added / self.fps
        return Measured(self.frames_added, seconds, self.width, self.height)

    def _measure(self) -> Measured:
        stored = 0
        width, height = self.width, self.height
        for file in sorted(self._temporary.iterdir()):
            with Image.open(file) as image:
                width, height = min(width, image.width), min(height, image.height)
                image.verify()
            stored += 1
        return Measured(stored, stored / self.fps, width, height)

    def _release(self) -> None:
        """Nothing stays open between two frames."""
