"""Which encoder writes which format."""

from __future__ import annotations

import contextlib
import importlib
import inspect
from pathlib import Path
from typing import Any

from twopass.errors import EncoderError
from twopass.frames.base import FrameEncoder
from twopass.frames.overlap import Overlapped
from twopass.frames.stages import Padded, Thinned

__all__ = ["check_film", "open_encoder"]

# Loaded on use: a format costs nothing until a film is made with it.
_ENCODERS = {
    "apng": "twopass.frames.apng:ApngEncoder",
    "gif": "twopass.frames.gif:GifEncoder",
    "memory": "twopass.frames.memory:MemoryEncoder",
    "mp4": "twopass.frames.video:VideoEncoder",
    "png": "twopass.frames.png:PngFolderEncoder",
    "webp": "twopass.frames.webp:WebpEncoder",
}


def open_encoder(  # noqa: PLR0913 - each is one choice of the user's, by keyword
    path: str | Path | None,
    *,
    fps: float,
    format: str | None = None,  # noqa: A002 - the word that a caller looks for
    overwrite: bool = False,
    every: int = 1,
    pad: bool | tuple[int, int] = False,
    overlap: bool = False,
    **options: Any,
) -> FrameEncoder:
    """Open an encoder for a film.

    Args:
        path: Where the film goes; the suffix names the format. ``None`` keeps the
            frames in memory.
        fps: Frames per second, above 0.
        format: Name of the format, instead of the suffix: ``"gif"``, ``"mp4"``,
            ``"webp"``, ``"apng"``, ``"png"`` (``path`` is a folder) or ``"memory"``.
        overwrite: Whether an existing film may be replaced.
        every: Store the first frame, every so many-th after it, and the last; the film
            lasts as long as with all of them.
        pad: Width and height of the film: smaller frames are surrounded with black.
            ``True`` takes the size of the first frame. ``False`` refuses a frame of
            another size than the first.
        overlap: Whether a thread encodes while the caller makes the next frame.
        **options: For the encoder: ``crf``, ``preset`` and ``chroma`` of an MP4, ``loop``
            of a GIF, WebP or APNG, ``quality`` of a WebP.

    Returns:
        The encoder, to be used in a ``with``.

    Raises:
        EncoderError: If the format is not known, ``fps`` is not a frame rate, or the
            target cannot be written.
        MissingDependencyError: If the format needs a package that is not installed.

    Example:
        >>> import numpy as np
        >>> with open_encoder(None, fps=50) as film:
        ...     film.add(np.zeros((8, 8, 3), np.uint8))
        >>> film.close().frames
        1
    """
    kind = _load(_format_of(path, format), path)
    _refuse_unknown(options, kind, path)
    encoder: FrameEncoder = kind(path, fps=fps, overwrite=overwrite, **options)
    with contextlib.ExitStack() as undo:
        undo.callback(encoder.abort)
        # The last to come is the first to see a frame.
        if overlap:
            encoder = Overlapped(encoder)
        if pad is not False:
            encoder = Padded(encoder, pad)
        if every is True or every != 1:
            encoder = Thinned(encoder, every)
        undo.pop_all()
    return encoder


def check_film(
    path: str | Path | None,
    *,
    format: str | None = None,  # noqa: A002 - as in open_encoder
    overwrite: bool = False,
) -> None:
    """Find out before a long run whether a film could be opened after it.

    Nothing is written.

    Args:
        path: Where the film will go; ``None`` for memory.
        format: Name of the format, instead of the suffix.
        overwrite: Whether an existing film may be replaced.

    Raises:
        EncoderError: If the format is not known, or the target exists and may not be
            replaced.
        MissingDependencyError: If the format needs a package that is not installed.

    Example:
        >>> check_film("episode.avi")
        Traceback (most recent call last):
        twopass.errors.EncoderError: episode.avi: no film of format 'avi' ...
    """
    encoder = _load(_format_of(path, format), path)
    encoder.check(str(path), overwrite=overwrite)


def _format_of(path: str | Path | None, name: str | None) -> str:
    if name is not None:
        return name.lower()
    return "memory" if path is None else Path(path).suffix.lower().removeprefix(".")


def _refuse_unknown(
    options: dict[str, Any], encoder: Any, path: str | Path | None
) -> None:
    common = inspect.signature(open_encoder).parameters.keys() - {"format", "options"}
    known = (common | inspect.signature(encoder).parameters.keys()) - {"path"}
    if unknown := sorted(options.keys() - known):
        raise EncoderError(
            f"{path}: a film of format {encoder.format!r} has no option "
            f"{', '.join(unknown)}; it has {', '.join(sorted(known))}",
            None if path is None else str(path),
        )


def _load(name: str, path: str | Path | None) -> Any:
    if name not in _ENCODERS or (path is None and name != "memory"):
        raise EncoderError(
            f"{path}: no film of format {name!r} can be written there; known are "
            f"{', '.join(_ENCODERS)} (memory: path None). Use such a suffix, or format=",
            None if path is None else str(path),
        )
    module, _, attribute = _ENCODERS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)
