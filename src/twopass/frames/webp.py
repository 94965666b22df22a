"""Animated WebP: a quarter to two thirds of an APNG's bytes, or less with loss."""

from __future__ import annotations

import errno
import io
import os
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO, Final

from PIL import Image, ImageChops, features

from twopass.errors import EncoderError, MissingDependencyError
from twopass.frames.animation import AnimationEncoder, Box, changed
from twopass.frames.info import Measured

__all__ = ["WebpEncoder"]

_ANIMATED, _ALPHA = 0x02, 0x10
_COVER: Final = 0x02  # of a picture: its pixels replace those on the screen
_RIFF_HEAD: Final = 12
_MOST_BYTES: Final = 2**32 - 2
# Measured on rendered scenes and pixel art: more effort costs up to three times the
# time for some percent of the bytes, less doubles the bytes.
_METHOD: Final = 2
_LOSSLESS_EFFORT: Final = 50


class WebpEncoder(AnimationEncoder):
    """Writes an animated WebP; unless ``quality`` is given, bit for bit the frames.

    Times are whole milliseconds with the rounding error carried on, so that the total
    is right. Two frames are in memory, whatever the length of the film.

    Args:
        path: The file to make. Missing parent folders are made.
        fps: Frames per second, above 0.
        overwrite: Whether an existing film may be replaced.
        loop: How often the film repeats after it was shown, up to 65534; 0 is for
            ever, ``None`` plays it once.
        quality: ``None`` loses nothing. From 0 (smallest) to 100 with loss: 80 makes
            shaded scenes three times smaller, flat drawings no smaller at all, and
            pixel art larger and blurred.

    Raises:
        EncoderError: If ``fps`` is not a frame rate, ``loop`` or ``quality`` cannot be
            kept, the target exists and may not be replaced, or its folder cannot be
            written to.
        MissingDependencyError: If Pillow was built without WebP.
    """

    format = "webp"
    longest_side = 16383
    longest_seconds = 0xFFFFFF // 1000
    most_plays = 0xFFFF

    def __init__(
        self,
        path: str | Path,
        *,
        fps: float,
        overwrite: bool = False,
        loop: int | None = 0,
        quality: float | None = None,
    ) -> None:
        self._require()
        self._settings = _settings(quality, str(path))
        super().__init__(path, fps=fps, overwrite=overwrite, loop=loop)

    @classmethod
    def _require(cls) -> None:
        if not features.check("webp"):
            purpose = "Writing a webp film (this build of Pillow lacks WebP)"
            raise MissingDependencyError("pillow", None, purpose)

    def _start(self, file: BinaryIO) -> None:
        file.write(b"RIFF" + bytes(4) + b"WEBP")
        flags = _ANIMATED | (_ALPHA if self._settings["lossless"] else 0)
        canvas = _u24(self.width - 1, self.height - 1)
        _write_chunk(file, b"VP8X", bytes([flags, 0, 0, 0]) + canvas)
        _write_chunk(file, b"ANIM", bytes(4) + self._plays.to_bytes(2, "little"))

    def _picture(
        self,
        file: BinaryIO,
        picture: Image.Image,
        screen: Image.Image | None,
        *,
        delay: Fraction,
    ) -> Fraction:
        milliseconds = round(delay * 1000)
        left, upper, right, lower = changed(picture, screen)
        # The file counts corners in pairs of pixels.
        left, upper = left // 2 * 2, upper // 2 * 2
        rectangle = self._drawn(picture, screen, (left, upper, right, lower))
        width, height = rectangle.size
        place = _u24(left // 2, upper // 2, width - 1, height - 1, milliseconds)
        flags = bytes([_COVER if rectangle.mode == "RGB" else 0])
        _write_chunk(file, b"ANMF", place + flags + self._compressed(rectangle))
        if file.tell() > _MOST_BYTES:
            raise OSError(errno.EFBIG, "a WebP file has at most 4 GiB")
        return Fraction(milliseconds, 1000)

    def _drawn(
        self, picture: Image.Image, screen: Image.Image | None, box: Box
    ) -> Image.Image:
        """Return what is drawn on the screen: its own pixels may stay transparent."""
        rectangle = picture.crop(box)
        if self._settings["lossless"] and screen is not None:
            # Up to half the bytes. With loss, edges of transparency cost more.
            rectangle.putalpha(_differing(rectangle, screen.crop(box)))
        return rectangle

    def _compressed(self, picture: Image.Image) -> bytes:
        still = io.BytesIO()
        picture.save(still, format="WEBP", method=_METHOD, **self._settings)
        return still.getvalue()[_RIFF_HEAD:]

    def _end(self, file: BinaryIO) -> None:
        size = file.tell() - 8
        file.seek(4)
        file.write(size.to_bytes(4, "little"))

    def _measure(self) -> Measured:
        with self._temporary.open("rb") as file:
            return _scan(file)


def _settings(quality: Any, path: str) -> dict[str, Any]:
    if quality is None:
        return {"lossless": True, "quality": _LOSSLESS_EFFORT}
    if type(quality) in {int, float} and 0 <= quality <= 100:
        return {"lossless": False, "quality": quality}
    raise EncoderError(
        f"quality={quality!r} is no quality of a WebP; give 0 (smallest) to 100, or "
        "None to lose nothing",
        path,
    )


def _differing(picture: Image.Image, screen: Image.Image) -> Image.Image:
    """Return a mask of the pixels that differ: 255 there, 0 elsewhere."""
    red, green, blue = ImageChops.difference(picture, screen).split()
    largest = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    return largest.point([0] + 255 * [255])


def _write_chunk(file: BinaryIO, kind: bytes, data: bytes) -> None:
    file.write(kind + len(data).to_bytes(4, "little") + data + bytes(len(data) % 2))


def _scan(file: BinaryIO) -> Measured:
    """Return what is in a file; nothing is decoded.

    Raises:
        OSError: If the file is not a complete animated WebP.
    """
    size = os.fstat(file.fileno()).st_size
    head = file.read(_RIFF_HEAD)
    if head != b"RIFF" + (size - 8).to_bytes(4, "little") + b"WEBP":
        raise OSError("the file is not as long as its head says")
    width = height = pictures = milliseconds = 0
    while file.tell() < size:
        kind, length = file.read(4), _number(file.read(4), 0, 4)
        following = file.tell() + length + length % 2
        body = file.read(16)
        if kind == b"VP8X":
            width, height = _number(body, 4) + 1, _number(body, 7) + 1
        elif kind == b"ANMF":
            pictures += 1
            milliseconds += _number(body, 12)
        file.seek(following)
    if file.tell() != size:
        raise OSError("the file ends inside a chunk")
    return Measured(pictures, milliseconds / 1000, width, height)


def _number(data: bytes, at: int, size: int = 3) -> int:
    return int.from_bytes(data[at : at + size], "little")


def _u24(*values: int) -> bytes:
    return b"".join(value.to_bytes(3, "little") for value in values)
