"""The bytes of a GIF file: blocks, colour tables and LZW data."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import numpy.typing as npt
from PIL import GifImagePlugin, Image

__all__ = ["LONGEST_DELAY", "TRANSPARENT", "GifBlocks", "scan"]

TRANSPARENT = 0
LONGEST_DELAY = 0xFFFF  # centiseconds

_TABLE_ENTRIES = 256
_TABLE_FLAG = 0x80
_KEEP = 1 << 2  # disposal: leave the frame on the screen
_EXTENSION, _IMAGE, _TRAILER = b"!", b",", b";"
_DESCRIPTOR_BYTES = 10


class GifBlocks:
    """Writes the blocks of one GIF, streaming.

    The global colour table comes first in the file and is known last: its space is
    reserved, and filled by :meth:`finish`.

    Args:
        file: Opened for binary writing, seekable, at its start.
        width: Width of the screen in pixels.
        height: Height of the screen in pixels.
        loop: How often the film repeats; 0 is for ever, ``None`` plays once.
    """

    def __init__(
        self, file: BinaryIO, *, width: int, height: int, loop: int | None
    ) -> None:
        self._file = file
        flags = _TABLE_FLAG | 0x70 | _table_bits(_TABLE_ENTRIES)
        file.write(b"GIF89a" + _u16(width, height) + bytes([flags, 0, 0]))
        self._table_at = file.tell()
        file.write(bytes(3 * _TABLE_ENTRIES))
        if loop is not None:
            file.write(b"!\xff\x0bNETSCAPE2.0\x03\x01" + _u16(loop) + b"\0")

    def image(
        self,
        indices: npt.NDArray[np.uint8],
        *,
        corner: tuple[int, int],
        delay: int,
        table: npt.NDArray[np.uint8] | None,
    ) -> None:
        """Write one frame.

        Args:
            indices: ``(h, w) uint8`` entries of the colour table; index
                ``TRANSPARENT`` leaves the screen as it is.
            corner: Row and column of the top left pixel on the screen.
            delay: How long the frame is shown, in centiseconds.
            table: ``(n, 3) uint8`` colour table of this frame alone, at most 256
                entries; ``None`` for the global one.
        """
        height, width = indices.shape
        flags, colours = 0, b""
        if table is not None:
            bits = _table_bits(len(table))
            flags = _TABLE_FLAG | bits
            colours = table.tobytes().ljust(3 << (bits + 1), b"\0")
        control = b"!\xf9\x04" + bytes([_KEEP | 1]) + _u16(delay)
        place = _IMAGE + _u16(corner[1], corner[0], width, height) + bytes([flags])
        self._file.write(
            control
            + bytes([TRANSPARENT, 0])
            + place
            + colours
            + _compress(indices, bits=max(2, int(indices.max()).bit_length()))
        )

    def finish(self, table: npt.NDArray[np.uint8]) -> None:
        """Write the end of the file, then the global colour table in its place.

        Args:
            table: ``(n, 3) uint8``, at most 256 entries.
        """
        self._file.write(_TRAILER)
        self._file.seek(self._table_at)
        self._file.write(table.tobytes())


def _compress(indices: npt.NDArray[np.uint8], *, bits: int) -> bytes:
    """Return the LZW image data of a picture: code size, sub-blocks, end.

    Args:
        indices: ``(h, w) uint8``, every value below ``1 << bits``.
        bits: The LZW minimum code size, 2 to 8.
    """
    image = Image.fromarray(np.ascontiguousarray(indices))
    image.encoderconfig = (bits, 0)
    data = b"".join(GifImagePlugin.getdata(image))
    # Pillow puts its own descriptor first and always names a code size of 8.
    return bytes([bits]) + data[_DESCRIPTOR_BYTES + 1 :]


def scan(file: BinaryIO) -> tuple[int, int]:
    """Return the number of images and the sum of delays in centiseconds of a GIF.

    Nothing is decoded: this costs little even for a long film.

    Args:
        file: Opened for binary reading at its start.

    Raises:
        OSError: If the file is not a complete GIF.
    """
    images = delays = 0
    _skip_table(file, _read(file, 13)[10])
    while (kind := _read(file, 1)) != _TRAILER:
        if kind == _EXTENSION:
            label = _read(file, 1)
            body = _sub_blocks(file)
            delays += int.from_bytes(body[1:3], "little") if label == b"\xf9" else 0
        elif kind == _IMAGE:
            _skip_table(file, _read(file, 9)[8])
            _read(file, 1)
            _sub_blocks(file)
            images += 1
        else:
            raise OSError(f"block {kind!r} is none of a GIF")
    return images, delays


def _skip_table(file: BinaryIO, flags: int) -> None:
    if flags & _TABLE_FLAG:
        _read(file, 3 << ((flags & 7) + 1))


def _sub_blocks(file: BinaryIO) -> bytes:
    """Return the first sub-block; skip the others."""
    first = block = _sub_block(file)
    while block:
        block = _sub_block(file)
    return first


def _sub_block(file: BinaryIO) -> bytes:
    return _read(file, _read(file, 1)[0])


def _read(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise OSError("the file ends inside a block")
    return data


def _table_bits(entries: int) -> int:
    return max(1, (entries - 1).bit_length()) - 1


def _u16(*values: int) -> bytes:
    return b"".join(value.to_bytes(2, "little") for value in values)
