"""Animated PNG: without loss, in the browsers and readers that know PNG."""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Iterator
from fractions import Fraction
from typing import BinaryIO, Final

from PIL import Image

from twopass.frames.animation import AnimationEncoder, changed
from twopass.frames.info import Measured

__all__ = ["ApngEncoder"]

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
_BITS, _RGB = 8, 2
_COMPRESSION: Final = 6  # of 9; 3 saves a tenth of the time for a fifth more bytes
_U16_MAX: Final = 0xFFFF


class ApngEncoder(AnimationEncoder):
    """Writes an animated PNG, bit for bit the frames given.

    Times are fractions of 16-bit numbers: exact for common rates, and the error of
    others is carried on, so that the total is right. What knows no animation shows the
    first frame. Two frames are in memory, whatever the length of the film.

    Args:
        path: The file to make. Missing parent folders are made.
        fps: Frames per second, above 0.
        overwrite: Whether an existing film may be replaced.
        loop: How often the film repeats after it was shown, up to 2147483646; 0 is for
            ever, ``None`` plays it once.

    Raises:
        EncoderError: If ``fps`` is not a frame rate, ``loop`` cannot be kept, the
            target exists and may not be replaced, or its folder cannot be written to.
    """

    format = "apng"
    longest_side = 2**31 - 1
    longest_seconds = _U16_MAX
    most_plays = 2**31 - 1

    def _start(self, file: BinaryIO) -> None:
        self._numbered = 0
        file.write(_SIGNATURE)
        header = _u32(self.width, self.height) + bytes([_BITS, _RGB, 0, 0, 0])
        _write_chunk(file, b"IHDR", header)
        self._control_at = file.tell()
        self._write_control(file)

    def _write_control(self, file: BinaryIO) -> None:
        _write_chunk(file, b"acTL", _u32(self._stored, self._plays))

    def _picture(
        self,
        file: BinaryIO,
        picture: Image.Image,
        screen: Image.Image | None,
        *,
        delay: Fraction,
    ) -> Fraction:
        box = changed(picture, screen)
        rectangle = picture.crop(box)
        delay = _storable(delay)
        _write_chunk(
            file,
            b"fcTL",
            self._sequence()
            + _u32(*rectangle.size, *box[:2])
            + delay.numerator.to_bytes(2)
            + delay.denominator.to_bytes(2)
            + b"\0\0",  # the picture stays, and covers what was there
        )
        data = rectangle.tobytes("zip", "RGB", False, _COMPRESSION, -1, b"")
        if screen is None:
            _write_chunk(file, b"IDAT", data)
        else:
            _write_chunk(file, b"fdAT", self._sequence() + data)
        return delay

    def _sequence(self) -> bytes:
        self._numbered += 1
        return _u32(self._numbered - 1)

    def _end(self, file: BinaryIO) -> None:
        _write_chunk(file, b"IEND", b"")
        file.seek(self._control_at)
        self._write_control(file)

    def _measure(self) -> Measured:
        with self._temporary.open("rb") as file:
            return _scan(file)


def _storable(delay: Fraction) -> Fraction:
    """Return the nearest fraction of two 16-bit numbers.

    Example:
        >>> _storable(Fraction(1001, 30000)), _storable(Fraction(10**6 + 1, 10**6))
        (Fraction(1001, 30000), Fraction(1, 1))
    """
    return delay.limit_denominator(_U16_MAX // max(1, math.ceil(delay)))


def _write_chunk(file: BinaryIO, kind: bytes, data: bytes) -> None:
    checksum = zlib.crc32(data, zlib.crc32(kind))
    file.write(_u32(len(data)) + kind + data + _u32(checksum))


def _scan(file: BinaryIO) -> Measured:
    """Return what is in a file, after checking every byte of it but the pictures' own.

    Raises:
        OSError: If the file is not a complete APNG.
    """
    if file.read(len(_SIGNATURE)) != _SIGNATURE:
        raise OSError("the file does not begin as a PNG does")
    width = height = announced = pictures = 0
    delays = []
    for kind, data in _read_chunks(file):
        if kind == b"IHDR":
            width, height = _number(data, 0), _number(data, 4)
        elif kind == b"acTL":
            announced = _number(data, 0)
        elif kind == b"fcTL":
            delays.append(_number(data, 20, 2) / _number(data, 22, 2))
        elif kind in {b"IDAT", b"fdAT"}:
            pictures += 1
    if not announced == pictures == len(delays):
        raise OSError(f"{announced} pictures are announced, {pictures} are there")
    return Measured(pictures, math.fsum(delays), width, height)


def _read_chunks(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    kind = b""
    while kind != b"IEND":
        head = file.read(8)
        if len(head) < 8:
            raise OSError("the file ends before its end")
        kind = head[4:]
        data = file.read(_number(head, 0))
        if _number(file.read(4), 0) != zlib.crc32(data, zlib.crc32(kind)):
            raise OSError(f"chunk {kind!r} is damaged, or the file ends inside it")
        yield kind, data
    if file.tell() != os.fstat(file.fileno()).st_size:
        raise OSError("the file goes on after its end")


def _number(data: bytes, at: int, size: int = 4) -> int:
    return int.from_bytes(data[at : at + size])


def _u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4) for value in values)
