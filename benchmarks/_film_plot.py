"""Bytes against sharpness, one panel a set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from _film_peers import OURS
from _film_rows import Row, Table
from matplotlib.figure import Figure

__all__ = ["plot"]

ACROSS = 3
LOSSLESS = 92.0  # where it is drawn, over anything that is not
LOWEST = 35.0
# Okabe and Ito's colours, which those who do not see all colours tell apart.
LOOKS = {
    "twopass": ("*", "#D55E00"),
    'twopass, quality="exact"': ("^", "#D55E00"),
    'twopass, quality="small"': ("v", "#D55E00"),
    "imageio": ("o", "#0072B2"),
    "Pillow": ("s", "#56B4E9"),
    "Pillow, octree": ("D", "#56B4E9"),
    "moviepy": ("P", "#CC79A7"),
    "FFmpeg, a palette a frame": ("o", "#009E73"),
    "FFmpeg, one palette": ("s", "#000000"),
    "FFmpeg, one palette of what moves": ("D", "#999999"),
}


def plot(tables: Sequence[Table], path: Path) -> None:
    """Draw the sets' tables to a file, SVG or PNG by its suffix."""
    down = math.ceil(len(tables) / ACROSS)
    # Text as text, and no date: a small file, and the same one from the same numbers.
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": OURS, "font.size": 9}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(9, 2.6 * down + 1), layout="constrained")
        panels = figure.subplots(down, ACROSS, squeeze=False, sharey=True).flat
        for panel, table in zip(panels, tables, strict=False):
            _draw(panel, table)
        for panel in list(figure.axes)[len(tables) :]:
            panel.remove()
        _legend(figure)
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=120)


def _draw(panel: Any, table: Table) -> None:
    for name, row in table.rows.items():
        marker, colour = LOOKS[name]
        ours = name == OURS
        panel.plot(
            row.size / 1000,
            _height(row),
            marker,
            color=colour,
            label=name,
            markersize=14 if ours else 6,
            markeredgecolor="black" if ours else colour,
            zorder=3 if ours else 2,
            alpha=1 if ours else 0.85,
        )
    panel.set_title(table.id.rpartition("/")[2], fontsize=10)
    panel.set_xscale("log")
    panel.margins(x=0.12)
    panel.set_ylim(LOWEST, LOSSLESS + 4)
    heights = [*range(40, 90, 10), LOSSLESS]
    panel.set_yticks(heights, [*map(str, heights[:-1]), "lossless"])
    panel.axhline(LOSSLESS, color="0.85", zorder=0)
    panel.grid(axis="x", color="0.93")


def _height(row: Row) -> float:
    return min(max(row.quality.psnr, LOWEST + 1), LOSSLESS)


def _legend(figure: Figure) -> None:
    found: dict[str, Any] = {}
    for panel in figure.axes:
        handles, labels = panel.get_legend_handles_labels()
        found.update(zip(labels, handles, strict=True))
    handles, labels = list(found.values()), list(found)
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.supxlabel("kB", fontsize=10)
    figure.supylabel("PSNR of what is shown, dB", fontsize=10)
