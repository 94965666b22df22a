"""Bytes against sharpness, one panel a set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from _film_peers import OURS
from _film_rows import Table
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

__all__ = ["plot"]

ACROSS = 3
LOWEST, LOSSLESS = 22.0, 92.0  # dB; the latter is where it is drawn, over all others
# Okabe and Ito's colours, which those who do not see all colours tell apart.
ORANGE, BLUE, SKY, GREEN = "#D55E00", "#0072B2", "#56B4E9", "#009E73"
LOOKS = {
    OURS: ("*", ORANGE),
    'twopass, quality="exact"': ("^", ORANGE),
    'twopass, quality="small"': ("v", ORANGE),
    "imageio": ("o", BLUE),
    "Pillow": ("x", SKY),  # within imageio's dot where both are the same
    "Pillow, octree": ("D", SKY),
    "moviepy": ("P", "#CC79A7"),
    "FFmpeg, a palette a frame": ("o", GREEN),
    "FFmpeg, one palette": ("s", "#000000"),
    "FFmpeg, one palette of what moves": ("D", "#999999"),
}


def plot(tables: Sequence[Table], path: Path) -> None:
    """Draw the sets' tables to a file, SVG or PNG by its suffix."""
    across = min(ACROSS, len(tables))
    down = math.ceil(len(tables) / across)
    # Text as text, and no date: a small file, and the same one from the same numbers.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": OURS, "font.size": 9}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(3 * across, 2.4 * down + 0.8), layout="constrained")
        panels = figure.subplots(down, across, squeeze=False, sharey=True)
        for panel, table in zip(panels.flat, tables, strict=False):
            _draw(panel, table)
        for panel in panels.flat[len(tables) :]:
            panel.remove()
        for row in panels:
            row[0].set_ylabel("PSNR, dB")
        _legend(figure)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=120)


def _draw(panel: Any, table: Table) -> None:
    for name, row in table.rows.items():
        marker, colour = LOOKS[name]
        ours = name == OURS
        # The star lies below: what is as good is seen on it.
        panel.plot(
            row.size / 1000,
            min(max(row.quality.psnr, LOWEST + 2), LOSSLESS),
            marker,
            color=colour,
            label=name,
            markersize=17 if ours else 5.5,
            zorder=2 if ours else 3,
        )
    panel.set_title(table.id.rpartition("/")[2], fontsize=10)
    _scale_bytes(panel, [row.size / 1000 for row in table.rows.values()])
    panel.set_ylim(LOWEST, LOSSLESS + 6)
    heights = [*range(30, 90, 10), LOSSLESS]
    panel.set_yticks(heights, [*map(str, heights[:-1]), "lossless"])
    panel.axhline(LOSSLESS, color="0.85", zorder=0)
    panel.grid(color="0.93", zorder=0)
    panel.set_axisbelow(True)


def _scale_bytes(panel: Any, sizes: Sequence[float]) -> None:
    panel.set_xscale("log")
    # So wide at least that sizes which hardly differ look so.
    panel.set_xlim(min(*sizes, max(sizes) / 4) / 1.3, max(sizes) * 1.3)
    panel.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    panel.xaxis.set_major_formatter("{x:,.0f}")
    panel.xaxis.set_minor_formatter(NullFormatter())
    panel.set_xlabel("kB", labelpad=1)


def _legend(figure: Figure) -> None:
    found: dict[str, Any] = {}
    for panel in figure.axes:
        handles, labels = panel.get_legend_handles_labels()
        found.update(zip(labels, handles, strict=True))
    handles, labels = list(found.values()), list(found)
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
