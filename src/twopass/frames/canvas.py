"""What a GIF shows: which pixels changed, and with which indices to draw them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from twopass.frames.gif_file import TRANSPARENT
from twopass.frames.palette import (
    Codes,
    GlobalTable,
    exact_table,
    fitted_table,
    pack,
    squared_error,
    unpack,
)

__all__ = ["STILL", "Canvas", "Drawing"]

# Mean squared error a channel (42 dB) above which changed pixels get their own table.
_POOR = 4.0
_MANY = 1 << 13  # changed pixels
_NOTHING = 0xFFFFFFFF  # no colour has this code


@dataclasses.dataclass(frozen=True, slots=True)
class Drawing:
    """One stored frame of a GIF.

    Attributes:
        indices: ``(h, w) uint8`` entries of the colour table.
        corner: Row and column of the top left pixel.
        table: ``(n, 3) uint8`` table of this frame; ``None`` for the global one.
    """

    indices: npt.NDArray[np.uint8]
    corner: tuple[int, int]
    table: npt.NDArray[np.uint8] | None


#: Changes nothing.
STILL = Drawing(np.full((1, 1), TRANSPARENT, np.uint8), (0, 0), None)


class Canvas:
    """Turns each frame into the smallest drawing that shows it over the last one.

    A pixel that does not change in the source is transparent in the drawing, so it
    never changes on the screen.

    Args:
        height: Height of the film in pixels.
        width: Width of the film in pixels.
    """

    def __init__(self, height: int, width: int) -> None:
        self.table = GlobalTable()
        self._source = np.full((height, width), _NOTHING, "<u4")
        self._screen = self._source.copy()

    def draw(self, frame: npt.NDArray[np.uint8]) -> Drawing:
        """Return what to store for the next frame.

        Args:
            frame: ``(H, W, 3) uint8``.
        """
        codes = pack(frame)
        changed = codes != self._source
        self._source = codes
        area = _bounds(changed)
        if area is None:
            return STILL
        return self._draw_area(area, codes[area], changed[area])

    def _draw_area(
        self, area: tuple[slice, slice], codes: Codes, changed: npt.NDArray[np.bool_]
    ) -> Drawing:
        entries, local, found = self._match(codes[changed])
        # On a view: what the screen shows already is not drawn again.
        screen = self._screen[area]
        shown = entries[found]
        found[shown == screen[changed]] = TRANSPARENT
        indices = np.full(codes.shape, TRANSPARENT, np.uint8)
        indices[changed] = found
        screen[changed] = shown
        return _trimmed(indices, area, unpack(entries) if local else None)

    def _match(self, codes: Codes) -> tuple[Codes, bool, npt.NDArray[np.uint8]]:
        if not self._hopeless(codes):
            found = self.table.indices(codes)
            shown = self.table.entries[found]
            if not self.table.lossy or squared_error(codes, shown) <= _POOR:
                return self.table.entries, False, found
        entries, found = exact_table(codes) or fitted_table(codes)
        return entries, True, found

    def _hopeless(self, codes: Codes) -> bool:
        """Tell whether learning many colours would only end in a local table."""
        return (
            self.table.lossy
            and len(codes) > _MANY
            and self.table.misfit(codes) > 2 * _POOR
        )


def _trimmed(
    indices: npt.NDArray[np.uint8],
    area: tuple[slice, slice],
    table: npt.NDArray[np.uint8] | None,
) -> Drawing:
    inner = _bounds(indices != TRANSPARENT)
    if inner is None:
        return STILL
    corner = (area[0].start + inner[0].start, area[1].start + inner[1].start)
    return Drawing(indices[inner], corner, table)


def _bounds(mask: npt.NDArray[np.bool_]) -> tuple[slice, slice] | None:
    """Return the smallest rectangle around the true pixels."""
    rows = _span(np.any(mask, axis=1))
    if rows is None:
        return None
    columns = _span(np.any(mask[rows], axis=0))
    assert columns is not None
    return rows, columns


def _span(line: Any) -> slice | None:
    hits = line.nonzero()[0]
    return slice(int(hits[0]), int(hits[-1]) + 1) if len(hits) else None
