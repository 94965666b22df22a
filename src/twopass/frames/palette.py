"""Colours as 24-bit codes, and the colour tables of a GIF."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image

from twopass.frames.gif_file import TRANSPARENT

__all__ = [
    "Codes",
    "GlobalTable",
    "exact_table",
    "fitted_table",
    "pack",
    "squared_error",
    "unpack",
]

#: Colours as ``red | green << 8 | blue << 16``, little-endian ``uint32``.
Codes = npt.NDArray[np.uint32]

_CAPACITY = 255  # entries but the transparent one
# Entries kept back for the colours of later frames when the first frame alone has more
# colours than a table.
_RESERVE = 24
# A colour whose nearest entry is farther than this (squared, over three channels) gets
# an entry of its own while there are any.
_FAR = 300.0
# Pixels that a palette is chosen from: a frame's own may miss a rare colour, the
# film's may not.
_LOCAL_SAMPLE, _GLOBAL_SAMPLE = 1 << 14, 1 << 16
_PROBE = 1 << 10  # pixels that a fit is estimated from
_ROWS = 1 << 11  # colours matched at a time: 2 MB of distances


def pack(frame: npt.NDArray[np.uint8]) -> Codes:
    """Return the colour codes of a picture.

    Args:
        frame: ``(..., 3) uint8``.

    Example:
        >>> [hex(code) for code in pack(np.array([[1, 2, 255]], np.uint8))]
        ['0xff0201']
    """
    padded = np.zeros((*frame.shape[:-1], 4), np.uint8)
    padded[..., :3] = frame
    return padded.view("<u4")[..., 0]


def unpack(codes: Codes) -> npt.NDArray[np.uint8]:
    """Return the ``(n, 3) uint8`` colours of ``(n,)`` codes."""
    return np.ascontiguousarray(codes).view(np.uint8).reshape(-1, 4)[:, :3]


class GlobalTable:
    """The colour table of a whole film, which grows as colours appear.

    Exact up to 255 colours. Beyond, a colour that has no entry gets the nearest one,
    once: from then on the same colour has the same entry for the rest of the film, so
    nothing flickers.

    Attributes:
        entries: ``(256,)`` codes; entry ``TRANSPARENT`` is never shown.
        lossy: Whether some colour has an entry that is not its own.
    """

    def __init__(self) -> None:
        self.entries = np.zeros(_CAPACITY + 1, "<u4")
        self.lossy = False
        self._used = 1
        # 16 MB of address space; pages become memory when a colour in them appears.
        self._index_of = np.zeros(1 << 24, np.uint8)

    @property
    def colours(self) -> npt.NDArray[np.uint8]:
        """The entries so far as ``(n, 3) uint8``."""
        return unpack(self.entries[: self._used])

    def indices(self, codes: Codes) -> npt.NDArray[np.uint8]:
        """Return the entry of every colour, learning those that are new.

        Args:
            codes: ``(n,)`` colour codes.
        """
        indices = self._index_of[codes]
        unknown = indices == TRANSPARENT
        if unknown.any():
            self._learn(codes[unknown])
            indices[unknown] = self._index_of[codes[unknown]]
        return indices

    def misfit(self, codes: Codes) -> float:
        """Estimate the mean squared error a channel without learning anything.

        Args:
            codes: ``(n,)`` colour codes; a sample of them is looked at.
        """
        probe = codes[_stride(codes, _PROBE)]
        return float(_nearest(probe, self.entries[1 : self._used])[1].mean()) / 3

    @property
    def _free(self) -> int:
        return _CAPACITY + 1 - self._used

    def _learn(self, codes: Codes) -> None:
        fresh = np.unique(codes)
        if not self.lossy and len(fresh) <= self._free:
            self._append(fresh)
            self._index_of[fresh] = np.arange(self._used - len(fresh), self._used)
            return
        if not self.lossy and self._free > _RESERVE:
            self._append(
                _choose(codes[_stride(codes, _GLOBAL_SAMPLE)], self._free - _RESERVE)
            )
        self.lossy = True
        self._approximate(fresh)

    def _append(self, codes: Codes) -> None:
        self.entries[self._used : self._used + len(codes)] = codes
        self._used += len(codes)

    def _approximate(self, fresh: Codes) -> None:
        nearest, distance = _nearest(fresh, self.entries[1 : self._used])
        index = nearest + 1
        while self._free and distance.max() > _FAR:
            self._append(fresh[[distance.argmax()]])
            own = _nearest(fresh, self.entries[self._used - 1 : self._used])[1]
            index[own < distance] = self._used - 1
            distance = np.minimum(own, distance)
        self._index_of[fresh] = index


def exact_table(codes: Codes) -> tuple[Codes, npt.NDArray[np.uint8]] | None:
    """Return a table that holds every colour, or ``None`` if there are too many.

    Args:
        codes: ``(n,)`` colour codes.

    Returns:
        The entries, the transparent one first, and the ``(n,)`` entry of each colour.
    """
    entries, inverse = np.unique(codes, return_inverse=True)
    if len(entries) > _CAPACITY:
        return None
    return _with_transparent(entries), (inverse + 1).astype(np.uint8)


def fitted_table(codes: Codes) -> tuple[Codes, npt.NDArray[np.uint8]]:
    """Return a table of 255 colours close to the given ones, without dithering.

    Args:
        codes: ``(n,)`` colour codes.

    Returns:
        The entries, the transparent one first, and the ``(n,)`` entry of each colour.
    """
    entries = _choose(codes[_stride(codes, _LOCAL_SAMPLE)], _CAPACITY)
    fresh, inverse = np.unique(codes, return_inverse=True)
    nearest, _ = _nearest(fresh, entries)
    return _with_transparent(entries), (nearest[inverse] + 1).astype(np.uint8)


def squared_error(codes: Codes, others: Codes) -> float:
    """Return the mean squared difference a channel between two lists of colours."""
    difference = unpack(codes).astype(np.int16) - unpack(others)
    return float(np.square(difference, dtype=np.int32).mean())


def _stride(codes: Codes, sample: int) -> slice:
    return slice(None, None, 1 + len(codes) // sample)


def _with_transparent(entries: Codes) -> Codes:
    return np.concatenate([np.zeros(1, "<u4"), entries])


def _choose(codes: Codes, count: int) -> Codes:
    """Return at most ``count`` colours that stand for those of the given pixels."""
    pixels = unpack(codes)
    image = Image.fromarray(pixels[np.newaxis].copy())
    cut = image.quantize(count, method=Image.Quantize.MEDIANCUT)
    table = cut.getpalette() or []
    entries = pack(np.array(table, np.uint8).reshape(-1, 3)[:count])
    return np.unique(_centred(codes, entries))


def _centred(codes: Codes, entries: Codes) -> Codes:
    """Move each entry to the mean of the pixels nearest to it."""
    fresh, counts = np.unique(codes, return_counts=True)
    nearest, _ = _nearest(fresh, entries)
    weight = np.bincount(nearest, counts, minlength=len(entries))
    means = [
        np.bincount(nearest, counts * channel, minlength=len(entries))
        for channel in unpack(fresh).T
    ]
    used = weight > 0
    return pack(
        np.rint(np.stack(means, -1)[used] / weight[used, None]).astype(np.uint8)
    )


def _nearest(
    codes: Codes, entries: Codes
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.float32]]:
    """Return for every colour the nearest entry and its squared distance."""
    table = unpack(entries).astype(np.float32)
    length = np.square(table).sum(axis=1)
    index = np.empty(len(codes), np.intp)
    distance = np.empty(len(codes), np.float32)
    for start in range(0, len(codes), _ROWS):
        part = slice(start, start + _ROWS)
        colours = unpack(codes[part]).astype(np.float32)
        score = length - 2 * colours @ table.T
        index[part] = score.argmin(axis=1)
        distance[part] = score.min(axis=1) + np.square(colours).sum(axis=1)
    return index, distance
